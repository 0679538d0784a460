//! From a request to its bytes: the same request always gives the same bytes, and a
//! conversation that grew by messages gives bytes that grew in one place.

use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::image::Image;
use deputize_core::model::{ModelOptions, Request, ToolChoice};
use deputize_core::schema::Schema;
use deputize_core::{CallId, Message, ToolDecl};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::order::{OutputPiece, pieces};
use crate::body::json_bytes;
use crate::dialect::Dialect;
use crate::endpoint::{Endpoint, EndpointError};
use crate::sendable;
use crate::tool_lists::ToolLists;

/// Fields that are ours alone: those that we fill, and those by which a server would answer
/// with something else than the whole reply to the whole conversation.
const RESERVED: [&str; 9] = [
    "model",
    "stream",
    "tools",
    "instructions",
    "input",
    "tool_choice",
    "previous_response_id",
    "conversation",
    "background",
];

/// Beginnings of the names of models that do not reason, and refuse to be asked for it.
const NOT_REASONING: [&str; 3] = ["gpt-3", "gpt-4", "chatgpt-"];

/// Returns what is known of an endpoint.
///
/// # Errors
/// When an extra field is one of those that are ours alone, or its models call no tools.
pub fn endpoint_dialect(endpoint: &Endpoint) -> Result<Dialect, EndpointError> {
    Dialect::new(endpoint, &RESERVED)
}

#[derive(Serialize)]
struct RequestBody<'a> {
    model: &'a str,
    stream: bool,
    #[serde(flatten)]
    options: BTreeMap<&'a str, Value>,
    // Tools stand before the system text, that before the input and the choice after it: what
    // a cache can keep is one piece at the beginning, also of the closing request.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Arc<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    input: Vec<InputEntry<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
}

#[derive(Serialize)]
struct ToolParam<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a Schema,
    strict: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum InputEntry<'a> {
    AsReceived(&'a RawValue),
    Ours(InputItem<'a>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum InputItem<'a> {
    Message {
        // Some servers do not take the text of a model back without id, status and
        // annotations, others not as a bare text.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        role: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<String>,
        content: Vec<Content<'a>>,
    },
    FunctionCall {
        call_id: CallId,
        name: String,
        arguments: &'a str,
    },
    FunctionCallOutput {
        call_id: CallId,
        output: CallOutput<'a>,
    },
}

/// The result of a call: parts where there are images.
#[derive(Serialize)]
#[serde(untagged)]
enum CallOutput<'a> {
    Text(&'a str),
    Parts(Vec<Content<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    InputText { text: &'a str },
    InputImage { detail: &'static str, image_url: String },
    OutputText { text: &'a str, annotations: [(); 0] },
}

impl<'a> Content<'a> {
    /// What a user or a tool says and shows.
    fn input(text: &'a str, images: &[Image]) -> Vec<Self> {
        let shown = |image: &Image| Content::InputImage {
            // Some servers do not take an image without it.
            detail: "auto",
            image_url: image.data_url(),
        };
        let text = (!text.is_empty() || images.is_empty()).then_some(Content::InputText { text });
        text.into_iter().chain(images.iter().map(shown)).collect()
    }
}

/// Returns the bytes of a request: one JSON object.
#[must_use]
pub fn request_body(request: &Request<'_>, dialect: &Dialect) -> Vec<u8> {
    body_with(&ToolLists::default(), request, dialect)
}

/// Returns the bytes of a request, with a list of tools that may be written already.
pub(super) fn body_with(lists: &ToolLists, request: &Request<'_>, dialect: &Dialect) -> Vec<u8> {
    let system = request.system.join("\n\n");
    let conversation = dialect.vision.messages(request);
    let input = conversation.iter().enumerate();
    let body = RequestBody {
        model: request.model,
        stream: dialect.streaming,
        options: options(request.model, request.options, dialect),
        tools: lists.json(request.tools, tool),
        instructions: (!system.is_empty()).then_some(system),
        input: input.flat_map(|(place, message)| entries(place, message)).collect(),
        tool_choice: (request.tool_choice == ToolChoice::None && !request.tools.is_empty())
            .then_some("none"),
    };
    json_bytes(&body, request)
}

/// Returns the output limit of a request with these options, if it has one.
pub(super) fn most_output(asked: &ModelOptions, dialect: &Dialect) -> Option<u32> {
    let fields = options("", asked, dialect);
    fields.get("max_output_tokens")?.as_u64()?.try_into().ok()
}

/// Most tokens that a reply may have, if the request says so.
pub(super) fn output_limit(request: &Request<'_>, dialect: &Dialect) -> Option<u64> {
    options(request.model, request.options, dialect).get("max_output_tokens")?.as_u64()
}

fn options<'a>(
    model: &str,
    options: &ModelOptions,
    dialect: &'a Dialect,
) -> BTreeMap<&'a str, Value> {
    // Nothing is kept by the server: the conversation is sent whole, and reasoning with it.
    let mut fields = BTreeMap::from([("store", Value::from(false))]);
    if may_reason(model) {
        fields.insert("include", json!(["reasoning.encrypted_content"]));
    }
    if let Some(tokens) = options.max_output_tokens {
        fields.insert("max_output_tokens", Value::from(tokens));
    }
    match options.reasoning_effort.as_deref() {
        None | Some("") => {}
        Some("none") => drop(fields.insert("reasoning", json!({ "effort": "none" }))),
        Some(effort) => {
            fields.insert("reasoning", json!({ "effort": effort, "summary": "auto" }));
        }
    }
    fields.extend(dialect.extra.iter().map(|(key, value)| (key.as_str(), value.clone())));
    fields.retain(|_, value| !value.is_null());
    fields
}

/// Whether a model may reason, by its name without its maker's.
fn may_reason(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    !NOT_REASONING.iter().any(|start| name.starts_with(start))
}

fn tool(decl: &ToolDecl) -> ToolParam<'_> {
    ToolParam {
        kind: "function",
        name: decl.name.as_str(),
        description: &decl.description,
        parameters: &decl.parameters,
        strict: false,
    }
}

/// The items of a message that stands at a place of the conversation.
fn entries(place: usize, message: &Message) -> Vec<InputEntry<'_>> {
    match message {
        Message::User(user) => vec![InputEntry::Ours(InputItem::Message {
            id: None,
            role: "user",
            status: None,
            phase: None,
            content: Content::input(&user.text, &user.images),
        })],
        Message::Assistant(assistant) => {
            let pieces = pieces(assistant).into_iter().enumerate();
            pieces
                .map(|(number, piece)| output_entry(piece, format!("msg_{place}_{number}")))
                .collect()
        }
        Message::Tool(result) => vec![InputEntry::Ours(InputItem::FunctionCallOutput {
            call_id: result.call,
            output: match result.text.as_str() {
                text if result.images.is_empty() => CallOutput::Text(text),
                text => CallOutput::Parts(Content::input(text, &result.images)),
            },
        })],
    }
}

/// A piece of what the model said.
fn output_entry(piece: OutputPiece<'_>, id: String) -> InputEntry<'_> {
    match piece {
        OutputPiece::Item(raw) => InputEntry::AsReceived(raw),
        OutputPiece::Text { text, phase } => InputEntry::Ours(InputItem::Message {
            id: Some(id),
            role: "assistant",
            status: Some("completed"),
            phase: (!phase.is_empty()).then_some(phase),
            content: vec![Content::OutputText { text, annotations: [] }],
        }),
        OutputPiece::Call(call) => InputEntry::Ours(InputItem::FunctionCall {
            call_id: call.id,
            name: sendable::name(&call.name),
            arguments: sendable::arguments(&call.arguments),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use deputize_core::message::{
        AssistantMessage, CallStatus, ModelText, OpaqueBlock, UserMessage,
    };
    use deputize_core::source_set::SourceSet;
    use deputize_core::{ToolCall, ToolName, ToolResult};
    use proptest::prelude::*;

    use super::super::order::WIRE;
    use super::*;
    use crate::vision::Vision;

    fn decl(name: &'static str) -> Arc<ToolDecl> {
        let parameters = serde_json::json!({"type": "object", "properties": {"z": {}, "a": {}}});
        Arc::new(ToolDecl {
            name: ToolName::literal(name),
            description: "Reads.".into(),
            parameters: Schema::new(&parameters).unwrap(),
        })
    }

    fn user(text: &str) -> Message {
        Message::User(UserMessage::new(text))
    }

    fn call(slot: u32, name: &str, arguments: &str) -> ToolCall {
        let id = CallId::new(1, slot);
        ToolCall { id, name: name.into(), arguments: arguments.into() }
    }

    fn result(slot: u32, text: &str) -> Message {
        Message::Tool(ToolResult {
            call: CallId::new(1, slot),
            status: CallStatus::Ok,
            text: ModelText::own(text),
            fingerprint: String::new(),
            images: Vec::new(),
            sources: SourceSet::new(),
        })
    }

    fn conversation() -> Vec<Arc<Message>> {
        let reasoning = r#"{ "type":"reasoning", "id":"rs_1", "encrypted_content":"g+/=\u0041" }"#;
        let blocks = [
            (WIRE, reasoning),
            (WIRE, r#"["text",7,"commentary"]"#),
            (WIRE, r#"["calls",1]"#),
            ("other", "{}"),
            (WIRE, r#"{"type":"reasoning","id":"rs_2"}"#),
        ];
        [
            user("Read \"a\"."),
            Message::Assistant(AssistantMessage {
                text: "I read.".into(),
                reasoning: "Hm.".into(),
                calls: vec![call(0, "read_file", "{ \"path\": \"a\" }"), call(1, "no tool!", "{")],
                opaque: blocks.map(|(wire, raw)| OpaqueBlock::new(wire, raw)).to_vec(),
            }),
            result(0, "A\n"),
            result(1, "no such tool"),
            Message::Assistant(AssistantMessage { text: "Done.".into(), ..Default::default() }),
        ]
        .into_iter()
        .map(Arc::new)
        .collect()
    }

    fn image() -> Image {
        let size = deputize_core::image::ImageSize { width: 2, height: 1 };
        Image::new(deputize_core::image::ImageFormat::Png, size, b"pixels")
    }

    /// A message of a user and a result of a call, each with an image.
    fn shown() -> Vec<Arc<Message>> {
        let mut messages = conversation();
        if let Message::User(user) = Arc::make_mut(&mut messages[0]) {
            user.images.push(image());
        }
        if let Message::Tool(result) = Arc::make_mut(&mut messages[2]) {
            result.images.push(image());
        }
        messages
    }

    #[test]
    fn images_stand_in_the_message_and_in_the_result() {
        let dialect = Dialect { vision: Vision::all(true), ..Dialect::default() };
        let body = body(&shown(), ToolChoice::Auto, &dialect);
        let (_, input) = body.split_once(r#""input":"#).unwrap();
        insta::assert_snapshot!(input.replace("},{", "},\n{"));
    }

    #[test]
    fn a_model_without_vision_reads_that_there_are_images() {
        let body = body(&shown(), ToolChoice::Auto, &Dialect::default());
        assert!(!body.contains("input_image"), "{body}");
        assert_eq!(body.matches("[an image stands here, which you cannot see]").count(), 2);
    }

    #[test]
    fn the_output_limit_is_the_one_that_is_sent() {
        let asked = ModelOptions { max_output_tokens: Some(100), ..ModelOptions::default() };
        let limit = |extra: Value| {
            let extra = BTreeMap::from([("max_output_tokens".to_owned(), extra)]);
            most_output(&asked, &Dialect { extra, ..Dialect::default() })
        };
        assert_eq!(most_output(&asked, &Dialect::default()), Some(100));
        assert_eq!(most_output(&ModelOptions::default(), &Dialect::default()), None);
        assert_eq!([limit(Value::from(7)), limit(Value::Null)], [Some(7), None]);
    }

    fn body(messages: &[Arc<Message>], tool_choice: ToolChoice, dialect: &Dialect) -> String {
        let request = Request {
            model: "m",
            system: &["Shared.".into(), "Own.".into()],
            tools: &[decl("read_file"), decl("write_file")],
            messages,
            tool_choice,
            options: &ModelOptions {
                reasoning_effort: Some("low".into()),
                max_output_tokens: Some(100),
            },
        };
        String::from_utf8(request_body(&request, dialect)).unwrap()
    }

    fn bare(model: &str, effort: Option<&str>) -> String {
        let request = Request {
            model,
            system: &[],
            tools: &[],
            messages: &[],
            tool_choice: ToolChoice::None,
            options: &ModelOptions {
                reasoning_effort: effort.map(str::to_owned),
                max_output_tokens: None,
            },
        };
        String::from_utf8(request_body(&request, &Dialect::default())).unwrap()
    }

    #[test]
    fn a_request_in_full() {
        let body = body(&conversation(), ToolChoice::None, &Dialect::default());
        insta::assert_snapshot!(body.replace("},{", "},\n{"));
    }

    /// Messages of all kinds.
    fn messages() -> impl Strategy<Value = Vec<Arc<Message>>> {
        let text = ".{0,5}";
        let raw = r#"\{"type":"(x|reasoning)"\}|\["(text|calls)",[0-9]\]"#;
        let opaque = proptest::collection::vec(raw, 0..4);
        let said = (text, opaque, 0..3_u32).prop_map(|(text, opaque, calls)| {
            Message::Assistant(AssistantMessage {
                text,
                calls: (0..calls).map(|slot| call(slot, "f", "{}")).collect(),
                opaque: opaque.into_iter().map(|raw| OpaqueBlock::new(WIRE, raw)).collect(),
                ..Default::default()
            })
        });
        let user = text.prop_map(|text| user(&text));
        let result = (0..3_u32, text).prop_map(|(slot, text)| result(slot, &text));
        proptest::collection::vec(prop_oneof![user, said, result].prop_map(Arc::new), 0..8)
    }

    proptest! {
        #[test]
        fn a_longer_conversation_and_the_closing_request_share_all_that_stood_before(
            all in messages()
        ) {
            let mut before = String::new();
            for n in 0..=all.len() {
                let choice = if n == all.len() { ToolChoice::None } else { ToolChoice::Auto };
                let body = body(&all[..n], choice, &Dialect::default());
                serde_json::from_str::<Value>(&body).unwrap();
                let known = before.strip_suffix("]}").unwrap_or_default();
                prop_assert!(body.starts_with(known), "{}\n{}", before, body);
                before = body;
            }
        }
    }

    #[test]
    fn extra_fields_add_replace_and_remove_but_never_touch_ours() {
        let extra =
            |json: Value| -> BTreeMap<String, Value> { serde_json::from_value(json).unwrap() };
        let fields = json!({"include": null, "max_output_tokens": 7, "prompt_cache_key": "k"});
        let dialect = Dialect { extra: extra(fields), streaming: false, ..Dialect::default() };
        let body = body(&[], ToolChoice::Auto, &dialect);
        let head = r#"{"model":"m","stream":false,"max_output_tokens":7,"prompt_cache_key":"k","reasoning":{"effort":"low","summary":"auto"},"store":false,"tools""#;
        assert!(body.starts_with(head), "{body}");

        for field in RESERVED {
            let mut endpoint = Endpoint::new("p", "http://localhost/v1");
            endpoint.body.extra = extra(json!({ field: [] }));
            let error = endpoint_dialect(&endpoint).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("provider p: `{field}` cannot be an extra field")
            );
        }
        let mut endpoint = Endpoint::new("p", "http://localhost/v1");
        endpoint.body.streaming = false;
        assert!(!endpoint_dialect(&endpoint).unwrap().streaming);
    }

    #[test]
    fn without_tools_there_is_no_choice_either() {
        insta::assert_snapshot!(bare("m", None), @r#"{"model":"m","stream":true,"include":["reasoning.encrypted_content"],"store":false,"input":[]}"#);
    }

    #[test]
    fn reasoning_is_asked_for_where_there_may_be_some() {
        for model in ["gpt-5", "o3", "openai/o4-mini", "qwen3", "gpt-oss-20b"] {
            assert!(bare(model, None).contains("encrypted_content"), "{model}");
        }
        for model in ["gpt-4o", "openai/gpt-4.1-mini", "gpt-3.5-turbo", "chatgpt-4o-latest"] {
            assert!(!bare(model, None).contains("encrypted_content"), "{model}");
        }
        assert!(!bare("m", Some("")).contains("\"reasoning\""));
        assert!(bare("m", Some("none")).contains(r#""reasoning":{"effort":"none"}"#));
    }
}
