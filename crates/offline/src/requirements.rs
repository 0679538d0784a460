//! Which sources import what their Go module requires: `go.mod` names what tests need like the
//! rest.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::conversation::Ask;
use super::imports::Resolver;
use super::inventory::{File, Inventory, head};
use super::manifest::{Package, Tool};
use super::part::{Part, is_vendored};
use super::syntax::{FILE_BYTES, Grammar, Import, Outline, outline};

/// Requirements that one agent hands back. Where there are more, nothing is said of them.
const ROWS: usize = 300;
/// Sources of which only the head is read, and its lines.
const HEADS: usize = 100;
const HEAD_LINES: u64 = 200;
/// Says of files that there are others, whose imports are not known.
const PARSED: &str = "that were parsed";

/// Kinds of sources that import something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Importers {
    /// Sources of the work itself.
    main: bool,
    tests: bool,
    /// Examples, and files that a build leaves out.
    others: bool,
}

/// Importers of the modules that Go modules require.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Requirements {
    /// Importers by the folder of the requiring module, and by the path of the required one.
    importers: BTreeMap<String, BTreeMap<String, Importers>>,
    /// Whether there are too many.
    unknown: bool,
    /// Whether the imports of some sources are not known.
    incomplete: bool,
}

impl Requirements {
    /// Adds the imports of a source.
    pub(super) fn add_source(
        &mut self,
        path: &str,
        part: Part,
        outline: &Outline,
        resolver: &Resolver<'_>,
    ) {
        for import in &outline.imports {
            let Import::Go(import) = import else { continue };
            let Some((folder, module)) = resolver.requirement(path, import) else { continue };
            let modules = self.importers.entry(folder.to_owned()).or_default();
            let importers = modules.entry(module.to_owned()).or_default();
            match part {
                Part::Test => importers.tests = true,
                Part::Main | Part::Foreign if !outline.is_left_out => importers.main = true,
                Part::Main | Part::Example | Part::Foreign => importers.others = true,
            }
        }
        let rows: usize = self.importers.values().map(BTreeMap::len).sum();
        self.unknown |= rows > ROWS;
    }

    /// Adds those of another part.
    pub(super) fn add(&mut self, other: Self) {
        self.unknown |= other.unknown;
        self.incomplete |= other.incomplete;
        for (folder, modules) in other.importers {
            let mine = self.importers.entry(folder).or_default();
            for (module, importers) in modules {
                let all = mine.entry(module).or_default();
                all.main |= importers.main;
                all.tests |= importers.tests;
                all.others |= importers.others;
            }
        }
    }

    /// Drops what is too much to hand back.
    pub(super) fn shorten(&mut self) {
        if self.unknown {
            self.importers.clear();
        }
    }

    fn importers(&self, folder: &str, module: &str) -> Importers {
        let known = self.importers.get(folder).and_then(|modules| modules.get(module));
        known.copied().unwrap_or_default()
    }
}

/// Reads the imports of Go sources that are not parsed whole, which stand at their heads.
pub(super) fn read_heads(
    ask: &mut Ask<'_, '_>,
    files: &[File],
    resolver: &Resolver<'_>,
) -> Requirements {
    let mut out = Requirements::default();
    let is_go = |file: &&File| Grammar::of(&file.path) == Some(Grammar::Go);
    let is_parsed = |file: &File| file.part() != Part::Foreign && file.bytes <= FILE_BYTES;
    let mut left =
        files.iter().filter(is_go).filter(|file| !is_parsed(file) && !is_vendored(&file.path));
    for file in left.by_ref().take(HEADS) {
        let Some(text) = head(ask, &file.path, HEAD_LINES) else {
            out.incomplete = true;
            continue;
        };
        let test = file.path.ends_with("_test.go");
        let part = if test { Part::Test } else { file.part() };
        out.add_source(&file.path, part, &outline(Grammar::Go, &text, test), resolver);
    }
    out.incomplete |= left.next().is_some();
    out
}

/// Says under which condition a module is needed, by the sources that import it. `None` where it
/// is needed at run time.
fn condition(importers: Importers, complete: bool) -> Option<String> {
    let kinds = match importers {
        Importers { main: true, .. } => return None,
        Importers { tests: true, others: true, .. } => "tests, examples and tools",
        Importers { tests: true, .. } => "tests",
        Importers { others: true, .. } => "examples and tools",
        Importers { .. } if complete => return Some("no file imports".to_owned()),
        Importers { .. } => return Some(format!("none of the files {PARSED} imports")),
    };
    Some(if complete {
        format!("only {kinds} import")
    } else {
        format!("of the files {PARSED}, only {kinds} import")
    })
}

/// Whether a condition says what imports a dependency, so that it is not needed at run time.
pub(super) fn says_importers(condition: &str) -> bool {
    condition.ends_with(" import") || condition.ends_with(" imports")
}

/// Whether a condition is known of a part of the sources only.
pub(super) fn is_incomplete(condition: &str) -> bool {
    condition.contains(PARSED)
}

/// Marks what Go modules need only for tests, examples and tools. `complete` means that the imports
/// of all sources are known; `parsed` is the number of parsed sources.
pub(super) fn mark_test_only(
    packages: &mut [Package],
    inventory: &Inventory,
    known: &Requirements,
    complete: bool,
    parsed: u64,
) {
    if known.unknown {
        return;
    }
    let complete = complete && !known.incomplete;
    for package in packages.iter_mut().filter(|package| package.tool == Tool::Go) {
        let folder = package.folder().to_owned();
        let mut below = inventory.below(if folder.is_empty() { "." } else { &folder });
        let is_source =
            |file: &File| Grammar::of(&file.path) == Some(Grammar::Go) && !is_vendored(&file.path);
        let has_sources = below.any(is_source);
        if has_sources && parsed == 0 {
            continue;
        }
        // Without sources nothing contradicts the manifest.
        if has_sources {
            for dependency in &mut package.needs.dependencies {
                let importers = known.importers(&folder, &dependency.name);
                dependency.condition = condition(importers, complete).unwrap_or_default();
            }
        }
        let tools = &package.needs.tools;
        let development = &mut package.needs.development;
        package.needs.dependencies.retain(|dependency| {
            let importers = known.importers(&folder, &dependency.name);
            let is_tool = importers == Importers::default() && tools.contains(&dependency.name);
            if is_tool {
                development.insert(dependency.name.clone());
            }
            !is_tool
        });
    }
}
