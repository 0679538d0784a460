//! One budget, its spent part, and the reservations of agents.

use super::{Budget, Cost};

/// The part of a budget that one agent has reserved.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Reservation {
    /// Cost of the current or next request.
    pub request: Cost,
    /// Cost of the closing request, reserved until the agent ends.
    pub closing: Cost,
    /// Expected cost until the agent ends, including its next requests.
    pub rest: Cost,
    /// Whether the agent is at work. An agent that waits, for its children or for room in the
    /// budget, keeps its reservation while others wait for that.
    pub runs: bool,
}

impl Reservation {
    /// Returns the amount that no other agent may reserve.
    #[must_use]
    pub fn total(&self) -> Cost {
        let mut total = self.request;
        total += self.closing;
        total
    }

    /// Returns the reserved or the expected amount, whichever is greater.
    #[must_use]
    pub fn commitment(&self) -> Cost {
        self.total().max(self.rest)
    }

    /// Returns how much its commitment exceeds another one.
    #[must_use]
    pub fn commitment_beyond(&self, other: &Self) -> Cost {
        less(self.commitment(), other.commitment())
    }

    /// Returns the reservation of a working agent whose request was granted; `rest` is its expected
    /// cost from here on.
    #[must_use]
    pub const fn for_request(ask: &ReserveRequest, rest: Cost) -> Self {
        let ReserveRequest { request, closing, .. } = *ask;
        Self { request, closing, rest, runs: true }
    }

    /// Returns the reservation after a request that cost this much.
    #[must_use]
    pub fn settle(self, spent: Cost) -> Self {
        Self { request: NOTHING, rest: less(self.rest, spent), ..self }
    }

    /// Returns the reservation of an agent that waits because it needs more than expected.
    #[must_use]
    pub const fn wait(self) -> Self {
        Self { rest: NOTHING, runs: false, ..self }
    }

    /// Returns the reservation after part of its expected cost went to a child.
    #[must_use]
    pub fn lend(self, part: Cost) -> Self {
        Self { rest: less(self.rest, part), ..self }
    }
}

/// A request to reserve, made before a model request.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ReserveRequest {
    /// Cost of the request; zero if it is the closing one.
    pub request: Cost,
    /// Cost of the closing request after it.
    pub closing: Cost,
    /// For an agent that has not begun: expected cost until it ends.
    pub whole: Cost,
    /// Minimum that must remain for the agent beside the reservations of others, so that it is
    /// likely to make progress.
    pub least: Cost,
}

impl ReserveRequest {
    fn total(&self) -> Cost {
        let mut total = self.request;
        total += self.closing;
        total
    }

    fn commitment(&self) -> Cost {
        self.total().max(self.whole)
    }
}

/// How a request fits into a budget, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReserveResult {
    /// Fits beside everything that others reserve or are expected to need.
    Reserved,
    /// Fits beside what others reserve, and no other agent is at work.
    ReservedAlone,
    /// May fit once others have settled or ended.
    Wait,
    /// Does not fit.
    Refused,
}

/// A budget with its spent and reserved parts.
///
/// An agent reserves the cost of its next request and of a closing one; this part is never lent.
/// Its expected cost until it ends is counted too: while any agent is at work, others take nothing
/// of that either, so no more agents begin than are likely to end. An agent that needs more than
/// expected waits for those within their expectation. When no other agent is at work, only
/// reservations count.
///
/// ```
/// use deputize_core::budget::{Budget, BudgetAccount, Cost, Reservation, ReserveRequest, ReserveResult};
///
/// let mut account = BudgetAccount::new(Budget { tokens: Some(100), usd: None }, Cost::default());
/// let tokens = |tokens| Cost { tokens, ..Cost::default() };
/// let ask = ReserveRequest {
///     request: tokens(20),
///     closing: tokens(5),
///     whole: tokens(60),
///     least: tokens(30),
/// };
/// let none = Reservation::default();
/// assert_eq!(account.check(&none, &ask, &none), ReserveResult::Reserved);
/// let one = Reservation::for_request(&ask, ask.whole);
/// account.replace(&none, &one);
/// // The first agent is expected to need 60 of 100, so the second one waits.
/// assert_eq!(account.check(&none, &ask, &none), ReserveResult::Wait);
/// account.settle(tokens(20));
/// account.replace(&one, &none);
/// assert_eq!(account.check(&none, &ask, &none), ReserveResult::Reserved);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct BudgetAccount {
    budget: Budget,
    spent: Cost,
    /// Reserved for requests.
    requests: Cost,
    /// Reserved for closing requests.
    closings: Cost,
    /// Reserved for closing requests of agents that are not at work.
    idle_closings: Cost,
    /// Total that agents have reserved or are expected to need.
    committed: Cost,
    /// Number of agents at work.
    running: u32,
}

const NOTHING: Cost = Cost { tokens: 0, usd: 0.0, unpriced: false };
/// Anything less is a rounding error, in dollars.
const NO_DOLLARS: f64 = 1e-9;

impl BudgetAccount {
    /// Creates an account of which a part is already spent.
    #[must_use]
    pub const fn new(budget: Budget, spent: Cost) -> Self {
        Self {
            budget,
            spent,
            requests: NOTHING,
            closings: NOTHING,
            idle_closings: NOTHING,
            committed: NOTHING,
            running: 0,
        }
    }

    /// Checks whether an agent's request fits. The expected cost of its parent is available to its
    /// children too.
    #[must_use]
    pub fn check(
        &self,
        own: &Reservation,
        ask: &ReserveRequest,
        parent: &Reservation,
    ) -> ReserveResult {
        let held = ask.total();
        let idle = if own.runs { NOTHING } else { own.closing };
        if !self.fits(less(self.idle_closings, idle), held) {
            return ReserveResult::Refused;
        }
        let others = less(self.total(), own.total());
        let fits = self.fits(others, held.max(ask.least));
        let spare = less(parent.commitment(), parent.total());
        let expected = less(less(self.committed, own.commitment()), spare);
        let covered = covers(own.commitment(), ask.commitment());
        if fits && (covered || self.fits(expected, ask.commitment())) {
            return ReserveResult::Reserved;
        }
        if self.running > u32::from(own.runs) {
            return ReserveResult::Wait;
        }
        if fits {
            return ReserveResult::ReservedAlone;
        }
        let under_way = less(self.requests, own.request) != NOTHING;
        if under_way { ReserveResult::Wait } else { ReserveResult::Refused }
    }

    /// Adds to the spent amount.
    pub fn settle(&mut self, spent: Cost) {
        self.spent += spent;
    }

    /// Replaces the reservation of an agent.
    pub fn replace(&mut self, was: &Reservation, now: &Reservation) {
        let swap = |sum: &mut Cost, was: Cost, now: Cost| {
            *sum = less(*sum, was);
            *sum += now;
        };
        let idle = |it: &Reservation| if it.runs { NOTHING } else { it.closing };
        swap(&mut self.requests, was.request, now.request);
        swap(&mut self.closings, was.closing, now.closing);
        swap(&mut self.idle_closings, idle(was), idle(now));
        swap(&mut self.committed, was.commitment(), now.commitment());
        self.running = self.running.saturating_sub(u32::from(was.runs));
        self.running = self.running.saturating_add(u32::from(now.runs));
    }

    fn total(&self) -> Cost {
        let mut total = self.requests;
        total += self.closings;
        total
    }

    fn fits(&self, taken: Cost, wanted: Cost) -> bool {
        let tokens = [taken.tokens, wanted.tokens].into_iter();
        let tokens = tokens.fold(self.spent.tokens, u64::saturating_add);
        let usd = self.spent.usd + taken.usd + wanted.usd;
        self.budget.tokens.is_none_or(|most| tokens <= most)
            // A budget of zero allows no request, not even a free one.
            && self.budget.usd.is_none_or(|most| most > 0.0 && usd <= most + NO_DOLLARS)
    }

    /// Returns the amount reserved by other agents.
    #[must_use]
    pub fn reserved_by_others(&self, own: &Reservation) -> Cost {
        less(self.total(), own.total())
    }

    /// Returns the budget.
    #[must_use]
    pub const fn budget(&self) -> Budget {
        self.budget
    }

    /// Returns the amount spent.
    #[must_use]
    pub const fn spent(&self) -> Cost {
        self.spent
    }
}

/// Subtracts a part from a sum, and clears dollars left over by rounding.
fn less(sum: Cost, part: Cost) -> Cost {
    let tokens = sum.tokens.saturating_sub(part.tokens);
    let usd = if tokens == 0 { 0.0 } else { (sum.usd - part.usd).max(0.0) };
    Cost { tokens, usd, unpriced: false }
}

fn covers(all: Cost, part: Cost) -> bool {
    part.tokens <= all.tokens && part.usd <= all.usd
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::budget::Price;
    use crate::model::Usage;

    const fn tokens(tokens: u64) -> Cost {
        Cost { tokens, usd: 0.0, unpriced: false }
    }

    const NO_PARENT: Reservation =
        Reservation { request: NOTHING, closing: NOTHING, rest: NOTHING, runs: false };

    fn account(most: u64) -> BudgetAccount {
        BudgetAccount::new(Budget { tokens: Some(most), usd: None }, NOTHING)
    }

    fn ask(request: u64, closing: u64) -> ReserveRequest {
        ReserveRequest {
            request: tokens(request),
            closing: tokens(closing),
            ..ReserveRequest::default()
        }
    }

    fn new(request: u64, closing: u64, whole: u64, least: u64) -> ReserveRequest {
        ReserveRequest { whole: tokens(whole), least: tokens(least), ..ask(request, closing) }
    }

    fn begin(account: &mut BudgetAccount, ask: ReserveRequest) -> Reservation {
        let mut own = Reservation::default();
        assert_eq!(account.check(&own, &ask, &NO_PARENT), ReserveResult::Reserved);
        change(account, &mut own, Reservation::for_request(&ask, ask.whole));
        own
    }

    fn change(account: &mut BudgetAccount, own: &mut Reservation, now: Reservation) {
        account.replace(own, &now);
        *own = now;
    }

    fn settle(account: &mut BudgetAccount, own: &mut Reservation, spent: Cost) {
        account.settle(spent);
        change(account, own, own.settle(spent));
    }

    fn release(account: &mut BudgetAccount, own: &mut Reservation) {
        change(account, own, Reservation::default());
    }

    #[test]
    fn numbers_of_a_provider_that_are_no_numbers_break_nothing() {
        let usage = Usage { input: u64::MAX, cached: 7, output: u64::MAX, ..Usage::default() };
        let price = Price { input: 1.0, cached: 1.0, cache_write: 1.0, output: 1.0 };
        let cost = Cost::of(usage, Some(price));
        let budget = Budget { tokens: Some(9), usd: Some(1.0) };
        let mut account = BudgetAccount::new(budget, NOTHING);
        let own = Reservation::default();
        account.settle(cost);
        account.settle(cost);
        assert_eq!(account.spent().tokens, u64::MAX);
        let ask = ReserveRequest { request: cost, closing: cost, ..ReserveRequest::default() };
        assert_eq!(account.check(&own, &ask, &NO_PARENT), ReserveResult::Refused);
    }

    #[test]
    fn an_agent_begins_only_beside_those_that_are_expected_to_end() {
        let mut account = account(100);
        let task = new(10, 5, 40, 20);
        let mut one = begin(&mut account, task);
        let _two = begin(&mut account, task);
        let third = Reservation::default();
        assert_eq!(account.check(&third, &task, &NO_PARENT), ReserveResult::Wait);
        // The first ends and was cheaper than expected.
        settle(&mut account, &mut one, tokens(15));
        release(&mut account, &mut one);
        assert_eq!(account.check(&third, &task, &NO_PARENT), ReserveResult::Reserved);
    }

    #[test]
    fn the_last_one_begins_with_less_than_expected_but_not_with_next_to_nothing() {
        let mut account = account(100);
        let own = Reservation::default();
        account.settle(tokens(75));
        assert_eq!(
            account.check(&own, &new(10, 5, 40, 20), &NO_PARENT),
            ReserveResult::ReservedAlone
        );
        assert_eq!(account.check(&own, &new(10, 5, 40, 26), &NO_PARENT), ReserveResult::Refused);
        assert_eq!(account.check(&own, &new(20, 6, 40, 20), &NO_PARENT), ReserveResult::Refused);
    }

    #[test]
    fn one_that_needs_more_than_expected_waits_for_one_that_does_not() {
        let mut account = account(100);
        let mut one = begin(&mut account, new(30, 10, 50, 0));
        let mut two = begin(&mut account, new(30, 10, 50, 0));
        settle(&mut account, &mut one, tokens(30));
        settle(&mut account, &mut two, tokens(30));
        // 40 are left; the second one is expected to need 20 of them.
        assert_eq!(account.check(&one, &ask(15, 10), &NO_PARENT), ReserveResult::Wait);
        let now = one.wait();
        change(&mut account, &mut one, now);
        assert_eq!(account.check(&two, &ask(10, 10), &NO_PARENT), ReserveResult::Reserved);
        // Both need more: the last agent at work decides, and does not wait.
        assert_eq!(account.check(&two, &ask(21, 10), &NO_PARENT), ReserveResult::Refused);
        assert_eq!(account.check(&two, &ask(20, 10), &NO_PARENT), ReserveResult::Reserved);
        // It closes, and the remainder goes to the first one.
        change(&mut account, &mut two, Reservation::for_request(&ask(0, 10), NOTHING));
        settle(&mut account, &mut two, tokens(8));
        assert_eq!(account.check(&one, &ask(22, 10), &NO_PARENT), ReserveResult::Wait);
        release(&mut account, &mut two);
        assert_eq!(account.check(&one, &ask(22, 10), &NO_PARENT), ReserveResult::Reserved);
    }

    #[test]
    fn what_a_closing_request_needs_is_nobody_elses() {
        let mut account = account(100);
        let mut one = begin(&mut account, ask(20, 20));
        let mut two = begin(&mut account, ask(20, 20));
        // They cost more than estimated; their closing requests are still paid.
        settle(&mut account, &mut one, tokens(35));
        settle(&mut account, &mut two, tokens(25));
        let now = two.wait();
        change(&mut account, &mut two, now);
        assert_eq!(account.check(&one, &ask(1, 20), &NO_PARENT), ReserveResult::Refused);
        assert_eq!(account.check(&one, &ask(0, 20), &NO_PARENT), ReserveResult::Reserved);
    }

    #[test]
    fn a_child_takes_of_what_its_parent_is_expected_to_need() {
        let mut account = account(100);
        let parent = begin(&mut account, new(10, 10, 90, 0));
        let child = Reservation::default();
        let task = new(20, 10, 50, 0);
        assert_eq!(account.check(&child, &task, &NO_PARENT), ReserveResult::Wait);
        assert_eq!(account.check(&child, &task, &parent), ReserveResult::Reserved);
    }

    #[test]
    fn nobody_waits_for_one_that_waits_itself() {
        let mut account = account(100);
        let mut parent = begin(&mut account, new(0, 50, 90, 0));
        let now = Reservation { runs: false, ..parent };
        change(&mut account, &mut parent, now);
        let child = Reservation::default();
        let result = |ask| account.check(&child, &ask, &NO_PARENT);
        assert_eq!(result(new(40, 20, 60, 0)), ReserveResult::Refused, "its parent has the rest");
        assert_eq!(result(new(30, 20, 60, 0)), ReserveResult::ReservedAlone);
    }

    #[derive(Debug, Clone)]
    struct TestRequest {
        agent: usize,
        request: (u64, f64),
        closing: (u64, f64),
        whole: (u64, f64),
        used: u64,
    }

    fn acts() -> impl Strategy<Value = Vec<TestRequest>> {
        let cost = |most: u64| (1..most, 0.0..0.001 * most as f64);
        let act = (0_usize..5, cost(2_000), cost(500), cost(5_000), 0_u64..=100);
        let act = act.prop_map(|(agent, request, closing, whole, used)| TestRequest {
            agent,
            request,
            closing,
            whole,
            used,
        });
        proptest::collection::vec(act, 1..80)
    }

    proptest! {
        /// Agents that spend no more than they reserved stay within the budget together, and each
        /// agent that has begun can always pay its closing request.
        #[test]
        fn nobody_spends_more_than_there_is(
            most in 1_u64..20_000,
            usd in 0.01_f64..20.0,
            acts in acts(),
        ) {
            let budget = Budget { tokens: Some(most), usd: Some(usd) };
            let mut account = BudgetAccount::new(budget, NOTHING);
            let mut all = [Reservation::default(); 5];
            for act in acts {
                let cost = |(tokens, usd)| Cost { tokens, usd, unpriced: false };
                let [request, closing, whole] = [act.request, act.closing, act.whole].map(cost);
                let own = &mut all[act.agent];
                let begun = own.closing != NOTHING;
                if own.request != NOTHING {
                    let share = act.used as f64 / 100.0;
                    let Cost { tokens, usd, .. } = own.request;
                    let spent = Cost {
                        tokens: tokens * act.used / 100,
                        usd: usd * share,
                        unpriced: false,
                    };
                    settle(&mut account, own, spent);
                    continue;
                }
                let whole = if begun { NOTHING } else { whole };
                let ask = ReserveRequest { request, closing, whole, least: NOTHING };
                match account.check(own, &ask, &NO_PARENT) {
                    ReserveResult::Reserved => {
                        let rest = if begun { own.rest } else { whole };
                        change(&mut account, own, Reservation::for_request(&ask, rest));
                    }
                    ReserveResult::ReservedAlone => {
                        change(&mut account, own, Reservation::for_request(&ask, NOTHING));
                    }
                    ReserveResult::Wait => {
                        let now = own.wait();
                        change(&mut account, own, now);
                    }
                    ReserveResult::Refused if begun => {
                        let now = Reservation { runs: true, ..*own };
                        change(&mut account, own, now);
                        let closing = ReserveRequest { closing: own.closing, ..ReserveRequest::default() };
                        prop_assert_eq!(
                            account.check(own, &closing, &NO_PARENT),
                            ReserveResult::Reserved
                        );
                        settle(&mut account, own, closing.closing);
                        release(&mut account, own);
                    }
                    ReserveResult::Refused => {}
                }
            }
            let spent = account.spent();
            prop_assert!(spent.tokens <= most && spent.usd <= usd + 1e-8);
            all.iter_mut().for_each(|own| release(&mut account, own));
            prop_assert_eq!((account.running, account.committed.tokens), (0, 0));
        }

        /// No waiting agent waits for another waiting one: with no agent at work, each request is
        /// granted or refused.
        #[test]
        fn with_nobody_at_work_nobody_waits(
            most in 1_u64..20_000,
            closings in proptest::collection::vec(0_u64..500, 1..6),
            request in 1_u64..3_000,
            closing in 1_u64..500,
            whole in 0_u64..9_000,
        ) {
            let mut account = account(most);
            for closing in closings {
                let now = Reservation { closing: tokens(closing), ..Reservation::default() };
                account.replace(&Reservation::default(), &now);
            }
            let ask = new(request, closing, whole, 0);
            let result = account.check(&Reservation::default(), &ask, &NO_PARENT);
            prop_assert_ne!(result, ReserveResult::Wait);
        }
    }
}
