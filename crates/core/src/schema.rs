//! A JSON Schema object whose bytes never change.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

mod references;
mod unfold;

pub use unfold::{SCHEMA_LAYERS, SCHEMA_NESTING, SCHEMA_PARTS, bounded_schema, looks_within};

/// What is wrong with a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// It is not a JSON object.
    #[error("a schema must be a JSON object")]
    NotAnObject,
    /// It describes something else than an object of arguments.
    #[error("a schema of arguments must have type `object`, found `{0}`")]
    NotOfObjects(String),
    /// It comes to too much when its references are followed.
    #[error(
        "a schema must not unfold to more than {SCHEMA_PARTS} parts, each `$ref` replaced by what \
         it refers to: refer to definitions less often, or write it flatter (a definition may \
         refer to itself)"
    )]
    Unfolds,
    /// Its parts are nested too deep.
    #[error(
        "a schema must not nest more than {SCHEMA_LAYERS} parts that look at one value, nor more \
         than {SCHEMA_NESTING} with the definitions that it refers to: write it flatter"
    )]
    Deep,
    /// It would never be done with one value.
    #[error(
        "a schema must not refer back to itself at the same value: put `properties` or `items` in \
         between"
    )]
    Circle,
    /// It refers to what it does not hold.
    #[error("a schema must hold what it refers to: `{0}` is not in it; put that under `$defs`")]
    Elsewhere(String),
}

/// A JSON Schema of an object of arguments, kept as one canonical text (keys sorted, no
/// spaces), so that no feature flag of any crate can change the bytes a provider caches.
///
/// ```
/// let schema = deputize_core::Schema::new(&serde_json::json!({"type": "object"}))?;
/// assert_eq!(schema.as_str(), r#"{"type":"object"}"#);
/// # Ok::<(), deputize_core::SchemaError>(())
/// ```
#[derive(Clone)]
pub struct Schema(Arc<SchemaText>);

/// The text, and its digest once somebody asked for it.
struct SchemaText {
    raw: Box<RawValue>,
    digest: OnceLock<Arc<str>>,
}

impl Schema {
    /// Checks and keeps a schema.
    ///
    /// # Errors
    /// When it is not an object, not of type `object`, or not [bounded](bounded_schema).
    pub fn new(value: &Value) -> Result<Self, SchemaError> {
        let object = value.as_object().ok_or(SchemaError::NotAnObject)?;
        match object.get("type") {
            Some(Value::String(kind)) if kind == "object" => {}
            other => {
                let found = other.map_or_else(|| "none".to_owned(), Value::to_string);
                return Err(SchemaError::NotOfObjects(found));
            }
        }
        bounded_schema(value)?;
        let mut text = Vec::new();
        canonical(value, &mut text).map_err(|_| SchemaError::NotAnObject)?;
        let text = String::from_utf8(text).map_err(|_| SchemaError::NotAnObject)?;
        let raw = RawValue::from_string(text).map_err(|_| SchemaError::NotAnObject)?;
        Ok(Self(Arc::new(SchemaText { raw, digest: OnceLock::new() })))
    }

    /// The schema of a type's arguments, without what providers dislike (`$schema`, `title`,
    /// number formats, null defaults).
    ///
    /// # Errors
    /// When the type is not a struct or map.
    pub fn of<T: schemars::JsonSchema>() -> Result<Self, SchemaError> {
        let mut settings = schemars::generate::SchemaSettings::draft2020_12();
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        let mut value = settings.into_generator().into_root_schema_for::<T>().to_value();
        strip(&mut value, false);
        Self::new(&value)
    }

    /// The canonical text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.raw.get()
    }

    /// The schema as a value.
    #[must_use]
    pub fn to_value(&self) -> Value {
        serde_json::from_str(self.as_str()).unwrap_or_default()
    }

    /// First 16 hex digits of the SHA-256 of the canonical text.
    #[must_use]
    pub fn digest(&self) -> Arc<str> {
        let digest = || {
            let sum = Sha256::digest(self.as_str().as_bytes());
            data_encoding::HEXLOWER.encode(sum.get(..8).unwrap_or_default()).into()
        };
        Arc::clone(self.0.digest.get_or_init(digest))
    }
}

/// The schema of any type, for answers: as schemars makes it, in one piece and without a title.
pub(crate) fn plain_schema<T: schemars::JsonSchema>() -> Value {
    let mut settings = schemars::generate::SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut value = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Some(object) = value.as_object_mut() {
        object.remove("title");
    }
    value
}

/// Writes a value with sorted keys and no spaces, whatever order its map keeps.
fn canonical(value: &Value, out: &mut Vec<u8>) -> serde_json::Result<()> {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<_> = map.iter().collect();
            keys.sort_by_key(|(key, _)| key.as_str());
            out.push(b'{');
            for (index, (key, member)) in keys.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                serde_json::to_writer(&mut *out, key)?;
                out.push(b':');
                canonical(member, out)?;
            }
            out.push(b'}');
            Ok(())
        }
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                canonical(item, out)?;
            }
            out.push(b']');
            Ok(())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            serde_json::to_writer(out, value)
        }
    }
}

/// Removes keywords that providers refuse or that only cost tokens. `named` tells that the
/// keys of this object are names of properties, which are never removed.
fn strip(value: &mut Value, named: bool) {
    match value {
        Value::Object(map) => {
            if !named {
                map.remove("$schema");
                map.remove("title");
                map.remove("format");
                if map.get("default") == Some(&Value::Null) {
                    map.remove("default");
                }
                strip_nullable(map);
            }
            for (key, member) in map.iter_mut() {
                if key != "default" && key != "enum" && key != "const" {
                    strip(member, !named && key == "properties");
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| strip(item, false)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// `["string","null"]` becomes `"string"`, and so for enums and alternatives: an optional argument is one that may be left out.
fn strip_nullable(map: &mut serde_json::Map<String, Value>) {
    if let Some(Value::Array(kinds)) = map.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = kinds.as_slice() {
            let only = only.clone();
            map.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = map.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(forms)) = map.get_mut("anyOf") {
        forms.retain(|form| form != &serde_json::json!({"type": "null"}));
        if let [Value::Object(only)] = forms.as_slice() {
            let only = only.clone();
            map.remove("anyOf");
            for (key, member) in only {
                map.entry(key).or_insert(member);
            }
        }
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Schema {}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.0.raw.serialize(s)
    }
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Self::new(&Value::deserialize(d)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(schemars::JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Args {
        /// Where.
        path: String,
        /// From which line.
        title: Option<u32>,
        /// How.
        mode: Option<Mode>,
    }

    #[derive(schemars::JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[expect(dead_code, reason = "only its schema is used")]
    enum Mode {
        Fast,
        Slow,
    }

    #[test]
    fn a_type_gives_a_plain_schema() {
        let schema = Schema::of::<Args>().unwrap();
        assert_eq!(
            schema.as_str(),
            r#"{"properties":{"mode":{"description":"How.","enum":["fast","slow"],"type":"string"},"path":{"description":"Where.","type":"string"},"title":{"description":"From which line.","minimum":0,"type":"integer"}},"required":["path"],"type":"object"}"#
        );
    }

    #[test]
    fn only_objects_are_schemas_of_arguments() {
        assert_eq!(Schema::new(&serde_json::json!(true)), Err(SchemaError::NotAnObject));
        assert!(Schema::new(&serde_json::json!({"type": "array"})).is_err());
        assert!(Schema::new(&serde_json::json!({})).is_err());
    }
}
