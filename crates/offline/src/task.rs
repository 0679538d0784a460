//! What is asked: the tasks that this model knows, and why others are refused.

use std::sync::LazyLock;

use regex::Regex;

use super::language;
use super::pattern::fixed;
use super::scope::Scope;
use super::wording::shorten;

mod grammar;
mod token;

/// Characters of a part of a task that a refusal repeats.
const SHOWN: usize = 120;

/// How the work of a survey is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Handed to children when it is worth it.
    Fitting,
    /// Not handed on, because the person said so.
    Alone,
}

/// What a search looks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Term {
    /// A name, perhaps in the plural.
    Name(String),
    /// A text, exactly as it stands.
    Literal(String),
    /// A regular expression.
    Pattern(String),
}

/// Why a task is refused, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal(pub(super) String);

/// A task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Task {
    /// A survey of a directory.
    Survey {
        /// The directory.
        root: String,
        /// How.
        sharing: Sharing,
    },
    /// A survey of one part, as [`Scope::from_brief`] reads it.
    Part(Scope),
    /// The text of a file.
    Read {
        /// Its path.
        path: String,
    },
    /// The lines that hold something.
    Search {
        /// What.
        term: Term,
        /// Where.
        path: String,
        /// Whether lines of tests are left out.
        without_tests: bool,
    },
    /// Where the test cases are.
    Tests {
        /// The directory.
        root: String,
    },
    /// The entries of a directory.
    List {
        /// Its path.
        path: String,
    },
    /// A command.
    Run {
        /// It.
        command: String,
    },
    /// A new file with a text.
    Write {
        /// Its path.
        path: String,
        /// All of its text.
        text: String,
    },
}

static WRITE: LazyLock<Regex> = LazyLock::new(|| {
    fixed(r"(?is)^(?:write|create)\s+(?:the\s+|a\s+)?(?:file\s+)?(\S+?):\s?(.+)$")
});

impl Task {
    /// Reads the tasks of a text, in their order. Refuses the whole text if any part of it is no
    /// task that is known.
    pub(super) fn parse(text: &str) -> Result<Vec<Self>, Refusal> {
        grammar::parse(text.trim())
    }
}

/// Returns a part of a task as a refusal repeats it.
fn shown(text: &str) -> String {
    shorten(text, SHOWN).replace('`', "'")
}

/// Whether a word can only be a path: it has a separator, or an extension that we know.
fn is_path(word: &str) -> bool {
    let prose =
        ["and/or", "either/or", "w/o", "I/O", "input/output", "pros/cons", "his/her", "TODO/FIXME"];
    let slashed = word.contains('/') && word.len() > 1 && !prose.contains(&word);
    (slashed || language::is_file_name(word)) && !word.contains("://")
}

#[cfg(test)]
mod tests;
