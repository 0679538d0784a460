//! YAML as a tree in which every key and value knows where it was written.
//!
//! The parser is a library's; this module keeps its positions, finds keys written twice, and sets
//! the limits under which a hostile file fails fast.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::{AliasLimits, DuplicateKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Location, Spanned};

use super::place::{ConfigPlace, ConfigSource, Problem, printable, shown};

/// Values in one file, aliases counted as often as they are used.
pub const MAX_VALUES: usize = 10_000;
/// Levels of lists and mappings in one file.
pub const MAX_DEPTH: usize = 32;
/// Uses of YAML aliases (`*name`) in one file.
pub const MAX_ALIASES: usize = 200;

/// The largest whole number that every JSON reader keeps exact.
const MAX_WHOLE: f64 = 9_007_199_254_740_991.0;

/// A value and where it was written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PlacedValue {
    pub(super) place: ConfigPlace,
    pub(super) value: Value,
}

/// What a [`PlacedValue`] holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    Text(String),
    List(Vec<PlacedValue>),
    Map(BTreeMap<String, PlacedEntry>),
}

/// A value of a mapping, and where its key was written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PlacedEntry {
    pub(super) key: ConfigPlace,
    pub(super) node: PlacedValue,
}

impl PlacedValue {
    /// A mapping without keys.
    pub(super) fn empty_map(place: ConfigPlace) -> Self {
        Self { place, value: Value::Map(BTreeMap::new()) }
    }

    /// The node that `value` is when all of it came from one place.
    pub(super) fn from_json(value: &serde_json::Value, place: &ConfigPlace) -> Self {
        use serde_json::Value as Json;
        let value = match value {
            Json::Null => Value::Null,
            Json::Bool(flag) => Value::Bool(*flag),
            Json::Number(number) => Value::Number(number.clone()),
            Json::String(text) => Value::Text(text.clone()),
            Json::Array(items) => {
                Value::List(items.iter().map(|item| Self::from_json(item, place)).collect())
            }
            Json::Object(map) => Value::Map(
                map.iter()
                    .map(|(key, value)| {
                        let node = Self::from_json(value, place);
                        (key.clone(), PlacedEntry { key: place.clone(), node })
                    })
                    .collect(),
            ),
        };
        Self { place: place.clone(), value }
    }

    /// The same value as JSON.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(flag) => (*flag).into(),
            Value::Number(number) => number.clone().into(),
            Value::Text(text) => text.as_str().into(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(map) => {
                map.iter().map(|(key, entry)| (key.clone(), entry.node.to_json())).collect()
            }
        }
    }

    /// The entry of a mapping.
    pub(super) fn entry(&self, key: &str) -> Option<&PlacedEntry> {
        match &self.value {
            Value::Map(map) => map.get(key),
            _ => None,
        }
    }

    /// The node at a path of mapping keys.
    pub(super) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| node.entry(key).map(|entry| &entry.node))
    }

    /// Like [`PlacedValue::at`], to be changed.
    pub(super) fn at_mut(&mut self, path: &[&str]) -> Option<&mut Self> {
        path.iter().try_fold(self, |node, key| match &mut node.value {
            Value::Map(map) => map.get_mut(*key).map(|entry| &mut entry.node),
            _ => None,
        })
    }

    /// The entries of a mapping, in the order of their keys; none for other values.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&String, &PlacedEntry)> {
        match &self.value {
            Value::Map(map) => Some(map.iter()).into_iter().flatten(),
            _ => None.into_iter().flatten(),
        }
    }

    /// The items of a list; none for other values.
    pub(super) fn items(&self) -> &[Self] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// Where the environment says something of it, or of a part of it, that is not empty.
    pub(super) fn of_the_environment(&self) -> Option<&ConfigPlace> {
        match &self.value {
            Value::Null => None,
            Value::Text(text) if text.is_empty() => None,
            Value::List(items) => items.iter().find_map(Self::of_the_environment),
            Value::Map(map) => map.values().find_map(|entry| entry.node.of_the_environment()),
            _ => Some(&self.place).filter(|place| place.is_in_environment()),
        }
    }

    /// The text, if it is text that is not empty.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// Lays `top` over this: mappings merge by key, everything else replaces, and null puts a key
    /// back to its default. So does an empty mapping that is no file's: it would say nothing.
    pub(super) fn overlay(&mut self, top: Self) {
        let Self { place, value } = top;
        let (Value::Map(base), Value::Map(over)) = (&mut self.value, &value) else {
            *self = Self { place, value }.without_nulls();
            return;
        };
        if over.is_empty() && !place.is_in_file() {
            *self = Self { place, value };
            return;
        }
        for (key, entry) in over {
            match base.get_mut(key) {
                _ if entry.node.value == Value::Null => drop(base.remove(key)),
                Some(below) => {
                    below.key = entry.key.clone();
                    below.node.overlay(entry.node.clone());
                }
                None => {
                    let node = entry.node.clone().without_nulls();
                    base.insert(key.clone(), PlacedEntry { key: entry.key.clone(), node });
                }
            }
        }
    }

    fn without_nulls(self) -> Self {
        let value = match self.value {
            Value::List(items) => Value::List(items.into_iter().map(Self::without_nulls).collect()),
            Value::Map(map) => {
                let kept = map.into_iter().filter(|(_, entry)| entry.node.value != Value::Null);
                let kept = kept.map(|(key, entry)| {
                    (key, PlacedEntry { key: entry.key, node: entry.node.without_nulls() })
                });
                Value::Map(kept.collect())
            }
            other => other,
        };
        Self { place: self.place, value }
    }
}

/// Parses one YAML document. Syntax errors and repeated keys are collected in `problems`; the
/// result is `None` when nothing could be read. An empty text is an empty mapping.
pub(super) fn parse(
    text: &str,
    source: &Arc<ConfigSource>,
    problems: &mut Vec<Problem>,
) -> Option<PlacedValue> {
    match serde_saphyr::from_str_with_options::<Spanned<Raw>>(text, options()) {
        Ok(raw) => Some(locate(raw, source, problems)),
        Err(error) => {
            problems.push(refusal(&error, source));
            None
        }
    }
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: 1,
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_nodes: MAX_VALUES,
            max_events: 4 * MAX_VALUES,
            max_aliases: MAX_ALIASES,
            max_anchors: MAX_ALIASES,
            max_recorded_anchor_events: 4 * MAX_VALUES,
        },
        alias_limits: alias_limits(),
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        strict_booleans: true,
        reject_unsupported_tags: true,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        with_snippet: false,
    }
}

fn alias_limits() -> AliasLimits {
    serde_saphyr::alias_limits! {
        max_total_replayed_events: 4 * MAX_VALUES,
        max_replay_stack_depth: MAX_DEPTH,
    }
}

fn refusal(error: &serde_saphyr::Error, source: &Arc<ConfigSource>) -> Problem {
    let error = error.without_snippet();
    let place = match error.location() {
        Some(at) => ConfigPlace::at(source, at.line(), at.column()),
        None => ConfigPlace::whole(source),
    };
    Problem { place, message: reason(error) }
}

fn reason(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    // The position is told by the problem's place.
    let text = text.split(" at line ").next().unwrap_or(&text);
    let breach = match error {
        serde_saphyr::Error::Budget { breach, .. } => Some(breach),
        _ => None,
    };
    match breach {
        Some(BudgetBreach::Documents { .. }) => {
            "a second document begins here; the configuration is one document".to_owned()
        }
        Some(BudgetBreach::Depth { .. }) => too_deep(),
        _ if text.contains("recursion limit") => too_deep(),
        _ if text.contains("weak recursion") => {
            "an alias is a part of what it stands for".to_owned()
        }
        // Inside an alias the breach is wrapped in another error, which only tells its text.
        _ if text.contains("budget breached") => format!(
            "too much for a configuration; it has at most {MAX_VALUES} values, aliases counted as \
             often as they are used, and at most {MAX_ALIASES} aliases"
        ),
        _ => format!("not valid YAML: {}", printable(text)),
    }
}

fn too_deep() -> String {
    format!("nested more than {MAX_DEPTH} levels deep")
}

fn locate(
    raw: Spanned<Raw>,
    source: &Arc<ConfigSource>,
    problems: &mut Vec<Problem>,
) -> PlacedValue {
    let place = place(&raw.referenced, source);
    let value = match raw.value {
        Raw::Null => Value::Null,
        Raw::Bool(flag) => Value::Bool(flag),
        Raw::Number(number) => Value::Number(number),
        Raw::Text(text) => Value::Text(text),
        Raw::List(items) => {
            Value::List(items.into_iter().map(|item| locate(item, source, problems)).collect())
        }
        Raw::Map(pairs) => Value::Map(unique(pairs, source, problems)),
    };
    PlacedValue { place, value }
}

fn unique(
    pairs: Vec<(Spanned<Raw>, Spanned<Raw>)>,
    source: &Arc<ConfigSource>,
    problems: &mut Vec<Problem>,
) -> BTreeMap<String, PlacedEntry> {
    let mut map: BTreeMap<String, PlacedEntry> = BTreeMap::new();
    for (key, value) in pairs {
        let at = place(&key.referenced, source);
        let Raw::Text(name) = key.value else {
            problems.push(Problem::new(&at, "a key must be text; put it in quotes"));
            continue;
        };
        if let Some(first) = map.get(&name) {
            let line = first.key.position().map(|(line, _)| format!(" (first in line {line})"));
            let line = line.unwrap_or_default();
            let message = format!("the key `{}` is written twice{line}", shown(&name));
            problems.push(Problem::new(&at, message));
            continue;
        }
        let node = locate(value, source, problems);
        map.insert(name, PlacedEntry { key: at, node });
    }
    map
}

fn place(location: &Location, source: &Arc<ConfigSource>) -> ConfigPlace {
    ConfigPlace::at(source, location.line(), location.column())
}

/// What the library's untyped reading gives.
enum Raw {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    Text(String),
    List(Vec<Spanned<Self>>),
    Map(Vec<(Spanned<Self>, Spanned<Self>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Raw, E> {
        Ok(Raw::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Raw, E> {
        Ok(Raw::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Raw, E> {
        #[expect(clippy::cast_possible_truncation, reason = "whole and in range, as just checked")]
        let whole = (number.fract() == 0.0 && number.abs() <= MAX_WHOLE).then_some(number as i64);
        let finite = serde_json::Number::from_f64(number);
        let number = whole.map(serde_json::Number::from).or(finite);
        Ok(number.map_or_else(|| Raw::Text("not a number".to_owned()), Raw::Number))
    }

    fn visit_i128<E>(self, number: i128) -> Result<Raw, E> {
        Ok(Raw::Text(number.to_string()))
    }

    fn visit_u128<E>(self, number: u128) -> Result<Raw, E> {
        Ok(Raw::Text(number.to_string()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Raw::Map(pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outline(node: &PlacedValue, path: &str, out: &mut String) {
        let (line, column) = node.place.position().unwrap_or_default();
        match &node.value {
            Value::Map(map) => {
                for (key, entry) in map {
                    let (line, column) = entry.key.position().unwrap_or_default();
                    out.push_str(&format!("{line}:{column} {path}/{key}\n"));
                    outline(&entry.node, &format!("{path}/{key}"), out);
                }
            }
            Value::List(items) => {
                for (n, item) in items.iter().enumerate() {
                    outline(item, &format!("{path}/{n}"), out);
                }
            }
            value => out.push_str(&format!("{line}:{column} {path} = {value:?}\n")),
        }
    }

    fn read(text: &str) -> String {
        let mut problems = Vec::new();
        let source = Arc::new(ConfigSource::File("c.yaml".into()));
        let mut out = String::new();
        match parse(text, &source, &mut problems) {
            Some(node) => outline(&node, "", &mut out),
            None => out.push_str("nothing\n"),
        }
        for problem in problems {
            out.push_str(&format!("{problem}\n"));
        }
        out
    }

    #[test]
    fn keys_and_values_know_their_line_and_column() {
        insta::assert_snapshot!(read("a: 1\nb:\n  c: [x, 'y', {z: 1.5}]\n  ü: no\n"));
    }

    #[test]
    fn merged_and_aliased_values_point_to_their_use() {
        insta::assert_snapshot!(read("a: &x {k: 1}\nb: *x\nc:\n  <<: *x\n  d: 2"));
    }

    #[test]
    fn numbers_that_are_whole_are_integers_and_yaml_1_1_words_are_text() {
        let text = "a: 012\nb: 1e3\nc: -1.0\nd: 0.5\ne: 1e300\nf: .nan\ng: yes\nh: 0x1f";
        insta::assert_snapshot!(read(text));
    }

    #[test]
    fn refusals_name_the_place_and_the_limit() {
        let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n\
                    c: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c]\ne: [*d,*d]";
        let deep = "- ".repeat(1000);
        let flow = "{a: ".repeat(100_000);
        let long = "- 1\n".repeat(11_000);
        let aliases = format!("a: &a 1\nb: [{}]", "*a,".repeat(300));
        let cases = [
            bomb,
            &deep,
            &flow,
            &long,
            &aliases,
            "a: 1\n---\nb: 2",
            "a: !x 1",
            "a: *b",
            "a: &a [*a]",
        ];
        insta::assert_snapshot!(cases.map(read).concat());
    }
}
