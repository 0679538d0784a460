//! What is found out of a child when it ends. It is kept with the child's outcome, so that
//! everybody who is told of that gets the same: hooks, `--output json`, and the parent, also after
//! a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deputize_core::agent::AgentSpec;
use deputize_core::outcome::ChildInspection;
use deputize_core::{AgentId, AgentView, Outcome, Resource};

use crate::config::DelegationConfig;
use crate::file_snapshot::FileSnapshot;
use crate::named_files::{missing, unknown_names};
use crate::report::{HostObservations, ReportLimits};
use crate::save_output::save_one;

/// What there was when the calls of an agent began, by the children of these calls. Kept in the
/// agent's store until it is told of the child's end.
#[derive(Default)]
pub(crate) struct CallSnapshots(Mutex<BTreeMap<AgentId, Arc<FileSnapshot>>>);

impl Resource for CallSnapshots {}

impl CallSnapshots {
    pub(crate) fn of(agent: &AgentView) -> Arc<Self> {
        agent.store.get_or_insert_with(Self::default)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AgentId, Arc<FileSnapshot>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, child: &AgentId, before: &Arc<FileSnapshot>) {
        self.lock().insert(child.clone(), Arc::clone(before));
    }

    pub(crate) fn forget(&self, child: &AgentId) {
        self.lock().remove(child);
    }

    /// The files when a child began; of one that began in an earlier process, as they are now.
    pub(crate) fn before(&self, parent: &AgentView, child: &AgentId) -> Arc<FileSnapshot> {
        let known = self.lock().get(child).map(Arc::clone);
        known.unwrap_or_else(|| {
            Arc::new(FileSnapshot::take(&parent.session.files, parent.id()).late())
        })
    }
}

/// Returns the files that an answer names, that do not exist, and of which the host saw no write.
pub(crate) fn unseen_writes(parent: &AgentView, child: &AgentSpec, end: &Outcome) -> Vec<String> {
    let names = unknown_names(end, &parent.session.files, parent.id());
    if names.is_empty() {
        return names;
    }
    // A name may be relative to where a shell was then.
    let shells = end.all_receipts().flat_map(|(_, seen)| &seen.directories);
    let directories: BTreeSet<PathBuf> = shells.chain([&child.cwd]).cloned().collect();
    missing(names, &directories.into_iter().collect::<Vec<_>>())
}

/// What there is to find out of a child at its end, if anything.
pub(crate) fn inspect_child(
    parent: &AgentView,
    config: &DelegationConfig,
    (child, end): (&AgentSpec, &Outcome),
    now_ms: u64,
) -> Option<ChildInspection> {
    let files = &parent.session.files;
    let begun = CallSnapshots::of(parent);
    let before = begun.before(parent, &child.id);
    let stale = before.stale_by(files, parent.id(), end);
    // Each background child is told of by itself.
    let by = child.spawned_by.as_ref().filter(|_| !child.background);
    let siblings = by.map_or(1, |by| by.task_count as usize);
    let caps = ReportLimits::of(parent, config);
    let unseen = [unseen_writes(parent, child, end)];
    let seen = HostObservations { stale: &stale, unseen: &unseen, ..HostObservations::default() };
    let kept = save_one((parent, config), (child, end), seen, (siblings, caps), now_ms);
    let [unseen_writes] = unseen;
    let found = ChildInspection {
        stale_paths: stale.into_iter().map(|file| file.path).collect(),
        unseen_writes,
        summary_path: kept.summary,
        diagnostic_path: kept.diagnostic,
    };
    (found != ChildInspection::default()).then_some(found)
}
