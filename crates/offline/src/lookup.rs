//! Finds lines, and tells which are code, tests, comments or strings.

use std::collections::{BTreeMap, BTreeSet};

use regex::{Regex, RegexBuilder};

use super::Next;
use super::conversation::{Ask, Turn};
use super::figures::module_folder;
use super::imports::{join, parent};
use super::inventory::nearest;
use super::inventory::{Inventory, whole};
use super::part::{Part, part_of};
use super::query::Query;
use super::scope::Scope;
use super::search::{Found, Hit, Search};
use super::single::{fence, help};
use super::syntax::{Grammar, Source, SyntaxContext, context_at, is_in_tests, outline};
use super::task::{Refusal, Term};
use super::wording::{bullets, count, number};

/// Lines that are listed.
const LISTED: usize = 300;
/// Pages of matches that are read.
const PAGES: usize = 3;
/// Files that are parsed to tell code from other text.
const PARSED: usize = 200;
/// Characters of a line that are shown.
const WIDTH: usize = 200;

/// What a line with a match is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Definition,
    Code,
    Test,
    Comment,
    Other,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Definition, Self::Code, Self::Test, Self::Comment, Self::Other];

    const fn title(self) -> &'static str {
        match self {
            Self::Definition => "Defined",
            Self::Code => "In code",
            Self::Test => "In tests",
            Self::Comment => "In comments and strings",
            Self::Other => "In other files",
        }
    }
}

/// Returns the next step of a search for lines.
#[expect(clippy::fn_params_excessive_bools, reason = "one of the task, one of the turn")]
pub(super) fn step(
    turn: &Turn<'_>,
    term: &Term,
    path: &str,
    without_tests: bool,
    closing: bool,
) -> Next {
    if turn.tool("search_files").is_none() {
        let why = "`search_files`, which this task needs, is not among my tools here.";
        return Next::Refuse(help(&Refusal(why.to_owned())));
    }
    let mut ask = Ask::new(turn);
    let query = Query::of(term);
    let (mut query, mut found) = (query.clone(), search(&mut ask, &query, path));
    if ask.waits() && !closing {
        return Next::Calls(ask.into_missing());
    }
    let searched = found.searched;
    if found.problem.is_none()
        && found.len() == 0
        && let Some(wider) = query.wider()
    {
        found = search(&mut ask, &wider, path);
        if ask.waits() && !closing {
            return Next::Calls(ask.into_missing());
        }
        query = wider;
    }
    if found.problem.is_some() {
        let text = failure(&mut ask, &query, path, &found);
        if ask.waits() && !closing {
            return Next::Calls(ask.into_missing());
        }
        return Next::Refuse(text);
    }
    if !found.read {
        return Next::Say("The search was not done: no tool can be called any more.\n".to_owned());
    }
    let unsearched = unsearched(&mut ask, path, &found);
    let lines = judge(&mut ask, &query, &found);
    if ask.waits() && !closing {
        return Next::Calls(ask.into_missing());
    }
    let mut text = if found.len() == 0 {
        nothing(&query, path, searched)
    } else {
        render(&query, path, lines, &found, without_tests)
    };
    if let Some(unsearched) = bullets(unsearched.into_iter()) {
        text.push_str(&format!("\nNot looked at:\n\n{unsearched}\n"));
    }
    Next::Say(text)
}

/// Says why a search found nothing, with all that the tool said of it.
fn failure(ask: &mut Ask<'_, '_>, query: &Query, path: &str, found: &Found<'_>) -> String {
    let problem = found.problem.as_deref().unwrap_or_default();
    let what = format!("Searching `{path}` for `{}`", fit(&query.name));
    if found.message.lines().count() < 2 {
        let near = nearest(ask, path, problem);
        return format!("{what} {problem}{near}\n");
    }
    let fence = fence(found.message);
    format!("{what} failed:\n\n{fence}\n{}\n{fence}\n", found.message)
}

/// Lists what a search passed over, if it says that there is something.
fn unsearched(ask: &mut Ask<'_, '_>, path: &str, found: &Found<'_>) -> Vec<String> {
    if found.binary + found.unreadable + found.directories == 0 {
        return Vec::new();
    }
    Inventory::with_lines(ask, &Scope::whole(path)).unsearched()
}

fn search<'t>(ask: &mut Ask<'t, '_>, query: &Query, path: &str) -> Found<'t> {
    Search::plain(&Scope::whole(path), &query.pattern, query.any_case).pages(PAGES).ask(ask)
}

/// Says that nothing was found, what was looked for, and where.
fn nothing(query: &Query, path: &str, searched: u64) -> String {
    let files = format!("{} searched", was(searched));
    let other = if query.name == query.words {
        String::new()
    } else {
        format!(" (from \"{}\")", query.words)
    };
    let case = if query.any_case { ", in any case" } else { "" };
    format!(
        "No line in `{path}` has `{}`{other}{case}. {files}; ignored and hidden files were left \
         out.\n",
        fit(&query.name)
    )
}

fn was(files: u64) -> String {
    format!("{} {}", count(files, "file"), if files == 1 { "was" } else { "were" })
}

/// A line with a match.
struct Line<'t> {
    hit: Hit<'t>,
    kind: Kind,
    /// Whether the name stands there as a whole, not as part of a longer one.
    whole: bool,
    /// The longer names that it is part of.
    longer: Vec<String>,
    /// Whether it belongs to tests, also as a comment.
    in_tests: bool,
}

fn judge<'t>(ask: &mut Ask<'t, '_>, query: &Query, found: &Found<'t>) -> Vec<Line<'t>> {
    let rule = RegexBuilder::new(&query.pattern).case_insensitive(query.any_case).build().ok();
    let hits: Vec<Hit<'t>> = found.hits().collect();
    let files: BTreeSet<&str> = hits.iter().map(|hit| hit.path).collect();
    let parsed: Vec<&str> =
        files.iter().copied().filter(|path| Grammar::of(path).is_some()).take(PARSED).collect();
    let hidden = test_modules(ask, &parsed);
    let mut texts = BTreeMap::new();
    if ask.turn().tool("read_file").is_some() {
        for path in parsed {
            if let Some(text) = whole(ask, path) {
                texts.insert(path, text);
            }
        }
    }
    if ask.waits() {
        return Vec::new();
    }
    let mut by_file: BTreeMap<&str, Vec<Hit<'t>>> = BTreeMap::new();
    for hit in hits {
        by_file.entry(hit.path).or_default().push(hit);
    }
    let mut out = Vec::new();
    for (path, hits) in by_file {
        let test = part_of(path) == Part::Test || hidden.contains(path);
        let grammar = Grammar::of(path);
        let tree = grammar.and_then(|grammar| {
            let text = texts.get(path)?;
            Some((grammar, text, grammar.parse(text)?))
        });
        for hit in hits {
            let source = tree
                .as_ref()
                .map(|(grammar, text, tree)| (*grammar, Source { text, root: tree.root_node() }));
            out.push(line(hit, source, query, rule.as_ref(), test));
        }
    }
    out
}

fn line<'t>(
    hit: Hit<'t>,
    source: Option<(Grammar, Source<'_>)>,
    query: &Query,
    rule: Option<&Regex>,
    test: bool,
) -> Line<'t> {
    let other = if test { Kind::Test } else { Kind::Other };
    let mut out = Line { hit, kind: other, whole: true, longer: Vec::new(), in_tests: test };
    let Some(rule) = rule else { return out };
    // Where the file was parsed, its own line counts: a result may be shortened.
    let row = usize::try_from(hit.line.saturating_sub(1)).unwrap_or(usize::MAX);
    let own = source.and_then(|(_, source)| source.text.lines().nth(row));
    let text = own.unwrap_or(hit.text);
    let (mut kinds, mut whole) = (Vec::new(), false);
    for found in rule.find_iter(text) {
        let longer = longer(text, found.start(), found.end()).filter(|_| query.is_name);
        whole |= longer.is_none();
        out.longer.extend(longer);
        if let Some((grammar, source)) = source {
            kinds.push(kind(grammar, source, row, found.start(), found.end(), test));
            out.in_tests |= is_in_tests(grammar, source, row, found.start());
        }
    }
    // What stands beyond the part of a line that is shown was found all the same.
    out.whole = whole || out.longer.is_empty();
    out.kind = kinds.into_iter().min().unwrap_or(other);
    out
}

#[expect(clippy::too_many_arguments, reason = "a place is a row and two columns")]
fn kind(
    grammar: Grammar,
    source: Source<'_>,
    row: usize,
    start: usize,
    end: usize,
    test: bool,
) -> Kind {
    match context_at(grammar, source, row, start) {
        SyntaxContext::Comment | SyntaxContext::Text => Kind::Comment,
        SyntaxContext::Test => Kind::Test,
        SyntaxContext::Code if test => Kind::Test,
        SyntaxContext::Code if source.defines(row, start, end) => Kind::Definition,
        SyntaxContext::Code => Kind::Code,
    }
}

/// Returns the name that a match is only part of.
fn longer(text: &str, start: usize, end: usize) -> Option<String> {
    let name = |c: char| c.is_alphanumeric() || c == '_';
    let inner = text.get(start..end)?;
    let (first, last) = (inner.chars().next()?, inner.chars().next_back()?);
    let before = text.get(..start)?;
    let after = text.get(end..)?;
    let head: String = if name(first) {
        before
            .chars()
            .rev()
            .take_while(|c| name(*c))
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect()
    } else {
        String::new()
    };
    let tail: String =
        if name(last) { after.chars().take_while(|c| name(*c)).collect() } else { String::new() };
    (!head.is_empty() || !tail.is_empty()).then(|| format!("{head}{inner}{tail}"))
}

/// Returns the Rust files among these that are only compiled for tests, by the modules that
/// declare them.
fn test_modules(ask: &mut Ask<'_, '_>, paths: &[&str]) -> BTreeSet<String> {
    let rust: Vec<&str> = paths.iter().copied().filter(|path| path.ends_with(".rs")).collect();
    let mut out = BTreeSet::new();
    if rust.is_empty() || ask.turn().tool("read_file").is_none() {
        return out;
    }
    let inventory = Inventory::paths(ask, &Scope::whole("."));
    for path in rust {
        let mut at = path.to_owned();
        // Each module is declared in the one above it.
        while let Some((declaring, name)) = declared_in(&inventory, &at) {
            let Some(text) = whole(ask, &declaring) else { break };
            if outline(Grammar::Rust, &text, false).test_modules.contains(&name) {
                out.insert(path.to_owned());
                break;
            }
            at = declaring;
        }
    }
    out
}

/// Returns the file that declares the module that a Rust file is, and the name of the module.
fn declared_in(inventory: &Inventory, path: &str) -> Option<(String, String)> {
    let stem = path.strip_suffix(".rs")?;
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    let name = stem.rsplit('/').next()?.to_owned();
    if matches!(name.as_str(), "lib" | "main") {
        return None;
    }
    let folder = parent(stem);
    let above = [
        join(folder, "mod.rs"),
        format!("{folder}.rs"),
        join(folder, "lib.rs"),
        join(folder, "main.rs"),
    ];
    let declaring = above.into_iter().find(|file| inventory.has(file) && file != path)?;
    (module_folder(&declaring) == folder).then_some((declaring, name))
}

/// Says how many lines have what is looked for, and what they are.
fn heading(query: &Query, path: &str, shown: &[&Line<'_>], without_tests: bool) -> String {
    let files: BTreeSet<&str> = shown.iter().map(|line| line.hit.path).collect();
    let kinds: Vec<String> = Kind::ALL
        .iter()
        .filter_map(|kind| {
            let many = shown.iter().filter(|line| line.kind == *kind).count();
            (many > 0).then(|| format!("{} {}", number(many as u64), words(*kind)))
        })
        .collect();
    let name = fit(&query.name);
    let case = if query.any_case { ", in any case" } else { "" };
    let outside = if without_tests { " outside of tests" } else { "" };
    if shown.is_empty() {
        return format!("No line in `{path}`{outside} has `{name}`{case}.\n");
    }
    format!(
        "{} in {} of `{path}`{outside} {} `{name}`{case}: {}.\n",
        count(shown.len() as u64, "line"),
        count(files.len() as u64, "file"),
        if shown.len() == 1 { "has" } else { "have" },
        kinds.join(", ")
    )
}

fn render(
    query: &Query,
    path: &str,
    lines: Vec<Line<'_>>,
    found: &Found<'_>,
    without_tests: bool,
) -> String {
    let read = lines.len() as u64;
    let (tests, lines): (Vec<_>, Vec<_>) =
        lines.into_iter().partition(|line| without_tests && line.in_tests);
    let (whole, part): (Vec<&Line<'_>>, Vec<&Line<'_>>) = lines.iter().partition(|line| line.whole);
    let shown = if whole.is_empty() { &part } else { &whole };
    let mut out = heading(query, path, shown, without_tests);
    if !tests.is_empty() {
        let tests = count(tests.len() as u64, "line");
        out.push_str(&format!("{tests} of tests left out.\n"));
    }
    if !whole.is_empty() && !part.is_empty() {
        let more = count(part.len() as u64, "more line");
        let has = if part.len() == 1 { "has" } else { "have" };
        out.push_str(&format!("{more} {has} it only in longer names: {}.\n", longest(&part)));
    }
    if found.more {
        let (seen, all) = (number(read), number(found.total));
        out.push_str(&format!("Only the first {seen} of {all} matching lines were read.\n"));
    }
    let unparsed = shown.iter().filter(|line| is_unparsed(line)).count() as u64;
    if without_tests && unparsed > 0 {
        let unparsed = count(unparsed, "line");
        out.push_str(&format!("{unparsed} in sources that were not parsed may be of tests.\n"));
    }
    out.push_str(&listing(shown));
    out
}

/// Whether a line stands in a source that was not parsed.
fn is_unparsed(line: &Line<'_>) -> bool {
    line.kind == Kind::Other && Grammar::of(line.hit.path).is_some()
}

/// Lists lines by what they are.
fn listing(shown: &[&Line<'_>]) -> String {
    let mut out = String::new();
    let mut room = LISTED;
    for kind in Kind::ALL {
        let mut of_kind = shown.iter().filter(|line| line.kind == kind).peekable();
        if of_kind.peek().is_none() || room == 0 {
            continue;
        }
        let text: Vec<String> = of_kind
            .take(room)
            .map(|line| {
                let text: String = line.hit.text.chars().take(WIDTH).collect();
                format!("{}:{}:{text}", line.hit.path, line.hit.line)
            })
            .collect();
        room = room.saturating_sub(text.len());
        let text = text.join("\n");
        let fence = fence(&text);
        out.push_str(&format!("\n{}:\n\n{fence}\n{text}\n{fence}\n", kind.title()));
    }
    let left = shown.len().saturating_sub(LISTED);
    if left > 0 {
        out.push_str(&format!("\n{} not listed.\n", count(left as u64, "more line")));
    }
    out
}

fn fit(name: &str) -> String {
    name.replace('`', "'")
}

const fn words(kind: Kind) -> &'static str {
    match kind {
        Kind::Definition => "where it is defined",
        Kind::Code => "in code",
        Kind::Test => "in tests",
        Kind::Comment => "in comments or strings",
        Kind::Other => "in files that are not parsed",
    }
}

/// Names the longer names, the most frequent first.
fn longest(lines: &[&Line<'_>]) -> String {
    let mut names: BTreeMap<&str, u64> = BTreeMap::new();
    for name in lines.iter().flat_map(|line| line.longer.first()) {
        *names.entry(name).or_default() += 1;
    }
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    let left = names.len().saturating_sub(5);
    let mut out: Vec<String> =
        names.iter().take(5).map(|(name, count)| format!("`{}` {count}", fit(name))).collect();
    if left > 0 {
        out.push(count(left as u64, "other name"));
    }
    out.join(", ")
}

#[cfg(test)]
mod tests;
