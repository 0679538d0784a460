//! What came into a conversation from outside of this machine and its person.

use parking_lot::Mutex;

use crate::resource::Resource;
use crate::source_set::SourceSet;

/// The sources from outside that an agent's conversation has read, such as `web:example.com`,
/// stored with the agent. The runtime fills it from the sources of the messages, also when the
/// agent is resumed.
#[derive(Debug, Default)]
pub struct OutsideSources(Mutex<SourceSet>);

impl Resource for OutsideSources {}

impl OutsideSources {
    /// Replaces the sources.
    pub fn set(&self, sources: SourceSet) {
        *self.0.lock() = sources;
    }

    /// Returns the sources, in order.
    #[must_use]
    pub fn sources(&self) -> SourceSet {
        self.0.lock().clone()
    }
}
