//! Whether arguments fit a tool's schema, and where not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use deputize_core::{Schema, ToolName, ToolSpec};
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

/// How many mistakes of one call are told.
const MOST_TOLD: usize = 8;
/// The longest value that an error repeats, in bytes of JSON.
const LONGEST_FOUND: usize = 120;

/// Checks arguments. Schemas are compiled at their first use, once a tool.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    compiled: Mutex<BTreeMap<ToolName, Arc<Validator>>>,
}

impl Checker {
    /// Parses and checks the arguments of a call.
    ///
    /// # Errors
    /// With a text for the model that names each mistake and its place.
    pub(crate) fn check(&self, spec: &ToolSpec, arguments: &str) -> Result<Value, String> {
        let name = &spec.decl.name;
        let text = if arguments.trim().is_empty() { "{}" } else { arguments };
        let value: Value = serde_json::from_str(text).map_err(|error| {
            format!("the arguments of {name} are not JSON: {error}. Send one JSON object.")
        })?;
        let validator = self.validator(name, &spec.decl.parameters)?;
        match mistakes(&validator, &value, "the arguments") {
            None => Ok(value),
            Some(told) => Err(format!("the arguments of {name} do not fit its schema:\n{told}")),
        }
    }

    fn validator(&self, name: &ToolName, schema: &Schema) -> Result<Arc<Validator>, String> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(validator) = compiled.get(name) {
            return Ok(Arc::clone(validator));
        }
        let validator = jsonschema::validator_for(&schema.to_value())
            .map_err(|error| format!("the schema of {name} is not usable: {error}"))?;
        let validator = Arc::new(validator);
        compiled.insert(name.clone(), Arc::clone(&validator));
        Ok(validator)
    }
}

/// What is wrong with a value, a line for each mistake; nothing when it fits. `whole` names
/// the value itself.
pub(crate) fn mistakes(validator: &Validator, value: &Value, whole: &str) -> Option<String> {
    let mut told: Vec<String> = Vec::new();
    let mut more = 0;
    for error in validator.iter_errors(value) {
        if told.len() == MOST_TOLD {
            more += 1;
            continue;
        }
        let path = error.instance_path().to_string();
        let place = if path.is_empty() { whole.to_owned() } else { path };
        told.push(format!("{place}: {}", words(&error)));
    }
    if more > 0 {
        told.push(format!("and {more} more mistakes"));
    }
    (!told.is_empty()).then(|| told.join("\n"))
}

/// What is expected, and what was found where that is short.
fn words(error: &ValidationError<'_>) -> String {
    let found = error.instance().to_string();
    if found.len() <= LONGEST_FOUND { error.to_string() } else { error.masked().to_string() }
}
