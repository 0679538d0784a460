//! Spawning agents, and the lifecycle of children.

use std::any::Any;
use std::sync::Arc;

use super::AgentView;
use crate::agent::{Agent, AgentSummary, AttachError, Delivery};
use crate::agent_spec::AgentSpec;
use crate::cancel::Cancel;
use crate::future::BoxFuture;
use crate::name::{AgentId, CallId};
use crate::outcome::{ChildInspection, Outcome};
use crate::tool::catalog::Catalog;
use crate::tool_output::ToolOutput;

/// Spawns agents: the only effect of delegation.
pub trait Spawn: Send + Sync {
    /// Starts or resumes the agent with this ID, or returns its outcome if it has ended. Calling
    /// this again is safe.
    ///
    /// # Errors
    /// If the agent is not permitted, or cannot be created.
    fn attach(
        &self,
        parent: &AgentView,
        spec: AgentSpec,
        cancel: &Cancel,
    ) -> Result<Box<dyn Agent>, AttachError>;

    /// Returns the program's current tools; children of this call get those that their parent also
    /// has.
    fn tools<'a>(&'a self, parent: &'a AgentView, _call: CallId) -> BoxFuture<'a, Arc<Catalog>> {
        Box::pin(std::future::ready(Arc::clone(&parent.catalog)))
    }

    /// Returns who paused spawning, if it is paused.
    fn paused(&self) -> Option<String> {
        None
    }

    /// Waits until spawning is allowed.
    fn unpaused(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// Returns the descendants of an agent, by ID.
    fn descendants(&self, _agent: &AgentId) -> Vec<AgentSummary> {
        Vec::new()
    }

    /// Returns the background children of an agent whose end has not been reported to it.
    fn unreported(&self, _agent: &AgentId) -> Vec<AgentId> {
        Vec::new()
    }

    /// Returns the IDs of all agents the session ever had, including those of earlier processes.
    fn known(&self) -> Vec<AgentId> {
        Vec::new()
    }

    /// Asks a running agent and its descendants to end. Returns whether it was running.
    fn stop(&self, _agent: &AgentId) -> bool {
        false
    }

    /// Queues a message for a running agent, which reads it before its next request.
    fn message(&self, _agent: &AgentId, _text: String) -> Delivery {
        Delivery::Ended
    }

    /// Waits until one of these agents has ended, or all of them.
    fn join<'a>(&'a self, _agents: &'a [AgentId], _all: bool) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}

/// Policy for background children: when they may start, and what their parent reads of their end.
/// The runtime manages the children and calls this for both.
pub trait ChildLifecycle: Send + Sync {
    /// Acquires a slot among the running children of an agent. The returned value holds it until
    /// the child has ended. Slots are given out in the order of these calls, regardless of when the
    /// futures are awaited.
    fn acquire_slot(&self, parent: &AgentView) -> BoxFuture<'static, Box<dyn Any + Send>>;

    /// Inspects a child at its end, beyond what it did itself. Called for every child, foreground
    /// or background, before its end is recorded.
    fn inspect(
        &self,
        _parent: &AgentView,
        _child: &AgentSpec,
        _end: &Outcome,
    ) -> Option<ChildInspection> {
        None
    }

    /// Returns the report that the parent of a background child reads, in the form of a call's
    /// result.
    fn report_end(&self, parent: &AgentView, child: &Outcome) -> ToolOutput;
}

const fn _object_safe(_: &dyn Spawn, _: &dyn ChildLifecycle) {}
