//! Spawns, resumes or re-attaches agents.

use std::sync::{Arc, Weak};

use deputize_core::agent::{
    AgentSpec, AgentSummary, AttachError, ContinueError, Delivery, FurtherTask,
};
use deputize_core::tool::{
    AgentControl, ChildStart, DescendantLimit, NoAgents, Spawn, SpawnConditions,
};
use deputize_core::{
    Agent, AgentId, AgentView, BoxFuture, CallId, Cancel, CancelReason, Catalog, Outcome,
};
use tokio::sync::oneshot;

use crate::child_end::notify_of_earlier_end;
use crate::continuation::continue_child;
use crate::launch::{ReadyAgent, begin_background, launch, resume_child, start_child};
use crate::orphan::{end_stored, why_it_ends};
use crate::outcome::host_fault;
use crate::session_inner::SessionInner;
use crate::stored_agent::StoredAgent;

/// The runtime's [`Spawn`] and [`AgentControl`]. It does not keep the session alive.
pub(crate) struct Spawner {
    pub(crate) shared: Weak<SessionInner>,
}

impl Spawn for Spawner {
    fn attach<'a>(
        &'a self,
        parent: &'a AgentView,
        children: Vec<&'a Arc<AgentSpec>>,
        per_session: Option<u32>,
        cancel: &'a Cancel,
    ) -> Result<Vec<ChildStart<'a>>, DescendantLimit> {
        if let Some(shared) = self.shared.upgrade() {
            let ids = children.iter().map(|spec| spec.id.clone()).collect();
            shared.tree().counter.reserve(parent.id(), &ids, per_session)?;
        }
        let start = |spec: &'a Arc<AgentSpec>| {
            ChildStart::new(move || {
                Box::pin(async move {
                    let gone = || AttachError::Journal("the session has ended".to_owned());
                    let shared = self.shared.upgrade().ok_or_else(gone)?;
                    let agent = start_or_resume(&shared, parent, Arc::clone(spec), cancel).await?;
                    Ok(Box::new(agent) as Box<dyn Agent>)
                })
            })
        };
        Ok(children.into_iter().map(start).collect())
    }

    fn conditions<'a>(
        &'a self,
        parent: &'a AgentView,
        call: CallId,
    ) -> BoxFuture<'a, SpawnConditions> {
        Box::pin(async move {
            let Some(shared) = self.shared.upgrade() else {
                return NoAgents.conditions(parent, call).await;
            };
            let catalog = current_tools(&shared, parent, call).await;
            let tree = shared.tree();
            let children = tree.children_of(parent.id());
            let counts = tree.counter.counts(parent.id());
            SpawnConditions { catalog, paused_by: shared.registry.paused(), children, counts }
        })
    }
}

impl AgentControl for Spawner {
    fn descendants(&self, agent: &AgentId) -> Vec<AgentSummary> {
        self.shared.upgrade().map(|shared| shared.registry.descendants(agent)).unwrap_or_default()
    }

    fn unreported(&self, agent: &AgentId) -> Vec<AgentId> {
        let handle =
            self.shared.upgrade().and_then(|shared| shared.tree().live.get(agent).cloned());
        handle.map(|handle| handle.unreported()).unwrap_or_default()
    }

    fn stop(&self, agent: &AgentId) -> bool {
        let Some(shared) = self.shared.upgrade() else { return false };
        let handle = shared.tree().live.get(agent).cloned();
        // Without a journal everything ends.
        handle.is_some_and(|it| it.stop(CancelReason::StoppedAbove, &shared.bus).is_ok())
    }

    fn message(&self, from: &AgentId, to: &AgentId, text: String) -> Delivery {
        let Some(shared) = self.shared.upgrade() else { return Delivery::Ended };
        let handle = shared.tree().live.get(to).cloned();
        // Without a journal everything ends.
        let text = shared.config.secrets.scrub(&text).into_owned();
        let sources = shared.states.parent_sources(from);
        let left = handle.and_then(|handle| handle.deliver(text, sources, &shared.bus).ok());
        left.unwrap_or(Delivery::Ended)
    }

    fn join<'a>(&'a self, agents: &'a [AgentId], all: bool) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Some(shared) = self.shared.upgrade() {
                shared.registry.join(agents, all).await;
            }
        })
    }

    fn continue_child<'a>(
        &'a self,
        parent: &'a AgentView,
        child: &'a AgentId,
        task: &'a FurtherTask,
    ) -> BoxFuture<'a, Result<(), ContinueError>> {
        Box::pin(async move {
            let unknown = || ContinueError::Unknown(child.clone());
            let shared = self.shared.upgrade().ok_or_else(unknown)?;
            continue_child(&shared, parent, child, task).await
        })
    }
}

/// See [`ChildStart::start`].
async fn start_or_resume(
    shared: &Arc<SessionInner>,
    parent: &AgentView,
    spec: Arc<AgentSpec>,
    cancel: &Cancel,
) -> Result<LocalAgent, AttachError> {
    if let Some(play) = &shared.play {
        let call = spec.spawned_by.as_ref().map(|by| (parent.id(), by.call));
        if !play.knows(&spec.id, call) {
            // Nobody reads what such a call gives.
            return Err(AttachError::Journal("it is not in the recording".to_owned()));
        }
    }
    if spec.background {
        begin_background(shared, parent, Arc::clone(&spec))?;
        return Ok(LocalAgent::in_background(spec));
    }
    let stored = shared.tree().stored.remove(&spec.id);
    let Some(stored) = stored else {
        // It may have waited for long: it begins with what there is now.
        await_permission(shared, parent, cancel).await;
        return Ok(LocalAgent::launch(start_child(shared, parent, spec, cancel)?));
    };
    attach_stored(shared, parent, stored, cancel)
}

/// Waits until new agents may start, and refreshes the program's tools.
async fn await_permission(shared: &SessionInner, parent: &AgentView, cancel: &Cancel) {
    if shared.play.is_some() {
        return;
    }
    tokio::select! {
        biased;
        () = cancel.cancelled() => {}
        () = shared.registry.unpaused() => {}
    }
    shared.look_at_tools(&parent.spec).await;
}

/// Resumes an agent of the journal, or ends it if it does not go on.
fn attach_stored(
    shared: &Arc<SessionInner>,
    parent: &AgentView,
    stored: StoredAgent,
    cancel: &Cancel,
) -> Result<LocalAgent, AttachError> {
    let (send, outcome) = oneshot::channel();
    let on_end = move |outcome| _ = send.send(Box::new(outcome));
    let ended = stored.state.read().outcome().cloned();
    let spec = Arc::new(stored.spec.clone());
    if let Some(ended) = ended {
        shared.tree().store_end(&spec, &ended);
        notify_of_earlier_end(shared, stored, on_end);
        return Ok(LocalAgent::ending(spec, outcome));
    }
    if let Some(why) = why_it_ends(shared, parent, &stored)
        && shared.play.is_none()
    {
        end_stored(shared, stored, why, on_end);
        return Ok(LocalAgent::ending(spec, outcome));
    }
    Ok(LocalAgent::launch(resume_child(shared, parent, stored, cancel.child())?))
}

/// Returns the program's tools as they are now, or as they were in the recording that is played.
async fn current_tools(shared: &SessionInner, parent: &AgentView, call: CallId) -> Arc<Catalog> {
    match &shared.play {
        Some(play) => play.tools_for(parent.id(), call, &shared.config.tools.catalog),
        None => shared.look_at_tools(&parent.spec).await,
    }
}

/// Where the outcome of an agent comes from.
enum OutcomeSource {
    Runs(oneshot::Receiver<Box<Outcome>>),
    /// Its parent gets a message.
    Background,
}

/// An agent of this process. Dropping it without waiting cancels the agent.
pub(crate) struct LocalAgent {
    spec: Arc<AgentSpec>,
    cancel: Option<Cancel>,
    source: OutcomeSource,
}

impl LocalAgent {
    /// Runs an agent as a task of the session.
    pub(crate) fn launch(agent: ReadyAgent) -> Self {
        let spec = Arc::clone(&agent.cx.view.spec);
        let cancel = Some(agent.cx.cancel.clone());
        let (send, outcome) = oneshot::channel();
        // Whoever no longer waits finds the outcome in the journal.
        launch(agent, Box::new(move |outcome| _ = send.send(Box::new(outcome))));
        Self { spec, cancel, source: OutcomeSource::Runs(outcome) }
    }

    /// An agent that does not go on.
    const fn ending(spec: Arc<AgentSpec>, outcome: oneshot::Receiver<Box<Outcome>>) -> Self {
        Self { spec, cancel: None, source: OutcomeSource::Runs(outcome) }
    }

    const fn in_background(spec: Arc<AgentSpec>) -> Self {
        Self { spec, cancel: None, source: OutcomeSource::Background }
    }

    pub(crate) async fn wait(mut self) -> Outcome {
        let outcome = match std::mem::replace(&mut self.source, OutcomeSource::Background) {
            OutcomeSource::Runs(outcome) => outcome.await.ok().map(|outcome| *outcome),
            OutcomeSource::Background => None,
        };
        self.cancel = None;
        outcome.unwrap_or_else(|| host_fault(&self.spec, "the agent's task was lost".to_owned()))
    }
}

impl Agent for LocalAgent {
    fn id(&self) -> &AgentId {
        &self.spec.id
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
