//! Every example is run, and says what it is there to say.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use deputize_agent::{AcpProgram, Agent, AgentModel, ChildApprovals, DelegationConfig};
use deputize_core::authority::ApproverMode;
use deputize_core::model::Reply;
use deputize_testkit::{HttpRequest, MockAnswer, MockServer, ScriptedModel};
use serde_json::{Value, json};

/// What one of them prints.
fn run(program: &str, args: &[&str]) -> String {
    let home = tempfile::tempdir().unwrap();
    run_in(home.path(), program, args)
}

/// What one of them prints in a directory.
fn run_in(home: &Path, program: &str, args: &[&str]) -> String {
    let output = Command::new(program)
        .args(args)
        .current_dir(home)
        .env("DEPUTIZE_HOME", home)
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {err}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn own_program() {
    let program = env!("CARGO_BIN_EXE_own_program");
    assert!(run(program, &["tools", "show", "count_words"]).contains("Count the words of a text."));
    let list = run(program, &["tools", "list"]);
    assert!(list.contains("crate deputize-examples") && list.contains("read_file"), "{list}");
}

#[test]
fn own_model() {
    let out = run(env!("CARGO_BIN_EXE_own_model"), &[]);
    assert!(out.contains("\nstressed\n"), "{out}");
}

/// Answers the examples of an embedded agent.
fn tester(request: &HttpRequest) -> MockAnswer {
    let text = request.text();
    let reply = |text: &str| MockAnswer::reply(&Reply::text("m", text));
    match () {
        () if text.contains("What is the license?") && !text.contains("Have a child") => {
            reply("It is MIT.")
        }
        () if text.contains("Have a child") && text.contains("It is MIT.") => reply("MIT."),
        () if text.contains("Have a child") => {
            let task = json!({"goal": "What is the license?", "profile": "explore"});
            MockAnswer::reply(&Reply::calls("m", [("delegate_task", task)]))
        }
        () if text.contains("How many tests") => reply(r#"{"tests": 7}"#),
        () if text.contains("And once more.") => reply("They pass again."),
        () if text.contains("\"tool_call_id\"") => reply("They do not run."),
        () if text.contains("Run the tests.") => {
            let command = json!({"command": "curl http://127.0.0.1:9"});
            MockAnswer::reply(&Reply::calls("m", [("terminal", command)]))
        }
        () => reply("A library."),
    }
}

/// A server for a program that runs until the closure is done.
fn with_server(run: impl FnOnce(&str)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let server = runtime.block_on(MockServer::start_with(tester)).unwrap();
    run(&server.base_url());
}

#[test]
fn ask() {
    with_server(|url| {
        let out = run(env!("CARGO_BIN_EXE_ask"), &[url, "m", "Explain it."]);
        assert_eq!(out, "A library.\n");
    });
}

#[test]
fn agent_features() {
    with_server(|url| {
        let out = run(env!("CARGO_BIN_EXE_agent_features"), &[url, "m"]);
        for line in [
            "record 1 of ",
            "text: They do not ",
            "answer: They do not run.",
            "answer: They pass again.",
            "/1.0.0\n",
            "answer: MIT.",
            "tests: 7",
            "status: interrupted",
        ] {
            assert!(out.contains(line), "{line}: {out}");
        }
    });
}

/// Answers an agent that has the tools of the example server.
fn counter(request: &HttpRequest) -> MockAnswer {
    let text = request.text();
    if text.contains("3 words") {
        return MockAnswer::reply(&Reply::text("m", "Three."));
    }
    let words = json!({"text": "a b c"});
    MockAnswer::reply(&Reply::calls("m", [("mcp__words__count_words", words)]))
}

#[test]
fn agent_extensions() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("recording");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let server = runtime.block_on(MockServer::start_with(counter)).unwrap();
    let url = server.base_url();
    let program = env!("CARGO_BIN_EXE_mcp_server");
    let args = [&url, "m", program, file.to_str().unwrap()];
    let out = run_in(home.path(), env!("CARGO_BIN_EXE_agent_extensions"), &args);
    assert_eq!(out, "answer: Three.\nplayed again: Three.\n");
    // The replay asked nobody and ran nothing again.
    assert_eq!(server.requests().len(), 2);
    let hook = fs::read_to_string(home.path().join("hook.log")).unwrap();
    let seen: Value = serde_json::from_str(&hook).unwrap();
    assert_eq!(seen["tool"], "mcp__words__count_words");
}

/// An agent with one child is shown while its requests are on their way.
#[test]
fn agent_tree() {
    let answer = |request: &HttpRequest| match request.text() {
        text if text.contains("\"tool_call_id\"") => {
            MockAnswer::reply(&Reply::text("m", "Both are done."))
        }
        text if text.contains("Do both.") => {
            let task = json!({"goal": "Count the tests"});
            MockAnswer::reply(&Reply::calls("m", [("delegate_task", task)]))
        }
        _ => MockAnswer::reply(&Reply::text("m", "Seven.")),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let server = runtime.block_on(MockServer::start_with(answer)).unwrap();
    let out = run(env!("CARGO_BIN_EXE_agent_tree"), &[&server.base_url(), "m", "Do both."]);
    assert!(out.starts_with("running: Do both. (0 steps) \n1 agents, 0 tokens\n"), "{out}");
    assert!(out.ends_with("answer: Both are done.\n"), "{out}");
}

/// Waits for something that another process does.
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "no {what} after 60 seconds");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_command_ends_with_a_program_that_is_killed() {
    let home = tempfile::tempdir().unwrap();
    let pid_file = home.path().join("pid");
    let script = format!("#!/bin/sh\necho $$ > {}\nexec sleep 600\n", pid_file.display());
    fs::write(home.path().join("cargo"), script).unwrap();
    fs::set_permissions(home.path().join("cargo"), Permissions::from_mode(0o755)).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let command = Reply::calls("m", [("terminal", json!({"command": "cargo test"}))]);
    let server = runtime.block_on(MockServer::start([MockAnswer::reply(&command)])).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let path = format!("{}:{}", home.path().display(), path.display());
    let mut program = Command::new(env!("CARGO_BIN_EXE_agent_features"))
        .args([&server.base_url(), "m"])
        .current_dir(home.path())
        .env("PATH", path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // A PID of its own namespace is of no use here: the command is found by its working directory.
    wait_until("command", || pid_file.exists() && !sleeping(home.path()).is_empty());
    program.kill().unwrap();
    program.wait().unwrap();
    wait_until("end of the command", || sleeping(home.path()).is_empty());
}

/// The processes that sleep in a directory.
fn sleeping(directory: &Path) -> Vec<u32> {
    let directory = directory.canonicalize().unwrap();
    let processes = fs::read_dir("/proc").unwrap();
    let ids = processes.filter_map(|it| it.ok()?.file_name().to_str()?.parse().ok());
    ids.filter(|id: &u32| {
        let at = fs::read_link(format!("/proc/{id}/cwd"));
        let name = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
        at.is_ok_and(|at| at == directory) && name == "sleep\n"
    })
    .collect()
}

#[test]
fn own_rules() {
    let out = run(env!("CARGO_BIN_EXE_own_rules"), &[]);
    assert_eq!(out, "send Ok\nsend Denied\nsend Denied\n");
}

#[test]
fn own_hook() {
    assert_eq!(run(env!("CARGO_BIN_EXE_own_hook"), &[]), "look_up Ok\nlook_up Denied\n");
}

/// A model that reads the diary, hands something on, and is done.
fn diarist(request: &HttpRequest) -> MockAnswer {
    let text = request.text();
    MockAnswer::reply(&if text.contains("\"tool_call_id\"") {
        Reply::text("m", "Done.")
    } else if text.contains("You are a child agent") {
        Reply::text("m", "Nothing.")
    } else {
        let task = json!({"goal": "Look around"});
        let read = json!({"path": "diary.txt"});
        Reply::calls("m", [("read_file", read), ("delegate_task", task)])
    })
}

/// A message that may go on from the last answer.
type RequestStep<'a> = Box<dyn Fn(&Value) -> Value + 'a>;

fn message<'a>(method: &'static str, params: impl Fn(&Value) -> Value + 'a) -> RequestStep<'a> {
    Box::new(move |last| json!({"jsonrpc": "2.0", "method": method, "params": params(last)}))
}

/// Has the program answer requests, one after the other; the last answer.
fn talk(mut command: Command, messages: Vec<RequestStep<'_>>) -> Value {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = Value::Null;
    for (id, message) in messages.into_iter().enumerate() {
        let mut message = message(&last);
        let asks = !message["method"].as_str().unwrap().starts_with("notifications/");
        if asks {
            message["id"] = json!(id);
        }
        writeln!(input, "{message}").unwrap();
        while asks && last["id"] != json!(id) {
            let line = output.next().expect("an answer").unwrap();
            last = serde_json::from_str(&line).unwrap();
        }
    }
    drop(input);
    assert!(child.wait().unwrap().success());
    last
}

/// What comes of a task that is given to the program by one of its commands.
fn describe(program: &str, command: &str, model: &[&str], home: &Path) -> Value {
    let mut run = Command::new(program);
    run.arg(command).args(model).current_dir(home).env("DEPUTIZE_HOME", home.join("home"));
    let hello = |params: Value| message("initialize", move |_| params.clone());
    match command {
        "run" => {
            let output = run.args(["-q", "Go"]).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            json!(String::from_utf8(output.stdout).unwrap().trim())
        }
        "acp" => {
            let prompt = json!([{"type": "text", "text": "Go"}]);
            let messages = vec![
                hello(json!({"protocolVersion": 1, "clientCapabilities": {}})),
                message("session/new", |_| json!({"cwd": home, "mcpServers": []})),
                message(
                    "session/prompt",
                    move |opened| json!({"sessionId": opened["result"]["sessionId"], "prompt": prompt}),
                ),
            ];
            talk(run, messages)["result"]["stopReason"].clone()
        }
        _ => {
            let client = json!({"name": "test", "version": "1"});
            let version = json!({
                "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client,
            });
            let messages = vec![
                hello(version),
                message("notifications/initialized", |_| json!({})),
                message("tools/call", |_| json!({"name": "run", "arguments": {"prompt": "Go"}})),
            ];
            talk(run, messages)["result"]["content"][0]["text"].clone()
        }
    }
}

#[test]
fn own_memory() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let program = env!("CARGO_BIN_EXE_own_memory");
    for (command, answer) in [("run", "Done."), ("acp", "end_turn"), ("mcp-serve", "Done.")] {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("memory.txt"), "Before: completed\n").unwrap();
        fs::write(home.path().join("diary.txt"), "Dear diary").unwrap();
        let server = runtime.block_on(MockServer::start_with(diarist)).unwrap();
        let url = server.base_url();
        let model = ["-m", "openai/m", "--base-url", &url];
        assert_eq!(describe(program, command, &model, home.path()), answer, "{command}");
        let kept = fs::read_to_string(home.path().join("memory.txt")).unwrap();
        assert_eq!(kept, "Before: completed\nLook around: completed\n", "{command}");
        let asked: Vec<String> = server.requests().iter().map(HttpRequest::text).collect();
        let with = |words: &str| asked.iter().filter(|text| text.contains(words)).count();
        assert_eq!(asked.len(), 3, "{command}: the top agent twice, its child once");
        assert_eq!(with("Before: completed"), 2, "{command}: the top agent alone is told");
        assert_eq!(with("the diary is read by nobody"), 1, "{command}");
        assert_eq!(with("Dear diary"), 0, "{command}");
    }
}

/// The last result that a model was given which makes one call, in a run of `deputize` that is
/// configured so.
fn result_of(call: (&'static str, Value), settings: &[&str]) -> String {
    let home = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(MockServer::start([
        MockAnswer::reply(&Reply::calls("m", [call])),
        MockAnswer::reply(&Reply::text("m", "Done.")),
    ]));
    let server = server.unwrap();
    let mut run = Command::new(env!("CARGO_BIN_EXE_own_program"));
    run.args(["run", "-q", "-m", "openai/m", "--base-url", &server.base_url()]);
    run.args(settings.iter().flat_map(|setting| ["--set", setting]));
    let output = run.args(["--approve", "auto", "Go"]).current_dir(home.path());
    let output = output.env("DEPUTIZE_HOME", home.path().join("home")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let asked = server.requests().last().unwrap().json();
    asked["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned()
}

#[test]
fn mcp_server() {
    let entry = json!({"command": env!("CARGO_BIN_EXE_mcp_server")});
    let call = ("mcp__words__count_words", json!({"text": "one two three"}));
    let result = result_of(call, &[&format!("mcp_servers.words={entry}")]);
    assert!(result.contains("\n3 words\n"), "{result}");
}

/// A word that is longer than the path of any directory that the task names.
fn longest_word() -> String {
    "incomprehensibilities-".repeat(20)
}

#[test]
fn acp_agent() {
    let command = format!("delegation.acp_command={}", env!("CARGO_BIN_EXE_acp_agent"));
    let call = ("delegate_task", json!({"goal": format!("Find {}", longest_word())}));
    let result = result_of(call, &[&command, "delegation.approvals=auto"]);
    let answer = format!("The longest word is `{}`.", longest_word());
    assert!(result.contains(&answer), "{result}");
}

#[test]
fn acp_agent_of_an_embedder() {
    let home = tempfile::tempdir().unwrap();
    let program =
        AcpProgram::find(env!("CARGO_BIN_EXE_acp_agent"), Vec::new(), BTreeMap::new()).unwrap();
    let model = ScriptedModel::rule(|seen| {
        Some(match seen.results().last() {
            None => {
                let task = json!({"goal": format!("Find {}", longest_word())});
                Reply::calls("m", [("delegate_task", task)]).into()
            }
            Some(result) => Reply::text("m", result.text.as_str()).into(),
        })
    });
    let approvals = ChildApprovals { mode: ApproverMode::Auto, ..Default::default() };
    let agent = Agent::builder()
        .model(AgentModel::value("m", model))
        .tools(deputize_tools::LINK)
        .workspace(home.path())
        .delegation(DelegationConfig { approvals, ..Default::default() })
        .external_agent(program)
        .build()
        .unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let text = runtime.block_on(agent.run("Find it.")).text.unwrap();
    let answer = format!("The longest word is `{}`.", longest_word());
    assert!(text.contains(&answer), "{text}");
}

#[test]
fn tools_at_run_time() {
    let out = run(env!("CARGO_BIN_EXE_tools_at_run_time"), &[]);
    assert!(out.contains("\n6.21\n"), "{out}");
}

#[test]
fn watch() {
    let out = run(env!("CARGO_BIN_EXE_watch"), &[]);
    assert_eq!(out, "s1 starts: Say good day.\ns1 says: Good day.\ns1 ends\n");
}

#[test]
fn each_is_short_and_is_run_and_is_in_the_list() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tests = include_str!("run.rs");
    let list = fs::read_to_string(here.join("README.md")).unwrap();
    let mut seen = BTreeSet::new();
    for entry in fs::read_dir(here.join("src/bin")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines < 80, "{name} has {lines} lines");
        assert!(tests.contains(&format!("CARGO_BIN_EXE_{name}\"")), "{name} is not run");
        assert!(
            list.contains(&format!("[{name}](src/bin/{name}.rs)")),
            "{name} is not in README.md"
        );
        seen.insert(name);
    }
    assert!(seen.len() >= 6, "{seen:?}");
}
