//! Children at the edge of a budget: who begins, who waits, and what is sent, on a paused clock.

use std::sync::Arc;
use std::time::Duration;

use deputize_core::agent::AgentSpec;
use deputize_core::authority::Grant;
use deputize_core::budget::{Budget, Price};
use deputize_core::model::{Finish, ModelOptions, Reply, Request, ToolChoice, Usage};
use deputize_core::outcome::ExitReason;
use deputize_core::{
    Authority, Cancel, CancelReason, Event, Message, Outcome, Record, SessionId, Status,
};
use deputize_runtime::{Budgets, Session, SessionConfig, SessionDir};
use serde_json::json;
use tokio::time::Instant;

use crate::fixture::{World, config, spec};

const PRICE: Price = Price { input: 2.0, cached: 2.0, cache_write: 2.0, output: 10.0 };

fn usage(input: u64, output: u64) -> Usage {
    Usage { input, output, ..Usage::default() }
}

/// The task of the agent that asks.
fn task<'r>(request: &'r Request<'_>) -> &'r str {
    match request.messages.first().map(|message| &**message) {
        Some(Message::User(task)) => &task.text,
        _ => "",
    }
}

/// Runs a top agent whose children have a budget. Its system text is long enough for 6,000 tokens.
async fn run<F>(budget: Budget, levels: u32, rule: F, cancel: &Cancel) -> Vec<Record>
where
    F: Fn(usize, &Request<'_>) -> Reply + Send + Sync + 'static,
{
    let budgets = Budgets { children: budget, ..Budgets::default() };
    run_with(budgets, levels, rule, cancel).await
}

/// Runs a top agent within budgets.
async fn run_with<F>(budgets: Budgets, levels: u32, rule: F, cancel: &Cancel) -> Vec<Record>
where
    F: Fn(usize, &Request<'_>) -> Reply + Send + Sync + 'static,
{
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let mut config =
        SessionConfig { budgets, ..config(&world, move |n, request| Ok(rule(n, request))) };
    config.models.price("t/rule", PRICE);
    let session =
        Session::create(&SessionDir::new(folder.path()), SessionId::literal("s"), config).unwrap();
    let grant = Grant { spawn_depth: Some(levels), spawn_number: Some(99), ..Grant::default() };
    let authority = Authority::root(session.catalog(), &grant);
    let system = vec!["You are under test. ".repeat(900).into()];
    let spec = AgentSpec { system, ..spec(folder.path()) };
    session.run(spec, authority, cancel).await;
    let records = world.records.lock();
    records.clone()
}

/// The ends of the agents below the top one, in the order of their ids.
fn ends(records: &[Record]) -> Vec<Outcome> {
    let ends = records.iter().filter_map(|record| match &record.event {
        Event::AgentEnd(end) if record.depth > 0 => Some((**end).clone()),
        _ => None,
    });
    let mut ends: Vec<_> = ends.collect();
    ends.sort_by(|one, other| one.agent.cmp(&other.agent));
    ends
}

/// Six tasks; each costs 0.046 dollars in two requests.
fn six(results: usize, request: &Request<'_>) -> Reply {
    match (task(request), results) {
        ("go", 0) => {
            let list = ["a", "b", "c", "d", "e", "f"];
            let calls = Reply::calls("m", [("spawn", json!({ "list": list }))]);
            Reply { usage: usage(6_000, 100), ..calls }
        }
        ("go", _) => Reply { usage: usage(7_000, 100), ..Reply::text("m", "all back") },
        _ if request.tool_choice == ToolChoice::None => {
            Reply { usage: usage(8_000, 100), ..Reply::text("m", "this far") }
        }
        (_, 0) => {
            let calls = Reply::calls("m", [("look", json!({"command": "4000"}))]);
            Reply { usage: usage(6_000, 800), ..calls }
        }
        (_, _) => Reply { usage: usage(8_000, 1_000), ..Reply::text("m", "done") },
    }
}

#[tokio::test(start_paused = true)]
async fn with_room_for_three_of_six_tasks_three_are_completed_and_three_are_not_billed() {
    let budget = Budget { usd: Some(0.15), tokens: None };
    let ends = ends(&run(budget, 1, six, &Cancel::new()).await);
    let billed: Vec<_> = ends.iter().map(|end| (end.cost_usd.unwrap() * 1e4).round()).collect();
    assert_eq!(billed, [460.0, 460.0, 460.0, 0.0, 0.0, 0.0]);
    for end in &ends[..3] {
        let ended = (end.status, end.exit_reason, end.text.as_deref());
        assert_eq!(ended, (Status::Completed, ExitReason::Completed, Some("done")));
    }
    for end in &ends[3..] {
        let ended = (end.status, end.exit_reason, end.requests, end.text.as_deref());
        assert_eq!(ended, (Status::Failed, ExitReason::Budget, 0, None));
        let error = end.error.as_deref().unwrap();
        assert!(error.starts_with("nothing was asked of the model"), "{error}");
        let left = "$0.1380 of $0.15 of the children's budget are spent, so $0.0120 are left";
        assert!(error.ends_with(left), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn with_room_for_all_tasks_of_one_request_the_last_one_runs_too() {
    let rule = |results: usize, request: &Request<'_>| match task(request) {
        "go" => six(results, request),
        _ => Reply { usage: usage(8_500, 300), ..Reply::text("m", "done") },
    };
    // Each task costs 0.02 dollars. When five are done, an ordinary request and a closing one would
    // not fit any more.
    let budget = Budget { usd: Some(0.14), tokens: None };
    let ends = ends(&run(budget, 1, rule, &Cancel::new()).await);
    let reasons: Vec<_> = ends.iter().map(|end| end.exit_reason).collect();
    assert_eq!(reasons, [ExitReason::Completed; 6], "{:?}", ends.last());
}

#[tokio::test(start_paused = true)]
async fn what_children_cost_does_not_take_the_closing_answer_from_the_top_agent() {
    let rule = |results: usize, request: &Request<'_>| match (task(request), results) {
        ("go", 0) => {
            let calls = Reply::calls("m", [("spawn", json!({"list": ["a"]}))]);
            Reply { usage: usage(6_000, 100), ..calls }
        }
        ("go", _) if request.tool_choice == ToolChoice::None => {
            Reply { usage: usage(6_200, 100), ..Reply::text("m", "this far") }
        }
        ("go", n) => {
            let calls = Reply::calls("m", [("look", json!({ "n": n }))]);
            Reply { usage: usage(6_000 + 10 * n as u64, 100), ..calls }
        }
        _ => Reply { usage: usage(6_000, 100), ..Reply::text("m", "done") },
    };
    let session = Budget { usd: Some(0.15), tokens: None };
    let budgets = Budgets { session, ..Budgets::default() };
    let records = run_with(budgets, 1, rule, &Cancel::new()).await;
    let end = records.iter().find_map(|record| match &record.event {
        Event::AgentEnd(end) if record.depth == 0 => Some(end),
        _ => None,
    });
    let end = end.unwrap();
    let ended = (end.status, end.exit_reason, end.text.as_deref());
    assert_eq!(ended, (Status::Completed, ExitReason::Budget, Some("this far")), "{end:?}");
}

/// What was asked of the model, and what was recorded, where the one child's reply is long.
async fn long(budget: Budget, output: u64) -> (Vec<Record>, Vec<Option<u32>>) {
    let limits = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let seen = Arc::clone(&limits);
    let rule = move |results: usize, request: &Request<'_>| match (task(request), results) {
        ("go", 0) => {
            let calls = Reply::calls("m", [("spawn", json!({"list": ["a"]}))]);
            Reply { usage: usage(6_000, 100), ..calls }
        }
        ("go", _) => Reply { usage: usage(7_000, 100), ..Reply::text("m", "all back") },
        _ => {
            let limit = request.options.max_output_tokens;
            seen.lock().push(limit);
            let most = limit.map_or(u64::MAX, u64::from);
            if request.tool_choice == ToolChoice::None {
                Reply { usage: usage(6_000, 100), ..Reply::text("m", "this far") }
            } else if results == 0 && output > most {
                // Its arguments are cut in the middle.
                let cut = Reply::calls("m", [("act", json!({"n": 1}))]);
                let text = "the beginning".to_owned();
                Reply { text, finish: Finish::Length, usage: usage(6_000, most), ..cut }
            } else {
                Reply { usage: usage(6_000, output), ..Reply::text("m", "all of it") }
            }
        }
    };
    let records = run(budget, 1, rule, &Cancel::new()).await;
    let limits = limits.lock().clone();
    (records, limits)
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_reaches_what_was_reserved_is_asked_for_again_with_more() {
    let (records, limits) = long(Budget { usd: Some(1.0), tokens: None }, 9_000).await;
    assert_eq!(limits, [Some(4_096), Some(16_384)]);
    let end = &ends(&records)[0];
    let ended = (end.status, end.exit_reason, end.text.as_deref(), end.partial);
    assert_eq!(ended, (Status::Completed, ExitReason::Completed, Some("all of it"), false));
    // Both attempts are paid, and no call of the cut one ran.
    assert_eq!((end.usage.output, end.requests, end.iterations), (4_096 + 9_000, 2, 1));
    assert!(end.trace.is_empty());
    let actual = records.iter().find_map(|record| match &record.event {
        Event::ModelError { error, retried: true, .. } => Some(error.message.clone()),
        _ => None,
    });
    let actual = actual.unwrap();
    assert!(actual.contains("reached the 4096 tokens of output"), "{actual}");
    assert!(actual.contains("the next attempt may have 16384"), "{actual}");
}

#[tokio::test(start_paused = true)]
async fn without_room_for_a_longer_reply_there_is_a_closing_answer() {
    let (records, limits) = long(Budget { usd: Some(0.14), tokens: None }, 9_000).await;
    assert_eq!(limits, [Some(4_096), Some(1_024)]);
    let end = &ends(&records)[0];
    let ended = (end.status, end.exit_reason, end.text.as_deref());
    assert_eq!(ended, (Status::Completed, ExitReason::Budget, Some("this far")));
}

#[tokio::test(start_paused = true)]
async fn without_a_budget_no_limit_is_sent() {
    let (_, limits) = long(Budget::default(), 9_000).await;
    assert_eq!(limits, [None]);
}

#[tokio::test(start_paused = true)]
async fn children_of_children_take_of_the_room_of_their_parents_and_nobody_waits_for_ever() {
    let rule = |results: usize, request: &Request<'_>| match (task(request), results) {
        ("go", 0) => {
            let list = ["middle 1", "middle 2", "middle 3"];
            let calls = Reply::calls("m", [("spawn", json!({ "list": list }))]);
            Reply { usage: usage(6_000, 100), ..calls }
        }
        ("go", _) => Reply { usage: usage(7_000, 100), ..Reply::text("m", "all back") },
        _ if request.tool_choice == ToolChoice::None => {
            Reply { usage: usage(7_000, 100), ..Reply::text("m", "this far") }
        }
        (task, 0) if task.starts_with("middle") => {
            let list = ["low 1", "low 2"];
            let calls = Reply::calls("m", [("spawn", json!({ "list": list }))]);
            Reply { usage: usage(6_000, 100), ..calls }
        }
        _ => Reply { usage: usage(6_500, 500), ..Reply::text("m", "done") },
    };
    let mut completed = Vec::new();
    for cents in [1, 5, 8, 12, 16, 20, 30, 60, 100, 200] {
        let most = f64::from(cents) / 100.0;
        let budget = Budget { usd: Some(most), tokens: None };
        let cancel = Cancel::new();
        let run = run(budget, 2, rule, &cancel);
        // Nothing of it takes time.
        let records = tokio::time::timeout(Duration::from_secs(1), run).await.unwrap();
        let ends = ends(&records);
        let spent: f64 = ends.iter().map(|end| PRICE.of(end.usage)).sum();
        assert!(spent <= most + 1e-9, "{spent} of {most}");
        let done = |end: &&Outcome| end.exit_reason == ExitReason::Completed;
        completed.push(ends.iter().filter(done).count());
    }
    assert_eq!((completed.first(), completed.last()), (Some(&0), Some(&9)), "{completed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_waits_for_room_ends_when_it_is_cancelled() {
    let rule = |results: usize, request: &Request<'_>| match (task(request), results) {
        ("go", 0) => {
            let calls = Reply::calls("m", [("spawn", json!({"list": ["long", "other"]}))]);
            Reply { usage: usage(6_000, 100), ..calls }
        }
        ("long", 0) => {
            Reply { usage: usage(6_000, 100), ..Reply::calls("m", [("wait", json!({}))]) }
        }
        _ => Reply { usage: usage(6_000, 100), ..Reply::text("m", "done") },
    };
    let cancel = Cancel::new();
    let stop = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        cancel.cancel(CancelReason::Interrupted);
    };
    let budget = Budget { usd: Some(0.2), tokens: None };
    let began = Instant::now();
    let (records, ()) = tokio::join!(run(budget, 1, rule, &cancel), stop);
    assert!(began.elapsed() < Duration::from_secs(10));
    let ends: Vec<_> = ends(&records).iter().map(|end| (end.exit_reason, end.requests)).collect();
    assert_eq!(ends, [(ExitReason::Interrupted, 1), (ExitReason::Interrupted, 0)]);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_room_is_no_time_of_the_child() {
    let rule = |results: usize, request: &Request<'_>| match (task(request), results) {
        ("go", 0) => {
            let list = ["untimed long", "timed other"];
            let calls = Reply::calls("m", [("spawn", json!({ "list": list }))]);
            Reply { usage: usage(6_000, 100), ..calls }
        }
        ("untimed long", 0) => {
            Reply { usage: usage(6_000, 100), ..Reply::calls("m", [("wait", json!({}))]) }
        }
        _ => Reply { usage: usage(6_000, 100), ..Reply::text("m", "done") },
    };
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let budgets =
        Budgets { children: Budget { usd: Some(0.2), tokens: None }, ..Budgets::default() };
    let mut config =
        SessionConfig { budgets, ..config(&world, move |n, request| Ok(rule(n, request))) };
    config.models.price("t/rule", PRICE);
    let session =
        Session::create(&SessionDir::new(folder.path()), SessionId::literal("s"), config).unwrap();
    let grant = Grant { spawn_depth: Some(1), spawn_number: Some(9), ..Grant::default() };
    let authority = Authority::root(session.catalog(), &grant);
    let system = vec!["You are under test. ".repeat(900).into()];
    let spec = AgentSpec { system, options: ModelOptions::default(), ..spec(folder.path()) };
    let release = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        world.release.notify_one();
    };
    let cancel = Cancel::new();
    tokio::join!(session.run(spec, authority, &cancel), release);
    let ends = ends(&world.records.lock());
    let actual: Vec<_> = ends.iter().map(|end| (end.exit_reason, end.duration_ms / 1000)).collect();
    assert_eq!(actual, [(ExitReason::Completed, 60), (ExitReason::Completed, 0)]);
}
