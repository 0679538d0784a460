//! The Python that runs scripts.

use std::ffi::OsStr;
use std::path::PathBuf;

use deputize_core::{Resource, ResourceMap};
use deputize_process::resolve_program;

use crate::Settings;

const PYTHON: &str = "python3";

/// The Python of a session, looked up once in the path of its commands.
#[derive(Debug)]
pub(crate) struct Python(Result<PathBuf, String>);

impl Resource for Python {}

impl Python {
    /// Looks it up, or returns what was found before.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn find(settings: &ResourceMap) -> Result<PathBuf, String> {
        // Not inside the other one: the map is locked there.
        let tools = settings.get_or_insert_with(Settings::default);
        settings.get_or_insert_with(|| Self::look_up(&tools)).0.clone()
    }

    fn look_up(settings: &Settings) -> Self {
        let path = settings.commands.env.get(OsStr::new("PATH"));
        let found = resolve_program(PYTHON.as_ref(), path.map(AsRef::as_ref));
        // The path itself would be long, and means nothing to a model.
        Self(found.map_err(|_| format!("no `{PYTHON}` in PATH: install Python 3.7 or later")))
    }
}

/// Returns the Python that runs scripts, as a session with these settings finds it.
///
/// # Errors
/// Why there is none.
pub fn find_python(settings: &ResourceMap) -> Result<PathBuf, String> {
    Python::find(settings)
}

/// Returns the arguments with which Python runs a program and nothing of its environment, of the
/// user's folder or of the working directory.
pub(crate) fn isolated(program: &str) -> Vec<std::ffi::OsString> {
    ["-I", "-u", "-X", "utf8", "-c", program].map(Into::into).into()
}
