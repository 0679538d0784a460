//! Figures of a part's parsed sources, as numbers that add up.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::conversation::{Ask, TurnCall};
use super::imports::Resolver;
use super::inventory::{File, Inventory, unnumbered, unread_reason, whole};
use super::manifest::Package;
use super::modules::{DOC_LINES, closed};
use super::part::{Part, is_test_file, may_be_test_script};
use super::paths::{Reference, join, parent};
use super::requirements::{Requirements, read_heads};
use super::syntax::{FILE_BYTES, Grammar, Outline, outline, says_generated};
use super::wording::{count, number};

/// Files that one agent parses, and their bytes.
const FILES: usize = 3_000;
const BYTES: u64 = 32 * 1024 * 1024;
/// Rows of each list that an agent hands back.
const ROWS: usize = 60;
/// Generated files that it names, beside folders of them.
const GENERATED: usize = 200;

/// Test files and the test functions in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Tests {
    pub(super) files: u64,
    pub(super) cases: u64,
    /// Test files without a test function that a parser finds: a macro or a runner may make some.
    #[serde(default)]
    pub(super) others: u64,
    /// Whether those of folders below are among them.
    #[serde(default)]
    pub(super) below: bool,
}

/// Figures of a part's sources.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Figures {
    /// Files that were parsed.
    pub(super) parsed: u64,
    /// Test functions by the folder of their file.
    pub(super) tests: BTreeMap<String, Tests>,
    /// Where programs begin, outside of tests and examples.
    pub(super) mains: Vec<Reference>,
    /// Files and folders of the project by the number of files that import them.
    pub(super) imported: BTreeMap<String, u64>,
    /// Importers of the modules that Go modules require.
    pub(super) requirements: Requirements,
    /// Comments with `TODO` or `FIXME`.
    pub(super) remarks: u64,
    /// Notes on single files.
    #[serde(flatten)]
    pub(super) marks: FileMarks,
    /// Parts that were not read, and why.
    pub(super) gaps: Vec<String>,
}

/// Notes of the sources on single files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct FileMarks {
    /// Files that say that a program wrote them.
    pub(super) generated: Vec<String>,
    /// Folders in which all sources say so, which are not among the files.
    pub(super) generated_folders: Vec<String>,
    /// Large files that cannot be read, so that nobody knows who wrote them.
    pub(super) unread: Vec<String>,
    /// Files whose paths are not those of tests, and that only tests compile or run.
    pub(super) only_tests: Vec<String>,
}

impl Figures {
    /// Adds those of another part.
    pub(super) fn add(&mut self, other: Self) {
        self.parsed += other.parsed;
        for (folder, tests) in other.tests {
            let mine = self.tests.entry(folder).or_default();
            mine.files += tests.files;
            mine.cases += tests.cases;
            mine.others += tests.others;
            mine.below |= tests.below;
        }
        self.mains.extend(other.mains);
        for (path, count) in other.imported {
            *self.imported.entry(path).or_default() += count;
        }
        self.requirements.add(other.requirements);
        self.remarks += other.remarks;
        self.marks.generated.extend(other.marks.generated);
        self.marks.generated_folders.extend(other.marks.generated_folders);
        self.marks.unread.extend(other.marks.unread);
        self.marks.only_tests.extend(other.marks.only_tests);
        self.gaps.extend(other.gaps);
    }

    /// Returns the number of all test functions and of the files with some.
    pub(super) fn all_tests(&self) -> Tests {
        self.tests.values().fold(Tests::default(), |sum, tests| Tests {
            files: sum.files + tests.files,
            cases: sum.cases + tests.cases,
            others: sum.others + tests.others,
            below: true,
        })
    }

    /// Shortens what may be long, so that a report of it fits.
    fn shorten(&mut self) {
        group_folders(&mut self.tests, ROWS);
        let mut imported: Vec<_> = std::mem::take(&mut self.imported).into_iter().collect();
        imported.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        self.imported = imported.into_iter().take(2 * ROWS).collect();
        self.mains.truncate(ROWS);
        self.requirements.shorten();
    }

    /// Marks the files that a program wrote and those of tests, and counts no lines of those that
    /// cannot be read.
    pub(super) fn mark_files(&self, inventory: &mut Inventory) {
        let files: BTreeSet<&String> = self.marks.generated.iter().collect();
        let tests: BTreeSet<&String> = self.marks.only_tests.iter().collect();
        let folders: BTreeSet<&str> =
            self.marks.generated_folders.iter().map(String::as_str).collect();
        for file in &mut inventory.files {
            file.generated = files.contains(&file.path)
                || folders.contains(parent(&file.path)) && may_be_generated(file);
            file.only_tests = tests.contains(&file.path);
            if self.marks.unread.contains(&file.path) {
                file.lines = None;
            }
        }
    }

    /// Shortens the lists of files, so that a report with them fits. `files` are those of the part.
    pub(super) fn shorten_lists(&mut self, files: &[File]) {
        self.group_generated(files);
        let left = self.marks.generated.len().saturating_sub(GENERATED);
        if left > 0 {
            let left = count(left as u64, "generated file");
            self.gaps.push(format!("{left} beyond the first {GENERATED}, counted as sources"));
        }
        self.marks.generated.truncate(GENERATED);
        self.marks.unread.truncate(ROWS);
        self.marks.only_tests.truncate(ROWS);
    }

    /// Names a folder in place of its files where all of its sources are generated.
    fn group_generated(&mut self, files: &[File]) {
        let generated: BTreeSet<&str> = self.marks.generated.iter().map(String::as_str).collect();
        let mut folders: BTreeMap<&str, bool> = BTreeMap::new();
        for file in files.iter().filter(|file| may_be_generated(file)) {
            let all = folders.entry(parent(&file.path)).or_insert(true);
            *all &= generated.contains(file.path.as_str());
        }
        let grouped = |path: &str| folders.get(parent(path)).is_some_and(|all| *all);
        let files = self.marks.generated.iter().filter(|path| !grouped(path)).cloned().collect();
        let folders = folders.iter().filter(|(_, all)| **all);
        self.marks.generated_folders = folders.map(|(folder, _)| (*folder).to_owned()).collect();
        self.marks.generated = files;
    }

    /// Adds why sources cannot be read: of the first ones, and how many more there are.
    fn add_unread(&mut self, unread: Vec<String>) {
        let left = unread.len().saturating_sub(ROWS);
        self.gaps.extend(unread.into_iter().take(ROWS));
        if left > 0 {
            let left = count(left as u64, "more source");
            self.gaps.push(format!("{left} that cannot be read"));
        }
    }

    /// Adds what the outlines of the sources say.
    fn add_outlines(&mut self, outlined: &[OutlinedFile<'_>], resolver: &Resolver<'_>) {
        self.parsed = outlined.len() as u64;
        let hidden = test_files(outlined);
        let mut imported: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for OutlinedFile { file, outline } in outlined {
            let path = file.path.as_str();
            self.requirements.add_source(path, file.part(), outline, resolver);
            if outline.generated {
                self.marks.generated.push(file.path.clone());
                continue;
            }
            self.add_tests(path, outline);
            self.remarks += outline.remarks;
            if file.part() != Part::Main {
                continue;
            }
            if hidden.contains(path) {
                self.marks.only_tests.push(file.path.clone());
                continue;
            }
            let main = |line: &u64| Reference { path: path.to_owned(), line: *line };
            self.mains.extend(outline.mains.iter().map(main));
            for import in &outline.imports {
                if let Some(target) = resolver.resolve(path, import) {
                    imported.entry(target).or_default().insert(path);
                }
            }
        }
        self.imported =
            imported.into_iter().map(|(target, from)| (target, from.len() as u64)).collect();
    }

    /// Counts the tests of a file in its folder.
    fn add_tests(&mut self, path: &str, outline: &Outline) {
        if outline.tests > 0 {
            let tests = self.tests.entry(parent(path).to_owned()).or_default();
            tests.files += 1;
            tests.cases += outline.tests;
        } else if is_test_file(path) {
            self.tests.entry(parent(path).to_owned()).or_default().others += 1;
        }
    }
}

/// Whether the head of a file is read to learn whether a program wrote it.
fn may_be_generated(file: &File) -> bool {
    Grammar::of(&file.path).is_some() && file.part() != Part::Foreign && file.bytes > 0
}

/// Groups folders until there are at most so many: the deepest one goes to that above it. So
/// groups of parts become the groups of the whole.
pub(super) fn group_folders(folders: &mut BTreeMap<String, Tests>, most: usize) {
    while folders.len() > most {
        let depth =
            |folder: &str| if folder.is_empty() { 0 } else { 1 + folder.matches('/').count() };
        let deepest = folders.keys().max_by_key(|folder| depth(folder));
        let Some(deepest) = deepest.filter(|folder| !folder.is_empty()).cloned() else { break };
        let Some(tests) = folders.remove(&deepest) else { break };
        let above = folders.entry(parent(&deepest).to_owned()).or_default();
        above.files += tests.files;
        above.cases += tests.cases;
        above.others += tests.others;
        above.below = true;
    }
}

/// A file with its outline.
struct OutlinedFile<'f> {
    file: &'f File,
    outline: Outline,
}

/// The texts of the sources that are parsed, and why others cannot be read.
#[derive(Default)]
struct SourceTexts<'f> {
    texts: Vec<(&'f File, Grammar, String)>,
    unread: Vec<String>,
}

/// Reads and parses the sources among the files of a scope. What is still to be read is asked for.
pub(super) fn figures(ask: &mut Ask<'_, '_>, files: &[File], resolver: &Resolver<'_>) -> Figures {
    let mut figures = Figures::default();
    if ask.turn().tool("read_file").is_none() {
        figures.gaps.push("the text of files: `read_file` is not among the tools".to_owned());
        return figures;
    }
    let (chosen, left_out) = sources(files);
    if left_out > 0 {
        let first = chosen.len();
        let left_out = count(left_out as u64, "source");
        figures.gaps.push(format!("{left_out} beyond the first {first}, which were parsed"));
    }
    for file in files {
        large(ask, file, &mut figures);
    }
    figures.requirements = read_heads(ask, files, resolver);
    let SourceTexts { texts, unread } = read_sources(ask, chosen);
    // Nothing is parsed before everything is there.
    if ask.waits() {
        return figures;
    }
    figures.add_unread(unread);
    let outlined: Vec<OutlinedFile<'_>> = texts.iter().map(outline_source).collect();
    figures.add_outlines(&outlined, resolver);
    figures.shorten();
    figures
}

/// Reads the sources that were chosen.
fn read_sources<'f>(ask: &mut Ask<'_, '_>, chosen: Vec<(&'f File, Grammar)>) -> SourceTexts<'f> {
    let mut read = SourceTexts::default();
    for (file, grammar) in chosen {
        match whole(ask, &file.path) {
            Some(text) => read.texts.push((file, grammar, text)),
            None => read.unread.extend(
                unread_reason(ask, &file.path).map(|why| format!("`{}`: {why}", file.path)),
            ),
        }
    }
    read
}

/// Parses a source.
fn outline_source<'f>((file, grammar, text): &(&'f File, Grammar, String)) -> OutlinedFile<'f> {
    let test = file.part() == Part::Test || may_be_test_script(&file.path);
    OutlinedFile { file, outline: outline(*grammar, text, test) }
}

/// Says of a source that is too large to be parsed whether a program wrote it, by its head.
fn large(ask: &mut Ask<'_, '_>, file: &File, figures: &mut Figures) {
    let Some(grammar) = Grammar::of(&file.path) else { return };
    if file.part() == Part::Foreign || file.bytes <= FILE_BYTES {
        return;
    }
    let path = &file.path;
    let arguments = json!({"path": path, "limit": DOC_LINES});
    let done = ask.call("read_file", arguments);
    if let Some(why) = done.and_then(|done| done.reason(path)) {
        figures.gaps.push(format!("`{path}`: {why}"));
        figures.marks.unread.push(path.clone());
        return;
    }
    let text = done.and_then(TurnCall::ok).map(unnumbered).unwrap_or_default();
    if says_generated(grammar, &closed(path, text)) {
        figures.marks.generated.push(path.clone());
    } else {
        let limit = number(FILE_BYTES);
        figures.gaps.push(format!("`{path}`: not parsed, for it has more than {limit} bytes"));
    }
}

/// Returns the files to parse, and how many more there are.
fn sources(files: &[File]) -> (Vec<(&File, Grammar)>, usize) {
    let mut bytes = 0;
    let mut left_out = 0;
    let mut out = Vec::new();
    for file in files {
        let Some(grammar) = Grammar::of(&file.path) else { continue };
        if file.part() == Part::Foreign || file.bytes > FILE_BYTES || file.bytes == 0 {
            continue;
        }
        bytes += file.bytes;
        if out.len() >= FILES || bytes > BYTES {
            left_out += 1;
            continue;
        }
        out.push((file, grammar));
    }
    (out, left_out)
}

/// Returns the Rust files that are modules of tests by their declaration and those below them, and
/// scripts that are tests by their calls.
fn test_files<'f>(outlined: &'f [OutlinedFile<'_>]) -> BTreeSet<&'f str> {
    let mut stems = BTreeSet::new();
    for OutlinedFile { file, outline } in outlined {
        for name in &outline.test_modules {
            stems.insert(join(&module_folder(&file.path), name));
        }
    }
    let inside = |path: &str| {
        let stem = path.strip_suffix(".rs")?;
        let mut stem = stem.strip_suffix("/mod").unwrap_or(stem);
        loop {
            if stems.contains(stem) {
                return Some(());
            }
            stem = stem.rsplit_once('/')?.0;
        }
    };
    let is_test = |it: &&OutlinedFile<'_>| {
        let path = it.file.path.as_str();
        inside(path).is_some() || may_be_test_script(path) && it.outline.tests > 0
    };
    outlined.iter().filter(is_test).map(|it| it.file.path.as_str()).collect()
}

/// Returns the folder in which the modules of a Rust file lie.
pub(super) fn module_folder(path: &str) -> String {
    let folder = parent(path);
    let name = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".rs");
    if matches!(name, "mod" | "lib" | "main") { folder.to_owned() } else { join(folder, name) }
}

/// Teaches a resolver the packages that the manifests of an inventory declare.
pub(super) fn teach(resolver: &mut Resolver<'_>, packages: &[Package]) {
    for package in packages {
        let folder = parent(&package.path);
        match package.path.rsplit('/').next() {
            Some("Cargo.toml") => resolver.add_crate(folder, &package.name),
            Some("go.mod") => {
                let required =
                    package.needs.dependencies.iter().map(|it| it.name.clone()).collect();
                resolver.add_module(folder, &package.name, required);
            }
            Some("package.json") => resolver.add_package(folder, &package.name),
            _ => {}
        }
    }
}
