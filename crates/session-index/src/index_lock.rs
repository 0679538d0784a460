//! The lock that one process at a time has on an index.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use deputize_core::Cancel;
use deputize_file_lock::{LockError, lock};

use crate::error::IndexError;

/// How long another process is waited for: longer than it takes to build an index of many sessions.
const WAIT: Duration = Duration::from_secs(60);

/// The lock on an index, held until it is dropped. With it, nobody else has the index open.
#[derive(Debug)]
pub(crate) struct IndexLock {
    file: File,
}

impl IndexLock {
    /// Waits for the lock in the folder of an index, which is made if it is not there.
    pub(crate) fn acquire(folder: &Path, cancel: &Cancel) -> Result<Self, IndexError> {
        Self::acquire_within(folder, cancel, WAIT)
    }

    fn acquire_within(folder: &Path, cancel: &Cancel, wait: Duration) -> Result<Self, IndexError> {
        let file = open(folder).map_err(|error| IndexError::index(folder, error.into()))?;
        match lock(file, wait, || cancel.is_cancelled()) {
            Ok(file) => Ok(Self { file }),
            Err(LockError::Cancelled) => Err(IndexError::Cancelled),
            Err(LockError::Busy) => {
                Err(IndexError::InUse { path: folder.to_owned(), seconds: wait.as_secs() })
            }
            Err(error) => Err(IndexError::index(folder, io::Error::from(error).into())),
        }
    }

    /// Returns the time as the disk has it: a file written from now on is not older. `None` if the
    /// disk does not take the one byte for it.
    pub(crate) fn disk_time(&self) -> Option<SystemTime> {
        (&self.file).write_all(b"\n").ok()?;
        self.file.set_len(0).ok()?;
        self.file.metadata().ok()?.modified().ok()
    }
}

fn open(folder: &Path) -> io::Result<File> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(folder.join("lock"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use deputize_core::CancelReason;

    #[test]
    fn one_at_a_time_has_it_and_who_waits_can_be_cancelled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        let cancel = Cancel::new();
        let first = IndexLock::acquire(&path, &cancel).unwrap();
        let second = IndexLock::acquire_within(&path, &cancel, Duration::ZERO);
        assert!(matches!(second, Err(IndexError::InUse { .. })), "{second:?}");
        cancel.cancel(CancelReason::Interrupted);
        let second = IndexLock::acquire(&path, &cancel);
        assert!(matches!(second, Err(IndexError::Cancelled)), "{second:?}");
        drop(first);
        assert!(IndexLock::acquire(&path, &cancel).unwrap().disk_time().is_some());
    }
}
