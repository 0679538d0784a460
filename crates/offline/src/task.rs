//! Tasks that this model knows, and reasons why others are refused.

use std::sync::LazyLock;

use regex::Regex;

use super::language;
use super::pattern::fixed;
use super::scope::Scope;
use super::wording::shorten;

mod grammar;
mod object;
mod refusal;
mod sentence;
mod token;
mod vocabulary;

/// Characters of a part of a task that a refusal repeats.
const SHOWN: usize = 120;

/// How the work of a survey is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SurveyMode {
    /// Handed to children when it is worth it.
    Fitting,
    /// Not delegated, because the person said so.
    Alone,
}

/// Target of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Term {
    /// A name, perhaps in the plural.
    Name(String),
    /// A text, exactly as it stands.
    Literal(String),
    /// A regular expression.
    Pattern(String),
}

/// Which of the lines with a term a search lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum LineFilter {
    /// All of them.
    #[default]
    Any,
    /// Those that define it.
    Definitions,
    /// Those of code that use it, calls included.
    Uses,
    /// Those that call it.
    Calls,
    /// Those that have it in a comment.
    Comments,
}

/// A search for lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LineSearch {
    pub(super) term: Term,
    /// Which lines with the term are listed.
    pub(super) filter: LineFilter,
    /// The file or directory that is searched.
    pub(super) path: String,
    /// Whether lines of tests are left out.
    pub(super) without_tests: bool,
}

/// Why a task is refused, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal(pub(super) String);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Task {
    /// A survey of a directory.
    Survey {
        root: String,
        /// How its work is shared.
        sharing: SurveyMode,
    },
    /// A survey of one part, as [`Scope::from_brief`] reads it.
    Part(Scope),
    /// The text of a file.
    Read {
        path: String,
        /// The first line that is shown, from 1.
        line: u64,
    },
    /// The lines that hold something.
    Search(LineSearch),
    /// Where the test cases are.
    Tests { root: String },
    /// The entries of a directory.
    List { path: String },
    Run {
        /// The command line.
        command: String,
    },
    /// A new file with a text.
    Write {
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
fn show_text(text: &str) -> String {
    shorten(text, SHOWN).replace('`', "'")
}

/// Whether a word can only be a path: it has a separator, an extension that we know, or begins with a
/// dot as `.gitignore` does.
pub(super) fn is_path(word: &str) -> bool {
    let prose =
        ["and/or", "either/or", "w/o", "I/O", "input/output", "pros/cons", "his/her", "TODO/FIXME"];
    let slashed = word.contains('/') && word.len() > 1 && !prose.contains(&word);
    let dotted = word.strip_prefix('.').is_some_and(|rest| rest.starts_with(char::is_alphabetic));
    (slashed || dotted || language::is_file_name(word)) && !word.contains("://")
}

#[cfg(test)]
mod tests;
