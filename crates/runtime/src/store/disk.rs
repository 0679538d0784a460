//! The interface to the storage. A simulation replaces it.

use std::io::{self, BufRead, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use deputize_core::BoxFuture;

/// The storage of session files. [`RealDisk`](super::RealDisk) is the machine's own; the testkit
/// has one in memory that injects failures, torn writes and lost data.
///
/// Only what is called durable survives a crash of the machine; everything else survives a crash of
/// the process.
pub trait Disk: Send + Sync {
    /// Makes a folder, and those above it, for this user alone. It may exist.
    ///
    /// # Errors
    /// When something else stands there, or the storage fails.
    fn make_folder(&self, path: &Path) -> io::Result<()>;

    /// Makes a file that does not exist yet, for this user alone, and takes its lock.
    ///
    /// # Errors
    /// When it exists, or the storage fails.
    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>, OpenError>;

    /// Opens a file for appending and takes its lock.
    ///
    /// # Errors
    /// When there is none, another process holds its lock, or the storage fails.
    fn open(&self, path: &Path) -> Result<Box<dyn DiskFile>, OpenError>;

    /// The bytes of a regular file, from its beginning on. Its lock does not matter.
    ///
    /// # Errors
    /// When there is none, it is something else, or the storage fails.
    fn read(&self, path: &Path) -> io::Result<Box<dyn BufRead>>;

    /// The bytes of a regular file from one on; none if it is shorter.
    ///
    /// # Errors
    /// As those of [`Disk::read`].
    fn read_from(&self, path: &Path, from: u64) -> io::Result<Box<dyn BufRead>> {
        let mut reader = self.read(path)?;
        io::copy(&mut reader.by_ref().take(from), &mut io::sink())?;
        Ok(reader)
    }

    /// The names of the regular files in a folder, in any order; those that are not UTF-8 are
    /// left out.
    ///
    /// # Errors
    /// When there is no such folder, or the storage fails.
    fn files(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Writes what a file has from this byte on once more, in place: a sync that failed may have
    /// left the system believing that it is stored, and no later one would store it.
    ///
    /// # Errors
    /// When the storage fails; the content is the same all the same.
    fn rewrite(&self, path: &Path, from: u64) -> io::Result<()>;

    /// Runs work that uses this storage for long. A storage whose calls block a thread runs it on
    /// one that may block; the others run it at once.
    fn run_long(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        work();
        Box::pin(std::future::ready(()))
    }

    /// Removes a file.
    ///
    /// # Errors
    /// When there is none, or the storage fails.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes a folder with all that is in it.
    ///
    /// # Errors
    /// When there is none, or the storage fails.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;

    /// Waits until the names in these folders are durable. It blocks no asynchronous thread.
    fn sync_names(&self, folders: Vec<PathBuf>) -> BoxFuture<'static, io::Result<()>>;
}

/// A file that is open for appending; its lock is held until it is dropped.
pub trait DiskFile: Send + Sync {
    /// Writes all the bytes at the end.
    ///
    /// # Errors
    /// When the storage fails; then a part of them may be there.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the file off behind so many bytes.
    ///
    /// # Errors
    /// When the storage fails.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Waits, blocking, until the content as it is now is durable: for the start of a program.
    ///
    /// # Errors
    /// When the storage fails; what had not been durable then counts as lost.
    fn sync_now(&self) -> io::Result<()>;

    /// Waits until the content as it is now is durable. It blocks no asynchronous thread, and
    /// the file may be appended to meanwhile. Errors are those of [`DiskFile::sync_now`].
    fn sync(&self) -> BoxFuture<'static, io::Result<()>>;
}

/// Sync time above which a storage is reported as slow.
pub const SLOW_SYNC: Duration = Duration::from_millis(500);

/// Why a file could not be opened for appending.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Its lock is held.
    #[error("it is in use by {0}")]
    InUse(
        /// By whom: `process 123`, or `another process`.
        String,
    ),
    /// The storage.
    #[error(transparent)]
    Io(#[from] io::Error),
}

const fn _object_safe(_: &dyn Disk, _: &dyn DiskFile) {}
