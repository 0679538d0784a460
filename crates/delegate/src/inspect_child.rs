//! What is found out of a child when it ends. It is kept with the child's outcome, so that
//! everybody who is told of that gets the same: hooks, `--output json`, and the parent, also after
//! a restart.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deputize_core::agent::AgentSpec;
use deputize_core::outcome::ChildInspection;
use deputize_core::{AgentId, AgentView, Outcome, Resource};

use crate::file_snapshot::FileSnapshot;
use crate::policy::Policy;
use crate::report::{HostObservations, ReportLimits};
use crate::save_output::save_one;
use crate::tool::unseen_writes;

/// By how much the times of a file system may be behind the clock.
const CLOCKS_MS: u64 = 20;

/// What there was when the calls of an agent began, by the children of these calls. Kept in the
/// agent's store until it is told of the child's end.
#[derive(Default)]
pub(crate) struct CallSnapshots(Mutex<BTreeMap<AgentId, ChildSnapshot>>);

/// The beginning of a child.
#[derive(Clone)]
struct ChildSnapshot {
    /// The files that its parent had read.
    before: Arc<FileSnapshot>,
    /// When its call began, in milliseconds since 1970, if it is the first call for it: of one
    /// that an earlier process began nobody knows.
    at: Option<u64>,
}

impl Resource for CallSnapshots {}

impl CallSnapshots {
    pub(crate) fn of(agent: &AgentView) -> Arc<Self> {
        agent.store.get_or_insert_with(Self::default)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AgentId, ChildSnapshot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, child: &AgentId, before: &Arc<FileSnapshot>, at: Option<u64>) {
        self.lock().insert(child.clone(), ChildSnapshot { before: Arc::clone(before), at });
    }

    pub(crate) fn forget(&self, child: &AgentId) {
        self.lock().remove(child);
    }

    /// Where a child works, and since when.
    pub(crate) fn workspace<'a>(&self, child: &'a AgentSpec) -> ChildWorkspace<'a> {
        let since = self.lock().get(&child.id).and_then(|start| start.at);
        ChildWorkspace { cwd: &child.cwd, since }
    }

    /// The files when a child began; of one that began in an earlier process, as they are now.
    pub(crate) fn before(&self, parent: &AgentView, child: &AgentId) -> Arc<FileSnapshot> {
        let known = self.lock().get(child).map(|start| Arc::clone(&start.before));
        known.unwrap_or_else(|| {
            Arc::new(FileSnapshot::take(&parent.session.files, parent.id()).late())
        })
    }
}

/// Where and since when a child works, for what it claims to have written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChildWorkspace<'a> {
    pub(crate) cwd: &'a Path,
    /// In milliseconds since 1970; nothing: not known.
    pub(crate) since: Option<u64>,
}

impl ChildWorkspace<'_> {
    /// Whether a file is there in which the child may have had a hand.
    pub(crate) fn may_have_written(&self, named: &Path) -> bool {
        let there = self.cwd.join(named);
        there.exists() && !self.since.is_some_and(|since| self.is_older(&there, since))
    }

    /// Whether nothing has happened to a file since then: neither to what it holds and to its name,
    /// nor to a link or a directory on the way to it, by which it may have come to its place.
    fn is_older(&self, path: &Path, since: u64) -> bool {
        let older = |meta: io::Result<Metadata>| {
            meta.is_ok_and(|meta| changed(&meta).saturating_add(CLOCKS_MS) < since)
        };
        let mut way = path.ancestors().take_while(|part| *part != self.cwd);
        older(fs::metadata(path)) && way.all(|part| older(fs::symlink_metadata(part)))
    }
}

/// When something last happened to a file, in milliseconds since 1970. Moving it and giving it an
/// old time is something, too.
fn changed(meta: &Metadata) -> u64 {
    let ms = |seconds: i64, nanos: i64| {
        let ms = seconds.saturating_mul(1000).saturating_add(nanos / 1_000_000);
        u64::try_from(ms).unwrap_or_default()
    };
    ms(meta.ctime(), meta.ctime_nsec()).max(ms(meta.mtime(), meta.mtime_nsec()))
}

/// What there is to find out of a child at its end, if anything.
pub(crate) fn inspect_child(
    parent: &AgentView,
    policy: &Policy,
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
    let caps = ReportLimits::of(parent, policy);
    let unseen = [unseen_writes(end, files, begun.workspace(child))];
    let seen = HostObservations { stale: &stale, unseen: &unseen, ..HostObservations::default() };
    let kept = save_one((parent, policy), (child, end), seen, (siblings, caps), now_ms);
    let [unseen_writes] = unseen;
    let found = ChildInspection {
        stale_paths: stale.into_iter().map(|file| file.path).collect(),
        unseen_writes,
        summary_path: kept.summary,
        diagnostic_path: kept.diagnostic,
    };
    (found != ChildInspection::default()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_nothing_happened_to_since_is_nobodys_work() {
        let folder = tempfile::TempDir::new().unwrap();
        let cwd = folder.path();
        for name in ["old.md", "moved.md", "kept/a.md", "renamed/a.md", "touched.md"] {
            let path = cwd.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        let now = |name: &str| {
            fs::write(cwd.join(name), "x").unwrap();
            changed(&fs::metadata(cwd.join(name)).unwrap())
        };
        // The times of the file system go on in steps.
        let begun = now("clock") + CLOCKS_MS + 1;
        while now("clock") < begun {}
        let works = |since| ChildWorkspace { cwd, since };
        let (before, after) = (works(None), works(Some(begun)));
        assert!(before.may_have_written(Path::new("old.md")), "nobody knows since when");
        for old in ["old.md", "kept/a.md", "./kept/../old.md"] {
            assert!(!after.may_have_written(Path::new(old)), "{old}");
        }
        fs::rename(cwd.join("moved.md"), cwd.join("here.md")).unwrap();
        fs::rename(cwd.join("renamed"), cwd.join("dir")).unwrap();
        std::os::unix::fs::symlink("old.md", cwd.join("link.md")).unwrap();
        let touched = fs::File::options().write(true).open(cwd.join("touched.md")).unwrap();
        touched.set_modified(std::time::UNIX_EPOCH).unwrap();
        fs::write(cwd.join("new.md"), "x").unwrap();
        for new in ["here.md", "dir/a.md", "link.md", "touched.md", "new.md"] {
            assert!(after.may_have_written(Path::new(new)), "{new}");
        }
        for gone in ["moved.md", "never.md"] {
            assert!(!after.may_have_written(Path::new(gone)), "{gone}");
        }
    }
}
