//! Answers that must satisfy a schema: checked when the model is done, and asked for again.

use deputize_core::{Event, JournalError, Status, Step, bounded_schema, value_in};
use serde_json::Value;

use crate::driver::Driver;
use crate::validate::mistakes;

impl Driver {
    /// Checks the answer that the loop ended with, at a limit too. Tells whether it misses its
    /// schema: then it is asked for again, or, where it cannot be, has failed.
    pub(crate) async fn check_answer(&mut self) -> Result<bool, JournalError> {
        let Step::Done(end) = self.run.step() else { return Ok(false) };
        let (Some(schema), Status::Completed) = (&self.view.spec.output_schema, end.status) else {
            return Ok(false);
        };
        match value_of(schema, end.text.as_deref().unwrap_or_default()) {
            Ok(_) => Ok(false),
            Err(mistakes) => {
                self.input(Event::AnswerRejected { mistakes }).await?;
                Ok(true)
            }
        }
    }

    /// The answer as a value, if it is to be one and is.
    pub(crate) fn answer_value(&self, text: Option<&str>) -> Option<Value> {
        value_of(self.view.spec.output_schema.as_ref()?, text?).ok()
    }
}

/// The value of an answer, or what is wrong with it, for the model.
pub(crate) fn value_of(schema: &Value, answer: &str) -> Result<Value, String> {
    let value = value_in(answer).ok_or("it is not one JSON value")?;
    bounded_schema(schema).map_err(|error| format!("the schema itself cannot be used: {error}"))?;
    let validator = jsonschema::validator_for(schema);
    let validator = validator.map_err(|error| format!("the schema itself is none: {error}"))?;
    match mistakes((&validator, || schema.clone()), &value, "the answer") {
        None => Ok(value),
        Some(mistakes) => Err(mistakes),
    }
}
