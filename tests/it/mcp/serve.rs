//! The program as an MCP server: driven by a client of the official package, and held against the
//! public conformance suite.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::model::Reply;
use deputize_requirements::{program, require};
use deputize_testkit::{MockAnswer, MockServer};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::ChildStdin;
use tokio::sync::Semaphore;

use super::fixture::{SERVER, approve};
use super::installed::npm;
use crate::program::{ChatRequest, Lab, PROGRAM, ProgramEnd, RunningProgram, hang, model, soon};
use crate::signals::within;

/// A client in the lab that starts the program as its server.
async fn client(lab: &Lab, server: &MockServer, what: &str, more: &[&str]) -> (Value, ProgramEnd) {
    let npm = npm("mcp").await.unwrap();
    let script = npm.join("client.mjs");
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/mcp/client.mjs");
    let fresh = tempfile::NamedTempFile::new_in(&npm).unwrap();
    fs::copy(fixture, fresh.path()).unwrap();
    fresh.persist(&script).unwrap();
    let mut command = lab.command("node");
    command.arg(script).arg(what).arg(PROGRAM).args(["mcp-serve", "-m", "openai/mock"]);
    command.args(["--base-url", &server.base_url()]).args(more);
    let ended = RunningProgram::start(command).end().await.with_code(0);
    (serde_json::from_str(&ended.out).unwrap(), ended)
}

/// A model that reads a file and says what is in it.
async fn reader() -> MockServer {
    model(|asked: &ChatRequest| {
        MockAnswer::reply(&match asked.replies() {
            0 => Reply::calls("mock", [("read_file", json!({"path": "a.txt"}))]),
            _ => Reply::text("mock", format!("It says: {}", asked.results().join("\n"))),
        })
    })
    .await
}

#[tokio::test]
async fn a_client_sees_two_tools_and_how_they_are_used() {
    require!(npm("mcp").await);
    let lab = Lab::new();
    let server = reader().await;
    let (seen, _) = client(&lab, &server, "list", &[]).await;
    assert_eq!(seen["server"]["name"], "deputize");
    let instructions = seen["instructions"].as_str().unwrap();
    assert!(instructions.contains("`run`"), "{seen}");
    // What is offered may change while it serves; they hold whatever that is.
    assert!(!instructions.contains("delegate"), "{seen}");
    let tools: Vec<&Value> = seen["tools"].as_array().unwrap().iter().collect();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["run", "delegate"]);
    assert_eq!(tools[0]["inputSchema"]["required"], json!(["prompt"]));
    for key in ["goal", "tasks", "cwd"] {
        assert!(tools[1]["inputSchema"]["properties"][key].is_object(), "{key}: {}", tools[1]);
    }
    // Where nothing can be handed on, nothing of that is offered.
    let (seen, _) = client(&lab, &server, "list", &["-t", "file"]).await;
    assert_eq!(seen["tools"].as_array().unwrap().len(), 1);
    assert!(!seen["instructions"].as_str().unwrap().contains("delegate"), "{seen}");
}

#[tokio::test]
async fn a_run_gives_its_answer_as_text_and_data_and_tells_of_its_progress() {
    require!(npm("mcp").await);
    let lab = Lab::new();
    let server = reader().await;
    fs::write(lab.work("a.txt"), "forty-two\n").unwrap();
    let (seen, _) = client(&lab, &server, "run", &[]).await;
    let result = &seen["result"];
    assert!(result["content"][0]["text"].as_str().unwrap().contains("forty-two"), "{seen}");
    assert_eq!(result["isError"], json!(false));
    let data = &result["structuredContent"];
    assert_eq!((&data["status"], &data["session"]), (&json!("completed"), &json!(lab.session())));
    assert_eq!(seen["progress"][0], "read a.txt");
    assert_eq!(lab.processes(), []);
}

#[tokio::test]
async fn an_answer_says_which_toolsets_the_agent_went_without() {
    let lab = Lab::new();
    let server = reader().await;
    fs::write(lab.work("a.txt"), "forty-two\n").unwrap();
    let (seen, _) = client(&lab, &server, "dropped", &[]).await;
    let text = |answer: &str| seen[answer]["content"][0]["text"].as_str().unwrap().to_owned();
    let warning = "warning: toolset `browser` has no tools now: the agent does without it";
    let answer = text("result");
    assert!(answer.contains("forty-two"), "{answer}");
    assert!(answer.ends_with(&format!("\n\n[{warning}]")), "{answer}");
    let bare = text("bare");
    assert!(bare.ends_with(&format!("\n\n[{warning}, and has no tools at all]")), "{bare}");
    assert_eq!(seen["progress"][0], warning, "{seen}");
}

#[tokio::test]
async fn a_delegation_gives_an_entry_for_each_child() {
    require!(npm("mcp").await);
    let lab = Lab::new();
    let server = reader().await;
    fs::write(lab.work("a.txt"), "forty-two\n").unwrap();
    let (seen, _) = client(&lab, &server, "delegate", &[]).await;
    let results = seen["result"]["structuredContent"]["results"].as_array().unwrap().clone();
    assert_eq!(results.len(), 2, "{seen}");
    for (index, result) in results.iter().enumerate() {
        assert_eq!(
            (&result["task_index"], &result["status"]),
            (&json!(index), &json!("completed"))
        );
        assert!(result["summary"].as_str().unwrap().contains("forty-two"), "{result}");
    }
    let progress: Vec<String> = serde_json::from_value(seen["progress"].clone()).unwrap();
    for words in ["[1/2] First: begins", "[2/2] Second: completed after 1 call"] {
        assert!(progress.iter().any(|said| said == words), "{words}: {progress:?}");
    }
}

#[tokio::test]
async fn what_is_offered_follows_a_changed_setting_as_calls_do() {
    // Without it, one of the toolsets has no tool that can be used.
    require!(program("python3"));
    require!(npm("mcp").await);
    let lab = Lab::new();
    let server = reader().await;
    let (seen, _) = client(&lab, &server, "changed", &[]).await;
    let lists: Vec<Vec<Value>> = serde_json::from_value(seen["lists"].clone()).unwrap();
    let names = |list: &Vec<Value>| list.iter().map(|tool| tool["name"].clone()).collect();
    let names: Vec<Vec<Value>> = lists.iter().map(names).collect();
    // A configuration that cannot be read changes nothing.
    assert_eq!(
        names,
        [vec![json!("run"), json!("delegate")], vec![json!("run")], vec![json!("run")]]
    );
    let sets = |list: &[Value]| {
        let sets = &list[0]["inputSchema"]["properties"]["toolsets"]["description"];
        sets.as_str().unwrap().rsplit(": ").next().unwrap().to_owned()
    };
    assert_eq!(
        sets(&lists[0]),
        "code_execution, delegation, file, memory, session_search, skills, terminal, todo, web."
    );
    assert_eq!(sets(&lists[1]), "file.");
    let error = seen["error"].as_str().unwrap();
    assert!(error.contains("there is no tool \"delegate\"; known: run"), "{error}");
}

#[tokio::test]
async fn a_session_of_delegate_is_named_by_its_tasks_and_fails_where_it_is_refused() {
    require!(npm("mcp").await);
    let lab = Lab::new();
    let server = reader().await;
    fs::write(lab.work("a.txt"), "forty-two\n").unwrap();
    let listed = async || {
        let listed = RunningProgram::start(lab.deputize(&["sessions", "list", "--json"]));
        let listed: Value = serde_json::from_str(&listed.end().await.with_code(0).out).unwrap();
        let row = |row: &Value| (row["goal"].clone(), row["status"].clone());
        let mut rows: Vec<_> = listed.as_array().unwrap().iter().map(row).collect();
        rows.sort_by_key(|(goal, _)| goal.to_string());
        rows
    };
    let (seen, _) = client(&lab, &server, "refused", &[]).await;
    assert_eq!(seen["result"]["isError"], true, "{seen}");
    let text = seen["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("there is no toolset `nope`"), "{text}");
    let refused = (json!("Sort the imports"), json!("failed"));
    assert_eq!(listed().await, std::slice::from_ref(&refused));
    client(&lab, &server, "delegate", &[]).await;
    let done = (json!("2 tasks: First; Second"), json!("completed"));
    assert_eq!(listed().await, [done.clone(), refused.clone()]);
    client(&lab, &server, "run", &[]).await;
    let run = (json!("Say what is in a.txt"), json!("completed"));
    assert_eq!(listed().await, [done, run, refused]);
}

#[tokio::test]
async fn a_delegation_fails_where_no_child_did_its_work() {
    require!(npm("mcp").await);
    let lab = Lab::new();
    for (failing, is_error) in [(&["First"][..], false), (&["First", "Second"], true)] {
        let server = model(move |asked: &ChatRequest| {
            if failing.iter().any(|goal| asked.first_user().contains(goal)) {
                return MockAnswer::error(400, "no such thing");
            }
            MockAnswer::reply(&Reply::text("mock", "Done."))
        })
        .await;
        let (seen, _) = client(&lab, &server, "delegate", &[]).await;
        let result = &seen["result"];
        assert_eq!(result["isError"], json!(is_error), "{seen}");
        let results = result["structuredContent"]["results"].as_array().unwrap();
        let ends: Vec<&Value> = results.iter().map(|entry| &entry["status"]).collect();
        let second = if is_error { "failed" } else { "completed" };
        assert_eq!(ends, ["failed", second], "{seen}");
    }
}

#[tokio::test]
async fn sessions_of_delegate_are_listed_as_their_children_ended() {
    let lab = Lab::new();
    let server = model(|asked: &ChatRequest| match asked.first_user().contains("Break") {
        true => MockAnswer::error(400, "no such thing"),
        false => MockAnswer::reply(&Reply::text("mock", "Done.")),
    })
    .await;
    let (mut input, running) = by_lines(&lab, &server, &[]);
    let goals = |goals: &[&str]| {
        let tasks: Vec<Value> = goals.iter().map(|goal| json!({"goal": goal})).collect();
        json!({"tasks": tasks})
    };
    let calls = [
        goals(&["Break one", "Break two"]),
        goals(&["Break three", "Mend it"]),
        json!({}),
        json!({"goal": "  "}),
    ];
    let mut text = HELLO.to_owned();
    for (id, arguments) in (2..).zip(&calls) {
        let params = json!({"name": "delegate", "arguments": arguments});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        text.push_str(&format!("{call}\n"));
    }
    input.write_all(text.as_bytes()).await.unwrap();
    running.lines(1 + calls.len()).await;
    drop(input);
    let ended = running.end().await.with_code(0);
    assert_eq!(ended.out.matches("\"isError\":true").count(), 3, "{}", ended.out);
    let listed = RunningProgram::start(lab.deputize(&["sessions", "list", "--json"]));
    let listed: Value = serde_json::from_str(&listed.end().await.with_code(0).out).unwrap();
    let row = |row: &Value| {
        [row["goal"].as_str(), row["status"].as_str()].map(|it| it.unwrap().to_owned())
    };
    let mut rows: Vec<_> = listed.as_array().unwrap().iter().map(row).collect();
    rows.sort();
    assert_eq!(
        rows,
        [
            ["(no task was named)", "failed"],
            ["(no task was named)", "failed"],
            ["2 tasks: Break one; Break two", "failed"],
            ["2 tasks: Break three; Mend it", "completed"],
        ]
    );
}

#[tokio::test]
async fn a_delegation_passes_on_what_its_call_was_warned_of() {
    let lab = Lab::new();
    let server = model(|_| MockAnswer::reply(&Reply::text("mock", "Done."))).await;
    let (mut input, running) = by_lines(&lab, &server, &[]);
    let calls = [json!({"goal": "Look", "role": "chief"}), json!({"goal": "Look"})];
    let mut text = HELLO.to_owned();
    for (id, arguments) in (2..).zip(&calls) {
        let params = json!({"name": "delegate", "arguments": arguments});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        text.push_str(&format!("{call}\n"));
    }
    input.write_all(text.as_bytes()).await.unwrap();
    running.lines(3).await;
    drop(input);
    let ended = running.end().await.with_code(0);
    let answers = ended.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let warnings: std::collections::BTreeMap<u64, Value> = answers
        .map(|answer| {
            let data = &answer["result"]["structuredContent"];
            (answer["id"].as_u64().unwrap(), data["warnings"].clone())
        })
        .collect();
    let actual = warnings[&2][0].as_str().unwrap_or_default();
    assert!(actual.starts_with("role `chief` is not known; `leaf` is used"), "{}", ended.out);
    assert_eq!(warnings[&3], json!([]), "{}", ended.out);
}

#[tokio::test]
async fn wrong_arguments_are_refused_with_what_is_wrong() {
    require!(npm("mcp").await);
    let lab = Lab::new();
    let server = reader().await;
    let (seen, _) = client(&lab, &server, "wrong", &[]).await;
    let errors: Vec<String> = serde_json::from_value(seen["errors"].clone()).unwrap();
    let words = [
        "missing field `prompt`",
        "`prompt` is empty",
        "`toolsets` is empty",
        "`cwd` must be",
        "unknown field `toolset`",
        "there is no tool \"none\"; known: run, delegate",
    ];
    for (error, words) in errors.iter().zip(words) {
        assert!(error.contains(words), "{words}: {error}");
    }
    assert!(errors[4].contains("`prompt`, `toolsets`, `max_iterations`, `cwd`"), "{}", errors[4]);
    assert_eq!(errors.len(), words.len());
}

/// The program as it is driven by lines, and what it is greeted with.
fn by_lines(lab: &Lab, server: &MockServer, more: &[&str]) -> (ChildStdin, RunningProgram) {
    let mut command = lab.deputize(&["mcp-serve", "-m", "openai/mock"]);
    command.args(["--base-url", &server.base_url()]).args(more);
    command.stdin(std::process::Stdio::piped());
    let mut running = RunningProgram::start(command);
    (running.stdin(), running)
}

const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
"#;

#[tokio::test]
async fn what_is_no_message_and_what_is_no_method_is_answered_with_why() {
    let lab = Lab::new();
    let server = reader().await;
    let (mut input, running) = by_lines(&lab, &server, &[]);
    let text = format!(
        "garbage\n{HELLO}{{\"id\":\n{}\n",
        r#"{"jsonrpc":"2.0","id":2,"method":"shell/run","params":{}}"#
    );
    input.write_all(text.as_bytes()).await.unwrap();
    let answers = |out: &str| -> Vec<Value> {
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    running.lines(4).await;
    drop(input);
    let ended = running.end().await.with_code(0);
    let found: Vec<(Value, i64)> = answers(&ended.out)
        .iter()
        .map(|answer| (answer["id"].clone(), answer["error"]["code"].as_i64().unwrap_or_default()))
        .collect();
    let expected =
        [(Value::Null, -32700), (json!(1), 0), (Value::Null, -32700), (json!(2), -32601)];
    assert!(expected.iter().all(|one| found.contains(one)), "{found:?}");
    assert!(ended.out.contains(r#"there is no method \"shell/run\" here"#), "{}", ended.out);
}

#[tokio::test]
async fn the_end_of_its_input_ends_its_calls_at_once() {
    // The library alone would wait five seconds for the call.
    within(Duration::from_secs(4), end_of_input).await;
}

/// Closes the input while a call hangs, and returns how long the program goes on.
async fn end_of_input() -> Duration {
    let lab = Lab::new();
    let asked = Arc::new(Semaphore::new(0));
    let seen = Arc::clone(&asked);
    let server = model(move |_: &ChatRequest| {
        seen.add_permits(1);
        hang()
    })
    .await;
    let (mut input, running) = by_lines(&lab, &server, &[]);
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run","arguments":{"prompt":"Hang"}}}"#;
    input.write_all(format!("{HELLO}{call}\n").as_bytes()).await.unwrap();
    let _asked = soon("the call", asked.acquire()).await.unwrap();
    let closed = std::time::Instant::now();
    drop(input);
    let ended = running.end().await.with_code(0);
    assert_eq!(lab.processes(), []);
    ended.at.duration_since(closed)
}

#[tokio::test]
async fn a_call_narrows_what_the_configuration_allows_and_never_widens_it() {
    let lab = Lab::new();
    let server = model(|_: &ChatRequest| {
        MockAnswer::reply(&Reply::calls("mock", [("list_dir", json!({"path": "."}))]))
    })
    .await;
    let sets = ["--set", "toolsets=[file]", "--set", "max_iterations=2", "--approve", "auto"];
    let (mut input, running) = by_lines(&lab, &server, &sets);
    let calls = [
        json!({"prompt": "Go", "toolsets": ["terminal"]}),
        json!({"prompt": "Go", "toolsets": ["file_read"], "max_iterations": 1}),
        json!({"prompt": "Go", "toolsets": ["coding"], "max_iterations": 1}),
        json!({"prompt": "Go", "toolsets": null, "max_iterations": 50}),
    ];
    let mut text = HELLO.to_owned();
    for (id, arguments) in (2..).zip(calls) {
        let params = json!({"name": "run", "arguments": arguments});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        text.push_str(&format!("{call}\n"));
    }
    input.write_all(text.as_bytes()).await.unwrap();
    running.lines(5).await;
    drop(input);
    let ended = running.end().await.with_code(0);
    let refused = "toolset `terminal` is not served; known: file";
    assert!(ended.out.contains(refused), "{}", ended.out);
    let part = "the agent has only a part of toolset `coding`";
    assert!(ended.out.contains(part), "{}", ended.out);
    // Those that may call, and one each to close with.
    let requests = server.requests();
    let requests: Vec<ChatRequest> = requests.iter().map(ChatRequest::of).collect();
    let mut sent: Vec<_> = requests.iter().map(ChatRequest::tools).collect();
    sent.sort();
    sent.dedup();
    let reading = ["list_dir", "read_file", "search_files"];
    assert!(sent.iter().any(|tools| tools == &reading), "{sent:?}");
    assert!(sent.iter().flatten().all(|tool| *tool != "terminal"), "{sent:?}");
    assert_eq!(requests.len(), 2 + 2 + 3, "{}", ended.out);
}

#[tokio::test]
async fn the_next_call_has_what_was_approved_meanwhile() {
    let lab = Lab::new();
    let server = model(|asked: &ChatRequest| {
        MockAnswer::reply(&match asked.replies() {
            0 => Reply::calls("mock", [("mcp__w__echo", json!({"text": "hello"}))]),
            _ => Reply::text("mock", "Done."),
        })
    })
    .await;
    let entry = json!({"command": SERVER, "args": ["adds a tool", lab.path("mark")]});
    let own = format!("mcp_servers.w={entry}");
    approve(&lab, &own).await;
    let (mut input, running) = by_lines(&lab, &server, &["--approve", "auto", "--set", &own]);
    // The toolsets of servers are among those that a call may name.
    let wrong = json!({"name": "run", "arguments": {"prompt": "Go", "toolsets": ["none"]}});
    let wrong = json!({"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": wrong});
    let list = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list"});
    let first = format!("{HELLO}{wrong}\n{list}\n");
    input.write_all(first.as_bytes()).await.unwrap();
    let mut said = String::new();
    for (id, more) in [(4, 0), (5, 2)] {
        let params = json!({"name": "run", "arguments": {"prompt": "Go"}});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        said.push_str(&format!("{call}\n"));
        input.write_all(said.as_bytes()).await.unwrap();
        said.clear();
        running.lines(id).await;
        let requests = server.requests();
        let last = requests[requests.len() - 2..].iter();
        let have = last.filter(|request| request.text().contains("mcp__w__more"));
        assert_eq!(have.count(), more);
        approve(&lab, &own).await;
    }
    drop(input);
    let ended = running.end().await.with_code(0);
    let lists = ended.out.lines().filter(|line| line.contains("mcp-w, memory, ")).count();
    assert_eq!(lists, 2, "{}", ended.out);
    assert_eq!(lab.processes(), []);
}

#[tokio::test]
async fn what_cannot_be_served_is_said_at_the_start() {
    let lab = Lab::new();
    let refused = |args: &[&str]| {
        let ended = RunningProgram::start(lab.deputize(&[&["mcp-serve"], args].concat())).end();
        async move { ended.await.err }
    };
    let unknown = refused(&["-m", "nowhere/m"]).await;
    assert!(unknown.contains("nowhere"), "{unknown}");
    let asks = refused(&["-m", "offline", "--approve", "ask"]).await;
    assert!(asks.contains("possible values: deny, auto"), "{asks}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let busy = refused(&["-m", "offline", "--http", &address.port().to_string()]).await;
    assert!(busy.contains(&format!("cannot listen at {address}: ")), "{busy}");
}

#[tokio::test]
async fn a_call_that_is_not_wanted_any_more_ends_with_all_it_started() {
    require!(npm("mcp").await);
    let lab = Lab::new();
    let mark = lab.mark().to_owned();
    let server = model(move |asked: &ChatRequest| match asked.replies() {
        0 => {
            let command = format!("sleep {mark}");
            MockAnswer::reply(&Reply::calls("mock", [("terminal", json!({"command": command}))]))
        }
        _ => hang(),
    })
    .await;
    let (seen, _) = client(&lab, &server, "cancel", &["--approve", "auto"]).await;
    assert!(seen["error"].as_str().unwrap().contains("not wanted"), "{seen}");
    assert_eq!(seen["tools"].as_array().unwrap().len(), 2, "it serves on");
    assert_eq!(lab.processes(), []);
    let show = RunningProgram::start(lab.deputize(&["sessions", "list", "--json"])).end().await;
    assert!(show.out.contains("interrupted"), "{}", show.out);
}

#[tokio::test]
async fn it_passes_the_conformance_suite_for_what_it_offers() {
    let lab = Lab::new();
    let server = reader().await;
    let mut command = lab.deputize(&["mcp-serve", "--http", "0", "-m", "openai/mock"]);
    command.args(["--base-url", &server.base_url()]);
    command.stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut url = String::new();
    soon("the address", out.read_line(&mut url)).await.unwrap();
    let url = url.trim().to_owned();
    assert!(url.starts_with("http://127.0.0.1:") && url.ends_with("/mcp"), "{url}");
    let npm = require!(npm("mcp").await);
    let suite = npm.join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    for scenario in ["server-initialize", "ping", "tools-list", "dns-rebinding-protection"] {
        let mut command = lab.command("node");
        command.arg(&suite).args(["server", "--url", &url, "--scenario", scenario]);
        let ended = RunningProgram::start(command).end().await;
        assert_eq!(ended.code, Some(0), "{scenario}: {}{}", ended.out, ended.err);
        let said = format!("{}{}", ended.out, ended.err);
        assert!(said.contains("0 failed"), "{scenario}: {said}");
    }
    let most = 8 * 1024 * 1024;
    assert_ne!(status(&url, most).await, 413);
    assert_eq!(status(&url, most + 1).await, 413);
    // Nothing is served to who does not know the address.
    let bare = url.split('/').take(3).collect::<Vec<_>>().join("/") + "/mcp";
    let mut command = lab.command("node");
    command.arg(&suite).args(["server", "--url", &bare, "--scenario", "ping"]);
    assert_ne!(RunningProgram::start(command).end().await.code, Some(0));
    let pid = rustix::process::Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    let status = soon("its end", child.wait()).await.unwrap();
    assert_eq!(status.code(), Some(130));
}

/// The status of the answer to a request of so many bytes.
async fn status(url: &str, bytes: usize) -> u16 {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).await.unwrap();
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"x":"<>"}}}"#;
    let body = ping.replace("<>", &"x".repeat(bytes + 2 - ping.len()));
    assert_eq!(body.len(), bytes);
    let head = format!(
        "POST /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {bytes}\r\n\r\n"
    );
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    let mut line = String::new();
    soon("an answer", BufReader::new(stream).read_line(&mut line)).await.unwrap();
    line.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn its_client_passes_the_conformance_suite_for_what_it_does() {
    let npm = require!(npm("mcp").await);
    let suite = npm.join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/mcp/conformance-client");
    for (scenario, call) in [
        ("initialize", None),
        ("tools_call", Some(("mcp__far__add_numbers", json!({"a": 5, "b": 3})))),
        ("sse-retry", Some(("mcp__far__test_reconnection", json!({})))),
    ] {
        let lab = Lab::new();
        let server = model(move |asked: &ChatRequest| {
            MockAnswer::reply(&match &call {
                Some(call) if asked.replies() == 0 => Reply::calls("mock", [call.clone()]),
                _ => Reply::text("mock", asked.results().join("\n") + "Done."),
            })
        })
        .await;
        let mut command = lab.command("node");
        command.arg(&suite).args(["client", "--command", script, "--scenario", scenario]);
        command.env("DEPUTIZE", PROGRAM).env("MODEL", server.base_url());
        let ended = RunningProgram::start(command).end().await;
        let said = format!("{}{}", ended.out, ended.err);
        // Not its exit code: it warns of what depends on how fast this machine is.
        let passed = said.contains(", 0 failed") && !said.contains("Passed: 0/");
        assert!(passed, "{scenario}: {said}");
    }
}
