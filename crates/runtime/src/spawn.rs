//! How agents are had: started, resumed, or found ended.

use std::sync::{Arc, Weak};

use deputize_core::{
    Agent, AgentId, AgentSpec, AgentView, AttachError, BoxFuture, Cancel, CancelReason, Grant,
    Outcome, Spawn,
};
use tokio::sync::oneshot;

use crate::driver::{Driver, host_fault};
use crate::resume::Stored;
use crate::session::Shared;

/// The runtime's [`Spawn`]. It does not keep the session alive.
pub(crate) struct Spawner {
    pub(crate) shared: Weak<Shared>,
}

impl Spawn for Spawner {
    fn attach(
        &self,
        parent: &AgentView,
        spec: AgentSpec,
        cancel: &Cancel,
    ) -> Result<Box<dyn Agent>, AttachError> {
        let gone = || AttachError::Journal("the session has ended".to_owned());
        let shared = self.shared.upgrade().ok_or_else(gone)?;
        let stored = shared.tree().stored.remove(&spec.id);
        match stored {
            Some(Stored { outcome: Some(outcome), spec, .. }) => {
                let state = AgentState::Ended(Box::new(outcome));
                let spec = Arc::new(spec);
                Ok(Box::new(LocalAgent { id: spec.id.clone(), spec, cancel: None, state }))
            }
            Some(stored) => {
                let authority = parent.authority.meet(&stored.spec.grant);
                let settled = crate::resume::settle(&shared, stored)
                    .map_err(|error| AttachError::Journal(error.to_string()))?;
                let driver = shared.revive(settled, authority, cancel.child())?;
                Ok(Box::new(shared.launch(driver)))
            }
            None => {
                let driver = shared.spawn_new(parent, spec, cancel)?;
                Ok(Box::new(shared.launch(driver)))
            }
        }
    }
}

impl Shared {
    fn spawn_new(
        self: &Arc<Self>,
        parent: &AgentView,
        spec: AgentSpec,
        cancel: &Cancel,
    ) -> Result<Driver, AttachError> {
        if parent.authority.spawn_depth() == 0 {
            return Err(AttachError::Depth);
        }
        self.tree().count(&spec.id)?;
        // A level is used up on every path, whatever the spec asks for.
        let levels = parent.authority.spawn_depth() - 1;
        let grant = Grant {
            spawn_depth: Some(spec.grant.spawn_depth.map_or(levels, |asked| asked.min(levels))),
            ..spec.grant.clone()
        };
        let spec = self.without_secrets(AgentSpec { grant, ..spec });
        let authority = parent.authority.meet(&spec.grant);
        self.start(spec, authority, cancel.child())
    }
}

pub(crate) enum AgentState {
    Runs(oneshot::Receiver<Outcome>),
    Ended(Box<Outcome>),
    Told,
}

/// An agent of this process. Whoever drops it without waiting tells it to end.
pub(crate) struct LocalAgent {
    pub(crate) id: AgentId,
    pub(crate) spec: Arc<AgentSpec>,
    pub(crate) cancel: Option<Cancel>,
    pub(crate) state: AgentState,
}

impl LocalAgent {
    pub(crate) async fn wait(mut self) -> Outcome {
        let outcome = match std::mem::replace(&mut self.state, AgentState::Told) {
            AgentState::Runs(outcome) => outcome.await.ok(),
            AgentState::Ended(outcome) => Some(*outcome),
            AgentState::Told => None,
        };
        self.cancel = None;
        outcome.unwrap_or_else(|| host_fault(&self.spec, "the agent's task was lost".to_owned()))
    }
}

impl Agent for LocalAgent {
    fn id(&self) -> &AgentId {
        &self.id
    }

    fn outcome(self: Box<Self>) -> BoxFuture<'static, Outcome> {
        Box::pin((*self).wait())
    }
}

impl Drop for LocalAgent {
    fn drop(&mut self) {
        if let Some(cancel) = &self.cancel {
            cancel.cancel(CancelReason::Interrupted);
        }
    }
}
