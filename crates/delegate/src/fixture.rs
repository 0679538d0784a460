//! Parents for the tests of this crate.

use std::collections::BTreeSet;
use std::path::PathBuf;

use deputize_core::agent::{AgentLimits, AgentSpec, Role};
use deputize_core::authority::{ApproverMode, Grant};
use deputize_core::model::ModelOptions;
use deputize_core::schema::Schema;
use deputize_core::source_set::SourceSet;
use deputize_core::{
    AgentId, Authority, BoxFuture, Catalog, CatalogEntry, Effects, Origin, ParentOnly, SessionId,
    Tool, ToolCallResult, ToolCx, ToolDecl, ToolKind, ToolName, ToolOutput, ToolSpec, ToolsetName,
};
use serde_json::{Value, json};

use crate::config::DelegationConfig;
use crate::parent_view::ParentView;
use crate::toolset::send_order;

/// A tool that does nothing.
struct IdleTool(ToolSpec);

impl Tool for IdleTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call<'a>(&'a self, _: Value, _: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        Box::pin(async { Ok(ToolOutput::default()) })
    }
}

/// Everything that a [`ParentView`] borrows.
pub(crate) struct ParentFixture {
    pub(crate) spec: AgentSpec,
    pub(crate) authority: Authority,
    pub(crate) catalog: Catalog,
}

impl ParentFixture {
    /// A top agent with tools written `TOOLSET/TOOL`, of an MCP server when the toolset begins
    /// with `mcp-`; those after a `-` are in the catalog and not the parent's.
    pub(crate) fn new(tools: &str) -> Self {
        Self::under(tools, &DelegationConfig::default())
    }

    /// The same under these settings.
    pub(crate) fn under(tools: &str, config: &DelegationConfig) -> Self {
        let (own, others) = tools.split_once(" - ").unwrap_or((tools, ""));
        let catalog = catalog(own.split_whitespace().chain(others.split_whitespace()));
        let own = own.split_whitespace().map(|path| path.rsplit('/').next().unwrap());
        let tools = send_order(own.filter_map(|name| catalog.get(name)), config);
        let grant = Grant {
            tools: Some(tools.iter().cloned().collect()),
            write: Some(BTreeSet::from([PathBuf::from("/repo/app")])),
            read: Some(BTreeSet::from([PathBuf::from("/")])),
            approver: Some(ApproverMode::Ask),
            spawn_depth: Some(3),
            spawn_number: Some(200),
            ..Grant::default()
        };
        let authority = Authority::root(&catalog, &grant);
        Self { spec: top(tools, grant), authority, catalog }
    }

    /// The tools of a program in which some of these are other tools of the same name.
    pub(crate) fn swapped(tools: &str, others: &str) -> Catalog {
        let mut catalog = Catalog::default();
        for path in tools.split_whitespace() {
            let entry = made(path);
            let entry = if others.split_whitespace().any(|other| other == path) {
                CatalogEntry { origin: Origin::Mcp { server: "other".to_owned() }, ..entry }
            } else {
                entry
            };
            catalog.insert(entry).unwrap();
        }
        catalog
    }

    pub(crate) fn parent(&self) -> ParentView<'_> {
        let Self { spec, authority, catalog } = self;
        ParentView { spec, authority, catalog, declared: &[], shell: None, settings: None }
    }

    /// The family of a child of this one.
    pub(crate) fn below(&self, spec: AgentSpec) -> Self {
        let authority = self.authority.intersect(&spec.grant);
        Self { spec, authority, catalog: self.catalog.clone() }
    }
}

fn top(tools: Vec<ToolName>, grant: Grant) -> AgentSpec {
    AgentSpec {
        id: AgentId::root(&SessionId::literal("s1")),
        parent: None,
        depth: 0,
        role: Role::Orchestrator,
        spawned_by: None,
        goal: "Everything.".to_owned(),
        task: "Everything.".to_owned(),
        model: "local/qwen3".to_owned(),
        images: Vec::new(),
        model_pinned: false,
        options: ModelOptions::default(),
        system: Vec::new(),
        prefill: Vec::new(),
        is_fork: false,
        toolsets: Vec::new(),
        tools,
        grant,
        approver: ApproverMode::Ask,
        limits: AgentLimits { max_iterations: 90, time_ms: 0, wrap_up_ms: 0 },
        cwd: PathBuf::from("/repo/app"),
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

pub(crate) fn tool_name(name: &str) -> ToolName {
    ToolName::new(name).unwrap()
}

pub(crate) fn toolset(name: &str) -> ToolsetName {
    ToolsetName::new(name).unwrap()
}

pub(crate) fn toolsets(names: &str) -> BTreeSet<ToolsetName> {
    names.split_whitespace().map(toolset).collect()
}

fn catalog<'a>(tools: impl Iterator<Item = &'a str>) -> Catalog {
    let mut catalog = Catalog::default();
    for path in tools {
        catalog.insert(made(path)).unwrap();
    }
    catalog
}

fn made(path: &str) -> CatalogEntry {
    let (set, name) = path.split_once('/').unwrap();
    let origin = match set.strip_prefix("mcp-") {
        Some(server) => Origin::Mcp { server: server.to_owned() },
        None => Origin::Linked { krate: "tools".to_owned() },
    };
    let decl = ToolDecl {
        name: tool_name(name),
        description: String::new(),
        parameters: Schema::new(&json!({"type": "object"})).unwrap(),
    };
    // As the tools of these names are.
    let mut spec = match name {
        "terminal" => ToolSpec::effectful(decl, Effects::Unknown),
        _ => ToolSpec::read_only(decl),
    };
    spec.kind = match name {
        "terminal" => ToolKind::Execute,
        "read_file" => ToolKind::Read,
        "edit_file" | "write_file" => ToolKind::Edit,
        "list_dir" | "search_files" => ToolKind::Search,
        "delegate_control" | "delegate_task" | "task" | "workflow" => ToolKind::Delegate,
        _ => ToolKind::Other,
    };
    spec.parent_only = match name {
        "cronjob" => Some(ParentOnly::OutlivesTurn),
        "execute_code" => Some(ParentOnly::RunsScripts),
        "clarify" => Some(ParentOnly::Other("a child has nobody to ask")),
        "memory" => Some(ParentOnly::Other("what is remembered is the top agent's")),
        "todo" => Some(ParentOnly::Other("the plan is the parent's")),
        _ => None,
    };
    let tool = std::sync::Arc::new(IdleTool(spec));
    CatalogEntry { toolset: toolset(set), origin, tool }
}
