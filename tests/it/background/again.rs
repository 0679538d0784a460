//! Background children, when the program is killed and the session is resumed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use deputize_core::authority::Grant;
use deputize_core::clock::FixedClock;
use deputize_core::model::Reply;
use deputize_core::sanitize::FrameSecret;
use deputize_core::{
    AgentId, Authority, Cancel, Catalog, Event, Message, Outcome, SessionId, Status,
};
use deputize_delegate::{
    BackgroundPolicy, ControlTool, DelegateTool, DelegationConfig, DelegationLimits,
    DelegationOptions, OverLimit,
};
use deputize_runtime::{Continue, Session, SessionConfig, SessionDir, StoredSession};
use deputize_testkit::{Barrier, ScriptedModel, ScriptedTurn, SeenRequest};
use rustix::process::Signal;
use serde_json::json;

use super::{QUEUE, call, child, delivered, family, one_at_a_time, run, tasks, text};
use crate::program::{ChatRequest, Lab, model};

#[tokio::test]
async fn killed_while_it_rests_it_goes_on_and_no_end_is_lost_or_reported_twice() {
    let gates = vec![Barrier::closed(), Barrier::closed(), Barrier::closed()];
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
async fn a_join_that_was_under_way_waits_on_after_a_restart_and_a_message_is_not_sent_again() {
    for (action, goes_on) in [("join", true), ("message", false)] {
        let gate = Barrier::closed();
        let held = gate.clone();
        let server = model(move |asked| match child(&asked.system()) {
            Some(_) => text("0 is done.").held_by(&held),
            None => match asked.results().len() {
                0 => call("delegate_task", tasks(1)),
                1 => call("delegate_control", json!({"action": action, "message": "Hurry."})),
                _ => text("Done."),
            },
        });
        let server = server.await;
        let lab = Lab::new();
        let running = run(&lab, &server, &["Share it"]);
        running.event("tool.start", |it| it["tool"] == "delegate_control").await;
        running.signal(Signal::KILL);
        running.end().await;
        let session = lab.session();
        // As if the kill had come before the end of the call.
        let file = lab.path(format!("home/sessions/{session}.jsonl"));
        let text = fs::read_to_string(&file).unwrap();
        let is_start =
            |line: &&str| line.contains("delegate_control") && line.contains("tool.start");
        let start = text.lines().position(|line| is_start(&line)).unwrap();
        let lines = text.lines().take(start + 1);
        fs::write(&file, lines.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
        let running = run(&lab, &server, &["--resume", &session]);
        gate.open();
        running.end().await.with_code(0);
        let requests = server.requests();
        let asked = requests.iter().map(ChatRequest::of).find(|asked| asked.results().len() == 2);
        let result = asked.unwrap().results()[1].to_owned();
        assert_eq!(result.contains("unknown"), !goes_on, "{action}: {result}");
        assert_eq!(result.contains("\"status\":\"completed\""), goes_on, "{action}: {result}");
    }
}

#[tokio::test]
async fn so_many_run_at_once_as_may_also_after_a_restart() {
    let gates: Vec<Barrier> = (0..4).map(|_| Barrier::closed()).collect();
    let (lab, server, running) = one_at_a_time(&gates).await;
    server.until_requests(3).await;
    let waiting = || gates.iter().map(Barrier::waiting).sum::<usize>();
    assert_eq!(waiting(), 1);
    running.signal(Signal::KILL);
    running.end().await;
    server.until_idle().await;
    let before = server.requests().len();
    let session = lab.session();
    let running = run(&lab, &server, &[&QUEUE[..], &["--resume", &session]].concat());
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

/// The parent starts two children and is done when it knows of both; a child looks for itself.
fn config() -> SessionConfig {
    let rule = |seen: &SeenRequest| -> Option<ScriptedTurn> {
        let reply = match seen.task() {
            "go" if seen.results().is_empty() => Reply::calls("m", [("delegate_task", tasks(2))]),
            "go" => Reply::text("m", "Noted."),
            task => Reply::text("m", format!("{task} is done")),
        };
        Some(reply.into())
    };
    let policy = DelegationConfig {
        limits: DelegationLimits { over_limit: OverLimit::Queue, ..DelegationLimits::default() },
        options: DelegationOptions { background: true, ..DelegationOptions::default() },
        ..DelegationConfig::default()
    };
    let mut catalog = Catalog::default();
    let delegate = DelegateTool::new(policy.clone(), Arc::new(FixedClock(5))).unwrap();
    catalog.insert(delegate.into_entry()).unwrap();
    catalog.insert(ControlTool::new().unwrap().into_entry()).unwrap();
    let clock = Arc::new(FixedClock(7));
    let lifecycle = BackgroundPolicy::new(policy, Arc::clone(&clock) as _);
    let mut config = SessionConfig { clock, ..SessionConfig::new(catalog) };
    config.children.lifecycle = Some(Arc::new(lifecycle));
    config.record.secret = FrameSecret::new(&[1; 16]);
    config.models.insert("t/m", "m", Arc::new(ScriptedModel::rule(rule)));
    config
}

fn authority(catalog: &Catalog) -> Authority {
    let grant = Grant { spawn_depth: Some(1), spawn_number: Some(9), ..Grant::default() };
    Authority::root(catalog, &grant)
}

async fn first_run(folder: &Path) -> Outcome {
    let dir = SessionDir::new(folder);
    let session = Session::create(&dir, SessionId::literal("s"), config()).unwrap();
    let spec = session.top_agent("t/m", "go", folder);
    session.run(spec, authority(session.catalog()), &Cancel::new()).await
}

/// Counts how often the top agent received the end of each child.
fn told_of(stored: &StoredSession) -> BTreeMap<String, usize> {
    let root = AgentId::root(&SessionId::literal("s"));
    let mut actual = BTreeMap::new();
    for message in stored.messages(&root).unwrap() {
        if let Message::User(user) = &*message
            && let Some(from) = &user.from
        {
            *actual.entry(from.to_string()).or_default() += 1;
        }
    }
    actual
}

#[tokio::test]
async fn killed_after_any_record_each_end_is_reported_once() {
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
        let (session, _) = Session::open(&dir, SessionId::literal("s"), config()).unwrap();
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
