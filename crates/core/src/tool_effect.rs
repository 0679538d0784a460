//! The effects of calls.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::file_state::FileVersion;
use crate::name::AgentId;
use crate::status::Status;
use crate::todo::TodoItem;

/// An effect of a call as the host observed it. Trusted only from built-in tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum ToolEffect {
    /// A file was read.
    FileRead {
        /// Its absolute path.
        path: PathBuf,
        /// Version of its content.
        version: FileVersion,
        /// Whether the agent has seen all of it, by this read and those before.
        whole: bool,
    },
    /// A file was created or changed.
    FileWritten {
        /// Its absolute path.
        path: PathBuf,
        /// Its new content.
        version: FileVersion,
        /// Whether the write created it.
        created: bool,
    },
    /// A file was removed.
    FileRemoved {
        /// Its absolute path.
        path: PathBuf,
    },
    /// A command ended.
    Command {
        /// Text of the command.
        command: String,
        /// Its exit code; `None` if a signal killed it or its end was not observed.
        exit_code: Option<i32>,
        /// Whether its end was not observed, because the program ended first.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unknown: bool,
    },
    /// A child was not started, and no other record of it exists.
    NotBegun {
        /// The ID that it would have had.
        agent: AgentId,
        /// Index of the task in the call, from 0.
        task_index: u32,
        /// The model that it would have used.
        model: String,
        /// The status in its entry.
        status: Status,
        /// Why it was not started.
        error: String,
    },
    /// The agent changed its todo list.
    TodoChanged {
        /// All items of the list.
        items: Vec<TodoItem>,
    },
    /// Text from outside of this machine entered the conversation. Only in older records: newer
    /// ones have the sources of a result in it.
    OutsideRead {
        /// Where it comes from, such as `web:example.com`, or `children`.
        source: String,
    },
    /// The agent's shell changed its directory.
    ShellMoved {
        /// The new directory, absolute.
        path: PathBuf,
    },
}
