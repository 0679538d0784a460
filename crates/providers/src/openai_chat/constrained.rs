//! Tools for models that cannot call any: each reply follows a JSON Schema that is one of the tools
//! or an answer, and is parsed back into a call.
//!
//! The tools stand in the system text. In the conversation a call is the JSON that the model wrote,
//! and its result a message of the user.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::message::{AssistantMessage, UserMessage};
use deputize_core::model::{Delta, Finish, ModelError, RawCall, Reply, Request, ToolChoice};
use deputize_core::{CallId, Message, ToolCall, ToolResult};
use serde_json::{Map, Value, json};

use crate::sendable;

const INSTRUCTIONS: &str = include_str!("../../prompts/constrained.md");
/// What a block of code in Markdown begins and ends with.
const FENCE: &str = "```";

/// A request as a model without tool calling is sent it.
pub(super) struct ConstrainedRequest {
    system: Vec<Arc<str>>,
    messages: Vec<Arc<Message>>,
    /// The field of the body that constrains the reply.
    pub(super) response_format: Value,
}

impl ConstrainedRequest {
    pub(super) fn new(request: &Request<'_>) -> Self {
        let system = request.system.iter().cloned();
        let schema = json!({"name": "step", "strict": true, "schema": step_schema(request)});
        Self {
            system: system.chain([instructions(request)]).collect(),
            messages: messages(request.messages),
            response_format: json!({"type": "json_schema", "json_schema": schema}),
        }
    }

    /// Returns the request itself.
    pub(super) fn request<'r>(&'r self, request: &Request<'r>) -> Request<'r> {
        Request { system: &self.system, tools: &[], messages: &self.messages, ..request.clone() }
    }
}

fn may_call(request: &Request<'_>) -> bool {
    request.tool_choice == ToolChoice::Auto && !request.tools.is_empty()
}

/// Returns a reply to a request with the call or the answer that its text is. A text that is neither
/// stays as it is: a server that constrains nothing answers in words.
pub(super) fn read_reply(request: &Request<'_>, reply: Reply) -> Reply {
    if request.tools.is_empty() {
        return reply;
    }
    let step = match reply.finish {
        Finish::Stop => Step::parse(&reply.text).or_else(|| Step::parse_broken(&reply.text)),
        Finish::Length => Step::parse(&reply.text).or_else(|| Step::parse_cut(&reply.text)),
        Finish::Paused | Finish::Refused | Finish::Undone => None,
    };
    match step {
        Some(Step::Answer(text)) => Reply { text, ..reply },
        Some(Step::Call(call)) if may_call(request) => {
            Reply { text: String::new(), calls: vec![call], ..reply }
        }
        _ => reply,
    }
}

/// Returns a failed request with what of its reply is text: of an answer the beginning, and nothing
/// of a call.
pub(super) fn read_failure(request: &Request<'_>, error: ModelError) -> ModelError {
    let partial = &error.partial;
    let step = Step::parse(partial).or_else(|| Step::parse_cut(partial));
    match step.filter(|_| !request.tools.is_empty()) {
        Some(Step::Answer(partial)) => ModelError { partial, ..error },
        Some(Step::Call(_)) => ModelError { partial: String::new(), ..error },
        None => error,
    }
}

/// Returns a piece of a reply to a request as it is shown: JSON is no text for a person.
pub(super) fn shown<'d>(request: &Request<'_>, delta: Delta<'d>) -> Delta<'d> {
    match delta {
        Delta::Text(text) if !request.tools.is_empty() => Delta::Call(text.len()),
        delta => delta,
    }
}

/// A step of a model that is constrained.
enum Step {
    Call(RawCall),
    Answer(String),
}

impl Step {
    /// Reads a whole step. A server that constrains nothing lets models put it into a fence of
    /// Markdown, or write on after a call.
    fn parse(text: &str) -> Option<Self> {
        let text = with_escapes(unfenced(text));
        let mut values = serde_json::Deserializer::from_str(&text).into_iter::<Map<_, _>>();
        let mut step = values.next()?.ok()?;
        let rest = text.get(values.byte_offset()..)?.trim();
        let is_alone = rest.is_empty() || rest == FENCE;
        if let Some(answer) = step.remove("answer").filter(|_| is_alone) {
            return Some(Self::Answer(match answer {
                Value::String(answer) => answer,
                answer => answer.to_string(),
            }));
        }
        let name = step.remove("tool")?.as_str()?.to_owned();
        let arguments = step.remove("arguments").unwrap_or_else(|| Value::Object(Map::new()));
        // After another object, it is not known which one is meant.
        let is_meant = !rest.contains('{');
        is_meant.then(|| Self::Call(RawCall { name, arguments: arguments.to_string() }))
    }

    /// Reads what begins as a call and is none: one whose arguments nobody can read.
    fn parse_broken(text: &str) -> Option<Self> {
        match Self::parse_cut(text)? {
            Self::Call(call) => Some(Self::Call(RawCall { arguments: text.to_owned(), ..call })),
            Self::Answer(_) => None,
        }
    }

    /// Reads the beginning of a step: what of it arrived before the output limit.
    fn parse_cut(text: &str) -> Option<Self> {
        let step = after(unfenced(text), "{")?;
        let value_of = |text, key| after(after(text, key)?, ":");
        if let Some(answer) = value_of(step, "\"answer\"") {
            return beginning_of_string(answer).map(Self::Answer);
        }
        let (name, rest) = after(value_of(step, "\"tool\"")?, "\"")?.split_once('"')?;
        let arguments = after(rest, ",").and_then(|rest| value_of(rest, "\"arguments\""));
        let arguments = arguments.unwrap_or_default().to_owned();
        Some(Self::Call(RawCall { name: name.to_owned(), arguments }))
    }
}

/// Returns what follows a token of JSON that a text begins with.
fn after<'t>(text: &'t str, token: &str) -> Option<&'t str> {
    text.trim_start().strip_prefix(token).map(str::trim_start)
}

/// Returns what stands in a fence of Markdown, with the end of the fence, or the text itself.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let fenced = text.strip_prefix(FENCE).map(|text| text.trim_start_matches("json").trim_start());
    fenced.unwrap_or(text)
}

/// Returns JSON with escapes for the control characters in its strings, which a server that
/// constrains nothing lets through.
fn with_escapes(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    let (mut in_string, mut after_backslash) = (false, false);
    for char in json.chars() {
        match char {
            '\0'..' ' if in_string => escaped += &format!("\\u{:04x}", u32::from(char)),
            char => escaped.push(char),
        }
        in_string ^= char == '"' && !after_backslash;
        after_backslash = char == '\\' && in_string && !after_backslash;
    }
    escaped
}

/// Returns a JSON string that may be cut, also within an escape or a pair of them.
fn beginning_of_string(text: &str) -> Option<String> {
    let text = with_escapes(text);
    let whole = serde_json::Deserializer::from_str(&text).into_iter().next();
    if let Some(Ok(whole)) = whole {
        return Some(whole);
    }
    let mut rest = text.as_str();
    for _ in 0..3 {
        if let Ok(beginning) = serde_json::from_str(&format!("{rest}\"")) {
            return Some(beginning);
        }
        (rest, _) = rest.rsplit_once('\\')?;
    }
    None
}

fn instructions(request: &Request<'_>) -> Arc<str> {
    let tool = |tool: &Arc<deputize_core::ToolDecl>| {
        format!("\n{}: {}\n{}\n", tool.name, tool.description, tool.parameters.as_str())
    };
    let tools: String = request.tools.iter().map(tool).collect();
    format!("{}\n{}", INSTRUCTIONS.trim_end(), tools.trim_end()).into()
}

/// The schema of a step: one of the tools with its arguments, or an answer; only that, if no tool
/// may be called.
fn step_schema(request: &Request<'_>) -> Value {
    let form = |properties: Value, required: &[&str]| {
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    };
    let mut definitions = Map::new();
    let mut forms = Vec::new();
    for tool in request.tools.iter().filter(|_| may_call(request)) {
        let mut arguments = tool.parameters.to_value();
        let whole = format!("#/$defs/{}", tool.name);
        if fit_into_step(&mut arguments, &whole) {
            definitions.insert(tool.name.to_string(), arguments);
            arguments = json!({ "$ref": whole });
        }
        let call = json!({"tool": {"const": tool.name}, "arguments": arguments});
        forms.push(form(call, &["tool", "arguments"]));
    }
    forms.push(form(json!({"answer": {"type": "string"}}), &["answer"]));
    match definitions.is_empty() {
        true => json!({ "anyOf": forms }),
        false => json!({ "anyOf": forms, "$defs": definitions }),
    }
}

/// Changes a schema of arguments so that it means the same as a part of another: its references
/// begin at `whole`. What servers refuse is left out: patterns, of which each takes another kind, and
/// `true` as a schema. Returns whether it refers to a part of itself.
fn fit_into_step(schema: &mut Value, whole: &str) -> bool {
    let Value::Object(members) = schema else { return false };
    members.retain(|key, member| key != "pattern" || !member.is_string());
    // With an identifier of its own, its references would begin there.
    members.remove("$id");
    let mut refers = false;
    for (key, member) in members {
        refers |= match key.as_str() {
            "$ref" => refer_from(member, whole),
            "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions" => {
                fit_named(member, whole)
            }
            "const" | "enum" | "default" | "examples" => false,
            _ => fit_parts(member, whole),
        };
    }
    refers
}

/// Lets a reference of a schema to itself begin at `whole`. Returns whether it is one.
fn refer_from(reference: &mut Value, whole: &str) -> bool {
    let path = reference.as_str().and_then(|reference| reference.strip_prefix('#'));
    let Some(path) = path.filter(|path| path.is_empty() || path.starts_with('/')) else {
        return false;
    };
    *reference = format!("{whole}{path}").into();
    true
}

/// Changes schemas that have names, which are no words of JSON Schema.
fn fit_named(named: &mut Value, whole: &str) -> bool {
    let Value::Object(named) = named else { return false };
    let mut refers = false;
    for schema in named.values_mut() {
        if *schema == true {
            *schema = json!({});
        }
        refers |= fit_into_step(schema, whole);
    }
    refers
}

/// Changes the schema or the schemas that a member of one has, if it has any.
fn fit_parts(member: &mut Value, whole: &str) -> bool {
    match member {
        Value::Array(parts) => {
            parts.iter_mut().fold(false, |refers, part| fit_into_step(part, whole) | refers)
        }
        member => fit_into_step(member, whole),
    }
}

/// The conversation in which steps are JSON and results are messages of the user.
fn messages(conversation: &[Arc<Message>]) -> Vec<Arc<Message>> {
    let mut tools: BTreeMap<CallId, Cow<'_, str>> = BTreeMap::new();
    let mut messages = Vec::with_capacity(conversation.len());
    for message in conversation {
        messages.push(match &**message {
            Message::User(_) => Arc::clone(message),
            Message::Assistant(said) => {
                tools.extend(said.calls.iter().map(|call| (call.id, call.name.as_str().into())));
                Arc::new(Message::Assistant(steps(said)))
            }
            Message::Tool(result) => {
                let tool = tools.get(&result.call).map_or("a tool", |tool| tool);
                Arc::new(Message::User(result_message(tool, result)))
            }
        });
    }
    messages
}

/// What the model said, as the JSON that it wrote.
fn steps(said: &AssistantMessage) -> AssistantMessage {
    let answer = || json!({ "answer": said.text }).to_string();
    let call = |call: &ToolCall| {
        let arguments: Value =
            serde_json::from_str(sendable::arguments(&call.arguments)).unwrap_or_default();
        json!({"tool": call.name, "arguments": arguments}).to_string()
    };
    let calls: Vec<String> = said.calls.iter().map(call).collect();
    let text = if calls.is_empty() { answer() } else { calls.join("\n") };
    AssistantMessage { text, ..AssistantMessage::default() }
}

fn result_message(tool: &str, result: &ToolResult) -> UserMessage {
    let text = format!("Result of {tool}:\n{}", result.text);
    UserMessage { images: result.images.clone(), ..UserMessage::new(text) }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn with_request<T>(schema: &Value, choice: ToolChoice, run: impl Fn(&Request<'_>) -> T) -> T {
        let parameters = deputize_core::schema::Schema::new(schema).unwrap();
        let name = deputize_core::ToolName::literal("read_file");
        let tool = deputize_core::ToolDecl { name, description: "Reads.".into(), parameters };
        run(&Request {
            model: "m",
            system: &[],
            tools: &[Arc::new(tool)],
            messages: &[],
            tool_choice: choice,
            options: &deputize_core::model::ModelOptions::default(),
        })
    }

    fn read(text: &str, choice: ToolChoice, finish: Finish) -> (String, Vec<(String, String)>) {
        with_request(&json!({"type": "object"}), choice, |request| {
            let reply = read_reply(request, Reply { finish, ..Reply::text("m", text) });
            (reply.text, reply.calls.into_iter().map(|call| (call.name, call.arguments)).collect())
        })
    }

    fn call(arguments: &str) -> (String, Vec<(String, String)>) {
        (String::new(), vec![("read_file".to_owned(), arguments.to_owned())])
    }

    #[test]
    fn a_step_is_a_call_or_an_answer_or_stays_text() {
        let auto = |text| read(text, ToolChoice::Auto, Finish::Stop);
        assert_eq!(
            auto(r#" {"tool": "read_file", "arguments": {"path": "a"}}"#),
            call(r#"{"path":"a"}"#)
        );
        assert_eq!(auto(r#"{"tool":"read_file"}"#), call("{}"));
        assert_eq!(auto(r#"{"answer": "Done."}"#), ("Done.".to_owned(), vec![]));
        assert_eq!(auto("{\"answer\":\n\"a\\\"\nb\"}"), ("a\"\nb".to_owned(), vec![]));
        assert_eq!(auto(r#"{"answer": 5}"#), ("5".to_owned(), vec![]));
        for other in ["Done.", "{", "[1]", "{}", r#"{"tool": 1}"#, "7", r#"{"answer": "Do"#] {
            assert_eq!(auto(other), (other.to_owned(), vec![]), "{other}");
        }
        let closing = r#"{"tool":"read_file"}"#;
        let read = read(closing, ToolChoice::None, Finish::Stop);
        assert_eq!(read, (closing.to_owned(), vec![]));
    }

    #[test]
    fn a_step_in_a_fence_or_with_words_behind_it_is_read_and_a_broken_call_is_unreadable() {
        let auto = |text: &str| read(text, ToolChoice::Auto, Finish::Stop);
        let whole = r#"{"tool":"read_file","arguments":{"path":"a"}}"#;
        for text in [
            format!("```json\n{whole}\n```"),
            format!("```\n{whole}\n```\nI wait."),
            format!("{whole}\n\nI wait for it."),
        ] {
            assert_eq!(auto(&text), call(r#"{"path":"a"}"#), "{text}");
        }
        assert_eq!(auto("```json\n{\"answer\":\"b\"}\n```"), ("b".to_owned(), vec![]));
        let words_behind = r#"{"answer":"b"} And c."#;
        assert_eq!(auto(words_behind), (words_behind.to_owned(), vec![]));
        let cut = &whole[..whole.len() - 1];
        for text in [cut, &format!("{whole}\n{whole}"), &format!("```json\n{cut}\n```")] {
            let (shown, calls) = auto(text);
            assert_eq!((shown.as_str(), calls[0].0.as_str()), ("", "read_file"), "{text}");
            assert!(serde_json::from_str::<Value>(&calls[0].1).is_err(), "{text}");
        }
    }

    #[test]
    fn a_step_that_the_output_limit_cut_is_a_cut_one() {
        let cut = |text| read(text, ToolChoice::Auto, Finish::Length);
        for (text, answer) in [
            ("{\n \"answer\" : \"Two\\nl", "Two\nl"),
            (r#"{"answer":"Two \"#, "Two "),
            (r#"{"answer":"Two \ud83d\ude"#, "Two "),
            ("{\"answer\":\"Two\"  \n", "Two"),
            (r#"{"answer":""#, ""),
            ("{\"answer\":\"a\\tb\nc", "a\tb\nc"),
        ] {
            assert_eq!(cut(text), (answer.to_owned(), vec![]), "{text}");
        }
        assert_eq!(cut("{ \"tool\": \"read_file\",\n"), call(""));
        assert_eq!(
            cut(r#"{"tool": "read_file", "arguments": {"path": "a"#),
            call(r#"{"path": "a"#)
        );
        assert_eq!(cut(r#"{"tool": "read_file", "arguments": {}}"#), call("{}"));
        for other in ["Two", "{", r#"{"tool": "re"#, r#"{"answer": 1"#] {
            assert_eq!(cut(other), (other.to_owned(), vec![]), "{other}");
        }
    }

    proptest! {
        #[test]
        fn every_prefix_of_an_answer_is_a_prefix_of_its_text(lines in vec(any::<String>(), 1..4)) {
            // The ends of lines as a server that constrains nothing lets them through.
            let escaped = lines.iter().map(|line| json!(line).to_string());
            let escaped: Vec<String> =
                escaped.map(|line| line[1..line.len() - 1].to_owned()).collect();
            let json = format!("\"{}\"", escaped.join("\n"));
            let text = lines.join("\n");
            for (end, char) in json.char_indices() {
                let read = beginning_of_string(&json[..end + char.len_utf8()]);
                prop_assert!(read.is_some_and(|read| text.starts_with(&read)), "{json:?}, {end}");
            }
            prop_assert_eq!(beginning_of_string(&json), Some(text));
        }
    }

    #[test]
    fn of_a_reply_that_broke_off_an_answer_is_text_and_a_call_is_none() {
        let partial = |partial: &str| {
            with_request(&json!({"type": "object"}), ToolChoice::Auto, |request| {
                let error = ModelError::new(deputize_core::model::FailureKind::Incomplete, "cut");
                read_failure(request, ModelError { partial: partial.to_owned(), ..error }).partial
            })
        };
        assert_eq!(partial(r#"{"answer":"Two li"#), "Two li");
        assert_eq!(partial(r#"{"tool":"write_file","arguments":{"content":"x"#), "");
        assert_eq!(partial("Two words"), "Two words");
    }

    #[test]
    fn a_schema_within_a_step_still_refers_to_its_own_parts() {
        let list = json!({"type": "array", "uniqueItems": true, "default": [{"$ref": "#/x"}]});
        let schema = json!({
            "$id": "https://example.com/tool",
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "pattern": "[a-z]"}, "any": true,
                "node": {"$ref": "#/$defs/node"}, "same": {"$ref": "#"}, "properties": list,
            },
            "$defs": {"node": {"items": {"$ref": "#/$defs/node"}}},
        });
        let step = with_request(&schema, ToolChoice::Auto, step_schema);
        let node = json!({"$ref": "#/$defs/read_file/$defs/node"});
        assert_eq!(
            step["$defs"]["read_file"],
            json!({
                "type": "object",
                "properties": {
                    "pattern": {"type": "string"}, "any": {},
                    "node": node, "same": {"$ref": "#/$defs/read_file"}, "properties": list,
                },
                "$defs": {"node": {"items": node}},
            })
        );
        let arguments = &step["anyOf"][0]["properties"]["arguments"];
        assert_eq!(*arguments, json!({"$ref": "#/$defs/read_file"}));

        let closing = with_request(&schema, ToolChoice::None, step_schema);
        assert_eq!(closing["anyOf"].as_array().unwrap().len(), 1);
        assert_eq!(closing["anyOf"][0]["required"], json!(["answer"]));
    }
}
