//! Context of a tool call: the call, its agent and the session.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::catalog::Catalog;
use super::entry::CatalogEntry;
use super::index::ToolIndex;
use crate::agent_spec::AgentSpec;
use crate::authority::Authority;
use crate::cancel::Cancel;
use crate::file_state::FileLedger;
use crate::message::ToolCall;
use crate::name::{AgentId, CallId, SessionId};
use crate::resource::{Resource, ResourceMap};
use crate::tool_spec::ToolDecl;

mod spawn;

pub use spawn::{
    AgentControl, ChildLifecycle, ChildStart, DescendantCounts, DescendantLimit, LimitScope,
    NoAgents, Spawn, SpawnConditions,
};

/// A read-only view of an agent, for its tools.
pub struct AgentView {
    /// The specification it was made from.
    pub spec: Arc<AgentSpec>,
    /// What it may do.
    pub authority: Arc<Authority>,
    /// The program's tools; the authority determines which of them the agent has.
    pub catalog: Arc<Catalog>,
    /// The tool declarations sent to its model.
    pub declared: Vec<Arc<ToolDecl>>,
    /// Values that tools keep for this agent, closed when it ends.
    pub store: ResourceMap,
    /// State that the whole session shares.
    pub session: Arc<SessionView>,
}

impl fmt::Debug for AgentView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgentView({})", self.spec.id)
    }
}

impl AgentView {
    /// Returns the agent's ID.
    #[must_use]
    pub fn id(&self) -> &AgentId {
        &self.spec.id
    }

    /// Returns the tool of this name: one of the catalog, or one of its index where the agent's
    /// model was sent that.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&CatalogEntry> {
        self.catalog.get(name).or_else(|| self.index_tool(name))
    }

    /// Returns the tool of the catalog's index with this name, if the agent's model was sent that.
    #[must_use]
    pub fn index_tool(&self, name: &str) -> Option<&CatalogEntry> {
        self.index()?.get(name)
    }

    /// Returns the index that the agent's model was sent instead of servers' tools.
    #[must_use]
    pub fn index(&self) -> Option<&ToolIndex> {
        self.catalog.index().filter(|index| index.is_declared(&self.declared))
    }

    /// Returns the call that a call of the agent stands for: that of another tool, if it is through
    /// the index.
    #[must_use]
    pub fn target(&self, call: &ToolCall) -> ToolCall {
        let target = |_| self.catalog.target(&call.name, &call.arguments);
        match self.index().and_then(target) {
            Some((name, arguments)) => ToolCall { id: call.id, name, arguments },
            None => call.clone(),
        }
    }
}

/// State that all agents of a session share.
pub struct SessionView {
    /// ID of the session.
    pub id: SessionId,
    /// Directory for long outputs, readable by agents. It may not exist yet.
    pub spill: PathBuf,
    /// Which agent read and wrote which file.
    pub files: FileLedger,
    /// Settings and other values that the program gives its tools.
    pub settings: ResourceMap,
    /// Starts children of its agents.
    pub spawn: Arc<dyn Spawn>,
    /// Views and controls agents.
    pub control: Arc<dyn AgentControl>,
}

impl fmt::Debug for SessionView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionView({})", self.id)
    }
}

/// Context of a tool call.
#[derive(Debug, Clone)]
pub struct ToolCx {
    /// ID of the call.
    pub call: CallId,
    /// The agent that calls.
    pub agent: Arc<AgentView>,
    /// Cancelled when the call must settle.
    pub cancel: Cancel,
}

/// Receiver of the progress that running calls report, stored in the session's settings. By
/// default, progress is dropped.
#[derive(Default)]
pub struct Progress(Option<Box<ProgressFn>>);

type ProgressFn = dyn Fn(&AgentId, CallId, &str) + Send + Sync;

impl Progress {
    /// Creates a receiver that calls this function, from any thread.
    #[must_use]
    pub fn new(heard: impl Fn(&AgentId, CallId, &str) + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(heard)))
    }
}

impl Resource for Progress {}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Progress(heard)" } else { "Progress(unheard)" })
    }
}

impl ToolCx {
    /// Reports progress to the person, in a few words. It is shown and never stored.
    pub fn report_progress(&self, progress: &str) {
        let heard = self.agent.session.settings.get_or_insert_with(Progress::default);
        if let Some(heard) = &heard.0 {
            heard(self.agent.id(), self.call, progress);
        }
    }

    /// Returns a path in the session's spill directory for this call's output, unique in the
    /// session.
    #[must_use]
    pub fn spill_path(&self, ending: &str) -> PathBuf {
        let agent = self.agent.id().as_str().replace('/', "~");
        self.agent.session.spill.join(format!("{agent}~{}.{ending}", self.call))
    }
}
