//! Reads files that people wrote for agents.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Returns the text of a regular file; `None` if there is none. Bytes that are not UTF-8 are
/// replaced. A link may not lead out of `within`: a project must not send other files to the model.
///
/// # Errors
/// If the file cannot be read, is not a regular file, is longer than `most` bytes, or lies outside
/// of `within`.
pub fn read_text(path: &Path, most: u64, within: Option<&Path>) -> io::Result<Option<String>> {
    let real = match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        real => real?,
    };
    if within.is_some_and(|within| !real.starts_with(within)) {
        return Err(io::Error::other("it is a link that leaves the project"));
    }
    let meta = real.metadata()?;
    // Opening a FIFO would wait for a writer.
    if !meta.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(&real)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let message = format!("it has {} bytes, more than {most}", meta.len());
        return Err(io::Error::other(message));
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}
