//! Mistakes that the schema finds: unknown keys, wrong types, values out of range.

use std::sync::LazyLock;

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::paths::LocationSegment;
use jsonschema::{ValidationError, Validator};

use super::place::{Problem, nearest, shown};
use super::plain::is_plain;
use super::schema;
use super::tree::{PlacedValue, Value};

/// Sections with at most so many keys list them all when a key is unknown.
const LISTED_KEYS: usize = 8;

/// Unknown keys after so many problems get no hint: it takes a search, and nobody reads so far.
const HINTS: usize = 100;

#[expect(clippy::expect_used, reason = "the schema is a constant, and a test compiles it")]
static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| {
    jsonschema::validator_for(schema::json_schema()).expect("the configuration's schema compiles")
});

/// Adds every disagreement of one layer with the schema.
pub(super) fn check(layer: &PlacedValue, problems: &mut Vec<Problem>) {
    // To make the validator ready takes longer than the rest of the start.
    if is_plain(layer) {
        return;
    }
    for error in VALIDATOR.iter_errors(&layer.to_json()) {
        describe(&error, layer, problems);
    }
}

/// The node that an error is about, and the way to it.
struct ErrorPlace<'a> {
    node: &'a PlacedValue,
    keys: Vec<String>,
    path: String,
}

fn spot<'a>(error: &ValidationError<'_>, root: &'a PlacedValue) -> ErrorPlace<'a> {
    let mut spot = ErrorPlace { node: root, keys: Vec::new(), path: String::new() };
    for segment in error.instance_path() {
        match segment {
            LocationSegment::Property(key) => {
                let Some(entry) = spot.node.entry(&key) else { break };
                spot.node = &entry.node;
                let dot = if spot.path.is_empty() { "" } else { "." };
                spot.path.push_str(&format!("{dot}{}", shown(&key)));
                spot.keys.push(key.into_owned());
            }
            LocationSegment::Index(index) => {
                let Some(item) = spot.node.items().get(index) else { break };
                spot.node = item;
                spot.path.push_str(&format!("[{index}]"));
            }
        }
    }
    spot
}

fn describe(error: &ValidationError<'_>, root: &PlacedValue, problems: &mut Vec<Problem>) {
    let spot = spot(error, root);
    let name = if spot.path.is_empty() { "the configuration" } else { &spot.path };
    let name = format!("`{name}`").replace("`the configuration`", "the configuration");
    let found = describe_value(&spot);
    let message = match error.kind() {
        Kind::AdditionalProperties { unexpected } => {
            for key in unexpected {
                let hint = (problems.len() < HINTS).then(|| hint(key, &spot, error));
                problems.push(unknown_key(key, &spot, hint.as_deref().unwrap_or_default()));
            }
            return;
        }
        // A choice says which values there are, which is more than their type.
        Kind::Type { .. } if schema_of(error).is_some_and(|s| s.get("enum").is_some()) => return,
        Kind::Type { kind } => {
            format!("{name} must be {}, not {found}{}", describe_type(kind), remedy(&spot, kind))
        }
        Kind::Enum { options } => format!("{name} {}", choice(options, &spot)),
        Kind::Minimum { limit } => format!("{name} must be at least {limit}, not {found}"),
        Kind::Maximum { limit } => format!("{name} must be at most {limit}, not {found}"),
        Kind::ExclusiveMinimum { limit } => format!("{name} must be above {limit}, not {found}"),
        Kind::Pattern { .. } if spot.path.ends_with("sha256") => {
            format!("{name} must be 64 hexadecimal digits")
        }
        Kind::Pattern { .. } if spot.path.ends_with("key_header") => {
            format!("{name} must be the name of a header, not a key itself")
        }
        Kind::Pattern { .. } => {
            format!("{name} must be the name of an environment variable, not a key itself")
        }
        Kind::Required { property } => format!("{name} needs {}", quote_property(property)),
        _ => format!("{name} is not allowed: {}", error.masked()),
    };
    problems.push(Problem::new(&spot.node.place, message));
}

fn unknown_key(key: &str, spot: &ErrorPlace<'_>, hint: &str) -> Problem {
    let place = spot.node.entry(key).map_or(&spot.node.place, |entry| &entry.key);
    let inside = match spot.path.as_str() {
        "" => String::new(),
        path => format!(" in `{path}`"),
    };
    Problem::new(place, format!("unknown key `{}`{inside}{hint}", shown(key)))
}

fn hint(key: &str, spot: &ErrorPlace<'_>, error: &ValidationError<'_>) -> String {
    let section = schema_of(error);
    let near = section.and_then(|section| nearest(key, schema::keys(section)));
    match near {
        // The nearest by letters, `api`, would mislead.
        _ if key == "api_key" && spot.keys.first().is_some_and(|first| first == "providers") => {
            "; keys are not written here; `api_key_env` names the variable that holds it".to_owned()
        }
        Some(near) => format!("; did you mean `{near}`?"),
        None => elsewhere(key, section),
    }
}

fn schema_of(error: &ValidationError<'_>) -> Option<&'static serde_json::Value> {
    error.instance_path().into_iter().try_fold(schema::json_schema(), |schema, part| match part {
        LocationSegment::Property(key) => schema::child(schema, &key),
        LocationSegment::Index(_) => schema.get("items"),
    })
}

/// Where else a key of this name stands, or which keys there are.
fn elsewhere(key: &str, section: Option<&serde_json::Value>) -> String {
    let paths = schema::paths_ending_in(key);
    if !paths.is_empty() {
        return format!("; did you mean `{}`?", paths.join("` or `"));
    }
    let keys: Vec<&str> = section.into_iter().flat_map(schema::keys).collect();
    if keys.is_empty() || keys.len() > LISTED_KEYS {
        return "; `deputize config schema` lists the keys".to_owned();
    }
    format!("; its keys: {}", keys.join(", "))
}

/// Describes the value that was found. Values of keys that may hold a secret are never shown.
fn describe_value(spot: &ErrorPlace<'_>) -> String {
    const SECRET: &[&str] =
        &["api_key", "headers", "env", "base_url", "url", "api_key_env", "key_header", "proxy"];
    let secret = spot.keys.iter().any(|key| SECRET.contains(&key.as_str()));
    match &spot.node.value {
        Value::Null => "nothing".to_owned(),
        Value::Text(_) | Value::Number(_) | Value::Bool(_) if secret => "this value".to_owned(),
        Value::Bool(flag) => format!("{flag}"),
        Value::Number(number) => number.to_string(),
        Value::Text(text) => format!("the text `{}`", shown(text)),
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a mapping".to_owned(),
    }
}

fn describe_type(kind: &TypeKind) -> String {
    let kinds: Vec<String> = match kind {
        TypeKind::Single(kind) => vec![kind.to_string()],
        TypeKind::Multiple(kinds) => kinds.iter().map(|kind| kind.to_string()).collect(),
    };
    let words = kinds.iter().filter_map(|kind| match kind.as_str() {
        "integer" => Some("a whole number"),
        "number" => Some("a number"),
        "string" => Some("text"),
        "boolean" => Some("true or false"),
        "array" => Some("a list"),
        "object" => Some("a mapping"),
        _ => None,
    });
    words.collect::<Vec<_>>().join(" or ")
}

/// Returns a remedy for a value whose type is wrong because of its quotes or their absence, or
/// because an older YAML reads a word as a truth value.
fn remedy(spot: &ErrorPlace<'_>, kind: &TypeKind) -> &'static str {
    let wanted = describe_type(kind);
    match &spot.node.value {
        Value::Text(word) if wanted == "true or false" => {
            match word.to_ascii_lowercase().as_str() {
                "yes" | "on" | "y" => "; write `true`",
                "no" | "off" | "n" => "; write `false`",
                _ => "",
            }
        }
        Value::Number(_) | Value::Bool(_) if wanted == "text" => "; put it in quotes",
        Value::Text(text) if wanted.ends_with("number") && text.parse::<f64>().is_ok() => {
            "; leave out the quotes"
        }
        _ => "",
    }
}

fn choice(options: &serde_json::Value, spot: &ErrorPlace<'_>) -> String {
    let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
    let options: Vec<&str> = options.iter().filter_map(serde_json::Value::as_str).collect();
    let named: Vec<&str> =
        options.iter().map(|name| if name.is_empty() { "\"\"" } else { *name }).collect();
    let near = match &spot.node.value {
        Value::Text(text) => nearest(text, options.into_iter().filter(|name| !name.is_empty())),
        _ => None,
    };
    let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    format!("must be one of {}, not {}{hint}", named.join(", "), describe_value(spot))
}

fn quote_property(property: &serde_json::Value) -> String {
    format!("`{}`", property.as_str().unwrap_or_default())
}
