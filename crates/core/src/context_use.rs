//! How full an agent's context is.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::agent::Resource;

/// How many tokens an agent's conversation had at its last reply, by its provider's count: kept
/// in the agent's store, for tools that give much.
#[derive(Debug, Default)]
pub struct ContextUse(AtomicU64);

impl Resource for ContextUse {}

impl ContextUse {
    /// Notes how many there are.
    pub fn set(&self, tokens: u64) {
        self.0.store(tokens, Ordering::Relaxed);
    }

    /// How many there were; nothing before the first reply, and where the provider does not count.
    #[must_use]
    pub fn tokens(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|tokens| *tokens > 0)
    }
}
