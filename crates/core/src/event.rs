//! The one ordered stream of facts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::agent::AgentSpec;
use crate::budget::Cost;
use crate::cancel::CancelReason;
use crate::file_state::FileVersion;
use crate::hook::HookRun;
use crate::message::{ToolResult, UserMessage};
use crate::model::{Delta, ModelError, Reply, Usage};
use crate::name::{AgentId, CallId};
use crate::outcome::{Outcome, Status};
use crate::run::{BudgetUnit, Input, WrapUpReason};
use crate::sanitize::remove_frames;
use crate::tool::{Display, ToolEffect};

/// One fact, in its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its number in the session: from 0, without gaps.
    pub seq: u64,
    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub at: u64,
    /// Whose it is.
    pub agent: AgentId,
    /// Its parent.
    pub parent: Option<AgentId>,
    /// Its depth.
    pub depth: u32,
    /// What happened.
    pub event: Event,
}

/// What happened: past tense, owned, whole. Outside views of it are projections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Event {
    /// A session began, or was taken up again.
    #[serde(rename = "session.start")]
    SessionStart(SessionStart),
    /// An agent was made.
    #[serde(rename = "agent.start")]
    AgentStart(Box<AgentStart>),
    /// A message for an agent's model.
    #[serde(rename = "message")]
    Message(UserMessage),
    /// A message was left for an agent, which takes it before its next request: then it is a
    /// [`Event::Message`] of the same text.
    #[serde(rename = "message.left")]
    MessageLeft {
        /// What it says.
        text: String,
    },
    /// Some of what an external agent said while it worked: what is left of its words when this
    /// program is killed.
    #[serde(rename = "external.text")]
    ExternalText {
        /// The next piece.
        text: String,
    },
    /// An attempt of a request was sent.
    #[serde(rename = "model.request")]
    ModelRequest {
        /// Which request of the agent, from 1.
        iteration: u32,
        /// How many messages.
        messages: u64,
        /// How many bytes of text: system, tools and messages.
        bytes: u64,
        /// The model that is asked, as agents name it; empty in older records.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        model: String,
    },
    /// A whole reply arrived.
    #[serde(rename = "model.response")]
    ModelResponse {
        /// Which request it answers.
        iteration: u32,
        /// The reply.
        reply: Reply,
        /// How long it took.
        ms: u64,
        /// What it cost in dollars, if the price is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// Whether its tokens are an estimate, because the server did not count them.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        estimated: bool,
    },
    /// An attempt failed.
    #[serde(rename = "model.error")]
    ModelError {
        /// How.
        error: ModelError,
        /// Whether another attempt follows; if not, the request failed.
        retried: bool,
        /// What it cost all the same, as far as that is known or estimated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<Cost>,
    },
    /// Another attempt will follow.
    #[serde(rename = "model.retry")]
    ModelRetry {
        /// Which attempt comes, from 2.
        attempt: u32,
        /// Of how many.
        of: u32,
        /// Why.
        reason: String,
        /// After how long.
        wait_ms: u64,
    },
    /// A call is about to run.
    #[serde(rename = "tool.start")]
    ToolStart {
        /// The call.
        call: CallId,
        /// The tool as the model wrote it.
        tool: String,
        /// The arguments as received.
        arguments: String,
    },
    /// A call has its result.
    #[serde(rename = "tool.end")]
    ToolEnd(Box<ToolEnd>),
    /// Someone is asked.
    #[serde(rename = "approval.request")]
    ApprovalRequest {
        /// The call.
        call: CallId,
        /// What would run.
        command: String,
        /// Its class.
        class: String,
        /// The rule.
        reason: String,
    },
    /// The answer.
    #[serde(rename = "approval.decision")]
    ApprovalDecision {
        /// The call.
        call: CallId,
        /// `allow` or `deny`.
        decision: String,
        /// Who said so.
        by: String,
    },
    /// A hook ran.
    #[serde(rename = "hook")]
    Hook(Box<HookRun>),
    /// A file was read.
    #[serde(rename = "file.read")]
    FileRead {
        /// Its path.
        path: PathBuf,
        /// What was there.
        version: FileVersion,
    },
    /// A file was written.
    #[serde(rename = "file.write")]
    FileWrite {
        /// Its path.
        path: PathBuf,
        /// What is there now.
        version: FileVersion,
        /// Whether there was none before.
        created: bool,
    },
    /// An agent's answer misses its schema.
    #[serde(rename = "answer.rejected")]
    AnswerRejected {
        /// Each mistake and its place, for the model.
        mistakes: String,
    },
    /// A limit is reached: an agent's next request is the closing one.
    #[serde(rename = "agent.wrap_up")]
    AgentWrapUp {
        /// Which.
        #[serde(default)]
        limit: WrapUpReason,
        /// For a budget: of what.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget: Option<BudgetUnit>,
    },
    /// An agent's turn is over, and it rests until the next message: children of it still run, or
    /// a message came while it answered.
    #[serde(rename = "agent.rest")]
    AgentRest,
    /// A child runs.
    #[serde(rename = "agent.heartbeat")]
    AgentHeartbeat {
        /// Its last model request.
        iteration: u32,
        /// The tool that it is in, the one called first of several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        current_tool: Option<String>,
        /// Since when nothing has come of it.
        idle_ms: u64,
        /// Whether that is too long: there is no other one until something comes of it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stalled: bool,
    },
    /// No more agents may be started for now, or they may again.
    #[serde(rename = "spawn.paused")]
    SpawnPaused {
        /// Who said so.
        by: String,
        /// Whether they may not.
        paused: bool,
    },
    /// An agent must end.
    #[serde(rename = "agent.stop")]
    AgentStop {
        /// Why.
        reason: CancelReason,
        /// Whether it was only told so, by a person or an agent above it, and is still in what it
        /// does: it never goes on after that. Another one follows when it stops.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pending: bool,
    },
    /// An agent that had ended goes on.
    #[serde(rename = "agent.resume")]
    AgentResume {
        /// Model requests that its turns now have.
        max_iterations: u32,
    },
    /// An agent ended.
    #[serde(rename = "agent.end")]
    AgentEnd(Box<Outcome>),
    /// A remark.
    #[serde(rename = "log")]
    Log {
        /// How grave.
        level: LogLevel,
        /// What.
        message: String,
    },
    /// The session's work is done for now.
    #[serde(rename = "session.end")]
    SessionEnd {
        /// How the top agent ended.
        status: Status,
        /// What the program exits with.
        exit_code: u8,
        /// Tokens of the whole tree.
        usage: Usage,
        /// Dollars of the whole tree, where prices are known.
        cost_usd: Option<f64>,
    },
}

impl Event {
    /// What the agent's fold takes of it, if it is one of the fold's inputs.
    #[must_use]
    pub fn input(&self) -> Option<Input<'_>> {
        match self {
            Self::Message(message) => Some(Input::Message(message)),
            Self::ModelRequest { model, .. } => Some(Input::Request(model)),
            Self::ModelResponse { reply, .. } => Some(Input::Reply(reply)),
            Self::ModelError { error, retried: false, .. } => Some(Input::Failed(error)),
            Self::ModelError { error, retried: true, .. } => Some(Input::Broke(error)),
            Self::ToolEnd(end) => Some(Input::Result(&end.result)),
            Self::AgentStop { reason, pending: false } => Some(Input::Stop(*reason)),
            Self::AgentWrapUp { limit, .. } => Some(Input::WrapUp(*limit)),
            Self::AgentRest => Some(Input::Rest),
            Self::AnswerRejected { mistakes } => Some(Input::Rejected(mistakes)),
            Self::AgentResume { max_iterations } => {
                Some(Input::Resume { max_iterations: *max_iterations })
            }
            Self::SessionStart(_)
            | Self::AgentStart(_)
            | Self::MessageLeft { .. }
            | Self::ExternalText { .. }
            | Self::ModelRetry { .. }
            | Self::ToolStart { .. }
            | Self::ApprovalRequest { .. }
            | Self::ApprovalDecision { .. }
            | Self::Hook(_)
            | Self::FileRead { .. }
            | Self::FileWrite { .. }
            | Self::AgentHeartbeat { .. }
            | Self::AgentStop { pending: true, .. }
            | Self::SpawnPaused { .. }
            | Self::AgentEnd(_)
            | Self::Log { .. }
            | Self::SessionEnd { .. } => None,
        }
    }
}

/// How grave a remark is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Worth knowing.
    Info,
    /// Worth looking at.
    Warn,
    /// Something failed.
    Error,
}

/// The beginning of a session, or of another run of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStart {
    /// Where.
    pub cwd: PathBuf,
    /// With which model.
    pub model: String,
    /// With which toolsets.
    pub toolsets: Vec<String>,
    /// Which version of the program.
    pub program: String,
    /// Where the model is reached, when that is not its provider's own address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<ModelEndpoint>,
    /// The configuration file that a person named for it, if one: an absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_file: Option<PathBuf>,
}

/// Where a model is reached. It names where the key is, and never holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelEndpoint {
    /// The address.
    pub base_url: String,
    /// The environment variable that holds the key; nothing: none is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
}

/// The making of an agent. Texts are kept once in a session, by hash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentStart {
    /// Its spec, whose `system` is empty here.
    pub spec: AgentSpec,
    /// Lowercase hex SHA-256 of each block of its system text.
    pub system: Vec<String>,
    /// Lowercase hex SHA-256 of its tools, as a JSON array.
    pub tools: String,
    /// The texts that no earlier record of the session holds, by hash.
    #[serde(default)]
    pub texts: BTreeMap<String, Arc<str>>,
}

/// The end of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolEnd {
    /// The tool as the model wrote it.
    pub tool: String,
    /// What the model gets.
    pub result: ToolResult,
    /// Bytes of the arguments.
    pub args_bytes: u64,
    /// How long it took.
    pub ms: u64,
    /// What the host saw.
    #[serde(default)]
    pub facts: Vec<ToolEffect>,
    /// How it may be shown.
    #[serde(default)]
    pub display: Option<Display>,
    /// For the operator: what failed.
    #[serde(default)]
    pub error: Option<String>,
    /// The boundary of the frame in the result's text, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boundary: Option<String>,
}

impl ToolEnd {
    /// What a person may see of the result: without the frame that is for the model.
    #[must_use]
    pub fn content(&self) -> Cow<'_, str> {
        let text = self.result.text.as_str();
        self.boundary
            .as_deref()
            .map_or(Cow::Borrowed(text), |boundary| remove_frames(text, boundary))
    }
}

/// Keeps records.
pub trait Journal: Send + Sync {
    /// Appends a record; when this returns, the record survives the end of this process.
    ///
    /// # Errors
    /// When it could not be kept. Nothing may then be acted on.
    fn append(&self, record: &Record) -> Result<(), JournalError>;

    /// Waits until all records up to this one survive the end of the machine.
    fn durable<'a>(&'a self, seq: u64) -> crate::model::BoxFuture<'a, Result<(), JournalError>>;
}

/// What to do where a write found no room.
fn room(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    match error.kind() {
        StorageFull | QuotaExceeded => " (make room on its disk)",
        _ => "",
    }
}

/// A record that could not be kept.
#[derive(Debug, thiserror::Error)]
#[error("cannot write session file `{}`{}", path.display(), room(source))]
pub struct JournalError {
    /// Which file.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: std::io::Error,
}

/// Sees records after they are kept. It cannot say no and must be quick; one that is slow
/// owns a queue.
pub trait Observer: Send + Sync {
    /// A fact.
    fn on_record(&self, record: &Record);
    /// A piece of a reply that is arriving.
    fn on_delta(&self, _agent: &AgentId, _delta: Delta<'_>) {}

    /// Shows what a running call tells of itself. It is not kept.
    fn on_progress(&self, _agent: &AgentId, _call: CallId, _text: &str) {}
}

const fn _object_safe(_: &dyn Journal, _: &dyn Observer) {}
