//! Tracks which agent read and wrote which version of which file.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::{ArcMutexGuard, Mutex, MutexGuard, RawMutex};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::name::AgentId;

/// The content of a file at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileVersion {
    /// SHA-256 of its bytes, in lowercase hexadecimal.
    pub sha256: String,
    /// Size in bytes.
    pub bytes: u64,
}

impl FileVersion {
    /// Returns the version of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let sum = Sha256::digest(bytes);
        Self { sha256: data_encoding::HEXLOWER.encode(&sum), bytes: bytes.len() as u64 }
    }
}

/// Keeps other writes to a path out until it is dropped.
#[must_use]
pub struct PathGuard {
    _lock: ArcMutexGuard<RawMutex, ()>,
}

impl fmt::Debug for PathGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PathGuard").finish_non_exhaustive()
    }
}

/// How to treat a write to a file that changed since it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnStaleWrite {
    /// The write is refused.
    #[default]
    Refuse,
    /// The write is done, with a warning.
    Warn,
}

/// Why a write would lose content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StaleWrite {
    /// The agent would overwrite a file that it never read.
    #[error("you have not read it: read it first, so that nothing in it is lost")]
    Unread,
    /// The agent would overwrite content that it never saw.
    #[error("{}: read on, or edit only a part that you have read", never_shown(*lines))]
    Partly {
        /// The number of lines never shown whole and of all lines, if known.
        lines: Option<(u64, u64)>,
    },
    /// The content differs from what the agent read.
    #[error("changed on disk since you read it ({by}): read it again")]
    Changed {
        /// Who changed it, if known.
        by: String,
    },
    /// The file no longer exists.
    #[error(
        "deleted or renamed since you read it (by a command or another program): look where it \
         went, and read it again before you write it anew"
    )]
    Gone,
}

fn never_shown(lines: Option<(u64, u64)>) -> String {
    match lines {
        Some((1, of)) => format!("1 of its {of} lines was never shown to you"),
        Some((unseen, of)) => format!("{unseen} of its {of} lines were never shown to you"),
        None => "you have seen only a part of it as it is now".to_owned(),
    }
}

/// A position in a text: a line, from 1, and a byte in it, from 0.
type Position = (u64, u64);

/// The part of a version that a read showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadRange {
    /// All of it.
    Whole,
    /// Only these parts.
    Parts {
        /// Ranges of positions: a line, from 1, and a byte in it, from 0. A range that ends with a
        /// line ends at byte 0 of the next.
        parts: Vec<Range<Position>>,
        /// Number of lines in the whole file.
        lines: u64,
    },
    /// An unknown part.
    Part,
}

/// The version of a file that an agent knows, and how much of it.
#[derive(Debug, Clone)]
struct KnownRead {
    version: FileVersion,
    extent: ReadRange,
}

impl ReadRange {
    /// Merges with what was seen before of the same version.
    fn and(self, before: Self) -> Self {
        let (mut parts, lines) = match (self, before) {
            (Self::Whole, _) | (_, Self::Whole) => return Self::Whole,
            (Self::Parts { mut parts, lines }, Self::Parts { parts: before, .. }) => {
                parts.extend(before);
                (parts, lines)
            }
            (Self::Parts { parts, lines }, Self::Part)
            | (Self::Part, Self::Parts { parts, lines }) => (parts, lines),
            (Self::Part, Self::Part) => return Self::Part,
        };
        parts.sort_by_key(|part| part.start);
        let mut joined: Vec<Range<Position>> = Vec::new();
        for part in parts {
            match joined.last_mut().filter(|last| part.start <= last.end) {
                Some(last) => last.end = last.end.max(part.end),
                None => joined.push(part),
            }
        }
        let parts = joined;
        let seen = Self::Parts { parts, lines };
        if seen.unseen().is_some_and(|(unseen, _)| unseen == 0) { Self::Whole } else { seen }
    }

    /// Returns the number of lines not seen whole and of all lines, if known.
    fn unseen(&self) -> Option<(u64, u64)> {
        let whole_lines = |part: &Range<Position>| {
            let first = part.start.0 + u64::from(part.start.1 > 0);
            part.end.0.saturating_sub(first)
        };
        match self {
            Self::Whole => Some((0, 0)),
            Self::Parts { parts, lines } => {
                let seen = parts.iter().map(whole_lines).sum();
                Some((lines.saturating_sub(seen), *lines))
            }
            Self::Part => None,
        }
    }
}

#[derive(Debug, Clone)]
struct LatestWrite {
    order: u64,
    by: AgentId,
    version: FileVersion,
}

#[derive(Debug, Default)]
struct Inner {
    order: u64,
    reads: BTreeMap<(AgentId, PathBuf), KnownRead>,
    writes: BTreeMap<PathBuf, LatestWrite>,
    locks: BTreeMap<PathBuf, Weak<Mutex<()>>>,
}

/// The files that the agents of a session read and wrote: facts only, no IO. One per session,
/// shared by all its agents.
#[derive(Debug, Default)]
pub struct FileLedger {
    inner: Mutex<Inner>,
}

impl FileLedger {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Records that an agent read all of this version of a file.
    pub fn record_read(&self, agent: &AgentId, path: &Path, version: FileVersion) {
        self.record_partial_read(agent, path, version, ReadRange::Whole);
    }

    /// Records that an agent read this part of a version. Returns whether it has now read all of
    /// it.
    pub fn record_partial_read(
        &self,
        agent: &AgentId,
        path: &Path,
        version: FileVersion,
        extent: ReadRange,
    ) -> bool {
        let mut inner = self.lock();
        inner.order += 1;
        let key = (agent.clone(), path.to_owned());
        let before = inner.reads.remove(&key).filter(|before| before.version == version);
        let extent = extent.and(before.map_or(ReadRange::Part, |before| before.extent));
        let whole = extent == ReadRange::Whole;
        inner.reads.insert(key, KnownRead { version, extent });
        whole
    }

    /// Records that an agent changed a file, which now has this version. The agent knows what it
    /// wrote; parts it had not read before stay unread.
    pub fn record_write(&self, agent: &AgentId, path: &Path, version: FileVersion) {
        self.record_change(agent, path, version, |before| match before {
            None | Some(KnownRead { extent: ReadRange::Whole, .. }) => ReadRange::Whole,
            // A change moves the lines.
            Some(_) => ReadRange::Part,
        });
    }

    /// Records that an agent created a file with this version.
    pub fn record_creation(&self, agent: &AgentId, path: &Path, version: FileVersion) {
        self.record_change(agent, path, version, |_| ReadRange::Whole);
    }

    fn record_change(
        &self,
        agent: &AgentId,
        path: &Path,
        version: FileVersion,
        known: impl FnOnce(Option<&KnownRead>) -> ReadRange,
    ) {
        let mut inner = self.lock();
        inner.order += 1;
        let order = inner.order;
        let key = (agent.clone(), path.to_owned());
        let read = KnownRead { version: version.clone(), extent: known(inner.reads.get(&key)) };
        inner.reads.insert(key, read);
        inner.writes.insert(path.to_owned(), LatestWrite { order, by: agent.clone(), version });
    }

    /// Checks whether an agent may overwrite all of a file whose present version is `current`.
    ///
    /// # Errors
    /// If the agent never read all of it, or read another version.
    pub fn check_whole(
        &self,
        agent: &AgentId,
        path: &Path,
        current: &FileVersion,
    ) -> Result<(), StaleWrite> {
        // Who changed a file matters more than how much of it was read before.
        self.check(agent, path, current)?;
        match self.lock().reads.get(&(agent.clone(), path.to_owned())) {
            Some(KnownRead { extent: ReadRange::Whole, .. }) | None => Ok(()),
            Some(KnownRead { extent, .. }) => Err(StaleWrite::Partly { lines: extent.unseen() }),
        }
    }

    /// Returns whether an agent read all of a version of a file, whatever the file holds now.
    #[must_use]
    pub fn record_full_read(&self, agent: &AgentId, path: &Path) -> bool {
        let key = (agent.clone(), path.to_owned());
        self.lock().reads.get(&key).is_some_and(|read| read.extent == ReadRange::Whole)
    }

    /// Checks whether an agent may change a part of a file whose present version is `current`.
    ///
    /// # Errors
    /// If the agent never read any of it, or read another version.
    pub fn check(
        &self,
        agent: &AgentId,
        path: &Path,
        current: &FileVersion,
    ) -> Result<(), StaleWrite> {
        let inner = self.lock();
        let Some(read) = inner.reads.get(&(agent.clone(), path.to_owned())) else {
            return Err(StaleWrite::Unread);
        };
        if read.version == *current {
            return Ok(());
        }
        let by = match inner.writes.get(path) {
            Some(write) if write.version == *current && write.by != *agent => {
                format!("by agent {}", write.by)
            }
            _ => "by a command or another program".to_owned(),
        };
        Err(StaleWrite::Changed { by })
    }

    /// Checks whether an agent may create a file where there is none.
    ///
    /// # Errors
    /// If the agent knows of a file there.
    pub fn check_none(&self, agent: &AgentId, path: &Path) -> Result<(), StaleWrite> {
        let known = self.lock().reads.contains_key(&(agent.clone(), path.to_owned()));
        if known { Err(StaleWrite::Gone) } else { Ok(()) }
    }

    /// Records that an agent saw that a file does not exist.
    pub fn record_absence(&self, agent: &AgentId, path: &Path) {
        self.lock().reads.remove(&(agent.clone(), path.to_owned()));
    }

    /// Records that what an agent read and wrote is no longer in its conversation: it knows the
    /// versions of the files, and no longer all of their content.
    pub fn forget_contents(&self, agent: &AgentId) {
        let mut inner = self.lock();
        for ((reader, _), read) in inner.reads.range_mut((agent.clone(), PathBuf::new())..) {
            if reader != agent {
                break;
            }
            read.extent = ReadRange::Part;
        }
    }

    /// Forgets the reads of an agent that has ended. Its writes stay recorded.
    pub fn forget_agent(&self, agent: &AgentId) {
        let mut inner = self.lock();
        let mine = inner.reads.range((agent.clone(), PathBuf::new())..);
        let mine: Vec<_> =
            mine.map(|(key, _)| key).take_while(|(reader, _)| reader == agent).cloned().collect();
        for key in mine {
            inner.reads.remove(&key);
        }
    }

    /// Returns the current position in the order of reads and writes, for
    /// [`FileLedger::changed_since`].
    #[must_use]
    pub fn mark(&self) -> u64 {
        self.lock().order
    }

    /// Returns the files that `agent` had read and another agent wrote after the mark, by path.
    #[must_use]
    pub fn changed_since(&self, mark: u64, agent: &AgentId) -> Vec<(PathBuf, AgentId)> {
        let inner = self.lock();
        let mine = inner.reads.range((agent.clone(), PathBuf::new())..);
        let mine = mine.take_while(|((reader, _), _)| reader == agent);
        let newer = mine.filter_map(|((_, path), read)| {
            let write = inner.writes.get(path)?;
            let newer = write.order > mark && write.by != *agent && read.version != write.version;
            newer.then(|| (path.clone(), write.by.clone()))
        });
        newer.collect()
    }

    /// Returns the files that an agent knows and the version that it knows of each, by path.
    #[must_use]
    pub fn read_by(&self, agent: &AgentId) -> Vec<(PathBuf, FileVersion)> {
        let inner = self.lock();
        let mine = inner.reads.range((agent.clone(), PathBuf::new())..);
        let mine = mine.take_while(|((reader, _), _)| reader == agent);
        mine.map(|((_, path), read)| (path.clone(), read.version.clone())).collect()
    }

    /// Returns which agent wrote a file last, and the version it wrote.
    #[must_use]
    pub fn last_write(&self, path: &Path) -> Option<(AgentId, FileVersion)> {
        let inner = self.lock();
        inner.writes.get(path).map(|write| (write.by.clone(), write.version.clone()))
    }

    /// Waits for other writes to a path and keeps them out until the guard is dropped. It is held for
    /// one write, on a blocking thread.
    pub fn lock_path(&self, path: &Path) -> PathGuard {
        PathGuard { _lock: self.path_lock(path).lock_arc() }
    }

    fn path_lock(&self, path: &Path) -> Arc<Mutex<()>> {
        let mut inner = self.lock();
        // Keeps only the locks of writes in progress.
        inner.locks.retain(|_, lock| lock.strong_count() > 0);
        let held = inner.locks.get(path).and_then(Weak::upgrade);
        held.unwrap_or_else(|| {
            let lock = Arc::default();
            inner.locks.insert(path.to_owned(), Arc::downgrade(&lock));
            lock
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::SessionId;

    #[test]
    fn a_write_needs_the_version_that_is_there() {
        let ledger = FileLedger::default();
        let me = AgentId::root(&SessionId::literal("s"));
        let other = me.child(crate::CallId::new(1, 0), 0);
        let path = Path::new("/w/a");
        let old = FileVersion::of(b"old");
        let new = FileVersion::of(b"new");
        assert_eq!(ledger.check(&me, path, &old), Err(StaleWrite::Unread));
        ledger.record_read(&me, path, old.clone());
        assert_eq!(ledger.check(&me, path, &old), Ok(()));
        let mark = ledger.mark();
        ledger.record_write(&other, path, new.clone());
        ledger.record_read(&other, Path::new("/w/z"), old.clone());
        assert_eq!(
            ledger.check(&me, path, &new),
            Err(StaleWrite::Changed { by: format!("by agent {other}") })
        );
        assert_eq!(ledger.changed_since(mark, &me), [(path.to_owned(), other)]);
        let by = "by a command or another program".to_owned();
        assert_eq!(
            ledger.check(&me, path, &FileVersion::of(b"x")),
            Err(StaleWrite::Changed { by })
        );
        assert_eq!(
            ledger.last_write(path),
            Some((me.child(crate::CallId::new(1, 0), 0), new.clone()))
        );
        assert_eq!(ledger.read_by(&me), [(path.to_owned(), old)]);
        ledger.record_read(&me, path, new);
        assert_eq!(ledger.changed_since(mark, &me), []);
    }

    #[test]
    fn what_is_gone_is_not_created_anew_before_that_was_seen() {
        let ledger = FileLedger::default();
        let path = Path::new("/w/a");
        let me = AgentId::root(&SessionId::literal("s"));
        assert_eq!(ledger.check_none(&me, path), Ok(()));
        ledger.record_read(&me, path, FileVersion::of(b"x"));
        assert_eq!(ledger.check_none(&me, path), Err(StaleWrite::Gone));
        ledger.record_absence(&me, path);
        assert_eq!(ledger.check_none(&me, path), Ok(()));
    }

    #[test]
    fn nothing_is_kept_of_writes_that_are_over_and_of_agents_that_have_ended() {
        let ledger = FileLedger::default();
        let other = Path::new("/w/other");
        let me = AgentId::root(&SessionId::literal("s"));
        ledger.record_read(&me, other, FileVersion::of(b"x"));
        for index in 0..100 {
            let child = me.child(crate::CallId::new(1, 0), index);
            let path = PathBuf::from(format!("/w/{index}"));
            let _guard = ledger.lock_path(&path);
            assert!(ledger.path_lock(&path).is_locked(), "one write at a time");
            ledger.record_read(&child, other, FileVersion::of(b"x"));
            ledger.record_write(&child, &path, FileVersion::of(b"y"));
            ledger.forget_agent(&child);
            assert_eq!(ledger.last_write(&path).map(|(by, _)| by), Some(child));
        }
        assert_eq!(ledger.lock().locks.len(), 1);
        let reads: Vec<_> = ledger.lock().reads.keys().cloned().collect();
        assert_eq!(reads, [(me, other.to_owned())]);
    }

    /// Returns the refusal for an agent that would overwrite a file of 10 lines after reading these
    /// parts, each as `first..end` or, within a line, `line:byte..line:byte`.
    fn overwrite(parts: &[&str]) -> String {
        let ledger = FileLedger::default();
        let path = Path::new("/w/a");
        let me = AgentId::root(&SessionId::literal("s"));
        let version = FileVersion::of(b"x");
        let position = |text: &str| {
            let (line, byte) = text.split_once(':').unwrap_or((text, "0"));
            (line.parse().unwrap(), byte.parse().unwrap())
        };
        for part in parts {
            let (start, end) = part.split_once("..").unwrap();
            let parts = vec![position(start)..position(end)];
            ledger.record_partial_read(
                &me,
                path,
                version.clone(),
                ReadRange::Parts { parts, lines: 10 },
            );
        }
        assert_eq!(ledger.check(&me, path, &version), Ok(()));
        match ledger.check_whole(&me, path, &version) {
            Ok(()) => "whole".to_owned(),
            Err(stale) => stale.to_string(),
        }
    }

    #[test]
    fn to_overwrite_a_file_all_its_parts_must_have_been_seen() {
        let unseen = |part: &str| {
            format!("{part} shown to you: read on, or edit only a part that you have read")
        };
        assert_eq!(overwrite(&["1..11"]), "whole");
        assert_eq!(overwrite(&["1..2"]), unseen("9 of its 10 lines were never"));
        assert_eq!(overwrite(&["6..11", "1..4", "3..6"]), "whole");
        assert_eq!(overwrite(&["6..11", "1..4", "3..5"]), unseen("1 of its 10 lines was never"));
        assert_eq!(overwrite(&["1..3:7", "3:7..11"]), "whole");
        assert_eq!(overwrite(&["1..3:7", "3:8..11"]), unseen("1 of its 10 lines was never"));
        assert_eq!(overwrite(&["1..3:7", "4..11"]), unseen("1 of its 10 lines was never"));
    }

    #[test]
    fn a_change_after_a_part_is_reported_first_and_leaves_the_rest_unseen() {
        let ledger = FileLedger::default();
        let path = Path::new("/w/a");
        let me = AgentId::root(&SessionId::literal("s"));
        let other = me.child(crate::CallId::new(1, 0), 0);
        let old = FileVersion::of(b"old");
        let new = FileVersion::of(b"new");
        let unknown = Err(StaleWrite::Partly { lines: None });
        let part = |lines| ReadRange::Parts { parts: vec![(1, 0)..(2, 0)], lines };
        assert!(!ledger.record_partial_read(&me, path, old, part(2)));
        let by = |by: &str| Err(StaleWrite::Changed { by: by.to_owned() });
        assert_eq!(ledger.check_whole(&me, path, &new), by("by a command or another program"));
        ledger.record_write(&other, path, new.clone());
        assert_eq!(ledger.check_whole(&me, path, &new), by(&format!("by agent {other}")));
        ledger.record_write(&me, path, new.clone());
        assert_eq!(ledger.check(&me, path, &new), Ok(()));
        assert_eq!(ledger.check_whole(&me, path, &new), unknown);
        // Parts of another version do not count.
        let rest = ReadRange::Parts { parts: vec![(2, 0)..(3, 0)], lines: 2 };
        assert!(!ledger.record_partial_read(&me, path, new.clone(), rest));
        ledger.record_creation(&me, path, new.clone());
        assert_eq!(ledger.check_whole(&me, path, &new), Ok(()));
        // Reading a part of a fully known file changes nothing.
        assert!(ledger.record_partial_read(&me, path, new.clone(), part(2)));
        ledger.record_write(&me, path, FileVersion::of(b"newer"));
        assert_eq!(ledger.check_whole(&me, path, &FileVersion::of(b"newer")), Ok(()));
    }
}
