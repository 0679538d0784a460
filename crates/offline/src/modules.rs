//! The main modules of a project: folders of about equal weight, or files where it is small.

use std::collections::BTreeMap;

use super::conversation::Ask;
use super::inventory::{File, Inventory, head};
use super::language::{self, Class, file_name};
use super::manifest::Package;
use super::part::Part;
use super::paths::{join, parent};
use super::readme;
use super::syntax::{Grammar, outline};
use super::wording::sentence_end;

mod names;

/// Rows of the table.
const ROWS: usize = 12;
/// Files that are named one by one where a folder holds most of a small project.
const FILES: usize = 8;
/// Lines of a file that are read for its documentation.
pub(super) const DOC_LINES: u64 = 120;
/// Files of a module that are read for its documentation.
const DOC_FILES: usize = 4;

/// Folders that only hold others.
const CONTAINERS: [&str; 14] = [
    "crates", "packages", "src", "lib", "libs", "internal", "pkg", "cmd", "apps", "modules",
    "plugins", "main", "java", "source",
];

/// A folder or a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Module {
    /// Its path, empty for the top.
    pub(super) path: String,
    /// With all below it.
    pub(super) deep: bool,
    /// Whether it is a single file.
    pub(super) single: bool,
    /// Whether it is what a folder holds beside files that are named one by one.
    pub(super) rest: bool,
    pub(super) files: u64,
    pub(super) lines: u64,
    pub(super) about: String,
}

impl Module {
    /// Returns its path as reports show it.
    pub(super) fn label(&self) -> String {
        if self.rest {
            return format!("{} (other files)", join(&self.path, "*"));
        }
        match (self.single, self.deep, self.path.as_str()) {
            (true, ..) => self.path.clone(),
            (false, true, path) => format!("{path}/"),
            (false, false, "") => "./*".to_owned(),
            (false, false, path) => format!("{path}/*"),
        }
    }
}

fn lines_of(file: &File) -> u64 {
    file.lines.unwrap_or(0)
}

/// Divides the programs of a directory into modules, the largest first.
pub(super) fn modules(inventory: &Inventory, root: &str, packages: &[Package]) -> Vec<Module> {
    let top = if root == "." { "" } else { root };
    let files: Vec<&File> = inventory
        .files
        .iter()
        .filter(|file| is_source(&file.path) && file.part() == Part::Main)
        .filter(|file| file.lines.is_some())
        .collect();
    let total: u64 = files.iter().map(|file| lines_of(file)).sum();
    let folders: Vec<&str> = packages.iter().map(Package::folder).collect();
    let mut units = children(top, &files);
    while units.len() < ROWS {
        let splittable = |unit: &&Module| {
            let package = folders.contains(&unit.path.as_str()) && units.len() > 2;
            let container = CONTAINERS.contains(&file_name(&unit.path));
            unit.deep && !package && (container || unit.lines * 4 > total || units.len() < 3)
        };
        let heaviest = units.iter().filter(splittable).max_by_key(|unit| unit.lines).cloned();
        let Some(unit) = heaviest else { break };
        let below = children(&unit.path, &files);
        units.retain(|other| *other != unit);
        units.extend(below);
        // A folder without a folder below it stays as it is.
        for flat in
            units.iter_mut().filter(|other| other.path == unit.path && other.files == unit.files)
        {
            flat.deep = false;
        }
    }
    // Files of their own where one folder holds most.
    let flat = units.iter().filter(|unit| !unit.deep && unit.files > 1 && unit.lines * 3 > total);
    if let Some(unit) = flat.max_by_key(|unit| unit.lines).cloned()
        && units.len() < ROWS
    {
        units.retain(|other| *other != unit);
        let mut single: Vec<&&File> =
            files.iter().filter(|file| parent(&file.path) == unit.path).collect();
        single.sort_by_key(|file| std::cmp::Reverse(lines_of(file)));
        let room = FILES.min(ROWS - units.len());
        let (first, rest) = single.split_at(room.min(single.len()));
        units.extend(first.iter().map(|file| Module {
            path: file.path.clone(),
            deep: false,
            single: true,
            rest: false,
            files: 1,
            lines: lines_of(file),
            about: String::new(),
        }));
        if !rest.is_empty() {
            let lines = rest.iter().map(|file| lines_of(file)).sum();
            units.push(Module { files: rest.len() as u64, lines, rest: true, ..unit });
        }
    }
    units.sort_by(|a, b| b.lines.cmp(&a.lines).then(a.path.cmp(&b.path)));
    units
}

/// Whether a file belongs to a program, by its name.
pub(super) fn is_source(path: &str) -> bool {
    let build = ["Makefile", "CMakeLists.txt", "Dockerfile", "configure", "Rakefile", "Gemfile"];
    let file = File::new(path.to_owned(), 0, None);
    file.is_code()
        && language::of(path).name != "Just"
        && !build.contains(&file_name(path))
        && !path.ends_with(".m4")
        && !path.ends_with(".bat")
}

/// Returns what lies right in a folder: the folders, and its own files together.
fn children(folder: &str, files: &[&File]) -> Vec<Module> {
    let prefix = if folder.is_empty() { String::new() } else { join(folder, "") };
    let mut below: BTreeMap<(String, bool), (u64, u64)> = BTreeMap::new();
    for file in files {
        let Some(rest) = file.path.strip_prefix(&prefix) else { continue };
        let key = match rest.split_once('/') {
            Some((name, _)) => (join(folder, name), true),
            None => (folder.to_owned(), false),
        };
        let size = below.entry(key).or_default();
        size.0 += 1;
        size.1 += lines_of(file);
    }
    let unit = |((path, deep), (files, lines))| Module {
        path,
        deep,
        single: false,
        rest: false,
        files,
        lines,
        about: String::new(),
    };
    below.into_iter().map(unit).collect()
}

/// Says of each module what it is, from its manifest, its documentation or its README, and else
/// which names it gives to others. No line is one of `known` or that of another module.
pub(super) fn describe(
    ask: &mut Ask<'_, '_>,
    inventory: &Inventory,
    packages: &[Package],
    known: &[String],
    modules: &mut [Module],
) {
    let mut said: Vec<String> = known.iter().map(|line| letters(line)).collect();
    for module in modules.iter_mut() {
        let whole = is_whole_folder(inventory, module);
        let manifest = packages
            .iter()
            .find(|package| whole && package.folder() == module.path)
            .map(|package| package.about.clone())
            .filter(|about| !about.is_empty());
        let about = match manifest {
            Some(about) => Some(about),
            None => find_doc(ask, inventory, module),
        };
        let about = about.unwrap_or_default();
        let end = sentence_end(&about).unwrap_or(about.len());
        add_line(module, about.get(..end).unwrap_or_default().trim(), &mut said);
    }
    // What is read for documentation is not asked for again.
    if ask.waits() {
        return;
    }
    let all = modules.to_vec();
    for module in modules.iter_mut().filter(|module| module.about.is_empty()) {
        let line = names::line(ask, inventory, module, &all).unwrap_or_default();
        add_line(module, &line, &mut said);
    }
}

/// Says a line of a module, if it is not said already.
fn add_line(module: &mut Module, line: &str, said: &mut Vec<String>) {
    let letters = letters(line);
    if !letters.is_empty() && !said.contains(&letters) {
        line.clone_into(&mut module.about);
        said.push(letters);
    }
}

/// Returns the characters that distinguish two lines.
fn letters(line: &str) -> String {
    line.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Whether a module is a folder below the top with all sources in it.
fn is_whole_folder(inventory: &Inventory, module: &Module) -> bool {
    let folder = !module.single && !module.rest && !module.path.is_empty();
    let flat = || {
        let mut sources = inventory.below(&module.path).filter(|file| is_source(&file.path));
        sources.all(|file| parent(&file.path) == module.path)
    };
    folder && (module.deep || flat())
}

fn find_doc(ask: &mut Ask<'_, '_>, inventory: &Inventory, module: &Module) -> Option<String> {
    let mut said = None;
    for path in documents(inventory, module) {
        let Some(text) = head(ask, &path, DOC_LINES) else { continue };
        let doc = match Grammar::of(&path) {
            Some(grammar) => outline(grammar, &closed(&path, text), false).doc,
            // Code that cannot be parsed has no prose to find.
            None if is_prose(&path) => readme::prose(&text),
            None => None,
        };
        said = said.or(doc);
    }
    said
}

/// Whether a file is text for people, by its name.
fn is_prose(path: &str) -> bool {
    language::of(path).class == Class::Prose
}

/// Returns the head of a file with the documentation closed in which it is cut off.
pub(super) fn closed(path: &str, mut text: String) -> String {
    if text.lines().count() < usize::try_from(DOC_LINES).unwrap_or(usize::MAX) {
        return text;
    }
    if path.ends_with(".py") {
        if !text.matches("\"\"\"").count().is_multiple_of(2) {
            text.push_str("\n\"\"\"\n");
        }
    } else if text.rfind("/*") > text.rfind("*/") {
        text.push_str("\n*/\n");
        if path.ends_with(".go") {
            text.push_str("package x\n");
        }
    }
    text
}

/// Returns the files that may say what a module is, the best first.
fn documents(inventory: &Inventory, module: &Module) -> Vec<String> {
    let path = module.path.as_str();
    if module.single {
        return vec![path.to_owned()];
    }
    if module.rest {
        return Vec::new();
    }
    let name = file_name(path);
    let mut names: Vec<String> = [
        "mod.rs",
        "lib.rs",
        "src/lib.rs",
        "main.rs",
        "src/main.rs",
        "__init__.py",
        "doc.go",
        "package-info.java",
        "index.ts",
        "index.js",
        "src/index.ts",
        "src/index.js",
        "mod.ts",
    ]
    .iter()
    .map(|name| join(path, name))
    .collect();
    if !path.is_empty() {
        names.insert(0, format!("{path}.rs"));
        names.push(join(path, &format!("{name}.go")));
        names.push(join(path, &format!("{name}.c")));
        names.push(join(path, &format!("{name}.h")));
    }
    let whole = is_whole_folder(inventory, module);
    if whole {
        names.push(join(path, "README.md"));
    }
    // What lies below says nothing of the files right in a folder.
    let mine = |file: &String| whole || parent(file) == path || *file == format!("{path}.rs");
    let mut out: Vec<String> =
        names.into_iter().filter(|path| inventory.has(path) && mine(path)).collect();
    // Any file of a Go package may say what it is.
    let folder = if path.is_empty() { "." } else { path };
    let go = inventory
        .below(folder)
        .filter(|file| file.path.ends_with(".go") && parent(&file.path) == path)
        .filter(|file| file.part() == Part::Main && !out.contains(&file.path));
    let go: Vec<String> = go.map(|file| file.path.clone()).take(DOC_FILES).collect();
    out.extend(go);
    out.truncate(DOC_FILES);
    out
}
