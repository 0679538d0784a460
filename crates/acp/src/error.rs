//! Errors of external agents.

use std::time::Duration;

use deputize_core::sanitize::for_terminal_line;
use deputize_process::{Exit, SpawnError, SupervisorError};

/// Limit on the program's own words in an error, in characters.
const SAID_CHARS: usize = 500;

/// Why an external agent gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcpError {
    /// The process supervisor cannot be started.
    #[error("the external agent cannot be started")]
    Supervisor(#[from] SupervisorError),
    /// The program cannot be started.
    #[error("the external agent cannot be started")]
    Spawn(#[from] SpawnError),
    /// The program exited.
    #[error("the external agent ended ({exit}) before it answered")]
    Ended {
        /// How it exited.
        exit: Exit,
    },
    /// The program closed its output but still runs.
    #[error("the external agent closed its output before it answered")]
    Closed,
    /// The program did not answer an early request in time.
    #[error(
        "the external agent did not answer `{method}` within {} s: does it speak ACP on its \
         standard streams?", limit.as_secs()
    )]
    Slow {
        /// Method of the request.
        method: &'static str,
        /// The time limit.
        limit: Duration,
    },
    /// The program speaks another version of the protocol.
    #[error("the external agent speaks version {0} of ACP; only version 1 is supported")]
    Version(String),
    /// The program refused a request.
    #[error("the external agent refused `{method}`: {}", for_terminal_line(message, SAID_CHARS))]
    Refused {
        /// Method of the request.
        method: &'static str,
        /// The program's error message.
        message: String,
    },
    /// The program needs a login first.
    #[error(
        "the external agent wants a login: log in with it once outside of this program, or hand \
         it the environment variable with its key"
    )]
    Login,
    /// The program's output is not ACP.
    #[error(transparent)]
    Garbage(#[from] ProtocolFault),
}

impl AcpError {
    /// Returns what is wrong, without the program's words, which may hold a secret.
    pub(crate) const fn label(&self) -> &'static str {
        match self {
            Self::Supervisor(_) | Self::Spawn(_) => "not started",
            Self::Ended { .. } => "it ended",
            Self::Closed => "it closed its output",
            Self::Slow { .. } => "no answer in time",
            Self::Version(_) => "another version of the protocol",
            Self::Refused { .. } => "it refused a request",
            Self::Login => "it wants a login",
            Self::Garbage(_) => "it breaks the protocol",
        }
    }
}

/// Output of an external agent that breaks the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolFault {
    /// A line longer than the limit.
    #[error("the external agent sent a line of more than {limit} bytes, which is the limit")]
    LongLine {
        /// Limit in bytes.
        limit: usize,
    },
    /// More output in total than the limit.
    #[error("the external agent sent more than {limit} bytes, which is the limit")]
    Flood {
        /// Limit in bytes.
        limit: u64,
    },
    /// Lines that are not messages.
    #[error(
        "the external agent sent {count} lines that are not JSON-RPC messages; the first is: {first}"
    )]
    NoMessages {
        /// The number of such lines.
        count: u32,
        /// The first such line, truncated.
        first: String,
    },
}
