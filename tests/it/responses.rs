//! OpenAI's Responses over real connections: what is sent, what goes back, and what failures
//! mean.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::authority::Grant;
use deputize_core::clock::FixedClock;
use deputize_core::message::{OpaqueBlock, UserMessage};
use deputize_core::model::{Finish, ModelError, ModelOptions, Reply, Request, ToolChoice};
use deputize_core::{Authority, Cancel, Catalog, Message, Model as _, SessionId};
use deputize_providers::{Endpoint, Key, OpenAiResponses, http_client};
use deputize_runtime::{Session, SessionConfig, SessionDir};
use deputize_testkit::{Barrier, MockAnswer, MockServer, responses_sse};
use insta::assert_snapshot;
use serde_json::{Value, json};

const KEY: &str = "sk-very-secret-9012";

fn endpoint(server: &MockServer) -> Endpoint {
    let mut endpoint = Endpoint::new("mock", server.base_url());
    endpoint.keys = vec![Key::new("MOCK_API_KEY", KEY)];
    endpoint
}

fn model(endpoint: Endpoint) -> OpenAiResponses {
    OpenAiResponses::new(endpoint, &http_client(Arc::new(FixedClock(0)))).unwrap()
}

async fn ask(model: &OpenAiResponses) -> Result<Reply, ModelError> {
    ask_with(model, &ModelOptions::default()).await
}

async fn ask_with(model: &OpenAiResponses, options: &ModelOptions) -> Result<Reply, ModelError> {
    let user = UserMessage::new("Hello.");
    let request = Request {
        model: "m-1",
        system: &[],
        tools: &[],
        messages: &[Arc::new(Message::User(user))],
        tool_choice: ToolChoice::Auto,
        options,
    };
    model.reply(&request, &mut |_| {}, &Cancel::new()).await
}

async fn outcome(answer: MockAnswer) -> String {
    let server = MockServer::start([answer]).await.unwrap();
    let shown = match ask(&model(endpoint(&server))).await {
        Ok(reply) => format!("{reply:?}"),
        Err(error) => {
            let waits = error.retry_after().map_or(String::new(), |wait| format!(" {wait:?}"));
            format!("{:?}{waits}: {} [{}]", error.kind, error.message, error.partial)
        }
    };
    assert!(!shown.contains(KEY), "{shown}");
    shown.replace(&server.address().to_string(), "HOST")
}

#[tokio::test]
async fn an_answer_as_long_as_was_allowed_is_cut_whatever_the_server_says() {
    // The body of a real server that was allowed eight tokens, and calls it complete.
    let body = include_str!("../fixtures/streams/openai-responses/real-llama-cpp-cut-answer.txt");
    assert!(body.contains(r#""output_tokens":8"#) && body.contains(r#""status":"completed""#));
    for (limit, finish) in
        [(None, Finish::Stop), (Some(8), Finish::Length), (Some(9), Finish::Stop)]
    {
        let server = MockServer::start([MockAnswer::sse(body.to_owned())]).await.unwrap();
        let options = ModelOptions { max_output_tokens: limit, ..ModelOptions::default() };
        let reply = ask_with(&model(endpoint(&server)), &options).await.unwrap();
        assert_eq!((reply.finish, reply.text.is_empty()), (finish, false), "{limit:?}");
    }
}

/// A streamed answer: reasoning, text, a call, and reasoning before another call; with the
/// two items of reasoning as they must go back.
fn interleaved() -> (String, [&'static str; 2]) {
    let first = r#"{ "type":"reasoning", "id":"rs_1", "summary":[], "encrypted_content":"Zmlyc3Q\u002b/==" }"#;
    let second = r#"{"encrypted_content":"c2Vjb25k","id":"rs_2","type":"reasoning","summary":[{"type":"summary_text","text":"And b."}]}"#;
    let call = |number: u32, path: &str| {
        let arguments = json!({ "path": path }).to_string();
        json!({
            "type": "function_call", "id": format!("fc_{number}"), "name": "read_file",
            "call_id": format!("call_of_server_{number}"), "arguments": arguments,
        })
        .to_string()
    };
    let text = r#"{"type":"message","id":"msg_x","role":"assistant","content":[{"type":"output_text","text":"I read."}]}"#;
    let items = [first, text, &call(2, "a.txt"), second, &call(4, "b.txt")];
    let done = |(index, item): (usize, &&str)| {
        format!(
            "data: {{\"type\":\"response.output_item.done\",\"output_index\":{index},\"item\":{item}}}\n\n"
        )
    };
    let mut body: String = items.iter().enumerate().map(done).collect();
    let end = json!({"type": "response.completed", "response": {"model": "served", "output": []}});
    body.push_str(&format!("data: {end}\n\n"));
    (body, [first, second])
}

/// Whether these texts stand in a body, one behind the other.
fn in_order(body: &str, texts: &[&str]) -> bool {
    let mut rest = body;
    texts.iter().all(|text| {
        let found = rest.split_once(text);
        rest = found.map_or("", |(_, behind)| behind);
        found.is_some()
    })
}

#[tokio::test]
async fn reasoning_goes_back_byte_for_byte_in_its_place_through_a_tool_loop() {
    let (first, [one, two]) = interleaved();
    let mut second = Reply::calls("served", [("list_files", json!({"path": "."}))]);
    let later = r#"{"type":"reasoning","id":"rs_3","summary":[],"encrypted_content":"dGhpcmQ="}"#;
    second.opaque = vec![OpaqueBlock::new("openai-responses", later)];
    let last = Reply::text("served", "Two files.");
    let script = [first, responses_sse(&second), responses_sse(&last)];
    let server =
        MockServer::start(script.map(|body| MockAnswer::sse(body).pieces(5))).await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    for name in ["a.txt", "b.txt"] {
        fs::write(folder.path().join(name), format!("This is {name}.\n")).unwrap();
    }
    let mut config = SessionConfig::new(Catalog::linked(&[deputize_tools::LINK]).unwrap());
    config.models.insert("mock/m", "gpt-5", Arc::new(model(endpoint(&server))));
    let state = tempfile::tempdir().unwrap();
    let dir = SessionDir::new(state.path());
    let session = Session::create(&dir, SessionId::literal("test"), config).unwrap();
    let mut spec = session.top_agent("mock/m", "What is here?", folder.path());
    spec.system = vec!["You read files.".into(), "Here.".into()];
    let grant = Grant { read: Some([folder.path().to_owned()].into()), ..Grant::default() };
    let authority = Authority::root(session.catalog(), &grant);
    let outcome = session.run(spec, authority, &Cancel::new()).await;
    assert_eq!(outcome.text.as_deref(), Some("Two files."), "{outcome:?}");

    let requests = server.requests();
    assert!(requests.iter().all(|request| request.path == "/v1/responses"));
    let bodies: Vec<String> = requests.iter().map(|request| request.text()).collect();
    let call = |slot: u32| format!(r#"{{"type":"function_call","call_id":"call_1_{slot}","#);
    let said = r#"{"type":"output_text","text":"I read.","annotations":[]}]},"#;
    let led_to = format!("{two},{}", call(1));
    assert!(in_order(&bodies[1], &[one, said, &call(0), &led_to]), "{}", bodies[1]);
    assert!(in_order(&bodies[1], &["This is a.txt.", "This is b.txt."]), "{}", bodies[1]);
    let then = format!(r#"{later},{{"type":"function_call","call_id":"call_2_0","#);
    assert!(in_order(&bodies[2], &[one, two, &then]), "{}", bodies[2]);
    for pair in bodies.windows(2) {
        let known = pair[0].strip_suffix("]}").unwrap();
        assert!(pair[1].starts_with(known), "{}\n{}", pair[0], pair[1]);
    }
    let sent: Value = serde_json::from_str(&bodies[0]).unwrap();
    assert_eq!(sent["store"], false);
    assert_eq!(sent["instructions"], "You read files.\n\nHere.");
    assert_eq!(sent["tools"][0]["type"], "function");
    assert!(sent["tools"][0]["name"].is_string());
}

#[tokio::test]
async fn a_reply_that_is_no_stream() {
    let document = json!({
        "object": "response", "status": "completed", "model": "served",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "Whole."}]}],
        "usage": {"input_tokens": 7, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 5},
    });
    let server = MockServer::start([MockAnswer::json(&document).pieces(7)]).await.unwrap();
    let mut endpoint = endpoint(&server);
    endpoint.body.streaming = false;
    let reply = ask(&model(endpoint)).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.model.as_str()), ("Whole.", "served"));
    assert_eq!((reply.usage.input, reply.usage.cached, reply.usage.output), (7, 4, 5));
    let sent = &server.requests()[0];
    assert_eq!(sent.json()["stream"], false);
    assert_eq!(sent.header("accept"), Some("application/json"));
    assert_eq!(sent.header("authorization"), Some(&*format!("Bearer {KEY}")));
}

#[tokio::test]
async fn failures_are_reported_by_their_codes_also_inside_a_stream() {
    let refused = |status, code: &str, message: &str| {
        let error = json!({"message": message, "type": "invalid_request_error", "code": code});
        MockAnswer::json(&json!({ "error": error })).status(status)
    };
    let event = |event: Value| MockAnswer::sse(format!("data: {event}\n\n"));
    let failed = |code: &str, message: &str| {
        let error = json!({"code": code, "message": message});
        let response = json!({"status": "failed", "error": error});
        event(json!({"type": "response.failed", "response": response}))
    };
    let text = r#"{"type":"response.output_text.delta","delta":"Half."}"#;
    let error = r#"{"type":"error","code":"server_error","message":"Boom."}"#;
    let answers = [
        refused(400, "context_length_exceeded", "Your input exceeds the context window."),
        refused(400, "model_not_found", "The requested model 'm-1' does not exist."),
        refused(429, "insufficient_quota", "You exceeded your current quota."),
        refused(429, "rate_limit_exceeded", "Rate limit reached. Please try again in 1.5s."),
        refused(401, "invalid_api_key", &format!("Incorrect API key: {KEY}")),
        failed("context_length_exceeded", "Your input exceeds the context window."),
        failed("rate_limit_exceeded", "Rate limit reached. Please try again in 1.5s."),
        failed("insufficient_quota", "You exceeded your current quota."),
        event(json!({"type": "error", "code": "invalid_prompt", "message": "Flagged."})),
        MockAnswer::sse(format!("data: {text}\n\ndata: {error}\n\n")),
    ];
    let mut lines = Vec::new();
    for answer in answers {
        lines.push(outcome(answer).await);
    }
    assert_snapshot!(lines.join("\n"));
}

#[tokio::test]
async fn what_ends_a_reply_ends_it_at_once_though_the_socket_stays_open() {
    let never = Barrier::closed();
    let open = |body: &str| MockAnswer::sse(body).stall_at(body.len(), &never);
    let failed =
        "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"message\":\"Boom.\"}}}\n\n";
    let error = "event: error\ndata: {\"type\":\"error\",\"message\":\"Boom.\"}\n\n";
    let whole = responses_sse(&Reply::text("served", "Hello."));
    for (body, end) in [(failed, "Boom."), (error, "Boom."), (&whole, "Hello.")] {
        let ended = tokio::time::timeout(Duration::from_secs(30), outcome(open(body))).await;
        assert!(ended.unwrap().contains(end), "{body}");
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_anywhere_gives_no_call() {
    let reply = Reply::calls("served", [("read_file", json!({"path": "a.txt"}))]);
    let body = responses_sse(&reply);
    let end = body.find("event: response.completed").unwrap();
    for at in (0..=end).step_by(97).chain([end]) {
        for answer in [
            MockAnswer::sse(body.as_str()).cut_at(at),
            MockAnswer::sse(body.as_str()).ending_at(at),
        ] {
            let seen = outcome(answer).await;
            assert!(
                seen.starts_with("Incomplete") || seen.starts_with("Transient"),
                "{at}: {seen}"
            );
        }
    }
    assert!(outcome(MockAnswer::sse(body)).await.contains("read_file"));
}
