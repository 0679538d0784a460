//! Commands to run, as plain data.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of output kept from the beginning, unless said otherwise.
pub const HEAD_LIMIT: usize = 16 * 1024;
/// Bytes of output kept from the end, unless said otherwise.
pub const TAIL_LIMIT: usize = 16 * 1024;
/// Bytes of output written to the spill file, unless said otherwise.
pub const SPILL_LIMIT: u64 = 64 * 1024 * 1024;
/// Run time of a command, unless said otherwise.
pub const TIME_LIMIT: Duration = Duration::from_secs(120);

/// One command: a program with its arguments, place, environment and limits.
///
/// It runs in a session of its own, without a terminal, with `stdout` and `stderr` going into one
/// pipe and no other descriptor of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// An absolute path, or a name that is looked up once in the `PATH` of `env`.
    pub program: OsString,
    /// The arguments after the program's name.
    pub args: Vec<OsString>,
    /// The working directory; absolute.
    pub cwd: PathBuf,
    /// The whole environment: nothing is inherited. See [`base_env`](crate::base_env).
    pub env: BTreeMap<OsString, OsString>,
    /// Standard input of the program.
    pub stdin: Stdin,
    /// Time after which the whole tree is ended.
    pub time_limit: Duration,
    /// How much of the output is kept in memory.
    pub output: OutputLimits,
    /// Where the whole output goes if it exceeds `output`; `None` to count the rest only.
    pub spill: Option<SpillFile>,
}

impl Command {
    /// Creates a command with an empty environment, no input, and the limits of this module.
    #[must_use]
    pub fn new(program: impl Into<OsString>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            cwd: cwd.into(),
            env: BTreeMap::new(),
            stdin: Stdin::Null,
            time_limit: TIME_LIMIT,
            output: OutputLimits::default(),
            spill: None,
        }
    }
}

/// Standard input of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stdin {
    /// `/dev/null`.
    #[default]
    Null,
    /// These bytes, then the end.
    Bytes(Vec<u8>),
    /// The writing end of a pipe whose bytes come back as [`CommandOutcome::report`]. The program is
    /// expected to move it to another number and to open `/dev/null` in its place.
    ///
    /// [`CommandOutcome::report`]: crate::CommandOutcome::report
    Report {
        /// Bytes to keep at most; above it the report is void.
        limit: usize,
    },
}

/// Limits on the output kept in memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimits {
    /// From the beginning.
    pub head: usize,
    /// From the end.
    pub tail: usize,
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self { head: HEAD_LIMIT, tail: TAIL_LIMIT }
    }
}

/// The file for output that exceeds the memory limits. It holds the output from its first byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpillFile {
    /// Created when it is needed, readable by its owner only. A file that exists is not touched:
    /// the spill has then failed.
    pub path: PathBuf,
    /// Bytes to write at most; the rest is counted only.
    pub limit: u64,
}

impl SpillFile {
    /// Creates a spill file with the limit [`SPILL_LIMIT`].
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), limit: SPILL_LIMIT }
    }
}
