//! Parses a plugin's answers.

use std::collections::BTreeMap;

use deputize_core::sanitize::for_terminal_line;
use deputize_core::{ToolCallResult, ToolError, ToolOutput};
use serde_json::value::RawValue;

use crate::error::PluginError;

/// Maximum number of notes in an answer.
const MAX_REMARKS: usize = 32;
/// Maximum characters shown of an invalid answer.
const SHOWN_CHARS: usize = 120;

/// An answer to a call.
#[derive(Debug)]
pub(crate) enum ParsedAnswer<'a> {
    Ok { json: &'a str, notes: Vec<String> },
    Refused(String),
    Failed(String),
    Cancelled(&'a str),
    Panicked,
}

/// Parses an answer.
pub(crate) fn parse_answer(answer: &str) -> Result<ParsedAnswer<'_>, PluginError> {
    let wrong = |why: &str| {
        let shown = for_terminal_line(answer, SHOWN_CHARS);
        PluginError::Answer(format!("{why}: `{shown}`"))
    };
    let members: BTreeMap<&str, &RawValue> = serde_json::from_str(answer).map_err(|error| {
        // It may repeat the answer, of any length.
        let why = for_terminal_line(&error.to_string(), SHOWN_CHARS);
        wrong(&format!("it is not JSON as agreed ({why})"))
    })?;
    let text = |json: &RawValue| serde_json::from_str::<String>(json.get());
    let words = |json: &RawValue| text(json).map_err(|_| wrong("its words are no text"));
    let mut found = None;
    for (name, json) in &members {
        let one = match *name {
            "ok" => ParsedAnswer::Ok { json: json.get(), notes: notes(&members) },
            "refused" => ParsedAnswer::Refused(words(json)?),
            "failed" => ParsedAnswer::Failed(words(json)?),
            "cancelled" => ParsedAnswer::Cancelled(json.get()),
            "panicked" => ParsedAnswer::Panicked,
            // A later plugin may say more.
            _ => continue,
        };
        if found.replace(one).is_some() {
            return Err(wrong("it says two things at once"));
        }
    }
    found.ok_or_else(|| wrong("it says neither ok, refused, failed, cancelled nor panicked"))
}

fn notes(members: &BTreeMap<&str, &RawValue>) -> Vec<String> {
    let notes = members.get("notes").map(|json| json.get()).unwrap_or_default();
    let mut notes: Vec<String> = serde_json::from_str(notes).unwrap_or_default();
    notes.truncate(MAX_REMARKS);
    notes
}

/// Returns the result of a call from its answer.
pub(crate) fn tool_result(tool: &str, answer: &str) -> ToolCallResult {
    match parse_answer(answer).map_err(ToolError::failed)? {
        ParsedAnswer::Ok { json, notes } => {
            let mut output = ToolOutput::text(content(json));
            output.notes = notes;
            Ok(output)
        }
        ParsedAnswer::Refused(text) => Err(ToolError::refused(text)),
        ParsedAnswer::Failed(text) => Err(ToolError::failed(PluginError::Failed(text))),
        ParsedAnswer::Cancelled(json) => {
            let content = if json == "null" { String::new() } else { content(json) };
            Err(ToolError::Cancelled(Box::new(ToolOutput::text(content))))
        }
        ParsedAnswer::Panicked => Err(ToolError::failed(PluginError::Panicked(tool.to_owned()))),
    }
}

/// Returns a string as it is, and any other value as its JSON text.
fn content(json: &str) -> String {
    serde_json::from_str(json).unwrap_or_else(|_| json.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(answer: &str) -> String {
        match tool_result("count", answer) {
            Ok(output) => format!("{} {:?}", output.content, output.notes),
            Err(ToolError::Failed(source)) => format!("failed: {source}"),
            Err(ToolError::Cancelled(output)) => format!("cancelled: {}", output.content),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn each_answer_is_what_it_says() {
        for (answer, expected) in [
            (r#"{"ok":"a\nb"}"#, "a\nb []"),
            (r#"{"ok":{"n":[1, 2.50]}}"#, "{\"n\":[1, 2.50]} []"),
            (r#"{"ok":null}"#, "null []"),
            (r#"{"ok":1,"notes":["cut"],"later":true}"#, "1 [\"cut\"]"),
            (r#"{"refused":"give a path"}"#, "refused: give a path"),
            (r#"{"failed":"no disk"}"#, "failed: the plugin says: no disk"),
            (r#"{"cancelled":"half"}"#, "cancelled: half"),
            (r#"{"cancelled":null}"#, "cancelled: "),
            (
                r#"{"panicked":true}"#,
                "failed: tool `count` panicked in its plugin; its other calls still work",
            ),
        ] {
            assert_eq!(describe(answer), expected);
        }
    }

    #[test]
    fn what_is_no_answer_is_shown_in_part() {
        for (answer, word) in [
            ("", "it is not JSON as agreed"),
            ("garbage \u{1b}[2J", "`garbage`"),
            ("[1]", "it is not JSON as agreed"),
            ("{}", "it says neither ok"),
            (r#"{"ok":1,"failed":"x"}"#, "two things at once"),
            (r#"{"refused":7}"#, "its words are no text"),
            (r#"{"ok":1"#, "EOF"),
        ] {
            let actual = describe(answer);
            assert!(actual.contains(word) && actual.len() < 300, "{answer}: {actual}");
        }
        let long = describe(&format!("\"{}\"", "long ".repeat(100_000)));
        assert!(long.contains("invalid type") && long.chars().count() < 400, "{long}");
    }
}
