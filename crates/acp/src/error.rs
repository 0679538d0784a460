//! What goes wrong with an external agent.

use std::time::Duration;

use deputize_core::sanitize::for_terminal_line;
use deputize_process::{Exit, SpawnError, SupervisorError};

/// How many characters of what the program says are told.
const SAID_CHARS: usize = 500;

/// Why an external agent gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcpError {
    /// What owns its processes cannot be started.
    #[error("the external agent cannot be started")]
    Supervisor(#[from] SupervisorError),
    /// It cannot be started.
    #[error("the external agent cannot be started")]
    Spawn(#[from] SpawnError),
    /// It ended.
    #[error("the external agent ended ({exit}) before it answered")]
    Ended {
        /// How.
        exit: Exit,
    },
    /// It closed its output and runs on.
    #[error("the external agent closed its output before it answered")]
    Closed,
    /// It does not begin.
    #[error(
        "the external agent did not answer `{method}` within {} s: does it speak ACP on its \
         standard streams?", limit.as_secs()
    )]
    Slow {
        /// What it was asked.
        method: &'static str,
        /// How long it had.
        limit: Duration,
    },
    /// It speaks another version.
    #[error("the external agent speaks version {0} of ACP; version 1 is spoken here")]
    Version(String),
    /// It refused a request.
    #[error("the external agent refused `{method}`: {}", for_terminal_line(message, SAID_CHARS))]
    Refused {
        /// What it was asked.
        method: &'static str,
        /// What it said.
        message: String,
    },
    /// It must be logged in first.
    #[error(
        "the external agent wants a login: log in with it once outside of this program, or hand \
         it the environment variable with its key"
    )]
    Login,
    /// What it sends is no ACP.
    #[error(transparent)]
    Garbage(#[from] ProtocolFault),
}

/// What an external agent sends, and may not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolFault {
    /// A line without end.
    #[error("the external agent sent a line of more than {limit} bytes, which is the limit")]
    LongLine {
        /// The limit.
        limit: usize,
    },
    /// Too much in all.
    #[error("the external agent sent more than {limit} bytes, which is the limit")]
    Flood {
        /// The limit.
        limit: u64,
    },
    /// Lines that are no messages.
    #[error(
        "the external agent sent {count} lines that are no JSON-RPC messages; the first is: {first}"
    )]
    NoMessages {
        /// How many.
        count: u32,
        /// The first, shortened.
        first: String,
    },
}
