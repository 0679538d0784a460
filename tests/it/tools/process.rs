//! Background commands, with real processes.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use deputize_core::model::Reply;
use deputize_requirements::{program, require};
use deputize_testkit::MockAnswer;
use serde_json::{Value, json};

use super::{blocks, calls_in_order};
use crate::kill::{kill, resume};
use crate::program::{ChatRequest, Lab, RunningProgram, model, sees};

const AUTO: [&str; 4] = ["--approve", "auto", "--output", "events"];

fn background(command: &str) -> (&'static str, Value) {
    ("terminal", json!({"command": command, "background": true}))
}

fn process(action: &str, more: &Value) -> (&'static str, Value) {
    let mut arguments = json!({"action": action, "id": "p1"});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ("process", arguments)
}

/// Makes these calls, one a step, and gives their results.
async fn results_of(lab: &Lab, calls: Vec<(&'static str, Value)>) -> Vec<String> {
    let server = model(calls_in_order(calls)).await;
    lab.run(&server, &[&AUTO[..], &["Go"]].concat()).end().await.with_code(0);
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    last.results().iter().map(|result| (*result).to_owned()).collect()
}

#[tokio::test]
async fn the_calls_of_the_page_work() {
    require!(program("python3"));
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/tools/terminal.md");
    let page = fs::read_to_string(page).unwrap();
    let calls: Vec<_> = blocks(&page, "json call=")
        .into_iter()
        .map(|(tool, call)| {
            let tool = if tool.trim() == "terminal" { "terminal" } else { "process" };
            (tool, serde_json::from_str::<Value>(call).unwrap())
        })
        .collect();
    let wanted = blocks(&page, "text result");
    assert_eq!((calls.len(), wanted.len()), (5, 5));
    let lab = Lab::new();
    let results = results_of(&lab, calls).await;
    for (result, (_, wanted)) in results.iter().zip(wanted) {
        for line in wanted.lines() {
            assert!(result.contains(line), "{result}\nlacks: {line}");
        }
    }
    assert!(lab.processes().is_empty(), "{:?}", lab.processes());
}

#[tokio::test]
async fn a_server_in_the_background_answers_a_later_call_and_ends_with_the_run() {
    require!(program("python3"));
    let lab = Lab::new();
    fs::write(lab.work("page.txt"), "from the server").unwrap();
    let serve = "import http.server, socketserver\n\
                 s = socketserver.TCPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n\
                 open('port', 'w').write(str(s.server_address[1]))\n\
                 print('listening', flush=True)\n\
                 s.serve_forever()\n";
    fs::write(lab.work("serve.py"), serve).unwrap();
    let get = "python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:' + \
               open('port').read() + '/page.txt').read().decode())\"";
    let results = results_of(
        &lab,
        vec![
            background("python3 serve.py"),
            process("wait", &json!({"until": "listening"})),
            ("terminal", json!({"command": get})),
            process("wait", &json!({"until": "GET /page.txt"})),
        ],
    )
    .await;
    assert!(results[2].contains("from the server"), "{results:#?}");
    assert!(results[3].contains("the text has come"), "{results:#?}");
    assert!(lab.processes().is_empty(), "{:?}", lab.processes());
}

#[tokio::test]
async fn python_on_a_terminal_is_talked_to() {
    require!(program("python3"));
    let lab = Lab::new();
    let python = json!({"command": "python3 -i -q", "background": true, "pty": true});
    let results = results_of(
        &lab,
        vec![
            ("terminal", python),
            process("write", &json!({"text": "6 * 7\n", "until": "42"})),
            process(
                "write",
                &json!({"text": "import sys; sys.stdout.isatty()\n", "until": "True"}),
            ),
            process("write", &json!({"text": "exit(4)\n"})),
            process("wait", &json!({})),
        ],
    )
    .await;
    // What it prints is there, and what was written is not.
    assert!(results[1].contains("42") && !results[1].contains("6 * 7"), "{results:#?}");
    assert!(!results[2].contains("isatty"), "{results:#?}");
    assert!(results[1].contains("the text has come"), "{results:#?}");
    assert!(results[2].contains("the text has come"), "{results:#?}");
    assert!(results[4].contains("exit code 4"), "{results:#?}");
    assert!(!results.concat().contains('\u{1b}'), "{results:#?}");
}

/// The messages about ends that a request has.
fn ends(asked: &ChatRequest) -> Vec<&str> {
    let users = asked.users();
    users.into_iter().filter(|text| text.starts_with("Your background command ")).collect()
}

/// Starts a command that runs until the pipe `gate` is opened, with a message at its end, and
/// answers with how many ends it knows of.
fn notified() -> impl Fn(&ChatRequest) -> MockAnswer + Send + Sync + 'static {
    let start = json!({
        "command": "cat gate; echo built; exit 3", "background": true, "notify_on_complete": true
    });
    move |asked: &ChatRequest| match asked.results().len() {
        0 => MockAnswer::reply(&Reply::calls("served-1", [("terminal", start.clone())])),
        _ => MockAnswer::reply(&Reply::text("served-1", format!("I know {}.", ends(asked).len()))),
    }
}

#[tokio::test]
async fn an_idle_agent_is_woken_once_by_the_end_of_its_command() {
    let lab = Lab::new();
    let gate = lab.work("gate");
    rustix::fs::mkfifoat(rustix::fs::CWD, &gate, 0o600.into()).unwrap();
    let server = model(notified()).await;
    let running = lab.run(&server, &[&AUTO[..], &["Build it"]].concat());
    running.event("agent.rest", |_| true).await;
    let start = running.event("process.start", |_| true).await;
    assert_eq!((&start["process"], &start["notify"]), (&json!("p1"), &json!(true)));
    assert_eq!(server.requests().len(), 2);
    // The command reads the end of its input.
    drop(fs::OpenOptions::new().write(true).open(&gate).unwrap());
    let ended = running.end().await.with_code(0);
    assert!(ended.err.contains("has answered, and waits for p1\n"), "{}", ended.err);
    let end = &ended.events("process.end")[0];
    assert_eq!(end["exit"], json!({"how": "code", "code": 3}));
    assert_eq!(ended.events("model.response").pop().unwrap()["text"], "I know 1.");
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    let last = ChatRequest::of(&requests[2]);
    let [message] = ends(&last)[..] else { panic!("{:?}", last.users()) };
    assert!(message.starts_with("Your background command p1 has ended: exit code 3."), "{message}");
    assert!(message.contains("built"), "{message}");
    // One that goes on later is not told again.
    let server = model(|asked| {
        MockAnswer::reply(&Reply::text("served-1", format!("I know {}.", ends(asked).len())))
    })
    .await;
    let again = resume(&lab, &server, &[&AUTO[..], &["And now?"]].concat()).await.with_code(0);
    assert_eq!(again.events("model.response")[0]["text"], "I know 1.");
}

/// The ends of commands are told in one closing request, and start none after it.
#[tokio::test]
async fn the_ends_of_commands_start_no_request_beyond_the_closing_one() {
    let lab = Lab::new();
    let gates: Vec<_> = ["one", "two", "three"].map(|name| lab.work(name)).into();
    for gate in &gates {
        rustix::fs::mkfifoat(rustix::fs::CWD, gate, 0o600.into()).unwrap();
    }
    let open = |gate: &Path| drop(fs::OpenOptions::new().write(true).open(gate).unwrap());
    let start = |name: &str| {
        let command = format!("cat {name}");
        let notified = json!({"command": command, "background": true, "notify_on_complete": true});
        ("terminal", notified)
    };
    let script = move |then: &'static str| {
        let calls = ["one", "two", "three"].map(start);
        move |asked: &ChatRequest| match asked.results().len() {
            0 => MockAnswer::reply(&Reply::calls("served-1", calls.clone())),
            3 if then == "calls" => {
                let calls = [process("list", &json!({}))];
                MockAnswer::reply(&Reply::calls("served-1", calls))
            }
            _ => {
                let text = format!("I know {}.", ends(asked).len());
                MockAnswer::reply(&Reply::text("served-1", text))
            }
        }
    };
    let limit = ["--max-iterations", "2", "Build it"];
    // It waits at its limit, and hears of all ends at once.
    let server = model(script("waits")).await;
    let running = lab.run(&server, &[&AUTO[..], &limit].concat());
    running.event("agent.rest", |_| true).await;
    for (gate, name) in gates.iter().zip(["p1", "p2", "p3"]) {
        open(gate);
        running.event("process.end", |end| end["process"] == name).await;
    }
    let ended = running.end().await.with_code(4);
    assert_eq!(ended.events("model.response").pop().unwrap()["text"], "I know 3.");
    assert_eq!(server.requests().len(), 3);
    // It has given its closing answer, and the ends are on record alone.
    let server = model(script("calls")).await;
    let running = lab.run(&server, &[&AUTO[..], &limit].concat());
    running.event("model.response", |reply| reply["text"] == "I know 0.").await;
    for (gate, name) in gates.iter().zip(["p1", "p2", "p3"]) {
        open(gate);
        running.event("process.end", |end| end["process"] == name).await;
    }
    let ended = running.end().await.with_code(4);
    let exits = ended.events("process.end");
    assert!(exits.iter().all(|end| end["exit"]["code"] == 0), "{exits:?}");
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn a_killed_program_leaves_no_process_and_its_agent_reads_so_later() {
    let lab = Lab::new();
    let gate = lab.work("gate");
    rustix::fs::mkfifoat(rustix::fs::CWD, &gate, 0o600.into()).unwrap();
    let server = model(notified()).await;
    let running = lab.run(&server, &[&AUTO[..], &["Build it"]].concat());
    running.event("agent.rest", |_| true).await;
    assert!(!lab.processes().is_empty());
    kill(&lab, running).await;
    let server = model(|asked| match asked.results().len() {
        1 => MockAnswer::reply(&Reply::calls("served-1", [process("read", &json!({}))])),
        _ => MockAnswer::reply(&Reply::text("served-1", format!("I know {}.", ends(asked).len()))),
    })
    .await;
    let ended = resume(&lab, &server, &AUTO).await.with_code(0);
    assert_eq!(ended.events("model.response").pop().unwrap()["text"], "I know 1.");
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    let killed = "p1 has ended: killed, because the program ended. The command: ";
    assert!(ends(&last)[0].contains(killed), "{:?}", last.users());
    let gone = "p1 is gone: killed, because the program ended";
    assert!(last.results()[1].contains(gone), "{:?}", last.results());
}

#[tokio::test]
async fn what_still_runs_at_the_end_of_a_turn_is_known_in_the_next() {
    let lab = Lab::new();
    let sleep = format!("sleep {}", lab.mark());
    let server = model(calls_in_order(vec![background(&sleep)])).await;
    let ended = lab.run(&server, &[&AUTO[..], &["Go"]].concat()).end().await.with_code(0);
    assert_eq!(ended.events("process.end")[0]["exit"]["how"], "agent_ended");
    assert!(lab.processes().is_empty(), "{:?}", lab.processes());
    let server = model(|asked| {
        MockAnswer::reply(&Reply::text("served-1", format!("I know {}.", ends(asked).len())))
    })
    .await;
    let again = resume(&lab, &server, &[&AUTO[..], &["And now?"]].concat()).await.with_code(0);
    assert_eq!(again.events("model.response")[0]["text"], "I know 1.");
    let mut show = lab.deputize(&["sessions", "show"]);
    show.arg(lab.session());
    let shown = RunningProgram::start(show).end().await.with_code(0);
    assert!(shown.out.contains("killed, because the turn of its agent ended"), "{}", shown.out);
}

#[tokio::test]
async fn a_childs_commands_end_with_it_and_its_report_names_them() {
    let lab = Lab::new();
    let sleep = format!("sleep {}", lab.mark());
    let task = json!({"goal": "Start it."});
    let server = model(move |asked| match asked.system().contains("YOUR TASK:") {
        true => calls_in_order(vec![background(&sleep)])(asked),
        false => calls_in_order(vec![("delegate_task", task.clone())])(asked),
    })
    .await;
    let set = ["--set", "delegation.approvals=auto", "Hand on"];
    lab.run(&server, &[&AUTO[..], &set].concat()).end().await.with_code(0);
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    let report = last.results()[0];
    assert!(report.contains("still ran, was killed"), "{report}");
    assert!(lab.processes().is_empty(), "{:?}", lab.processes());
}

#[tokio::test]
async fn waiting_is_no_repetition() {
    // What the model is told of a repetition, which `list` is.
    const NOTE: &str = "Your last calls repeat, and their results do not change.";
    for (action, times, is_told) in [("wait", 12, false), ("list", 5, true)] {
        let lab = Lab::new();
        let mut calls = vec![background("true"), process("wait", &json!({}))];
        calls.extend((0..times).map(|_| match action {
            "list" => ("process", json!({"action": "list"})),
            _ => process("wait", &json!({})),
        }));
        let count = calls.len();
        let server = model(calls_in_order(calls)).await;
        lab.run(&server, &[&AUTO[..], &["Go"]].concat()).end().await.with_code(0);
        let requests = server.requests();
        let last = requests.last().unwrap();
        assert_eq!(ChatRequest::of(last).results().len(), count, "{}", last.text());
        let told = requests.iter().any(|request| request.text().contains(NOTE));
        assert_eq!(told, is_told, "{action}: {}", last.text());
    }
}

#[tokio::test]
async fn a_command_is_judged_in_the_directory_of_its_shell() {
    let lab = Lab::new();
    let emptied = json!({"command": "echo kept > kept.txt; rm -f ./other* && rm -rf *"});
    let calls = vec![
        ("terminal", json!({"command": "touch here.txt && rm -rf * && ls"})),
        ("terminal", json!({"command": "cd \"$HOME\""})),
        ("terminal", emptied.clone()),
        ("terminal", json!({"command": "rm -rf *", "background": true})),
    ];
    let results = results_of(&lab, calls).await;
    assert!(!results[0].contains("never runs here"), "{results:#?}");
    for stopped in &results[2..] {
        assert!(stopped.contains("never runs here"), "{results:#?}");
    }
    assert!(!lab.path("kept.txt").exists() && lab.path("work").exists());
}

/// What is no dangerous command may be anything to the program that reads it.
#[tokio::test]
async fn no_input_of_a_program_counts_as_safe() {
    let lab = Lab::new();
    let text = "import shutil\nshutil.rmtree('.')\n";
    let calls = vec![background("cat"), process("write", &json!({"text": text}))];
    let server = model(calls_in_order(calls)).await;
    let (mut person, running) = lab.on_terminal(&server, &["Go"]);
    let question = sees(&person, "Run it? [y/N] ").await;
    let unbounded = "it would run with all your rights, and no sandbox holds it.\r\n";
    assert!(question.contains(&format!("\nsafe: {unbounded}")), "{question}");
    person.write_all(b"y\n").unwrap();
    let question = sees(&person, "Run it? [y/N] ").await;
    for shown in ["  | shutil.rmtree('.')", "with input of: \"cat\"", "\ndangerous: "] {
        assert!(question.contains(shown), "{question}\n--- wanted ---\n{shown}");
    }
    assert!(question.contains(&format!("\ndangerous: {unbounded}")), "{question}");
    person.write_all(b"n\n").unwrap();
    running.end().await.with_code(0);
}

#[tokio::test]
async fn input_asks_as_a_command_does_and_the_deny_list_holds_for_it() {
    let lab = Lab::new();
    let results = results_of(
        &lab,
        vec![
            background("cat; exit 6"),
            process("write", &json!({"text": "rm -rf /\n"})),
            ("terminal", json!({"command": "rm -rf /", "background": true})),
            process("write", &json!({"text": "fine", "close": true})),
            process("wait", &json!({})),
        ],
    )
    .await;
    assert!(results[1].contains("never runs here"), "{results:#?}");
    assert!(results[2].contains("never runs here"), "{results:#?}");
    assert!(results[4].contains("fine") && results[4].contains("exit code 6"), "{results:#?}");
    // Without a person, what asks is denied, and what only looks is not.
    let calls = vec![
        process("write", &json!({"text": "x"})),
        ("process", json!({"action": "list"})),
        background("true"),
    ];
    let server = model(calls_in_order(calls)).await;
    lab.run(&server, &["--approve", "deny", "Go"]).end().await.with_code(0);
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    let results = last.results();
    assert!(results[0].contains("no background command p1"), "nobody is asked: {results:#?}");
    assert!(results[1].contains("no background commands"), "{results:#?}");
    assert!(results[2].contains("denied"), "{results:#?}");
}
