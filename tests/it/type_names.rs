//! One word, one meaning: hardly any type name stands for several types.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::tool_names::{code, sources};

/// How many types of one name the workspace may have.
const MOST: usize = 3;

/// Names whose meaning is the same wherever they stand: the arguments of a tool.
const RECURRING: [&str; 1] = ["Args"];

/// Returns the name of the type that a line declares. An indented `type` belongs to a trait or an impl.
fn declared(line: &str) -> Option<&str> {
    let is_indented = line.starts_with(' ');
    let line = line.trim_start();
    let rest = line.strip_prefix("pub").map_or(line, |rest| {
        let rest =
            rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |it| it.1);
        rest.trim_start()
    });
    let (keyword, rest) = rest.split_once(' ')?;
    let is_type = match keyword {
        "struct" | "enum" | "trait" | "union" => true,
        "type" => !is_indented,
        _ => false,
    };
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    is_type.then(|| &rest[..end.unwrap_or(rest.len())])
}

#[test]
fn declarations_are_found_and_nothing_else_is() {
    for (line, name) in [
        ("pub(crate) struct Head<'a> {", Some("Head")),
        ("pub enum End {", Some("End")),
        ("trait Model: Send {", Some("Model")),
        ("type Supervisors = u8;", Some("Supervisors")),
        ("pub(super) struct Unit;", Some("Unit")),
        ("    struct Inner;", Some("Inner")),
        ("    type Output = u8;", None),
        ("pub fn structure() {}", None),
        ("// struct Gone;", None),
        ("", None),
    ] {
        assert_eq!(declared(line), name, "{line}");
    }
}

#[test]
fn a_type_name_stands_for_few_types() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for folder in ["crates", "plugins", "examples/src", "benches/src"] {
        sources(&root.join(folder), &mut files);
    }
    let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for file in files {
        let source = code(&fs::read_to_string(&file).unwrap());
        for name in source.lines().filter_map(declared) {
            found.entry(name.to_owned()).or_default().push(file.clone());
        }
    }
    assert!(found.len() > 900, "only {} type names were found", found.len());
    found.retain(|name, files| files.len() > MOST && !RECURRING.contains(&name.as_str()));
    assert!(found.is_empty(), "name each type for what it is: {found:#?}");
}
