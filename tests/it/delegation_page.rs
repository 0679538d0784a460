//! Runs every call and command of the pages on delegation, as it stands there.

use std::fs;
use std::path::Path;

use deputize_core::model::{Finish, Reply, Usage};
use deputize_testkit::{Barrier, HttpRequest, MockAnswer, MockServer};
use serde_json::{Value, json};

use crate::control::reachable;
use crate::program::{ChatRequest, Lab, PROGRAM, RunningProgram};

/// A call of the page, with the settings that stand before it and the result behind it.
struct Example {
    set: Vec<String>,
    call: Value,
    result: Value,
}

/// The pages of the guide about delegation, by name, and the reference.
fn pages() -> Vec<String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let guide = fs::read_dir(docs.join("guide/delegation")).unwrap();
    let mut paths: Vec<_> = guide.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.push(docs.join("reference/delegation.md"));
    paths.into_iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}

/// All pages as one text.
fn page() -> String {
    pages().join("\n")
}

/// What stands in a fence behind its first line, and what stands before the fence.
fn fences<'p>(page: &'p str, kind: &str) -> Vec<(&'p str, &'p str)> {
    let open = format!("```{kind}\n");
    let at = |(at, _): (usize, &str)| {
        let inside = &page[at + open.len()..];
        (&page[..at], &inside[..inside.find("\n```").unwrap() + 1])
    };
    page.match_indices(&open).map(at).collect()
}

/// The settings that are named between the last result, or heading, and a call.
fn settings(before: &str) -> Vec<String> {
    let after = [before.rfind("\n```\n"), before.rfind("\n## ")].into_iter().flatten().max();
    let text = &before[after.unwrap_or_default()..];
    let named = text.split("`--set ").skip(1);
    named.map(|rest| rest.split('`').next().unwrap().to_owned()).collect()
}

fn examples(page: &str) -> Vec<Example> {
    let calls = fences(page, "json call");
    let results = fences(page, "json result");
    assert_eq!(calls.len(), results.len());
    let parse = |text: &str| -> Value {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    calls
        .into_iter()
        .zip(results)
        .map(|((before, call), (_, result))| Example {
            set: settings(before),
            call: parse(call),
            result: parse(result),
        })
        .collect()
}

/// What a child does, by the first word of its task.
fn child(asked: &ChatRequest, model: &str) -> MockAnswer {
    let usage = Usage { input: 1800, output: 20, ..Usage::default() };
    let reply = |reply: Reply| MockAnswer::reply(&Reply { usage, ..reply });
    let say = |text: &str| reply(Reply::text(model, text));
    let call = |tool: &str, arguments| reply(Reply::calls(model, [(tool, arguments)]));
    // A child with its parent's tools has its prompt in its first message.
    let first = asked.first_user();
    let task = first.split_once("YOUR TASK:\n").map_or(first, |(_, task)| task);
    let goal = task.split([' ', '.']).next().unwrap_or_default();
    match (goal, asked.results().len()) {
        ("List", 0) => call("list_dir", json!({})),
        ("List", _) => say("Two entries: README.md and src."),
        ("Write", 0) => call("write_file", json!({"path": "notes.txt", "content": "Kites fly.\n"})),
        ("Write", _) => say("I wrote notes.txt."),
        ("Review", 0) => call("delegate_task", json!({"goal": "List the entries."})),
        ("Review", _) => say("My child found two entries."),
        ("Count", _) if asked.replies() == 0 => say("There are two files."),
        ("Count", _) => say(r#"{"files": 2}"#),
        ("Look", n) if asked.may_call() => {
            call("list_dir", json!({"path": if n % 2 == 0 { "." } else { "src" }}))
        }
        ("Look", _) => say("This far: README.md."),
        ("Run", 0) => call("terminal", json!({"command": "ls"})),
        ("Run", _) if asked.results()[0].contains("README.md") => say("It shows README.md."),
        ("Run", _) => say("I may not run commands."),
        ("Claim", _) => say("I wrote report.md."),
        ("Tell", _) => {
            let finish =
                if asked.most_output() == Some(200) { Finish::Length } else { Finish::Stop };
            reply(Reply { finish, ..Reply::text(model, "First of all,") })
        }
        ("Fill", 0) => MockAnswer::reply(&Reply {
            text: "I look around.".to_owned(),
            ..Reply::calls(model, [("list_dir", json!({}))])
        }),
        ("Fill", _) => MockAnswer::json(&json!({"error": {
            "code": "context_length_exceeded",
            "message": "This model's maximum context length is 4096 tokens.",
        }}))
        .status(400),
        ("Spin", _) if asked.may_call() => call("list_dir", json!({})),
        ("Spin", _) => say("I go in circles."),
        ("Hush", _) => say(""),
        ("Break", _) => MockAnswer::error(400, "no such thing"),
        other => panic!("no such child: {other:?}"),
    }
}

fn is_child(asked: &ChatRequest) -> bool {
    asked.system().contains("YOUR TASK:") || asked.first_user().contains("YOUR TASK:")
}

async fn server(tool: &'static str, call: Value) -> MockServer {
    let rule = move |request: &HttpRequest| {
        let asked = ChatRequest::of(request);
        if is_child(&asked) {
            return child(&asked, request.json()["model"].as_str().unwrap());
        }
        MockAnswer::reply(&match asked.results().len() {
            0 => Reply::calls("mock", [(tool, call.clone())]),
            _ => Reply::text("mock", "Done."),
        })
    };
    MockServer::start_with(rule).await.unwrap()
}

/// Whether what the page shows is in what there is: fields may be left out, `…` is any text.
fn shows(page: &Value, real: &Value) -> bool {
    match (page, real) {
        (Value::Object(page), Value::Object(real)) => {
            page.iter().all(|(key, value)| real.get(key).is_some_and(|real| shows(value, real)))
        }
        (Value::Array(page), Value::Array(real)) => {
            page.len() == real.len() && page.iter().zip(real).all(|(page, real)| shows(page, real))
        }
        (Value::String(page), Value::String(real)) => {
            let parts: Vec<&str> = page.split('…').collect();
            let mut rest = real.as_str();
            let in_order = parts.iter().all(|part| match rest.find(part) {
                Some(at) => {
                    rest = &rest[at + part.len()..];
                    true
                }
                None => false,
            });
            in_order && real.starts_with(parts[0]) && real.ends_with(parts[parts.len() - 1])
        }
        (page, real) => page == real,
    }
}

fn first_object(actual: &str) -> Value {
    let begin = actual.find('{').unwrap_or_else(|| panic!("{actual}"));
    let mut values = serde_json::Deserializer::from_str(&actual[begin..]).into_iter::<Value>();
    values.next().unwrap().unwrap()
}

#[tokio::test]
async fn each_call_of_the_page_has_the_result_that_stands_there() {
    let pages = pages();
    let examples: Vec<Example> = pages.iter().flat_map(|page| examples(page)).collect();
    assert!(examples.len() >= 20, "{}", examples.len());
    let mut wrong = String::new();
    for Example { set, call, result } in examples {
        let lab = Lab::new();
        fs::write(lab.work("README.md"), "# Kite\n").unwrap();
        fs::create_dir(lab.work("src")).unwrap();
        let plain = set.iter().any(|set| set == "delegation.tool_name=task");
        let server = server(if plain { "task" } else { "delegate_task" }, call.clone()).await;
        let set = set.iter().map(|set| set.replace("http://127.0.0.1:8080/v1", &server.base_url()));
        let mut args: Vec<String> = set.flat_map(|set| ["--set".to_owned(), set]).collect();
        args.push("go".to_owned());
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let ended = lab.run(&server, &args).end().await.with_code(0);
        if result["results"][0]["tool_trace"][0]["status"] == "denied" {
            let warned = "denied without asking: ls";
            assert!(ended.err.contains(warned), "{}", ended.err);
            let requests = server.requests();
            let child = requests.iter().map(ChatRequest::of).rfind(is_child);
            let actual = child.unwrap().results()[0].to_owned();
            assert!(
                actual.contains("nobody is asked") && actual.contains("needs a yes"),
                "{actual}"
            );
        }
        let requests = server.requests();
        let mut top = requests.iter().map(ChatRequest::of).filter(|asked| !is_child(asked));
        let actual = top.nth(1).expect("a request with the result").results()[0].to_owned();
        let real = if plain { Value::String(actual) } else { first_object(&actual) };
        if !shows(&result, &real) {
            wrong += &format!("=== {call} {args:?}\npage: {result:#}\nreal: {real:#}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[tokio::test]
async fn each_call_of_delegate_control_has_the_answer_that_stands_there() {
    let page = page();
    let parse = |(_, text): (&str, &str)| serde_json::from_str::<Value>(text).unwrap();
    let calls: Vec<Value> = fences(&page, "json control").into_iter().map(parse).collect();
    let answers: Vec<Value> = fences(&page, "json answer").into_iter().map(parse).collect();
    assert!(calls.len() == answers.len() && calls.len() >= 5, "{calls:?}");
    let begun = Barrier::closed();
    let never = Barrier::closed();
    let held = (begun.clone(), never);
    let server = crate::program::model(move |asked| {
        let call =
            |tool: &str, arguments| MockAnswer::reply(&Reply::calls("mock", [(tool, arguments)]));
        if is_child(asked) {
            return call("list_dir", json!({})).held_by(&held.1);
        }
        match asked.results().as_slice() {
            [] => call("delegate_task", json!({"goal": "List the entries.", "background": true})),
            [first, rest @ ..] => match calls.get(rest.len()) {
                Some(next) => {
                    let handle = first_object(first)["results"][0]["agent"].clone();
                    let next = next.to_string().replace("HANDLE", handle.as_str().unwrap());
                    call("delegate_control", serde_json::from_str(&next).unwrap()).held_by(&held.0)
                }
                None => MockAnswer::reply(&Reply::text("mock", "Done.")),
            },
        }
    })
    .await;
    let lab = Lab::new();
    let running = lab.run(&server, &["--set", "delegation.background=true", "go"]);
    // Until the child has asked its model.
    server.until_requests(3).await;
    begun.open();
    running.end().await.with_code(0);
    let requests = server.requests();
    let top = requests.iter().map(ChatRequest::of).filter(|asked| !is_child(asked));
    let actual: Vec<Vec<String>> =
        top.map(|asked| asked.results().into_iter().map(str::to_owned).collect()).collect();
    let actual = actual.into_iter().max_by_key(Vec::len).unwrap();
    for (answer, actual) in answers.iter().zip(&actual[1..]) {
        let real = first_object(actual);
        assert!(shows(answer, &real), "page: {answer:#}\nreal: {real:#}");
    }
}

#[tokio::test]
async fn a_child_that_has_ended_gets_the_further_task_that_stands_there() {
    let page = page();
    let parse = |kind| serde_json::from_str::<Value>(fences(&page, kind)[0].1).unwrap();
    let (further, status) = (parse("json further"), parse("json status"));
    let server = crate::program::model(move |asked| {
        let call =
            |tool: &str, arguments| MockAnswer::reply(&Reply::calls("mock", [(tool, arguments)]));
        match asked.results().as_slice() {
            _ if is_child(asked) => MockAnswer::reply(&Reply::text("mock", asked.last_user())),
            [] => call("delegate_task", json!({"goal": "List the entries."})),
            [first] => {
                let handle = first_object(first)["results"][0]["agent"].clone();
                let further = further.to_string().replace("HANDLE", handle.as_str().unwrap());
                call("delegate_control", serde_json::from_str(&further).unwrap())
            }
            _ => MockAnswer::reply(&Reply::text("mock", "Done.")),
        }
    })
    .await;
    let lab = Lab::new();
    let on = ["--set", "delegation.background=true", "go"];
    lab.run(&server, &on).end().await.with_code(0);
    let requests = server.requests();
    let last = requests.iter().map(ChatRequest::of).rfind(|asked| !is_child(asked));
    let last = last.unwrap();
    let real = first_object(last.results()[1]);
    assert!(shows(&status, &real), "page: {status:#}\nreal: {real:#}");
    let actual = last.last_user();
    assert!(actual.contains("has a further task for you:"), "{actual}");
}

#[tokio::test]
async fn the_tools_of_a_child_are_resolved_as_it_stands_there() {
    let page = page();
    let lab = Lab::new();
    let docs = json!({"command": env!("CARGO_BIN_EXE_deputize-mcp-faulty"), "args": ["good"]});
    let docs = format!("mcp_servers.docs={docs}");
    // What a server has is known once it was reached, and offered once it was approved.
    let review = lab.deputize(&["mcp", "review", "docs", "--yes", "--set", &docs]);
    RunningProgram::start(review).end().await.with_code(0);
    let shown: Vec<(&str, &str)> = page
        .split("\n$ deputize toolsets resolve --child ")
        .skip(1)
        .map(|text| text.split("\n```").next().unwrap().split_once('\n').unwrap())
        .collect();
    assert!(shown.len() >= 6, "{shown:?}");
    for (options, table) in shown {
        let auto = "delegation.approvals=auto";
        let mut args = vec!["toolsets", "resolve", "--child", "--set", &docs, "--set", auto];
        args.extend(options.split(' '));
        let ended = RunningProgram::start(lab.deputize(&args)).end().await.with_code(0);
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let real: Vec<Vec<String>> = ended.out.lines().map(words).collect();
        for line in table.lines().filter(|line| !line.is_empty()) {
            assert!(real.contains(&words(line)), "{options}: `{line}` is not in\n{}", ended.out);
        }
    }
}

#[tokio::test]
async fn the_commands_of_the_page_run() {
    let page = page();
    let script: String = fences(&page, "sh").into_iter().map(|(_, script)| script).collect();
    assert!(script.lines().count() >= 5, "{script}");
    let lab = Lab::new();
    fs::write(lab.work("README.md"), "# Kite\n").unwrap();
    let mut command = lab.command("bash");
    command.arg("-euo").arg("pipefail").arg("-c");
    command.arg(format!("deputize() {{ {PROGRAM} \"$@\"; }}\n{script}"));
    command.env("DEPUTIZE__MODEL", "offline");
    let ended = RunningProgram::start(command).end().await.with_code(0);
    for part in ["a leaf cannot delegate", "Count the tests", "# Kite"] {
        assert!(ended.out.contains(part), "no `{part}` in:\n{}", ended.out);
    }
}

#[tokio::test]
async fn the_settings_of_the_page_are_taken_as_they_stand_there() {
    let page = page();
    let fences = fences(&page, "yaml");
    assert!(fences.len() >= 3, "{}", fences.len());
    let lab = Lab::new();
    for (number, (_, yaml)) in fences.into_iter().enumerate() {
        let name = format!("{number}.yaml");
        fs::write(lab.work(&name), yaml).unwrap();
        let check = lab.deputize(&["config", "check", "--config", &name]);
        RunningProgram::start(check).end().await.with_code(0);
    }
}

/// The commands in the tables of the page, each with every option that stands in brackets behind
/// it.
fn in_tables(page: &str) -> Vec<String> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let mut commands: Vec<String> = Vec::new();
    for cell in rows.flat_map(|row| row.split('|')) {
        let spans: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        for (at, command) in spans.iter().enumerate() {
            if command.starts_with("deputize ") {
                commands.push((*command).to_owned());
                let options = spans[at + 1..].iter().take_while(|span| span.starts_with("--"));
                commands.extend(options.map(|option| format!("{command} {option}")));
            }
        }
    }
    commands
}

#[tokio::test]
async fn the_commands_in_the_tables_of_the_page_run() {
    let commands = in_tables(&page());
    assert!(commands.len() >= 8, "{commands:?}");
    for command in commands {
        let lab = Lab::new();
        let gate = Barrier::closed();
        let held = gate.clone();
        let server = crate::program::model(move |asked| {
            let say = |text: &str| MockAnswer::reply(&Reply::text("mock", text));
            match (is_child(asked), asked.results().len()) {
                (true, _) => say("Two entries.").held_by(&held),
                (false, 0) => {
                    let goal = json!({"goal": "List the entries."});
                    MockAnswer::reply(&Reply::calls("mock", [("delegate_task", goal)]))
                }
                (false, _) => say("Done."),
            }
        })
        .await;
        let running = lab.run(&server, &["go"]);
        server.until_requests(2).await;
        reachable(&lab).await;
        let session = lab.session();
        let line = command.replace("SESSION", &session);
        let line = line.replace("AGENT", &format!("{session}/1.0.0"));
        let args: Vec<&str> = line.split(' ').skip(1).collect();
        // What goes on with a session wants one that nobody has.
        let after = args[0] == "run";
        if !after {
            RunningProgram::start(lab.deputize(&args)).end().await.with_code(0);
        }
        if args[0] == "pause" {
            RunningProgram::start(lab.deputize(&["unpause"])).end().await.with_code(0);
        }
        gate.open();
        running.end().await.with_code(0);
        if after {
            RunningProgram::start(lab.deputize(&args)).end().await.with_code(0);
        }
    }
}

#[test]
fn the_page_names_each_setting_of_delegation_that_has_an_effect_on_a_call() {
    let page = page();
    for key in [
        "max_concurrent_children",
        "max_spawn_depth",
        "over_limit",
        "max_iterations",
        "child_timeout_seconds",
        "max_children_per_session",
        "toolset_ceiling",
        "approvals",
        "models",
        "budget",
        "background",
        "prompt_layout",
        "tool_schemas",
        "acp_command",
        "tool_name",
        "default_toolsets",
        "inherit_mcp_toolsets",
        "max_summary_bytes",
        "heartbeat_seconds",
        "stale_idle_seconds",
        "stale_in_tool_seconds",
        "provider",
        "base_url",
        "api_key",
        "api_key_env",
        "reasoning_effort",
        "wrap_up_seconds",
        "orchestrator_enabled",
        "subagent_auto_approve",
        "max_output_tokens",
        "acp_args",
        "acp_env",
        "on_stale_write",
    ] {
        let of_word = |at: char| at.is_ascii_lowercase() || at == '_';
        assert!(page.split(|at| !of_word(at)).any(|word| word == key), "{key}");
    }
}
