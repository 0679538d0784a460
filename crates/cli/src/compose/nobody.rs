//! A session that is none, for looking at what an agent would be told.

use deputize_core::{Agent, AgentSpec, AgentView, AttachError, Cancel, SessionId, Spawn};

/// The id of the session that is none.
pub(super) const fn session() -> SessionId {
    SessionId::literal("preview")
}

/// Has no agents.
pub(super) struct Nobody;

impl Spawn for Nobody {
    fn attach(
        &self,
        _: &AgentView,
        _: AgentSpec,
        _: &Cancel,
    ) -> Result<Box<dyn Agent>, AttachError> {
        Err(AttachError::Depth)
    }
}
