//! Cancellation is a signal, with a reason; work that sees it settles by itself.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

/// Why work is told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    /// A person or the parent interrupted it.
    Interrupted,
    /// Its time is up.
    TimeLimit,
    /// Its budget is spent.
    Budget,
}

/// One node of a tree of cancellation signals: cancelling a node reaches all below it.
///
/// ```
/// use deputize_core::{Cancel, CancelReason};
/// let parent = Cancel::new();
/// let child = parent.child();
/// parent.cancel(CancelReason::Interrupted);
/// assert_eq!(child.reason(), Some(CancelReason::Interrupted));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    token: CancellationToken,
    reason: Arc<OnceLock<CancelReason>>,
    above: Option<Arc<Cancel>>,
}

impl Cancel {
    /// A new root of a tree.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A node below this one.
    #[must_use]
    pub fn child(&self) -> Self {
        Self {
            token: self.token.child_token(),
            reason: Arc::default(),
            above: Some(Arc::new(self.clone())),
        }
    }

    /// Signals this node and all below it. The first reason stays.
    pub fn cancel(&self, reason: CancelReason) {
        let _first_wins = self.reason.set(reason);
        self.token.cancel();
    }

    /// Why this node was signalled, if it was.
    #[must_use]
    pub fn reason(&self) -> Option<CancelReason> {
        if !self.token.is_cancelled() {
            return None;
        }
        self.reason.get().copied().or_else(|| self.above.as_ref().and_then(|up| up.reason()))
    }

    /// Whether this node was signalled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits for the signal.
    pub async fn cancelled(&self) {
        self.token.cancelled().await;
    }

    /// The bare signal, for libraries that take one.
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_can_end_alone_and_its_own_reason_wins() {
        let parent = Cancel::new();
        let child = parent.child();
        child.cancel(CancelReason::TimeLimit);
        assert_eq!(parent.reason(), None);
        parent.cancel(CancelReason::Interrupted);
        assert_eq!(child.reason(), Some(CancelReason::TimeLimit));
    }
}
