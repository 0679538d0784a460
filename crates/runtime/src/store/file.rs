//! The writing end of a session file.

use std::fmt;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use deputize_core::event::{EncodedRecord, Journal, JournalError};
use deputize_core::{AgentId, BoxFuture, Event, Record, SessionId};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::value::RawValue;

use super::disk::{Disk, DiskFile};
use super::read::{ReadError, StoredSession};
use super::{FORMAT, FileTail, Header, SessionDir, checksum};

/// Bytes of room that a record leaves to the next one.
const KEPT_ROOM: usize = 64 * 1024;

/// A session file that this process alone writes to.
pub struct SessionFile {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    file: Arc<dyn DiskFile>,
    writer: Mutex<Writer>,
    /// Records appended, as a count.
    appended: AtomicU64,
    /// Records that survive the end of the machine, as a count.
    durable: AtomicU64,
    /// For syncing, which must not wait for the writer's lock. Whoever waits for this one finds
    /// its work done by another.
    sync: tokio::sync::Mutex<SyncState>,
    /// Duration of the first sync.
    first_sync: Arc<Mutex<Option<Duration>>>,
}

impl fmt::Debug for SessionFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionFile").field(&self.path).finish()
    }
}

#[derive(Debug, Default)]
struct SyncState {
    /// Whether the file's name is durable.
    name: bool,
    /// Why the first sync that failed did.
    failed: Option<String>,
}

#[derive(Debug)]
struct Writer {
    /// Bytes up to the end of the last record.
    good: u64,
    /// Set at the first failure: nothing is appended after it.
    broken: Option<String>,
    /// Room for a record and for the lines of a write, which the next one uses again.
    body: Vec<u8>,
    lines: Vec<u8>,
}

/// A [`Record`] whose event is JSON already.
#[derive(Serialize)]
struct StoredRecord<'r> {
    seq: u64,
    at: u64,
    agent: &'r AgentId,
    parent: Option<&'r AgentId>,
    depth: u32,
    event: &'r RawValue,
}

impl<'r> StoredRecord<'r> {
    fn of(record: &'r Record, event: &'r RawValue) -> Self {
        let Record { seq, at, agent, parent, depth, event: _ } = record;
        Self { seq: *seq, at: *at, agent, parent: parent.as_ref(), depth: *depth, event }
    }
}

impl SessionFile {
    /// Makes the file of a new session, for this user alone. It is not durable before its first
    /// record is: until then there is nothing that a power cut may not take.
    ///
    /// # Errors
    /// When it exists already or cannot be made.
    pub fn create(dir: &SessionDir, header: &Header) -> Result<Self, ReadError> {
        let path = dir.file(&header.session);
        dir.make()?;
        let mut line = serde_json::to_vec(&Header { format: FORMAT, ..header.clone() })
            .map_err(|source| ReadError::Header { path: path.clone(), source })?;
        line.push(b'\n');
        let created = dir.disk().create(&path);
        let file = created.map_err(|error| ReadError::of_opening(error, &path))?;
        if let Err(source) = file.append(&line) {
            // Without its header it is no session; nobody should meet it.
            let _best_effort = dir.disk().remove_file(&path);
            return Err(ReadError::Open { path, source });
        }
        *dir.first_sync.lock() = None;
        Ok(Self::over(dir, path, file, line.len() as u64, 0))
    }

    /// Opens a stored session to go on with it. A torn tail is cut off.
    ///
    /// # Errors
    /// When it is in use, damaged, or cannot be opened.
    pub fn open(dir: &SessionDir, id: &SessionId) -> Result<(Self, StoredSession), ReadError> {
        let path = dir.file(id);
        let file = dir.lock(id)?;
        let stored = dir.read(id)?;
        if let Some(damage) = stored.damage {
            return Err(ReadError::Damaged { path, damage });
        }
        let mend = || {
            if stored.tail != FileTail::Whole {
                file.set_len(stored.good_bytes)?;
            }
            // An earlier process may have met a sync that failed, or have died before one.
            dir.disk().rewrite(&path, stored.durable_bytes)?;
            // At once: a power cut must not mix what was cut off, now or by a process that
            // then died, with what comes.
            file.sync_now()
        };
        mend().map_err(|source| ReadError::Open { path: path.clone(), source })?;
        let records = stored.records.len() as u64;
        Ok((Self::over(dir, path, file, stored.good_bytes, records), stored))
    }

    /// Returns the writing end of a file that has so many bytes and records.
    fn over(
        dir: &SessionDir,
        path: PathBuf,
        file: Box<dyn DiskFile>,
        good: u64,
        appended: u64,
    ) -> Self {
        Self {
            path,
            disk: Arc::clone(dir.disk()),
            file: Arc::from(file),
            writer: Mutex::new(Writer { good, broken: None, body: Vec::new(), lines: Vec::new() }),
            appended: AtomicU64::new(appended),
            // Whoever opens a file has synced it; a new one has no record.
            durable: AtomicU64::new(appended),
            sync: tokio::sync::Mutex::default(),
            first_sync: Arc::clone(&dir.first_sync),
        }
    }

    fn error(&self, source: io::Error) -> JournalError {
        JournalError { path: self.path.clone(), source }
    }

    /// Makes durable what was appended until now; the file's name too, at the first time.
    async fn sync(&self, name: &mut bool) -> io::Result<()> {
        let upto = self.appended.load(Ordering::Acquire);
        let since = Instant::now();
        self.file.sync().await?;
        self.first_sync.lock().get_or_insert_with(|| since.elapsed());
        if !*name {
            let folders = self.path.ancestors().skip(1).take(2).map(Path::to_owned);
            self.disk.sync_names(folders.collect()).await?;
            *name = true;
        }
        self.durable.fetch_max(upto, Ordering::Release);
        Ok(())
    }
}

impl Journal for SessionFile {
    fn encode(&self, event: &Event) -> Result<Box<RawValue>, JournalError> {
        serde_json::value::to_raw_value(event).map_err(|error| self.error(error.into()))
    }

    fn append(&self, records: &[EncodedRecord]) -> Result<(), JournalError> {
        let mut writer = self.writer.lock();
        let durable = self.durable.load(Ordering::Acquire);
        let written = writer.append(&*self.file, records, durable);
        written.map_err(|source| self.error(source))?;
        if let Some(last) = records.last() {
            self.appended.fetch_max(last.record.seq + 1, Ordering::Release);
        }
        Ok(())
    }

    fn durable(&self, seq: u64) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            let mut synced = self.sync.lock().await;
            // Whose name is lost, is lost.
            if synced.name && self.durable.load(Ordering::Acquire) > seq {
                return Ok(());
            }
            // What a failed sync lost is unknown, and a second one would not tell.
            if let Some(why) = &synced.failed {
                return Err(self.error(io::Error::other(why.clone())));
            }
            self.sync(&mut synced.name).await.map_err(|error| {
                let why = format!("syncing it failed: {error}");
                let mut writer = self.writer.lock();
                writer.broken = Some(why.clone());
                synced.failed = Some(why);
                self.error(error)
            })
        })
    }
}

impl Writer {
    fn append(
        &mut self,
        file: &dyn DiskFile,
        records: &[EncodedRecord],
        durable: u64,
    ) -> io::Result<()> {
        if let Some(why) = &self.broken {
            return Err(io::Error::other(why.clone()));
        }
        let Self { body, lines, .. } = self;
        lines.clear();
        for EncodedRecord { record, event } in records {
            body.clear();
            serde_json::to_writer(&mut *body, &StoredRecord::of(record, event))
                .map_err(io::Error::other)?;
            write!(lines, r#"{{"seq":{},"#, record.seq)?;
            if durable > 0 {
                write!(lines, r#""durable":{durable},"#)?;
            }
            let len = body.len();
            let crc = checksum(body, durable);
            write!(lines, r#""len":{len},"crc":"{crc:08x}","record":"#)?;
            lines.extend_from_slice(body);
            lines.extend_from_slice(b"}\n");
        }
        match file.append(lines) {
            Ok(()) => {
                self.good += lines.len() as u64;
                body.shrink_to(KEPT_ROOM);
                lines.shrink_to(KEPT_ROOM);
                Ok(())
            }
            Err(error) => {
                self.broken = Some(format!("an earlier write failed: {error}"));
                // A half-written record goes, so that the file ends with a good one; if even
                // that fails, the next open cuts it off.
                let _best_effort = file.set_len(self.good);
                Err(error)
            }
        }
    }
}
