//! Background children: their limits, schema and closing answer, and what a restart knows of a
//! child's time and commands.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::agent::{AgentLimits, AgentSpec, Delivery};
use deputize_core::authority::Grant;
use deputize_core::model::{Delta, ModelError, Reply, Request, ToolChoice};
use deputize_core::outcome::ExitReason;
use deputize_core::{
    AgentId, BoxFuture, CallId, Cancel, Clock, Event, Message, Model, Outcome, SessionId, Status,
};
use deputize_runtime::{Session, SessionConfig, SessionDir};
use serde_json::json;

use crate::fixture::{RuleModel, World, authority, config, cut, resumed, resumed_with, run, spec};

const CHILDREN: [&str; 3] = ["background 0", "background 1", "background 2"];

fn task(request: &Request<'_>) -> String {
    let Some(Message::User(task)) = request.messages.first().map(|first| &**first) else {
        panic!("no task")
    };
    task.text.clone()
}

/// Returns the number of ends in a request.
fn describe(request: &Request<'_>) -> usize {
    let is = |message: &Message| matches!(message, Message::User(user) if user.from.is_some());
    request.messages.iter().filter(|message| is(message)).count()
}

/// A child waits for its release and is done.
fn child(results: usize) -> Reply {
    match results {
        0 => Reply::calls("rule", [("wait", json!({}))]),
        _ => Reply::text("rule", "the child is done"),
    }
}

fn begins(count: usize) -> Reply {
    Reply::calls("rule", [("spawn", json!({"list": CHILDREN[..count]}))])
}

fn count(world: &World, is: impl Fn(&str, &Event) -> bool) -> usize {
    let records = world.records.lock();
    records.iter().filter(|record| is(record.agent.as_str(), &record.event)).count()
}

fn rests(world: &World) -> usize {
    count(world, |_, event| matches!(event, Event::AgentRest))
}

fn ends(world: &World) -> usize {
    count(world, |agent, event| agent != "s" && matches!(event, Event::AgentEnd(_)))
}

fn requests(world: &World) -> usize {
    count(world, |agent, event| agent == "s" && matches!(event, Event::ModelRequest { .. }))
}

/// Lets the others go on until it is so.
async fn until(what: &str, is: impl Fn() -> bool) {
    for _ in 0..100_000 {
        if is() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("it never came to this: {what}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_held_to_its_schema_when_no_child_is_out() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, request: &Request<'_>| -> Result<Reply, ModelError> {
        Ok(match (task(request).starts_with("background"), results) {
            (true, _) => child(results),
            (_, 0) => begins(1),
            _ if describe(request) == 0 => Reply::text("rule", "I wait for it."),
            _ => Reply::text("rule", r#"{"tests": 1}"#),
        })
    };
    let schema = json!({"type": "object", "required": ["tests"]});
    let top = spec(folder.path()).answering(schema);
    let released = async {
        until("a rest", || rests(&world) == 1).await;
        world.release.notify_one();
    };
    let cancel = Cancel::new();
    let ran = run(folder.path(), top, config(&world, rule), &cancel);
    let (outcome, ()) = tokio::join!(ran, released);
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    assert_eq!(outcome.output, Some(json!({"tests": 1})));
    assert_eq!(count(&world, |_, event| matches!(event, Event::AnswerRejected { .. })), 0);
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_requests_holds_however_often_it_is_woken() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, request: &Request<'_>| -> Result<Reply, ModelError> {
        Ok(match (task(request).starts_with("background"), results) {
            (true, _) => child(results),
            (_, 0) => begins(3),
            _ if describe(request) == 0 => Reply::text("rule", "I wait."),
            _ if request.tool_choice == ToolChoice::None => {
                Reply::text("rule", format!("I know of {}.", describe(request)))
            }
            (_, n) => Reply::calls("rule", [("look", json!({ "n": n }))]),
        })
    };
    let limits = AgentLimits { max_iterations: 3, time_ms: 0, wrap_up_ms: 0 };
    let top = AgentSpec { limits, ..spec(folder.path()) };
    let released = async {
        for (resting, ended) in [(1, 1), (2, 2), (2, 3)] {
            until("a rest", || rests(&world) == resting).await;
            world.release.notify_one();
            until("an end", || ends(&world) == ended).await;
        }
    };
    let cancel = Cancel::new();
    let ran = run(folder.path(), top, config(&world, rule), &cancel);
    let (outcome, ()) = tokio::join!(ran, released);
    // To begin them, to wait, one step with the first end, the closing one; and the ends that
    // came after it share one more.
    assert_eq!(requests(&world), 5);
    assert_eq!(
        (outcome.status, outcome.exit_reason),
        (Status::Completed, ExitReason::MaxIterations)
    );
    assert!(outcome.text.is_some_and(|text| text.ends_with("I know of 3.")));
}

#[tokio::test(start_paused = true)]
async fn one_that_waits_at_its_time_limit_says_what_it_has_and_names_who_is_out() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, request: &Request<'_>| -> Result<Reply, ModelError> {
        Ok(match (task(request).starts_with("background"), results) {
            (true, _) => child(results),
            (_, 0) => begins(2),
            _ if request.tool_choice == ToolChoice::None => {
                Reply::text("rule", format!("It is late, and I know of {}.", describe(request)))
            }
            _ => Reply::text("rule", "I wait."),
        })
    };
    let limits = AgentLimits { max_iterations: 9, time_ms: 5_000, wrap_up_ms: 1_000 };
    let top = AgentSpec { limits, ..spec(folder.path()) };
    let released = async {
        until("a rest", || rests(&world) == 1).await;
        world.release.notify_one();
    };
    let cancel = Cancel::new();
    let ran = run(folder.path(), top, config(&world, rule), &cancel);
    let (outcome, ()) = tokio::join!(ran, released);
    assert_eq!((outcome.status, outcome.exit_reason), (Status::Timeout, ExitReason::Timeout));
    assert!(outcome.text.is_some_and(|text| text.ends_with("It is late, and I know of 1.")));
    let out: Vec<_> = outcome.receipts.unfinished.iter().map(ToString::to_string).collect();
    assert_eq!(out.len(), 1, "{out:?}");
    assert!(out[0].starts_with("s/1.0."), "{out:?}");
    let records = world.records.lock();
    let ends = records.iter().filter_map(|record| match &record.event {
        Event::AgentEnd(end) if end.status == Status::Interrupted => end.error.clone(),
        _ => None,
    });
    assert_eq!(ends.collect::<Vec<_>>(), ["ended with a limit of the agent that started it"]);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_rested_says_so_again_when_it_is_taken_up() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, request: &Request<'_>| -> Result<Reply, ModelError> {
        Ok(match (task(request).starts_with("background"), results) {
            (true, _) => child(results),
            (_, 0) => begins(1),
            _ => Reply::text("rule", format!("I know of {}.", describe(request))),
        })
    };
    let released = async |world: &World| {
        until("a rest", || rests(world) == 1).await;
        world.release.notify_one();
    };
    let cancel = Cancel::new();
    let ran = run(folder.path(), spec(folder.path()), config(&world, rule), &cancel);
    tokio::join!(ran, released(&world));
    let again = tempfile::tempdir().unwrap();
    let dir = cut(folder.path(), again.path(), "agent.rest");
    let world = Arc::new(World::default());
    let (outcome, ()) = tokio::join!(resumed(&dir, config(&world, rule)), released(&world));
    assert!(outcome.text.is_some_and(|text| text.ends_with("I know of 1.")));
    assert_eq!(rests(&world), 1);
}

/// Returns the texts of the messages that a child received after its task.
fn message_texts(dir: &SessionDir, child: &AgentId) -> Vec<String> {
    let stored = dir.read(&SessionId::literal("s")).unwrap();
    let messages = stored.messages(child).unwrap_or_default();
    let users = messages.iter().filter_map(|message| match &**message {
        Message::User(user) => Some(user.text.clone()),
        Message::Assistant(_) | Message::Tool(_) => None,
    });
    users.skip(1).collect()
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_record_each_message_that_was_left_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, request: &Request<'_>| -> Result<Reply, ModelError> {
        Ok(match (task(request).starts_with("background"), results) {
            (true, _) => child(results),
            (_, 0) => begins(1),
            _ => Reply::text("rule", "I wait."),
        })
    };
    let dir = SessionDir::new(folder.path());
    let id = SessionId::literal("s");
    let session = Session::create(&dir, id.clone(), config(&world, rule)).unwrap();
    let kid = AgentId::root(&id).child(CallId::new(1, 0), 0);
    let messaging = async {
        until("the child waits", || {
            count(&world, |agent, event| agent != "s" && matches!(event, Event::ToolStart { .. }))
                == 1
        })
        .await;
        for text in ["one", "two", "one"] {
            let left = session.view().control.message(&AgentId::root(&id), &kid, text.to_owned());
            assert_eq!(left, Delivery::Left);
        }
        until("a rest", || rests(&world) == 1).await;
        world.release.notify_one();
    };
    let authority = authority(session.catalog());
    let cancel = Cancel::new();
    let ran = session.run(spec(folder.path()), authority, &cancel);
    tokio::join!(ran, messaging);
    assert_eq!(
        session.view().control.message(&AgentId::root(&id), &kid, "too late".to_owned()),
        Delivery::Ended
    );
    drop(session);
    assert_eq!(message_texts(&dir, &kid), ["one", "two", "one"]);

    let whole = std::fs::read_to_string(dir.file(&id)).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let begun = lines.iter().position(|line| line.contains("agent.start")).unwrap();
    for kept in begun + 2..=lines.len() {
        let again = tempfile::tempdir().unwrap();
        let dir = SessionDir::new(again.path());
        std::fs::write(dir.file(&id), lines[..kept].concat()).unwrap();
        let left = lines[..kept].iter().filter(|line| line.contains("message.left")).count();
        let world = Arc::new(World::default());
        world.release.notify_one();
        resumed(&dir, config(&world, rule)).await;
        assert_eq!(message_texts(&dir, &kid), ["one", "two", "one"][..left], "after {kept} lines");
    }
}

/// A model that gives a closing answer when it is released.
struct ClosesLate<M>(M, Arc<World>);

impl<M: Model> Model for ClosesLate<M> {
    fn reply<'a>(
        &'a self,
        request: &'a Request<'a>,
        live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            if request.tool_choice == ToolChoice::None {
                self.1.release.notified().await;
            }
            self.0.reply(request, live, cancel).await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_is_read_before_a_closing_answer_and_refused_while_it_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, request: &Request<'_>| -> Result<Reply, ModelError> {
        Ok(match (task(request).starts_with("background"), results) {
            (true, _) => child(results),
            (_, 0) => begins(1),
            _ => Reply::text("rule", "I wait."),
        })
    };
    let mut config = config(&world, rule);
    config.models.insert(
        "t/rule",
        "rule",
        Arc::new(ClosesLate(RuleModel(rule), Arc::clone(&world))),
    );
    config.children.time_limit = Some(Duration::from_secs(5));
    let dir = SessionDir::new(folder.path());
    let id = SessionId::literal("s");
    let session = Session::create(&dir, id.clone(), config).unwrap();
    let kid = AgentId::root(&id).child(CallId::new(1, 0), 0);
    let messaging = async {
        let says =
            |text: &str| session.view().control.message(&AgentId::root(&id), &kid, text.to_owned());
        until("a rest", || rests(&world) == 1).await;
        assert_eq!(says("early"), Delivery::Left);
        tokio::time::sleep(Duration::from_secs(5)).await;
        let asked = |agent: &str, event: &Event| {
            agent != "s" && matches!(event, Event::ModelRequest { iteration: 2, .. })
        };
        until("the closing request", || count(&world, asked) == 1).await;
        assert_eq!(says("late"), Delivery::Closing);
        world.release.notify_one();
    };
    let authority = authority(session.catalog());
    let cancel = Cancel::new();
    let limits = AgentLimits { max_iterations: 9, time_ms: 0, wrap_up_ms: 1_000 };
    let top = AgentSpec { limits, ..spec(folder.path()) };
    tokio::join!(session.run(top, authority, &cancel), messaging);
    drop(session);
    let actual = message_texts(&dir, &kid);
    assert_eq!((actual.len(), actual[0].as_str()), (2, "early"), "{actual:?}");
    assert!(actual[1].contains("closing answer"), "{actual:?}");
}

/// A clock that goes with the time of the test.
struct TestClock {
    since: tokio::time::Instant,
    began: u64,
}

impl Clock for TestClock {
    fn now_ms(&self) -> u64 {
        self.began + u64::try_from(self.since.elapsed().as_millis()).unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_gives_a_child_no_new_time_and_knows_its_last_command() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, request: &Request<'_>| -> Result<Reply, ModelError> {
        let child = task(request).starts_with("timed");
        Ok(match (child, results) {
            (false, 0) => Reply::calls("rule", [("spawn", json!({"list": ["timed"]}))]),
            (true, 1) => Reply::calls("rule", [("act", json!({"command": "make it"}))]),
            (true, _) if request.tool_choice != ToolChoice::None => child_waits(),
            _ => Reply::text("rule", "it is over"),
        })
    };
    let clocked = |world: &Arc<World>, began| {
        let clock = Arc::new(TestClock { since: tokio::time::Instant::now(), began });
        SessionConfig { clock, ..config(world, rule) }
    };
    let released = async {
        tokio::time::sleep(Duration::from_secs(8)).await;
        world.release.notify_one();
    };
    let cancel = Cancel::new();
    let ran = run(folder.path(), spec(folder.path()), clocked(&world, 0), &cancel);
    tokio::join!(ran, released);
    // Killed in the command.
    let again = tempfile::tempdir().unwrap();
    let dir = cut(folder.path(), again.path(), "\"tool\":\"act\"");
    let world = Arc::new(World::default());
    let began = tokio::time::Instant::now();
    // An hour later: in which it did not run.
    resumed(&dir, clocked(&world, 3_600_000)).await;
    let took = began.elapsed().as_millis();
    assert!((1_900..2_200).contains(&took), "{took} ms of the two seconds that were left");
    let end = end_of_child(&world);
    assert_eq!((end.status, end.text.as_deref()), (Status::Timeout, Some("it is over")));
    assert!((9_900..10_200).contains(&end.duration_ms), "{}", end.duration_ms);
    assert_eq!(end.receipts.commands, [("make it".to_owned(), None)]);
    assert_eq!(end.receipts.unknown, BTreeSet::from([0]));

    // One that cannot go on ran as long as it ran.
    let again = tempfile::tempdir().unwrap();
    let dir = cut(folder.path(), again.path(), "\"tool\":\"act\"");
    let world = Arc::new(World::default());
    let none = Grant { spawn_depth: Some(0), ..Grant::default() };
    Box::pin(resumed_with(&dir, clocked(&world, 3_600_000), &none)).await;
    let end = end_of_child(&world);
    assert_eq!((end.status, end.duration_ms), (Status::Interrupted, 8_000), "{end:?}");
}

fn end_of_child(world: &World) -> Outcome {
    let records = world.records.lock();
    let end = records.iter().find_map(|record| match &record.event {
        Event::AgentEnd(end) if record.depth == 1 => Some((**end).clone()),
        _ => None,
    });
    end.unwrap()
}

fn child_waits() -> Reply {
    Reply::calls("rule", [("wait", json!({}))])
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_child_is_delivered_once_also_across_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, request: &Request<'_>| -> Result<Reply, ModelError> {
        Ok(match (task(request).starts_with("background"), results) {
            (true, _) => child(results),
            (_, 0) => begins(1),
            _ => Reply::text("rule", format!("I know of {}.", describe(request))),
        })
    };
    let released = async {
        until("a rest", || rests(&world) == 1).await;
        world.release.notify_one();
    };
    let cancel = Cancel::new();
    let ran = run(folder.path(), spec(folder.path()), config(&world, rule), &cancel);
    let (outcome, ()) = tokio::join!(ran, released);
    assert!(outcome.text.is_some_and(|text| text.ends_with("I know of 1.")));
    let is_delivery =
        |_: &str, event: &Event| matches!(event, Event::Message(it) if it.from.is_some());
    assert_eq!(count(&world, is_delivery), 1);

    // Killed right after the message.
    let later = tempfile::tempdir().unwrap();
    let dir = cut(folder.path(), later.path(), r#""from":"s/"#);
    let world = Arc::new(World::default());
    let outcome = resumed(&dir, config(&world, rule)).await;
    assert!(outcome.text.is_some_and(|text| text.ends_with("I know of 1.")));
    assert_eq!(count(&world, is_delivery), 0);
}
