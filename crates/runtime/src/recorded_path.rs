//! Paths as records hold them.

use std::path::PathBuf;

/// Returns a path as a record holds it. A record is JSON: a name that is not UTF-8 stands there as it
/// is shown.
pub(crate) fn recorded_path(path: PathBuf) -> PathBuf {
    match path.into_os_string().into_string() {
        Ok(path) => path.into(),
        Err(path) => path.to_string_lossy().into_owned().into(),
    }
}
