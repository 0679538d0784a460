//! Which files a sentence says that the one who speaks wrote.
//!
//! The verb has to be tied to the file: `I wrote a.md`, `wrote a.md` without a subject, `a.md was
//! written` without another agent, `a.md: written`. In doubt it is no claim: a child that only
//! reports about files must not be accused.

use super::english::*;
use super::words::Token::{self, Mark, Name, Word};

/// What a file is to a verb.
#[derive(Clone, Copy, PartialEq)]
enum FileVerb {
    Changes,
    Makes,
    Moves,
}

/// How a name is reached from a verb.
#[derive(Clone, Copy, PartialEq)]
enum NamePosition {
    Object,
    In,
    To,
    /// By a word such as `for`: it is not written.
    About,
}

fn verb(token: &Token<'_>) -> Option<FileVerb> {
    let kinds = [(FileVerb::Changes, CHANGES), (FileVerb::Makes, MAKES), (FileVerb::Moves, MOVES)];
    kinds.into_iter().find(|(_, words)| token.is(words)).map(|(verb, _)| verb)
}

/// The verb whose infinitive it is.
fn infinitive(token: &Token<'_>) -> Option<FileVerb> {
    let Word(word) = token else { return None };
    let regular = [format!("{word}d"), format!("{word}ed"), word.replace('y', "ied")];
    let irregular = [("make", "made"), ("put", "put"), ("rewrite", "rewrote"), ("write", "wrote")];
    let irregular = irregular.into_iter().filter(|(now, _)| word == now);
    let past = irregular.map(|(_, past)| past.to_owned()).chain(regular);
    past.map(Word).find_map(|past| verb(&past))
}

/// The verb whose form in `ing` it is.
fn gerund(token: &Token<'_>) -> Option<FileVerb> {
    let Word(word) = token else { return None };
    let stem = word.strip_suffix("ing")?;
    let forms = ["", "e"].map(|ending| Word(format!("{stem}{ending}")));
    forms.iter().find_map(infinitive)
}

/// Whether a text begins with one of these words.
fn begins(tokens: &[Token<'_>], words: &str) -> bool {
    tokens.first().is_some_and(|first| first.is(words))
}

fn ends(tokens: &[Token<'_>], words: &str) -> bool {
    tokens.last().is_some_and(|last| last.is(words))
}

fn has(tokens: &[Token<'_>], words: &str) -> bool {
    tokens.iter().any(|token| token.is(words))
}

/// A text up to its last word that is none of these, and those.
fn without<'t, 'a>(tokens: &'t [Token<'a>], words: &str) -> (&'t [Token<'a>], &'t [Token<'a>]) {
    let kept = tokens.iter().rposition(|token| !token.is(words)).map_or(0, |at| at + 1);
    tokens.split_at(kept)
}

/// What stands behind the last of these marks.
fn behind<'t, 'a>(tokens: &'t [Token<'a>], marks: &str) -> &'t [Token<'a>] {
    let start = tokens.iter().rposition(|token| token.is_mark(marks)).map_or(0, |at| at + 1);
    tokens.split_at(start).1
}

/// The files that a sentence claims.
pub(super) fn claims<'a>(sentence: &[Token<'a>]) -> Vec<&'a str> {
    let sentence = match sentence {
        [.., Mark('?')] => return Vec::new(),
        [sentence @ .., Mark('.')] => sentence,
        sentence => sentence,
    };
    let around = |at: usize| {
        let (before, rest) = sentence.split_at(at);
        rest.split_first().map(|(token, after)| (before, token, after))
    };
    let each = (0..sentence.len()).filter_map(around);
    each.flat_map(|(before, token, after)| match token {
        Mark(':') if is_claim(behind(before, ":")) => listed(after),
        _ => of_verb(before, token, after),
    })
    .collect()
}

/// The names of a list, which may begin with other words.
pub(super) fn listed<'a>(tokens: &[Token<'a>]) -> Vec<&'a str> {
    let start = tokens.iter().position(|token| !matches!(token, Mark(_))).unwrap_or(0);
    let named = objects(FileVerb::Changes, tokens.split_at(start).1);
    named.into_iter().map(|(_, name)| name).collect()
}

/// Whether a label (`Files changed`, `I created`) says that what it stands for was written.
pub(super) fn is_claim(label: &[Token<'_>]) -> bool {
    if is_foreign(label) || has(label, HISTORY) {
        return false;
    }
    (0..label.len()).any(|at| {
        let (before, rest) = label.split_at(at);
        let Some((token, after)) = rest.split_first() else { return false };
        let new = token.is("new") && before.is_empty() && begins(after, "file files");
        let head = after.split(|token| token.is(ABOUT)).next().unwrap_or_default();
        let files = has(head, FILES) || !after.iter().any(|token| matches!(token, Word(_)));
        let (noun, _) = without(before, "that which i i've we we've have has been was were also");
        let of_files = ends(noun, FILES) && !has(after, ABOUT);
        new || (verb(token).is_some() && (of_files || (files && speaks(before, after))))
    })
}

/// Whether a few words in a value or a key (`created`, `files_written`) say so.
pub(super) fn is_told(words: &[Token<'_>]) -> bool {
    let told = |word: &Token<'_>| matches!(verb(word), Some(FileVerb::Changes | FileVerb::Makes));
    let denied = [HISTORY, ABOUT, PERHAPS].iter().any(|list| has(words, list));
    words.iter().any(told) && !denied && !is_foreign(words)
}

/// Whether a label is about somebody else's work, or about what is not or only to be.
pub(super) fn is_foreign(label: &[Token<'_>]) -> bool {
    let number =
        |word: &str| word.contains(|c: char| c.is_ascii_digit()) && word.parse::<u32>().is_err();
    label.iter().any(|token| {
        let foreign = [FOREIGN, PLANS, NEGATIONS].iter().any(|words| token.is(words));
        foreign || matches!(token, Word(word) if number(word))
    })
}

/// What a verb claims between what stands before and behind it in its sentence.
fn of_verb<'a>(before: &[Token<'a>], token: &Token<'a>, after: &[Token<'a>]) -> Vec<&'a str> {
    if token.is("contains holds") && ends(before, "now") {
        return subject(without(before, ADVERBS).0).unwrap_or_default();
    }
    if token.is("new") {
        let after = if begins(after, FILES) { after.split_at(1).1 } else { after };
        return state(before, token, after);
    }
    let made = after.get(..after.len().min(5)).is_some_and(|next| has(next, FILES));
    if token.is("made make") && !made {
        return Vec::new();
    }
    if let Some(kind) = verb(token) {
        // `moved on to a.rs`
        let moved_on = kind == FileVerb::Moves && begins(after, "on to");
        if speaks(before, after) && !moved_on {
            let named = written(kind, objects(kind, after));
            return if named.is_empty() { meant(before, kind, token, after) } else { named };
        }
        if let Some(names) = passive(before, token, after) {
            let places =
                objects(kind, after).into_iter().filter(|(way, _)| *way != NamePosition::Object);
            let names = names.into_iter().map(|name| (NamePosition::Object, name));
            return written(kind, names.chain(places).collect());
        }
        return if kind == FileVerb::Moves { Vec::new() } else { state(before, token, after) };
    }
    match (infinitive(token), gerund(token)) {
        (Some(kind), _) if able(before) => written(kind, objects(kind, after)),
        (_, Some(kind)) if finished(before) => written(kind, objects(kind, after)),
        _ => Vec::new(),
    }
}

/// Of the names that a verb reaches, those of what was written.
fn written(kind: FileVerb, named: Vec<(NamePosition, &str)>) -> Vec<&str> {
    let to = named.iter().any(|(way, _)| *way == NamePosition::To);
    let counts = |way: NamePosition| match to {
        true => way == NamePosition::To,
        false => way == NamePosition::In || kind != FileVerb::Moves,
    };
    named.into_iter().filter(|(way, _)| counts(*way)).map(|(_, name)| name).collect()
}

/// The names that a verb reaches, up to where its sentence turns to something else.
fn objects<'a>(kind: FileVerb, after: &[Token<'a>]) -> Vec<(NamePosition, &'a str)> {
    let (mut way, mut found) = (NamePosition::Object, Vec::new());
    let (mut open, mut aside) = (false, false);
    let mut before: Option<&Token<'a>> = None;
    for (at, token) in after.iter().enumerate() {
        let rest = after.get(at + 1..).unwrap_or_default();
        let named = matches!(rest.first(), Some(Name(_)));
        match token {
            Mark(')') if open => (open, aside) = (false, false),
            _ if aside => {}
            Mark('(') => (open, aside) = (true, !named),
            Name(_) if begins(rest, FINITE) => break,
            Name(name) if way != NamePosition::About => found.push((way, *name)),
            Name(_) => {}
            Mark(',') | Word(_) if token.is_mark(",") || token.is(AND) => {
                let on = [DETERMINERS, IN, TO, AND, "also then"].iter().any(|it| begins(rest, it));
                if !(named || on) {
                    break;
                }
            }
            Mark(_) => break,
            Word(_) if token.is("to") && !(named || begins(rest, DETERMINERS)) => break,
            Word(_) if token.is("as") && !(named || begins(rest, DETERMINERS)) => {}
            Word(_) if token.is(TO) => {
                // `added a link to a.md`, `changed the default to a.md`
                let link = before.is_some_and(|word| word.is(LINKS)) || kind == FileVerb::Changes;
                way = if link && token.is("to") { NamePosition::About } else { NamePosition::To };
            }
            Word(_) if token.is(IN) => {
                // `a list of the errors in a.rs`, `as described in a.md`
                let told = before.is_some_and(|word| {
                    word.is("as found") || matches!(word, Word(word) if word.ends_with("ed"))
                });
                let of = way == NamePosition::About && !matches!(before, Some(Name(_)));
                let part = of && kind != FileVerb::Changes;
                way = if told || part { NamePosition::About } else { NamePosition::In };
            }
            Word(_) if token.is("with") && !found.is_empty() => break,
            Word(_) if token.is(ABOUT) => way = NamePosition::About,
            Word(_) => {
                if [OTHERS, NEGATIONS, FINITE, ENDS].iter().any(|words| token.is(words)) {
                    break;
                }
            }
        }
        before = Some(token);
    }
    found
}

/// Whether the subject of a verb is the one who speaks, or is left out.
fn speaks(before: &[Token<'_>], after: &[Token<'_>]) -> bool {
    let (before, _) = without(before, ADVERBS);
    let Some((last, rest)) = before.split_last() else { return true };
    match last {
        // `I do not think that I changed a.md`
        last if last.is(SELF) => {
            let denied = has(behind(rest, ",:-|("), NEGATIONS) && !ends(rest, AND);
            !denied && !ends(rest, PERHAPS)
        }
        // `a.md, created for b.md, and c.md`
        Mark(',') => !begins(after, ABOUT) && !begins(after, IN) && acts(rest),
        last if last.is(AND) => acts(rest),
        Mark(_) => !is_foreign(behind(rest, ":-|(")),
        _ => false,
    }
}

/// Whether a text in which a verb goes on (`I read a.rs and …`) has nobody else as its subject.
fn acts(before: &[Token<'_>]) -> bool {
    let me = before.iter().rposition(|token| token.is(SELF));
    let (head, own) = before.split_at(me.map_or(0, |at| at + 1));
    let own = if me.is_some() { own } else { behind(own, ":-|(") };
    let perhaps = head.split_last().is_some_and(|(_, rest)| ends(rest, PERHAPS));
    let first = own.iter().find(|token| !token.is(ADVERBS) && !token.is_mark(","));
    let did = first.is_none_or(|first| match first {
        Word(word) => word.ends_with("ed") || first.is(DID) || verb(first).is_some(),
        _ => false,
    });
    let others = own.windows(2).any(|pair| {
        let [one, next] = pair else { return false };
        let object = next.is(AND) || next.is(IN) || next.is(TO) || next.is(ABOUT);
        one.is("it they") && matches!(next, Word(_)) && !object
    });
    !perhaps && (me.is_some() || did) && !others && !has(own, OTHERS)
}

/// Whether an infinitive tells of a deed: `I did …`, `was able to …`, `I managed to …`.
fn able(before: &[Token<'_>]) -> bool {
    if has(without(before, ADVERBS).1, "did") {
        return speaks(before, &[]);
    }
    match before {
        [rest @ .., how, to] if how.is("able managed") && to.is("to") => {
            speaks(without(rest, "was were been have").0, &[])
        }
        _ => false,
    }
}

/// Whether a form in `ing` tells of a deed: `I finished writing …`.
fn finished(before: &[Token<'_>]) -> bool {
    matches!(before, [rest @ .., how] if how.is("finished completed") && speaks(rest, &[]))
}

/// The names of what was written, if a verb is passive and nobody else did it. Where something is
/// in a state (`is generated`), that alone tells of no deed.
fn passive<'a>(
    before: &[Token<'a>],
    token: &Token<'a>,
    after: &[Token<'a>],
) -> Option<Vec<&'a str>> {
    let (rest, adverbs) = without(before, ADVERBS);
    let (be, rest) = rest.split_last()?;
    let (had, have) = without(rest, ADVERBS);
    let now = has(adverbs, "now successfully")
        || (after.first().is_none_or(|next| next.is_mark(",")) && !token.is("generated"));
    let rest = match be {
        be if be.is("was were") => rest,
        be if be.is("been") && has(have, "has have") => had,
        be if be.is("is are") && now => rest,
        _ => return None,
    };
    if is_history(after) { None } else { subject(rest) }
}

/// Whether what stands behind a verb tells when that was, or who did it.
fn is_history(after: &[Token<'_>]) -> bool {
    let clause = after.split(|token| token.is_mark(",")).next().unwrap_or_default();
    let year = |word: &str| word.parse().is_ok_and(|year: u32| (1970..2100).contains(&year));
    clause.iter().enumerate().any(|(at, token)| {
        let me = clause.get(at + 1).is_some_and(|next| next.is("me myself us"));
        (token.is(HISTORY) && !me) || matches!(token, Word(word) if year(word))
    })
}

/// The names that a subject is, unless it is somebody else, or denied.
fn subject<'a>(tokens: &[Token<'a>]) -> Option<Vec<&'a str>> {
    let (names, rest) = names_before(tokens);
    let clause = behind(rest, ",:-|(");
    let clause = clause.rsplit(|token| token.is(AND)).next().unwrap_or_default();
    if [OTHERS, NEGATIONS, HISTORY].iter().any(|words| has(clause, words))
        || (names.is_empty() && ends(clause, PRONOUNS))
    {
        return None;
    }
    let all = rest.last().is_none_or(|last| {
        matches!(last, Mark(_)) || [DETERMINERS, FILES, "in", AND].iter().any(|it| last.is(it))
    });
    let about = [ABOUT, TO].iter().any(|words| ends(rest, words));
    Some(match names.as_slice() {
        _ if all => names,
        [.., last] if !about => vec![*last],
        _ => Vec::new(),
    })
}

/// The names that a text ends with, and what stands before them.
fn names_before<'t, 'a>(tokens: &'t [Token<'a>]) -> (Vec<&'a str>, &'t [Token<'a>]) {
    let (mut rest, mut names) = (tokens, Vec::new());
    let joins = |token: &Token<'_>| token.is_mark(",()") || token.is(AND);
    let mut next = rest;
    while let Some((Name(name), before)) = next.split_last() {
        names.insert(0, *name);
        rest = before;
        let kept = rest.iter().rposition(|token| !joins(token)).map_or(0, |at| at + 1);
        next = rest.split_at(kept).0;
    }
    (names, rest)
}

/// The names whose state is told: `a.md: created`, `a.md (new)`, `a.md updated successfully`.
fn state<'a>(before: &[Token<'a>], token: &Token<'a>, after: &[Token<'a>]) -> Vec<&'a str> {
    let (rest, _) = without(before, ADVERBS);
    let (mark, rest) = match rest.split_last() {
        Some((mark, rest)) if mark.is_mark(":-|(") => (Some(mark), rest),
        _ => (None, rest),
    };
    let ended = after.first().is_none_or(|next| matches!(next, Mark(_)) || next.is(AND));
    let object = mark.is_some() && [DETERMINERS, FILES].iter().any(|words| begins(after, words));
    let told = ended || object || begins(after, "successfully");
    // What is generated is so by its kind.
    if !told || is_history(after) || token.is("generated") {
        return Vec::new();
    }
    if mark.is_some_and(|mark| mark.is_mark("|")) {
        return rest.iter().rev().find_map(name).into_iter().collect();
    }
    let (names, rest) = names_before(rest);
    let whole = rest.last().is_none_or(|last| matches!(last, Mark(_)) || last.is(DETERMINERS));
    if whole { names } else { Vec::new() }
}

/// What a verb without names is about: the one whose state it tells, `it`, or what the sentence
/// began with (`In a.rs, I fixed the parser`).
fn meant<'a>(
    before: &[Token<'a>],
    kind: FileVerb,
    token: &Token<'a>,
    after: &[Token<'a>],
) -> Vec<&'a str> {
    if kind == FileVerb::Moves || has(after, NEGATIONS) {
        return Vec::new();
    }
    let told = state(before, token, after);
    let it = begins(after, "it them") && !after.get(1).is_some_and(|next| next.is(ENDS));
    let wrote = kind == FileVerb::Changes || token.is("created wrote");
    match before {
        _ if !told.is_empty() => told,
        [first, Name(name), ..] if first.is("in") && has(before, SELF) => vec![*name],
        _ if it && wrote => before.iter().rev().find_map(name).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn name<'a>(token: &Token<'a>) -> Option<&'a str> {
    match token {
        Name(name) => Some(name),
        _ => None,
    }
}
