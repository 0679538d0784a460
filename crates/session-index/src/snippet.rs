//! A few words of a text, with those marked that were searched for.

use crate::words::joined;

/// Marks of the index around what was found; [`visible`](crate::words::visible) leaves no text with them.
pub(crate) const FOUND: char = '\u{1}';
pub(crate) const FOUND_END: char = '\u{2}';

/// A few words of a text, on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snippet(String);

impl Snippet {
    /// Creates one from what the index gives.
    pub(crate) fn new(marked: &str) -> Self {
        let words: Vec<&str> = marked.split_whitespace().collect();
        let text = joined(&words.join(" ")).into_owned();
        // Words of a script without spaces were found one by one.
        Self(text.replace(&format!("{FOUND_END}{FOUND}"), ""))
    }

    /// Returns the text with something before and after each word that was searched for.
    #[must_use]
    pub fn marked(&self, before: &str, after: &str) -> String {
        self.0.replace(FOUND, before).replace(FOUND_END, after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_marked_on_one_line() {
        let snippet = Snippet::new("…a \u{1}flaky\u{2}\n\n test \u{1}東\u{200b}\u{2}\u{1}京\u{2}");
        assert_eq!(snippet.marked("**", "**"), "…a **flaky** test **東京**");
        assert_eq!(snippet.marked("", ""), "…a flaky test 東京");
    }
}
