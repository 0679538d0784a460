//! The state of an in-memory disk, which the disk and its open files share.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use parking_lot::{Mutex, MutexGuard};

use super::page_cache::PageCache;
use super::seed::Seed;

/// Maximum duration of a sync, in virtual milliseconds.
const LONGEST_SYNC: u64 = 40;

/// A fault of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFault {
    /// No space is left; a write stores only part of its data.
    Full,
    /// The medium fails; a write stores nothing, a sync drops its data.
    Broken,
    /// The medium fails; a write stores only part of its data.
    Short,
    /// The file system has become read-only.
    ReadOnly,
    /// The process is killed during the operation.
    Killed,
}

impl DiskFault {
    pub(super) fn error(self) -> io::Error {
        match self {
            Self::Full => io::ErrorKind::StorageFull.into(),
            Self::Broken | Self::Short => io::Error::other("the medium fails"),
            Self::ReadOnly => io::ErrorKind::ReadOnlyFilesystem.into(),
            Self::Killed => io::Error::other("the process is dead"),
        }
    }
}

/// Files, folders and faults of a disk.
pub(super) struct DiskState {
    pub(super) dice: Rng,
    pub(super) files: BTreeMap<PathBuf, SimFile>,
    /// Folders, and whether their names are durable.
    pub(super) folders: BTreeMap<PathBuf, bool>,
    pub(super) operations: u64,
    pub(super) trouble: BTreeMap<u64, DiskFault>,
    /// The fault with which all changes fail from now on.
    pub(super) stuck: Option<DiskFault>,
    /// Number of the process that uses it; a dead process has none.
    pub(super) process: u64,
    pub(super) dead: bool,
}

/// A file of the disk.
#[derive(Default)]
pub(super) struct SimFile {
    pub(super) content: PageCache,
    /// Whether its name is durable.
    pub(super) named: bool,
    pub(super) locked: bool,
}

impl DiskState {
    pub(super) fn power_cut(&mut self) {
        let Self { dice, folders, files, .. } = self;
        folders.retain(|_, named| *named || dice.bool());
        files.retain(|path, file| {
            let there = path.parent().is_some_and(|up| folders.contains_key(up));
            there && (file.named || dice.bool())
        });
        folders.values_mut().for_each(|named| *named = true);
        for file in files.values_mut() {
            file.named = true;
            file.content.power_cut(dice);
        }
    }

    pub(super) fn get(&mut self, path: &Path) -> io::Result<&mut SimFile> {
        self.files.get_mut(path).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// The state behind its lock. Clones share it.
#[derive(Clone)]
pub(super) struct SharedDisk(Arc<Mutex<DiskState>>);

impl SharedDisk {
    pub(super) fn new(seed: Seed) -> Self {
        Self(Arc::new(Mutex::new(DiskState {
            dice: seed.dice("disk"),
            files: BTreeMap::new(),
            folders: BTreeMap::new(),
            operations: 0,
            trouble: BTreeMap::new(),
            stuck: None,
            process: 0,
            dead: false,
        })))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock()
    }

    /// Counts an operation. Returns its fault, if any.
    pub(super) fn operation(
        &self,
        process: u64,
        changes: bool,
    ) -> Result<Option<DiskFault>, io::Error> {
        let mut state = self.state();
        if state.dead || state.process != process {
            return Err(DiskFault::Killed.error());
        }
        state.operations += 1;
        let now = state.operations;
        let trouble = state.trouble.remove(&now);
        if trouble.is_some() && state.stuck.is_none() {
            state.stuck = state.trouble.get(&u64::MAX).copied();
        }
        let trouble = trouble.or_else(|| state.stuck.filter(|_| changes));
        // A full or read-only disk does not prevent reading.
        let harmless = !changes && matches!(trouble, Some(DiskFault::Full | DiskFault::ReadOnly));
        let trouble = trouble.filter(|_| !harmless);
        state.dead |= trouble == Some(DiskFault::Killed);
        Ok(trouble)
    }

    /// Runs an operation that is done completely or not at all.
    pub(super) fn whole<T>(
        &self,
        process: u64,
        changes: bool,
        work: impl FnOnce(&mut DiskState) -> Result<T, io::Error>,
    ) -> io::Result<T> {
        let trouble = self.operation(process, changes)?;
        let mut state = self.state();
        match trouble {
            None => work(&mut state),
            Some(trouble) => {
                if trouble == DiskFault::Killed && state.dice.bool() {
                    let _nobody_hears = work(&mut state);
                }
                Err(trouble.error())
            }
        }
    }

    /// Waits for a random moment, in which other tasks run.
    pub(super) async fn moment(&self) {
        let ms = self.state().dice.u64(..=LONGEST_SYNC);
        if ms == 0 {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
    }
}
