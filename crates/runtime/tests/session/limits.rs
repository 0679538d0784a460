//! Time, cancellation and retries, on a paused clock.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use deputize_core::agent::{AgentActivity, AgentLimits, AgentSpec};
use deputize_core::model::{FailureKind, ModelError, Reply, Request, ToolChoice};
use deputize_core::outcome::ExitReason;
use deputize_core::{AgentId, Cancel, CancelReason, Event, Message, Outcome, SessionId, Status};
use deputize_runtime::{ChildConfig, Session, SessionConfig, SessionControl, SessionDir};
use parking_lot::Mutex;
use serde_json::json;

use crate::fixture::{World, authority, config, results, run, spec};

fn types(world: &World) -> Vec<String> {
    let records = world.records.lock();
    let name =
        |event: &Event| serde_json::to_value(event).unwrap()["type"].as_str().unwrap().to_owned();
    records.iter().map(|record| name(&record.event)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_failed_request_is_tried_again_and_each_attempt_is_on_record() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let tries = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&tries);
    let rule = move |_: usize, _: &Request<'_>| match counted.fetch_add(1, Ordering::SeqCst) {
        0 | 1 => Err(ModelError::new(FailureKind::Transient, "503")),
        _ => Ok(Reply::text("rule", "done")),
    };
    let outcome =
        run(folder.path(), spec(folder.path()), config(&world, rule), &Cancel::new()).await;
    assert_eq!((outcome.status, tries.load(Ordering::SeqCst)), (Status::Completed, 3));
    assert_eq!(
        types(&world),
        [
            "session.start",
            "agent.start",
            "message",
            "model.request",
            "model.error",
            "model.retry",
            "model.request",
            "model.error",
            "model.retry",
            "model.request",
            "model.response",
            "agent.end",
            "session.end",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_stays_down_ends_the_turn_with_what_it_said() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |_: usize, _: &Request<'_>| {
        Err(ModelError {
            partial: "Half".into(),
            ..ModelError::new(FailureKind::Incomplete, "cut off")
        })
    };
    let outcome =
        run(folder.path(), spec(folder.path()), config(&world, rule), &Cancel::new()).await;
    assert_eq!(outcome.status, Status::Failed);
    assert_eq!(outcome.error.as_deref(), Some("cut off (tried 5 times)"));
    assert_eq!(outcome.text.as_deref(), Some("Half"));
    assert_eq!(outcome.exit_code(), 3);
}

fn waiting(tool: &'static str) -> impl Fn(usize, &Request<'_>) -> Result<Reply, ModelError> {
    move |results, request| {
        if request.tool_choice == ToolChoice::None {
            return Ok(Reply::text("rule", "closing"));
        }
        let _ = results;
        Ok(Reply::calls("rule", [(tool, json!({}))]))
    }
}

fn limited(spec: AgentSpec, time_ms: u64, wrap_up_ms: u64) -> AgentSpec {
    AgentSpec { limits: AgentLimits { max_iterations: 9, time_ms, wrap_up_ms }, ..spec }
}

#[tokio::test(start_paused = true)]
async fn at_its_time_limit_an_agent_gives_a_closing_answer() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let spec = limited(spec(folder.path()), 5000, 1000);
    let outcome = run(folder.path(), spec, config(&world, waiting("wait")), &Cancel::new()).await;
    assert_eq!((outcome.status, outcome.exit_reason), (Status::Timeout, ExitReason::Timeout));
    assert_eq!(outcome.text.as_deref(), Some("closing"));
    assert_eq!(outcome.exit_code(), 4);
    assert!(results(&world).contains("this far"), "{}", results(&world));
}

#[tokio::test(start_paused = true)]
async fn an_agent_at_its_closing_answer_is_ending_for_who_lists_the_agents() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let control: Arc<OnceLock<SessionControl>> = Arc::default();
    let listed: Arc<Mutex<Vec<AgentActivity>>> = Arc::default();
    let rule = {
        let (control, listed) = (Arc::clone(&control), Arc::clone(&listed));
        move |results: usize, request: &Request<'_>| {
            let agents = control.get().map(SessionControl::agents).unwrap_or_default();
            listed.lock().extend(agents.iter().map(|agent| agent.activity));
            waiting("wait")(results, request)
        }
    };
    let spec = limited(spec(folder.path()), 5000, 1000);
    let (dir, id) = (SessionDir::new(folder.path()), SessionId::literal("s"));
    let session = Session::create(&dir, id, config(&world, rule)).unwrap();
    control.set(session.control()).unwrap();
    let authority = authority(session.catalog());
    session.run(spec, authority, &Cancel::new()).await;
    assert_eq!(*listed.lock(), [AgentActivity::Running, AgentActivity::Ending]);
}

#[tokio::test(start_paused = true)]
async fn without_wrap_up_the_time_limit_ends_it_with_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let spec = limited(spec(folder.path()), 5000, 0);
    let outcome = run(folder.path(), spec, config(&world, waiting("wait")), &Cancel::new()).await;
    assert_eq!((outcome.status, outcome.text), (Status::Timeout, None));
    assert_eq!(outcome.trace.len(), 1);
}

/// Cancels when the call runs.
async fn cancelled_in(tool: &'static str) -> (deputize_core::Outcome, Arc<World>, u128) {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let cancel = Cancel::new();
    let config = config(&world, waiting(tool));
    let running = run(folder.path(), spec(folder.path()), config, &cancel);
    let stop = async {
        while world.running.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        cancel.cancel(CancelReason::Interrupted);
        tokio::time::Instant::now()
    };
    let (outcome, at) = tokio::join!(running, stop);
    (outcome, Arc::clone(&world), at.elapsed().as_millis())
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_waits_for_a_tool_to_settle_and_keeps_what_it_gives() {
    let (outcome, world, ms) = cancelled_in("wait").await;
    assert_eq!((outcome.status, outcome.exit_code()), (Status::Interrupted, 130));
    assert!(results(&world).contains("this far"), "{}", results(&world));
    assert!(ms < 50, "{ms} ms");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_does_not_settle_is_given_up_within_two_seconds() {
    let (outcome, world, ms) = cancelled_in("deaf").await;
    assert_eq!(outcome.status, Status::Interrupted);
    assert!(results(&world).contains("its outcome is unknown"), "{}", results(&world));
    assert!((1000..2000).contains(&ms), "{ms} ms");
}

/// A child has a child that waits; both have the same model. Gives their ends, the lower one first.
async fn two_levels(spec: AgentSpec, children_time: Option<Duration>) -> [Outcome; 2] {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, request: &Request<'_>| {
        let Some(Message::User(task)) = request.messages.first().map(|first| &**first) else {
            panic!("no task")
        };
        let spawn = |task: &str| Reply::calls("rule", [("spawn", json!({"list": [task]}))]);
        Ok(match (task.text.as_str(), results) {
            (_, _) if request.tool_choice == ToolChoice::None => {
                Reply::text("rule", format!("{results} results"))
            }
            ("go", 0) => spawn("middle timed"),
            ("middle timed", 0) => spawn("untimed"),
            ("untimed", 0) => {
                Reply { text: "I wait.".into(), ..Reply::calls("rule", [("wait", json!({}))]) }
            }
            _ => Reply::text("rule", "done"),
        })
    };
    let children = ChildConfig { time_limit: children_time, ..ChildConfig::default() };
    let config = SessionConfig { children, ..config(&world, rule) };
    run(folder.path(), AgentSpec { cwd: folder.path().to_owned(), ..spec }, config, &Cancel::new())
        .await;
    let records = world.records.lock();
    let ends = records.iter().filter_map(|record| match &record.event {
        Event::AgentEnd(end) if record.depth > 0 => Some((**end).clone()),
        _ => None,
    });
    ends.collect::<Vec<_>>().try_into().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_a_child_is_none_of_its_own_children() {
    let [below, middle] = two_levels(spec(Path::new("/")), None).await;
    assert_eq!((below.status, below.exit_reason), (Status::Interrupted, ExitReason::Interrupted));
    assert_eq!(below.text.as_deref(), Some("I wait."));
    assert_eq!(below.error.as_deref(), Some("ended with a limit of the agent that started it"));
    assert_eq!((middle.status, middle.text.as_deref()), (Status::Timeout, Some("1 results")));
}

/// A tree whose middle agent writes and runs a command below it, and ends like this. Gives the ends
/// of the lowest agents and then that of the middle one.
async fn below_a_middle(middle: &'static str, low: [&'static str; 2]) -> Vec<Outcome> {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = move |results: usize, request: &Request<'_>| {
        let Some(Message::User(task)) = request.messages.first().map(|first| &**first) else {
            panic!("no task")
        };
        let spawn = |tasks: &[&str]| Reply::calls("rule", [("spawn", json!({"list": tasks}))]);
        Ok(match (task.text.as_str(), results) {
            (_, _) if request.tool_choice == ToolChoice::None => Reply::text("rule", "so far"),
            ("go", 0) => spawn(&[middle]),
            (task, 0) if task == middle => spawn(&low),
            ("works" | "untimed works and waits", 0) => {
                Reply::calls("rule", [("make", json!({"command": "make it"}))])
            }
            ("untimed works and waits", 1) => Reply::calls("rule", [("wait", json!({}))]),
            ("fails", _) | ("middle that fails", 1) => {
                return Err(ModelError::new(FailureKind::Fatal, "no"));
            }
            _ => Reply::text("rule", "done"),
        })
    };
    run(folder.path(), spec(folder.path()), config(&world, rule), &Cancel::new()).await;
    let records = world.records.lock();
    let ends = records.iter().filter_map(|record| match &record.event {
        Event::AgentEnd(end) if record.depth > 0 => Some((**end).clone()),
        _ => None,
    });
    ends.collect()
}

#[tokio::test(start_paused = true)]
async fn the_receipts_of_an_agent_tell_of_those_below_it_and_who_did_not_complete() {
    let names = |agents: &[AgentId]| agents.iter().map(ToString::to_string).collect::<Vec<_>>();
    let ends = below_a_middle("middle", ["works", "fails"]).await;
    let middle = ends.last().unwrap();
    assert_eq!((middle.agent.as_str(), middle.status), ("s/1.0.0", Status::Completed));
    assert_eq!(names(&middle.receipts.unfinished), ["s/1.0.0/1.0.1"]);
    assert!(middle.receipts.did_nothing());
    let below: Vec<_> = middle.below.iter().collect();
    let [(agent, seen)] = below[..] else { panic!("{below:?}") };
    assert_eq!(agent.as_str(), "s/1.0.0/1.0.0");
    assert_eq!(seen.files_written.keys().collect::<Vec<_>>(), [Path::new("/w/made")]);
    assert_eq!(seen.commands, [("make it".to_owned(), Some(0))]);

    // One that its parent's limit ended was waited for, and did not return all the same.
    let ends = below_a_middle("middle timed", ["works", "untimed works and waits"]).await;
    let middle = ends.last().unwrap();
    assert_eq!(middle.status, Status::Timeout);
    assert_eq!(names(&middle.receipts.unfinished), ["s/1.0.0/1.0.1"]);
    assert_eq!(middle.below.len(), 2);
    assert_eq!(middle.text.as_deref(), Some("so far"), "it closed with what it was told");
}

#[tokio::test(start_paused = true)]
async fn who_comes_to_no_answer_of_its_own_gives_what_those_below_it_said() {
    let ends = below_a_middle("middle that fails", ["works", "fails"]).await;
    let middle = ends.last().unwrap();
    // The goal of each here is that of the first.
    let said = "Agent \"go\" below it (completed):\ndone";
    assert_eq!((middle.status, middle.text.as_deref()), (Status::Failed, Some(said)));
}

#[tokio::test(start_paused = true)]
async fn at_a_limit_that_all_children_share_the_lower_ones_close_first() {
    let top = spec(Path::new("/"));
    let top = AgentSpec { limits: AgentLimits { wrap_up_ms: 1_000, ..top.limits }, ..top };
    let [below, middle] = two_levels(top, Some(Duration::from_secs(5))).await;
    for end in [&below, &middle] {
        assert_eq!(
            (end.status, end.exit_reason),
            (Status::Completed, ExitReason::Budget),
            "{end:?}"
        );
        assert_eq!(end.text.as_deref(), Some("1 results"));
    }
    assert!((5_000..5_100).contains(&middle.duration_ms), "{}", middle.duration_ms);
}

#[tokio::test]
async fn descendants_are_counted_at_every_agent_above_them() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, _: &Request<'_>| {
        let children: Vec<String> = (0..10).map(|n| n.to_string()).collect();
        let spawn = Reply::calls("rule", [("spawn", json!({ "list": children }))]);
        Ok(if results == 0 { spawn } else { Reply::text("rule", "done") })
    };
    let outcome =
        run(folder.path(), spec(folder.path()), config(&world, rule), &Cancel::new()).await;
    assert_eq!(outcome.status, Status::Completed);
    let made = types(&world).iter().filter(|name| *name == "agent.start").count();
    assert_eq!(made, 10, "the top agent and the nine descendants that it may have");
    let refused = "1 more would exceed the limit of 9 agents";
    assert!(results(&world).contains(refused), "{}", results(&world));
}

#[tokio::test(start_paused = true)]
async fn of_many_children_one_whose_model_panics_costs_itself_alone() {
    const LIST: [&str; 9] = {
        let mut list = ["child"; 9];
        list[4] = "child that panics";
        list
    };
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, request: &Request<'_>| {
        let task = match request.messages.first().map(|first| &**first) {
            Some(Message::User(task)) => task.text.as_str(),
            _ => "",
        };
        assert_ne!(task, "child that panics", "on purpose");
        Ok(match (task.starts_with("child"), results) {
            (true, _) => Reply::text("rule", "fine"),
            (false, 0) => Reply::calls("rule", [("spawn", json!({ "list": LIST.to_vec() }))]),
            (false, _) => Reply::text("rule", "done"),
        })
    };
    let config = config(&world, rule);
    let outcome = run(folder.path(), spec(folder.path()), config, &Cancel::new()).await;
    assert_eq!(outcome.text.as_deref(), Some("done"));
    let records = world.records.lock();
    let ends: Vec<_> = records
        .iter()
        .filter_map(|record| match &record.event {
            Event::AgentEnd(end) if record.depth == 1 => Some(end.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(ends.len(), 9);
    let (fine, lost): (Vec<_>, Vec<_>) =
        ends.iter().partition(|end| end.status == Status::Completed);
    assert_eq!((fine.len(), lost.len()), (8, 1));
    assert_eq!((lost[0].status, lost[0].agent.as_str()), (Status::Error, "s/1.0.4"));
    assert!(lost[0].error.as_deref().unwrap().contains("panicked"), "{lost:?}");
}
