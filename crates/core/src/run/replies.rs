//! How a reply, or a failed request, changes a turn.

use super::{LastRequestReason, Run, RunState, TurnEnd};
use crate::answer::{CORRECTIONS, rejection};
use crate::cancel::CancelReason;
use crate::message::{AssistantMessage, Message};
use crate::model::{FailureKind, Finish, ModelError, Reply};
use crate::outcome::{ExitReason, Status};

const EMPTY: &str = include_str!("../../prompts/empty.md");

/// The error of a turn whose last reply was empty.
const NO_ANSWER: &str = "the model gave an empty answer";
/// The error of a turn whose last reply had only reasoning.
const ONLY_THOUGHTS: &str = "the model gave only thoughts and no answer";
/// The error of a turn in which the model or its provider refused.
const REFUSED: &str = "the model's provider refused or filtered the reply: put the task in other \
                       words, or ask another model";
/// The error of a turn whose model reports why it did not do the task ([`Finish::Undone`]). The
/// same model reports the same when the session is resumed.
pub const TASK_NOT_DONE: &str = "the task was not done: the answer says why";

impl Run {
    pub(super) fn reply(&mut self, reply: &Reply) {
        if !matches!(self.state, RunState::Asking) {
            return;
        }
        self.iteration += 1;
        self.broken_text = None;
        self.usage += reply.usage;
        self.record_served(&reply.model);
        if !reply.text.trim().is_empty() {
            self.last_text = Some(reply.text.clone());
            self.partial = false;
        }
        // Nothing would run these calls, so they would have no results.
        let unwilling = matches!(reply.finish, Finish::Refused | Finish::Undone);
        let no_calls = self.closing.is_some() || unwilling;
        let calls = if no_calls { Vec::new() } else { self.mint(reply) };
        let empty = reply.text.trim().is_empty() && calls.is_empty();
        let paused = reply.finish == Finish::Paused && calls.is_empty() && self.closing.is_none();
        let paused = paused && !(empty && reply.opaque.is_empty());
        // Providers reject empty messages, so it does not enter the conversation.
        if !empty || paused {
            self.push(Message::Assistant(AssistantMessage {
                text: reply.text.clone(),
                reasoning: reply.reasoning.clone(),
                calls: calls.clone(),
                opaque: reply.opaque.clone(),
            }));
        }
        if unwilling {
            let error = if reply.finish == Finish::Refused { REFUSED } else { TASK_NOT_DONE };
            self.end(Status::Failed, ExitReason::Error, Some(error));
        } else if paused {
            // The next request sends it back unchanged.
            self.check_iterations();
        } else if !calls.is_empty() {
            self.open(calls, reply.finish);
        } else if empty {
            let has_thoughts = !reply.reasoning.trim().is_empty();
            self.empty(reply.finish, has_thoughts);
        } else {
            self.answer(reply.finish);
        }
    }

    fn empty(&mut self, finish: Finish, has_thoughts: bool) {
        match self.closing {
            None if self.empty_replies == 0 => {
                self.empty_replies += 1;
                self.say(EMPTY);
                self.check_iterations();
            }
            // It reported before, and has nothing to add after the last message.
            None | Some(LastRequestReason::Iterations) if !self.reports.is_empty() => {
                self.answer(finish)
            }
            None => {
                let error = if has_thoughts { ONLY_THOUGHTS } else { NO_ANSWER };
                self.end(Status::Failed, ExitReason::Error, Some(error));
            }
            // The reason for closing matters more. Earlier text beside calls is no answer.
            Some(LastRequestReason::Time | LastRequestReason::Loop) => self.answer(finish),
            Some(LastRequestReason::Budget) => self.stop(CancelReason::Budget),
            Some(LastRequestReason::Iterations) => {
                let limit = self.limits.max_iterations;
                let error = format!(
                    "the limit of {limit} model requests was reached before there was an answer"
                );
                self.end(Status::Failed, ExitReason::MaxIterations, Some(&error));
            }
        }
    }

    pub(super) fn answer(&mut self, finish: Finish) {
        match (self.closing, finish) {
            (Some(LastRequestReason::Time), _) => {
                self.stop(CancelReason::TimeLimit);
            }
            (Some(LastRequestReason::Budget), _) => {
                self.end(Status::Completed, ExitReason::Budget, None)
            }
            (Some(LastRequestReason::Loop), _) => {
                let error = "the model repeated the same calls with the same results";
                self.end(Status::Failed, ExitReason::Error, Some(error));
            }
            (Some(LastRequestReason::Iterations), _) => {
                self.end(Status::Completed, ExitReason::MaxIterations, None);
            }
            (None, Finish::Length) => {
                self.end(Status::Completed, ExitReason::MaxOutputTokens, None);
            }
            (None, Finish::Stop | Finish::Paused | Finish::Refused | Finish::Undone) => {
                self.end(Status::Completed, ExitReason::Completed, None);
            }
        }
    }

    /// Requests another answer, up to [`CORRECTIONS`] times, because this one did not match its
    /// schema.
    pub(super) fn rejected(&mut self, mistakes: &str) {
        let RunState::Done(TurnEnd { status: Status::Completed, reason, .. }) = &self.state else {
            return;
        };
        // At a limit there is no request left for another answer.
        let at_limit = match reason {
            ExitReason::Completed => "",
            reason => &format!(" (it was the last answer there could be: {})", reason.as_str()),
        };
        if self.corrections == CORRECTIONS || !at_limit.is_empty() {
            // One line, because a person reads the error in one.
            let mistakes = mistakes.lines().collect::<Vec<_>>().join("; ");
            let error = format!("the answer misses its schema: {mistakes}{at_limit}");
            self.end(Status::Failed, ExitReason::SchemaInvalid, Some(&error));
            return;
        }
        self.corrections += 1;
        self.say(&rejection(mistakes));
        self.state = RunState::Asking;
        self.check_iterations();
    }

    /// Records the model that served a reply: the requested one, or the name that the model gives
    /// itself if the record of the request is missing.
    fn record_served(&mut self, own_name: &str) {
        let name = if self.asked.is_empty() { own_name } else { &self.asked };
        name.clone_into(&mut self.served);
    }

    pub(super) fn record_broken_stream(&mut self, error: &ModelError) {
        self.usage += error.usage.as_deref().copied().unwrap_or_default();
        if matches!(self.state, RunState::Asking) && !error.partial.trim().is_empty() {
            self.broken_text = Some(error.partial.clone());
            if !error.served.is_empty() {
                self.record_served(&error.served);
            }
        }
    }

    pub(super) fn failed(&mut self, error: &ModelError) {
        if !matches!(self.state, RunState::Asking) {
            return;
        }
        self.record_broken_stream(error);
        if let Some(partial) = self.broken_text.take() {
            // The complete text precedes the part that broke off, so that neither is lost.
            let said = self.last_text.take().map(|said| format!("{said}\n\n"));
            self.last_text = Some(said.unwrap_or_default() + &partial);
            self.partial = true;
        }
        if error.kind == FailureKind::Cancelled {
            // A stop or the closing request follows as a separate input.
            return;
        }
        let (status, reason) = match self.closing {
            Some(LastRequestReason::Time) => (Status::Timeout, ExitReason::Timeout),
            Some(
                LastRequestReason::Iterations | LastRequestReason::Loop | LastRequestReason::Budget,
            )
            | None => (Status::Failed, reason_of(error.kind)),
        };
        let told = error.describe();
        self.end(status, reason, Some(&told));
        if let RunState::Done(end) = &mut self.state {
            end.cause = Some(error.cause()).filter(|cause| *cause != told);
            end.unavailable = !error.model_mistake
                && matches!(
                    error.kind,
                    FailureKind::Unavailable | FailureKind::Transient | FailureKind::Incomplete
                );
        }
    }
}

/// Returns why a turn ends whose request failed.
const fn reason_of(failure: FailureKind) -> ExitReason {
    match failure {
        FailureKind::ContextOverflow => ExitReason::ContextOverflow,
        FailureKind::Transient
        | FailureKind::Incomplete
        | FailureKind::Unavailable
        | FailureKind::Fatal
        | FailureKind::Cancelled => ExitReason::Error,
    }
}
