//! Keeps a snapshot up to date with a session that runs.

use std::ops::Deref;
use std::sync::Arc;

use deputize_core::{AgentId, CallId, Observer, Record};
use parking_lot::{Mutex, MutexGuard};

use super::SessionSnapshot;

/// Follows one session and keeps its snapshot. Clones share the snapshot.
#[derive(Debug, Clone, Default)]
pub struct SnapshotObserver(Arc<Mutex<SessionSnapshot>>);

impl SnapshotObserver {
    /// Returns an observer that goes on from a snapshot.
    #[must_use]
    pub fn new(snapshot: SessionSnapshot) -> Self {
        Self(Arc::new(Mutex::new(snapshot)))
    }

    /// Returns the session as it stands. Hold it briefly: the session waits meanwhile.
    pub fn read(&self) -> impl Deref<Target = SessionSnapshot> {
        self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, SessionSnapshot> {
        self.0.lock()
    }
}

impl Observer for SnapshotObserver {
    fn on_restore(&self, records: &[Record]) {
        let mut snapshot = self.lock();
        *snapshot = snapshot.emptied();
        records.iter().for_each(|record| snapshot.apply(record));
    }

    fn on_record(&self, record: &Record) {
        self.lock().apply(record);
    }

    fn on_progress(&self, agent: &AgentId, call: CallId, text: &str) {
        self.lock().set_progress(agent, call, text);
    }
}
