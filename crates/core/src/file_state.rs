//! Who read and wrote which version of which file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::name::AgentId;

/// What was in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Lowercase hex SHA-256 of its bytes.
    pub sha256: String,
    /// How many bytes.
    pub bytes: u64,
}

impl Version {
    /// The version of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let sum = Sha256::digest(bytes);
        Self { sha256: data_encoding::HEXLOWER.encode(&sum), bytes: bytes.len() as u64 }
    }
}

/// What to do with a write to a file that changed since the agent read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnStaleWrite {
    /// Refuse it.
    #[default]
    Refuse,
    /// Do it and say so.
    Warn,
}

/// Why a write would lose something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stale {
    /// The agent never read the file that it would overwrite.
    #[error("you have not read it: read it first, so that nothing in it is lost")]
    Unread,
    /// Its content is another one than the agent read.
    #[error("changed on disk since you read it ({by}): read it again")]
    Changed {
        /// Who changed it, as far as known.
        by: String,
    },
}

#[derive(Debug, Clone)]
struct Write {
    order: u64,
    by: AgentId,
    version: Version,
}

#[derive(Debug, Default)]
struct Inner {
    order: u64,
    reads: BTreeMap<(AgentId, PathBuf), (u64, Version)>,
    writes: BTreeMap<PathBuf, Write>,
    locks: BTreeMap<PathBuf, Arc<Mutex<()>>>,
}

/// The files that the agents of one session read and wrote: facts only, no IO. One per
/// session, shared by all its agents.
#[derive(Debug, Default)]
pub struct FileLedger {
    inner: Mutex<Inner>,
}

impl FileLedger {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An agent saw this version of a file, in whole or in part.
    pub fn saw(&self, agent: &AgentId, path: &Path, version: Version) {
        let mut inner = self.lock();
        inner.order += 1;
        let order = inner.order;
        inner.reads.insert((agent.clone(), path.to_owned()), (order, version));
    }

    /// An agent wrote this version of a file. It knows what it wrote.
    pub fn wrote(&self, agent: &AgentId, path: &Path, version: Version) {
        let mut inner = self.lock();
        inner.order += 1;
        let order = inner.order;
        inner.reads.insert((agent.clone(), path.to_owned()), (order, version.clone()));
        inner.writes.insert(path.to_owned(), Write { order, by: agent.clone(), version });
    }

    /// Whether an agent may overwrite a file whose present version is `current`.
    ///
    /// # Errors
    /// When the agent never read it, or read another version.
    pub fn check(&self, agent: &AgentId, path: &Path, current: &Version) -> Result<(), Stale> {
        let inner = self.lock();
        let Some((_, read)) = inner.reads.get(&(agent.clone(), path.to_owned())) else {
            return Err(Stale::Unread);
        };
        if read == current {
            return Ok(());
        }
        let by = match inner.writes.get(path) {
            Some(write) if write.version == *current && write.by != *agent => {
                format!("by agent {}", write.by)
            }
            _ => "by another program".to_owned(),
        };
        Err(Stale::Changed { by })
    }

    /// A mark in the order of events, for [`FileLedger::changed_since`].
    #[must_use]
    pub fn mark(&self) -> u64 {
        self.lock().order
    }

    /// Files that `agent` had read and that another agent wrote after the mark, by path.
    #[must_use]
    pub fn changed_since(&self, mark: u64, agent: &AgentId) -> Vec<(PathBuf, AgentId)> {
        let inner = self.lock();
        let newer = inner.writes.iter().filter(|(path, write)| {
            write.order > mark
                && write.by != *agent
                && inner
                    .reads
                    .get(&(agent.clone(), (*path).clone()))
                    .is_some_and(|(_, read)| *read != write.version)
        });
        newer.map(|(path, write)| (path.clone(), write.by.clone())).collect()
    }

    /// The lock that serialises writes to one path. It is held for one write, off the
    /// asynchronous threads.
    #[must_use]
    pub fn path_lock(&self, path: &Path) -> Arc<Mutex<()>> {
        Arc::clone(self.lock().locks.entry(path.to_owned()).or_default())
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
        let other = me.child(crate::CallId { step: 1, slot: 0 }, 0);
        let path = Path::new("/w/a");
        let (old, new) = (Version::of(b"old"), Version::of(b"new"));
        assert_eq!(ledger.check(&me, path, &old), Err(Stale::Unread));
        ledger.saw(&me, path, old.clone());
        assert_eq!(ledger.check(&me, path, &old), Ok(()));
        let mark = ledger.mark();
        ledger.wrote(&other, path, new.clone());
        assert_eq!(
            ledger.check(&me, path, &new),
            Err(Stale::Changed { by: format!("by agent {other}") })
        );
        assert_eq!(ledger.changed_since(mark, &me), [(path.to_owned(), other)]);
        let by = "by another program".to_owned();
        assert_eq!(ledger.check(&me, path, &Version::of(b"x")), Err(Stale::Changed { by }));
        ledger.saw(&me, path, new);
        assert_eq!(ledger.changed_since(mark, &me), []);
    }
}
