//! MCP servers that an editor names for a session, and those of the configuration.

use std::fs;
use std::time::Duration;

use deputize_requirements::require;
use deputize_testkit::MockServer;
use serde_json::{Value, json};

use super::editor::{Editor, command};
use super::real::editor as real_editor;
use super::{calls, steps, text};
use crate::acp::installed;
use crate::mcp::{everything_by_http, node};
use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, model, soon};

const SERVER: &str = env!("CARGO_BIN_EXE_deputize-mcp-faulty");
const ECHO: &str = "mcp__w__echo";

/// A server that does one thing wrong, or nothing.
fn named(name: &str, fault: &str) -> Value {
    json!({"name": name, "command": SERVER, "args": [fault], "env": [{"name": "A", "value": "${B}"}]})
}

async fn open(editor: &mut Editor, lab: &Lab, servers: &[Value]) -> String {
    let new = json!({"cwd": lab.work(""), "mcpServers": servers});
    let opened = editor.ask("session/new", new).await;
    opened["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned()
}

/// A model that calls `echo` once for each message.
async fn echoing() -> MockServer {
    model(|asked: &ChatRequest| {
        if asked.users().len() > asked.results().len() {
            calls(ECHO, json!({"text": asked.users().len().to_string()}))
        } else {
            text(format!("It says: {}", asked.results().join("|")))
        }
    })
    .await
}

fn offered(server: &MockServer) -> bool {
    let asked = server.requests().last().unwrap().json();
    let tools = asked["tools"].as_array().unwrap();
    tools.iter().any(|tool| tool["function"]["name"] == ECHO)
}

/// The processes that are the server.
fn running(lab: &Lab) -> Vec<(rustix::process::Pid, String)> {
    let mut found = lab.processes();
    found.retain(|(_, line)| line.starts_with(SERVER));
    found
}

#[tokio::test]
async fn a_server_of_the_editor_has_tools_in_its_session_and_lives_as_long() {
    let lab = Lab::new();
    let server = echoing().await;
    // What the person set for sessions here does not take away what the editor names for one.
    let mut editor = Editor::start(command(&lab, &server, &["-t", "file"]));
    let hello = editor.hello().await;
    let can = &hello["result"]["agentCapabilities"]["mcpCapabilities"];
    assert_eq!((&can["http"], &can["sse"]), (&json!(true), &json!(false)), "{hello}");
    let session = open(&mut editor, &lab, &[named("w", "none")]).await;
    editor.prompt(&session, "One").await;
    assert_eq!(editor.questions.len(), 1, "each call is asked for");
    let said = editor.text("agent_message_chunk");
    assert!(said.contains("echo: 1"), "{said}");
    let thought = editor.text("agent_thought_chunk");
    assert!(thought.contains("mcp w: seen for the first time: its 1 tool is"), "{thought}");
    let before = running(&lab);
    assert_eq!(before.len(), 1, "{before:?}");

    editor.prompt(&session, "Two").await;
    let said = editor.text("agent_message_chunk");
    assert!(said.contains("echo: 2"), "{said}");
    assert_eq!(running(&lab), before, "the same server");

    // Another session is another one, and has what was named for it.
    let other = open(&mut editor, &lab, &[]).await;
    editor.prompt(&other, "Three").await;
    assert!(!offered(&server));
    editor.ask("session/close", json!({"sessionId": session})).await;
    assert_eq!(running(&lab), []);
    let load =
        json!({"sessionId": session, "cwd": lab.work(""), "mcpServers": [named("w", "none")]});
    editor.ask("session/load", load).await;
    editor.updates.clear();
    editor.prompt(&session, "Four").await;
    let said = editor.text("agent_message_chunk");
    assert!(said.contains("echo: 3"), "{said}");
    assert_eq!(running(&lab).len(), 1);
    editor.leave().await;
    assert_eq!(lab.processes(), []);
}

async fn deputize(lab: &Lab, args: &[&str]) -> ProgramEnd {
    RunningProgram::start(lab.deputize(args)).end().await
}

#[tokio::test]
async fn what_changed_of_it_waits_for_the_person_who_reviews_it_from_a_terminal() {
    let lab = Lab::new();
    let server = echoing().await;
    let mut editor = Editor::start(command(&lab, &server, &[]));
    editor.hello().await;
    let does = lab.path("does");
    let own = named("w", &format!("@{}", does.display()));
    fs::write(&does, "none").unwrap();
    let session = open(&mut editor, &lab, std::slice::from_ref(&own)).await;
    editor.prompt(&session, "One").await;
    assert!(offered(&server));

    // It is started like before and says something else, which is seen at a call.
    fs::write(&does, "a description with escapes").unwrap();
    let session = open(&mut editor, &lab, std::slice::from_ref(&own)).await;
    editor.prompt(&session, "Again").await;
    let session = open(&mut editor, &lab, std::slice::from_ref(&own)).await;
    editor.updates.clear();
    editor.prompt(&session, "Two").await;
    assert!(!offered(&server));
    let thought = editor.text("agent_thought_chunk");
    let words = "mcp w: tool \"echo\" changed since you approved it (description, +1 line -1 line). \
                 Review with: deputize mcp review w";
    assert!(thought.contains(words), "{thought}");

    let list = deputize(&lab, &["mcp", "list"]).await.with_code(0);
    let words = "named by an editor; 1 change waits: deputize mcp review w";
    assert!(list.out.contains(words), "{}", list.out);
    let shown = deputize(&lab, &["mcp", "review", "w"]).await.with_code(1);
    assert!(shown.out.contains("Say\\u{1b}[8m it\\u{200b} again."), "{}", shown.out);
    deputize(&lab, &["mcp", "review", "w", "--yes"]).await.with_code(0);
    let session = open(&mut editor, &lab, &[own]).await;
    editor.prompt(&session, "Three").await;
    assert!(offered(&server), "an agent has what was approved before it began");

    // Other arguments wait too, and what is started then is asked anew.
    let other = named("w", "greets");
    let session = open(&mut editor, &lab, std::slice::from_ref(&other)).await;
    editor.prompt(&session, "Four").await;
    assert!(!offered(&server));
    let review = deputize(&lab, &["mcp", "review", "w", "--yes"]).await.with_code(0);
    assert!(review.out.contains(&format!("{SERVER} greets")), "{}", review.out);
    let session = open(&mut editor, &lab, &[other]).await;
    editor.updates.clear();
    editor.prompt(&session, "Five").await;
    let thought = editor.text("agent_thought_chunk");
    assert!(thought.contains("tool \"echo\" changed since you approved it"), "{thought}");

    let forgotten = deputize(&lab, &["mcp", "remove", "w"]).await.with_code(0);
    assert!(forgotten.err.contains("forgotten: mcp w"), "{}", forgotten.err);
    let list = deputize(&lab, &["mcp", "list", "--json"]).await.with_code(0);
    assert_eq!(list.out.trim(), "[]");
    editor.leave().await;
}

#[tokio::test]
async fn the_next_session_of_one_process_has_what_was_approved_meanwhile() {
    let lab = Lab::new();
    let server = echoing().await;
    let args = ["adds a tool", lab.path("mark").to_str().unwrap()].map(str::to_owned);
    let own = format!("mcp_servers.w={}", json!({"command": SERVER, "args": args}));
    let review = ["mcp", "review", "w", "--yes", "--set", &own];
    deputize(&lab, &review).await.with_code(0);
    let mut editor = Editor::start(command(&lab, &server, &["--set", &own]));
    editor.hello().await;
    let tools = || server.requests().last().unwrap().json()["tools"].clone();
    let more = || tools().to_string().contains("mcp__w__more");

    let first = open(&mut editor, &lab, &[]).await;
    editor.prompt(&first, "One").await;
    let before = tools();
    assert!(offered(&server) && !more());
    let second = open(&mut editor, &lab, &[]).await;
    editor.updates.clear();
    editor.prompt(&second, "Two").await;
    assert!(offered(&server) && !more(), "it waits for the person");
    let thought = editor.text("agent_thought_chunk");
    assert!(thought.contains("mcp w: tool \"more\" is new. Review with"), "{thought}");

    deputize(&lab, &review).await.with_code(0);
    let third = open(&mut editor, &lab, &[]).await;
    editor.prompt(&third, "Three").await;
    assert!(offered(&server) && more());
    // The agent of a session that goes on is the same agent.
    editor.prompt(&first, "Four").await;
    assert_eq!(tools(), before);
    editor.leave().await;
    assert_eq!(lab.processes(), []);
}

#[tokio::test]
async fn what_cannot_be_had_is_reported_and_the_rest_works() {
    let lab = Lab::new();
    let server = echoing().await;
    // One of the configuration that nobody has seen yet.
    let own = format!("mcp_servers.w={}", json!({"command": SERVER, "args": ["none"]}));
    let mut editor = Editor::start(command(&lab, &server, &["--set", &own]));
    editor.hello().await;
    let session = open(&mut editor, &lab, &[]).await;
    editor.prompt(&session, "Zero").await;
    let thought = editor.text("agent_thought_chunk");
    assert!(thought.contains("mcp w: you have not approved it yet: 1 tool"), "{thought}");
    assert!(!offered(&server));
    deputize(&lab, &["mcp", "review", "w", "--yes", "--set", &own]).await.with_code(0);
    let missing = json!({"name": "gone", "command": "/no/such/program", "args": [], "env": []});
    let servers = [named("w", "greets"), missing, named("dies", "exits at once")];
    let session = open(&mut editor, &lab, &servers).await;
    editor.prompt(&session, "One").await;
    let said = editor.text("agent_message_chunk");
    assert!(said.contains("echo: 1"), "the configured one: {said}");
    let thought = editor.text("agent_thought_chunk");
    for words in [
        "the editor's MCP server `w` is not used: your configuration has one that is called `w`",
        "mcp gone: its program cannot be run",
        "no key: set WEATHER_KEY",
    ] {
        assert!(thought.contains(words), "{words}: {thought}");
    }
    let dies = thought.lines().filter(|line| line.contains("mcp dies")).count();
    assert!(dies == 1 && !thought.contains("mcp test"), "told once, and nothing unfit: {thought}");

    let sse = json!({"type": "sse", "name": "old", "url": "http://127.0.0.1:9/", "headers": []});
    let new = json!({"cwd": lab.work(""), "mcpServers": [sse]});
    let refused = editor.ask("session/new", new).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("MCP server `old`") && why.contains("streamable HTTP"), "{why}");
    editor.leave().await;
    assert_eq!(lab.processes(), []);
}

#[tokio::test]
async fn a_server_of_the_editor_is_reached_by_http_and_its_key_is_shown_to_nobody() {
    let lab = Lab::new();
    let remote = require!(everything_by_http().await);
    let server = steps(vec![("mcp__far__echo", json!({"message": "over there"}))]).await;
    let mut editor = Editor::start(command(&lab, &server, &["--approve", "auto"]));
    editor.hello().await;
    let key = json!({"name": "Authorization", "value": "Bearer far-0123456789"});
    let far = json!({"type": "http", "name": "far", "url": remote.url, "headers": [key]});
    let session = open(&mut editor, &lab, &[far]).await;
    editor.prompt(&session, "Go").await;
    let said = editor.text("agent_message_chunk");
    assert!(said.contains("Echo: over there"), "{said}");
    let (code, err) = editor.leave().await;
    let ended =
        ProgramEnd { code, out: said, err, took: Duration::ZERO, at: std::time::Instant::now() };
    lab.holds_no("far-0123456789", &ended);
}

#[tokio::test]
async fn an_editor_of_the_official_package_brings_a_real_server() {
    let lab = Lab::new();
    let files = require!(node("@modelcontextprotocol/server-filesystem", "dist/index.js").await);
    require!(installed().await);
    let work = lab.work("").canonicalize().unwrap().to_str().unwrap().to_owned();
    let named = json!([{"name": "files", "command": "node", "args": [files, work]}]);
    let path = format!("{work}/a.txt");
    let server =
        model(move |asked: &ChatRequest| match (asked.users().len(), asked.results().len()) {
            (1, 0) => {
                calls("mcp__files__write_file", json!({"path": path, "content": "by the server"}))
            }
            (2, 1) => calls("mcp__files__read_text_file", json!({"path": path})),
            _ => text(asked.results().join("|")),
        })
        .await;
    let mut editor = real_editor(&lab, &server, "Write it").await;
    editor.env("MCP_SERVERS", named.to_string());
    let ended = RunningProgram::start(editor).end().await.with_code(0);
    let seen: Value = serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{ended:#?}"));
    assert_eq!(seen["stops"], json!(["end_turn", "end_turn"]));
    assert_eq!(seen["asked"].as_array().unwrap().len(), 1, "{seen:#}");
    assert_eq!(fs::read_to_string(lab.work("a.txt")).unwrap(), "by the server");
    let said = seen["text"]["agent_message_chunk"].as_str().unwrap();
    assert_eq!(said.matches("by the server").count(), 1, "{said}");
    let gone = async {
        while !lab.processes().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon("the end of all processes", gone).await;
}
