//! Excerpts of long commands for questions, and the file with the whole command.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::escape::{for_question, is_invisible};
use crate::truncate::{tail_bytes, truncate_bytes};

/// Maximum bytes at the beginning, and at the end.
const SIDE_BYTES: usize = 4 * 1024;
/// Maximum lines at the beginning, and at the end.
const SIDE_LINES: usize = 40;

/// A file with a command, byte for byte as it would run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedCommand {
    /// Path of the file.
    pub path: PathBuf,
    /// Length in bytes.
    pub bytes: usize,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
}

impl SavedCommand {
    /// Returns the lines of a question that name the file.
    #[must_use]
    pub fn describe(&self) -> String {
        let path = for_question(&self.path.to_string_lossy()).replace('\n', "\\n");
        format!(
            "Only its beginning and end are shown. The whole text, exactly as it would run \
             ({} bytes, sha256 {}), is in\n  {path}\nRead that file before you answer.",
            self.bytes, self.sha256
        )
    }
}

/// The beginning and the end of a text for a question, with invisible characters made visible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// Beginning of the text.
    pub head: String,
    /// A note on the part left out between the two.
    pub omitted: String,
    /// End of the text.
    pub tail: String,
}

impl Excerpt {
    /// Creates the excerpt of a text. The two sides of a short text meet, but never overlap.
    ///
    /// ```
    /// let excerpt = deputize_core::excerpt::Excerpt::new(&format!("first\n{}\u{200b}last", "x".repeat(9000)));
    /// assert!(excerpt.head.starts_with("first\nxxx"));
    /// assert_eq!(excerpt.omitted, "[821 bytes left out; invisible characters in them: 0]");
    /// assert!(excerpt.tail.ends_with("xxx\\u{200b}last"));
    /// ```
    #[must_use]
    pub fn new(text: &str) -> Self {
        let head = truncate_bytes(text, SIDE_BYTES);
        let head = head
            .match_indices('\n')
            .nth(SIDE_LINES - 1)
            .map_or(head, |(at, _)| head.get(..=at).unwrap_or(head));
        let rest = text.get(head.len()..).unwrap_or_default();
        let tail = tail_bytes(rest, SIDE_BYTES);
        let tail = tail
            .rmatch_indices('\n')
            .nth(SIDE_LINES - 1)
            .map_or(tail, |(at, _)| tail.get(at + 1..).unwrap_or(tail));
        let omitted = rest.get(..rest.len() - tail.len()).unwrap_or_default();
        let hidden = |c: &char| is_invisible(*c) || (c.is_control() && !matches!(c, '\n' | '\t'));
        Self {
            head: for_question(head),
            omitted: format!(
                "[{} bytes left out; invisible characters in them: {}]",
                omitted.len(),
                omitted.chars().filter(hidden).count()
            ),
            tail: for_question(tail),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_bounded_in_lines_and_bytes_and_counts_the_rest() {
        let lines: String = (0..5000).map(|line| format!("{line}\n")).collect();
        let excerpt = Excerpt::new(&lines);
        assert!(excerpt.head.starts_with("0\n1\n") && excerpt.head.ends_with("\n39\n"));
        assert!(excerpt.tail.starts_with("4961\n") && excerpt.tail.ends_with("\n4999\n"));
        let omitted = lines.len() - excerpt.head.len() - excerpt.tail.len();
        assert!(excerpt.omitted.starts_with(&format!("[{omitted} bytes ")), "{}", excerpt.omitted);

        // Four bytes each, so that a cut could fall inside one.
        let tags = format!("a{}", "\u{e0041}".repeat(3000));
        let excerpt = Excerpt::new(&tags);
        assert_eq!(excerpt.head.matches("\\u{e0041}").count(), 1023);
        assert_eq!(excerpt.tail.matches("\\u{e0041}").count(), 1024);
        assert_eq!(excerpt.omitted, "[3812 bytes left out; invisible characters in them: 953]");
    }
}
