//! Reads the arguments of a call: leniently where models err, and with all that is wrong at once.
//! Nothing is cut to fit.

use std::collections::BTreeSet;

use deputize_core::agent::Role;
use deputize_core::profile::Profile;
use deputize_core::sanitize::{for_terminal_line, visible_json};
use deputize_core::schema::bounded_schema;
use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

use crate::call_error::{CallError, CallErrorCode};
use crate::config::DelegationConfig;
use crate::fields::{CallFindings, Fields, WORD_CHARS, decode, not_json, object};
use crate::parsed_call::{ParsedCall, RequestedTask};
use crate::placeholder::{PLACEHOLDER, is_placeholder};
use crate::profiles::profile_names;

/// The fields of one task. A call has `tasks` beside them; then the first three are ignored, and
/// the others are what a task gets that does not say them itself.
const TASK_FIELDS: [&str; 9] = [
    "goal",
    "context",
    "toolsets",
    "role",
    "max_iterations",
    "output_schema",
    "model",
    "profile",
    HISTORY,
];
/// The tasks of a call with several.
const TASKS: &str = "tasks";
/// What a child knows of its parent's conversation.
const HISTORY: &str = "history";
/// Fields that are specified and not served yet: an error, never ignored.
const LATER: [&str; 13] = [
    "budget",
    "depends_on",
    "id",
    "join",
    "on_failure",
    "priority",
    "quarantine",
    "reads",
    "retry",
    "side_effects",
    "when",
    "workflow",
    "writes",
];
/// A list of tasks, as an error shows one.
const TASKS_EXAMPLE: &str = r#"[{"goal": "..."}]"#;
/// Whether the children are background children.
const BACKGROUND: &str = "background";
/// Limit on the description of a schema error, in characters.
const WRONG_CHARS: usize = 300;

/// Reads the arguments of a call.
///
/// ```
/// use deputize_delegate::{DelegationConfig, read};
/// let arguments = serde_json::json!({"tasks": r#"[{"goal": "Count the tests."}]"#});
/// let reading = read(&arguments, &DelegationConfig::default());
/// assert_eq!(reading.tasks[0].goal, "Count the tests.");
/// assert!(reading.errors.is_empty());
/// ```
#[must_use]
pub fn read(arguments: &Value, config: &DelegationConfig) -> ParsedCall {
    let map = match object(arguments, "`goal` or `tasks`") {
        Ok(map) => map,
        Err(error) => return ParsedCall { errors: vec![*error], ..ParsedCall::default() },
    };
    let mut reader = CallReader { config, findings: CallFindings::default() };
    let call = reader.call(&Fields { map: &map, task: None });
    let CallFindings { errors, warnings } = reader.findings;
    ParsedCall { errors, warnings, ..call }
}

fn is_known(field: &str, known: &[&str]) -> bool {
    known.contains(&field) || LATER.contains(&field) || field == BACKGROUND
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

/// What a call, or a task, chooses for a child; `None` for what it does not say.
#[derive(Default)]
struct TaskChoices {
    role: Option<Role>,
    max_iterations: Option<u32>,
    output_schema: Option<Value>,
    model: Option<String>,
    profile: Option<String>,
    is_fork: Option<bool>,
}

impl TaskChoices {
    /// Adds what another says where this says nothing.
    fn or(self, other: &Self) -> Self {
        Self {
            role: self.role.or(other.role),
            max_iterations: self.max_iterations.or(other.max_iterations),
            output_schema: self.output_schema.or_else(|| other.output_schema.clone()),
            model: self.model.or_else(|| other.model.clone()),
            profile: self.profile.or_else(|| other.profile.clone()),
            is_fork: self.is_fork.or(other.is_fork),
        }
    }
}

/// Reads the fields of one call.
struct CallReader<'a> {
    config: &'a DelegationConfig,
    findings: CallFindings,
}

impl CallReader<'_> {
    fn call(&mut self, top: &Fields<'_>) -> ParsedCall {
        self.refuse_later(top);
        top.warn_unknown(
            |field| field == TASKS || is_known(field, &TASK_FIELDS),
            &mut self.findings,
        );
        let background = self.background(top).unwrap_or_default();
        let defaults = self.choices(top);
        let mut out = ParsedCall { background, ..ParsedCall::default() };
        match self.tasks(top) {
            Some(tasks) => self.batch(top, &tasks, &defaults, &mut out),
            // An error about `tasks` is enough: that there is no goal either would only confuse.
            None if self.findings.errors.iter().any(|it| it.code == CallErrorCode::Tasks) => {}
            None => {
                out.tasks.push(self.task(top, &defaults));
                out.count = 1;
            }
        }
        out
    }

    fn batch(
        &mut self,
        top: &Fields<'_>,
        tasks: &[Value],
        defaults: &TaskChoices,
        out: &mut ParsedCall,
    ) {
        self.warn_ignored(top);
        out.count = tasks.len();
        let mut said = Vec::new();
        for (index, task) in (0..).zip(tasks) {
            let Some(map) = task.as_object() else {
                let remedy = format!("task {index} must be an object with a `goal`");
                let error = CallError::new(CallErrorCode::Task, Some(index), TASKS, task, remedy);
                self.findings.errors.push(error);
                continue;
            };
            let fields = Fields { map, task: Some(index) };
            self.refuse_later(&fields);
            fields.warn_unknown(|field| is_known(field, &TASK_FIELDS), &mut self.findings);
            said.push(self.background(&fields));
            out.tasks.push(self.task(&fields, defaults));
        }
        let whole = out.background;
        // What a task does not say is as the call says.
        let each: BTreeSet<bool> = said.iter().map(|it| it.unwrap_or(whole)).collect();
        let mixed = each.len() > 1 || (whole && each.contains(&!whole));
        // Where it is switched off, that is told.
        if mixed && self.config.options.background {
            let remedy = "`background` holds for all tasks of a call: say it beside `tasks`, or \
                          make two calls";
            let error = top.error(CallErrorCode::Type, BACKGROUND, &Value::Bool(whole), remedy);
            self.findings.errors.push(error);
        }
        out.background = each.contains(&true);
    }

    /// Warns of fields of the call that `tasks` replace.
    fn warn_ignored(&mut self, top: &Fields<'_>) {
        let ignored = ["goal", "context", "toolsets"].into_iter();
        let ignored = ignored.filter(|field| top.present(field).is_some());
        let ignored: Vec<String> = ignored.map(|field| format!("`{field}`")).collect();
        if !ignored.is_empty() {
            let s = if ignored.len() == 1 { "" } else { "s" };
            self.findings.warnings.push(format!(
                "top-level field{s} {} ignored, because `tasks` is given",
                ignored.join(", ")
            ));
        }
    }

    fn task(&mut self, fields: &Fields<'_>, defaults: &TaskChoices) -> RequestedTask {
        let own = fields.task.is_some();
        let choices = if own { self.choices(fields) } else { TaskChoices::default() };
        let mut choices = choices.or(defaults);
        let name = choices.profile.clone();
        if let Some(profile) = name.and_then(|name| self.config.profile(&name)) {
            self.narrow(&mut choices, profile, fields);
        }
        RequestedTask {
            index: fields.task,
            goal: self.goal(fields),
            context: fields.text("context", &mut self.findings),
            toolsets: fields.names("toolsets", "file", &mut self.findings),
            role: choices.role.unwrap_or_default(),
            max_iterations: choices.max_iterations,
            output_schema: choices.output_schema,
            model: choices.model,
            profile: choices.profile,
            is_fork: choices.is_fork.unwrap_or_default(),
        }
    }

    fn choices(&mut self, fields: &Fields<'_>) -> TaskChoices {
        TaskChoices {
            role: self.role(fields),
            max_iterations: self.iterations(fields),
            output_schema: self.schema(fields),
            model: self.model(fields),
            profile: self.profile(fields),
            is_fork: self.is_fork(fields),
        }
    }

    /// Applies a profile: its limits hold beside those of the call, and its choices stand where the
    /// call makes none.
    fn narrow(&mut self, choices: &mut TaskChoices, profile: &Profile, fields: &Fields<'_>) {
        let place = fields.place();
        let name = &profile.name;
        if profile.role == Some(Role::Leaf) && choices.role == Some(Role::Orchestrator) {
            let warning = format!("{place}the profile `{name}` is for leaves: `role` is `leaf`");
            self.findings.warnings.push(warning);
            choices.role = Some(Role::Leaf);
        }
        choices.role = choices.role.or(profile.role);
        let both = [choices.max_iterations, profile.max_iterations];
        choices.max_iterations = both.into_iter().flatten().min();
        if choices.output_schema.is_none() {
            choices.output_schema = self.profile_schema(profile, fields);
        }
        let models = &self.config.models;
        choices.model = choices.model.take().or_else(|| models.by_profile.get(name).cloned());
        let own = profile.model.as_ref().filter(|_| choices.model.is_none());
        match own.map(|model| (model, models.choices.contains(model))) {
            None => {}
            Some((model, true)) => choices.model = Some(model.clone()),
            Some((model, false)) if models.model.as_ref() == Some(model) => {}
            Some((model, false)) => {
                let note = self.config.setting_note("models");
                let model = for_terminal_line(model, WORD_CHARS);
                self.findings.warnings.push(format!(
                    "{place}the profile `{name}` names the model `{model}`, which is not offered \
                     for children{note}; the child has another one"
                ));
            }
        }
    }

    fn profile_schema(&mut self, profile: &Profile, fields: &Fields<'_>) -> Option<Value> {
        let schema = visible_json(profile.output_schema.as_ref()?);
        let Some(wrong) = unusable(&schema) else { return Some(schema) };
        let wrong = for_terminal_line(&wrong, WRONG_CHARS);
        let remedy =
            format!("its `output_schema` is no JSON Schema ({wrong}): leave `profile` out");
        let name = Value::String(profile.name.clone());
        let error = fields.error(CallErrorCode::Profile, "profile", &name, &remedy);
        self.findings.errors.push(error);
        None
    }

    /// Returns the name of a profile that is there.
    fn profile(&mut self, fields: &Fields<'_>) -> Option<String> {
        let name = fields.text("profile", &mut self.findings)?.trim().to_owned();
        let remedy = match self.config.profiles.as_slice() {
            _ if self.config.is_external() => {
                let note = self.config.setting_note("external_needs");
                format!("leave `profile` out: children are another program here{note}")
            }
            _ if self.config.profile(&name).is_some() => return Some(name),
            [] => "leave `profile` out: there are none".to_owned(),
            profiles => {
                format!("`profile` must be one of {}, or left out", profile_names(profiles))
            }
        };
        let name = Value::String(name);
        self.findings.errors.push(fields.error(CallErrorCode::Profile, "profile", &name, &remedy));
        None
    }

    fn goal(&mut self, fields: &Fields<'_>) -> String {
        let before = self.findings.errors.len();
        let goal = fields.text("goal", &mut self.findings);
        if goal.is_none() && self.findings.errors.len() == before {
            let value = fields.map.get("goal").unwrap_or(&Value::Null);
            let (code, remedy) = match fields.task {
                Some(_) => (CallErrorCode::Goal, "give a `goal` that says what to accomplish"),
                None => (CallErrorCode::NoTask, "give a `goal`, or `tasks` with a `goal` in each"),
            };
            self.findings.errors.push(fields.error(code, "goal", value, remedy));
        }
        let goal = goal.unwrap_or_default();
        if is_placeholder(&goal) {
            let value = Value::String(goal.clone());
            let error = fields.error(CallErrorCode::Goal, "goal", &value, PLACEHOLDER);
            self.findings.errors.push(error);
        }
        goal
    }

    fn role(&mut self, fields: &Fields<'_>) -> Option<Role> {
        let value = fields.present("role")?;
        match value.as_str().map(|word| word.trim().to_ascii_lowercase()).as_deref() {
            Some("leaf") => Some(Role::Leaf),
            Some("orchestrator") => Some(Role::Orchestrator),
            _ => {
                let word = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                self.findings.warnings.push(format!(
                    "{}role `{}` is not known; `leaf` is used (`leaf` and `orchestrator` exist)",
                    fields.place(),
                    for_terminal_line(&word, WORD_CHARS)
                ));
                Some(Role::Leaf)
            }
        }
    }

    fn iterations(&mut self, fields: &Fields<'_>) -> Option<u32> {
        let value = fields.present("max_iterations")?;
        if self.config.is_external() {
            self.findings.warnings.push(format!(
                "{}`max_iterations` has no effect: children are another program here{}",
                fields.place(),
                self.config.setting_note("external_needs"),
            ));
            return None;
        }
        let limit = self.config.limits(None).max_iterations;
        let error = |code, remedy: &str| fields.error(code, "max_iterations", value, remedy);
        let number = match value {
            Value::String(text) => text.trim().parse().ok(),
            other => other.as_f64(),
        };
        match number {
            Some(number) if number.fract() != 0.0 => {
                let remedy = "`max_iterations` must be a whole number";
                self.findings.errors.push(error(CallErrorCode::Type, remedy));
                None
            }
            Some(number) if number < 1.0 => {
                let remedy = format!(
                    "`max_iterations` must be from 1 to {limit}{}",
                    self.config.setting_note("max_iterations"),
                );
                self.findings.errors.push(error(CallErrorCode::Range, &remedy));
                None
            }
            Some(number) if number > f64::from(limit) => {
                self.findings.warnings.push(format!(
                    "{}`max_iterations` {number} is above {}; {limit} holds",
                    fields.place(),
                    match self.config.setting_name("max_iterations") {
                        "" => "the limit",
                        name => name,
                    },
                ));
                Some(limit)
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a whole number from 1 to a u32"
            )]
            Some(number) => Some(number as u32),
            None => {
                let remedy = "`max_iterations` must be a whole number";
                self.findings.errors.push(error(CallErrorCode::Type, remedy));
                None
            }
        }
    }

    fn schema(&mut self, fields: &Fields<'_>) -> Option<Value> {
        let value = fields.present("output_schema")?;
        let decoded = decode(value);
        // Answers are checked without what nobody sees: what they must be has to be without it too.
        let schema = visible_json(decoded.as_ref().unwrap_or(value));
        let wrong = match &schema {
            Value::Null => return None,
            // It demands nothing.
            Value::Object(parts) if parts.is_empty() => return None,
            Value::Object(_) => unusable(&schema),
            _ => Some("it is no object".to_owned()),
        };
        if let Some(wrong) = wrong {
            let wrong = for_terminal_line(&wrong, WRONG_CHARS);
            let remedy = format!("`output_schema` must be a JSON Schema: {wrong}");
            self.findings.errors.push(fields.error(
                CallErrorCode::Schema,
                "output_schema",
                value,
                &remedy,
            ));
            return None;
        }
        Some(schema)
    }

    fn model(&mut self, fields: &Fields<'_>) -> Option<String> {
        let model = fields.text("model", &mut self.findings)?.trim().to_owned();
        if self.config.models.choices.contains(&model) {
            return Some(model);
        }
        let remedy = model_remedy(&model, self.config);
        self.findings.errors.push(fields.error(
            CallErrorCode::Model,
            "model",
            &Value::String(model),
            &remedy,
        ));
        None
    }

    /// Returns whether a child's conversation begins with that of its parent; `None` if that is not
    /// said.
    fn is_fork(&mut self, fields: &Fields<'_>) -> Option<bool> {
        let words = ["none", "fork"];
        let word = fields.choice(HISTORY, CallErrorCode::History, &words, &mut self.findings)?;
        if word == "none" {
            return Some(false);
        }
        if !self.config.has_forks() {
            let value = Value::String(word.to_owned());
            let remedy = format!(
                "with `history` `fork` a child begins with your conversation, for which it must be \
                 sent your own tools and system text, and children are sent others here{}: leave \
                 `history` out, and write what it must know into `context`",
                self.config.setting_note("tool_schemas"),
            );
            let error = fields.error(CallErrorCode::History, HISTORY, &value, &remedy);
            self.findings.errors.push(error);
        }
        Some(true)
    }

    /// Returns the list of tasks, if one is given.
    fn tasks(&mut self, fields: &Fields<'_>) -> Option<Vec<Value>> {
        match fields.list(TASKS)? {
            Ok(items) => Some(items),
            Err(value) => {
                let remedy = match not_json(value) {
                    Some(why) => format!(
                        "`tasks` is text that is not JSON ({why}): send a list of objects, such as \
                         {TASKS_EXAMPLE}"
                    ),
                    None => format!("`tasks` must be a list of objects, such as {TASKS_EXAMPLE}"),
                };
                self.findings.errors.push(fields.error(
                    CallErrorCode::Tasks,
                    TASKS,
                    value,
                    &remedy,
                ));
                None
            }
        }
    }

    /// Returns whether the children are background children; `None` if that is not said.
    fn background(&mut self, fields: &Fields<'_>) -> Option<bool> {
        let asked = fields.flag(BACKGROUND, &mut self.findings)?;
        if asked && !self.config.options.background {
            let value = fields.map.get(BACKGROUND).unwrap_or(&Value::Null);
            let note = self.config.setting_note("background");
            let remedy = format!("`background` is switched off here{note}; leave it out");
            self.findings.errors.push(fields.error(
                CallErrorCode::BackgroundOff,
                BACKGROUND,
                value,
                &remedy,
            ));
        }
        Some(asked)
    }

    fn refuse_later(&mut self, fields: &Fields<'_>) {
        for field in LATER {
            let asked = fields.present(field).filter(|value| **value != Value::Bool(false));
            if let Some(value) = asked {
                let remedy = format!("`{field}` is not in this version; leave it out");
                self.findings.errors.push(fields.error(
                    CallErrorCode::NotInThisVersion,
                    field,
                    value,
                    &remedy,
                ));
            }
        }
    }
}

/// Returns the remedy for a model that a call may not choose.
fn model_remedy(model: &str, config: &DelegationConfig) -> String {
    if let Some(why) = config.models.unreachable.get(model) {
        let choice = match config.models.choices.as_slice() {
            [] => String::new(),
            models => format!("name one of {}, or ", models.join(", ")),
        };
        return format!("`{model}` cannot be reached ({why}): {choice}leave `model` out");
    }
    let note = config.setting_note("models");
    match config.models.choices.as_slice() {
        [] if config.is_external() => {
            let note = config.setting_note("external_needs");
            format!(
                "leave `model` out: children are another program here{note}, which chooses its \
                 model itself"
            )
        }
        [] => format!("leave `model` out: the person offers none to choose{note}"),
        models => format!("`model` must be one of {}{note}, or left out", models.join(", ")),
    }
}

/// Why a schema is none, if so.
fn unusable(schema: &Value) -> Option<String> {
    if let Err(error) = bounded_schema(schema) {
        return Some(error.to_string());
    }
    jsonschema::validator_for(schema).err().map(|error| no_schema(&error))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use serde_json::{Map, json};

    use super::*;
    use crate::config::ChildModels;

    /// The only function here that knows the signature under test.
    fn reads(arguments: &Value) -> String {
        let config = DelegationConfig {
            models: ChildModels { choices: vec!["p/small".to_owned()], ..ChildModels::default() },
            ..DelegationConfig::default()
        };
        let ParsedCall { tasks, errors, warnings, .. } = read(arguments, &config);
        let mut out = String::new();
        for task in tasks {
            write!(out, "{:?} {:?}", task.index, task.goal).unwrap();
            if let Some(context) = task.context {
                write!(out, " context {context:?}").unwrap();
            }
            if let Some(toolsets) = task.toolsets {
                write!(out, " toolsets {toolsets:?}").unwrap();
            }
            if task.role == Role::Orchestrator {
                out.push_str(" orchestrator");
            }
            if let Some(most) = task.max_iterations {
                write!(out, " max {most}").unwrap();
            }
            if let Some(schema) = task.output_schema {
                write!(out, " schema {schema}").unwrap();
            }
            if let Some(model) = task.model {
                write!(out, " model {model}").unwrap();
            }
            out.push('\n');
        }
        for error in errors {
            writeln!(out, "error {}", serde_json::to_string(&error).unwrap()).unwrap();
        }
        for warning in warnings {
            writeln!(out, "warning {warning}").unwrap();
        }
        out
    }

    #[test]
    fn one_task() {
        insta::assert_snapshot!(reads(&json!({
            "goal": "Count.", "context": "In German.", "toolsets": ["web", " file "],
            "role": " Orchestrator", "max_iterations": 5
        })), @r#"None "Count." context "In German." toolsets {"file", "web"} orchestrator max 5"#);
    }

    #[test]
    fn what_says_nothing_is_absent() {
        insta::assert_snapshot!(reads(&json!({
            "goal": "Count.", "context": " ", "toolsets": [], "role": null, "max_iterations": "",
            "tasks": [], "output_schema": null, "background": false, "model": "", "workflow": null
        })), @r#"None "Count.""#);
        insta::assert_snapshot!(reads(&json!({
            "goal": "Count.", "tasks": "", "toolsets": "[]", "context": null
        })), @r#"None "Count.""#);
        insta::assert_snapshot!(
            reads(&json!({"goal": "Count.", "tasks": "null", "toolsets": "null"})), @r#"None "Count.""#
        );
    }

    #[test]
    fn a_schema_that_demands_nothing_is_none_and_elsewhere_an_object_is_wrong() {
        insta::assert_snapshot!(reads(&json!({
            "output_schema": "{}", "tasks": [{"goal": "A", "output_schema": {}}]
        })), @r#"Some(0) "A""#);
        insta::assert_snapshot!(reads(&json!({"goal": "A", "context": {}, "toolsets": {}})), @r#"
        None "A"
        error {"code":"E_TYPE","task_index":null,"task":null,"field":"context","value":{},"remedy":"`context` must be a text"}
        error {"code":"E_TYPE","task_index":null,"task":null,"field":"toolsets","value":{},"remedy":"`toolsets` must be a list of names, such as [\"file\"]"}
        "#);
    }

    #[test]
    fn a_schema_demands_only_what_a_cleaned_answer_can_be() {
        let schema = json!({"const": "a\u{200b}", "title": "\u{7}b"});
        insta::assert_snapshot!(reads(&json!({"goal": "A", "output_schema": schema})), @r#"None "A" schema {"const":"a","title":"b"}"#);
        let schema = json!({"enum": ["<think>"]});
        insta::assert_snapshot!(reads(&json!({"goal": "A", "output_schema": schema})), @r#"None "A" schema {"enum":["<think>"]}"#);
    }

    #[test]
    fn lists_in_texts_are_decoded() {
        insta::assert_snapshot!(reads(&json!({
            "tasks": "[{\"goal\": \"A\", \"toolsets\": \"[\\\"file\\\"]\"}, {\"goal\": \"B\"}]"
        })), @r#"
        Some(0) "A" toolsets {"file"}
        Some(1) "B"
        "#);
    }

    #[test]
    fn tasks_win_and_take_defaults_from_the_call() {
        insta::assert_snapshot!(reads(&json!({
            "goal": "ignored", "context": "ignored", "role": "orchestrator", "max_iterations": 9,
            "tasks": [{"goal": "A"}, {"goal": "B", "role": "leaf", "max_iterations": 3}]
        })), @r#"
        Some(0) "A" orchestrator max 9
        Some(1) "B" max 3
        warning top-level fields `goal`, `context` ignored, because `tasks` is given
        "#);
    }

    #[test]
    fn schemas_and_models_are_checked_task_by_task() {
        insta::assert_snapshot!(reads(&json!({
            "output_schema": "{\"type\": \"object\"}",
            "tasks": [
                {"goal": "A", "model": " p/small "},
                {"goal": "B", "output_schema": {"type": "array"}, "model": "p/large"},
                {"goal": "C", "output_schema": {"type": "no such type"}},
                {"goal": "D", "output_schema": [1]},
                {"goal": "E", "output_schema": {"$ref": "https://localhost:9/x.json"}},
            ]
        })), @r#"
        Some(0) "A" schema {"type":"object"} model p/small
        Some(1) "B" schema {"type":"array"}
        Some(2) "C" schema {"type":"object"}
        Some(3) "D" schema {"type":"object"}
        Some(4) "E" schema {"type":"object"}
        error {"code":"E_MODEL","task_index":1,"task":"t1","field":"model","value":"p/large","remedy":"task 1: `model` must be one of p/small, or left out"}
        error {"code":"E_SCHEMA","task_index":2,"task":"t2","field":"output_schema","value":{"type":"no such type"},"remedy":"task 2: `output_schema` must be a JSON Schema: at `/type`: \"no such type\" is nothing that may stand there"}
        error {"code":"E_SCHEMA","task_index":3,"task":"t3","field":"output_schema","value":[1],"remedy":"task 3: `output_schema` must be a JSON Schema: it is no object"}
        error {"code":"E_SCHEMA","task_index":4,"task":"t4","field":"output_schema","value":{"$ref":"https://localhost:9/x.json"},"remedy":"task 4: `output_schema` must be a JSON Schema: a schema must hold what it refers to: `https://localhost:9/x.json` is not in it; put that under `$defs`"}
        "#);
    }

    #[test]
    fn a_schema_that_would_never_be_done_is_an_error_of_its_task() {
        let name = |n: u32| json!({"$ref": format!("#/$defs/d{n}")});
        let mut all: Map<String, Value> = (0..60)
            .map(|n| (format!("d{n}"), json!({"anyOf": [name(n + 1), name(n + 1)]})))
            .collect();
        all.insert("d60".to_owned(), json!({"type": "object", "required": ["a"]}));
        let bomb = json!({"$ref": "#/$defs/d0", "$defs": all});
        let tree = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
        let reading = read(
            &json!({"tasks": [
                {"goal": "A", "output_schema": tree},
                {"goal": "B", "output_schema": bomb},
                {"goal": "C", "output_schema": bomb.to_string()},
                {"goal": "D", "output_schema": {"$defs": {"a": {"$ref": "https://localhost:9/x"}}}},
            ]}),
            &DelegationConfig::default(),
        );
        let told: Vec<_> = reading.errors.iter().map(|it| (it.code, it.remedy.as_str())).collect();
        let unfolds = "`output_schema` must be a JSON Schema: a schema must not unfold to more than \
                       100000 parts, each `$ref` replaced by what it refers to: refer to \
                       definitions less often, or write it flatter (a definition may refer to itself)";
        let outside = "`output_schema` must be a JSON Schema: it refers to something outside itself; \
                       put that under `$defs`";
        assert_eq!(
            told,
            [
                (CallErrorCode::Schema, format!("task 1: {unfolds}").as_str()),
                (CallErrorCode::Schema, &format!("task 2: {unfolds}")),
                (CallErrorCode::Schema, &format!("task 3: {outside}")),
            ]
        );
    }

    #[test]
    fn what_is_odd_is_reported() {
        insta::assert_snapshot!(reads(&json!({
            "goal": "Co\u{200b}unt\u{1b}[31m.", "role": "boss\nIgnore this", "max_iterations": 5000,
            "colour": 1, "a\u{1b}[2J": 2
        })), @r#"
        None "Count." max 50
        warning unknown fields `a`, `colour` ignored
        warning role `boss Ignore this` is not known; `leaf` is used (`leaf` and `orchestrator` exist)
        warning `max_iterations` 5000 is above the limit; 50 holds
        warning `goal`: 1 invisible character removed
        warning `goal`: 1 terminal sequence removed
        "#);
        let many: Map<String, Value> = (0..14).map(|n| (format!("x{n:02}"), json!(n))).collect();
        insta::assert_snapshot!(reads(&json!({"tasks": [{"goal": "A"}, many]})), @r#"
        Some(0) "A"
        Some(1) ""
        error {"code":"E_GOAL","task_index":1,"task":"t1","field":"goal","value":null,"remedy":"task 1: give a `goal` that says what to accomplish"}
        warning task 1: unknown fields `x00`, `x01`, `x02`, `x03`, `x04`, `x05`, `x06`, `x07`, `x08`, `x09` and 4 more ignored
        "#);
    }

    #[test]
    fn everything_wrong_is_reported_at_once() {
        insta::assert_snapshot!(reads(&json!({
            "role": "leaf", "max_iterations": 1.5, "workflow": {}, "background": true,
            "tasks": [
                "do it", {"goal": ""}, {"goal": 7}, {"goal": "\u{200b}"},
                {"goal": "A", "context": {"a": 1}, "toolsets": "file", "max_iterations": 0},
                {"goal": "B", "toolsets": [1], "output_schema": {"type": "object"}, "model": "x/y"},
                {"goal": "C", "id": "c", "depends_on": ["a"], "max_iterations": "many"},
            ]
        })), @r#"
    Some(1) ""
    Some(2) ""
    Some(3) ""
    Some(4) "A"
    Some(5) "B" schema {"type":"object"}
    Some(6) "C"
    error {"code":"E_NOT_IN_THIS_VERSION","task_index":null,"task":null,"field":"workflow","value":{},"remedy":"`workflow` is not in this version; leave it out"}
    error {"code":"E_BACKGROUND_OFF","task_index":null,"task":null,"field":"background","value":true,"remedy":"`background` is switched off here; leave it out"}
    error {"code":"E_TYPE","task_index":null,"task":null,"field":"max_iterations","value":1.5,"remedy":"`max_iterations` must be a whole number"}
    error {"code":"E_TASK","task_index":0,"task":"t0","field":"tasks","value":"do it","remedy":"task 0 must be an object with a `goal`"}
    error {"code":"E_GOAL","task_index":1,"task":"t1","field":"goal","value":"","remedy":"task 1: give a `goal` that says what to accomplish"}
    error {"code":"E_TYPE","task_index":2,"task":"t2","field":"goal","value":7,"remedy":"task 2: `goal` must be a text"}
    error {"code":"E_GOAL","task_index":3,"task":"t3","field":"goal","value":"","remedy":"task 3: give a `goal` that says what to accomplish"}
    error {"code":"E_RANGE","task_index":4,"task":"t4","field":"max_iterations","value":0,"remedy":"task 4: `max_iterations` must be from 1 to 50"}
    error {"code":"E_TYPE","task_index":4,"task":"t4","field":"context","value":{"a":1},"remedy":"task 4: `context` must be a text"}
    error {"code":"E_TYPE","task_index":4,"task":"t4","field":"toolsets","value":"file","remedy":"task 4: `toolsets` must be a list of names, such as [\"file\"]"}
    error {"code":"E_MODEL","task_index":5,"task":"t5","field":"model","value":"x/y","remedy":"task 5: `model` must be one of p/small, or left out"}
    error {"code":"E_TYPE","task_index":5,"task":"t5","field":"toolsets","value":[1],"remedy":"task 5: `toolsets` must be a list of names, such as [\"file\"]"}
    error {"code":"E_NOT_IN_THIS_VERSION","task_index":6,"task":"t6","field":"depends_on","value":["a"],"remedy":"task 6: `depends_on` is not in this version; leave it out"}
    error {"code":"E_NOT_IN_THIS_VERSION","task_index":6,"task":"t6","field":"id","value":"c","remedy":"task 6: `id` is not in this version; leave it out"}
    error {"code":"E_TYPE","task_index":6,"task":"t6","field":"max_iterations","value":"many","remedy":"task 6: `max_iterations` must be a whole number"}
    warning task 3: `goal`: 1 invisible character removed
    "#);
    }

    #[test]
    fn a_call_that_says_nothing() {
        for arguments in [json!({}), json!({"goal": " \n"}), json!({"goal": null, "tasks": []})] {
            let reading = read(&arguments, &DelegationConfig::default());
            let codes: Vec<CallErrorCode> = reading.errors.iter().map(|error| error.code).collect();
            assert_eq!(codes, [CallErrorCode::NoTask], "{arguments}");
        }
        for tasks in [json!("no list"), json!({"goal": "A"}), json!(3), json!("{}")] {
            let reading = read(&json!({"tasks": tasks}), &DelegationConfig::default());
            let codes: Vec<CallErrorCode> = reading.errors.iter().map(|error| error.code).collect();
            assert_eq!(codes, [CallErrorCode::Tasks], "{tasks}");
        }
        let reading = read(&json!(["goal"]), &DelegationConfig::default());
        assert_eq!(reading.errors[0].code, CallErrorCode::Arguments);
    }

    #[test]
    fn a_long_value_is_repeated_in_short() {
        let reading = read(&json!({"tasks": "x".repeat(100_000)}), &DelegationConfig::default());
        assert!(serde_json::to_string(&reading.errors).unwrap().len() < 500);
    }
}
