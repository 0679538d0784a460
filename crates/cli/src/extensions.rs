//! Extensions of a program in Rust, beside its tools.

use std::fmt;
use std::sync::Arc;

use deputize_core::hook::Hook;
use deputize_core::memory::Memory;

/// Hooks and a memory of the program's own.
#[derive(Clone, Default)]
pub(crate) struct Extensions {
    /// In the order they were named.
    pub(crate) hooks: Vec<Arc<dyn Hook>>,
    pub(crate) memory: Option<Arc<dyn Memory>>,
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hooks: Vec<&str> = self.hooks.iter().map(|hook| hook.name()).collect();
        f.debug_struct("Extensions")
            .field("hooks", &hooks)
            .field("memory", &self.memory.is_some())
            .finish()
    }
}
