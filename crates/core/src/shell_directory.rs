//! The current directory of an agent's shell.

use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::resource::Resource;

/// The directory of an agent's shell after its last command, stored per agent, for creating agents
/// that continue there.
#[derive(Debug, Default)]
pub struct ShellPlace(Mutex<Option<PathBuf>>);

impl Resource for ShellPlace {}

impl ShellPlace {
    /// Sets the current directory.
    pub fn set(&self, path: &Path) {
        *self.0.lock() = Some(path.to_owned());
    }

    /// Returns the directory; `None` before the first command or if the shell never left its
    /// initial one.
    #[must_use]
    pub fn get(&self) -> Option<PathBuf> {
        self.0.lock().clone()
    }
}
