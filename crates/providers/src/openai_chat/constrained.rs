//! Tools for models that cannot call any: each reply follows a JSON Schema that is one of the tools
//! or an answer, and is parsed back into a call.
//!
//! The tools stand in the system text. In the conversation a call is the JSON that the model wrote,
//! and its result a message of the user.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::message::{AssistantMessage, UserMessage};
use deputize_core::model::{Delta, Finish, RawCall, Reply, Request, ToolChoice};
use deputize_core::{CallId, Message, ToolCall, ToolResult};
use serde_json::{Map, Value, json};

use crate::sendable;

const INSTRUCTIONS: &str = include_str!("../../prompts/constrained.md");

/// A request as a model without tool calling is sent it.
pub(super) struct ConstrainedRequest {
    system: Vec<Arc<str>>,
    messages: Vec<Arc<Message>>,
    /// The field of the body that constrains the reply; `None` for a closing request.
    pub(super) response_format: Option<Value>,
}

impl ConstrainedRequest {
    pub(super) fn new(request: &Request<'_>) -> Self {
        let system = request.system.iter().cloned();
        let format = |schema| {
            let schema = json!({"name": "step", "strict": true, "schema": schema});
            json!({"type": "json_schema", "json_schema": schema})
        };
        Self {
            system: system.chain([instructions(request)]).collect(),
            messages: messages(request.messages),
            response_format: may_call(request).then(|| format(step_schema(request))),
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
    match Step::parse(&reply.text) {
        Some(Step::Answer(text)) => Reply { text, ..reply },
        Some(Step::Call(call)) if may_call(request) && reply.finish == Finish::Stop => {
            Reply { text: String::new(), calls: vec![call], ..reply }
        }
        _ => reply,
    }
}

/// Returns a piece of a reply to a request as it is shown: JSON is no text for a person.
pub(super) fn shown<'d>(request: &Request<'_>, delta: Delta<'d>) -> Delta<'d> {
    match delta {
        Delta::Text(text) if may_call(request) => Delta::Call(text.len()),
        delta => delta,
    }
}

/// A step of a model that is constrained.
enum Step {
    Call(RawCall),
    Answer(String),
}

impl Step {
    fn parse(text: &str) -> Option<Self> {
        let Value::Object(mut step) = serde_json::from_str(text.trim()).ok()? else { return None };
        if let Some(Value::String(answer)) = step.remove("answer") {
            return Some(Self::Answer(answer));
        }
        let name = step.remove("tool")?.as_str()?.to_owned();
        let arguments = step.remove("arguments").unwrap_or_else(|| Value::Object(Map::new()));
        Some(Self::Call(RawCall { name, arguments: arguments.to_string() }))
    }
}

fn instructions(request: &Request<'_>) -> Arc<str> {
    let tool = |tool: &Arc<deputize_core::ToolDecl>| {
        format!("\n{}: {}\n{}\n", tool.name, tool.description, tool.parameters.as_str())
    };
    let tools: String = request.tools.iter().map(tool).collect();
    format!("{}\n{}", INSTRUCTIONS.trim_end(), tools.trim_end()).into()
}

/// The schema of a step: one of the tools with its arguments, or an answer.
fn step_schema(request: &Request<'_>) -> Value {
    let form = |properties: Value, required: &[&str]| {
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    };
    let call = |tool: &Arc<deputize_core::ToolDecl>| {
        let arguments = tool.parameters.to_value();
        form(json!({"tool": {"const": tool.name}, "arguments": arguments}), &["tool", "arguments"])
    };
    let answer = form(json!({"answer": {"type": "string"}}), &["answer"]);
    let forms: Vec<Value> = request.tools.iter().map(call).chain([answer]).collect();
    json!({ "anyOf": forms })
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
    use super::*;

    fn read(text: &str, tool_choice: ToolChoice) -> (String, Vec<(String, String)>) {
        let parameters = deputize_core::schema::Schema::new(&json!({"type": "object"})).unwrap();
        let name = deputize_core::ToolName::literal("read_file");
        let tool = deputize_core::ToolDecl { name, description: "Reads.".into(), parameters };
        let request = Request {
            model: "m",
            system: &[],
            tools: &[Arc::new(tool)],
            messages: &[],
            tool_choice,
            options: &deputize_core::model::ModelOptions::default(),
        };
        let reply = read_reply(&request, Reply::text("m", text));
        (reply.text, reply.calls.into_iter().map(|call| (call.name, call.arguments)).collect())
    }

    #[test]
    fn a_step_is_a_call_or_an_answer_or_stays_text() {
        let auto = |text| read(text, ToolChoice::Auto);
        let call =
            |arguments: &str| (String::new(), vec![("read_file".to_owned(), arguments.to_owned())]);
        assert_eq!(
            auto(r#" {"tool": "read_file", "arguments": {"path": "a"}}"#),
            call(r#"{"path":"a"}"#)
        );
        assert_eq!(auto(r#"{"tool":"read_file"}"#), call("{}"));
        assert_eq!(auto(r#"{"answer": "Done."}"#), ("Done.".to_owned(), vec![]));
        for other in ["Done.", "{", "[1]", "{}", r#"{"tool": 1}"#, "7"] {
            assert_eq!(auto(other), (other.to_owned(), vec![]), "{other}");
        }
        let closing = r#"{"tool":"read_file"}"#;
        assert_eq!(read(closing, ToolChoice::None), (closing.to_owned(), vec![]));
    }
}
