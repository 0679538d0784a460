//! Parses and checks a plugin's description of itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use deputize_core::sanitize::{clean, clean_json, for_terminal_line};
use deputize_core::schema::Schema;
use deputize_core::{
    Availability, Effects, Example, ToolDecl, ToolKind, ToolName, ToolSpec, ToolsetName,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::answer::{ParsedAnswer, parse_answer};
use crate::error::PluginError;

/// Maximum size of a description in bytes.
const MAX_BYTES: usize = 1024 * 1024;
/// Maximum number of tools of a plugin.
const MAX_TOOLS: usize = 128;
/// Maximum size of a tool's description in bytes, without its arguments.
const MAX_DESCRIPTION: usize = 16 * 1024;
/// Maximum number of examples of a tool.
const MAX_EXAMPLES: usize = 32;
/// Maximum characters shown of a version or a title.
const SHOWN_CHARS: usize = 80;
/// Maximum characters of a verb.
const VERB_CHARS: usize = 20;
/// Maximum characters of an explanation.
const WHY_CHARS: usize = 200;
/// Time limit of a tool that names none.
const TIME_LIMIT: Duration = Duration::from_secs(120);
/// Maximum time limit of a call, whatever its tool says.
const LONGEST: Duration = Duration::from_secs(3600);

/// The known keys of a tool.
const KEYS: [&str; 13] = [
    "description",
    "effects",
    "examples",
    "kind",
    "name",
    "parallel",
    "parameters",
    "repeatable",
    "subject",
    "time_limit_ms",
    "toolset",
    "unusable",
    "verb",
];

/// The tools of a plugin, and what it says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// Its name.
    pub name: ToolsetName,
    /// Its version, for people.
    pub version: String,
    /// Its tools, by name.
    pub tools: Vec<ToolDescription>,
    /// Descriptions of unknown keys. A later version of the contract may have them, or they are
    /// misspelt.
    pub unknown: Vec<String>,
}

/// A tool of a plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDescription {
    /// The toolset that it is granted or withheld with.
    pub toolset: ToolsetName,
    /// Its specification.
    pub spec: ToolSpec,
}

#[derive(Deserialize)]
struct RawDescription {
    name: String,
    version: String,
    tools: Vec<RawTool>,
    #[serde(flatten)]
    rest: BTreeMap<String, IgnoredAny>,
}

#[derive(Deserialize)]
struct RawTool {
    name: String,
    description: String,
    parameters: Value,
    #[serde(default)]
    toolset: Option<String>,
    #[serde(default = "unknown")]
    effects: Effects,
    #[serde(default)]
    repeatable: bool,
    #[serde(default)]
    parallel: bool,
    #[serde(default)]
    time_limit_ms: Option<u64>,
    #[serde(default)]
    unusable: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    subject: Option<String>,
    #[serde(default)]
    verb: Option<String>,
    #[serde(default)]
    examples: Vec<RawExample>,
    #[serde(flatten)]
    rest: BTreeMap<String, IgnoredAny>,
}

#[derive(Deserialize)]
struct RawExample {
    #[serde(default)]
    title: String,
    arguments: Value,
    #[serde(flatten)]
    rest: BTreeMap<String, IgnoredAny>,
}

/// Describes unknown keys, each with the nearest known one. Of many, only the first are described.
fn strange(place: &str, rest: &BTreeMap<String, IgnoredAny>, known: &[&str]) -> Vec<String> {
    const MOST: usize = 8;
    let one = |key: &String| {
        let score = |known: &&str| strsim::jaro_winkler(key, known);
        let nearest = known.iter().max_by(|a, b| score(a).total_cmp(&score(b)));
        let nearest = nearest.filter(|known| score(known) > 0.8);
        let meant =
            nearest.map(|known| format!("; perhaps `{known}` is meant")).unwrap_or_default();
        format!(
            "{place} has a key `{}` that is not known{meant}",
            for_terminal_line(key, SHOWN_CHARS)
        )
    };
    rest.keys().take(MOST).map(one).collect()
}

const fn unknown() -> Effects {
    Effects::Unknown
}

impl Description {
    /// Parses a plugin's answer to a request for its description.
    ///
    /// # Errors
    /// If it breaks the contract or exceeds a limit; the error names the tool and the mistake.
    pub fn parse(answer: &str) -> Result<Self, PluginError> {
        let wrong = |why: String| PluginError::Description { plugin: "?".to_owned(), why };
        if answer.len() > MAX_BYTES {
            let why = format!("it has {} bytes, and the limit is {MAX_BYTES}", answer.len());
            return Err(wrong(why));
        }
        let json = match parse_answer(answer).map_err(|error| wrong(error.to_string()))? {
            ParsedAnswer::Ok { json, .. } => json,
            ParsedAnswer::Panicked => return Err(wrong("it panicked".to_owned())),
            ParsedAnswer::Refused(text) | ParsedAnswer::Failed(text) => {
                return Err(wrong(for_terminal_line(&text, WHY_CHARS)));
            }
            ParsedAnswer::Cancelled(_) => return Err(wrong("it was cancelled".to_owned())),
        };
        let raw: RawDescription =
            // It may repeat what it does not know, of any length.
            serde_json::from_str(json).map_err(|error| wrong(for_terminal_line(&error.to_string(), WHY_CHARS)))?;
        let shown = for_terminal_line(&raw.name, SHOWN_CHARS);
        let wrong = |why: String| PluginError::Description { plugin: shown.clone(), why };
        let name = ToolsetName::new(raw.name).map_err(|error| wrong(error.to_string()))?;
        if raw.tools.len() > MAX_TOOLS {
            let why = format!("it has {} tools, and the limit is {MAX_TOOLS}", raw.tools.len());
            return Err(wrong(why));
        }
        if raw.tools.is_empty() {
            // Nobody configures one for nothing: something was forgotten.
            let why = "it has no tools: its author has to register one, or in C to name it in \
                       `describe`";
            return Err(wrong(why.to_owned()));
        }
        let mut unknown = strange("the description", &raw.rest, &["name", "tools", "version"]);
        let mut names = BTreeSet::new();
        let mut tools = Vec::new();
        for tool in raw.tools {
            let shown = for_terminal_line(&tool.name, SHOWN_CHARS);
            let wrong = |why: String| wrong(format!("tool `{shown}`: {why}"));
            unknown.extend(strange(&format!("tool `{shown}`"), &tool.rest, &KEYS));
            for example in &tool.examples {
                let place = format!("an example of tool `{shown}`");
                unknown.extend(strange(&place, &example.rest, &["arguments", "title"]));
            }
            unknown.extend(unknown_kind(&shown, tool.kind.as_deref()));
            let described = described(tool, &name).map_err(wrong)?;
            if !names.insert(described.spec.decl.name.clone()) {
                return Err(wrong("there are two of that name".to_owned()));
            }
            tools.push(described);
        }
        tools.sort_by(|a, b| a.spec.decl.name.cmp(&b.spec.decl.name));
        Ok(Self { name, version: for_terminal_line(&raw.version, SHOWN_CHARS), tools, unknown })
    }
}

/// Describes an unknown kind. It does no harm: a later version may have it.
fn unknown_kind(tool: &str, kind: Option<&str>) -> Option<String> {
    let kind = kind.filter(|kind| ToolKind::from_name(kind).is_none())?;
    let known: Vec<&str> = ToolKind::ALL.iter().map(|kind| kind.as_str()).collect();
    let kind = for_terminal_line(kind, SHOWN_CHARS);
    Some(format!("tool `{tool}` has the unknown kind `{kind}`; known are {}", known.join(", ")))
}

fn described(raw: RawTool, plugin: &ToolsetName) -> Result<ToolDescription, String> {
    let name = ToolName::new(raw.name).map_err(|error| error.to_string())?;
    if raw.description.trim().is_empty() {
        return Err("it has no description, so no model knows what it is for".to_owned());
    }
    if raw.description.len() > MAX_DESCRIPTION {
        let found = raw.description.len();
        return Err(format!("its description has {found} bytes; the limit is {MAX_DESCRIPTION}"));
    }
    if raw.examples.len() > MAX_EXAMPLES {
        return Err(format!("it has more than {MAX_EXAMPLES} examples"));
    }
    let description = clean(&raw.description).text.trim().to_owned();
    let parameters =
        Schema::new(&clean_json(&raw.parameters)).map_err(|error| error.to_string())?;
    let toolset = match raw.toolset {
        Some(toolset) => ToolsetName::new(toolset).map_err(|error| error.to_string())?,
        None => plugin.clone(),
    };
    let limit = raw.time_limit_ms.map_or(TIME_LIMIT, Duration::from_millis);
    let decl = ToolDecl { name, description, parameters };
    let kind = raw.kind.as_deref().and_then(ToolKind::from_name).unwrap_or_default();
    let mut spec = ToolSpec::effectful(decl, raw.effects);
    spec.kind = kind;
    if let Some(subject) = raw.subject {
        spec = spec.about(kind, subject);
    }
    if let Some(verb) = raw.verb {
        spec.subject = spec.subject.with_verb(for_terminal_line(&verb, VERB_CHARS));
    }
    let spec = ToolSpec {
        effects: raw.effects,
        repeatable: raw.repeatable,
        parallel: raw.parallel,
        time_limit: Some(limit.clamp(Duration::from_millis(1), LONGEST)),
        usable: raw
            .unusable
            .map_or(Availability::Yes, |why| Availability::No(for_terminal_line(&why, WHY_CHARS))),
        examples: raw.examples.into_iter().map(example).collect(),
        ..spec
    };
    Ok(ToolDescription { toolset, spec })
}

/// Returns an example. Its title is leaked, because a plugin is never unloaded.
fn example(raw: RawExample) -> Example {
    let title = for_terminal_line(&raw.title, SHOWN_CHARS).into_boxed_str();
    Example { title: Box::leak(title), arguments: raw.arguments }
}

#[cfg(test)]
mod tests {
    use deputize_core::{ArgumentRole, Subject};
    use serde_json::json;

    use super::*;

    fn describe(tool: &Value) -> String {
        let answer = json!({"ok": {"name": "words", "version": "1", "tools": [tool]}});
        match Description::parse(&answer.to_string()) {
            Ok(description) => format!("{:?}", description.tools[0].spec.effects),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_is_not_said_is_the_careful_choice() {
        let answer = r#"{"ok":{"name":"words","version":"1\n2","tools":[{"name":"count",
            "description":" Counts. ","parameters":{"type":"object"}}]}}"#;
        let read = Description::parse(answer).unwrap();
        assert_eq!((read.name.as_str(), read.version.as_str()), ("words", "1 2"));
        let ToolDescription { toolset, spec } = &read.tools[0];
        assert_eq!(toolset.as_str(), "words");
        assert_eq!(spec.decl.description, "Counts.");
        assert_eq!(
            (spec.effects, spec.repeatable, spec.parallel),
            (Effects::Unknown, false, false)
        );
        assert_eq!(spec.time_limit, Some(Duration::from_secs(120)));
    }

    #[test]
    fn a_tool_says_what_its_calls_are_about_or_does_not() {
        let tool = |more: Value| {
            let mut tool =
                json!({"name": "a", "description": "x", "parameters": {"type": "object"}});
            tool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let answer = json!({"ok": {"name": "w", "version": "1", "tools": [tool]}});
            let read = Description::parse(&answer.to_string()).unwrap();
            (read.tools[0].spec.clone(), read.unknown)
        };
        let (spec, unknown) = tool(json!({"kind": "fetch", "subject": "at", "verb": "get\n"}));
        assert_eq!((spec.kind, spec.subject.verb()), (ToolKind::Fetch, Some("get")));
        assert_eq!(spec.subject.main(), Some(("at", ArgumentRole::Url)));
        assert_eq!(unknown, Vec::<String>::new());
        let (silent, unknown) = tool(json!({"kind": null, "subject": null, "verb": null}));
        assert_eq!((silent.kind, silent.subject), (ToolKind::Other, Subject::default()));
        assert_eq!((silent.effects, unknown), (Effects::Unknown, Vec::new()));
        let (later, unknown) = tool(json!({"kind": "paint", "subject": "command"}));
        assert_eq!(later.kind, ToolKind::Other);
        assert_eq!(later.subject.role("command"), Some(ArgumentRole::Command));
        assert_eq!(
            unknown,
            ["tool `a` has the unknown kind `paint`; known are read, edit, delete, move, search, \
              execute, fetch, delegate, think, other"]
        );
    }

    #[test]
    fn a_key_that_nobody_knows_is_reported_with_the_nearest_and_harms_nothing() {
        let answer = r#"{"ok":{"name":"w","version":"1","licence":"MIT","tools":[{"name":"a",
            "description":"x","parameters":{"type":"object"},"efects":"read_only",
            "examples":[{"title":"t","argumants":{},"arguments":{}}]}]}}"#;
        let read = Description::parse(answer).unwrap();
        assert_eq!(read.tools[0].spec.effects, Effects::Unknown);
        let expected = [
            "the description has a key `licence` that is not known",
            "tool `a` has a key `efects` that is not known; perhaps `effects` is meant",
            "an example of tool `a` has a key `argumants` that is not known; perhaps `arguments` is meant",
        ];
        assert_eq!(read.unknown, expected);
    }

    #[test]
    fn limits_hold_whatever_it_says() {
        let answer = r#"{"ok":{"name":"w","version":"","tools":[{"name":"a","description":"x",
            "parameters":{"type":"object"},"time_limit_ms":18446744073709551615,
            "effects":"read_only","toolset":"letters","unusable":"no\u001b[2J\u202e key"}]}}"#;
        let read = Description::parse(answer).unwrap();
        let ToolDescription { toolset, spec } = &read.tools[0];
        assert_eq!(spec.time_limit, Some(LONGEST));
        assert_eq!((toolset.as_str(), spec.effects), ("letters", Effects::ReadOnly));
        assert_eq!(spec.usable, Availability::No("no key".to_owned()));
    }

    #[test]
    fn a_mistake_is_reported_with_its_tool() {
        let good = json!({"name": "a", "description": "x", "parameters": {"type": "object"}});
        assert_eq!(describe(&good), "Unknown");
        let with = |key: &str, value: Value| {
            let mut tool = good.clone();
            tool[key] = value;
            describe(&tool)
        };
        let name = |n: u32| json!({"$ref": format!("#/$defs/{n}")});
        let twice = |n: u32| (n.to_string(), json!({"allOf": [name(n + 1), name(n + 1)]}));
        let mut defs: serde_json::Map<String, Value> = (0..60).map(twice).collect();
        defs.insert("60".to_owned(), json!(true));
        let unfolding = json!({"type": "object", "$ref": "#/$defs/0", "$defs": defs});
        for (wrong, word) in [
            (with("name", json!("a b")), "not a tool name"),
            (with("description", json!(" ")), "no description"),
            (with("description", json!("x".repeat(20_000))), "20000 bytes"),
            (with("parameters", json!({"type": "array"})), "must have type `object`"),
            (with("parameters", unfolding), "must not unfold to more than 100000 parts"),
            (with("effects", json!("none")), "unknown variant"),
            (with("examples", json!(vec![json!({"arguments": {}}); 33])), "more than 32 examples"),
        ] {
            assert!(wrong.contains(word), "{wrong}");
        }
        for (answer, word) in [
            ("", "not JSON"),
            (r#"{"panicked":true}"#, "it panicked"),
            (r#"{"failed":"no disk"}"#, "no disk"),
            (r#"{"ok":{"name":"a/b","version":"","tools":[]}}"#, "not a toolset name"),
            (r#"{"ok":{"name":"w","version":"","tools":[]}}"#, "it has no tools: its author"),
            (r#"{"ok":[]}"#, "invalid"),
        ] {
            let error = Description::parse(answer).unwrap_err().to_string();
            assert!(error.contains(word), "{answer}: {error}");
        }
        let rude = r#"{"ok":{"name":"w\u007f","version":"","tools":[]}}"#;
        let error = Description::parse(rude).unwrap_err().to_string();
        assert!(error.contains(r"`w\u{7f}` is not"), "{error}");
        let long = "no disk\u{1b}[2J ".repeat(10_000);
        for answer in [json!({"failed": long}), json!({"ok": long})] {
            let error = Description::parse(&answer.to_string()).unwrap_err().to_string();
            assert!(error.contains("no disk") && error.chars().count() < 400, "{error}");
        }
        let twice = json!({"ok": {"name": "w", "version": "", "tools": [good, good]}});
        let error = Description::parse(&twice.to_string()).unwrap_err().to_string();
        assert!(error.contains("tool `a`: there are two of that name"), "{error}");
    }
}
