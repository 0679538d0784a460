//! Marks of chat formats in content, and how they are made inert.
//!
//! A mark is what a chat template or its tokenizer reads as structure: who speaks, or where a turn,
//! a thought, a tool list, a call, a result or the text itself begins or ends. The rule:
//!
//! - A mark is recognised by its exact spelling, case included, wherever it stands, also inside of
//!   a word, because tokenizers do the same. So `</s>` in HTML is one, and `<S>`, `<s class="x">`
//!   and `Vec<String>` are none.
//! - The first character of a mark becomes `‹`. Nothing else changes and nothing is removed, so
//!   that the text stays readable and [`restored`] finds the mark again.
//! - Placeholders for media and for code completion, and tags that are plain text to tokenizers
//!   and ordinary markup elsewhere (`<parameter>`, `</function>`, `<image>`, `[IMG]`, `[MASK]`),
//!   are no marks.

use std::borrow::Cow;
use std::collections::BTreeSet;

/// What the first character of a mark becomes.
const INERT: char = '‹';
/// What marks begin with.
const FIRST: [char; 3] = ['<', '[', '◁'];
/// The longest name in a mark, in bytes.
const LONGEST_NAME: usize = 64;

/// Names in square brackets, as Mistral's and GLM's templates have them.
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

/// Beginnings of names of tokens that stand alone.
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
/// Beginnings of names that end in a number: `<unused42>`.
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
/// Beginnings of such names.
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
/// Names that are a call's with what follows them: `<function=x>`.
const NAMED: [&str; 3] = ["function=", "parameter=", "parameter name="];
/// The one prefix with which any name is a call's.
const CALL_PREFIX: &str = "antml:";

/// Text whose marks are inert, and how many there are.
pub(super) fn with_inert_marks<'t>(text: &'t str, marks: &mut usize) -> Cow<'t, str> {
    rewritten(text, &FIRST, |from| {
        let mark = mark(from)?;
        *marks += 1;
        let rest = mark.chars().next().and_then(|first| mark.get(first.len_utf8()..))?;
        Some((mark.len(), format!("{INERT}{rest}")))
    })
}

/// A text with its inert marks as they stand in the original that a model was shown: for tools
/// that get back what they gave. A mark that the original does not have stays inert, and so does
/// one that stands inert in the original itself.
///
/// ```
/// use deputize_core::door::restored;
/// assert_eq!(restored("a ‹s>b‹/s>", "x <s>y</s>"), "a <s>b</s>");
/// assert_eq!(restored("a ‹s>b", "nothing of it"), "a ‹s>b");
/// ```
#[must_use]
pub fn restored<'t>(text: &'t str, original: &str) -> Cow<'t, str> {
    if !text.contains(INERT) {
        return Cow::Borrowed(text);
    }
    let mut there = BTreeSet::new();
    let _unchanged = rewritten(original, &FIRST, |from| {
        there.insert(mark(from)?.to_owned());
        None
    });
    let _unchanged = rewritten(original, &[INERT], |from| {
        let (active, _) = active(from)?;
        there.remove(&active);
        None
    });
    rewritten(text, &[INERT], |from| {
        let (active, inert) = active(from)?;
        there.contains(&active).then_some((inert, active))
    })
}

/// The mark that a text begins with as an inert one, and how many bytes that is.
fn active(text: &str) -> Option<(String, usize)> {
    let rest = text.strip_prefix(INERT)?;
    // A mark is short, and what follows it need not be looked at.
    let rest = rest.get(..rest.floor_char_boundary(4 * LONGEST_NAME))?;
    FIRST.iter().find_map(|first| {
        let whole = format!("{first}{rest}");
        let mark = mark(&whole)?;
        Some((mark.to_owned(), INERT.len_utf8() + mark.len() - first.len_utf8()))
    })
}

/// Text with what a function says of each place that begins with one of these characters: how many
/// bytes go, and what stands there instead.
fn rewritten<'t>(
    text: &'t str,
    first: &[char],
    mut instead: impl FnMut(&str) -> Option<(usize, String)>,
) -> Cow<'t, str> {
    let mut out = String::new();
    let (mut done, mut from) = (0, 0);
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

/// The mark that a text begins with.
fn mark(text: &str) -> Option<&str> {
    let rest = FIRST.iter().find_map(|first| text.strip_prefix(*first))?;
    let bytes = match text.chars().next()? {
        '<' => angle(rest)?,
        '[' => square(rest)?,
        _ => {
            let name = rest.strip_prefix('/').unwrap_or(rest);
            rest.len() - name.len() + closed(name, |c| c == '▷', word)?
        }
    };
    text.get(..text.len() - rest.len() + bytes)
}

/// How many bytes of a mark follow its `<`.
fn angle(rest: &str) -> Option<usize> {
    if let Some(system) = ["<SYS>>", "</SYS>>"].into_iter().find(|it| rest.starts_with(it)) {
        return Some(system.len());
    }
    let name = rest.strip_prefix('/').unwrap_or(rest);
    let slash = rest.len() - name.len();
    let bytes = piped(name).or_else(|| bracketed(name)).or_else(|| tag(name, slash > 0))?;
    Some(slash + bytes)
}

/// `<|name|>`, half of it (`<|name>`, `<name|>`), and the same with the wide bar, behind which more
/// may follow (`<｜DSML｜invoke`).
fn piped(name: &str) -> Option<usize> {
    let bar = |c: char| c == '|' || c == '｜';
    let Some(inner) = name.strip_prefix(bar) else {
        let end = closed(name, bar, word)?;
        return name.get(end..)?.starts_with('>').then_some(end + 1);
    };
    let open = name.len() - inner.len();
    if let Some(quote) = inner.strip_prefix("\"|>") {
        return Some(name.len() - quote.len());
    }
    let wide = name.starts_with('｜');
    let inside = |c: char| word(c) || (wide && c == ' ') || c == '/' || c == ':';
    let end = closed(inner, |c| bar(c) || c == '>', inside)?;
    let closes_at_once = inner.get(..end)?.ends_with('>');
    let behind = inner.get(end..)?;
    match behind.strip_prefix('>') {
        Some(_) if !closes_at_once => Some(open + end + 1),
        _ if closes_at_once || wide => Some(open + end),
        _ => None,
    }
}

/// `<[BOS_never_used_1]>`, with which some vocabularies fill; `<[u8]>` is code.
fn bracketed(name: &str) -> Option<usize> {
    let inner = name.strip_prefix('[')?;
    let end = closed(inner, |c| c == ']', word)?;
    inner.get(..end).filter(|name| name.contains("_never_used") || name.contains('▁'))?;
    inner.get(end..)?.starts_with('>').then_some(1 + end + 1)
}

/// A name between angle brackets, or its beginning where attributes may follow. A prefix such as
/// `seed:` changes nothing, but behind [`CALL_PREFIX`] any name is a call's.
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

/// `[NAME]` and `[/NAME]`.
fn square(rest: &str) -> Option<usize> {
    let name = rest.strip_prefix('/').unwrap_or(rest);
    let end = closed(name, |c| c == ']', |c| c.is_ascii_alphanumeric() || c == '_')?;
    let word = name.get(..end - 1)?;
    let number = word.strip_prefix("control_").is_some_and(|n| n.parse::<u32>().is_ok());
    (SQUARE.contains(&word) || number).then_some(rest.len() - name.len() + end)
}

/// How many bytes a name and what closes it are.
fn closed(
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

/// Whether a character may stand in the name of a mark between bars or brackets.
fn word(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-.▁".contains(c)
}
