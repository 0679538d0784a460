//! Whether arguments fit a tool's schema, and where not.

use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::sanitize::for_terminal_line;
use deputize_core::schema::{Schema, looks_within};
use deputize_core::truncate::truncate_chars;
use deputize_core::{Tool, ToolName, ToolSpec};
use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use parking_lot::Mutex;
use serde_json::Value;

/// Limit on listed mistakes of one call.
const MAX_MISTAKES: usize = 8;
/// Limit on the validation steps for listing all mistakes in a value.
const MOST_LOOKS: u64 = 100_000;
/// Limit on a value in an error, in bytes of JSON.
const LONGEST_FOUND: usize = 120;
/// Limit on repeated arguments that are not JSON, in characters.
const LONGEST_QUOTE: usize = 200;
/// Limit on the name of an argument in an error, in characters.
const NAME_CHARS: usize = 80;
/// How alike the name of an argument must be to be suggested, of 1.
const NEAR: f64 = 0.8;
/// Limit on a complete list of choices, in bytes.
const LONGEST_CHOICES: usize = 600;

/// Checks arguments. Schemas are compiled at their first use, once a tool.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    compiled: Mutex<BTreeMap<ToolName, Arc<Validator>>>,
}

impl Checker {
    /// Returns the arguments for a tool: parsed and checked, unless the tool reads them itself.
    ///
    /// # Errors
    /// As [`Checker::check`].
    pub(crate) fn read(&self, tool: &dyn Tool, arguments: &str) -> Result<Value, String> {
        if !tool.reads_itself() {
            return self.check(tool.spec(), arguments);
        }
        let text = || Value::String(arguments.to_owned());
        Ok(serde_json::from_str(or_none(arguments)).unwrap_or_else(|_| text()))
    }

    /// Parses and checks the arguments of a call.
    ///
    /// # Errors
    /// With a text for the model that names each mistake and its place.
    pub(crate) fn check(&self, spec: &ToolSpec, arguments: &str) -> Result<Value, String> {
        let name = &spec.decl.name;
        let value: Value = serde_json::from_str(or_none(arguments)).map_err(|error| {
            // It does not see what it wrote again: servers take back nothing but objects.
            let wrote = beginning(arguments);
            format!(
                "the arguments of {name} are not JSON: {error}. You wrote: {wrote}\nSend one JSON \
                 object."
            )
        })?;
        let schema = &spec.decl.parameters;
        let validator = self.validator(name, schema)?;
        match mistakes(&validator, || schema.to_value(), &value, "the arguments") {
            None => Ok(value),
            Some(mistakes) => {
                let unknown = unknown_arguments(&schema.to_value(), &value);
                let lines = [mistakes].into_iter().chain(unknown).collect::<Vec<_>>().join("\n");
                Err(format!("the arguments of {name} do not fit its schema:\n{lines}"))
            }
        }
    }

    fn validator(&self, name: &ToolName, schema: &Schema) -> Result<Arc<Validator>, String> {
        let mut compiled = self.compiled.lock();
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

/// Returns a line for each argument that a tool does not have, with the nearest one that it has. A
/// schema that allows any others has none.
fn unknown_arguments(schema: &Value, arguments: &Value) -> Vec<String> {
    let takes_others = schema.get("additionalProperties").is_some_and(|others| *others != false);
    let known = schema.get("properties").and_then(Value::as_object).filter(|_| !takes_others);
    let (Some(known), Some(given)) = (known, arguments.as_object()) else { return Vec::new() };
    let line = |name: &String| {
        let score = |known: &str| strsim::jaro_winkler(known, name);
        let near = known.keys().max_by(|a, b| score(a).total_cmp(&score(b)));
        let near = near.filter(|near| score(near) > NEAR);
        let hint = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        format!("there is no argument `{}`{hint}", for_terminal_line(name, NAME_CHARS))
    };
    given.keys().filter(|name| !known.contains_key(*name)).take(MAX_MISTAKES).map(line).collect()
}

/// Some models send nothing where there is nothing to say.
fn or_none(arguments: &str) -> &str {
    if arguments.trim().is_empty() { "{}" } else { arguments }
}

/// The beginning of arguments, with a note of how much more there is.
fn beginning(arguments: &str) -> String {
    let head = truncate_chars(arguments, LONGEST_QUOTE);
    match arguments.len() - head.len() {
        0 => arguments.to_owned(),
        more => format!("{head}… ({more} more bytes)"),
    }
}

/// Returns the mistakes in a value, one a line; `None` if it fits. `whole` names the value itself.
pub(crate) fn mistakes(
    validator: &Validator,
    schema: impl FnOnce() -> Value,
    value: &Value,
    whole: &str,
) -> Option<String> {
    // What a schema that leads back to itself says of one part of a value is kept here.
    if validator.is_valid(value) {
        return None;
    }
    // Here it is not, and such a schema can look at each level twice as often as at the one above.
    if !looks_within(&schema(), value, MOST_LOOKS) {
        return Some(format!(
            "{whole}: it does not fit; what is wrong with it would take too long to find: \
             nest it less deep"
        ));
    }
    let mut mistakes: Vec<String> = Vec::new();
    let mut more = 0;
    for error in validator.iter_errors(value) {
        if mistakes.len() == MAX_MISTAKES {
            more += 1;
            continue;
        }
        let path = error.instance_path().to_string();
        let place = if path.is_empty() { whole.to_owned() } else { path };
        mistakes.push(format!("{place}: {}", words(&error)));
    }
    if more > 0 {
        mistakes.push(format!("and {more} more mistakes"));
    }
    (!mistakes.is_empty()).then(|| mistakes.join("\n"))
}

/// Describes the expected value, and the found one if it is short.
fn words(error: &ValidationError<'_>) -> String {
    let found = error.instance().to_string();
    let found = if found.len() <= LONGEST_FOUND { found.as_str() } else { "value" };
    if let ValidationErrorKind::Enum { options } = error.kind()
        && let Some(options) = options.as_array()
    {
        return format!("{found} is not one of {}", choices(options));
    }
    if found == "value" { error.masked().to_string() } else { error.to_string() }
}

/// Returns the choices, all of them if that is not very long.
fn choices(options: &[Value]) -> String {
    let mut choices = String::new();
    for (index, option) in options.iter().enumerate() {
        let option = option.to_string();
        if choices.len() + option.len() > LONGEST_CHOICES {
            return format!("{choices} and {} more", options.len() - index);
        }
        let comma = if index == 0 { "" } else { ", " };
        choices = format!("{choices}{comma}{option}");
    }
    choices
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn describe(schema: &Value, value: &Value) -> Option<String> {
        deputize_core::schema::bounded_schema(schema).unwrap();
        let validator = jsonschema::validator_for(schema).unwrap();
        mistakes(&validator, || schema.clone(), value, "it")
    }

    /// A value of so many levels.
    fn deep(levels: usize, innermost: Value) -> Value {
        (0..levels).fold(innermost, |inner, _| json!({ "a": inner }))
    }

    #[test]
    fn mistakes_are_reported_with_their_places() {
        let tree = json!({
            "$ref": "#/$defs/node",
            "$defs": {"node": {
                "type": "object", "required": ["name"],
                "properties": {"name": {"type": "string"}, "left": {"$ref": "#/$defs/node"},
                               "right": {"$ref": "#/$defs/node"}},
            }},
        });
        let value = json!({"name": "a", "left": {"name": 1}, "right": {"name": "b", "left": {}}});
        insta::assert_snapshot!(describe(&tree, &value).unwrap(), @r#"
        /left/name: 1 is not of type "string"
        /right/left: "name" is a required property
        "#);
        assert_eq!(describe(&tree, &json!({"name": "a"})), None);
    }

    #[test]
    fn an_unknown_argument_is_named_with_the_nearest_known_one() {
        let schema = json!({"properties": {"path": {}, "offset": {}}, "required": ["path"]});
        let describe = |given: Value| unknown_arguments(&schema, &given);
        assert_eq!(
            describe(json!({"pth": "a", "zebra": 1, "offset": 2})),
            ["there is no argument `pth`; did you mean `path`?", "there is no argument `zebra`"]
        );
        assert_eq!(describe(json!([])), [""; 0]);
        let open = json!({"properties": {"path": {}}, "additionalProperties": {"type": "string"}});
        assert_eq!(unknown_arguments(&open, &json!({"pth": "a"})), [""; 0]);
    }

    #[test]
    fn a_schema_that_looks_at_each_level_twice_is_done_with_a_deep_value() {
        let twice = json!([{"$ref": "#"}, {"$ref": "#"}]);
        let back = json!({"properties": {"a": {"allOf": twice}, "z": {"type": "integer"}}});
        assert_eq!(describe(&back, &deep(100, json!({}))), None);
        let mut wrong = deep(100, json!({}));
        wrong["z"] = json!("x");
        assert!(describe(&back, &wrong).unwrap().contains("nest it less deep"));
        wrong = deep(5, json!({}));
        wrong["z"] = json!("x");
        assert_eq!(describe(&back, &wrong).unwrap(), r#"/z: "x" is not of type "integer""#);
    }

    #[test]
    fn the_most_that_is_let_in_fits_on_the_stack_of_a_thread() {
        let chain = |levels: u32, define: fn(Value) -> Value, last: Value| {
            let level =
                |n: u32| (n.to_string(), define(json!({"$ref": format!("#/$defs/{}", n + 1)})));
            let mut defs: serde_json::Map<String, Value> = (0..levels).map(level).collect();
            defs.insert(levels.to_string(), last);
            json!({"$ref": "#/$defs/0", "$defs": defs})
        };
        // As many parts as may look at one value, for each level of a value.
        let back = json!({"properties": {"a": {"$ref": "#/$defs/0"}, "z": {"type": "integer"}}});
        let layers = chain(14, |next| json!({"allOf": [next]}), back);
        let mut wrong = deep(100, json!({}));
        wrong["z"] = json!("x");
        assert_eq!(describe(&layers, &deep(100, json!({}))), None);
        assert!(describe(&layers, &wrong).unwrap().contains("nest it less deep"));
        // As many as are compiled inside each other.
        let nested = |next| (0..16).fold(next, |inner, _| json!({"properties": {"a": inner}}));
        assert_eq!(describe(&chain(20, nested, json!({})), &deep(100, json!({}))), None);
    }

    #[test]
    fn a_pattern_that_goes_back_and_forth_ends() {
        let backtracks = json!({"type": "string", "pattern": r"^(?=(a+)+$)(a|aa)+\1$"});
        assert!(describe(&backtracks, &json!("a".repeat(200) + "!")).is_some());
    }

    #[test]
    fn what_may_be_chosen_is_shown_whole() {
        let four = json!({"properties": {"action": {"enum": ["list", "message", "stop", "join"]}}});
        assert_eq!(
            describe(&four, &json!({"action": "bogus"})).unwrap(),
            r#"/action: "bogus" is not one of "list", "message", "stop", "join""#
        );
        let many: Vec<String> = (0..500).map(|n| format!("choice {n}")).collect();
        let actual = describe(&json!({ "enum": many }), &json!("x".repeat(1000))).unwrap();
        assert!(
            actual.starts_with(r#"it: value is not one of "choice 0", "choice 1", "#),
            "{actual}"
        );
        assert!(actual.ends_with(" more") && actual.len() < 700, "{actual}");
    }
}
