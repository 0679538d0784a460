//! Tools: the traits that authors and the runtime use.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::future::BoxFuture;
use crate::resource::ResourceMap;
use crate::source_set::SourceSet;
use crate::tool_output::{ToolCallResult, ToolError};
use crate::tool_spec::{Availability, ToolDecl, ToolSpec};

mod catalog;
mod context;
mod entry;
mod index;

pub use crate::call_check::{CallCheck, CallRisk};
pub use crate::tool_output::DisplayedDiff;
pub use crate::tool_return::{IntoToolCallResult, IntoToolOutput};
pub use crate::tool_spec::{HarmlessCalls, ToolGuidance, headline, spec_of};
pub use catalog::{
    Catalog, CatalogError, CompositeToolset, Registration, ToolCrate, ToolSource, ToolsetParts,
};
pub use context::{
    AgentControl, AgentView, ChildLifecycle, ChildStart, DescendantCounts, DescendantLimit,
    LimitScope, NoAgents, Progress, SessionView, Spawn, SpawnConditions, ToolCx,
};
pub use entry::CatalogEntry;
pub use index::{IndexedCall, ToolIndex};

/// A tool as the runtime uses it, whether built in, linked, loaded or remote.
pub trait Tool: Send + Sync {
    /// Returns its specification, which never changes.
    fn spec(&self) -> &ToolSpec;

    /// Runs a call. The arguments match the schema of the spec.
    ///
    /// When `cx.cancel` is signalled, it settles soon with [`ToolError::Cancelled`] and its output
    /// so far. The future may be dropped only after that grace period.
    fn call<'a>(&'a self, arguments: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult>;

    /// Returns whether it can be used with the settings of a session, such as a key that it needs.
    /// A tool that cannot be used is not sent to models. The default is what the spec says.
    fn availability(&self, _settings: &ResourceMap) -> Availability {
        self.spec().usable.clone()
    }

    /// Returns text for the system prompt of agents that have the tool, made with the settings of a
    /// session; `None` for none. Called once for all agents of a program, and only if an agent has
    /// the tool.
    fn guidance(&self, _settings: &ResourceMap) -> Option<String> {
        None
    }

    /// Returns the sources of that text, beside this program.
    fn guidance_sources(&self, _settings: &ResourceMap) -> SourceSet {
        SourceSet::new()
    }

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

    /// Looks at a call before anybody is asked about it, without effects: whether the tool would
    /// refuse it, and whether it needs an approval that its effects alone do not. The call itself
    /// checks again, as things may have changed by then.
    fn check<'a>(
        &'a self,
        _arguments: &'a Value,
        _cx: &'a ToolCx,
    ) -> BoxFuture<'a, Result<CallCheck, ToolError>> {
        Box::pin(std::future::ready(Ok(CallCheck::Accepted)))
    }

    /// Returns what a person who is asked about a call must know beside its arguments, such as the
    /// job that it names: texts by their names.
    fn question_details<'a>(
        &'a self,
        _arguments: &'a Value,
        _agent: &'a AgentView,
    ) -> BoxFuture<'a, Map<String, Value>> {
        Box::pin(std::future::ready(Map::new()))
    }

    /// Returns the directory in which a call would work, for the person who is asked about it.
    fn working_directory(&self, _arguments: &Value, agent: &AgentView) -> PathBuf {
        agent.spec.cwd.clone()
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
/// use deputize_core::{ToolCallResult, ToolCx, ToolError, ToolOutput, ToolSpec, TypedTool};
/// use deputize_core::tool::spec_of;
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

    /// Returns whether it can be used with the settings of a session; see [`Tool::availability`].
    fn availability(&self, _settings: &ResourceMap) -> Availability {
        Availability::Yes
    }

    /// Returns text for the system prompt of agents that have the tool; see [`Tool::guidance`].
    fn guidance(&self, _settings: &ResourceMap) -> Option<String> {
        None
    }

    /// Returns the sources of that text; see [`Tool::guidance_sources`].
    fn guidance_sources(&self, _settings: &ResourceMap) -> SourceSet {
        SourceSet::new()
    }

    /// Returns the declaration for this agent's model, if it depends on the agent; see
    /// [`Tool::declare`].
    fn declare(&self, _agent: &AgentView) -> Option<ToolDecl> {
        None
    }

    /// Looks at a call before anybody is asked about it, without effects; see [`Tool::check`].
    ///
    /// # Errors
    /// If the tool would refuse the call, whatever anybody answers.
    fn check(
        &self,
        _args: Self::Args,
        _cx: &ToolCx,
    ) -> impl Future<Output = Result<CallCheck, ToolError>> + Send {
        std::future::ready(Ok(CallCheck::Accepted))
    }

    /// Returns what a person who is asked must know beside the arguments; see
    /// [`Tool::question_details`].
    fn question_details(
        &self,
        _args: Self::Args,
        _agent: &AgentView,
    ) -> impl Future<Output = Map<String, Value>> + Send {
        std::future::ready(Map::new())
    }

    /// Returns the directory in which a call would work; see [`Tool::working_directory`].
    fn working_directory(&self, _args: Self::Args, agent: &AgentView) -> PathBuf {
        agent.spec.cwd.clone()
    }

    /// Runs a call; see [`Tool::call`].
    fn run(&self, args: Self::Args, cx: &ToolCx) -> impl Future<Output = ToolCallResult> + Send;
}

/// Converts a typed tool into the form that the runtime uses.
pub fn erase<T: TypedTool>(tool: T) -> Arc<dyn Tool> {
    Arc::new(ErasedTool { spec: T::spec(), tool })
}

struct ErasedTool<T> {
    spec: ToolSpec,
    tool: T,
}

impl<T> ErasedTool<T> {
    fn misfit(&self, error: &serde_json::Error) -> ToolError {
        ToolError::refused(format!("arguments of {}: {error}", self.spec.decl.name))
    }
}

impl<T: TypedTool> Tool for ErasedTool<T> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn availability(&self, settings: &ResourceMap) -> Availability {
        match &self.spec.usable {
            Availability::Yes => self.tool.availability(settings),
            Availability::No(why) => Availability::No(why.clone()),
        }
    }

    fn guidance(&self, settings: &ResourceMap) -> Option<String> {
        self.tool.guidance(settings)
    }

    fn guidance_sources(&self, settings: &ResourceMap) -> SourceSet {
        self.tool.guidance_sources(settings)
    }

    fn declare(&self, agent: &AgentView) -> Option<ToolDecl> {
        self.tool.declare(agent)
    }

    fn check<'a>(
        &'a self,
        arguments: &'a Value,
        cx: &'a ToolCx,
    ) -> BoxFuture<'a, Result<CallCheck, ToolError>> {
        Box::pin(async move {
            let args = T::Args::deserialize(arguments).map_err(|error| self.misfit(&error))?;
            self.tool.check(args, cx).await
        })
    }

    fn question_details<'a>(
        &'a self,
        arguments: &'a Value,
        agent: &'a AgentView,
    ) -> BoxFuture<'a, Map<String, Value>> {
        match T::Args::deserialize(arguments) {
            Ok(args) => Box::pin(self.tool.question_details(args, agent)),
            // The call will say so.
            Err(_) => Box::pin(std::future::ready(Map::new())),
        }
    }

    fn working_directory(&self, arguments: &Value, agent: &AgentView) -> PathBuf {
        match T::Args::deserialize(arguments) {
            Ok(args) => self.tool.working_directory(args, agent),
            Err(_) => agent.spec.cwd.clone(),
        }
    }

    fn call<'a>(&'a self, arguments: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        Box::pin(async move {
            let args = serde_json::from_value(arguments).map_err(|error| self.misfit(&error))?;
            self.tool.run(args, cx).await
        })
    }
}

const fn _object_safe(_: &dyn Tool) {}
