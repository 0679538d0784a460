//! Matches words and phrases in the text of a task.

use super::token::{Kind, Token, tokens};
use super::vocabulary::NEGATIONS;

/// The reading of a rule, and the next token; `None` if the rule does not fit.
pub(super) type Rule<T> = Option<(T, usize)>;

/// The text of a task with its tokens.
pub(super) struct Sentence<'t> {
    text: &'t str,
    tokens: Vec<Token<'t>>,
}

impl<'t> Sentence<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, tokens: tokens(text) }
    }

    /// Returns the number of tokens.
    pub(super) const fn len(&self) -> usize {
        self.tokens.len()
    }

    pub(super) const fn text(&self) -> &'t str {
        self.text
    }

    pub(super) fn token(&self, at: usize) -> Option<&Token<'t>> {
        self.tokens.get(at)
    }

    /// Returns the tokens of a range.
    pub(super) fn tokens(&self, from: usize, end: usize) -> &[Token<'t>] {
        self.tokens.get(from..end).unwrap_or_default()
    }

    /// Returns the text between two tokens.
    pub(super) fn between(&self, from: usize, end: usize) -> &'t str {
        match self.tokens(from, end) {
            [] => "",
            [one] => self.text.get(one.start..one.end).unwrap_or_default(),
            [first, .., last] => self.text.get(first.start..last.end).unwrap_or_default(),
        }
    }

    /// Returns the text from a token on.
    pub(super) fn text_from(&self, at: usize) -> &'t str {
        let start = self.token(at).map_or(self.text.len(), |token| token.start);
        self.text.get(start..).unwrap_or_default()
    }

    /// Returns whether one of these words stands at a token.
    pub(super) fn is(&self, at: usize, words: &str) -> bool {
        self.token(at).is_some_and(|token| words.split('|').any(|word| token.is(word)))
    }

    /// Returns whether this punctuation stands at a token.
    pub(super) fn is_mark(&self, at: usize, mark: &str) -> bool {
        self.is_punctuation(at) && self.token(at).is_some_and(|token| token.text == mark)
    }

    pub(super) fn is_punctuation(&self, at: usize) -> bool {
        self.token(at).is_some_and(|token| token.kind == Kind::Punctuation)
    }

    /// Returns whether a word between two tokens excludes something.
    pub(super) fn negates(&self, from: usize, end: usize) -> bool {
        (from..end).any(|at| self.is(at, NEGATIONS))
    }

    /// Passes over words: with `|` between alternatives, and `?` behind those that may be missing.
    pub(super) fn phrase(&self, at: usize, pattern: &str) -> Option<usize> {
        let mut at = at;
        for words in pattern.split(' ') {
            let (words, optional) =
                words.strip_suffix('?').map_or((words, false), |words| (words, true));
            if self.is(at, words) {
                at += 1;
            } else if !optional {
                return None;
            }
        }
        Some(at)
    }

    /// Passes over the longest of some phrases.
    pub(super) fn any_phrase(&self, at: usize, patterns: &[&str]) -> Option<usize> {
        patterns.iter().filter_map(|pattern| self.phrase(at, pattern)).max()
    }

    /// Passes over each of these words as long as there is one.
    pub(super) fn skip(&self, mut at: usize, words: &str) -> usize {
        while self.is(at, words) {
            at += 1;
        }
        at
    }

    /// Passes over what stands between two parts of a task; `None` where nothing does.
    pub(super) fn separator(&self, at: usize) -> Option<usize> {
        let mut end = at;
        while self.is_punctuation(end) || self.is(end, "and|then|also") {
            end += 1;
        }
        (end > at).then_some(end)
    }

    /// Returns whether a part may end at a token.
    pub(super) fn may_end(&self, at: usize) -> bool {
        at >= self.len() || self.separator(at).is_some()
    }

    /// Returns whether nothing but a tail follows in this part.
    pub(super) fn ends_task(&self, at: usize) -> bool {
        let (_, next) = self.tail(at);
        self.may_end(next)
    }

    /// Passes over what makes a request polite.
    pub(super) fn courtesy(&self, mut at: usize) -> usize {
        loop {
            let polite = self.any_phrase(
                at,
                &[
                    "please|hi|hello|hey|ok|okay|now|first|so|just",
                    "can|could|would|will you",
                    "i want you to",
                    "i would like you to",
                    "i'd|i’d like you to",
                    "let us",
                    "let's|let’s",
                    "help me to?",
                ],
            );
            match polite {
                Some(next) => at = next,
                None if self.is_punctuation(at) => at += 1,
                None => return at,
            }
        }
    }

    /// Passes over what may follow a part, and returns whether it says to hand nothing on.
    pub(super) fn tail(&self, at: usize) -> (bool, usize) {
        let mut at = at;
        let mut alone = false;
        loop {
            let from = at + usize::from(self.is_mark(at, ","));
            let alones = [
                "by? yourself",
                "on your own",
                "alone",
                "without children|delegating|delegation|helpers|subagents|sub-agents",
            ];
            let others = ["please", "thanks", "thank you", "for|to me|us", "now", "too", "as well"];
            if let Some(next) = self.any_phrase(from, &alones) {
                (alone, at) = (true, next);
            } else if let Some(next) = self.any_phrase(from, &others) {
                at = next;
            } else {
                return (alone, at);
            }
        }
    }

    /// Reads whether tests are left out.
    pub(super) fn exclusion(&self, at: usize) -> (bool, usize) {
        let openings = ["outside of?", "except in|for?", "without", "excluding", "but? not in"];
        let tests = self.any_phrase(at, &openings).and_then(|at| {
            let at = self.skip(at, "the|all");
            self.any_phrase(at, &["tests", "test code|files|cases"])
        });
        tests.map_or((false, at), |next| (true, next))
    }
}
