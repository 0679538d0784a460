//! Which files a call made stale for its parent, from the ledger, receipts and the ends of children:
//! pure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use deputize_core::file_state::{FileLedger, StaleWrite};
use deputize_core::{AgentId, Outcome};

use crate::file_snapshot::{FileSnapshot, StaleFile};

/// Returns the files that a parent had read and that are something else since a call began.
pub(crate) fn stale_files(
    before: &FileSnapshot,
    files: &FileLedger,
    parent: &AgentId,
    outcomes: &[Outcome],
) -> Vec<StaleFile> {
    let mut stale = before.written_since(files, parent);
    // Of children that had ended before a resume the receipts tell.
    stale.extend(outcomes.iter().flat_map(|outcome| written_otherwise(outcome, files, parent)));
    let at_ends = outcomes.iter().flat_map(stale_at_end);
    stale.extend(at_ends.filter(|file| !before.is_read_again(files, parent, &file.path)));
    merge(stale, parent)
}

/// Returns each file once: by whom the first says, and gone if one says so. What the parent did
/// itself is left out.
pub(crate) fn merge(stale: Vec<StaleFile>, parent: &AgentId) -> Vec<StaleFile> {
    let mut merged: BTreeMap<PathBuf, StaleFile> = BTreeMap::new();
    for file in stale {
        let known = merged.entry(file.path.clone()).or_insert_with(|| file.clone());
        known.gone |= file.gone;
    }
    merged.into_values().filter(|file| file.by.as_ref() != Some(parent)).collect()
}

/// Returns the files of which receipts have another version than the parent knows.
pub(crate) fn written_otherwise(
    outcome: &Outcome,
    files: &FileLedger,
    parent: &AgentId,
) -> Vec<StaleFile> {
    let mut stale = Vec::new();
    for (by, seen) in outcome.all_receipts() {
        for (path, version) in &seen.files_written {
            if let Err(StaleWrite::Changed { .. }) = files.check(parent, path, version) {
                stale.push(StaleFile { path: path.clone(), by: Some(by.clone()), gone: false });
            }
        }
    }
    stale
}

/// Returns the files that were stale at the end of a child. Which agent wrote one is in receipts.
pub(crate) fn stale_at_end(outcome: &Outcome) -> Vec<StaleFile> {
    let Some(found) = &outcome.inspection else { return Vec::new() };
    let file = |path: &PathBuf| {
        let writer = outcome.all_receipts().find(|(_, it)| it.files_written.contains_key(path));
        let by = writer.map(|(by, _)| by.clone());
        StaleFile { path: path.clone(), by, gone: found.gone_paths.contains(path) }
    };
    found.stale_paths.iter().map(file).collect()
}
