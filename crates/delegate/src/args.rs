//! Reads the arguments of a call: leniently where models err, and with all that is wrong at once.
//! Nothing is cut to fit.

use std::collections::BTreeSet;

use deputize_core::agent::Role;
use deputize_core::profile::Profile;
use deputize_core::sanitize::{for_terminal_line, visible_json};
use serde_json::Value;

use crate::call_error::{CallError, CallErrorCode};
use crate::config::DelegationConfig;
use crate::fields::{CallFindings, Fields, WORD_CHARS, decode, not_json, object};
use crate::parsed_call::{ParsedCall, RequestedTask};
use crate::placeholder::{PLACEHOLDER, is_placeholder};
use crate::profiles::{faulty_profile, profile_names};

mod answer_schema;
mod choices;

use answer_schema::{answer_schema, schema_mistake};
use choices::TaskChoices;

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
        let Some(wrong) = schema_mistake(&schema) else { return Some(schema) };
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
        let fault = self.config.faulty_profiles.get(&name);
        let remedy = match (self.config.profiles.as_slice(), fault) {
            _ if self.config.is_external() => {
                let note = self.config.setting_note("external_needs");
                format!("leave `profile` out: children are another program here{note}")
            }
            _ if self.config.profile(&name).is_some() => return Some(name),
            (_, Some(fault)) => faulty_profile(fault),
            ([], _) => "leave `profile` out: there are none".to_owned(),
            (profiles, _) => {
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
        answer_schema(decoded.as_ref().unwrap_or(value)).unwrap_or_else(|remedy| {
            self.findings.errors.push(fields.error(
                CallErrorCode::Schema,
                "output_schema",
                value,
                &remedy,
            ));
            None
        })
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

#[cfg(test)]
mod tests;
