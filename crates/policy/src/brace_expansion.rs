//! Braces: `{a,b}` and `{1..3}`, before any other expansion.

use crate::limits::{BRACE_CHARS_MAX, BRACE_WORDS_MAX};

/// One part of a word: a character that is not quoted, or anything else by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Atom {
    Char(char),
    Piece(usize),
}

/// Returns the words that the braces of a word make; `None` if they are too many.
pub(crate) fn expand_braces(word: &[Atom]) -> Option<Vec<Vec<Atom>>> {
    let mut done = Vec::new();
    let mut waiting = vec![(word.to_vec(), 0)];
    let mut copied = 0;
    while let Some((word, from)) = waiting.pop() {
        copied += word.len();
        match alternatives(&word, from) {
            Alternatives::None => done.push(word),
            Alternatives::SkipTo(from) => waiting.push((word, from)),
            Alternatives::Words(words) => {
                waiting.extend(words.into_iter().rev().map(|it| (it, from)))
            }
        }
        if done.len() + waiting.len() > BRACE_WORDS_MAX || copied > BRACE_CHARS_MAX {
            return None;
        }
    }
    Some(done)
}

enum Alternatives {
    None,
    /// The brace there makes nothing.
    SkipTo(usize),
    Words(Vec<Vec<Atom>>),
}

/// Expands the first brace of a word at or behind a place.
fn alternatives(word: &[Atom], from: usize) -> Alternatives {
    let opens = |it: &Atom| *it == Atom::Char('{');
    let Some(open) = word.iter().skip(from).position(opens).map(|at| at + from) else {
        return Alternatives::None;
    };
    let Some((commas, close)) = members(word, open) else { return Alternatives::SkipTo(open + 1) };
    let part = |from: usize, to: usize| word.get(from..to).unwrap_or_default();
    let bodies: Vec<Vec<Atom>> = if commas.is_empty() {
        match sequence(part(open + 1, close)) {
            Some(texts) => texts.iter().map(|it| it.chars().map(Atom::Char).collect()).collect(),
            None => return Alternatives::SkipTo(open + 1),
        }
    } else {
        let starts = std::iter::once(open + 1).chain(commas.iter().map(|at| at + 1));
        let ends = commas.iter().copied().chain([close]);
        starts.zip(ends).map(|(from, to)| part(from, to).to_vec()).collect()
    };
    let (before, after) = (part(0, open), part(close + 1, word.len()));
    let whole = |body: Vec<Atom>| [before, &body, after].concat();
    Alternatives::Words(bodies.into_iter().map(whole).collect())
}

/// Returns the places of the commas of a brace, and of its end.
fn members(word: &[Atom], open: usize) -> Option<(Vec<usize>, usize)> {
    let mut level = 0_usize;
    let mut commas = Vec::new();
    for (at, atom) in word.iter().enumerate().skip(open) {
        match atom {
            Atom::Char('{') => level += 1,
            Atom::Char('}') if level == 1 => return Some((commas, at)),
            Atom::Char('}') => level -= 1,
            Atom::Char(',') if level == 1 => commas.push(at),
            _ => {}
        }
    }
    None
}

/// Returns the words of `a..b`.
fn sequence(body: &[Atom]) -> Option<Vec<String>> {
    let chars = body.iter().map(|it| match it {
        Atom::Char(c) => Some(*c),
        Atom::Piece(_) => None,
    });
    let text: String = chars.collect::<Option<_>>()?;
    let mut parts = text.split("..");
    let (from, to) = (parts.next()?, parts.next()?);
    if let (Ok(from), Ok(to)) = (from.parse::<i64>(), to.parse::<i64>()) {
        let count = usize::try_from(from.abs_diff(to)).ok()?;
        if count >= BRACE_WORDS_MAX {
            return None;
        }
        let range = from.min(to)..=from.max(to);
        let texts = range.map(|it| it.to_string());
        return Some(if from <= to { texts.collect() } else { texts.rev().collect() });
    }
    let single = |it: &str| it.chars().next().filter(|c| it.len() == 1 && c.is_ascii_alphabetic());
    let (from, to) = (single(from)?, single(to)?);
    let texts = (from.min(to)..=from.max(to)).map(String::from);
    Some(if from <= to { texts.collect() } else { texts.rev().collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> String {
        let word: Vec<_> = text.chars().map(Atom::Char).collect();
        let text = |word: Vec<Atom>| {
            word.into_iter()
                .map(|it| match it {
                    Atom::Char(c) => c,
                    Atom::Piece(_) => '?',
                })
                .collect::<String>()
        };
        expand_braces(&word).unwrap().into_iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn braces_expand_as_in_bash() {
        assert_eq!(expanded("{rm,-rf,/}"), "rm -rf /");
        assert_eq!(expanded("a{b,c{d,e}}f"), "abf acdf acef");
        assert_eq!(expanded("{1..3}{a,b}"), "1a 1b 2a 2b 3a 3b");
        assert_eq!(expanded("{c..a}"), "c b a");
        for same in ["{a}", "{}", "HEAD^{commit}", "{a,b", "a}b"] {
            assert_eq!(expanded(same), same);
        }
        let many: Vec<_> = "{1,2}".repeat(12).chars().map(Atom::Char).collect();
        assert_eq!(expand_braces(&many), None);
    }
}
