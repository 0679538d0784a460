//! Tools of MCP servers in children: a server that runs, in a program put together from the
//! libraries.

use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::authority::Grant;
use deputize_core::clock::FixedClock;
use deputize_core::model::Reply;
use deputize_core::schema::Schema;
use deputize_core::{
    Authority, BoxFuture, Cancel, Catalog, CatalogEntry, Origin, Resource as _, SessionId, Tool,
    ToolCallResult, ToolCx, ToolDecl, ToolName, ToolOutput, ToolSpec, ToolsetName,
};
use deputize_delegate::{
    ChildToolsets, DelegateTool, DelegationConfig, DelegationOptions, send_order,
};
use deputize_mcp::{ServerConfig, ServerDirectory, ServerRecord, Servers, ToolFilter, look, offer};
use deputize_process::Supervisor;
use deputize_runtime::{Session, SessionConfig, SessionDir};
use deputize_testkit::ScriptedModel;
use serde_json::{Value, json};

use crate::program::hint_commands;

/// A tool that answers with its name.
struct Remote(ToolSpec);

impl Tool for Remote {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call<'a>(&'a self, _: Value, _: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        Box::pin(async move { Ok(ToolOutput::text(format!("{} answered", self.0.decl.name))) })
    }
}

fn entry(toolset: &'static str, tool: &'static str, origin: Origin, kind: &str) -> CatalogEntry {
    let decl = ToolDecl {
        name: ToolName::literal(tool),
        description: String::new(),
        parameters: Schema::new(&json!({"type": kind})).unwrap(),
    };
    let tool = Arc::new(Remote(ToolSpec::read_only(decl)));
    CatalogEntry { toolset: ToolsetName::literal(toolset), origin, tool }
}

/// A server `git` with one tool, `echo`.
fn git() -> ServerConfig {
    let program = env!("CARGO_BIN_EXE_deputize-mcp-faulty");
    ServerConfig::program(
        "git",
        program,
        vec!["none".into()],
        BTreeMap::new(),
        ServerDirectory::At("/".into()),
    )
    .unwrap()
}

async fn catalog(policy: &DelegationConfig) -> Catalog {
    let mut catalog = Catalog::linked(&[deputize_tools::LINK]).unwrap();
    let listed = look(git(), "/", || Supervisor::start().map(Arc::new)).await.unwrap();
    let mut record = ServerRecord::default();
    record.record_and_approve(&git().start(), listed);
    for entry in
        offer("git", &record, &git().start(), &ToolFilter::default(), &hint_commands()).entries
    {
        catalog.insert(entry).unwrap();
    }
    // A name alone makes no MCP tool.
    let linked = Origin::Linked { krate: "notes".to_owned() };
    catalog.insert(entry("mcp-notes", "mcp_note", linked, "object")).unwrap();
    let tool = DelegateTool::new(policy.clone(), Arc::new(FixedClock(0))).unwrap();
    catalog.insert(tool.into_entry()).unwrap();
    catalog
}

/// Returns the tools of a child whose call names the toolset `file`, and the results of its calls
/// of the two other tools.
async fn child(policy: DelegationConfig) -> (Vec<String>, Vec<String>) {
    let model = Arc::new(ScriptedModel::rule(|seen| {
        let calls = |calls: Vec<(&str, Value)>| Some(Reply::calls("m", calls).into());
        match (seen.task(), seen.results().len()) {
            ("Hand on", 0) => {
                calls(vec![("delegate_task", json!({"goal": "Look", "toolsets": ["file"]}))])
            }
            ("Look", 0) => {
                let echo = json!({"text": "from below"});
                calls(vec![("mcp__git__echo", echo), ("mcp_note", json!({}))])
            }
            _ => Some(Reply::text("m", "Done.").into()),
        }
    }));
    let folder = tempfile::tempdir().unwrap();
    let mut config = SessionConfig::new(catalog(&policy).await);
    let servers = Servers::new(vec![git()], "/", |_| Supervisor::start().map(Arc::new));
    let servers = config.tools.settings.get_or_insert_with(|| servers);
    config.models.insert("test/m", "m", model.clone());
    let dir = SessionDir::new(folder.path().join("sessions"));
    let session = Session::create(&dir, SessionId::literal("mcp"), config).unwrap();
    let mut spec = session.top_agent("test/m", "Hand on", folder.path());
    spec.tools = send_order(session.catalog().iter(), &policy);
    let grant = Grant { spawn_depth: Some(1), spawn_number: Some(9), ..Grant::default() };
    let authority = Authority::root(session.catalog(), &grant);
    session.run(spec, authority, &Cancel::new()).await;
    servers.close().await;
    let requests = model.requests();
    let mut mine = requests.iter().filter(|seen| seen.task() == "Look");
    let first = mine.next().unwrap();
    let second = mine.next().unwrap();
    let tools = first.tools.iter().map(|tool| tool.name.to_string()).collect();
    let results = second.results().into_iter().map(|result| result.text.as_str().to_owned());
    (tools, results.collect())
}

#[tokio::test]
async fn tools_of_mcp_servers_stay_unless_the_operator_says_otherwise() {
    const FILE: [&str; 6] =
        ["apply_patch", "edit_file", "list_dir", "read_file", "search_files", "write_file"];
    let (tools, results) = child(DelegationConfig::default()).await;
    assert_eq!(
        tools,
        [
            "apply_patch",
            "edit_file",
            "list_dir",
            "mcp__git__echo",
            "read_file",
            "search_files",
            "write_file"
        ]
    );
    assert!(results[0].contains("echo: from below"), "{results:?}");
    assert!(results[1].starts_with("error: there is no tool `mcp_note`"), "{results:?}");

    let (tools, results) = child(DelegationConfig {
        options: DelegationOptions { inherit_mcp_toolsets: false, ..DelegationOptions::default() },
        ..DelegationConfig::default()
    })
    .await;
    assert_eq!(tools, FILE);
    assert!(results[0].starts_with("error: there is no tool `mcp__git__echo`"), "{results:?}");

    let ceiling = [ToolsetName::literal("file"), ToolsetName::literal("delegation")].into();
    let (tools, _) = child(DelegationConfig {
        toolsets: ChildToolsets { ceiling: Some(ceiling), ..ChildToolsets::default() },
        ..DelegationConfig::default()
    })
    .await;
    assert_eq!(tools, FILE, "the ceiling cuts them too");
}

/// A right is about the very tool: another one that takes its place while an agent lives, or
/// between two runs of a session, is not the agent's, nor any child's.
#[tokio::test]
async fn a_tool_that_changed_is_nobodys() {
    let policy = DelegationConfig::default();
    let before = catalog(&policy).await;
    let all = Grant { spawn_depth: Some(1), spawn_number: Some(9), ..Grant::default() };
    let parent = Authority::root(&before, &all);
    let child = parent.intersect(&Grant::default());
    assert!(child.permits(before.get("mcp__git__echo").unwrap()).is_ok());
    for (origin, kind) in [
        (Origin::Mcp { server: "other".to_owned() }, "object"),
        (Origin::Linked { krate: "git".to_owned() }, "object"),
    ] {
        let mut after = Catalog::default();
        after.insert(entry("mcp-git", "mcp__git__echo", origin, kind)).unwrap();
        let changed = after.get("mcp__git__echo").unwrap();
        assert!(parent.permits(changed).is_err() && child.permits(changed).is_err());
    }
}
