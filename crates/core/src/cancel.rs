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
    /// A limit was reached of an agent above it, which closes.
    LimitAbove,
    /// A person stopped it from outside of the run.
    Stopped,
    /// A person stopped an agent above it, and all below that one.
    TreeStopped,
    /// An agent above it stopped it.
    StoppedAbove,
    /// The agent that started it ended and waits for nothing more.
    EndedAbove,
}

impl CancelReason {
    /// What an agent's end says of it.
    #[must_use]
    pub const fn as_text(self) -> &'static str {
        match self {
            Self::Interrupted => "interrupted",
            Self::TimeLimit => "the time limit was reached",
            Self::Budget => "the limit of the budget came before there was a closing answer",
            Self::LimitAbove => "ended with a limit of the agent that started it",
            Self::Stopped => "a person stopped it",
            Self::TreeStopped => "a person stopped an agent above it",
            Self::StoppedAbove => "an agent above it stopped it (`delegate_control`)",
            Self::EndedAbove => "ended with the agent that started it",
        }
    }

    /// What it is for an agent below the one that was told.
    #[must_use]
    pub const fn below(self) -> Self {
        match self {
            Self::Stopped => Self::TreeStopped,
            other => other,
        }
    }
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
pub struct Cancel(Arc<CancelNode>);

#[derive(Debug, Default)]
struct CancelNode {
    token: CancellationToken,
    reason: OnceLock<CancelReason>,
    above: Option<Cancel>,
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
        Self(Arc::new(CancelNode {
            token: self.0.token.child_token(),
            reason: OnceLock::new(),
            above: Some(self.clone()),
        }))
    }

    /// Signals this node and all below it. The first reason stays, also one that came from above.
    pub fn cancel(&self, reason: CancelReason) {
        if !self.is_cancelled() {
            let _first_wins = self.0.reason.set(reason);
        }
        self.0.token.cancel();
    }

    /// Why this node was signalled, if it was.
    #[must_use]
    pub fn reason(&self) -> Option<CancelReason> {
        if !self.0.token.is_cancelled() {
            return None;
        }
        self.0.reason.get().copied().or_else(|| self.0.above.as_ref().and_then(|up| up.reason()))
    }

    /// Whether this very node was signalled, and not only one above it.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.0.reason.get().is_some()
    }

    /// Whether this node was signalled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.token.is_cancelled()
    }

    /// Waits for the signal.
    pub async fn cancelled(&self) {
        self.0.token.cancelled().await;
    }

    /// The bare signal, for libraries that take one.
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
