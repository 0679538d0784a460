//! Whether and when a failed request is retried: the only layer that retries, pure.

use std::time::Duration;

use crate::model::{FailureKind, ModelError};

/// Maximum jitter added to a wait that a provider asks for; for a short wait, a tenth of it.
const MOST_LATE: Duration = Duration::from_secs(1);

/// How failed requests are retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of attempts of one request.
    pub attempts: u32,
    /// The wait before the second attempt; each later one is three times as long.
    pub first_wait: Duration,
    /// Limit on a wait, even if the provider asks for more.
    pub longest_wait: Duration,
    /// Maximum total wait in one turn of an agent.
    pub total_wait: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 5,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(60),
            total_wait: Duration::from_secs(300),
        }
    }
}

impl RetryPolicy {
    /// Returns the maximum attempts of a request that failed this way: its own bound if that is
    /// lower.
    #[must_use]
    pub fn attempts_after(&self, error: &ModelError) -> u32 {
        error.most_attempts.map_or(self.attempts, |most| most.min(self.attempts))
    }

    /// Returns the wait after this many consecutive failures.
    ///
    /// `jitter` in 0..=1000 spreads the waits of many agents: it adds up to half of the wait. A
    /// wait that the provider asks for replaces the first one and any later one that is shorter,
    /// because a provider that repeatedly asks for moments does not know. It is extended by up to a
    /// tenth, at most a second. `None` if it exceeds the longest wait, because a person should know
    /// rather than wait.
    pub(crate) fn wait(&self, failures: u32, error: &ModelError, jitter: u32) -> Option<Duration> {
        let tripled = self.first_wait.saturating_mul(3_u32.saturating_pow(failures.max(1) - 1));
        let own = tripled.min(self.longest_wait / 2);
        let spread = own + (own / 2).saturating_mul(jitter.min(1000)) / 1000;
        let asked = error.retry_after().unwrap_or_default();
        // Agents given the same time would otherwise return at the same instant.
        let late = (asked / 10).min(MOST_LATE).saturating_mul(jitter.min(1000)) / 1000;
        let wait = match asked.is_zero() {
            true => spread,
            false if failures <= 1 => asked + late,
            false => spread.max(asked + late),
        };
        (asked <= self.longest_wait).then_some(wait)
    }
}

/// Returns the wait before attempt `attempt + 1`; `None` if the failure is final.
///
/// `jitter` in 0..=1000 spreads the waits of many agents: it adds up to half of the wait. A wait
/// that the provider asks for replaces the first one and later ones that are shorter, extended by
/// up to a tenth, at most a second; beyond the longest wait the failure is final, because a person
/// should know rather than wait. If another key is ready, the wait is zero.
///
/// ```
/// use deputize_core::model::{FailureKind, ModelError};
/// use deputize_core::retry::{RetryPolicy, retry_wait};
///
/// let error = ModelError::new(FailureKind::Transient, "provider local: 503");
/// let wait = |attempt| retry_wait(&RetryPolicy::default(), attempt, &error, 0);
/// assert_eq!(wait(1).unwrap().as_millis(), 500);
/// assert_eq!(wait(5), None);
/// ```
#[must_use]
pub fn retry_wait(
    policy: &RetryPolicy,
    attempt: u32,
    error: &ModelError,
    jitter: u32,
) -> Option<Duration> {
    let again = matches!(error.kind, FailureKind::Transient | FailureKind::Incomplete);
    if !again || attempt >= policy.attempts {
        return None;
    }
    if error.other_key {
        return Some(Duration::ZERO);
    }
    if attempt >= policy.attempts_after(error) {
        return None;
    }
    policy.wait(attempt, error, jitter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(attempt: u32, kind: FailureKind, retry_after_ms: Option<u64>) -> Option<u64> {
        let error = ModelError { retry_after_ms, ..ModelError::new(kind, "x") };
        retry_wait(&RetryPolicy::default(), attempt, &error, 0)
            .map(|wait| u64::try_from(wait.as_millis()).unwrap())
    }

    #[test]
    fn waits_grow_and_end() {
        let waits: Vec<_> = (1..=5).map(|n| wait(n, FailureKind::Transient, None)).collect();
        assert_eq!(waits, [Some(500), Some(1500), Some(4500), Some(13_500), None]);
    }

    #[test]
    fn what_the_provider_asks_for_is_waited_but_moments_not_again_and_again() {
        let waits = |asked| {
            let waits = (1..=4).map(|n| wait(n, FailureKind::Transient, Some(asked)));
            waits.map(Option::unwrap).collect::<Vec<_>>()
        };
        assert_eq!(waits(20), [20, 1500, 4500, 13_500]);
        assert_eq!(waits(3000), [3000, 3000, 4500, 13_500]);
        assert_eq!(waits(30_000), [30_000; 4]);
        assert_eq!(wait(1, FailureKind::Transient, Some(0)), Some(500), "no time is no wish");
        assert_eq!(wait(1, FailureKind::Transient, Some(61_000)), None);
    }

    #[test]
    fn a_wait_that_was_asked_for_is_never_shortened_and_spread_a_little() {
        let wait = |asked: u64, jitter| {
            let error = ModelError::new(FailureKind::Transient, "x");
            let error = ModelError { retry_after_ms: Some(asked), ..error };
            retry_wait(&RetryPolicy::default(), 1, &error, jitter).unwrap().as_millis()
        };
        assert_eq!([wait(3000, 0), wait(3000, 500), wait(3000, 1000)], [3000, 3150, 3300]);
        assert_eq!(wait(60_000, 1000), 61_000);
    }

    #[test]
    fn another_key_is_not_waited_for_but_counts() {
        let error = ModelError { other_key: true, ..ModelError::new(FailureKind::Transient, "x") };
        assert_eq!(retry_wait(&RetryPolicy::default(), 1, &error, 9), Some(Duration::ZERO));
        assert_eq!(retry_wait(&RetryPolicy::default(), 5, &error, 9), None);
    }

    #[test]
    fn a_failure_may_bound_its_attempts_but_not_those_with_another_key() {
        let wait = |attempt, most, other_key| {
            let error = ModelError::new(FailureKind::Transient, "x");
            let error = ModelError { most_attempts: Some(most), other_key, ..error };
            retry_wait(&RetryPolicy::default(), attempt, &error, 0).is_some()
        };
        assert_eq!([wait(1, 2, false), wait(2, 2, false), wait(1, 1, false)], [true, false, false]);
        assert_eq!([wait(4, 9, false), wait(5, 9, false)], [true, false], "never more than all");
        assert!(wait(1, 1, true), "another key is another account");
    }

    #[test]
    fn what_cannot_heal_is_not_tried_again() {
        for kind in [
            FailureKind::ContextOverflow,
            FailureKind::Unavailable,
            FailureKind::Fatal,
            FailureKind::Cancelled,
        ] {
            assert_eq!(wait(1, kind, None), None);
        }
    }
}
