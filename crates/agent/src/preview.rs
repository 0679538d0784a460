//! Stands in for a session where an agent is only looked at.

use deputize_core::agent::{AgentSpec, AttachError};
use deputize_core::tool::Spawn;
use deputize_core::{Agent, AgentView, Cancel};

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
