//! The way to a run from another terminal: a socket of its own beside the session files, through
//! which one asks for things, a JSON object a line. What agents do is in the session file, which
//! anybody may read who may use the socket.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) mod agent_table;
pub(crate) mod client;
pub(crate) mod lock_holders;
pub(crate) mod server;
mod socket_folder;

/// Limit on a request, in bytes.
const REQUEST_BYTES: u64 = 4096;
/// Limit on an answer, in bytes.
const ANSWER_BYTES: u64 = 1024 * 1024;

/// Request to a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum ControlRequest {
    /// Say which run it is, and whether new children may start.
    Status,
    /// No new children.
    Pause,
    /// New children again.
    Unpause,
    /// Tell an agent to end.
    Stop {
        agent: String,
        /// With those that run below it.
        #[serde(default)]
        tree: bool,
    },
}

/// Answer of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ControlAnswer {
    /// It is done, and this came of it.
    Ok(Value),
    /// It is not, for this reason.
    Error(String),
}

/// Why there is no way to a run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    #[error("the folder `{}` cannot be used", path.display())]
    Folder {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{}` is not a folder that only this user may enter ({why}); remove it", path.display())]
    Exposed { path: PathBuf, why: String },
    #[error("the socket `{}` cannot be made", path.display())]
    Bind {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("session `{0}` does not run, or it has `control: false`")]
    NotRunning(String),
    #[error("session `{session}` does not answer")]
    Silent {
        session: String,
        #[source]
        source: io::Error,
    },
    #[error("session `{session}`: {what}")]
    Refused { session: String, what: String },
}
