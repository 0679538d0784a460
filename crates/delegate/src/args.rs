//! The arguments of a call: read leniently where models err, and whatever else is wrong is told
//! at once. Nothing is cut to fit.

use std::collections::BTreeSet;

use deputize_core::agent::Role;
use deputize_core::sanitize::{for_terminal_line, visible_json};
use deputize_core::schema::bounded_schema;
use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::{Value, json};

use crate::call_error::{CallError, CallErrorCode};
use crate::config::{DelegationConfig, ToolFlavor};
use crate::fields::{CallFindings, Fields, WORD_CHARS, decode, not_json, object};
use crate::placeholder::{PLACEHOLDER, is_placeholder};
use crate::task::DESCRIPTION;

/// The fields of a call beside `tasks`. The first three are of single mode alone, the others
/// are what a task gets that does not say them itself.
const CALL_FIELDS: [&str; 8] =
    ["goal", "context", "toolsets", "role", "max_iterations", "output_schema", "model", "tasks"];
/// The fields of one task.
const TASK_FIELDS: [&str; 7] =
    ["goal", "context", "toolsets", "role", "max_iterations", "output_schema", "model"];
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
/// Whether nobody waits for the children: of a call, or of all its tasks.
const BACKGROUND: &str = "background";
/// How many characters an error tells of what is wrong with a schema.
const WRONG_CHARS: usize = 300;

/// One task as it was asked for, readable as far as it goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestedTask {
    /// Its place in `tasks`; nothing in single mode.
    pub index: Option<u32>,
    /// What the child is to accomplish; never blank in a call without errors.
    pub goal: String,
    /// What it needs to know.
    pub context: Option<String>,
    /// The toolsets it asks for, as written; nothing: it asks for none.
    pub toolsets: Option<BTreeSet<String>>,
    /// Whether it may hand work on.
    pub role: Role,
    /// How many model requests it may use; nothing: as configured.
    pub max_iterations: Option<u32>,
    /// What its answer must satisfy; a JSON Schema.
    pub output_schema: Option<Value>,
    /// Its model, one of those that the operator names.
    pub model: Option<String>,
}

impl RequestedTask {
    /// Returns what the task asks for, without what makes no difference to the work.
    fn normalized(&self) -> Self {
        Self {
            index: None,
            goal: self.goal.trim().to_owned(),
            context: self.context.as_deref().map(|context| context.trim().to_owned()),
            ..self.clone()
        }
    }
}

/// What a call asks for, and what was wrong with it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ParsedCall {
    /// How many tasks the call has, readable or not.
    pub count: usize,
    /// The tasks that could be read, in order; incomplete when there are errors.
    pub tasks: Vec<RequestedTask>,
    /// Whether the call does not wait for its children.
    pub background: bool,
    /// The tasks whose children an earlier process of the session began: with one, the call was
    /// accepted then.
    pub begun: BTreeSet<u32>,
    /// What is wrong.
    pub errors: Vec<CallError>,
    /// What was read otherwise than written, or ignored.
    pub warnings: Vec<String>,
}

impl ParsedCall {
    /// Returns whether two calls without mistakes ask for the same work, however they are written
    /// and in whatever order.
    pub(crate) fn asks_same(&self, other: &Self) -> bool {
        let mut left: Vec<RequestedTask> =
            other.tasks.iter().map(RequestedTask::normalized).collect();
        let mut take = |task: &RequestedTask| {
            let task = task.normalized();
            let at = left.iter().position(|other| *other == task);
            at.map(|at| left.swap_remove(at)).is_some()
        };
        self.errors.is_empty()
            && other.errors.is_empty()
            && self.background == other.background
            && self.tasks.len() == other.tasks.len()
            && self.tasks.iter().all(&mut take)
    }

    /// Returns the tasks that ask for the same work as an earlier one of the call, each with that one.
    pub(crate) fn repeated_tasks(&self) -> Vec<(&RequestedTask, &RequestedTask)> {
        let mut first: Vec<(RequestedTask, &RequestedTask)> = Vec::new();
        let mut repeated = Vec::new();
        for task in &self.tasks {
            let normalized = task.normalized();
            match first.iter().find(|(earlier, _)| *earlier == normalized) {
                Some((_, earlier)) => repeated.push((task, *earlier)),
                None => first.push((normalized, task)),
            }
        }
        repeated
    }

    /// The field that asks for children, and what it holds: of many tasks, how many.
    pub(crate) fn asks(&self, form: ToolFlavor) -> (&'static str, Value) {
        match (form, self.tasks.first()) {
            (ToolFlavor::Task, task) => (DESCRIPTION, task.map(|task| task.goal.clone()).into()),
            (ToolFlavor::DelegateTask, Some(RequestedTask { index: None, goal, .. })) => {
                ("goal", json!(goal))
            }
            (ToolFlavor::DelegateTask, _) => ("tasks", json!(self.count)),
        }
    }
}

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
    let mut faults = CallFindings::default();
    let top = Fields { map: &map, task: None };
    top.refuse_later(&mut faults);
    top.warn_unknown(|field| is_known(field, &CALL_FIELDS), &mut faults);
    let background = top.background(config, &mut faults).unwrap_or_default();
    let defaults = RequestedTask {
        role: top.role(&mut faults).unwrap_or_default(),
        max_iterations: top.iterations(config, &mut faults),
        output_schema: top.schema(&mut faults),
        model: top.model(config, &mut faults),
        ..RequestedTask::default()
    };
    let mut out = ParsedCall { background, ..ParsedCall::default() };
    match top.tasks(&mut faults) {
        Some(tasks) => batch((&top, &tasks), &defaults, config, (&mut out, &mut faults)),
        // An error about `tasks` is enough: that there is no goal either would only confuse.
        None if faults.errors.iter().any(|error| error.code == CallErrorCode::Tasks) => {}
        None => {
            out.tasks.push(top.task(&defaults, config, &mut faults));
            out.count = 1;
        }
    }
    ParsedCall { errors: faults.errors, warnings: faults.warnings, ..out }
}

fn is_known(field: &str, known: &[&str]) -> bool {
    known.contains(&field) || LATER.contains(&field) || field == BACKGROUND
}

fn batch(
    (top, tasks): (&Fields<'_>, &[Value]),
    defaults: &RequestedTask,
    config: &DelegationConfig,
    (out, faults): (&mut ParsedCall, &mut CallFindings),
) {
    let ignored = ["goal", "context", "toolsets"].map(|field| (field, top.present(field)));
    let ignored: Vec<String> = ignored
        .iter()
        .filter(|(_, value)| value.is_some())
        .map(|(field, _)| format!("`{field}`"))
        .collect();
    if !ignored.is_empty() {
        let s = if ignored.len() == 1 { "" } else { "s" };
        faults.warnings.push(format!(
            "top-level field{s} {} ignored, because `tasks` is given",
            ignored.join(", ")
        ));
    }
    out.count = tasks.len();
    let whole = out.background;
    let mut said = Vec::new();
    for (index, task) in (0..).zip(tasks) {
        let Some(map) = task.as_object() else {
            let remedy = format!("task {index} must be an object with a `goal`");
            let error = CallError::new(CallErrorCode::Task, Some(index), ("tasks", task), remedy);
            faults.errors.push(error);
            continue;
        };
        let fields = Fields { map, task: Some(index) };
        fields.refuse_later(faults);
        fields.warn_unknown(|field| is_known(field, &TASK_FIELDS), faults);
        said.push(fields.background(config, faults));
        out.tasks.push(fields.task(defaults, config, faults));
    }
    // What a task does not say is as the call says.
    let each: BTreeSet<bool> = said.iter().map(|it| it.unwrap_or(out.background)).collect();
    let mixed = each.len() > 1 || (whole && each.contains(&!out.background));
    // Where it is switched off, that is told.
    if mixed && config.options.background {
        let remedy = "`background` holds for all tasks of a call: say it beside `tasks`, or make \
                      two calls";
        let value = Value::Bool(out.background);
        faults.errors.push(CallError::new(CallErrorCode::Type, None, (BACKGROUND, &value), remedy));
    }
    out.background = each.contains(&true);
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

impl Fields<'_> {
    fn task(
        &self,
        defaults: &RequestedTask,
        config: &DelegationConfig,
        faults: &mut CallFindings,
    ) -> RequestedTask {
        let own = self.task.is_some();
        let role = if own { self.role(faults) } else { None };
        let iterations = if own { self.iterations(config, faults) } else { None };
        let schema = if own { self.schema(faults) } else { None };
        let model = if own { self.model(config, faults) } else { None };
        RequestedTask {
            index: self.task,
            goal: self.goal(faults),
            context: self.text("context", faults),
            toolsets: self.names("toolsets", "file", faults),
            role: role.unwrap_or(defaults.role),
            max_iterations: iterations.or(defaults.max_iterations),
            output_schema: schema.or_else(|| defaults.output_schema.clone()),
            model: model.or_else(|| defaults.model.clone()),
        }
    }

    fn goal(&self, faults: &mut CallFindings) -> String {
        let before = faults.errors.len();
        let goal = self.text("goal", faults);
        if goal.is_none() && faults.errors.len() == before {
            let value = self.map.get("goal").unwrap_or(&Value::Null);
            let (code, remedy) = match self.task {
                Some(_) => (CallErrorCode::Goal, "give a `goal` that says what to accomplish"),
                None => (CallErrorCode::NoTask, "give a `goal`, or `tasks` with a `goal` in each"),
            };
            faults.errors.push(self.error(code, ("goal", value), remedy));
        }
        let goal = goal.unwrap_or_default();
        if is_placeholder(&goal) {
            let of = ("goal", &Value::String(goal.clone()));
            faults.errors.push(self.error(CallErrorCode::Goal, of, PLACEHOLDER));
        }
        goal
    }

    fn role(&self, faults: &mut CallFindings) -> Option<Role> {
        let value = self.present("role")?;
        match value.as_str().map(|word| word.trim().to_ascii_lowercase()).as_deref() {
            Some("leaf") => Some(Role::Leaf),
            Some("orchestrator") => Some(Role::Orchestrator),
            _ => {
                let word = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                faults.warnings.push(format!(
                    "{}role `{}` is not known; `leaf` is used (`leaf` and `orchestrator` exist)",
                    self.place(),
                    for_terminal_line(&word, WORD_CHARS)
                ));
                Some(Role::Leaf)
            }
        }
    }

    fn iterations(&self, config: &DelegationConfig, faults: &mut CallFindings) -> Option<u32> {
        let value = self.present("max_iterations")?;
        if config.is_external() {
            faults.warnings.push(format!(
                "{}`max_iterations` has no effect: children are another program here{}",
                self.place(),
                config.setting_note("external_needs"),
            ));
            return None;
        }
        let limit = config.limits(None).max_iterations;
        let of = ("max_iterations", value);
        let number = match value {
            Value::String(text) => text.trim().parse().ok(),
            other => other.as_f64(),
        };
        match number {
            Some(number) if number.fract() != 0.0 => {
                let remedy = "`max_iterations` must be a whole number";
                faults.errors.push(self.error(CallErrorCode::Type, of, remedy));
                None
            }
            Some(number) if number < 1.0 => {
                let remedy = format!(
                    "`max_iterations` must be from 1 to {limit}{}",
                    config.setting_note("max_iterations"),
                );
                faults.errors.push(self.error(CallErrorCode::Range, of, &remedy));
                None
            }
            Some(number) if number > f64::from(limit) => {
                faults.warnings.push(format!(
                    "{}`max_iterations` {number} is above {}; {limit} holds",
                    self.place(),
                    match config.setting_name("max_iterations") {
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
                faults.errors.push(self.error(CallErrorCode::Type, of, remedy));
                None
            }
        }
    }

    fn schema(&self, faults: &mut CallFindings) -> Option<Value> {
        let value = self.present("output_schema")?;
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
            faults.errors.push(self.error(
                CallErrorCode::Schema,
                ("output_schema", value),
                &remedy,
            ));
            return None;
        }
        Some(schema)
    }

    fn model(&self, config: &DelegationConfig, faults: &mut CallFindings) -> Option<String> {
        let model = self.text("model", faults)?.trim().to_owned();
        if config.models.choices.contains(&model) {
            return Some(model);
        }
        let remedy = model_remedy(&model, config);
        faults.errors.push(self.error(
            CallErrorCode::Model,
            ("model", &Value::String(model)),
            &remedy,
        ));
        None
    }

    /// The list of tasks, if one is given.
    fn tasks(&self, faults: &mut CallFindings) -> Option<Vec<Value>> {
        match self.list("tasks")? {
            Ok(items) => Some(items),
            Err(value) => {
                let remedy = match not_json(value) {
                    Some(why) => format!(
                        "`tasks` is text that is not JSON ({why}): send a list of objects, such as \
                         {TASKS_EXAMPLE}"
                    ),
                    None => format!("`tasks` must be a list of objects, such as {TASKS_EXAMPLE}"),
                };
                faults.errors.push(self.error(CallErrorCode::Tasks, ("tasks", value), &remedy));
                None
            }
        }
    }

    /// Whether nobody waits; nothing: it is not said.
    fn background(&self, config: &DelegationConfig, faults: &mut CallFindings) -> Option<bool> {
        let asked = self.flag(BACKGROUND, faults)?;
        if asked && !config.options.background {
            let of = (BACKGROUND, self.map.get(BACKGROUND).unwrap_or(&Value::Null));
            let note = config.setting_note("background");
            let remedy = format!("`background` is switched off here{note}; leave it out");
            faults.errors.push(self.error(CallErrorCode::BackgroundOff, of, &remedy));
        }
        Some(asked)
    }

    fn refuse_later(&self, faults: &mut CallFindings) {
        for field in LATER {
            let asked = self.present(field).filter(|value| **value != Value::Bool(false));
            if let Some(value) = asked {
                let remedy = format!("`{field}` is not in this version; leave it out");
                faults.errors.push(self.error(
                    CallErrorCode::NotInThisVersion,
                    (field, value),
                    &remedy,
                ));
            }
        }
    }
}

/// What to do about a model that a call may not choose.
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
    fn what_is_odd_is_told() {
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
    fn everything_wrong_is_told_at_once() {
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
