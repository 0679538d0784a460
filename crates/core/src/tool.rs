//! Tools: their specification, calls and results.

use std::borrow::Cow;
use std::error::Error;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::agent::{AgentView, ToolCx};
use crate::file_state::FileVersion;
use crate::message::ModelText;
use crate::model::BoxFuture;
use crate::name::{AgentId, ToolName};
use crate::outcome::Status;
use crate::sanitize::TextSource;
use crate::schema::Schema;
use crate::tool_subject::{Subject, ToolKind};

/// The declaration of a tool, as sent to a model. Its bytes are fixed while an agent lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDecl {
    /// Its name.
    pub name: ToolName,
    /// What it does and when to use it.
    pub description: String,
    /// Its arguments.
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

/// A call that shows a tool's use, run by the conformance check.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// Title of the example.
    pub title: &'static str,
    /// Its arguments.
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
    /// use deputize_core::{ArgumentRole, ToolKind, ToolSpec, spec_of};
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

    /// Returns the first command of a call, and the arguments beside it; `None` if it has none.
    #[must_use]
    pub fn split_command(&self, arguments: &Value) -> Option<(String, Map<String, Value>)> {
        let (name, command) = self.subject.commands(arguments).next()?;
        let mut others = arguments.as_object()?.clone();
        others.remove(name);
        Some((command.to_owned(), others))
    }
}

/// An effect of a call as the host observed it. Trusted only from built-in tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum ToolEffect {
    /// A file was read.
    FileRead {
        /// Its absolute path.
        path: PathBuf,
        /// Its content.
        version: FileVersion,
        /// Whether the agent has seen all of it, by this read and those before.
        whole: bool,
    },
    /// A file was created or changed.
    FileWritten {
        /// Its absolute path.
        path: PathBuf,
        /// Its new content.
        version: FileVersion,
        /// Whether the write created it.
        created: bool,
    },
    /// A command ended.
    Command {
        /// Its text.
        command: String,
        /// Its exit code; `None` if a signal killed it or its end was not observed.
        exit_code: Option<i32>,
        /// Whether its end was not observed, because the program ended first.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unknown: bool,
    },
    /// A child was not started, and no other record of it exists.
    NotBegun {
        /// The ID that it would have had.
        agent: AgentId,
        /// Index of the task in the call, from 0.
        task_index: u32,
        /// The model that it would have used.
        model: String,
        /// The status in its entry.
        status: Status,
        /// Why it was not started.
        error: String,
    },
    /// The agent's shell changed its directory.
    ShellMoved {
        /// The new directory, absolute.
        path: PathBuf,
    },
}

/// How a screen or an editor may show a result. Models do not see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "display", rename_all = "snake_case")]
pub enum Display {
    /// A change of one file, as a unified diff.
    Diff {
        /// Its path.
        path: PathBuf,
        /// The diff.
        diff: String,
    },
}

/// The output of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolOutput {
    /// The content for the model; it is framed later, so it may be anything.
    pub content: String,
    /// Source of the content, if other than the tool itself.
    pub source: Option<TextSource>,
    /// Remarks of the tool itself (what was cut, where the rest is), shown to the model after the
    /// frame, where content cannot imitate them.
    pub notes: Vec<String>,
    /// Effects that the host observed.
    pub facts: Vec<ToolEffect>,
    /// How the result may be shown.
    pub display: Option<Display>,
}

impl ToolOutput {
    /// Creates an output with only content.
    #[must_use]
    pub fn text(content: impl Into<String>) -> Self {
        Self { content: content.into(), ..Self::default() }
    }

    /// Adds a remark of the tool.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds an observed effect.
    #[must_use]
    pub fn fact(mut self, fact: ToolEffect) -> Self {
        self.facts.push(fact);
        self
    }
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// A refusal that the model can act on: what, which one, what to do.
    #[error("refused: {0}")]
    Refused(ModelText),
    /// The same, when the work had begun and has partial output.
    #[error("refused: {text}")]
    Partly {
        /// The text that the model can act on.
        text: ModelText,
        /// The output until then.
        output: Box<ToolOutput>,
    },
    /// A failure for the operator; the model gets one neutral sentence.
    #[error("the tool failed")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
    /// The same, if the model can act on a part of it.
    #[error("the tool failed")]
    Unavailable {
        /// The text that the model can act on, written only by the tool's author.
        text: ModelText,
        /// The failure, for the operator.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The call was cancelled; this is the output until then.
    #[error("cancelled")]
    Cancelled(Box<ToolOutput>),
}

impl ToolError {
    /// Creates a refusal that the model can act on.
    #[must_use]
    pub fn refused(text: impl Into<String>) -> Self {
        Self::Refused(ModelText::own(text))
    }

    /// Creates a failure for the operator.
    #[must_use]
    pub fn failed(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(source.into())
    }
}

/// The result of a call: output, or why it failed.
pub type ToolCallResult = Result<ToolOutput, ToolError>;

/// A tool as the runtime uses it, whether built in, linked, loaded or remote.
pub trait Tool: Send + Sync {
    /// Returns its specification, which never changes.
    fn spec(&self) -> &ToolSpec;

    /// Runs a call. The arguments match the schema of the spec.
    ///
    /// When `cx.cancel` is signalled, it settles soon with [`ToolError::Cancelled`] and its output
    /// so far. The future may be dropped only after that grace period.
    fn call<'a>(&'a self, arguments: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult>;

    /// Returns the declaration for this agent's model, if it depends on the agent. Called once,
    /// when the agent is created. The name is the same, and arguments that match it match the spec
    /// too.
    fn declare(&self, _agent: &AgentView) -> Option<ToolDecl> {
        None
    }

    /// Returns why this agent may not call the tool, for an agent that does not have it; `None` for
    /// a general reason.
    fn refusal(&self, _agent: &AgentView) -> Option<String> {
        None
    }

    /// Returns whether the tool parses its arguments itself, because it accepts more than its
    /// schema or explains mistakes better. Its arguments are then not checked: they may be any
    /// value, and text that is no JSON arrives as a string.
    fn reads_itself(&self) -> bool {
        false
    }

    /// Returns whether a call with these arguments may be repeated if a crash left it without a
    /// result.
    fn may_repeat(&self, _arguments: &Value) -> bool {
        self.spec().repeatable
    }
}

/// A tool as its author writes it: a name, a description, typed arguments and one function.
///
/// Mistakes that the model should know of and can act on are a [`ToolError::refused`]; faults of
/// the machine are a [`ToolError::failed`], for which the model gets one neutral sentence.
///
/// ```
/// use deputize_core::{
///     ToolCallResult, ToolCx, ToolError, ToolOutput, ToolSpec, TypedTool, spec_of,
/// };
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Args {
///     /// The words to count.
///     text: String,
/// }
///
/// struct CountWords;
///
/// impl TypedTool for CountWords {
///     type Args = Args;
///     fn spec() -> ToolSpec {
///         ToolSpec::read_only(spec_of::<Args>("count_words", "Count the words of a text."))
///     }
///     async fn run(&self, args: Args, cx: &ToolCx) -> ToolCallResult {
///         let mut count = 0;
///         for _word in args.text.split_whitespace() {
///             if cx.cancel.is_cancelled() {
///                 return Err(ToolError::Cancelled(Box::default()));
///             }
///             count += 1;
///         }
///         if count == 0 {
///             return Err(ToolError::refused("the text has no words: send some"));
///         }
///         Ok(ToolOutput::text(count.to_string()))
///     }
/// }
/// deputize_core::register_tool!("words", CountWords);
/// ```
pub trait TypedTool: Send + Sync + 'static {
    /// The type of its arguments.
    type Args: DeserializeOwned + Send;

    /// Returns its specification.
    fn spec() -> ToolSpec;

    /// Runs a call; see [`Tool::call`].
    fn run(&self, args: Self::Args, cx: &ToolCx) -> impl Future<Output = ToolCallResult> + Send;
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

/// Converts a typed tool into the form that the runtime uses.
pub fn erase<T: TypedTool>(tool: T) -> Arc<dyn Tool> {
    Arc::new(ErasedTool { spec: T::spec(), tool })
}

struct ErasedTool<T> {
    spec: ToolSpec,
    tool: T,
}

impl<T: TypedTool> Tool for ErasedTool<T> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, arguments: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        Box::pin(async move {
            let args = serde_json::from_value(arguments).map_err(|error| {
                ToolError::refused(format!("arguments of {}: {error}", self.spec.decl.name))
            })?;
            self.tool.run(args, cx).await
        })
    }
}

/// Returns the first line of a description, for lists.
#[must_use]
pub fn headline(description: &str) -> Cow<'_, str> {
    Cow::Borrowed(description.lines().next().unwrap_or_default())
}

const fn _object_safe(_: &dyn Tool) {}
