//! Cancellation: a signal with a reason; work that sees it settles by itself.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

/// Why work is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    /// A person or the parent interrupted it.
    Interrupted,
    /// The time limit passed.
    TimeLimit,
    /// Its budget is spent.
    Budget,
    /// An agent above it reached a limit and is closing.
    LimitAbove,
    /// A person stopped it from outside of the run.
    Stopped,
    /// A person stopped an agent above it, with all its descendants.
    TreeStopped,
    /// An agent above it stopped it.
    StoppedAbove,
    /// The agent that started it ended without waiting for it.
    EndedAbove,
}

impl CancelReason {
    /// Returns the text for the agent's outcome.
    #[must_use]
    pub const fn as_text(self) -> &'static str {
        match self {
            Self::Interrupted => "interrupted",
            Self::TimeLimit => "the time limit was reached",
            Self::Budget => "the limit of the budget came before there was a closing answer",
            Self::LimitAbove => "ended with a limit of the agent that started it",
            Self::Stopped => "a person stopped it",
            Self::TreeStopped => "a person stopped an agent above it",
            Self::StoppedAbove => "an agent above it stopped it",
            Self::EndedAbove => "ended with the agent that started it",
        }
    }

    /// Returns the reason as seen by agents below the cancelled one.
    #[must_use]
    pub const fn below(self) -> Self {
        match self {
            Self::Stopped => Self::TreeStopped,
            other => other,
        }
    }
}

/// A node in a tree of cancellation signals; cancelling a node cancels all nodes below it.
///
/// ```
/// use deputize_core::{Cancel, CancelReason};
/// let parent = Cancel::new();
/// let child = parent.child();
/// parent.cancel(CancelReason::Interrupted);
/// assert_eq!(child.reason(), Some(CancelReason::Interrupted));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<CancelNode>);

#[derive(Debug, Default)]
struct CancelNode {
    token: CancellationToken,
    reason: OnceLock<CancelReason>,
    above: Option<Cancel>,
}

impl Cancel {
    /// Creates the root of a tree.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a node below this one.
    #[must_use]
    pub fn child(&self) -> Self {
        Self(Arc::new(CancelNode {
            token: self.0.token.child_token(),
            reason: OnceLock::new(),
            above: Some(self.clone()),
        }))
    }

    /// Cancels this node and all below it. The first reason stays, even if it came from above.
    pub fn cancel(&self, reason: CancelReason) {
        if !self.is_cancelled() {
            let _first_wins = self.0.reason.set(reason);
        }
        self.0.token.cancel();
    }

    /// Returns why this node was cancelled, if it was.
    #[must_use]
    pub fn reason(&self) -> Option<CancelReason> {
        if !self.0.token.is_cancelled() {
            return None;
        }
        self.0.reason.get().copied().or_else(|| self.0.above.as_ref().and_then(|up| up.reason()))
    }

    /// Returns whether this node itself was cancelled, not only one above it.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.0.reason.get().is_some()
    }

    /// Returns whether this node was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.token.is_cancelled()
    }

    /// Waits for cancellation.
    pub async fn cancelled(&self) {
        self.0.token.cancelled().await;
    }

    /// Returns the bare token, for libraries that take one.
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        &self.0.token
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
        let late = parent.child();
        late.cancel(CancelReason::TimeLimit);
        assert_eq!(late.reason(), Some(CancelReason::Interrupted), "it was told so from above");
    }
}
