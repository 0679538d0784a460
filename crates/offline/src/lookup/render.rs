//! The lines that a search found, as text.

use std::collections::{BTreeMap, BTreeSet};

use deputize_core::truncate::truncate_chars;

use super::{Kind, Line};
use crate::query::Query;
use crate::search::SearchResult;
use crate::single::fence;
use crate::syntax::Grammar;
use crate::task::{LineFilter, LineSearch};
use crate::wording::{count, number};

/// Lines that are listed.
const LISTED: usize = 300;
/// Characters of a line that are shown.
const WIDTH: usize = 200;

/// Renders the lines of a search, with the numbers of those that it leaves out.
pub(super) fn render(
    search: &LineSearch,
    query: &Query,
    lines: Vec<Line<'_>>,
    found: &SearchResult<'_>,
) -> String {
    let read = lines.len() as u64;
    let (tests, lines): (Vec<_>, Vec<_>) =
        lines.into_iter().partition(|line| search.without_tests && line.in_tests);
    let (whole, part): (Vec<&Line<'_>>, Vec<&Line<'_>>) = lines.iter().partition(|line| line.whole);
    let all = search.filter == LineFilter::Any;
    let (named, part) = if whole.is_empty() && all { (part, whole) } else { (whole, part) };
    let (shown, others): (Vec<&Line<'_>>, Vec<&Line<'_>>) =
        named.into_iter().partition(|line| line.wanted);
    let mut out = heading(search, query, &shown);
    if !others.is_empty() {
        out.push_str(&other_lines(search, &others));
    }
    if !tests.is_empty() {
        let tests = count(tests.len() as u64, "line");
        out.push_str(&format!("{tests} of tests left out.\n"));
    }
    if !part.is_empty() {
        let more = count(part.len() as u64, "more line");
        let has = if part.len() == 1 { "has" } else { "have" };
        out.push_str(&format!("{more} {has} it only in longer names: {}.\n", longest(&part)));
    }
    if found.more {
        let seen = number(read);
        let all = number(found.totals.matches);
        out.push_str(&format!("Only the first {seen} of {all} matching lines were read.\n"));
    }
    let unparsed = shown.iter().filter(|line| is_unparsed(line)).count() as u64;
    if search.without_tests && unparsed > 0 {
        let unparsed = count(unparsed, "line");
        out.push_str(&format!("{unparsed} in sources that were not parsed may be of tests.\n"));
    }
    out.push_str(&listing(&shown));
    out
}

/// Says how many lines have what is looked for, and what they are.
fn heading(search: &LineSearch, query: &Query, shown: &[&Line<'_>]) -> String {
    let files: BTreeSet<&str> = shown.iter().map(|line| line.hit.path).collect();
    let path = &search.path;
    let mut name = fit(&query.name);
    if shown.iter().any(|line| line.as_written) {
        name = format!("{name}` or `{}", fit(&query.words));
    }
    let case = if query.any_case { ", in any case" } else { "" };
    let outside = if search.without_tests { " outside of tests" } else { "" };
    let one = shown.len() == 1;
    let has = match search.filter {
        LineFilter::Any | LineFilter::Comments if one || shown.is_empty() => "has",
        LineFilter::Any | LineFilter::Comments => "have",
        LineFilter::Definitions if one || shown.is_empty() => "defines",
        LineFilter::Definitions => "define",
        LineFilter::Uses if one || shown.is_empty() => "uses",
        LineFilter::Uses => "use",
        LineFilter::Calls if one || shown.is_empty() => "calls",
        LineFilter::Calls => "call",
    };
    let comment = if search.filter == LineFilter::Comments { " in a comment" } else { "" };
    if shown.is_empty() {
        return format!("No line in `{path}`{outside} {has} `{name}`{comment}{case}.\n");
    }
    let kinds: Vec<String> = Kind::ALL
        .iter()
        .filter_map(|kind| {
            let many = shown.iter().filter(|line| line.kind == *kind).count();
            (many > 0).then(|| format!("{} {}", number(many as u64), words(*kind)))
        })
        .collect();
    let kinds = match search.filter {
        LineFilter::Any => format!(": {}", kinds.join(", ")),
        _ => String::new(),
    };
    format!(
        "{} in {} of `{path}`{outside} {has} `{name}`{comment}{case}{kinds}.\n",
        count(shown.len() as u64, "line"),
        count(files.len() as u64, "file"),
    )
}

/// Says how many lines have a name that the filter of a search leaves out.
fn other_lines(search: &LineSearch, others: &[&Line<'_>]) -> String {
    let unparsed = others.iter().filter(|line| !line.parsed).count();
    let parsed = others.len() - unparsed;
    let mut out = String::new();
    if parsed > 0 {
        let other = count(parsed as u64, "other line");
        let has = if parsed == 1 { "has" } else { "have" };
        out.push_str(&format!("{other} {has} it.\n"));
    }
    if unparsed > 0 {
        let what = match search.filter {
            LineFilter::Definitions => "define",
            LineFilter::Calls => "call",
            LineFilter::Uses => "use",
            LineFilter::Comments | LineFilter::Any => "comment on",
        };
        let lines = count(unparsed as u64, "line");
        out.push_str(&format!("{lines} in files that were not parsed may {what} it.\n"));
    }
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
                let text = truncate_chars(line.hit.text, WIDTH);
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

pub(super) fn fit(name: &str) -> String {
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
