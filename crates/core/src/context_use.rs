//! Tracks how full an agent's context window is.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::resource::Resource;

/// Tokens of an agent's conversation at its last reply, as counted by its provider. Stored per
/// agent, for tools with large outputs.
#[derive(Debug, Default)]
pub struct ContextUse(AtomicU64);

impl Resource for ContextUse {}

impl ContextUse {
    /// Sets the number of tokens.
    pub fn set(&self, tokens: u64) {
        self.0.store(tokens, Ordering::Relaxed);
    }

    /// Returns the number of tokens; `None` before the first reply or if the provider does not
    /// count.
    #[must_use]
    pub fn tokens(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|tokens| *tokens > 0)
    }
}
