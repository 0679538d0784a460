//! Messages that reach an agent when it is done: its report stays in its result.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use deputize_core::agent::Delivery;
use deputize_core::model::{Reply, Request};
use deputize_core::tool::SessionView;
use deputize_core::{AgentId, CallId, Cancel, Event, Message, Outcome, SessionId, Status};
use deputize_runtime::{Session, SessionDir};
use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::json;

use crate::fixture::{World, authority, config, resumed, run, spec};

/// What stands between an answer and what follows it in a result.
const LATER: &str = "[A message arrived after this answer. In reply to it:]";

/// What a child does with a request, and how many messages reach it meanwhile.
#[derive(Debug, Clone)]
struct Turn {
    does: ModelAction,
    messages: u8,
}

#[derive(Debug, Clone, PartialEq)]
enum ModelAction {
    Answer(String),
    Look,
    SayNothing,
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let does = prop_oneof![
        3 => "[a-z]{8}".prop_map(ModelAction::Answer),
        1 => Just(ModelAction::Look),
        1 => Just(ModelAction::SayNothing),
    ];
    let turn = (does, 0..3_u8).prop_map(|(does, messages)| Turn { does, messages });
    proptest::collection::vec(turn, 1..8)
}

fn is_child(request: &Request<'_>) -> bool {
    matches!(&*request.messages[0], Message::User(task) if task.text == "background 0")
}

fn top() -> AgentId {
    AgentId::root(&SessionId::literal("s"))
}

fn kid() -> AgentId {
    top().child(CallId::new(1, 0), 0)
}

/// Runs a parent with a background child that does this. Gives the child's outcome, its answers,
/// and how many messages it took.
async fn child_with(turns: Vec<Turn>) -> (Outcome, Vec<String>, usize) {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let view: Arc<OnceLock<Arc<SessionView>>> = Arc::default();
    let said = Arc::new(Mutex::new((Vec::new(), 0)));
    let script = Mutex::new(VecDeque::from(turns));
    let seen = Arc::clone(&view);
    let heard = Arc::clone(&said);
    let rule = move |results: usize, request: &Request<'_>| {
        if !is_child(request) {
            return Ok(match results {
                0 => Reply::calls("rule", [("spawn", json!({"list": ["background 0"]}))]),
                _ => Reply::text("rule", "I wait."),
            });
        }
        let mut said = heard.lock();
        let turn = script.lock().pop_front();
        let turn =
            turn.unwrap_or(Turn { does: ModelAction::Answer("the end".to_owned()), messages: 0 });
        for number in 0..turn.messages {
            let text = format!("message {number}");
            if seen.get().unwrap().control.message(&top(), &kid(), text) == Delivery::Left {
                said.1 += 1;
            }
        }
        Ok(match turn.does {
            ModelAction::Answer(text) => {
                said.0.push(text.clone());
                Reply::text("rule", text)
            }
            ModelAction::Look => Reply::calls("rule", [("look", json!({"n": results}))]),
            ModelAction::SayNothing => Reply::text("rule", ""),
        })
    };
    let dir = SessionDir::new(folder.path());
    let id = SessionId::literal("s");
    let session = Session::create(&dir, id, config(&world, rule)).unwrap();
    assert!(view.set(Arc::clone(session.view())).is_ok());
    let authority = authority(session.catalog());
    let cancel = Cancel::new();
    session.run(spec(folder.path()), authority, &cancel).await;
    let outcome = end_of_child(&world);
    let (answers, taken) = std::mem::take(&mut *said.lock());
    (outcome, answers, taken)
}

fn end_of_child(world: &World) -> Outcome {
    let records = world.records.lock();
    let ends = records.iter().filter(|record| record.agent == kid());
    let mut ends = ends.filter_map(|record| match &record.event {
        Event::AgentEnd(outcome) => Some((**outcome).clone()),
        _ => None,
    });
    ends.next().expect("the child has an end")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_final_answer_of_a_child_is_lost_whatever_messages_come_when(turns in turns()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        let (outcome, answers, _) = runtime.block_on(child_with(turns));
        let text = outcome.text.clone().unwrap_or_default();
        let mut rest = text.as_str();
        let mut actual: Vec<&String> = Vec::new();
        for answer in answers.iter().filter(|answer| !answer.is_empty()) {
            if actual.contains(&answer) {
                continue;
            }
            actual.push(answer);
            let found = rest.split_once(answer.as_str());
            prop_assert!(found.is_some(), "{answer:?} is lost or out of order: {text:?}");
            rest = found.unwrap().1;
        }
        if !answers.is_empty() {
            prop_assert_eq!(outcome.status, Status::Completed, "{:?}", outcome);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_that_reports_again_after_a_message_has_both_reports() {
    let answer =
        |text: &str, messages| Turn { does: ModelAction::Answer(text.to_owned()), messages };
    let turns = vec![
        answer("The first report.", 2),
        Turn { does: ModelAction::Look, messages: 0 },
        answer("The second report.", 1),
        answer("Yes, I am done.", 0),
    ];
    let (outcome, _, taken) = child_with(turns).await;
    assert_eq!((outcome.status, taken), (Status::Completed, 3));
    insta::assert_snapshot!(outcome.text.unwrap());
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_record_the_report_is_in_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let view: Arc<OnceLock<Arc<SessionView>>> = Arc::default();
    let seen = Arc::clone(&view);
    let rule = move |results: usize, request: &Request<'_>| {
        let replies = |it: &&Arc<Message>| matches!(&***it, Message::Assistant(_));
        let replies = request.messages.iter().filter(replies).count();
        Ok(match (is_child(request), results + replies) {
            (false, 0) => Reply::calls("rule", [("spawn", json!({"list": ["background 0"]}))]),
            (false, _) => Reply::text("rule", "I wait."),
            (true, 0) => {
                if let Some(view) = seen.get() {
                    view.control.message(&top(), &kid(), "Are you done?".to_owned());
                }
                Reply::text("rule", "The report.")
            }
            (true, _) => Reply::text("rule", "Yes, I am done."),
        })
    };
    let rule = Arc::new(rule);
    let dir = SessionDir::new(folder.path());
    let id = SessionId::literal("s");
    let shared = Arc::clone(&rule);
    let session =
        Session::create(&dir, id.clone(), config(&world, move |n, it: &Request<'_>| shared(n, it)));
    let session = session.unwrap();
    assert!(view.set(Arc::clone(session.view())).is_ok());
    let authority = authority(session.catalog());
    session.run(spec(folder.path()), authority, &Cancel::new()).await;
    drop(session);
    let whole_text = end_of_child(&world).text;
    assert!(whole_text.as_deref().is_some_and(|text| text.starts_with("The report.\n\n[")));

    let whole = std::fs::read_to_string(dir.file(&id)).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let left = lines.iter().position(|line| line.contains("message.left")).unwrap();
    let ended = lines.iter().position(|line| line.contains("agent.end")).unwrap();
    assert!(left + 4 < ended, "{whole}");
    for kept in left + 1..=ended {
        let again = tempfile::tempdir().unwrap();
        let dir = SessionDir::new(again.path());
        std::fs::write(dir.file(&id), lines[..kept].concat()).unwrap();
        let world = Arc::new(World::default());
        let shared = Arc::clone(&rule);
        resumed(&dir, config(&world, move |n, it: &Request<'_>| shared(n, it))).await;
        let text = end_of_child(&world).text.unwrap();
        // A reply that is not on record is asked for again, and then it is read before that.
        let reported = lines[..kept].iter().any(|line| line.contains("The report."));
        assert!(text.starts_with("The report."), "{kept}: {text}");
        assert_eq!(text.ends_with("Yes, I am done."), reported, "{kept}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_parent_says_while_its_children_run_stays_in_its_result() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, request: &Request<'_>| {
        let actual = request
            .messages
            .iter()
            .any(|it| matches!(&**it, Message::User(it) if it.from.is_some()));
        Ok(match (is_child(request), results) {
            (true, _) => Reply::text("rule", "The child is done."),
            (false, 0) => Reply::calls("rule", [("spawn", json!({"list": ["background 0"]}))]),
            (false, _) if actual => Reply::text("rule", "It is done."),
            (false, _) => Reply::text("rule", "I wait."),
        })
    };
    let outcome =
        run(folder.path(), spec(folder.path()), config(&world, rule), &Cancel::new()).await;
    assert_eq!(outcome.text, Some(format!("I wait.\n\n{LATER}\n\nIt is done.")));
}

#[tokio::test(start_paused = true)]
async fn a_report_stays_in_the_result_when_a_child_of_its_author_ends_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, request: &Request<'_>| {
        let Message::User(task) = &*request.messages[0] else { panic!("no task") };
        let is_end = |it: &Arc<Message>| matches!(&**it, Message::User(it) if it.from.is_some());
        let has_end = request.messages.iter().any(is_end);
        let spawn = |goal: &str| Reply::calls("rule", [("spawn", json!({"list": [goal]}))]);
        Ok(match (task.text.as_str(), results) {
            ("background 0", 0) => spawn("background 1"),
            ("background 0", _) if has_end => Reply::text("rule", "Noted, thanks."),
            ("background 0", _) => Reply::text("rule", "FINAL REPORT: 14 tests fail."),
            ("background 1", 0..3) => Reply::calls("rule", [("look", json!({"n": results}))]),
            ("background 1", _) => Reply::text("rule", "The child's child is done."),
            (_, 0) => spawn("background 0"),
            (_, _) => Reply::text("rule", "I wait."),
        })
    };
    run(folder.path(), spec(folder.path()), config(&world, rule), &Cancel::new()).await;
    let outcome = end_of_child(&world);
    assert_eq!(outcome.status, Status::Completed);
    let text = outcome.text.unwrap();
    assert_eq!(text, format!("FINAL REPORT: 14 tests fail.\n\n{LATER}\n\nNoted, thanks."));
}
