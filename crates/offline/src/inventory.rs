//! The files of a directory, with their sizes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::conversation::{Ask, TurnCall};
use super::language::{self, Class};
use super::part::{Part, is_generated_path, part_of};
use super::paths::join;
use super::scope::{Scope, under};
use super::search::{Search, SearchResult};
use super::wording::{and_more, count};

/// Pages of file names that are read.
pub(super) const PAGES: usize = 6;
/// Levels of a listing that stands in for a search.
const DEPTH: u64 = 5;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    pub(super) path: String,
    pub(super) bytes: u64,
    /// Lines of a text file; `None` where they were not counted.
    pub(super) lines: Option<u64>,
    /// Whether it is compiled from another file of the project.
    pub(super) compiled: bool,
    /// Whether it says that a program wrote it.
    pub(super) generated: bool,
    /// Whether only tests compile or run it, by the text of it or of others.
    pub(super) only_tests: bool,
}

impl File {
    pub(super) const fn new(path: String, bytes: u64, lines: Option<u64>) -> Self {
        Self { path, bytes, lines, compiled: false, generated: false, only_tests: false }
    }

    /// Returns the part that the file plays.
    pub(super) fn part(&self) -> Part {
        match part_of(&self.path) {
            _ if self.compiled || self.generated => Part::Foreign,
            Part::Main if self.only_tests => Part::Test,
            part => part,
        }
    }

    /// Whether a program wrote the file, by its path or its head.
    pub(super) fn is_generated(&self) -> bool {
        self.compiled || self.generated || is_generated_path(&self.path)
    }

    /// Whether the file is a program in a language of programs.
    pub(super) fn is_code(&self) -> bool {
        language::of(&self.path).class == Class::Code
    }
}

/// The files of a directory, by path.
#[derive(Debug, Clone, Default)]
pub(super) struct Inventory {
    pub(super) files: Vec<File>,
    /// The paths of binary files, where lines were counted.
    pub(super) binary: BTreeSet<String>,
    /// Parts that are not in it, and why.
    pub(super) gaps: Vec<String>,
}

impl Inventory {
    /// Lists the files of a scope with their bytes and lines.
    pub(super) fn with_lines(ask: &mut Ask<'_, '_>, scope: &Scope) -> Self {
        if ask.turn().tool("search_files").is_none() {
            return Self::list(ask, scope);
        }
        let names = Search::files(scope, &[]).pages(PAGES).ask(ask);
        let counts = Search::counts(scope, "lines", "^", &[]).pages(PAGES).ask(ask);
        let lines: BTreeMap<&str, u64> = counts.counts().collect();
        let mut files: Vec<File> = names
            .sizes()
            .map(|(path, bytes)| {
                let lines = lines.get(path).copied();
                File::new(path.to_owned(), bytes, lines)
            })
            .collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let mut gaps = Vec::new();
        if let Some(problem) = names.problem.as_ref().or(counts.problem.as_ref()) {
            gaps.push(format!("files of {}: searching them {problem}", scope.label()));
        }
        if names.more || counts.more {
            gaps.push(format!("files of {} beyond the first {}", scope.label(), files.len()));
        }
        let (binary, unread) = find_uncounted(ask, &files, &counts);
        gaps.extend(unread);
        gaps.extend(unread_directories(ask, scope, &files, &names));
        gaps.extend(unfollowed(names.totals.links));
        Self { files, binary, gaps }.with_compiled()
    }

    /// Lists what was not searched: binary files, and what could not be read.
    pub(super) fn unsearched(&self) -> Vec<String> {
        let mut out = self.gaps.clone();
        let named: Vec<String> = self.binary.iter().map(|path| format!("`{path}`")).collect();
        if !named.is_empty() {
            let all = count(named.len() as u64, "binary file");
            out.push(format!("{all}: {}", and_more(named, NAMED)));
        }
        out
    }

    /// Lists sources by their names that are binary all the same.
    pub(super) fn binary_sources(&self) -> impl Iterator<Item = String> {
        let sources = self.binary.iter().filter(|path| language::of(path).class == Class::Code);
        sources.map(|path| format!("`{path}`: binary file"))
    }

    /// Lists the paths of the files below a directory.
    pub(super) fn paths(ask: &mut Ask<'_, '_>, scope: &Scope) -> Self {
        if ask.turn().tool("search_files").is_none() {
            return Self::list(ask, scope);
        }
        let names = Search::files(scope, &[]).pages(PAGES).ask(ask);
        let file = |(path, bytes): (&str, u64)| File::new(path.to_owned(), bytes, None);
        let mut files: Vec<File> = names.sizes().map(file).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let mut gaps = unread_directories(ask, scope, &files, &names);
        gaps.extend(unfollowed(names.totals.links));
        Self { files, gaps, ..Self::default() }.with_compiled()
    }

    /// Lists what a listing of some levels shows, where no search can.
    fn list(ask: &mut Ask<'_, '_>, scope: &Scope) -> Self {
        let root = scope.top().to_owned();
        let listing = ask.call("list_dir", json!({"path": root, "depth": DEPTH}));
        let mut files = Vec::new();
        let mut gaps = vec![format!(
            "files below {DEPTH} levels, and lines of files: `search_files` is not among the tools"
        )];
        match listing.map(|done| (done.ok(), done)) {
            Some((Some(text), _)) => {
                let links = text.lines().filter(|line| line.contains(" -> ")).count();
                gaps.extend(unfollowed(links as u64));
                for line in text.lines() {
                    let Some((path, bytes)) = line.rsplit_once('\t') else { continue };
                    let path = path.strip_prefix("./").unwrap_or(path);
                    let path = if path.starts_with(&under(&root, "")) || root == "." {
                        path.to_owned()
                    } else {
                        under(&root, path)
                    };
                    let Ok(bytes) = bytes.trim().parse() else { continue };
                    files.push(File::new(path, bytes, None));
                }
            }
            Some((None, done)) => {
                gaps.extend(done.problem().map(|problem| format!("the files: listing {problem}")));
            }
            None => {}
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self { files, gaps, ..Self::default() }.with_compiled()
    }

    fn with_compiled(mut self) -> Self {
        let project = self.clone();
        self.mark_compiled(&project);
        self
    }

    /// Marks the files that are compiled from sources of a project, of which this may be a part.
    pub(super) fn mark_compiled(&mut self, project: &Self) {
        let compiled: Vec<bool> =
            self.files.iter().map(|file| is_compiled(&file.path, project)).collect();
        for (file, compiled) in self.files.iter_mut().zip(compiled) {
            file.compiled = compiled;
        }
    }

    /// Returns the file of a path.
    pub(super) fn get(&self, path: &str) -> Option<&File> {
        let at = self.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok()?;
        self.files.get(at)
    }

    /// Returns whether there is a file of this path.
    pub(super) fn has(&self, path: &str) -> bool {
        self.get(path).is_some()
    }

    /// Returns the files below a directory.
    pub(super) fn below<'i>(&'i self, dir: &str) -> impl Iterator<Item = &'i File> + use<'i> {
        let prefix = if dir == "." { String::new() } else { under(dir, "") };
        let from = self.files.partition_point(|file| file.path.as_str() < prefix.as_str());
        self.files.iter().skip(from).take_while(move |file| file.path.starts_with(&prefix))
    }
}

/// Places of a name that are looked for, and those that are suggested.
const PLACES: u64 = 200;
const SUGGESTED: usize = 3;

/// Suggests directories of the same name for a path that does not exist. `problem` is what the
/// tool said, which may suggest something itself.
pub(super) fn nearest(ask: &mut Ask<'_, '_>, path: &str, problem: &str) -> String {
    let name = language::file_name(path);
    let plain = !name.is_empty() && !name.contains(['*', '?', '[', ']', '{', '}', '.']);
    if !problem.contains("not found") || problem.contains("did you mean") || !plain {
        return String::new();
    }
    let arguments = json!({"path": ".", "glob": format!("**/{name}/**"), "limit": PLACES});
    let Some(done) = ask.call("search_files", arguments) else { return String::new() };
    let middle = format!("/{name}/");
    let folder = |line: &str| {
        let at = line.find(&middle)?;
        Some(format!("`{}`", line.get(..at + middle.len() - 1)?.trim_start_matches("./")))
    };
    let found: BTreeSet<String> =
        done.ok().unwrap_or_default().lines().filter_map(folder).collect();
    if found.is_empty() {
        return String::new();
    }
    format!("; did you mean {}?", and_more(found.into_iter().collect(), SUGGESTED))
}

/// Says how many symbolic links were not followed, if there are some.
pub(super) fn unfollowed(links: u64) -> Option<String> {
    (links > 0).then(|| format!("{}: not followed", count(links, "symbolic link")))
}

/// Files and directories that are read once more to learn why they cannot be read.
const PROBED: usize = 100;
/// Binary files that are named.
const NAMED: usize = 5;

/// Separates the files whose lines were not counted: those that are binary, and for the others
/// why they cannot be read.
fn find_uncounted(
    ask: &mut Ask<'_, '_>,
    files: &[File],
    counts: &SearchResult<'_>,
) -> (BTreeSet<String>, Vec<String>) {
    let mut binary = BTreeSet::new();
    let mut gaps = Vec::new();
    if counts.problem.is_some() {
        return (binary, gaps);
    }
    // Beyond the last page, nothing is known.
    let last = counts.counts().map(|(path, _)| path).max().filter(|_| counts.more);
    let left = files.iter().filter(|file| file.lines.is_none() && file.bytes > 0);
    let left = left.filter(|file| last.is_none_or(|last| file.path.as_str() < last));
    let mut unknown = 0;
    for (at, file) in left.enumerate() {
        let path = file.path.as_str();
        if counts.totals.unreadable == 0 {
            binary.insert(path.to_owned());
            continue;
        }
        if at >= PROBED {
            unknown += 1;
            continue;
        }
        let probe = ask.call("read_file", json!({"path": path, "limit": 1}));
        match probe.map(|done| done.reason(path)) {
            Some(Some(why)) if why.starts_with("binary file") => {
                binary.insert(path.to_owned());
            }
            Some(Some(why)) => gaps.push(format!("`{path}`: {why}")),
            Some(None) => gaps.push(format!("`{path}`: its lines could not be counted")),
            None => unknown += 1,
        }
    }
    if unknown > 0 {
        gaps.push(format!("{}: binary, or they cannot be read", count(unknown, "more file")));
    }
    (binary, gaps)
}

/// Says which directories could not be read, and why.
fn unread_directories(
    ask: &mut Ask<'_, '_>,
    scope: &Scope,
    files: &[File],
    names: &SearchResult<'_>,
) -> Vec<String> {
    if names.totals.directories == 0 {
        return Vec::new();
    }
    let root = scope.top().to_owned();
    let Some(listing) = ask.call("list_dir", json!({"path": root, "depth": DEPTH})) else {
        return Vec::new();
    };
    let holds = |dir: &str| files.iter().any(|file| file.path.starts_with(&under(dir, "")));
    let mut gaps = Vec::new();
    let listed = listing.ok().unwrap_or_default().lines();
    let empty = listed.filter_map(|line| line.strip_suffix('/')).map(|dir| under(&root, dir));
    for dir in empty.filter(|dir| !holds(dir)).take(PROBED) {
        let probe = ask.call("list_dir", json!({"path": dir, "depth": 1}));
        let why = probe.and_then(|done| done.reason(&dir));
        gaps.extend(why.map(|why| format!("`{dir}/`: {why}")));
    }
    let left = names.totals.directories.saturating_sub(gaps.len() as u64);
    if left > 0 && !ask.waits() {
        gaps.push(format!("{}: cannot be read", count(left, "directory")));
    }
    gaps
}

/// Whether a file of JavaScript or of declarations is compiled from TypeScript: its declarations
/// lie beside it, and its source in the same place below `src`.
fn is_compiled(path: &str, project: &Inventory) -> bool {
    const DECLARATIONS: [&str; 3] = ["d.ts", "d.cts", "d.mts"];
    const OUTPUT: [&str; 6] = ["d.ts", "d.cts", "d.mts", "js", "cjs", "mjs"];
    const SOURCES: [&str; 4] = ["ts", "tsx", "cts", "mts"];
    let output = OUTPUT.iter().find_map(|end| path.strip_suffix(end)?.strip_suffix('.'));
    let Some(stem) = output else { return false };
    let any =
        |stem: &str, ends: &[&str]| ends.iter().any(|end| project.has(&format!("{stem}.{end}")));
    if !any(stem, &DECLARATIONS) {
        return false;
    }
    let mut folder = "";
    loop {
        let below = if folder.is_empty() { Some(stem) } else { stem.get(folder.len() + 1..) };
        let Some(below) = below else { return false };
        let source = join(folder, "src");
        let moved = below.split_once('/').map(|(_, rest)| join(&source, rest));
        let places = [Some(join(&source, below)), moved];
        if places.iter().flatten().any(|place| any(place, &SOURCES)) {
            return true;
        }
        let Some((next, _)) = below.split_once('/') else { return false };
        folder = stem.get(..stem.len() - below.len() + next.len()).unwrap_or_default();
    }
}

/// Returns the text of a result of `read_file`, which numbers the lines.
pub(super) fn unnumbered(content: &str) -> String {
    let line = |line: &str| match line.split_once('\t') {
        Some((number, text)) if number.trim().parse::<u64>().is_ok() => text.to_owned(),
        Some(_) | None => line.to_owned(),
    };
    content.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Reads the first lines of a file.
pub(super) fn head(ask: &mut Ask<'_, '_>, path: &str, lines: u64) -> Option<String> {
    let done = ask.call("read_file", json!({"path": path, "limit": lines}))?;
    done.ok().map(unnumbered)
}

/// Lines of one page of `read_file`.
const PAGE_LINES: u64 = 2_000;

/// Returns why a file cannot be read whole; `None` where it can, or it is not known yet.
pub(super) fn unread_reason(ask: &mut Ask<'_, '_>, path: &str) -> Option<String> {
    ask.call("read_file", json!({"path": path}))?.reason(path)
}

/// Reads a whole file. `None` while a page is missing, or when it cannot be read.
pub(super) fn whole(ask: &mut Ask<'_, '_>, path: &str) -> Option<String> {
    let mut text = String::new();
    let mut offset = 1;
    loop {
        let arguments = if offset == 1 {
            json!({"path": path})
        } else {
            json!({"path": path, "offset": offset})
        };
        let done = ask.call("read_file", arguments)?;
        let page = done.ok()?;
        text.push_str(&unnumbered(page));
        text.push('\n');
        match next_page(done) {
            Some(next) if next > offset && next < PAGE_LINES * 200 => offset = next,
            Some(_) | None => return Some(text),
        }
    }
}

/// Returns the line at which the next page of a file begins.
fn next_page(done: &TurnCall) -> Option<u64> {
    let mark = "to go on: offset ";
    let next = done.notes.iter().find_map(|note| Some(note.split_once(mark)?.1))?;
    next.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
