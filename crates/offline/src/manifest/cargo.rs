//! `Cargo.toml`.

use toml::{Table, Value};

use super::{Dependency, Package, Program, Tool, condition, one_line};
use crate::paths::{join, normal};

/// Stands for a version that the workspace says, until its manifest is read.
pub(super) const OF_WORKSPACE: &str = "(workspace)";

pub(super) fn read(path: &str, text: &str) -> Option<Package> {
    let manifest: Table = text.parse().ok()?;
    let mut out = Package::new(path, Tool::Cargo);
    if let Some(workspace) = manifest.get("workspace").and_then(Value::as_table) {
        out.workspace.joins = true;
        add_shared(&mut out, workspace);
    }
    if let Some(package) = manifest.get("package").and_then(Value::as_table) {
        let mut field = |name: &'static str| match package.get(name) {
            Some(Value::String(text)) => one_line(text),
            Some(Value::Table(_)) => {
                out.workspace.inherits.push(name);
                String::new()
            }
            _ => String::new(),
        };
        let name = field("name");
        let version = field("version");
        let licence = field("license");
        let about = field("description");
        let requires = field("rust-version");
        let licence_file = field("license-file");
        out.name = name;
        out.version = version;
        out.licence = if licence.is_empty() && !licence_file.is_empty() {
            format!("see {licence_file}")
        } else {
            licence
        };
        out.about = about;
        out.private = match package.get("publish") {
            Some(Value::Boolean(publish)) => !publish,
            Some(Value::Array(registries)) => registries.is_empty(),
            _ => false,
        };
        out.needs.requires = requires;
    }
    dependencies(&mut out, &manifest, "");
    for (target, table) in manifest.get("target").and_then(Value::as_table).into_iter().flatten() {
        if let Some(table) = table.as_table() {
            dependencies(&mut out, table, &condition::of_cargo_target(target));
        }
    }
    out.needs.dependencies.sort();
    out.needs.dependencies.dedup_by(|next, before| {
        next.name == before.name
            && (before.condition.is_empty() || next.condition == before.condition)
    });
    for program in manifest.get("bin").and_then(Value::as_array).into_iter().flatten() {
        let word = |name: &str| program.get(name).and_then(Value::as_str).unwrap_or_default();
        let at = word("path");
        let at = if at.is_empty() { None } else { normal(&join(out.folder(), at)) };
        let at = at.unwrap_or_default();
        out.targets.programs.push(Program { name: word("name").to_owned(), at });
    }
    let library = |field: &str| manifest.get("lib")?.get(field)?.as_str();
    let path = library("path").and_then(|path| normal(&join(out.folder(), path)));
    out.targets.library = path.unwrap_or_default();
    out.targets.library_name = library("name").unwrap_or_default().to_owned();
    (out.workspace.joins || !out.name.is_empty()).then_some(out)
}

fn add_shared(out: &mut Package, workspace: &Table) {
    if let Some(package) = workspace.get("package").and_then(Value::as_table) {
        for (key, value) in package {
            if let Some(text) = value.as_str() {
                out.workspace.inherited.insert(key.clone(), one_line(text));
            }
        }
    }
    let dependencies = workspace.get("dependencies").and_then(Value::as_table);
    for (name, value) in dependencies.into_iter().flatten() {
        out.workspace.inherited.insert(format!("dependency {name}"), version(value));
    }
}

fn version(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Table(table) if table.get("workspace").is_some() => OF_WORKSPACE.to_owned(),
        Value::Table(table) => {
            let text = table.get("version").and_then(Value::as_str).unwrap_or_default();
            text.to_owned()
        }
        _ => String::new(),
    }
}

fn dependencies(out: &mut Package, table: &Table, condition: &str) {
    let of = |name: &str| table.get(name).and_then(Value::as_table);
    for (name, value) in of("dependencies").into_iter().flatten() {
        let name = package_name(name, value);
        if value.get("optional").and_then(Value::as_bool) == Some(true) {
            out.needs.optional.insert(name.to_owned());
            continue;
        }
        let dependency = Dependency::new(name, &version(value));
        out.needs.dependencies.push(dependency.only(condition.to_owned()));
    }
    for section in ["dev-dependencies", "build-dependencies"] {
        let needed = of(section).into_iter().flatten();
        out.needs
            .development
            .extend(needed.map(|(name, value)| package_name(name, value).to_owned()));
    }
}

/// Returns the name of the package that a dependency means, which may be renamed.
fn package_name<'m>(name: &'m str, value: &'m Value) -> &'m str {
    value.get("package").and_then(Value::as_str).unwrap_or(name)
}
