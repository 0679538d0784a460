//! The files of the memory, and what keeps an entry out of them.

use std::io;
use std::path::PathBuf;
use std::str::FromStr;

/// Characters of an entry at most.
pub const ENTRY_CHARS: usize = 400;
/// Bytes of one file at most: all of it is in each prompt.
pub const MEMORY_BYTES: usize = 6_000;

/// One of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryTopic {
    /// About the person.
    User,
    /// About the work.
    Work,
}

impl MemoryTopic {
    /// All topics.
    pub const ALL: [Self; 2] = [Self::User, Self::Work];

    /// Returns its name, such as `user`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Work => "work",
        }
    }

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::User => "# About the person",
            Self::Work => "# About the work",
        }
    }
}

impl FromStr for MemoryTopic {
    type Err = MemoryFileError;

    fn from_str(name: &str) -> Result<Self, MemoryFileError> {
        let known = Self::ALL.into_iter().find(|topic| topic.as_str() == name);
        known.ok_or_else(|| MemoryFileError::Topic(name.to_owned()))
    }
}

/// Why the memory does not take or change an entry.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryFileError {
    /// There is no such file.
    #[error("there is no memory `{0}`; there are `user` and `work`")]
    Topic(String),
    /// The entry has no text.
    #[error("the entry has no text")]
    Empty,
    /// The entry is too long.
    #[error("the entry has {chars} characters, and {ENTRY_CHARS} is the most: shorten it")]
    Long {
        /// Number of its characters.
        chars: usize,
    },
    /// The entry has a secret in it.
    #[error("the entry contains a secret ({0}): secrets are never saved")]
    Secret(String),
    /// The entry is there already.
    #[error("that is kept already")]
    Known,
    /// The file would be too long.
    #[error(
        "`{topic}` would have {bytes} bytes, and {MEMORY_BYTES} is the most: replace or remove \
         entries first"
    )]
    Full {
        /// Topic whose file it is.
        topic: &'static str,
        /// Its bytes with the entry.
        bytes: usize,
    },
    /// No entry has the text.
    #[error("no entry of `{topic}` has `{text}` in it: give a part of an entry that is there")]
    NoMatch {
        /// Topic whose file it is.
        topic: &'static str,
        /// Text that was looked for.
        text: String,
    },
    /// More than one entry has the text.
    #[error("{count} entries of `{topic}` have `{text}` in them, not one: give more of the entry")]
    Ambiguous {
        /// Topic whose file it is.
        topic: &'static str,
        /// Text that was looked for.
        text: String,
        /// How many entries have it.
        count: usize,
    },
    /// A line of a text is no entry.
    #[error("line {line}")]
    Line {
        /// The number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        source: Box<MemoryFileError>,
    },
    /// The file has other entries than those that were edited.
    #[error("`{0}` was changed meanwhile: edit it again")]
    Changed(&'static str),
    /// A file cannot be read or written.
    #[error("the memory {} cannot be used", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
}
