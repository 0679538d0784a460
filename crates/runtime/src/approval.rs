//! Has questions answered, and puts each on record.

use std::path::PathBuf;
use std::sync::Arc;

use deputize_core::agent::AgentSpec;
use deputize_core::authority::ApproverMode;
use deputize_core::event::{JournalError, LogLevel};
use deputize_core::policy::{ApprovalAnswer, Question, effective_mode};
use deputize_core::sanitize::for_exact_line;
use deputize_core::{AgentView, Approver, Cancel, Event};

use crate::agent_registry::AgentRegistry;
use crate::bus::Bus;
use crate::saved_command::with_saved_command;
use crate::store::Disk;

/// Maximum number of characters of a command in the warning of an automatic decision.
const COMMAND_CHARS: usize = 400;

/// Has the questions of a session's agents answered.
pub(crate) struct Approvals {
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) registry: Arc<AgentRegistry>,
    pub(crate) bus: Arc<Bus>,
    /// The storage of commands that are too long for a question, and their folder.
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) spill: PathBuf,
}

impl Approvals {
    /// Has a question of an agent answered as the agent's authority allows.
    pub(crate) async fn decide(
        &self,
        view: &AgentView,
        question: &Question,
        work: &Cancel,
    ) -> Result<ApprovalAnswer, JournalError> {
        let spec = &view.spec;
        let request = Event::ApprovalRequest {
            call: question.call,
            command: question.command.clone(),
            class: question.class.clone(),
            reason: question.reason.clone(),
        };
        self.bus.record(spec, request)?;
        let mode = match effective_mode(view) {
            ApproverMode::Auto if question.needs_person => ApproverMode::Ask,
            mode => mode,
        };
        let answer = match mode {
            ApproverMode::Deny => {
                // Of the top agent the person is told by the decision itself.
                if spec.depth > 0 {
                    self.warn(spec, "denied without asking", &in_words(question))?;
                }
                ApprovalAnswer::no(ApprovalAnswer::NOBODY)
            }
            ApproverMode::Auto => {
                self.warn(spec, "approved without asking", &in_words(question))?;
                ApprovalAnswer::yes(ApprovalAnswer::AUTO)
            }
            ApproverMode::Ask => {
                let handle = self.registry.tree().live.get(&spec.id).cloned();
                let _asks = handle.as_ref().map(|handle| handle.progress.mark_person_question());
                self.ask_approver(question, work).await
            }
        };
        let decision = if answer.allowed { "allow" } else { "deny" }.to_owned();
        let by = answer.by.clone();
        self.bus.record(spec, Event::ApprovalDecision { call: question.call, decision, by })?;
        Ok(answer)
    }

    /// Warns of a decision that was made without asking, with the command.
    pub(crate) fn warn(
        &self,
        spec: &Arc<AgentSpec>,
        done: &str,
        command: &str,
    ) -> Result<(), JournalError> {
        let message = format!("{done}: {}", for_exact_line(command, COMMAND_CHARS));
        self.bus
            .record(spec, Event::Log { level: LogLevel::Warn, message, cause: None })
            .map(|_| ())
    }

    /// Asks the approver. A command that is too long to be shown whole is saved first.
    async fn ask_approver(&self, question: &Question, work: &Cancel) -> ApprovalAnswer {
        let approver = &self.approver;
        let is_final = |answer: &ApprovalAnswer| !answer.allowed || !question.needs_person;
        if let Some(answer) = approver.answer_without_asking(question).filter(is_final) {
            return answer;
        }
        match with_saved_command(&*self.disk, &self.spill, question) {
            Ok(question) => approver.ask(&question, work).await,
            Err(answer) => answer,
        }
    }
}

/// The command of a question, and the arguments beside it.
fn in_words(question: &Question) -> String {
    match question.argument_lines().as_slice() {
        [] => question.command.clone(),
        lines => format!("{} (with {})", question.command, lines.join(", ")),
    }
}
