//! Searches as values, and their results as lines.

use std::ops::AddAssign;
use std::sync::LazyLock;

use deputize_core::message::CallStatus;
use regex::Regex;
use serde_json::{Map, Value};

use super::conversation::Ask;
use super::pattern::fixed;
use super::scope::Scope;

/// Limit on the lines of one page of a search.
pub(super) const PAGE: u64 = 2_000;

/// A search, page by page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Search {
    /// Nothing: files by name. Otherwise what is looked for, as a group around its pattern, so
    /// that who watches the calls can tell them apart.
    pattern: Option<String>,
    places: Vec<(String, Option<String>)>,
    counts: bool,
    any_case: bool,
    limit: u64,
    pages: usize,
}

impl Search {
    /// For the lines of a scope that match, in files with these name patterns (none: all).
    pub(super) fn lines(scope: &Scope, what: &str, pattern: &str, names: &[&str]) -> Self {
        // Names and keywords are ASCII; so said, the search is many times as fast.
        let pattern = format!("(?<{what}>(?-u){pattern})");
        Self { pattern: Some(pattern), ..Self::files(scope, names) }
    }

    /// For the lines of a scope that match a pattern as it stands.
    pub(super) fn plain(scope: &Scope, pattern: &str, any_case: bool) -> Self {
        Self { pattern: Some(pattern.to_owned()), any_case, ..Self::files(scope, &[]) }
    }

    /// For the files of a scope, by name, with their bytes.
    pub(super) fn files(scope: &Scope, names: &[&str]) -> Self {
        let places = scope.places(names);
        Self { pattern: None, places, counts: false, any_case: false, limit: PAGE, pages: 2 }
    }

    /// For how many lines match, file by file.
    pub(super) fn counts(scope: &Scope, what: &str, pattern: &str, names: &[&str]) -> Self {
        Self { counts: true, ..Self::lines(scope, what, pattern, names) }
    }

    /// Reads at most so many pages.
    pub(super) fn pages(self, pages: usize) -> Self {
        Self { pages, ..self }
    }

    /// Reads at most one page of so many lines.
    pub(super) fn first(self, limit: u64) -> Self {
        Self { limit, pages: 1, ..self }
    }

    fn arguments(&self, path: &str, glob: Option<&str>, offset: u64) -> Value {
        let mut map = Map::new();
        map.insert("path".into(), path.into());
        if let Some(pattern) = &self.pattern {
            map.insert("pattern".into(), pattern.as_str().into());
            map.insert("mode".into(), if self.counts { "count" } else { "content" }.into());
        }
        if self.any_case {
            map.insert("ignore_case".into(), true.into());
        }
        if let Some(glob) = glob {
            map.insert("glob".into(), glob.into());
        }
        map.insert("limit".into(), self.limit.into());
        if offset > 0 {
            map.insert("offset".into(), offset.into());
        }
        Value::Object(map)
    }

    /// Returns the results so far, and asks for those that are missing.
    pub(super) fn ask<'t>(&self, ask: &mut Ask<'t, '_>) -> SearchResult<'t> {
        let mut found = SearchResult::nothing();
        for (path, glob) in &self.places {
            self.ask_place(ask, &mut found, path, glob.as_deref());
        }
        found
    }

    /// The pages of one place, one after the other.
    fn ask_place<'t>(
        &self,
        ask: &mut Ask<'t, '_>,
        found: &mut SearchResult<'t>,
        path: &str,
        glob: Option<&str>,
    ) {
        let mut offset = 0;
        for page in 0..self.pages {
            let Some(done) = ask.call("search_files", self.arguments(path, glob, offset)) else {
                found.read = false;
                return;
            };
            if done.status != CallStatus::Ok {
                found.problem = done.problem();
                found.message = done.content.trim();
                return;
            }
            if !done.content.trim().is_empty() {
                found.lines.extend(done.content.lines());
            }
            let note = Note::of(&done.notes);
            if page == 0 {
                found.totals += note.totals;
            }
            match note.next {
                Some(next) if next > offset => offset = next,
                Some(_) | None => return,
            }
        }
        found.more = true;
    }
}

/// Results of a search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SearchResult<'t> {
    /// Whether all that was to be read is there.
    pub(super) read: bool,
    lines: Vec<&'t str>,
    pub(super) totals: SearchTotals,
    /// Whether there is more that was not read.
    pub(super) more: bool,
    /// Why it found nothing more.
    pub(super) problem: Option<String>,
    /// All that the tool said of that.
    pub(super) message: &'t str,
}

/// The tool's counts of what it searched and passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SearchTotals {
    pub(super) matches: u64,
    /// Files with matches.
    pub(super) matching: u64,
    /// Files that were searched, where none had a match.
    pub(super) searched: u64,
    /// Binary files, which were not searched.
    pub(super) binary: u64,
    /// Files that could not be read.
    pub(super) unreadable: u64,
    /// Directories that could not be read.
    pub(super) directories: u64,
    /// Symbolic links, which were not followed.
    pub(super) links: u64,
}

impl AddAssign for SearchTotals {
    fn add_assign(&mut self, other: Self) {
        self.matches += other.matches;
        self.matching += other.matching;
        self.searched += other.searched;
        self.binary += other.binary;
        self.unreadable += other.unreadable;
        self.directories += other.directories;
        self.links += other.links;
    }
}

/// A line that a search found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit<'t> {
    pub(super) path: &'t str,
    pub(super) line: u64,
    pub(super) text: &'t str,
}

impl<'t> SearchResult<'t> {
    /// Returns the results of a search without files.
    pub(super) fn nothing() -> Self {
        Self { read: true, ..Self::default() }
    }

    /// Returns the number of lines read.
    pub(super) const fn len(&self) -> usize {
        self.lines.len()
    }

    /// The lines, of a search for lines.
    pub(super) fn hits(&self) -> impl Iterator<Item = Hit<'t>> + use<'t, '_> {
        self.lines.iter().filter_map(|line| parse_hit(line))
    }

    /// Files with their numbers of lines, of a search for counts.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&'t str, u64)> + use<'t, '_> {
        self.lines.iter().filter_map(|line| {
            let (path, count) = line.rsplit_once(':')?;
            Some((tidy(path), count.trim().parse().ok()?))
        })
    }
}

impl<'t> SearchResult<'t> {
    /// Files with their bytes, of a search for files.
    pub(super) fn sizes(&self) -> impl Iterator<Item = (&'t str, u64)> + use<'t, '_> {
        self.lines.iter().filter_map(|line| {
            let (path, bytes) = line.rsplit_once('\t')?;
            Some((tidy(path), bytes.trim().parse().ok()?))
        })
    }
}

fn parse_hit(line: &str) -> Option<Hit<'_>> {
    // The first number between colons ends the path.
    let mut from = 0;
    loop {
        let at = from + line.get(from..)?.find(':')?;
        let rest = line.get(at + 1..)?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 && rest.get(digits..)?.starts_with(':') {
            let number = rest.get(..digits)?.parse().ok()?;
            let text = rest.get(digits + 1..)?;
            return Some(Hit { path: tidy(line.get(..at)?), line: number, text });
        }
        from = at + 1;
    }
}

/// A path as reports show it.
fn tidy(path: &str) -> &str {
    path.strip_prefix("./").unwrap_or(path)
}

/// The tool's remark on its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Note {
    totals: SearchTotals,
    /// The offset of the next page.
    next: Option<u64>,
}

static BINARY: LazyLock<Regex> =
    LazyLock::new(|| fixed(r"^skipped: (?:.*, )?([\d,]+) binary files?"));
static UNREADABLE: LazyLock<Regex> =
    LazyLock::new(|| fixed(r"^skipped: (?:.*, )?([\d,]+) unreadable"));
static DIRECTORIES: LazyLock<Regex> =
    LazyLock::new(|| fixed(r"^skipped: (?:.*, )?([\d,]+) director(?:y|ies) that cannot"));
static LINKS: LazyLock<Regex> =
    LazyLock::new(|| fixed(r"^skipped: (?:.*, )?([\d,]+) symlinks?(?:,|$)"));
static TOTALS: LazyLock<Regex> =
    LazyLock::new(|| fixed(r"([\d,]+) (?:match(?:es)?|(?:matching )?lines?) in ([\d,]+) files?"));
static NONE: LazyLock<Regex> = LazyLock::new(|| fixed(r"no match in ([\d,]+) files?"));
static NEXT: LazyLock<Regex> = LazyLock::new(|| fixed(r"offset[ =:]+([\d,]+)"));

impl Note {
    fn of(notes: &[String]) -> Self {
        let number = |text: regex::Match<'_>| text.as_str().replace(',', "").parse::<u64>().ok();
        let mut out = Self::default();
        for note in notes {
            if let Some(found) = TOTALS.captures(note) {
                out.totals.matches = found.get(1).and_then(number).unwrap_or(0);
                out.totals.matching = found.get(2).and_then(number).unwrap_or(0);
            }
            if let Some(found) = NONE.captures(note) {
                out.totals.searched = found.get(1).and_then(number).unwrap_or(0);
            }
            for (rule, many) in [
                (&BINARY, &mut out.totals.binary),
                (&UNREADABLE, &mut out.totals.unreadable),
                (&DIRECTORIES, &mut out.totals.directories),
                (&LINKS, &mut out.totals.links),
            ] {
                if let Some(found) = rule.captures(note) {
                    *many = found.get(1).and_then(number).unwrap_or(0);
                }
            }
            if let Some(found) = NEXT.captures(note) {
                out.next = found.get(1).and_then(number);
            }
        }
        let passed_over = out.totals.binary + out.totals.unreadable;
        out.totals.searched = out.totals.searched.saturating_sub(passed_over);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_apart_at_its_number() {
        for (line, path, number, text) in [
            ("src/a.rs:12:fn main() {", "src/a.rs", 12, "fn main() {"),
            ("./a.rs:1:", "a.rs", 1, ""),
            ("odd:name.rs:3:a:4:b", "odd:name.rs", 3, "a:4:b"),
        ] {
            assert_eq!(parse_hit(line), Some(Hit { path, line: number, text }));
        }
        assert_eq!(parse_hit("no hit"), None);
        assert_eq!(parse_hit(""), None);
    }

    #[test]
    fn a_note_tells_the_totals_and_the_next_page() {
        let note = |text: &str| Note::of(&[text.to_owned()]);
        let totals = |matches, matching| {
            let totals = SearchTotals { matches, matching, ..SearchTotals::default() };
            Note { totals, next: None }
        };
        let all = totals(3, 2);
        assert_eq!(note("3 matches in 2 files"), all);
        let some = Note { next: Some(2000), ..totals(1, 1) };
        assert_eq!(note("1 match in 1 file; shown 2000; offset 2000 for more"), some);
        assert_eq!(note("something else"), Note::default());
        let skipped = "skipped: 2 binary files, 1 unreadable or with a line above 64 MiB, \
                       1 directory that cannot be read, 4 symlinks, 3 hidden or ignored entries";
        let totals = SearchTotals {
            binary: 2,
            unreadable: 1,
            directories: 1,
            links: 4,
            ..SearchTotals::default()
        };
        let skipped_files = Note { totals, next: None };
        assert_eq!(note(skipped), skipped_files);
    }
}
