//! Killed at any point: nothing acknowledged is lost, nothing unsafe runs twice, finished
//! children stay finished, and the session goes on to its end.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use deputize_core::model::{ModelError, Reply, Request};
use deputize_core::{Cancel, Event, SessionId, Status};
use deputize_runtime::{Continue, ResumeError, Session, SessionDir};
use serde_json::json;

use crate::fixture::{World, authority, config, run, spec};

/// A parent that looks, acts, spawns two children, acts again; each child acts and answers.
fn rule(results: usize, request: &Request<'_>) -> Result<Reply, ModelError> {
    let deputize_core::Message::User(task) = &*request.messages[0] else { unreachable!() };
    Ok(match (task.text.as_str(), results) {
        ("go", 0) => Reply::calls("rule", [("look", json!({"n": 1})), ("act", json!({"n": 2}))]),
        ("go", 2) => Reply::calls("rule", [("spawn", json!({"list": ["one", "two"]}))]),
        ("go", 3) => Reply::calls("rule", [("act", json!({"n": 3}))]),
        ("go", _) => Reply::text("rule", "all done"),
        (_, 0) => Reply::calls("rule", [("act", json!({"n": 9}))]),
        (child, _) => Reply::text("rule", format!("{child} done")),
    })
}

/// What acting calls had started by the end of a journal, as `AGENT call`.
fn started(dir: &SessionDir) -> BTreeSet<String> {
    let records = dir.read(&SessionId::literal("s")).unwrap().records;
    let starts = records.into_iter().filter_map(|record| match record.event {
        Event::ToolStart { call, tool, .. } if tool == "act" => {
            Some(format!("{} {call}", record.agent))
        }
        _ => None,
    });
    starts.collect()
}

fn ended_children(dir: &SessionDir) -> BTreeSet<String> {
    let records = dir.read(&SessionId::literal("s")).unwrap().records;
    let ends = records
        .into_iter()
        .filter(|record| record.depth == 1 && matches!(record.event, Event::AgentEnd(_)));
    ends.map(|record| record.agent.to_string()).collect()
}

/// Goes on with a journal cut at `bytes`; checks what must hold.
async fn resumed_from(whole: &[u8], bytes: usize, scratch: &Path) {
    let dir = SessionDir::new(scratch.join(bytes.to_string()));
    std::fs::create_dir_all(dir.path()).unwrap();
    std::fs::write(dir.file(&SessionId::literal("s")), &whole[..bytes]).unwrap();
    let before = started(&dir);
    let children = ended_children(&dir);
    let before_records = dir.read(&SessionId::literal("s")).unwrap().records;

    let world = Arc::new(World::default());
    let opened = Session::open(&dir, SessionId::literal("s"), config(&world, rule));
    let (session, recovery) = opened.unwrap();
    let authority = authority(session.catalog());
    let outcome = session.resume(Continue::default(), authority, &Cancel::new()).await;
    drop(session);
    match outcome {
        Err(ResumeError::Empty(_)) => assert!(before_records.len() < 2, "cut at {bytes}"),
        Err(error) => panic!("cut at {bytes}: {error}"),
        Ok(outcome) => {
            assert_eq!(outcome.status, Status::Completed, "cut at {bytes}: {outcome:?}");
            assert_eq!(outcome.text.as_deref(), Some("all done"), "cut at {bytes}");
            let records = world.records.lock();
            for record in records.iter() {
                if let Event::ToolStart { call, tool, .. } = &record.event
                    && tool == "act"
                {
                    let name = format!("{} {call}", record.agent);
                    assert!(!before.contains(&name), "cut at {bytes}: {name} ran twice");
                }
                let again = matches!(record.event, Event::ModelRequest { .. });
                let name = record.agent.to_string();
                assert!(!(again && children.contains(&name)), "cut at {bytes}: {name} ran again");
            }
            let lost = recovery.unknown.len();
            assert!(lost <= 2, "cut at {bytes}: {:?}", recovery.unknown);
        }
    }
    let after = dir.read(&SessionId::literal("s")).unwrap();
    assert_eq!(after.records[..before_records.len()], before_records[..], "cut at {bytes}");
    assert!(after.damage.is_none());
}

#[tokio::test]
async fn killed_at_every_record_and_inside_every_record_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let outcome =
        run(folder.path(), spec(folder.path()), config(&world, rule), &Cancel::new()).await;
    assert_eq!(outcome.text.as_deref(), Some("all done"));
    assert_eq!(world.done().len(), 5);
    let whole = std::fs::read(folder.path().join("s.jsonl")).unwrap();
    let ends: Vec<usize> =
        whole.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at + 1).collect();
    assert!(ends.len() >= 40, "{}", ends.len());
    for pair in ends.windows(2) {
        for cut in [pair[0], pair[0] + 1, (pair[0] + pair[1]) / 2, pair[1] - 1] {
            Box::pin(resumed_from(&whole, cut, folder.path())).await;
        }
    }
}

#[tokio::test]
async fn a_resumed_session_sends_the_same_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let sent = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let seen = Arc::clone(&sent);
    let recording = move |results: usize, request: &Request<'_>| {
        let text = serde_json::to_string(&(request.system, request.tools, request.messages));
        seen.lock().push(text.unwrap());
        rule(results, request)
    };
    run(folder.path(), spec(folder.path()), config(&world, recording.clone()), &Cancel::new())
        .await;
    let first = sent.lock().clone();
    // Killed right before the last request of the parent.
    let file = folder.path().join("s.jsonl");
    let whole = std::fs::read_to_string(&file).unwrap();
    let cut = whole.match_indices("model.request").last().unwrap().0;
    let cut = whole[..cut].rfind('\n').unwrap() + 1;
    std::fs::write(&file, &whole[..cut]).unwrap();
    let dir = SessionDir::new(folder.path());
    let opened = Session::open(&dir, SessionId::literal("s"), config(&world, recording));
    let session = opened.unwrap().0;
    let authority = authority(session.catalog());
    session.resume(Continue::default(), authority, &Cancel::new()).await.unwrap();
    let sent = sent.lock();
    assert_eq!(sent.len(), first.len() + 1);
    assert_eq!(sent.last(), first.last());
}
