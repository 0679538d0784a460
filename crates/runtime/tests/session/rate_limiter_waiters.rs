//! Many requests wait for one rate limiter, and some of them are cancelled: none is forgotten.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use deputize_core::model::{FailureKind, ModelError};
use deputize_core::rate_limit::RateLimiter as _;
use deputize_core::retry::RetryPolicy;
use deputize_core::{Cancel, CancelReason};
use deputize_runtime::RateLimiters;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Number of cases.
const CASES: u64 = 2000;
/// Limit on the tasks of one case. In a small one nobody comes later who would wake the forgotten.
const TASKS: u32 = 12;
/// Much longer than all the waits of a case together.
const FOREVER: Duration = Duration::from_secs(100_000);

/// How the wait of a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitResult {
    Passed,
    Cancelled,
    Refused,
}

/// How many tasks hold a permit, and how many ever had one.
#[derive(Default)]
struct PermitCounts {
    inside: AtomicU32,
    passed: AtomicU32,
}

fn failure(status: u16, wait_ms: Option<u64>) -> ModelError {
    let error = ModelError::new(FailureKind::Transient, status.to_string());
    ModelError { status: Some(status), retry_after_ms: wait_ms, ..error }
}

/// Comes, waits, and uses its pass in one of the ways there are, the rude ones among them.
async fn one(
    limiters: RateLimiters,
    count: Arc<PermitCounts>,
    cancel: Cancel,
    mut dice: fastrand::Rng,
) -> WaitResult {
    sleep(Duration::from_millis(dice.u64(..40))).await;
    let entered = if dice.u8(..6) == 0 {
        // Its waiting is dropped without a word.
        let patience = Duration::from_millis(dice.u64(..60));
        match timeout(patience, limiters.acquire("p/m", &cancel)).await {
            Ok(entered) => entered,
            Err(_) => return WaitResult::Cancelled,
        }
    } else {
        limiters.acquire("p/m", &cancel).await
    };
    let mut pass = match entered {
        Ok(pass) => pass,
        Err(error) if error.kind == FailureKind::Cancelled => return WaitResult::Cancelled,
        Err(_) => return WaitResult::Refused,
    };
    count.inside.fetch_add(1, Ordering::SeqCst);
    count.passed.fetch_add(1, Ordering::SeqCst);
    sleep(Duration::from_millis(dice.u64(..30))).await;
    if dice.bool() {
        pass.on_response_start();
        sleep(Duration::from_millis(dice.u64(..10))).await;
    }
    count.inside.fetch_sub(1, Ordering::SeqCst);
    match dice.u8(..8) {
        0 | 1 => drop(pass),
        2 | 3 => drop(pass.finish(Err(&failure(503, None)))),
        4 => drop(pass.finish(Err(&failure(429, Some(dice.u64(..50)))))),
        _ => drop(pass.finish(Ok(()))),
    }
    WaitResult::Passed
}

async fn check(seed: u64) {
    let mut dice = fastrand::Rng::with_seed(seed);
    let limiters = RateLimiters::new(RetryPolicy::default(), seed);
    let count = Arc::new(PermitCounts::default());
    let mut tasks = JoinSet::new();
    let mut cancels = Vec::new();
    for _ in 0..dice.u32(2..=TASKS) {
        let cancel = Cancel::new();
        tasks.spawn(one(limiters.clone(), Arc::clone(&count), cancel.child(), dice.fork()));
        if dice.u8(..3) == 0 {
            cancels.push((Duration::from_millis(dice.u64(..120)), cancel));
        }
    }
    for (after, cancel) in cancels {
        tasks.spawn(async move {
            sleep(after).await;
            cancel.cancel(CancelReason::Interrupted);
            WaitResult::Cancelled
        });
    }
    let mut passed = 0;
    let all = async {
        while let Some(result) = tasks.join_next().await {
            passed += u32::from(result.unwrap() == WaitResult::Passed);
        }
    };
    // On the paused clock this time is over at once when all sleep, and nobody wakes them.
    timeout(FOREVER, all).await.unwrap_or_else(|_| panic!("seed {seed}: somebody was forgotten"));
    assert_eq!(passed, count.passed.load(Ordering::SeqCst), "seed {seed}");
    assert_eq!(count.inside.load(Ordering::SeqCst), 0, "seed {seed}");
    // After all of it a permit is given again.
    let cancel = Cancel::new();
    let late = async {
        sleep(Duration::from_secs(120)).await;
        limiters.acquire("p/m", &cancel).await
    };
    let late = timeout(FOREVER, late).await;
    assert!(matches!(late, Ok(Ok(_))), "seed {seed}: it stays closed");
}

#[tokio::test(start_paused = true)]
async fn no_waiting_request_is_forgotten() {
    for seed in 0..CASES {
        check(seed).await;
    }
}
