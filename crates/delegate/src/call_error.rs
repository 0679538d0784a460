//! Why a call starts no child: all that is wrong with it, at once.

use deputize_core::sanitize::for_terminal_line;
use serde::Serialize;
use serde_json::Value;

/// Limit on a wrong value in an error, in characters.
const VALUE_CHARS: usize = 120;
/// Limit on listed errors, and separately on warnings; more are counted.
const LISTED: usize = 40;

/// Kinds of mistakes. Their words are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallErrorCode {
    /// The arguments are no object.
    Arguments,
    /// Neither a goal nor tasks.
    NoTask,
    /// `tasks` is no list, or not one's JSON.
    Tasks,
    /// A task is no object.
    Task,
    /// A task without a goal.
    Goal,
    /// A field of the wrong kind.
    Type,
    /// A number outside its range.
    Range,
    /// No such toolset.
    Toolset,
    /// More tasks than may run side by side.
    TooManyTasks,
    /// More calls than may run side by side.
    TooManyCalls,
    /// The same call as another one of the step.
    SameCall,
    /// The same task as another one of the call.
    SameTask,
    /// More children than the session may have.
    TooManyChildren,
    /// Somebody wants no new children for now.
    Paused,
    /// The agent may not have children.
    Depth,
    /// Children may not use that model.
    Model,
    /// No such profile, or one that cannot be used.
    Profile,
    /// A child that is an external program would have more than was meant for it.
    External,
    /// The schema of an answer is none.
    Schema,
    /// A child cannot begin with its parent's conversation.
    History,
    /// Background children, where they are switched off.
    BackgroundOff,
    /// A field that this version does not serve.
    NotInThisVersion,
    /// No such action of `delegate_control`.
    Action,
    /// No such agent, or none where one must be named.
    Agents,
    /// A message without a text, or with too long a one.
    Message,
}

impl CallErrorCode {
    /// Returns the code as text, such as `E_TOOLSET`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Arguments => "E_ARGUMENTS",
            Self::NoTask => "E_NO_TASK",
            Self::Tasks => "E_TASKS",
            Self::Task => "E_TASK",
            Self::Goal => "E_GOAL",
            Self::Type => "E_TYPE",
            Self::Range => "E_RANGE",
            Self::Toolset => "E_TOOLSET",
            Self::TooManyTasks => "E_TOO_MANY_TASKS",
            Self::TooManyCalls => "E_TOO_MANY_CALLS",
            Self::SameCall => "E_SAME_CALL",
            Self::SameTask => "E_SAME_TASK",
            Self::TooManyChildren => "E_TOO_MANY_CHILDREN",
            Self::Paused => "E_PAUSED",
            Self::Depth => "E_DEPTH",
            Self::Model => "E_MODEL",
            Self::Profile => "E_PROFILE",
            Self::External => "E_EXTERNAL",
            Self::Schema => "E_SCHEMA",
            Self::History => "E_HISTORY",
            Self::BackgroundOff => "E_BACKGROUND_OFF",
            Self::NotInThisVersion => "E_NOT_IN_THIS_VERSION",
            Self::Action => "E_ACTION",
            Self::Agents => "E_AGENTS",
            Self::Message => "E_MESSAGE",
        }
    }
}

impl Serialize for CallErrorCode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One mistake in a call, as the model reads it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallError {
    /// The kind of mistake.
    pub code: CallErrorCode,
    /// Index of the task in `tasks`, from 0; `None` means the call itself.
    pub task_index: Option<u32>,
    /// The task's id.
    pub task: Option<String>,
    /// The field.
    pub field: String,
    /// The value, truncated if long.
    pub value: Value,
    /// The mistake and its remedy.
    pub remedy: String,
}

impl CallError {
    pub(crate) fn new(
        code: CallErrorCode,
        task_index: Option<u32>,
        field: &str,
        value: &Value,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            code,
            task_index,
            task: task_index.map(|index| format!("t{index}")),
            field: for_terminal_line(field, VALUE_CHARS),
            value: shown(value),
            remedy: remedy.into(),
        }
    }
}

/// A value short enough to repeat.
fn shown(value: &Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) => Value::String(for_terminal_line(text, VALUE_CHARS)),
        Value::Array(_) | Value::Object(_) => match value.to_string() {
            text if text.len() <= VALUE_CHARS => value.clone(),
            text => Value::String(for_terminal_line(&text, VALUE_CHARS)),
        },
    }
}

/// A call that starts no child: at least one error, in the order of the tasks, and the
/// warnings that came up on the way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Refusal {
    #[serde(skip)]
    consequence: String,
    /// The consequence and the number of mistakes; what they are stands in `errors` alone.
    error: String,
    errors: Vec<CallError>,
    warnings: Vec<String>,
}

impl Refusal {
    pub(crate) fn new(errors: Vec<CallError>, warnings: Vec<String>) -> Self {
        Self::of("no child was started", errors, warnings)
    }

    /// With what comes of the call.
    pub(crate) fn of(consequence: &str, mut errors: Vec<CallError>, warnings: Vec<String>) -> Self {
        errors.sort_by_key(|error| error.task_index);
        let place = match errors.len() {
            1 => "1 thing in this call is wrong, see `errors`".to_owned(),
            many @ ..=LISTED => format!("{many} things in this call are wrong, see `errors`"),
            many => {
                format!("{many} things in this call are wrong, the first {LISTED} are in `errors`")
            }
        };
        let error = format!("{consequence}: {place}");
        errors.truncate(LISTED);
        let consequence = consequence.to_owned();
        Self { consequence, error, errors, warnings: bounded(warnings) }
    }

    /// Returns the mistakes: at least one, and the first ones of very many.
    #[must_use]
    pub fn errors(&self) -> &[CallError] {
        &self.errors
    }

    /// Returns the JSON object that the model gets.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|error| error.to_string())
    }
}

impl std::error::Error for Refusal {}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.errors.as_slice() {
            [only] => write!(f, "{}: {}", self.consequence, only.remedy),
            _ => f.write_str(&self.error),
        }
    }
}

/// Warnings, few enough to be read: more are counted.
pub(crate) fn bounded(mut warnings: Vec<String>) -> Vec<String> {
    if let more @ 1.. = warnings.len().saturating_sub(LISTED) {
        warnings.truncate(LISTED);
        warnings.push(format!("and {more} more warnings"));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn very_many_mistakes_are_counted() {
        let tasks: Vec<Value> = (0..1000).map(|n| json!({"goal": "", "x": n})).collect();
        let reading =
            crate::args::read(&json!({"tasks": tasks}), &crate::DelegationConfig::default());
        let refusal = Refusal::new(reading.errors, reading.warnings);
        assert_eq!(refusal.errors().len(), LISTED);
        assert_eq!(
            refusal.to_string(),
            "no child was started: 1000 things in this call are wrong, the first 40 are in `errors`"
        );
        assert_eq!(refusal.warnings.last().unwrap(), "and 960 more warnings");
    }
}
