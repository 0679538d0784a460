//! What an agent is, and how one is had.

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

/// Whether a child may hand work on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It works itself.
    #[default]
    Leaf,
    /// It may hand work on.
    Orchestrator,
}

impl Role {
    /// The word that events and results use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Leaf => "leaf",
            Self::Orchestrator => "orchestrator",
        }
    }
}

/// The call that a child comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnedBy {
    /// The parent's call.
    pub call: CallId,
    /// Which task of the call, from 0.
    pub task_index: u32,
    /// How many tasks the call has.
    pub task_count: u32,
}

/// How much an agent may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentLimits {
    /// Model requests, the closing one not counted.
    pub max_iterations: u32,
    /// Milliseconds until it is told to end; 0: no limit.
    pub time_ms: u64,
    /// Milliseconds it then has for a closing answer.
    pub wrap_up_ms: u64,
}

/// Everything that makes an agent, as plain data: the same for a local loop, an external
/// program, another machine and the journal. Whoever spawns it resolves the names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentSpec {
    /// Its id.
    pub id: AgentId,
    /// Its parent's.
    #[serde(default)]
    pub parent: Option<AgentId>,
    /// 0 for the top agent.
    pub depth: u32,
    /// Whether it may hand work on.
    pub role: Role,
    /// The call it comes from.
    #[serde(default)]
    pub spawned_by: Option<SpawnedBy>,
    /// What it is to accomplish, for people and lists.
    pub goal: String,
    /// Its first message.
    pub task: String,
    /// `PROVIDER/MODEL`.
    pub model: String,
    /// Whether its model was named for it, by settings or by a call, and is not inherited. It
    /// then goes on only with the models that are there for such agents.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub model_pinned: bool,
    /// What it wants of the model.
    #[serde(default)]
    pub options: ModelOptions,
    /// Its system text, in rendered blocks; those that agents share come first.
    pub system: Vec<Arc<str>>,
    /// Messages that stand before the first one.
    #[serde(default)]
    pub prefill: Vec<Message>,
    /// Its toolsets.
    pub toolsets: Vec<ToolsetName>,
    /// Its tools, in the order they are sent.
    pub tools: Vec<ToolName>,
    /// What it asks for of its parent's authority.
    pub grant: Grant,
    /// How its questions are answered.
    pub approver: ApproverMode,
    /// How much it may do.
    pub limits: AgentLimits,
    /// Its working directory, absolute.
    pub cwd: PathBuf,
    /// For a child: what it was told beside the goal.
    #[serde(default)]
    pub context: Option<String>,
    /// For a child: what its answer must satisfy.
    #[serde(default)]
    pub output_schema: Option<Value>,
    /// Whether nobody waits for it: its parent goes on, and is told of its end by a message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// What its model is told of tools where that is another agent's list, unchanged: of these it
    /// may use its own, and a call of another one is refused. Nothing: its own tools, as they tell
    /// of themselves. The journal keeps the list beside the spec.
    #[serde(skip)]
    pub declared: Option<Arc<[Arc<ToolDecl>]>>,
    /// Tools of that list that it lacks for one reason alone: nobody approves their calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unapproved: Vec<ToolName>,
}

impl AgentSpec {
    /// What the person said: the task, without what the host put on lines before it. Its goal
    /// tells where that begins; a goal that is no such end is a title of its own.
    #[must_use]
    pub fn request(&self) -> &str {
        match self.task.strip_suffix(&self.goal) {
            Some(before) if before.ends_with('\n') => &self.goal,
            _ => &self.task,
        }
    }
}

/// A running agent, whatever it is: a local loop, an external program, something remote.
pub trait Agent: Send {
    /// Its id.
    fn id(&self) -> &AgentId;

    /// Waits for its end. It ends soon after the signal it was attached with.
    fn outcome(self: Box<Self>) -> BoxFuture<'static, Outcome>;
}

/// Why an agent cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// No such model.
    #[error("model `{0}` is not known here")]
    Model(String),
    /// A model that this agent may not use.
    #[error("this agent may not use the model `{0}`: name another one, or leave `model` out")]
    ModelRefused(String),
    /// Money is limited, and nobody knows what this model costs.
    #[error(
        "the budget is in dollars and the price of `{0}` is not known: set it under \
         providers.NAME.prices, or limit tokens instead"
    )]
    NoPrice(String),
    /// An agent above it has as many descendants as it may.
    #[error(
        "agent {agent} has had its {limit} descendants, which is the limit; go on with the results there are"
    )]
    TooMany {
        /// Which agent.
        agent: AgentId,
        /// The limit.
        limit: u32,
    },
    /// It would be a program of its own, which this parent may not have as a child.
    #[error("{0}")]
    External(String),
    /// Its parent may not have children.
    #[error("this agent is at the depth limit and cannot have children; do the work yourself")]
    Depth,
    /// Somebody wants no more agents for now.
    #[error(
        "spawning paused by {0}: no new child may start until it is allowed again; go on with the \
         results there are, or do the work yourself"
    )]
    Paused(String),
    /// The journal does not take records.
    #[error("the session file cannot be written: {0}")]
    Journal(String),
}

/// How agents are had. The one effect of delegation.
pub trait Spawn: Send + Sync {
    /// Gives the agent of this id: starts it, resumes it, or gives the outcome it already
    /// has. So asking again is safe.
    ///
    /// # Errors
    /// When it may not be, or cannot be made.
    fn attach(
        &self,
        parent: &AgentView,
        spec: AgentSpec,
        cancel: &Cancel,
    ) -> Result<Box<dyn Agent>, AttachError>;

    /// The program's tools as of now, of which the children of this call are given what their
    /// parent has too.
    fn tools<'a>(&'a self, parent: &'a AgentView, _call: CallId) -> BoxFuture<'a, Arc<Catalog>> {
        Box::pin(std::future::ready(Arc::clone(&parent.catalog)))
    }

    /// Who wants no more agents for now, if anybody does.
    fn paused(&self) -> Option<String> {
        None
    }

    /// Waits until new agents may begin.
    fn unpaused(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// The agents below one, by id.
    fn descendants(&self, _agent: &AgentId) -> Vec<AgentSummary> {
        Vec::new()
    }

    /// The children of an agent that it does not wait for, and of whose end it has not been told.
    fn unreported(&self, _agent: &AgentId) -> Vec<AgentId> {
        Vec::new()
    }

    /// All agents of the session that ever began, also in earlier processes, by id.
    fn known(&self) -> Vec<AgentId> {
        Vec::new()
    }

    /// Tells a running agent to end, with all below it. Whether there was one.
    fn stop(&self, _agent: &AgentId) -> bool {
        false
    }

    /// Leaves a running agent a message, which it takes before its next request.
    fn message(&self, _agent: &AgentId, _text: String) -> Delivery {
        Delivery::Ended
    }

    /// Waits until one of these agents, or each, does not run any more.
    fn join<'a>(&'a self, _agents: &'a [AgentId], _all: bool) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}

/// What became of a message for an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It takes it before its next request.
    Left,
    /// It does not run.
    Ended,
    /// It is giving its closing answer.
    Closing,
    /// It has not read those that were left before.
    Full,
    /// It is a program of its own.
    External,
}

impl Delivery {
    /// The words for it.
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

/// What an agent does, seen from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentActivity {
    /// It has not begun: it waits for a place among those that run.
    Waiting,
    /// It works.
    Running,
    /// It waits for a person's answer.
    Asking,
    /// Its turn is over, and it waits for children that nobody waits for.
    Resting,
    /// It works, and nothing has come of it for too long.
    Stalled,
    /// It was told to end.
    Ending,
    /// It has ended so.
    Ended(Status),
}

impl AgentActivity {
    /// The word for it.
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

    /// Whether it is over.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Ended(_))
    }
}

/// An agent from outside, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSummary {
    /// Which.
    pub id: AgentId,
    /// What it is to accomplish.
    pub goal: String,
    /// What it does.
    pub doing: AgentActivity,
    /// Its last model request.
    pub iteration: u32,
    /// The tool that it is in, the one called first of several.
    pub current_tool: Option<String>,
    /// Since when nothing has come of it, in milliseconds.
    pub idle_ms: u64,
}

/// How children that nobody waits for are let in, and what their parent is told of them. The
/// runtime keeps them, and knows neither.
pub trait ChildLifecycle: Send + Sync {
    /// Waits for a place among the running children of an agent. What it gives is held until the
    /// child has ended. Places are given in the order of these calls, whenever the futures are
    /// awaited.
    fn acquire_slot(&self, parent: &AgentView) -> BoxFuture<'static, Box<dyn Any + Send>>;

    /// What there is to find out of a child at its end, beside what it did. Asked of every child,
    /// also of one that is waited for, before its end is on record.
    fn inspect(
        &self,
        _parent: &AgentView,
        _child: &AgentSpec,
        _end: &Outcome,
    ) -> Option<ChildInspection> {
        None
    }

    /// What an agent is told of the end of a child, as its call would have given it.
    fn report_end(&self, parent: &AgentView, child: &Outcome) -> ToolOutput;
}

/// Something that lives as long as its owner and may need to be ended: a shell, a connection.
pub trait Resource: Any + Send + Sync {
    /// Ends it. Nothing of it is left afterwards.
    fn close<'a>(&'a self) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}

/// Values by type: what tools keep for one agent, or a program for all of them.
#[derive(Default)]
pub struct ResourceMap(Mutex<BTreeMap<TypeId, Arc<dyn Resource>>>);

impl ResourceMap {
    /// The value of a type, made at the first time.
    pub fn get_or_insert_with<T: Resource>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let value = values.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(make()));
        let any: Arc<dyn Any + Send + Sync> = Arc::clone(value) as _;
        #[expect(clippy::expect_used, reason = "the key is the value's own type")]
        any.downcast::<T>().expect("a value stored under its own type")
    }

    /// Puts a value in that other stores have too. One of its type that is there already stays.
    pub fn share<T: Resource>(&self, value: Arc<T>) {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        values.entry(TypeId::of::<T>()).or_insert(value);
    }

    /// Ends every value and forgets it.
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

/// A read-only view of an agent, for the tools it calls.
pub struct AgentView {
    /// What made it.
    pub spec: Arc<AgentSpec>,
    /// What it may do.
    pub authority: Arc<Authority>,
    /// The program's tools; the authority says which are the agent's.
    pub catalog: Arc<Catalog>,
    /// The tools as its model was told of them.
    pub declared: Vec<Arc<ToolDecl>>,
    /// What tools keep for this agent; ended with it.
    pub store: ResourceMap,
    /// What its whole session shares.
    pub session: Arc<SessionView>,
}

impl fmt::Debug for AgentView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgentView({})", self.spec.id)
    }
}

impl AgentView {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &AgentId {
        &self.spec.id
    }
}

/// What all agents of a session share.
pub struct SessionView {
    /// Its id.
    pub id: SessionId,
    /// Where long outputs go; agents may read there. It may not exist yet.
    pub spill: PathBuf,
    /// Who read and wrote what.
    pub files: FileLedger,
    /// Settings and other values that the program gives its tools.
    pub settings: ResourceMap,
    /// How agents are had.
    pub spawn: Arc<dyn Spawn>,
}

impl fmt::Debug for SessionView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionView({})", self.id)
    }
}

/// Everything one call may reach.
#[derive(Debug, Clone)]
pub struct ToolCx {
    /// The call.
    pub call: CallId,
    /// The agent that calls.
    pub agent: Arc<AgentView>,
    /// Told when the call must settle.
    pub cancel: Cancel,
}

/// Who hears what running calls tell of themselves, for a session: kept among its settings. By
/// default nobody.
#[derive(Default)]
pub struct Progress(Option<Box<ProgressFn>>);

type ProgressFn = dyn Fn(&AgentId, CallId, &str) + Send + Sync;

impl Progress {
    /// Told to this function, from any thread.
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
    /// Tells people how far the call is, in a few words. It is shown and never stored.
    pub fn report_progress(&self, progress: &str) {
        let heard = self.agent.session.settings.get_or_insert_with(Progress::default);
        if let Some(heard) = &heard.0 {
            heard(self.agent.id(), self.call, progress);
        }
    }

    /// A path in the session's spill folder for this call's output, unique in the session.
    #[must_use]
    pub fn spill_path(&self, ending: &str) -> PathBuf {
        let agent = self.agent.id().as_str().replace('/', "~");
        self.agent.session.spill.join(format!("{agent}~{}.{ending}", self.call))
    }
}

const fn _object_safe(_: &dyn Agent, _: &dyn Spawn, _: &dyn ChildLifecycle) {}
