//! The specification of a tool, as data.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::call_check::CallRisk;
use crate::name::ToolName;
use crate::schema::Schema;
use crate::source_set::SourceSet;
use crate::tool_subject::{Subject, ToolKind};

/// The declaration of a tool, as sent to a model. Its bytes are fixed while an agent lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDecl {
    /// Its name.
    pub name: ToolName,
    /// What it does and when to use it.
    pub description: String,
    /// Schema of its arguments.
    pub parameters: Schema,
}

/// The effects that a call may have. Claims of a remote side never raise trust.
///
/// The policy of the command line runs calls of the first two kinds without asking and asks before
/// the third. Nothing restricts the code of a tool itself: one that opens files must check
/// `cx.agent.authority.may_read(path)` and `may_write(path)`, with paths made absolute against
/// `cx.agent.spec.cwd`, and check the targets of links on the way too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effects {
    /// Changes nothing.
    ReadOnly,
    /// Changes files under the write roots.
    WritesFiles,
    /// May change anything.
    Unknown,
}

/// Whether a tool can be used at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Availability {
    /// It can be used.
    Yes,
    /// It cannot be used: why, and what to do.
    No(String),
}

/// The calls of a tool that change nothing outside of what it keeps for its agent, by the value of
/// an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HarmlessCalls {
    /// The name of the argument.
    pub argument: &'static str,
    /// Its values in such calls.
    pub values: &'static [&'static str],
}

impl HarmlessCalls {
    /// Returns whether a call is one of them.
    #[must_use]
    pub fn include(&self, arguments: &Value) -> bool {
        let value = arguments.get(self.argument).and_then(Value::as_str);
        value.is_some_and(|value| self.values.contains(&value))
    }
}

/// Why no child has a tool: only an agent without a parent uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParentOnly {
    /// What it begins goes on after the turn.
    OutlivesTurn,
    /// It runs scripts, which call other tools.
    RunsScripts,
    /// Any other reason, as the end of a sentence about the tool: "the plan is the parent's".
    Other(&'static str),
}

impl ParentOnly {
    /// Returns the reason as the end of a sentence about the tool.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::OutlivesTurn => "it outlives the turn",
            Self::RunsScripts => "it would run beside the rules that calls are judged by",
            Self::Other(reason) => reason,
        }
    }
}

/// Text for the system prompt of agents that have a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolGuidance {
    /// Name of the tool.
    pub tool: ToolName,
    /// Text for the system prompt.
    pub text: Arc<str>,
    /// Its sources, beside this program.
    #[serde(default, skip_serializing_if = "SourceSet::is_empty")]
    pub sources: SourceSet,
}

/// A call that shows a tool's use, run by the conformance check.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// Title of the example.
    pub title: &'static str,
    /// Arguments of the call, as JSON.
    pub arguments: Value,
}

/// The specification of a tool, as data. Everything around a call (policy, records, limits) follows
/// from it and is not the tool's concern.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The declaration for the model.
    pub decl: ToolDecl,
    /// The effects of a call.
    pub effects: Effects,
    /// Calls that change nothing although others do; `None` if there are none.
    pub harmless: Option<HarmlessCalls>,
    /// What a call with effects risks, for the person who is asked; `None` if nothing bounds it.
    pub risk: Option<CallRisk>,
    /// Whether only a person may approve its calls, also where calls are approved without asking.
    pub needs_person: bool,
    /// Why no child has it; `None` if children may.
    pub parent_only: Option<ParentOnly>,
    /// The kind of work that it does, for people and editors.
    pub kind: ToolKind,
    /// The arguments that describe what a call is about.
    pub subject: Subject,
    /// Whether a call may be repeated if a crash left it without a result.
    pub repeatable: bool,
    /// Whether it does nothing but start agents. A replay makes such calls again, and no others.
    pub spawns: bool,
    /// Whether calls of one step may run concurrently. A call that may not is a barrier.
    pub parallel: bool,
    /// Time limit of a call; `None` if the tool enforces its own.
    pub time_limit: Option<Duration>,
    /// Whether it can be used at present.
    pub usable: Availability,
    /// Calls that show its use.
    pub examples: Vec<Example>,
}

impl ToolSpec {
    /// Creates the spec of a tool that changes nothing: repeatable, concurrent, limited to two
    /// minutes.
    #[must_use]
    pub fn read_only(decl: ToolDecl) -> Self {
        Self {
            decl,
            effects: Effects::ReadOnly,
            harmless: None,
            risk: None,
            needs_person: false,
            parent_only: None,
            kind: ToolKind::Other,
            subject: Subject::default(),
            repeatable: true,
            spawns: false,
            parallel: true,
            time_limit: Some(Duration::from_secs(120)),
            usable: Availability::Yes,
            examples: Vec::new(),
        }
    }

    /// Creates the spec of a tool with effects: never repeated, not concurrent, limited to two
    /// minutes.
    #[must_use]
    pub fn effectful(decl: ToolDecl, effects: Effects) -> Self {
        Self { effects, repeatable: false, parallel: false, ..Self::read_only(decl) }
    }

    /// Sets the kind of work that the tool does, and the argument that best describes a call.
    /// People then read `fetch https://…` instead of all arguments. The role of the argument
    /// follows from the kind, except that `path` is a path and `command` a command.
    ///
    /// ```
    /// use deputize_core::{ArgumentRole, ToolKind, ToolSpec};
    /// use deputize_core::tool::spec_of;
    ///
    /// #[derive(schemars::JsonSchema)]
    /// struct Args {
    ///     /// The address of the page.
    ///     address: String,
    /// }
    ///
    /// let decl = spec_of::<Args>("get_page", "Get a web page as text.");
    /// let spec = ToolSpec::read_only(decl).about(ToolKind::Fetch, "address");
    /// assert_eq!(spec.subject.main(), Some(("address", ArgumentRole::Url)));
    /// ```
    #[must_use]
    pub fn about(self, kind: ToolKind, argument: impl Into<Cow<'static, str>>) -> Self {
        let argument = argument.into();
        let role = Subject::default().role(&argument).unwrap_or(kind.role());
        let subject = Subject::new(kind.verb().map(Cow::Borrowed), argument, role);
        Self { kind, subject, ..self }
    }

    /// Returns the effects of a call.
    #[must_use]
    pub fn effects_of(&self, arguments: &Value) -> Effects {
        match &self.harmless {
            Some(calls) if calls.include(arguments) => Effects::ReadOnly,
            _ => self.effects,
        }
    }

    /// Returns the first command of a call, and the arguments beside it; `None` if it has none.
    #[must_use]
    pub fn split_command(&self, arguments: &Value) -> Option<(String, Map<String, Value>)> {
        let (name, command) = self.subject.commands(arguments).next()?;
        let mut others = arguments.as_object()?.clone();
        others.remove(name);
        Some((command.to_owned(), others))
    }
}

/// Creates the declaration of a tool with typed arguments.
///
/// # Panics
/// If the name is invalid or the arguments are not a struct: mistakes of the author, found by the
/// crate's first test.
#[expect(clippy::panic, reason = "a mistake in the program, not in its input")]
#[must_use]
pub fn spec_of<A: schemars::JsonSchema>(name: &str, description: &str) -> ToolDecl {
    let name = ToolName::new(name).unwrap_or_else(|error| panic!("{error}"));
    let parameters =
        Schema::of::<A>().unwrap_or_else(|error| panic!("arguments of tool `{name}`: {error}"));
    ToolDecl { name, description: description.trim().to_owned(), parameters }
}

/// Returns the first line of a description, for lists.
#[must_use]
pub fn headline(description: &str) -> Cow<'_, str> {
    Cow::Borrowed(description.lines().next().unwrap_or_default())
}
