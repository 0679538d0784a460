//! What a tree of agents may spend: reserved before each request, settled after it. Pure.

use serde::{Deserialize, Serialize};

use crate::model::Usage;

/// Dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// Input that no cache had and none took.
    pub input: f64,
    /// Input that came from the provider's cache.
    pub cached: f64,
    /// Input that was written to the provider's cache.
    pub cache_write: f64,
    /// Output, reasoning among it.
    pub output: f64,
}

impl Price {
    /// What costs nothing.
    pub const FREE: Self = Self { input: 0.0, cached: 0.0, cache_write: 0.0, output: 0.0 };

    /// Dollars of some tokens.
    ///
    /// ```
    /// use deputize_core::{Price, Usage};
    ///
    /// let price = Price { input: 2.0, cached: 0.5, cache_write: 2.5, output: 8.0 };
    /// let usage = Usage { input: 1_000_000, cached: 400_000, output: 100_000, ..Usage::default() };
    /// assert_eq!(price.of(usage), 2.2);
    /// assert_eq!(price.of(Usage { cache_write: 600_000, ..usage }), 2.5);
    /// ```
    #[must_use]
    pub fn of(&self, usage: Usage) -> f64 {
        let cached = usage.cached.min(usage.input);
        let written = usage.cache_write.min(usage.input - cached);
        let parts = [
            (usage.input - cached - written, self.input),
            (cached, self.cached),
            (written, self.cache_write),
            (usage.output, self.output),
        ];
        #[expect(clippy::cast_precision_loss, reason = "nobody pays for 2^52 tokens")]
        let dollars = |(tokens, price): (u64, f64)| tokens as f64 * price / 1e6;
        parts.into_iter().map(dollars).sum()
    }
}

/// What may be spent; what is not said has no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Budget {
    /// Dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Tokens, input and output together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

impl Budget {
    /// Whether it limits anything.
    #[must_use]
    pub const fn limits(&self) -> bool {
        self.usd.is_some() || self.tokens.is_some()
    }
}

/// What was, or will be, spent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Cost {
    /// Tokens, input and output together.
    pub tokens: u64,
    /// Dollars, as far as prices are known.
    pub usd: f64,
    /// Whether a price was not known, so that the dollars are not all of it.
    #[serde(default)]
    pub unpriced: bool,
}

impl Cost {
    /// What a reply cost, with a price if one is known.
    #[must_use]
    pub fn of(usage: Usage, price: Option<Price>) -> Self {
        Self {
            tokens: usage.input.saturating_add(usage.output),
            usd: price.map_or(0.0, |price| price.of(usage)),
            unpriced: price.is_none(),
        }
    }

    /// The dollars, if they are all known.
    #[must_use]
    pub fn known_usd(&self) -> Option<f64> {
        (!self.unpriced).then_some(self.usd)
    }
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.usd += other.usd;
        self.unpriced |= other.unpriced;
    }
}

/// A budget and what became of it.
///
/// ```
/// use deputize_core::{Budget, Cost, Fit, Purse};
///
/// let mut purse = Purse::new(Budget { tokens: Some(100), usd: None }, Cost::default());
/// let tokens = |tokens| Cost { tokens, ..Cost::default() };
/// assert_eq!(purse.reserve(tokens(60), tokens(10)), Fit::Reserved);
/// // What is reserved may come back, so this one waits.
/// assert_eq!(purse.reserve(tokens(60), tokens(10)), Fit::Later);
/// purse.settle(tokens(60), tokens(45));
/// assert_eq!(purse.reserve(tokens(60), tokens(10)), Fit::Never);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Purse {
    budget: Budget,
    spent: Cost,
    reserved: Cost,
}

/// Whether a cost fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// It fits, and is reserved.
    Reserved,
    /// It may fit when others have settled.
    Later,
    /// It does not fit any more.
    Never,
}

impl Purse {
    /// A purse of which something is spent already.
    #[must_use]
    pub const fn new(budget: Budget, spent: Cost) -> Self {
        Self { budget, spent, reserved: Cost { tokens: 0, usd: 0.0, unpriced: false } }
    }

    /// Reserves a cost, if it and `after`, what must stay for a last request, fit.
    pub fn reserve(&mut self, cost: Cost, after: Cost) -> Fit {
        let fit = self.fit(cost, after);
        if fit == Fit::Reserved {
            self.reserved += cost;
        }
        fit
    }

    /// Whether a cost, and `after` behind it, would fit now.
    #[must_use]
    pub fn fit(&self, cost: Cost, after: Cost) -> Fit {
        let within = |taken: Cost| {
            let tokens = taken.tokens.saturating_add(cost.tokens).saturating_add(after.tokens);
            let usd = taken.usd + cost.usd + after.usd;
            self.budget.tokens.is_none_or(|most| tokens <= most)
                && self.budget.usd.is_none_or(|most| usd <= most)
        };
        let mut taken = self.spent;
        taken += self.reserved;
        match (within(taken), within(self.spent)) {
            (true, _) => Fit::Reserved,
            (false, true) => Fit::Later,
            (false, false) => Fit::Never,
        }
    }

    /// Gives a reservation back and takes what was really spent.
    pub fn settle(&mut self, reserved: Cost, spent: Cost) {
        self.reserved.tokens = self.reserved.tokens.saturating_sub(reserved.tokens);
        self.reserved.usd = (self.reserved.usd - reserved.usd).max(0.0);
        if self.reserved.tokens == 0 {
            // What rounding left must not stay for ever.
            self.reserved.usd = 0.0;
        }
        self.spent += spent;
    }

    /// What may be spent.
    #[must_use]
    pub const fn budget(&self) -> Budget {
        self.budget
    }

    /// What was spent.
    #[must_use]
    pub const fn spent(&self) -> Cost {
        self.spent
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_of_a_provider_that_are_no_numbers_break_nothing() {
        let usage = Usage { input: u64::MAX, cached: 7, output: u64::MAX, ..Usage::default() };
        let cost =
            Cost::of(usage, Some(Price { input: 1.0, cached: 1.0, cache_write: 1.0, output: 1.0 }));
        let mut purse = Purse::new(Budget { tokens: Some(9), usd: Some(1.0) }, Cost::default());
        purse.settle(Cost::default(), cost);
        purse.settle(Cost::default(), cost);
        assert_eq!(purse.spent().tokens, u64::MAX);
        assert_eq!(purse.fit(cost, cost), Fit::Never);
    }

    proptest! {
        /// Whoever spends no more than it reserved keeps everyone within the budget.
        #[test]
        fn nobody_spends_more_than_there_is(
            tokens in 1_u64..10_000,
            usd in 0.01_f64..10.0,
            asks in proptest::collection::vec((1_u64..2_000, 0.0_f64..2.0, 0_u64..=100, any::<bool>()), 1..60),
        ) {
            let budget = Budget { tokens: Some(tokens), usd: Some(usd) };
            let mut purse = Purse::new(budget, Cost::default());
            let mut open = Vec::new();
            for (tokens, usd, used, settle) in asks {
                let cost = Cost { tokens, usd, unpriced: false };
                if purse.reserve(cost, Cost::default()) == Fit::Reserved {
                    open.push((cost, used));
                }
                if settle && let Some((cost, used)) = open.pop() {
                    let share = f64::from(u32::try_from(used).unwrap()) / 100.0;
                    let spent = Cost { tokens: cost.tokens * used / 100, usd: cost.usd * share, unpriced: false };
                    purse.settle(cost, spent);
                }
            }
            let spent = purse.spent();
            prop_assert!(spent.tokens <= tokens && spent.usd <= usd + 1e-9);
            for (cost, _) in open {
                purse.settle(cost, Cost::default());
            }
            let left = Cost { tokens: tokens - spent.tokens, usd: (usd - spent.usd - 1e-6).max(0.0), unpriced: false };
            prop_assert_eq!(purse.fit(left, Cost::default()), Fit::Reserved);
        }
    }
}
