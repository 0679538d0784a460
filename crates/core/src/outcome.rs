//! What an agent gives back, however it ended.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::AgentSpec;
use crate::file_state::FileVersion;
use crate::message::CallStatus;
use crate::model::Usage;
use crate::name::AgentId;
use crate::tool::ToolEffect;

/// How an agent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// With an answer.
    Completed,
    /// Without one.
    Failed,
    /// By a fault of the host.
    Error,
    /// By the time limit.
    Timeout,
    /// By an interrupt.
    Interrupted,
}

/// Why an agent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitReason {
    /// The model was done.
    Completed,
    /// It had used its model requests.
    MaxIterations,
    /// Its budget had no room for more.
    Budget,
    /// The model's output limit cut the answer.
    MaxOutputTokens,
    /// Its answer misses the schema, also after corrections.
    SchemaInvalid,
    /// The conversation is too long for the model.
    ContextOverflow,
    /// Something failed.
    Error,
    /// Its time was up.
    Timeout,
    /// It was interrupted.
    Interrupted,
}

macro_rules! words {
    ($type:ident { $($variant:ident => $word:literal),+ $(,)? }) => {
        impl $type {
            /// The word that events and results use.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
    };
}

words!(Status {
    Completed => "completed", Failed => "failed", Error => "error", Timeout => "timeout",
    Interrupted => "interrupted",
});
words!(ExitReason {
    Completed => "completed", MaxIterations => "max_iterations",
    Budget => "budget", MaxOutputTokens => "max_output_tokens",
    SchemaInvalid => "schema_invalid", ContextOverflow => "context_overflow", Error => "error",
    Timeout => "timeout", Interrupted => "interrupted",
});

/// One call, as a line of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolTrace {
    /// The tool's name as the model wrote it.
    pub tool: String,
    /// Bytes of the arguments.
    pub args_bytes: u64,
    /// Bytes of the result.
    pub result_bytes: u64,
    /// How it ended.
    pub status: CallStatus,
}

/// What the host saw an agent do; never what the agent claims.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Receipts {
    /// Files as they were last written, by path.
    pub files_written: BTreeMap<PathBuf, FileVersion>,
    /// Commands and their exit codes, in order.
    pub commands: Vec<(String, Option<i32>)>,
    /// Which of the commands nobody saw the end of, by their place: those without an exit code
    /// that are not among them were ended by a signal.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unknown: BTreeSet<usize>,
    /// The directories that its shell has been in, beside that in which it began.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub directories: BTreeSet<PathBuf>,
    /// Agents below it that did not complete: they had not ended when it did, or ended otherwise.
    pub unfinished: Vec<AgentId>,
    /// Whether it was a program of its own: of what that did the host saw nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
}

impl Receipts {
    /// Notes what the host saw.
    pub fn add(&mut self, fact: &ToolEffect) {
        match fact {
            ToolEffect::FileRead { .. } | ToolEffect::NotBegun { .. } => {}
            ToolEffect::ShellMoved { path } => {
                self.directories.insert(path.clone());
            }
            ToolEffect::FileWritten { path, version, .. } => {
                self.files_written.insert(path.clone(), version.clone());
            }
            ToolEffect::Command { command, exit_code, unknown } => {
                self.unknown.extend(unknown.then_some(self.commands.len()));
                self.commands.push((command.clone(), *exit_code));
            }
        }
    }

    /// Whether it wrote and ran nothing, and cannot have done so unseen.
    #[must_use]
    pub fn did_nothing(&self) -> bool {
        self.files_written.is_empty() && self.commands.is_empty() && !self.external
    }
}

/// What the host found out of a child when it ended, beside what it saw it do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ChildInspection {
    /// Files that its parent had read and that are something else since: absolute paths.
    #[serde(default)]
    pub stale_paths: Vec<PathBuf>,
    /// Files that its answer names as written and of which no write was seen.
    #[serde(default)]
    pub unseen_writes: Vec<String>,
    /// Where its whole answer is, if its parent gets a part.
    #[serde(default)]
    pub summary_path: Option<PathBuf>,
    /// Where it stands what is known of a child that timed out before it began.
    #[serde(default)]
    pub diagnostic_path: Option<PathBuf>,
}

/// What an agent gives back, however it ended: there is no error path without a place for
/// partial work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Whose it is.
    pub agent: AgentId,
    /// Whether it was a program of its own: then its text and its calls are what it tells of
    /// itself, and the host saw none of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
    /// How it ended.
    pub status: Status,
    /// Why.
    pub exit_reason: ExitReason,
    /// Its answer, or the text it had until then; nothing only when there is none at all.
    pub text: Option<String>,
    /// The answer as a value, where the agent had a schema for it and the answer satisfies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Whether the text is only the part of a reply that had arrived when it broke off.
    #[serde(default)]
    pub partial: bool,
    /// What went wrong, for the operator.
    pub error: Option<String>,
    /// The same without figures that differ between agents that failed for one reason, if it has
    /// such figures: how often a request was sent, what is left of a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Whether the provider could not be used.
    #[serde(default)]
    pub provider_unavailable: bool,
    /// The model that served the last reply, by the name that agents use. Until one served: the
    /// agent's own.
    pub model: String,
    /// Model replies it got.
    pub iterations: u32,
    /// Requests that it sent to a model, each attempt by itself.
    #[serde(default)]
    pub requests: u32,
    /// Tokens of it alone.
    pub usage: Usage,
    /// Tokens of its descendants.
    #[serde(default)]
    pub children_usage: Usage,
    /// Dollars of it and its descendants; nothing: no price is known.
    #[serde(default)]
    pub cost_usd: Option<f64>,
    /// Milliseconds from start to end.
    pub duration_ms: u64,
    /// Its calls, in order.
    #[serde(default)]
    pub trace: Vec<ToolTrace>,
    /// What the host saw it do.
    #[serde(default)]
    pub receipts: Receipts,
    /// For a child: what the host saw each of the agents below it do that did anything.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub below: BTreeMap<AgentId, Receipts>,
    /// For a child: what the host found out at its end, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Box<ChildInspection>>,
    /// For a child: the file of the session that it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_path: Option<PathBuf>,
}

impl Outcome {
    /// The outcome of an agent of which nothing else is known, nor what it cost.
    #[must_use]
    pub fn without_run(spec: &AgentSpec, status: Status, error: String) -> Self {
        let known = Self::not_started(spec.id.clone(), spec.model.clone(), (status, error));
        Self { cost_usd: None, ..known }
    }

    /// The outcome of an agent that never began: it cost nothing.
    #[must_use]
    pub fn not_started(agent: AgentId, model: String, (status, error): (Status, String)) -> Self {
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
            iterations: 0,
            requests: 0,
            usage: Usage::default(),
            children_usage: Usage::default(),
            cost_usd: Some(0.0),
            duration_ms: 0,
            trace: Vec::new(),
            receipts: Receipts::default(),
            below: BTreeMap::new(),
            found: None,
            session_path: None,
        }
    }

    /// What a program that ran it as the top agent exits with: 0 completed, 1 failed, 3 the
    /// provider could not be used, 4 a limit was reached, 130 interrupted.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match (self.status, self.exit_reason) {
            (Status::Interrupted, _) => 130,
            (Status::Timeout, _)
            | (_, ExitReason::Budget | ExitReason::MaxIterations)
            | (Status::Completed, ExitReason::MaxOutputTokens) => 4,
            (Status::Completed, _) => 0,
            (Status::Failed | Status::Error, _) if self.provider_unavailable => 3,
            (Status::Failed | Status::Error, _) => 1,
        }
    }

    /// What the host saw the agents below it do, each by its name, and then the agent itself.
    pub fn all_receipts(&self) -> impl Iterator<Item = (&AgentId, &Receipts)> {
        self.below.iter().chain([(&self.agent, &self.receipts)])
    }

    /// Whether it or an agent below it may have changed files that no tool of ours wrote: by a
    /// command, or as a program of its own.
    #[must_use]
    pub fn may_change_unseen(&self) -> bool {
        let unseen = |seen: &Receipts| seen.external || !seen.commands.is_empty();
        self.external || self.all_receipts().any(|(_, seen)| unseen(seen))
    }

    /// Tokens of the agent and all its descendants.
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
        let agent = AgentId::root(&SessionId::literal("s")).child(CallId { step: 1, slot: 0 }, 0);
        let low = agent.child(CallId { step: 1, slot: 0 }, 0);
        let end = (Status::Completed, String::new());
        let mut outcome = Outcome::not_started(agent, "t/m".to_owned(), end);
        assert!(!outcome.may_change_unseen());
        outcome.below.insert(low, Receipts { external: true, ..Receipts::default() });
        assert!(outcome.may_change_unseen());
    }
}
