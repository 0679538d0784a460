//! How marks of chat formats are spelled. What is a mark and what is none: see `marks`.

/// First characters of marks.
pub(super) const FIRST: [char; 3] = ['<', '[', '◁'];
/// A mark that ordinary text contains too.
const USAGE: &str = "[ARGS]";
/// Maximum length of a name in a mark, in bytes.
pub(super) const LONGEST_NAME: usize = 64;

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

/// Returns the mark at the beginning of content.
pub(super) fn mark_in_content(text: &str) -> Option<&str> {
    let mark = mark(text)?;
    let is_usage = mark == USAGE && !text.get(mark.len()..)?.starts_with('{');
    (!is_usage).then_some(mark)
}

/// Returns the beginning of a text that is spelled like a mark.
pub(super) fn mark(text: &str) -> Option<&str> {
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
