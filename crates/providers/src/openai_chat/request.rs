//! From a request to its bytes: the same request always gives the same bytes, and a
//! conversation that grew by messages gives bytes that grew in one place.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::image::Image;
use deputize_core::message::{AssistantMessage, OpaqueBlock};
use deputize_core::model::{ModelOptions, Request, ToolChoice};
use deputize_core::schema::Schema;
use deputize_core::{Message, ToolCall, ToolDecl};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::WIRE;
use super::constrained::ConstrainedRequest;
use super::extra_members::{self, ReturnedExtras};
use crate::body::json_bytes;
use crate::endpoint::{Endpoint, EndpointError, ToolCalling};
use crate::sendable;
use crate::tool_lists::ToolLists;
use crate::vision::Vision;

/// Fields that are ours alone.
const RESERVED: [&str; 5] = ["model", "stream", "tools", "messages", "tool_choice"];

/// What servers of this wire do not agree on.
#[derive(Debug, Clone, PartialEq)]
pub struct Dialect {
    /// Whether the reply is asked for as a stream.
    pub streaming: bool,
    /// Whether the output limit is called `max_completion_tokens` instead of `max_tokens`.
    pub max_completion_tokens: bool,
    /// Whether reasoning goes back with the message that made calls.
    pub echo_reasoning: bool,
    /// Whether models cannot call tools: their replies follow a JSON Schema instead.
    pub constrained: bool,
    /// Which models see images.
    pub vision: Vision,
    /// More fields of the body. One that we would send too replaces ours; null leaves it out.
    pub extra: BTreeMap<String, Value>,
}

impl Default for Dialect {
    fn default() -> Self {
        Self {
            streaming: true,
            max_completion_tokens: false,
            echo_reasoning: false,
            constrained: false,
            vision: Vision::default(),
            extra: BTreeMap::new(),
        }
    }
}

impl Dialect {
    /// Returns what is known of an endpoint by its host, with its extra fields.
    ///
    /// # Errors
    /// When an extra field is one of those that are ours alone.
    pub fn of(endpoint: &Endpoint) -> Result<Self, EndpointError> {
        endpoint.check_extra(&RESERVED)?;
        let host = endpoint.url()?.host_str().unwrap_or_default().to_owned();
        let within = |domain: &str| {
            host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        Ok(Self {
            streaming: endpoint.body.streaming,
            max_completion_tokens: within("openai.com") || within("openai.azure.com"),
            echo_reasoning: endpoint.body.echo_reasoning.unwrap_or_else(|| within("deepseek.com")),
            constrained: endpoint.body.tools == ToolCalling::Constrained,
            vision: Vision::of(endpoint),
            extra: endpoint.body.extra.clone(),
        })
    }
}

#[derive(Serialize)]
struct RequestBody<'a> {
    model: &'a str,
    stream: bool,
    #[serde(flatten)]
    options: BTreeMap<&'a str, Value>,
    // Tools stand before the messages and the choice after them: what a cache can keep is one
    // piece at the beginning, also of the closing request.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Arc<RawValue>>,
    messages: Vec<MessageParam<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
}

#[derive(Serialize)]
struct ToolParam<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: FunctionParam<'a>,
}

#[derive(Serialize)]
struct FunctionParam<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Schema,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum MessageParam<'a> {
    System {
        content: String,
    },
    User {
        content: UserContent<'a>,
    },
    Assistant {
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        reasoning_details: Vec<&'a RawValue>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<CallParam<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        extra_content: Option<&'a RawValue>,
    },
    Tool {
        tool_call_id: String,
        content: &'a str,
    },
}

/// What a user says: parts where there are images, which only a user can show.
#[derive(Serialize)]
#[serde(untagged)]
enum UserContent<'a> {
    Text(&'a str),
    Parts(Vec<Part<'a>>),
}

impl<'a> UserContent<'a> {
    fn new(text: &'a str, images: &[Image]) -> Self {
        if images.is_empty() {
            return Self::Text(text);
        }
        let text = (!text.is_empty()).then_some(Part::Text { text: Cow::Borrowed(text) });
        Self::Parts(text.into_iter().chain(images.iter().map(Part::image)).collect())
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

impl Part<'_> {
    fn image(image: &Image) -> Self {
        Self::ImageUrl { image_url: ImageUrl { url: image.data_url() } }
    }
}

#[derive(Serialize)]
struct CallParam<'a> {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    function: CallFunction<'a>,
    #[serde(flatten)]
    own: BTreeMap<&'a str, &'a RawValue>,
}

#[derive(Serialize)]
struct CallFunction<'a> {
    name: String,
    arguments: &'a str,
}

/// Returns the bytes of a request: one JSON object.
#[must_use]
pub fn request_body(request: &Request<'_>, dialect: &Dialect) -> Vec<u8> {
    body_with(&ToolLists::default(), request, dialect)
}

/// Returns the bytes of a request, with a list of tools that may be written already.
pub(super) fn body_with(lists: &ToolLists, request: &Request<'_>, dialect: &Dialect) -> Vec<u8> {
    if !dialect.constrained || request.tools.is_empty() {
        return native_body(lists, request, dialect);
    }
    let constrained = ConstrainedRequest::new(request);
    let mut extra = dialect.extra.clone();
    extra.insert("response_format".to_owned(), constrained.response_format.clone());
    native_body(lists, &constrained.request(request), &Dialect { extra, ..dialect.clone() })
}

/// Returns the bytes of a request to a model that calls tools.
fn native_body(lists: &ToolLists, request: &Request<'_>, dialect: &Dialect) -> Vec<u8> {
    let system = request.system.join("\n\n");
    let system = (!system.is_empty()).then_some(MessageParam::System { content: system });
    let conversation = dialect.vision.messages(request);
    let returned = ReturnedExtras::of(conversation.iter().map(|message| &**message));
    let messages = lines(&conversation, dialect, &returned);
    let body = RequestBody {
        model: request.model,
        stream: dialect.streaming,
        options: options(request.options, dialect),
        tools: lists.json(request.tools, tool),
        messages: system.into_iter().chain(messages).collect(),
        tool_choice: (request.tool_choice == ToolChoice::None && !request.tools.is_empty())
            .then_some("none"),
    };
    json_bytes(&body, request)
}

/// Returns the output limit of a request with these options, if it has one.
pub(super) fn most_output(asked: &ModelOptions, dialect: &Dialect) -> Option<u32> {
    let fields = options(asked, dialect);
    let limits = ["max_completion_tokens", "max_tokens"].into_iter();
    let limits = limits.filter_map(|key| fields.get(key)?.as_u64()?.try_into().ok());
    limits.min()
}

fn options<'a>(options: &ModelOptions, dialect: &'a Dialect) -> BTreeMap<&'a str, Value> {
    let usage = serde_json::json!({ "include_usage": true });
    let mut fields = BTreeMap::new();
    if dialect.streaming {
        fields.insert("stream_options", usage);
    }
    let longest =
        if dialect.max_completion_tokens { "max_completion_tokens" } else { "max_tokens" };
    if let Some(tokens) = options.max_output_tokens {
        fields.insert(longest, Value::from(tokens));
    }
    if let Some(effort) = options.reasoning_effort.as_ref().filter(|it| !it.is_empty()) {
        fields.insert("reasoning_effort", Value::from(effort.as_str()));
    }
    fields.extend(dialect.extra.iter().map(|(key, value)| (key.as_str(), value.clone())));
    fields.retain(|_, value| !value.is_null());
    fields
}

fn tool(decl: &ToolDecl) -> ToolParam<'_> {
    let function = FunctionParam {
        name: decl.name.as_str(),
        description: &decl.description,
        parameters: &decl.parameters,
    };
    ToolParam { kind: "function", function }
}

/// The messages of a conversation. A result of a tool is text in this wire, so images of results
/// are a user's message behind the results of their step.
fn lines<'a>(
    conversation: &'a [Arc<Message>],
    dialect: &Dialect,
    returned: &'a ReturnedExtras<'_>,
) -> Vec<MessageParam<'a>> {
    let mut lines = Vec::with_capacity(conversation.len() + 1);
    let mut images = Vec::new();
    for message in conversation {
        if !matches!(**message, Message::Tool(_)) {
            lines.extend(shown_images(&mut images));
        }
        lines.push(line(message, dialect, returned));
        if let Message::Tool(result) = &**message
            && !result.images.is_empty()
        {
            let text = format!("Images of the result of {}:", returned.id(result.call));
            images.push(Part::Text { text: Cow::Owned(text) });
            images.extend(result.images.iter().map(Part::image));
        }
    }
    lines.extend(shown_images(&mut images));
    lines
}

fn shown_images<'a>(images: &mut Vec<Part<'a>>) -> Option<MessageParam<'a>> {
    let images = std::mem::take(images);
    let shown = |images| MessageParam::User { content: UserContent::Parts(images) };
    (!images.is_empty()).then(|| shown(images))
}

fn line<'a>(
    message: &'a Message,
    dialect: &Dialect,
    returned: &'a ReturnedExtras<'_>,
) -> MessageParam<'a> {
    match message {
        Message::User(user) => {
            MessageParam::User { content: UserContent::new(&user.text, &user.images) }
        }
        Message::Assistant(assistant) => assistant_line(assistant, dialect, returned),
        Message::Tool(result) => MessageParam::Tool {
            tool_call_id: returned.id(result.call),
            content: result.text.as_str(),
        },
    }
}

fn assistant_line<'a>(
    message: &'a AssistantMessage,
    dialect: &Dialect,
    returned: &'a ReturnedExtras<'_>,
) -> MessageParam<'a> {
    let bare = message.text.is_empty() && !message.calls.is_empty();
    let echoed = dialect.echo_reasoning && !message.calls.is_empty();
    let echoed = echoed && !message.reasoning.is_empty();
    let ours = |opaque: &&OpaqueBlock| opaque.wire == WIRE && !opaque.raw.starts_with('[');
    let raw = |opaque: &'a OpaqueBlock| serde_json::from_str::<&RawValue>(&opaque.raw).ok();
    MessageParam::Assistant {
        content: (!bare).then_some(message.text.as_str()),
        reasoning_content: echoed.then_some(message.reasoning.as_str()),
        reasoning_details: message.opaque.iter().filter(ours).filter_map(raw).collect(),
        tool_calls: message.calls.iter().map(|it| call(it, returned)).collect(),
        extra_content: extra_members::returned_with(message),
    }
}

fn call<'a>(call: &'a ToolCall, returned: &'a ReturnedExtras<'_>) -> CallParam<'a> {
    let name = sendable::name(&call.name);
    let arguments = sendable::arguments(&call.arguments);
    let function = CallFunction { name, arguments };
    CallParam {
        id: returned.id(call.id),
        kind: "function",
        function,
        own: returned.members(call.id),
    }
}

#[cfg(test)]
mod tests {

    use deputize_core::message::{CallStatus, ModelText, UserMessage};
    use deputize_core::source_set::SourceSet;
    use deputize_core::{CallId, ToolName, ToolResult};

    use super::*;
    use crate::endpoint::BodyOptions;

    fn decl(name: &'static str) -> Arc<ToolDecl> {
        let parameters = serde_json::json!({"type": "object", "properties": {"z": {}, "a": {}}});
        Arc::new(ToolDecl {
            name: ToolName::literal(name),
            description: "Reads.".into(),
            parameters: Schema::new(&parameters).unwrap(),
        })
    }

    fn conversation() -> Vec<Arc<Message>> {
        let id = |slot| CallId::new(1, slot);
        let call = |slot, name: &str, arguments: &str| ToolCall {
            id: id(slot),
            name: name.into(),
            arguments: arguments.into(),
        };
        let result = |slot, text: &str| {
            Message::Tool(ToolResult {
                call: id(slot),
                status: CallStatus::Ok,
                text: ModelText::own(text),
                fingerprint: String::new(),
                images: Vec::new(),
                sources: SourceSet::new(),
            })
        };
        let opaque = OpaqueBlock::new;
        [
            Message::User(UserMessage::new("Read \"a\".")),
            Message::Assistant(AssistantMessage {
                text: String::new(),
                reasoning: "Hm.".into(),
                calls: vec![call(0, "read_file", "{ \"path\": \"a\" }"), call(1, "no tool!", "{")],
                opaque: vec![opaque(WIRE, r#"{"z":1,"data":"x"}"#), opaque("other", "{}")],
            }),
            result(0, "A\n"),
            result(1, "no such tool"),
            Message::Assistant(AssistantMessage { text: "Done.".into(), ..Default::default() }),
        ]
        .into_iter()
        .map(Arc::new)
        .collect()
    }

    #[test]
    fn the_output_limit_is_the_one_that_is_sent() {
        let asked = ModelOptions { max_output_tokens: Some(100), ..ModelOptions::default() };
        let limit = |extra: Value| {
            let extra = BTreeMap::from([("max_tokens".to_owned(), extra)]);
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

    #[test]
    fn a_request_in_full() {
        let dialect = Dialect { echo_reasoning: true, ..Dialect::default() };
        let body = body(&conversation(), ToolChoice::None, &dialect);
        insta::assert_snapshot!(body.replace("},{", "},\n{"));
    }

    /// A message of a user and a result of a call, each with an image.
    fn shown() -> Vec<Arc<Message>> {
        let image = || {
            let size = deputize_core::image::ImageSize { width: 2, height: 1 };
            Image::new(deputize_core::image::ImageFormat::Png, size, b"pixels")
        };
        let [mut asked, said, mut result, other, ..] = <[_; 5]>::try_from(conversation()).unwrap();
        if let Message::User(user) = Arc::make_mut(&mut asked) {
            user.images.push(image());
        }
        if let Message::Tool(result) = Arc::make_mut(&mut result) {
            result.images.extend([image(), image()]);
        }
        vec![asked, said, result, other]
    }

    #[test]
    fn images_stand_where_a_user_may_show_them() {
        let dialect = Dialect { vision: Vision::all(true), ..Dialect::default() };
        let body = body(&shown(), ToolChoice::Auto, &dialect);
        let (_, messages) = body.split_once(r#""messages":"#).unwrap();
        insta::assert_snapshot!(messages.replace("},{", "},\n{"));
    }

    #[test]
    fn a_model_without_vision_reads_that_there_are_images() {
        let body = body(&shown(), ToolChoice::Auto, &Dialect::default());
        assert!(!body.contains("image_url"), "{body}");
        for note in ["[an image stands here, which you cannot see]", "[2 images stand here, "] {
            assert!(body.contains(note), "{body}");
        }
    }

    #[test]
    fn what_a_server_wrote_of_a_call_goes_back_in_its_place() {
        let own = [
            r#"["call",1,{"id":"tool_1","extra_content":{ "google" : {"s":"A\u002b"}}}]"#,
            r#"["call",7,{"id":"none"}]"#,
            r#"["other",0,{"id":"x"}]"#,
            r#"["call",0"#,
        ];
        let mut messages = conversation();
        let Message::Assistant(said) = &*messages[1] else { unreachable!() };
        let mut said = said.clone();
        said.opaque.extend(own.map(|raw| OpaqueBlock::new(WIRE, raw)));
        messages[1] = Arc::new(Message::Assistant(said));
        let plain = body(&conversation(), ToolChoice::Auto, &Dialect::default());
        let body = body(&messages, ToolChoice::Auto, &Dialect::default());
        let own = r#","extra_content":{ "google" : {"s":"A\u002b"}}"#;
        assert_eq!(body.matches(own).count(), 1, "{body}");
        assert!(body.contains(r#"{"id":"tool_1","type":"function""#), "{body}");
        assert!(body.contains(r#"{"role":"tool","tool_call_id":"tool_1""#), "{body}");
        // And nothing else is changed by it.
        assert_eq!(body.replace(own, "").replace("tool_1", "call_1_1"), plain);
    }

    #[test]
    fn what_a_server_wrote_of_a_message_goes_back_with_it() {
        let mut messages = conversation();
        let own = r#"{ "google" : {"thought_signature":"A\u002b"}}"#;
        let opaque = vec![OpaqueBlock::new(WIRE, format!(r#"["message",{own}]"#))];
        let said = AssistantMessage { text: "Done.".into(), opaque, ..Default::default() };
        messages[4] = Arc::new(Message::Assistant(said));
        let plain = body(&conversation(), ToolChoice::Auto, &Dialect::default());
        let body = body(&messages, ToolChoice::Auto, &Dialect::default());
        let own = format!(r#","extra_content":{own}"#);
        assert!(body.contains(&format!(r#""content":"Done."{own}}}"#)), "{body}");
        assert_eq!(body.replace(&own, ""), plain);
    }

    #[test]
    fn a_longer_conversation_and_the_closing_request_share_all_that_stood_before() {
        let all = conversation();
        let mut before = String::new();
        for n in 0..=all.len() {
            let choice = if n == all.len() { ToolChoice::None } else { ToolChoice::Auto };
            let body = body(&all[..n], choice, &Dialect::default());
            assert!(body.starts_with(before.trim_end_matches("]}")), "{before}\n{body}");
            before = body;
        }
    }

    #[test]
    fn extra_fields_add_replace_and_remove_but_never_touch_ours() {
        let extra =
            |json: Value| -> BTreeMap<String, Value> { serde_json::from_value(json).unwrap() };
        let fields = serde_json::json!({"stream_options": null, "max_tokens": 7, "top_k": 1});
        let dialect = Dialect { extra: extra(fields), ..Dialect::default() };
        let body = body(&[], ToolChoice::Auto, &dialect);
        let head = r#"{"model":"m","stream":true,"max_tokens":7,"reasoning_effort":"low","top_k":1,"tools""#;
        assert!(body.starts_with(head), "{body}");

        let mut endpoint = Endpoint::new("p", "http://localhost/v1");
        endpoint.body.extra = extra(serde_json::json!({"messages": []}));
        let error = Dialect::of(&endpoint).unwrap_err();
        assert_eq!(error.to_string(), "provider p: `messages` cannot be an extra field");
    }

    #[test]
    fn a_reply_that_is_no_stream_is_asked_for_without_its_options() {
        let dialect = Dialect { streaming: false, ..Dialect::default() };
        let body = body(&[], ToolChoice::Auto, &dialect);
        assert!(body.starts_with(r#"{"model":"m","stream":false,"max_tokens":100"#), "{body}");
        assert!(!body.contains("stream_options"), "{body}");
    }

    #[test]
    fn hosts_with_their_own_ways_are_known() {
        let of = |url: &str| Dialect::of(&Endpoint::new("p", url)).unwrap();
        assert!(of("https://api.openai.com/v1").max_completion_tokens);
        assert!(!of("https://notopenai.com/v1").max_completion_tokens);
        assert!(of("https://api.deepseek.com").echo_reasoning);
        let config = |url: &str, echo| {
            let body = BodyOptions { echo_reasoning: Some(echo), ..BodyOptions::default() };
            Endpoint { body, ..Endpoint::new("p", url) }
        };
        assert!(Dialect::of(&config("http://localhost/v1", true)).unwrap().echo_reasoning);
        assert!(!Dialect::of(&config("https://api.deepseek.com", false)).unwrap().echo_reasoning);
        let plain = Dialect { vision: Vision::default(), ..of("http://127.0.0.1:1/v1") };
        assert_eq!(plain, Dialect::default());
    }

    #[test]
    fn without_tools_there_is_no_choice_either() {
        let request = Request {
            model: "m",
            system: &[],
            tools: &[],
            messages: &[],
            tool_choice: ToolChoice::None,
            options: &ModelOptions::default(),
        };
        let body = String::from_utf8(request_body(&request, &Dialect::default())).unwrap();
        insta::assert_snapshot!(body, @r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[]}"#);
    }
}
