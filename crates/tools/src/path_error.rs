//! What can be wrong with a path, in the words that a model gets.

use std::error::Error as _;
use std::io;

use cap_std::fs::{FileType, FileTypeExt as _};
use deputize_core::ToolError;
use deputize_core::policy::Denial;
use deputize_core::protected_path::ProtectedPath;

/// Why a path cannot be used. Every path in it is shown as the caller wrote it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PathError {
    #[error("the path is empty: name a file or a directory")]
    Empty,
    #[error("the path contains a NUL byte: {0}")]
    Nul(String),
    #[error(transparent)]
    Denied(#[from] PathDenial),
    #[error("symlinks form a loop: {0}")]
    Loop(String),
    #[error("symlink leads nowhere: {0}")]
    Dangling(String),
    #[error(
        "the directory `{0}` is another one than at the start of the session, and it was not touched: \
         put the first one back, or tell the person to start a new session"
    )]
    Replaced(String),
    #[error("not found: {path}{hint}")]
    NotFound { path: String, hint: String },
    #[error(transparent)]
    Kind(#[from] FileKindError),
    #[error("is larger than {limit} bytes: {path} ({bytes} bytes); {instead}")]
    TooLarge { path: String, bytes: u64, limit: u64, instead: &'static str },
    #[error("{0}: another program changed it during this call; nothing was written: read it again")]
    Moved(String),
    #[error(
        "permission denied: {0} may not be written by the user that this program runs as; nothing \
         was written: ask for that permission, or write another file"
    )]
    NotWritable(String),
    #[error(
        "{0} belongs to another user or group, and the new file would not; nothing was written: \
         change it with a command, or write another file"
    )]
    OtherOwner(String),
    #[error("cannot {action} {path}")]
    Io {
        action: &'static str,
        path: String,
        #[source]
        source: io::Error,
    },
}

/// Why an agent may not use a path.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PathDenial {
    #[error("outside the workspace: {0}")]
    Outside(String),
    #[error("not writable for this agent: {0} (it may read there, not write)")]
    ReadOnly(String),
    #[error("not written: {path}; {guarded}")]
    Guarded { path: String, guarded: ProtectedPath },
    #[error(
        "not written: {path} leads to {leads_to}, which has instructions for agents: name that path \
         itself, so that the person can be asked"
    )]
    HiddenInstructions { path: String, leads_to: String },
    #[error("symlink leaves the workspace: {0}")]
    Escape(String),
}

/// The entry at a path is of the wrong kind.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileKindError {
    #[error("not a regular file ({kind}): {path}")]
    Special { kind: &'static str, path: String },
    #[error("is a directory: {0}; list_dir shows what is in it")]
    Directory(String),
    #[error("not a directory: {0}; read_file shows a file")]
    NotDirectory(String),
    #[error("has nothing to read without waiting for more: {0}; read it with the terminal")]
    Waits(String),
}

impl PathError {
    /// The error for what the system answered about a path.
    pub(crate) fn of(action: &'static str, path: &str, source: io::Error) -> Self {
        let path = path.to_owned();
        if is_escape(&source) {
            return PathDenial::Escape(path).into();
        }
        if rustix::io::Errno::from_io_error(&source) == Some(rustix::io::Errno::LOOP) {
            return Self::Loop(path);
        }
        if source.kind() == io::ErrorKind::WouldBlock {
            return FileKindError::Waits(path).into();
        }
        Self::Io { action, path, source }
    }

    /// Returns whether nothing that may be used is at the path, so that another may be meant.
    pub(crate) fn is_about_no_file(&self) -> bool {
        use PathDenial::{Outside, ReadOnly};
        matches!(self, Self::NotFound { .. } | Self::Denied(Outside(_) | ReadOnly(_)))
    }
}

impl From<PathError> for ToolError {
    fn from(error: PathError) -> Self {
        if let PathError::Denied(PathDenial::Guarded { path, guarded }) = &error {
            let for_person = format!("not written: {path}; {}", guarded.rule());
            return Self::Denied(Denial { for_model: error.to_string(), for_person });
        }
        match error.source() {
            Some(source) => Self::refused(format!("{error}: {source}")),
            None => Self::refused(error.to_string()),
        }
    }
}

/// Whether resolution stopped because the path would have left its root. That refusal comes
/// from the library or is its word for the kernel's, so it carries no error number.
pub(crate) fn is_escape(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none()
}

/// Names an entry that is neither a file nor a directory.
pub(crate) fn special(kind: FileType) -> &'static str {
    if kind.is_fifo() {
        "named pipe"
    } else if kind.is_socket() {
        "socket"
    } else if kind.is_char_device() {
        "character device"
    } else if kind.is_block_device() {
        "block device"
    } else if kind.is_symlink() {
        "symlink"
    } else {
        "unknown kind"
    }
}
