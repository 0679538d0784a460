//! JSON from a provider: bounded, and read although half of a character is missing.
//!
//! Some servers split a character beyond the basic plane over two pieces of a stream, as two
//! lone surrogate escapes. JSON text cannot hold those, so each becomes a mark (a character
//! of a private block) that [`crate::text::Utf16Text`] joins again.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::limits::{JSON_DEPTH, JSON_VALUES};

/// The mark of the lone surrogate U+D800; the others follow it.
const FIRST_MARK: u32 = 0x0010_F000;
const FIRST_SURROGATE: u32 = 0xD800;
const SURROGATES: u32 = 0x800;

/// Why a text is no JSON that we take.
#[derive(Debug)]
pub(crate) enum JsonError {
    TooDeep,
    TooManyValues,
    Syntax(serde_json::Error),
}

/// A JSON value. Of doubled keys the last holds.
#[derive(Debug)]
pub(crate) struct MarkedJson {
    pub(crate) value: Value,
    /// Whether texts in it hold marks for lone surrogates.
    pub(crate) marked: bool,
}

/// The lone surrogate that a character of a marked text stands for.
pub(crate) fn surrogate_of(mark: char) -> Option<u16> {
    let offset = u32::from(mark).checked_sub(FIRST_MARK)?;
    (offset < SURROGATES).then(|| u16::try_from(FIRST_SURROGATE + offset).unwrap_or_default())
}

/// Reads one JSON text.
pub(crate) fn parse(text: &str) -> Result<MarkedJson, JsonError> {
    let scan = TextScan::of(text)?;
    let marked = !scan.lone.is_empty() && !scan.holds_marks;
    let text = scan.mend(text);
    let left = Cell::new(JSON_VALUES);
    let mut deserializer = serde_json::Deserializer::from_str(&text);
    let value = CountedNode { left: &left }
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    match value {
        Ok(value) => Ok(MarkedJson { value, marked }),
        Err(_) if left.get() == 0 => Err(JsonError::TooManyValues),
        Err(error) => Err(JsonError::Syntax(error)),
    }
}

/// What one pass over the bytes of a JSON text found.
#[derive(Default)]
struct TextScan {
    /// Where `\uXXXX` escapes stand that are lone surrogates, and which.
    lone: Vec<(usize, u16)>,
    /// Whether characters of the private block of the marks are there already.
    holds_marks: bool,
}

impl TextScan {
    fn of(text: &str) -> Result<Self, JsonError> {
        let mut scan = Self::default();
        let mut at = 0;
        let mut depth = 0_usize;
        let mut quoted = false;
        let bytes = text.as_bytes();
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            at += match rest {
                [b'\\', ..] if quoted => scan.escape(at, rest),
                [0xF4, 0x8F, 0x80..=0x9F, ..] => {
                    scan.holds_marks = true;
                    3
                }
                [byte, ..] => {
                    match byte {
                        b'"' => quoted = !quoted,
                        b'[' | b'{' if !quoted => depth += 1,
                        b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                    1
                }
                [] => break,
            };
            if depth >= JSON_DEPTH {
                return Err(JsonError::TooDeep);
            }
        }
        Ok(scan)
    }

    /// Looks at the escape that `rest` begins with; says how long it is.
    fn escape(&mut self, at: usize, rest: &[u8]) -> usize {
        let Some(unit) = code_unit(rest) else { return 2 };
        match unit {
            0xD800..=0xDBFF => match rest.get(6..).and_then(code_unit) {
                Some(low @ 0xDC00..=0xDFFF) => {
                    let pair = char::decode_utf16([unit, low]).next();
                    let pair = pair.and_then(Result::ok);
                    self.holds_marks |= pair.and_then(surrogate_of).is_some();
                    12
                }
                _ => self.lone(at, unit),
            },
            0xDC00..=0xDFFF => self.lone(at, unit),
            _ => 6,
        }
    }

    fn lone(&mut self, at: usize, unit: u16) -> usize {
        self.lone.push((at, unit));
        6
    }

    /// The text with a character for each lone surrogate: its mark, or, where the text uses
    /// the block of the marks itself, the replacement character.
    fn mend<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.lone.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut mended = String::with_capacity(text.len());
        let mut from = 0;
        for (at, unit) in &self.lone {
            mended.push_str(text.get(from..*at).unwrap_or_default());
            let mark = char::from_u32(FIRST_MARK - FIRST_SURROGATE + u32::from(*unit));
            let mark = mark.filter(|_| !self.holds_marks);
            mended.push(mark.unwrap_or(char::REPLACEMENT_CHARACTER));
            from = at + 6;
        }
        mended.push_str(text.get(from..).unwrap_or_default());
        Cow::Owned(mended)
    }
}

/// The UTF-16 code unit of a `\uXXXX` escape at the beginning.
fn code_unit(bytes: &[u8]) -> Option<u16> {
    let hex = bytes.strip_prefix(b"\\u")?.get(..4)?;
    let hex = std::str::from_utf8(hex).ok()?;
    hex.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u16::from_str_radix(hex, 16).ok())?
}

/// Builds a value and counts its parts, so that a small text cannot become a huge tree.
#[derive(Clone, Copy)]
struct CountedNode<'c> {
    left: &'c Cell<usize>,
}

impl CountedNode<'_> {
    fn count<E: serde::de::Error>(self) -> Result<(), E> {
        self.left.set(self.left.get().saturating_sub(1));
        if self.left.get() == 0 { Err(E::custom("too many values")) } else { Ok(()) }
    }
}

impl<'de> DeserializeSeed<'de> for CountedNode<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.count()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for CountedNode<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            object.insert(key, members.next_value_seed(self)?);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> String {
        parse(json).unwrap().value.as_str().unwrap().to_owned()
    }

    #[test]
    fn the_last_of_doubled_keys_holds() {
        let json = parse(r#"{"a":1,"a":2}"#).unwrap();
        assert_eq!(json.value, serde_json::json!({"a": 2}));
    }

    #[test]
    fn whole_pairs_are_left_alone_and_lone_halves_marked() {
        assert_eq!(text(r#""\ud83d\ude00""#), "\u{1f600}");
        let json = parse(r#""a\ud83d""#).unwrap();
        assert!(json.marked);
        assert_eq!(json.value.as_str().unwrap().chars().filter_map(surrogate_of).count(), 1);
        assert!(!parse(r#""\\ud83d""#).unwrap().marked, "an escaped backslash");
    }

    #[test]
    fn characters_that_look_like_marks_are_not_taken_for_them() {
        for own in ["\u{10f03d}".to_owned(), r"\udbfc\udc3d".to_owned()] {
            let json = parse(&format!(r#""{own}\ud83d""#)).unwrap();
            assert!(!json.marked);
            assert_eq!(json.value.as_str().unwrap(), "\u{10f03d}\u{fffd}");
        }
    }

    #[test]
    fn depth_and_number_of_values_are_bounded() {
        let deep = |n| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(parse(&deep(JSON_DEPTH - 1)).is_ok());
        assert!(matches!(parse(&deep(JSON_DEPTH)), Err(JsonError::TooDeep)));
        assert!(matches!(parse(&"[".repeat(500_000)), Err(JsonError::TooDeep)));
        assert!(parse(&format!("\"{}\"", "[".repeat(500))).is_ok(), "brackets in a text");
        let many = |n: usize| format!("[{}0]", "0,".repeat(n));
        assert!(parse(&many(JSON_VALUES - 3)).is_ok());
        assert!(matches!(parse(&many(JSON_VALUES - 2)), Err(JsonError::TooManyValues)));
    }
}
