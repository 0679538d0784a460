//! Whether and when a failed request is tried again: one layer, pure.

use std::time::Duration;

use crate::model::{FailureKind, ModelError};

/// How a failed request is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// All attempts of one request.
    pub attempts: u32,
    /// The wait before the second attempt; it doubles with each.
    pub first_wait: Duration,
    /// The longest wait, also when the provider asks for more.
    pub longest_wait: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 5,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(60),
        }
    }
}

/// How long to wait before attempt `attempt + 1`, or nothing when the failure is final.
///
/// `jitter` in 0..=1000 spreads the waits of many agents: it adds up to half of the wait. A
/// provider's own wait holds when it is longer; one beyond the longest wait is final, because
/// a person should know rather than wait.
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
    let doubled = policy.first_wait.saturating_mul(1 << (attempt - 1).min(16));
    let own = doubled.min(policy.longest_wait / 2);
    let spread = own + (own / 2).saturating_mul(jitter.min(1000)) / 1000;
    let asked = error.retry_after().unwrap_or_default();
    (asked <= policy.longest_wait).then(|| spread.max(asked))
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
    fn waits_double_and_end() {
        let waits: Vec<_> = (1..=5).map(|n| wait(n, FailureKind::Transient, None)).collect();
        assert_eq!(waits, [Some(500), Some(1000), Some(2000), Some(4000), None]);
    }

    #[test]
    fn the_provider_may_ask_for_more_but_not_for_too_much() {
        assert_eq!(wait(1, FailureKind::Transient, Some(3000)), Some(3000));
        assert_eq!(wait(1, FailureKind::Transient, Some(100)), Some(500));
        assert_eq!(wait(1, FailureKind::Transient, Some(61_000)), None);
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
