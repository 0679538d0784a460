//! Finds lines, and classifies them as code, tests, comments or strings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

use super::Next;
use super::conversation::{Ask, Turn};
use super::figures::module_folder;
use super::inventory::nearest;
use super::inventory::{Inventory, unfollowed, whole};
use super::part::{Part, may_be_test_script, part_of};
use super::paths::{join, parent};
use super::pattern::fixed;
use super::query::Query;
use super::scope::Scope;
use super::search::{Hit, Search, SearchResult};
use super::single::{fence, missing_tool};
use super::syntax::{Grammar, NameRole, Source, SyntaxContext, context_at, is_in_tests, outline};
use super::task::{LineFilter, LineSearch};
use super::wording::{bullets, count};

mod render;

use render::{fit, render};

/// Pages of matches that are read.
const PAGES: usize = 3;
/// Files that are parsed to tell code from other text.
const PARSED: usize = 200;

/// Kind of a line with a match.
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
pub(super) fn step(turn: &Turn<'_>, search: &LineSearch, closing: bool) -> Next {
    if turn.tool("search_files").is_none() {
        return missing_tool(turn, "search_files");
    }
    let path = search.path.as_str();
    let mut ask = Ask::new(turn);
    let mut query = Query::of(&search.term, search.filter);
    let mut found = ask_for(&mut ask, &query, path);
    if ask.waits() && !closing {
        return Next::Calls(ask.into_missing());
    }
    let searched = found.totals.searched;
    if found.problem.is_none()
        && found.len() == 0
        && let Some(wider) = query.wider()
    {
        found = ask_for(&mut ask, &wider, path);
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
        return Next::Say("The search was not done: no more tool calls were allowed.\n".to_owned());
    }
    let unsearched = unsearched_notes(&mut ask, path, &found);
    let lines = judge(&mut ask, &query, search.filter, &found);
    if ask.waits() && !closing {
        return Next::Calls(ask.into_missing());
    }
    let mut text = if found.len() == 0 {
        nothing(&query, path, searched)
    } else {
        render(search, &query, lines, &found)
    };
    if let Some(unsearched) = bullets(unsearched.into_iter()) {
        text.push_str(&format!("\nNot looked at:\n\n{unsearched}\n"));
    }
    Next::Say(text)
}

/// Says why a search found nothing, with all that the tool said of it.
fn failure(ask: &mut Ask<'_, '_>, query: &Query, path: &str, found: &SearchResult<'_>) -> String {
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
fn unsearched_notes(ask: &mut Ask<'_, '_>, path: &str, found: &SearchResult<'_>) -> Vec<String> {
    let totals = found.totals;
    if totals.binary + totals.unreadable + totals.directories == 0 {
        return unfollowed(totals.links).into_iter().collect();
    }
    Inventory::with_lines(ask, &Scope::whole(path)).unsearched()
}

fn ask_for<'t>(ask: &mut Ask<'t, '_>, query: &Query, path: &str) -> SearchResult<'t> {
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
#[expect(clippy::struct_excessive_bools, reason = "each is a fact about the line")]
struct Line<'t> {
    hit: Hit<'t>,
    kind: Kind,
    /// Whether the name stands there as a whole, not as part of a longer one.
    whole: bool,
    /// Whether it stands there with the ending of a plural, as in the task.
    as_written: bool,
    /// The longer names that it is part of.
    longer: Vec<String>,
    /// Whether it belongs to tests, also as a comment.
    in_tests: bool,
    /// Whether its file was parsed.
    parsed: bool,
    /// Whether the filter of the search takes it.
    wanted: bool,
}

fn judge<'t>(
    ask: &mut Ask<'t, '_>,
    query: &Query,
    filter: LineFilter,
    found: &SearchResult<'t>,
) -> Vec<Line<'t>> {
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
        let grammar = Grammar::of(path);
        let script = grammar.zip(texts.get(path)).filter(|_| may_be_test_script(path));
        let calls_tests =
            script.is_some_and(|(grammar, text)| outline(grammar, text, true).tests > 0);
        let test = part_of(path) == Part::Test || hidden.contains(path) || calls_tests;
        let tree = grammar.and_then(|grammar| {
            let text = texts.get(path)?;
            Some((grammar, text, grammar.parse(text)?))
        });
        for hit in hits {
            let source = tree
                .as_ref()
                .map(|(grammar, text, tree)| (*grammar, Source { text, root: tree.root_node() }));
            let mut line = line(hit, source, query, filter, rule.as_ref());
            line.in_tests |= test;
            if test && matches!(line.kind, Kind::Code | Kind::Definition | Kind::Other) {
                line.kind = Kind::Test;
            }
            out.push(line);
        }
    }
    out
}

fn line<'t>(
    hit: Hit<'t>,
    source: Option<(Grammar, Source<'_>)>,
    query: &Query,
    filter: LineFilter,
    rule: Option<&Regex>,
) -> Line<'t> {
    let mut out = Line {
        hit,
        kind: Kind::Other,
        whole: true,
        as_written: false,
        longer: Vec::new(),
        in_tests: false,
        parsed: source.is_some(),
        wanted: filter == LineFilter::Any,
    };
    let Some(rule) = rule else { return out };
    // Where the file was parsed, its own line counts: a result may be shortened.
    let row = usize::try_from(hit.line.saturating_sub(1)).unwrap_or(usize::MAX);
    let own = source.and_then(|(_, source)| source.text.lines().nth(row));
    let text = own.unwrap_or(hit.text);
    let mut kinds = Vec::new();
    let mut whole = false;
    for found in rule.find_iter(text) {
        let longer = longer(text, found.start(), found.end()).filter(|_| query.is_name);
        let as_written = longer.as_ref().is_some_and(|name| query.is_as_written(name));
        let longer = longer.filter(|_| !as_written);
        let is_whole = longer.is_none();
        whole |= is_whole;
        out.as_written |= as_written;
        out.longer.extend(longer);
        if let Some((grammar, source)) = source {
            let occurrence = Occurrence {
                context: context_at(grammar, source, row, found.start()),
                role: source.role_at(row, found.start(), found.end()),
                called: is_called(text, found.start(), found.end()),
            };
            kinds.push(occurrence.kind());
            out.in_tests |= is_in_tests(grammar, source, row, found.start());
            out.wanted |= is_whole && occurrence.fits(filter);
        }
    }
    // What stands beyond the part of a line that is shown was found all the same.
    out.whole = whole || out.longer.is_empty();
    out.kind = kinds.into_iter().min().unwrap_or(Kind::Other);
    out
}

/// A match in a file that was parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Occurrence {
    context: SyntaxContext,
    role: NameRole,
    /// Whether arguments follow.
    called: bool,
}

impl Occurrence {
    fn kind(self) -> Kind {
        match (self.context, self.role) {
            (SyntaxContext::Comment | SyntaxContext::Text, _) => Kind::Comment,
            (SyntaxContext::Test, _) => Kind::Test,
            (SyntaxContext::Code, NameRole::Definition) => Kind::Definition,
            (SyntaxContext::Code, _) => Kind::Code,
        }
    }

    /// Returns whether the line of the match is one that a filter takes.
    fn fits(self, filter: LineFilter) -> bool {
        let code = matches!(self.context, SyntaxContext::Code | SyntaxContext::Test);
        match filter {
            LineFilter::Any => true,
            LineFilter::Definitions => code && self.role == NameRole::Definition,
            LineFilter::Uses => code && self.role == NameRole::Use,
            LineFilter::Calls => code && self.role == NameRole::Use && self.called,
            LineFilter::Comments => self.context == SyntaxContext::Comment,
        }
    }
}

/// Arguments behind a name, perhaps with types or the mark of a macro before them.
static ARGUMENTS: LazyLock<Regex> =
    LazyLock::new(|| fixed(r"^\s*(?:(?:::)?<[^()]*>)?\s*(?:\(|!\s*[(\[{])"));

/// Returns whether arguments follow a match, or belong to it.
fn is_called(text: &str, start: usize, end: usize) -> bool {
    let inner = text.get(start..end).unwrap_or_default();
    inner.contains('(') || ARGUMENTS.is_match(text.get(end..).unwrap_or_default())
}

/// Returns the name that a match is only part of.
fn longer(text: &str, start: usize, end: usize) -> Option<String> {
    let name = |c: char| c.is_alphanumeric() || c == '_';
    let inner = text.get(start..end)?;
    let first = inner.chars().next()?;
    let last = inner.chars().next_back()?;
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

#[cfg(test)]
mod tests;
