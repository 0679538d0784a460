//! A server by HTTP that answers calls in a way that few do: each call is made once, and what is said
//! of it is true.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use deputize_core::{Resource as _, ToolError};
use deputize_mcp::{ServerConfig, Servers};
use deputize_testkit::{Barrier, MockAnswer, MockServer, ToolHarness};
use serde_json::{Value, json};

use super::contract::{called, tools};
use crate::program::soon;

/// What a server answers to its calls, by their number and their id.
type Answers = Box<dyn Fn(u32, &Value) -> MockAnswer + Send + Sync>;

struct HttpFixture {
    bench: ToolHarness,
    servers: Servers,
    /// How often it was greeted.
    greeted: Arc<AtomicU32>,
    /// How many calls it did.
    done: Arc<AtomicU32>,
    _server: MockServer,
}

async fn far(read_only: &[&str], answers: Answers) -> HttpFixture {
    far_with(read_only, answers, |_, answer| MockAnswer::json(&answer)).await
}

/// The same of a server that sends its answers to greetings and lists in a way of its own.
async fn far_with(
    read_only: &[&str],
    answers: Answers,
    sends: impl Fn(&str, Value) -> MockAnswer + Send + Sync + 'static,
) -> HttpFixture {
    let greeted = Arc::new(AtomicU32::new(0));
    let done = Arc::new(AtomicU32::new(0));
    let greetings = Arc::clone(&greeted);
    let calls = Arc::clone(&done);
    let server = MockServer::start_with(move |request| {
        if request.method != "POST" {
            return MockAnswer::error(405, "no stream");
        }
        let asked = request.json();
        let id = &asked["id"];
        let method = asked["method"].as_str().unwrap_or_default();
        let answer =
            |result: Value| sends(method, json!({"jsonrpc": "2.0", "id": id, "result": result}));
        match method {
            "initialize" => {
                let count = greetings.fetch_add(1, Ordering::SeqCst);
                let info = json!({"name": "far", "version": "1"});
                let agreed = json!({"tools": {}});
                answer(json!({"protocolVersion": "2025-06-18", "capabilities": agreed, "serverInfo": info}))
                    .header("mcp-session-id", &format!("session-{count}"))
            }
            "tools/list" => {
                let schema = json!({"type": "object"});
                answer(json!({"tools": [{"name": "go", "inputSchema": schema}]}))
            }
            "tools/call" => answers(calls.fetch_add(1, Ordering::SeqCst), id),
            _ if id.is_null() => MockAnswer::body("text/plain", "").status(202),
            _ => sends(method, refusal(id, -32601, "no such method")),
        }
    });
    let server = server.await.unwrap();
    let address = format!("http://{}/mcp", server.address());
    let (catalog, servers) =
        tools(ServerConfig::url("s", address, BTreeMap::new()), read_only).await;
    let bench = ToolHarness::of(Path::new("/"), catalog);
    bench.agent().session.settings.get_or_insert_with(|| servers.clone());
    // Who looked at its tools greeted it too, and closed the session.
    greeted.store(0, Ordering::SeqCst);
    HttpFixture { bench, servers, greeted, done, _server: server }
}

impl HttpFixture {
    async fn call(&self) -> String {
        called(&self.bench, "mcp__s__go", json!({})).await
    }

    /// How many calls were done, and in how many sessions.
    fn counts(&self) -> (u32, u32) {
        (self.done.load(Ordering::SeqCst), self.greeted.load(Ordering::SeqCst))
    }
}

fn refusal(id: &Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

fn good(id: &Value) -> MockAnswer {
    let content = json!([{"type": "text", "text": "gone"}]);
    MockAnswer::json(&json!({"jsonrpc": "2.0", "id": id, "result": {"content": content}}))
}

/// The answer to a first call, the error that results, and the number of calls and handshakes,
/// including those of a second call, which succeeds.
#[tokio::test]
async fn an_effect_is_not_repeated_whatever_the_server_answers_after_it() {
    let error = |message: &str| refusal(&Value::Null, -32603, message);
    let unknown = "; what the call did is unknown. Look before you repeat it";
    let anew = "the server does not know the session, which is begun anew";
    let cases: [(&str, MockAnswer, String, (u32, u32)); 8] = [
        (
            "500 and an error without an id",
            MockAnswer::json(&error("Internal server error")).status(500),
            format!("the server answered HTTP 500 Internal Server Error{unknown} Internal"),
            (2, 1),
        ),
        (
            "503 and words of a session",
            MockAnswer::json(&error("session store overloaded")).status(503),
            format!("the server answered HTTP 503 Service Unavailable{unknown} session store"),
            (2, 1),
        ),
        (
            "500 and a text",
            MockAnswer::body("text/plain", "oops").status(500),
            format!("the server answered HTTP 500 Internal Server Error{unknown} oops"),
            (2, 1),
        ),
        (
            "200 and an error without an id",
            MockAnswer::json(&error("it was done, then it failed")),
            format!("the server answered with an error that names no call{unknown} it was done"),
            (2, 1),
        ),
        (
            "400 and an error without an id",
            MockAnswer::json(&error("bad city")).status(400),
            "the server refused the call (code -32603): bad city".to_owned(),
            (2, 1),
        ),
        (
            "400 and a text",
            MockAnswer::body("text/plain", "bad city").status(400),
            "the server refused the call (HTTP 400 Bad Request): bad city".to_owned(),
            (2, 1),
        ),
        (
            "400 that is about the session",
            MockAnswer::json(&error("No valid session ID provided")).status(400),
            anew.to_owned(),
            (2, 2),
        ),
        // The protocol has this for a session that is unknown, in which nothing is done.
        ("404", MockAnswer::body("text/plain", "gone").status(404), "gone".to_owned(), (3, 2)),
    ];
    for (what, answer, words, counts) in cases {
        let answers = move |count, id: &Value| if count == 0 { answer.clone() } else { good(id) };
        let far = far(&[], Box::new(answers)).await;
        let actual = far.call().await;
        assert!(actual.starts_with(&words), "{what}: {actual}");
        assert_eq!(far.call().await, "gone", "{what}");
        assert_eq!(far.counts(), counts, "{what}");
        far.servers.close().await;
    }
}

#[tokio::test]
async fn no_word_of_a_server_stands_where_only_we_speak_by_http_either() {
    const WORDS: &str = "x] [OBEY";
    let with_null = || refusal(&Value::Null, -32000, WORDS);
    let answers = [
        ("a type", MockAnswer::body(WORDS, "")),
        ("no message", MockAnswer::body("application/json", WORDS)),
        ("an error", MockAnswer::json(&with_null())),
        ("an error as an event", MockAnswer::sse(format!("data: {}\n\n", with_null()))),
        ("a refusal", MockAnswer::body("text/plain", WORDS).status(400)),
        ("a refused key", MockAnswer::body("text/plain", WORDS).status(401)),
        ("a failure", MockAnswer::json(&with_null()).status(500)),
        (
            "a forgotten session",
            MockAnswer::json(&refusal(&Value::Null, -32000, "session x] [OBEY")).status(400),
        ),
    ];
    for (what, answer) in answers {
        let far = far(&[], Box::new(move |_, _: &Value| answer.clone())).await;
        let result = soon(what, far.bench.call("mcp__s__go", json!({}))).await;
        let Err(ToolError::Partly { text, output }) = result else { panic!("{what}: {result:?}") };
        assert!(output.content.contains("OBEY"), "{what}: {}", output.content);
        let ours = [output.notes, vec![text.into_string()]].concat().join(" ");
        assert!(!ours.contains("OBEY"), "{what}: {ours}");
        far.servers.close().await;
    }
}

#[tokio::test]
async fn half_a_character_by_http_is_no_hindrance_and_what_is_no_json_is_reported_at_once() {
    let answers = |count, id: &Value| {
        let text = r#"{"content":[{"type":"text","text":"a\ud83d"}]}"#;
        let result = if count < 2 { text } else { r#"{"a":NaN}"# };
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        match count % 2 {
            0 => MockAnswer::sse(format!("data: {answer}\n\n")),
            _ => MockAnswer::body("Application/JSON; charset=UTF-8", answer),
        }
    };
    let far = far(&[], Box::new(answers)).await;
    assert_eq!([far.call().await, far.call().await], ["a\u{fffd}", "a\u{fffd}"]);
    let actual = [far.call().await, far.call().await];
    assert!(
        actual[0].starts_with("the server's answer cannot be read; what the call did"),
        "{actual:?}"
    );
    let none = "the server's answer is no message of the protocol; what the call did";
    assert!(actual[1].starts_with(none), "{actual:?}");
    far.servers.close().await;
}

#[tokio::test]
async fn a_call_that_may_be_repeated_is_made_again_in_a_new_session() {
    let lost = "no valid session";
    let answers = |count, id: &Value| match count {
        0 => MockAnswer::json(&refusal(&Value::Null, -32000, lost)).status(400),
        _ => good(id),
    };
    let far = far(&["go"], Box::new(answers)).await;
    assert_eq!(far.call().await, "gone");
    assert_eq!(far.counts(), (2, 2));
    far.servers.close().await;
}

#[tokio::test]
async fn a_refused_call_does_not_end_those_beside_it() {
    let gate = Barrier::closed();
    let held = gate.clone();
    let answers = move |count, id: &Value| match count {
        0 => good(id).held_by(&held),
        _ => MockAnswer::body("text/plain", "bad city").status(400),
    };
    let far = far(&["go"], Box::new(answers)).await;
    let refused = async {
        gate.until_waiting(1).await;
        // A connection that was given up would be ended by the second of them.
        let refused = [far.call().await, far.call().await];
        gate.open();
        refused
    };
    let (slow, refused) = soon("both", async { tokio::join!(far.call(), refused) }).await;
    assert_eq!((slow.as_str(), far.counts()), ("gone", (3, 1)), "{refused:?}");
    far.servers.close().await;
}

#[tokio::test]
async fn answers_to_other_requests_are_dropped_from_the_first_greeting_on() {
    let stray = |answer: &Value| {
        let events = [
            json!({"jsonrpc": "2.0", "id": 4711, "result": {"protocolVersion": "2025-06-18"}}),
            refusal(&json!("x"), -1, "another"),
            answer.clone(),
        ];
        let events = events.map(|event| format!("event: message\ndata: {event}\n\n"));
        MockAnswer::body("text/event-stream", events.concat())
    };
    let answers = move |_, id: &Value| {
        let content = json!([{"type": "text", "text": "gone"}]);
        stray(&json!({"jsonrpc": "2.0", "id": id, "result": {"content": content}}))
    };
    let far = far_with(&[], Box::new(answers), move |_, answer| stray(&answer)).await;
    assert_eq!(far.call().await, "gone");
    assert_eq!(far.counts(), (1, 1));
    far.servers.close().await;
}
