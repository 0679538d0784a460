//! Failures in a row, and how long nothing is sent because of them.

use std::time::Duration;

use super::QueuePosition;
use crate::model::ModelError;

/// Pause after giving up on a provider that asked for a wait.
pub(super) const REST: Duration = Duration::from_secs(5);
/// Failures count as consecutive unless this much time passes without one.
pub(super) const FORGET: Duration = Duration::from_secs(60);

/// The failures that closed a limiter since the last response.
#[derive(Debug, Default)]
pub(super) struct Outage {
    pub(super) closed_until: Duration,
    /// Number of failures that closed the limiter. A request sent before the last one does not
    /// close it again.
    pub(super) closures: u64,
    /// Consecutive closures without a response between them.
    pub(super) failures: u32,
    pub(super) failing_since: Duration,
    last_failure: Duration,
    /// Whether the last closure was due to a rate limit.
    rate_limited: bool,
    /// Why the limiter gave up, until the next response.
    down: Option<ModelError>,
    /// Number of times it gave up; waiting requests compare this with their position.
    pub(super) given_up: u64,
}

impl Outage {
    /// Returns whether the last failure is so long past that it does not count any more.
    pub(super) fn is_over(&self, now: Duration) -> bool {
        now > self.last_failure.max(self.closed_until) + FORGET
    }

    /// Records that the provider takes requests.
    pub(super) fn end(&mut self) {
        self.failures = 0;
        self.down = None;
    }

    /// Returns the failure with which a waiting request fails too, if the limiter has given up.
    pub(super) fn failure_for(
        &self,
        position: QueuePosition,
        now: Duration,
    ) -> Option<&ModelError> {
        let waited = position.given_up != self.given_up;
        let rests = now < self.last_failure + REST;
        let fails = |error: &&ModelError| waited || rests && error.retry_after().is_some();
        self.down.as_ref().filter(fails)
    }

    /// Returns whether only one request may go, to try whether the provider works.
    pub(super) const fn needs_trial(&self) -> bool {
        self.failures > 0 && !self.rate_limited
    }

    pub(super) const fn has_given_up(&self) -> bool {
        self.down.is_some()
    }

    /// Records a failure that closes the limiter.
    pub(super) fn record_failure(&mut self, now: Duration, rate_limited: bool) {
        self.rate_limited = rate_limited;
        if self.failures == 0 {
            self.failing_since = now;
        }
        self.failures += 1;
        self.closures += 1;
        self.last_failure = now;
    }

    /// Begins a new row of failures, with at most this many in it: others are answered meanwhile.
    pub(super) fn restart(&mut self, now: Duration, most_failures: u32) {
        self.failing_since = now;
        self.failures = self.failures.min(most_failures);
    }

    pub(super) fn give_up(&mut self, error: &ModelError) {
        self.given_up += 1;
        self.down = Some(error.clone());
    }
}
