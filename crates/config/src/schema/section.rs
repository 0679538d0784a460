//! The schema of one section, read as far as a run needs it.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize as _;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

type Members = BTreeMap<&'static str, &'static RawValue>;

/// The schema of a key that a file may begin with. The schema of each key inside it is read when it
/// is asked for: a run sets few of them.
pub(crate) struct SectionSchema {
    /// Its keywords, without those about its keys.
    keywords: Value,
    keys: BTreeMap<&'static str, KeyText>,
    /// The schema of keys that have none of their own.
    other_keys: Option<Value>,
}

struct KeyText {
    text: &'static RawValue,
    schema: OnceLock<Value>,
}

impl SectionSchema {
    /// Reads the value that a text begins with.
    pub(super) fn parse(text: &'static str) -> serde_json::Result<Self> {
        let mut members = Members::deserialize(&mut serde_json::Deserializer::from_str(text))?;
        let keys = match members.remove("properties") {
            Some(keys) => serde_json::from_str::<Members>(keys.get())?,
            None => Members::new(),
        };
        let keys =
            keys.into_iter().map(|(key, text)| (key, KeyText { text, schema: OnceLock::new() }));
        let other_keys = members.remove("additionalProperties").map(read).transpose()?;
        let keywords = members.into_iter().map(|(key, text)| Ok((key.to_owned(), read(text)?)));
        let keywords = Value::Object(keywords.collect::<serde_json::Result<Map<_, _>>>()?);
        Ok(Self { keywords, keys: keys.collect(), other_keys })
    }

    /// Returns its keywords, without those about its keys.
    pub(crate) const fn keywords(&self) -> &Value {
        &self.keywords
    }

    /// Returns the schema of a key that has one of its own.
    #[expect(clippy::expect_used, reason = "it is a part of a constant, and a test reads all")]
    pub(crate) fn key(&self, key: &str) -> Option<&Value> {
        let key = self.keys.get(key)?;
        Some(key.schema.get_or_init(|| read(key.text).expect("a key has a schema")))
    }

    /// Returns the schema of keys that have none of their own, or `false`; `None` if nothing is said of
    /// them.
    pub(crate) const fn other_keys(&self) -> Option<&Value> {
        self.other_keys.as_ref()
    }

    /// Returns the schema of a key; `None` where nothing is known of it.
    pub(super) fn child(&self, key: &str) -> Option<&Value> {
        self.key(key).or_else(|| self.other_keys().filter(|schema| schema.is_object()))
    }

    /// Returns the whole schema.
    #[cfg(test)]
    pub(super) fn to_value(&self) -> Value {
        let mut whole = self.keywords.clone();
        if let Some(other) = self.other_keys() {
            whole["additionalProperties"] = other.clone();
        }
        let keys = self.keys.keys().map(|key| ((*key).to_owned(), self.key(key).unwrap().clone()));
        let keys: Map<String, Value> = keys.collect();
        if !keys.is_empty() {
            whole["properties"] = keys.into();
        }
        whole
    }
}

fn read(text: &RawValue) -> serde_json::Result<Value> {
    serde_json::from_str(text.get())
}
