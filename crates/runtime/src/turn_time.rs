//! How long a turn may take: the limits of an agent's time, and work that is bounded by them.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::run::WrapUpReason;
use deputize_core::{AgentView, Cancel, CancelReason};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::settle::{GRACE, MAX_GRACE_LEVELS};
use crate::time_limit::{RunningCount, TimeLimit};

/// The time of one agent's turn.
#[derive(Debug)]
pub(crate) struct TurnTime {
    time_limit: Duration,
    /// Time limit of a closing answer.
    wrap_up: Duration,
    is_child: bool,
    /// Limit on the levels of agents below this one.
    levels_below: u32,
    state: Mutex<TurnClock>,
}

#[derive(Debug)]
struct TurnClock {
    started: Instant,
    /// When the agent has to close, and at which limit; after that, when it must end.
    deadline: Option<(Instant, WrapUpReason)>,
    wrapping_up: bool,
}

impl TurnTime {
    pub(crate) fn new(view: &AgentView) -> Self {
        let limits = view.spec.limits;
        Self {
            time_limit: Duration::from_millis(limits.time_ms),
            wrap_up: Duration::from_millis(limits.wrap_up_ms),
            is_child: view.spec.depth > 0,
            levels_below: view.authority.spawn_depth().min(MAX_GRACE_LEVELS),
            state: Mutex::new(TurnClock {
                started: Instant::now(),
                deadline: None,
                wrapping_up: false,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, TurnClock> {
        self.state.lock()
    }

    /// Starts the agent's time, of which some passed in earlier processes, and has that of all
    /// children together go on.
    pub(crate) fn begin(
        &self,
        earlier: Duration,
        shared: Option<&Arc<TimeLimit>>,
    ) -> Option<RunningCount> {
        let started = Instant::now();
        // Whoever resumes the top agent gives it its whole time again.
        let ran = if self.is_child { earlier } else { Duration::ZERO };
        let left = self.time_limit.saturating_sub(ran);
        let own = (!self.time_limit.is_zero()).then(|| (started + left, WrapUpReason::Time));
        let running = shared.filter(|_| self.is_child).map(TimeLimit::enter);
        let shared = running.as_ref().map(|running| (running.until, WrapUpReason::Budget));
        let mut state = self.lock();
        state.started = started;
        state.deadline = own.into_iter().chain(shared).min_by_key(|(at, _)| *at);
        running
    }

    /// Returns how long the turn has taken.
    pub(crate) fn elapsed(&self) -> Duration {
        self.lock().started.elapsed()
    }

    /// Returns whether the agent has reached its limit.
    pub(crate) fn is_up(&self) -> bool {
        self.lock().deadline.is_some_and(|(deadline, _)| deadline <= Instant::now())
    }

    /// Returns whether the time that children have together is spent.
    pub(crate) fn is_spent(&self) -> bool {
        self.is_up() && self.limit() == WrapUpReason::Budget
    }

    /// Returns which limit the agent's time is up at.
    pub(crate) fn limit(&self) -> WrapUpReason {
        self.lock().deadline.map_or(WrapUpReason::Time, |(_, limit)| limit)
    }

    /// Returns how long a closing answer may take.
    pub(crate) const fn wrap_up(&self) -> Duration {
        self.wrap_up
    }

    /// Returns whether there is time for a closing answer that was not given yet.
    pub(crate) fn has_wrap_up(&self) -> bool {
        !self.wrap_up.is_zero() && !self.lock().wrapping_up
    }

    /// Starts the time of the closing answer.
    pub(crate) fn begin_wrap_up(&self) {
        let mut state = self.lock();
        let limit = state.deadline.map_or(WrapUpReason::Time, |(_, limit)| limit);
        state.wrapping_up = true;
        state.deadline = Some((Instant::now() + self.wrap_up, limit));
    }

    fn deadline(&self) -> Option<Instant> {
        self.lock().deadline.map(|(deadline, _)| deadline)
    }

    /// Returns the deadline of work that other agents do. At a limit that they share with this one
    /// they give their closing answers first, those at the bottom before those above them.
    fn deadline_below(&self) -> Option<Instant> {
        let state = self.lock();
        let (deadline, limit) = state.deadline?;
        if limit == WrapUpReason::Time || state.wrapping_up {
            return Some(deadline);
        }
        Some(deadline + (self.wrap_up + GRACE) * self.levels_below)
    }

    /// Waits for work, which is cancelled when the time is up.
    pub(crate) async fn bound<T>(&self, work: &Cancel, future: impl Future<Output = T>) -> T {
        until(self.deadline(), work, future).await
    }

    /// Waits for work that other agents do, which is cancelled when their time is up.
    pub(crate) async fn bound_below<T>(&self, work: &Cancel, future: impl Future<Output = T>) -> T {
        until(self.deadline_below(), work, future).await
    }

    /// Waits for work without cancelling it. Returns `None` when the time was up before it was done.
    pub(crate) async fn before_deadline<F: Future>(
        &self,
        future: Pin<&mut F>,
    ) -> Option<F::Output> {
        let Some(deadline) = self.deadline() else { return Some(future.await) };
        tokio::time::timeout_at(deadline, future).await.ok()
    }

    /// Waits for work as long as the time of other agents lasts, if it is limited.
    pub(crate) async fn while_below(&self, cancel: &Cancel, future: impl Future<Output = ()>) {
        let Some(deadline) = self.deadline_below() else { return };
        let work = cancel.child();
        let bounded = async {
            tokio::select! {
                biased;
                () = work.cancelled() => {}
                () = future => {}
            }
        };
        until(Some(deadline), &work, bounded).await;
    }
}

/// Waits for work, which is given its signal when the time is up.
async fn until<T>(deadline: Option<Instant>, work: &Cancel, future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    if let Some(deadline) = deadline {
        tokio::select! {
            biased;
            done = &mut future => return done,
            () = tokio::time::sleep_until(deadline) => work.cancel(CancelReason::LimitAbove),
        }
    }
    future.await
}
