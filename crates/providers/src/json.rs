//! JSON from a provider: bounded, and read although half of a character is missing.
//!
//! Some servers split a character beyond the basic plane over two pieces of a stream, as two
//! lone surrogate escapes. JSON text cannot hold those, so each becomes a mark (a character
//! of a private block) that [`crate::text::Utf16Text`] joins again.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

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

/// A JSON value and what is known of its texts.
#[derive(Debug)]
pub(crate) struct MarkedJson<'t> {
    pub(crate) value: Json<'t>,
    /// Whether texts in it hold marks for lone surrogates.
    pub(crate) marked: bool,
}

/// A JSON value that borrows from its text. An event of a stream is read once and dropped: a
/// [`Value`] would allocate each key and hash it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum Json<'t> {
    #[default]
    Null,
    Bool(bool),
    Number(Number),
    String(Cow<'t, str>),
    Array(Vec<Self>),
    Object(Members<'t>),
}

/// The members of an object, in the order of the text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Members<'t>(Vec<(Cow<'t, str>, Json<'t>)>);

impl<'t, const N: usize> From<[(&'t str, Json<'t>); N]> for Members<'t> {
    fn from(members: [(&'t str, Json<'t>); N]) -> Self {
        Self(members.map(|(key, value)| (Cow::Borrowed(key), value)).into())
    }
}

impl<'t> Members<'t> {
    /// Returns the member of this key. Of doubled keys the last holds.
    pub(crate) fn get(&self, key: &str) -> Option<&Json<'t>> {
        self.0.iter().rfind(|(own, _)| own == key).map(|(_, value)| value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Json<'t>)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'t> Json<'t> {
    /// Returns a member, if this is an object that has it.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.as_object().and_then(|members| members.get(key))
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    pub(crate) fn as_u64(&self) -> Option<u64> {
        if let Self::Number(number) = self { number.as_u64() } else { None }
    }

    pub(crate) fn as_f64(&self) -> Option<f64> {
        if let Self::Number(number) = self { number.as_f64() } else { None }
    }

    pub(crate) const fn as_array(&self) -> Option<&[Self]> {
        if let Self::Array(items) = self { Some(items.as_slice()) } else { None }
    }

    pub(crate) const fn as_object(&self) -> Option<&Members<'t>> {
        if let Self::Object(members) = self { Some(members) } else { None }
    }

    pub(crate) const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub(crate) const fn is_string(&self) -> bool {
        matches!(self, Self::String(_))
    }

    pub(crate) const fn is_array(&self) -> bool {
        matches!(self, Self::Array(_))
    }

    pub(crate) const fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// Returns it as a value that owns its texts.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(number) => Value::Number(number.clone()),
            Self::String(text) => Value::String(text.clone().into_owned()),
            Self::Array(items) => items.iter().map(Self::to_value).collect(),
            Self::Object(members) => {
                members.iter().map(|(key, value)| (key.to_owned(), value.to_value())).collect()
            }
        }
    }

    fn into_owned(self) -> Json<'static> {
        match self {
            Self::Null => Json::Null,
            Self::Bool(value) => Json::Bool(value),
            Self::Number(number) => Json::Number(number),
            Self::String(text) => Json::String(Cow::Owned(text.into_owned())),
            Self::Array(items) => Json::Array(items.into_iter().map(Self::into_owned).collect()),
            Self::Object(Members(members)) => {
                let owned = |(key, value): (Cow<'_, str>, Self)| {
                    (Cow::Owned(key.into_owned()), value.into_owned())
                };
                Json::Object(Members(members.into_iter().map(owned).collect()))
            }
        }
    }
}

impl<'t> From<&'t str> for Json<'t> {
    fn from(text: &'t str) -> Self {
        Self::String(Cow::Borrowed(text))
    }
}

#[cfg(test)]
impl From<Value> for Json<'static> {
    fn from(value: Value) -> Self {
        parse(&value.to_string()).unwrap().value.into_owned()
    }
}

/// Writes it as JSON.
impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_value().fmt(f)
    }
}

/// The lone surrogate that a character of a marked text stands for.
pub(crate) fn surrogate_of(mark: char) -> Option<u16> {
    let offset = u32::from(mark).checked_sub(FIRST_MARK)?;
    (offset < SURROGATES).then(|| u16::try_from(FIRST_SURROGATE + offset).unwrap_or_default())
}

/// Reads one JSON text.
pub(crate) fn parse(text: &str) -> Result<MarkedJson<'_>, JsonError> {
    if !may_hold_marks(text.as_bytes())
        && let Ok(value) = value_of(text)
    {
        return Ok(MarkedJson { value, marked: false });
    }
    let scan = TextScan::of(text)?;
    let marked = !scan.lone.is_empty() && !scan.holds_marks;
    let value = match scan.mend(text) {
        Cow::Borrowed(text) => value_of(text)?,
        Cow::Owned(text) => value_of(&text)?.into_owned(),
    };
    Ok(MarkedJson { value, marked })
}

/// Whether a text has an escape by number, or the first byte of a character that could be a mark.
/// Nearly all events have neither.
fn may_hold_marks(text: &[u8]) -> bool {
    memchr::memchr(0xF4, text).is_some()
        || memchr::memchr_iter(b'\\', text).any(|at| text.get(at + 1) == Some(&b'u'))
}

fn value_of(text: &str) -> Result<Json<'_>, JsonError> {
    let left = Cell::new(JSON_VALUES);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = CountedNode { left: &left }
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|error| match left.get() {
        0 => JsonError::TooManyValues,
        _ => JsonError::Syntax(error),
    })
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
    type Value = Json<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json<'de>, D::Error> {
        self.count()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for CountedNode<'_> {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json<'de>, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json<'de>, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json<'de>, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json<'de>, E> {
        Ok(Number::from_f64(value).map_or(Json::Null, Json::Number))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::String(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json<'de>, E> {
        Ok(Json::String(Cow::Owned(value.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json<'de>, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            array.push(item);
        }
        Ok(Json::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json<'de>, A::Error> {
        let mut object = Vec::new();
        while let Some(key) = members.next_key_seed(MemberKey)? {
            object.push((key, members.next_value_seed(self)?));
        }
        Ok(Json::Object(Members(object)))
    }
}

/// Reads a key, which serde would copy.
struct MemberKey;

impl<'de> DeserializeSeed<'de> for MemberKey {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for MemberKey {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
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
        assert_eq!(json.value.get("a").and_then(Json::as_u64), Some(2));
        assert_eq!(json.value.to_value(), serde_json::json!({"a": 2}));
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
            let text = format!(r#""{own}\ud83d""#);
            let json = parse(&text).unwrap();
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
