//! Typed answers: the texts for the model about the schema of its answer, and finding a value in
//! the answer.

use serde_json::Value;

use crate::prompt::fill;

mod values;

pub use values::AnswerValue;

const SCHEMA: &str = include_str!("../prompts/answer_schema.md");
const REJECTED: &str = include_str!("../prompts/answer_rejected.md");

/// Maximum corrections of an answer that does not match its schema.
pub const CORRECTIONS: u32 = 2;

/// Returns the JSON value that an answer is, or the last complete objects and arrays in it, in
/// order.
///
/// Prose and fences may surround a value. Values inside other brackets or inside an incomplete
/// value do not count. A fenced block may hold any JSON value.
///
/// ```
/// let answer = "Two files fit.\n```json\n{\"files\": 2}\n```\nThey are those of [1].";
/// let values = deputize_core::answer::values_in(answer);
/// assert_eq!(values[0].value, serde_json::json!({"files": 2}));
/// assert_eq!(values[1].value, serde_json::json!([1]));
/// ```
#[must_use]
pub fn values_in(answer: &str) -> Vec<AnswerValue<'_>> {
    let answer = answer.trim();
    match serde_json::from_str(answer) {
        Ok(value) => vec![AnswerValue { value, text: answer, fenced: false }],
        Err(_) => values::values(answer).into(),
    }
}

/// Returns a task followed by instructions to answer it with a value that matches a schema.
pub(crate) fn with_schema(task: &str, schema: &Value) -> String {
    let text = fill(SCHEMA, &[("schema", &schema.to_string())]).unwrap_or_default();
    format!("{}\n\n{}", task.trim_end(), text.trim_end())
}

/// Returns the message to the model about an answer that does not match its schema.
#[must_use]
pub fn rejection(mistakes: &str) -> String {
    fill(REJECTED, &[("mistakes", mistakes)]).unwrap_or_default().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(answer: &str) -> Option<Value> {
        values_in(answer).pop().map(|found| found.value)
    }

    #[test]
    fn a_value_is_found_bare_or_among_prose_and_fences() {
        let one = Some(serde_json::json!({"a": 1}));
        for answer in [
            r#" {"a": 1} "#,
            "```json\n{\"a\": 1}\n```",
            "Here it is:\n```\n{\"a\":\n1}\n```\nDone.",
            "{\"a\": 1} and more",
            "First I had {\"a\": 2}, but it is {\"a\": 1}.",
            "```\n{}\n```\n```\n{\"a\": 1}\n```",
            "The set {x, y} [see below]: {\"a\": 1} :-)",
            "`{\"a\": 1}`",
            "Open with { and then\n{\"a\": 1}",
            "{\"a\": 1} but not {\"a\": 2",
        ] {
            assert_eq!(last(answer), one, "{answer}");
        }
        let text = Some(serde_json::json!({"a": "```\n{\"b\": 1}\n```"}));
        assert_eq!(last(&format!("So:\n{}", text.clone().unwrap())), text);
        for answer in ["42", "The answer:\n```json\n42\n```", "[1]\n```\n42\n```\nis it"] {
            assert_eq!(last(answer), Some(serde_json::json!(42)), "{answer}");
        }
        for answer in [
            "a = 1",
            "It is 42.",
            "```json",
            "",
            "[",
            "{'a': {\"b\": 1}}",
            "{\"a\": {\"b\": 1}",
            "{\"a\": {\"b\": 1},}",
        ] {
            assert_eq!(last(answer), None, "{answer}");
        }
    }
}
