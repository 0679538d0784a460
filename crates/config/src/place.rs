//! Where a value was written, and what is wrong with it.

use deputize_core::truncate::truncate_chars;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Characters of a foreign text that a message shows before it says how many more there were.
const SHOWN_CHARS: usize = 80;
/// Limit on a listed name in bytes, and on the number of listed names.
const LISTED_CHARS: usize = 40;
const LISTED_NAMES: usize = 20;

/// What a value came from, later ones winning over earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ConfigSource {
    /// A configuration file.
    File(PathBuf),
    /// An environment variable, by name.
    Env(String),
    /// A `--set` option, by the key before its `=`.
    Set(String),
    /// Another command-line option, by its name with the dashes.
    Flag(String),
}

/// One place in a [`ConfigSource`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigPlace {
    source: Arc<ConfigSource>,
    position: Option<(u64, u64)>,
}

impl ConfigPlace {
    /// The source as a whole.
    pub(super) fn whole(source: &Arc<ConfigSource>) -> Self {
        Self { source: Arc::clone(source), position: None }
    }

    /// Whether it is an environment variable.
    pub(super) fn is_in_environment(&self) -> bool {
        matches!(*self.source, ConfigSource::Env(_))
    }

    /// Whether it is an option of the command line other than `--set`.
    pub(super) fn is_on_command_line(&self) -> bool {
        matches!(*self.source, ConfigSource::Flag(_))
    }

    /// Whether it is in a configuration file.
    pub(super) fn is_in_file(&self) -> bool {
        matches!(*self.source, ConfigSource::File(_))
    }

    /// A line and column of a file, both counted from 1; columns count characters.
    pub(super) fn at(source: &Arc<ConfigSource>, line: u64, column: u64) -> Self {
        let known = line > 0 && matches!(**source, ConfigSource::File(_));
        Self { source: Arc::clone(source), position: known.then_some((line, column)) }
    }

    /// Returns what the value came from.
    pub fn source(&self) -> &ConfigSource {
        &self.source
    }

    /// Returns line and column, both from 1; only files have them.
    pub fn position(&self) -> Option<(u64, u64)> {
        self.position
    }
}

impl fmt::Display for ConfigPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.source {
            ConfigSource::File(path) => write!(f, "{}", printable(&path.display().to_string()))?,
            ConfigSource::Env(name) => write!(f, "{}", shown(name))?,
            ConfigSource::Set(key) => write!(f, "--set {}", shown(key))?,
            ConfigSource::Flag(flag) => write!(f, "{}", shown(flag))?,
        }
        match self.position {
            Some((line, column)) => write!(f, ":{line}:{column}"),
            None => Ok(()),
        }
    }
}

/// One mistake, or one thing to be warned of. Displays as `PLACE: MESSAGE`, one line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where it was written.
    pub place: ConfigPlace,
    /// What is wrong and what to do.
    pub message: String,
}

impl Problem {
    /// Makes a problem at a place.
    pub fn new(place: &ConfigPlace, message: impl Into<String>) -> Self {
        Self { place: place.clone(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Foreign text for a message: control characters escaped, long text shortened with a count.
pub(super) fn shown(text: &str) -> String {
    let mut out = printable(truncate_chars(text, SHOWN_CHARS));
    let rest = text.chars().count().saturating_sub(SHOWN_CHARS);
    if rest > 0 {
        out.push_str(&format!("… ({rest} more characters)"));
    }
    out
}

/// Names to choose from, for a message. There may be any number of them, of any length.
pub(super) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let (plain, odd): (Vec<&str>, Vec<&str>) = names.into_iter().partition(|name| {
        name.len() <= LISTED_CHARS && !name.is_empty() && printable(name) == *name
    });
    let listed = plain.get(..LISTED_NAMES).unwrap_or(&plain);
    let mut out = listed.join(", ");
    let more = plain.len() - listed.len() + odd.len();
    if more > 0 {
        out.push_str(&format!(" and {more} more"));
    }
    out
}

/// Foreign text without anything that a terminal would obey or that would reorder a line.
pub(super) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let reorders = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || reorders {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// Returns the candidate that `name` was probably meant to be.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer names are no slips, and comparing them takes the square of their length.
    if name.len() > SHOWN_CHARS {
        return None;
    }
    let name = name.to_lowercase();
    let allowed = 1 + name.chars().count() / 4;
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&name, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_cannot_steer_a_terminal() {
        assert_eq!(shown("a\x1b[31m\u{202e}b\n"), "a\\u{1b}[31m\\u{202e}b\\u{a}");
        assert_eq!(shown(&"x".repeat(100)).chars().filter(|c| *c == 'x').count(), 80);
        assert!(shown(&"x".repeat(100)).ends_with("(20 more characters)"));
    }

    #[test]
    fn a_list_of_names_has_an_end() {
        let names: Vec<String> = (0..25).map(|number| format!("name-{number}")).collect();
        let long = "x".repeat(41);
        let all = names.iter().map(String::as_str).chain([long.as_str(), "\t", ""]);
        let said = listed(all);
        assert!(said.starts_with("name-0, name-1, "), "{said}");
        assert!(said.ends_with(", name-19 and 8 more"), "{said}");
        assert_eq!(listed(["a", "b"]), "a, b");
    }

    #[test]
    fn a_slip_finds_its_name_and_nonsense_finds_none() {
        let names = ["max_iterations", "model", "max_output_tokens"];
        assert_eq!(nearest("max_iteration", names), Some("max_iterations"));
        assert_eq!(nearest("Modle", names), Some("model"));
        assert_eq!(nearest("zzz", names), None);
    }
}
