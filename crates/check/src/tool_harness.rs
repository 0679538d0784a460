//! A harness that calls single tools.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use deputize_core::agent::{AgentLimits, AgentSpec, Role};
use deputize_core::authority::{ApproverMode, Grant};
use deputize_core::file_state::FileLedger;
use deputize_core::model::ModelOptions;
use deputize_core::source_set::SourceSet;
use deputize_core::tool::{NoAgents, SessionView};
use deputize_core::{
    AgentId, AgentView, Authority, CallId, Cancel, Catalog, CatalogEntry, Origin, ResourceMap,
    SessionId, Tool, ToolCallResult, ToolCx, ToolsetName,
};
use serde_json::Value;

/// Calls a tool as an agent would, with a directory that it may read and write, no network and no
/// children. State of a call (files that were read, stored values) is kept for the next one.
///
/// Arguments reach the tool unchecked. In a running agent, they have been checked against the
/// tool's schema before.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use deputize_core::{ToolCallResult, ToolCx, ToolOutput, ToolSpec, TypedTool};
/// use deputize_core::tool::spec_of;
/// use deputize_check::ToolHarness;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Args {
///     /// What to turn around.
///     text: String,
/// }
///
/// struct Reverse;
///
/// impl TypedTool for Reverse {
///     type Args = Args;
///     fn spec() -> ToolSpec {
///         ToolSpec::read_only(spec_of::<Args>("reverse", "Turn a text around."))
///     }
///     async fn run(&self, args: Args, _cx: &ToolCx) -> ToolCallResult {
///         Ok(ToolOutput::text(args.text.chars().rev().collect::<String>()))
///     }
/// }
///
/// deputize_core::register_tool!("words", Reverse);
///
/// let dir = tempfile::tempdir().unwrap();
/// let bench = ToolHarness::new(dir.path());
/// let output = bench.call("reverse", serde_json::json!({"text": "abc"})).await.unwrap();
/// assert_eq!(output.content, "cba");
/// # }
/// ```
#[derive(Debug)]
pub struct ToolHarness {
    agent: Arc<AgentView>,
    cancel: Cancel,
    calls: AtomicU32,
}

impl ToolHarness {
    /// Creates a harness with all tools that are registered in this test program.
    ///
    /// # Panics
    /// If two tools have the same name.
    #[must_use]
    #[expect(clippy::panic, reason = "a test that is set up wrongly fails")]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let catalog = Catalog::linked(&[]).unwrap_or_else(|error| panic!("{error}"));
        Self::of(dir, catalog)
    }

    /// Creates a harness with these tools, registered or not.
    ///
    /// # Panics
    /// If two tools have the same name.
    #[must_use]
    #[expect(clippy::panic, reason = "a test that is set up wrongly fails")]
    pub fn with(dir: impl Into<PathBuf>, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        let mut catalog = Catalog::default();
        for tool in tools {
            catalog.insert(entry(tool)).unwrap_or_else(|error| panic!("{error}"));
        }
        Self::of(dir, catalog)
    }

    /// Creates a harness with one tool, and the settings of its session.
    pub(crate) fn of_one(
        dir: &Path,
        tool: &Arc<dyn Tool>,
        settings: ResourceMap,
        network: bool,
    ) -> Self {
        let mut catalog = Catalog::default();
        // A single tool has no name conflict.
        let _only = catalog.insert(entry(Arc::clone(tool)));
        Self::lending(dir.to_owned(), catalog, settings, network)
    }

    /// Creates a harness with the tools of a catalog.
    #[must_use]
    pub fn of(dir: impl Into<PathBuf>, catalog: Catalog) -> Self {
        Self::lending(dir.into(), catalog, ResourceMap::default(), false)
    }

    /// Creates a harness with the tools of a catalog, and the settings of their session.
    fn lending(dir: PathBuf, catalog: Catalog, settings: ResourceMap, network: bool) -> Self {
        let dir = dir.canonicalize().unwrap_or(dir);
        let id = SessionId::literal("bench");
        let session = SessionView {
            id: id.clone(),
            spill: dir.join(".spill"),
            files: FileLedger::default(),
            settings,
            spawn: Arc::new(NoAgents),
            control: Arc::new(NoAgents),
        };
        let mut spec = spec(AgentId::root(&id), dir, &catalog);
        spec.grant.network = Some(network);
        let agent = AgentView {
            authority: Arc::new(Authority::root(&catalog, &spec.grant)),
            declared: catalog.iter().map(|it| Arc::new(it.tool.spec().decl.clone())).collect(),
            spec: Arc::new(spec),
            catalog: Arc::new(catalog),
            store: ResourceMap::default(),
            session: Arc::new(session),
        };
        Self { agent: Arc::new(agent), cancel: Cancel::new(), calls: AtomicU32::new(0) }
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// If the call fails.
    ///
    /// # Panics
    /// If there is no such tool.
    #[expect(clippy::panic, reason = "a test that is set up wrongly fails")]
    pub async fn call(&self, tool: &str, arguments: Value) -> ToolCallResult {
        let Some(entry) = self.agent.catalog.get(tool) else {
            let names: Vec<_> = self.agent.catalog.iter().map(|it| it.name().as_str()).collect();
            panic!("no tool is called `{tool}` here; known: {}", names.join(", "));
        };
        entry.tool.call(arguments, &self.cx()).await
    }

    /// Returns the context of the next call; each has its own ID.
    pub fn cx(&self) -> ToolCx {
        let slot = self.calls.fetch_add(1, Ordering::Relaxed);
        ToolCx {
            call: CallId::new(1, slot),
            agent: Arc::clone(&self.agent),
            cancel: self.cancel.clone(),
        }
    }

    /// Returns the calling agent, whose session settings can be filled.
    #[must_use]
    pub fn agent(&self) -> &Arc<AgentView> {
        &self.agent
    }

    /// Returns the cancellation signal of the calls.
    #[must_use]
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }
}

fn entry(tool: Arc<dyn Tool>) -> CatalogEntry {
    let origin = Origin::Linked { krate: "bench".to_owned() };
    CatalogEntry { toolset: ToolsetName::literal("bench"), origin, tool }
}

fn spec(id: AgentId, dir: PathBuf, catalog: &Catalog) -> AgentSpec {
    let roots = || Some([dir.clone()].into());
    AgentSpec {
        id,
        parent: None,
        depth: 0,
        role: Role::Leaf,
        spawned_by: None,
        goal: "Test a tool.".to_owned(),
        task: "Test a tool.".to_owned(),
        model: "bench/none".to_owned(),
        images: Vec::new(),
        model_pinned: false,
        options: ModelOptions::default(),
        system: Vec::new(),
        prefill: Vec::new(),
        is_fork: false,
        toolsets: catalog.toolsets().into_iter().collect(),
        tools: catalog.iter().map(|entry| entry.name().clone()).collect(),
        grant: Grant {
            read: roots(),
            write: roots(),
            approver: Some(ApproverMode::Auto),
            ..Grant::default()
        },
        approver: ApproverMode::Auto,
        limits: AgentLimits { max_iterations: 1, time_ms: 0, wrap_up_ms: 0 },
        cwd: dir,
        context: None,
        output_schema: None,
        background: false,
        declared: None,
        unapproved: Vec::new(),
        profile: None,
        profile_max_iterations: None,
        task_sources: SourceSet::new(),
        system_sources: SourceSet::new(),
    }
}

#[cfg(test)]
mod tests {
    use deputize_core::tool::spec_of;
    use deputize_core::{ToolOutput, ToolSpec, TypedTool, erase};
    use serde_json::json;

    use super::*;

    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct NoArgs {}

    struct WhereAmI;

    impl TypedTool for WhereAmI {
        type Args = NoArgs;
        fn spec() -> ToolSpec {
            ToolSpec::read_only(spec_of::<NoArgs>("where_am_i", "Say where."))
        }
        async fn run(&self, _: NoArgs, cx: &ToolCx) -> ToolCallResult {
            let spec = Arc::clone(&cx.agent.spec);
            let spawn = &cx.agent.session.spawn;
            let mut starts = spawn.attach(&cx.agent, vec![&spec], None, &cx.cancel).unwrap();
            assert!(starts.pop().unwrap().start().await.is_err());
            let writable = cx.agent.authority.may_write(&spec.cwd);
            Ok(ToolOutput::text(format!("{} {writable}", cx.call)))
        }
    }

    #[tokio::test]
    async fn each_call_has_its_own_id_in_a_writable_directory_without_children() {
        let dir = tempfile::tempdir().unwrap();
        let bench = ToolHarness::with(dir.path(), [erase(WhereAmI)]);
        let mut seen = Vec::new();
        for _ in 0..2 {
            seen.push(bench.call("where_am_i", json!({})).await.unwrap().content);
        }
        assert_eq!(seen, ["call_1_0 true", "call_1_1 true"]);
    }
}
