//! The steps of an agent loop, and their limit in a turn.

/// Number of steps, each with one reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StepCount {
    /// Maximum number in a turn, without the closing one.
    pub(super) most: u32,
    /// Number so far, in all turns.
    pub(super) all: u32,
    /// Number before this turn.
    before_turn: u32,
}

impl StepCount {
    pub(super) const fn new(most: u32) -> Self {
        Self { most, all: 0, before_turn: 0 }
    }

    pub(super) const fn begin_turn(&mut self) {
        self.before_turn = self.all;
    }

    /// Returns whether the turn has steps left.
    pub(super) const fn has_more(self) -> bool {
        self.all - self.before_turn < self.most
    }
}
