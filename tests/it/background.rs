//! Background children: handles at once, each end delivered once, also over a restart, and no
//! request while there is nothing to do.

use std::fs;

use deputize_core::model::{Reply, Usage};
use deputize_testkit::{Barrier, MockAnswer, MockServer};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::program::{ChatRequest, Lab, RunningProgram, model};
use crate::signals::{ended_by, in_time};

mod again;
mod continued;
mod control;
mod late;
mod order;

const ON: [&str; 2] = ["--set", "delegation.background=true"];

fn call(tool: &str, arguments: Value) -> MockAnswer {
    MockAnswer::reply(&Reply::calls("mock", [(tool, arguments)]))
}

fn text(text: &str) -> MockAnswer {
    MockAnswer::reply(&Reply::text("mock", text))
}

fn tasks(count: usize) -> Value {
    let tasks: Vec<Value> = (0..count).map(|n| json!({"goal": format!("child {n}")})).collect();
    json!({"tasks": tasks, "background": true})
}

/// The number of the child that asks; nothing: it is the parent.
fn child(system: &str) -> Option<usize> {
    let (_, task) = system.split_once("YOUR TASK:\nchild ")?;
    task.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// A model whose parent starts so many children and then says how many ends it knows of. Each
/// child says its number when it is let through its gate.
async fn family(gates: Vec<Barrier>) -> MockServer {
    let server = model(move |asked| match child(&asked.system()) {
        Some(number) => text(&format!("{number} is done.")).held_by(&gates[number]),
        None if asked.results().is_empty() => call("delegate_task", tasks(gates.len())),
        None => text(&format!("I know of {}.", end_count(asked))),
    });
    server.await
}

fn end_count(asked: &ChatRequest) -> usize {
    asked.users().iter().filter(|text| text.starts_with("Your background child ")).count()
}

fn run(lab: &Lab, server: &MockServer, args: &[&str]) -> RunningProgram {
    lab.run(server, &[&["--output", "events"], &ON[..], args].concat())
}

/// One child runs at once, and the others wait.
const QUEUE: [&str; 4] =
    ["--set", "delegation.max_concurrent_children=1", "--set", "delegation.over_limit=queue"];

/// A family of which one child runs at once, and whose parent rests.
async fn one_at_a_time(gates: &[Barrier]) -> (Lab, MockServer, RunningProgram) {
    let lab = Lab::new();
    let server = family(gates.to_vec()).await;
    let running = run(&lab, &server, &[&QUEUE[..], &["Share it"]].concat());
    running.event("agent.rest", |_| true).await;
    (lab, server, running)
}

fn requests_of_parent(server: &MockServer) -> usize {
    let requests = server.requests();
    requests.iter().filter(|request| child(&ChatRequest::of(request).system()).is_none()).count()
}

/// Returns the children whose ends were delivered, in order, in a whole session.
async fn delivered(lab: &Lab) -> Vec<String> {
    let mut command = lab.deputize(&["sessions", "export"]);
    command.arg(lab.session());
    let ended = RunningProgram::start(command).end().await.with_code(0);
    let actual = ended.events("child.delivered").into_iter();
    actual.map(|it| it["agent"].as_str().unwrap().rsplit('.').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_parent_rests_and_is_woken_by_each_end() {
    let gates = vec![Barrier::closed(), Barrier::closed()];
    let server = family(gates.clone()).await;
    let lab = Lab::new();
    let running = run(&lab, &server, &["Share it"]);
    running.event("agent.rest", |_| true).await;
    server.until_requests(4).await;
    assert_eq!(requests_of_parent(&server), 2);
    gates[1].open();
    running.event("model.response", |it| it["text"] == "I know of 1.").await;
    assert_eq!(requests_of_parent(&server), 3);
    gates[0].open();
    let ended = running.end().await.with_code(0);
    assert_eq!(requests_of_parent(&server), 4);
    let last = ended.events("model.response").pop().unwrap();
    assert_eq!(last["text"], "I know of 2.");
    assert_eq!(delivered(&lab).await, ["1", "0"]);
    assert_eq!(ended.events("agent.rest").len(), 2);
    let session = &ended.events("session.end")[0];
    assert_eq!(session["status"], "completed");

    // The handles came at once, and the message holds the entry that the call would have held.
    let requests = server.requests();
    let parent: Vec<_> = requests.iter().map(ChatRequest::of).collect();
    let parent: Vec<_> = parent.iter().filter(|asked| child(&asked.system()).is_none()).collect();
    let handles = parent[1].results()[0].to_owned();
    assert!(handles.contains("\"status\":\"running\""), "{handles}");
    let actual = parent[2].last_user();
    assert!(actual.contains("\"task_index\":1,\"status\":\"completed\""), "{actual}");
    assert!(actual.contains("1 is done."), "{actual}");
    assert!(actual.contains("has ended: completed. Its goal: \"child 1\".\n"), "{actual}");
}

#[tokio::test]
async fn a_child_is_reported_with_the_same_facts_whether_or_not_it_is_waited_for() {
    let rule = |background: bool| {
        move |asked: &ChatRequest| {
            let usage = Usage { input: 100, output: 10, ..Usage::default() };
            let read = || ("read_file", json!({"path": "a.txt"}));
            let write = || ("write_file", json!({"path": "a.txt", "content": "new"}));
            let child = asked.system().contains("YOUR TASK:");
            let reply = match (child, asked.results().len()) {
                (_, 0) => Reply::calls("mock", [read()]),
                (false, 1) => {
                    let arguments = json!({"goal": "Write it.", "background": background});
                    Reply::calls("mock", [("delegate_task", arguments)])
                }
                (true, 1) => Reply::calls("mock", [write()]),
                (true, _) => {
                    Reply::text("mock", format!("I wrote a.txt and ghost.rs. {}", "x".repeat(99)))
                }
                (false, _) => Reply::text("mock", "Done."),
            };
            MockAnswer::reply(&Reply { usage, ..reply })
        }
    };
    let mut actual = Vec::new();
    for background in [false, true] {
        let lab = Lab::new();
        fs::write(lab.work("a.txt"), "old").unwrap();
        let server = model(rule(background)).await;
        let set = ["delegation.max_summary_bytes=40", "hooks.SubagentStop=['cat > seen']"];
        let mut args = vec!["--output", "json", ON[0], ON[1]];
        set.iter().for_each(|set| args.extend(["--set", set]));
        args.push("Share it");
        let ended = lab.run(&server, &args).end().await.with_code(0);
        let place = lab.path("").display().to_string();
        let session = lab.session();
        let plain = |text: &str| text.replace(&session, "SESSION").replace(&place, "LAB/");
        let told_all: Value = serde_json::from_str(&plain(&ended.out)).unwrap();
        let mut child = told_all["children"][0].clone();
        child["duration_seconds"] = json!(0);
        let seen = plain(&fs::read_to_string(lab.work("seen")).unwrap());
        let mut seen = serde_json::from_str::<Value>(&seen).unwrap()["output"].take();
        seen["duration_seconds"] = json!(0);
        assert_eq!(seen, child, "the hook is told what the run tells");
        assert_eq!(child["unseen_writes"], json!(["ghost.rs"]));
        assert_eq!(child["stale_paths"].as_array().unwrap().len(), 1, "{child}");
        assert!(child["summary_path"].is_string(), "{child}");
        assert_eq!(child["receipts"]["files_written"][0]["bytes"], 3);
        // Each request of the parent costs the same; waiting takes one more.
        let tokens = told_all["tokens"]["input"].as_u64().unwrap();
        assert_eq!(tokens, if background { 700 } else { 600 });
        child["agent"] = json!(child["agent"].as_str().unwrap().replace("/2.0.0", ""));
        actual.push(child);
    }
    assert_eq!(actual[0], actual[1]);
}

#[tokio::test]
async fn an_interrupt_ends_them_and_a_resume_tells_of_them() {
    in_time(async || {
        let lab = Lab::new();
        let stay = format!("echo > begun; sleep {}", lab.mark());
        let server = model(move |asked| match child(&asked.system()) {
            Some(_) => call("terminal", json!({ "command": stay })),
            None if asked.results().is_empty() => call("delegate_task", tasks(3)),
            None => text(&format!("I know of {}.", end_count(asked))),
        });
        let server = server.await;
        let mut begun = lab.pipe("begun");
        let auto = ["--set", "delegation.subagent_auto_approve=true", "Share it"];
        let running = run(&lab, &server, &auto);
        running.event("agent.rest", |_| true).await;
        begun.lines(3).await;
        let (ended, took) = ended_by(Signal::INT, &lab, running).await;
        let statuses: Vec<_> =
            ended.events("agent.end").iter().map(|end| end["status"].clone()).collect();
        assert_eq!(statuses, ["interrupted"; 4].map(Value::from));
        assert!(delivered(&lab).await.is_empty());
        let session = lab.session();
        let resumed = run(&lab, &server, &["--resume", &session, "What came of it?"]);
        let resumed = resumed.end().await.with_code(0);
        assert_eq!(resumed.events("model.response").last().unwrap()["text"], "I know of 3.");
        let mut all = delivered(&lab).await;
        all.sort();
        assert_eq!(all, ["0", "1", "2"]);
        took
    })
    .await;
}

#[tokio::test]
async fn a_parent_that_fails_leaves_none_behind() {
    let gate = Barrier::closed();
    let server = model(move |asked| match child(&asked.system()) {
        Some(_) => text("Never.").held_by(&gate),
        None if asked.results().is_empty() => call("delegate_task", tasks(2)),
        None => MockAnswer::error(400, "no more of this"),
    });
    let server = server.await;
    let lab = Lab::new();
    let ended = run(&lab, &server, &["Share it"]).end().await.with_code(1);
    let ends = ended.events("agent.end");
    let statuses: Vec<_> = ends.iter().map(|end| end["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["interrupted", "interrupted", "failed"]);
    assert_eq!(lab.processes(), []);
}

#[tokio::test]
async fn what_is_off_is_refused_and_not_offered() {
    let server = family(vec![Barrier::closed()]).await;
    let lab = Lab::new();
    let running = lab.run(&server, &["--output", "events", "Share it"]);
    let ended = running.end().await.with_code(0);
    let refused = &ended.events("tool.end")[0];
    assert_eq!(refused["status"], "error");
    assert!(refused["preview"].as_str().unwrap().contains("E_BACKGROUND_OFF"), "{refused}");
    let asked = server.requests()[0].json();
    let tools = asked["tools"].as_array().unwrap();
    let named = |name| tools.iter().find(|tool| tool["function"]["name"] == name);
    assert!(named("delegate_control").is_none());
    let delegate = named("delegate_task").unwrap().to_string();
    assert!(!delegate.contains("\"background\""), "{delegate}");
    // A person sees it with the key that turns it on.
    let row = async |more: &[&str]| {
        let args = [&["tools", "list"], more].concat();
        let listed = RunningProgram::start(lab.deputize(&args)).end().await.with_code(0).out;
        listed.lines().find(|line| line.starts_with("delegate_control ")).unwrap().to_owned()
    };
    let why = "no: it controls background children, which need `delegation.background`";
    assert!(row(&[]).await.contains(why));
    let on = ["--set", "delegation.background=true"];
    assert!(row(&on).await.contains(" yes"));
    let other = [&on[..], &["--set", "delegation.tool_name=task"]].concat();
    assert!(row(&other).await.contains("need `delegation.tool_name` to be `delegate_task`"));
}

#[tokio::test]
async fn an_interrupt_ends_it_while_it_waits() {
    // Its child does not end by itself.
    let gates = vec![Barrier::closed()];
    let server = family(gates).await;
    let lab = Lab::new();
    let running = run(&lab, &server, &["Share it"]);
    running.event("agent.rest", |_| true).await;
    running.signal(Signal::INT);
    let ended = running.end().await.with_code(130);
    assert_eq!(ended.events("agent.stop").len(), 2);
}
