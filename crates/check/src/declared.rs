//! Checks a tool's specification. Pure.

use deputize_core::sanitize::clean;
use deputize_core::schema::looks_within;
use deputize_core::{Availability, Tool, ToolSpec};
use jsonschema::Validator;
use serde_json::Value;

use crate::violation::{ContractRule, SpecRule};

/// Maximum size of a description in bytes; it is sent with every request.
const DESCRIPTION_BYTES: usize = 16 * 1024;
/// Maximum size of a schema in bytes, for the same reason.
const SCHEMA_BYTES: usize = 64 * 1024;
/// Maximum number of evaluations to find all mistakes in an example.
const MOST_LOOKS: u64 = 100_000;

/// Violations that must be fixed, and advice on what should be, each in the order found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) broken: Vec<(ContractRule, String)>,
    pub(crate) advice: Vec<(ContractRule, String)>,
}

impl Findings {
    pub(crate) fn broken(&mut self, rule: impl Into<ContractRule>, found: impl Into<String>) {
        let entry = (rule.into(), found.into());
        if !self.broken.contains(&entry) {
            self.broken.push(entry);
        }
    }

    fn advise(&mut self, rule: SpecRule, found: impl Into<String>) {
        self.advice.push((rule.into(), found.into()));
    }
}

/// Checks a spec. Returns a validator of arguments, if the schema is valid.
pub(crate) fn look(tool: &dyn Tool, found: &mut Findings) -> Option<Validator> {
    let spec = tool.spec();
    if spec != tool.spec() {
        found.broken(SpecRule::Stable, "two looks at its spec differ; make it once and keep it");
    }
    description(&spec.decl.description, found);
    if let Availability::No(why) = &spec.usable
        && why.trim().is_empty()
    {
        found.broken(SpecRule::Usable, "it cannot be used and does not say why, or what to do");
    }
    let validator = schema(spec, found);
    if let Some(validator) = &validator {
        examples(spec, validator, found);
    }
    validator
}

fn description(text: &str, found: &mut Findings) {
    if text.trim().is_empty() {
        found.broken(
            SpecRule::Description,
            "it is empty; say in a sentence what the tool does and when to use it",
        );
    }
    if text.len() > DESCRIPTION_BYTES {
        let size = text.len();
        found.broken(
            SpecRule::Description,
            format!(
                "it has {size} bytes and goes out with every request; {DESCRIPTION_BYTES} at most"
            ),
        );
    }
    let cleaned = clean(text).notes();
    if !cleaned.is_empty() {
        let notes = cleaned.join(", ");
        found.broken(
            SpecRule::Description,
            format!("it has what nobody sees ({notes}); remove that"),
        );
    }
}

/// Names of arguments that every model knows; a description would only cost tokens.
const PLAIN_NAMES: [&str; 15] = [
    "action", "code", "command", "content", "limit", "name", "new", "offset", "old", "patch",
    "path", "query", "target", "text", "url",
];

fn schema(spec: &ToolSpec, found: &mut Findings) -> Option<Validator> {
    let text = spec.decl.parameters.as_str();
    if text.len() > SCHEMA_BYTES {
        let size = text.len();
        found.broken(
            SpecRule::Schema,
            format!("it has {size} bytes and goes out with every request; {SCHEMA_BYTES} at most"),
        );
    }
    let value = spec.decl.parameters.to_value();
    if let Err(error) = jsonschema::meta::validate(&value) {
        let place = error.instance_path();
        found.broken(SpecRule::Schema, format!("it is no JSON Schema, at `{place}`: {error}"));
        return None;
    }
    let properties = value.get("properties").and_then(Value::as_object);
    let required = value.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        if !properties.is_some_and(|known| known.contains_key(name)) {
            found.broken(
                SpecRule::Schema,
                format!("`{name}` is required and not among its properties"),
            );
        }
    }
    for (name, property) in properties.into_iter().flatten() {
        let said = property.get("description").and_then(Value::as_str).unwrap_or_default();
        if said.trim().is_empty() && !PLAIN_NAMES.contains(&name.as_str()) {
            found.advise(
                SpecRule::Described,
                format!("argument `{name}` has no description, which is what a model goes by"),
            );
        }
    }
    match jsonschema::validator_for(&value) {
        Ok(validator) => Some(validator),
        Err(error) => {
            found.broken(SpecRule::Schema, format!("it cannot be used by itself: {error}"));
            None
        }
    }
}

fn examples(spec: &ToolSpec, validator: &Validator, found: &mut Findings) {
    let schema = spec.decl.parameters.to_value();
    for example in &spec.examples {
        let title = example.title;
        if title.trim().is_empty() {
            found.broken(SpecRule::Example, format!("{} has no title", example.arguments));
        }
        if validator.is_valid(&example.arguments) {
            continue;
        }
        if !looks_within(&schema, &example.arguments, MOST_LOOKS) {
            found.broken(
                SpecRule::Example,
                format!("`{title}` does not fit, and is nested too deep"),
            );
            continue;
        }
        for error in validator.iter_errors(&example.arguments) {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { "the arguments".to_owned() } else { place };
            found.broken(SpecRule::Example, format!("`{title}` does not fit: {place}: {error}"));
        }
    }
    if spec.examples.is_empty() {
        found.advise(
            SpecRule::Example,
            "it has no example, so no call of it was made on its own word",
        );
    }
}
