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

use crate::truncate::truncate_bytes;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

/// Replaces the first character of a mark.
const INERT: char = '‹';
/// First characters of marks.
const FIRST: [char; 3] = ['<', '[', '◁'];
/// A mark that ordinary text contains too.
const USAGE: &str = "[ARGS]";
/// Maximum length of a name in a mark, in bytes.
const LONGEST_NAME: usize = 64;

/// Names in square brackets, used by Mistral's and GLM's templates.
const SQUARE: [&str; 18] = [
    "INST",
    "SYS",
    "ARGS",
    "CALL_ID",
    "THINK",
    "SYSTEM_PROMPT",
    "MODEL_SETTINGS",
    "AVAILABLE_TOOLS",
    "TOOL_CALL",
    "TOOL_CALLS",
    "TOOL_CONTENT",
    "TOOL_RESULT",
    "TOOL_RESULTS",
    "TOOL_OUTPUT",
    "TOOL_OUTPUTS",
    "gMASK",
    "sMASK",
    "eMASK",
];

/// Names of tokens that stand alone between angle brackets: `<s>`, `</s>`.
const ALONE: [&str; 44] = [
    "s",
    "bos",
    "eos",
    "eot",
    "eod",
    "eom",
    "pad",
    "unk",
    "sep",
    "cls",
    "sop",
    "eop",
    "bop",
    "eoh",
    "eoa",
    "BOS",
    "EOS",
    "EOT",
    "EOD",
    "EOM",
    "PAD",
    "UNK",
    "SEP",
    "CLS",
    "bos_token",
    "eos_token",
    "pad_token",
    "unk_token",
    "BOS_TOKEN",
    "EOS_TOKEN",
    "PAD_TOKEN",
    "UNK_TOKEN",
    "im_start",
    "im_end",
    "im_sep",
    "startoftext",
    "endoftext",
    "think",
    "thinking",
    "thought",
    "reasoning",
    "tools",
    "arg_key",
    "arg_value",
];

/// Prefixes of names of tokens that stand alone.
const ALONE_FAMILIES: [&str; 11] = [
    "start_of_",
    "end_of_",
    "begin_of_",
    "beginning_of_",
    "start_function_",
    "end_function_",
    "start_header_",
    "end_header_",
    "start_turn_",
    "end_turn_",
    "longcat_",
];
/// Prefixes of names that end in a number: `<unused42>`.
const NUMBERED: [&str; 5] = ["extra_id_", "unused", "reserved_", "SPECIAL_", "TOKENS_UNUSED_"];

/// Names of calls and results, which may have attributes: `<invoke name="x">`.
const CALLS: [&str; 8] = [
    "function_call",
    "function_calls",
    "function_result",
    "function_results",
    "function_response",
    "function_responses",
    "function_definitions",
    "invoke",
];
/// Prefixes of such names.
const CALL_FAMILIES: [&str; 10] = [
    "tool_call",
    "tool_response",
    "tool_result",
    "tool_output",
    "tool_use",
    "tool_code",
    "tool_sep",
    "tool_declare",
    "tool_return",
    "tool_list",
];
/// Names that form a call with what follows them: `<function=x>`.
const NAMED: [&str; 3] = ["function=", "parameter=", "parameter name="];
/// The prefix that makes any name a call's.
const CALL_PREFIX: &str = "antml:";

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
    while let Some(at) = text.get(from..).and_then(|rest| rest.find(first)).map(|at| from + at) {
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

/// Returns the mark at the beginning of content.
fn mark_in_content(text: &str) -> Option<&str> {
    let mark = mark(text)?;
    let is_usage = mark == USAGE && !text.get(mark.len()..)?.starts_with('{');
    (!is_usage).then_some(mark)
}

/// Returns the beginning of a text that is spelled like a mark.
fn mark(text: &str) -> Option<&str> {
    let rest = FIRST.iter().find_map(|first| text.strip_prefix(*first))?;
    let bytes = match text.chars().next()? {
        '<' => angle(rest)?,
        '[' => square(rest)?,
        _ => {
            let name = rest.strip_prefix('/').unwrap_or(rest);
            rest.len() - name.len() + closed_len(name, |c| c == '▷', word)?
        }
    };
    text.get(..text.len() - rest.len() + bytes)
}

/// Returns the number of bytes of a mark after its `<`.
fn angle(rest: &str) -> Option<usize> {
    if let Some(system) = ["<SYS>>", "</SYS>>"].into_iter().find(|it| rest.starts_with(it)) {
        return Some(system.len());
    }
    let name = rest.strip_prefix('/').unwrap_or(rest);
    let slash = rest.len() - name.len();
    let bytes = piped_len(name).or_else(|| bracketed_len(name)).or_else(|| tag(name, slash > 0))?;
    Some(slash + bytes)
}

/// Matches `<|name|>`, half of it (`<|name>`, `<name|>`), and the same with the wide bar, after
/// which more may follow (`<｜DSML｜invoke`).
fn piped_len(name: &str) -> Option<usize> {
    let bar = |c: char| c == '|' || c == '｜';
    let Some(inner) = name.strip_prefix(bar) else {
        let end = closed_len(name, bar, word)?;
        return name.get(end..)?.starts_with('>').then_some(end + 1);
    };
    let open = name.len() - inner.len();
    if let Some(quote) = inner.strip_prefix("\"|>") {
        return Some(name.len() - quote.len());
    }
    let wide = name.starts_with('｜');
    let inside = |c: char| word(c) || (wide && c == ' ') || c == '/' || c == ':';
    let end = closed_len(inner, |c| bar(c) || c == '>', inside)?;
    let closes_at_once = inner.get(..end)?.ends_with('>');
    let behind = inner.get(end..)?;
    match behind.strip_prefix('>') {
        Some(_) if !closes_at_once => Some(open + end + 1),
        _ if closes_at_once || wide => Some(open + end),
        _ => None,
    }
}

/// Matches `<[BOS_never_used_1]>`, a filler in some vocabularies, but not code such as `<[u8]>`.
fn bracketed_len(name: &str) -> Option<usize> {
    let inner = name.strip_prefix('[')?;
    let end = closed_len(inner, |c| c == ']', word)?;
    inner.get(..end).filter(|name| name.contains("_never_used") || name.contains('▁'))?;
    inner.get(end..)?.starts_with('>').then_some(1 + end + 1)
}

/// Matches a name between angle brackets, or its beginning where attributes may follow. A prefix
/// such as `seed:` changes nothing, but after [`CALL_PREFIX`] any name is a call's.
fn tag(name: &str, closes: bool) -> Option<usize> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_prefix = |rest: &&str| rest.starts_with(':');
    let end = name.find(|c| !is_name(c)).filter(|end| (1..=LONGEST_NAME).contains(end))?;
    let prefixed = name.get(end..).filter(is_prefix).and_then(|rest| rest.get(1..));
    let rest = prefixed.unwrap_or(name);
    let before = name.len() - rest.len();
    if !closes && let Some(named) = NAMED.iter().find(|named| rest.starts_with(**named)) {
        return Some(before + named.len());
    }
    let end = rest.find(|c| !is_name(c)).filter(|end| (1..=LONGEST_NAME).contains(end))?;
    let (word, behind) = rest.split_at(end);
    let is_of = |families: &[&str]| families.iter().any(|family| word.starts_with(family));
    let is_call = name.starts_with(CALL_PREFIX) || CALLS.contains(&word) || is_of(&CALL_FAMILIES);
    if is_call && behind.starts_with(['>', ' ', '\n', '\t', '=', '/']) {
        return Some(before + end + usize::from(behind.starts_with('>')));
    }
    let numbered = || word.ends_with(|c: char| c.is_ascii_digit()) && is_of(&NUMBERED);
    let alone = ALONE.contains(&word) || is_of(&ALONE_FAMILIES) || numbered();
    (alone && behind.starts_with('>')).then_some(before + end + 1)
}

/// Matches `[NAME]` and `[/NAME]`.
fn square(rest: &str) -> Option<usize> {
    let name = rest.strip_prefix('/').unwrap_or(rest);
    let end = closed_len(name, |c| c == ']', |c| c.is_ascii_alphanumeric() || c == '_')?;
    let word = name.get(..end - 1)?;
    let number = word.strip_prefix("control_").is_some_and(|n| n.parse::<u32>().is_ok());
    (SQUARE.contains(&word) || number).then_some(rest.len() - name.len() + end)
}

/// Returns the number of bytes of a name and what closes it.
fn closed_len(
    text: &str,
    closes: impl Fn(char) -> bool,
    inside: impl Fn(char) -> bool,
) -> Option<usize> {
    let (at, close) = text.char_indices().find(|(_, c)| !inside(*c))?;
    // Arrows such as `<|--|>` have no name.
    let name = text.get(..at).filter(|name| name.len() <= LONGEST_NAME)?;
    let is_named = name.chars().any(|c| c.is_ascii_alphanumeric());
    (is_named && closes(close)).then_some(at + close.len_utf8())
}

/// Returns whether a character may occur in the name of a mark between bars or brackets.
fn word(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-.▁".contains(c)
}
