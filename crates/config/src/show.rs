//! The verbs of `deputize config`, as functions from the sources to text.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::load::{ConfigError, LoadedConfig, Sources, load};
use super::place::{ConfigPlace, Problem};
use super::schema;

/// What `deputize config` is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Where the person's configuration file is, whether it exists or not.
    Path,
    /// The values in force, and what set those that are no defaults.
    Show {
        /// As JSON instead of YAML.
        json: bool,
    },
    /// Whether everything is right.
    Check,
    /// The JSON Schema of the file.
    Schema,
}

/// What a verb gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// For standard output, with the last line's end.
    pub text: String,
    /// For standard error, one a line.
    pub warnings: Vec<Problem>,
}

/// Why a verb gives nothing. The exit code is [`ConfigError::EXIT_CODE`] in every case.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerbError {
    /// The environment names no home directory.
    #[error("no directory for the configuration: set DEPUTIZE_HOME to one")]
    NoHome,
    /// The configuration has mistakes.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// Runs one verb.
///
/// # Errors
///
/// When the configuration has mistakes, or, for [`Verb::Path`], no place.
pub fn run(verb: Verb, sources: &Sources) -> Result<Output, VerbError> {
    let quiet = |text| Ok(Output { text, warnings: Vec::new() });
    match verb {
        Verb::Path => {
            let path = sources.user_file().ok_or(VerbError::NoHome)?;
            quiet(format!("{}\n", path.display()))
        }
        Verb::Schema => quiet(format!("{:#}\n", schema::json_schema())),
        Verb::Check => {
            let loaded = load(sources)?;
            Ok(render_check(&loaded, sources))
        }
        Verb::Show { json } => {
            let loaded = load(sources)?;
            let text = if json { as_json(&loaded) } else { as_yaml(&loaded) };
            Ok(Output { text, warnings: loaded.warnings })
        }
    }
}

/// Returns the summary of a configuration without mistakes.
pub fn render_check(loaded: &LoadedConfig, sources: &Sources) -> Output {
    Output { text: summary(loaded, sources), warnings: loaded.warnings.clone() }
}

fn summary(loaded: &LoadedConfig, sources: &Sources) -> String {
    let read = match sources.user_file() {
        Some(own) if own.is_file() => format!("no mistakes in {}", own.display()),
        Some(own) => format!("no mistakes; there is no file {} yet", own.display()),
        None => "no mistakes; there is no file".to_owned(),
    };
    let keys = loaded.origins.len();
    let warnings = loaded.warnings.len();
    format!("{read}; keys set: {keys}, warnings: {warnings}\n")
}

fn as_json(loaded: &LoadedConfig) -> String {
    let origins: BTreeMap<&String, String> =
        loaded.origins.iter().map(|(key, place)| (key, place.to_string())).collect();
    let all = json!({ "config": values(loaded), "origins": origins });
    format!("{all:#}\n")
}

/// The values in force; secrets are hidden by their type.
fn values(loaded: &LoadedConfig) -> Value {
    serde_json::to_value(&loaded.config).unwrap_or_default()
}

fn as_yaml(loaded: &LoadedConfig) -> String {
    let mut out = String::from("# Values without an origin are defaults.\n");
    section(&values(loaded), "", &loaded.origins, &mut out);
    out
}

fn section(value: &Value, path: &str, origins: &BTreeMap<String, ConfigPlace>, out: &mut String) {
    let Some(map) = value.as_object() else { return };
    let indent = "  ".repeat(if path.is_empty() { 0 } else { path.split('.').count() });
    let sorted: BTreeMap<&String, &Value> = map.iter().filter(|(_, v)| !v.is_null()).collect();
    for (key, value) in sorted {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let filled = value.as_object().is_some_and(|map| map.values().any(|v| !v.is_null()));
        if filled {
            out.push_str(&format!("{indent}{}:\n", scalar(key)));
            section(value, &path, origins, out);
            continue;
        }
        let origin = origins.get(&path).map(|place| format!("  # {place}")).unwrap_or_default();
        let value = inline(value);
        out.push_str(&format!("{indent}{}: {value}{origin}\n", scalar(key)));
    }
}

/// A value on one line, as YAML.
fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) => {
            let map: BTreeMap<&String, &Value> = map.iter().filter(|(_, v)| !v.is_null()).collect();
            let pairs: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{}: {}", scalar(key), inline(value)))
                .collect();
            format!("{{{}}}", pairs.join(", "))
        }
        other => other.to_string(),
    }
}

/// Text as YAML: plain where no reader could take it for anything else, and in double
/// quotes otherwise, with everything escaped that a terminal would obey.
fn scalar(text: &str) -> String {
    const WORDS: &[&str] = &["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(word)
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    if plain {
        return text.to_owned();
    }
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            _ if c.is_alphanumeric() => out.push(c),
            _ => out.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    out.push('"');
    out
}
