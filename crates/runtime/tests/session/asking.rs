//! The rate limiter of a model, and fallback models, on a paused clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use deputize_core::message::OpaqueBlock;
use deputize_core::model::{Delta, FailureKind, ModelError, Reply, Request};
use deputize_core::rate_limit::RateLimiter;
use deputize_core::retry::RetryPolicy;
use deputize_core::{
    BoxFuture, Cancel, CancelReason, Event, Message, Model, Outcome, SessionId, Status,
};
use deputize_runtime::{Models, RateLimiters, RequestConfig, Session, SessionConfig, SessionDir};
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::fixture::{RuleModel, World, authority, catalog, config, run, spec};

/// A server that takes so many requests at a time, each for a second, and answers the others
/// with 429.
struct LimitedServer {
    room: u32,
    inside: AtomicU32,
    asked: AtomicU32,
}

impl LimitedServer {
    fn new(room: u32) -> Arc<Self> {
        Arc::new(Self { room, inside: AtomicU32::new(0), asked: AtomicU32::new(0) })
    }

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Model for LimitedServer {
    fn reply<'a>(
        &'a self,
        _request: &'a Request<'a>,
        _live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        _cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::SeqCst);
            if self.inside.fetch_add(1, Ordering::SeqCst) >= self.room {
                self.inside.fetch_sub(1, Ordering::SeqCst);
                let error = ModelError::new(FailureKind::Transient, "429");
                return Err(ModelError { status: Some(429), ..error });
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.inside.fetch_sub(1, Ordering::SeqCst);
            Ok(Reply::text("narrow", "done"))
        })
    }
}

/// A server that refuses everything after a second, and counts.
struct FailingServer(AtomicU32);

impl Model for FailingServer {
    fn reply<'a>(
        &'a self,
        _request: &'a Request<'a>,
        _live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        _cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            self.0.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(1)).await;
            let error = ModelError::new(FailureKind::Transient, "503");
            Err(ModelError { status: Some(503), ..error })
        })
    }
}

/// A server that is away at first. Then each reply begins at once with a call, and takes a while.
struct CallingServer {
    asked: AtomicU32,
    inside: AtomicU32,
    most: AtomicU32,
}

impl Model for CallingServer {
    fn reply<'a>(
        &'a self,
        request: &'a Request<'a>,
        live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        _cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            if self.asked.fetch_add(1, Ordering::SeqCst) < 4 {
                let error = ModelError::new(FailureKind::Transient, "503");
                return Err(ModelError { status: Some(503), ..error });
            }
            if request.messages.len() > 1 {
                return Ok(Reply::text("calling", "done"));
            }
            let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(inside, Ordering::SeqCst);
            live(Delta::Call(2));
            tokio::time::sleep(Duration::from_secs(100)).await;
            self.inside.fetch_sub(1, Ordering::SeqCst);
            Ok(Reply::calls("calling", [("no_such_tool", serde_json::json!({}))]))
        })
    }
}

/// A model that always says that another key is ready.
struct EndlessKeys(AtomicU32);

impl Model for EndlessKeys {
    fn reply<'a>(
        &'a self,
        _request: &'a Request<'a>,
        _live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        _cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        let asked = self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            if asked > 200 {
                return Ok(Reply::text("keys", "done"));
            }
            let error = ModelError::new(FailureKind::Transient, "429");
            Err(ModelError { status: Some(429), other_key: true, ..error })
        })
    }
}

/// A server that takes so many requests a second, and says of the others when to come again. Each
/// answer takes 0.3 s and is a call, until an agent has its last.
struct MeteredServer {
    rate: f64,
    burst: f64,
    steps: usize,
    sends_wait: bool,
    level: Mutex<(f64, Instant)>,
    refused: AtomicU32,
}

impl MeteredServer {
    fn new(rate: f64, burst: f64, steps: usize, sends_wait: bool) -> Arc<Self> {
        let level = Mutex::new((burst, Instant::now()));
        Arc::new(Self { rate, burst, steps, sends_wait, level, refused: AtomicU32::new(0) })
    }

    /// Takes one request, or returns how long there is none to take.
    fn take(&self) -> Result<(), Duration> {
        let (level, at) = &mut *self.level.lock();
        *level = (*level + at.elapsed().as_secs_f64() * self.rate).min(self.burst);
        *at = Instant::now();
        if *level < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - *level) / self.rate));
        }
        *level -= 1.0;
        Ok(())
    }
}

impl Model for MeteredServer {
    fn reply<'a>(
        &'a self,
        request: &'a Request<'a>,
        _live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        _cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            if let Err(wait) = self.take() {
                self.refused.fetch_add(1, Ordering::SeqCst);
                let error = ModelError::new(FailureKind::Transient, "429");
                // Whole seconds, as the header has them.
                let seconds = self.sends_wait.then_some((wait.as_secs() + 1) * 1000);
                return Err(ModelError { status: Some(429), retry_after_ms: seconds, ..error });
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
            if request.messages.len() < 2 * self.steps - 1 {
                return Ok(Reply::calls("metered", [("no_such_tool", serde_json::json!({}))]));
            }
            Ok(Reply::text("metered", "done"))
        })
    }
}

/// A server whose first reply is slow, and which delays the second request with a retry time.
struct LongReply(Mutex<Vec<Instant>>);

impl Model for LongReply {
    fn reply<'a>(
        &'a self,
        _request: &'a Request<'a>,
        live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        _cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        let asked = {
            let mut asked = self.0.lock();
            asked.push(Instant::now());
            asked.len()
        };
        Box::pin(async move {
            match asked {
                1 => {
                    live(Delta::Text("word by word"));
                    tokio::time::sleep(Duration::from_secs(75)).await;
                }
                2 => {
                    let error = ModelError::new(FailureKind::Transient, "429");
                    let asks = Some(1000);
                    return Err(ModelError { status: Some(429), retry_after_ms: asks, ..error });
                }
                _ => {}
            }
            Ok(Reply::text("long", "done"))
        })
    }
}

/// Sessions side by side that share one rate limiter.
async fn side_by_side(count: usize, model: Arc<dyn Model>) -> Vec<Outcome> {
    let folder = tempfile::tempdir().unwrap();
    let limiter: Arc<dyn RateLimiter> = Arc::new(RateLimiters::new(RetryPolicy::default(), 1));
    let cancel = Cancel::new();
    let one = |n: usize| {
        let mut models = Models::default();
        models.insert("t/rule", "rule", Arc::clone(&model));
        let catalog = catalog(&Arc::new(World::default()));
        let config = SessionConfig {
            models,
            requests: RequestConfig {
                rate_limiter: Some(Arc::clone(&limiter)),
                ..RequestConfig::default()
            },
            ..SessionConfig::new(catalog)
        };
        let folder = folder.path();
        let cancel = &cancel;
        async move {
            let id = SessionId::new(format!("s{n}")).unwrap();
            let session = Session::create(&SessionDir::new(folder), id, config).unwrap();
            let spec = deputize_core::agent::AgentSpec {
                id: deputize_core::AgentId::root(session.id()),
                ..spec(folder)
            };
            let authority = authority(session.catalog());
            session.run(spec, authority, cancel).await
        }
    };
    join_all((0..count).map(one)).await
}

#[tokio::test(start_paused = true)]
async fn many_agents_find_the_width_of_a_narrow_provider_and_none_fails() {
    let server = LimitedServer::new(3);
    let outcomes = side_by_side(50, Arc::clone(&server) as Arc<dyn Model>).await;
    let failed: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.error.as_ref()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    // Each alone would have asked up to five times.
    assert!(server.asked() < 150, "{}", server.asked());
}

#[tokio::test(start_paused = true)]
async fn whoever_meets_a_limit_of_requests_a_second_waits_for_their_turn_and_none_fails() {
    for (agents, rate, steps, sends_wait) in [
        (3, 0.5, 4, true),
        (20, 2.0, 3, true),
        (40, 4.0, 3, true),
        (40, 4.0, 3, false),
        (60, 8.0, 3, true),
    ] {
        let server = MeteredServer::new(rate, rate.max(1.0), steps, sends_wait);
        let start = Instant::now();
        let outcomes = side_by_side(agents, Arc::clone(&server) as Arc<dyn Model>).await;
        let failed: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.error.as_ref()).collect();
        assert!(failed.is_empty(), "{agents} at {rate}/s: {failed:?}");
        #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
        let ideal = (agents * steps) as f64 / rate;
        let took = start.elapsed().as_secs_f64();
        let refused = server.refused.load(Ordering::SeqCst);
        assert!(took < 1.4 * ideal, "{agents} at {rate}/s: {took} s, ideal {ideal} s");
        assert!(
            f64::from(refused) < 0.25 * ideal * rate,
            "{agents} at {rate}/s: {refused} refused"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_behind_a_long_reply_of_another() {
    let server = Arc::new(LongReply(Mutex::default()));
    let outcomes = side_by_side(2, Arc::clone(&server) as Arc<dyn Model>).await;
    assert!(outcomes.iter().all(|it| it.error.is_none()), "{outcomes:?}");
    let asked = server.0.lock();
    let waited = asked[2] - asked[1];
    assert!(Duration::from_secs(1) <= waited && waited < Duration::from_secs(2), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_down_is_asked_by_one_for_all_and_all_learn_of_it() {
    let down = Arc::new(FailingServer(AtomicU32::new(0)));
    let outcomes = side_by_side(50, Arc::clone(&down) as Arc<dyn Model>).await;
    assert!(outcomes.iter().all(|outcome| outcome.provider_unavailable), "{:?}", outcomes[0]);
    // Fifty at once, then one alone for each of the four tries that are left.
    assert_eq!(down.0.load(Ordering::SeqCst), 54);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_never_runs_out_of_keys_is_asked_a_bounded_number_of_times_and_waited_for() {
    let model = Arc::new(EndlessKeys(AtomicU32::new(0)));
    let start = Instant::now();
    let outcomes = side_by_side(1, Arc::clone(&model) as Arc<dyn Model>).await;
    assert!(outcomes[0].provider_unavailable, "{:?}", outcomes[0]);
    // 32 other keys, and five attempts that are waited for.
    assert_eq!(model.0.load(Ordering::SeqCst), 37);
    assert!(start.elapsed() >= Duration::from_secs(20), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_a_reply_that_begins_with_a_call_lets_the_others_in() {
    let none = || AtomicU32::new(0);
    let model = Arc::new(CallingServer { asked: none(), inside: none(), most: none() });
    let outcomes = side_by_side(4, Arc::clone(&model) as Arc<dyn Model>).await;
    assert!(outcomes.iter().all(|it| it.text.as_deref() == Some("done")), "{outcomes:?}");
    assert_eq!(model.most.load(Ordering::SeqCst), 4, "all at once");
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_before_a_closed_gate_can_be_cancelled() {
    let gates = RateLimiters::new(RetryPolicy::default(), 1);
    let pass = gates.acquire("m", &Cancel::new()).await.unwrap();
    let error = ModelError::new(FailureKind::Transient, "busy");
    let _next = pass.finish(Err(&error));
    let trial = gates.acquire("m", &Cancel::new()).await.unwrap();
    let cancel = Cancel::new();
    let waiting = gates.acquire("m", &cancel);
    cancel.cancel(CancelReason::Interrupted);
    assert_eq!(waiting.await.err().unwrap().kind, FailureKind::Cancelled);
    drop(trial);
    let _next_trial = gates.acquire("m", &Cancel::new()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_first_piece_of_an_answer_opens_the_gate_for_those_who_wait() {
    let gates = RateLimiters::new(RetryPolicy::default(), 1);
    let busy = ModelError::new(FailureKind::Transient, "busy");
    let _next = gates.acquire("m", &Cancel::new()).await.unwrap().finish(Err(&busy));
    let mut trial = gates.acquire("m", &Cancel::new()).await.unwrap();
    let cancel = Cancel::new();
    let others = join_all((0..9).map(|_| gates.acquire("m", &cancel)));
    let ((), others) = tokio::join!(async { trial.on_response_start() }, others);
    assert!(others.iter().all(Result::is_ok));
}

#[tokio::test(start_paused = true)]
async fn the_waits_of_one_turn_have_an_end_together() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |_: usize, _: &Request<'_>| {
        let error = ModelError::new(FailureKind::Incomplete, "cut off");
        Err(ModelError { retry_after_ms: Some(40_000), ..error })
    };
    let retry = RetryPolicy { total_wait: Duration::from_secs(100), ..RetryPolicy::default() };
    let requests = RequestConfig { retry, ..RequestConfig::default() };
    let config = SessionConfig { requests, ..config(&world, rule) };
    let outcome = run(folder.path(), spec(folder.path()), config, &Cancel::new()).await;
    assert_eq!(outcome.error.as_deref(), Some("cut off (tried 3 times)"));
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_waits_the_same() {
    let mut waits = Vec::new();
    for seed in [5, 5, 6] {
        let folder = tempfile::tempdir().unwrap();
        let world = Arc::new(World::default());
        let rule = |_: usize, _: &Request<'_>| Err(ModelError::new(FailureKind::Incomplete, "cut"));
        let requests = RequestConfig { seed, ..RequestConfig::default() };
        let config = SessionConfig { requests, ..config(&world, rule) };
        run(folder.path(), spec(folder.path()), config, &Cancel::new()).await;
        let records = world.records.lock();
        let wait = |event: &Event| match event {
            Event::ModelRetry { wait_ms, .. } => Some(*wait_ms),
            _ => None,
        };
        waits.push(records.iter().filter_map(|record| wait(&record.event)).collect::<Vec<_>>());
    }
    assert_eq!(waits[0], waits[1]);
    assert_ne!(waits[0], waits[2]);
}

/// The opaque blocks that a request brings back.
fn opaque(request: &Request<'_>) -> Vec<String> {
    let of = |message: &Message| match message {
        Message::Assistant(said) => said.opaque.iter().map(|block| block.raw.clone()).collect(),
        _ => Vec::new(),
    };
    request.messages.iter().flat_map(|message| of(message)).collect()
}

#[tokio::test(start_paused = true)]
async fn the_next_model_goes_on_where_the_first_cannot_and_reads_only_its_own_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let first = |results: usize, _: &Request<'_>| match results {
        0 => Ok(Reply {
            opaque: vec![OpaqueBlock::new("w", "first's")],
            ..Reply::calls("one", [("look", serde_json::json!({"n": 1}))])
        }),
        _ => Err(ModelError::new(FailureKind::Unavailable, "provider t: 401")),
    };
    let shown = Arc::clone(&seen);
    let second = move |results: usize, request: &Request<'_>| {
        shown.lock().push(opaque(request));
        match results {
            1 => Ok(Reply {
                opaque: vec![OpaqueBlock::new("w", "second's")],
                ..Reply::calls("two", [("look", serde_json::json!({"n": 2}))])
            }),
            _ => Ok(Reply::text("two", "done")),
        }
    };
    let mut config = config(&world, first);
    config.models.insert("t/second", "second", Arc::new(RuleModel(second)));
    config.models.fallback(vec!["t/absent".into(), "t/rule".into(), "t/second".into()]);
    let outcome = run(folder.path(), spec(folder.path()), config, &Cancel::new()).await;
    assert_eq!((outcome.status, outcome.model.as_str()), (Status::Completed, "t/second"));
    assert_eq!(*seen.lock(), [vec![], vec!["second's".to_owned()]]);
    let records = world.records.lock();
    let said = records.iter().find_map(|record| match &record.event {
        Event::Log { message, .. } => Some(message.as_str()),
        _ => None,
    });
    assert_eq!(said, Some("going on with t/second: provider t: 401"));
}

#[tokio::test(start_paused = true)]
async fn another_model_does_not_help_against_what_is_wrong_in_itself() {
    for kind in [FailureKind::ContextOverflow, FailureKind::Fatal] {
        let folder = tempfile::tempdir().unwrap();
        let world = Arc::new(World::default());
        let first = move |_: usize, _: &Request<'_>| Err(ModelError::new(kind, "too long"));
        let mut config = config(&world, first);
        let second = |_: usize, _: &Request<'_>| Ok(Reply::text("two", "done"));
        config.models.insert("t/second", "second", Arc::new(RuleModel(second)));
        config.models.fallback(vec!["t/second".into()]);
        let outcome = run(folder.path(), spec(folder.path()), config, &Cancel::new()).await;
        assert_eq!(outcome.status, Status::Failed, "{kind:?}");
    }
}
