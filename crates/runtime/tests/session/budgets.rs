//! What a session may spend, on a paused clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use deputize_core::agent::AgentSpec;
use deputize_core::budget::{Budget, Cost, Price};
use deputize_core::model::{
    Delta, FailureKind, ModelError, ModelOptions, Reply, Request, ToolChoice, Usage,
};
use deputize_core::outcome::ExitReason;
use deputize_core::{BoxFuture, Cancel, CancelReason, Event, Model, Outcome, Status};
use deputize_runtime::{Budgets, Continue, Session, SessionConfig, SessionDir};
use serde_json::json;
use tokio::sync::Notify;

use crate::fixture::{RuleModel, World, authority, config, run, spec};

fn tokens(tokens: u64) -> Budget {
    Budget { tokens: Some(tokens), usd: None }
}

/// A model that looks at something new with every request, and answers when it must. Each
/// reply costs 1,000 tokens.
fn looks(request: &Request<'_>) -> Reply {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let usage = Usage { input: 900, output: 100, ..Usage::default() };
    if request.tool_choice == ToolChoice::None {
        return Reply { usage, ..Reply::text("rule", "this far") };
    }
    let n = NEXT.fetch_add(1, Ordering::SeqCst) + 100;
    Reply { usage, ..Reply::calls("rule", [("look", json!({"n": n}))]) }
}

fn small(folder: &std::path::Path) -> deputize_core::agent::AgentSpec {
    let spec = spec(folder);
    let options =
        deputize_core::model::ModelOptions { max_output_tokens: Some(100), ..spec.options };
    deputize_core::agent::AgentSpec { options, ..spec }
}

#[tokio::test(start_paused = true)]
async fn near_the_edge_a_closing_answer_is_asked_for_and_the_budget_holds() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |_: usize, request: &Request<'_>| Ok(looks(request));
    let budgets = Budgets { session: tokens(10_000), ..Budgets::default() };
    let config = SessionConfig { budgets, ..config(&world, rule) };
    let outcome = run(folder.path(), small(folder.path()), config, &Cancel::new()).await;
    assert_eq!((outcome.status, outcome.exit_reason), (Status::Completed, ExitReason::Budget));
    assert_eq!((outcome.text.as_deref(), outcome.exit_code()), (Some("this far"), 4));
    let spent = outcome.usage.input + outcome.usage.output;
    assert!((7_000..=10_000).contains(&spent), "{spent}");
}

#[tokio::test(start_paused = true)]
async fn a_budget_for_nothing_sends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |_: usize, request: &Request<'_>| Ok(looks(request));
    let budgets = Budgets { session: tokens(10), ..Budgets::default() };
    let config = SessionConfig { budgets, ..config(&world, rule) };
    let outcome = run(folder.path(), small(folder.path()), config, &Cancel::new()).await;
    assert_eq!((outcome.status, outcome.exit_reason), (Status::Failed, ExitReason::Budget));
    assert_eq!((outcome.iterations, outcome.requests, outcome.exit_code()), (0, 0, 4));
    // Nothing is spent: it says what was needed and what there was.
    let error = outcome.error.unwrap();
    assert!(error.starts_with("nothing was asked of the model"), "{error}");
    assert!(error.contains("the next request may take "), "{error}");
    assert!(
        error.ends_with("0 of 10 tokens of the session's budget are spent, so 10 are left"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn children_share_one_purse_and_none_overdraws_it() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, request: &Request<'_>| {
        let goals: Vec<String> = (0..8).map(|n| format!("child {n}")).collect();
        let top = format!("{:?}", request.messages).contains("\"go\"");
        Ok(match (top, results) {
            (true, 0) => Reply::calls("rule", [("spawn", json!({ "list": goals }))]),
            (true, _) => Reply::text("rule", "all back"),
            (false, _) => looks(request),
        })
    };
    let budgets = Budgets { children: tokens(30_000), ..Budgets::default() };
    let config = SessionConfig { budgets, ..config(&world, rule) };
    let outcome = run(folder.path(), small(folder.path()), config, &Cancel::new()).await;
    assert_eq!((outcome.status, outcome.text.as_deref()), (Status::Completed, Some("all back")));
    let spent = outcome.children_usage.input + outcome.children_usage.output;
    assert!((15_000..=30_000).contains(&spent), "{spent}");
    let records = world.records.lock();
    let ends = records.iter().filter_map(|record| match &record.event {
        Event::AgentEnd(end) if record.depth == 1 => Some(end.exit_reason),
        _ => None,
    });
    assert_eq!(ends.collect::<Vec<_>>(), [ExitReason::Budget; 8]);
}

/// The ends of the agents below the top one.
fn ends(world: &World) -> Vec<Outcome> {
    let records = world.records.lock();
    let ends = records.iter().filter_map(|record| match &record.event {
        Event::AgentEnd(end) if record.depth > 0 => Some((**end).clone()),
        _ => None,
    });
    ends.collect()
}

/// Three children that tell of each step and take 1,700 tokens for it, with so many for all.
async fn three(most: u64) -> Vec<Outcome> {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, request: &Request<'_>| {
        let top = format!("{:?}", request.messages).contains("\"go\"");
        let reply = match (top, results) {
            (true, 0) => Reply::calls("rule", [("spawn", json!({"list": ["a", "b", "c"]}))]),
            (true, _) => Reply::text("rule", "all back"),
            (false, _) if request.tool_choice == ToolChoice::None => Reply::text("rule", "closing"),
            (false, n) => {
                let calls = Reply::calls("rule", [("look", json!({ "n": n }))]);
                Reply { text: format!("part {n}"), ..calls }
            }
        };
        Ok(Reply { usage: Usage { input: 1_500, output: 200, ..Usage::default() }, ..reply })
    };
    let budgets = Budgets { children: tokens(most), ..Budgets::default() };
    let config = SessionConfig { budgets, ..config(&world, rule) };
    let spec = spec(folder.path());
    let options = ModelOptions { max_output_tokens: Some(200), ..spec.options };
    // As long a text as makes the first estimate no smaller than what is counted.
    let system = vec!["You are under test. ".repeat(200).into()];
    let spec = deputize_core::agent::AgentSpec { options, system, ..spec };
    run(folder.path(), spec, config, &Cancel::new()).await;
    let ends = ends(&world);
    assert_eq!(ends.len(), 3);
    let spent: u64 = ends.iter().map(|end| end.usage.input + end.usage.output).sum();
    assert!(spent <= most, "{spent} of {most}");
    ends
}

#[tokio::test(start_paused = true)]
async fn at_the_edge_each_child_that_has_begun_gives_its_closing_answer() {
    let mut closed_at = 0;
    let mut none_at = 0;
    for most in (2_000..=30_000).step_by(500) {
        for end in three(most).await {
            assert_eq!(end.exit_reason, ExitReason::Budget, "{most}: {end:?}");
            let closed = (Status::Completed, Some("closing"));
            let never_began = (Status::Failed, None);
            let ended = (end.status, end.text.as_deref());
            let expected = if end.iterations > 0 { closed } else { never_began };
            assert_eq!(ended, expected, "{most}: {end:?}");
            closed_at += u32::from(end.iterations > 0);
            none_at += u32::from(end.iterations == 0);
            // None pays for a closing answer alone.
            assert_ne!(end.iterations, 1, "{most}: {end:?}");
        }
    }
    assert!(closed_at > 0 && none_at > 0);
}

#[tokio::test(start_paused = true)]
async fn dollars_need_a_price_and_are_counted_over_the_tree() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, request: &Request<'_>| {
        let usage = Usage { input: 100_000, cached: 50_000, output: 10_000, ..Usage::default() };
        let top = format!("{:?}", request.messages).contains("\"go\"");
        Ok(match (top, results) {
            (true, 0) => Reply { usage, ..Reply::calls("r", [("spawn", json!({"list": ["a"]}))]) },
            _ => Reply { usage, ..Reply::text("r", "done") },
        })
    };
    let budget = Budget { usd: Some(10.0), tokens: None };
    let budgets = Budgets { session: budget, ..Budgets::default() };
    let unpriced = SessionConfig { budgets, ..config(&world, rule) };
    let outcome = run(folder.path(), small(folder.path()), unpriced, &Cancel::new()).await;
    let error = outcome.error.unwrap();
    assert!(error.contains("the price of `t/rule` is not known"), "{error}");

    let folder = tempfile::tempdir().unwrap();
    let mut priced = SessionConfig { budgets, ..config(&world, rule) };
    priced
        .models
        .price("t/rule", Price { input: 2.0, cached: 1.0, cache_write: 2.0, output: 10.0 });
    let outcome = run(folder.path(), small(folder.path()), priced, &Cancel::new()).await;
    // Three replies of 0.1 + 0.05 + 0.1 dollars.
    assert!((outcome.cost_usd.unwrap() - 0.75).abs() < 1e-9, "{:?}", outcome.cost_usd);
}

/// Returns the error of a request that no budget covers.
async fn told_short(budget: Budget) -> String {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |_: usize, request: &Request<'_>| Ok(looks(request));
    let budgets = Budgets { session: budget, ..Budgets::default() };
    let mut config = SessionConfig { budgets, ..config(&world, rule) };
    let price = Price { input: 10.0, cached: 10.0, cache_write: 10.0, output: 10.0 };
    config.models.price("t/rule", price);
    run(folder.path(), small(folder.path()), config, &Cancel::new()).await;
    let records = world.records.lock();
    let actual = records.iter().find_map(|record| match &record.event {
        Event::Log { message, cause, .. } => Some((message.clone(), cause.clone().unwrap())),
        _ => None,
    });
    let (message, cause) = actual.unwrap();
    // The cause has the units and none of the figures.
    assert!(cause.starts_with("the budget has no room for the next request ("), "{cause}");
    assert!(!cause.contains(|c: char| c.is_ascii_digit()), "{cause}");
    message
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_explained_in_what_it_limits() {
    let usd = told_short(Budget { usd: Some(0.0005), tokens: None }).await;
    assert!(usd.starts_with("the next request may cost $0.00"), "{usd}");
    assert!(
        usd.contains("must stay for a closing one: $0.0000 of $0.0005 of the session's budget"),
        "{usd}"
    );
    assert!(!usd.contains("tokens"), "{usd}");
    let tokens = told_short(Budget { usd: None, tokens: Some(10) }).await;
    assert!(tokens.starts_with("the next request may take "), "{tokens}");
    let left = "0 of 10 tokens of the session's budget are spent, so 10 are left";
    assert!(tokens.contains(left), "{tokens}");
    assert!(!tokens.contains('$'), "{tokens}");
    // Only one of two is short.
    let both = told_short(Budget { usd: Some(0.0005), tokens: Some(1_000_000) }).await;
    assert_eq!(both, usd);
}

#[tokio::test(start_paused = true)]
async fn what_was_spent_before_a_resume_counts() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let budgets = Budgets { session: tokens(10_000), ..Budgets::default() };
    let rule = |_: usize, request: &Request<'_>| Ok(looks(request));
    let first = SessionConfig { budgets, ..config(&world, rule) };
    let before = run(folder.path(), small(folder.path()), first, &Cancel::new()).await;
    let config = SessionConfig { budgets, ..config(&world, rule) };
    let dir = SessionDir::new(folder.path());
    let id = deputize_core::SessionId::literal("s");
    let (session, _) = Session::open(&dir, id, config).unwrap();
    let how = Continue { message: Some("and now?".to_owned()), ..Continue::default() };
    let authority = authority(session.catalog());
    let after = session.resume(how, authority, &Cancel::new()).await.unwrap();
    assert_eq!(after.exit_reason, ExitReason::Budget);
    assert!(after.iterations <= before.iterations + 1, "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_is_paid_as_the_provider_counted_it_also_after_a_resume() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let tries = Arc::new(AtomicU64::new(0));
    let priced = || {
        let tries = Arc::clone(&tries);
        let rule = move |_: usize, _: &Request<'_>| {
            if tries.fetch_add(1, Ordering::SeqCst) == 0 {
                let usage = Usage { input: 4000, output: 1, ..Usage::default() };
                let partial = "three hundred bytes or so: ".repeat(12);
                let error = ModelError::new(FailureKind::Incomplete, "broke off");
                return Err(ModelError { usage: Some(Box::new(usage)), partial, ..error });
            }
            let usage = Usage { input: 4000, output: 100, ..Usage::default() };
            Ok(Reply { usage, ..Reply::text("rule", "whole") })
        };
        let budgets = Budgets { session: tokens(100_000), ..Budgets::default() };
        let mut config = SessionConfig { budgets, ..config(&world, rule) };
        let price = Price { input: 1.0, cached: 1.0, cache_write: 1.0, output: 1.0 };
        config.models.price("t/rule", price);
        config
    };
    let options = ModelOptions { max_output_tokens: Some(200), ..ModelOptions::default() };
    let spec = AgentSpec { options, ..spec(folder.path()) };
    let outcome = run(folder.path(), spec, priced(), &Cancel::new()).await;
    assert_eq!((outcome.text.as_deref(), outcome.usage.input), (Some("whole"), 8000));
    // What had arrived is the least that the output can be.
    assert!((outcome.cost_usd.unwrap() - 0.008_208).abs() < 1e-9, "{:?}", outcome.cost_usd);

    let id = deputize_core::SessionId::literal("s");
    let (session, _) = Session::open(&SessionDir::new(folder.path()), id, priced()).unwrap();
    let how = Continue { message: Some("and now?".to_owned()), ..Continue::default() };
    let authority = authority(session.catalog());
    let after = session.resume(how, authority, &Cancel::new()).await.unwrap();
    assert!((after.cost_usd.unwrap() - 0.012_308).abs() < 1e-9, "{:?}", after.cost_usd);
}

/// A model that begins a reply, and goes on until it is cancelled. It thinks, then speaks, then
/// calls a tool, with so much of each.
struct Endless {
    deltas: Vec<Delta<'static>>,
    begun: Arc<Notify>,
    actual: Option<Usage>,
}

impl Model for Endless {
    fn reply<'a>(
        &'a self,
        _: &'a Request<'a>,
        live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            self.deltas.iter().for_each(|delta| live(*delta));
            self.begun.notify_one();
            cancel.cancelled().await;
            let text = |delta: &Delta<'_>| match delta {
                Delta::Text(text) => (*text).to_owned(),
                Delta::Reasoning(_) | Delta::Call(_) => String::new(),
            };
            let partial = self.deltas.iter().map(text).collect();
            let error = ModelError::new(FailureKind::Cancelled, "told to end");
            Err(ModelError { partial, usage: self.actual.map(Box::new), ..error })
        })
    }
}

/// How an agent ends that is interrupted in such a reply, and what is on record of the attempt.
async fn interrupted(
    deltas: &[Delta<'static>],
    actual: Option<Usage>,
    budget: Budget,
) -> (Outcome, ModelError, Option<Cost>) {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |_: usize, request: &Request<'_>| Ok(looks(request));
    let begun = Arc::new(Notify::new());
    let model = Endless { deltas: deltas.to_vec(), begun: Arc::clone(&begun), actual };
    let budgets = Budgets { session: budget, ..Budgets::default() };
    let mut config = SessionConfig { budgets, ..config(&world, rule) };
    config.models.insert("t/rule", "rule", Arc::new(model));
    let price = Price { input: 1.0, cached: 1.0, cache_write: 1.0, output: 1.0 };
    config.models.price("t/rule", price);
    let cancel = Cancel::new();
    let stop = async {
        begun.notified().await;
        cancel.cancel(CancelReason::Interrupted);
    };
    let spec = AgentSpec { system: vec!["s".repeat(3000).into()], ..small(folder.path()) };
    let (outcome, ()) = tokio::join!(run(folder.path(), spec, config, &cancel), stop);
    let records = world.records.lock();
    let mut errors = records.iter().filter_map(|record| match &record.event {
        Event::ModelError { error, cost, .. } => Some((error.clone(), *cost)),
        _ => None,
    });
    let (error, cost) = errors.next().unwrap();
    assert_eq!(errors.next(), None);
    (outcome, error, cost)
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_cancelled_after_it_began_is_paid_for_with_or_without_a_budget() {
    let deltas = [
        Delta::Reasoning("thirty bytes of thoughts, say."),
        Delta::Text("seven b"),
        Delta::Call(53),
    ];
    for budget in [Budget::default(), tokens(100_000)] {
        let (outcome, error, cost) = interrupted(&deltas, None, budget).await;
        assert_eq!(
            (outcome.status, outcome.text.as_deref()),
            (Status::Interrupted, Some("seven b"))
        );
        // All that was sent, at three bytes a token, and 90 bytes that had come.
        assert!((1000..2000).contains(&outcome.usage.input), "{:?}", outcome.usage);
        assert_eq!((outcome.usage.output, outcome.iterations, outcome.requests), (30, 0, 1));
        let all = outcome.usage.input + 30;
        assert_eq!(cost.map(|cost| cost.tokens), Some(all));
        assert!((outcome.cost_usd.unwrap() - all as f64 / 1e6).abs() < 1e-9, "{outcome:?}");
        assert!(error.estimated && error.usage.as_deref() == Some(&outcome.usage), "{error:?}");
    }
    // What the provider counted is no estimate, and at least what had come.
    let actual = Usage { input: 7, output: 1, ..Usage::default() };
    let (outcome, error, _) = interrupted(&deltas, Some(actual), Budget::default()).await;
    assert_eq!(outcome.usage, Usage { output: 30, ..actual });
    assert!(!error.estimated);
    // Of one that had not begun nobody knows.
    let (outcome, error, cost) = interrupted(&[], None, tokens(100_000)).await;
    assert_eq!((outcome.usage, error.usage, cost), (Usage::default(), None, None));
}

#[tokio::test(start_paused = true)]
async fn what_a_cancelled_reply_took_is_taken_from_the_budget_of_a_resume() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let begun = Arc::new(Notify::new());
    let rule = |_: usize, request: &Request<'_>| Ok(looks(request));
    let budgets = Budgets { session: tokens(4_000), ..Budgets::default() };
    let mut first = SessionConfig { budgets, ..config(&world, rule) };
    let deltas = vec![Delta::Call(6_000)];
    let model = Endless { deltas, begun: Arc::clone(&begun), actual: None };
    first.models.insert("t/rule", "rule", Arc::new(model));
    let cancel = Cancel::new();
    let stop = async {
        begun.notified().await;
        cancel.cancel(CancelReason::Interrupted);
    };
    let options = ModelOptions { max_output_tokens: Some(500), ..ModelOptions::default() };
    let spec = AgentSpec { options, ..spec(folder.path()) };
    let (before, ()) = tokio::join!(run(folder.path(), spec, first, &cancel), stop);
    // As much as may have come, and no more than was asked for.
    assert_eq!((before.usage.output, before.requests), (500, 1));

    let id = deputize_core::SessionId::literal("s");
    let config = SessionConfig { budgets, ..config(&world, rule) };
    let (session, _) = Session::open(&SessionDir::new(folder.path()), id, config).unwrap();
    let how = Continue { message: Some("and now?".to_owned()), ..Continue::default() };
    let authority = authority(session.catalog());
    let after = session.resume(how, authority, &Cancel::new()).await.unwrap();
    assert_eq!((after.status, after.exit_reason), (Status::Completed, ExitReason::Budget));
    assert_eq!((after.text.as_deref(), after.requests), (Some("this far"), 2));
    let spent = before.usage.input + 500;
    let records = world.records.lock();
    let actual = records.iter().any(|record| match &record.event {
        Event::Log { message, .. } => {
            message.contains(&format!("{spent} of 4000 tokens of the session's budget are spent"))
        }
        _ => false,
    });
    assert!(actual, "{spent}: {records:?}");
}

#[tokio::test(start_paused = true)]
async fn each_attempt_that_is_sent_is_a_request_also_after_a_resume() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let tries = Arc::new(AtomicU64::new(0));
    let flaky = || {
        let tries = Arc::clone(&tries);
        let rule = move |_: usize, _: &Request<'_>| match tries.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => Err(ModelError::new(FailureKind::Transient, "503")),
            _ => Ok(Reply::text("rule", "done")),
        };
        config(&world, rule)
    };
    let outcome = run(folder.path(), spec(folder.path()), flaky(), &Cancel::new()).await;
    assert_eq!((outcome.iterations, outcome.requests), (1, 3));
    let id = deputize_core::SessionId::literal("s");
    let (session, _) = Session::open(&SessionDir::new(folder.path()), id, flaky()).unwrap();
    let how = Continue { message: Some("and now?".to_owned()), ..Continue::default() };
    let authority = authority(session.catalog());
    let after = session.resume(how, authority, &Cancel::new()).await.unwrap();
    assert_eq!((after.iterations, after.requests), (2, 4));
}

/// A model that asks for answers of a length of its own.
struct Wordy<M>(M);

impl<M: Model> Model for Wordy<M> {
    fn reply<'a>(
        &'a self,
        request: &'a Request<'a>,
        live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        self.0.reply(request, live, cancel)
    }

    fn most_output(&self, options: &ModelOptions) -> Option<u32> {
        Some(options.max_output_tokens.unwrap_or(32_000))
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_reserved_is_what_replies_are_likely_to_have_and_not_the_most_that_is_allowed() {
    let reason = async |most: u64| {
        let folder = tempfile::tempdir().unwrap();
        let world = Arc::new(World::default());
        let rule = |_: usize, _: &Request<'_>| Ok(Reply::text("rule", "said"));
        let budgets = Budgets { session: tokens(most), ..Budgets::default() };
        let mut config = SessionConfig { budgets, ..config(&world, rule) };
        config.models.insert("t/rule", "rule", Arc::new(Wordy(RuleModel(rule))));
        run(folder.path(), spec(folder.path()), config, &Cancel::new()).await.exit_reason
    };
    // The most that it allows is 32,000; what is reserved is what replies are likely to have.
    assert_eq!(reason(30_000).await, ExitReason::Completed);
    assert_eq!(reason(700).await, ExitReason::Budget);
}
