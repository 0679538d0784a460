//! Events and records: the one ordered stream of facts of a session.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::agent_spec::{AgentSpec, FurtherTask};
use crate::budget::Cost;
use crate::cancel::CancelReason;
use crate::compaction::Compaction;
use crate::cut_result::CutResult;
use crate::file_state::FileVersion;
use crate::hook::HookRun;
use crate::message::{ToolResult, UserMessage};
use crate::model::{Delta, ModelError, Reply, Usage};
use crate::name::{AgentId, CallId};
use crate::outcome::Outcome;
use crate::process::{ProcessEnd, ProcessStart};
use crate::run::{BudgetUnit, Input, WrapUpReason};
use crate::sanitize::remove_frames;
use crate::source_set::SourceSet;
use crate::status::Status;
use crate::tool_effect::ToolEffect;
use crate::tool_output::Display;

mod journal;

pub use journal::{EncodedRecord, Journal, JournalError};

/// An event with its number, time and agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Number in the session, from 0 without gaps.
    pub seq: u64,
    /// Unix time in milliseconds.
    pub at: u64,
    /// The agent it is about.
    pub agent: AgentId,
    /// The agent's parent.
    pub parent: Option<AgentId>,
    /// The agent's depth.
    pub depth: u32,
    /// The event.
    pub event: Event,
}

/// An event, as owned data. Other representations are projections of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Event {
    /// A session began or was resumed.
    #[serde(rename = "session.start")]
    SessionStart(SessionStart),
    /// An agent was created.
    #[serde(rename = "agent.start")]
    AgentStart(Box<AgentStart>),
    /// A message for an agent's model.
    #[serde(rename = "message")]
    Message(UserMessage),
    /// A message was queued for an agent. When the agent reads it, an [`Event::Message`] with the
    /// same text follows.
    #[serde(rename = "message.left")]
    MessageLeft {
        /// Text of the message.
        text: String,
        /// Who said what is in it; empty if that is unknown, as in older records.
        #[serde(default, skip_serializing_if = "SourceSet::is_empty")]
        sources: SourceSet,
    },
    /// Text from an external agent while it works, so that it survives if this program is killed.
    #[serde(rename = "external.text")]
    ExternalText {
        /// The next piece.
        text: String,
    },
    /// An attempt of a request was sent.
    #[serde(rename = "model.request")]
    ModelRequest {
        /// Number of the request, from 1 for each agent; for a summary, of the request that waits for
        /// it.
        iteration: u32,
        /// Number of messages.
        messages: u64,
        /// Bytes of text: system, tools and messages.
        bytes: u64,
        /// The model that is asked, as agents name it; empty in older records.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        model: String,
        /// What the reply is for.
        #[serde(default, skip_serializing_if = "RequestPurpose::is_turn")]
        purpose: RequestPurpose,
    },
    /// A whole reply arrived.
    #[serde(rename = "model.response")]
    ModelResponse {
        /// Number of the request that it answers.
        iteration: u32,
        /// Reply of the model, whole.
        reply: Reply,
        /// Duration in milliseconds.
        ms: u64,
        /// Cost in dollars, if the price is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// Whether its token counts are estimated because the server did not count.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        estimated: bool,
    },
    /// An attempt failed.
    #[serde(rename = "model.error")]
    ModelError {
        /// The error.
        error: ModelError,
        /// Whether another attempt follows; if not, the request failed.
        retried: bool,
        /// Cost of the failed attempt, where known or estimated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<Cost>,
    },
    /// Another attempt will follow.
    #[serde(rename = "model.retry")]
    ModelRetry {
        /// Number of the next attempt, from 2.
        attempt: u32,
        /// Maximum number of attempts.
        of: u32,
        /// Why the last attempt failed.
        reason: String,
        /// Wait before the next attempt, in milliseconds.
        wait_ms: u64,
    },
    /// A call is about to run.
    #[serde(rename = "tool.start")]
    ToolStart {
        /// ID of the call.
        call: CallId,
        /// The tool as the model wrote it.
        tool: String,
        /// The arguments as received.
        arguments: String,
    },
    /// A call ended with a result.
    #[serde(rename = "tool.end")]
    ToolEnd(Box<ToolEnd>),
    /// A background command started.
    #[serde(rename = "process.start")]
    ProcessStart(ProcessStart),
    /// A background command ended.
    #[serde(rename = "process.end")]
    ProcessEnd(Box<ProcessEnd>),
    /// A call waits for an approval.
    #[serde(rename = "approval.request")]
    ApprovalRequest {
        /// ID of the call.
        call: CallId,
        /// The command that would run.
        command: String,
        /// Class of the command.
        class: String,
        /// The rule that asks.
        reason: String,
    },
    /// A question was answered.
    #[serde(rename = "approval.decision")]
    ApprovalDecision {
        /// ID of the call.
        call: CallId,
        /// `allow` or `deny`.
        decision: String,
        /// Name of what decided: a hook, a policy or an approver.
        by: String,
    },
    /// A hook ran.
    #[serde(rename = "hook")]
    Hook(Box<HookRun>),
    /// A file was read.
    #[serde(rename = "file.read")]
    FileRead {
        /// Path of the file.
        path: PathBuf,
        /// Its content at that time.
        version: FileVersion,
    },
    /// A file was written.
    #[serde(rename = "file.write")]
    FileWrite {
        /// Path of the file.
        path: PathBuf,
        /// Its new content.
        version: FileVersion,
        /// Whether the write created it.
        created: bool,
    },
    /// Older messages of an agent's conversation gave way to a summary.
    #[serde(rename = "compaction")]
    Compaction(Box<Compaction>),
    /// Results of an agent's last step are too long for the context; the model sees parts of them.
    #[serde(rename = "results.cut")]
    ResultsCut {
        /// Each with its new text.
        results: Vec<CutResult>,
    },
    /// An agent's answer does not match its schema.
    #[serde(rename = "answer.rejected")]
    AnswerRejected {
        /// The mistakes with their positions, for the model.
        mistakes: String,
    },
    /// An agent reached a limit; its next request is the closing one.
    #[serde(rename = "agent.wrap_up")]
    AgentWrapUp {
        /// Limit that it reached.
        #[serde(default)]
        limit: WrapUpReason,
        /// For a budget: its unit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget: Option<BudgetUnit>,
    },
    /// An agent's turn is over, and it rests until the next message: it still has running children,
    /// or a message arrived while it answered.
    #[serde(rename = "agent.rest")]
    AgentRest,
    /// A child is alive.
    #[serde(rename = "agent.heartbeat")]
    AgentHeartbeat {
        /// Number of its last model request.
        iteration: u32,
        /// The tool that is running; the first one called if there are several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        current_tool: Option<String>,
        /// Time without progress, in milliseconds.
        idle_ms: u64,
        /// Whether the child is stalled; no further heartbeat follows until it makes progress.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stalled: bool,
    },
    /// Spawning was paused or allowed again.
    #[serde(rename = "spawn.paused")]
    SpawnPaused {
        /// Who did it.
        by: String,
        /// Whether spawning is now paused.
        paused: bool,
    },
    /// An agent was stopped.
    #[serde(rename = "agent.stop")]
    AgentStop {
        /// Reason of the stop.
        reason: CancelReason,
        /// Whether a person or an agent above it only requested the stop, and its current work is
        /// not over. The agent never continues after that; another event follows when it stops.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pending: bool,
    },
    /// An agent that had ended was resumed.
    #[serde(rename = "agent.resume")]
    AgentResume {
        /// The limit on model requests of its turns from now on.
        max_iterations: u32,
        /// The further task of a child, whose message follows when it begins; `None` if the session
        /// was resumed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<FurtherTask>,
    },
    /// An agent ended.
    #[serde(rename = "agent.end")]
    AgentEnd(Box<Outcome>),
    /// A log message.
    #[serde(rename = "log")]
    Log {
        /// Severity of the message.
        level: LogLevel,
        /// Text of the message.
        message: String,
        /// The message without figures, so that messages with the same cause can be shown together;
        /// `None` if it has no figures.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
    },
    /// The session's work is done for now.
    #[serde(rename = "session.end")]
    SessionEnd {
        /// How the top agent ended.
        status: Status,
        /// Exit code of the program.
        exit_code: u8,
        /// Tokens of the whole tree.
        usage: Usage,
        /// Dollars of the whole tree, where prices are known.
        cost_usd: Option<f64>,
    },
}

impl Event {
    /// Returns the event as input of the agent loop, if it is one.
    #[must_use]
    pub fn input(&self) -> Option<Input<'_>> {
        match self {
            Self::Message(message) => Some(Input::Message(message)),
            Self::ModelRequest { purpose: RequestPurpose::Summary, .. } => None,
            Self::ModelRequest { model, .. } => Some(Input::Request(model)),
            Self::ModelResponse { reply, .. } => Some(Input::Reply(reply)),
            Self::ModelError { error, retried, .. } => {
                Some(Input::Failure { error, retried: *retried })
            }
            Self::ToolEnd(end) => {
                let ToolEnd { tool, args_bytes, result, .. } = &**end;
                Some(Input::Result { tool, args_bytes: *args_bytes, result })
            }
            Self::AgentStop { reason, pending: false } => Some(Input::Stop(*reason)),
            Self::AgentWrapUp { limit, .. } => Some(Input::WrapUp(*limit)),
            Self::AgentRest => Some(Input::Rest),
            Self::Compaction(compaction) => Some(Input::Compaction(compaction)),
            Self::ResultsCut { results } => Some(Input::ResultsCut(results)),
            Self::AnswerRejected { mistakes } => Some(Input::Rejected(mistakes)),
            Self::AgentResume { task: Some(_), .. } => Some(Input::FurtherTask),
            Self::AgentResume { max_iterations, task: None } => {
                Some(Input::Resume { max_iterations: *max_iterations })
            }
            Self::SessionStart(_)
            | Self::AgentStart(_)
            | Self::MessageLeft { .. }
            | Self::ExternalText { .. }
            | Self::ModelRetry { .. }
            | Self::ToolStart { .. }
            | Self::ProcessStart(_)
            | Self::ProcessEnd(_)
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

/// What a request to a model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestPurpose {
    /// The next step of the agent's turn.
    #[default]
    Turn,
    /// The summary of a compaction. A [`Event::Compaction`] or [`Event::ModelError`] follows.
    Summary,
}

impl RequestPurpose {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
    const fn is_turn(&self) -> bool {
        matches!(self, Self::Turn)
    }
}

/// Severity of a log message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// A message that needs no action.
    Info,
    /// A warning.
    Warn,
    /// An error.
    Error,
}

/// The beginning of a session, or of another run of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStart {
    /// The working directory.
    pub cwd: PathBuf,
    /// Name of the model.
    pub model: String,
    /// Names of the enabled toolsets.
    pub toolsets: Vec<String>,
    /// Version of the program.
    pub program: String,
    /// Address of the model, if it is not its provider's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<ModelEndpoint>,
    /// Absolute path of the configuration file that a person named, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_file: Option<PathBuf>,
}

/// Address of a model. It names where the key is, and never holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelEndpoint {
    /// The base URL.
    pub base_url: String,
    /// The environment variable with the key; `None` if no key is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
}

/// The creation of an agent. Texts are stored once in a session, by hash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentStart {
    /// Its spec, with an empty `system`.
    pub spec: AgentSpec,
    /// SHA-256 of each block of its system text, in lowercase hexadecimal.
    pub system: Vec<String>,
    /// SHA-256 of its tools as a JSON array, in lowercase hexadecimal.
    pub tools: String,
    /// Texts that no earlier record of the session holds, by hash.
    #[serde(default)]
    pub texts: BTreeMap<String, Arc<str>>,
}

/// The end of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolEnd {
    /// The tool as the model wrote it.
    pub tool: String,
    /// The result for the model.
    pub result: ToolResult,
    /// Size of the arguments in bytes.
    pub args_bytes: u64,
    /// Duration in milliseconds.
    pub ms: u64,
    /// Effects that the host observed.
    #[serde(default)]
    pub facts: Vec<ToolEffect>,
    /// How the result may be shown.
    #[serde(default)]
    pub display: Option<Display>,
    /// Why it failed, for the operator.
    #[serde(default)]
    pub error: Option<String>,
    /// Boundary of the frame in the result's text, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boundary: Option<String>,
}

impl ToolEnd {
    /// Returns the result as shown to a person, without the frame meant for the model.
    #[must_use]
    pub fn content(&self) -> Cow<'_, str> {
        let text = self.result.text.as_str();
        self.boundary
            .as_deref()
            .map_or(Cow::Borrowed(text), |boundary| remove_frames(text, boundary))
    }
}

/// Sees records after they are stored. It cannot reject them and must return quickly; a slow
/// observer owns a queue.
pub trait Observer: Send + Sync {
    /// Observes the records of a stored session before it goes on. They are not observed again.
    fn on_restore(&self, _records: &[Record]) {}

    /// Observes a record.
    fn on_record(&self, record: &Record);
    /// Observes a piece of a reply that is arriving.
    fn on_delta(&self, _agent: &AgentId, _delta: Delta<'_>) {}

    /// Observes the progress of a running call, which is not stored.
    fn on_progress(&self, _agent: &AgentId, _call: CallId, _text: &str) {}
}

const fn _object_safe(_: &dyn Journal, _: &dyn Observer) {}
