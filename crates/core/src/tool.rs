//! The thing a model can call.

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

/// What a model is told of a tool. These bytes are fixed while an agent lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDecl {
    /// Its name.
    pub name: ToolName,
    /// What it does and when to use it.
    pub description: String,
    /// Its arguments.
    pub parameters: Schema,
}

/// What a call may do to the world. What a remote side claims never raises trust.
///
/// The policy of the command line lets calls of the first two kinds run unasked and asks before
/// the third. Nothing bounds what a tool's own code does: one that opens files keeps to
/// `cx.agent.authority.may_read(path)` and `may_write(path)` itself, with paths made absolute
/// against `cx.agent.spec.cwd`, and asks again for where links on the way lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effects {
    /// It only looks.
    ReadOnly,
    /// It changes files under the write roots.
    WritesFiles,
    /// It may do anything.
    Unknown,
}

/// Whether a tool can be used now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Availability {
    /// It can.
    Yes,
    /// It cannot: why, and what to do.
    No(String),
}

/// A call that shows a tool's use; the conformance check runs it.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// What it shows.
    pub title: &'static str,
    /// Its arguments.
    pub arguments: Value,
}

/// What a tool is, as data. What happens around a call (policy, records, limits) follows from
/// it and is not the tool's business.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// What the model is told.
    pub decl: ToolDecl,
    /// What a call may do.
    pub effects: Effects,
    /// The sort of work that it does, for people and editors.
    pub kind: ToolKind,
    /// Which arguments tell what a call is about.
    pub subject: Subject,
    /// Whether a call may be run again when a crash left it without a result.
    pub repeatable: bool,
    /// Whether it does nothing but start agents. Such a call is made again in a replay, which
    /// runs nothing else.
    pub spawns: bool,
    /// Whether calls of one step may run side by side. A call that may not is a barrier.
    pub parallel: bool,
    /// After how long a call is told to end; nothing: the tool watches its own time.
    pub time_limit: Option<Duration>,
    /// Whether it can be used now.
    pub usable: Availability,
    /// Calls that show its use.
    pub examples: Vec<Example>,
}

impl ToolSpec {
    /// A tool that only looks: repeatable, side by side, two minutes.
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

    /// A tool that may do anything: never repeated, alone, two minutes.
    #[must_use]
    pub fn effectful(decl: ToolDecl, effects: Effects) -> Self {
        Self { effects, repeatable: false, parallel: false, ..Self::read_only(decl) }
    }

    /// Returns the spec with the sort of work that the tool does, and the argument that tells most
    /// of a call. People then read `fetch https://…`, not all arguments. What the argument is
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

/// What the host saw a call do. Believed from our own tools only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum ToolEffect {
    /// A file was read.
    FileRead {
        /// Its absolute path.
        path: PathBuf,
        /// What was there.
        version: FileVersion,
        /// Whether the agent has seen all of it, by this read and those before.
        whole: bool,
    },
    /// A file was created or changed.
    FileWritten {
        /// Its absolute path.
        path: PathBuf,
        /// What is there now.
        version: FileVersion,
        /// Whether there was none before.
        created: bool,
    },
    /// A command ended.
    Command {
        /// Its text.
        command: String,
        /// Its exit code; nothing when a signal ended it, or nobody saw its end.
        exit_code: Option<i32>,
        /// Nobody saw its end: the program ended before it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unknown: bool,
    },
    /// A child was not begun: there is no other record of it.
    NotBegun {
        /// The name that it would have had.
        agent: AgentId,
        /// Which task of the call it is, from 0.
        task_index: u32,
        /// The model that it would have asked.
        model: String,
        /// What its entry tells.
        status: Status,
        /// Why.
        error: String,
    },
    /// The agent's shell is in another directory than before.
    ShellMoved {
        /// Which: an absolute path.
        path: PathBuf,
    },
}

/// How a screen or an editor may show a result. No model reads it.
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

/// What a call gives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolOutput {
    /// The content, for the model; it is framed on its way, so it may be anything.
    pub content: String,
    /// Where the content comes from, when it is not simply the tool's.
    pub source: Option<TextSource>,
    /// Remarks of the tool itself (what was cut, where the rest is), shown to the model after
    /// the frame, where content cannot imitate them.
    pub notes: Vec<String>,
    /// What the host saw.
    pub facts: Vec<ToolEffect>,
    /// How it may be shown.
    pub display: Option<Display>,
}

impl ToolOutput {
    /// Content and nothing else.
    #[must_use]
    pub fn text(content: impl Into<String>) -> Self {
        Self { content: content.into(), ..Self::default() }
    }

    /// The same with a remark of the tool.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// The same with something the host saw.
    #[must_use]
    pub fn fact(mut self, fact: ToolEffect) -> Self {
        self.facts.push(fact);
        self
    }
}

/// How a call fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The model can act on it: what, which one, what to do.
    #[error("refused: {0}")]
    Refused(ModelText),
    /// The same, when the work had begun and left something to tell.
    #[error("refused: {text}")]
    Partly {
        /// What the model can act on.
        text: ModelText,
        /// What was done and seen until then.
        output: Box<ToolOutput>,
    },
    /// For the operator; the model gets one neutral sentence.
    #[error("the tool failed")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
    /// The same, where the model can act on a part of it.
    #[error("the tool failed")]
    Unavailable {
        /// What the model can act on, in words of the tool's author alone.
        text: ModelText,
        /// For the operator.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The signal was seen; what had been done until then.
    #[error("cancelled")]
    Cancelled(Box<ToolOutput>),
}

impl ToolError {
    /// A refusal that the model can act on.
    #[must_use]
    pub fn refused(text: impl Into<String>) -> Self {
        Self::Refused(ModelText::own(text))
    }

    /// A failure for the operator.
    #[must_use]
    pub fn failed(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(source.into())
    }
}

/// What a call gives or how it fails.
pub type ToolCallResult = Result<ToolOutput, ToolError>;

/// A tool as the runtime holds it: built in, linked, loaded or remote alike.
pub trait Tool: Send + Sync {
    /// What it is. The same for its whole life.
    fn spec(&self) -> &ToolSpec;

    /// Does one call. The arguments fit the schema of the spec.
    ///
    /// When `cx.cancel` is signalled it settles soon, with [`ToolError::Cancelled`] and what
    /// it has. The future may be dropped only after that grace.
    fn call<'a>(&'a self, arguments: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult>;

    /// What this agent's model is told, where that depends on the agent. Asked once, when the
    /// agent is made. The name stays, and what fits these parameters fits those of the spec.
    fn declare(&self, _agent: &AgentView) -> Option<ToolDecl> {
        None
    }

    /// Why this agent may not call it, for an agent that does not have it. Without a reason of its
    /// own the agent's model gets a general one.
    fn refusal(&self, _agent: &AgentView) -> Option<String> {
        None
    }

    /// Whether it reads its arguments itself, because it takes more than its schema says, or says
    /// better what is wrong. Then they are not checked: they may be any value, and a text that is
    /// no JSON comes as a string.
    fn reads_itself(&self) -> bool {
        false
    }

    /// Whether a call with these arguments may be run again when a crash left it without a result.
    fn may_repeat(&self, _arguments: &Value) -> bool {
        self.spec().repeatable
    }
}

/// A tool as its author writes it: a name, a sentence, typed arguments, one function.
///
/// What the model should know and can act on is a [`ToolError::refused`]; what is wrong with
/// the machine is a [`ToolError::failed`], of which the model gets one neutral sentence.
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
    /// Its arguments.
    type Args: DeserializeOwned + Send;

    /// What it is.
    fn spec() -> ToolSpec;

    /// Does one call; see [`Tool::call`].
    fn run(&self, args: Self::Args, cx: &ToolCx) -> impl Future<Output = ToolCallResult> + Send;
}

/// What the model is told of a tool with typed arguments.
///
/// # Panics
/// When the name is no tool name or the arguments are not a struct: a mistake of the author
/// that the first test of the crate meets.
#[expect(clippy::panic, reason = "a mistake in the program, not in its input")]
#[must_use]
pub fn spec_of<A: schemars::JsonSchema>(name: &str, description: &str) -> ToolDecl {
    let name = ToolName::new(name).unwrap_or_else(|error| panic!("{error}"));
    let parameters =
        Schema::of::<A>().unwrap_or_else(|error| panic!("arguments of tool `{name}`: {error}"));
    ToolDecl { name, description: description.trim().to_owned(), parameters }
}

/// Makes a typed tool one that the runtime holds.
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

/// The first line of a description, for lists.
#[must_use]
pub fn headline(description: &str) -> Cow<'_, str> {
    Cow::Borrowed(description.lines().next().unwrap_or_default())
}

const fn _object_safe(_: &dyn Tool) {}
