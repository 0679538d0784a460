//! Nested calls: on record with IDs of their own, judged as the model's own calls are, and never
//! made twice.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use deputize_core::agent::AgentSpec;
use deputize_core::authority::{ApproverMode, Grant};
use deputize_core::model::{Reply, Request};
use deputize_core::nested_call::{NestedCall, NestedCalls};
use deputize_core::policy::{ApprovalAnswer, Denial, Question, Verdict};
use deputize_core::{
    AgentView, Approver, Authority, BoxFuture, CallId, Cancel, CancelReason, Effects, Event,
    Policy, Record, SessionId, Status, ToolCallResult, ToolCx, ToolName, ToolOutput, ToolSpec,
};
use deputize_runtime::{
    Continue, Recording, Replay, Session, SessionConfig, SessionDir, SessionRecorder,
};
use serde_json::{Value, json};

use crate::fixture::{World, authority, config, decl, insert_tool, spec};

/// What a nested call has a secret for, which the call that makes it has not.
const STANDIN: &str = "the-secret";

/// Makes the calls of `list`, each `TOOL ARGUMENTS`, one after the other, or at once if `n` is 1. A
/// call that takes longer than a minute is dropped.
pub(crate) fn nest<'a>(
    world: &'a World,
    arguments: Value,
    cx: &'a ToolCx,
) -> BoxFuture<'a, ToolCallResult> {
    Box::pin(async move {
        let calls: Vec<String> = serde_json::from_value(arguments["list"].clone()).unwrap();
        let nested = cx.agent.store.get_or_insert_with(NestedCalls::default);
        let questions = Arc::new(AtomicU32::new(0));
        let one = |(number, call): (u32, String)| {
            let (nested, questions) = (Arc::clone(&nested), Arc::clone(&questions));
            async move {
                let call = call.replace(STANDIN, "key-canary-1");
                let (tool, arguments) = call.split_once(' ').unwrap();
                let on_question = Arc::new(move |_begins| {
                    questions.fetch_add(1, Ordering::SeqCst);
                });
                let call = NestedCall { outer: cx, number, tool, arguments, on_question };
                let minute = std::time::Duration::from_secs(60);
                let result = tokio::time::timeout(minute, nested.caller().call(call)).await;
                let Ok(result) = result else { return "dropped".to_owned() };
                let result = result.unwrap();
                format!("{}: {} {:?}", result.status.as_str(), result.content, result.notes)
            }
        };
        let calls = (1..).zip(calls).map(one);
        let mut results = Vec::new();
        if arguments["n"] == 1 {
            results = futures_util::future::join_all(calls).await;
        } else {
            for call in calls {
                results.push(call.await);
            }
        }
        world.done.lock().extend(results.iter().cloned());
        world.done.lock().push(format!("{} questions", questions.load(Ordering::SeqCst)));
        Ok(ToolOutput::text("nested"))
    })
}

/// A session whose agent makes one call of `nest` with these calls, then answers.
fn nesting(world: &Arc<World>, calls: &[&str], side_by_side: bool) -> SessionConfig {
    let arguments = json!({"list": calls, "n": u8::from(side_by_side)});
    let rule = move |results: usize, _: &Request<'_>| {
        let call = Reply::calls("rule", [("nest", arguments.clone())]);
        Ok(if results == 0 { call } else { Reply::text("rule", "done") })
    };
    let mut config = config(world, rule);
    let mut catalog = (*config.tools.catalog).clone();
    let nest_spec = ToolSpec::effectful(decl("nest"), Effects::Unknown);
    insert_tool(&mut catalog, world, nest_spec, nest);
    config.tools.catalog = Arc::new(catalog);
    config
}

fn nesting_spec(folder: &Path) -> AgentSpec {
    let mut spec = spec(folder);
    spec.tools.push(ToolName::literal("nest"));
    spec
}

async fn run_nested(folder: &Path, config: SessionConfig, cancel: &Cancel) -> Status {
    let session = Session::create(&SessionDir::new(folder), SessionId::literal("s"), config);
    let session = session.unwrap();
    let authority = authority(session.catalog());
    session.run(nesting_spec(folder), authority, cancel).await.status
}

/// The calls of records, as `start ID TOOL` and `end ID STATUS`, in order.
fn calls(records: &[Record]) -> Vec<String> {
    let lines = records.iter().filter_map(|record| match &record.event {
        Event::ToolStart { call, tool, .. } => Some(format!("start {call} {tool}")),
        Event::ToolEnd(end) => {
            let result = &end.result;
            Some(format!("end {} {}", result.call, result.status.as_str()))
        }
        _ => None,
    });
    lines.collect()
}

#[tokio::test]
async fn nested_calls_are_on_record_and_their_results_go_to_the_call_that_made_them() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let list = [
        r#"look {"n": 1}"#,
        r#"make {"command": "cc"}"#,
        "crash {}",
        "broken {}",
        r#"look {"n": "five"}"#,
        "look {",
        "no_such {}",
        r#"spawn {"list": ["one"]}"#,
        r#"nest {"list": ["look {}"]}"#,
    ];
    let config = nesting(&world, &list, false);
    assert_eq!(run_nested(folder.path(), config, &Cancel::new()).await, Status::Completed);
    let records = world.records.lock();
    insta::assert_snapshot!(calls(&records).join("\n"));
    insta::assert_snapshot!(world.done().join("\n"));
    let end = records.iter().find_map(|record| match &record.event {
        Event::AgentEnd(outcome) => Some(outcome.receipts.clone()),
        _ => None,
    });
    let receipts = end.unwrap();
    assert_eq!(receipts.commands, [("cc".to_owned(), Some(0))]);
    assert!(receipts.files_written.contains_key(Path::new("/w/made")));
    let results = records
        .iter()
        .filter(|record| matches!(record.event, Event::ModelRequest { messages: 3, .. }));
    assert_eq!(results.count(), 1, "the model gets one result");
}

/// Forbids acting, asks before looking.
struct LookAsks;

impl Policy for LookAsks {
    fn judge(&self, tool: &ToolSpec, _: &Value, _: &std::path::Path, _: &AgentView) -> Verdict {
        match tool.decl.name.as_str() {
            "act" => Verdict::Deny(Denial {
                for_model: "acting is off".into(),
                for_person: "acting is off".into(),
            }),
            "look" => Verdict::Ask { class: "dangerous".into(), reason: "looking asks".into() },
            _ => Verdict::Allow,
        }
    }
}

/// Says yes to the first question about a nested call, and no to others.
struct OneYes(AtomicU32);

impl Approver for OneYes {
    fn ask<'a>(&'a self, question: &'a Question, _: &'a Cancel) -> BoxFuture<'a, ApprovalAnswer> {
        assert!(question.call.nested.is_some(), "{}", question.call);
        let first = self.0.fetch_add(1, Ordering::SeqCst) == 0;
        Box::pin(async move {
            if first { ApprovalAnswer::yes("user") } else { ApprovalAnswer::no("user") }
        })
    }
}

#[tokio::test]
async fn nested_calls_are_judged_and_asked_about_as_the_models_own() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let list = ["act {}", r#"look {"n": 1}"#, r#"look {"n": 2}"#];
    let config = SessionConfig {
        policy: Arc::new(LookAsks),
        approver: Arc::new(OneYes(AtomicU32::new(0))),
        ..nesting(&world, &list, false)
    };
    let session = Session::create(&SessionDir::new(folder.path()), SessionId::literal("s"), config);
    let session = session.unwrap();
    let spec = AgentSpec { approver: ApproverMode::Ask, ..nesting_spec(folder.path()) };
    let grant = Grant { approver: Some(ApproverMode::Ask), ..Grant::default() };
    let authority = Authority::root(session.catalog(), &grant);
    session.run(spec, authority, &Cancel::new()).await;
    insta::assert_snapshot!(world.done().join("\n"));
    let records = world.records.lock();
    let asked = records.iter().filter_map(|record| match &record.event {
        Event::ApprovalRequest { call, .. } => Some(call.to_string()),
        _ => None,
    });
    assert_eq!(asked.collect::<Vec<_>>(), ["call_1_0_2", "call_1_0_3"]);
}

#[tokio::test]
async fn a_nested_call_has_no_tool_that_its_agent_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let config = nesting(&world, &["act {}"], false);
    let session = Session::create(&SessionDir::new(folder.path()), SessionId::literal("s"), config);
    let session = session.unwrap();
    let mut spec = nesting_spec(folder.path());
    spec.tools.retain(|name| name.as_str() != "act");
    let authority = authority(session.catalog());
    session.run(spec, authority, &Cancel::new()).await;
    let done = world.done();
    assert!(done[0].contains("there is no tool `act` here"), "{done:?}");
}

#[tokio::test]
async fn nested_calls_run_side_by_side_where_their_tools_allow_it() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    // The first waits for what the second does: side by side, or never.
    let config = nesting(&world, &["wait {}", r#"look {"n": 77}"#], true);
    run_nested(folder.path(), config, &Cancel::new()).await;
    assert_eq!(world.done()[1], r#"ok: released []"#);
}

#[tokio::test(start_paused = true)]
async fn a_nested_call_that_may_not_run_side_by_side_waits_for_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let config = nesting(&world, &["wait {}", "act {}"], true);
    let cancel = Cancel::new();
    let stop = async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        assert_eq!(world.done(), Vec::<String>::new(), "the first one still runs");
        cancel.cancel(CancelReason::Interrupted);
    };
    tokio::join!(run_nested(folder.path(), config, &cancel), stop);
    assert!(!world.done().iter().any(|done| done.starts_with("act ")), "{:?}", world.done());
}

#[tokio::test(start_paused = true)]
async fn a_nested_call_that_was_dropped_has_an_end_before_the_one_that_made_it() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    run_nested(folder.path(), nesting(&world, &["wait {}"], false), &Cancel::new()).await;
    assert_eq!(world.done()[0], "dropped");
    let ends = ["end call_1_0_1 cancelled", "end call_1_0 ok"];
    assert_eq!(calls(&world.records.lock())[2..], ends);
}

#[tokio::test(start_paused = true)]
async fn a_nested_call_that_does_not_settle_has_an_end_before_the_one_that_made_it() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let config = nesting(&world, &["deaf {}", "wait {}"], true);
    let cancel = Cancel::new();
    let stop = async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        cancel.cancel(CancelReason::Interrupted);
    };
    let (status, ()) = tokio::join!(run_nested(folder.path(), config, &cancel), stop);
    assert_eq!(status, Status::Interrupted);
    let records = world.records.lock();
    let calls = calls(&records);
    assert_eq!(
        calls[3..],
        ["end call_1_0_2 cancelled", "end call_1_0_1 cancelled", "end call_1_0 ok"]
    );
}

#[tokio::test]
async fn a_secret_in_a_nested_call_is_in_no_record_and_in_no_result() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let calls = ["look", "act"].map(|tool| format!(r#"{tool} {{"list": ["{STANDIN}"]}}"#));
    let mut config = nesting(&world, &calls.each_ref().map(String::as_str), false);
    config.secrets.add("KEY", "key-canary-1");
    run_nested(folder.path(), config, &Cancel::new()).await;
    let journal = std::fs::read_to_string(folder.path().join("s.jsonl")).unwrap();
    assert!(!journal.contains("key-canary-1"));
    let done = world.done();
    assert!(done[1].contains("[redacted:KEY]"), "{done:?}");
    assert!(done[2].starts_with("error: nothing ran: [redacted:KEY] in the arguments"), "{done:?}");
}

/// Each call that started by the end of some records, with its number of ends.
fn ends(records: &[Record]) -> BTreeMap<CallId, usize> {
    let mut ends = BTreeMap::new();
    for record in records {
        match &record.event {
            Event::ToolStart { call, .. } => _ = ends.entry(*call).or_default(),
            Event::ToolEnd(end) => *ends.entry(end.result.call).or_default() += 1,
            _ => {}
        }
    }
    ends
}

#[tokio::test]
async fn killed_at_any_record_no_nested_call_is_made_twice_and_each_has_one_end() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let list = [r#"look {"n": 1}"#, r#"act {"n": 2}"#, r#"make {"command": "cc"}"#];
    run_nested(folder.path(), nesting(&world, &list, false), &Cancel::new()).await;
    let whole = std::fs::read_to_string(folder.path().join("s.jsonl")).unwrap();
    let lines: Vec<usize> = whole.match_indices('\n').map(|(at, _)| at + 1).collect();
    let mut unknown = BTreeSet::new();
    for end in &lines[1..] {
        let to = tempfile::tempdir().unwrap();
        let dir = SessionDir::new(to.path());
        let id = SessionId::literal("s");
        std::fs::write(dir.file(&id), &whole[..*end]).unwrap();
        let before = ends(&dir.read(&id).unwrap().records);
        let world = Arc::new(World::default());
        let opened = Session::open(&dir, id.clone(), nesting(&world, &list, false));
        let (session, recovery) = opened.unwrap();
        let lost = recovery.unknown.iter().map(|call| call.tool.as_str()).collect::<Vec<_>>();
        unknown.insert(lost.join(" "));
        let authority = authority(session.catalog());
        let resumed = session.resume(Continue::default(), authority, &Cancel::new()).await;
        drop(session);
        let Ok(outcome) = resumed else { continue };
        assert_eq!(outcome.text.as_deref(), Some("done"), "cut at {end}");
        let records = dir.read(&id).unwrap().records;
        let after = ends(&records);
        assert!(after.values().all(|ends| *ends == 1), "cut at {end}: {after:?}");
        let again = calls(&world.records.lock());
        let nested = before.keys().filter(|call| call.nested.is_some());
        for call in nested {
            assert!(
                !again.iter().any(|line| line.starts_with(&format!("start {call} "))),
                "{call}"
            );
        }
        // What nested calls did is known, also of one whose end nobody saw.
        let third = CallId::new(1, 0).nested_call(3);
        let commands = outcome.receipts.commands;
        match before.get(&third) {
            Some(1) => assert_eq!(commands, [("cc".to_owned(), Some(0))], "cut at {end}"),
            Some(_) => assert_eq!(commands, [("cc".to_owned(), None)], "cut at {end}"),
            None if before.is_empty() => assert_eq!(commands.len(), 1, "cut at {end}"),
            None => assert_eq!(commands, [], "cut at {end}"),
        }
    }
    let unknown: Vec<&str> = unknown.iter().map(String::as_str).collect();
    assert_eq!(unknown, ["", "act nest", "make nest", "nest"]);
}

#[tokio::test]
async fn a_replay_makes_no_nested_call_and_refuses_one_outside_of_its_call() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let file = folder.path().join("tape.jsonl");
    let list = [r#"look {"n": 1}"#, r#"act {"n": 2}"#];
    let mut config = nesting(&world, &list, false);
    config.record.recorder = Some(Arc::new(SessionRecorder::create(&file).unwrap()));
    run_nested(folder.path(), config, &Cancel::new()).await;

    let replayed = Arc::new(World::default());
    let replay = Replay::new(Recording::read(&file).unwrap(), nesting(&replayed, &list, false));
    let rights = authority(replay.session().catalog());
    let outcome = replay.run(nesting_spec(folder.path()), rights, &Cancel::new()).await.unwrap();
    assert_eq!(outcome.text.as_deref(), Some("done"));
    assert!(replayed.done().is_empty(), "{:?}", replayed.done());
    let recorded = calls(&world.records.lock());
    assert_eq!(calls(&replayed.records.lock()), recorded);
    assert_eq!(recorded.len(), 6);
}
