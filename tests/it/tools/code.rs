//! Scripts that call tools, with real Python.

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

fn script(code: &str) -> Vec<(&'static str, Value)> {
    vec![("execute_code", json!({ "code": code }))]
}

/// The calls of some events: the ID, and the tool.
fn calls(events: &[Value]) -> Vec<String> {
    let field = |event: &Value, name: &str| event[name].as_str().unwrap().to_owned();
    events.iter().map(|it| format!("{} {}", field(it, "call"), field(it, "tool"))).collect()
}

#[tokio::test]
async fn the_script_of_the_page_prints_what_it_says() {
    require!(program("python3"));
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/tools/code.md");
    let page = fs::read_to_string(page).unwrap();
    let call: Value = serde_json::from_str(blocks(&page, "json call")[0].1).unwrap();
    let (_, wanted) = blocks(&page, "text result")[0];
    let lab = Lab::new();
    fs::write(lab.work("a.md"), "one two three\n").unwrap();
    fs::write(lab.work("b.md"), "four five\n").unwrap();
    let server = model(calls_in_order(vec![("execute_code", call)])).await;
    let file = ["--record", "../t.jsonl"];
    let ended = lab.run(&server, &[&AUTO[..], &file, &["Go"]].concat()).end().await.with_code(0);
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    assert_eq!(last.results().len(), 1, "only the output returns");
    assert!(last.results()[0].contains(wanted), "{}\n{wanted}", last.results()[0]);
    assert!(!last.results()[0].contains("one two three"));
    let started = calls(&ended.events("tool.start"));
    let nested = ["search_files", "read_file", "read_file", "terminal"];
    let nested = (1..).zip(nested).map(|(number, tool)| format!("call_1_0_{number} {tool}"));
    let wanted: Vec<_> = ["call_1_0 execute_code".to_owned()].into_iter().chain(nested).collect();
    assert_eq!(started, wanted);
    assert_eq!(ended.events("tool.end").len(), 5);
    assert_eq!(ended.events("file.read").len(), 2);
    assert!(lab.processes().is_empty(), "{:?}", lab.processes());

    // Neither Python nor files are needed to play it again.
    drop(server);
    fs::remove_file(lab.work("a.md")).unwrap();
    let mut replay = lab.deputize(&["run", "--replay", "../t.jsonl", "--output", "events"]);
    replay.env("PATH", "/nowhere");
    let replayed = RunningProgram::start(replay).end().await.with_code(0);
    assert_eq!(calls(&replayed.events("tool.start")), started);
}

#[tokio::test]
async fn a_script_that_nobody_approves_does_not_run() {
    require!(program("python3"));
    let lab = Lab::new();
    let server = model(calls_in_order(script("open('made', 'w')"))).await;
    let args = ["--approve", "deny", "--output", "events", "Go"];
    let ended = lab.run(&server, &args).end().await.with_code(0);
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    assert!(last.results()[0].contains("denied"), "{}", last.results()[0]);
    assert_eq!(ended.events("approval.decision")[0]["decision"], "deny");
    assert!(!lab.work("made").exists());
}

#[tokio::test]
async fn a_person_is_asked_about_the_script_and_about_its_commands() {
    require!(program("python3"));
    let lab = Lab::new();
    let code = "write_file('a', 'x')\ntry:\n    terminal('touch denied')\nexcept ToolError as error:\n    \
                print('no:', error.status)\nprint(terminal('echo allowed')['output'])";
    let server = model(calls_in_order(script(code))).await;
    let (mut person, running) = lab.on_terminal(&server, &["--output", "events", "Go"]);
    let screen = sees(&person, "Run it? [y/N] ").await;
    assert!(screen.contains("write_file('a', 'x')"), "{screen}");
    person.write_all(b"y\n").unwrap();
    let screen = sees(&person, "Run it? [y/N] ").await;
    assert!(screen.contains("touch denied"), "{screen}");
    person.write_all(b"n\n").unwrap();
    let screen = sees(&person, "Run it? [y/N] ").await;
    assert!(screen.contains("echo allowed"), "{screen}");
    person.write_all(b"y\n").unwrap();
    let ended = running.end().await.with_code(0);
    let asked = ended.events("approval.request");
    let asked: Vec<_> = asked.iter().map(|event| event["call"].as_str().unwrap()).collect();
    assert_eq!(asked, ["call_1_0", "call_1_0_2", "call_1_0_3"]);
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    assert!(last.results()[0].contains("no: denied\nallowed"), "{}", last.results()[0]);
    assert!(!lab.work("denied").exists() && lab.work("a").exists());
}

#[tokio::test]
async fn a_script_that_a_kill_broke_off_is_not_run_again_and_its_calls_are_known() {
    require!(program("python3"));
    let lab = Lab::new();
    let mut begun = lab.pipe("begun");
    let code = format!(
        "write_file('first', 'x')\nterminal('echo begun > begun; sleep {0}')\n",
        lab.mark()
    );
    let server = model(calls_in_order(script(&code))).await;
    let running = lab.run(&server, &[&AUTO[..], &["Go"]].concat());
    begun.lines(1).await;
    kill(&lab, running).await;
    let ended = resume(&lab, &server, &["--output", "events"]).await.with_code(0);
    let ends = ended.events("tool.end");
    assert_eq!(calls(&ends), ["call_1_0_2 terminal", "call_1_0 execute_code"]);
    assert!(ended.events("tool.start").is_empty(), "{}", ended.out);
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    assert!(last.results()[0].contains("its outcome is unknown"), "{}", last.results()[0]);
    assert!(lab.processes().is_empty(), "{:?}", lab.processes());
}

/// Hostile scripts end, and so does the run.
#[tokio::test]
async fn a_script_that_attacks_what_started_it_harms_itself() {
    require!(program("python3"));
    let attacks = [
        "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nprint('alive')",
        "import os, signal\nos.killpg(os.getpgid(0), signal.SIGKILL)",
        "import os\nfor fd in range(100):\n    try:\n        os.close(fd)\n    except OSError:\n        pass",
        "import os\nfor fd in (0, 1, 2):\n    os.closerange(0, 50)\nos._exit(0)",
    ];
    for attack in attacks {
        let lab = Lab::new();
        let server = model(calls_in_order(script(attack))).await;
        let ended = lab.run(&server, &[&AUTO[..], &["Go"]].concat()).end().await.with_code(0);
        assert_eq!(ended.events("tool.end").len(), 1, "{attack}: {}", ended.out);
        assert!(lab.processes().is_empty(), "{attack}: {:?}", lab.processes());
    }
}

#[tokio::test]
async fn children_have_no_scripts() {
    require!(program("python3"));
    let lab = Lab::new();
    let task = json!({"goal": "Look around.", "toolsets": ["file", "code_execution"]});
    let server = model(move |asked: &ChatRequest| {
        MockAnswer::reply(&match asked.system().contains("YOUR TASK:") {
            false if asked.results().is_empty() => {
                Reply::calls("served-1", [("delegate_task", task.clone())])
            }
            _ => Reply::text("served-1", "Done."),
        })
    })
    .await;
    let args = ["--set", "delegation.approvals=auto", "Hand on"];
    lab.run(&server, &args).end().await.with_code(0);
    let requests = server.requests();
    assert!(ChatRequest::of(&requests[0]).tools().contains(&"execute_code"));
    let child = requests.iter().map(ChatRequest::of).find(|it| it.system().contains("YOUR TASK:"));
    assert!(!child.unwrap().tools().contains(&"execute_code"));
}

#[tokio::test]
async fn doctor_runs_python_and_shows_its_version() {
    require!(program("python3"));
    let lab = Lab::new();
    let doctor = lab.deputize(&["doctor", "--json"]);
    let ended = RunningProgram::start(doctor).end().await;
    let rows: Vec<Value> = serde_json::from_str(&ended.out).unwrap();
    let python = rows.iter().find(|row| row["what"] == "python3").unwrap();
    let found = python["found"].as_str().unwrap();
    assert!(python["health"] == "ok" && found.starts_with("3."), "{python}");

    let mut doctor = lab.deputize(&["doctor", "--json"]);
    doctor.env("PATH", "/nowhere");
    let ended = RunningProgram::start(doctor).end().await;
    let rows: Vec<Value> = serde_json::from_str(&ended.out).unwrap();
    let python = rows.iter().find(|row| row["what"] == "python3").unwrap();
    assert_eq!(python["health"], "warn", "{python}");
}
