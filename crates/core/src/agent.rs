//! Running agents, as seen from outside.

pub use crate::agent_spec::{AgentLimits, AgentSpec, FurtherTask, Role, SpawnedBy};
use crate::future::BoxFuture;
use crate::name::AgentId;
use crate::outcome::Outcome;
use crate::status::Status;

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
    /// The task has images, and the model sees none.
    #[error("the task has images, and the model `{0}` sees none: name a model that does")]
    NoVision(String),
    /// The budget is in dollars and the price of the model is unknown.
    #[error(
        "the budget is in dollars and the price of `{model}` is not known: set it{setting}, or \
         limit tokens instead"
    )]
    NoPrice {
        /// Name of the model.
        model: String,
        /// The host's name of the setting in parentheses, after a space; empty if it has none.
        setting: String,
    },
    /// It would be an external agent, which this parent may not have as a child.
    #[error("{0}")]
    External(String),
    /// The parent may not have children.
    #[error("this agent is at the depth limit and cannot have children; do the work yourself")]
    Depth,
    /// Spawning is paused, by the one named here.
    #[error(
        "spawning paused by {0}: no new child may start until it is allowed again; continue with \
         the results so far, or do the work yourself"
    )]
    Paused(String),
    /// The journal cannot be written.
    #[error("the session file cannot be written: {0}")]
    Journal(String),
}

/// Why a child gets no further task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContinueError {
    /// It is no child of this agent, or the session has kept nothing of it.
    #[error("this agent has no ended child `{0}`")]
    Unknown(AgentId),
    /// It has not ended.
    #[error("it has not ended")]
    Running,
    /// The message about its end has not reached its parent.
    #[error("it has ended, but its report has not reached you yet: read that first")]
    Unreported,
    /// It was stopped.
    #[error("it was stopped: {0}")]
    Stopped(String),
    /// It has no conversation that can go on.
    #[error("its conversation cannot go on: {0}")]
    Conversation(String),
    /// It may not run now.
    #[error(transparent)]
    Attach(#[from] AttachError),
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

/// Activity of an agent, as seen from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentActivity {
    /// Waits for a slot to begin.
    Waiting,
    /// Makes requests or calls.
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
    /// Goal of its task.
    pub goal: String,
    /// What it does now.
    pub activity: AgentActivity,
    /// Number of its last model request.
    pub iteration: u32,
    /// The tool that is running; the first one called if there are several.
    pub current_tool: Option<String>,
    /// Time without progress, in milliseconds.
    pub idle_ms: u64,
}

const fn _object_safe(_: &dyn Agent) {}
