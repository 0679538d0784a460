//! Anthropic's Messages over real connections: what is sent, what goes back, and what failures
//! mean.

use std::fs;
use std::sync::Arc;

use deputize_core::authority::Grant;
use deputize_core::clock::FixedClock;
use deputize_core::message::{OpaqueBlock, UserMessage};
use deputize_core::model::{FailureKind, ModelOptions, Reply, Request, ToolChoice, Usage};
use deputize_core::{Authority, Cancel, Catalog, Message, Model as _, SessionId};
use deputize_providers::{AnthropicMessages, Endpoint, Key, KeyHeader, http_client};
use deputize_runtime::{Session, SessionConfig, SessionDir};
use deputize_testkit::{Barrier, HttpRequest, MockAnswer, MockServer, messages_sse};
use serde_json::{Value, json};

const KEY: &str = "sk-very-secret-5678";

fn endpoint(server: &MockServer) -> Endpoint {
    let mut endpoint = Endpoint::new("mock", server.base_url());
    endpoint.keys = vec![Key::new("MOCK_API_KEY", KEY)];
    endpoint
}

fn model(endpoint: Endpoint) -> AnthropicMessages {
    AnthropicMessages::new(endpoint, &http_client(Arc::new(FixedClock(0)))).unwrap()
}

async fn ask(model: &AnthropicMessages) -> Result<Reply, deputize_core::model::ModelError> {
    let user = UserMessage::new("Hello.");
    let request = Request {
        model: "m-1",
        system: &[],
        tools: &[],
        messages: &[Arc::new(Message::User(user))],
        tool_choice: ToolChoice::Auto,
        options: &ModelOptions::default(),
    };
    model.reply(&request, &mut |_| {}, &Cancel::new()).await
}

/// A streamed answer with thinking between its texts and calls, and its blocks of thinking as
/// they must go back.
fn interleaved() -> (String, [&'static str; 2]) {
    let thinking =
        r#"{"type":"thinking","thinking":"First \"the\" list…","signature":"Zmlyc3Q+/=="}"#;
    let redacted = r#"{ "data":"ZW5j\u002f",  "type":"redacted_thinking" }"#;
    let call = |index: u32, path: &str| {
        let start = json!({"type": "tool_use", "id": format!("toolu_{index}"), "name": "read_file", "input": {}});
        let input = json!({ "path": path }).to_string();
        [
            json!({"type": "content_block_start", "index": index, "content_block": start}),
            json!({"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": input}}),
            json!({"type": "content_block_stop", "index": index}),
        ]
        .map(|event| event.to_string())
    };
    let mut events = vec![
        r#"{"type":"message_start","message":{"model":"claude-served"}}"#.to_owned(),
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#.to_owned(),
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"First \"the\" "}}"#.to_owned(),
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"list…"}}"#.to_owned(),
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"Zmlyc3Q+/=="}}"#.to_owned(),
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I read."}}"#.to_owned(),
    ];
    events.extend(call(2, "a.txt"));
    events
        .push(format!(r#"{{"type":"content_block_start","index":3,"content_block":{redacted}}}"#));
    events.extend(call(4, "b.txt"));
    events.push(r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#.to_owned());
    events.push(r#"{"type":"message_stop"}"#.to_owned());
    let body = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    (body, [thinking, redacted])
}

/// Where each of these texts stands, one behind the other.
fn in_order(body: &str, texts: &[&str]) -> bool {
    let mut rest = body;
    texts.iter().all(|text| {
        let found = rest.split_once(text);
        rest = found.map_or("", |(_, behind)| behind);
        found.is_some()
    })
}

/// A body without breakpoints, up to the end of its last block.
fn kept(body: &str) -> String {
    let body = body.replace(r#","cache_control":{"type":"ephemeral"}"#, "");
    body.strip_suffix("]}]}").unwrap().to_owned()
}

#[tokio::test]
async fn thinking_goes_back_byte_for_byte_in_its_place_through_a_tool_loop() {
    let (first, [thinking, redacted]) = interleaved();
    let mut second = Reply::calls("claude-served", [("list_dir", json!({"path": "."}))]);
    let later = r#"{"type":"thinking","thinking":"Now the list.","signature":"c2Vjb25k"}"#;
    second.opaque = vec![OpaqueBlock::new("anthropic-messages", later)];
    second.reasoning = "Now the list.".into();
    let last = Reply::text("claude-served", "Two files.");
    let script = [first, messages_sse(&second), messages_sse(&last)];
    let server =
        MockServer::start(script.map(|body| MockAnswer::sse(body).pieces(5))).await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    for name in ["a.txt", "b.txt"] {
        fs::write(folder.path().join(name), format!("This is {name}.\n")).unwrap();
    }
    let mut config = SessionConfig::new(Catalog::linked(&[deputize_tools::LINK]).unwrap());
    let model = Arc::new(model(endpoint(&server)));
    config.models.insert("mock/claude", "claude-5", model);
    let state = tempfile::tempdir().unwrap();
    let dir = SessionDir::new(state.path());
    let session = Session::create(&dir, SessionId::literal("test"), config).unwrap();
    let mut spec = session.top_agent("mock/claude", "What is here?", folder.path());
    spec.system = vec!["You read files.".into(), "Here.".into()];
    let grant = Grant { read: Some([folder.path().to_owned()].into()), ..Grant::default() };
    let authority = Authority::root(session.catalog(), &grant);
    let outcome = session.run(spec, authority, &Cancel::new()).await;
    assert_eq!(outcome.text.as_deref(), Some("Two files."), "{outcome:?}");

    let requests = server.requests();
    let bodies: Vec<String> = requests.iter().map(HttpRequest::text).collect();
    let called = |slot: u32| format!(r#""tool_use","id":"call_1_{slot}""#);
    let places =
        [thinking, r#"{"type":"text","text":"I read."}"#, &called(0), redacted, &called(1)];
    assert!(in_order(&bodies[1], &places), "{}", bodies[1]);
    assert!(in_order(&bodies[1], &["This is a.txt.", "This is b.txt."]), "{}", bodies[1]);
    assert!(in_order(&bodies[2], &[redacted, later, r#""id":"call_2_0""#]), "{}", bodies[2]);
    for pair in bodies.windows(2) {
        assert!(kept(&pair[1]).starts_with(&kept(&pair[0])), "{}\n{}", pair[0], pair[1]);
        let head = |body: &str| body[..body.find(r#""messages":"#).unwrap()].to_owned();
        assert_eq!(head(&pair[0]), head(&pair[1]), "tools and system text, with breakpoints");
    }
    let marks = bodies.iter().map(|body| body.matches("cache_control").count());
    assert_eq!(marks.collect::<Vec<_>>(), [3, 4, 4]);
}

#[tokio::test]
async fn the_key_and_the_version_go_where_the_wire_or_the_endpoint_says() {
    let reply = messages_sse(&Reply::text("served", "Hello."));
    let server = MockServer::start([0, 1].map(|_| MockAnswer::sse(reply.as_str()))).await.unwrap();
    ask(&model(endpoint(&server))).await.unwrap();
    let mut bearer = endpoint(&server);
    bearer.key_header = Some(KeyHeader::Bearer);
    bearer.headers.insert("Anthropic-Version".into(), "2099-01-01".into());
    bearer.headers.insert("anthropic-beta".into(), "some-beta".into());
    ask(&model(bearer)).await.unwrap();

    let names = ["x-api-key", "authorization", "anthropic-version", "anthropic-beta"];
    let sent = |n: usize| {
        let request = &server.requests()[n];
        assert_eq!(request.path, "/v1/messages");
        names.map(|name| request.header(name).unwrap_or("-").to_owned())
    };
    assert_eq!(sent(0), [KEY, "-", "2023-06-01", "-"]);
    assert_eq!(sent(1), ["-", &format!("Bearer {KEY}"), "2099-01-01", "some-beta"]);
}

#[tokio::test]
async fn a_reply_that_is_no_stream() {
    let document = json!({
        "type": "message", "model": "served", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Whole."}],
        "usage": {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 5},
    });
    let server = MockServer::start([MockAnswer::json(&document).pieces(7)]).await.unwrap();
    let mut endpoint = endpoint(&server);
    endpoint.body.streaming = false;
    let reply = ask(&model(endpoint)).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.model.as_str()), ("Whole.", "served"));
    assert_eq!((reply.usage.input, reply.usage.cached, reply.usage.output), (7, 4, 5));
    let sent: Value = serde_json::from_slice(&server.requests()[0].body).unwrap();
    assert_eq!((&sent["stream"], &sent["max_tokens"]), (&json!(false), &json!(32_000)));
}

#[tokio::test]
async fn failures_are_reported_with_what_to_do_also_inside_a_stream_that_stays_open() {
    let never = Barrier::closed();
    let describe = |kind: &str, message: &str| json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "r"});
    let answer = |status: u16, kind: &str, message: &str| {
        MockAnswer::json(&describe(kind, message)).status(status)
    };
    let inside = |events: usize, kind: &str| {
        let hello = messages_sse(&Reply::text("served", "Hello, this is a longer text."));
        let before: String = hello.split_inclusive("\n\n").take(events).collect();
        let body = format!("{before}event: error\ndata: {}\n\n", describe(kind, "So it is."));
        MockAnswer::sse(body.as_str()).stall_at(body.len(), &never)
    };
    let long = "prompt is too long: 210000 tokens > 200000 maximum";
    let credit = "Your credit balance is too low to access the API.";
    let answers = [
        answer(529, "overloaded_error", "Overloaded"),
        answer(429, "rate_limit_error", "Too fast.").header("retry-after", "7"),
        answer(401, "authentication_error", &format!("invalid x-api-key {KEY}")),
        answer(404, "not_found_error", "model: m-1"),
        answer(400, "invalid_request_error", long),
        answer(400, "invalid_request_error", credit),
        answer(400, "invalid_request_error", "tools.0: bad"),
        inside(0, "overloaded_error"),
        inside(3, "overloaded_error"),
        inside(3, "rate_limit_error"),
    ];
    let mut lines = Vec::new();
    for answer in answers {
        let server = MockServer::start([answer]).await.unwrap();
        let error = ask(&model(endpoint(&server))).await.unwrap_err();
        let waits = error.retry_after().map_or(String::new(), |wait| format!(" {wait:?}"));
        let line = format!("{:?}{waits}: {} [{}]", error.kind, error.message, error.partial);
        assert!(!line.contains(KEY), "{line}");
        lines.push(line.replace(&server.address().to_string(), "HOST"));
    }
    insta::assert_snapshot!(lines.join("\n"));
}

#[tokio::test]
async fn a_reply_that_broke_off_says_what_was_counted() {
    let usage = json!({"input_tokens": 3, "cache_creation_input_tokens": 40, "output_tokens": 1});
    let start = json!({"type": "message_start", "message": {"model": "served", "usage": usage}});
    let delta = json!({"type": "text_delta", "text": "Half of"});
    let delta = json!({"type": "content_block_delta", "index": 0, "delta": delta});
    let body = format!("data: {start}\n\ndata: {delta}\n\n");
    let server = MockServer::start([MockAnswer::sse(body)]).await.unwrap();
    let error = ask(&model(endpoint(&server))).await.unwrap_err();
    assert_eq!((error.kind, error.partial.as_str()), (FailureKind::Incomplete, "Half of"));
    let actual = Usage { input: 43, cache_write: 40, output: 1, ..Usage::default() };
    assert_eq!(error.usage, Some(Box::new(actual)));
}
