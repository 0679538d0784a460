//! Keys that are known and checked, but not obeyed yet.

use serde_json::Value as Json;

use super::place::{Problem, shown};
use super::schema;
use super::tree::{Node, Value};

/// Keys without effect in this version; `*` stands for any name. A feature that arrives deletes
/// its line.
const WITHOUT_EFFECT: &[&str] = &[
    "approvals.allow",
    "approvals.deny",
    "chat",
    "compaction",
    "delegation.workflow",
    "fetch",
    "providers.*.tools",
    "sandbox",
];

/// The one that is a mistake instead of a warning: who sets it relies on it.
const REFUSED: &str = "approvals.deny";

/// Warns of each key without effect whose value is not its default anyway.
pub(super) fn warn(config: &Node, warnings: &mut Vec<Problem>) {
    for pattern in WITHOUT_EFFECT.iter().filter(|pattern| **pattern != REFUSED) {
        let pattern: Vec<&str> = pattern.split('.').collect();
        visit(config, &pattern, &mut Vec::new(), warnings);
    }
}

/// What is said of such a key where it is described.
const NOTE: &str = "Has no effect in this version.";

/// The schema as it is shown, in which each key without effect says so.
pub(super) fn marked(schema: &Json) -> Json {
    let mut schema = schema.clone();
    for pattern in WITHOUT_EFFECT {
        let found = pattern.split('.').try_fold(&mut schema, |schema, key| match key {
            "*" => schema.get_mut("additionalProperties"),
            key => schema.get_mut("properties")?.get_mut(key),
        });
        let Some(key) = found else { continue };
        let about = key.get("description").and_then(Json::as_str).unwrap_or_default();
        let about = if about.is_empty() { NOTE.to_owned() } else { format!("{about}\n{NOTE}") };
        key["description"] = about.into();
    }
    schema
}

/// Whether a key, by its path, has no effect.
pub(super) fn is_without_effect(path: &str) -> bool {
    WITHOUT_EFFECT.iter().any(|pattern| {
        let (mut path, mut pattern) = (path.split('.'), pattern.split('.'));
        loop {
            match (pattern.next(), path.next()) {
                (None, None) => return true,
                (Some(want), Some(key)) if want == "*" || want == key => {}
                _ => return false,
            }
        }
    })
}

fn visit(node: &Node, pattern: &[&str], path: &mut Vec<String>, warnings: &mut Vec<Problem>) {
    let Some((first, rest)) = pattern.split_first() else { return };
    for (key, entry) in node.entries() {
        if *first != "*" && first != key {
            continue;
        }
        path.push(key.clone());
        if !rest.is_empty() {
            visit(&entry.node, rest, path, warnings);
        } else if differs(&entry.node, path) {
            let message = format!("`{}` has no effect in this version", shown(&path.join(".")));
            warnings.push(Problem::new(&entry.key, message));
        }
        path.pop();
    }
}

/// Whether anything under the node is not what it would be without it.
fn differs(node: &Node, path: &mut Vec<String>) -> bool {
    if !matches!(node.value, Value::Map(_)) {
        let default = schema::at(path).and_then(|schema| schema.get("default"));
        return default != Some(&node.to_json());
    }
    node.entries().any(|(key, entry)| {
        path.push(key.clone());
        let differs = differs(&entry.node, path);
        path.pop();
        differs
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_a_key_and_they_are_sorted() {
        for pattern in WITHOUT_EFFECT {
            let path: Vec<String> = pattern.split('.').map(str::to_owned).collect();
            assert!(schema::at(&path).is_some(), "{pattern}");
        }
        assert!(WITHOUT_EFFECT.is_sorted());
    }

    #[test]
    fn the_schema_that_is_shown_says_of_each_that_it_has_no_effect() {
        let shown = marked(schema::json_schema());
        for pattern in WITHOUT_EFFECT {
            let key = pattern.split('.').fold(&shown, |schema, key| match key {
                "*" => &schema["additionalProperties"],
                key => &schema["properties"][key],
            });
            let about = key["description"].as_str().unwrap_or_default();
            assert!(about.ends_with(NOTE), "{pattern}: {about}");
            assert!(is_without_effect(&pattern.replace('*', "local")), "{pattern}");
        }
        assert!(!shown["properties"]["model"].to_string().contains(NOTE));
        for other in ["model", "approvals", "approvals.mode", "providers.local"] {
            assert!(!is_without_effect(other), "{other}");
        }
    }
}
