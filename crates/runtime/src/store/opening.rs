//! Sessions that end the program each time it takes them up.

use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deputize_core::{Event, Observer, Record, SessionId};

use super::disk::{Disk, OpenError};
use super::read::ReadError;

/// After so many openings in a row that the program did not survive, a session can be shown and
/// exported only.
pub const OPENINGS_LIMIT: u64 = 3;

/// The bytes for each opening: the file's length is their number.
const ONE: &[u8] = b"\n";

/// One opening of a session. It counts as failed until a request went out, an agent has come to
/// rest, or the program to an end in order; then the count begins anew. What comes back is not the
/// session's: a provider that stalls does not bar it.
///
/// Make one with [`SessionDir::opening`](super::SessionDir::opening) before the session is opened, and let it observe.
pub struct OpeningCount {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    counts: AtomicBool,
}

impl fmt::Debug for OpeningCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpeningCount").field(&self.path).finish()
    }
}

impl OpeningCount {
    /// Counts an opening of a session with this file, durably, in the file of its openings.
    ///
    /// # Errors
    /// When the last [`OPENINGS_LIMIT`] openings failed, another process opens the session, or the
    /// count cannot be kept.
    pub(super) fn begin(
        disk: Arc<dyn Disk>,
        id: &SessionId,
        session_file: PathBuf,
        path: PathBuf,
    ) -> Result<Self, ReadError> {
        let openings = count(&*disk, &path)
            .map_err(|source| ReadError::Open { path: path.clone(), source })?;
        if openings >= OPENINGS_LIMIT {
            return Err(ReadError::Unlucky { session: id.clone(), openings, path });
        }
        let file = match disk.open(&path) {
            Err(OpenError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                disk.create(&path)
            }
            file => file,
        };
        // Another process is counting at this moment, and will have the session.
        let file = match file {
            Err(OpenError::InUse(owner)) => {
                return Err(ReadError::InUse { path: session_file, owner });
            }
            file => file.map_err(|error| ReadError::of_opening(error, &path))?,
        };
        let kept = file.append(ONE).and_then(|()| file.sync_now());
        kept.map_err(|source| ReadError::Open { path: path.clone(), source })?;
        Ok(Self { disk, path, counts: AtomicBool::new(true) })
    }

    /// Records a success, and resets the count.
    pub fn mark_success(&self) {
        if self.counts.swap(false, Ordering::Relaxed) {
            // What stays counts one too many.
            let _best_effort = self.disk.remove_file(&self.path);
        }
    }
}

impl Observer for OpeningCount {
    fn on_record(&self, record: &Record) {
        // It was read, taken up and told: another try may come as far. One that rests has nothing to ask, and came as far as it can.
        if matches!(record.event, Event::ModelRequest { .. } | Event::AgentRest) {
            self.mark_success();
        }
    }
}

impl Drop for OpeningCount {
    /// Whoever gets here has not been killed.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.mark_success();
        }
    }
}

fn count(disk: &dyn Disk, path: &Path) -> io::Result<u64> {
    match disk.read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        read => {
            let mut bytes = Vec::new();
            // More says no more.
            read?.take(OPENINGS_LIMIT).read_to_end(&mut bytes)?;
            Ok(bytes.len() as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{FORMAT, Header, SessionDir, SessionFile};
    use deputize_core::sanitize::FrameSecret;

    fn a_session() -> (tempfile::TempDir, SessionDir, SessionId) {
        let folder = tempfile::tempdir().unwrap();
        let dir = SessionDir::new(folder.path());
        let session = SessionId::literal("s");
        let secret = FrameSecret::new(&[7; 16]);
        let header = Header { format: FORMAT, session: session.clone(), created: 0, secret };
        drop(SessionFile::create(&dir, &header).unwrap());
        (folder, dir, session)
    }

    /// As a process that is killed: nothing of it is done in order.
    fn dies(dir: &SessionDir, id: &SessionId) {
        std::mem::forget(dir.opening(id).unwrap());
    }

    #[test]
    fn after_three_in_a_row_that_failed_there_is_no_fourth_until_the_count_is_removed() {
        let (_folder, dir, id) = a_session();
        dies(&dir, &id);
        dies(&dir, &id);
        // One that comes to its end, also without an answer, is none of them.
        drop(dir.opening(&id).unwrap());
        for _ in 0..OPENINGS_LIMIT {
            dies(&dir, &id);
        }
        let error = dir.opening(&id).unwrap_err();
        let path = dir.openings(&id);
        assert!(matches!(&error, ReadError::Unlucky { openings: 3, .. }), "{error:?}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        assert_eq!(dir.list().unwrap(), std::slice::from_ref(&id), "the count is no session");
        std::fs::remove_file(path).unwrap();
        drop(dir.opening(&id).unwrap());
        dies(&dir, &id);
        dir.remove(&id).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn one_that_rests_has_survived() {
        let (_folder, dir, id) = a_session();
        let agent = deputize_core::AgentId::root(&id);
        let event = Event::AgentRest;
        let rest = Record { seq: 0, at: 0, agent, parent: None, depth: 0, event };
        for _ in 0..=OPENINGS_LIMIT {
            let opening = dir.opening(&id).unwrap();
            opening.on_record(&rest);
            std::mem::forget(opening);
        }
    }

    #[test]
    fn one_that_is_being_opened_elsewhere_is_named_with_its_owner() {
        let (_folder, dir, id) = a_session();
        dies(&dir, &id);
        let _other = dir.disk().open(&dir.openings(&id)).unwrap();
        let actual = dir.opening(&id).unwrap_err().to_string();
        assert!(actual.contains("s.jsonl` is in use by process "), "{actual}");
        assert!(!actual.contains("openings"), "{actual}");
    }

    #[test]
    fn one_that_is_in_use_or_missing_is_not_counted() {
        let (_folder, dir, id) = a_session();
        let held = dir.lock(&id).unwrap();
        assert!(matches!(dir.opening(&id), Err(ReadError::InUse { .. })));
        drop(held);
        assert!(matches!(dir.opening(&SessionId::literal("other")), Err(ReadError::Open { .. })));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
