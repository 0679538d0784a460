//! What came into a conversation from outside of this machine and its person.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use crate::resource::Resource;
use crate::source::Source;

/// The sources from outside that an agent's conversation has read, such as `web:example.com`,
/// stored with the agent. The runtime fills it from the sources of the messages, also when the
/// agent is resumed.
#[derive(Debug, Default)]
pub struct OutsideSources(Mutex<BTreeSet<Source>>);

impl Resource for OutsideSources {}

impl OutsideSources {
    /// Replaces the sources.
    pub fn set(&self, sources: BTreeSet<Source>) {
        *self.0.lock() = sources;
    }

    /// Returns the sources, in order.
    #[must_use]
    pub fn sources(&self) -> BTreeSet<Source> {
        self.0.lock().clone()
    }
}
