//! Waits for the lock of a file that several processes use, up to a limit.
//!
//! ```
//! use std::fs::File;
//! use std::time::Duration;
//! use deputize_file_lock::{LockError, lock};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("lock");
//! let held = lock(File::create(&path)?, Duration::from_secs(20), || false)?;
//! let other = lock(File::open(&path)?, Duration::ZERO, || false);
//! assert!(matches!(other, Err(LockError::Busy)));
//! drop(held);
//! assert!(lock(File::open(&path)?, Duration::from_secs(20), || false).is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Use it where processes of one person take turns at a file. The lock is one between processes that
//! ask for it (`flock`); it keeps nobody else from the file. This crate deliberately creates no files
//! and has no locks for reading.
//!
//! # Features and stability
//!
//! No features.
//!
//! Stability: inner. It is published because the others need it, and changes with them.

use std::fs::{File, TryLockError};
use std::io;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which a cancellation is noticed.
const LOOK: Duration = Duration::from_millis(20);

/// Why there is no lock.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Somebody else has held it for as long as was waited.
    #[error("another process holds its lock")]
    Busy,
    /// The wait was cancelled.
    #[error("the wait for its lock was cancelled")]
    Cancelled,
    /// The file cannot be locked.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<LockError> for io::Error {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Io(error) => error,
            other => Self::other(other),
        }
    }
}

/// Waits for the exclusive lock of a file, which lasts until the returned file is dropped; at most
/// `limit`, and only as long as `is_cancelled` says no. Blocks the thread.
///
/// The operating system wakes the wait; nothing is tried again and again. That takes a thread,
/// which is only started if somebody else holds the lock. A wait that was given up ends with the
/// other's lock, and releases at once what it gets.
///
/// # Errors
/// If the lock is held by somebody else for longer than `limit`, the wait is cancelled, or the
/// file cannot be locked.
pub fn lock(
    file: File,
    limit: Duration,
    is_cancelled: impl Fn() -> bool,
) -> Result<File, LockError> {
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::Error(error)) => return Err(error.into()),
        Err(TryLockError::WouldBlock) => {}
    }
    let end = Instant::now() + limit;
    let (locked, arrives) = channel();
    let wait = move || {
        let result = file.lock().map(|()| file);
        // Nobody may wait any more. Then the file is closed here.
        let _given_up = locked.send(result);
    };
    thread::Builder::new().name("file-lock".to_owned()).spawn(wait)?;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match arrives.recv_timeout(left.min(LOOK)) {
            Ok(file) => return Ok(file?),
            Err(RecvTimeoutError::Disconnected) => return Err(LockError::Busy),
            Err(RecvTimeoutError::Timeout) if is_cancelled() => return Err(LockError::Cancelled),
            Err(RecvTimeoutError::Timeout) if left.is_zero() => return Err(LockError::Busy),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn open(folder: &tempfile::TempDir) -> File {
        File::options().append(true).create(true).open(folder.path().join("lock")).unwrap()
    }

    #[test]
    fn who_waits_has_it_when_the_other_lets_go() {
        let folder = tempfile::tempdir().unwrap();
        let held = lock(open(&folder), LONG, || false).unwrap();
        let (asks, asked) = mpsc::channel();
        thread::scope(|scope| {
            let second = scope.spawn(|| {
                // Asked for the first time when the wait has begun.
                lock(open(&folder), LONG, || asks.send(()).is_err())
            });
            asked.recv().unwrap();
            drop(held);
            assert!(second.join().unwrap().is_ok());
        });
    }

    #[test]
    fn one_that_was_given_up_keeps_nobody_out() {
        let folder = tempfile::tempdir().unwrap();
        let held = lock(open(&folder), LONG, || false).unwrap();
        let busy = lock(open(&folder), Duration::ZERO, || false);
        assert!(matches!(busy, Err(LockError::Busy)), "{busy:?}");
        let stop = AtomicBool::new(true);
        let cancelled = lock(open(&folder), LONG, || stop.load(Ordering::Relaxed));
        assert!(matches!(cancelled, Err(LockError::Cancelled)), "{cancelled:?}");
        drop(held);
        // Both waits that were given up get it before or after this one, and let it go.
        assert!(lock(open(&folder), LONG, || false).is_ok());
    }

    #[test]
    fn many_take_turns() {
        let folder = tempfile::tempdir().unwrap();
        let count = folder.path().join("count");
        std::fs::write(&count, "0").unwrap();
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        let _held = lock(open(&folder), LONG, || false).unwrap();
                        let now: u32 = std::fs::read_to_string(&count).unwrap().parse().unwrap();
                        std::fs::write(&count, (now + 1).to_string()).unwrap();
                    }
                });
            }
        });
        assert_eq!(std::fs::read_to_string(&count).unwrap(), "200");
    }
}
