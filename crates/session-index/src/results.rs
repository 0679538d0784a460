//! What a search found.

use deputize_core::SessionId;
use deputize_core::source_set::SourceSet;

use crate::entry::EntryKind;
use crate::snippet::Snippet;

/// How much of what was found is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchLimits {
    /// The most sessions.
    pub sessions: usize,
    /// The most texts of a session.
    pub texts: usize,
}

impl Default for SearchLimits {
    fn default() -> Self {
        Self { sessions: 8, texts: 3 }
    }
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchResults {
    /// The sessions, best first; of equal ones the newest first.
    pub sessions: Vec<FoundSession>,
    /// Whether the texts have only some of the words, because none has all of them.
    pub has_some_words: bool,
    /// Whether more was found than is returned.
    pub has_more: bool,
    /// Whether more sessions were found than [`SearchLimits::sessions`].
    pub has_more_sessions: bool,
    /// Sessions that cannot be read.
    pub unread: Vec<UnreadSession>,
}

/// A session in which something was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSession {
    /// ID of the session.
    pub session: SessionId,
    /// When it began, in Unix time in milliseconds.
    pub started_ms: u64,
    /// The first task of its top agent, on one line.
    pub goal: String,
    /// What its agents read from outside of the machine, such as `web:example.com`.
    pub outside: SourceSet,
    /// What was found in it, best first.
    pub texts: Vec<FoundText>,
}

/// A text that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundText {
    /// Number of its record.
    pub record: u64,
    /// When it was written, in Unix time in milliseconds.
    pub at: u64,
    /// The agent without its session; empty for the top agent.
    pub agent: String,
    /// What kind of text it is.
    pub kind: EntryKind,
    /// A few words of it.
    pub snippet: Snippet,
}

/// A session that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadSession {
    /// The name of its file, without the ending.
    pub session: String,
    /// Why it cannot be read.
    pub why: String,
}
