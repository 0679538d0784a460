//! The next step of the agent loop.

use super::turn_end::TurnEnd;
use crate::message::ToolCall;
use crate::model::ToolChoice;

/// The next action. Exhaustive on purpose, since a driver handles every one.
#[derive(Debug, PartialEq)]
pub enum Step<'a> {
    /// Send a request.
    Ask {
        /// Number of this agent's request, from 1.
        iteration: u32,
        /// Whether tools may be called.
        tools: ToolChoice,
    },
    /// Run these calls, which have no results yet.
    Call(Vec<&'a ToolCall>),
    /// Wait for a message.
    Rest,
    /// The turn is over.
    Done(&'a TurnEnd),
}
