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

mod outage;
mod pacing;

use outage::Outage;
use pacing::Pacing;

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

/// The next step after an attempt.
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

/// State of one rate limiter. Times are durations since any fixed moment of a monotonic clock.
///
/// ```
/// use std::time::Duration;
/// use deputize_core::model::{FailureKind, ModelError};
/// use deputize_core::rate_limit::{Admission, LimiterState, NextAttempt};
/// use deputize_core::retry::RetryPolicy;
///
/// let now = Duration::ZERO;
/// let mut limiter = LimiterState::new(RetryPolicy::default());
/// let position = limiter.queue_position();
/// let Admission::Go(lease) = limiter.admit(position, now) else { panic!("it is open at first") };
/// let busy = ModelError::new(FailureKind::Transient, "503");
/// let next = limiter.finish(lease, now, Err(&busy), 0);
/// assert_eq!(next, NextAttempt::Wait(Duration::from_millis(500)));
/// assert_eq!(limiter.admit(position, now), Admission::Until(Duration::from_millis(500)));
/// ```
#[derive(Debug)]
pub struct LimiterState {
    policy: RetryPolicy,
    in_flight: OpenRequests,
    pacing: Pacing,
    outage: Outage,
}

/// Requests that were sent and have not ended.
#[derive(Debug, Default)]
struct OpenRequests {
    /// Requests whose response has not begun to arrive.
    unanswered: u32,
    /// Requests whose response is arriving.
    arriving: u32,
    /// Whether a trial request is among them.
    trial: bool,
}

/// Position of a waiting request among the failures on which the limiter gave up. A later failure
/// applies to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePosition {
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
            in_flight: OpenRequests::default(),
            pacing: Pacing::default(),
            outage: Outage::default(),
        }
    }

    /// Returns the position of a request that begins to wait now.
    #[must_use]
    pub fn queue_position(&self) -> QueuePosition {
        QueuePosition { given_up: self.outage.given_up }
    }

    /// Requests admission.
    #[must_use]
    pub fn admit(&mut self, position: QueuePosition, now: Duration) -> Admission {
        if !self.in_flight.trial && self.outage.is_over(now) {
            self.outage.end();
            self.pacing.forget_limit();
        }
        if let Some(error) = self.outage.failure_for(position, now) {
            return Admission::GivenUp(error.clone());
        }
        if now < self.outage.closed_until {
            return Admission::Until(self.outage.closed_until);
        }
        if self.in_flight.trial {
            return Admission::AfterOthers;
        }
        let next = self.pacing.next_send(self.in_flight.unanswered, self.outage.closed_until);
        if now < next {
            return Admission::Until(next);
        }
        // After a rate limit, several may go at once; after any other failure, only a trial.
        let trial = self.outage.needs_trial();
        self.in_flight.trial = trial;
        self.in_flight.unanswered += 1;
        self.pacing.record_send(now);
        Admission::Go(SendLease { closures: self.outage.closures, trial, answered: false })
    }

    /// Reports that a response has begun to arrive: the provider takes requests.
    pub fn on_response_start(&mut self, lease: &mut SendLease, now: Duration) {
        self.outage.end();
        if std::mem::take(&mut lease.trial) {
            self.in_flight.trial = false;
        }
        if !std::mem::replace(&mut lease.answered, true) {
            self.in_flight.unanswered = self.in_flight.unanswered.saturating_sub(1);
            self.in_flight.arriving += 1;
            self.pacing.record_answer(now);
        }
    }

    /// Reports the result of an attempt; `jitter` as in [`retry_wait`](crate::retry::retry_wait).
    pub fn finish(
        &mut self,
        lease: SendLease,
        now: Duration,
        result: Result<(), &ModelError>,
        jitter: u32,
    ) -> NextAttempt {
        let unanswered = self.in_flight.unanswered;
        self.release_unused(lease);
        let open = NextAttempt::Wait(Duration::ZERO);
        match result {
            Ok(()) => {
                self.outage.end();
                if !lease.answered {
                    self.pacing.record_answer(now);
                }
                open
            }
            // Sent before the limiter closed: nothing new, unless it asks for more time.
            Err(error) if closes(error) && lease.closures != self.outage.closures => {
                self.still_closed(now, error)
            }
            Err(error) if closes(error) => {
                if is_rate_limit(error) {
                    self.pacing.narrow(now, unanswered, self.policy.longest_wait);
                }
                self.close(now, error, jitter)
            }
            Err(error) => {
                // An invalid or interrupted request, but the provider takes requests.
                if matches!(
                    error.kind,
                    FailureKind::Incomplete | FailureKind::ContextOverflow | FailureKind::Fatal
                ) {
                    self.outage.end();
                }
                open
            }
        }
    }

    /// Returns an unused lease, without a result.
    pub fn release_unused(&mut self, lease: SendLease) {
        let OpenRequests { unanswered, arriving, trial } = &mut self.in_flight;
        let count = if lease.answered { arriving } else { unanswered };
        *count = count.saturating_sub(1);
        *trial &= !lease.trial;
    }

    /// Returns how many requests may be admitted at once; `None` if unbounded.
    #[must_use]
    pub fn room(&self) -> Option<u32> {
        let trial = self.outage.needs_trial().then_some(1);
        trial.or_else(|| Some(self.pacing.limit()?.saturating_sub(self.in_flight.unanswered)))
    }

    /// Returns whether requests are answered, so that a rate limited one only has to wait its turn.
    fn serves(&self, now: Duration) -> bool {
        self.in_flight.arriving > 0 || self.pacing.was_answered(now)
    }

    fn close(&mut self, now: Duration, error: &ModelError, jitter: u32) -> NextAttempt {
        let queues = is_rate_limit(error) && self.serves(now);
        self.outage.record_failure(now, is_rate_limit(error));
        if queues {
            self.outage.restart(now, self.policy.attempts.saturating_sub(1));
        }
        let latest = self.outage.failing_since + self.policy.total_wait;
        let failures = self.outage.failures;
        let wait = self.policy.wait(failures, error, jitter).filter(|wait| now + *wait <= latest);
        // A response that bounds the attempts is about its own request; an address where nothing
        // listens affects all.
        let answered = error.status.is_some();
        let attempts =
            if answered { self.policy.attempts } else { self.policy.attempts_after(error) };
        match wait.filter(|_| failures < attempts) {
            Some(wait) => {
                self.outage.closed_until = now + wait;
                if queues { NextAttempt::Queue(wait) } else { NextAttempt::Wait(wait) }
            }
            None => {
                self.outage.give_up(error);
                NextAttempt::GiveUp
            }
        }
    }

    fn still_closed(&mut self, now: Duration, error: &ModelError) -> NextAttempt {
        let asked = error.retry_after().unwrap_or_default();
        if self.outage.has_given_up() || asked > self.policy.longest_wait {
            return NextAttempt::GiveUp;
        }
        if !asked.is_zero() {
            self.outage.closed_until = self.outage.closed_until.max(now + asked);
        }
        let wait = self.outage.closed_until.saturating_sub(now);
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
mod tests;
