//! Errors of recordings and replays.

use std::io;
use std::path::{Path, PathBuf};

use deputize_core::AgentId;
use deputize_core::sanitize::for_terminal_line;

use crate::store::DAMAGE_CHARS;

/// Why a recording cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecorderError {
    /// Its file cannot be made.
    #[error("cannot create recording `{}`", path.display())]
    Create {
        /// Path of the recording.
        path: PathBuf,
        /// I/O error from the system.
        #[source]
        source: io::Error,
    },
    /// There is a file of that name.
    #[error("recording `{}` exists already: choose another name, or remove it", .0.display())]
    Exists(PathBuf),
}

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file cannot be opened or read.
    #[error("cannot read recording `{}`", path.display())]
    Open {
        /// Path of the recording.
        path: PathBuf,
        /// I/O error from the system.
        #[source]
        source: io::Error,
    },
    /// It is another kind of file.
    #[error("`{}` is not a recording: its first line is not a header", .0.display())]
    Foreign(PathBuf),
    /// It was made by a newer program.
    #[error(
        "recording `{}` has format {found}, this program reads up to {}: use a newer version",
        path.display(), super::FORMAT
    )]
    Newer {
        /// Path of the recording.
        path: PathBuf,
        /// Format version of the file.
        found: u32,
    },
    /// A line is not what was written.
    #[error("line {line} of recording `{}` is damaged: {what}", path.display())]
    Damaged {
        /// Path of the recording.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The fault.
        what: String,
    },
}

impl RecordingError {
    /// Returns the error of a damaged line. `what` may quote the file, so it is sanitized.
    pub(crate) fn damaged(path: &Path, line: u64, what: &str) -> Self {
        Self::Damaged { path: path.to_owned(), line, what: for_terminal_line(what, DAMAGE_CHARS) }
    }
}

/// Where in a recording a replay ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayPosition {
    /// Agent of the next record.
    pub agent: AgentId,
    /// The number of that record.
    pub seq: u64,
}

impl std::fmt::Display for ReplayPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "agent {}, record {}", self.agent, self.seq)
    }
}

/// Why a replay ended before the recording did, or the other way round.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// A request is not the recorded one.
    #[error(
        "request {request} of agent {agent} differs from the recording in {part}:\n{excerpt}\
         The program, its prompts or its tools are not those of the recording."
    )]
    Request {
        /// The agent that made it.
        agent: AgentId,
        /// Number of the request among those of the agent, from 1.
        request: u32,
        /// The first part that differs.
        part: String,
        /// The place where it differs, with what is around it; lines that end.
        excerpt: String,
    },
    /// The program does not do what was recorded.
    #[error(
        "the replay differs from the recording ({place}): recorded is {recorded}, and now {now}. \
         The program, its prompts or its tools are not those of the recording."
    )]
    Otherwise {
        /// Position in the recording.
        place: ReplayPosition,
        /// The next record of the recording.
        recorded: String,
        /// The program's next action, as a sentence without its end.
        now: String,
    },
    /// The recording was cut short.
    #[error(
        "the recording ends here, after {records} records{}: it was cut short before the session \
         had ended, and nothing is left to replay",
        torn_text(*bytes)
    )]
    EndsHere {
        /// Number of records.
        records: u64,
        /// Bytes of a last, incomplete line.
        bytes: u64,
    },
    /// No agent can go on.
    #[error(
        "the replay cannot go on ({place}): recorded is {recorded}, and no agent comes to it. {}\
         The program, its prompts or its tools are not those of the recording.",
        waiting(waits)
    )]
    Stuck {
        /// Position in the recording.
        place: ReplayPosition,
        /// The next record of the recording.
        recorded: String,
        /// The agents that wait for their turn.
        waits: Vec<AgentId>,
    },
    /// The replay was cancelled.
    #[error("the replay was interrupted")]
    Interrupted,
}

fn torn_text(bytes: u64) -> String {
    if bytes == 0 { String::new() } else { format!(" and {bytes} bytes of an incomplete line") }
}

fn waiting(agents: &[AgentId]) -> String {
    if agents.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = agents.iter().map(AgentId::as_str).collect();
    format!("Waiting for their turn: {}. ", names.join(", "))
}
