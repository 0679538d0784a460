//! Shows calls that could not be read: once for each row of them, with their number.
//!
//! The rows are lines that wait to be shown. A snapshot keeps what a session did, not what a display
//! has shown of it.

use std::collections::BTreeMap;

use deputize_core::model::RawCall;
use deputize_core::sanitize::for_terminal_line;
use deputize_core::{AgentId, Event, Record};

use deputize_core::wording::count;

/// Maximum number of characters of a call that are shown.
const CALL_CHARS: usize = 300;

/// The last calls of agents that could not be read and that were not shown yet.
#[derive(Debug, Default)]
pub(super) struct UnreadableCalls {
    rows: BTreeMap<AgentId, CallStreak>,
}

/// Calls in a row.
#[derive(Debug, Default)]
struct CallStreak {
    calls: usize,
    /// Text of the last one.
    last: String,
}

impl UnreadableCalls {
    /// Takes a record. Returns what to show of the row that it ends. An error that speaks of the
    /// row itself ends it without a word.
    pub(super) fn apply(&mut self, record: &Record) -> Option<String> {
        let agent = &record.agent;
        match &record.event {
            Event::ModelResponse { reply, .. } => {
                let is_unreadable = reply.calls.iter().all(RawCall::is_unreadable);
                if let Some(last) = reply.calls.last().filter(|_| is_unreadable) {
                    let row = self.rows.entry(agent.clone()).or_default();
                    row.calls += reply.calls.len();
                    row.last = for_terminal_line(&last.arguments, CALL_CHARS);
                    return None;
                }
            }
            Event::ModelError { error, .. } if error.model_mistake => {
                self.rows.remove(agent);
            }
            Event::AgentEnd(_) => {}
            _ => return None,
        }
        let CallStreak { calls, last } = self.rows.remove(agent)?;
        Some(match calls {
            1 => format!("a call could not be read: {last}"),
            calls => format!("{} in a row could not be read: {last}", count(calls, "call")),
        })
    }

    /// Returns whether the last calls of an agent could not be read.
    pub(super) fn has(&self, agent: &AgentId) -> bool {
        self.rows.contains_key(agent)
    }
}
