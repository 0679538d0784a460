//! From a request to its bytes: the same request always gives the same bytes, and a
//! conversation that grew by messages gives bytes that grew in one place, but for the cache
//! breakpoints, which move.

use std::collections::BTreeMap;

use deputize_core::ToolDecl;
use deputize_core::model::{ModelOptions, Request, ToolChoice};
use deputize_core::schema::Schema;
use serde::Serialize;
use serde_json::{Value, json};

use super::thinking;
use super::turns::{RequestBlock, SideTurn, began_without_thinking, turns};
use crate::body::json_bytes;
use crate::dialect::Dialect;
use crate::endpoint::{Endpoint, EndpointError};

/// The output limit of a request that names none; this wire has no requests without.
pub const DEFAULT_MAX_TOKENS: u32 = 32_000;

/// Fields that are ours alone.
const RESERVED: [&str; 6] = ["model", "stream", "tools", "system", "messages", "tool_choice"];

/// The extra field that is the value of each breakpoint instead of a field of the body.
const CACHE: &str = "cache_control";

/// Returns what is known of an endpoint. Its extra field
/// `cache_control` is the value of each cache breakpoint; null: there are none.
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ToolParam<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<RequestBlock<'a>>,
    messages: Vec<SideTurn<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
}

#[derive(Serialize)]
struct ToolParam<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Schema,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<&'a Value>,
}

/// Returns the bytes of a request: one JSON object.
#[must_use]
pub fn request_body(request: &Request<'_>, dialect: &Dialect) -> Vec<u8> {
    let usual = json!({"type": "ephemeral"});
    let cache = dialect.extra.get(CACHE).unwrap_or(&usual);
    let cache = (!cache.is_null()).then_some(cache);
    let mut tools: Vec<_> = request.tools.iter().map(|decl| tool(decl)).collect();
    let texts: Vec<_> = system_texts(request).collect();
    let mut system: Vec<_> = texts.iter().map(|text| RequestBlock::text(text)).collect();
    mark(&mut tools, &mut system, cache);
    let conversation = dialect.vision.messages(request);
    let messages = turns(&conversation, cache);
    let mut options = options(request, dialect);
    if began_without_thinking(&messages) {
        options.retain(|key, value| *key != "thinking" || value["type"] != "enabled");
    }
    let body = RequestBody {
        model: request.model,
        stream: dialect.streaming,
        options,
        tools,
        system,
        messages,
        tool_choice: (request.tool_choice == ToolChoice::None && !request.tools.is_empty())
            .then(|| json!({"type": "none"})),
    };
    json_bytes(&body, request)
}

/// The blocks of the system text. Servers join them without anything between.
fn system_texts(request: &Request<'_>) -> impl Iterator<Item = String> {
    let texts = request.system.iter().filter(|text| !text.trim().is_empty());
    texts.enumerate().map(|(n, text)| if n == 0 { text.to_string() } else { format!("\n\n{text}") })
}

/// Puts breakpoints at the last two of: end of the tools, end of the first system block, end
/// of the system text. A breakpoint covers all that stands before it.
fn mark<'a>(
    tools: &mut [ToolParam<'a>],
    system: &mut [RequestBlock<'a>],
    cache: Option<&'a Value>,
) {
    if let [_] | [] = system
        && let Some(tool) = tools.last_mut()
    {
        tool.cache_control = cache;
    }
    if let Some(shared) = system.first_mut() {
        shared.mark(cache);
    }
    if let Some(last) = system.last_mut() {
        last.mark(cache);
    }
}

/// The output limit of a request with these options.
pub(super) fn most_output(options: &ModelOptions, dialect: &Dialect) -> Option<u32> {
    let own = options.max_output_tokens.unwrap_or(DEFAULT_MAX_TOKENS);
    match dialect.extra.get("max_tokens") {
        None => Some(own),
        Some(extra) => extra.as_u64().and_then(|most| most.try_into().ok()),
    }
}

fn options<'a>(request: &Request<'_>, dialect: &'a Dialect) -> BTreeMap<&'a str, Value> {
    let ModelOptions { reasoning_effort, max_output_tokens } = request.options;
    let max_tokens = Value::from(max_output_tokens.unwrap_or(DEFAULT_MAX_TOKENS));
    let most = dialect.extra.get("max_tokens").unwrap_or(&max_tokens).as_u64();
    let mut fields = BTreeMap::from([("max_tokens", max_tokens)]);
    if let Some(effort) = reasoning_effort.as_deref().filter(|it| !it.is_empty()) {
        let most = most.unwrap_or_else(|| DEFAULT_MAX_TOKENS.into());
        fields.extend(thinking::fields(request.model, effort, most));
    }
    let extra = dialect.extra.iter().filter(|(key, _)| key.as_str() != CACHE);
    fields.extend(extra.map(|(key, value)| (key.as_str(), value.clone())));
    fields.retain(|_, value| !value.is_null());
    fields
}

fn tool(decl: &ToolDecl) -> ToolParam<'_> {
    ToolParam {
        name: decl.name.as_str(),
        description: &decl.description,
        input_schema: &decl.parameters,
        cache_control: None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use deputize_core::image::Image;
    use deputize_core::message::{
        AssistantMessage, CallStatus, ModelText, OpaqueBlock, UserMessage,
    };
    use deputize_core::source_set::SourceSet;
    use deputize_core::{CallId, Message, ToolCall, ToolName, ToolResult};
    use proptest::prelude::*;

    use super::*;
    use crate::vision::Vision;

    const SYSTEM: [&str; 2] = ["Shared.", "Own."];

    fn decl(name: &'static str) -> Arc<ToolDecl> {
        let parameters = json!({"type": "object", "properties": {"z": {}, "a": {}}});
        Arc::new(ToolDecl {
            name: ToolName::literal(name),
            description: "Reads.".into(),
            parameters: Schema::new(&parameters).unwrap(),
        })
    }

    fn user(text: &str) -> Message {
        Message::User(UserMessage::new(text))
    }

    fn result(step: u32, slot: u32, status: CallStatus, text: &str) -> Message {
        Message::Tool(ToolResult {
            call: CallId::new(step, slot),
            status,
            text: ModelText::own(text),
            fingerprint: String::new(),
            images: Vec::new(),
            sources: SourceSet::new(),
        })
    }

    fn said(step: u32, text: &str, calls: &[(&str, &str)], opaque: &[(&str, &str)]) -> Message {
        let call = |(slot, (name, arguments)): (u32, &(&str, &str))| ToolCall {
            id: CallId::new(step, slot),
            name: (*name).into(),
            arguments: (*arguments).into(),
        };
        Message::Assistant(AssistantMessage {
            text: text.into(),
            reasoning: "Never sent.".into(),
            calls: (0..).zip(calls).map(call).collect(),
            opaque: opaque.iter().map(|(wire, raw)| OpaqueBlock::new(*wire, *raw)).collect(),
        })
    }

    fn conversation() -> Vec<Message> {
        let thinking = r#"{"type":"thinking","thinking":"Hm \u00e9.","signature":"c2ln"}"#;
        let redacted = r#"{ "type": "redacted_thinking", "data": "ZGF0YQ==" }"#;
        let layout = r#"["opaque",{"text":[0,9]},"call","opaque",{"text":[11,17]},"call"]"#;
        vec![
            user("Read \"a\"."),
            user(" \n"),
            said(
                1,
                "I do two:\n\nnow. \n",
                &[("read_file", "{ \"path\": \"a\" }"), ("no tool!", "{")],
                &[
                    (super::super::WIRE, thinking),
                    ("other", "{}"),
                    (super::super::WIRE, redacted),
                    ("anthropic-messages/layout", layout),
                ],
            ),
            result(1, 0, CallStatus::Ok, "A\n"),
            result(1, 1, CallStatus::Error, "no such tool"),
            user("Also this."),
            said(2, "Done. \n", &[], &[]),
            user("Thanks."),
        ]
    }

    fn body_of(
        system: &[&str],
        messages: &[Message],
        tool_choice: ToolChoice,
        dialect: &Dialect,
    ) -> String {
        let request = Request {
            model: "m",
            system: &system.iter().map(|text| Arc::from(*text)).collect::<Vec<_>>(),
            tools: &[decl("read_file"), decl("write_file")],
            messages: &messages.iter().cloned().map(Arc::new).collect::<Vec<_>>(),
            tool_choice,
            options: &ModelOptions {
                reasoning_effort: Some("low".into()),
                max_output_tokens: Some(10_000),
            },
        };
        String::from_utf8(request_body(&request, dialect)).unwrap()
    }

    fn body(messages: &[Message]) -> String {
        body_of(&SYSTEM, messages, ToolChoice::Auto, &Dialect::default())
    }

    fn image() -> Image {
        let size = deputize_core::image::ImageSize { width: 2, height: 1 };
        Image::new(deputize_core::image::ImageFormat::Png, size, b"pixels")
    }

    /// A message of a user and a result of a call, each with an image.
    fn shown() -> Vec<Message> {
        let mut messages = conversation();
        if let Message::User(user) = &mut messages[0] {
            user.images.push(image());
        }
        if let Message::Tool(result) = &mut messages[3] {
            result.images.push(image());
        }
        messages
    }

    #[test]
    fn images_stand_in_the_message_and_in_the_result() {
        let dialect = Dialect { vision: Vision::all(true), ..Dialect::default() };
        let body = body_of(&SYSTEM, &shown(), ToolChoice::Auto, &dialect);
        let (_, messages) = body.split_once(r#""messages":"#).unwrap();
        insta::assert_snapshot!(messages.replace("},{", "},\n{"));
    }

    #[test]
    fn a_model_without_vision_reads_that_there_are_images() {
        let body = body(&shown());
        assert!(!body.contains(r#""type":"image""#), "{body}");
        assert_eq!(body.matches("[an image stands here, which you cannot see]").count(), 2);
    }

    #[test]
    fn a_request_in_full() {
        let body = body_of(&SYSTEM, &conversation(), ToolChoice::None, &Dialect::default());
        insta::assert_snapshot!(body.replace("},{", "},\n{").replace("[{", "[\n{"));
    }

    #[test]
    fn blocks_stand_in_their_usual_order_when_no_other_fits_any_more() {
        let Message::Assistant(mut changed) = conversation()[2].clone() else { panic!() };
        changed.text = "[redacted]".into();
        let messages = [user("a"), Message::Assistant(changed), result(1, 0, CallStatus::Ok, "b")];
        let body = body(&messages);
        let places = [r#""thinking":"#, "redacted_thinking", "[redacted]", "call_1_0", "call_1_1"];
        let places = places.map(|text| body.find(text).unwrap());
        assert!(places.is_sorted(), "{body}");
        assert!(body.contains("no result is on record"), "each call is answered: {body}");
    }

    #[test]
    fn a_closing_request_drops_thinking_that_nothing_follows() {
        let thinking = r#"{"type":"thinking","thinking":"x","signature":"s"}"#;
        let layout = r#"[{"text":[0,2]},"opaque","call"]"#;
        let opaque = [(super::super::WIRE, thinking), ("anthropic-messages/layout", layout)];
        let body = body(&[user("a"), said(1, "So", &[], &opaque), user("b")]);
        assert!(body.contains(r#"[{"type":"text","text":"So"}]"#), "{body}");
    }

    #[test]
    fn no_thinking_is_asked_for_in_a_loop_that_began_without() {
        let thinking = r#"{"type":"thinking","thinking":"x","signature":"s"}"#;
        let own = [(super::super::WIRE, thinking)];
        let asks = |messages: &[Message]| {
            body(messages).contains(r#""thinking":{"type":"enabled","budget_tokens""#)
        };
        let call = [("read_file", "{}")];
        let ok = |step| result(step, 0, CallStatus::Ok, "b");
        let foreign = [user("a"), said(1, "", &call, &[]), ok(1)];
        assert!(!asks(&foreign));
        // Its own next replies change nothing until the loop is over.
        let mut longer = foreign.to_vec();
        longer.extend([said(2, "", &call, &own), ok(2), user("hurry")]);
        assert!(!asks(&longer));
        longer.extend([said(3, "Done.", &[], &own), user("and now?")]);
        assert!(asks(&longer));
        // A loop that began with it may go on without.
        let own = [user("a"), said(1, "", &call, &own), ok(1), said(2, "", &call, &[]), ok(2)];
        assert!(asks(&own));
        assert!(asks(&own[..1]));
    }

    #[test]
    fn a_result_without_its_call_is_text() {
        let orphan = result(7, 0, CallStatus::Ok, "orphan");
        let body = body(&[user("a"), said(1, "b", &[], &[]), orphan, user("c")]);
        let text = r#"{"role":"user","content":[{"type":"text","text":"orphan"},{"type":"text","text":"c","#;
        assert!(body.contains(text), "{body}");
    }

    #[test]
    fn breakpoints_are_where_another_request_can_hit_them() {
        let marked = |system: &[&str]| {
            let body = body_of(system, &conversation(), ToolChoice::Auto, &Dialect::default());
            let mark = r#""cache_control":{"type":"ephemeral"}"#;
            let parts: Vec<&str> = body.split(mark).collect();
            let before = parts.iter().take(parts.len() - 1);
            before.map(|part| part[part.len() - 20..].to_owned()).collect::<Vec<_>>()
        };
        let ends = [r#"text":"Also this.","#, r#"text":"Thanks.","#];
        let check = |system: &[&str], firsts: [&str; 2]| {
            let marked = marked(system);
            let expected: Vec<_> = firsts.iter().filter(|it| !it.is_empty()).chain(&ends).collect();
            assert_eq!(marked.len(), expected.len(), "{marked:?}");
            for (place, end) in marked.iter().zip(expected) {
                assert!(place.ends_with(end), "{marked:?}");
            }
        };
        check(&["a", "b", "c"], [r#""a","#, r#"c","#]);
        check(&["a"], [r#""object"},"#, r#""a","#]);
        check(&[" "], [r#""object"},"#, ""]);
    }

    #[test]
    fn extra_fields_add_replace_and_remove_but_never_touch_ours() {
        let extra = |json: Value| -> Dialect {
            Dialect { extra: serde_json::from_value(json).unwrap(), ..Dialect::default() }
        };
        let with = |json: Value| body_of(&[], &[user("a")], ToolChoice::Auto, &extra(json));
        let body = with(json!({"max_tokens": 1700, "top_k": 1, "cache_control": null}));
        let head = r#"{"model":"m","stream":true,"max_tokens":1700,"thinking":{"type":"enabled","budget_tokens":1275},"top_k":1,"tools""#;
        assert!(body.starts_with(head), "{body}");
        assert!(!body.contains("cache_control"), "{body}");
        let body =
            with(json!({"thinking": null, "cache_control": {"type": "ephemeral", "ttl": "1h"}}));
        assert!(body.starts_with(r#"{"model":"m","stream":true,"max_tokens":10000,"tools""#));
        assert_eq!(body.matches(r#""cache_control":{"type":"ephemeral","ttl":"1h"}"#).count(), 2);

        for field in RESERVED {
            let mut endpoint = Endpoint::new("p", "http://localhost/v1");
            endpoint.body.extra.insert(field.to_owned(), Value::Null);
            let error = endpoint_dialect(&endpoint).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("provider p: `{field}` cannot be an extra field")
            );
        }
    }

    #[test]
    fn the_smallest_request() {
        let request = Request {
            model: "m",
            system: &[],
            tools: &[],
            messages: &[],
            tool_choice: ToolChoice::None,
            options: &ModelOptions::default(),
        };
        let dialect = Dialect { streaming: false, ..Dialect::default() };
        let body = String::from_utf8(request_body(&request, &dialect)).unwrap();
        insta::assert_snapshot!(body, @r#"{"model":"m","stream":false,"max_tokens":32000,"messages":[]}"#);
    }

    /// One step of a conversation, which ends where a request could be sent.
    fn step(step: u32) -> impl Strategy<Value = Vec<Message>> {
        let text = || {
            proptest::sample::select(vec!["", " ", "a", "b \n", "]}", "\"x\"", "1\n\n2", "\u{e9}"])
        };
        let thinking =
            (super::super::WIRE, r#"{"type":"thinking","thinking":"t","signature":"s"}"#);
        let layouts = [
            r#"["opaque",{"text":[0,1]},"call"]"#,
            r#"[{"text":[0,1]},"opaque",{"text":[3,4]},"call","call"]"#,
            "[]",
        ];
        let layout = proptest::sample::select(layouts.to_vec());
        let opaque = prop_oneof![
            Just(Vec::new()),
            Just(vec![thinking]),
            layout.prop_map(move |raw| vec![thinking, ("anthropic-messages/layout", raw)]),
        ];
        let calls = proptest::collection::vec((text(), text()), 0..3);
        let users = proptest::collection::vec(text(), 0..3);
        (text(), opaque, calls, users).prop_map(move |(reply, opaque, calls, users)| {
            let names: Vec<_> = calls.iter().map(|(name, _)| (*name, "{\"a\":[1]}")).collect();
            let mut messages = vec![said(step, reply, &names, &opaque)];
            for (slot, (_, text)) in (0..).zip(&calls) {
                let failed = if text.is_empty() { CallStatus::Denied } else { CallStatus::Ok };
                messages.push(result(step, slot, failed, text));
            }
            messages.extend(users.into_iter().map(user));
            messages
        })
    }

    fn steps() -> impl Strategy<Value = Vec<Vec<Message>>> {
        let first = Just(vec![user("Go.")]).boxed();
        let rest = (1..6).map(|n| step(n).boxed());
        std::iter::once(first).chain(rest).collect::<Vec<_>>()
    }

    /// A body without breakpoints and closing brackets, and without what only a closing
    /// request has. Also without the budget of thinking: a request in a tool loop that another
    /// model began cannot ask for one, and is refused rather than cached if it does.
    fn core(body: &str) -> String {
        let body = body.replace(r#","cache_control":{"type":"ephemeral"}"#, "");
        let body = body.replace(r#","thinking":{"type":"enabled","budget_tokens":4096}"#, "");
        let body = body.strip_suffix(r#","tool_choice":{"type":"none"}}"#).unwrap_or(&body);
        let body = body.strip_suffix('}').unwrap_or(body);
        body.strip_suffix("]}]").unwrap_or(body).to_owned()
    }

    proptest! {
        #[test]
        fn a_longer_conversation_keeps_every_byte_of_the_shorter(steps in steps()) {
            let mut messages = Vec::new();
            let mut before = String::new();
            for (n, step) in steps.iter().enumerate() {
                messages.extend(step.iter().cloned());
                let choice = if n == 3 { ToolChoice::None } else { ToolChoice::Auto };
                let body = body_of(&SYSTEM, &messages, choice, &Dialect::default());
                let core = core(&body);
                prop_assert!(core.starts_with(&before), "{before}\n{core}");
                before = core;
            }
        }

        #[test]
        fn every_request_is_one_that_servers_take(steps in steps(), cut in 0usize..30) {
            let mut messages = steps.concat();
            messages.truncate(cut.max(1));
            let body = body(&messages);
            prop_assert!(body.matches("cache_control").count() <= 4, "{body}");
            let body: Value = serde_json::from_str(&body).unwrap();
            let turns = body["messages"].as_array().unwrap();
            let mut called: Vec<&Value> = Vec::new();
            for (n, turn) in turns.iter().enumerate() {
                let role = if n % 2 == 0 { "user" } else { "assistant" };
                prop_assert_eq!(&turn["role"], role);
                let blocks = turn["content"].as_array().unwrap();
                let ids = |kind: &str, key: &str| -> Vec<&Value> {
                    let blocks = blocks.iter().filter(|block| block["type"] == kind);
                    blocks.map(|block| &block[key]).collect()
                };
                if role == "user" {
                    prop_assert_eq!(&ids("tool_result", "tool_use_id"), &called);
                    let results = blocks.iter().take(called.len());
                    prop_assert!(results.into_iter().all(|block| block["type"] == "tool_result"));
                }
                called = ids("tool_use", "id");
                for block in blocks {
                    for text in [&block["text"], &block["content"]].into_iter().flat_map(Value::as_str) {
                        prop_assert!(!text.trim().is_empty(), "{turn}");
                    }
                }
                let last = blocks.last().unwrap();
                prop_assert!(last["type"] != "thinking");
                let end = last["text"].as_str().unwrap_or("x");
                prop_assert!(role == "user" || end.trim_end() == end, "{turn}");
            }
        }
    }
}
