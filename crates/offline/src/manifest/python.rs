//! `pyproject.toml`, `setup.cfg`, `setup.py` and `PKG-INFO`.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use super::{Dependency, Package, PackageNeeds, Program, Tool, condition, one_line};
use crate::conversation::Ask;
use crate::inventory::{Inventory, head, whole};
use crate::language::file_name;
use crate::part::{Part, part_of};
use crate::paths::{Reference, parent};
use crate::syntax::{SetupArgument, assigned_version, setup_arguments};

pub(super) fn pyproject(path: &str, text: &str) -> Option<Package> {
    let manifest: Table = text.parse().ok()?;
    let mut out = Package::new(path, Tool::Python);
    let at = |keys: &[&str]| {
        let (first, rest) = keys.split_first()?;
        rest.iter().try_fold(manifest.get(*first)?, |value, key| value.get(*key))
    };
    let project = at(&["project"])
        .or_else(|| at(&["tool", "poetry"]))
        .or_else(|| at(&["tool", "flit", "metadata"]));
    let Some(project) = project.and_then(Value::as_table) else {
        return Some(Package { needs: PackageNeeds { unstated: true, ..out.needs }, ..out });
    };
    let word =
        |name: &str| project.get(name).and_then(Value::as_str).map(one_line).unwrap_or_default();
    out.name = word("name");
    out.version = word("version");
    out.about = word("description");
    out.needs.requires = word("requires-python");
    out.licence = licence(project);
    add_dependencies(&mut out, project);
    for table in ["scripts", "gui-scripts"] {
        for (name, at) in project.get(table).and_then(Value::as_table).into_iter().flatten() {
            let at = at.as_str().unwrap_or_default().to_owned();
            out.targets.programs.push(Program { name: name.clone(), at });
        }
    }
    let own = plain_name(&out.name);
    out.needs.optional = group_names(project.get("optional-dependencies"), &own);
    out.needs.development = group_names(manifest.get("dependency-groups"), &own);
    if at(&["tool", "pytest"]).is_some() {
        out.targets.scripts.insert("pytest".to_owned(), String::new());
    }
    Some(out)
}

/// Returns the name of a project's licence; empty if it has none.
fn licence(project: &Table) -> String {
    let stated = match project.get("license") {
        Some(Value::String(text)) => one_line(text),
        Some(Value::Table(table)) => {
            let text = table.get("text").and_then(Value::as_str).unwrap_or_default();
            // A whole licence is no name of one.
            if text.lines().count() == 1 { one_line(text) } else { String::new() }
        }
        _ => String::new(),
    };
    if !stated.is_empty() {
        return stated;
    }
    let classifiers = project.get("classifiers").and_then(Value::as_array);
    let mut words = classifiers.into_iter().flatten().filter_map(Value::as_str);
    words.find_map(classify).unwrap_or_default()
}

/// Adds the dependencies of a project: a list, or a table as Poetry writes it.
fn add_dependencies(out: &mut Package, project: &Table) {
    match project.get("dependencies") {
        Some(Value::Array(list)) => {
            out.needs.dependencies.extend(list.iter().filter_map(Value::as_str).map(requirement));
        }
        Some(Value::Table(table)) => {
            for (name, value) in table {
                if name == "python" {
                    out.needs.requires = value.as_str().unwrap_or_default().to_owned();
                    continue;
                }
                poetry_dependency(out, name, value);
            }
        }
        _ => {}
    }
    let dynamic = project.get("dynamic").and_then(Value::as_array).into_iter().flatten();
    out.needs.unstated = dynamic.filter_map(Value::as_str).any(|field| field == "dependencies");
}

/// Returns the names in groups of dependencies.
fn group_names(groups: Option<&Value>, own: &str) -> BTreeSet<String> {
    let groups = groups.and_then(Value::as_table).into_iter().flatten();
    let listed = groups.filter_map(|(_, list)| list.as_array()).flatten();
    let names = listed.filter_map(Value::as_str).map(required_name);
    // A group that takes in another one names the package itself.
    names.filter(|name| *name != own).collect()
}

/// Adds a dependency as Poetry writes it: a version, or a table.
fn poetry_dependency(out: &mut Package, name: &str, value: &Value) {
    let word = |field: &str| value.get(field).and_then(Value::as_str);
    if value.get("optional").and_then(Value::as_bool) == Some(true) {
        out.needs.optional.insert(plain_name(name));
        return;
    }
    let version = value.as_str().or_else(|| word("version")).unwrap_or_default();
    let marker = || word("markers").map(condition::of_python_marker);
    let system = || word("platform").map(condition::of_system);
    let python = || word("python").map(|python| format!("for Python {python}"));
    let condition = marker().or_else(system).or_else(python).unwrap_or_default();
    out.needs.dependencies.push(Dependency::new(name, version).only(condition));
}

/// Returns the licence that a classifier names.
fn classify(text: &str) -> Option<String> {
    let name = text.strip_prefix("License :: ")?.rsplit(" :: ").next()?;
    (name != "OSI Approved").then(|| name.to_owned())
}

/// Splits a requirement such as `attrs>=22; python_version < "3.9"`.
fn requirement(text: &str) -> Dependency {
    let (text, marker) = text.split_once(';').unwrap_or((text, ""));
    let text = text.trim();
    let end = text.find(|c: char| "<>=!~ [(@".contains(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let version = rest.split_once(']').map_or(rest, |(_, after)| after);
    Dependency::new(name, version.trim().trim_matches(['(', ')']))
        .only(condition::of_python_marker(marker))
}

/// Returns the name of what a requirement needs, in one spelling.
fn required_name(text: &str) -> String {
    plain_name(&requirement(text).name)
}

/// Returns the one spelling of a name of which `-`, `_`, `.` and case do not matter.
fn plain_name(name: &str) -> String {
    name.to_lowercase().replace(['_', '.'], "-")
}

/// Reads the sections of an INI file: each key with its value, over several lines.
fn sections(text: &str) -> BTreeMap<(String, String), String> {
    let mut out: BTreeMap<(String, String), String> = BTreeMap::new();
    let mut section = String::new();
    let mut key = String::new();
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            name.trim().clone_into(&mut section);
            key.clear();
        } else if line.starts_with([' ', '\t']) && !key.is_empty() {
            let value = out.entry((section.clone(), key.clone())).or_default();
            value.push('\n');
            value.push_str(trimmed);
        } else if let Some((name, value)) = line.split_once(['=', ':']) {
            key = name.trim().to_lowercase().replace('-', "_");
            out.insert((section.clone(), key.clone()), value.trim().to_owned());
        }
    }
    out
}

pub(super) fn setup_cfg(path: &str, text: &str) -> Option<Package> {
    let sections = sections(text);
    let get = |section: &str, key: &str| {
        sections.get(&(section.to_owned(), key.to_owned())).cloned().unwrap_or_default()
    };
    let plain = |key: &str| {
        let value = one_line(&get("metadata", key));
        if value.starts_with("attr:") || value.starts_with("file:") { String::new() } else { value }
    };
    let mut out = Package::new(path, Tool::Python);
    out.name = plain("name");
    out.version = plain("version");
    out.about = plain("description");
    out.licence = plain("license");
    if out.licence.is_empty() {
        let classifiers = get("metadata", "classifiers");
        out.licence = classifiers.lines().find_map(classify).unwrap_or_default();
    }
    out.needs.requires = one_line(&get("options", "python_requires"));
    let lines = |value: String| {
        let lines = value.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let required = get("options", "install_requires");
    // What stands in another file is not read.
    let is_elsewhere = |value: &str| ["file:", "attr:"].iter().any(|mark| value.starts_with(mark));
    let elsewhere = is_elsewhere(&required);
    if !elsewhere {
        out.needs.dependencies = lines(required).iter().map(|line| requirement(line)).collect();
    }
    for ((_, extra), value) in
        sections.iter().filter(|((section, _), _)| section == "options.extras_require")
    {
        if !is_elsewhere(value) {
            add_extra(&mut out, extra, lines(value.clone()).iter().map(String::as_str));
        }
    }
    out.needs.optional.remove(&plain_name(&out.name));
    for line in lines(get("options.entry_points", "console_scripts")) {
        if let Some((name, at)) = line.split_once('=') {
            out.targets
                .programs
                .push(Program { name: name.trim().to_owned(), at: at.trim().to_owned() });
        }
    }
    out.needs.unstated = elsewhere || !sections.keys().any(|(section, _)| section == "options");
    if sections.keys().any(|(section, _)| section == "tool:pytest") {
        out.targets.scripts.insert("pytest".to_owned(), String::new());
    }
    Some(out)
}

/// Adds the requirements of an extra. One whose name begins with a colon is none: what stands
/// there is needed wherever its marker is true.
fn add_extra<'t>(out: &mut Package, extra: &str, requirements: impl Iterator<Item = &'t str>) {
    if let Some(marker) = extra.strip_prefix(':') {
        let marked = |text| requirement(text).only(condition::of_python_marker(marker));
        out.needs.dependencies.extend(requirements.map(marked));
    } else {
        out.needs.optional.extend(requirements.map(required_name));
    }
}

pub(super) fn setup_py(path: &str, text: &str) -> Option<Package> {
    let mut out = Package::new(path, Tool::Python);
    for argument in setup_arguments(text) {
        let SetupArgument { name, values, groups, line, computed } = argument;
        let first = || values.first().map(|text| one_line(text)).unwrap_or_default();
        match name.as_str() {
            "install_requires" | "**" if computed => {
                out.needs.unstated = true;
                out.needs.computed = Some(Reference { path: path.to_owned(), line });
            }
            "name" => out.name = first(),
            "version" => out.version = first(),
            "description" => out.about = first(),
            "license" => out.licence = first(),
            "python_requires" => out.needs.requires = first(),
            "install_requires" => {
                out.needs.dependencies.extend(values.iter().map(|text| requirement(text)));
            }
            "extras_require" => {
                for (extra, values) in groups {
                    add_extra(&mut out, &extra, values.iter().map(String::as_str));
                }
            }
            "classifiers" if out.licence.is_empty() => {
                out.licence = values.iter().find_map(|text| classify(text)).unwrap_or_default();
            }
            _ => {}
        }
    }
    out.needs.optional.remove(&plain_name(&out.name));
    Some(out)
}

/// Reads the metadata that a source distribution carries.
pub(super) fn pkg_info(path: &str, text: &str) -> Option<Package> {
    let mut out = Package::new(path, Tool::Python);
    for line in text.lines().take_while(|line| !line.is_empty()) {
        let Some((key, value)) = line.split_once(": ") else { continue };
        let value = value.trim();
        match key {
            "Name" => value.clone_into(&mut out.name),
            "Version" => value.clone_into(&mut out.version),
            "Summary" => value.clone_into(&mut out.about),
            "License-Expression" => value.clone_into(&mut out.licence),
            "License" if out.licence.is_empty() => value.clone_into(&mut out.licence),
            "Classifier" if out.licence.is_empty() => {
                out.licence = classify(value).unwrap_or_default();
            }
            "Requires-Python" => value.clone_into(&mut out.needs.requires),
            "Requires-Dist" if value.contains("extra ==") => {
                out.needs.optional.insert(required_name(value));
            }
            "Requires-Dist" => out.needs.dependencies.push(requirement(value)),
            _ => {}
        }
    }
    out.needs.optional.remove(&plain_name(&out.name));
    // Old metadata leaves this to a file beside it.
    out.needs.unstated = out.needs.dependencies.is_empty() && out.needs.optional.is_empty();
    (!out.name.is_empty()).then_some(out)
}

/// Whether two manifests may be those of one project: neither names it otherwise than the other.
fn is_same_project(one: &Package, other: &Package) -> bool {
    let one = plain_name(&one.name);
    let other = plain_name(&other.name);
    one.is_empty() || other.is_empty() || one == other
}

/// Joins what several manifests of one project in a folder say; `pyproject.toml` goes before the
/// others. Those of a project of another name stay apart.
pub(super) fn merge(packages: &mut Vec<Package>, folder: &str) {
    let is_mine = |package: &Package| package.tool == Tool::Python && package.folder() == folder;
    let mut mine: Vec<Package> = packages.iter().filter(|p| is_mine(p)).cloned().collect();
    let rank = |package: &Package| match file_name(&package.path) {
        "pyproject.toml" => 0,
        "setup.cfg" => 1,
        "setup.py" => 2,
        _ => 3,
    };
    mine.sort_by_key(rank);
    packages.retain(|package| !is_mine(package));
    let mut joined: Vec<Package> = Vec::new();
    while let Some(first) = mine.first().cloned() {
        let named = mine.iter().find(|package| !package.name.is_empty()).unwrap_or(&first).clone();
        let (same, apart) = mine.into_iter().partition(|it| is_same_project(it, &named));
        joined.extend(join_manifests(same));
        mine = apart;
    }
    packages.splice(0..0, joined);
}

/// Joins the manifests of one project. What one leaves open, the next one says.
fn join_manifests(manifests: Vec<Package>) -> Option<Package> {
    // These say what the package needs, whatever a program computes for others.
    let states = |package: &Package| {
        matches!(file_name(&package.path), "pyproject.toml" | "PKG-INFO") && !package.needs.unstated
    };
    let stated = manifests.iter().any(states);
    let mut rest = manifests.into_iter();
    let mut first = rest.next()?;
    for other in rest {
        let fill = |field: &mut String, other: String| {
            if field.is_empty() {
                *field = other;
            }
        };
        if first.about.is_empty() && !other.about.is_empty() {
            first.workspace.about_path = Some(other.path);
        }
        fill(&mut first.name, other.name);
        fill(&mut first.version, other.version);
        fill(&mut first.licence, other.licence);
        fill(&mut first.about, other.about);
        fill(&mut first.needs.requires, other.needs.requires);
        if first.needs.dependencies.is_empty() {
            first.needs.dependencies = other.needs.dependencies;
            first.needs.optional.extend(other.needs.optional);
        } else if first.needs.optional.is_empty() && file_name(&first.path) != "pyproject.toml" {
            first.needs.optional = other.needs.optional;
        }
        first.needs.unstated &= other.needs.unstated;
        first.needs.computed = first.needs.computed.or(other.needs.computed);
        if first.targets.programs.is_empty() {
            first.targets.programs = other.targets.programs;
        }
    }
    if stated || !first.needs.dependencies.is_empty() {
        first.needs.computed = None;
    }
    Some(first)
}

/// Reads what packages need whose metadata leaves it to `requires.txt`.
pub(super) fn required(ask: &mut Ask<'_, '_>, inventory: &Inventory, packages: &mut [Package]) {
    for package in packages.iter_mut().filter(|package| package.needs.unstated) {
        let folder = package.folder();
        let beside = |path: &str| {
            let within = parent(path);
            let metadata = within.ends_with(".egg-info") && parent(within) == folder;
            file_name(path) == "requires.txt" && (within == folder || metadata)
        };
        let below = inventory.below(if folder.is_empty() { "." } else { folder });
        let Some(file) = below.into_iter().find(|file| beside(&file.path)) else { continue };
        let Some(text) = whole(ask, &file.path) else { continue };
        if let Some((dependencies, optional)) = requires_txt(&text) {
            package.needs.dependencies = dependencies;
            package.needs.optional = optional;
            package.needs.optional.remove(&plain_name(&package.name));
            package.needs.unstated = false;
            package.needs.computed = None;
        }
    }
}

/// Reads the requirements of `requires.txt` and the names of those for extras. `None` where a
/// line is no requirement.
fn requires_txt(text: &str) -> Option<(Vec<Dependency>, BTreeSet<String>)> {
    let mut dependencies = Vec::new();
    let mut optional = BTreeSet::new();
    let mut extra = false;
    let mut marker = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(section) = line.strip_prefix('[') {
            // A section that begins with a colon has a marker, and is not for an extra.
            let section = section.strip_suffix(']')?;
            let own = section.strip_prefix(':');
            extra = own.is_none();
            marker = own.map(condition::of_python_marker).unwrap_or_default();
        } else if !line.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return None;
        } else if extra {
            optional.insert(required_name(line));
        } else {
            dependencies.push(requirement(line).only(marker.clone()));
        }
    }
    Some((dependencies, optional))
}

/// Reads the version of Python packages whose manifests leave it to their source.
pub(super) fn dynamic_version(
    ask: &mut Ask<'_, '_>,
    inventory: &Inventory,
    packages: &mut [Package],
) {
    let has_version =
        |package: &&Package| package.tool == Tool::Python && !package.version.is_empty();
    let known: BTreeSet<String> =
        packages.iter().filter(has_version).map(|package| package.folder().to_owned()).collect();
    let leaves_open =
        |package: &&mut Package| package.tool == Tool::Python && !known.contains(package.folder());
    for package in packages.iter_mut().filter(leaves_open) {
        let folder = if package.folder().is_empty() { "." } else { package.folder() };
        let names = ["_version.py", "__version__.py", "version.py", "__about__.py", "__init__.py"];
        let depth = package.path.matches('/').count();
        let name = package.name.replace(['-', '.'], "_").to_lowercase();
        let mut candidates: Vec<&str> = inventory
            .below(folder)
            .map(|file| file.path.as_str())
            .filter(|path| names.contains(&file_name(path)) && part_of(path) == Part::Main)
            .filter(|path| path.matches('/').count() <= depth + 2)
            // In a package of another name it may be the version of something else.
            .filter(|path| {
                let within = file_name(parent(path)).to_lowercase();
                name.is_empty() || within == name
            })
            .collect();
        candidates.sort_by_key(|path| names.iter().position(|name| *name == file_name(path)));
        for path in candidates.into_iter().take(4) {
            let version = head(ask, path, 400).and_then(|text| assigned_version(&text));
            if let Some(version) = version {
                package.version = version;
                break;
            }
        }
    }
}
