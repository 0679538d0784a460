//! Stands in for a session where an agent is only looked at.

use deputize_core::{Agent, AgentSpec, AgentView, AttachError, Cancel, Spawn};

/// Attaches no agents.
pub(crate) struct NoAgents;

impl Spawn for NoAgents {
    fn attach(
        &self,
        _: &AgentView,
        _: AgentSpec,
        _: &Cancel,
    ) -> Result<Box<dyn Agent>, AttachError> {
        Err(AttachError::Depth)
    }
}
