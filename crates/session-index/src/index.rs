//! The index over the sessions of a folder.

use std::io::ErrorKind;
use std::path::PathBuf;

use deputize_core::{Cancel, SessionId};
use deputize_runtime::{ReadError, SessionDir};
use rusqlite::Connection;

use crate::conversation::{ConversationPage, PageFault, read_page};
use crate::database::{Database, DatabaseError};
use crate::error::IndexError;
use crate::index_lock::IndexLock;
use crate::place::SessionPlace;
use crate::query::SearchQuery;
use crate::results::{SearchLimits, SearchResults};
use crate::search::Search;
use crate::update::{UpdateError, update};

/// The folder of an index among the sessions. Its name is no session's.
const FOLDER: &str = ".search";

/// The index over the sessions of a folder. It is opened by each search alone and takes up nothing
/// between two of them.
///
/// Several processes may search at once; one waits for the other. A process that is killed leaves an
/// index that the next one goes on with.
#[derive(Debug, Clone)]
pub struct SessionIndex {
    sessions: SessionDir,
}

impl SessionIndex {
    /// Creates the index over the sessions of a folder. Nothing is read or written yet.
    #[must_use]
    pub const fn new(sessions: SessionDir) -> Self {
        Self { sessions }
    }

    /// Returns the folder of the index, which may be removed when nothing searches.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.sessions.path().join(FOLDER)
    }

    /// Searches all sessions; of `except` only what its top agent's conversation has lost by a
    /// compaction. It blocks the thread: some milliseconds if little has
    /// changed since the last search, seconds if there is no index yet.
    ///
    /// # Errors
    /// If the sessions cannot be read, the index cannot be written, or the search is cancelled.
    pub fn search(
        &self,
        query: &SearchQuery,
        except: Option<&SessionId>,
        limits: SearchLimits,
        cancel: &Cancel,
    ) -> Result<SearchResults, IndexError> {
        let found = self.with_index(cancel, |connection| {
            Ok(Search { connection, query, except, limits }.run()?)
        })?;
        Ok(found.unwrap_or_else(|| SearchResults {
            sessions: Vec::new(),
            has_some_words: false,
            has_more: false,
            has_more_sessions: false,
            unread: Vec::new(),
        }))
    }

    /// Reads what was said around a place, in the conversation of the agent that said it.
    ///
    /// # Errors
    /// As [`SessionIndex::search`], and if there is no such session or it has no text.
    pub fn read_around(
        &self,
        place: &SessionPlace,
        cancel: &Cancel,
    ) -> Result<ConversationPage, IndexError> {
        let name = || place.session.to_string();
        let page = self.with_index(cancel, |connection| Ok(read_page(connection, place)?))?;
        match page.unwrap_or(Err(PageFault::UnknownSession)) {
            Ok(page) => Ok(page),
            Err(PageFault::UnknownSession) => Err(IndexError::UnknownSession(name())),
            Err(PageFault::NoText) => Err(IndexError::NoText(name())),
        }
    }

    /// Does something with the index after it was brought up to date; `None` if there are no
    /// sessions. An index that is found broken is made anew, once.
    fn with_index<T>(
        &self,
        cancel: &Cancel,
        work: impl Fn(&Connection) -> Result<T, DatabaseError>,
    ) -> Result<Option<T>, IndexError> {
        let path = self.sessions.path();
        // What cannot be read is no fault of the index, which is in the same folder.
        match path.read_dir().and_then(|_| path.join(".").metadata()) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                let path = path.to_owned();
                return Err(IndexError::Sessions(ReadError::Folder { path, source }));
            }
            Ok(_) => {}
        }
        let folder = self.folder();
        let lock = IndexLock::acquire(&folder, cancel)?;
        let attempt = |open: fn(&std::path::Path) -> Result<Database, DatabaseError>| {
            let mut database = open(&folder)?;
            update(&mut database.connection, &self.sessions, lock.disk_time(), cancel)?;
            Ok(work(&database.connection)?)
        };
        let done = match attempt(Database::open) {
            Err(UpdateError::Database(error)) if error.is_damage() => attempt(Database::create),
            done => done,
        };
        done.map(Some).map_err(|error| match error {
            UpdateError::Database(error) => IndexError::index(&folder, error),
            UpdateError::Sessions(error) => IndexError::Sessions(error),
            UpdateError::Cancelled => IndexError::Cancelled,
        })
    }
}

#[cfg(test)]
mod tests;
