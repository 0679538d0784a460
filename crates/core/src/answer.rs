//! Answers as data: what a model is told of the schema that its answer must satisfy, and how a
//! value is found in what it says.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::agent::AgentSpec;
use crate::outcome::Outcome;
use crate::prompt::fill;
use crate::schema::plain_schema;

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

/// The JSON value that an answer is: bare, or alone in one fenced block. Other words around it
/// are allowed only outside of a fence.
#[must_use]
pub fn value_in(answer: &str) -> Option<Value> {
    let answer = answer.trim();
    if let Ok(value) = serde_json::from_str(answer) {
        return Some(value);
    }
    let (_, rest) = answer.split_once("```")?;
    let (_language, rest) = rest.split_once('\n')?;
    let (block, rest) = rest.rsplit_once("```")?;
    // Two blocks are two answers.
    if rest.contains("```") || block.contains("\n```") {
        return None;
    }
    serde_json::from_str(block.trim()).ok()
}

/// What the model is told of an answer that misses its schema.
#[must_use]
pub fn rejection(mistakes: &str) -> String {
    fill(REJECTED, &[("mistakes", mistakes)]).unwrap_or_default().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_bare_or_in_one_block() {
        let one = Some(serde_json::json!({"a": 1}));
        for answer in [
            r#" {"a": 1} "#,
            "```json\n{\"a\": 1}\n```",
            "Here it is:\n```\n{\"a\":\n1}\n```\nDone.",
        ] {
            assert_eq!(value_in(answer), one, "{answer}");
        }
        for answer in ["a = 1", "{\"a\": 1} and more", "```\n{}\n```\n```\n{}\n```", "```json", ""]
        {
            assert_eq!(value_in(answer), None, "{answer}");
        }
    }
}
