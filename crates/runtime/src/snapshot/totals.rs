//! Totals of several agents.

use std::iter::Sum;
use std::ops::Add;

use deputize_core::Status;
use deputize_core::budget::Cost;
use deputize_core::model::Usage;

/// Totals of several agents.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct TreeTotals {
    /// Number of running agents.
    pub running: usize,
    /// Number of completed agents.
    pub completed: usize,
    /// Number of agents that ended in another way.
    pub failed: usize,
    /// Sum of their tokens.
    pub tokens: Usage,
    /// Sum of their costs.
    pub cost: Cost,
}

impl TreeTotals {
    pub(super) fn of_agent(status: Option<Status>, tokens: Usage, cost: Cost) -> Self {
        let is = |wanted: bool| usize::from(wanted);
        Self {
            running: is(status.is_none()),
            completed: is(status == Some(Status::Completed)),
            failed: is(status.is_some_and(|status| status != Status::Completed)),
            tokens,
            cost,
        }
    }

    /// Returns the number of agents.
    #[must_use]
    pub const fn agents(&self) -> usize {
        self.running + self.completed + self.failed
    }
}

impl Add for TreeTotals {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self.running += other.running;
        self.completed += other.completed;
        self.failed += other.failed;
        self.tokens += other.tokens;
        self.cost += other.cost;
        self
    }
}

impl Sum for TreeTotals {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}
