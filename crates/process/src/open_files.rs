//! How many files this program may have open.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The highest soft limit that is asked for. Some systems allow a thousand times as many, which
/// costs programs that go through all possible numbers.
pub const OPEN_FILES_LIMIT: u64 = 1 << 20;

/// The soft limit of open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    /// The limit at the start of the program, which commands get.
    pub before: u64,
    /// The present limit.
    pub now: u64,
}

/// Raises this program's soft limit of open files to its hard limit, at most to
/// [`OPEN_FILES_LIMIT`]. A program calls it once, at its start; what it gives as `before` goes
/// into [`SupervisorConfig::open_files`](crate::SupervisorConfig::open_files), so that commands have the limit that
/// they would have without it: some programs fail with a higher one.
///
/// # Errors
///
/// If the system refuses. The limit is then what it was.
pub fn raise_open_files() -> io::Result<OpenFiles> {
    let limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap_or(u64::MAX);
    let before = limit.current.unwrap_or(u64::MAX);
    let now = hard.min(OPEN_FILES_LIMIT).max(before);
    if now > before {
        let raised = Rlimit { current: Some(now), maximum: limit.maximum };
        setrlimit(Resource::Nofile, raised)?;
    }
    Ok(OpenFiles { before, now })
}
