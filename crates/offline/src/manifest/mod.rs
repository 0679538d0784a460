//! Packages, as their manifests declare them.

use std::collections::{BTreeMap, BTreeSet};

use deputize_core::wording::one_line;
use serde::de::IgnoredAny;
use serde_json::json;

use super::conversation::Ask;
use super::inventory::{Inventory, unnumbered, unread_reason, whole};
use super::language::file_name;
use super::part::{Part, part_of};
use super::paths::{Reference, join, parent};

mod cargo;
mod condition;
mod go;
mod java;
mod native;
mod npm;
mod paths;
mod python;

use paths::{ManifestPaths, manifest_paths};

/// Manifests that are read, those nearest to the top first.
const READ: usize = 120;
/// Bytes of the largest manifest that is read.
const BYTES: u64 = 256 * 1024;

/// Build tool of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Tool {
    #[default]
    Cargo,
    Npm,
    Python,
    Go,
    Maven,
    Gradle,
    CMake,
    Meson,
    Autotools,
    Make,
}

/// A dependency, with the version that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Dependency {
    pub(super) name: String,
    /// When it is needed, as `on Windows`; empty for always.
    pub(super) condition: String,
    pub(super) version: String,
}

impl Dependency {
    /// Whether its version stands in the manifest of a workspace that was not read.
    pub(super) fn leaves_to_workspace(&self) -> bool {
        self.version == cargo::OF_WORKSPACE
    }

    pub(super) fn new(name: &str, version: &str) -> Self {
        let name = name.trim().to_owned();
        let version = version.trim().to_owned();
        Self { name, condition: String::new(), version }
    }

    /// Adds a condition.
    fn only(self, condition: String) -> Self {
        if condition.is_empty() { self } else { Self { condition, ..self } }
    }
}

/// A program that a package installs, and where it begins, as far as that is said.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Program {
    pub(super) name: String,
    pub(super) at: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Package {
    pub(super) path: String,
    pub(super) tool: Tool,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) licence: String,
    pub(super) about: String,
    /// Whether a registry does not take it.
    pub(super) private: bool,
    pub(super) needs: PackageNeeds,
    pub(super) targets: PackageTargets,
    pub(super) workspace: WorkspaceFields,
}

/// Needs of a package.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PackageNeeds {
    /// Its needs at run time.
    pub(super) dependencies: Vec<Dependency>,
    /// Whether it does not say what it needs.
    pub(super) unstated: bool,
    /// Where a program computes what it needs.
    pub(super) computed: Option<Reference>,
    /// Names of what is needed only on demand.
    pub(super) optional: BTreeSet<String>,
    /// Names of what is needed to develop, test or build it.
    pub(super) development: BTreeSet<String>,
    /// Names of dependencies that hold tools with which it is developed.
    pub(super) tools: BTreeSet<String>,
    /// The oldest version of the language or its runtime.
    pub(super) requires: String,
}

/// Targets of a package.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PackageTargets {
    pub(super) programs: Vec<Program>,
    /// The file with which a library begins.
    pub(super) library: String,
    /// The name under which a library is imported, where it differs from the package's.
    pub(super) library_name: String,
    /// Named commands: scripts of npm, targets of Make.
    pub(super) scripts: BTreeMap<String, String>,
}

/// Fields that a package and a workspace share.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct WorkspaceFields {
    /// Whether it joins other packages.
    pub(super) joins: bool,
    /// The manifest that describes it, where it is not its own.
    about_path: Option<String>,
    /// Values for all members of a workspace.
    inherited: BTreeMap<String, String>,
    /// Fields that the workspace says, as long as its manifest is not read.
    inherits: Vec<&'static str>,
}

impl Package {
    fn new(path: &str, tool: Tool) -> Self {
        Self { path: path.to_owned(), tool, ..Self::default() }
    }

    /// Returns its folder, empty for the top.
    pub(super) fn folder(&self) -> &str {
        parent(&self.path)
    }

    /// Returns the manifest that describes it.
    pub(super) fn about_path(&self) -> &str {
        self.workspace.about_path.as_deref().unwrap_or(&self.path)
    }

    /// Whether a field stands in the manifest of a workspace that was not read.
    pub(super) fn leaves_to_workspace(&self, field: &str) -> bool {
        self.workspace.inherits.contains(&field)
    }

    /// Whether it is a package that others can depend on. A manifest that only joins others, or
    /// configures tools, is none.
    pub(super) fn is_published(&self) -> bool {
        let declares = matches!(
            self.tool,
            Tool::Cargo | Tool::Npm | Tool::Python | Tool::Go | Tool::Maven | Tool::Gradle
        );
        declares && !self.private && !self.name.is_empty() && part_of(&self.path) == Part::Main
    }

    /// Whether anything stands in the manifest of a workspace that was not read.
    fn needs_workspace(&self) -> bool {
        !self.workspace.inherits.is_empty()
            || self.needs.dependencies.iter().any(Dependency::leaves_to_workspace)
    }
}

/// Reads a manifest, by its name.
pub(super) fn read(path: &str, text: &str) -> Option<Package> {
    match file_name(path) {
        "Cargo.toml" => cargo::read(path, text),
        "package.json" => npm::read(path, text),
        "pyproject.toml" => python::pyproject(path, text),
        "setup.cfg" => python::setup_cfg(path, text),
        "setup.py" => python::setup_py(path, text),
        "PKG-INFO" => python::pkg_info(path, text),
        "go.mod" => go::read(path, text),
        "pom.xml" => java::pom(path, text),
        "build.gradle" | "build.gradle.kts" => java::gradle(path, text),
        "CMakeLists.txt" => native::cmake(path, text),
        "meson.build" => native::meson(path, text),
        "configure.ac" | "configure.in" => native::autoconf(path, text),
        "Makefile" | "makefile" | "GNUmakefile" => native::make(path, text),
        _ => None,
    }
}

const NAMES: [&str; 16] = [
    "Cargo.toml",
    "package.json",
    "pyproject.toml",
    "setup.cfg",
    "setup.py",
    "PKG-INFO",
    "go.mod",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "CMakeLists.txt",
    "meson.build",
    "configure.ac",
    "Makefile",
    "makefile",
    "GNUmakefile",
];

/// Those of which only the one at the top says something of the whole.
const TOP_ONLY: [&str; 8] = [
    "CMakeLists.txt",
    "meson.build",
    "configure.ac",
    "Makefile",
    "makefile",
    "GNUmakefile",
    "PKG-INFO",
    "setup.cfg",
];

/// Manifests of a directory.
#[derive(Debug, Default)]
pub(super) struct Manifests {
    /// The packages, those nearest to the top first.
    pub(super) packages: Vec<Package>,
    /// Manifests that say nothing, and why.
    pub(super) gaps: Vec<String>,
}

/// Reads the manifests of a directory, also those that an ignore file hides.
pub(super) fn manifests(ask: &mut Ask<'_, '_>, inventory: &Inventory, root: &str) -> Manifests {
    let ManifestPaths { paths, mut gaps } = manifest_paths(ask, inventory, root);
    let mut packages: Vec<Package> = Vec::new();
    for path in paths {
        let problem = match whole(ask, &path) {
            Some(text) => {
                let text = text.trim_start_matches('\u{feff}');
                packages.extend(read(&path, text));
                syntax_problem(&path, text).map(str::to_owned)
            }
            None => unread_reason(ask, &path),
        };
        gaps.extend(problem.map(|problem| format!("`{path}`: {problem}")));
    }
    python::dynamic_version(ask, inventory, &mut packages);
    python::required(ask, inventory, &mut packages);
    inherit(&mut packages, None);
    python::merge(&mut packages, if root == "." { "" } else { root });
    Manifests { packages, gaps }
}

/// Says why a manifest cannot be parsed, if its language is known to the letter.
fn syntax_problem(path: &str, text: &str) -> Option<&'static str> {
    let name = file_name(path);
    if name.ends_with(".toml") {
        return text.parse::<toml::Table>().is_err().then_some("not valid TOML");
    }
    let broken = name.ends_with(".json") && serde_json::from_str::<IgnoredAny>(text).is_err();
    broken.then_some("not valid JSON")
}

/// Folders above a surveyed directory in which the manifest of its workspace is looked for.
const ABOVE: usize = 3;

/// Reads the manifest of the workspace above a directory, if members of it need one, and gives
/// them what it says.
pub(super) fn inherit_from_above(ask: &mut Ask<'_, '_>, packages: &mut [Package], root: &str) {
    if !packages.iter().any(Package::needs_workspace) {
        return;
    }
    let mut folder = root.to_owned();
    for _ in 0..ABOVE {
        folder = match folder.as_str() {
            "." | "" => "..".to_owned(),
            up if up == ".." || up.ends_with("/..") => join(up, ".."),
            below => parent(below).to_owned(),
        };
        let path = join(&folder, "Cargo.toml");
        let Some(done) = ask.call("read_file", json!({"path": path})) else { return };
        match done.ok() {
            Some(text) => {
                let above =
                    cargo::read(&path, &unnumbered(text)).filter(|above| above.workspace.joins);
                if above.is_some() {
                    return inherit(packages, above.as_ref());
                }
            }
            // What is not allowed is not allowed further up either.
            None if !done.content.contains("not found") => return,
            None => {}
        }
    }
}

/// Gives members of Cargo workspaces what their workspace says for them: one among the packages,
/// or else the one above them all.
fn inherit(packages: &mut [Package], above: Option<&Package>) {
    let workspaces: Vec<(String, BTreeMap<String, String>)> = packages
        .iter()
        .filter(|package| package.workspace.joins && package.tool == Tool::Cargo)
        .map(|package| (package.folder().to_owned(), package.workspace.inherited.clone()))
        .collect();
    for package in packages {
        let folder = package.folder().to_owned();
        let nearest = workspaces
            .iter()
            .filter(|(dir, _)| {
                dir.is_empty() || folder == *dir || folder.starts_with(&join(dir, ""))
            })
            .max_by_key(|(dir, _)| dir.len())
            .map(|(_, fields)| fields);
        let Some(fields) = nearest.or(above.map(|above| &above.workspace.inherited)) else {
            continue;
        };
        for field in std::mem::take(&mut package.workspace.inherits) {
            let Some(value) = fields.get(field).cloned() else { continue };
            match field {
                "version" => package.version = value,
                "license" => package.licence = value,
                "description" => package.about = value,
                "rust-version" => package.needs.requires = value,
                "license-file" if package.licence.is_empty() => {
                    package.licence = format!("see {value}");
                }
                _ => {}
            }
        }
        for dependency in &mut package.needs.dependencies {
            if dependency.leaves_to_workspace() {
                let key = format!("dependency {}", dependency.name);
                dependency.version = fields.get(&key).cloned().unwrap_or_default();
            }
        }
    }
}

#[cfg(test)]
mod tests;
