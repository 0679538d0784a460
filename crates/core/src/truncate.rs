//! Truncates text to a number of bytes, characters or lines, never inside a character.
//!
//! ```
//! use deputize_core::truncate::{truncate_bytes, truncate_with_count};
//!
//! assert_eq!(truncate_bytes("aé", 2), "a");
//! assert_eq!(truncate_with_count("0123456789", 4), "0123… [+6 bytes]");
//! ```

use serde_json::Value;

/// Returns the beginning of a text, at most `most` bytes.
#[must_use]
pub fn truncate_bytes(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}

/// Returns the beginning of a text, at most `most` characters.
#[must_use]
pub fn truncate_chars(text: &str, most: usize) -> &str {
    let end = text.char_indices().nth(most).map_or(text.len(), |(at, _)| at);
    text.get(..end).unwrap_or_default()
}

/// Returns the beginning of a text, at most `most` bytes: whole lines if they are more than half
/// of that.
#[must_use]
pub fn truncate_lines(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let head = truncate_bytes(text, most);
    match head.rfind('\n') {
        Some(end) if end > most / 2 => head.get(..=end).unwrap_or(head),
        _ => head,
    }
}

/// Returns the end of a text, at most `most` bytes.
#[must_use]
pub fn tail_bytes(text: &str, most: usize) -> &str {
    let start = text.ceil_char_boundary(text.len().saturating_sub(most));
    text.get(start..).unwrap_or_default()
}

/// Returns the end of a text, at most `most` bytes: whole lines if they are more than half of that.
#[must_use]
pub fn tail_lines(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let tail = tail_bytes(text, most);
    match tail.find('\n') {
        Some(end) if end < most / 2 => tail.get(end + 1..).unwrap_or(tail),
        _ => tail,
    }
}

/// Returns a text of at most `most` characters. A longer one ends with `…`, which is one of them.
#[must_use]
pub fn truncate_with_ellipsis(text: &str, most: usize) -> String {
    if truncate_chars(text, most).len() == text.len() {
        return text.to_owned();
    }
    format!("{}…", truncate_chars(text, most.saturating_sub(1)))
}

/// Returns a text whose part after `most` bytes is counted: `… [+12 bytes]`.
#[must_use]
pub fn truncate_with_count(text: &str, most: usize) -> String {
    let head = truncate_bytes(text, most);
    match text.len() - head.len() {
        0 => text.to_owned(),
        more => format!("{head}… [+{more} bytes]"),
    }
}

/// Returns a text whose part after `most` bytes is counted on a line of its own:
/// `[12 bytes left out]`.
#[must_use]
pub fn truncate_with_note(text: &str, most: usize) -> String {
    let head = truncate_bytes(text, most);
    match text.len() - head.len() {
        0 => text.to_owned(),
        more => format!("{head}\n[{more} bytes left out]"),
    }
}

/// Truncates each string in a JSON value with `truncate`, but no key.
pub fn truncate_strings(value: &mut Value, truncate: fn(&str) -> String) {
    match value {
        Value::String(text) => *text = truncate(text),
        Value::Array(items) => items.iter_mut().for_each(|item| truncate_strings(item, truncate)),
        Value::Object(map) => map.values_mut().for_each(|item| truncate_strings(item, truncate)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_string_of_a_value_is_truncated() {
        let mut value = json!({"long key": ["abcde", 1, {"a": "ab", "b": null}]});
        truncate_strings(&mut value, |text| truncate_with_count(text, 3));
        assert_eq!(value, json!({"long key": ["abc… [+2 bytes]", 1, {"a": "ab", "b": null}]}));
    }

    #[test]
    fn no_character_is_split() {
        assert_eq!(["aé", "éa"].map(|text| truncate_bytes(text, 2)), ["a", "é"]);
        assert_eq!(["aé", "éa"].map(|text| tail_bytes(text, 2)), ["é", "a"]);
        assert_eq!(truncate_chars("éaé", 2), "éa");
        assert_eq!(truncate_with_count("éaé", 4), "éa… [+2 bytes]");
        assert_eq!(truncate_with_note("éaé", 4), "éa\n[2 bytes left out]");
        for most in 3..9 {
            assert_eq!((truncate_bytes("abc", most), tail_bytes("abc", most)), ("abc", "abc"));
            assert_eq!(truncate_chars("abc", most), "abc");
            assert_eq!(truncate_with_count("abc", most), "abc");
            assert_eq!(truncate_with_note("abc", most), "abc");
            assert_eq!(truncate_with_ellipsis("abc", most), "abc");
        }
    }

    #[test]
    fn lines_are_whole_where_that_keeps_more_than_half() {
        assert_eq!(truncate_lines("aaaa\nbbbb\ncccc\n", 12), "aaaa\nbbbb\n");
        assert_eq!(truncate_lines("aaaa\nbbbbbbbbbbbbbb", 12), "aaaa\nbbbbbbb");
        assert_eq!(truncate_lines("aaaa\nb", 12), "aaaa\nb");
        assert_eq!(tail_lines("aaaa\nbbbb\ncccc\n", 12), "bbbb\ncccc\n");
        assert_eq!(tail_lines("bbbbbbbbbbbbbb\naaaa\n", 12), "bbbbbb\naaaa\n");
        assert_eq!(tail_lines("b\naaaa\n", 12), "b\naaaa\n");
    }

    #[test]
    fn an_ellipsis_is_one_of_the_characters() {
        assert_eq!(truncate_with_ellipsis("abcd", 4), "abcd");
        assert_eq!(truncate_with_ellipsis("abcde", 4), "abc…");
        assert_eq!(truncate_with_ellipsis("éééé", 3), "éé…");
    }
}
