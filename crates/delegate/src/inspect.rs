//! Inspects a child at its end. The findings are kept with the child's outcome, so that everybody
//! who reads that gets the same: hooks, `--output json`, and the parent, also after a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use deputize_core::agent::AgentSpec;
use deputize_core::outcome::ChildInspection;
use deputize_core::tool::SessionView;
use deputize_core::{AgentId, AgentView, Outcome, Resource};
use parking_lot::{Mutex, MutexGuard};

use crate::blocking::run_blocking;
use crate::config::DelegationConfig;
use crate::diagnosis::Diagnosis;
use crate::file_snapshot::{FileSnapshot, StaleFile};
use crate::named_files::{missing, unknown_names};
use crate::output_file::{OutputFile, is_saved};
use crate::report::ReportLimits;
use crate::stale_files::{merge, written_otherwise};

/// The files that an agent had read when its calls began, by the children of these calls. Kept in
/// the agent's store until a child ends.
#[derive(Default)]
pub(crate) struct CallSnapshots(Mutex<BTreeMap<AgentId, Arc<FileSnapshot>>>);

impl Resource for CallSnapshots {}

impl CallSnapshots {
    pub(crate) fn of(agent: &AgentView) -> Arc<Self> {
        agent.store.get_or_insert_with(Self::default)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AgentId, Arc<FileSnapshot>>> {
        self.0.lock()
    }

    pub(crate) fn add(&self, child: &AgentId, before: &Arc<FileSnapshot>) {
        self.lock().insert(child.clone(), Arc::clone(before));
    }

    /// Removes and returns the files when the call of a child began; `None` if an earlier process
    /// began it.
    pub(crate) fn remove(&self, child: &AgentId) -> Option<Arc<FileSnapshot>> {
        self.lock().remove(child)
    }
}

/// Inspects a child at its end; `None` if there is nothing to say.
pub(crate) async fn inspect_child(
    parent: &AgentView,
    config: &DelegationConfig,
    child: &AgentSpec,
    end: &Outcome,
    now_ms: u64,
) -> Option<ChildInspection> {
    let before = CallSnapshots::of(parent).remove(&child.id);
    let session = &parent.session;
    let files = &session.files;
    let mut stale = Vec::new();
    if let Some(before) = &before {
        stale.extend(before.written_since(files, parent.id()));
    }
    stale.extend(written_otherwise(end, files, parent.id()));
    let work = FileInspection {
        session: Arc::clone(session),
        parent: parent.id().clone(),
        before,
        // Only what may have written behind the ledger's back is worth a look at every file.
        compares: end.may_change_unseen() && !files.read_by(parent.id()).is_empty(),
        directories: directories(child, end),
        names: unknown_names(end, files, parent.id()),
        answer: long_answer(parent, config, child, end),
        diagnosis: Diagnosis::of(session, config, child, end, now_ms),
    };
    let found = work.run().await;
    stale.extend(found.changes);
    let mut stale = merge(stale, parent.id());
    stale.retain(|file| file.is_of(end) || (file.gone && end.may_change_unseen()));
    let gone = stale.iter().filter(|file| file.gone).map(|file| file.path.clone());
    let inspection = ChildInspection {
        gone_paths: gone.collect(),
        stale_paths: stale.into_iter().map(|file| file.path).collect(),
        unseen_writes: found.missing,
        summary_path: found.summary_path,
        diagnostic_path: found.diagnostic_path,
    };
    (inspection != ChildInspection::default()).then_some(inspection)
}

/// Returns where names in a child's answer may be relative to: where it works, and where shells
/// were.
fn directories(child: &AgentSpec, end: &Outcome) -> BTreeSet<PathBuf> {
    let shells = end.all_receipts().flat_map(|(_, seen)| &seen.directories);
    shells.chain([&child.cwd]).cloned().collect()
}

/// Returns the whole answer of a child that is too long for the report of its call.
fn long_answer(
    parent: &AgentView,
    config: &DelegationConfig,
    child: &AgentSpec,
    end: &Outcome,
) -> Option<OutputFile> {
    // Each background child has a report of its own.
    let by = child.spawned_by.as_ref().filter(|_| !child.background);
    let siblings = by.map_or(1, |by| by.task_count as usize);
    let most = ReportLimits::of(parent, config).answer_of(siblings, config.options.tool_name);
    let is_long = end.text.as_ref().is_some_and(|text| text.len() > most);
    is_long.then(|| OutputFile::answer(parent, end)).flatten()
}

/// The part of an inspection that reads and writes files.
struct FileInspection {
    session: Arc<SessionView>,
    parent: AgentId,
    before: Option<Arc<FileSnapshot>>,
    compares: bool,
    directories: BTreeSet<PathBuf>,
    names: Vec<String>,
    answer: Option<OutputFile>,
    diagnosis: Option<Diagnosis>,
}

/// Findings about a child from files.
#[derive(Default)]
struct FileFindings {
    changes: Vec<StaleFile>,
    missing: Vec<String>,
    summary_path: Option<PathBuf>,
    diagnostic_path: Option<PathBuf>,
}

impl FileInspection {
    /// Runs it on a thread that may block, if there is anything to do.
    async fn run(self) -> FileFindings {
        let writes = self.answer.is_some() || self.diagnosis.is_some();
        if !self.compares && self.names.is_empty() && !writes {
            return FileFindings::default();
        }
        // A session that is only simulated has no files, and stays on its thread.
        if !is_saved(&self.session) {
            return FileFindings::default();
        }
        run_blocking(move || self.work()).await
    }

    fn work(self) -> FileFindings {
        let files = &self.session.files;
        let compare = || match &self.before {
            Some(before) => before.compare(files, &self.parent),
            None => FileSnapshot::look(files, &self.parent)
                .of_earlier_process()
                .compare(files, &self.parent),
        };
        FileFindings {
            changes: if self.compares { compare() } else { Vec::new() },
            missing: missing(self.names, &self.directories.into_iter().collect::<Vec<_>>()),
            summary_path: self.answer.and_then(|file| file.write(&self.session)),
            diagnostic_path: self.diagnosis.and_then(|it| it.write(&self.session)),
        }
    }
}
