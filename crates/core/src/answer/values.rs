//! Finds JSON values in a text, among prose and fences.

use std::collections::VecDeque;

use serde_json::Value;

/// Maximum number of brackets that begin no JSON, before the text counts as having no values.
const MOST_MISSES: usize = 4096;
/// Marks the beginning and end of a fenced block.
const FENCE: &str = "```";

/// Maximum number of values that are kept, the last ones of the text.
const MOST_VALUES: usize = 256;

/// A JSON value in a text.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AnswerValue<'t> {
    /// The value.
    pub value: Value,
    /// The value as written.
    pub text: &'t str,
    /// Whether it is the whole content of a fenced block.
    pub fenced: bool,
}

/// Returns the complete objects and arrays at the top level of a text, and the values that are the
/// whole content of a fenced block, in order.
///
/// The work is linear in the length of the text: each position is parsed at most once per level of
/// nesting that the JSON parser allows. A text with too many brackets that are no JSON has no
/// values.
pub(super) fn values(text: &str) -> VecDeque<AnswerValue<'_>> {
    let mut values = VecDeque::new();
    let mut keep = |value| {
        if values.len() == MOST_VALUES {
            values.pop_front();
        }
        values.push_back(value);
    };
    let mut unclosed = None;
    let mut at = 0;
    let mut misses = 0;
    while let Some(next) = text.get(at..).and_then(|rest| rest.find(['{', '[', '`'])) {
        at += next;
        let rest = text.get(at..).unwrap_or_default();
        if rest.starts_with('`') {
            let block = fenced_value(rest);
            at += block.as_ref().map_or(1, |(_, bytes)| *bytes);
            if let Some((value, _)) = block {
                keep(value);
            }
            continue;
        }
        let mut json = serde_json::Deserializer::from_str(rest).into_iter();
        match json.next() {
            Some(Ok(value)) => {
                let bytes = json.byte_offset();
                let text = rest.get(..bytes).unwrap_or_default();
                keep(AnswerValue { value, text, fenced: false });
                at += bytes;
            }
            // The text ends inside this value, so everything after it belongs to it.
            Some(Err(error)) if error.is_eof() => break,
            // Prose in brackets, or something that only resembles JSON.
            Some(Err(_)) | None => {
                misses += 1;
                if misses > MOST_MISSES {
                    return VecDeque::new();
                }
                let unclosed = unclosed.get_or_insert_with(|| unclosed_brackets(text));
                let is_unclosed = unclosed.binary_search(&at).is_ok();
                at += if is_unclosed { 1 } else { bracketed_len(rest) };
            }
        }
    }
    values
}

/// Returns the value of a fenced block at the beginning of a text, if it is the block's whole
/// content, and the length of the block.
fn fenced_value(text: &str) -> Option<(AnswerValue<'_>, usize)> {
    let (_language, body) = text.strip_prefix(FENCE)?.split_once('\n')?;
    let (content, rest) = body.split_once(FENCE)?;
    let content = content.trim();
    let value = serde_json::from_str(content).ok()?;
    Some((AnswerValue { value, text: content, fenced: true }, text.len() - rest.len()))
}

/// Returns the positions of brackets that are never closed, in order.
fn unclosed_brackets(text: &str) -> Vec<usize> {
    let mut open = Vec::new();
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' | b'[' => open.push(at),
            b'}' | b']' => drop(open.pop()),
            _ => {}
        }
    }
    open
}

/// Returns the length of the bracketed part at the beginning of a text.
fn bracketed_len(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Small JSON objects and arrays of any shape.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[ -~\n]{0,8}".prop_map(Value::from),
        ];
        let inner = leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                proptest::collection::btree_map("[a-c{}]{1,2}", inner, 0..3)
                    .prop_map(|map| map.into_iter().collect::<Value>()),
            ]
        });
        inner.prop_map(|value| if value.is_object() { value } else { json!([value]) })
    }

    proptest! {
        #[test]
        fn the_last_value_is_found_whatever_stands_around_it(
            before in "([a-z .,:\\n]|\\[[a-z ]{0,4}\\]|\\{[a-z ]{1,4}\\}|`x`){0,8}",
            first in proptest::option::of(value()),
            last in value(),
            after in "[a-z .,:)\n]{0,12}",
            fenced: bool,
            pretty: bool,
        ) {
            let text = if pretty { format!("{last:#}") } else { last.to_string() };
            let text = if fenced { format!("\n```json\n{text}\n```\n") } else { text };
            let first = first.map(|value| value.to_string()).unwrap_or_default();
            let answer = format!("{before} {first} {text}{after}");
            let found = values(&answer).pop_back().unwrap();
            prop_assert_eq!(serde_json::from_str::<Value>(found.text).unwrap(), last.clone());
            prop_assert_eq!((found.value, found.fenced), (last, fenced));
        }

        #[test]
        fn no_text_is_too_odd(text in "[\\[\\]{}\",:a1`\\n ]{0,60}") {
            // Each value is a part of the text, after the previous one.
            let mut rest = text.as_str();
            for AnswerValue { value, fenced, .. } in values(&text) {
                prop_assert!(fenced || value.is_object() || value.is_array(), "{}", value);
                let ends = |at: usize, part: &str| {
                    let ends = part.char_indices().map(|(end, c)| end + c.len_utf8());
                    ends.map(|end| at + end).collect::<Vec<_>>()
                };
                let parts = rest.char_indices().flat_map(|(at, _)| {
                    ends(at, &rest[at..]).into_iter().map(move |end| (at, end))
                });
                let is_it = |&(at, end): &(usize, usize)| {
                    serde_json::from_str::<Value>(&rest[at..end]).is_ok_and(|it| it == value)
                };
                let first = parts.into_iter().filter(is_it).min_by_key(|(_, end)| *end);
                prop_assert!(first.is_some(), "{} is not in {:?}", value, rest);
                rest = &rest[first.map_or(0, |(_, end)| end)..];
            }
        }
    }

    #[test]
    fn long_texts_of_brackets_are_done_with() {
        for unit in ["[", "{", "[1,", "[\"", "{\"a\":", "{x", "[x]", "`", "```\n", "]"] {
            let text = unit.repeat(20_000);
            assert!(values(&format!("{text}!")).is_empty(), "{unit}");
        }
        assert_eq!(values(&"[1] ".repeat(20_000)).len(), MOST_VALUES);
    }

    #[test]
    fn a_value_that_is_nested_too_deeply_is_none_and_so_is_what_it_holds() {
        let text = format!("{}{}", "[".repeat(200), "]".repeat(200));
        assert!(values(&text).is_empty());
    }
}
