//! Who answers a question, and that it is on record.

use std::sync::Arc;

use deputize_core::door::to_exact_line;
use deputize_core::{
    AgentSpec, AgentView, Answer, ApproverMode, CallId, Cancel, CancelReason, Event, JournalError,
    LogLevel, Question, Status, ToolName, effective_mode,
};
use serde_json::Map;

use crate::driver::Driver;
use crate::presence::Presence;
use crate::shared::Shared;

/// How many characters of a command that was answered without asking are told.
const COMMAND_CHARS: usize = 400;

/// What is asked before an agent that is a program of its own begins: no call of such an agent has
/// this place.
const START: CallId = CallId { step: 0, slot: 0 };

impl Driver {
    /// Whether a program of its own may begin, which then does what it wants: what it does not ask
    /// for nobody decides. Where it may not, why is kept.
    pub(crate) async fn may_act_alone(&mut self) -> Result<bool, JournalError> {
        if effective_mode(&self.view) == ApproverMode::Auto {
            return Ok(true);
        }
        let spec = &self.view.spec;
        let question = Question {
            agent: spec.id.clone(),
            goal: spec.goal.clone(),
            call: START,
            tool: ToolName::literal("external"),
            command: spec.model.clone(),
            arguments: Map::new(),
            cwd: spec.cwd.clone(),
            class: "external".to_owned(),
            reason:
                "a program that acts on its own; what it does it asks you only if it chooses to"
                    .to_owned(),
            saved: None,
        };
        let work = self.cancel.child();
        let asked = self.shared.decide(&self.view, &question, &work);
        let answer = self.until_deadline(&work, asked).await?;
        if answer.allowed {
            return Ok(true);
        }
        let (status, why) = match work.reason() {
            None => {
                let more = Some(answer.reason).filter(|more| !more.is_empty());
                let more = more.map(|more| format!(": {more}")).unwrap_or_default();
                (Status::Failed, format!("denied by {}{more}", answer.by))
            }
            Some(_) if self.is_late() => (Status::Timeout, CancelReason::TimeLimit.told().into()),
            Some(reason) => (Status::Interrupted, self.as_told(reason).told().into()),
        };
        let why = format!(
            "not started ({why}): it is a program of its own, which does what it wants with all \
             the rights of the user; delegation.approvals says who may allow that"
        );
        self.blocked = Some((status, why));
        Ok(false)
    }
}

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
                    self.warn(spec, "denied without asking", &in_words(question))?;
                }
                Answer::no(Answer::NOBODY)
            }
            ApproverMode::Auto => {
                self.warn(spec, "approved without asking", &in_words(question))?;
                Answer::yes(Answer::AUTO)
            }
            ApproverMode::Ask => {
                let presence = self.tree().live.get(&spec.id).cloned();
                let _asks = presence.as_ref().map(Presence::asks_person);
                self.ask_approver(question, work).await
            }
        };
        let decision = if answer.allowed { "allow" } else { "deny" }.to_owned();
        let by = answer.by.clone();
        self.bus.record(spec, Event::ApprovalDecision { call: question.call, decision, by })?;
        Ok(answer)
    }

    /// What was decided without asking is told as a warning, with the command.
    pub(crate) fn warn(
        &self,
        spec: &Arc<AgentSpec>,
        done: &str,
        command: &str,
    ) -> Result<(), JournalError> {
        let message = format!("{done}: {}", to_exact_line(command, COMMAND_CHARS));
        self.bus.record(spec, Event::Log { level: LogLevel::Warn, message }).map(|_| ())
    }
}

/// The command of a question, and the arguments beside it.
fn in_words(question: &Question) -> String {
    match question.argument_lines().as_slice() {
        [] => question.command.clone(),
        lines => format!("{} (with {})", question.command, lines.join(", ")),
    }
}
