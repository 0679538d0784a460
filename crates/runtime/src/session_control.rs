//! Inspects, pauses and stops the agents of a session from outside.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use deputize_core::agent::AgentSummary;
use deputize_core::event::JournalError;
use deputize_core::{AgentId, CancelReason, Event};

use crate::session_inner::SessionInner;

/// Control of a running session. It does not keep the session alive.
#[derive(Clone)]
pub struct SessionControl {
    pub(crate) shared: Weak<SessionInner>,
}

impl fmt::Debug for SessionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionControl")
    }
}

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The session is over, or about to be.
    #[error("the session is ending")]
    Ending,
    /// No such agent runs.
    #[error("no agent `{0}` runs in this session")]
    NoAgent(String),
    /// Others run below it.
    #[error("{} below `{agent}` and would end with it: stop the whole tree",
            if *count == 1 { "1 agent runs".to_owned() } else { format!("{count} agents run") })]
    NotAlone {
        /// ID of the agent.
        agent: AgentId,
        /// Number of agents below it.
        count: usize,
    },
    /// The session file takes no record.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl SessionControl {
    fn shared(&self) -> Result<Arc<SessionInner>, ControlError> {
        let shared = self.shared.upgrade().filter(|shared| !shared.cancel.is_cancelled());
        shared.ok_or(ControlError::Ending)
    }

    /// Pauses or resumes the start of new agents. Running ones go on, and tasks accepted before
    /// wait. Returns whether this changed the state.
    ///
    /// # Errors
    /// When the session is over or takes no record.
    pub fn pause(&self, paused: bool, by: &str) -> Result<bool, ControlError> {
        let shared = self.shared()?;
        shared.registry.set_paused(paused.then_some(by), || {
            let top = shared.tree().top.clone();
            let Some(top) = top else { return Ok(()) };
            let event = Event::SpawnPaused { by: by.to_owned(), paused };
            shared.bus.record(&top, event)?;
            Ok(())
        })
    }

    /// Returns who paused the session; `None` if it is not paused.
    #[must_use]
    pub fn paused(&self) -> Option<String> {
        self.shared.upgrade().and_then(|shared| shared.registry.paused())
    }

    /// Stops an agent and, with `tree`, those that run below it. Returns the stopped agents.
    ///
    /// # Errors
    /// When no such agent runs, or others run below it and `tree` is false.
    pub fn stop(&self, agent: &str, tree: bool) -> Result<Vec<AgentId>, ControlError> {
        let shared = self.shared()?;
        let (found, below) = {
            let known = shared.tree();
            let found = known.live.iter().find(|(id, _)| id.as_str() == agent);
            let found = found.map(|(_, handle)| Arc::clone(handle));
            let found = found.ok_or_else(|| ControlError::NoAgent(agent.to_owned()))?;
            let below: Vec<AgentId> = known.live_below(&found.spec.id).cloned().collect();
            (found, below)
        };
        let agent = found.spec.id.clone();
        if !tree && !below.is_empty() {
            return Err(ControlError::NotAlone { agent, count: below.len() });
        }
        found.stop(CancelReason::Stopped, &shared.bus)?;
        Ok(std::iter::once(agent).chain(below).collect())
    }

    /// Returns the running agents, and those that ended in this process, by id.
    #[must_use]
    pub fn agents(&self) -> Vec<AgentSummary> {
        let Some(shared) = self.shared.upgrade() else { return Vec::new() };
        let tree = shared.tree();
        let mut all: BTreeMap<AgentId, AgentSummary> = tree.ended.clone();
        all.extend(tree.live.iter().map(|(id, handle)| (id.clone(), handle.summary())));
        all.into_values().collect()
    }
}
