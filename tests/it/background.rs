//! Children that nobody waits for: handles at once, each end told once, also over a restart, and
//! no request while there is nothing to do.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use deputize_core::door::FrameSecret;
use deputize_core::{
    AgentId, Authority, Cancel, Catalog, Event, FixedClock, Grant, Message, Outcome, Reply,
    SessionId, Status, Usage,
};
use deputize_delegate::{Background, ControlTool, DelegateTool, OverLimit, Policy};
use deputize_runtime::{Continue, Parts, Session, SessionDir, StoredSession};
use deputize_testkit::{Answer, Gate, MockServer, ScriptedModel, SeenRequest, Turn};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::control::reachable;
use crate::program::{Asked, Lab, Running, model};
use crate::signals::{ended_by, in_time};

const ON: [&str; 2] = ["--set", "delegation.background=true"];

fn call(tool: &str, arguments: Value) -> Answer {
    Answer::reply(&Reply::calls("mock", [(tool, arguments)]))
}

fn text(text: &str) -> Answer {
    Answer::reply(&Reply::text("mock", text))
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
async fn family(gates: Vec<Gate>) -> MockServer {
    let server = model(move |asked| match child(&asked.system()) {
        Some(number) => text(&format!("{number} is done.")).held_by(&gates[number]),
        None if asked.results().is_empty() => call("delegate_task", tasks(gates.len())),
        None => text(&format!("I know of {}.", told(asked))),
    });
    server.await
}

fn told(asked: &Asked) -> usize {
    asked.users().iter().filter(|text| text.starts_with("Your background child ")).count()
}

fn run(lab: &Lab, server: &MockServer, args: &[&str]) -> Running {
    lab.run(server, &[&["--output", "events"], &ON[..], args].concat())
}

fn requests_of_parent(server: &MockServer) -> usize {
    let requests = server.requests();
    requests.iter().filter(|request| child(&Asked::of(request).system()).is_none()).count()
}

/// Whose ends were told, in order, in a whole session.
async fn delivered(lab: &Lab) -> Vec<String> {
    let mut command = lab.deputize(&["sessions", "export"]);
    command.arg(lab.session());
    let ended = Running::start(command).end().await.with_code(0);
    let told = ended.events("child.delivered").into_iter();
    told.map(|it| it["agent"].as_str().unwrap().rsplit('.').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_parent_rests_and_is_woken_by_each_end() {
    let gates = vec![Gate::closed(), Gate::closed()];
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
    let parent: Vec<_> = requests.iter().map(Asked::of).collect();
    let parent: Vec<_> = parent.iter().filter(|asked| child(&asked.system()).is_none()).collect();
    let handles = parent[1].results()[0].to_owned();
    assert!(handles.contains("\"status\":\"running\""), "{handles}");
    let told = parent[2].last_user();
    assert!(told.contains("\"task_index\":1,\"status\":\"completed\""), "{told}");
    assert!(told.contains("1 is done."), "{told}");
}

#[tokio::test]
async fn a_child_is_told_of_with_the_same_facts_whether_or_not_it_is_waited_for() {
    let rule = |background: bool| {
        move |asked: &Asked| {
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
            Answer::reply(&Reply { usage, ..reply })
        }
    };
    let mut told = Vec::new();
    for background in [false, true] {
        let lab = Lab::new();
        fs::write(lab.work("a.txt"), "old").unwrap();
        let server = model(rule(background)).await;
        let set = ["delegation.max_summary_bytes=40", "hooks.SubagentStop=['cat > seen']"];
        let mut args = vec!["--output", "json", ON[0], ON[1]];
        set.iter().for_each(|set| args.extend(["--set", set]));
        args.push("Share it");
        let ended = lab.run(&server, &args).end().await.with_code(0);
        let (place, session) = (lab.path("").display().to_string(), lab.session());
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
        told.push(child);
    }
    assert_eq!(told[0], told[1]);
}

#[tokio::test]
async fn killed_while_it_rests_it_goes_on_and_no_end_is_lost_or_told_twice() {
    let gates = vec![Gate::closed(), Gate::closed(), Gate::closed()];
    let server = family(gates.clone()).await;
    let lab = Lab::new();
    let running = run(&lab, &server, &["Share it"]);
    gates[2].open();
    running.event("model.response", |it| it["text"] == "I know of 1.").await;
    running.event("agent.rest", |_| true).await;
    running.signal(Signal::KILL);
    running.end().await;
    let before = server.requests().len();
    let session = lab.session();
    let running = run(&lab, &server, &["--resume", &session]);
    server.until_requests(before + 2).await;
    gates[0].open();
    gates[1].open();
    let ended = running.end().await.with_code(0);
    // Only the children asked again: the parent had nothing to do.
    assert_eq!(ended.events("model.response").last().unwrap()["text"], "I know of 3.");
    let mut all = delivered(&lab).await;
    assert_eq!(all.remove(0), "2");
    all.sort();
    assert_eq!(all, ["0", "1"]);
}

#[tokio::test]
async fn so_many_run_at_once_as_may_also_after_a_restart() {
    let gates: Vec<Gate> = (0..4).map(|_| Gate::closed()).collect();
    let server = family(gates.clone()).await;
    let lab = Lab::new();
    let set =
        ["--set", "delegation.max_concurrent_children=1", "--set", "delegation.over_limit=queue"];
    let running = run(&lab, &server, &[&set[..], &["Share it"]].concat());
    running.event("agent.rest", |_| true).await;
    server.until_requests(3).await;
    let waiting = || gates.iter().map(Gate::waiting).sum::<usize>();
    assert_eq!(waiting(), 1);
    running.signal(Signal::KILL);
    running.end().await;
    server.until_idle().await;
    let before = server.requests().len();
    let session = lab.session();
    let running = run(&lab, &server, &[&set[..], &["--resume", &session]].concat());
    for n in 0..4 {
        server.until_requests(before + 1 + 2 * n).await;
        let held: Vec<_> = gates.iter().filter(|gate| gate.waiting() > 0).collect();
        assert_eq!(held.len(), 1);
        held[0].open();
        let known = format!("I know of {}.", n + 1);
        running.event("model.response", |it| it["text"] == known.as_str()).await;
    }
    running.end().await.with_code(0);
    let mut all = delivered(&lab).await;
    all.sort();
    assert_eq!(all, ["0", "1", "2", "3"]);
}

#[tokio::test]
async fn those_below_are_listed_told_things_stopped_and_waited_for() {
    let gates = [Gate::closed(), Gate::closed(), Gate::closed()];
    let (held, start) = (gates.clone(), Gate::closed());
    let begins = start.clone();
    let server = model(move |asked| {
        let own = |n: usize| format!("{}/1.0.{n}", session_of(asked));
        match child(&asked.system()) {
            // It works on, and so takes the message.
            Some(0) if asked.replies() == 0 => call("list_dir", json!({})).held_by(&held[0]),
            Some(0) => text(&format!("I was told: {}", asked.last_user())),
            Some(number) => text(&format!("{number} is done.")).held_by(&held[number]),
            None => match asked.results().len() {
                0 => call("delegate_task", tasks(3)),
                1 => call("delegate_control", json!({"action": "list"})).held_by(&begins),
                2 => call(
                    "delegate_control",
                    json!({"action": "message", "agents": [own(0)], "message": "Be quick."}),
                ),
                3 => call("delegate_control", json!({"action": "stop", "agents": [own(1)]})),
                4 => call(
                    "delegate_control",
                    json!({"action": "join", "agents": [own(1), own(2)], "wait_for": "any"}),
                ),
                5 => call("delegate_control", json!({"action": "stop", "agents": ["s/1.0.0"]})),
                6 => call("delegate_control", json!({"action": "join"})),
                7 => call("delegate_control", json!({"action": "list"})),
                _ => text("Done."),
            },
        }
    });
    let server = server.await;
    let lab = Lab::new();
    let running = run(&lab, &server, &["Share it"]);
    server.until_requests(5).await;
    start.open();
    running.event("tool.end", |it| it["call"] == "call_5_0").await;
    gates[0].open();
    running.event("tool.start", |it| it["call"] == "call_7_0").await;
    gates[2].open();
    let ended = running.end().await.with_code(0);
    let requests = server.requests();
    let last = requests.iter().rev().map(Asked::of).find(|it| child(&it.system()).is_none());
    let last = last.unwrap();
    let session = lab.session();
    let results = last.results();
    let results: Vec<String> =
        results.iter().map(|text| unframed(&text.replace(&session, "SESSION"))).collect();
    // Whom the last `join` finds running is a matter of time.
    insta::assert_snapshot!([&results[1..6], &results[7..]].concat().join("\n"));
    let told = ended.events("model.response");
    let said = "I was told: A message of the agent that started you:\nBe quick.";
    assert!(told.iter().any(|it| it["text"] == said), "{told:#?}");
    let mut all = delivered(&lab).await;
    all.sort();
    assert_eq!(all, ["0", "1", "2"]);
    let ends = ended.events("agent.end");
    let stopped = ends.iter().find(|end| end["agent"].as_str().unwrap().ends_with("/1.0.1"));
    assert_eq!(stopped.unwrap()["status"], "interrupted");
}

#[tokio::test]
async fn one_that_waits_for_a_place_is_listed_so() {
    let (gates, start) = ([Gate::closed(), Gate::closed()], Gate::closed());
    let (held, begins) = (gates.clone(), start.clone());
    let (tell, told) = std::sync::mpsc::channel();
    let server = model(move |asked| match child(&asked.system()) {
        Some(number) => text("Done.").held_by(&held[number]),
        None => match asked.results().as_slice() {
            [] => call("delegate_task", tasks(2)),
            [_] => call("delegate_control", json!({"action": "list"})).held_by(&begins),
            [_, list, ..] => {
                tell.send((*list).to_owned()).unwrap();
                text("I wait.")
            }
        },
    });
    let server = server.await;
    let lab = Lab::new();
    let set =
        ["--set", "delegation.max_concurrent_children=1", "--set", "delegation.over_limit=queue"];
    let running = run(&lab, &server, &[&set[..], &["Share it"]].concat());
    server.until_requests(3).await;
    start.open();
    running.event("agent.rest", |_| true).await;
    // From another terminal it is seen so, too.
    let shown = Running::start(lab.deputize(&["agents", "--json"])).end().await.with_code(0);
    gates.iter().for_each(Gate::open);
    running.end().await.with_code(0);
    let listed = told.recv().unwrap();
    // The first line is that of the frame.
    let listed: Value = serde_json::from_str(listed.lines().nth(1).unwrap()).unwrap();
    assert_eq!(
        (&listed["running"], &listed["waiting"], &listed["ended"]),
        (&json!(1), &json!(1), &json!(0)),
        "{listed}"
    );
    let mut statuses: Vec<&str> = listed["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|agent| agent["status"].as_str().unwrap())
        .collect();
    statuses.sort_unstable();
    assert_eq!(statuses, ["running", "waiting"]);
    assert_eq!(shown.out.matches(r#""status": "waiting""#).count(), 1, "{}", shown.out);
}

#[tokio::test]
async fn a_child_that_ended_before_it_was_waited_for_is_one_of_any() {
    let (gates, start) = ([Gate::closed(), Gate::closed()], Gate::closed());
    let (held, begins) = (gates.clone(), start.clone());
    let server = model(move |asked| match child(&asked.system()) {
        Some(number) => text("Done.").held_by(&held[number]),
        None => match asked.results().len() {
            0 => call("delegate_task", tasks(2)),
            1 => call("delegate_control", json!({"action": "join", "wait_for": "any"}))
                .held_by(&begins),
            _ => text("I wait."),
        },
    });
    let server = server.await;
    let lab = Lab::new();
    let running = run(&lab, &server, &["Share it"]);
    server.until_requests(4).await;
    gates[1].open();
    running.event("agent.end", |it| it["agent"].as_str().unwrap().ends_with("/1.0.1")).await;
    start.open();
    let joined = running.event("tool.end", |it| it["call"] == "call_2_0").await;
    assert!(joined["preview"].as_str().unwrap().contains("completed"), "{joined}");
    gates[0].open();
    running.end().await.with_code(0);
    let mut all = delivered(&lab).await;
    all.sort();
    assert_eq!(all, ["0", "1"]);
}

#[tokio::test]
async fn one_that_is_stopped_while_it_waits_has_sent_nothing() {
    let gates = vec![Gate::closed(), Gate::closed()];
    let server = family(gates.clone()).await;
    let lab = Lab::new();
    let set =
        ["--set", "delegation.max_concurrent_children=1", "--set", "delegation.over_limit=queue"];
    let running = run(&lab, &server, &[&set[..], &["Share it"]].concat());
    running.event("agent.rest", |_| true).await;
    let session = reachable(&lab).await;
    let second = format!("{session}/1.0.1");
    let stop = lab.deputize(&["agents", "stop", &second]);
    Running::start(stop).end().await.with_code(0);
    let end = running.event("agent.end", |it| it["agent"] == second.as_str()).await;
    assert_eq!(end["status"], "interrupted", "{end}");
    gates[0].open();
    let ended = running.end().await.with_code(0);
    let of_it = |it: &&Value| it["agent"] == second.as_str();
    assert_eq!(ended.events("model.request").iter().filter(of_it).count(), 0);
}

/// The session of a conversation, from a handle in it.
fn session_of(asked: &Asked) -> String {
    let results = asked.results();
    let handle = results.first().and_then(|text| text.split("\"agent\":\"").nth(1));
    handle.and_then(|rest| rest.split('/').next()).unwrap_or_default().to_owned()
}

/// What stands in the frame, without times.
fn unframed(text: &str) -> String {
    let inner: Vec<&str> = text.lines().filter(|line| !line.starts_with('<')).collect();
    let mut inner = inner.join("\n");
    while let Some((before, after)) = inner.split_once("\"idle_seconds\":") {
        let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
        inner = format!("{before}\"idle\":_{rest}");
    }
    inner
}

#[tokio::test]
async fn an_interrupt_ends_them_and_a_resume_tells_of_them() {
    in_time(async || {
        let lab = Lab::new();
        let stay = format!("echo > begun; sleep {}", lab.mark());
        let server = model(move |asked| match child(&asked.system()) {
            Some(_) => call("terminal", json!({ "command": stay })),
            None if asked.results().is_empty() => call("delegate_task", tasks(3)),
            None => text(&format!("I know of {}.", told(asked))),
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
    let gate = Gate::closed();
    let server = model(move |asked| match child(&asked.system()) {
        Some(_) => text("Never.").held_by(&gate),
        None if asked.results().is_empty() => call("delegate_task", tasks(2)),
        None => Answer::error(400, "no more of this"),
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
    let server = family(vec![Gate::closed()]).await;
    let lab = Lab::new();
    let running = lab.run(&server, &["--output", "events", "Share it"]);
    let ended = running.end().await.with_code(0);
    let refused = &ended.events("tool.end")[0];
    assert_eq!(refused["status"], "error");
    assert!(refused["preview"].as_str().unwrap().contains("switched off"), "{refused}");
    let tools = server.requests()[0].json()["tools"].to_string();
    assert!(!tools.contains("delegate_control") && !tools.contains("\"background\""), "{tools}");
}

/// The parent starts two children and is done when it knows of both; a child looks for itself.
fn parts() -> Parts {
    let rule = |seen: &SeenRequest| -> Option<Turn> {
        let reply = match seen.task() {
            "go" if seen.results().is_empty() => Reply::calls("m", [("delegate_task", tasks(2))]),
            "go" => Reply::text("m", "Noted."),
            task => Reply::text("m", format!("{task} is done")),
        };
        Some(reply.into())
    };
    let policy = Policy { background: true, over_limit: OverLimit::Queue, ..Policy::default() };
    let mut catalog = Catalog::default();
    let delegate = DelegateTool::new(policy.clone(), Arc::new(FixedClock(5))).unwrap();
    catalog.insert(delegate.into_entry()).unwrap();
    catalog.insert(ControlTool::new().unwrap().into_entry()).unwrap();
    let mut parts = Parts {
        handoff: Some(Arc::new(Background::new(policy, Arc::new(FixedClock(7))))),
        clock: Arc::new(FixedClock(7)),
        secret: FrameSecret::new(&[1; 16]),
        ..Parts::new(catalog)
    };
    parts.models.insert("t/m", "m", Arc::new(ScriptedModel::rule(rule)));
    parts
}

fn authority(catalog: &Catalog) -> Authority {
    let grant = Grant { spawn_depth: Some(1), spawn_number: Some(9), ..Grant::default() };
    Authority::root(catalog, &grant)
}

async fn first_run(folder: &Path) -> Outcome {
    let dir = SessionDir::new(folder);
    let session = Session::create(&dir, SessionId::literal("s"), parts()).unwrap();
    let spec = session.top_agent("t/m", "go", folder);
    session.run(spec, authority(session.catalog()), &Cancel::new()).await
}

/// How often the top agent was told of each child.
fn told_of(stored: &StoredSession) -> BTreeMap<String, usize> {
    let root = AgentId::root(&SessionId::literal("s"));
    let mut told = BTreeMap::new();
    for message in stored.messages(&root).unwrap() {
        if let Message::User(user) = &*message
            && let Some(from) = &user.from
        {
            *told.entry(from.to_string()).or_default() += 1;
        }
    }
    told
}

#[tokio::test]
async fn killed_after_any_record_each_end_is_told_once() {
    let home = tempfile::tempdir().unwrap();
    let whole = home.path().join("whole");
    let outcome = first_run(&whole).await;
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    let text = fs::read_to_string(whole.join("s.jsonl")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() > 20, "{}", lines.len());
    let once: BTreeMap<String, usize> = ["s/1.0.0", "s/1.0.1"].map(|id| (id.to_owned(), 1)).into();
    let mut went_on = 0;
    for kept in 3..=lines.len() {
        let folder = home.path().join(kept.to_string());
        fs::create_dir(&folder).unwrap();
        let text: String = lines[..kept].iter().map(|line| format!("{line}\n")).collect();
        fs::write(folder.join("s.jsonl"), text).unwrap();
        let dir = SessionDir::new(&folder);
        let (session, _) = Session::open(&dir, SessionId::literal("s"), parts()).unwrap();
        let authority = authority(session.catalog());
        let resumed = session.resume(Continue::default(), authority, &Cancel::new()).await;
        let outcome = resumed.unwrap();
        assert_eq!(outcome.status, Status::Completed, "{kept}: {outcome:?}");
        drop(session);
        let stored = dir.read(&SessionId::literal("s")).unwrap();
        assert_eq!(told_of(&stored), once, "after {kept} lines");
        let ends = |id: &str| {
            let is = |event: &Event| matches!(event, Event::AgentEnd(_));
            let records = stored.records.iter();
            records.filter(|record| record.agent.as_str() == id && is(&record.event)).count()
        };
        assert_eq!((ends("s/1.0.0"), ends("s/1.0.1")), (1, 1), "after {kept} lines");
        went_on += 1;
    }
    assert!(went_on > 20, "{went_on}");
}

#[tokio::test]
async fn an_interrupt_while_it_waits_is_noticed_at_once() {
    let gates = vec![Gate::closed()];
    let server = family(gates).await;
    let lab = Lab::new();
    let running = run(&lab, &server, &["Share it"]);
    running.event("agent.rest", |_| true).await;
    let sent = Instant::now();
    running.signal(Signal::INT);
    let ended = running.end().await.with_code(130);
    assert!(ended.at.duration_since(sent) < crate::signals::SOON);
    assert_eq!(ended.events("agent.stop").len(), 2);
}
