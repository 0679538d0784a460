//! How a turn ends: with a closing request, or at once.

use super::{LastRequestReason, Run, RunState, TurnEnd};
use crate::cancel::CancelReason;
use crate::message::CallStatus;
use crate::outcome::{ExitReason, Status};
use crate::prompt::fill;

const CLOSING_ITERATIONS: &str = include_str!("../../prompts/closing_iterations.md");
const CLOSING_TIME: &str = include_str!("../../prompts/closing_time.md");
const CLOSING_BUDGET: &str = include_str!("../../prompts/closing_budget.md");
const CLOSING_LOOP: &str = include_str!("../../prompts/closing_loop.md");
const STOPPED_CALL: &str = include_str!("../../prompts/stopped_call.md");

impl Run {
    pub(super) fn check_iterations(&mut self) {
        if !self.has_steps() {
            self.close(LastRequestReason::Iterations);
        }
    }

    /// Makes the next request the closing one.
    pub(super) fn close(&mut self, why: LastRequestReason) {
        match self.state {
            // A resting agent reports what it has; one that never began has nothing.
            RunState::Resting if self.iteration > 0 => {
                self.closing = None;
                self.state = RunState::Asking;
            }
            RunState::Resting | RunState::Done(_) => return,
            RunState::Asking | RunState::Calling { .. } => {}
        }
        if self.closing.is_some() {
            return;
        }
        self.settle_open(CallStatus::Cancelled, STOPPED_CALL);
        if self.closing.is_some() {
            return;
        }
        self.closing = Some(why);
        let limit = self.limits.max_iterations.to_string();
        match why {
            LastRequestReason::Iterations => {
                let text = fill(CLOSING_ITERATIONS, &[("limit", &limit)]);
                self.say(&text.unwrap_or_default());
            }
            LastRequestReason::Time => self.say(CLOSING_TIME),
            LastRequestReason::Budget => self.say(CLOSING_BUDGET),
            LastRequestReason::Loop => self.say(CLOSING_LOOP),
        }
    }

    pub(super) fn stop(&mut self, reason: CancelReason) {
        if matches!(self.state, RunState::Done(_)) {
            return;
        }
        self.settle_open(CallStatus::Cancelled, STOPPED_CALL);
        let (status, exit) = match reason {
            CancelReason::Interrupted
            | CancelReason::LimitAbove
            | CancelReason::Stopped
            | CancelReason::TreeStopped
            | CancelReason::StoppedAbove
            | CancelReason::EndedAbove => (Status::Interrupted, ExitReason::Interrupted),
            // There is no closing answer, so the text so far is partial work.
            CancelReason::Budget => (Status::Failed, ExitReason::Budget),
            CancelReason::TimeLimit => (Status::Timeout, ExitReason::Timeout),
        };
        self.end(status, exit, Some(reason.as_text()));
    }

    pub(super) fn end(&mut self, status: Status, reason: ExitReason, error: Option<&str>) {
        self.state = RunState::Done(TurnEnd {
            status,
            reason,
            text: self.text(),
            partial: self.partial && self.last_text.is_some(),
            error: error.map(str::to_owned),
            cause: None,
            unavailable: false,
        });
    }
}
