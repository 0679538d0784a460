//! Explains to a person why a request does not fit into a budget.

use std::fmt;

use deputize_core::budget::{BudgetAccount, Cost, ReserveRequest};
use deputize_core::run::BudgetUnit;

/// How an explanation of a shortage begins.
const NEXT: &str = "the next request may";
const CLOSING: &str = "the closing request may";
const TASK: &str = "a task like this one is expected to";

/// Text of a shortage warning, without its figures.
const NO_ROOM: &str = "the budget has no room for the next request";

/// The limit that leaves no room for a request.
pub(crate) struct BudgetShortage {
    pub(crate) of: Vec<BudgetUnit>,
    /// The explanation with its figures.
    pub(crate) figures: String,
}

impl BudgetShortage {
    /// Returns why an agent ends of which this is what happened.
    pub(crate) fn limit_reason(&self, event: &str) -> LimitReason {
        LimitReason { text: format!("{event}: {}", self.figures), cause: Some(self.cause(event)) }
    }

    /// Returns the warning that the next request does not fit.
    pub(crate) fn warning(&self) -> LimitReason {
        LimitReason { text: self.figures.clone(), cause: Some(self.cause(NO_ROOM)) }
    }

    fn cause(&self, event: &str) -> String {
        let units: Vec<&str> = self.of.iter().copied().map(unit).collect();
        format!("{event} ({})", units.join(" and "))
    }
}

const fn unit(of: BudgetUnit) -> &'static str {
    match of {
        BudgetUnit::Seconds => "seconds",
        BudgetUnit::Tokens => "tokens",
        BudgetUnit::Usd => "dollars",
    }
}

/// Why a limit ends an agent.
#[derive(Debug, Clone)]
pub(crate) struct LimitReason {
    pub(crate) text: String,
    /// The text without the figures of this agent, if it has such figures.
    pub(crate) cause: Option<String>,
}

impl From<String> for LimitReason {
    fn from(text: String) -> Self {
        Self { text, cause: None }
    }
}

/// Explains what one budget has too little of for a request, beside what others hold: in tokens
/// where tokens are the limit, in dollars where dollars are.
pub(crate) fn shortage(
    name: &str,
    account: &BudgetAccount,
    others: Cost,
    ask: &ReserveRequest,
) -> Vec<(BudgetUnit, String)> {
    let budget = account.budget();
    let spent = account.spent();
    let mut shortages = Vec::new();
    if let Some(most) = budget.tokens {
        let left = most.saturating_sub(spent.tokens.saturating_add(others.tokens));
        let request = ask.request.tokens;
        let closing = ask.closing.tokens;
        let needs = if request.saturating_add(closing) > left {
            let next = (request > 0).then(|| format!("take {request} tokens"));
            Some(needs(next, &format!("take {closing} tokens"), &closing))
        } else if ask.least.tokens > left {
            Some(format!("{TASK} take {} tokens", ask.whole.tokens))
        } else {
            None
        };
        if let Some(needs) = needs {
            let others = set_aside(others.tokens > 0, &others.tokens);
            let spent = spent.tokens;
            let text = format!(
                "{needs}: {spent} of {most} tokens of {name} are spent{others}, so {left} are left"
            );
            shortages.push((BudgetUnit::Tokens, text));
        }
    }
    if budget.usd == Some(0.0) {
        shortages.push((BudgetUnit::Usd, format!("{name} is $0, so no model is asked")));
    } else if let Some(most) = budget.usd {
        let left = (most - spent.usd - others.usd).max(0.0);
        let request = ask.request.usd;
        let closing = dollars(ask.closing.usd);
        let needs = if request + ask.closing.usd > left {
            let next = (request > 0.0).then(|| format!("cost {}", dollars(request)));
            Some(needs(next, &format!("cost {closing}"), &closing))
        } else if ask.least.usd > left {
            Some(format!("{TASK} cost {}", dollars(ask.whole.usd)))
        } else {
            None
        };
        if let Some(needs) = needs {
            let others = set_aside(others.usd > 0.0, &dollars(others.usd));
            let spent = dollars(spent.usd);
            let left = dollars(left);
            let text = format!(
                "{needs}: {spent} of ${most} of {name} are spent{others}, so {left} are left"
            );
            shortages.push((BudgetUnit::Usd, text));
        }
    }
    shortages
}

/// Describes the needed room: of a request with the reserve for a closing one, or of a closing one
/// alone.
fn needs(next: Option<String>, alone: &str, left: &dyn fmt::Display) -> String {
    match next {
        Some(next) => {
            format!("{NEXT} {next}, and {left} must stay for a closing one")
        }
        None => format!("{CLOSING} {alone}"),
    }
}

fn set_aside(any: bool, amount: &dyn fmt::Display) -> String {
    let reserved = || format!(", and {amount} are reserved for other agents");
    if any { reserved() } else { String::new() }
}

/// Dollars for a person.
fn dollars(usd: f64) -> String {
    if usd > 0.0 && usd < 0.0001 { "less than $0.0001".to_owned() } else { format!("${usd:.4}") }
}
