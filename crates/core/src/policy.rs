//! Policies, which judge calls, and approvers, which answer questions.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::authority::ApproverMode;
use crate::call_check::CallRisk;
use crate::cancel::Cancel;
use crate::escape::for_question;
use crate::excerpt::SavedCommand;
use crate::future::BoxFuture;
use crate::name::{AgentId, CallId, ToolName};
use crate::tool::AgentView;
use crate::tool_spec::ToolSpec;

pub use crate::denial::Denial;

/// The verdict of a policy on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The call may run.
    Allow,
    /// The call needs an approval.
    Ask {
        /// The class of the command, such as `dangerous`.
        class: String,
        /// The rule, and its reason.
        reason: String,
    },
    /// The call may not run.
    Deny(Denial),
}

impl From<CallRisk> for Verdict {
    fn from(risk: CallRisk) -> Self {
        Self::Ask { class: risk.class.into_owned(), reason: risk.reason.into_owned() }
    }
}

/// The rules that judge calls: pure, so the same call always gets the same verdict.
pub trait Policy: Send + Sync {
    /// Judges a call whose arguments match the tool's schema. Its commands would run in `cwd`.
    fn judge(&self, tool: &ToolSpec, arguments: &Value, cwd: &Path, agent: &AgentView) -> Verdict;

    /// Returns why a command never runs in `cwd`, whoever requests or approves it; `None` if it may
    /// be asked about. Applies to requests of external agents too.
    fn never(&self, command: &str, cwd: &Path) -> Option<Denial> {
        let _ = (command, cwd);
        None
    }
}

/// Allows every call. For programs that embed an agent with their own tools.
#[derive(Debug, Clone, Copy)]
pub struct AllowAll;

impl Policy for AllowAll {
    fn judge(&self, _: &ToolSpec, _: &Value, _: &Path, _: &AgentView) -> Verdict {
        Verdict::Allow
    }
}

/// A question that needs an answer before a call runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The agent that asks.
    pub agent: AgentId,
    /// The goal of the agent, so that a person knows which child asks.
    pub goal: String,
    /// ID of the call.
    pub call: CallId,
    /// Name of the tool.
    pub tool: ToolName,
    /// The complete command.
    pub command: String,
    /// The other arguments of the call, where the command is one of several, and what the tool adds
    /// for the person.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub arguments: Map<String, Value>,
    /// The working directory.
    pub cwd: std::path::PathBuf,
    /// The class of the command.
    pub class: String,
    /// The rule that asks.
    pub reason: String,
    /// Whether only a person may say yes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_person: bool,
    /// The file with the command, if it is too long to be shown whole.
    #[serde(default)]
    pub saved: Option<SavedCommand>,
}

impl Question {
    /// Returns a line for each argument beside the command, with characters that a terminal would
    /// obey or hide written out. The lines of a text with several follow its name, indented.
    #[must_use]
    pub fn argument_lines(&self) -> Vec<String> {
        let arguments = self.arguments.iter();
        arguments.map(|(name, value)| for_question(&argument_text(name, value))).collect()
    }

    /// Returns a call without a command of its own as a question shows it: on one line if none of its
    /// texts has several.
    #[must_use]
    pub fn call_text(tool: &ToolName, arguments: &Value) -> String {
        match arguments.as_object() {
            Some(map) if map.values().any(has_lines) => {
                let mut text = tool.as_str().to_owned();
                for (name, value) in map {
                    text.push('\n');
                    text.push_str(&argument_text(name, value));
                }
                text
            }
            _ => format!("{tool} {arguments}"),
        }
    }
}

/// Returns an argument as JSON on one line, or a text of several lines as they are. Those are indented,
/// so that none of them can pass for another argument.
fn argument_text(name: &str, value: &Value) -> String {
    let name = Value::String(name.to_owned()).to_string();
    let name = name.trim_matches('"');
    match value.as_str().filter(|_| has_lines(value)) {
        Some(text) => format!("{name}:\n    {}", text.replace('\n', "\n    ")),
        None => format!("{name}: {value}"),
    }
}

/// Returns whether an argument is a text of several lines.
fn has_lines(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.trim_end_matches('\n').contains('\n'))
}

/// An answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalAnswer {
    /// Whether the call may run.
    pub allowed: bool,
    /// Who decided: `user`, `auto`, `no user to ask`, …
    pub by: String,
    /// Additional text for the model, if any.
    #[serde(default)]
    pub reason: String,
}

impl ApprovalAnswer {
    /// Value of `by` in a denial for an agent whose mode is `deny`.
    pub const NOBODY: &str = "the settings: this agent cannot ask for approval";

    /// Value of `by` in an approval for an agent whose mode is `auto`.
    pub const AUTO: &str = "auto";

    /// Creates a denial.
    #[must_use]
    pub fn no(by: impl Into<String>) -> Self {
        Self { allowed: false, by: by.into(), reason: String::new() }
    }

    /// Creates an approval.
    #[must_use]
    pub fn yes(by: impl Into<String>) -> Self {
        Self { allowed: true, by: by.into(), reason: String::new() }
    }
}

/// Asks a person. Not called for an agent whose mode is `deny` or `auto`.
pub trait Approver: Send + Sync {
    /// Returns the answer to a question that needs no person. Called before [`Approver::ask`], and
    /// before anything is prepared for a person to read.
    fn answer_without_asking(&self, question: &Question) -> Option<ApprovalAnswer> {
        let _ = question;
        None
    }

    /// Waits for the answer; a cancelled question is denied.
    fn ask<'a>(
        &'a self,
        question: &'a Question,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, ApprovalAnswer>;
}

/// Denies every question, for programs without a person.
#[derive(Debug, Clone, Copy)]
pub struct NoPerson;

impl Approver for NoPerson {
    fn ask<'a>(&'a self, _: &'a Question, _: &'a Cancel) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async { ApprovalAnswer::no("no user to ask") })
    }
}

/// Returns the mode that applies to an agent: never more than its authority allows.
#[must_use]
pub fn effective_mode(agent: &AgentView) -> ApproverMode {
    agent.spec.approver.min(agent.authority.approver())
}

const fn _object_safe(_: &dyn Policy, _: &dyn Approver) {}
