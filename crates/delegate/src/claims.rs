//! Files that an answer says were written: pure. What was written is for the host to know; this
//! only finds what to look up.

mod english;
mod sentence;
mod words;

use serde_json::Value;
use serde_json::value::RawValue;

use self::sentence::{claims, is_claim, is_foreign, is_told, listed};
use self::words::{Token, path, tokens};

/// How many names of one answer are looked up.
const MOST: usize = 20;
/// How long a line is at most in which somebody tells something, in bytes, and a sentence of it, in
/// words and marks. Reading one takes time by the square of its words.
const LINE_BYTES: usize = 16 * 1024;
const SENTENCE: usize = 400;
/// What stands around a value in an answer with other words.
const FENCE: &str = "```";
/// Of how many words a value is one that tells what was done to a file.
const WORDS: usize = 2;

/// The paths that an answer names as written, each once: in its value, if it has one, and in the
/// text around that.
pub(crate) fn named_as_written<'a>(answer: &'a str, value: Option<&'a Value>) -> Vec<&'a str> {
    let mut found = Vec::new();
    match value {
        None => in_text(answer, &mut found),
        Some(value) => {
            in_value(value, false, &mut found);
            let bare = serde_json::from_str::<&RawValue>(answer).is_ok();
            if let Some((before, block)) = answer.split_once(FENCE).filter(|_| !bare) {
                let after = block.rsplit_once(FENCE).map_or("", |(_, after)| after);
                [before, after].into_iter().for_each(|text| in_text(text, &mut found));
            }
        }
    }
    found
}

fn add<'a>(path: &'a str, found: &mut Vec<&'a str>) {
    if !found.contains(&path) && found.len() < MOST {
        found.push(path);
    }
}

/// In a value: below a key that says it (`files_written`, `created`), beside a word that does
/// (`"action": "created"`, `"written": true`), or in a text that does.
fn in_value<'a>(value: &'a Value, said: bool, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) if said => {
            let words = || text.split([' ', ',', '\n', '\t']).filter(|word| !word.is_empty());
            // `src/a.rs (new)`, but not `docs/b.md asks for it`.
            let remark = words().nth(1).is_none_or(|word| !word.starts_with(char::is_alphanumeric));
            let all = words().all(|word| path(word).is_some());
            let most = if all { MOST } else { usize::from(remark) };
            words().take(most).filter_map(path).for_each(|path| add(path, found));
            in_text(text, found);
        }
        Value::String(text) => in_text(text, found),
        Value::Array(items) => items.iter().for_each(|item| in_value(item, said, found)),
        Value::Object(map) => {
            let beside = map.iter().any(|(key, value)| match value {
                Value::Bool(true) => key_says_written(key),
                Value::String(word) => {
                    word.split_whitespace().count() <= WORDS && is_told(&tokens(word))
                }
                _ => false,
            });
            for (key, value) in map {
                let denied = matches!(value, Value::Null | Value::Bool(false));
                if let Some(path) = path(key).filter(|_| said && !denied) {
                    add(path, found);
                }
                let said = said || key_says_written(key) || (beside && value.is_string());
                in_value(value, said, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether a key says that something was written: `files_written`, `filesWritten`.
fn key_says_written(key: &str) -> bool {
    let mut words = String::with_capacity(key.len());
    for c in key.chars() {
        if c.is_uppercase() {
            words.push(' ');
        }
        words.push(if c.is_alphanumeric() { c } else { ' ' });
    }
    is_told(&tokens(&words))
}

/// What a list, a table or a block of names stands below.
#[derive(Clone, Copy, PartialEq)]
enum ListHeading {
    Text,
    /// A line that says that they were written, and how far the items are indented.
    Claim(Option<usize>),
    /// A line that is about somebody else's work, or about what is only to be.
    Others,
}

impl ListHeading {
    fn label(label: &[Token<'_>]) -> Self {
        match label {
            label if is_claim(label) => Self::Claim(None),
            label if is_foreign(label) => Self::Others,
            _ => Self::Text,
        }
    }

    fn item(self, indent: usize) -> Self {
        match self {
            Self::Claim(None) => Self::Claim(Some(indent)),
            Self::Claim(Some(first)) if indent < first => Self::Text,
            same => same,
        }
    }
}

/// In a sentence that says so, or in a list, a table or a block of names below a line or heading
/// that does.
fn in_text<'a>(text: &'a str, found: &mut Vec<&'a str>) {
    let (mut below, mut fenced) = (ListHeading::Text, false);
    for raw in text.lines() {
        let line = raw.trim();
        if line.starts_with(FENCE) {
            fenced = !fenced;
            below = if fenced { below } else { ListHeading::Text };
        } else if fenced {
            // Of other blocks nobody knows whose words they are.
            let named = path(line.split_once(" (").map_or(line, |(name, _)| name));
            let claimed = matches!(below, ListHeading::Claim(_));
            named.filter(|_| claimed).into_iter().for_each(|path| add(path, found));
        } else if !(line.is_empty() || line.starts_with('>') || line.len() > LINE_BYTES) {
            let indent = raw.len() - raw.trim_start().len();
            below = in_line(line, indent, below, found);
        }
    }
}

/// In a line of text, which stands below something; what the next one stands below.
fn in_line<'a>(
    line: &'a str,
    indent: usize,
    below: ListHeading,
    found: &mut Vec<&'a str>,
) -> ListHeading {
    let item = item(line);
    let words = tokens(item.unwrap_or(line));
    let named = words.iter().any(|word| matches!(word, Token::Name(_)));
    let label = words.strip_suffix(&[Token::Mark(':')]).filter(|_| item.is_none() || !named);
    let label = label.or((item.is_none() && is_heading(line)).then_some(&words));
    let label = label.filter(|label| label.len() <= SENTENCE);
    let below = match (label, item) {
        (Some(label), _) => ListHeading::label(label),
        (None, None) => ListHeading::Text,
        (None, Some(_)) => below.item(indent),
    };
    if item.is_some() && below == ListHeading::Others {
        return below;
    }
    let sentences = words.split_inclusive(|word| word.is_mark(".?"));
    let sentences = sentences.filter(|sentence| sentence.len() <= SENTENCE);
    let mut claimed: Vec<&str> = sentences.flat_map(claims).collect();
    if claimed.is_empty() && item.is_some() && below == ListHeading::Claim(Some(indent)) {
        claimed = listed(&words);
    }
    claimed.into_iter().for_each(|path| add(path, found));
    below
}

/// Whether a line is a heading, by its mark or because all of it is bold.
fn is_heading(line: &str) -> bool {
    let bold = |mark: &str| {
        let inside = line.trim_end_matches(':').strip_prefix(mark);
        inside.and_then(|rest| rest.strip_suffix(mark)).is_some_and(|rest| !rest.contains(mark))
    };
    line.starts_with('#') || bold("**") || bold("__")
}

/// What is in an item of a list or a row of a table: `- a`, `* a`, `• a`, `1. a`, `1) a`, `| a |`.
fn item(line: &str) -> Option<&str> {
    if line.starts_with('|') {
        return Some(line);
    }
    let (mark, rest) = line.split_once(' ')?;
    let number = mark.trim_end_matches(['.', ')']);
    let numbered = number.len() < mark.len() && number.parse::<u32>().is_ok();
    (numbered || matches!(mark, "-" | "*" | "•" | "+")).then_some(rest)
}

#[cfg(test)]
mod tests;
