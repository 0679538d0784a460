//! Object of a task: terms to look for, files and directories.

use super::sentence::{Rule, Sentence};
use super::token::Kind;
use super::vocabulary::{
    CATEGORIES, DETERMINERS, FOLDER, HERE, IN, KINDS, NEGATIONS, NO_PATHS, PRONOUNS, QUANTIFIERS,
    QUESTIONS, READ, SEARCH, SEARCHED_IN, SURVEY,
};
use super::{LineFilter, Term, is_path};

/// A term with the lines of it that are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SearchTerm {
    pub(super) term: Term,
    pub(super) filter: LineFilter,
    /// Whether the words for the filter stand before the term, so that they hold for those that
    /// follow it too.
    prefixed: bool,
}

/// Reads one term or several, all with the same filter.
pub(super) fn search_terms(s: &Sentence<'_>, at: usize) -> Rule<Vec<SearchTerm>> {
    let begins = |at| begins_part(s, at) && !(is_bare_verb(s, at) && ends_term(s, at + 1));
    let (mut terms, at) = list_until(s, at, search_term, begins)?;
    let first = terms.first()?.clone();
    for term in terms.iter_mut().skip(1) {
        if first.prefixed && term.filter == LineFilter::Any {
            term.filter = first.filter;
        }
    }
    terms.iter().all(|term| term.filter == first.filter).then_some((terms, at))
}

/// Reads a term with the words that say which of its lines are wanted.
fn search_term(s: &Sentence<'_>, at: usize) -> Rule<SearchTerm> {
    let at = s.skip(at, QUANTIFIERS);
    let plain = || {
        let (term, next) = term(s, at)?;
        Some((SearchTerm { term, filter: LineFilter::Any, prefixed: false }, next))
    };
    let rules: [&dyn Fn() -> Rule<SearchTerm>; 4] =
        [&|| match_prefixed(s, at), &|| clause(s, at), &|| match_suffixed(s, at), &plain];
    rules.iter().find_map(|rule| rule().filter(|(_, next)| ends_term(s, *next)))
}

/// Reads `calls of X`, `lines with X`.
fn match_prefixed(s: &Sentence<'_>, at: usize) -> Rule<SearchTerm> {
    const PREFIXES: [(LineFilter, &[&str]); 5] = [
        (
            LineFilter::Any,
            &[
                "lines|line|places|place|occurrences|occurrence|mentions|mention|instances|instance \
                 of|with|containing",
                "lines|line|places|place that|which have|has|contain|contains|mention|mentions",
            ],
        ),
        (
            LineFilter::Uses,
            &[
                "uses|use|usages|usage|references|reference of|to",
                "lines|line|places|place that|which use|uses",
                "lines|line|places|place where we use",
            ],
        ),
        (
            LineFilter::Calls,
            &[
                "calls|call|invocations|invocation of|to",
                "call sites|site of",
                "lines|line|places|place that|which call|calls",
                "lines|line|places|place where we call",
            ],
        ),
        (LineFilter::Definitions, &["definitions|definition of"]),
        (
            LineFilter::Comments,
            &[
                "comments|comment with|containing",
                "comments|comment that|which have|has|contain|contains|mention|mentions",
            ],
        ),
    ];
    PREFIXES.iter().find_map(|(filter, patterns)| {
        let next = s.any_phrase(at, patterns)?;
        let (term, next) = term(s, s.skip(next, QUANTIFIERS))?;
        Some((SearchTerm { term, filter: *filter, prefixed: true }, next))
    })
}

/// Reads `where X is used`.
fn clause(s: &Sentence<'_>, at: usize) -> Rule<SearchTerm> {
    let next = s.phrase(at, "lines|line|places|place? where")?;
    let named = |at| s.is(at, "is") && verb(s, at + 1).is_some();
    let (term, next) = subject(s, s.skip(next, QUANTIFIERS), named)?;
    let next = s.phrase(next, "is|are")?;
    let (filter, next) = verb(s, next)?;
    Some((SearchTerm { term, filter, prefixed: true }, next))
}

/// Reads a participle that says which lines are wanted.
pub(super) fn verb(s: &Sentence<'_>, at: usize) -> Rule<LineFilter> {
    let verbs = [
        ("defined", LineFilter::Definitions),
        ("used", LineFilter::Uses),
        ("called", LineFilter::Calls),
    ];
    verbs.iter().find_map(|(verb, filter)| Some((*filter, s.phrase(at, verb)?)))
}

/// Reads `X calls`.
fn match_suffixed(s: &Sentence<'_>, at: usize) -> Rule<SearchTerm> {
    const SUFFIXES: [(LineFilter, &[&str]); 5] = [
        (LineFilter::Any, &["lines|occurrences|occurrence|mentions|mention|instances|instance"]),
        (LineFilter::Uses, &["uses|usages|usage|references|reference"]),
        (LineFilter::Calls, &["calls|call|invocations|invocation", "call sites|site"]),
        (LineFilter::Definitions, &["definitions|definition"]),
        (LineFilter::Comments, &["comments|comment"]),
    ];
    // `function calls` are those of any function.
    let kind = s.is(at, KINDS);
    let (term, at) = term(s, at)?;
    SUFFIXES.iter().filter(|(filter, _)| !kind || *filter == LineFilter::Any).find_map(
        |(filter, patterns)| {
            let next = s.any_phrase(at, patterns)?;
            Some((SearchTerm { term: term.clone(), filter: *filter, prefixed: false }, next))
        },
    )
}

fn ends_term(s: &Sentence<'_>, at: usize) -> bool {
    let (_, after_tail) = s.tail(at);
    s.may_end(at) || s.is(at, "or") || s.is(at, SEARCHED_IN) || after_tail > at || s.exclusion(at).0
}

/// Reads a term about which something is said. Any word is a name if `is_named` accepts what
/// follows it, but for a negation or a pronoun.
pub(super) fn subject(s: &Sentence<'_>, at: usize, is_named: impl Fn(usize) -> bool) -> Rule<Term> {
    term(s, at).or_else(|| {
        let token = s.token(at).filter(|token| token.kind == Kind::Word)?;
        let unclear = s.is(at, NEGATIONS) || s.is(at, PRONOUNS);
        (!unclear && is_named(at + 1)).then(|| (Term::Name(token.text.to_owned()), at + 1))
    })
}

/// Reads one word, a text in quotes or a regular expression.
fn term(s: &Sentence<'_>, at: usize) -> Rule<Term> {
    let token = s.token(at)?;
    let text = token.text;
    let term = match token.kind {
        Kind::Punctuation => return None,
        Kind::Quoted if text.trim().is_empty() => return None,
        Kind::Quoted => Term::Literal(text.to_owned()),
        Kind::Pattern => Term::Pattern(text.to_owned()),
        Kind::Word => {
            let vague = [CATEGORIES, PRONOUNS, DETERMINERS, NEGATIONS];
            let vague = vague.iter().any(|words| s.is(at, words));
            if vague || !text.contains(|c: char| !"\"'`".contains(c)) {
                return None;
            }
            Term::Name(text.to_owned())
        }
    };
    Some((term, at + 1))
}

/// Reads one thing or several with commas, `and` or `or` between them.
pub(super) fn list_of<T>(
    s: &Sentence<'_>,
    at: usize,
    item: impl Fn(&Sentence<'_>, usize) -> Rule<T>,
) -> Rule<Vec<T>> {
    list_until(s, at, item, |at| begins_part(s, at))
}

/// Reads such a list up to what `ends` accepts.
fn list_until<T>(
    s: &Sentence<'_>,
    at: usize,
    item: impl Fn(&Sentence<'_>, usize) -> Rule<T>,
    ends: impl Fn(usize) -> bool,
) -> Rule<Vec<T>> {
    let (first, mut end) = item(s, at)?;
    let mut out = vec![first];
    loop {
        if s.tail(end).1 > end {
            return Some((out, end));
        }
        let from = end + usize::from(s.is_mark(end, ","));
        let from = s.phrase(from, "and|or").unwrap_or(from);
        let next = item(s, from).filter(|(_, next)| {
            // What begins another part is no item.
            let (_, after) = s.tail(*next);
            from > end
                && s.tail(from).1 == from
                && !ends(from)
                && (s.may_end(after)
                    || s.is(*next, "or")
                    || s.is(*next, SEARCHED_IN)
                    || s.exclusion(*next).0)
        });
        let Some((thing, next)) = next else { return Some((out, end)) };
        out.push(thing);
        end = next;
    }
}

/// Whether a word is a verb of the tasks.
fn begins_part(s: &Sentence<'_>, at: usize) -> bool {
    [SURVEY, SEARCH, READ, "list|ls|run|execute|search|look", QUESTIONS]
        .iter()
        .any(|words| s.is(at, words))
}

/// Whether a word is a verb that needs an object, so that it is no part by itself.
fn is_bare_verb(s: &Sentence<'_>, at: usize) -> bool {
    [SEARCH, READ, "run|execute|search|look", QUESTIONS].iter().any(|words| s.is(at, words))
}

/// A file, and the line from which it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileStart {
    pub(super) path: String,
    pub(super) line: u64,
}

/// Reads a file's path, and `from line N` after it. A plain word is a path if `named` is true.
pub(super) fn file(s: &Sentence<'_>, at: usize, named: bool) -> Rule<FileStart> {
    let token = s.token(at)?;
    let (path, next) = match token.kind {
        Kind::Word if named => path(s, at)?,
        Kind::Word => is_path(token.text).then(|| (clean(token.text), at + 1))?,
        Kind::Quoted => path(s, at)?,
        Kind::Pattern | Kind::Punctuation => return None,
    };
    let Some(from) = s.phrase(next, "from line") else {
        return Some((FileStart { path, line: 1 }, next));
    };
    let line = s.token(from)?.text.replace(',', "").parse().ok().filter(|line| *line > 0)?;
    let next = s.phrase(from + 1, "on|onwards").unwrap_or(from + 1);
    Some((FileStart { path, line }, next))
}

/// Reads places after `in`; the working directory where none is named.
pub(super) fn in_places(s: &Sentence<'_>, at: usize) -> Rule<Vec<String>> {
    places_after(s, at, IN)
}

/// Reads places after one of these words.
pub(super) fn places_after(s: &Sentence<'_>, at: usize, words: &str) -> Rule<Vec<String>> {
    if s.is(at, "here") {
        return Some((vec![".".to_owned()], at + 1));
    }
    if !s.is(at, words) {
        return Some((vec![".".to_owned()], at));
    }
    list_of(s, at + 1, place)
}

/// Reads a directory: by its path, or as `this repository`.
pub(super) fn place(s: &Sentence<'_>, at: usize) -> Rule<String> {
    let token = s.token(at)?;
    if token.kind == Kind::Quoted {
        return path(s, at);
    }
    if let Some(next) = s.phrase(at, "the? parent directory|folder|dir") {
        return Some(("..".to_owned(), next));
    }
    if s.is(at, "here") || s.is(at, "this") && s.ends_task(at + 1) {
        return Some((".".to_owned(), at + 1));
    }
    let from = s.skip(at, DETERMINERS);
    if s.is(from, HERE) {
        let points = (at..from).any(|at| s.is(at, "this|my|our|your|its|current"));
        return here(s, from, points);
    }
    let (path, next) = path(s, from)?;
    match s.phrase(next, FOLDER) {
        Some(next) => Some((path, next)),
        None => (from == at).then_some((path, next)),
    }
}

/// Reads what follows a word like `directory`: its name, what it lies in, or nothing. After a
/// word like `this` there is no name.
fn here(s: &Sentence<'_>, at: usize, points: bool) -> Rule<String> {
    let next = s.phrase(at, "code base").unwrap_or(at + 1);
    if !points && s.is(at, FOLDER) {
        let named = s.phrase(next, "called|named").unwrap_or(next);
        if let Some(found) = path(s, named) {
            return Some(found);
        }
    }
    if s.is(next, IN) {
        return place(s, next + 1);
    }
    Some((".".to_owned(), next))
}

/// Reads a path, in quotes or as a plain word.
fn path(s: &Sentence<'_>, at: usize) -> Rule<String> {
    let token = s.token(at)?;
    let is_path = match token.kind {
        Kind::Quoted => !token.text.trim().is_empty(),
        Kind::Word => {
            let remote = token.text.contains("://") || token.text.starts_with("git@");
            // `tests` and `files` are directories too, where a directory is named.
            let plain = s.is(at, "tests|files") || !s.is(at, NO_PATHS) && !s.is(at, NEGATIONS);
            plain && !s.is(at, DETERMINERS) && !s.is(at, HERE) && !remote
        }
        Kind::Pattern | Kind::Punctuation => false,
    };
    is_path.then(|| (clean(token.text), at + 1))
}

/// Returns a path as the tools show it.
fn clean(path: &str) -> String {
    let path = path.trim();
    let bare = path.trim_end_matches('/');
    let bare = bare.strip_prefix("./").filter(|rest| !rest.is_empty()).unwrap_or(bare);
    if bare.is_empty() { "/".to_owned() } else { bare.to_owned() }
}
