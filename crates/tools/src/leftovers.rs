//! Temporary files whose writers were killed.

use cap_std::fs::{Dir, File};
use rustix::fs::{FlockOperation, flock};

/// How the name of each temporary file begins.
pub(crate) const PREFIX: &str = ".deputize-";
/// How it ends.
pub(crate) const SUFFIX: &str = ".tmp";

/// Locks a temporary file until it is closed. Where the file system knows no locks, no leftover is
/// removed either.
pub(crate) fn mark_as_used(file: &File) {
    let _not_every_file_system_can = flock(file, FlockOperation::LockExclusive);
}

/// Removes the temporary files in a directory that nobody uses.
pub(crate) fn remove_leftovers(dir: &Dir) {
    for entry in dir.entries().into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_file = || entry.file_type().is_ok_and(|kind| kind.is_file());
        if !name.starts_with(PREFIX) || !name.ends_with(SUFFIX) || !is_file() {
            continue;
        }
        let Ok(file) = entry.open() else { continue };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _best_effort = entry.remove_file();
        }
    }
}
