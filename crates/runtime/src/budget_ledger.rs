//! The budget that a session's agents share, and the requests that wait for room in it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use deputize_core::agent::AgentSpec;
use deputize_core::budget::{
    BudgetAccount, Cost, Reservation, ReserveRequest, ReserveResult, TaskCost,
};
use deputize_core::model::Usage;
use deputize_core::run::BudgetUnit;
use deputize_core::{AgentId, CallId, Cancel};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::budget_shortage::{BudgetShortage, shortage};
use crate::budgets::Budgets;
use crate::cost_history::{CostEstimates, CostHistory, RouteKey};

/// The budgets of a session and what its costs were until now: everyone pays from the first account,
/// children from the second one as well.
pub(crate) struct BudgetLedger {
    state: Mutex<LedgerState>,
}

/// Cost of a session.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SessionCosts {
    pub(crate) all: Cost,
    /// The children's part of it.
    pub(crate) by_children: Cost,
}

struct LedgerState {
    session: BudgetAccount,
    children: BudgetAccount,
    agents: BTreeMap<AgentId, SpendingAgent>,
    history: CostHistory,
    /// Who waits for room: agents that have begun before those that have not, each in the order
    /// they came.
    waiting: BTreeMap<QueuePosition, Arc<Notify>>,
    next_number: u64,
}

/// A place among those who wait: whether the agent is new, and its number. A new one has the number
/// at which its budget was opened.
type QueuePosition = (bool, u64);

/// An agent that may spend.
#[derive(Debug, Default)]
struct SpendingAgent {
    reservation: Reservation,
    parent: Option<AgentId>,
    /// Whether it is a child, which pays from both accounts.
    child: bool,
    /// The spent part.
    spent: Cost,
    /// Peak of what was spent and reserved together.
    peak: Cost,
    /// Its number among those whose budgets were opened.
    number: u64,
    /// The call that it is a task of, if it is new and was neither granted nor refused room yet.
    starts: Option<CallId>,
    /// Whether it had room for a request.
    begun: bool,
    /// Whether it waits for room.
    waits: bool,
    /// Number of its children; while there are any, it may wait for them.
    children: u32,
}

impl SpendingAgent {
    const fn runs(&self) -> bool {
        self.begun && !self.waits && self.children == 0
    }
}

/// A request with one output limit, and what it costs at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SizedRequest {
    pub(crate) output: u32,
    pub(crate) ask: ReserveRequest,
}

/// Result of a request for room.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ReserveOutcome {
    /// This request is reserved.
    Granted(SizedRequest),
    /// Not even this one fits.
    Refused(ReserveRequest),
    /// The wait was cancelled.
    Cancelled,
}

/// The budget as one agent has it. Dropping it gives back what the agent has reserved.
pub(crate) struct AgentBudget {
    ledger: Arc<BudgetLedger>,
    agent: AgentId,
    parent: Option<AgentId>,
}

impl fmt::Debug for AgentBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgentBudget({})", self.agent)
    }
}

impl BudgetLedger {
    /// Returns a ledger of budgets of which something is spent already.
    pub(crate) fn new(budgets: Budgets, spent: SessionCosts, history: CostHistory) -> Self {
        let state = LedgerState {
            session: BudgetAccount::new(budgets.session, spent.all),
            children: BudgetAccount::new(budgets.children, spent.by_children),
            agents: BTreeMap::new(),
            history,
            waiting: BTreeMap::new(),
            next_number: 0,
        };
        Self { state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, LedgerState> {
        self.state.lock()
    }

    /// Opens the budget for an agent, which is new or was resumed.
    pub(crate) fn open(self: &Arc<Self>, spec: &AgentSpec, is_new: bool) -> AgentBudget {
        let mut state = self.lock();
        let entry = SpendingAgent {
            parent: spec.parent.clone(),
            child: spec.depth > 0,
            number: state.take_number(),
            starts: spec.spawned_by.as_ref().filter(|_| is_new).map(|by| by.call),
            ..SpendingAgent::default()
        };
        state.agents.insert(spec.id.clone(), entry);
        if let Some(parent) = &spec.parent {
            state.update(parent, |entry| entry.children = entry.children.saturating_add(1));
        }
        state.wake();
        drop(state);
        AgentBudget {
            ledger: Arc::clone(self),
            agent: spec.id.clone(),
            parent: spec.parent.clone(),
        }
    }

    /// Takes a reply of a route, to the top agent or a child, to a request of so many bytes.
    pub(crate) fn learn(&self, route: RouteKey<'_>, bytes: u64, usage: Usage) {
        self.lock().history.record_reply(route, bytes, usage);
    }
}

impl LedgerState {
    fn take_number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number = number.saturating_add(1);
        number
    }

    /// Returns whether a task before this one in its call has not asked for room yet. Their slots
    /// are given in their order, so it has one and is about to ask.
    fn is_before_its_turn(&self, own: &SpendingAgent) -> bool {
        let same_call = |it: &SpendingAgent| it.starts.is_some() && it.starts == own.starts;
        let earlier = |it: &SpendingAgent| it.number < own.number && it.parent == own.parent;
        self.agents.values().any(|it| earlier(it) && same_call(it))
    }

    /// Changes an agent's entry, and in the accounts whether the agent runs.
    fn update(&mut self, agent: &AgentId, change: impl FnOnce(&mut SpendingAgent)) {
        let Some(entry) = self.agents.get_mut(agent) else { return };
        let was = entry.reservation;
        change(entry);
        entry.reservation.runs = entry.runs();
        let now = entry.reservation;
        let child = entry.child;
        self.session.replace(&was, &now);
        if child {
            self.children.replace(&was, &now);
        }
    }

    fn reservation(&self, agent: Option<&AgentId>, of_children: bool) -> Reservation {
        let entry = agent.and_then(|agent| self.agents.get(agent));
        let entry = entry.filter(|entry| entry.child || !of_children);
        entry.map(|entry| entry.reservation).unwrap_or_default()
    }

    fn check(&self, agent: &AgentId, ask: &ReserveRequest) -> ReserveResult {
        let Some(entry) = self.agents.get(agent) else { return ReserveResult::Refused };
        let own = &entry.reservation;
        let parent = entry.parent.as_ref();
        let result = self.session.check(own, ask, &self.reservation(parent, false));
        if !entry.child {
            return result;
        }
        result.max(self.children.check(own, ask, &self.reservation(parent, true)))
    }

    fn estimate(&self, agent: &AgentId, route: &str) -> CostEstimates {
        let Some(entry) = self.agents.get(agent) else { return CostEstimates::default() };
        let route = RouteKey { name: route, is_child: entry.child };
        self.history.estimate(entry.parent.as_ref(), route)
    }

    /// Reserves a request that fits. What it takes of its parent's expectation is its own now.
    fn grant(&mut self, agent: &AgentId, ask: &ReserveRequest, result: ReserveResult) {
        let Some(entry) = self.agents.get(agent) else { return };
        let own = entry.reservation;
        let parent = entry.parent.clone();
        let rest = match result {
            ReserveResult::Reserved if entry.begun => own.rest,
            ReserveResult::Reserved => ask.whole,
            _ => Cost::default(),
        };
        let now = Reservation::for_request(ask, rest);
        self.update(agent, |entry| {
            (entry.begun, entry.waits, entry.starts) = (true, false, None);
            entry.reservation = now;
            let mut taken = entry.spent;
            taken += now.total();
            entry.peak = entry.peak.max(taken);
        });
        if let Some(parent) = parent {
            let more = now.commitment_beyond(&own);
            self.update(&parent, |entry| entry.reservation = entry.reservation.lend(more));
        }
    }

    /// Lets the first of those who wait look again. Whoever leaves wakes the next one.
    fn wake(&self) {
        if let Some((_, waiter)) = self.waiting.first_key_value() {
            waiter.notify_one();
        }
    }

    /// Reserves the first of some requests that does not have to be refused, or puts the agent
    /// among those who wait.
    fn reserve(
        &mut self,
        waiter: &mut Waiter<'_>,
        route: &str,
        sizes: &dyn Fn(CostEstimates) -> Vec<SizedRequest>,
    ) -> Option<ReserveOutcome> {
        let agent = waiter.agent;
        let Some(entry) = self.agents.get(agent) else { return Some(ReserveOutcome::Cancelled) };
        let new = !entry.begun;
        let number = entry.number;
        let out_of_turn = new && self.is_before_its_turn(entry);
        let first = self.waiting.first_key_value().map(|(ticket, _)| *ticket);
        let mut result = ReserveResult::Refused;
        let mut refused = ReserveRequest::default();
        if out_of_turn || (new && first.is_some_and(|first| first < (new, number))) {
            result = ReserveResult::Wait;
        } else {
            for size in sizes(self.estimate(agent, route)) {
                let whole = if new { size.ask.whole } else { Cost::default() };
                let ask = &ReserveRequest { whole, ..size.ask };
                if ask.closing != Cost::default() {
                    refused = *ask;
                }
                result = self.check(agent, ask);
                match result {
                    ReserveResult::Reserved | ReserveResult::ReservedAlone => {
                        self.grant(agent, ask, result);
                        self.leave(waiter);
                        return Some(ReserveOutcome::Granted(size));
                    }
                    // A closing answer may as well be shorter.
                    ReserveResult::Wait if ask.request != Cost::default() => break,
                    ReserveResult::Wait | ReserveResult::Refused => {}
                }
            }
        }
        if result == ReserveResult::Refused {
            if let Some(entry) = self.agents.get_mut(agent) {
                entry.starts = None;
            }
            self.leave(waiter);
            return Some(ReserveOutcome::Refused(refused));
        }
        if waiter.ticket.is_none() {
            let ticket = (new, if new { number } else { self.take_number() });
            self.waiting.insert(ticket, Arc::clone(&waiter.notify));
            waiter.ticket = Some(ticket);
            self.update(agent, |entry| {
                entry.waits = true;
                entry.reservation = entry.reservation.wait();
            });
            // One fewer is at work, which may decide the case of another one.
            if first.is_some_and(|first| first < ticket) {
                self.wake();
            }
        }
        None
    }

    /// Takes an agent from those who wait.
    fn leave(&mut self, waiter: &mut Waiter<'_>) {
        if let Some(ticket) = waiter.ticket.take() {
            self.waiting.remove(&ticket);
            self.update(waiter.agent, |entry| entry.waits = false);
        }
        self.wake();
    }
}

/// An agent that may have to wait for room. Dropping it takes it from those who wait.
struct Waiter<'a> {
    ledger: &'a BudgetLedger,
    agent: &'a AgentId,
    notify: Arc<Notify>,
    ticket: Option<QueuePosition>,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if self.ticket.is_some() {
            self.ledger.lock().leave(self);
        }
    }
}

impl AgentBudget {
    /// Reserves the first of some requests to a route that does not have to be refused, and waits
    /// as long as it may fit later. What they cost follows from what is known by then.
    pub(crate) async fn reserve(
        &self,
        route: &str,
        sizes: &(dyn Fn(CostEstimates) -> Vec<SizedRequest> + Sync),
        cancel: &Cancel,
    ) -> ReserveOutcome {
        let mut waiter = Waiter {
            ledger: &self.ledger,
            agent: &self.agent,
            notify: Arc::new(Notify::new()),
            ticket: None,
        };
        loop {
            let done = self.ledger.lock().reserve(&mut waiter, route, sizes);
            if let Some(done) = done {
                return done;
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => return ReserveOutcome::Cancelled,
                () = waiter.notify.notified() => {}
            }
        }
    }

    /// Takes what a request cost, and gives back what was reserved for it. What its closing request
    /// needs is known better now: it is reserved if it fits, and else what was reserved stays.
    pub(crate) fn settle(&self, spent: Cost, closing: Option<Cost>) {
        let mut state = self.ledger.lock();
        state.session.settle(spent);
        if state.agents.get(&self.agent).is_some_and(|entry| entry.child) {
            state.children.settle(spent);
        }
        state.update(&self.agent, |entry| {
            entry.spent += spent;
            entry.reservation = entry.reservation.settle(spent);
        });
        if let Some(closing) = closing {
            let ask = ReserveRequest { closing, ..ReserveRequest::default() };
            if state.check(&self.agent, &ask) == ReserveResult::Reserved {
                state.update(&self.agent, |entry| entry.reservation.closing = closing);
            }
        }
        state.wake();
    }

    /// Closes the account of a task that has ended. What was done below it cost so much.
    pub(crate) fn close(self, below: Cost, completed: bool) {
        let mut state = self.ledger.lock();
        let entry = state.agents.get(&self.agent);
        let (mut spent, mut peak) = entry.map(|it| (it.spent, it.peak)).unwrap_or_default();
        spent += below;
        peak += below;
        if let Some(parent) = self.parent.as_ref().filter(|_| spent.tokens > 0) {
            state.history.record_end(parent, TaskCost { spent, peak, completed });
        }
    }

    /// Explains to a person which budget a request does not fit into: in tokens where tokens are
    /// the limit, in dollars where dollars are.
    pub(crate) fn explain(&self, ask: &ReserveRequest) -> BudgetShortage {
        let state = self.ledger.lock();
        let own = state.reservation(Some(&self.agent), false);
        let mut accounts = vec![("the session's budget", &state.session)];
        if state.agents.get(&self.agent).is_some_and(|entry| entry.child) {
            accounts.push(("the children's budget", &state.children));
        }
        let shortages = accounts.into_iter().flat_map(|(name, account)| {
            shortage(name, account, account.reserved_by_others(&own), ask)
        });
        let (units, figures): (Vec<_>, Vec<_>) = shortages.unzip();
        let mut of: Vec<BudgetUnit> = Vec::new();
        for unit in units {
            // Both accounts may lack the same.
            if !of.contains(&unit) {
                of.push(unit);
            }
        }
        BudgetShortage { of, figures: figures.join("; ") }
    }
}

impl Drop for AgentBudget {
    fn drop(&mut self) {
        let mut state = self.ledger.lock();
        state.update(&self.agent, |entry| {
            *entry = SpendingAgent {
                parent: entry.parent.take(),
                child: entry.child,
                ..SpendingAgent::default()
            }
        });
        state.agents.remove(&self.agent);
        if let Some(parent) = &self.parent {
            state.update(parent, |entry| entry.children = entry.children.saturating_sub(1));
        }
        state.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use deputize_core::SessionId;
    use deputize_core::agent::SpawnedBy;
    use deputize_core::budget::Budget;
    use futures_util::FutureExt as _;

    use super::*;
    use crate::session::top_agent;

    fn tokens(tokens: u64) -> Cost {
        Cost { tokens, ..Cost::default() }
    }

    /// A task of the first call of the top agent.
    fn task(top: &AgentSpec, task_index: u32) -> AgentSpec {
        let call = CallId::new(1, 0);
        AgentSpec {
            id: top.id.child(call, task_index),
            parent: Some(top.id.clone()),
            depth: 1,
            spawned_by: Some(SpawnedBy { call, task_index, task_count: 2 }),
            ..top.clone()
        }
    }

    #[tokio::test]
    async fn tasks_of_a_call_take_room_in_their_order_whoever_asks_first() {
        let session = Budget { tokens: Some(100), usd: None };
        let budgets = Budgets { session, children: Budget::default() };
        let spent = SessionCosts::default();
        let ledger = Arc::new(BudgetLedger::new(budgets, spent, CostHistory::default()));
        let top = top_agent(&SessionId::literal("s"), "m", "go", Path::new("/"));
        let _top = ledger.open(&top, true);
        let [first, second] = [0, 1].map(|index| ledger.open(&task(&top, index), true));
        let sizes = |_: CostEstimates| {
            let ask = ReserveRequest { request: tokens(60), ..ReserveRequest::default() };
            vec![SizedRequest { output: 10, ask }]
        };
        let cancel = Cancel::new();
        let mut early = Box::pin(second.reserve("m", &sizes, &cancel));
        assert!(early.as_mut().now_or_never().is_none());
        let granted = first.reserve("m", &sizes, &cancel).await;
        assert!(matches!(granted, ReserveOutcome::Granted(_)), "{granted:?}");
        assert!(early.as_mut().now_or_never().is_none(), "there is room for one");
        first.settle(tokens(30), None);
        first.close(Cost::default(), true);
        assert!(matches!(early.await, ReserveOutcome::Granted(_)));
    }
}
