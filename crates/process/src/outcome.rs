//! How a command ended.

use std::fmt;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use crate::termination_report::TerminationReport;

/// The result of a command that was started.
#[derive(Debug)]
#[non_exhaustive]
pub struct CommandOutcome {
    /// How its first process ended, or what ended it.
    pub exit: Exit,
    /// The output on `stdout` and `stderr`, in the order of arrival.
    pub output: Output,
    /// The spill file, if the output exceeded the memory limits and a file was asked for.
    pub spill: Option<Spill>,
    /// From the start to this result.
    pub duration: Duration,
    /// Whether a background process still held the output when the result was made.
    pub background: Background,
    /// Processes that could not be ended after a time limit or a cancel.
    pub ended: TerminationReport,
    /// The bytes of the report pipe, if [`Stdin::Report`](crate::Stdin::Report) was asked for.
    pub report: Option<StateReport>,
}

impl CommandOutcome {
    /// The result of a command that was cancelled before its start.
    pub(crate) fn not_started() -> Self {
        Self {
            exit: Exit::Cancelled,
            output: Output::default(),
            spill: None,
            duration: Duration::ZERO,
            background: Background::None,
            ended: TerminationReport::default(),
            report: None,
        }
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal, which did not come from here.
    Signal(i32),
    /// Its whole tree was ended at the time limit.
    TimedOut,
    /// Its whole tree was ended on request.
    Cancelled,
    /// It ended, and something else in this process collected its status.
    Unknown,
}

impl Exit {
    /// Returns true for code 0.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Unknown,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "ended by signal {signal}"),
            Self::TimedOut => f.write_str("ended at the time limit"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Unknown => f.write_str("ended, exit code unknown"),
        }
    }
}

/// The part of the output that is kept in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The first bytes; all of them if nothing was left out.
    pub head: Vec<u8>,
    /// The last bytes that are not part of `head`.
    pub tail: Vec<u8>,
    /// Bytes that the command wrote.
    pub total: u64,
}

impl Output {
    /// Bytes between `head` and `tail` that are not kept.
    #[must_use]
    pub fn omitted(&self) -> u64 {
        self.total.saturating_sub(self.head.len() as u64).saturating_sub(self.tail.len() as u64)
    }
}

/// The spill file of a command.
#[derive(Debug)]
#[non_exhaustive]
pub struct Spill {
    /// Path of the file.
    pub path: PathBuf,
    /// Bytes of the output in it, counted from the first one. After a failed write it may hold
    /// some more.
    pub written: u64,
    /// Why it does not hold the whole output.
    pub problem: Option<SpillProblem>,
}

/// Why a spill file does not hold the whole output. The command itself is not affected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpillProblem {
    /// The limit is reached.
    #[error(
        "the output exceeds the {limit} bytes that are kept on disk; the rest was counted only"
    )]
    Full {
        /// Bytes that the file may hold.
        limit: u64,
    },
    /// The file cannot be created or written.
    #[error("cannot write the output to disk; free space or choose another directory")]
    Write {
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// The disk did not take the last bytes in time.
    #[error("the disk did not take the output within {waited:?}; the end of the file is missing")]
    Stalled {
        /// The time that it was given.
        waited: Duration,
    },
}

/// Background processes and the output of the command that started them.
///
/// They live until their owner is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// Nobody held the output: it is complete.
    None,
    /// A background process holds it. What it writes from now on is read and thrown away.
    Discarded,
    /// A background process held it, and [`BACKGROUND_LIMIT`](crate::BACKGROUND_LIMIT) are held
    /// already: the pipe is closed, and the next write to it fails.
    Closed,
}

/// Data from the report pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateReport {
    /// The report has these bytes.
    Bytes(Vec<u8>),
    /// More than this many bytes.
    TooLong {
        /// The limit that was given.
        limit: usize,
    },
}
