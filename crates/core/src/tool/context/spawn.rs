//! Spawning and controlling agents, and the lifecycle of children.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::future::ready;
use std::sync::Arc;

use super::AgentView;
use crate::agent::{Agent, AgentSummary, AttachError, ContinueError, Delivery};
use crate::agent_spec::{AgentSpec, FurtherTask};
use crate::cancel::Cancel;
use crate::future::BoxFuture;
use crate::name::{AgentId, CallId};
use crate::outcome::{ChildInspection, Outcome};
use crate::tool::catalog::Catalog;
use crate::tool_output::ToolOutput;

/// A session's present conditions for new children of an agent.
#[derive(Debug, Clone, Default)]
pub struct SpawnConditions {
    /// The program's current tools; children get those that their parent also has.
    pub catalog: Arc<Catalog>,
    /// Who paused spawning; `None` if it is not paused.
    pub paused_by: Option<String>,
    /// The children that the agent has had, including those of earlier processes.
    pub children: BTreeSet<AgentId>,
    /// Number of agents so far, and the limit on those below the agent.
    pub counts: DescendantCounts,
}

/// Numbers of agents that a session has had, ended ones included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DescendantCounts {
    /// All below the top agent.
    pub session: u32,
    /// Those below one agent.
    pub below: u32,
    /// Upper bound on those below that agent.
    pub most_below: u32,
}

impl DescendantCounts {
    /// Checks that so many more are within the agent's limit and that of the session, if it has
    /// one.
    ///
    /// # Errors
    /// If one of the limits would be exceeded.
    pub fn check(self, more: usize, per_session: Option<u32>) -> Result<(), DescendantLimit> {
        let within = |so_far: u32, most: u32, scope| {
            let exceeds = so_far as usize + more > most as usize;
            if exceeds { Err(DescendantLimit { so_far, more, most, scope }) } else { Ok(()) }
        };
        per_session.map_or(Ok(()), |most| within(self.session, most, LimitScope::Session))?;
        within(self.below, self.most_below, LimitScope::Agent)
    }
}

/// A limit that more agents would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{more} more would exceed the limit of {most} agents, of which there have been {so_far}")]
pub struct DescendantLimit {
    /// Number of agents so far.
    pub so_far: u32,
    /// Number of further agents.
    pub more: usize,
    /// Maximum number of agents.
    pub most: u32,
    /// The scope of the limit.
    pub scope: LimitScope,
}

/// Scope of a limit on the number of agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitScope {
    /// The session.
    Session,
    /// All below one agent.
    Agent,
}

/// A child that is counted and can start. Dropping this leaves it counted.
pub struct ChildStart<'a>(Box<dyn FnOnce() -> StartFuture<'a> + Send + 'a>);

/// Resolves to the child, or to why there is none.
type StartFuture<'a> = BoxFuture<'a, Result<Box<dyn Agent>, AttachError>>;

impl fmt::Debug for ChildStart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChildStart")
    }
}

impl<'a> ChildStart<'a> {
    /// Makes it from what starts the child.
    #[must_use]
    pub fn new(
        start: impl FnOnce() -> BoxFuture<'a, Result<Box<dyn Agent>, AttachError>> + Send + 'a,
    ) -> Self {
        Self(Box::new(start))
    }

    /// Starts or resumes the child, or returns its outcome if it has ended. A new agent that is not
    /// in the background starts as soon as spawning is not paused, with the tools that the program
    /// then has.
    ///
    /// # Errors
    /// If the agent is not permitted, or cannot be created.
    pub async fn start(self) -> Result<Box<dyn Agent>, AttachError> {
        (self.0)().await
    }
}

/// Spawns agents: the only effect of delegation.
pub trait Spawn: Send + Sync {
    /// Returns what holds for new children of a call.
    fn conditions<'a>(
        &'a self,
        parent: &'a AgentView,
        call: CallId,
    ) -> BoxFuture<'a, SpawnConditions>;

    /// Attaches to children of an agent, known or new: counts those that are new, all or none, and
    /// returns for each what starts it. The caller starts them when it has room for them. Calling
    /// this again is safe: a child is known by its ID.
    ///
    /// # Errors
    /// If the session or an agent above them would exceed its limit.
    fn attach<'a>(
        &'a self,
        parent: &'a AgentView,
        children: Vec<&'a Arc<AgentSpec>>,
        per_session: Option<u32>,
        cancel: &'a Cancel,
    ) -> Result<Vec<ChildStart<'a>>, DescendantLimit>;
}

/// Views and controls the agents of a session.
pub trait AgentControl: Send + Sync {
    /// Returns the descendants of an agent, by ID.
    fn descendants(&self, agent: &AgentId) -> Vec<AgentSummary>;

    /// Returns the background children of an agent whose end has not been reported to it.
    fn unreported(&self, agent: &AgentId) -> Vec<AgentId>;

    /// Asks a running agent and its descendants to end. Returns whether it was running.
    fn stop(&self, agent: &AgentId) -> bool;

    /// Queues a message of an agent for another one that runs, which reads it before its next
    /// request.
    fn message(&self, from: &AgentId, to: &AgentId, text: String) -> Delivery;

    /// Waits until one of these agents has ended, or all of them.
    fn join<'a>(&'a self, agents: &'a [AgentId], all: bool) -> BoxFuture<'a, ()>;

    /// Gives an ended child of an agent a further task. Its conversation goes on in the background,
    /// under the rights that it had, as far as its parent still has them.
    ///
    /// # Errors
    /// If the child does not exist, runs, was stopped, or may not run now.
    fn continue_child<'a>(
        &'a self,
        parent: &'a AgentView,
        child: &'a AgentId,
        task: &'a FurtherTask,
    ) -> BoxFuture<'a, Result<(), ContinueError>>;
}

/// A session without agents: nothing can be attached, and there is nothing to control.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoAgents;

impl Spawn for NoAgents {
    fn conditions<'a>(
        &'a self,
        parent: &'a AgentView,
        _: CallId,
    ) -> BoxFuture<'a, SpawnConditions> {
        let catalog = Arc::clone(&parent.catalog);
        Box::pin(ready(SpawnConditions { catalog, ..SpawnConditions::default() }))
    }

    fn attach<'a>(
        &'a self,
        _: &'a AgentView,
        children: Vec<&'a Arc<AgentSpec>>,
        _: Option<u32>,
        _: &'a Cancel,
    ) -> Result<Vec<ChildStart<'a>>, DescendantLimit> {
        let refused = || ChildStart::new(|| Box::pin(ready(Err(AttachError::Depth))));
        Ok(children.iter().map(|_| refused()).collect())
    }
}

impl AgentControl for NoAgents {
    fn descendants(&self, _: &AgentId) -> Vec<AgentSummary> {
        Vec::new()
    }

    fn unreported(&self, _: &AgentId) -> Vec<AgentId> {
        Vec::new()
    }

    fn stop(&self, _: &AgentId) -> bool {
        false
    }

    fn message(&self, _: &AgentId, _: &AgentId, _: String) -> Delivery {
        Delivery::Ended
    }

    fn join<'a>(&'a self, _: &'a [AgentId], _: bool) -> BoxFuture<'a, ()> {
        Box::pin(ready(()))
    }

    fn continue_child<'a>(
        &'a self,
        _: &'a AgentView,
        child: &'a AgentId,
        _: &'a FurtherTask,
    ) -> BoxFuture<'a, Result<(), ContinueError>> {
        Box::pin(std::future::ready(Err(ContinueError::Unknown(child.clone()))))
    }
}

/// Policy for background children: when they may start, and what their parent reads of their end.
/// The runtime manages the children and calls this for both.
pub trait ChildLifecycle: Send + Sync {
    /// Acquires a slot among the running children of an agent. The returned value holds it until
    /// the child has ended. Slots are given out in the order of these calls, regardless of when the
    /// futures are awaited.
    fn acquire_slot(&self, parent: &AgentView) -> BoxFuture<'static, Box<dyn Any + Send>>;

    /// Returns whether ended children may get further tasks, for which the session keeps their
    /// conversations.
    fn continues_children(&self) -> bool {
        false
    }

    /// Inspects a child at its end, beyond what it did itself. Called once for every child,
    /// foreground or background, before its end is recorded with what this returns.
    fn inspect<'a>(
        &'a self,
        _parent: &'a AgentView,
        _child: &'a AgentSpec,
        _end: &'a Outcome,
    ) -> BoxFuture<'a, Option<ChildInspection>> {
        Box::pin(ready(None))
    }

    /// Returns the report that the parent of a background child reads, in the form of a call's
    /// result.
    fn report_end<'a>(
        &'a self,
        parent: &'a AgentView,
        child: &'a Outcome,
    ) -> BoxFuture<'a, ToolOutput>;
}

const fn _object_safe(_: &dyn Spawn, _: &dyn AgentControl, _: &dyn ChildLifecycle) {}
