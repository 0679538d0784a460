//! Typed answers: the text for the model about the schema of its answer, and finding a value in the
//! answer.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::agent::AgentSpec;
use crate::outcome::Outcome;
use crate::prompt::fill;
use crate::schema::plain_schema;

mod values;

pub use values::AnswerValue;

const SCHEMA: &str = include_str!("../prompts/answer_schema.md");
const REJECTED: &str = include_str!("../prompts/answer_rejected.md");

/// Maximum corrections of an answer that does not match its schema.
pub const CORRECTIONS: u32 = 2;

impl AgentSpec {
    /// Requires an answer that matches a JSON Schema, and appends the schema with instructions to
    /// the task.
    #[must_use]
    pub fn answering(mut self, schema: Value) -> Self {
        let text = fill(SCHEMA, &[("schema", &schema.to_string())]).unwrap_or_default();
        self.task = format!("{}\n\n{}", self.task.trim_end(), text.trim_end());
        self.output_schema = Some(schema);
        self
    }

    /// Requires an answer that is a value of a type; [`Outcome::value`] returns it.
    ///
    /// ```
    /// use deputize_core::{AgentSpec, Outcome};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Count {
    ///     /// How many tests there are.
    ///     tests: u32,
    /// }
    ///
    /// fn before(spec: AgentSpec) -> AgentSpec {
    ///     spec.answering_as::<Count>()
    /// }
    ///
    /// fn after(outcome: &Outcome) -> Result<u32, deputize_core::ValueError> {
    ///     Ok(outcome.value::<Count>()?.tests)
    /// }
    /// ```
    #[must_use]
    pub fn answering_as<T: schemars::JsonSchema>(self) -> Self {
        self.answering(plain_schema::<T>())
    }
}

/// Why an outcome has no value of a type.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// The agent gave no value that matches its schema.
    #[error("the agent gave no value: {0}")]
    None(String),
    /// The value has another type.
    #[error("the agent's value is not of the type asked for")]
    Type(#[source] serde_json::Error),
}

impl Outcome {
    /// Returns the typed answer as a value of the requested type.
    ///
    /// # Errors
    /// If the agent gave no value, or one of another type.
    pub fn value<T: DeserializeOwned>(&self) -> Result<T, ValueError> {
        let value = self.output.clone().ok_or_else(|| {
            let why = self.error.clone();
            ValueError::None(why.unwrap_or_else(|| "it was asked for text".to_owned()))
        })?;
        serde_json::from_value(value).map_err(ValueError::Type)
    }
}

/// Returns the JSON value that an answer is, or the last complete objects and arrays in it, in
/// order.
///
/// Prose and fences may surround a value. Values inside other brackets or inside an incomplete
/// value do not count. A fenced block may hold any JSON value.
///
/// ```
/// let answer = "Two files fit.\n```json\n{\"files\": 2}\n```\nThey are those of [1].";
/// let values = deputize_core::values_in(answer);
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
