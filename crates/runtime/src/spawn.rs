//! How agents are had: started, resumed, or found ended.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use deputize_core::{
    Agent, AgentId, AgentSpec, AgentView, AttachError, BoxFuture, CallId, Cancel, CancelReason,
    Catalog, Delivery, Glance, Grant, Outcome, Spawn, describe_error,
};
use tokio::sync::oneshot;

use crate::driver::{Driver, host_fault};
use crate::shared::Shared;

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
        if let Some(play) = &shared.play {
            let call = spec.spawned_by.as_ref().map(|by| (parent.id(), by.call));
            if !play.knows(&spec.id, call) {
                // Nobody reads what such a call gives.
                return Err(AttachError::Journal("it is not in the recording".to_owned()));
            }
        }
        if spec.background {
            let id = spec.id.clone();
            let told = Arc::new(spec.clone());
            shared.begin_background(parent, spec)?;
            return Ok(Box::new(LocalAgent {
                id,
                spec: told,
                cancel: None,
                state: AgentState::Told,
            }));
        }
        let stored = shared.tree().stored.remove(&spec.id);
        match stored {
            Some(stored) if stored.state.read().outcome().is_some() => {
                let ended = stored.state.read().outcome().cloned();
                if let Some(outcome) = &ended {
                    shared.has_ended(&stored.spec, outcome);
                }
                let (id, spec) = (stored.spec.id.clone(), Arc::new(stored.spec.clone()));
                let (send, outcome) = oneshot::channel();
                shared.after_child_of_before(stored, move |outcome| _ = send.send(outcome));
                let state = AgentState::Runs(outcome);
                Ok(Box::new(LocalAgent { id, spec, cancel: None, state }))
            }
            Some(stored) => {
                if let Some(why) = shared.why_it_ends(parent, &stored)
                    && shared.play.is_none()
                {
                    let (id, spec) = (stored.spec.id.clone(), Arc::new(stored.spec.clone()));
                    let (send, outcome) = oneshot::channel();
                    shared.end_stored(stored, why, move |outcome| _ = send.send(outcome));
                    let state = AgentState::Runs(outcome);
                    return Ok(Box::new(LocalAgent { id, spec, cancel: None, state }));
                }
                let authority = shared.child_authority(parent, &stored.spec.grant)?;
                // In a recording it is recorded what became of its calls.
                if shared.play.is_none() {
                    crate::resume::settle(&shared, &stored)
                        .map_err(|error| AttachError::Journal(describe_error(&error)))?;
                }
                let driver = shared.revive(stored, authority, cancel.child())?;
                Ok(Box::new(shared.launch(driver)))
            }
            None => {
                let driver = shared.spawn_new(parent, spec, cancel)?;
                Ok(Box::new(shared.launch(driver)))
            }
        }
    }

    fn tools<'a>(&'a self, parent: &'a AgentView, call: CallId) -> BoxFuture<'a, Arc<Catalog>> {
        Box::pin(async move {
            let Some(shared) = self.shared.upgrade() else { return Arc::clone(&parent.catalog) };
            match &shared.play {
                Some(play) => play.tools_for(parent.id(), call, &shared.parts.catalog),
                None => shared.look_at_tools(&parent.spec).await,
            }
        })
    }

    fn paused(&self) -> Option<String> {
        self.shared.upgrade().and_then(|shared| shared.paused())
    }

    fn unpaused(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(shared) = self.shared.upgrade() {
                shared.unpaused().await;
            }
        })
    }

    fn below(&self, agent: &AgentId) -> Vec<Glance> {
        self.shared.upgrade().map(|shared| shared.below(agent)).unwrap_or_default()
    }

    fn untold(&self, agent: &AgentId) -> Vec<AgentId> {
        let presence =
            self.shared.upgrade().and_then(|shared| shared.tree().live.get(agent).cloned());
        presence.map(|presence| presence.untold()).unwrap_or_default()
    }

    fn known(&self) -> Vec<AgentId> {
        let Some(shared) = self.shared.upgrade() else { return Vec::new() };
        let tree = shared.tree();
        let earlier = tree.stored.keys().chain(tree.ended.keys());
        let all: BTreeSet<AgentId> = earlier.chain(tree.live.keys()).cloned().collect();
        all.into_iter().collect()
    }

    fn stop(&self, agent: &AgentId) -> bool {
        let Some(shared) = self.shared.upgrade() else { return false };
        let presence = shared.tree().live.get(agent).cloned();
        // Without a journal everything ends.
        presence.is_some_and(|it| shared.stop(&it, CancelReason::StoppedAbove).is_ok())
    }

    fn message(&self, agent: &AgentId, text: String) -> Delivery {
        let Some(shared) = self.shared.upgrade() else { return Delivery::Ended };
        let presence = shared.tree().live.get(agent).cloned();
        // Without a journal everything ends.
        let left = presence.and_then(|presence| shared.leave(&presence, &text).ok());
        left.unwrap_or(Delivery::Ended)
    }

    fn join<'a>(&'a self, agents: &'a [AgentId], all: bool) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Some(shared) = self.shared.upgrade() {
                shared.join(agents, all).await;
            }
        })
    }
}

impl Shared {
    pub(crate) fn spawn_new(
        self: &Arc<Self>,
        parent: &AgentView,
        spec: AgentSpec,
        cancel: &Cancel,
    ) -> Result<Driver, AttachError> {
        let authority = self.child_authority(parent, &spec.grant)?;
        if let Some(by) = self.paused().filter(|_| self.play.is_none()) {
            return Err(AttachError::Paused(by));
        }
        let program = self.parts.external.get(&spec.model);
        if let Some(why) = program.and_then(|program| program.refusal(&spec, &authority)) {
            return Err(AttachError::External(why));
        }
        // Such an agent has its own tools, and none of ours.
        let spec = match program {
            Some(_) => AgentSpec { tools: Vec::new(), toolsets: Vec::new(), ..spec },
            None => spec,
        };
        self.tree().count(&spec.id)?;
        // On record it asks for no more than it got.
        let grant = Grant { spawn_depth: Some(authority.spawn_depth()), ..spec.grant.clone() };
        let spec = self.without_secrets(AgentSpec { grant, ..spec });
        self.start(spec, authority, cancel.child())
    }
}

pub(crate) enum AgentState {
    Runs(oneshot::Receiver<Outcome>),
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
