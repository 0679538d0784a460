//! The published JSON Schema, which is also what the check goes by.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform as _};
use serde_json::{Map, Value, json};

use super::keys::Config;

/// The largest whole number that every JSON reader keeps exact.
const MAX_WHOLE: u64 = 9_007_199_254_740_991;

static SCHEMA: LazyLock<Value> = LazyLock::new(build);

/// The JSON Schema (draft 2020-12) of a configuration file: one document without references, its
/// keys sorted. It accepts exactly what the check accepts, but for conflicts between keys.
pub fn json_schema() -> &'static Value {
    &SCHEMA
}

fn build() -> Value {
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
    sorted(schema)
}

/// An enum with documented variants, `oneOf` constants, becomes `enum` with one description.
fn flatten_choice(schema: &mut Map<String, Value>) {
    let Some(variants) = schema.get("oneOf").and_then(Value::as_array) else { return };
    let consts: Option<Vec<Value>> = variants.iter().map(|v| v.get("const").cloned()).collect();
    let Some(consts) = consts else { return };
    let mut text = schema.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    for variant in variants {
        let about = variant.get("description").and_then(Value::as_str).unwrap_or_default();
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

/// The same document with its keys in one order, whatever `serde_json` was built with.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let map: BTreeMap<_, _> = map.into_iter().map(|(k, v)| (k, sorted(v))).collect();
            Value::Object(map.into_iter().collect())
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        other => other,
    }
}

/// The schema of the value at a path of keys; `None` where nothing is known of it.
pub(super) fn at(path: &[String]) -> Option<&'static Value> {
    path.iter().try_fold(json_schema(), |schema, key| child(schema, key))
}

/// The schema of a key of a mapping.
pub(super) fn child<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
    let named = schema.get("properties").and_then(|properties| properties.get(key));
    named.or_else(|| schema.get("additionalProperties").filter(|rest| rest.is_object()))
}

/// The keys that a mapping may have; none when it may have any.
pub(super) fn keys(schema: &Value) -> impl Iterator<Item = &str> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flat_map(|map| map.keys().map(String::as_str))
}

/// Whether the value is text and nothing else.
pub(super) fn is_text(schema: &Value) -> bool {
    let kinds = schema.get("type").and_then(Value::as_array);
    kinds.is_some_and(|kinds| kinds.iter().all(|kind| kind == "string" || kind == "null"))
}

/// Dotted paths of all keys with this name, wherever they are; `*` stands for any key.
pub(super) fn paths_ending_in(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    search(json_schema(), name, "", &mut found);
    found
}

fn search(schema: &Value, name: &str, prefix: &str, found: &mut Vec<String>) {
    for key in keys(schema) {
        if key == name {
            found.push(format!("{prefix}{key}"));
        }
        if let Some(below) = child(schema, key) {
            search(below, name, &format!("{prefix}{key}."), found);
        }
    }
    if let Some(any) = schema.get("additionalProperties").filter(|rest| rest.is_object()) {
        search(any, name, &format!("{prefix}*."), found);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_published_schema() {
        insta::assert_json_snapshot!(super::json_schema());
    }
}
