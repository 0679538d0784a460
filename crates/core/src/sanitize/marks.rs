//! Marks of chat formats in content, and how they are made inert.
//!
//! A mark is text that a chat template or its tokenizer reads as structure: who speaks, or where a
//! turn, a thought, a tool list, a call, a result or the text itself begins or ends. The rules:
//!
//! - A mark is recognised by its exact spelling, case included, wherever it stands, also inside of
//!   a word, because tokenizers do the same. So `</s>` in HTML is one, and `<S>`, `<s class="x">`
//!   and `Vec<String>` are none.
//! - The first character of a mark becomes `‹`. Nothing else changes and nothing is removed, so
//!   that the text stays readable.
//! - Text that a model writes to a file is restored: an inert mark gets its true form there, in any
//!   file, because the model may have read it anywhere. The exception is a file that itself
//!   contains the inert form: an edit ([`restore_marks`]) keeps the form of what it replaces, and a file
//!   written whole ([`restored_whole`]) keeps the inert form if the file has no other form and at
//!   least as many. Ambiguous cases are refused. A mark and its partner count as one.
//! - In a command every inert mark is restored, because no file says which form it means. A path
//!   is restored where nothing exists under its inert form.
//! - Placeholders for media and for code completion, and tags that are plain text to tokenizers
//!   and ordinary markup elsewhere (`<parameter>` without a name, `</function>`, `<image>`, `[IMG]`,
//!   `[MASK]`), are no marks. `[ARGS]`, which stands in the help of many programs, is one only directly before
//!   the arguments of a call.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use super::mark_syntax::{FIRST, LONGEST_NAME, mark, mark_in_content};
use crate::truncate::truncate_bytes;

/// Replaces the first character of a mark.
const INERT: char = '‹';
/// Makes the marks of a text inert and counts them.
pub(super) fn with_inert_marks<'t>(text: &'t str, marks: &mut usize) -> Cow<'t, str> {
    rewritten(text, &FIRST, |from| {
        let mark = mark_in_content(from)?;
        *marks += 1;
        let rest = mark.chars().next().and_then(|first| mark.get(first.len_utf8()..))?;
        Some((mark.len(), format!("{INERT}{rest}")))
    })
}

/// Text from a model with its inert marks restored to their true form.
#[derive(Debug, PartialEq, Eq)]
pub struct RestoredText<'t> {
    /// The text.
    pub text: Cow<'t, str>,
    /// Number of marks that were restored.
    pub marks: usize,
}

/// A mark that may mean either its true or its inert form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is ambiguous: it may be itself or the mark that is shown like this")]
pub struct AmbiguousMark(pub String);

/// Restores the marks in a text that replaces a part of a file. A mark gets its true form, unless
/// the part contains it, or its partner, in the inert form; then it stays.
///
/// ```
/// use deputize_core::sanitize::restore_marks;
/// assert_eq!(restore_marks("a ‹s>b‹/s>", "of other things")?.text, "a <s>b</s>");
/// assert_eq!(restore_marks("a ‹s>", "‹s>")?.text, "a ‹s>");
/// assert!(restore_marks("a ‹s>", "‹s> <s>").is_err());
/// # Ok::<(), deputize_core::sanitize::AmbiguousMark>(())
/// ```
///
/// # Errors
/// If the part contains both forms of a mark.
pub fn restore_marks<'t>(text: &'t str, part: &str) -> Result<RestoredText<'t>, AmbiguousMark> {
    restored_by(text, part, |_given, there| there.active > 0)
}

/// Restores the marks in a text that replaces a whole file, by the same rule.
///
/// # Errors
/// If the file contains both forms of a mark, or the text has more inert ones than the file.
pub fn restored_whole<'t>(text: &'t str, file: &str) -> Result<RestoredText<'t>, AmbiguousMark> {
    restored_by(text, file, |given, there| there.active > 0 || given.inert > there.inert)
}

fn restored_by<'t>(
    text: &'t str,
    original: &str,
    is_ambiguous: impl Fn(FormCounts, FormCounts) -> bool,
) -> Result<RestoredText<'t>, AmbiguousMark> {
    if !text.contains(INERT) {
        return Ok(RestoredText { text: Cow::Borrowed(text), marks: 0 });
    }
    let there = if original.contains(INERT) { forms(original) } else { BTreeMap::new() };
    for (family, given) in forms(text) {
        let there = there.get(&family).copied().unwrap_or_default();
        if given.inert > 0 && there.inert > 0 && is_ambiguous(given, there) {
            let rest = family.get(family.chars().next().map_or(0, char::len_utf8)..);
            return Err(AmbiguousMark(format!("{INERT}{}", rest.unwrap_or_default())));
        }
    }
    let mut marks = 0;
    let text = rewritten(text, &[INERT], |from| {
        let (active, inert) = active(from)?;
        if there.get(&family(&active)).is_some_and(|there| there.inert > 0) {
            return None;
        }
        marks += 1;
        Some((inert, active))
    });
    Ok(RestoredText { text, marks })
}

/// How often the marks of a family occur in a text, in each form.
#[derive(Debug, Clone, Copy, Default)]
struct FormCounts {
    active: usize,
    inert: usize,
}

/// Counts the forms of all marks of a text, by family.
fn forms(text: &str) -> BTreeMap<String, FormCounts> {
    let mut forms = BTreeMap::<String, FormCounts>::new();
    let _unchanged = rewritten(text, &FIRST, |from| {
        forms.entry(family(mark(from)?)).or_default().active += 1;
        None
    });
    let _unchanged = rewritten(text, &[INERT], |from| {
        forms.entry(family(&active(from)?.0)).or_default().inert += 1;
        None
    });
    forms
}

/// Returns what a mark and its partner have in common: `<s>` and `</s>` are restored alike.
fn family(mark: &str) -> String {
    mark.replace('/', "")
}

/// A text with its marks made inert, with a mapping to positions in the original.
#[derive(Debug)]
pub struct InertText<'t> {
    /// The text with inert marks.
    pub text: Cow<'t, str>,
    /// Where the first characters of marks end, in this text and in the original.
    ends: Vec<(usize, usize)>,
}

impl<'t> InertText<'t> {
    /// Makes the marks of a text inert.
    #[must_use]
    pub fn of(text: &'t str) -> Self {
        let mut ends = Vec::new();
        let mut shown = 0;
        let mut original = 0;
        let whole = text.len();
        let inert = rewritten(text, &FIRST, |from| {
            let mark = mark_in_content(from)?;
            let first = mark.chars().next().map_or(0, char::len_utf8);
            let at = whole - from.len();
            shown += at - original + INERT.len_utf8();
            original = at + first;
            ends.push((shown, original));
            Some((mark.len(), format!("{INERT}{}", mark.get(first..)?)))
        });
        Self { text: inert, ends }
    }

    /// Returns the range of the original that corresponds to a range of the text.
    #[must_use]
    pub fn original(&self, range: &Range<usize>) -> Range<usize> {
        let original = |at: usize| {
            let before = self.ends.partition_point(|(shown, _)| *shown <= at);
            let last = before.checked_sub(1).and_then(|last| self.ends.get(last));
            last.map_or(at, |(shown, original)| original + (at - shown))
        };
        original(range.start)..original(range.end)
    }
}

/// Returns whether a text contains an inert mark.
#[must_use]
pub fn has_inert_mark(text: &str) -> bool {
    text.match_indices(INERT).any(|(at, _)| text.get(at..).is_some_and(|it| active(it).is_some()))
}

/// Extends a regular expression so that an inert mark in it matches the true form too.
///
/// ```
/// use deputize_core::sanitize::pattern_of_marks;
/// assert_eq!(pattern_of_marks("x ‹/think>"), "x [‹<]/think>");
/// assert_eq!(pattern_of_marks(r"‹\|im_end\|>"), r"[‹<]\|im_end\|>");
/// ```
#[must_use]
pub fn pattern_of_marks(pattern: &str) -> Cow<'_, str> {
    with_first_characters(pattern, |first| {
        let escape = if first == '[' { "\\" } else { "" };
        format!("[{INERT}{escape}{first}]")
    })
}

/// Extends a glob so that an inert mark in it matches the true form too.
///
/// ```
/// use deputize_core::sanitize::glob_of_marks;
/// assert_eq!(glob_of_marks("‹s>/*"), "{‹,<}s>/*");
/// assert_eq!(glob_of_marks("‹INST]?"), "{‹,[[]}INST]?");
/// ```
#[must_use]
pub fn glob_of_marks(glob: &str) -> Cow<'_, str> {
    with_first_characters(glob, |first| match first {
        '[' => format!("{{{INERT},[[]}}"),
        first => format!("{{{INERT},{first}}}"),
    })
}

/// Replaces the first character of each inert mark in a pattern, by its true first character.
fn with_first_characters(pattern: &str, either: impl Fn(char) -> String) -> Cow<'_, str> {
    rewritten(pattern, &[INERT], |from| {
        let (active, _) = active(&unescape(from))?;
        Some((INERT.len_utf8(), either(active.chars().next()?)))
    })
}

/// Returns the beginning of a pattern without the backslashes before punctuation.
fn unescape(pattern: &str) -> String {
    let mut plain = String::new();
    let mut rest = pattern.chars().take(4 * LONGEST_NAME).peekable();
    while let Some(c) = rest.next() {
        if c != '\\' || !rest.peek().is_some_and(char::is_ascii_punctuation) {
            plain.push(c);
        }
    }
    plain
}

/// Returns the true form of the inert mark at the beginning of a text, and the inert one's length
/// in bytes.
fn active(text: &str) -> Option<(String, usize)> {
    let rest = text.strip_prefix(INERT)?;
    // A mark is short, so only the beginning needs to be parsed.
    let rest = truncate_bytes(rest, 4 * LONGEST_NAME);
    FIRST.iter().find_map(|first| {
        let whole = format!("{first}{rest}");
        let mark = mark(&whole)?;
        Some((mark.to_owned(), INERT.len_utf8() + mark.len() - first.len_utf8()))
    })
}

/// Rewrites a text: `instead` is called at each position that begins with one of these characters
/// and returns how many bytes to replace, and with what.
fn rewritten<'t>(
    text: &'t str,
    first: &[char],
    mut instead: impl FnMut(&str) -> Option<(usize, String)>,
) -> Cow<'t, str> {
    let mut out = String::new();
    let mut done = 0;
    let mut from = 0;
    while let Some(at) = find_any(text, from, first) {
        let rest = text.get(at..).unwrap_or_default();
        let step = rest.chars().next().map_or(1, char::len_utf8);
        match instead(rest) {
            None => from = at + step,
            Some((bytes, new)) => {
                out.push_str(text.get(done..at).unwrap_or_default());
                out.push_str(&new);
                from = at + bytes;
                done = from;
            }
        }
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(done..).unwrap_or_default());
    Cow::Owned(out)
}

/// Returns where the first of up to three characters stands at or after a position. Nearly all texts
/// have none, so their first bytes are looked for, many at once.
fn find_any(text: &str, mut from: usize, any: &[char]) -> Option<usize> {
    let byte = |n: usize| {
        let character = any.get(n).or(any.first())?;
        character.encode_utf8(&mut [0; 4]).bytes().next()
    };
    let (one, two, three) = (byte(0)?, byte(1)?, byte(2)?);
    loop {
        let at = from + memchr::memchr3(one, two, three, text.as_bytes().get(from..)?)?;
        if text.get(at..).is_some_and(|rest| rest.starts_with(any)) {
            return Some(at);
        }
        from = at + 1;
    }
}
