//! What a program of one's own may see of agents at work, and stop.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::AgentSpec;
use crate::cancel::Cancel;
use crate::message::CallStatus;
use crate::model::BoxFuture;
use crate::name::{AgentId, CallId, SessionId};
use crate::outcome::Outcome;

/// The moments at which hooks run, by the names that people write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum HookPoint {
    /// Before a tool runs, and before anybody is asked whether it may.
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
    /// Its name.
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

/// What happens at a moment. Known secret values have been replaced in all of it.
#[derive(Debug, Clone, Copy)]
pub enum HookEvent<'a> {
    /// A call is about to run.
    PreToolUse {
        /// Which.
        call: CallId,
        /// Of which tool.
        tool: &'a str,
        /// With which arguments.
        arguments: &'a Value,
    },
    /// A call ran.
    PostToolUse {
        /// Which.
        call: CallId,
        /// Of which tool.
        tool: &'a str,
        /// With which arguments.
        arguments: &'a Value,
        /// How it ended.
        status: CallStatus,
        /// What it gave, without the frame in which a model gets it.
        output: &'a str,
    },
    /// The person sent a message.
    UserPromptSubmit {
        /// What it says.
        prompt: &'a str,
    },
    /// A child is about to begin; the input's agent is the child.
    SubagentStart,
    /// A child ended; the input's agent is the child.
    SubagentStop {
        /// How, and what it gave: all of it.
        outcome: &'a Outcome,
    },
}

impl HookEvent<'_> {
    /// Which moment it is.
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

    /// The call and its tool, where it is about a call.
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

/// What a hook is given.
#[derive(Debug, Clone, Copy)]
pub struct HookInput<'a> {
    /// The session.
    pub session: &'a SessionId,
    /// Whose moment it is; at the start and the end of a child, the child.
    pub agent: &'a AgentSpec,
    /// What happens.
    pub moment: HookEvent<'a>,
}

/// What a hook says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookDecision {
    /// Go on.
    Pass,
    /// Not so: see [`Hook`] for what that means at which moment.
    Block,
    /// It failed. That stops nothing.
    Error,
}

impl HookDecision {
    /// The word that events use.
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
    /// What it says.
    pub decision: HookDecision,
    /// Why; for a block the model reads it, cleaned and cut to a few lines.
    pub reason: String,
    /// Bytes that it wrote, where it is a program.
    pub output_bytes: u64,
}

impl HookAnswer {
    /// Go on.
    #[must_use]
    pub const fn pass() -> Self {
        Self { decision: HookDecision::Pass, reason: String::new(), output_bytes: 0 }
    }

    /// Not so, and why.
    #[must_use]
    pub fn block(reason: impl Into<String>) -> Self {
        Self { decision: HookDecision::Block, reason: reason.into(), output_bytes: 0 }
    }

    /// It failed, and how. Nothing is stopped by that.
    #[must_use]
    pub fn error(reason: impl Into<String>) -> Self {
        Self { decision: HookDecision::Error, reason: reason.into(), output_bytes: 0 }
    }
}

/// Something of the person's or the program's that is told of what agents do, and may stop
/// some of it. All agents of a session have the same hooks: the top one and every child.
///
/// What a block does:
///
/// | moment | effect |
/// | --- | --- |
/// | [`PreToolUse`](HookPoint::PreToolUse) | the call is denied; the model gets the reason |
/// | [`PostToolUse`](HookPoint::PostToolUse) | the tool has run; the model gets the reason beside the result |
/// | [`UserPromptSubmit`](HookPoint::UserPromptSubmit) | the message never reaches a model; the turn ends as failed with the reason |
/// | [`SubagentStart`](HookPoint::SubagentStart) | the child ends as failed before its first request; its parent gets the reason |
/// | [`SubagentStop`](HookPoint::SubagentStop) | none: it is on record only |
///
/// Hooks of one moment run one after the other, and the first block ends the row. Every run is
/// on record as an event `hook`. A hook that panics, or does not end within the time limit, has
/// failed; that is on record too and stops nothing. A hook only ever takes away: what it lets
/// pass is still judged by the rules and asked of the person.
///
/// When the run is interrupted, hooks that run are told to end and no other begins. A replay
/// runs none: what they decided is in the recording.
///
/// A hook that keeps a file from being overwritten:
///
/// ```
/// use deputize_core::{BoxFuture, Cancel, Hook, HookAnswer, HookInput, HookPoint, HookEvent};
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
///             match input.moment {
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
/// It is given to `deputize_runtime::SessionConfig::hooks`.
pub trait Hook: Send + Sync {
    /// Its name, for the record.
    fn name(&self) -> &str;

    /// Whether it is run at a moment. What it is not run at is not on record either.
    fn wants(&self, point: HookPoint) -> bool;

    /// Looks, and answers. It ends soon after the signal, and leaves nothing running.
    fn run<'a>(&'a self, input: &'a HookInput<'a>, cancel: &'a Cancel)
    -> BoxFuture<'a, HookAnswer>;
}

/// One run of a hook, for the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookRun {
    /// The moment.
    pub name: HookPoint,
    /// Which hook it was.
    pub by: String,
    /// The call that it was about, or that the child comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// The tool of that call, where it was about a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The child that it was about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<AgentId>,
    /// What it said.
    pub decision: HookDecision,
    /// Why.
    #[serde(default)]
    pub reason: String,
    /// How long it took.
    pub ms: u64,
    /// Bytes that it wrote.
    #[serde(default)]
    pub output_bytes: u64,
}

const fn _object_safe(_: &dyn Hook) {}
