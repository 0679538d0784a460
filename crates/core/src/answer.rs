//! Answers as data: what a model is told of the schema that its answer must satisfy, and how a
//! value is found in what it says.

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

/// How often a model may correct an answer that misses its schema.
pub const CORRECTIONS: u32 = 2;

impl AgentSpec {
    /// The same agent with an answer that must satisfy a JSON Schema. Its task ends with what
    /// the model has to know of that.
    #[must_use]
    pub fn answering(mut self, schema: Value) -> Self {
        let text = fill(SCHEMA, &[("schema", &schema.to_string())]).unwrap_or_default();
        self.task = format!("{}\n\n{}", self.task.trim_end(), text.trim_end());
        self.output_schema = Some(schema);
        self
    }

    /// The same agent with an answer that is a value of a type; [`Outcome::value`] gives it.
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
    /// The agent gave none that satisfies its schema.
    #[error("the agent gave no value: {0}")]
    None(String),
    /// The value is of another type.
    #[error("the agent's value is not of the type asked for")]
    Type(#[source] serde_json::Error),
}

impl Outcome {
    /// The value that the answer is, of the type that the agent was asked for.
    ///
    /// # Errors
    /// When it gave none, or one of another type.
    pub fn value<T: DeserializeOwned>(&self) -> Result<T, ValueError> {
        let value = self.output.clone().ok_or_else(|| {
            let why = self.error.clone();
            ValueError::None(why.unwrap_or_else(|| "it was asked for text".to_owned()))
        })?;
        serde_json::from_value(value).map_err(ValueError::Type)
    }
}

/// Returns the JSON value that an answer is, or the last complete objects and arrays in it, in the
/// order in which they stand there.
///
/// Prose and fences may stand around a value. What stands inside other brackets does not count,
/// nor what stands inside a value that is not complete. A fenced block may hold any JSON value.
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

/// What the model is told of an answer that misses its schema.
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
