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

/// Dollars as they are printed: to ten places, so that a sum shows nothing of how it was added
/// up. It is never added up itself.
#[must_use]
pub fn shown_usd(usd: f64) -> f64 {
    const PLACES: f64 = 1e10;
    let rounded = (usd * PLACES).round() / PLACES;
    // So much that it has no such places is as it is.
    if rounded.is_finite() { rounded } else { usd }
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.usd += other.usd;
        self.unpriced |= other.unpriced;
    }
}

/// What one agent has set aside of a purse.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Claim {
    /// For a request that may be followed by others.
    pub request: Cost,
    /// For the closing request: it stays until the agent ends.
    pub closing: Cost,
    /// Whether its agent had room for a request: until then it waits for others to end.
    pub begun: bool,
    /// Whether its agent may have to wait for agents that it started.
    pub parent: bool,
}

impl Claim {
    /// Whether its agent may wait for others to end, so that they must not wait for its end.
    const fn waits(&self) -> bool {
        self.parent || !self.begun
    }

    fn total(&self) -> Cost {
        let mut total = self.request;
        total += self.closing;
        total
    }
}

/// A budget and what became of it.
///
/// ```
/// use deputize_core::{Budget, Claim, Cost, Fit, Purse};
///
/// let mut purse = Purse::new(Budget { tokens: Some(100), usd: None }, Cost::default());
/// let tokens = |tokens| Cost { tokens, ..Cost::default() };
/// let (mut one, mut other) = (Claim::default(), Claim::default());
/// assert_eq!(purse.reserve(&mut one, tokens(60), tokens(10)), Fit::Reserved);
/// // What is set aside may come back, so the other one waits.
/// assert_eq!(purse.reserve(&mut other, tokens(40), tokens(10)), Fit::Later);
/// purse.pay(&mut one, tokens(45));
/// assert_eq!(purse.reserve(&mut other, tokens(30), tokens(10)), Fit::Reserved);
/// purse.pay(&mut other, tokens(25));
/// // Each has what its closing request needs, whatever the others do.
/// assert_eq!(purse.reserve(&mut one, tokens(20), tokens(10)), Fit::Never);
/// assert_eq!(purse.reserve(&mut one, tokens(0), tokens(10)), Fit::Reserved);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Purse {
    budget: Budget,
    spent: Cost,
    /// For requests that are under way: it comes back with their replies.
    requests: Cost,
    /// For closing requests: it comes back when their agents end.
    closings: Cost,
    /// Of that, what agents have that may wait for others to end.
    closings_of_waiting: Cost,
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

const NOTHING: Cost = Cost { tokens: 0, usd: 0.0, unpriced: false };
/// Less than that is a matter of rounding.
const NO_DOLLARS: f64 = 1e-9;

impl Purse {
    /// A purse of which something is spent already.
    #[must_use]
    pub const fn new(budget: Budget, spent: Cost) -> Self {
        let (requests, closings) = (NOTHING, NOTHING);
        Self { budget, spent, requests, closings, closings_of_waiting: NOTHING }
    }

    /// Sets aside, in place of what the agent had, what its next request may cost and what the
    /// closing one would after it. The closing request itself costs nothing but that.
    pub fn reserve(&mut self, own: &mut Claim, request: Cost, closing: Cost) -> Fit {
        let fit = self.fit(own, request, closing);
        if fit == Fit::Reserved {
            self.change(own, Claim { request, closing, begun: true, ..*own });
        }
        fit
    }

    /// Sets aside what a closing request would cost for an agent that finds no room to begin, if
    /// that fits, so that those who have begun leave it as much.
    pub fn hold(&mut self, own: &mut Claim, closing: Cost) {
        if !own.begun && self.fit(own, NOTHING, closing) == Fit::Reserved {
            self.change(own, Claim { closing, ..*own });
        }
    }

    /// Whether that would fit now.
    #[must_use]
    pub fn fit(&self, own: &Claim, request: Cost, closing: Cost) -> Fit {
        let wanted = Claim { request, closing, ..*own }.total();
        let had = own.total();
        if wanted.tokens <= had.tokens && wanted.usd <= had.usd {
            return Fit::Reserved;
        }
        let mut taken = self.requests;
        taken += self.closings;
        if self.within(less(taken, had), wanted) {
            return Fit::Reserved;
        }
        if self.within(self.stays(own), wanted) { Fit::Later } else { Fit::Never }
    }

    /// What others have set aside that does not come back as long as this agent waits. Whoever
    /// has begun waits for nobody's end, and nobody for the end of one that waits: two could wait
    /// for each other.
    #[must_use]
    pub fn stays(&self, own: &Claim) -> Cost {
        let closings = if own.begun { self.closings } else { self.closings_of_waiting };
        less(closings, own.closing)
    }

    fn within(&self, taken: Cost, wanted: Cost) -> bool {
        let tokens = [taken.tokens, wanted.tokens].into_iter();
        let tokens = tokens.fold(self.spent.tokens, u64::saturating_add);
        let usd = self.spent.usd + taken.usd + wanted.usd;
        self.budget.tokens.is_none_or(|most| tokens <= most)
            // Of nothing nothing is asked, also where it would cost nothing.
            && self.budget.usd.is_none_or(|most| most > 0.0 && usd <= most + NO_DOLLARS)
    }

    /// Takes what a request really cost, and gives back what was set aside for it. What is set
    /// aside for the closing one stays.
    pub fn pay(&mut self, own: &mut Claim, spent: Cost) {
        self.change(own, Claim { request: NOTHING, ..*own });
        self.spent += spent;
    }

    /// Gives back all that an agent had set aside.
    pub fn release(&mut self, own: &mut Claim) {
        self.change(own, Claim { request: NOTHING, closing: NOTHING, ..*own });
    }

    fn change(&mut self, own: &mut Claim, now: Claim) {
        self.requests = less(self.requests, own.request);
        self.requests += now.request;
        self.closings = less(self.closings, own.closing);
        self.closings += now.closing;
        if own.waits() {
            self.closings_of_waiting = less(self.closings_of_waiting, own.closing);
        }
        if now.waits() {
            self.closings_of_waiting += now.closing;
        }
        *own = now;
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

/// A sum without one of its parts. What rounding left must not stay for ever.
fn less(sum: Cost, part: Cost) -> Cost {
    let tokens = sum.tokens.saturating_sub(part.tokens);
    let usd = if tokens == 0 { 0.0 } else { (sum.usd - part.usd).max(0.0) };
    Cost { tokens, usd, unpriced: false }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dollars_are_printed_without_the_noise_of_adding_them_up() {
        let shown = |usd: f64| serde_json::to_string(&shown_usd(usd)).unwrap();
        assert_eq!(shown(0.1 + 0.2), "0.3");
        assert_eq!(shown((0..1000).map(|_| 3e-7).sum()), "0.0003");
        assert_eq!(shown(1.5e-9), "1.5e-9");
        assert_eq!(shown(f64::MAX), "1.7976931348623157e+308");
    }

    #[test]
    fn numbers_of_a_provider_that_are_no_numbers_break_nothing() {
        let usage = Usage { input: u64::MAX, cached: 7, output: u64::MAX, ..Usage::default() };
        let cost =
            Cost::of(usage, Some(Price { input: 1.0, cached: 1.0, cache_write: 1.0, output: 1.0 }));
        let mut purse = Purse::new(Budget { tokens: Some(9), usd: Some(1.0) }, Cost::default());
        let mut claim = Claim::default();
        purse.pay(&mut claim, cost);
        purse.pay(&mut claim, cost);
        assert_eq!(purse.spent().tokens, u64::MAX);
        assert_eq!(purse.fit(&claim, cost, cost), Fit::Never);
    }

    const fn tokens(tokens: u64) -> Cost {
        Cost { tokens, usd: 0.0, unpriced: false }
    }

    fn purse(most: u64) -> Purse {
        Purse::new(Budget { tokens: Some(most), usd: None }, Cost::default())
    }

    #[test]
    fn what_a_closing_request_needs_is_nobody_elses() {
        let mut purse = purse(100);
        let mut claims = [Claim::default(); 3];
        for claim in &mut claims[..2] {
            assert_eq!(purse.reserve(claim, tokens(20), tokens(20)), Fit::Reserved);
        }
        // It may come back, when they end.
        assert_eq!(purse.reserve(&mut claims[2], tokens(20), tokens(20)), Fit::Later);
        // They cost more than was thought: their closing requests are paid all the same.
        for claim in &mut claims[..2] {
            purse.pay(claim, tokens(35));
        }
        for claim in &mut claims[..2] {
            assert_eq!(purse.reserve(claim, tokens(20), tokens(20)), Fit::Never);
            assert_eq!(purse.reserve(claim, tokens(0), tokens(19)), Fit::Reserved);
        }
        claims[..2].iter_mut().for_each(|claim| purse.release(claim));
        assert_eq!(purse.reserve(&mut claims[2], tokens(20), tokens(20)), Fit::Never);
        assert_eq!(purse.reserve(&mut claims[2], tokens(0), tokens(20)), Fit::Reserved);
    }

    #[test]
    fn nobody_waits_for_an_end_that_waits_for_it() {
        let mut purse = purse(100);
        let (mut parent, mut leaf) = (Claim { parent: true, ..Claim::default() }, Claim::default());
        assert_eq!(purse.reserve(&mut parent, tokens(0), tokens(50)), Fit::Reserved);
        let new = Claim::default();
        assert_eq!(purse.fit(&new, tokens(40), tokens(20)), Fit::Never, "its parent has the rest");
        assert_eq!(purse.reserve(&mut leaf, tokens(20), tokens(20)), Fit::Reserved);
        assert_eq!(purse.fit(&new, tokens(20), tokens(20)), Fit::Later, "a leaf ends");
        purse.pay(&mut leaf, tokens(10));
        assert_eq!(purse.fit(&new, tokens(10), tokens(20)), Fit::Later, "it still may");
        // Two that have begun do not wait for each other's end.
        assert_eq!(purse.fit(&leaf, tokens(20), tokens(30)), Fit::Never);
    }

    #[test]
    fn one_that_finds_no_room_to_begin_is_left_a_closing_request() {
        let mut purse = purse(100);
        let (mut one, mut new, mut other) = (Claim::default(), Claim::default(), Claim::default());
        assert_eq!(purse.reserve(&mut one, tokens(40), tokens(20)), Fit::Reserved);
        assert_eq!(purse.reserve(&mut new, tokens(40), tokens(20)), Fit::Later);
        purse.hold(&mut new, tokens(30));
        purse.hold(&mut other, tokens(30));
        assert_eq!(
            (new.closing, other.closing),
            (tokens(30), tokens(0)),
            "as long as there is room"
        );
        purse.pay(&mut one, tokens(30));
        // The first one leaves it that, closes and ends.
        assert_eq!(purse.reserve(&mut one, tokens(40), tokens(20)), Fit::Never);
        purse.pay(&mut one, tokens(20));
        purse.release(&mut one);
        purse.hold(&mut other, tokens(10));
        // Of two that wait none waits for the other.
        assert_eq!(purse.fit(&new, tokens(40), tokens(20)), Fit::Never);
        assert_eq!(purse.reserve(&mut new, tokens(0), tokens(30)), Fit::Reserved);
        purse.pay(&mut new, tokens(30));
        purse.release(&mut new);
        assert_eq!(purse.reserve(&mut other, tokens(0), tokens(10)), Fit::Reserved);
        assert_eq!(purse.closings_of_waiting, NOTHING);
    }

    proptest! {
        /// Whoever spends no more than it reserved keeps everyone within the budget, and has a
        /// closing request at every moment.
        #[test]
        fn nobody_spends_more_than_there_is(
            tokens in 1_u64..10_000,
            usd in 0.01_f64..10.0,
            asks in proptest::collection::vec(
                (0_usize..5, (1_u64..2_000, 0.0_f64..2.0), (1_u64..500, 0.0_f64..0.5), 0_u64..=100),
                1..60,
            ),
        ) {
            let budget = Budget { tokens: Some(tokens), usd: Some(usd) };
            let mut purse = Purse::new(budget, Cost::default());
            let mut claims = [Claim::default(); 5];
            claims[0].parent = true;
            for (who, request, closing, used) in asks {
                let [request, closing] =
                    [request, closing].map(|(tokens, usd)| Cost { tokens, usd, unpriced: false });
                let own = &mut claims[who];
                if own.request != NOTHING {
                    let share = f64::from(u32::try_from(used).unwrap()) / 100.0;
                    let Cost { tokens, usd, .. } = own.request;
                    let spent = Cost { tokens: tokens * used / 100, usd: usd * share, unpriced: false };
                    purse.pay(own, spent);
                } else if used < 20 {
                    purse.hold(own, closing);
                } else if purse.reserve(own, request, closing) == Fit::Never {
                    let held = own.closing;
                    prop_assert_eq!(purse.reserve(own, NOTHING, held), Fit::Reserved);
                    purse.pay(own, held);
                    purse.release(own);
                }
            }
            let spent = purse.spent();
            prop_assert!(spent.tokens <= tokens && spent.usd <= usd + 1e-8);
            claims.iter_mut().for_each(|claim| purse.release(claim));
            let left = Cost {
                tokens: tokens - spent.tokens,
                usd: (usd - spent.usd - 1e-6).max(0.0),
                unpriced: false,
            };
            prop_assert_eq!(purse.fit(&Claim::default(), left, Cost::default()), Fit::Reserved);
        }
    }
}
