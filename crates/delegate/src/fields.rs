//! The fields of a call, read leniently where models err: what all tools of delegation share.

use std::collections::BTreeSet;

use deputize_core::sanitize::{clean, for_terminal_line};
use serde_json::{Map, Value};

use crate::call_error::{CallError, CallErrorCode};

/// Limit on the unknown fields that a warning names.
const NAMED_FIELDS: usize = 10;
/// Limit on a foreign word in a warning, in characters.
pub(crate) const WORD_CHARS: usize = 60;

/// Mistakes and warnings of a call.
#[derive(Debug, Default)]
pub(crate) struct CallFindings {
    pub(crate) errors: Vec<CallError>,
    /// Deviations from the text of the call, and ignored parts.
    pub(crate) warnings: Vec<String>,
}

/// The fields of a call, or of one of its tasks.
pub(crate) struct Fields<'a> {
    pub(crate) map: &'a Map<String, Value>,
    /// Index of the task; `None` means the call itself.
    pub(crate) task: Option<u32>,
}

impl Fields<'_> {
    /// A field that says something: `null`, blank text and an empty list say nothing.
    pub(crate) fn present(&self, field: &str) -> Option<&Value> {
        self.map.get(field).filter(|value| match value {
            Value::Null => false,
            Value::String(text) => !text.trim().is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Bool(_) | Value::Number(_) | Value::Object(_) => true,
        })
    }

    /// Where this is, for the beginning of a sentence.
    pub(crate) fn place(&self) -> String {
        self.task.map(|index| format!("task {index}: ")).unwrap_or_default()
    }

    pub(crate) fn error(
        &self,
        code: CallErrorCode,
        field: &str,
        value: &Value,
        remedy: &str,
    ) -> CallError {
        CallError::new(code, self.task, field, value, format!("{}{remedy}", self.place()))
    }

    /// Returns a text without invisible characters; removing any adds a warning.
    pub(crate) fn text(&self, field: &str, faults: &mut CallFindings) -> Option<String> {
        let value = self.present(field)?;
        let Some(text) = value.as_str() else {
            let remedy = format!("`{field}` must be a text");
            faults.errors.push(self.error(CallErrorCode::Type, field, value, &remedy));
            return None;
        };
        let cleaned = clean(text);
        for note in cleaned.notes() {
            faults.warnings.push(format!("{}`{field}`: {note}", self.place()));
        }
        Some(cleaned.text.into_owned()).filter(|text| !text.trim().is_empty())
    }

    /// A list, also as JSON in a text; `Err`: the field holds something else.
    pub(crate) fn list(&self, field: &str) -> Option<Result<Vec<Value>, &Value>> {
        let value = self.present(field)?;
        match decode(value).unwrap_or_else(|| value.clone()) {
            Value::Null => None,
            Value::Array(items) => Some(items).filter(|items| !items.is_empty()).map(Ok),
            _ => Some(Err(value)),
        }
    }

    /// Names in a list.
    pub(crate) fn names(
        &self,
        field: &str,
        example: &str,
        faults: &mut CallFindings,
    ) -> Option<BTreeSet<String>> {
        let name = |item: &Value| item.as_str().map(|name| name.trim().to_owned());
        let names = self.list(field)?.ok().and_then(|items| items.iter().map(name).collect());
        if names.is_none() {
            let value = self.map.get(field).unwrap_or(&Value::Null);
            let remedy = format!("`{field}` must be a list of names, such as [\"{example}\"]");
            faults.errors.push(self.error(CallErrorCode::Type, field, value, &remedy));
        }
        names
    }

    /// Returns whether something holds; `None` if it is not said.
    pub(crate) fn flag(&self, field: &str, faults: &mut CallFindings) -> Option<bool> {
        let value = self.present(field)?;
        let word = value.as_str().map(|word| word.trim().to_ascii_lowercase());
        match (value, word.as_deref()) {
            (Value::Bool(holds), _) => Some(*holds),
            (_, Some("true")) => Some(true),
            (_, Some("false")) => Some(false),
            _ => {
                let remedy = format!("`{field}` must be true or false");
                faults.errors.push(self.error(CallErrorCode::Type, field, value, &remedy));
                None
            }
        }
    }

    /// One of these words.
    pub(crate) fn choice(
        &self,
        field: &str,
        code: CallErrorCode,
        words: &[&'static str],
        faults: &mut CallFindings,
    ) -> Option<&'static str> {
        let value = self.present(field)?;
        let said = value.as_str().map(|word| word.trim().to_ascii_lowercase());
        let word = words.iter().find(|word| Some(**word) == said.as_deref());
        if word.is_none() {
            let remedy = format!("`{field}` must be one of {}", words.join(", "));
            faults.errors.push(self.error(code, field, value, &remedy));
        }
        word.copied()
    }

    /// Warns of the fields that nothing reads, if there are any.
    pub(crate) fn warn_unknown(&self, is_known: impl Fn(&str) -> bool, faults: &mut CallFindings) {
        let mut unknown: Vec<&String> = self.map.keys().filter(|field| !is_known(field)).collect();
        unknown.sort();
        if unknown.is_empty() {
            return;
        }
        let named: Vec<String> = unknown
            .iter()
            .take(NAMED_FIELDS)
            .map(|field| format!("`{}`", for_terminal_line(field, WORD_CHARS)))
            .collect();
        let more = match unknown.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let s = if unknown.len() == 1 { "" } else { "s" };
        let place = self.place();
        let named = named.join(", ");
        faults.warnings.push(format!("{place}unknown field{s} {named}{more} ignored"));
    }
}

/// The fields of a call, also as JSON in a text.
///
/// # Errors
/// When the arguments are no object; `holding` says what one would hold.
pub(crate) fn object(
    arguments: &Value,
    holding: &str,
) -> Result<Map<String, Value>, Box<CallError>> {
    match decode(arguments).unwrap_or_else(|| arguments.clone()) {
        Value::Null => Ok(Map::new()),
        Value::Object(map) => Ok(map),
        _ => {
            let broken = broken(arguments);
            let remedy = format!("the arguments must be one JSON object with {holding}{broken}");
            Err(Box::new(CallError::new(CallErrorCode::Arguments, None, "", arguments, remedy)))
        }
    }
}

/// Where arguments break off that were meant to be an object.
fn broken(arguments: &Value) -> String {
    let text = arguments.as_str().filter(|text| text.trim_start().starts_with('{'));
    let error = text.and_then(|text| serde_json::from_str::<Value>(text).err());
    error.map(|error| format!(", and these are no JSON: {error}")).unwrap_or_default()
}

/// Why a text holds no JSON, if it holds none.
pub(crate) fn not_json(value: &Value) -> Option<String> {
    let error = serde_json::from_str::<Value>(value.as_str()?).err()?;
    Some(error.to_string())
}

/// Returns the JSON value in a text, if it is one.
pub(crate) fn decode(value: &Value) -> Option<Value> {
    serde_json::from_str(value.as_str()?).ok()
}
