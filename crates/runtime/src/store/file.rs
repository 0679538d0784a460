//! The writing end of a session file.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use deputize_core::{BoxFuture, Journal, JournalError, Record};

use super::read::{ReadError, StoredSession, read};
use super::{FORMAT, Header, SessionDir};

/// A session file that this process alone writes to.
#[derive(Debug)]
pub struct SessionFile {
    path: PathBuf,
    writer: Mutex<Writer>,
    /// Records appended, as a count.
    appended: AtomicU64,
    /// For syncing, which must not wait for the writer's lock. Whoever waits for this one finds
    /// its work done by another.
    sync: tokio::sync::Mutex<Synced>,
}

#[derive(Debug)]
struct Synced {
    file: Arc<File>,
    /// How many records survive the end of the machine.
    records: u64,
    /// Whether the file's name does.
    name: bool,
}

#[derive(Debug)]
struct Writer {
    file: File,
    /// Bytes up to the end of the last record.
    good: u64,
    /// Set at the first failure: nothing is appended after it.
    broken: Option<String>,
    buffer: Vec<u8>,
}

impl SessionFile {
    /// Makes the file of a new session, for this user alone.
    ///
    /// # Errors
    /// When it exists already or cannot be made.
    pub fn create(dir: &SessionDir, header: &Header) -> Result<Self, ReadError> {
        let path = dir.file(&header.session);
        let failed = |source| ReadError::Open { path: path.clone(), source };
        dir.make()?;
        let mut options = OpenOptions::new();
        options.create_new(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).map_err(failed)?;
        take_lock(&file, &path)?;
        let mut line = serde_json::to_vec(&Header { format: FORMAT, ..header.clone() })
            .map_err(|source| ReadError::Header { path: path.clone(), source })?;
        line.push(b'\n');
        file.write_all(&line).map_err(failed)?;
        let good = line.len() as u64;
        Self::over(path.clone(), file, good, 0).map_err(failed)
    }

    /// Opens a stored session to go on with it. A torn tail is cut off.
    ///
    /// # Errors
    /// When it is in use, damaged, or cannot be opened.
    pub fn open(
        dir: &SessionDir,
        id: &deputize_core::SessionId,
    ) -> Result<(Self, StoredSession), ReadError> {
        let path = dir.file(id);
        let file = Self::lock(&path)?;
        let stored = read(&path)?;
        if let Some(damage) = stored.damage {
            return Err(ReadError::Damaged { path, damage });
        }
        let failed = |source| ReadError::Open { path: path.clone(), source };
        file.set_len(stored.good_bytes).map_err(failed)?;
        let records = stored.records.len() as u64;
        let this = Self::over(path.clone(), file, stored.good_bytes, records).map_err(failed)?;
        Ok((this, stored))
    }

    fn over(path: PathBuf, file: File, good: u64, appended: u64) -> io::Result<Self> {
        let synced = Synced { file: Arc::new(file.try_clone()?), records: 0, name: false };
        Ok(Self {
            path,
            writer: Mutex::new(Writer { file, good, broken: None, buffer: Vec::new() }),
            appended: AtomicU64::new(appended),
            sync: tokio::sync::Mutex::new(synced),
        })
    }

    /// Opens an existing file for appending and takes its lock.
    pub(super) fn lock(path: &Path) -> Result<File, ReadError> {
        let failed = |source| ReadError::Open { path: path.to_owned(), source };
        let file = OpenOptions::new().read(true).append(true).open(path).map_err(failed)?;
        take_lock(&file, path)?;
        Ok(file)
    }

    fn error(&self, source: io::Error) -> JournalError {
        JournalError { path: self.path.clone(), source }
    }
}

impl Journal for SessionFile {
    fn append(&self, record: &Record) -> Result<(), JournalError> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.append(record).map_err(|source| self.error(source))?;
        self.appended.fetch_max(record.seq + 1, Ordering::Release);
        Ok(())
    }

    fn durable(&self, seq: u64) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            let mut sync = self.sync.lock().await;
            if sync.records > seq {
                return Ok(());
            }
            let upto = self.appended.load(Ordering::Acquire);
            let file = Arc::clone(&sync.file);
            let folders: Vec<PathBuf> = if sync.name {
                Vec::new()
            } else {
                self.path.ancestors().skip(1).take(2).map(Path::to_owned).collect()
            };
            let synced = tokio::task::spawn_blocking(move || {
                file.sync_data()?;
                folders.iter().try_for_each(|folder| File::open(folder)?.sync_all())
            });
            let synced = synced.await;
            match synced.unwrap_or_else(|panic| Err(io::Error::other(panic))) {
                Ok(()) => {
                    sync.records = upto;
                    sync.name = true;
                    Ok(())
                }
                Err(error) => {
                    // What a failed sync lost is unknown, and a second one would not tell.
                    let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
                    writer.broken = Some(format!("syncing it failed: {error}"));
                    Err(self.error(error))
                }
            }
        })
    }
}

impl Writer {
    fn append(&mut self, record: &Record) -> io::Result<()> {
        if let Some(why) = &self.broken {
            return Err(io::Error::other(why.clone()));
        }
        let Self { buffer, .. } = self;
        buffer.clear();
        let body = serde_json::to_vec(record).map_err(io::Error::other)?;
        let crc = crc32fast::hash(&body);
        write!(
            buffer,
            r#"{{"seq":{},"len":{},"crc":"{crc:08x}","record":"#,
            record.seq,
            body.len()
        )?;
        buffer.extend_from_slice(&body);
        buffer.extend_from_slice(b"}\n");
        match self.file.write_all(&self.buffer) {
            Ok(()) => {
                self.good += self.buffer.len() as u64;
                Ok(())
            }
            Err(error) => {
                self.broken = Some(format!("an earlier write failed: {error}"));
                // A half-written record goes, so that the file ends with a good one; if even
                // that fails, the next open cuts it off.
                let _best_effort = self.file.set_len(self.good);
                let _position = self.file.seek(SeekFrom::End(0));
                Err(error)
            }
        }
    }
}

fn take_lock(file: &File, path: &Path) -> Result<(), ReadError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            Err(ReadError::InUse { path: path.to_owned(), owner: owner(file) })
        }
        Err(TryLockError::Error(source)) => Err(ReadError::Open { path: path.to_owned(), source }),
    }
}

/// Who holds the lock, as far as the system tells.
fn owner(file: &File) -> String {
    let unknown = "another process".to_owned();
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::MetadataExt as _;
        let Ok(inode) = file.metadata().map(|meta| meta.ino()) else { return unknown };
        let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
        let holder = locks.lines().find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let place = fields.iter().position(|field| *field == "WRITE")?;
            let held = fields.get(place + 2)?.rsplit(':').next()?;
            (held == inode.to_string()).then(|| fields.get(place + 1).copied()).flatten()
        });
        holder.map_or(unknown, |pid| format!("process {pid}"))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _unused = file;
        unknown
    }
}

pub(super) fn owner_only(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))
    }
    #[cfg(not(unix))]
    {
        let _unused = path;
        Ok(())
    }
}
