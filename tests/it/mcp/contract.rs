//! Tools of servers by themselves: whether they keep their contract, and what a call of one says
//! when its server is reached by HTTP and comes and goes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deputize_core::tool::Progress;
use deputize_core::{Catalog, Resource as _, Tool, ToolCallResult, ToolError};
use deputize_mcp::{ServerConfig, ServerDirectory, ServerRecord, Servers, ToolFilter, look, offer};
use deputize_process::Supervisor;
use deputize_requirements::require;
use deputize_testkit::{CallRule, ToolCheck, ToolHarness, check_tool};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::installed::everything;
use super::real::{blocking, remote, remote_at};
use crate::program::{hint_commands, soon};

/// The tools of a server that its owner trusts to look only, and what their calls are lent.
pub(super) async fn tools(server: ServerConfig, read_only: &[&str]) -> (Catalog, Servers) {
    let supervisor = Arc::new(Supervisor::start().unwrap());
    let shared = Arc::clone(&supervisor);
    let looked = Box::pin(look(server.clone(), "/", move || Ok(Arc::clone(&shared))));
    let listed = soon("the list of the tools", looked).await.unwrap();
    let mut record = ServerRecord::default();
    record.record_and_approve(&server.start(), listed);
    let read_only = read_only.iter().map(|name| (*name).to_owned()).collect();
    let filter = ToolFilter { read_only, ..ToolFilter::default() };
    let mut catalog = Catalog::default();
    for entry in offer("s", &record, &server.start(), &filter, &hint_commands()).entries {
        catalog.insert(entry).unwrap();
    }
    (catalog, Servers::new(vec![server], "/", move |_| Ok(Arc::clone(&supervisor))))
}

fn tool(catalog: &Catalog, name: &str) -> Arc<dyn Tool> {
    Arc::clone(&catalog.get(name).unwrap().tool)
}

fn program(path: &str, args: &[&str]) -> ServerConfig {
    let args = args.iter().map(OsString::from).collect();
    let path_variable = std::env::var_os("PATH").map(|path| (OsString::from("PATH"), path));
    let env: BTreeMap<_, _> = path_variable.into_iter().collect();
    ServerConfig::program("s", path, args, env, ServerDirectory::At("/".into())).unwrap()
}

#[tokio::test]
async fn one_check_tells_whether_tools_of_real_servers_keep_their_contract() {
    let everything = require!(everything().await);
    let (catalog, servers) = tools(program("node", &[&everything, "stdio"]), &["echo"]).await;
    let echo = tool(&catalog, "mcp__s__echo");
    let check = ToolCheck::new(&echo).lend(servers.clone()).call(json!({"message": "over there"}));
    let checked = soon("the check of a good tool", check.run()).await.unwrap();
    // Alone, again, two side by side, and two that are told to end.
    assert_eq!(checked.calls, 6);
    // Nothing is lent: no call could work.
    let check = ToolCheck::new(&echo).call(json!({"message": "over there"}));
    let unlent = soon("a check without its server", check.run()).await.unwrap_err();
    assert!(unlent.to_string().contains("no such server is configured"), "{unlent}");
    assert_eq!(check_tool(&echo).await.unwrap().calls, 0, "it has no examples");
    servers.close().await;

    let mark = tempfile::tempdir().unwrap();
    let mark = mark.path().join("mark");
    let faulty = env!("CARGO_BIN_EXE_deputize-mcp-faulty");
    for (fault, rule) in
        [("reports an error", CallRule::Works), ("exits in a call", CallRule::Works)]
    {
        let server = program(faulty, &[fault, mark.to_str().unwrap()]);
        let (catalog, servers) = tools(server, &["echo"]).await;
        let echo = tool(&catalog, "mcp__s__echo");
        let check = ToolCheck::new(&echo).lend(servers.clone()).call(json!({"text": "a"}));
        let found = soon(fault, check.run()).await.unwrap_err();
        assert!(found.has(rule), "{fault}: {found}");
        servers.close().await;
    }
}

/// What a call came to, in one text.
fn describe(result: &ToolCallResult) -> String {
    match result {
        Ok(output) => output.content.clone(),
        Err(ToolError::Partly { text, output }) => format!("{} {}", text.as_str(), output.content),
        Err(ToolError::Failed(why)) => format!("failed: {why}"),
        Err(error) => error.to_string(),
    }
}

pub(super) async fn called(bench: &ToolHarness, name: &str, arguments: Value) -> String {
    describe(&soon(name, Box::pin(bench.call(name, arguments))).await)
}

#[tokio::test]
async fn a_call_ends_with_the_server_by_http_that_is_killed_during_it() {
    let remote = require!(remote().await);
    let port: u16 = remote.url.rsplit([':', '/']).nth(1).unwrap().parse().unwrap();
    let server = ServerConfig::url("s", remote.url.clone(), BTreeMap::new());
    let (catalog, servers) = tools(server, &["echo"]).await;
    let bench = ToolHarness::of(Path::new("/"), catalog);
    let begun = Arc::new(Notify::new());
    let actual = Arc::clone(&begun);
    let settings = &bench.agent().session.settings;
    settings.get_or_insert_with(|| servers.clone());
    settings.get_or_insert_with(|| Progress::new(move |_, _, _| actual.notify_one()));
    let long = json!({"duration": 600, "steps": 1200});
    let call = called(&bench, "mcp__s__trigger-long-running-operation", long);
    let killed = async {
        begun.notified().await;
        blocking(move || drop(remote)).await;
        Instant::now()
    };
    let (actual, killed) = tokio::join!(call, soon("the progress", killed));
    let words = "the connection to the server ended during the call; what the call did is unknown. \
                 Look before you repeat it: the server is reached anew with the next call";
    assert!(actual.starts_with(words), "{actual}");
    // A stream is taken up again for half a minute where somebody is there.
    assert!(killed.elapsed() < Duration::from_secs(20), "{:?}", killed.elapsed());
    let echo = async || called(&bench, "mcp__s__echo", json!({"message": "hello"})).await;
    assert!(echo().await.contains("; the call was not made"));
    let remote = remote_at(port).await.unwrap();
    assert_eq!(echo().await, "Echo: hello");
    servers.close().await;
    drop(remote);
}

#[tokio::test]
async fn a_server_by_http_that_starts_anew_is_greeted_anew_and_the_call_made() {
    let remote = require!(remote().await);
    let port: u16 = remote.url.rsplit([':', '/']).nth(1).unwrap().parse().unwrap();
    let server = ServerConfig::url("s", format!("{}?key=hush", remote.url), BTreeMap::new());
    // Its predecessor's session is answered with status 400, so only what only looks is made again.
    let (catalog, servers) = tools(server, &["echo"]).await;
    let bench = ToolHarness::of(Path::new("/"), catalog);
    bench.agent().session.settings.get_or_insert_with(|| servers.clone());
    let echo = async || called(&bench, "mcp__s__echo", json!({"message": "hello"})).await;
    assert_eq!(echo().await, "Echo: hello");

    drop(remote);
    // Kept connections of before are used up first: what breaks there has an unknown outcome.
    let broken = echo().await;
    assert!(broken.contains("the call was not made") || broken.contains("is unknown"), "{broken}");
    for _again in 0..4 {
        let down = echo().await;
        assert!(down.starts_with("the server cannot be reached ("), "{down}");
        assert!(down.contains("Connection refused"), "{down}");
        assert!(down.contains("); the call was not made"), "{down}");
        assert!(!down.contains("rmcp") && !down.contains("hush"), "{down}");
    }

    let remote = remote_at(port).await.unwrap();
    // Its predecessor's session is unknown to it.
    assert_eq!(echo().await, "Echo: hello");
    assert_eq!(echo().await, "Echo: hello");
    servers.close().await;
    drop(remote);
}
