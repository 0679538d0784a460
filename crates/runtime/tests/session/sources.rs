//! Each message and each result says where it comes from, and what an agent has read from outside
//! follows from that.

use std::path::Path;
use std::sync::Arc;

use deputize_core::agent::AgentSpec;
use deputize_core::hook::{Hook, HookAnswer, HookInput, HookPoint};
use deputize_core::model::{Reply, Request};
use deputize_core::outside_sources::OutsideSources;
use deputize_core::source::Source;
use deputize_core::{
    BoxFuture, Cancel, Event, Message, Origin, Record, ToolCallResult, ToolCx, ToolError, ToolName,
    ToolOutput, ToolSpec,
};
use deputize_runtime::SessionConfig;
use serde_json::{Value, json};

use crate::fixture::{
    World, catalog, config, cut, decl, insert_tool, insert_tool_of, look, resumed, run, spec,
};
use crate::nested::nest;

/// Returns a page of a host, or the error of one if `n` is 0.
fn fetch<'a>(_: &'a World, arguments: Value, _: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
    Box::pin(async move {
        let source = Some(Source::web("a.example"));
        let output = ToolOutput { source, ..ToolOutput::text("a page") };
        if arguments["n"] == 0 {
            return Err(ToolError::Cancelled(Box::new(output)));
        }
        Ok(output)
    })
}

/// Notes what its agent has read from outside.
fn probe<'a>(world: &'a World, _: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
    Box::pin(async move {
        let read = cx.agent.store.get_or_insert_with(OutsideSources::default).sources();
        let read: Vec<String> = read.iter().map(Source::to_string).collect();
        world.done.lock().push(format!("{} has read {}", cx.agent.id(), read.join(" ")));
        Ok(ToolOutput::text("noted"))
    })
}

fn sourced<F>(world: &Arc<World>, rule: F) -> SessionConfig
where
    F: Fn(usize, &Request<'_>) -> Reply + Send + Sync + 'static,
{
    let mut catalog = catalog(world);
    for (name, act) in [("fetch", fetch as crate::fixture::Act), ("probe", probe), ("nest", nest)] {
        insert_tool(&mut catalog, world, ToolSpec::read_only(decl(name)), act);
    }
    let server = Origin::Mcp { server: "docs".to_owned() };
    insert_tool_of(&mut catalog, world, server, ToolSpec::read_only(decl("served")), look);
    let plugin = Origin::Plugin { path: "/plugins/words.so".into() };
    insert_tool_of(&mut catalog, world, plugin, ToolSpec::read_only(decl("plugged")), look);
    let mut config = config(world, move |results, request| Ok(rule(results, request)));
    config.tools.catalog = Arc::new(catalog);
    config
}

fn sourced_spec(folder: &Path) -> AgentSpec {
    let mut spec = spec(folder);
    spec.tools.extend(["fetch", "probe", "nest", "served", "plugged"].map(ToolName::literal));
    spec
}

/// Returns the first message of an agent.
fn task(request: &Request<'_>) -> String {
    match request.messages.first().map(|it| &**it) {
        Some(Message::User(task)) => task.text.clone(),
        _ => String::new(),
    }
}

fn call(tool: &str, arguments: Value) -> Reply {
    Reply::calls("rule", [(tool, arguments)])
}

/// Returns the sources of each message and each result, in order.
fn sources(records: &[Record]) -> String {
    let line = |record: &Record| {
        let (what, sources) = match &record.event {
            Event::Message(message) => ("message", &message.sources),
            Event::ToolEnd(end) => (&*end.tool, &end.result.sources),
            _ => return None,
        };
        let sources: Vec<String> = sources.iter().map(Source::to_string).collect();
        Some(format!("{} {what}: {}", record.agent, sources.join(" ")))
    };
    records.iter().filter_map(line).collect::<Vec<_>>().join("\n")
}

#[tokio::test(start_paused = true)]
async fn each_result_names_its_sources() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, request: &Request<'_>| match (&*task(request), results) {
        ("go", 0) => call("look", json!({})),
        ("go", 1) => call("plugged", json!({})),
        ("go", 2) => call("served", json!({})),
        ("go", 3) => call("no_such_tool", json!({})),
        ("go", 4) => call("crash", json!({})),
        ("go", 5) => call("probe", json!({})),
        ("go", 6) => call("fetch", json!({"n": 0})),
        ("go", 7) => call("nest", json!({"list": ["fetch {}", "look {}"]})),
        ("go", 8) => call("probe", json!({})),
        _ => Reply::text("rule", "done"),
    };
    let spec = sourced_spec(folder.path());
    run(folder.path(), spec, sourced(&world, rule), &Cancel::new()).await;
    insta::assert_snapshot!(sources(&world.records.lock()), @r"
    s message: user
    s look: tool:look
    s plugged: plugin:words
    s served: mcp:docs
    s no_such_tool: host
    s crash: host
    s probe: tool:probe
    s fetch: web:a.example
    s fetch: web:a.example
    s look: tool:look
    s nest: tool:look tool:nest web:a.example
    s probe: tool:probe
    ");
    let done = world.done();
    let probes: Vec<&str> =
        done.iter().map(String::as_str).filter(|it| it.contains("has read")).collect();
    assert_eq!(probes, ["s has read mcp:docs", "s has read mcp:docs web:a.example"]);
}

/// A parent whose child, in the background or not, reads a page.
fn delegating(child: &'static str) -> impl Fn(usize, &Request<'_>) -> Reply + Clone {
    move |results: usize, request: &Request<'_>| match (&*task(request), results) {
        ("go", 0) => call("spawn", json!({"list": [child]})),
        ("go", 1) if child.starts_with("background") => {
            let describe =
                |it: &Arc<Message>| matches!(&**it, Message::User(it) if it.from.is_some());
            match request.messages.iter().any(describe) {
                true => call("probe", json!({})),
                false => Reply::text("rule", "I wait."),
            }
        }
        ("go", 1) => call("probe", json!({})),
        ("go", 2) => call("spawn", json!({"list": ["second"]})),
        ("second", 0) => call("probe", json!({})),
        (task, 0) if task == child => call("fetch", json!({})),
        _ => Reply::text("rule", "done"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_has_what_the_child_read_and_a_task_what_the_parent_read() {
    let read = "child:s/1.0.0 web:a.example";
    for child in ["child", "background child"] {
        let folder = tempfile::tempdir().unwrap();
        let world = Arc::new(World::default());
        let spec = sourced_spec(folder.path());
        let config = sourced(&world, delegating(child));
        run(folder.path(), spec, config, &Cancel::new()).await;
        let shown = sources(&world.records.lock());
        let report = match child {
            "child" => "s spawn: child:s/1.0.0 tool:spawn web:a.example\n",
            _ => "s message: child:s/1.0.0 web:a.example\n",
        };
        assert!(shown.contains(report), "{shown}");
        assert!(shown.contains("s/1.0.0 message: parent\n"), "{shown}");
        let task = "message: child:s/1.0.0 parent web:a.example\n";
        assert!(shown.contains(task), "{shown}");
        let done = world.done();
        assert_eq!(done[0], format!("s has read {read}"));
        assert!(done[1].starts_with("s/") && done[1].ends_with(&format!(" has read {read}")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_resumed_session_knows_what_was_read() {
    for last in ["\"web:a.example\"", "\"agent.end\"", "\"tool\":\"spawn\",\"result\""] {
        let folder = tempfile::tempdir().unwrap();
        let world = Arc::new(World::default());
        let rule = delegating("child");
        let spec = sourced_spec(folder.path());
        run(folder.path(), spec, sourced(&world, rule.clone()), &Cancel::new()).await;
        let other = tempfile::tempdir().unwrap();
        let dir = cut(folder.path(), other.path(), last);
        let again = Arc::new(World::default());
        resumed(&dir, sourced(&again, rule)).await;
        assert_eq!(again.done(), world.done(), "{last}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_hook_says_after_a_call_is_of_the_host() {
    struct Remark;
    impl Hook for Remark {
        fn name(&self) -> &str {
            "remark"
        }

        fn wants(&self, point: HookPoint) -> bool {
            point == HookPoint::PostToolUse
        }

        fn run<'a>(&'a self, _: &'a HookInput<'a>, _: &'a Cancel) -> BoxFuture<'a, HookAnswer> {
            Box::pin(async { HookAnswer::block("look again") })
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, _: &Request<'_>| match results {
        0 => call("look", json!({})),
        _ => Reply::text("rule", "done"),
    };
    let mut config = sourced(&world, rule);
    config.hooks.hooks = vec![Arc::new(Remark)];
    run(folder.path(), sourced_spec(folder.path()), config, &Cancel::new()).await;
    let shown = sources(&world.records.lock());
    assert!(shown.ends_with("s look: host tool:look"), "{shown}");
}
