//! Agents: their specification, and the traits that start, control and view them.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::authority::{ApproverMode, Authority, Grant};
use crate::cancel::Cancel;
use crate::catalog::Catalog;
use crate::file_state::FileLedger;
use crate::message::Message;
use crate::model::{BoxFuture, ModelOptions};
use crate::name::{AgentId, CallId, SessionId, ToolName, ToolsetName};
use crate::outcome::{ChildInspection, Outcome, Status};
use crate::tool::{ToolDecl, ToolOutput};

/// Whether an agent may delegate work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Works alone.
    #[default]
    Leaf,
    /// May delegate work to children.
    Orchestrator,
}

impl Role {
    /// Returns the name used in events and results.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Leaf => "leaf",
            Self::Orchestrator => "orchestrator",
        }
    }
}

/// The call that started a child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnedBy {
    /// The parent's call.
    pub call: CallId,
    /// Index of the task in the call, from 0.
    pub task_index: u32,
    /// Number of tasks in the call.
    pub task_count: u32,
}

/// Limits of one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentLimits {
    /// Maximum number of model requests, without the closing request.
    pub max_iterations: u32,
    /// Time limit in milliseconds, after which the agent is asked to close; 0 means no limit.
    pub time_ms: u64,
    /// Time for the closing answer after that, in milliseconds.
    pub wrap_up_ms: u64,
}

/// The complete specification of an agent, as plain data: the same for a local loop, an external
/// program, another machine and the journal. Whoever spawns the agent resolves the names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentSpec {
    /// ID of the agent.
    pub id: AgentId,
    /// ID of its parent; `None` for the top agent.
    #[serde(default)]
    pub parent: Option<AgentId>,
    /// Levels below the top agent, which has 0.
    pub depth: u32,
    /// Whether it may delegate work.
    pub role: Role,
    /// The call that started it.
    #[serde(default)]
    pub spawned_by: Option<SpawnedBy>,
    /// What it is to accomplish, as shown to people and in lists.
    pub goal: String,
    /// Its first message.
    pub task: String,
    /// The model, as `PROVIDER/MODEL`.
    pub model: String,
    /// Whether settings or a call named its model, so that it is not inherited. Its fallbacks are
    /// then only the models configured for such agents.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub model_pinned: bool,
    /// Options of its model.
    #[serde(default)]
    pub options: ModelOptions,
    /// Blocks of its rendered system text; those shared between agents come first.
    pub system: Vec<Arc<str>>,
    /// Messages before the first one.
    #[serde(default)]
    pub prefill: Vec<Message>,
    /// Its toolsets.
    pub toolsets: Vec<ToolsetName>,
    /// Its tools, in the order in which they are sent.
    pub tools: Vec<ToolName>,
    /// The part of its parent's authority that it requests.
    pub grant: Grant,
    /// How its approval questions are answered.
    pub approver: ApproverMode,
    /// Its limits.
    pub limits: AgentLimits,
    /// Its working directory, absolute.
    pub cwd: PathBuf,
    /// For a child: its context beside the goal.
    #[serde(default)]
    pub context: Option<String>,
    /// For a child: JSON Schema of its answer.
    #[serde(default)]
    pub output_schema: Option<Value>,
    /// Whether the child runs in the background: its parent goes on and gets its entry as a
    /// message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// Tool declarations sent to its model, where they are another agent's list, unchanged: the
    /// agent may call those in `tools`, and calls of the others are refused. `None` means the
    /// declarations of its own tools. The journal stores the list beside the spec.
    #[serde(skip)]
    pub declared: Option<Arc<[Arc<ToolDecl>]>>,
    /// Tools in that list that it lacks only because nobody approves their calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unapproved: Vec<ToolName>,
}

impl AgentSpec {
    /// Returns what the person wrote: the task without the lines that the host put before it. These
    /// end where the goal begins; if the task does not end with the goal, the goal is only a title
    /// and the whole task is returned.
    #[must_use]
    pub fn request(&self) -> &str {
        match self.task.strip_suffix(&self.goal) {
            Some(before) if before.ends_with('\n') => &self.goal,
            _ => &self.task,
        }
    }
}

/// A running agent of any kind: a local loop, an external program, something remote.
pub trait Agent: Send {
    /// Returns its ID.
    fn id(&self) -> &AgentId;

    /// Waits for its end, which follows soon after its cancellation signal.
    fn outcome(self: Box<Self>) -> BoxFuture<'static, Outcome>;
}

/// Why an agent cannot be spawned or attached to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The model does not exist.
    #[error("model `{0}` is not known here")]
    Model(String),
    /// The agent may not use this model.
    #[error("this agent may not use the model `{0}`: name another one, or leave `model` out")]
    ModelRefused(String),
    /// The budget is in dollars and the price of the model is unknown.
    #[error(
        "the budget is in dollars and the price of `{0}` is not known: set it under \
         providers.NAME.prices, or limit tokens instead"
    )]
    NoPrice(String),
    /// An agent above it has reached its limit of descendants.
    #[error(
        "agent {agent} has had its {limit} descendants, which is the limit; go on with the results there are"
    )]
    TooMany {
        /// The agent at its limit.
        agent: AgentId,
        /// The limit.
        limit: u32,
    },
    /// It would be an external agent, which this parent may not have as a child.
    #[error("{0}")]
    External(String),
    /// The parent may not have children.
    #[error("this agent is at the depth limit and cannot have children; do the work yourself")]
    Depth,
    /// Spawning is paused, by the one named here.
    #[error(
        "spawning paused by {0}: no new child may start until it is allowed again; go on with the \
         results there are, or do the work yourself"
    )]
    Paused(String),
    /// The journal cannot be written.
    #[error("the session file cannot be written: {0}")]
    Journal(String),
}

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

/// Result of queueing a message for an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Queued; the agent reads it before its next request.
    Left,
    /// The agent is not running.
    Ended,
    /// The agent is giving its closing answer.
    Closing,
    /// The agent's queue is full.
    Full,
    /// The agent is an external program.
    External,
}

impl Delivery {
    /// Returns the text for the model.
    #[must_use]
    pub const fn as_text(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Ended => "not taken: it has ended",
            Self::Closing => {
                "not taken: it has reached a limit and is giving its closing answer, which comes \
                 as a message"
            }
            Self::Full => "not taken: it has not read those that wait for it; try again later",
            Self::External => "not taken: it is a program of its own, which takes no messages",
        }
    }
}

/// What an agent is doing, as seen from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentActivity {
    /// Waits for a slot to begin.
    Waiting,
    /// Works.
    Running,
    /// Waits for a person's answer.
    Asking,
    /// Has finished its turn and waits for background children.
    Resting,
    /// Works, but has made no progress for too long.
    Stalled,
    /// Was asked to end.
    Ending,
    /// Has ended, with this status.
    Ended(Status),
}

impl AgentActivity {
    /// Returns the name of the activity.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Asking => "asking",
            Self::Resting => "resting",
            Self::Stalled => "stalled",
            Self::Ending => "ending",
            Self::Ended(status) => status.as_str(),
        }
    }

    /// Returns whether the agent has ended.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Ended(_))
    }
}

/// Summary of an agent at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSummary {
    /// ID of the agent.
    pub id: AgentId,
    /// What it is to accomplish.
    pub goal: String,
    /// What it is doing.
    pub doing: AgentActivity,
    /// Number of its last model request.
    pub iteration: u32,
    /// The tool that is running; the first one called if there are several.
    pub current_tool: Option<String>,
    /// Time without progress, in milliseconds.
    pub idle_ms: u64,
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

/// Something that lives as long as its owner and may need closing: a shell, a connection.
pub trait Resource: Any + Send + Sync {
    /// Closes it and leaves nothing behind.
    fn close<'a>(&'a self) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}

/// Values by type, which tools keep for an agent or a program for all agents.
#[derive(Default)]
pub struct ResourceMap(Mutex<BTreeMap<TypeId, Arc<dyn Resource>>>);

impl ResourceMap {
    /// Returns the value of a type, creating it on first use.
    pub fn get_or_insert_with<T: Resource>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let value = values.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(make()));
        let any: Arc<dyn Any + Send + Sync> = Arc::clone(value) as _;
        #[expect(clippy::expect_used, reason = "the key is the value's own type")]
        any.downcast::<T>().expect("a value stored under its own type")
    }

    /// Inserts a value that other maps share. A value of this type that is already there stays.
    pub fn share<T: Resource>(&self, value: Arc<T>) {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        values.entry(TypeId::of::<T>()).or_insert(value);
    }

    /// Closes and removes all values.
    pub async fn close(&self) {
        let values = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for value in values.into_values() {
            value.close().await;
        }
    }
}

impl fmt::Debug for ResourceMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        write!(f, "Store({} values)", values.len())
    }
}

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
    /// What the whole session shares.
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
}

/// What all agents of a session share.
pub struct SessionView {
    /// ID of the session.
    pub id: SessionId,
    /// Directory for long outputs, readable by agents. It may not exist yet.
    pub spill: PathBuf,
    /// Which agent read and wrote which file.
    pub files: FileLedger,
    /// Settings and other values that the program gives its tools.
    pub settings: ResourceMap,
    /// Spawns agents.
    pub spawn: Arc<dyn Spawn>,
}

impl fmt::Debug for SessionView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionView({})", self.id)
    }
}

/// What a tool call has access to.
#[derive(Debug, Clone)]
pub struct ToolCx {
    /// The call.
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

const fn _object_safe(_: &dyn Agent, _: &dyn Spawn, _: &dyn ChildLifecycle) {}
