//! Input of the agent loop.

use serde::{Deserialize, Serialize};

use crate::cancel::CancelReason;
use crate::compaction::Compaction;
use crate::cut_result::CutResult;
use crate::message::{ToolResult, UserMessage};
use crate::model::{ModelError, Reply};

/// An input of a [`Run`](super::Run): exactly what the journal holds of it.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// A message for the model.
    Message(&'a UserMessage),
    /// A request was sent to the model of this name, as agents know it.
    Request(&'a str),
    /// A complete reply.
    Reply(&'a Reply),
    /// An attempt failed.
    Failure {
        /// The error.
        error: &'a ModelError,
        /// Whether the request is sent again; otherwise it failed for good.
        retried: bool,
    },
    /// The result of a call, with the tool that ran and the size of its arguments in bytes.
    Result {
        /// The tool's name, as recorded.
        tool: &'a str,
        /// Size of its arguments in bytes.
        args_bytes: u64,
        /// The result.
        result: &'a ToolResult,
    },
    /// The answer does not match its schema, for these reasons.
    Rejected(&'a str),
    /// A limit was reached; the next request is the closing one.
    WrapUp(WrapUpReason),
    /// Older messages give way to a summary.
    Compaction(&'a Compaction),
    /// Results that no model has answered give way to shorter ones.
    ResultsCut(&'a [CutResult]),
    /// The turn is over, and the agent waits until the next message. Its answer stays in the
    /// result.
    Rest,
    /// It must end now.
    Stop(CancelReason),
    /// The agent continues; if it had ended, with a new turn.
    Resume {
        /// The limit on model requests of its turns from now on.
        max_iterations: u32,
    },
    /// It had ended and gets a further task: the next message begins a new turn.
    FurtherTask,
}

/// The limit that calls for a closing answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WrapUpReason {
    /// The time limit.
    #[default]
    Time,
    /// The budget.
    Budget,
}

/// The unit of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetUnit {
    /// Seconds of all children together.
    Seconds,
    /// Tokens, sent and received.
    Tokens,
    /// US dollars.
    Usd,
}
