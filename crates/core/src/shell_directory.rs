//! Where an agent's shell is.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::agent::Resource;

/// The directory that an agent's shell is in, as its last command left it: kept in the agent's
/// store, for whoever makes agents that go on there.
#[derive(Debug, Default)]
pub struct ShellPlace(Mutex<Option<PathBuf>>);

impl Resource for ShellPlace {}

impl ShellPlace {
    /// It is there now.
    pub fn set(&self, path: &Path) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(path.to_owned());
    }

    /// Where it is; nothing before its first command, and where it never left its beginning.
    #[must_use]
    pub fn get(&self) -> Option<PathBuf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
