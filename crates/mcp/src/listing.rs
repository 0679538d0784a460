//! Checks the listing of a server: each tool is offered, or a problem says why not.

use std::collections::BTreeMap;

use deputize_core::ToolKind;
use deputize_core::sanitize::{clean, clean_json, for_terminal_line};
use deputize_core::schema::{Schema, looks_within};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::names::names;
use crate::server::hex;

/// Limit on the tools of one server.
pub const TOOLS: usize = 512;
/// Limit on a tool's description, in bytes.
pub const DESCRIPTION_BYTES: usize = 16 * 1024;
/// Limit on a tool's schema, in bytes.
pub const SCHEMA_BYTES: usize = 64 * 1024;
/// Limit on validation steps for a result.
const LOOKS: u64 = 100_000;

/// A tool as its server describes it. The declaration for models follows from this, so a person
/// approves its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDescription {
    /// The server's name for it.
    pub name: String,
    /// Its description, in the server's words.
    pub description: String,
    /// Its arguments: the canonical text of a JSON Schema.
    pub schema: String,
}

impl ToolDescription {
    /// Returns a digest that identifies this description.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut sum = Sha256::new();
        for part in [&self.name, &self.description, &self.schema] {
            sum.update((part.len() as u64).to_le_bytes());
            sum.update(part.as_bytes());
        }
        hex(&sum.finalize())
    }

    /// Returns the description without invisible characters, for models.
    #[must_use]
    pub fn for_model(&self) -> String {
        clean(&self.description).text.trim().to_owned()
    }

    /// Returns the schema of the arguments for models: no invisible characters, neither in texts
    /// nor in names.
    pub(crate) fn parameters(&self) -> Option<Schema> {
        Schema::new(&clean_json(&serde_json::from_str(&self.schema).ok()?)).ok()
    }

    /// Returns the description as models get it.
    pub(crate) fn for_model_listing(&self) -> Self {
        let schema = self.parameters().map(|schema| schema.as_str().to_owned());
        Self {
            name: self.name.clone(),
            description: self.for_model(),
            schema: schema.unwrap_or_default(),
        }
    }
}

/// Listing of a server: its name, its instructions and its tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerListing {
    /// The server's own name and version.
    pub server: Option<String>,
    /// The negotiated version of the protocol.
    pub protocol: String,
    /// The server's instructions for its tools. No model gets them.
    pub instructions: Option<String>,
    /// Whether it has resources.
    pub resources: bool,
    /// Whether it has prompts.
    pub prompts: bool,
    /// Its tools that can be offered, by name.
    pub tools: Vec<ToolDescription>,
    /// Why other tools cannot be offered.
    pub problems: Vec<String>,
    /// Schemas of the tools' structured results, by name. No model gets them, so nobody approves
    /// them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, String>,
    /// Kinds of the tools, by name, from their annotations. People and editors see them. No right
    /// depends on them, so nobody approves them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<String, ToolKind>,
}

impl ServerListing {
    /// Returns a digest that identifies the instructions.
    pub(crate) fn instructions_digest(&self) -> String {
        self.instructions.as_ref().map(|said| hex(&Sha256::digest(said))).unwrap_or_default()
    }

    /// Returns a tool by the server's name for it.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&ToolDescription> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

/// Checks the tools of a list, in whatever form they came.
pub(crate) fn checked(server: &str, tools: &[Value]) -> (Vec<ToolDescription>, Vec<String>) {
    let mut problems = Vec::new();
    let mut found: BTreeMap<String, ToolDescription> = BTreeMap::new();
    let mut twice: Vec<String> = Vec::new();
    for tool in tools {
        match parse_tool(tool) {
            Ok(tool) => match found.get(&tool.name) {
                Some(same) if *same == tool => {}
                Some(_) => twice.push(tool.name),
                None => {
                    found.insert(tool.name.clone(), tool);
                }
            },
            Err(why) => problems.push(why),
        }
    }
    twice.sort();
    twice.dedup();
    for name in twice {
        // Which of them a call would reach is the server's choice, so neither is offered.
        found.remove(&name);
        problems.push(format!("tool {} is listed twice, differently", quote_name(&name)));
    }
    let names = names(server, found.keys().map(String::as_str));
    found.retain(|name, _| match names.get(name) {
        Some(Err(why)) => {
            problems.push(format!("tool {}: {why}", quote_name(name)));
            false
        }
        _ => true,
    });
    if found.len() > TOOLS {
        problems.push(format!("it has {} tools; the first {TOOLS} by name are taken", found.len()));
    }
    (found.into_values().take(TOOLS).collect(), problems)
}

/// Returns the result schemas of the offered tools. Invalid schemas are left out.
pub(crate) fn outputs(tools: &[Value], offered: &[ToolDescription]) -> BTreeMap<String, String> {
    let schema = |tool: &Value| {
        let name = tool.get("name").and_then(Value::as_str)?;
        let schema = tool.get("outputSchema").filter(|schema| schema.is_object())?;
        let offered = offered.iter().any(|offered| offered.name == name);
        offered.then_some(())?;
        Some((name.to_owned(), arguments(Some(schema)).ok()?))
    };
    tools.iter().filter_map(schema).collect()
}

/// Returns the kinds that the annotations of tools state.
pub(crate) fn kinds(tools: &[Value], offered: &[ToolDescription]) -> BTreeMap<String, ToolKind> {
    let kind = |tool: &Value| {
        let name = tool.get("name").and_then(Value::as_str)?;
        let is_offered = offered.iter().any(|offered| offered.name == name);
        let kind = annotated_kind(tool.get("annotations").filter(|_| is_offered)?)?;
        Some((name.to_owned(), kind))
    };
    tools.iter().filter_map(kind).collect()
}

fn annotated_kind(annotations: &Value) -> Option<ToolKind> {
    let hint = |name: &str| annotations.get(name).and_then(Value::as_bool);
    match (hint("readOnlyHint")?, hint("openWorldHint")) {
        (true, Some(true)) => Some(ToolKind::Fetch),
        (true, _) => Some(ToolKind::Read),
        (false, Some(false)) => Some(ToolKind::Edit),
        (false, _) => None,
    }
}

/// How a result misses what its tool says of it, if it does: in words of ours, and what is wrong
/// first, of which the server has written a part.
pub(crate) fn missed(schema: &str, structured: Option<&Value>) -> Option<(String, String)> {
    const SAID: &str = "the tool's output schema";
    let Some(value) = structured else {
        let note = format!("there is no structured data, which {SAID} promises");
        return Some((note, String::new()));
    };
    let schema = serde_json::from_str(schema).ok()?;
    let validator = jsonschema::validator_for(&schema).ok()?;
    if validator.is_valid(value) {
        return None;
    }
    // To find what is wrong may take far longer than to find that something is.
    let within = looks_within(&schema, value, LOOKS);
    let first = within.then(|| validator.validate(value).err()).flatten().map(|error| {
        let place = for_terminal_line(&error.instance_path().to_string(), 100);
        format!(
            "wrong in the structured data: {place} {}",
            for_terminal_line(&error.to_string(), 200)
        )
    });
    Some((format!("the structured data does not fit {SAID}"), first.unwrap_or_default()))
}

/// A name in a message to a person.
fn quote_name(name: &str) -> String {
    format!("\"{}\"", for_terminal_line(&deputize_core::sanitize::for_question(name), 80))
}

fn parse_tool(tool: &Value) -> Result<ToolDescription, String> {
    let Some(name) = tool.get("name").and_then(Value::as_str) else {
        return Err("a tool without a name".to_owned());
    };
    let describe = |why: String| format!("tool {}: {why}", quote_name(name));
    let task = tool.pointer("/execution/taskSupport").and_then(Value::as_str);
    if task == Some("required") {
        return Err(describe(
            "it is called as a task only, and tasks are not supported".to_owned(),
        ));
    }
    let text = |key: &str| tool.get(key).and_then(Value::as_str).unwrap_or_default();
    let description =
        if text("description").trim().is_empty() { text("title") } else { text("description") };
    if description.len() > DESCRIPTION_BYTES {
        return Err(describe(format!(
            "its description has {} bytes, more than {DESCRIPTION_BYTES}",
            description.len()
        )));
    }
    let schema = arguments(tool.get("inputSchema")).map_err(describe)?;
    let tool =
        ToolDescription { name: name.to_owned(), description: description.to_owned(), schema };
    let has_valid_schema = tool.parameters().is_some_and(|tool_parameters| {
        tool_parameters.as_str() == tool.schema
            || jsonschema::validator_for(&tool_parameters.to_value()).is_ok()
    });
    if has_valid_schema {
        return Ok(tool);
    }
    Err(describe("its schema is none without the characters that cannot be seen".to_owned()))
}

/// The schema of a tool's arguments, as one that a call can be held against.
fn arguments(found: Option<&Value>) -> Result<String, String> {
    let mut object: Map<String, Value> = match found {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(object)) => object.clone(),
        Some(other) => return Err(format!("its schema is no object but {}", kind(other))),
    };
    object.entry("type").or_insert_with(|| json!("object"));
    let value = Value::Object(object);
    let schema = Schema::new(&value).map_err(|error| error.to_string())?;
    let bytes = schema.as_str().len();
    if bytes > SCHEMA_BYTES {
        return Err(format!("its schema has {bytes} bytes, more than {SCHEMA_BYTES}"));
    }
    match jsonschema::validator_for(&value) {
        Ok(_) => Ok(schema.as_str().to_owned()),
        Err(error) => {
            Err(format!("its schema is none: {}", for_terminal_line(&error.to_string(), 200)))
        }
    }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, description: &str, schema: &Value) -> Value {
        json!({"name": name, "description": description, "inputSchema": schema})
    }

    #[test]
    fn annotations_tell_the_sort_of_work() {
        let annotated =
            |name: &str, annotations: Value| json!({"name": name, "annotations": annotations});
        let tools = [
            annotated("read", json!({"readOnlyHint": true})),
            annotated("get", json!({"readOnlyHint": true, "openWorldHint": true})),
            annotated("put", json!({"readOnlyHint": false, "openWorldHint": false})),
            annotated("send", json!({"readOnlyHint": false, "openWorldHint": true})),
            annotated("odd", json!({"readOnlyHint": "yes"})),
            annotated("bad", json!(["readOnlyHint"])),
            json!({"name": "plain"}),
            json!({"annotations": {"readOnlyHint": true}}),
        ];
        let (offered, _) = checked("s", &tools);
        let kinds = kinds(&tools, &offered);
        let kinds: Vec<(&str, ToolKind)> =
            kinds.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
        let expected =
            [("get", ToolKind::Fetch), ("put", ToolKind::Edit), ("read", ToolKind::Read)];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn one_bad_tool_does_not_take_the_others_with_it() {
        let object = json!({"type": "object"});
        let (tools, problems) = checked(
            "s",
            &[
                tool("good", "Does good.", &object),
                tool("list", "", &json!([1])),
                tool("text", "", &json!({"type": "string"})),
                tool("bad", "", &json!({"type": "object", "properties": {"a": {"type": "blob"}}})),
                json!({"description": "nameless"}),
                tool("a\u{1b}[2K", "", &object),
                tool("", "", &object),
                json!({"name": "bare", "execution": {"taskSupport": "optional"}}),
                json!({"name": "task", "execution": {"taskSupport": "required"}}),
                tool("long", &"x".repeat(DESCRIPTION_BYTES + 1), &object),
                tool("most", &"x".repeat(DESCRIPTION_BYTES), &object),
                json!(7),
            ],
        );
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["bare", "good", "most"]);
        assert_eq!(tools[0].schema, r#"{"type":"object"}"#);
        assert_eq!(problems.len(), 9, "{problems:#?}");
        assert!(problems.iter().any(|why| why.contains("\"a\\u{1b}[2K\"")), "{problems:#?}");
    }

    #[test]
    fn a_schema_that_would_never_be_done_is_reported_and_the_tool_left_out() {
        let name = |n: u32| json!({"$ref": format!("#/$defs/d{n}")});
        let mut all: Map<String, Value> = (0..60)
            .map(|n| (format!("d{n}"), json!({"properties": {"a": name(n + 1), "b": name(n + 1)}})))
            .collect();
        all.insert("d60".to_owned(), json!({"type": "string"}));
        let bomb = json!({"type": "object", "$ref": "#/$defs/d0", "$defs": all});
        let tree = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
        let (tools, problems) = checked("s", &[tool("bomb", "", &bomb), tool("tree", "", &tree)]);
        assert_eq!(tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["tree"]);
        let expected = "tool \"bomb\": a schema must not unfold to more than 100000 parts";
        assert!(problems.len() == 1 && problems[0].starts_with(expected), "{problems:#?}");
    }

    #[test]
    fn nothing_invisible_in_a_schema_reaches_a_model_and_the_pin_is_of_what_was_sent() {
        let hidden = "a\u{1b}[8m\u{200b}\u{e0041}";
        let schema = json!({
            "type": "object",
            "properties": {(hidden): {"type": "string", "description": hidden, "oneOf": [
                {"const": hidden, "title": hidden},
                {"const": "line\n\ttab", "title": "\u{1f468}\u{200d}\u{1f469}"},
            ]}},
            "required": [hidden],
        });
        let (tools, problems) = checked("s", &[tool("a", "x", &schema)]);
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(serde_json::from_str::<Value>(&tools[0].schema).unwrap(), schema);
        let actual = tools[0].parameters().unwrap().to_value();
        let clean = json!({
            "type": "object",
            "properties": {"a": {"type": "string", "description": "a", "oneOf": [
                {"const": "a", "title": "a"},
                {"const": "line\n\ttab", "title": "\u{1f468}\u{200d}\u{1f469}"},
            ]}},
            "required": ["a"],
        });
        assert_eq!(actual, clean);
        // What is no schema any more then is told of.
        let twice = json!({"type": "object", "required": ["a", hidden]});
        assert_eq!(checked("s", &[tool("a", "x", &twice)]).1.len(), 1);
    }

    #[test]
    fn of_two_tools_of_one_name_neither_is_offered_unless_they_are_the_same() {
        let object = || json!({"type": "object"});
        let same = [tool("a", "x", &object()), tool("a", "x", &object())];
        assert_eq!(checked("s", &same).0.len(), 1);
        let (tools, problems) =
            checked("s", &[tool("a", "x", &object()), tool("a", "y", &object())]);
        assert_eq!((tools.len(), problems.len()), (0, 1));
    }

    #[test]
    fn more_tools_than_the_limit_are_reported() {
        let many = |count: usize| -> Vec<Value> {
            (0..count).map(|n| tool(&format!("t{n}"), "", &json!({}))).collect()
        };
        assert_eq!(checked("s", &many(TOOLS)).1, Vec::<String>::new());
        let (tools, problems) = checked("s", &many(TOOLS + 1));
        assert_eq!((tools.len(), problems.len()), (TOOLS, 1));
    }

    #[test]
    fn the_digest_is_of_all_that_a_model_reads() {
        let base =
            ToolDescription { name: "a".into(), description: "b".into(), schema: "{}".into() };
        let moved =
            ToolDescription { name: "ab".into(), description: String::new(), ..base.clone() };
        assert_ne!(base.digest(), moved.digest());
        let other = ToolDescription { schema: "{ }".into(), ..base.clone() };
        assert_ne!(base.digest(), other.digest());
    }
}
