//! Files that appear whole or not at all.

use std::io::{self, Write as _};
use std::path::Path;

use tempfile::NamedTempFile;

/// Writes a text to a temporary file in a folder and syncs it. The caller gives it its name.
///
/// # Errors
/// If it cannot be created or written.
pub(crate) fn temporary_file(folder: &Path, text: &str) -> io::Result<NamedTempFile> {
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    Ok(file)
}
