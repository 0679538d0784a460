//! How a turn ends, and why its last request is the last.

use crate::cancel::CancelReason;
use crate::model::{FailureKind, Finish, ModelError};
use crate::prompt::fill;
use crate::status::{ExitReason, Status};

const CLOSING_ITERATIONS: &str = include_str!("../../prompts/closing_iterations.md");
const CLOSING_TIME: &str = include_str!("../../prompts/closing_time.md");
const CLOSING_BUDGET: &str = include_str!("../../prompts/closing_budget.md");
const CLOSING_LOOP: &str = include_str!("../../prompts/closing_loop.md");

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

/// Why the next request is the last of its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastRequestReason {
    Iterations,
    Time,
    Budget,
    Loop,
}

impl LastRequestReason {
    /// Returns the message that asks the model for its closing answer.
    pub(super) fn message(self, most_iterations: u32) -> String {
        match self {
            Self::Iterations => {
                let limit = most_iterations.to_string();
                fill(CLOSING_ITERATIONS, &[("limit", &limit)]).unwrap_or_default()
            }
            Self::Time => CLOSING_TIME.to_owned(),
            Self::Budget => CLOSING_BUDGET.to_owned(),
            Self::Loop => CLOSING_LOOP.to_owned(),
        }
    }
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnEnd {
    /// How it ended.
    pub status: Status,
    /// Why it ended.
    pub reason: ExitReason,
    /// The answer, or the last text before the end.
    pub text: Option<String>,
    /// Whether the text is only the part of a reply that arrived before it broke off.
    pub partial: bool,
    /// The error, for the operator.
    pub error: Option<String>,
    /// The error without figures that differ between agents that failed for the same reason; `None`
    /// if it has no such figures.
    pub cause: Option<String>,
    /// Whether the provider was unusable.
    pub unavailable: bool,
}

impl TurnEnd {
    /// Creates the end of a turn, without its text.
    pub(super) fn new(status: Status, reason: ExitReason, error: Option<String>) -> Self {
        Self { status, reason, text: None, partial: false, error, cause: None, unavailable: false }
    }

    /// Creates the end of a turn with an answer.
    pub(super) fn of_answer(closing: Option<LastRequestReason>, finish: Finish) -> Self {
        let completed = |reason| Self::new(Status::Completed, reason, None);
        match (closing, finish) {
            (Some(LastRequestReason::Time), _) => Self::of_stop(CancelReason::TimeLimit),
            (Some(LastRequestReason::Budget), _) => completed(ExitReason::Budget),
            (Some(LastRequestReason::Loop), _) => {
                let error = "the model repeated the same calls with the same results";
                Self::new(Status::Failed, ExitReason::Error, Some(error.to_owned()))
            }
            (Some(LastRequestReason::Iterations), _) => completed(ExitReason::MaxIterations),
            (None, Finish::Length) => completed(ExitReason::MaxOutputTokens),
            (None, Finish::Stop | Finish::Paused | Finish::Refused | Finish::Undone) => {
                completed(ExitReason::Completed)
            }
        }
    }

    /// Creates the end of a turn whose last reply was empty or had only thoughts.
    pub(super) fn of_no_answer(has_thoughts: bool) -> Self {
        let error = if has_thoughts { ONLY_THOUGHTS } else { NO_ANSWER };
        Self::new(Status::Failed, ExitReason::Error, Some(error.to_owned()))
    }

    /// Creates the end of a turn whose closing reply at the iteration limit was empty.
    pub(super) fn of_no_answer_at_limit(most_iterations: u32) -> Self {
        let error = format!(
            "the limit of {most_iterations} model requests was reached before there was an answer"
        );
        Self::new(Status::Failed, ExitReason::MaxIterations, Some(error))
    }

    /// Creates the end of a turn in which the model did not do the task, with its finish.
    pub(super) fn of_unwilling(finish: Finish) -> Self {
        let error = if finish == Finish::Refused { REFUSED } else { TASK_NOT_DONE };
        Self::new(Status::Failed, ExitReason::Error, Some(error.to_owned()))
    }

    /// Creates the end of a turn that was stopped.
    pub(super) fn of_stop(reason: CancelReason) -> Self {
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
        Self::new(status, exit, Some(reason.as_text().to_owned()))
    }

    /// Creates the end of a turn whose request failed.
    pub(super) fn of_failure(closing: Option<LastRequestReason>, error: &ModelError) -> Self {
        let (status, reason) = match closing {
            Some(LastRequestReason::Time) => (Status::Timeout, ExitReason::Timeout),
            Some(
                LastRequestReason::Iterations | LastRequestReason::Loop | LastRequestReason::Budget,
            )
            | None => (Status::Failed, reason_of(error.kind)),
        };
        let unavailable = !error.model_mistake
            && matches!(
                error.kind,
                FailureKind::Unavailable | FailureKind::Transient | FailureKind::Incomplete
            );
        let end = Self::new(status, reason, Some(error.message.clone()));
        Self { cause: error.cause.clone(), unavailable, ..end }
    }

    /// Creates the end of a turn whose answer still does not match its schema; `at_limit` is why it
    /// was the last answer there could be, or `None` if it was not.
    pub(super) fn of_schema_mismatch(mistakes: &str, at_limit: Option<ExitReason>) -> Self {
        // One line, because a person reads the error in one.
        let mistakes = mistakes.lines().collect::<Vec<_>>().join("; ");
        let limit = at_limit.map_or(String::new(), |reason| {
            format!(" (it was the last answer there could be: {})", reason.as_str())
        });
        let error = format!("the answer misses its schema: {mistakes}{limit}");
        Self::new(Status::Failed, ExitReason::SchemaInvalid, Some(error))
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
