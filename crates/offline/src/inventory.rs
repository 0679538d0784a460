//! The files of a directory, with their sizes.

use std::collections::BTreeMap;

use serde_json::json;

use super::conversation::{Ask, Done};
use super::language::{self, Class};
use super::part::{Part, part_of};
use super::scope::{Scope, under};
use super::search::Search;

/// Pages of file names that are read.
pub(super) const PAGES: usize = 6;
/// Levels of a listing that stands in for a search.
const DEPTH: u64 = 5;

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    pub(super) path: String,
    pub(super) bytes: u64,
    /// Lines of a text file; `None` where they were not counted.
    pub(super) lines: Option<u64>,
}

impl File {
    /// Returns the part that the file plays, by its path.
    pub(super) fn part(&self) -> Part {
        part_of(&self.path)
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
    /// What is not in it, and why.
    pub(super) gaps: Vec<String>,
}

impl Inventory {
    /// Lists the files of a scope with their bytes and lines.
    pub(super) fn with_lines(ask: &mut Ask<'_, '_>, scope: &Scope) -> Self {
        if ask.turn().tool("search_files").is_none() {
            return Self::listed(ask, scope);
        }
        let names = Search::files(scope, &[]).pages(PAGES).ask(ask);
        let counts = Search::counts(scope, "lines", "^", &[]).pages(PAGES).ask(ask);
        let lines: BTreeMap<&str, u64> = counts.counts().collect();
        let mut files: Vec<File> = names
            .sizes()
            .map(|(path, bytes)| {
                let lines = lines.get(path).copied();
                File { path: path.to_owned(), bytes, lines }
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
        Self { files, gaps }
    }

    /// Lists the paths of the files below a directory.
    pub(super) fn paths(ask: &mut Ask<'_, '_>, scope: &Scope) -> Self {
        if ask.turn().tool("search_files").is_none() {
            return Self::listed(ask, scope);
        }
        let names = Search::files(scope, &[]).pages(PAGES).ask(ask);
        let file = |(path, bytes): (&str, u64)| File { path: path.to_owned(), bytes, lines: None };
        let mut files: Vec<File> = names.sizes().map(file).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self { files, gaps: Vec::new() }
    }

    /// Lists what a listing of some levels shows, where no search can.
    fn listed(ask: &mut Ask<'_, '_>, scope: &Scope) -> Self {
        let root = scope.top().to_owned();
        let listing = ask.call("list_dir", json!({"path": root, "depth": DEPTH}));
        let mut files = Vec::new();
        let mut gaps = vec![format!(
            "files below {DEPTH} levels, and lines of files: `search_files` is not among the tools"
        )];
        match listing.map(|done| (done.ok(), done)) {
            Some((Some(text), _)) => {
                for line in text.lines() {
                    let Some((path, bytes)) = line.rsplit_once('\t') else { continue };
                    let path = path.strip_prefix("./").unwrap_or(path);
                    let path = if path.starts_with(&under(&root, "")) || root == "." {
                        path.to_owned()
                    } else {
                        under(&root, path)
                    };
                    let Ok(bytes) = bytes.trim().parse() else { continue };
                    files.push(File { path, bytes, lines: None });
                }
            }
            Some((None, done)) => {
                gaps.extend(done.problem().map(|problem| format!("the files: listing {problem}")));
            }
            None => {}
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self { files, gaps }
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
fn next_page(done: &Done) -> Option<u64> {
    let mark = "to go on: offset ";
    let next = done.notes.iter().find_map(|note| Some(note.split_once(mark)?.1))?;
    next.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
