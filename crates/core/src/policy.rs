//! What may happen, and who is asked.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::agent::AgentView;
use crate::authority::ApproverMode;
use crate::cancel::Cancel;
use crate::excerpt::SavedCommand;
use crate::model::BoxFuture;
use crate::name::{AgentId, CallId, ToolName};
use crate::sanitize::for_question;
use crate::tool::ToolSpec;

/// What a rule says of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may run.
    Allow,
    /// Someone must be asked.
    Ask {
        /// The class it is in, such as `dangerous`.
        class: String,
        /// Which rule, and why.
        reason: String,
    },
    /// It may not.
    Deny {
        /// The rule, and what to do instead.
        reason: String,
    },
}

/// The rules: pure, the same answer for the same call.
pub trait Policy: Send + Sync {
    /// Judges a call whose arguments fit the tool's schema.
    fn judge(&self, tool: &ToolSpec, arguments: &Value, agent: &AgentView) -> Verdict;

    /// Why a command never runs, whoever asks for it and whatever anyone answers; nothing: it may
    /// be asked about. It holds for what agents that are other programs ask for, too.
    fn never(&self, command: &str) -> Option<String> {
        let _ = command;
        None
    }
}

/// Everything may run. For programs that embed an agent with tools of their own.
#[derive(Debug, Clone, Copy)]
pub struct AllowAll;

impl Policy for AllowAll {
    fn judge(&self, _: &ToolSpec, _: &Value, _: &AgentView) -> Verdict {
        Verdict::Allow
    }
}

/// A question that someone must answer before a call runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Who asks.
    pub agent: AgentId,
    /// What the agent was told to do, so that a person knows which child asks.
    pub goal: String,
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: ToolName,
    /// What would run, whole.
    pub command: String,
    /// The other arguments of the call, where the command is one of several.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub arguments: Map<String, Value>,
    /// Where.
    pub cwd: std::path::PathBuf,
    /// The class it is in.
    pub class: String,
    /// The rule that asks.
    pub reason: String,
    /// The file with the command, if it is too long to be shown whole.
    #[serde(default)]
    pub saved: Option<SavedCommand>,
}

impl Question {
    /// Returns a line for each argument beside the command, with all that a terminal would obey or
    /// hide written out.
    #[must_use]
    pub fn argument_lines(&self) -> Vec<String> {
        let line = |(name, value): (&String, &Value)| {
            let name = Value::String(name.clone()).to_string();
            let name = name.trim_matches('"');
            for_question(&format!("{name}: {value}"))
        };
        self.arguments.iter().map(line).collect()
    }
}

/// An answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalAnswer {
    /// Whether it may run.
    pub allowed: bool,
    /// Who said so: `user`, `auto`, `no user to ask`, …
    pub by: String,
    /// More words for the model, if there are any.
    #[serde(default)]
    pub reason: String,
}

impl ApprovalAnswer {
    /// Who says no for an agent whose mode is `deny`.
    pub const NOBODY: &str = "rule: nobody is asked for this agent";

    /// Who says yes for an agent whose mode is `auto`.
    pub const AUTO: &str = "auto";

    /// No, said by.
    #[must_use]
    pub fn no(by: impl Into<String>) -> Self {
        Self { allowed: false, by: by.into(), reason: String::new() }
    }

    /// Yes, said by.
    #[must_use]
    pub fn yes(by: impl Into<String>) -> Self {
        Self { allowed: true, by: by.into(), reason: String::new() }
    }
}

/// Asks a person. Never called for an agent whose mode is `deny` or `auto`.
pub trait Approver: Send + Sync {
    /// Returns the answer to a question that nobody needs to be asked. Called before
    /// [`Approver::ask`], and before anything is prepared for a person to read.
    fn answer_without_asking(&self, question: &Question) -> Option<ApprovalAnswer> {
        let _ = question;
        None
    }

    /// Waits for the answer; a cancelled question is a no.
    fn ask<'a>(
        &'a self,
        question: &'a Question,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, ApprovalAnswer>;
}

/// For programs without a person.
#[derive(Debug, Clone, Copy)]
pub struct NoPerson;

impl Approver for NoPerson {
    fn ask<'a>(&'a self, _: &'a Question, _: &'a Cancel) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async { ApprovalAnswer::no("no user to ask") })
    }
}

/// The mode that holds for an agent: never more than its authority allows.
#[must_use]
pub fn effective_mode(agent: &AgentView) -> ApproverMode {
    agent.spec.approver.min(agent.authority.approver())
}

const fn _object_safe(_: &dyn Policy, _: &dyn Approver) {}
