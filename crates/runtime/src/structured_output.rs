//! Structured output: answers that must satisfy a schema, checked when the model is done, and asked for again.

use std::collections::BTreeSet;

use deputize_core::answer::{AnswerValue, values_in};
use deputize_core::event::JournalError;
use deputize_core::run::{Step, TurnEnd};
use deputize_core::sanitize::{clean, for_terminal_line, restored_json, visible_json};
use deputize_core::schema::bounded_schema;
use deputize_core::{Event, Status};
use serde_json::Value;

use crate::agent_context::AgentContext;
use crate::validate::mistakes;

/// Limit on a shown key, in characters.
const KEY_CHARS: usize = 80;
/// Error of an answer without a value.
const NO_VALUE: &str = "it has no complete JSON value";

/// Checks the answer that the loop ended with, at a limit too. Returns whether it misses its
/// schema: then it is asked for again, or, where it cannot be, has failed. What an agent says
/// to a message after an answer that satisfies the schema need not.
pub(crate) async fn reject_answer(cx: &AgentContext) -> Result<bool, JournalError> {
    let Some(mistakes) = found_mistakes(cx) else { return Ok(false) };
    cx.record(Event::AnswerRejected { mistakes }).await?;
    Ok(true)
}

/// Returns what is wrong with the answer that the loop ended with, if none of the turn satisfies
/// the schema.
fn found_mistakes(cx: &AgentContext) -> Option<String> {
    let schema = cx.view.spec.output_schema.as_ref()?;
    let state = cx.state.read();
    let Step::Done(TurnEnd { status: Status::Completed, .. }) = state.run().step() else {
        return None;
    };
    let answers = state.run().answers();
    if answers.iter().any(|answer| value_of(schema, answer).is_ok()) {
        return None;
    }
    value_of(schema, answers.last().copied().unwrap_or_default()).err()
}

/// Returns the value of the last answer that satisfies the agent's schema.
pub(crate) fn answer_value(cx: &AgentContext) -> Option<Value> {
    let schema = cx.view.spec.output_schema.as_ref()?;
    cx.state.read().run().answers().iter().rev().find_map(|answer| value_of(schema, answer).ok())
}

/// The value of an answer as it is given on, without what a reader cannot see, or what is wrong
/// with it, for the model. It is the last one that satisfies the schema: a reference or an empty
/// list behind it is none.
pub(crate) fn value_of(schema: &Value, answer: &str) -> Result<Value, String> {
    let visible;
    let mut values = values_in(answer);
    if values.is_empty() {
        // A mark of byte order before it, say, is nothing that a model could mend.
        visible = clean(answer).text;
        values = values_in(&visible);
    }
    if values.is_empty() {
        return Err(NO_VALUE.to_owned());
    }
    bounded_schema(schema).map_err(|error| format!("the schema itself cannot be used: {error}"))?;
    let validator = jsonschema::validator_for(schema);
    let validator = validator.map_err(|error| format!("the schema itself is none: {error}"))?;
    let fits = |found: &&AnswerValue<'_>| {
        let value = visible_json(&found.value);
        validator.is_valid(&value) || validator.is_valid(&restored_json(&value))
    };
    let is_meant = |found: &&AnswerValue<'_>| found.fenced || found.value.is_object();
    let found = values.iter().rev().find(fits);
    let found = found.or_else(|| values.iter().rev().find(is_meant)).or(values.last());
    let AnswerValue { value, text, .. } = found.ok_or(NO_VALUE)?;
    if let Some(key) = twice(value) {
        let key = for_terminal_line(&key, KEY_CHARS);
        return Err(format!(
            "two keys of one object are `{key}` once control and invisible characters and marks \
             of chat formats are gone: name them so that a reader can tell them apart"
        ));
    }
    if let Some(integer) = inexact_integer(text) {
        let integer = for_terminal_line(integer, KEY_CHARS);
        return Err(format!(
            "the integer {integer} has more than 64 bits and would not stay exact: write it as a \
             string where the schema allows one, or as a smaller number"
        ));
    }
    let value = visible_json(value);
    let check = |value: &Value| mistakes(&validator, || schema.clone(), value, "the answer");
    let Some(mistakes) = check(&value) else { return Ok(value) };
    // The schema was shown with inert marks, and what it names may be answered so.
    let restored = restored_json(&value);
    if restored != value && check(&restored).is_none() { Ok(restored) } else { Err(mistakes) }
}

/// Returns the first integer of a JSON text that has more than 64 bits. JSON readers make it an
/// inexact floating number.
fn inexact_integer(json: &str) -> Option<&str> {
    let mut rest = json;
    while let Some(at) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        let token = rest.get(at..)?;
        let is_text = token.starts_with('"');
        let length = if is_text { string_length(token) } else { number_length(token) };
        let (token, tail) = token.split_at(length);
        let is_integer = !is_text && token.bytes().all(|b| b == b'-' || b.is_ascii_digit());
        if is_integer && token.parse::<i64>().is_err() && token.parse::<u64>().is_err() {
            return Some(token);
        }
        rest = tail;
    }
    None
}

/// Returns the length of the JSON string that a text begins with.
fn string_length(text: &str) -> usize {
    let mut escaped = true;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |at| at + 1)
}

/// Returns the length of the JSON number that a text begins with.
fn number_length(text: &str) -> usize {
    let is_part = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    text.find(|c| !is_part(c)).unwrap_or(text.len())
}

/// A key that an object has twice as soon as its keys are cleaned.
fn twice(value: &Value) -> Option<String> {
    match value {
        Value::Array(items) => items.iter().find_map(twice),
        Value::Object(entries) => {
            let mut seen = BTreeSet::new();
            let mut keys = entries.keys().map(|key| clean(key).text);
            let again = keys.find(|key| !seen.insert(key.clone()));
            again.map(Into::into).or_else(|| entries.values().find_map(twice))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_invisible_around_a_value_or_in_it_makes_it_none() {
        let schema = json!({"type": "object", "properties": {"a": {"const": "b"}}});
        for answer in
            ["\u{feff}{\"a\": \"b\"}", "\u{200b}```json\n{\"a\u{200b}\": \"\u{200b}b\"}\n```"]
        {
            assert_eq!(value_of(&schema, answer), Ok(json!({"a": "b"})), "{answer:?}");
        }
        let marks = "{\"a\": \"b\", \"html\": \"<s>x</s>\"}";
        assert_eq!(value_of(&schema, marks), Ok(json!({"a": "b", "html": "<s>x</s>"})));
        assert_eq!(value_of(&schema, "a: b"), Err(NO_VALUE.to_owned()));
    }

    #[test]
    fn the_answer_is_the_last_value_that_fits_whatever_follows_it() {
        let schema = json!({
            "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
        });
        for value in ["```json\n{\"n\": 7}\n```", "{\"n\": 7}", "{\"n\": 1}\nNo:\n{\"n\": 7}"] {
            for tail in [
                "Source: [1]",
                "- [ ] review it",
                "It was `[]` before.",
                "An empty one is {}.",
                "Use vec![] for none.",
                "[1], [2] and [3]",
                "```\n[]\n```",
                "```json\n{\"m\": 1}\n```",
            ] {
                let answer = format!("{value}\n{tail}");
                assert_eq!(value_of(&schema, &answer), Ok(json!({"n": 7})), "{answer}");
            }
        }
    }

    #[test]
    fn where_no_value_fits_the_mistakes_are_those_of_the_last_fenced_value_or_object() {
        let schema = json!({
            "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
        });
        for answer in [
            "{\"m\": 1}\n{\"n\": \"seven\"}\nSource: [1]",
            "```json\n\"seven\"\n```\nSources: [1], [2]",
        ] {
            let mistakes = value_of(&schema, answer).unwrap_err();
            assert!(mistakes.contains("seven"), "{mistakes}");
        }
        assert!(value_of(&schema, "As [1] and [2] say.").is_err());
    }

    #[test]
    fn an_integer_beyond_64_bits_is_refused_instead_of_changed() {
        let schema = json!({"type": "object"});
        for number in
            ["18446744073709551616", "-9223372036854775809", "123456789012345678901234567890"]
        {
            let answer = format!("Here:\n```json\n{{\"n\": [1, {number}]}}\n```");
            let mistakes = value_of(&schema, &answer).unwrap_err();
            let words = format!("the integer {number} has more than 64 bits");
            assert!(mistakes.starts_with(&words), "{mistakes}");
        }
        for exact in
            ["18446744073709551615", "-9223372036854775808", "1.5e300", "1e22", "-0.5", "1E+40"]
        {
            let answer = format!("{{\"n\": {exact}}}");
            let value = serde_json::from_str(&answer).unwrap();
            assert_eq!(value_of(&schema, &answer), Ok(value), "{exact}");
        }
        let mistakes = value_of(&schema, "{\"n\": 1}\n{\"n\": 18446744073709551616}").unwrap_err();
        assert!(mistakes.contains("18446744073709551616"), "{mistakes}");
        let text =
            json!({"n": "123456789012345678901234567890", "\\\"": "\" 18446744073709551616"});
        assert_eq!(value_of(&schema, &text.to_string()), Ok(text));
        let answer = "18446744073709551616 is 2^64, or {\"n\": 1.8446744073709552e19}, {\"n\": 18446744073709551616} of:\n\
                      {\"n\": 18446744073709551616.0}\nNot 18446744073709551616.";
        assert_eq!(value_of(&schema, answer), Ok(json!({"n": 18_446_744_073_709_551_616.0})));
    }
}
