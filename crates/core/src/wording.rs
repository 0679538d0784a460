//! Words of texts: numbers with their nouns, and text on one line.
//!
//! ```
//! use deputize_core::wording::{count, one_line};
//!
//! assert_eq!(count(1_usize, "match"), "1 match");
//! assert_eq!(count(2_usize, "entry"), "2 entries");
//! assert_eq!(one_line(" a\n  b\t"), "a b");
//! ```

use std::fmt::Display;

/// Returns a number with its noun: `1 line`, `2 lines`, `2 matches`, `2 entries`.
#[must_use]
pub fn count<N: Copy + Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    if number == N::from(1) { format!("1 {noun}") } else { format!("{number} {}", plural(noun)) }
}

/// Returns the plural of a regular noun.
#[must_use]
pub fn plural(noun: &str) -> String {
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ if noun.ends_with("ch") => format!("{noun}es"),
        _ => format!("{noun}s"),
    }
}

/// Returns a text on one line, with single spaces between its words.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_its_noun() {
        let all = ["key", "directory", "match", "file"].map(|noun| count(2_u64, noun));
        assert_eq!(all, ["2 keys", "2 directories", "2 matches", "2 files"]);
        assert_eq!(
            (count(1_u64, "entry"), count(0_usize, "entry")),
            ("1 entry".into(), "0 entries".into())
        );
    }
}
