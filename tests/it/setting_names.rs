//! Libraries name no configuration key and no command of the program: the host passes such names in.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::tool_names::{code, sources};

/// Crates of the program itself.
const PROGRAM: [&str; 2] = ["crates/cli", "crates/config"];

/// The files left that name keys or commands, with how many texts do. The list must not grow.
const LEFT: [(&str, usize); 6] = [
    ("crates/delegate/src/save_output.rs", 1),
    ("crates/delegate/src/report.rs", 1),
    ("crates/delegate/src/report/entry.rs", 1),
    ("crates/runtime/src/program_start.rs", 1),
    ("crates/runtime/src/time_limit.rs", 2),
    ("plugins/host/src/error.rs", 1),
];

/// Returns the texts in double quotes of a source without comments.
fn literals(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find('"') {
        let is_char = rest[..at].ends_with('\'') || rest[..at].ends_with("'\\");
        let text = &rest[at + 1..];
        if is_char {
            rest = text;
            continue;
        }
        let mut escaped = false;
        let end = text.bytes().position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let end = end.unwrap_or(text.len());
        found.push(&text[..end]);
        rest = text.get(end + 1..).unwrap_or_default();
    }
    found
}

/// Returns the dotted keys of the sections of the configuration.
fn keys(root: &Path) -> Vec<String> {
    let schema = fs::read_to_string(root.join("crates/config/src/schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let mut keys = Vec::new();
    for (section, below) in schema["properties"].as_object().unwrap() {
        let below = below.get("properties").and_then(Value::as_object);
        keys.extend(below.into_iter().flatten().map(|(key, _)| format!("{section}.{key}")));
    }
    keys
}

/// Whether a text names a key, or a command such as `deputize run`.
fn names_program(text: &str, keys: &[String]) -> bool {
    let is_command = |(at, word): (usize, &str)| {
        text[at + word.len()..].starts_with(|c: char| c.is_ascii_lowercase())
    };
    keys.iter().any(|key| text.contains(key.as_str()))
        || text.match_indices("`deputize ").any(is_command)
}

#[test]
fn libraries_name_no_key_and_no_command_of_the_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let keys = keys(root);
    assert!(keys.iter().any(|key| key == "delegation.max_spawn_depth"), "{keys:?}");
    let mut files = Vec::new();
    for folder in ["crates", "plugins/sdk", "plugins/host"] {
        sources(&root.join(folder), &mut files);
    }
    let mut found = BTreeMap::new();
    for file in files {
        let place = file.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        if PROGRAM.iter().any(|program| place.starts_with(program)) {
            continue;
        }
        let code = code(&fs::read_to_string(&file).unwrap());
        let texts = literals(&code).into_iter().filter(|text| names_program(text, &keys)).count();
        if texts > 0 {
            found.insert(place, texts);
        }
    }
    let left = LEFT.iter().map(|(place, texts)| ((*place).to_owned(), *texts)).collect();
    assert_eq!(found, left);
}
