//! `task`: the same machinery for models that are trained on a tool of this name. One text in,
//! one text out.

use deputize_core::sanitize::clean;
use serde_json::{Map, Value};

use crate::call_error::{CallError, CallErrorCode};
use crate::fields::{CallFindings, Fields};
use crate::parsed_call::{DESCRIPTION, ParsedCall, RequestedTask};
use crate::placeholder::{PLACEHOLDER, is_placeholder};

/// Reads the arguments of a call of `task`.
pub(crate) fn read_task(arguments: &Value) -> ParsedCall {
    let mut faults = CallFindings::default();
    let none = Map::new();
    // Some models send the text itself.
    let (text, fields) = match arguments {
        Value::Object(fields) => (fields.get(DESCRIPTION), fields),
        other => (Some(other), &none),
    };
    Fields { map: fields, task: None }.warn_unknown(|field| field == DESCRIPTION, &mut faults);
    let CallFindings { errors, warnings } = faults;
    let mut out = ParsedCall { count: 1, errors, warnings, ..ParsedCall::default() };
    match text {
        Some(Value::String(text)) => {
            let cleaned = clean(text);
            let notes = cleaned.notes().into_iter();
            out.warnings.extend(notes.map(|note| format!("`{DESCRIPTION}`: {note}")));
            let goal = cleaned.text.into_owned();
            if goal.trim().is_empty() {
                out.errors.push(blank(&Value::String(text.clone())));
            } else if is_placeholder(&goal) {
                let value = Value::String(goal.clone());
                let remedy = PLACEHOLDER.replace("`goal`", &format!("`{DESCRIPTION}`"));
                let code = CallErrorCode::Goal;
                out.errors.push(CallError::new(code, None, DESCRIPTION, &value, remedy));
            }
            out.tasks.push(RequestedTask { goal, ..RequestedTask::default() });
        }
        None | Some(Value::Null) => out.errors.push(blank(&Value::Null)),
        Some(other) => {
            let remedy = format!("`{DESCRIPTION}` must be a text");
            out.errors.push(CallError::new(CallErrorCode::Type, None, DESCRIPTION, other, remedy));
        }
    }
    out
}

fn blank(value: &Value) -> CallError {
    let remedy = format!("give a `{DESCRIPTION}` that says what to do, complete in itself");
    CallError::new(CallErrorCode::Goal, None, DESCRIPTION, value, remedy)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_text_is_read_and_everything_else_is_said() {
        let show = |arguments: Value| {
            let ParsedCall { tasks, errors, warnings, .. } = read_task(&arguments);
            let goals: Vec<String> = tasks.into_iter().map(|task| task.goal).collect();
            let errors: Vec<String> = errors.into_iter().map(|error| error.remedy).collect();
            [goals.join("|"), errors.join("|"), warnings.join("|")].join(" / ")
        };
        let lines = [
            json!({"description": "Count."}),
            json!("Count."),
            json!({"description": " \u{200b}\n"}),
            json!({}),
            json!({"description": ["Count."]}),
            json!({"description": "Count.", "subagent_type": "x", "prompt": "y"}),
            json!(7),
        ];
        insta::assert_snapshot!(lines.map(show).join("\n"));
    }
}
