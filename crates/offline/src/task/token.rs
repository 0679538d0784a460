//! Splits the text of a task into words, quoted texts and punctuation.

/// Kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A word without the punctuation after it.
    Word,
    /// A text in quotes or backticks; the token's text is what stands inside.
    Quoted,
    /// A regular expression between slashes; the token's text is what stands inside.
    Pattern,
    /// One of `,;:.!?`.
    Punctuation,
}

/// A piece of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token<'t> {
    pub(super) kind: Kind,
    pub(super) text: &'t str,
    /// Where the token begins and ends in the task, with its quotes.
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Token<'_> {
    /// Returns whether the token is this word, in any case.
    pub(super) fn is(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word)
    }

    /// Returns whether the token is one of these words, in any case.
    pub(super) fn is_one_of(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(word))
    }
}

const PUNCTUATION: [char; 6] = [',', ';', ':', '.', '!', '?'];
const QUOTES: [(char, char); 5] = [('`', '`'), ('"', '"'), ('\'', '\''), ('“', '”'), ('‘', '’')];
/// Words after which a slash begins a regular expression rather than a path.
const BEFORE_PATTERN: [&str; 12] = [
    "find", "grep", "for", "search", "locate", "count", "all", "with", "matching", "and", "or",
    "lines",
];

/// Splits a text into tokens.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut out: Vec<Token<'_>> = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let blank = rest.len() - rest.trim_start().len();
        if blank > 0 {
            at += blank;
            continue;
        }
        let takes_pattern = out
            .last()
            .is_some_and(|last| last.is_one_of(&BEFORE_PATTERN) || last.kind == Kind::Punctuation);
        let enclosed = read_quoted(rest).or_else(|| pattern(rest).filter(|_| takes_pattern));
        if let Some((kind, inner, length)) = enclosed {
            out.push(Token { kind, text: inner, start: at, end: at + length });
            at += length;
            continue;
        }
        let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let word = rest.get(..length).unwrap_or(rest);
        // Only punctuation stands right behind a quote.
        let glued = out.last().is_some_and(|last| last.end == at);
        let bare = if glued { "" } else { without_punctuation(word) };
        if !bare.is_empty() {
            out.push(Token { kind: Kind::Word, text: bare, start: at, end: at + bare.len() });
        }
        for (offset, mark) in word.char_indices().skip_while(|(offset, _)| *offset < bare.len()) {
            let start = at + offset;
            let end = at + offset + mark.len_utf8();
            let text = text.get(start..end).unwrap_or_default();
            out.push(Token { kind: Kind::Punctuation, text, start, end });
        }
        at += length;
    }
    out
}

/// Returns a word without the punctuation at its end. The dots of `..` and `a/..` belong to it.
fn without_punctuation(word: &str) -> &str {
    let bare = word.trim_end_matches(PUNCTUATION);
    let dots = word.trim_end_matches([',', ';', ':', '!', '?']);
    let last = dots.rsplit('/').next().unwrap_or(dots);
    if matches!(last, "." | "..") { dots } else { bare }
}

/// Whether a token may end here: at a blank, the end, or punctuation before one of them.
fn is_end(rest: &str) -> bool {
    let rest = rest.trim_start_matches(PUNCTUATION);
    rest.chars().next().is_none_or(char::is_whitespace)
}

/// Reads a text in quotes: its kind, what is inside, and its whole length.
fn read_quoted(rest: &str) -> Option<(Kind, &str, usize)> {
    let first = rest.chars().next()?;
    let (_, close) = QUOTES.iter().find(|(open, _)| *open == first)?;
    let from = first.len_utf8();
    let inner = rest.get(from..)?;
    let ends = inner.match_indices(*close);
    let (end, _) = ends
        .into_iter()
        .find(|(end, _)| inner.get(end + close.len_utf8()..).is_some_and(is_end))?;
    Some((Kind::Quoted, inner.get(..end)?, from + end + close.len_utf8()))
}

/// Reads a regular expression between slashes.
fn pattern(rest: &str) -> Option<(Kind, &str, usize)> {
    let inner = rest.strip_prefix('/')?;
    let escaped = |at: usize| inner.get(..at).is_some_and(|before| before.ends_with('\\'));
    let (end, _) = inner
        .match_indices('/')
        .find(|(at, _)| *at > 0 && !escaped(*at) && inner.get(at + 1..).is_some_and(is_end))?;
    Some((Kind::Pattern, inner.get(..end)?, end + 2))
}
