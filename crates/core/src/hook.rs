//! Hooks: a person's or program's code that sees what agents do and may block it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent_spec::AgentSpec;
use crate::cancel::Cancel;
use crate::future::BoxFuture;
use crate::message::CallStatus;
use crate::name::{AgentId, CallId, SessionId};
use crate::outcome::Outcome;

/// The points at which hooks run, by the names used in configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum HookPoint {
    /// Before a tool runs, and before anyone is asked for approval.
    PreToolUse,
    /// After a tool ran.
    PostToolUse,
    /// When the person sends a message.
    UserPromptSubmit,
    /// Before a child begins.
    SubagentStart,
    /// After a child ended.
    SubagentStop,
}

impl HookPoint {
    /// Returns its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::SubagentStart => "SubagentStart",
            Self::SubagentStop => "SubagentStop",
        }
    }
}

/// An event at a hook point. Known secrets have been replaced in all of it.
#[derive(Debug, Clone, Copy)]
pub enum HookEvent<'a> {
    /// A call is about to run.
    PreToolUse {
        /// ID of the call.
        call: CallId,
        /// Name of the tool.
        tool: &'a str,
        /// Arguments of the call, as JSON.
        arguments: &'a Value,
    },
    /// A call ran.
    PostToolUse {
        /// ID of the call.
        call: CallId,
        /// Name of the tool.
        tool: &'a str,
        /// Arguments of the call, as JSON.
        arguments: &'a Value,
        /// How it ended.
        status: CallStatus,
        /// Its output, without the frame in which a model reads it.
        output: &'a str,
    },
    /// The person sent a message.
    UserPromptSubmit {
        /// Text of the person's message.
        prompt: &'a str,
    },
    /// A child is about to begin; the input's agent is the child.
    SubagentStart,
    /// A child ended; the input's agent is the child.
    SubagentStop {
        /// The child's complete outcome.
        outcome: &'a Outcome,
    },
}

impl HookEvent<'_> {
    /// Returns the hook point.
    #[must_use]
    pub const fn point(&self) -> HookPoint {
        match self {
            Self::PreToolUse { .. } => HookPoint::PreToolUse,
            Self::PostToolUse { .. } => HookPoint::PostToolUse,
            Self::UserPromptSubmit { .. } => HookPoint::UserPromptSubmit,
            Self::SubagentStart => HookPoint::SubagentStart,
            Self::SubagentStop { .. } => HookPoint::SubagentStop,
        }
    }

    /// Returns the call and its tool, for events about a call.
    #[must_use]
    pub const fn call(&self) -> Option<(CallId, &str)> {
        match self {
            Self::PreToolUse { call, tool, .. } | Self::PostToolUse { call, tool, .. } => {
                Some((*call, *tool))
            }
            Self::UserPromptSubmit { .. } | Self::SubagentStart | Self::SubagentStop { .. } => None,
        }
    }
}

/// The input of a hook.
#[derive(Debug, Clone, Copy)]
pub struct HookInput<'a> {
    /// ID of the session.
    pub session: &'a SessionId,
    /// The agent that the event is about; for the start or end of a child, the child.
    pub agent: &'a AgentSpec,
    /// The event.
    pub event: HookEvent<'a>,
}

/// The decision of a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookDecision {
    /// Let it proceed.
    Pass,
    /// Block; see [`Hook`] for the effect at each point.
    Block,
    /// The hook failed, which blocks nothing.
    Error,
}

impl HookDecision {
    /// Returns the name used in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Block => "block",
            Self::Error => "error",
        }
    }
}

/// The answer of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookAnswer {
    /// The decision.
    pub decision: HookDecision,
    /// The reason; for a block the model reads it, sanitized and cut to a few lines.
    pub reason: String,
    /// Bytes of output, if the hook is a program.
    pub output_bytes: u64,
}

impl HookAnswer {
    /// Creates an answer that lets the event pass.
    #[must_use]
    pub const fn pass() -> Self {
        Self { decision: HookDecision::Pass, reason: String::new(), output_bytes: 0 }
    }

    /// Creates an answer that blocks, with the reason.
    #[must_use]
    pub fn block(reason: impl Into<String>) -> Self {
        Self { decision: HookDecision::Block, reason: reason.into(), output_bytes: 0 }
    }

    /// Creates the answer of a hook that failed, with the reason. It blocks nothing.
    #[must_use]
    pub fn error(reason: impl Into<String>) -> Self {
        Self { decision: HookDecision::Error, reason: reason.into(), output_bytes: 0 }
    }
}

/// Code of the person or the program that sees what agents do, and may block some of it. All agents
/// of a session, the top agent and every child, have the same hooks.
///
/// What a block does:
///
/// | point | effect |
/// | --- | --- |
/// | [`PreToolUse`](HookPoint::PreToolUse) | the call is denied; the model gets the reason |
/// | [`PostToolUse`](HookPoint::PostToolUse) | the tool has run; the model gets the reason beside the result |
/// | [`UserPromptSubmit`](HookPoint::UserPromptSubmit) | the message never reaches a model; the turn ends as failed with the reason |
/// | [`SubagentStart`](HookPoint::SubagentStart) | the child ends as failed before its first request; its parent gets the reason |
/// | [`SubagentStop`](HookPoint::SubagentStop) | none: it is only recorded |
///
/// Hooks of one point run one after the other until one blocks. Every run is recorded as an event
/// `hook`. A hook that panics or exceeds the time limit has failed; that is recorded too and blocks
/// nothing. A hook only restricts: what it lets pass is still judged by the policy and may need the
/// person's approval.
///
/// When the run is interrupted, running hooks are cancelled and no other one starts. A replay runs
/// none: their decisions are in the recording.
///
/// A hook that protects a file from being overwritten:
///
/// ```
/// use deputize_core::{BoxFuture, Cancel};
/// use deputize_core::hook::{Hook, HookAnswer, HookEvent, HookInput, HookPoint};
///
/// struct KeepTheLicence;
///
/// impl Hook for KeepTheLicence {
///     fn name(&self) -> &str {
///         "keep-the-licence"
///     }
///
///     fn wants(&self, point: HookPoint) -> bool {
///         point == HookPoint::PreToolUse
///     }
///
///     fn run<'a>(&'a self, input: &'a HookInput<'a>, _: &'a Cancel) -> BoxFuture<'a, HookAnswer> {
///         Box::pin(async move {
///             match input.event {
///                 HookEvent::PreToolUse { tool: "write_file", arguments, .. }
///                     if arguments["path"] == "LICENSE" =>
///                 {
///                     HookAnswer::block("the licence stays as it is")
///                 }
///                 _ => HookAnswer::pass(),
///             }
///         })
///     }
/// }
/// # let _: &dyn Hook = &KeepTheLicence;
/// ```
///
/// Passed to `deputize_runtime::HookConfig::hooks`.
pub trait Hook: Send + Sync {
    /// Returns its name, for records.
    fn name(&self) -> &str;

    /// Returns whether it runs at a point. Points at which it does not run are not recorded.
    fn wants(&self, point: HookPoint) -> bool;

    /// Runs the hook. It ends soon after `cancel` is signalled and leaves nothing running.
    fn run<'a>(&'a self, input: &'a HookInput<'a>, cancel: &'a Cancel)
    -> BoxFuture<'a, HookAnswer>;
}

/// One run of a hook, as recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookRun {
    /// The hook point.
    pub name: HookPoint,
    /// Name of the hook.
    pub by: String,
    /// The call that it was about, or that started the child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// The tool of the call, if it was about a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The child that it was about, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<AgentId>,
    /// The decision.
    pub decision: HookDecision,
    /// Reason that the hook gave; may be empty.
    #[serde(default)]
    pub reason: String,
    /// Duration in milliseconds.
    pub ms: u64,
    /// Bytes of output, if the hook is a program.
    #[serde(default)]
    pub output_bytes: u64,
}

const fn _object_safe(_: &dyn Hook) {}
