//! Estimates the cost of requests, replies and tasks from earlier ones. Pure.

use std::collections::VecDeque;

use super::Cost;
use crate::model::Usage;

/// Bytes of text per token, where a guess suffices.
const BYTES_PER_TOKEN: u64 = 3;
/// Densities are in tokens per this many bytes.
const KIB: u64 = 1024;
/// Density of text that no model has counted: one token per two bytes. Prose and code have one per
/// three to five.
const UNKNOWN_DENSITY: u64 = KIB / 2;
/// Minimum density assumed for new text, whatever the density of the text before it.
const LEAST_DENSITY: u64 = KIB * 3 / 8;
/// Tokens of a conversation beside its text.
const OVERHEAD: u64 = 32;
/// Maximum number of observations that are kept.
const MOST_OBSERVED: usize = 32;
/// Minimum output reserved for a request.
const LEAST_OUTPUT: u32 = 256;

/// Estimates the tokens of an agent's conversation from the counts in its replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenEstimator {
    /// Size of the request before the last reply.
    bytes: u64,
    tokens: u64,
    /// The same with the last reply included.
    known_bytes: u64,
    known_tokens: u64,
    /// Maximum number of tokens added between a reply and the next request.
    record_results: u64,
    /// Highest density of any counted request.
    densest: u64,
}

impl TokenEstimator {
    /// Records the counts of a reply: bytes of its request, bytes of the reply, and its usage.
    pub fn record_reply(&mut self, bytes: u64, reply_bytes: u64, usage: Usage) {
        (self.bytes, self.tokens) = (bytes, usage.input);
        self.densest = self.densest.max(Self::density(bytes, usage.input));
        self.known_bytes = bytes.saturating_add(reply_bytes);
        self.known_tokens = usage.input.saturating_add(usage.output);
    }

    /// Records a sent request of this many bytes.
    ///
    /// ```
    /// use deputize_core::budget::TokenEstimator;
    /// use deputize_core::model::Usage;
    ///
    /// let mut estimator = TokenEstimator::default();
    /// estimator.record_request(900);
    /// assert_eq!(estimator.brought(), 0, "no reply came before it");
    /// estimator.record_reply(900, 0, Usage { input: 300, ..Usage::default() });
    /// estimator.record_request(1800);
    /// assert!(estimator.brought() > 300);
    /// ```
    pub fn record_request(&mut self, bytes: u64) {
        if self.known_tokens > 0 {
            let tokens = self.bound(bytes, Some(self.densest).filter(|density| *density > 0));
            self.record_results = self.record_results.max(tokens.saturating_sub(self.known_tokens));
        }
    }

    /// Returns the bytes and the tokens of the conversation with its last reply, by the count that
    /// came with it; `None` before a reply, and after a compaction until the next one.
    ///
    /// ```
    /// use deputize_core::budget::TokenEstimator;
    /// use deputize_core::model::Usage;
    ///
    /// let mut estimator = TokenEstimator::default();
    /// assert_eq!(estimator.counted(), None);
    /// estimator.record_reply(900, 90, Usage { input: 300, output: 20, ..Usage::default() });
    /// assert_eq!(estimator.counted(), Some((990, 320)));
    /// ```
    #[must_use]
    pub const fn counted(&self) -> Option<(u64, u64)> {
        match self.known_tokens {
            0 => None,
            tokens => Some((self.known_bytes, tokens)),
        }
    }

    /// Returns the maximum number of tokens added between a reply and the next request.
    #[must_use]
    pub const fn brought(&self) -> u64 {
        self.record_results
    }

    /// Records that the conversation became shorter: the count of the last reply says nothing about
    /// the rest.
    pub const fn record_compaction(&mut self) {
        (self.known_bytes, self.known_tokens) = (0, 0);
    }

    /// Returns the likely number of tokens in a request of this many bytes: the count of the last
    /// reply and a guess at what was added to it.
    ///
    /// ```
    /// use deputize_core::budget::TokenEstimator;
    /// use deputize_core::model::Usage;
    ///
    /// let mut estimator = TokenEstimator::default();
    /// assert_eq!(estimator.expected(900), 300);
    /// estimator.record_reply(900, 90, Usage { input: 500, output: 20, ..Usage::default() });
    /// assert_eq!(estimator.expected(1290), 620);
    /// estimator.record_compaction();
    /// assert_eq!(estimator.expected(450), 250);
    /// ```
    #[must_use]
    pub fn expected(&self, bytes: u64) -> u64 {
        if self.known_tokens == 0 {
            return self.guess(bytes);
        }
        let added = bytes.saturating_sub(self.known_bytes);
        self.known_tokens.saturating_add(added.div_ceil(BYTES_PER_TOKEN))
    }

    /// Guesses the number of tokens in a request of this many bytes.
    ///
    /// ```
    /// use deputize_core::budget::TokenEstimator;
    /// use deputize_core::model::Usage;
    ///
    /// let mut estimator = TokenEstimator::default();
    /// assert_eq!(estimator.guess(900), 300);
    /// estimator.record_reply(900, 0, Usage { input: 200, ..Usage::default() });
    /// assert_eq!(estimator.guess(1800), 400);
    /// ```
    #[must_use]
    pub fn guess(&self, bytes: u64) -> u64 {
        match self.tokens {
            0 => bytes.div_ceil(BYTES_PER_TOKEN),
            tokens => scale(bytes, tokens, self.bytes.max(1)),
        }
    }

    /// Returns an upper bound on the tokens in a request of this many bytes, unless its new text is
    /// denser than any before: the count of the last reply, plus the rest at the density of the
    /// densest request that its model has counted, with a margin.
    #[must_use]
    pub fn bound(&self, bytes: u64, densest: Option<u64>) -> u64 {
        let with_margin = densest.map(|density| density.saturating_add(density.div_ceil(10)));
        if self.known_tokens == 0 {
            let density = with_margin.unwrap_or(UNKNOWN_DENSITY);
            return scale(bytes, density, KIB).saturating_add(OVERHEAD);
        }
        let density = with_margin.map_or(UNKNOWN_DENSITY, |density| density.max(LEAST_DENSITY));
        let added = scale(bytes.saturating_sub(self.known_bytes), density, KIB);
        self.known_tokens.saturating_add(added).saturating_add(OVERHEAD)
    }

    /// Returns the density of a request, in tokens per 1,024 bytes.
    #[must_use]
    pub fn density(bytes: u64, tokens: u64) -> u64 {
        scale(tokens, KIB, bytes.max(1))
    }
}

fn scale(amount: u64, by: u64, of: u64) -> u64 {
    let scaled = (u128::from(amount) * u128::from(by)).div_ceil(u128::from(of.max(1)));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// Estimates the length of one model's replies.
#[derive(Debug, Clone, Default)]
pub struct OutputEstimator {
    recent: VecDeque<u32>,
}

impl OutputEstimator {
    /// Records the output tokens of a reply.
    pub fn record_reply(&mut self, tokens: u64) {
        push(&mut self.recent, u32::try_from(tokens).unwrap_or(u32::MAX));
    }

    /// Returns an output limit that a reply is unlikely to reach: one and a half times the longest
    /// of the last replies, and more the fewer there were. `None` before the first reply.
    ///
    /// ```
    /// use deputize_core::budget::OutputEstimator;
    ///
    /// let mut estimator = OutputEstimator::default();
    /// assert_eq!(estimator.likely(), None);
    /// estimator.record_reply(400);
    /// estimator.record_reply(1000);
    /// assert_eq!((estimator.usual(), estimator.likely()), (Some(1000), Some(3500)));
    /// ```
    #[must_use]
    pub fn likely(&self) -> Option<u32> {
        let longest = u64::from(self.recent.iter().copied().max()?);
        let half = longest.div_ceil(2);
        let more = longest.saturating_mul(4).checked_div(self.recent.len() as u64)?;
        let likely = longest.saturating_add(half).saturating_add(more);
        Some(u32::try_from(likely).unwrap_or(u32::MAX).max(LEAST_OUTPUT))
    }

    /// Returns the 90th percentile of the last replies' lengths, but no less than a short answer
    /// needs. `None` before the first reply.
    #[must_use]
    pub fn usual(&self) -> Option<u32> {
        let mut sorted: Vec<u32> = self.recent.iter().copied().collect();
        sorted.sort_unstable();
        let usual = sorted.get(sorted.len() * 9 / 10).copied()?;
        Some(usual.max(LEAST_OUTPUT))
    }
}

/// Estimates the cost of whole tasks, including everything below them.
///
/// An estimate that is too high costs time: fewer tasks run concurrently when the budget is short.
/// One that is too low costs tasks: more begin than can be completed. So it errs on the high side.
#[derive(Debug, Clone, Default)]
pub struct TaskCostEstimator {
    recent: VecDeque<TaskCost>,
}

/// Cost of one task.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TaskCost {
    /// Cost so far.
    pub spent: Cost,
    /// Maximum of spent and reserved amounts at any moment.
    pub peak: Cost,
    /// Whether the task was completed; if not, it would have cost more.
    pub completed: bool,
}

impl TaskCostEstimator {
    /// Records the cost of a task that has ended.
    pub fn record_end(&mut self, task: TaskCost) {
        push(&mut self.recent, task);
    }

    /// Returns the expected room for another task: the cost of the most expensive of the last ones,
    /// and more the fewer there were. `None` before one was completed.
    #[must_use]
    pub fn expected(&self) -> Option<Cost> {
        if !self.recent.iter().any(|task| task.completed) {
            return None;
        }
        let dearest = self.recent.iter().fold(Cost::default(), |most, task| most.max(task.peak));
        let count = self.recent.len() as u64;
        let more = dearest.tokens.checked_div(count)?;
        #[expect(clippy::cast_precision_loss, reason = "few are kept")]
        let usd = dearest.usd * (1.0 + 1.0 / count as f64);
        Some(Cost { tokens: dearest.tokens.saturating_add(more), usd, unpriced: false })
    }

    /// Returns the cost of the cheapest of the last completed tasks; `None` before the first one.
    #[must_use]
    pub fn cheapest(&self) -> Option<Cost> {
        let completed = || self.recent.iter().filter(|task| task.completed);
        let tokens = completed().map(|task| task.spent.tokens).min()?;
        let usd = completed().map(|task| task.spent.usd).min_by(f64::total_cmp)?;
        Some(Cost { tokens, usd, unpriced: false })
    }
}

fn push<T>(recent: &mut VecDeque<T>, new: T) {
    if recent.len() == MOST_OBSERVED {
        recent.pop_front();
    }
    recent.push_back(new);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_known_and_only_new_text_is_estimated() {
        let mut estimator = TokenEstimator::default();
        assert_eq!(estimator.bound(2048, None), 1024 + OVERHEAD);
        // A model has counted 300 tokens for 1,024 bytes.
        assert_eq!(estimator.bound(2048, Some(300)), 660 + OVERHEAD);
        estimator.record_reply(2048, 400, Usage { input: 600, output: 100, ..Usage::default() });
        assert_eq!(estimator.bound(2448, Some(300)), 700 + OVERHEAD);
        assert_eq!(estimator.bound(2448 + 1024, Some(300)), 700 + 384 + OVERHEAD);
        assert_eq!(estimator.bound(2448 + 1024, None), 700 + 512 + OVERHEAD);
        assert_eq!(estimator.bound(2448 + 1024, Some(1000)), 700 + 1100 + OVERHEAD);
        assert_eq!(TokenEstimator::density(2048, 600), 300);
    }

    #[test]
    fn old_observations_are_forgotten() {
        let mut estimator = OutputEstimator::default();
        estimator.record_reply(9_000);
        assert_eq!(estimator.likely(), Some(49_500));
        (0..MOST_OBSERVED).for_each(|_| estimator.record_reply(10));
        assert_eq!((estimator.likely(), estimator.usual()), (Some(256), Some(256)));
    }

    #[test]
    fn a_task_is_expected_to_cost_what_others_did() {
        let cost = |tokens, usd| Cost { tokens, usd, unpriced: false };
        let mut estimator = TaskCostEstimator::default();
        assert_eq!((estimator.expected(), estimator.cheapest()), (None, None));
        let mut ended = |spent, peak, completed| {
            estimator.record_end(TaskCost { spent, peak, completed });
            (estimator.expected(), estimator.cheapest())
        };
        assert_eq!(ended(cost(100, 0.1), cost(200, 0.1), false), (None, None));
        let (expected, _) = ended(cost(1_000, 0.5), cost(1_000, 0.5), true);
        assert_eq!(expected, Some(cost(1_500, 0.75)));
        ended(cost(2_000, 0.25), cost(3_000, 0.25), true);
        ended(cost(3_000, 0.25), cost(4_000, 0.75), false);
        assert_eq!(estimator.expected(), Some(cost(5_000, 0.9375)));
        assert_eq!(estimator.cheapest(), Some(cost(1_000, 0.25)));
    }
}
