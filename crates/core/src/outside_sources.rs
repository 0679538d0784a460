//! What came into a conversation from outside of this machine and its person.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use crate::resource::Resource;

/// The sources from outside that an agent's conversation has read, such as `web:example.com`,
/// stored with the agent. The runtime fills it, also when the agent is resumed.
#[derive(Debug, Default)]
pub struct OutsideSources(Mutex<BTreeSet<String>>);

impl Resource for OutsideSources {}

impl OutsideSources {
    /// Replaces the sources.
    pub fn set(&self, sources: BTreeSet<String>) {
        *self.0.lock() = sources;
    }

    /// Returns the sources, in order.
    #[must_use]
    pub fn sources(&self) -> BTreeSet<String> {
        self.0.lock().clone()
    }
}
