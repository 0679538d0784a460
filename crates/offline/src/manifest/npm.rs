//! `package.json`.

use serde_json::{Map, Value};

use super::{Dependency, Package, Program, Tool, one_line};
use crate::paths::{join, normal};

/// Fields of which a package has at least one.
const PACKAGE_FIELDS: &[&str] = &[
    "name",
    "version",
    "bin",
    "scripts",
    "workspaces",
    "dependencies",
    "devDependencies",
    "peerDependencies",
];

pub(super) fn read(path: &str, text: &str) -> Option<Package> {
    let manifest: Map<String, Value> = serde_json::from_str(text).ok()?;
    // Without these it only says how files below it are loaded.
    if !PACKAGE_FIELDS.iter().any(|field| manifest.contains_key(*field)) {
        return None;
    }
    let mut out = Package::new(path, Tool::Npm);
    let word = |name: &str| manifest.get(name).and_then(Value::as_str).map(one_line);
    out.name = word("name").unwrap_or_default();
    out.version = word("version").unwrap_or_default();
    out.about = word("description").unwrap_or_default();
    out.licence = word("license")
        .or_else(|| Some(manifest.get("license")?.get("type")?.as_str()?.to_owned()))
        .unwrap_or_default();
    let node = manifest.get("engines").and_then(|engines| engines.get("node")?.as_str());
    out.needs.requires = node.map(|node| format!("Node {node}")).unwrap_or_default();
    out.workspace.joins = manifest.contains_key("workspaces");
    // A registry takes nothing without a name.
    let private = manifest.get("private").and_then(Value::as_bool) == Some(true);
    out.private = private || out.name.is_empty();
    let folder = out.folder().to_owned();
    let main = || word("main").or_else(|| word("module"));
    let exported = || manifest.get("exports").and_then(find_export);
    let library = main().or_else(exported).or_else(|| word("types"));
    let placed = |path: &str| normal(&join(&folder, path)).unwrap_or_default();
    out.targets.library = match library.map(|path| placed(&path)) {
        // The folder of the package itself.
        Some(path) if path == folder => join(&folder, "index"),
        path => path.unwrap_or_default(),
    };
    match manifest.get("bin") {
        Some(Value::String(at)) => {
            let name = out.name.rsplit('/').next().unwrap_or_default().to_owned();
            out.targets.programs.push(Program { name, at: placed(at) });
        }
        Some(Value::Object(programs)) => {
            for (name, at) in programs {
                let at = placed(at.as_str().unwrap_or_default());
                out.targets.programs.push(Program { name: name.clone(), at });
            }
        }
        _ => {}
    }
    let table = |name: &str| manifest.get(name).and_then(Value::as_object).into_iter().flatten();
    for (name, value) in table("scripts") {
        out.targets.scripts.insert(name.clone(), one_line(value.as_str().unwrap_or_default()));
    }
    add_required(&mut out, &manifest);
    out.needs.development = table("devDependencies").map(|(name, _)| name.clone()).collect();
    Some(out)
}

/// Reads what a package needs. A peer that is optional is needed only on demand.
fn add_required(out: &mut Package, manifest: &Map<String, Value>) {
    let table = |name: &str| manifest.get(name).and_then(Value::as_object).into_iter().flatten();
    let is_optional = |name: &str| {
        let meta = manifest.get("peerDependenciesMeta").and_then(|meta| meta.get(name));
        meta.and_then(|meta| meta.get("optional")).and_then(Value::as_bool) == Some(true)
    };
    out.needs.optional = table("optionalDependencies").map(|(name, _)| name.clone()).collect();
    for section in ["dependencies", "peerDependencies"] {
        for (name, value) in table(section) {
            let version = value.as_str().unwrap_or_default();
            let known = out.needs.dependencies.iter().any(|known| known.name == *name);
            if section == "peerDependencies" && is_optional(name) {
                out.needs.optional.extend((!known).then(|| name.clone()));
            } else if !known {
                out.needs.dependencies.push(Dependency::new(name, version));
            }
        }
    }
}

/// Returns the path that a package exports by its own name.
fn find_export(exports: &Value) -> Option<String> {
    let names_paths =
        exports.as_object().is_some_and(|map| map.keys().any(|key| key.starts_with('.')));
    first_path(if names_paths { exports.get(".")? } else { exports })
}

/// Returns the first path among the conditions of an export.
fn first_path(value: &Value) -> Option<String> {
    match value {
        Value::String(path) => Some(path.clone()),
        Value::Array(choices) => choices.iter().find_map(first_path),
        Value::Object(conditions) => {
            let preferred = ["import", "require", "default"];
            let chosen = preferred.iter().find_map(|name| conditions.get(*name));
            chosen.or_else(|| conditions.values().next()).and_then(first_path)
        }
        _ => None,
    }
}
