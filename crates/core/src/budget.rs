//! Budgets over a tree of agents: cost is reserved before each request and settled after it. Pure.

mod account;
mod estimate;

pub use account::{BudgetAccount, Reservation, ReserveRequest, ReserveResult};
pub use estimate::{OutputEstimator, TaskCost, TaskCostEstimator, TokenEstimator};

use serde::{Deserialize, Serialize};

use crate::model::Usage;

/// Prices in dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// Input that was neither read from nor written to a cache.
    pub input: f64,
    /// Input that was read from the provider's cache.
    pub cached: f64,
    /// Input that was written to the provider's cache.
    pub cache_write: f64,
    /// Output, including reasoning.
    pub output: f64,
}

impl Price {
    /// The price of a model that costs nothing.
    pub const FREE: Self = Self { input: 0.0, cached: 0.0, cache_write: 0.0, output: 0.0 };

    /// Returns the cost of some tokens, in dollars.
    ///
    /// ```
    /// use deputize_core::budget::Price;
    /// use deputize_core::model::Usage;
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

impl Price {
    /// Returns an upper bound on the cost of some tokens, in dollars, whatever a cache does.
    #[must_use]
    pub fn bound(&self, input: u64, output: u64) -> f64 {
        let dearest = self.input.max(self.cache_write).max(self.cached);
        let usage = Usage { input, output, ..Usage::default() };
        Self { input: dearest, ..*self }.of(usage)
    }
}

/// Limits on spending; `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Budget {
    /// Limit in dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Limit in tokens, input and output together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

impl Budget {
    /// Returns whether it limits anything.
    #[must_use]
    pub const fn limits(&self) -> bool {
        self.usd.is_some() || self.tokens.is_some()
    }
}

/// An amount spent or to be spent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Cost {
    /// Tokens, input and output together.
    pub tokens: u64,
    /// Dollars, where prices are known.
    pub usd: f64,
    /// Whether a price was unknown, so that `usd` is only part of the cost.
    #[serde(default)]
    pub unpriced: bool,
}

impl Cost {
    /// Returns the cost of a reply, with a price if one is known.
    #[must_use]
    pub fn of(usage: Usage, price: Option<Price>) -> Self {
        Self {
            tokens: usage.input.saturating_add(usage.output),
            usd: price.map_or(0.0, |price| price.of(usage)),
            unpriced: price.is_none(),
        }
    }

    /// Returns an upper bound on the cost of a request, with a price if one is known.
    #[must_use]
    pub fn bound(input: u64, output: u64, price: Option<Price>) -> Self {
        Self {
            tokens: input.saturating_add(output),
            usd: price.map_or(0.0, |price| price.bound(input, output)),
            unpriced: false,
        }
    }

    /// Returns the greater tokens and the greater dollars of two costs.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.max(other.tokens),
            usd: self.usd.max(other.usd),
            unpriced: self.unpriced || other.unpriced,
        }
    }

    /// Returns the cost without a part, with a minimum of zero tokens and zero dollars.
    #[must_use]
    pub fn saturating_sub(self, part: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(part.tokens),
            usd: (self.usd - part.usd).max(0.0),
            unpriced: self.unpriced,
        }
    }

    /// Returns the dollars, or `None` if a price was unknown.
    #[must_use]
    pub fn known_usd(&self) -> Option<f64> {
        (!self.unpriced).then_some(self.usd)
    }
}

/// Rounds dollars for printing to ten decimal places, which hides the order of summation. Do not
/// add up the result.
#[must_use]
pub fn shown_usd(usd: f64) -> f64 {
    const PLACES: f64 = 1e10;
    let rounded = (usd * PLACES).round() / PLACES;
    // An amount too large for that many places stays as it is.
    if rounded.is_finite() { rounded } else { usd }
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.usd += other.usd;
        self.unpriced |= other.unpriced;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_holds_also_where_input_is_written_to_a_cache() {
        let price = Price { input: 3.0, cached: 0.3, cache_write: 3.75, output: 15.0 };
        let usage = Usage { input: 1000, cache_write: 1000, output: 100, ..Usage::default() };
        assert!(price.of(usage) > price.of(Usage { cache_write: 0, ..usage }));
        assert_eq!(price.of(usage), price.bound(1000, 100));
    }

    #[test]
    fn dollars_are_printed_without_the_noise_of_adding_them_up() {
        let shown = |usd: f64| serde_json::to_string(&shown_usd(usd)).unwrap();
        assert_eq!(shown(0.1 + 0.2), "0.3");
        assert_eq!(shown((0..1000).map(|_| 3e-7).sum()), "0.0003");
        assert_eq!(shown(1.5e-9), "1.5e-9");
        assert_eq!(shown(f64::MAX), "1.7976931348623157e+308");
    }
}
