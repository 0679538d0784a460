//! The sessions of an agent that run, as they stand.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use deputize_core::{Catalog, SessionId};
use deputize_runtime::{SessionSnapshot, SnapshotObserver};
use parking_lot::{Mutex, MutexGuard};

/// A session, and which attempt to run it: one that runs already refuses another one.
type RunKey = (SessionId, u64);

/// The sessions of an agent that run.
#[derive(Debug, Default)]
pub(crate) struct RunningSessions {
    observers: Mutex<BTreeMap<RunKey, SnapshotObserver>>,
    attempts: AtomicU64,
}

/// A session that runs until this is dropped.
#[derive(Debug)]
pub(crate) struct RunningSession<'a> {
    sessions: &'a RunningSessions,
    key: RunKey,
    /// Follows the session.
    pub(crate) observer: SnapshotObserver,
}

impl RunningSessions {
    pub(crate) fn begin(&self, id: &SessionId, tools: &Arc<Catalog>) -> RunningSession<'_> {
        let observer = SnapshotObserver::new(SessionSnapshot::new(Arc::clone(tools)));
        let key = (id.clone(), self.attempts.fetch_add(1, Ordering::Relaxed));
        self.lock().insert(key.clone(), observer.clone());
        RunningSession { sessions: self, key, observer }
    }

    /// Returns the sessions as they stand, by ID. One without an agent has not begun.
    pub(crate) fn snapshots(&self) -> Vec<SessionSnapshot> {
        let observers: Vec<SnapshotObserver> = self.lock().values().cloned().collect();
        let snapshots = observers.iter().map(|observer| observer.read().clone());
        snapshots.filter(|snapshot| snapshot.top().is_some()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RunKey, SnapshotObserver>> {
        self.observers.lock()
    }
}

impl Drop for RunningSession<'_> {
    fn drop(&mut self) {
        self.sessions.lock().remove(&self.key);
    }
}
