//! Budgets of a session.

use deputize_core::budget::Budget;

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
