//! Who answers a question, and that it is on record.

use deputize_core::door::to_line;
use deputize_core::{
    AgentView, Answer, ApproverMode, Cancel, Event, JournalError, LogLevel, Question,
    effective_mode,
};

use crate::shared::Shared;

/// How many characters of a command that was approved without asking are told.
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
            ApproverMode::Deny => Answer::no(Answer::NOBODY),
            ApproverMode::Auto => {
                let command = to_line(&question.command, COMMAND_CHARS);
                let message = format!("approved without asking: {command}");
                self.bus.record(spec, Event::Log { level: LogLevel::Warn, message })?;
                Answer::yes("auto")
            }
            ApproverMode::Ask => self.parts.approver.ask(question, work).await,
        };
        let decision = if answer.allowed { "allow" } else { "deny" }.to_owned();
        let by = answer.by.clone();
        self.bus.record(spec, Event::ApprovalDecision { call: question.call, decision, by })?;
        Ok(answer)
    }
}
