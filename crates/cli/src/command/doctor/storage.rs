//! Whether sessions can be kept: a few bytes are really written, to a file without a name. And whether
//! what is kept beside them can be used.

use std::io::{self, Write as _};
use std::path::Path;

use deputize_core::sanitize::Secrets;
use deputize_tools::{MEMORY_BYTES, MemoryTopic};

use super::Check;
use crate::compose::memory_files;
use crate::exit::CliError;
use crate::invocation::format_command;
use crate::process_env::ProcessEnv;

/// What is checked where it is memory.
pub(super) const MEMORY: &str = "memory files";
/// Bytes to write: more than a file system keeps beside a file's name.
const PROBE_BYTES: usize = 16 * 1024;
/// With less than this a few long sessions fill the disk.
const LITTLE_BYTES: u64 = 64 * 1024 * 1024;

/// Looks at the folder of the sessions, or at the one that it would be made in.
pub(super) fn check(env: &ProcessEnv) -> Check {
    const WHAT: &str = "sessions";
    let dir = match env.sessions() {
        Ok(dir) => dir,
        Err(error) => return Check::new(WHAT, Err(error.chain())),
    };
    let path = dir.path();
    let existing = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    if let Err(error) = write(existing) {
        let found = format!(
            "{} cannot be written: {error}; DEPUTIZE_HOME chooses another place",
            existing.display()
        );
        return Check::new(WHAT, Err(found));
    }
    match free(existing) {
        Some(bytes) if bytes < LITTLE_BYTES => {
            let kib = bytes / 1024;
            Check::less(WHAT, format!("{}, where only {kib} KiB are free", path.display()))
        }
        _ => Check::new(WHAT, Ok(path.display().to_string())),
    }
}

/// Names the memory that is not all in prompts.
pub(super) fn memory(env: &ProcessEnv) -> Vec<Check> {
    let mut checks = Vec::new();
    let Some(files) = memory_files(env, Secrets::default()) else { return checks };
    for topic in MemoryTopic::ALL {
        let found = match files.text(topic) {
            Ok(text) if text.len() <= MEMORY_BYTES => continue,
            Ok(text) => format!(
                "{} has {} bytes of entries, and prompts have the first {MEMORY_BYTES}: shorten it \
                 with `{} {}`",
                files.path(topic).display(),
                text.len(),
                format_command("memory edit"),
                topic.as_str()
            ),
            Err(error) => CliError::failed(error).chain(),
        };
        checks.push(Check::less(MEMORY, found));
    }
    checks
}

fn write(folder: &Path) -> io::Result<()> {
    let mut file = tempfile::tempfile_in(folder)?;
    file.write_all(&[b'.'; PROBE_BYTES])?;
    file.sync_data()
}

/// Returns the free bytes for this user; `None` if the system does not say.
fn free(folder: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(folder).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize)).filter(|_| stat.f_blocks > 0)
}
