//! An in-memory disk with simulated faults and crashes.

use std::io::{self, BufRead, Cursor};
use std::path::{Path, PathBuf};

use deputize_core::BoxFuture;
use deputize_runtime::{Disk, DiskFile, OpenError};

use super::disk_state::{DiskFault, DiskState, SharedDisk, SimFile};
use super::handle::Handle;
use super::seed::Seed;

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
pub struct SimDisk(SharedDisk);

impl std::fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.0.state();
        write!(f, "SimDisk({} files, {} operations)", state.files.len(), state.operations)
    }
}

impl SimDisk {
    /// Creates an empty disk.
    #[must_use]
    pub fn new(seed: Seed) -> Self {
        Self(SharedDisk::new(seed))
    }

    /// Returns the number of operations so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.0.state().operations
    }

    /// Makes the operation with this number, from 1, fail.
    pub fn trouble_at(&self, operation: u64, trouble: DiskFault) {
        self.0.state().trouble.insert(operation, trouble);
    }

    /// Makes this operation fail, and every change after it until [`SimDisk::heal`].
    pub fn trouble_from(&self, operation: u64, trouble: DiskFault) {
        let mut state = self.0.state();
        state.trouble.insert(operation, trouble);
        if trouble != DiskFault::Killed {
            state.trouble.insert(u64::MAX, trouble);
        }
    }

    /// Removes all present and future faults.
    pub fn heal(&self) {
        let mut state = self.0.state();
        state.trouble.clear();
        state.stuck = None;
    }

    /// Kills the process that uses the disk: everything it still tries fails.
    pub fn kill(&self) {
        self.0.state().dead = true;
    }

    /// Returns whether the process is dead, by [`SimDisk::kill`] or [`DiskFault::Killed`].
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.0.state().dead
    }

    /// Ends all users of the disk; another process may begin.
    pub fn end(&self, end: CrashKind) {
        let mut state = self.0.state();
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
        self.0.state().files.get(path).map(|file| file.content.now.clone())
    }

    /// Returns the size of a file as readers see it; 0 if it does not exist.
    #[must_use]
    pub fn len(&self, path: &Path) -> usize {
        self.0.state().files.get(path).map_or(0, |file| file.content.now.len())
    }

    /// Returns how many bytes of a file are certain to survive a crash of the machine: 0 if its
    /// name is not durable.
    #[must_use]
    pub fn durable_len(&self, path: &Path) -> usize {
        let state = self.0.state();
        let named = path.parent().is_some_and(|up| state.folders.get(up).is_some_and(|it| *it));
        let file = state.files.get(path).filter(|file| named && file.named);
        file.map_or(0, |file| file.content.certain())
    }

    fn process(&self) -> u64 {
        self.0.state().process
    }

    fn file(&self, path: &Path) -> Box<dyn DiskFile> {
        Box::new(Handle { disk: self.0.clone(), path: path.to_owned(), process: self.process() })
    }
}

impl Disk for SimDisk {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.0.whole(self.process(), true, |state| {
            for folder in path.ancestors() {
                state.folders.entry(folder.to_owned()).or_insert(false);
            }
            Ok(())
        })
    }

    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>, OpenError> {
        self.0.whole(self.process(), true, |state| {
            if state.files.contains_key(path) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            state.files.insert(path.to_owned(), SimFile { locked: true, ..SimFile::default() });
            Ok(())
        })?;
        Ok(self.file(path))
    }

    fn open(&self, path: &Path) -> Result<Box<dyn DiskFile>, OpenError> {
        let free = self.0.whole(self.process(), false, |state| {
            Ok(!std::mem::replace(&mut state.get(path)?.locked, true))
        })?;
        if free { Ok(self.file(path)) } else { Err(OpenError::InUse("process 1".to_owned())) }
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn BufRead>> {
        let bytes = self
            .0
            .whole(self.process(), false, |state| Ok(state.get(path)?.content.now.clone()))?;
        Ok(Box::new(Cursor::new(bytes)))
    }

    fn files(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.0.whole(self.process(), false, |state| {
            let here = state.files.keys().filter(|path| path.parent() == Some(folder));
            let name = |path: &PathBuf| Some(path.file_name()?.to_str()?.to_owned());
            Ok(here.filter_map(name).collect())
        })
    }

    fn rewrite(&self, path: &Path, from: u64) -> io::Result<()> {
        self.0.whole(self.process(), true, |state| {
            let from = usize::try_from(from).unwrap_or(usize::MAX);
            state.get(path)?.content.rewritten(from);
            Ok(())
        })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.whole(self.process(), true, |state| {
            state.files.remove(path).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
        })
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.0.whole(self.process(), true, |state| {
            state.folders.remove(path).ok_or(io::ErrorKind::NotFound)?;
            state.folders.retain(|folder, _| !folder.starts_with(path));
            state.files.retain(|file, _| !file.starts_with(path));
            Ok(())
        })
    }

    fn sync_names(&self, folders: Vec<PathBuf>) -> BoxFuture<'static, io::Result<()>> {
        let disk = self.0.clone();
        let process = self.process();
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
