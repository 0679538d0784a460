//! Further tasks for children that have ended: their conversations go on.

use std::sync::Arc;

use deputize_core::agent::{AgentSpec, AttachError, ContinueError, FurtherTask};
use deputize_core::run::Step;
use deputize_core::{AgentId, AgentView, Event, describe_error};
use tokio::sync::oneshot;

use crate::agent_handle::AgentHandle;
use crate::agent_states::{AgentStates, SharedState};
use crate::earlier_times::EarlierTime;
use crate::launch::{ReadyAgent, launch_background, resume_agent};
use crate::session_inner::SessionInner;
use crate::stored_agent::StoredAgent;

/// Gives an ended child a further task: it goes on in the background. In a replay the recording has
/// shown that it may, and has its records; nothing is waited for then.
pub(crate) async fn continue_child(
    shared: &Arc<SessionInner>,
    parent: &AgentView,
    child: &AgentId,
    task: &FurtherTask,
) -> Result<(), ContinueError> {
    let handle = parent_handle(shared, parent)?;
    if shared.play.is_some() {
        launch_background(ready(shared, parent, child, task)?, parent, handle);
        return Ok(());
    }
    let (spec, state) = ended_child(shared, parent, child)?;
    check_conversation(shared, &spec, &state)?;
    let goal = shared.config.secrets.scrub(&task.goal).into_owned();
    let task = FurtherTask { goal, ..task.clone() };
    let authority = shared.child_authority(parent, &spec.grant)?;
    shared.routes(&spec, &authority)?;
    if let Some(by) = shared.registry.paused() {
        return Err(AttachError::Paused(by).into());
    }
    handle.reopen_child(child)?;
    let read = read_messages(shared, child, &state).await;
    read.inspect_err(|_| handle.forget_child(child))?;
    let max_iterations = spec.limits.max_iterations;
    let begun = ready(shared, parent, child, &task).and_then(|agent| {
        let event = Event::AgentResume { max_iterations, task: Some(task) };
        let recorded = shared.bus.record(&spec, event);
        recorded.map_err(|error| AttachError::Journal(describe_error(&error)))?;
        Ok(agent)
    });
    let agent = begun.inspect_err(|_| handle.forget_child(child))?;
    launch_background(agent, parent, handle);
    Ok(())
}

/// Reads the messages of a child from the session file, if they were let go.
async fn read_messages(
    shared: &Arc<SessionInner>,
    child: &AgentId,
    state: &SharedState,
) -> Result<(), ContinueError> {
    if !state.read().is_released() {
        return Ok(());
    }
    let (give, take) = oneshot::channel();
    let session = Arc::clone(shared);
    let work = move || drop(give.send(session.stored()));
    shared.approvals.disk.run_long(Box::new(work)).await;
    let stored = match take.await {
        Ok(Ok(stored)) => stored,
        Ok(Err(error)) => return Err(unread(&describe_error(&error))),
        Err(_) => return Err(unread("the program ends")),
    };
    match AgentStates::of(&stored.records).get(child) {
        Some(folded) => state.restore(&folded),
        None => return Err(unread("it is not in it")),
    }
    Ok(())
}

fn unread(why: &str) -> ContinueError {
    ContinueError::Conversation(format!("the session file cannot be read: {why}"))
}

fn parent_handle(
    shared: &SessionInner,
    parent: &AgentView,
) -> Result<Arc<AgentHandle>, AttachError> {
    let handle = shared.tree().live.get(parent.id()).cloned();
    handle.ok_or_else(|| AttachError::Journal("its parent has ended".to_owned()))
}

/// Makes an ended child ready to go on with a further task.
fn ready(
    shared: &Arc<SessionInner>,
    parent: &AgentView,
    child: &AgentId,
    task: &FurtherTask,
) -> Result<ReadyAgent, ContinueError> {
    let stored = shared.tree().take_continuable(child);
    let stored = stored.ok_or_else(|| ContinueError::Unknown(child.clone()))?;
    let authority = shared.child_authority(parent, &stored.spec.grant)?;
    let tasks = stored.earlier.tasks + stored.earlier.agent;
    let stored = StoredAgent {
        spec: stored.spec.with_further_task(&task.goal),
        earlier: EarlierTime { tasks, ..EarlierTime::default() },
        ..stored
    };
    let signal = parent_handle(shared, parent)?.children.child();
    Ok(resume_agent(shared, stored, authority, signal)?)
}

/// Returns a child of an agent that has ended.
fn ended_child(
    shared: &SessionInner,
    parent: &AgentView,
    child: &AgentId,
) -> Result<(AgentSpec, SharedState), ContinueError> {
    let tree = shared.tree();
    if tree.live.contains_key(child) {
        return Err(ContinueError::Running);
    }
    let known = tree.continuable(child).filter(|it| it.spec.parent.as_ref() == Some(parent.id()));
    let known = known.ok_or_else(|| ContinueError::Unknown(child.clone()))?;
    Ok((known.spec.clone(), known.state.clone()))
}

/// Checks that a child ended in such a way that its conversation can go on.
fn check_conversation(
    shared: &SessionInner,
    spec: &AgentSpec,
    state: &SharedState,
) -> Result<(), ContinueError> {
    let cannot = |why: &str| Err(ContinueError::Conversation(why.to_owned()));
    let state = state.read();
    if let Some(reason) = state.stopped() {
        return Err(ContinueError::Stopped(reason.as_text().to_owned()));
    }
    if state.outcome().is_none() {
        return Err(ContinueError::Running);
    }
    if shared.config.external.contains_key(&spec.model) {
        return cannot("it was a program of its own, which has ended");
    }
    if !state.has_begun() {
        return cannot("it never began");
    }
    match state.run().step() {
        Step::Done(_) => Ok(()),
        Step::Ask { .. } | Step::Call(_) | Step::Rest => cannot("the host failed while it ran"),
    }
}
