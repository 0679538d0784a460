//! The outcome of an agent, however it ended.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent_spec::AgentSpec;
use crate::file_state::FileVersion;
use crate::message::{CallStatus, ToolResult};
use crate::model::Usage;
use crate::name::AgentId;
pub use crate::status::ExitReason;
use crate::status::Status;
use crate::tool_effect::ToolEffect;

/// A call, as a line of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolTrace {
    /// The tool's name: as the model wrote it, or that of the tool that a call through an index
    /// meant.
    pub tool: String,
    /// Size of the arguments in bytes.
    pub args_bytes: u64,
    /// Size of the result in bytes.
    pub result_bytes: u64,
    /// How it ended.
    pub status: CallStatus,
}

impl ToolTrace {
    /// Returns the trace of a call of this tool, with arguments of so many bytes.
    #[must_use]
    pub fn new(tool: &str, args_bytes: u64, result: &ToolResult) -> Self {
        Self {
            tool: tool.to_owned(),
            args_bytes,
            result_bytes: result.text.as_str().len() as u64,
            status: result.status,
        }
    }
}

/// The effects of an agent as the host observed them, never as the agent claims.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Receipts {
    /// Files as they were last written, by path.
    pub files_written: BTreeMap<PathBuf, FileVersion>,
    /// Files that it removed and that were not written again.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub files_removed: BTreeSet<PathBuf>,
    /// Commands and their exit codes, in order. A command without one was killed by a signal,
    /// unless it is in `unknown`.
    pub commands: Vec<(String, Option<i32>)>,
    /// Indexes of the commands whose end was not observed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unknown: BTreeSet<usize>,
    /// Indexes of the commands that still ran in the background when the agent ended.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub ended_with_agent: BTreeSet<usize>,
    /// Indexes of the durable commands that went on when the agent ended.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub left_running: BTreeSet<usize>,
    /// The directories its shell has been in, beside the initial one.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub directories: BTreeSet<PathBuf>,
    /// Descendants that had not ended when it did, or that ended without completing.
    pub unfinished: Vec<AgentId>,
    /// Whether it was an external agent, whose actions the host does not observe.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
}

impl Receipts {
    /// Adds an observed effect.
    pub fn add(&mut self, fact: &ToolEffect) {
        match fact {
            ToolEffect::FileRead { .. }
            | ToolEffect::NotBegun { .. }
            | ToolEffect::TodoChanged { .. }
            | ToolEffect::OutsideRead { .. } => {}
            ToolEffect::ShellMoved { path } => {
                self.directories.insert(path.clone());
            }
            ToolEffect::FileWritten { path, version, .. } => {
                self.files_removed.remove(path);
                self.files_written.insert(path.clone(), version.clone());
            }
            ToolEffect::FileRemoved { path } => {
                self.files_written.remove(path);
                self.files_removed.insert(path.clone());
            }
            ToolEffect::Command { command, exit_code, unknown } => {
                self.unknown.extend(unknown.then_some(self.commands.len()));
                self.commands.push((command.clone(), *exit_code));
            }
        }
    }

    /// Marks the last command as one that still ran when the agent ended.
    pub fn record_ended_with_agent(&mut self) {
        self.ended_with_agent.extend(self.commands.len().checked_sub(1));
    }

    /// Marks the last command as one that went on when the agent ended.
    pub fn record_left_running(&mut self) {
        self.left_running.extend(self.commands.len().checked_sub(1));
    }

    /// Returns whether it wrote and ran nothing, and cannot have done so unobserved.
    #[must_use]
    pub fn did_nothing(&self) -> bool {
        self.files_written.is_empty()
            && self.files_removed.is_empty()
            && self.commands.is_empty()
            && !self.external
    }
}

/// The host's findings at the end of a child, beside its receipts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ChildInspection {
    /// Absolute paths of files that its parent had read and that have changed since.
    #[serde(default)]
    pub stale_paths: Vec<PathBuf>,
    /// Those of them that are no longer there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone_paths: Vec<PathBuf>,
    /// Files that its answer names, that do not exist, and of which no write was observed.
    #[serde(default)]
    pub unseen_writes: Vec<String>,
    /// The file with its whole answer, if its parent gets only a part.
    #[serde(default)]
    pub summary_path: Option<PathBuf>,
    /// The file with diagnostics of a child that timed out before it began.
    #[serde(default)]
    pub diagnostic_path: Option<PathBuf>,
}

/// Why an outcome has no value of a type.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// The agent gave no value that matches its schema.
    #[error("the agent gave no value: {0}")]
    None(String),
    /// The value has another type.
    #[error("the agent's value is not of the requested type")]
    Type(#[source] serde_json::Error),
}

/// The result of an agent, however it ended. Every failure has a place for partial work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// ID of the agent.
    pub agent: AgentId,
    /// Whether it was an external agent: its text and calls are then its own claims, which the host
    /// did not observe.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
    /// How it ended.
    pub status: Status,
    /// Why it ended.
    pub exit_reason: ExitReason,
    /// Its answer, or the text it had produced until then; `None` only if there is none at all.
    pub text: Option<String>,
    /// The answer as a value, if the agent had a schema and the answer matches it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Whether the text is only the part of a reply that arrived before it broke off.
    #[serde(default)]
    pub partial: bool,
    /// The error, for the operator.
    pub error: Option<String>,
    /// The error without figures that differ between agents that failed for the same reason, such
    /// as the number of attempts or the rest of a budget; `None` if it has no such figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Whether the provider was unusable.
    #[serde(default)]
    pub provider_unavailable: bool,
    /// The model that served the last reply, by the name that agents use; the agent's own model
    /// before the first reply.
    pub model: String,
    /// The name of its profile; `None` if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Number of model replies.
    pub iterations: u32,
    /// Number of requests sent to a model; each attempt counts.
    #[serde(default)]
    pub requests: u32,
    /// Tokens of this agent alone.
    pub usage: Usage,
    /// Tokens of its descendants.
    #[serde(default)]
    pub children_usage: Usage,
    /// Dollars of the agent and its descendants; `None` if no price is known.
    #[serde(default)]
    pub cost_usd: Option<f64>,
    /// Milliseconds from start to end.
    pub duration_ms: u64,
    /// Its calls, in order.
    #[serde(default)]
    pub trace: Vec<ToolTrace>,
    /// The effects the host observed.
    #[serde(default)]
    pub receipts: Receipts,
    /// For a child: receipts of each of its descendants that did anything.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub below: BTreeMap<AgentId, Receipts>,
    /// For a child: what the host found at its end, if anything.
    #[serde(rename = "found", default, skip_serializing_if = "Option::is_none")]
    pub inspection: Option<Box<ChildInspection>>,
    /// For a child: the file of its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_path: Option<PathBuf>,
}

impl Outcome {
    /// Returns the outcome of an agent whose run and cost are unknown.
    #[must_use]
    pub fn without_run(spec: &AgentSpec, status: Status, error: String) -> Self {
        let known = Self::not_started(spec.id.clone(), spec.model.clone(), status, error);
        Self { cost_usd: None, profile: spec.profile.clone(), ..known }
    }

    /// Returns the outcome of an agent that never began and cost nothing.
    #[must_use]
    pub fn not_started(agent: AgentId, model: String, status: Status, error: String) -> Self {
        Self {
            agent,
            external: false,
            status,
            exit_reason: match status {
                Status::Interrupted => ExitReason::Interrupted,
                Status::Timeout => ExitReason::Timeout,
                Status::Completed | Status::Failed | Status::Error => ExitReason::Error,
            },
            text: None,
            output: None,
            partial: false,
            error: Some(error),
            cause: None,
            provider_unavailable: false,
            model,
            profile: None,
            iterations: 0,
            requests: 0,
            usage: Usage::default(),
            children_usage: Usage::default(),
            cost_usd: Some(0.0),
            duration_ms: 0,
            trace: Vec::new(),
            receipts: Receipts::default(),
            below: BTreeMap::new(),
            inspection: None,
            session_path: None,
        }
    }

    /// The exit code of a run that ended at a limit.
    pub const LIMIT_EXIT_CODE: u8 = 4;

    /// Returns the exit code of a program that ran this as the top agent: 0 completed, 1 failed, 3
    /// the provider was unusable, 4 a limit was reached, 130 interrupted.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match (self.status, self.exit_reason) {
            (Status::Interrupted, _) => 130,
            (Status::Timeout, _)
            | (_, ExitReason::Budget | ExitReason::MaxIterations | ExitReason::ContextOverflow)
            | (Status::Completed, ExitReason::MaxOutputTokens) => Self::LIMIT_EXIT_CODE,
            (Status::Completed, _) => 0,
            (Status::Failed | Status::Error, _) if self.provider_unavailable => 3,
            (Status::Failed | Status::Error, _) => 1,
        }
    }

    /// Returns the receipts of its descendants, each with its ID, and then its own.
    pub fn all_receipts(&self) -> impl Iterator<Item = (&AgentId, &Receipts)> {
        self.below.iter().chain([(&self.agent, &self.receipts)])
    }

    /// Returns whether it or a descendant may have changed files other than through this program's
    /// tools: by a command, or as an external agent.
    #[must_use]
    pub fn may_change_unseen(&self) -> bool {
        let unseen = |seen: &Receipts| seen.external || !seen.commands.is_empty();
        self.external || self.all_receipts().any(|(_, seen)| unseen(seen))
    }

    /// Returns the typed answer as a value of the requested type.
    ///
    /// # Errors
    /// If the agent gave no value, or one of another type.
    pub fn value<T: DeserializeOwned>(&self) -> Result<T, ValueError> {
        let value = self.output.clone().ok_or_else(|| {
            let why = self.error.clone();
            ValueError::None(why.unwrap_or_else(|| "it was asked for text".to_owned()))
        })?;
        serde_json::from_value(value).map_err(ValueError::Type)
    }

    /// Returns the tokens of the agent and all its descendants.
    #[must_use]
    pub fn tree_usage(&self) -> Usage {
        let mut all = self.usage;
        all += self.children_usage;
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::{CallId, SessionId};

    #[test]
    fn a_program_below_may_have_changed_files_unseen() {
        let agent = AgentId::root(&SessionId::literal("s")).child(CallId::new(1, 0), 0);
        let low = agent.child(CallId::new(1, 0), 0);
        let model = "t/m".to_owned();
        let mut outcome = Outcome::not_started(agent, model, Status::Completed, String::new());
        assert!(!outcome.may_change_unseen());
        outcome.below.insert(low, Receipts { external: true, ..Receipts::default() });
        assert!(outcome.may_change_unseen());
    }
}
