//! The gates of a program: [`LimiterState`] with a clock, and those who wait before it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::model::{FailureKind, ModelError};
use deputize_core::rate_limit::{
    Admission, LimiterState, NextAttempt, Permit, RateLimiter, SendLease,
};
use deputize_core::retry::RetryPolicy;
use deputize_core::{BoxFuture, Cancel};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

/// One rate limiter for each provider and model. A program that runs several sessions shares one set
/// among them, as [`RequestConfig::rate_limiter`](crate::RequestConfig).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), deputize_core::model::ModelError> {
/// use deputize_core::Cancel;
/// use deputize_core::rate_limit::RateLimiter as _;
/// use deputize_core::retry::RetryPolicy;
///
/// let gates = deputize_runtime::RateLimiters::new(RetryPolicy::default(), 7);
/// let pass = gates.acquire("local/qwen3", &Cancel::new()).await?;
/// // … send the request …
/// let _next = pass.finish(Ok(()));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct RateLimiters(Arc<LimitersInner>);

struct LimitersInner {
    policy: RetryPolicy,
    since: Instant,
    random: Mutex<fastrand::Rng>,
    gates: Mutex<BTreeMap<String, Arc<Limiter>>>,
}

/// One rate limiter. Locks are held for a few instructions, never over an `await`.
struct Limiter {
    state: Mutex<LimiterState>,
    changed: Notify,
}

impl fmt::Debug for RateLimiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RateLimiters({})", lock(&self.0.gates).len())
    }
}

impl RateLimiters {
    /// Gates that are open. The same seed gives the same waits.
    #[must_use]
    pub fn new(policy: RetryPolicy, seed: u64) -> Self {
        Self(Arc::new(LimitersInner {
            policy,
            since: Instant::now(),
            random: Mutex::new(fastrand::Rng::with_seed(seed)),
            gates: Mutex::default(),
        }))
    }

    fn gate(&self, model: &str) -> Arc<Limiter> {
        let mut gates = lock(&self.0.gates);
        match gates.get(model) {
            Some(gate) => Arc::clone(gate),
            None => {
                let state = Mutex::new(LimiterState::new(self.0.policy));
                let gate = Arc::new(Limiter { state, changed: Notify::new() });
                gates.insert(model.to_owned(), Arc::clone(&gate));
                gate
            }
        }
    }
}

impl RateLimiter for RateLimiters {
    fn acquire<'a>(
        &'a self,
        model: &'a str,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Box<dyn Permit>, ModelError>> {
        Box::pin(async move {
            let gate = self.gate(model);
            let leave = gate.enter(self.0.since, cancel).await?;
            let pass = HeldPermit { gates: self.clone(), gate, leave: Some(leave) };
            Ok(Box::new(pass) as Box<dyn Permit>)
        })
    }
}

impl Limiter {
    async fn enter(&self, since: Instant, cancel: &Cancel) -> Result<SendLease, ModelError> {
        let position = lock(&self.state).queue_position();
        // A wake-up that reached someone who goes away is passed on.
        let mut turn = QueueTurn { gate: self, used: false };
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let admission = lock(&self.state).admit(position, since.elapsed());
            let until = match admission {
                Admission::Go(leave) => {
                    turn.used = true;
                    return Ok(leave);
                }
                Admission::GivenUp(error) => {
                    let kind = FailureKind::Unavailable;
                    // Of this attempt nothing was sent, so nothing is paid.
                    let partial = String::new();
                    let message = format!("{} (not sent: others just gave up)", error.message);
                    let cause = Some(error.message);
                    let usage = None;
                    return Err(ModelError { kind, message, cause, partial, usage, ..error });
                }
                Admission::Until(until) => Some(since + until),
                Admission::AfterOthers => None,
            };
            let opens = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    return Err(ModelError::new(FailureKind::Cancelled, "cancelled while waiting"));
                }
                () = changed => {}
                () = opens => {}
            }
        }
    }

    fn wake(&self) {
        let room = lock(&self.state).room();
        match room {
            None => self.changed.notify_waiters(),
            Some(room) => (0..room).for_each(|_| self.changed.notify_one()),
        }
    }
}

/// A request that waits for a permit.
struct QueueTurn<'g> {
    gate: &'g Limiter,
    used: bool,
}

impl Drop for QueueTurn<'_> {
    fn drop(&mut self) {
        if !self.used {
            self.gate.wake();
        }
    }
}

struct HeldPermit {
    gates: RateLimiters,
    gate: Arc<Limiter>,
    leave: Option<SendLease>,
}

impl Permit for HeldPermit {
    fn on_response_start(&mut self) {
        if let Some(leave) = &mut self.leave {
            lock(&self.gate.state).on_response_start(leave, self.gates.0.since.elapsed());
            self.gate.wake();
        }
    }

    fn finish(mut self: Box<Self>, result: Result<(), &ModelError>) -> NextAttempt {
        let open = NextAttempt::Wait(Duration::ZERO);
        let Some(leave) = self.leave.take() else { return open };
        let gates = &self.gates.0;
        let jitter = lock(&gates.random).u32(..=1000);
        let now = gates.since.elapsed();
        let next = lock(&self.gate.state).finish(leave, now, result, jitter);
        if next == NextAttempt::GiveUp {
            self.gate.changed.notify_waiters();
        }
        self.gate.wake();
        next
    }
}

impl Drop for HeldPermit {
    fn drop(&mut self) {
        if let Some(leave) = self.leave.take() {
            lock(&self.gate.state).release_unused(leave);
            self.gate.wake();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
