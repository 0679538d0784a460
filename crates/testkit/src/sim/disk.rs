//! An in-memory disk with simulated faults and crashes.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Cursor};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deputize_core::BoxFuture;
use deputize_runtime::{Disk, DiskFile, OpenError};
use fastrand::Rng;

use super::handle::Handle;
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

/// How the users of the disk end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashKind {
    /// The process crashes: written data stays.
    Process,
    /// The machine loses power: data that was not synced may be lost, in any order.
    Power,
}

/// An in-memory disk, as seen through the machine's page cache. Clones share the same disk.
///
/// Each operation that can fail on a real disk is counted, so that a test can make the Nth one
/// fail, for every N. After its end, a process only gets errors.
///
/// ```
/// use std::path::Path;
/// use std::sync::Arc;
/// use deputize_runtime::Disk as _;
/// use deputize_testkit::{CrashKind, Seed, SimDisk, DiskFault};
///
/// let disk = SimDisk::new(Seed(1));
/// disk.make_folder(Path::new("/s"))?;
/// let file = disk.create(Path::new("/s/f"))?;
/// file.append(b"saved")?;
/// file.sync_now()?;
/// disk.trouble_at(disk.operations() + 1, DiskFault::Full);
/// assert!(file.append(b"more").is_err());
/// disk.end(CrashKind::Power);
/// // Nobody synced the folder, so the file itself may be gone.
/// assert!(disk.bytes(Path::new("/s/f")).is_none_or(|bytes| bytes.starts_with(b"saved")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SimDisk(Arc<Mutex<DiskState>>);

impl std::fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state();
        write!(f, "SimDisk({} files, {} operations)", state.files.len(), state.operations)
    }
}

pub(super) struct DiskState {
    pub(super) dice: Rng,
    files: BTreeMap<PathBuf, SimFile>,
    /// Folders, and whether their names are durable.
    folders: BTreeMap<PathBuf, bool>,
    operations: u64,
    trouble: BTreeMap<u64, DiskFault>,
    /// The fault with which all changes fail from now on.
    stuck: Option<DiskFault>,
    /// Number of the process that uses it; a dead process has none.
    pub(super) process: u64,
    pub(super) dead: bool,
}

#[derive(Default)]
pub(super) struct SimFile {
    pub(super) content: PageCache,
    /// Whether its name is durable.
    named: bool,
    pub(super) locked: bool,
}

impl SimDisk {
    /// Creates an empty disk.
    #[must_use]
    pub fn new(seed: Seed) -> Self {
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of operations so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Makes the operation with this number, from 1, fail.
    pub fn trouble_at(&self, operation: u64, trouble: DiskFault) {
        self.state().trouble.insert(operation, trouble);
    }

    /// Makes this operation fail, and every change after it until [`SimDisk::heal`].
    pub fn trouble_from(&self, operation: u64, trouble: DiskFault) {
        let mut state = self.state();
        state.trouble.insert(operation, trouble);
        if trouble != DiskFault::Killed {
            state.trouble.insert(u64::MAX, trouble);
        }
    }

    /// Removes all present and future faults.
    pub fn heal(&self) {
        let mut state = self.state();
        state.trouble.clear();
        state.stuck = None;
    }

    /// Kills the process that uses the disk: everything it still tries fails.
    pub fn kill(&self) {
        self.state().dead = true;
    }

    /// Returns whether the process is dead, by [`SimDisk::kill`] or [`DiskFault::Killed`].
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// Ends all users of the disk; another process may begin.
    pub fn end(&self, end: CrashKind) {
        let mut state = self.state();
        state.process += 1;
        state.dead = false;
        state.files.values_mut().for_each(|file| file.locked = false);
        if end == CrashKind::Power {
            state.power_cut();
        }
    }

    /// Returns the content of a file as readers see it.
    #[must_use]
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        self.state().files.get(path).map(|file| file.content.now.clone())
    }

    /// Returns the size of a file as readers see it; 0 if it does not exist.
    #[must_use]
    pub fn len(&self, path: &Path) -> usize {
        self.state().files.get(path).map_or(0, |file| file.content.now.len())
    }

    /// Returns how many bytes of a file are certain to survive a crash of the machine: 0 if its
    /// name is not durable.
    #[must_use]
    pub fn durable_len(&self, path: &Path) -> usize {
        let state = self.state();
        let named = path.parent().is_some_and(|up| state.folders.get(up).is_some_and(|it| *it));
        let file = state.files.get(path).filter(|file| named && file.named);
        file.map_or(0, |file| file.content.certain())
    }

    /// Changes a file without the process noticing, as decay and other programs do.
    pub fn tamper(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        if let Some(file) = self.state().files.get_mut(path) {
            change(&mut file.content.now);
            file.content.durable.clone_from(&file.content.now);
        }
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

    fn process(&self) -> u64 {
        self.state().process
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

    fn file(&self, path: &Path) -> Box<dyn DiskFile> {
        Box::new(Handle { disk: self.clone(), path: path.to_owned(), process: self.process() })
    }
}

impl DiskState {
    fn power_cut(&mut self) {
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

impl Disk for SimDisk {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.whole(self.process(), true, |state| {
            for folder in path.ancestors() {
                state.folders.entry(folder.to_owned()).or_insert(false);
            }
            Ok(())
        })
    }

    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>, OpenError> {
        self.whole(self.process(), true, |state| {
            if state.files.contains_key(path) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            state.files.insert(path.to_owned(), SimFile { locked: true, ..SimFile::default() });
            Ok(())
        })?;
        Ok(self.file(path))
    }

    fn open(&self, path: &Path) -> Result<Box<dyn DiskFile>, OpenError> {
        let free = self.whole(self.process(), false, |state| {
            Ok(!std::mem::replace(&mut state.get(path)?.locked, true))
        })?;
        if free { Ok(self.file(path)) } else { Err(OpenError::InUse("process 1".to_owned())) }
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn BufRead>> {
        let bytes =
            self.whole(self.process(), false, |state| Ok(state.get(path)?.content.now.clone()))?;
        Ok(Box::new(Cursor::new(bytes)))
    }

    fn files(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.whole(self.process(), false, |state| {
            let here = state.files.keys().filter(|path| path.parent() == Some(folder));
            let name = |path: &PathBuf| Some(path.file_name()?.to_str()?.to_owned());
            Ok(here.filter_map(name).collect())
        })
    }

    fn rewrite(&self, path: &Path, from: u64) -> io::Result<()> {
        self.whole(self.process(), true, |state| {
            let from = usize::try_from(from).unwrap_or(usize::MAX);
            state.get(path)?.content.rewritten(from);
            Ok(())
        })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.whole(self.process(), true, |state| {
            state.files.remove(path).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
        })
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.whole(self.process(), true, |state| {
            state.folders.remove(path).ok_or(io::ErrorKind::NotFound)?;
            state.folders.retain(|folder, _| !folder.starts_with(path));
            state.files.retain(|file, _| !file.starts_with(path));
            Ok(())
        })
    }

    fn sync_names(&self, folders: Vec<PathBuf>) -> BoxFuture<'static, io::Result<()>> {
        let (disk, process) = (self.clone(), self.process());
        Box::pin(async move {
            let trouble = disk.operation(process, true)?;
            disk.moment().await;
            let mut state = disk.state();
            if let Some(trouble) = trouble {
                return Err(trouble.error());
            }
            let DiskState { folders: known, files, .. } = &mut *state;
            let is_in =
                |path: &Path| path.parent().is_some_and(|up| folders.iter().any(|it| it == up));
            known.iter_mut().filter(|(path, _)| is_in(path)).for_each(|(_, named)| *named = true);
            files.iter_mut().filter(|(path, _)| is_in(path)).for_each(|(_, it)| it.named = true);
            Ok(())
        })
    }
}
