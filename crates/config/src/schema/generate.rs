//! The schema as it follows from the types.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform as _};
use serde_json::{Map, Value, json};

use crate::keys::Config;

/// The largest whole number that every JSON reader keeps exact.
const MAX_WHOLE: u64 = 9_007_199_254_740_991;

pub(super) fn from_types() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<Config>();
    RecursiveTransform(|schema: &mut schemars::Schema| {
        if let Some(object) = schema.as_object_mut() {
            flatten_choice(object);
            flatten_option(object);
            bound_number(object);
        }
    })
    .transform(&mut schema);
    let mut schema = schema.to_value();
    allow_null(&mut schema);
    sort_keys(schema)
}

/// Writes the schema without blanks, which a start would have to read, and a line for each key
/// that a file may begin with.
pub(super) fn written(schema: &Value) -> String {
    let root = schema.as_object().unwrap();
    let members = root.iter().map(|(key, value)| match (key.as_str(), value) {
        ("properties", Value::Object(keys)) => {
            let keys: Vec<_> =
                keys.iter().map(|(key, value)| format!("\n{key:?}:{value}")).collect();
            format!("{key:?}:{{{}}}", keys.join(","))
        }
        _ => format!("{key:?}:{value}"),
    });
    format!("{{{}}}\n", members.collect::<Vec<_>>().join(",\n"))
}

/// The same document with its keys in one order.
fn sort_keys(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let map: BTreeMap<_, _> = map.into_iter().map(|(k, v)| (k, sort_keys(v))).collect();
            Value::Object(map.into_iter().collect())
        }
        Value::Array(items) => items.into_iter().map(sort_keys).collect(),
        other => other,
    }
}

/// An enum with documented variants, `oneOf` constants, becomes `enum` with one description.
fn flatten_choice(schema: &mut Map<String, Value>) {
    let Some(variants) = schema.get("oneOf").and_then(Value::as_array) else { return };
    let consts: Option<Vec<Value>> = variants.iter().map(|v| v.get("const").cloned()).collect();
    let Some(consts) = consts else { return };
    let mut text = schema.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    for variant in variants {
        let about = variant.get("description").and_then(Value::as_str).unwrap_or_default();
        if about.is_empty() {
            continue;
        }
        text.push_str(&format!("\n- {}: {about}", variant.get("const").unwrap_or(&Value::Null)));
    }
    schema.remove("oneOf");
    schema.insert("type".into(), "string".into());
    schema.insert("enum".into(), consts.into());
    schema.insert("description".into(), text.into());
}

/// An optional value, `anyOf` itself and null, becomes itself: null is allowed for every key.
fn flatten_option(schema: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = schema.get_mut("anyOf") else { return };
    choices.retain(|choice| choice.get("type") != Some(&json!("null")));
    if let [Value::Object(only)] = choices.as_mut_slice() {
        let mut only = std::mem::take(only);
        flatten_choice(&mut only);
        schema.remove("anyOf");
        for (key, value) in only {
            schema.entry(key).or_insert(value);
        }
    }
}

/// Formats of Rust's integers become the ranges that they stand for.
fn bound_number(schema: &mut Map<String, Value>) {
    let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
    let (min, max) = match format {
        "uint32" => (0, u64::from(u32::MAX)),
        "uint64" => (0, MAX_WHOLE),
        "int64" => (-9_007_199_254_740_991_i64, MAX_WHOLE),
        "double" => {
            schema.remove("format");
            return;
        }
        _ => return,
    };
    schema.remove("format");
    schema.entry("minimum").or_insert(min.into());
    schema.entry("maximum").or_insert(max.into());
}

/// Lets every key be null, which puts it back to its default.
fn allow_null(schema: &mut Value) {
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        let optional = properties.iter_mut().filter(|(key, _)| !required.contains(&json!(key)));
        optional.for_each(|(_, value)| nullable(value));
    }
    if let Some(values @ Value::Object(_)) = schema.get_mut("additionalProperties") {
        nullable(values);
    }
    if let Some(items) = schema.get_mut("items") {
        allow_null(items);
    }
}

fn nullable(schema: &mut Value) {
    allow_null(schema);
    let Value::Object(schema) = schema else { return };
    // The default of a section is told key by key, and that of an absent key is absence.
    if schema.get("default").is_some_and(|d| d.is_null() || d.is_object()) {
        schema.remove("default");
    }
    if let Some(kind) = schema.get_mut("type") {
        let mut kinds = match kind.take() {
            Value::Array(kinds) => kinds,
            kind => vec![kind],
        };
        if !kinds.contains(&json!("null")) {
            kinds.push("null".into());
        }
        *kind = kinds.into();
    }
    if let Some(Value::Array(choices)) = schema.get_mut("enum")
        && !choices.contains(&Value::Null)
    {
        choices.push(Value::Null);
    }
}
