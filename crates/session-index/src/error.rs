//! Why sessions cannot be searched.

use std::error::Error;
use std::path::{Path, PathBuf};

use deputize_runtime::ReadError;

use crate::database::DatabaseError;

/// Why sessions cannot be searched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The query has nothing to search for.
    #[error("the query has no words in it")]
    NoWords,
    /// The query is too long.
    #[error("the query is too long: {most} {unit} are the most")]
    Long {
        /// Limit in `unit`.
        most: usize,
        /// Unit of the limit.
        unit: &'static str,
    },
    /// A text names no place in a session.
    #[error("`{0}` names no text of a session: SESSION#NUMBER does")]
    Place(String),
    /// There is no such session.
    #[error("there is no session `{0}`")]
    UnknownSession(String),
    /// The session has no text.
    #[error("session `{0}` has no text that is searched")]
    NoText(String),
    /// The folder of the sessions cannot be read.
    #[error("cannot read the sessions")]
    Sessions(#[source] ReadError),
    /// Another process has been using the index for long.
    #[error("the search index `{}` has been in use by another process for {seconds} s", path.display())]
    InUse {
        /// The folder of the index.
        path: PathBuf,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The index cannot be read or written.
    #[error("cannot use the search index `{}`{}", path.display(), if *is_full { " (make room on its disk)" } else { "" })]
    Index {
        /// The folder of the index.
        path: PathBuf,
        /// Whether its disk is full.
        is_full: bool,
        /// Underlying error.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The search was cancelled. What was read until then is kept.
    #[error("the search was cancelled")]
    Cancelled,
}

impl IndexError {
    pub(crate) fn index(folder: &Path, error: DatabaseError) -> Self {
        let is_full = error.is_full();
        Self::Index { path: folder.to_owned(), is_full, source: Box::new(error) }
    }
}
