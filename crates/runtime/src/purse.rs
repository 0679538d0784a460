//! What the agents of a session may spend together.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deputize_core::{Budget, Cancel, Cost, Fit, Purse};
use tokio::sync::Notify;

/// The purses of a session: everyone pays from the first, children from the second as well.
pub(crate) struct Purses {
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    session: Purse,
    children: Purse,
}

/// What is set aside for one request. Dropping it gives all of it back.
pub(crate) struct Reserved {
    purses: Arc<Purses>,
    cost: Cost,
    child: bool,
}

impl fmt::Debug for Reserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reserved({:?})", self.cost)
    }
}

impl Purses {
    /// Purses of which something is spent already, by all and by children.
    pub(crate) fn new(budgets: Budgets, all: Cost, by_children: Cost) -> Self {
        let state = State {
            session: Purse::new(budgets.session, all),
            children: Purse::new(budgets.children, by_children),
        };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets a cost aside when it and `after` fit; waits while what others have set aside may
    /// come back. Nothing: it does not fit any more, or the wait was cancelled.
    pub(crate) async fn reserve(
        self: &Arc<Self>,
        child: bool,
        (cost, after): (Cost, Cost),
        cancel: &Cancel,
    ) -> Option<Reserved> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            match self.lock().reserve(child, cost, after) {
                Fit::Reserved => {
                    return Some(Reserved { purses: Arc::clone(self), cost, child });
                }
                Fit::Never => return None,
                Fit::Later => {}
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => return None,
                () = changed => {}
            }
        }
    }
}

impl Purses {
    /// What of a request and the closing one after it does not fit into which budget, for a
    /// person: in tokens where tokens are the limit, in dollars where dollars are.
    pub(crate) fn told(&self, child: bool, cost: Cost, after: Cost) -> String {
        let state = self.lock();
        let mut purses = vec![("the budget", &state.session)];
        if child {
            purses.push(("the children's budget", &state.children));
        }
        let told = purses.into_iter().flat_map(|(name, purse)| short(name, purse, cost, after));
        told.collect::<Vec<_>>().join("; ")
    }
}

/// What of a request and the closing one after it is more than one budget has.
fn short(name: &str, purse: &Purse, cost: Cost, after: Cost) -> Vec<String> {
    let (budget, spent) = (purse.budget(), purse.spent());
    let mut told = Vec::new();
    let taken = spent.tokens.saturating_add(cost.tokens).saturating_add(after.tokens);
    if let Some(most) = budget.tokens.filter(|most| taken > *most) {
        let kept = kept(after.tokens > 0, &after.tokens);
        told.push(format!(
            "the next request may take {} tokens{kept}: {} of {most} tokens of {name} are spent",
            cost.tokens, spent.tokens
        ));
    }
    if let Some(most) = budget.usd.filter(|most| spent.usd + cost.usd + after.usd > *most) {
        let kept = kept(after.usd > 0.0, &dollars(after.usd));
        told.push(format!(
            "the next request may cost {}{kept}: {} of ${most} of {name} are spent",
            dollars(cost.usd),
            dollars(spent.usd)
        ));
    }
    told
}

/// What must be left for a closing request, where one is to follow.
fn kept(follows: bool, amount: &dyn fmt::Display) -> String {
    if follows { format!(", and {amount} must stay for a closing one") } else { String::new() }
}

/// Dollars for a person.
fn dollars(usd: f64) -> String {
    if usd > 0.0 && usd < 0.0001 { "less than $0.0001".to_owned() } else { format!("${usd:.4}") }
}

impl State {
    fn reserve(&mut self, child: bool, cost: Cost, after: Cost) -> Fit {
        let mut fit = self.session.fit(cost, after);
        if child {
            fit = fit.max(self.children.fit(cost, after));
        }
        if fit == Fit::Reserved {
            self.session.reserve(cost, after);
            if child {
                self.children.reserve(cost, after);
            }
        }
        fit
    }
}

impl Reserved {
    /// Pays what a request really cost.
    pub(crate) fn pay(mut self, spent: Cost) {
        self.settle(spent);
        self.cost = Cost::default();
    }

    fn settle(&self, spent: Cost) {
        let mut state = self.purses.lock();
        state.session.settle(self.cost, spent);
        if self.child {
            state.children.settle(self.cost, spent);
        }
        drop(state);
        self.purses.changed.notify_waiters();
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.settle(Cost::default());
    }
}

/// The budgets of a session.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Budgets {
    /// Of all its agents together.
    pub session: Budget,
    /// Of all children together, as a share of that.
    pub children: Budget,
}

impl Budgets {
    pub(crate) const fn limit(&self, child: bool) -> bool {
        self.session.limits() || (child && self.children.limits())
    }

    /// Whether dollars are limited for such an agent, so that prices must be known.
    pub(crate) const fn need_prices(&self, child: bool) -> bool {
        self.session.usd.is_some() || (child && self.children.usd.is_some())
    }
}
