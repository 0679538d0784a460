//! Errors of plugins.

use std::io;
use std::path::PathBuf;

use deputize_plugin::{CallError, TableError};
use deputize_process::{SpawnError, SupervisorError};

/// Why a plugin or one of its calls failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// Its file cannot be used.
    #[error(transparent)]
    File(#[from] PluginFileError),
    /// Its process, or a thread for it, cannot be used.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Its description of itself is invalid.
    #[error("plugin `{plugin}` describes itself wrongly: {why}")]
    Description {
        /// Its name, or its file.
        plugin: String,
        /// The fault.
        why: String,
    },
    /// It answered a call with an invalid answer.
    #[error("the plugin's answer cannot be used: {0}")]
    Answer(String),
    /// It answered a call with bytes that are no text.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A call failed, for the reason that the plugin gives.
    #[error("the plugin says: {0}")]
    Failed(String),
    /// It panicked.
    #[error("tool `{0}` panicked in its plugin; its other calls still work")]
    Panicked(String),
    /// It did not describe itself in time.
    #[error("the plugin did not describe itself within {0} s")]
    Slow(u64),
    /// Too many of its calls did not end when they were cancelled.
    #[error(
        "{0} cancelled calls of this plugin did not end, and still run in this program; \
         end the program, and give the plugin a process of its own (isolated: true)"
    )]
    Stuck(usize),
    /// A rendered error, such as one of its host process.
    #[error("{0}")]
    Message(String),
}

/// Why the file of a plugin cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PluginFileError {
    /// Its file cannot be read.
    #[error("plugin `{}` cannot be read", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// I/O error from the system.
        #[source]
        source: io::Error,
    },
    /// Its file is not the one that was pinned.
    #[error(
        "plugin `{}` is not the file that was pinned: its sha256 is {found}, not {pinned}",
        path.display()
    )]
    Digest {
        /// Path of the file.
        path: PathBuf,
        /// The pinned digest.
        pinned: String,
        /// Digest of the file.
        found: String,
    },
    /// It is no dynamic library.
    #[error("`{}` is not a dynamic library in a known format", path.display())]
    NoLibrary {
        /// Path of the file.
        path: PathBuf,
        /// Underlying error.
        #[source]
        source: object::Error,
    },
    /// The library exports no table.
    #[error(
        "`{}` is not a plugin: it does not export `deputize_plugin_v1`. A tool crate becomes one by \
         `deputize_plugin::export_plugin!()` and the crate type `cdylib`",
        path.display()
    )]
    NoTable {
        /// Path of the file.
        path: PathBuf,
    },
    /// The library exports several tables.
    #[error(
        "`{}` holds {} plugins ({}), and it is not known which is meant; say \
         `export_plugin!(links: …)` in the crate that is built, which then stands for all",
        path.display(), names.len(), names.join(", ")
    )]
    Several {
        /// Path of the file.
        path: PathBuf,
        /// The names of their tables.
        names: Vec<String>,
    },
    /// Its table is not one that this program can use. No function of it was called.
    #[error("plugin `{}` cannot be used", path.display())]
    Table {
        /// Path of the file.
        path: PathBuf,
        /// Underlying error.
        #[source]
        source: TableError,
    },
    /// The system cannot load it.
    #[error("plugin `{}` cannot be loaded", path.display())]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// Underlying error.
        #[source]
        source: libloading::Error,
    },
}

/// Why the process of a plugin, or a thread for its calls, cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// Its host process cannot be started.
    #[error("the plugin's process cannot be started")]
    Start(#[source] SpawnError),
    /// Processes cannot be started at all.
    #[error("the plugin's process cannot be started")]
    Supervisor(#[from] SupervisorError),
    /// Its host process ended during the call.
    #[error("the plugin's process {how}{}{}; the next call restarts it", heard(words), with(*others))]
    Ended {
        /// The exit status or signal, as text.
        how: String,
        /// Its last words on standard error.
        words: String,
        /// Number of other calls that ran in it.
        others: usize,
    },
    /// The memory of its host process cannot be limited.
    #[error("the memory of the plugin's process cannot be limited")]
    Memory(#[source] io::Error),
    /// A thread could not be started.
    #[error("no thread can be started for the call")]
    Thread(#[source] io::Error),
}

fn heard(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(" (its last words: {words})") }
}

fn with(others: usize) -> String {
    match others {
        0 => String::new(),
        1 => ", with another call in it".to_owned(),
        more => format!(", with {more} other calls in it"),
    }
}
