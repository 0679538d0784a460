//! Background commands of an agent, as they are recorded.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::name::CallId;
use crate::source_set::SourceSet;

/// The start of a background command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessStart {
    /// Its ID, unique among those of its agent.
    pub process: String,
    /// The call that started it.
    pub call: CallId,
    /// Text of the command.
    pub command: String,
    /// Whether its agent gets a message when it ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub notify: bool,
    /// Whether it has a terminal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub terminal: bool,
    /// The file with its output, created with the first output; `None` if the output is not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<PathBuf>,
    /// The PID of a durable command, which outlives its agent and the program; `None` for any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable_pid: Option<u32>,
}

/// The end of a background command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessEnd {
    /// Its ID.
    pub process: String,
    /// Text of the command.
    pub command: String,
    /// How it ended.
    pub exit: ProcessExit,
    /// Duration in milliseconds; `None` if nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// Bytes that it wrote; `None` if nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
    /// The message that was queued for its agent, if any. When the agent reads it, an
    /// [`Event::Message`](crate::Event::Message) with the same text follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Who said what is in the message.
    #[serde(default, skip_serializing_if = "SourceSet::is_empty")]
    pub sources: SourceSet,
}

/// How a background command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ProcessExit {
    /// By itself, with this exit code.
    Code {
        /// Exit code.
        code: i32,
    },
    /// By a signal that did not come from its agent.
    Signal {
        /// The number of the signal.
        signal: i32,
    },
    /// At its time limit.
    TimedOut,
    /// Its agent killed it.
    Killed,
    /// It still ran when its agent ended.
    AgentEnded,
    /// It ran when the program ended.
    ProgramEnded,
    /// It is durable, and ran when its agent or the program ended. It goes on.
    LeftRunning {
        /// Process ID on this machine.
        pid: u32,
    },
    /// Nobody observed how it ended.
    Unknown,
}

impl ProcessExit {
    /// Returns the exit code, if it ended by itself.
    #[must_use]
    pub const fn code(self) -> Option<i32> {
        match self {
            Self::Code { code } => Some(code),
            _ => None,
        }
    }
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code { code } => write!(f, "exit code {code}"),
            Self::Signal { signal } => write!(f, "ended by signal {signal}"),
            Self::TimedOut => f.write_str("killed at its time limit"),
            Self::Killed => f.write_str("killed"),
            Self::AgentEnded => f.write_str("killed, because the turn of its agent ended"),
            Self::ProgramEnded => f.write_str("killed, because the program ended"),
            Self::LeftRunning { pid } => write!(f, "left running as PID {pid}"),
            Self::Unknown => f.write_str("ended, exit code unknown"),
        }
    }
}
