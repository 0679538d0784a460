//! What the agents of a session may spend together.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deputize_core::{AgentView, Budget, BudgetOf, Cancel, Claim, Cost, Fit, Purse};
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

/// What an agent needs to go on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Costs {
    /// For the next request; nothing: it is the closing one.
    pub(crate) request: Cost,
    /// For the closing one.
    pub(crate) closing: Cost,
    /// For the closing one if it comes next.
    pub(crate) least: Cost,
}

/// What one agent has set aside, in each purse that it pays from. Dropping it gives all of it back.
pub(crate) struct Share {
    purses: Arc<Purses>,
    child: bool,
    claim: Claim,
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Share({:?})", self.claim)
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

    /// The share of an agent.
    pub(crate) fn share(self: &Arc<Self>, agent: &AgentView) -> Share {
        let parent = agent.authority.spawn_depth() > 0;
        let claim = Claim { parent, ..Claim::default() };
        Share { purses: Arc::clone(self), child: agent.spec.depth > 0, claim }
    }
}

impl Share {
    /// Sets aside, in place of what it had, what the next request may cost and what the closing
    /// one after it would; waits while what others have set aside may come back, and has the least
    /// that it needs set aside meanwhile, if it has not begun. False: it does not fit any more, or
    /// the wait was cancelled.
    pub(crate) async fn reserve(&mut self, costs: Costs, cancel: &Cancel) -> bool {
        let purses = Arc::clone(&self.purses);
        loop {
            let mut changed = std::pin::pin!(purses.changed.notified());
            changed.as_mut().enable();
            match self.change(costs.request, costs.closing) {
                Fit::Reserved => return true,
                Fit::Never => return false,
                Fit::Later => self.hold(costs.least),
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => return false,
                () = changed => {}
            }
        }
    }

    fn change(&mut self, request: Cost, closing: Cost) -> Fit {
        let mut state = self.purses.lock();
        let mut fit = state.session.fit(&self.claim, request, closing);
        if self.child {
            fit = fit.max(state.children.fit(&self.claim, request, closing));
        }
        if fit == Fit::Reserved {
            // Both have the same claim of it.
            let mut claim = self.claim;
            if self.child {
                state.children.reserve(&mut claim, request, closing);
            }
            state.session.reserve(&mut self.claim, request, closing);
        }
        fit
    }

    fn hold(&mut self, closing: Cost) {
        let mut state = self.purses.lock();
        let claim = self.claim;
        let fits = |purse: &Purse| purse.fit(&claim, Cost::default(), closing) == Fit::Reserved;
        if fits(&state.session) && (!self.child || fits(&state.children)) {
            let mut theirs = claim;
            if self.child {
                state.children.hold(&mut theirs, closing);
            }
            state.session.hold(&mut self.claim, closing);
        }
    }

    /// Pays what a request really cost. What its closing request needs is known better now: it is
    /// set aside if it fits, and else what was set aside stays.
    pub(crate) fn pay(&mut self, spent: Cost, closing: Cost) {
        self.settle(|purse, claim| purse.pay(claim, spent));
        self.change(Cost::default(), closing);
        self.purses.changed.notify_waiters();
    }

    /// Pays for an attempt that broke off, and gives back what was set aside for the request.
    pub(crate) fn pay_broken(&mut self, spent: Cost) {
        self.settle(|purse, claim| purse.pay(claim, spent));
        self.purses.changed.notify_waiters();
    }

    fn settle(&mut self, settle: impl Fn(&mut Purse, &mut Claim)) {
        let mut state = self.purses.lock();
        let mut claim = self.claim;
        if self.child {
            settle(&mut state.children, &mut claim);
        }
        settle(&mut state.session, &mut self.claim);
    }

    /// What of a request and the closing one after it does not fit into which budget, for a
    /// person: in tokens where tokens are the limit, in dollars where dollars are.
    pub(crate) fn told(&self, Costs { request, closing, .. }: Costs) -> (BudgetOf, String) {
        let state = self.purses.lock();
        let mut purses = vec![("the budget", &state.session)];
        if self.child {
            purses.push(("the children's budget", &state.children));
        }
        let told = purses.into_iter().flat_map(|(name, purse)| {
            let others = purse.stays(&self.claim);
            short((name, purse), others, (request, closing))
        });
        let (of, told): (Vec<_>, Vec<_>) = told.unzip();
        (of.first().copied().unwrap_or(BudgetOf::Tokens), told.join("; "))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.settle(|purse, claim| purse.release(claim));
        self.purses.changed.notify_waiters();
    }
}

/// What of a request and the closing one after it is more than one budget has, beside what stays
/// set aside for others.
fn short(
    (name, purse): (&str, &Purse),
    others: Cost,
    (request, closing): (Cost, Cost),
) -> Vec<(BudgetOf, String)> {
    let (budget, spent) = (purse.budget(), purse.spent());
    let mut told = Vec::new();
    let tokens = [spent, others, request, closing].map(|cost| cost.tokens);
    if let Some(most) = budget.tokens
        && tokens.into_iter().fold(0, u64::saturating_add) > most
    {
        let [spent, others, request, closing] = tokens;
        let next = (request > 0).then(|| format!("take {request} tokens"));
        let needs = needs(next, &format!("take {closing} tokens"), &closing);
        let left = most.saturating_sub(spent.saturating_add(others));
        let others = set_aside(others > 0, &others);
        let text = format!(
            "{needs}: {spent} of {most} tokens of {name} are spent{others}, so {left} are left"
        );
        told.push((BudgetOf::Tokens, text));
    }
    let usd = [spent, others, request, closing].map(|cost| cost.usd);
    if budget.usd == Some(0.0) {
        told.push((BudgetOf::Usd, format!("{name} is $0, so no model is asked")));
    } else if let Some(most) = budget.usd
        && usd.into_iter().sum::<f64>() > most
    {
        let next = (request.usd > 0.0).then(|| format!("cost {}", dollars(request.usd)));
        let closing = dollars(closing.usd);
        let needs = needs(next, &format!("cost {closing}"), &closing);
        let left = dollars((most - spent.usd - others.usd).max(0.0));
        let others = set_aside(others.usd > 0.0, &dollars(others.usd));
        let spent = dollars(spent.usd);
        let text =
            format!("{needs}: {spent} of ${most} of {name} are spent{others}, so {left} are left");
        told.push((BudgetOf::Usd, text));
    }
    told
}

/// What is asked for: a request with what must be left for a closing one, or that one alone.
fn needs(next: Option<String>, alone: &str, left: &dyn fmt::Display) -> String {
    match next {
        Some(next) => {
            format!("the next request may {next}, and {left} must stay for a closing one")
        }
        None => format!("the closing request may {alone}"),
    }
}

fn set_aside(any: bool, amount: &dyn fmt::Display) -> String {
    let told = || format!(", and {amount} are set aside for closing answers of other agents");
    if any { told() } else { String::new() }
}

/// Dollars for a person.
fn dollars(usd: f64) -> String {
    if usd > 0.0 && usd < 0.0001 { "less than $0.0001".to_owned() } else { format!("${usd:.4}") }
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
