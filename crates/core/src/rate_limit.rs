//! Rate limiting for a provider's model: the shared knowledge of all agents in a tree about whether
//! it takes requests now. Pure; the driver passes in the time.
//!
//! Without it, fifty children that reach a limit would each find out for themselves, five times.
//! With it, the first failure closes the limiter for all. After the wait, a single **trial**
//! request goes out; a response opens the limiter again. When the attempts are used up, the limiter
//! **gives up** and fails everyone who waits. Whoever comes later is a trial: the cause may have
//! been one agent's request that the provider cannot take.
//!
//! After a **rate limit**, half as many requests go out as were unanswered, a few more with each
//! round of responses, and no faster than responses came between two limits. While some request is
//! answered, a limit is not a failure but a queue: it counts as no attempt, and no request gives
//! up.

use std::time::Duration;

use crate::cancel::Cancel;
use crate::future::BoxFuture;
use crate::model::{FailureKind, ModelError};
use crate::retry::RetryPolicy;

/// The rate limiters of a program, one for each provider and model.
pub trait RateLimiter: Send + Sync {
    /// Waits until a request to this model may be sent. `model` is its name as agents use it.
    ///
    /// # Errors
    /// The failure with which the limiter gave up, or [`FailureKind::Cancelled`].
    fn acquire<'a>(
        &'a self,
        model: &'a str,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Box<dyn Permit>, ModelError>>;
}

/// Permission to send one request. Dropping it reports no result.
pub trait Permit: Send {
    /// Reports that a response has begun to arrive.
    fn on_response_start(&mut self);

    /// Reports the result of the attempt.
    fn finish(self: Box<Self>, result: Result<(), &ModelError>) -> NextAttempt;
}

/// What to do after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextAttempt {
    /// Try again after this wait; zero if the failure did not close the limiter.
    Wait(Duration),
    /// Rate limited while others are answered: try again after this wait, without counting the
    /// attempt.
    Queue(Duration),
    /// Do not try again.
    GiveUp,
}

/// How long nothing is sent after giving up on a provider that asked for a wait.
const REST: Duration = Duration::from_secs(5);
/// Failures count as consecutive unless this much time passes without one.
const FORGET: Duration = Duration::from_secs(60);
/// After this long without admitting anyone because of a limit, one more request is admitted: the
/// cause may be a long reply rather than a limit.
const PATIENCE: Duration = Duration::from_secs(10);

/// State of one rate limiter. Times are durations since any fixed moment of a monotonic clock.
///
/// ```
/// use std::time::Duration;
/// use deputize_core::model::{FailureKind, ModelError};
/// use deputize_core::rate_limit::{Admission, LimiterState, NextAttempt};
/// use deputize_core::retry::RetryPolicy;
///
/// let now = Duration::ZERO;
/// let mut gate = LimiterState::new(RetryPolicy::default());
/// let ticket = gate.ticket();
/// let Admission::Go(leave) = gate.admit(ticket, now) else { panic!("it is open at first") };
/// let busy = ModelError::new(FailureKind::Transient, "503");
/// let next = gate.finish(leave, now, Err(&busy), 0);
/// assert_eq!(next, NextAttempt::Wait(Duration::from_millis(500)));
/// assert_eq!(gate.admit(ticket, now), Admission::Until(Duration::from_millis(500)));
/// ```
#[derive(Debug)]
pub struct LimiterState {
    policy: RetryPolicy,
    /// Requests whose response has not begun to arrive.
    unanswered: u32,
    /// Requests whose response is arriving.
    arriving: u32,
    /// Maximum of unanswered requests; `None` until a rate limit was reached.
    limit: Option<u32>,
    /// Whether the last closure was due to a rate limit.
    rate_limited: bool,
    /// Responses since the limit last grew.
    round: u32,
    /// Time of the last rate limit, and the number of responses since then.
    limited: Option<(Duration, u32)>,
    /// Minimum time between requests; zero until two rate limits have shown how many are answered
    /// between them.
    pace: Duration,
    last_sent: Duration,
    last_answer: Option<Duration>,
    closed_until: Duration,
    /// Whether a trial request is in flight.
    trial: bool,
    /// Number of failures that closed the limiter. A request sent before the last one does not
    /// close it again.
    closures: u64,
    /// Consecutive closures without a response between them.
    failures: u32,
    failing_since: Duration,
    last_failure: Duration,
    /// Why the limiter gave up, until the next response.
    down: Option<ModelError>,
    /// How often it gave up; waiting requests compare this with their ticket.
    given_up: u64,
}

/// When a request began to wait, as a position in the limiter's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueTicket {
    given_up: u64,
}

/// Permission of a [`LimiterState`] to send one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendLease {
    closures: u64,
    trial: bool,
    answered: bool,
}

/// The limiter's reply to a request for admission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// Send the request.
    Go(SendLease),
    /// Closed until this time.
    Until(Duration),
    /// Other requests are in flight; ask again when one of them has ended.
    AfterOthers,
    /// The limiter gave up because of this failure.
    GivenUp(ModelError),
}

impl LimiterState {
    /// Creates an open limiter.
    #[must_use]
    pub fn new(policy: RetryPolicy) -> Self {
        Self {
            policy,
            unanswered: 0,
            arriving: 0,
            limit: None,
            rate_limited: false,
            round: 0,
            limited: None,
            pace: Duration::ZERO,
            last_sent: Duration::ZERO,
            last_answer: None,
            closed_until: Duration::ZERO,
            trial: false,
            closures: 0,
            failures: 0,
            failing_since: Duration::ZERO,
            last_failure: Duration::ZERO,
            down: None,
            given_up: 0,
        }
    }

    /// Returns a ticket for a request that begins to wait now.
    #[must_use]
    pub fn ticket(&self) -> QueueTicket {
        QueueTicket { given_up: self.given_up }
    }

    /// Requests admission.
    #[must_use]
    pub fn admit(&mut self, ticket: QueueTicket, now: Duration) -> Admission {
        if !self.trial && now > self.last_failure.max(self.closed_until) + FORGET {
            self.recovered();
            (self.limit, self.limited, self.pace) = (None, None, Duration::ZERO);
        }
        let waited = ticket.given_up != self.given_up;
        let rests = now < self.last_failure + REST;
        let told = |error: &&ModelError| waited || rests && error.retry_after().is_some();
        if let Some(error) = self.down.as_ref().filter(told) {
            return Admission::GivenUp(error.clone());
        }
        if now < self.closed_until {
            return Admission::Until(self.closed_until);
        }
        if self.trial {
            return Admission::AfterOthers;
        }
        let full = self.limit.is_some_and(|limit| self.unanswered >= limit);
        let next = match full {
            true => self.last_sent.max(self.closed_until) + PATIENCE,
            false => self.last_sent + self.pace,
        };
        if now < next {
            return Admission::Until(next);
        }
        // After a rate limit, several may go at once; after any other failure, only a trial.
        self.trial = self.failures > 0 && !self.rate_limited;
        self.unanswered += 1;
        self.last_sent = now;
        Admission::Go(SendLease { closures: self.closures, trial: self.trial, answered: false })
    }

    /// Reports that a response has begun to arrive: the provider takes requests.
    pub fn on_response_start(&mut self, leave: &mut SendLease, now: Duration) {
        self.recovered();
        if std::mem::take(&mut leave.trial) {
            self.trial = false;
        }
        if !std::mem::replace(&mut leave.answered, true) {
            self.unanswered = self.unanswered.saturating_sub(1);
            self.arriving += 1;
            self.answered(now);
        }
    }

    /// Reports the result of an attempt; `jitter` as in [`retry_wait`](crate::retry::retry_wait).
    pub fn finish(
        &mut self,
        leave: SendLease,
        now: Duration,
        result: Result<(), &ModelError>,
        jitter: u32,
    ) -> NextAttempt {
        let unanswered = self.unanswered;
        self.release_unused(leave);
        let open = NextAttempt::Wait(Duration::ZERO);
        match result {
            Ok(()) => {
                self.recovered();
                if !leave.answered {
                    self.answered(now);
                }
                open
            }
            // Sent before the limiter closed: nothing new, unless it asks for more time.
            Err(error) if closes(error) && leave.closures != self.closures => {
                self.still_closed(now, error)
            }
            Err(error) if closes(error) => self.close(now, error, unanswered, jitter),
            Err(error) => {
                // An invalid or interrupted request, but the provider takes requests.
                if matches!(
                    error.kind,
                    FailureKind::Incomplete | FailureKind::ContextOverflow | FailureKind::Fatal
                ) {
                    self.recovered();
                }
                open
            }
        }
    }

    /// Returns an unused lease, without a result.
    pub fn release_unused(&mut self, leave: SendLease) {
        let count = if leave.answered { &mut self.arriving } else { &mut self.unanswered };
        *count = count.saturating_sub(1);
        self.trial &= !leave.trial;
    }

    /// Returns how many requests may be admitted at once; `None` if unbounded.
    #[must_use]
    pub fn room(&self) -> Option<u32> {
        let trial = (self.failures > 0 && !self.rate_limited).then_some(1);
        trial.or_else(|| Some(self.limit?.saturating_sub(self.unanswered)))
    }

    fn recovered(&mut self) {
        self.failures = 0;
        self.down = None;
    }

    /// Admits a quarter more at once after each round of responses, and a little faster after each
    /// response, until the next rate limit shows how much is too much.
    fn answered(&mut self, now: Duration) {
        self.last_answer = Some(now);
        if let Some((_, answers)) = &mut self.limited {
            *answers += 1;
        }
        self.pace -= self.pace / 32;
        let Some(limit) = &mut self.limit else { return };
        self.round += 1;
        if self.round >= *limit {
            self.round = 0;
            *limit = limit.saturating_add((*limit / 4).max(1));
        }
    }

    /// Returns whether requests are answered, so that a rate limited one only has to wait its turn.
    fn serves(&self, now: Duration) -> bool {
        self.arriving > 0 || self.last_answer.is_some_and(|at| now <= at + FORGET)
    }

    fn close(
        &mut self,
        now: Duration,
        error: &ModelError,
        unanswered: u32,
        jitter: u32,
    ) -> NextAttempt {
        self.rate_limited = is_rate_limit(error);
        let queues = self.rate_limited && self.serves(now);
        if self.failures == 0 || queues {
            self.failing_since = now;
        }
        self.failures += 1;
        if queues {
            self.failures = self.failures.min(self.policy.attempts.saturating_sub(1));
        }
        self.closures += 1;
        self.last_failure = now;
        if self.rate_limited {
            self.narrow(now, unanswered);
        }
        let in_time = |wait: &Duration| now + *wait <= self.failing_since + self.policy.total_wait;
        let wait = self.policy.wait(self.failures, error, jitter).filter(in_time);
        // A response that bounds the attempts is about its own request; an address where nothing
        // listens affects all.
        let answered = error.status.is_some();
        let attempts =
            if answered { self.policy.attempts } else { self.policy.attempts_after(error) };
        match wait.filter(|_| self.failures < attempts) {
            Some(wait) => {
                self.closed_until = now + wait;
                if queues { NextAttempt::Queue(wait) } else { NextAttempt::Wait(wait) }
            }
            None => {
                self.given_up += 1;
                self.down = Some(error.clone());
                NextAttempt::GiveUp
            }
        }
    }

    /// Halves the number at once, and sends as fast as responses came since the previous limit.
    fn narrow(&mut self, now: Duration, unanswered: u32) {
        // One request alone does not show how many are too many.
        if unanswered > 1 {
            self.limit = Some(unanswered / 2);
            self.round = 0;
        }
        if let Some((since, answers)) = self.limited.filter(|(_, answers)| *answers > 0) {
            self.pace = (now.saturating_sub(since) / answers).min(self.policy.longest_wait);
        }
        self.limited = Some((now, 0));
    }

    fn still_closed(&mut self, now: Duration, error: &ModelError) -> NextAttempt {
        let asked = error.retry_after().unwrap_or_default();
        if self.down.is_some() || asked > self.policy.longest_wait {
            return NextAttempt::GiveUp;
        }
        if !asked.is_zero() {
            self.closed_until = self.closed_until.max(now + asked);
        }
        let wait = self.closed_until.saturating_sub(now);
        let queues = is_rate_limit(error) && self.serves(now);
        if queues { NextAttempt::Queue(wait) } else { NextAttempt::Wait(wait) }
    }
}

fn is_rate_limit(error: &ModelError) -> bool {
    matches!(error.status, Some(429 | 529))
}

/// Returns whether a failure is about the provider, not only about this request or key.
fn closes(error: &ModelError) -> bool {
    error.kind == FailureKind::Transient && !error.other_key
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetryPolicy = RetryPolicy {
        attempts: 5,
        first_wait: Duration::from_secs(1),
        longest_wait: Duration::from_secs(60),
        total_wait: Duration::from_secs(300),
    };

    fn failure(status: u16) -> ModelError {
        let error = ModelError::new(FailureKind::Transient, status.to_string());
        ModelError { status: Some(status), ..error }
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn go(gate: &mut LimiterState, now: Duration) -> SendLease {
        match gate.admit(gate.ticket(), now) {
            Admission::Go(leave) => leave,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn fifty_failures_at_once_close_it_once_and_one_tries_it() {
        let mut gate = LimiterState::new(POLICY);
        let early = gate.ticket();
        let leaves: Vec<SendLease> = (0..50).map(|_| go(&mut gate, secs(0))).collect();
        for leave in leaves {
            let next = gate.finish(leave, secs(1), Err(&failure(503)), 0);
            assert_eq!(next, NextAttempt::Wait(secs(1)));
        }
        assert_eq!(gate.admit(early, secs(1)), Admission::Until(secs(2)));
        let mut trial = go(&mut gate, secs(2));
        assert_eq!(gate.admit(early, secs(2)), Admission::AfterOthers);
        gate.on_response_start(&mut trial, secs(2));
        let _second = go(&mut gate, secs(2));
        let _third = go(&mut gate, secs(2));
    }

    #[test]
    fn a_rate_limit_halves_what_is_under_way_and_answers_widen_it() {
        let mut gate = LimiterState::new(POLICY);
        let leaves: Vec<SendLease> = (0..8).map(|_| go(&mut gate, secs(0))).collect();
        let asks = ModelError { retry_after_ms: Some(7000), ..failure(429) };
        let mut leaves = leaves.into_iter();
        let next = gate.finish(leaves.next().unwrap(), secs(0), Err(&asks), 0);
        assert_eq!(next, NextAttempt::Wait(secs(7)));
        for leave in leaves {
            let _next = gate.finish(leave, secs(0), Err(&asks), 0);
        }
        let four: Vec<SendLease> = (0..4).map(|_| go(&mut gate, secs(7))).collect();
        assert_eq!(gate.admit(gate.ticket(), secs(7)), Admission::Until(secs(17)));
        for leave in four {
            let _open = gate.finish(leave, secs(8), Ok(()), 0);
        }
        assert_eq!(gate.room(), Some(5));
    }

    #[test]
    fn while_somebody_is_answered_a_rate_limit_is_a_queue_and_no_failure() {
        let mut gate = LimiterState::new(POLICY);
        let mut long = go(&mut gate, secs(0));
        gate.on_response_start(&mut long, secs(0));
        let mut now = secs(100);
        for _ in 0..20 {
            let leave = go(&mut gate, now);
            let next = gate.finish(leave, now, Err(&failure(429)), 0);
            let NextAttempt::Queue(wait) = next else { panic!("{next:?}") };
            now += wait;
        }
        // No request is answered any more: the next one fails.
        gate.release_unused(long);
        let leave = go(&mut gate, now);
        assert_eq!(gate.finish(leave, now, Err(&failure(429)), 0), NextAttempt::GiveUp);
    }

    #[test]
    fn it_gives_up_as_soon_as_the_failure_bounds_the_attempts() {
        let mut gate = LimiterState::new(POLICY);
        let refused = ModelError { status: None, most_attempts: Some(2), ..failure(0) };
        let leave = go(&mut gate, secs(0));
        assert_eq!(gate.finish(leave, secs(0), Err(&refused), 0), NextAttempt::Wait(secs(1)));
        let waiting = gate.ticket();
        let leave = go(&mut gate, secs(1));
        assert_eq!(gate.finish(leave, secs(1), Err(&refused), 0), NextAttempt::GiveUp);
        assert_eq!(gate.admit(waiting, secs(1)), Admission::GivenUp(refused));
    }

    #[test]
    fn an_answer_that_bounds_the_attempts_of_its_request_bounds_no_other() {
        let mut gate = LimiterState::new(POLICY);
        let waiting = gate.ticket();
        let (own, other) = (go(&mut gate, secs(0)), go(&mut gate, secs(0)));
        let asks_not = ModelError { most_attempts: Some(1), ..failure(503) };
        assert_eq!(gate.finish(own, secs(0), Err(&asks_not), 0), NextAttempt::Wait(secs(1)));
        assert_eq!(gate.finish(other, secs(0), Err(&failure(503)), 0), NextAttempt::Wait(secs(1)));
        let Admission::Go(trial) = gate.admit(waiting, secs(1)) else { panic!("it gave up") };
        assert_eq!(gate.finish(trial, secs(2), Ok(()), 0), NextAttempt::Wait(Duration::ZERO));
    }

    #[test]
    fn it_gives_up_for_all_who_wait_and_tries_again_for_who_comes_later() {
        let mut gate = LimiterState::new(POLICY);
        let waiting = gate.ticket();
        let mut now = secs(0);
        for n in 1..=5 {
            let leave = go(&mut gate, now);
            match gate.finish(leave, now, Err(&failure(503)), 0) {
                NextAttempt::Wait(wait) | NextAttempt::Queue(wait) => now += wait,
                NextAttempt::GiveUp => assert_eq!(n, 5),
            }
        }
        assert_eq!(gate.admit(waiting, now + secs(9)), Admission::GivenUp(failure(503)));
        let late = go(&mut gate, now);
        let beside = gate.ticket();
        assert_eq!(gate.admit(beside, now), Admission::AfterOthers);
        let next = gate.finish(late, now, Err(&failure(503)), 0);
        assert_eq!(next, NextAttempt::GiveUp, "one trial, not five");
        assert_eq!(gate.admit(beside, now), Admission::GivenUp(failure(503)));
        let fresh = go(&mut gate, now + FORGET + secs(1));
        let next = gate.finish(fresh, now, Err(&failure(503)), 0);
        assert_eq!(next, NextAttempt::Wait(secs(1)));
    }

    #[test]
    fn who_comes_after_a_request_that_nobody_could_serve_is_served() {
        let mut gate = LimiterState::new(POLICY);
        let mut now = secs(0);
        while let NextAttempt::Wait(wait) = {
            let leave = go(&mut gate, now);
            gate.finish(leave, now, Err(&failure(500)), 0)
        } {
            now += wait;
        }
        let healthy = go(&mut gate, now);
        assert_eq!(gate.finish(healthy, now, Ok(()), 0), NextAttempt::Wait(secs(0)));
        assert_eq!(gate.room(), None);
    }

    #[test]
    fn nothing_is_sent_soon_after_giving_up_on_who_asked_for_a_wait() {
        let mut gate = LimiterState::new(POLICY);
        let asks = ModelError { retry_after_ms: Some(61_000), ..failure(429) };
        let leave = go(&mut gate, secs(0));
        assert_eq!(gate.finish(leave, secs(0), Err(&asks), 0), NextAttempt::GiveUp);
        assert_eq!(gate.admit(gate.ticket(), secs(1)), Admission::GivenUp(asks));
        let _later = go(&mut gate, REST);
    }

    #[test]
    fn what_says_nothing_of_the_provider_closes_nothing() {
        let mut gate = LimiterState::new(POLICY);
        let other_key = ModelError { other_key: true, ..failure(429) };
        let kinds = [FailureKind::Incomplete, FailureKind::Fatal, FailureKind::ContextOverflow];
        let others = kinds.map(|kind| ModelError::new(kind, "x"));
        for error in others.iter().chain([&other_key]) {
            let leave = go(&mut gate, secs(0));
            let next = gate.finish(leave, secs(0), Err(error), 0);
            assert_eq!(next, NextAttempt::Wait(Duration::ZERO), "{error:?}");
        }
        assert_eq!(gate.room(), None);
    }

    #[test]
    fn a_wait_as_long_as_forgetting_takes_is_not_forgotten() {
        let mut gate = LimiterState::new(POLICY);
        let asks = ModelError { retry_after_ms: Some(60_000), ..failure(503) };
        let leave = go(&mut gate, secs(0));
        assert_eq!(gate.finish(leave, secs(0), Err(&asks), 0), NextAttempt::Wait(secs(60)));
        let _trial = go(&mut gate, secs(60));
        assert_eq!(gate.admit(gate.ticket(), secs(60)), Admission::AfterOthers);
        assert_eq!(gate.admit(gate.ticket(), secs(600)), Admission::AfterOthers, "a slow trial");
    }

    #[test]
    fn a_rate_limit_of_one_bounds_nobody_and_one_long_past_is_forgotten() {
        let mut gate = LimiterState::new(POLICY);
        let leave = go(&mut gate, secs(0));
        let _next = gate.finish(leave, secs(0), Err(&failure(429)), 0);
        let answered = go(&mut gate, secs(2));
        let _next = gate.finish(answered, secs(2), Ok(()), 0);
        let many: Vec<SendLease> = (0..50).map(|_| go(&mut gate, secs(3))).collect();
        assert_eq!(many.len(), 50);
        for leave in many {
            let _next = gate.finish(leave, secs(3), Err(&failure(429)), 0);
        }
        assert_eq!(gate.room(), Some(25));
        let _fresh = go(&mut gate, secs(200));
        assert_eq!(gate.room(), None);
    }

    #[test]
    fn after_an_old_rate_limit_an_outage_is_still_tried_by_one() {
        let mut gate = LimiterState::new(POLICY);
        for status in [429, 503] {
            let leaves: Vec<SendLease> = (0..4)
                .map_while(|_| match gate.admit(gate.ticket(), secs(90)) {
                    Admission::Go(leave) => Some(leave),
                    _ => None,
                })
                .collect();
            for leave in leaves {
                let _next = gate.finish(leave, secs(80), Err(&failure(status)), 0);
            }
        }
        let _trial = go(&mut gate, secs(100));
        assert_eq!(gate.admit(gate.ticket(), secs(100)), Admission::AfterOthers);
    }

    #[test]
    fn a_trial_that_was_cancelled_leaves_the_place_to_the_next() {
        let mut gate = LimiterState::new(POLICY);
        let leave = go(&mut gate, secs(0));
        let _wait = gate.finish(leave, secs(0), Err(&failure(500)), 0);
        let trial = go(&mut gate, secs(1));
        gate.release_unused(trial);
        let _next = go(&mut gate, secs(1));
    }

    #[test]
    fn a_wait_too_long_for_a_person_is_told_at_once() {
        let mut gate = LimiterState::new(POLICY);
        let leave = go(&mut gate, secs(0));
        let asks = ModelError { retry_after_ms: Some(61_000), ..failure(429) };
        assert_eq!(gate.finish(leave, secs(0), Err(&asks), 0), NextAttempt::GiveUp);
    }

    proptest::proptest! {
        /// Under any sequence: no more in flight than the limit, never more than one trial, and a
        /// waiting request is admitted or fails within the longest time of consecutive failures.
        #[test]
        fn whatever_happens_the_bounds_hold(steps in proptest::collection::vec((0_u8..6, 0_u64..40), 1..200)) {
            let mut gate = LimiterState::new(POLICY);
            let mut now = secs(0);
            let mut out: Vec<SendLease> = Vec::new();
            let mut sent = Duration::ZERO;
            for (what, seconds) in steps {
                now += secs(seconds);
                let result = [Ok(()), Err(failure(503)), Err(failure(429))];
                match (what, out.is_empty()) {
                    (0..3, _) | (_, true) => {
                        if let Admission::Go(leave) = gate.admit(gate.ticket(), now) {
                            out.push(leave);
                            proptest::prop_assert!(now >= gate.closed_until);
                            let patient = now >= sent + PATIENCE;
                            proptest::prop_assert!(patient || gate.limit.is_none_or(|limit| out.len() <= limit as usize));
                            sent = now;
                        }
                    }
                    _ => {
                        let leave = out.swap_remove(seconds as usize % out.len());
                        let result = result[usize::from(what) - 3].as_ref();
                        let _next = gate.finish(leave, now, result.map(|&()| ()), 500);
                    }
                }
                proptest::prop_assert!(out.iter().filter(|leave| leave.trial).count() <= 1);
                proptest::prop_assert_eq!(gate.unanswered as usize, out.len());
            }
            for leave in out.drain(..) {
                gate.release_unused(leave);
            }
            proptest::prop_assert!(matches!(
                gate.admit(gate.ticket(), now + secs(61)),
                Admission::Go(_)
            ));
        }
    }
}
