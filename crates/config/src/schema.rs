//! The published JSON Schema, which is also what the check goes by.

use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use serde_json::Value;

mod section;

#[cfg(test)]
mod generate;

pub(super) use section::SectionSchema;

/// The schema as it is published. It follows from the types; a test says when it does not any
/// more. To write it from them at each start would take longer than the rest of the start.
const TEXT: &str = include_str!("schema.json");

#[expect(clippy::expect_used, reason = "it is a constant, and a test reads it")]
static SCHEMA: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(TEXT).expect("the configuration's schema is JSON"));

/// The schemas that were asked for: most runs set few keys.
static SECTIONS: LazyLock<BTreeMap<&'static str, SectionText>> = LazyLock::new(|| {
    let line = |line: &'static str| {
        let (key, text) = line.strip_prefix('"')?.split_once("\":")?;
        Some((key, SectionText { text, schema: OnceLock::new() }))
    };
    // The file has a line for each, so that not all of it is read as JSON.
    let lines = TEXT.split_once(PROPERTIES).map(|(_, rest)| rest.lines().map_while(line));
    lines.into_iter().flatten().collect()
});

/// What stands before the lines of the sections.
const PROPERTIES: &str = "\"properties\":{\n";

/// The text of a section's schema.
struct SectionText {
    /// With what stands behind it on its line.
    text: &'static str,
    schema: OnceLock<SectionSchema>,
}

/// Returns the JSON Schema (draft 2020-12) of a configuration file: one document without references, its
/// keys sorted. It accepts exactly what the check accepts, but for conflicts between keys.
pub fn json_schema() -> &'static Value {
    &SCHEMA
}

/// The schema of a key that a file may begin with.
#[expect(clippy::expect_used, reason = "it is a part of a constant, and a test reads all")]
pub(super) fn section(key: &str) -> Option<&'static SectionSchema> {
    let section = SECTIONS.get(key)?;
    let read = || SectionSchema::parse(section.text).expect("a section is a schema");
    Some(section.schema.get_or_init(read))
}

/// The schema of the value at a path of keys, that of a whole section without its keys; `None` where
/// nothing is known of it.
pub(super) fn at(path: &[String]) -> Option<&'static Value> {
    let (first, rest) = path.split_first()?;
    let section = section(first)?;
    let Some((key, rest)) = rest.split_first() else { return Some(section.keywords()) };
    rest.iter().try_fold(section.child(key)?, |schema, key| child(schema, key))
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
    use super::*;

    #[test]
    fn the_constant_is_the_schema_of_the_types() {
        let made = generate::written(&generate::from_types());
        if made != TEXT && std::env::var_os("INSTA_UPDATE").is_some_and(|how| how == "always") {
            let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/schema.json");
            std::fs::write(file, &made).unwrap();
        }
        assert!(
            made == TEXT,
            "src/schema.json is not what the types say; INSTA_UPDATE=always writes it anew"
        );
        for key in keys(json_schema()) {
            let whole = child(json_schema(), key).unwrap();
            assert_eq!(section(key).unwrap().to_value(), *whole, "{key}");
        }
    }

    #[test]
    fn the_texts_say_the_limits_that_hold_without_a_key() {
        use deputize_providers::EndpointTimeouts;
        let (usual, slow) = (EndpointTimeouts::default(), EndpointTimeouts::slow());
        for text in [
            format!("Seconds to wait for a connection. Absent: {}.", usual.connect.as_secs()),
            format!("Absent: {}, or {} on", usual.first_byte.as_secs(), slow.first_byte.as_secs()),
            format!("Seconds an answer may pause. Absent: {}.", usual.idle.as_secs()),
        ] {
            assert!(TEXT.contains(&text), "{text}");
        }
    }
}
