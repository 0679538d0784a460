//! The time, as passed in from outside.

/// A source of the current time.
pub trait Clock: Send + Sync {
    /// Returns Unix time in milliseconds.
    fn now_ms(&self) -> u64;
}

/// A stopped clock, for tests and replays.
#[derive(Debug, Clone, Copy)]
pub struct FixedClock(pub u64);

impl Clock for FixedClock {
    fn now_ms(&self) -> u64 {
        self.0
    }
}

const fn _object_safe(_: &dyn Clock) {}
