//! The schema that a call demands of an answer.

use deputize_core::sanitize::{for_terminal_line, visible_json};
use deputize_core::schema::bounded_schema;
use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

/// Limit on the description of a schema error, in characters.
const WRONG_CHARS: usize = 300;

/// Returns the schema that a value of a call is; `None` if it demands nothing.
///
/// # Errors
/// The remedy, if it is no schema that an answer can be checked against.
pub(super) fn answer_schema(value: &Value) -> Result<Option<Value>, String> {
    // Answers are checked without what nobody sees: what they must be has to be without it too.
    let schema = visible_json(value);
    let wrong = match &schema {
        Value::Null => return Ok(None),
        // It demands nothing.
        Value::Object(parts) if parts.is_empty() => return Ok(None),
        Value::Object(_) => schema_mistake(&schema),
        _ => Some("it is no object".to_owned()),
    };
    match wrong {
        None => Ok(Some(schema)),
        Some(wrong) => Err(format!("`output_schema` must be a JSON Schema: {wrong}")),
    }
}

/// Why a schema is none, if so, on one line.
pub(super) fn schema_mistake(schema: &Value) -> Option<String> {
    let wrong = match bounded_schema(schema) {
        Err(error) => error.to_string(),
        Ok(_) => no_schema(&jsonschema::validator_for(schema).err()?),
    };
    Some(for_terminal_line(&wrong, WRONG_CHARS))
}

/// Why a value is no JSON Schema, and where in it.
fn no_schema(error: &ValidationError<'_>) -> String {
    let path = error.instance_path().to_string();
    let at = if path.is_empty() { String::new() } else { format!("at `{path}`: ") };
    match error.kind() {
        // Also what no part of it leads to must be there.
        ValidationErrorKind::Referencing(_) => {
            "it refers to something outside itself; put that under `$defs`".to_owned()
        }
        // What would be allowed there is said in terms of schemas about schemas.
        ValidationErrorKind::AnyOf { .. } | ValidationErrorKind::OneOfNotValid { .. } => {
            format!("{at}{} is nothing that may stand there", error.instance())
        }
        _ => format!("{at}{error}"),
    }
}
