//! What is wrong with a document.

use std::fmt;
use std::path::PathBuf;

/// Why a text is not a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentError {
    /// The line of the mistake, from 1; `None` for the whole text.
    pub line: Option<u64>,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for DocumentError {}

impl DocumentError {
    /// Creates an error about the whole text.
    #[must_use]
    pub fn whole(message: impl Into<String>) -> Self {
        Self { line: None, message: message.into() }
    }
}

/// A file that could not be used, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentFault {
    /// Path of the file.
    pub path: PathBuf,
    /// What is wrong, and what to do.
    pub reason: String,
}

impl fmt::Display for DocumentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}
