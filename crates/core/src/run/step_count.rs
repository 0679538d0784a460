//! The steps of an agent loop, and their limit in a turn.

/// Number of steps, each with one reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StepCount {
    /// Maximum number in a turn, without the closing one.
    pub(super) most: u32,
    /// Number so far, in all turns, with those before a fork.
    pub(super) all: u32,
    /// Number before the first one: those of the parent, for a fork.
    first: u32,
    /// Number before this turn.
    before_turn: u32,
}

impl StepCount {
    pub(super) const fn new(most: u32) -> Self {
        Self { most, all: 0, first: 0, before_turn: 0 }
    }

    /// Returns the count of a fork, whose steps come after these.
    pub(super) const fn after(parent: Self, most: u32) -> Self {
        let first = parent.all;
        Self { most, all: first, first, before_turn: first }
    }

    /// Returns the number of the agent's own steps.
    pub(super) const fn own(self) -> u32 {
        self.all - self.first
    }

    pub(super) const fn begin_turn(&mut self) {
        self.before_turn = self.all;
    }

    /// Returns whether the turn has steps left.
    pub(super) const fn has_more(self) -> bool {
        self.all - self.before_turn < self.most
    }
}
