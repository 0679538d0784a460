//! Prepares texts and queries for an index that takes words apart at spaces.

use std::borrow::Cow;

use deputize_core::sanitize::for_terminal;
use deputize_core::truncate::{tail_bytes, truncate_bytes};

/// Separates characters of scripts that have no spaces between words. It has no width, and
/// [`visible`] removes it from what people and models wrote.
const SEPARATOR: char = '\u{200b}';

/// Bytes of a text that are kept.
pub(crate) const ENTRY_BYTES: usize = 64 * 1024;
/// Those of them that are kept of its end.
pub(crate) const END_BYTES: usize = 16 * 1024;

/// Returns a text without anything that a person cannot see. Of one that is too long the beginning
/// and the end are kept, and what is between them is counted.
pub(crate) fn visible(text: &str) -> String {
    visible_ends(text, ENTRY_BYTES, END_BYTES)
}

/// The same with at most so many bytes, and so many of them of its end.
pub(crate) fn visible_ends(text: &str, most: usize, end: usize) -> String {
    let text = shortened(text, most, end);
    let mut text = for_terminal(&text);
    text.retain(|c| c != SEPARATOR);
    let kept = text.trim_end().len();
    text.truncate(kept);
    text
}

fn shortened(text: &str, most: usize, end: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let head = truncate_bytes(text, most.saturating_sub(end));
    let tail = tail_bytes(text, end);
    let between = text.len() - head.len() - tail.len();
    Cow::Owned(format!("{head}\n[{between} bytes left out]\n{tail}"))
}

/// Returns a text in which each character of a script without spaces is a word of its own.
pub(crate) fn separated(text: &str) -> Cow<'_, str> {
    if !text.chars().any(has_no_spaces) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() * 2);
    for c in text.chars() {
        if has_no_spaces(c) {
            if !out.ends_with(SEPARATOR) {
                out.push(SEPARATOR);
            }
            out.push(c);
            out.push(SEPARATOR);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Returns a text without what [`separated`] added.
pub(crate) fn joined(text: &str) -> Cow<'_, str> {
    if text.contains(SEPARATOR) { Cow::Owned(text.replace(SEPARATOR, "")) } else { text.into() }
}

/// Returns whether a character belongs to a script that is written without spaces between words.
const fn has_no_spaces(c: char) -> bool {
    matches!(
        c,
        // Thai, Lao, Burmese, Khmer
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        // Hiragana, Katakana, Bopomofo, Han
        | '\u{3040}'..='\u{312f}' | '\u{31a0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9f}'
        | '\u{20000}'..='\u{323af}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_of_scripts_without_spaces_are_words_and_come_together_again() {
        let text = "Rust言語 で a";
        let apart = separated(text);
        assert_eq!(apart.replace(SEPARATOR, "|"), "Rust|言|語| |で| a");
        assert_eq!(joined(&apart), text);
        assert!(matches!(separated("plain é"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_long_text_keeps_both_ends_and_nobody_writes_the_separator() {
        let text = format!("first\u{200b} {} last\u{1b}[31m\n\n", "x".repeat(100_000));
        let kept = visible(&text);
        assert!(kept.starts_with("first x") && kept.ends_with("x last"), "{kept:.20}");
        assert!(kept.contains("x\n[3") && kept.contains(" bytes left out]\n"));
        assert!(kept.len() < ENTRY_BYTES + 40);
    }
}
