//! Chat Completions over real connections: what is sent, what comes of odd answers, and that
//! every exchange ends.

mod address;
mod documented;
mod faults;
mod keys;
mod network;
mod routes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use deputize_core::clock::FixedClock;
use deputize_core::message::UserMessage;
use deputize_core::model::{
    Delta, FailureKind, ModelError, ModelOptions, Reply, Request, ToolChoice,
};
use deputize_core::{Cancel, CancelReason, Message, Model as _};
use deputize_providers::openai_chat::{Dialect, request_body};
use deputize_providers::{Endpoint, Key, OpenAiChat, http_client};
use deputize_testkit::{Barrier, MockAnswer, MockServer, chat_sse};
use insta::assert_snapshot;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::program::soon;

const KEY: &str = "sk-very-secret-1234";
const SHORT: Duration = Duration::from_millis(60);

/// Six minutes before a date that answers ask to wait for.
const NOW_MS: u64 = 784_111_417_000;

fn endpoint(server: &MockServer) -> Endpoint {
    let mut endpoint = Endpoint::new("mock", server.base_url());
    endpoint.keys = vec![Key::new("MOCK_API_KEY", KEY)];
    endpoint
}

fn model(endpoint: Endpoint) -> OpenAiChat {
    OpenAiChat::new(endpoint, &http_client(Arc::new(FixedClock(NOW_MS)))).unwrap()
}

/// Why an endpoint cannot be used at all.
fn refused(endpoint: Endpoint) -> String {
    let http = http_client(Arc::new(FixedClock(NOW_MS)));
    OpenAiChat::new(endpoint, &http).unwrap_err().to_string()
}

fn messages() -> Vec<Arc<Message>> {
    vec![Arc::new(Message::User(UserMessage::new("Hello.")))]
}

fn request<'a>(messages: &'a [Arc<Message>], options: &'a ModelOptions) -> Request<'a> {
    let tool_choice = ToolChoice::Auto;
    Request { model: "m-1", system: &[], tools: &[], messages, tool_choice, options }
}

async fn ask_with(
    model: &OpenAiChat,
    live: &mut (dyn FnMut(Delta<'_>) + Send),
    cancel: &Cancel,
) -> Result<Reply, ModelError> {
    model.reply(&request(&messages(), &ModelOptions::default()), live, cancel).await
}

async fn ask(model: &OpenAiChat) -> Result<Reply, ModelError> {
    ask_with(model, &mut |_| {}, &Cancel::new()).await
}

/// What one answer leads to, with the server's address and the time it took left out.
async fn outcome_with(answer: MockAnswer, change: impl FnOnce(&mut Endpoint)) -> String {
    let server = MockServer::start([answer]).await.unwrap();
    let mut endpoint = endpoint(&server);
    change(&mut endpoint);
    let shown = match ask(&model(endpoint)).await {
        Ok(reply) => format!("{reply:?}"),
        Err(error) => {
            let waits = error.retry_after().map_or(String::new(), |wait| format!(" {wait:?}"));
            let partial = error.partial.as_str();
            format!("{:?}{waits}: {} [{partial}]", error.kind, error.message)
        }
    };
    assert_eq!(server.requests().len(), 1, "nothing is sent twice: {shown}");
    assert!(!shown.contains(KEY), "{shown}");
    let shown = shown.replace(&server.address().to_string(), "HOST");
    let mut left_out = String::new();
    let mut rest = shown.as_str();
    while let Some((before, after)) = rest.split_once("after ") {
        let number = after.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(0);
        left_out.push_str(before);
        left_out.push_str(if number == 0 { "after " } else { "after N" });
        rest = &after[number..];
    }
    left_out + rest
}

async fn outcome(answer: MockAnswer) -> String {
    outcome_with(answer, |_| {}).await
}

fn hello() -> String {
    chat_sse(&Reply::text("served", "Hello, this is a longer text."))
}

/// Where the finish reason of [`hello`] has arrived.
fn after_finish() -> usize {
    let body = hello();
    let finish = body.find("\"finish_reason\":\"stop\"").unwrap();
    finish + body[finish..].find("\n\n").unwrap() + 2
}

#[tokio::test]
async fn what_is_sent_is_the_body_and_the_key_and_nothing_more() {
    let answers = [3, 1024].map(|size| MockAnswer::sse(hello()).pieces(size));
    let server = MockServer::start(answers).await.unwrap();
    let mut endpoint = endpoint(&server);
    endpoint.base_url.push_str("/?version=2");
    endpoint.headers.insert("x-team".into(), "blue".into());
    endpoint.body.extra = BTreeMap::from([("top_k".to_owned(), 5.into())]);
    let dialect = Dialect { extra: endpoint.body.extra.clone(), ..Dialect::default() };
    let model = model(endpoint);
    for _ in 0..2 {
        let mut live = String::new();
        let mut see = |delta: Delta<'_>| {
            let (Delta::Text(text) | Delta::Reasoning(text)) = delta else { return };
            live.push_str(text);
        };
        let reply = ask_with(&model, &mut see, &Cancel::new()).await.unwrap();
        assert_eq!(reply, Reply::text("served", "Hello, this is a longer text."));
        assert_eq!(live, reply.text);
    }
    let requests = server.requests();
    assert_eq!(requests[0], requests[1]);
    let sent = &requests[0];
    assert_eq!(sent.path, "/v1/chat/completions?version=2");
    assert_eq!(sent.body, request_body(&request(&messages(), &ModelOptions::default()), &dialect));
    let headers = ["authorization", "content-type", "accept", "accept-encoding", "x-team"];
    assert_eq!(
        headers.map(|name| sent.header(name).unwrap()),
        [
            &format!("Bearer {KEY}"),
            "application/json",
            "text/event-stream, application/json",
            "identity",
            "blue"
        ]
    );
    assert_eq!(server.connections(), 1, "a connection serves again");
}

#[tokio::test]
async fn agents_that_go_on_at_once_find_their_connections_free_again() {
    const AGENTS: usize = 8;
    let server = MockServer::start_with(|_| MockAnswer::reply(&Reply::text("m", "Yes."))).await;
    let server = server.unwrap();
    let model = Arc::new(model(endpoint(&server)));
    let mut agents = tokio::task::JoinSet::new();
    for _ in 0..AGENTS {
        let model = Arc::clone(&model);
        agents.spawn(async move {
            for _ in 0..6 {
                ask(&model).await.unwrap();
            }
        });
    }
    agents.join_all().await;
    assert_eq!(server.requests().len(), 6 * AGENTS);
    assert_eq!(server.connections(), AGENTS);
}

/// Reads one request; false: the connection was closed instead.
async fn read_request(stream: &mut TcpStream) -> bool {
    let mut got = Vec::new();
    let mut whole = usize::MAX;
    while got.len() < whole {
        if stream.read_buf(&mut got).await.unwrap_or(0) == 0 {
            return false;
        }
        let text = String::from_utf8_lossy(&got);
        let head = text.find("\r\n\r\n");
        let length = text.split_once("content-length: ").and_then(|(_, rest)| rest.lines().next());
        if let Some((head, length)) = head.zip(length.and_then(|it| it.parse::<usize>().ok())) {
            whole = head + 4 + length;
        }
    }
    true
}

/// Answers once on each connection, promises to keep it, and closes it when it is used again,
/// after some work. The work takes time on the clock of the test, which stands still otherwise.
async fn break_promises(
    listener: TcpListener,
    work: Duration,
    connections: &AtomicU32,
    lost: &AtomicU32,
) {
    let body = hello();
    let head = "HTTP/1.1 200 OK\r\nconnection: keep-alive\r\ncontent-type: text/event-stream\r\n";
    let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        connections.fetch_add(1, Ordering::Relaxed);
        assert!(read_request(&mut stream).await);
        stream.write_all(answer.as_bytes()).await.unwrap();
        if read_request(&mut stream).await {
            lost.fetch_add(1, Ordering::Relaxed);
            tokio::time::advance(work).await;
        }
    }
}

/// Keeps a clock that is paused from going on while real connections are waited for.
async fn hold_clock() {
    loop {
        tokio::task::yield_now().await;
    }
}

/// Asks a server that breaks its promises, four times. Gives how many were not answered,
/// how many requests the server left without an answer, and how many connections it saw.
async fn ask_what_breaks_promises(work: Duration) -> (usize, u32, u32) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let model = model(Endpoint::new("mock", base_url));
    let connections = AtomicU32::new(0);
    let lost = AtomicU32::new(0);
    let asked = async {
        let mut failed = 0;
        for _ in 0..4 {
            failed += usize::from(ask(&model).await.is_err());
        }
        failed
    };
    let failed = tokio::select! {
        failed = asked => failed,
        () = break_promises(listener, work, &connections, &lost) => unreachable!(),
        () = hold_clock() => unreachable!(),
    };
    (failed, lost.into_inner(), connections.into_inner())
}

#[tokio::test(start_paused = true)]
async fn a_request_that_meets_the_end_of_a_kept_connection_is_sent_again_and_once() {
    let seen = ask_what_breaks_promises(Duration::ZERO).await;
    assert_eq!(seen, (0, 1, 4), "the second meets it; then each has a connection of its own");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_a_server_worked_on_before_it_closed_is_not_sent_again() {
    let seen = ask_what_breaks_promises(Duration::from_millis(51)).await;
    assert_eq!(seen, (2, 2, 2), "the second and the fourth are failed attempts");
}

#[tokio::test]
async fn failures_by_status_are_reported_with_what_to_do() {
    let error = |status, message| MockAnswer::error(status, message);
    let quota = r#"{"error":{"message":"no credit","code":"insufficient_quota"}}"#;
    let page = "<html><title>502 Bad Gateway</title></html>";
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let answers = [
        error(400, "tools[0] is wrong"),
        error(400, "This model's maximum context length is 10 tokens"),
        error(401, &format!("bad key {KEY}")),
        error(402, "pay"),
        error(403, "not you"),
        error(404, "no such model"),
        error(408, ""),
        error(409, "conflict"),
        error(413, "too large"),
        error(422, "what"),
        error(429, "slow down").header("retry-after", "2"),
        error(429, "slow down").header("retry-after-ms", "150"),
        error(429, "slow down").header("retry-after", date),
        error(429, "slow down").header("retry-after", "7200"),
        MockAnswer::body("application/json", quota).status(429),
        error(500, "boom"),
        MockAnswer::body("text/html", page).status(502),
        MockAnswer::body("text/plain", "loading\n\nplease\twait\u{1b}[0m").status(503),
        error(529, "overloaded"),
        MockAnswer::body("text/plain", "").status(307).header("location", "http://elsewhere/v1"),
        MockAnswer::body("text/plain", "x".repeat(1_000_000)).status(500),
        error(429, "slow down").header("retry-after", "0"),
        error(429, "slow down").header("retry-after", "99999999999999999999"),
        MockAnswer::body("text/plain", b"\x1f\x8b\x08\0\xff\xff".as_slice())
            .status(500)
            .header("content-encoding", "gzip"),
        MockAnswer::body("image/png", b"\x89PNG\r\n\x1a\n\0\0\0".as_slice()).status(500),
        MockAnswer::body("text/plain", [0xFF; 10_000].as_slice()).status(500),
        MockAnswer::body("text/plain", b"Acc\xe8s refus\xe9 par le pare-feu".as_slice())
            .status(500),
    ];
    let mut lines = Vec::new();
    for answer in answers {
        lines.push(outcome(answer).await);
    }
    assert_snapshot!(lines.join("\n"));
}

#[tokio::test]
async fn without_a_key_the_error_says_where_to_name_one() {
    let without = outcome_with(MockAnswer::error(401, "no key"), |endpoint| endpoint.keys.clear());
    assert_snapshot!(without.await);
}

#[tokio::test]
async fn a_reply_that_breaks_off_is_never_final() {
    let body = hello();
    let middle = after_finish() / 2;
    let calls = [("run", serde_json::json!({"command": "make"}))];
    let calls = chat_sse(&Reply::calls("served", calls));
    let before_finish = calls.find("\"finish_reason\":\"tool_calls\"").unwrap();
    let answers = [
        ("cut", MockAnswer::sse(body.as_str()).cut_at(middle)),
        ("reset", MockAnswer::sse(body.as_str()).pieces(50).reset_at(0)),
        ("ends", MockAnswer::sse(body.as_str()).ending_at(middle)),
        (
            "ends with the connection",
            MockAnswer::sse(body.as_str()).ending_at(middle).ending_with_connection(),
        ),
        ("ends after the arguments", MockAnswer::sse(calls).ending_at(before_finish)),
        ("empty", MockAnswer::sse("")),
        ("whole, without a length", MockAnswer::sse(body.as_str()).ending_with_connection()),
        ("cut after the finish reason", MockAnswer::sse(body.as_str()).cut_at(after_finish())),
    ];
    let mut lines = Vec::new();
    for (name, answer) in answers {
        lines.push(format!("{name}: {}", outcome(answer).await));
    }
    assert_snapshot!(lines.join("\n"));
}

#[tokio::test]
async fn silence_ends_by_the_limit_that_it_meets() {
    let body = hello();
    let never = Barrier::closed();
    let comment = ": still here\n\n";
    let often = Duration::from_millis(2);
    let first = |endpoint: &mut Endpoint| endpoint.timeouts.first_byte = SHORT;
    let idle = |endpoint: &mut Endpoint| endpoint.timeouts.idle = SHORT;
    let sse = |bytes: usize| MockAnswer::sse(&body[..bytes]);
    let part = body.split_inclusive("\n\n").take(3).map(str::len).sum();
    let lines = [
        outcome_with(sse(0).after(Duration::from_secs(3600)), first).await,
        outcome_with(sse(0).stall_at(0, &never), first).await,
        outcome_with(sse(0).then_forever(comment, often), first).await,
        outcome_with(sse(part).then_forever(comment, often), idle).await,
        outcome_with(sse(part).stall_at(part, &never), idle).await,
        outcome_with(sse(after_finish()).stall_at(after_finish(), &never), idle).await,
        outcome_with(sse(after_finish()).then_forever(comment, often), idle).await,
    ];
    assert_snapshot!(lines.join("\n"));
}

#[tokio::test]
async fn a_failure_reported_inside_the_stream_ends_it_though_it_stays_open() {
    let never = Barrier::closed();
    let error = r#"data: {"error":{"message":"worker died, try again in 3s","code":500}}"#;
    let answer = |events: usize| {
        let hello = hello();
        let before: String = hello.split_inclusive("\n\n").take(events).collect();
        let body = format!("{before}{error}\n\n");
        MockAnswer::sse(body.as_str()).stall_at(body.len(), &never)
    };
    let lines = [outcome(answer(0)).await, outcome(answer(2)).await];
    assert_snapshot!(lines.join("\n"));
}

#[tokio::test]
async fn bodies_that_are_no_stream() {
    let document = serde_json::json!({
        "model": "served",
        "choices": [{"message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}],
    });
    let page = "<!doctype html><title>Please sign in</title>";
    let lines = [
        outcome(MockAnswer::json(&document)).await,
        outcome(MockAnswer::json(&document).header("content-type", "text/event-stream")).await,
        outcome(MockAnswer::sse(hello()).header("content-type", "application/json")).await,
        outcome(MockAnswer::json(&serde_json::json!({"status": "ok"}))).await,
        outcome(MockAnswer::body("text/html", page)).await,
        outcome(MockAnswer::sse(hello()).header("content-encoding", "gzip")).await,
        outcome(MockAnswer::sse("").then_forever(vec![b':'; 1 << 16], Duration::ZERO)).await,
    ];
    assert_snapshot!(lines.join("\n"));
}

#[tokio::test]
async fn a_cancelled_request_ends_and_closes_its_connection() {
    let never = Barrier::closed();
    let part = after_finish() / 2;
    let server =
        MockServer::start([MockAnswer::sse(hello()).stall_at(part, &never)]).await.unwrap();
    let model = model(endpoint(&server));
    let cancel = Cancel::new();
    let mut seen = String::new();
    let mut live = |delta: Delta<'_>| {
        if let Delta::Text(text) = delta {
            seen.push_str(text);
            cancel.cancel(CancelReason::Interrupted);
        }
    };
    let error = ask_with(&model, &mut live, &cancel).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Cancelled);
    assert!(!seen.is_empty() && error.partial == seen, "{error:?}");
    server.until_idle().await;

    let error = ask_with(&model, &mut |_| {}, &cancel).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Cancelled);
    assert_eq!(server.requests().len(), 1, "nothing is sent when it is cancelled before");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_reported_by_its_address() {
    let server = MockServer::start([]).await.unwrap();
    let gone = endpoint(&server);
    let address = server.address().to_string();
    drop(server);
    let model = model(gone);
    let refused = async {
        loop {
            // The listener closes when its task has ended, which may be a moment later.
            let error = ask(&model).await.unwrap_err();
            if error.message.contains("connection refused") {
                return error;
            }
        }
    };
    let error = soon("a refused connection", refused).await;
    assert_eq!(error.kind, FailureKind::Transient);
    assert_snapshot!(
        error.message.replace(&address, "HOST"),
        @"provider mock: connection refused; is the server running at http://HOST/v1/chat/completions?"
    );
}

#[tokio::test]
async fn hundreds_of_streams_at_once_stay_apart() {
    let all = 300;
    let gate = Barrier::closed();
    let held = gate.clone();
    let server = MockServer::start_with(move |request| {
        let said = request.json()["messages"][0]["content"].as_str().unwrap_or("").to_owned();
        MockAnswer::reply(&Reply::text("m", said)).pieces(40).stall_at(200, &held)
    });
    let server = server.await.unwrap();
    let model = Arc::new(model(endpoint(&server)));
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..all {
        let model = Arc::clone(&model);
        tasks.spawn(async move {
            let message = Message::User(UserMessage::new(format!("number {n}")));
            let messages = [Arc::new(message)];
            let options = ModelOptions::default();
            let request = request(&messages, &options);
            let reply = model.reply(&request, &mut |_| {}, &Cancel::new()).await;
            (n, reply.unwrap().text)
        });
    }
    gate.until_waiting(all).await;
    gate.open();
    while let Some(joined) = tasks.join_next().await {
        let (n, text) = joined.unwrap();
        assert_eq!(text, format!("number {n}"));
    }
}
