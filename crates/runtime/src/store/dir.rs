//! The folder that session files lie in.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use deputize_core::SessionId;

use super::file::{SessionFile, owner_only};
use super::read::{ReadError, StoredSession, read};

/// The folder that session files lie in: `ID.jsonl`, and beside it the folder `ID` for long
/// outputs, made when there is one.
#[derive(Debug, Clone)]
pub struct SessionDir {
    path: PathBuf,
}

impl SessionDir {
    /// A folder that may not exist yet.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file of a session.
    #[must_use]
    pub fn file(&self, id: &SessionId) -> PathBuf {
        self.path.join(format!("{id}.jsonl"))
    }

    /// The folder for long outputs of a session.
    #[must_use]
    pub fn spill(&self, id: &SessionId) -> PathBuf {
        self.path.join(id.as_str())
    }

    pub(crate) fn make(&self) -> Result<(), ReadError> {
        let made = fs::create_dir_all(&self.path).map_err(|error| match error.kind() {
            // A file, or a link to nowhere, stands in its way.
            io::ErrorKind::AlreadyExists => io::ErrorKind::NotADirectory.into(),
            _ => error,
        });
        let made = made.and_then(|()| owner_only(&self.path));
        made.map_err(|source| ReadError::Folder { path: self.path.clone(), source })
    }

    /// The sessions here, by name; none when the folder does not exist.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn list(&self) -> io::Result<Vec<SessionId>> {
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut ids = Vec::new();
        for entry in entries {
            let entry = entry?;
            if !entry.file_type()?.is_file() {
                continue;
            }
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(".jsonl"));
            ids.extend(id.and_then(|id| SessionId::new(id).ok()));
        }
        ids.sort();
        Ok(ids)
    }

    /// A session as stored. Nothing is changed, and it may be in use.
    ///
    /// # Errors
    /// When there is none, or it is not one that this program reads.
    pub fn read(&self, id: &SessionId) -> Result<StoredSession, ReadError> {
        read(&self.file(id))
    }

    /// Removes a session and its long outputs.
    ///
    /// # Errors
    /// When it is in use, does not exist, or cannot be removed.
    pub fn remove(&self, id: &SessionId) -> Result<(), ReadError> {
        let path = self.file(id);
        let _held = SessionFile::lock(&path)?;
        let failed = |source| ReadError::Open { path: path.clone(), source };
        match fs::remove_dir_all(self.spill(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        fs::remove_file(&path).map_err(failed)
    }
}
