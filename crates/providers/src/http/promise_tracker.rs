//! Whether the connections that a server promises to keep are trusted.

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::limits::DISTRUST;

/// What is known of a server's promises.
#[derive(Debug, Default)]
pub(super) struct PromiseTracker(Mutex<PromiseState>);

#[derive(Debug, Default)]
struct PromiseState {
    /// Whether a request was answered, so that a connection may be kept.
    answered: bool,
    /// A promise was broken: until then each request has a connection of its own.
    distrusted: Option<Instant>,
}

impl PromiseTracker {
    /// Returns whether a request may use a kept connection; `None` if it must not.
    pub(super) fn trusted(&self, now: Instant) -> Option<bool> {
        let mut state = self.0.lock();
        state.distrusted = state.distrusted.filter(|until| now < *until);
        state.distrusted.is_none().then_some(state.answered)
    }

    pub(super) fn answered(&self) {
        self.0.lock().answered = true;
    }

    pub(super) fn broken(&self, now: Instant) {
        let mut state = self.0.lock();
        state.distrusted = now.checked_add(DISTRUST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_promise_is_forgotten() {
        let kept = PromiseTracker::default();
        let start = Instant::now();
        assert_eq!(kept.trusted(start), Some(false), "nothing can be kept yet");
        kept.answered();
        assert_eq!(kept.trusted(start), Some(true));
        kept.broken(start);
        assert_eq!(kept.trusted(start + DISTRUST / 2), None);
        assert_eq!(kept.trusted(start + DISTRUST), Some(true));
    }
}
