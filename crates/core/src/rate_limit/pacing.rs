//! How many requests go out at once, and how fast, after a rate limit.

use std::time::Duration;

use super::outage::FORGET;

/// After this long without admitting anyone because of a limit, one more request is admitted: the
/// cause may be a long reply rather than a limit.
pub(super) const ADMIT_AFTER: Duration = Duration::from_secs(10);

/// The number of requests at once and their distance, as rate limits and responses have shown.
#[derive(Debug, Default)]
pub(super) struct Pacing {
    /// Maximum of unanswered requests; `None` until a rate limit was reached.
    limit: Option<u32>,
    /// Responses since the limit last grew.
    round: u32,
    last_limited: Option<RateLimitHit>,
    /// Minimum time between requests; zero until two rate limits have shown how many are answered
    /// between them.
    pace: Duration,
    last_sent: Duration,
    last_answer: Option<Duration>,
}

/// The last rate limit.
#[derive(Debug, Clone, Copy)]
struct RateLimitHit {
    at: Duration,
    /// Number of responses since then.
    answers: u32,
}

impl Pacing {
    /// Returns the maximum of unanswered requests; `None` if unbounded.
    pub(super) const fn limit(&self) -> Option<u32> {
        self.limit
    }

    pub(super) fn forget_limit(&mut self) {
        self.limit = None;
        self.last_limited = None;
        self.pace = Duration::ZERO;
    }

    /// Returns when the next request may be sent.
    pub(super) fn next_send(&self, unanswered: u32, closed_until: Duration) -> Duration {
        let is_full = self.limit.is_some_and(|limit| unanswered >= limit);
        match is_full {
            true => self.last_sent.max(closed_until) + ADMIT_AFTER,
            false => self.last_sent + self.pace,
        }
    }

    pub(super) fn record_send(&mut self, now: Duration) {
        self.last_sent = now;
    }

    /// Returns whether a request was answered lately.
    pub(super) fn was_answered(&self, now: Duration) -> bool {
        self.last_answer.is_some_and(|at| now <= at + FORGET)
    }

    /// Admits a quarter more at once after each round of responses, and a little faster after each
    /// response, until the next rate limit shows how much is too much.
    pub(super) fn record_answer(&mut self, now: Duration) {
        self.last_answer = Some(now);
        if let Some(last) = &mut self.last_limited {
            last.answers += 1;
        }
        self.pace -= self.pace / 32;
        let Some(limit) = &mut self.limit else { return };
        self.round += 1;
        if self.round >= *limit {
            self.round = 0;
            *limit = limit.saturating_add((*limit / 4).max(1));
        }
    }

    /// Halves the number at once, and sends as fast as responses came since the previous limit.
    pub(super) fn narrow(&mut self, now: Duration, unanswered: u32, longest_pace: Duration) {
        // One request alone does not show how many are too many.
        if unanswered > 1 {
            self.limit = Some(unanswered / 2);
            self.round = 0;
        }
        if let Some(last) = self.last_limited.filter(|last| last.answers > 0) {
            self.pace = (now.saturating_sub(last.at) / last.answers).min(longest_pace);
        }
        self.last_limited = Some(RateLimitHit { at: now, answers: 0 });
    }
}
