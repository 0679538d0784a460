//! The folder that session files lie in.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use deputize_core::SessionId;
use parking_lot::Mutex;
use serde_json::value::RawValue;

use super::disk::{Disk, DiskFile, SLOW_SYNC};
use super::opening::OpeningCount;
use super::read::{ReadError, StoredSession, read};
use super::real::RealDisk;
use super::record_reader::{PositionError, RecordPosition, read_records};
use super::summary::{SessionSummary, summarize};

/// The folder that session files lie in: `ID.jsonl`, and beside it the folder `ID` for long
/// outputs, made when there is one.
#[derive(Clone)]
pub struct SessionDir {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    /// Duration of the first sync of the latest session.
    pub(super) first_sync: Arc<Mutex<Option<Duration>>>,
}

impl fmt::Debug for SessionDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionDir").field(&self.path).finish()
    }
}

impl SessionDir {
    /// Uses a folder of the machine, which may not exist yet.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::on(Arc::new(RealDisk), path)
    }

    /// Uses a folder of another storage, for simulations.
    #[must_use]
    pub fn on(disk: Arc<dyn Disk>, path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), disk, first_sync: Arc::default() }
    }

    /// Returns the duration of the first sync of the latest session, if it exceeds [`SLOW_SYNC`].
    /// Each call that may not be repeated waits for such a sync.
    #[must_use]
    pub fn is_slow(&self) -> Option<Duration> {
        let took = *self.first_sync.lock();
        took.filter(|took| *took > SLOW_SYNC)
    }

    /// Returns the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file of a session.
    #[must_use]
    pub fn file(&self, id: &SessionId) -> PathBuf {
        self.path.join(format!("{id}.jsonl"))
    }

    /// Returns the folder for long outputs of a session.
    #[must_use]
    pub fn spill(&self, id: &SessionId) -> PathBuf {
        self.path.join(id.as_str())
    }

    /// Counts an opening of a session, durably, before it is opened.
    ///
    /// # Errors
    /// When the last [`OPENINGS_LIMIT`](crate::OPENINGS_LIMIT) openings failed, the session is in
    /// use or does not exist, or the count cannot be kept.
    pub fn opening(&self, id: &SessionId) -> Result<Arc<OpeningCount>, ReadError> {
        // Whoever has it open is counted; this one will be refused.
        drop(self.lock(id)?);
        let disk = Arc::clone(&self.disk);
        OpeningCount::begin(disk, id, self.file(id), self.openings(id)).map(Arc::new)
    }

    /// The file whose length is the number of openings that failed. Its name is no session's.
    pub(super) fn openings(&self, id: &SessionId) -> PathBuf {
        self.path.join(format!(".{id}-openings"))
    }

    pub(crate) const fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    pub(super) fn make(&self) -> Result<(), ReadError> {
        let made = self.disk.make_folder(&self.path);
        made.map_err(|source| ReadError::Folder { path: self.path.clone(), source })
    }

    /// Opens the file of a session for appending and takes its lock.
    pub(super) fn lock(&self, id: &SessionId) -> Result<Box<dyn DiskFile>, ReadError> {
        let path = self.file(id);
        self.disk.open(&path).map_err(|error| ReadError::of_opening(error, &path))
    }

    /// Returns the sessions here, by name; none when the folder does not exist.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn list(&self) -> Result<Vec<SessionId>, ReadError> {
        let names = match self.disk.files(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            names => {
                names.map_err(|source| ReadError::Folder { path: self.path.clone(), source })?
            }
        };
        let id = |name: &String| SessionId::new(name.strip_suffix(".jsonl")?).ok();
        let mut ids: Vec<SessionId> = names.iter().filter_map(id).collect();
        ids.sort();
        Ok(ids)
    }

    /// Returns a session as stored. Nothing is changed, and it may be in use.
    ///
    /// # Errors
    /// When there is none, or it is not one that this program reads.
    pub fn read(&self, id: &SessionId) -> Result<StoredSession, ReadError> {
        read(&*self.disk, &self.file(id))
    }

    /// Returns the summary of a session. It changes nothing, and the session may be in use.
    ///
    /// # Errors
    /// When there is none, or it is not one that this program reads.
    pub fn summary(&self, id: &SessionId) -> Result<SessionSummary, ReadError> {
        summarize(&*self.disk, &self.file(id))
    }

    /// Reads the good records of a session behind a position, or all of them: each with its number, as
    /// it is stored.
    /// Returns the position behind the last one; the same position if there are none. It changes
    /// nothing, and the session may be in use.
    ///
    /// # Errors
    /// When there is none, it is not one that this program reads, or the record of the position is
    /// not there any more.
    pub fn read_records(
        &self,
        id: &SessionId,
        after: Option<RecordPosition>,
        record: &mut dyn FnMut(u64, &RawValue),
    ) -> Result<Option<RecordPosition>, PositionError> {
        read_records(&*self.disk, &self.file(id), after, record)
    }

    /// Removes a session and its long outputs.
    ///
    /// # Errors
    /// When it is in use, does not exist, or cannot be removed.
    pub fn remove(&self, id: &SessionId) -> Result<(), ReadError> {
        let _held = self.lock(id)?;
        let path = self.file(id);
        let failed = |source| ReadError::Open { path: path.clone(), source };
        match self.disk.remove_folder(&self.spill(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        match self.disk.remove_file(&self.openings(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        self.disk.remove_file(&path).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{FORMAT, Header, OpenError, SessionFile};
    use deputize_core::BoxFuture;
    use deputize_core::event::Journal as _;
    use deputize_core::sanitize::FrameSecret;
    use std::io::BufRead;

    /// The machine's storage, behind a line on which each sync takes as long as this.
    struct SlowDisk(Duration);
    struct SlowFile(Box<dyn DiskFile>, Duration);

    impl Disk for SlowDisk {
        fn make_folder(&self, path: &Path) -> io::Result<()> {
            RealDisk.make_folder(path)
        }
        fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>, OpenError> {
            Ok(Box::new(SlowFile(RealDisk.create(path)?, self.0)))
        }
        fn open(&self, path: &Path) -> Result<Box<dyn DiskFile>, OpenError> {
            RealDisk.open(path)
        }
        fn read(&self, path: &Path) -> io::Result<Box<dyn BufRead>> {
            RealDisk.read(path)
        }
        fn files(&self, folder: &Path) -> io::Result<Vec<String>> {
            RealDisk.files(folder)
        }
        fn rewrite(&self, path: &Path, from: u64) -> io::Result<()> {
            RealDisk.rewrite(path, from)
        }
        fn remove_file(&self, path: &Path) -> io::Result<()> {
            RealDisk.remove_file(path)
        }
        fn remove_folder(&self, path: &Path) -> io::Result<()> {
            RealDisk.remove_folder(path)
        }
        fn sync_names(&self, folders: Vec<PathBuf>) -> BoxFuture<'static, io::Result<()>> {
            RealDisk.sync_names(folders)
        }
    }

    impl DiskFile for SlowFile {
        fn append(&self, bytes: &[u8]) -> io::Result<()> {
            self.0.append(bytes)
        }
        fn set_len(&self, bytes: u64) -> io::Result<()> {
            self.0.set_len(bytes)
        }
        fn sync_now(&self) -> io::Result<()> {
            self.0.sync_now()
        }
        fn sync(&self) -> BoxFuture<'static, io::Result<()>> {
            std::thread::sleep(self.1);
            if self.1.is_zero() { self.0.sync() } else { Box::pin(async { Ok(()) }) }
        }
    }

    #[tokio::test]
    async fn a_storage_that_takes_long_to_keep_a_session_is_known_by_how_long() {
        let folder = tempfile::tempdir().unwrap();
        for (takes, is_slow) in
            [(SLOW_SYNC + Duration::from_millis(1), true), (Duration::ZERO, false)]
        {
            let dir = SessionDir::on(Arc::new(SlowDisk(takes)), folder.path());
            assert_eq!(dir.is_slow(), None, "nothing was made yet");
            let secret = FrameSecret::new(&[7; 16]);
            let session = SessionId::new(format!("s{}", u8::from(is_slow))).unwrap();
            let header = Header { format: FORMAT, session, created: 0, secret };
            let file = SessionFile::create(&dir, &header).unwrap();
            assert_eq!(dir.is_slow(), None, "nothing was synced yet");
            file.durable(0).await.unwrap();
            let sync_time = dir.is_slow();
            match is_slow {
                true => {
                    assert!(sync_time.is_some_and(|sync_time| sync_time >= takes), "{sync_time:?}")
                }
                // A machine can be as slow as that, and then it is told so.
                false => assert!(
                    sync_time.is_none_or(|sync_time| sync_time > SLOW_SYNC),
                    "{sync_time:?}"
                ),
            }
        }
    }
}
