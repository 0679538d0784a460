//! Who answers a question, and that it is on record.

use std::sync::Arc;

use deputize_core::door::to_exact_line;
use deputize_core::{
    AgentSpec, AgentView, Answer, ApproverMode, Cancel, Event, JournalError, LogLevel, Question,
    effective_mode,
};

use crate::presence::Presence;
use crate::shared::Shared;

/// How many characters of a command that was answered without asking are told.
const COMMAND_CHARS: usize = 400;

impl Shared {
    /// Has a question of an agent answered as the agent's authority allows.
    pub(crate) async fn decide(
        &self,
        view: &AgentView,
        question: &Question,
        work: &Cancel,
    ) -> Result<Answer, JournalError> {
        let spec = &view.spec;
        let request = Event::ApprovalRequest {
            call: question.call,
            command: question.command.clone(),
            class: question.class.clone(),
            reason: question.reason.clone(),
        };
        self.bus.record(spec, request)?;
        let answer = match effective_mode(view) {
            ApproverMode::Deny => {
                // Of the top agent the person is told by the decision itself.
                if spec.depth > 0 {
                    self.warn(spec, "denied without asking", question)?;
                }
                Answer::no(Answer::NOBODY)
            }
            ApproverMode::Auto => {
                self.warn(spec, "approved without asking", question)?;
                Answer::yes("auto")
            }
            ApproverMode::Ask => {
                let presence = self.tree().live.get(&spec.id).cloned();
                let _asks = presence.as_ref().map(Presence::asks_person);
                self.parts.approver.ask(question, work).await
            }
        };
        let decision = if answer.allowed { "allow" } else { "deny" }.to_owned();
        let by = answer.by.clone();
        self.bus.record(spec, Event::ApprovalDecision { call: question.call, decision, by })?;
        Ok(answer)
    }

    /// What was decided without asking is told as a warning, with the command.
    fn warn(
        &self,
        spec: &Arc<AgentSpec>,
        done: &str,
        question: &Question,
    ) -> Result<(), JournalError> {
        let message = format!("{done}: {}", to_exact_line(&question.command, COMMAND_CHARS));
        self.bus.record(spec, Event::Log { level: LogLevel::Warn, message }).map(|_| ())
    }
}
