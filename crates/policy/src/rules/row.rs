//! A row of a table of commands.

use crate::rule::Rule;

/// A program with its subcommand, and options of which one is needed, if any are listed.
pub(super) struct Row {
    words: &'static str,
    options: &'static str,
    pub(super) rule: &'static Rule,
}

pub(super) const fn row(words: &'static str, options: &'static str, rule: &'static Rule) -> Row {
    Row { words, options, rule }
}

impl Row {
    /// Returns whether the row is for a program with these operands, and with the options that
    /// `has` knows.
    pub(super) fn matches(
        &self,
        program: &str,
        operands: &[&str],
        has: &dyn Fn(&str) -> bool,
    ) -> bool {
        let Some(rest) = self.words.strip_prefix(program) else { return false };
        if !rest.is_empty() && !rest.starts_with(' ') {
            return false;
        }
        let mut given = operands.iter();
        let has_words = rest.split_whitespace().all(|word| given.next() == Some(&word));
        has_words && (self.options.is_empty() || self.options.split_whitespace().any(has))
    }
}
