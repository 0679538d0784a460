//! Entry points of the fuzz targets and the simulation beside the public interface.

use std::sync::Weak;

use deputize_core::{AgentId, Record, ToolSpec};
use serde_json::Value;

use crate::agent_states::AgentStates;
use crate::session::Session;
use crate::session_inner::SessionInner;
use crate::validate::Checker;

/// Checks the arguments of calls as a session does.
#[derive(Debug, Default)]
pub struct Arguments(Checker);

impl Arguments {
    /// Returns the arguments, if they are JSON that fits the tool's schema.
    ///
    /// # Errors
    /// With the text for the model.
    pub fn check(&self, spec: &ToolSpec, text: &str) -> Result<Value, String> {
        self.0.check(spec, text)
    }
}

/// Compares the states of the agents of a session that runs with what its records give.
#[derive(Debug)]
pub struct StateCheck {
    session: Weak<SessionInner>,
    folded: AgentStates,
}

impl StateCheck {
    /// Begins with the records that the session has.
    #[must_use]
    pub fn new(session: &Session, records: &[Record]) -> Self {
        Self { session: session.downgrade(), folded: AgentStates::of(records) }
    }

    /// Takes the next record, and compares the states of the agent and of its parent as they are
    /// at this moment.
    ///
    /// # Errors
    /// With both states, where they differ.
    pub fn check(&self, record: &Record) -> Result<(), String> {
        let text = serde_json::to_string(record).map_err(|error| error.to_string())?;
        let stored = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        self.folded.apply(&stored);
        self.compare(&record.agent)?;
        record.parent.as_ref().map_or(Ok(()), |parent| self.compare(parent))
    }

    fn compare(&self, agent: &AgentId) -> Result<(), String> {
        let Some(session) = self.session.upgrade() else { return Ok(()) };
        let (Some(live), Some(folded)) = (session.states.get(agent), self.folded.get(agent)) else {
            return Ok(());
        };
        // Its messages are in its records alone.
        if live.read().is_released() || *live.read() == *folded.read() {
            return Ok(());
        }
        let live = live.read();
        let folded = folded.read();
        Err(format!("the state of {agent} is not what its records give: {live:?} and {folded:?}"))
    }
}
