//! Every fault over real connections, in every wire: what differs between them is said.

use std::time::Duration;

use deputize_core::Cancel;
use deputize_core::model::{Delta, ModelOptions, Reply};
use deputize_providers::{Endpoint, Wire, http_client};
use deputize_testkit::{Barrier, MockAnswer, MockServer, chat_sse, messages_sse, responses_sse};
use insta::assert_snapshot;
use serde_json::json;

use super::{KEY, NOW_MS, SHORT, endpoint, messages, request};

const WIRES: [Wire; 3] = [Wire::OpenAiChat, Wire::OpenAiResponses, Wire::AnthropicMessages];

/// A streamed reply of one text.
fn hello(wire: Wire) -> String {
    let reply = Reply::text("served", "Hello, this is a longer text.");
    match wire {
        Wire::OpenAiChat => chat_sse(&reply),
        Wire::OpenAiResponses => responses_sse(&reply),
        Wire::AnthropicMessages => messages_sse(&reply),
    }
}

/// Where the text of the reply has arrived and nothing that ends it.
fn middle(body: &str) -> usize {
    let text = body.find("longer").unwrap();
    text + body[text..].find("\n\n").unwrap() + 2
}

/// A streamed reply of one call.
fn call(wire: Wire) -> String {
    let reply = Reply::calls("served", [("terminal", json!({"command": "make"}))]);
    match wire {
        Wire::OpenAiChat => chat_sse(&reply),
        Wire::OpenAiResponses => responses_sse(&reply),
        Wire::AnthropicMessages => messages_sse(&reply),
    }
}

/// Where all of a reply has arrived but the mark that ends it.
fn before_mark(wire: Wire, body: &str) -> usize {
    let mark = match wire {
        Wire::OpenAiChat => "[DONE]",
        Wire::OpenAiResponses => "response.completed",
        Wire::AnthropicMessages => "message_stop",
    };
    let mark = body.find(mark).unwrap();
    body[..mark].rfind("\n\n").unwrap() + 2
}

/// Returns an error as each provider sends it inside a stream.
fn told_inside(wire: Wire) -> String {
    match wire {
        Wire::OpenAiChat => {
            "data: {\"error\":{\"message\":\"worker died\",\"code\":500}}\n\n".to_owned()
        }
        Wire::OpenAiResponses => {
            "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\
             \"message\":\"worker died\"}\n\n"
                .to_owned()
        }
        Wire::AnthropicMessages => "event: error\ndata: {\"type\":\"error\",\"error\":\
             {\"type\":\"api_error\",\"message\":\"worker died\"}}\n\n"
            .to_owned(),
    }
}

async fn ask(wire: Wire, endpoint: Endpoint) -> String {
    let http = http_client(std::sync::Arc::new(deputize_core::clock::FixedClock(NOW_MS)));
    let model = wire.model(endpoint, &http).unwrap();
    let messages = messages();
    let options = ModelOptions::default();
    let reply = model.reply(&request(&messages, &options), &mut |_| {}, &Cancel::new()).await;
    match reply {
        Ok(reply) if reply.calls.is_empty() => format!("reply {:?}", reply.text),
        Ok(reply) => format!("{} calls to run", reply.calls.len()),
        Err(error) => {
            let wait = error.retry_after().map(|wait| format!(" after {wait:?}"));
            let partial = match error.partial.len() {
                0 => String::new(),
                n => format!(" [{n} bytes]"),
            };
            let wait = wait.unwrap_or_default();
            format!("{:?}{wait}{partial}: {}", error.kind, error.message)
        }
    }
}

/// Which wait is short, so that a test comes to its end.
#[derive(Clone, Copy)]
enum ShortTimeout {
    Nothing,
    FirstByte,
    Idle,
}

/// What an answer leads to in one wire, without what differs from run to run.
async fn outcome(wire: Wire, answer: MockAnswer, short: ShortTimeout) -> String {
    let server = MockServer::start([answer]).await.unwrap();
    let mut endpoint = endpoint(&server);
    match short {
        ShortTimeout::Nothing => {}
        ShortTimeout::FirstByte => endpoint.timeouts.first_byte = SHORT,
        ShortTimeout::Idle => endpoint.timeouts.idle = SHORT,
    }
    let actual = ask(wire, endpoint).await;
    assert_eq!(server.requests().len(), 1, "nothing is sent twice: {actual}");
    assert!(!actual.contains(KEY), "{actual}");
    let actual = actual.replace(&server.address().to_string(), "HOST");
    let mut words: Vec<String> = actual.split(' ').map(str::to_owned).collect();
    for n in 1..words.len() {
        if words[n - 1] == "after" && words[n].parse::<f64>().is_ok() {
            words[n] = "N".to_owned();
        }
    }
    words
        .join(" ")
        .replace("/v1/chat/completions", "/v1/PATH")
        .replace("/v1/responses", "/v1/PATH")
        .replace("/v1/messages", "/v1/PATH")
}

/// One line for a fault, or one for each wire where they do not agree.
async fn row(name: &str, answer: impl Fn(Wire) -> MockAnswer) -> String {
    short(ShortTimeout::Nothing, name, answer).await
}

async fn short(short: ShortTimeout, name: &str, answer: impl Fn(Wire) -> MockAnswer) -> String {
    let mut actual = Vec::new();
    for wire in WIRES {
        actual.push(outcome(wire, answer(wire), short).await);
    }
    if actual.iter().all(|line| *line == actual[0]) {
        return format!("{name}: {}\n", actual[0]);
    }
    let lines = WIRES.iter().zip(actual).map(|(wire, line)| format!("{name}, {wire:?}: {line}\n"));
    lines.collect()
}

#[tokio::test]
async fn refusals_mean_the_same_in_every_wire() {
    let error = |status, message: &str| {
        let message = message.to_owned();
        move |_: Wire| MockAnswer::error(status, &message)
    };
    let waits = |name: &'static str, value: &'static str| {
        move |_: Wire| MockAnswer::error(429, "slow down").header(name, value)
    };
    let body = |status, kind: &'static str, body: &'static str| {
        move |_: Wire| MockAnswer::body(kind, body).status(status)
    };
    let quota = r#"{"error":{"message":"no credit","code":"insufficient_quota"}}"#;
    let page = "<html><title>502 Bad Gateway</title></html>";
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let rows = [
        row("429 in seconds", waits("retry-after", "2")).await,
        row("429 by date", waits("retry-after", date)).await,
        row("429 in milliseconds", waits("retry-after-ms", "150")).await,
        row("429 in words", error(429, "Please try again in 1.5s.")).await,
        row("429 without a time", error(429, "slow down")).await,
        row("quota", body(429, "application/json", quota)).await,
        row("401", error(401, "bad key")).await,
        row("403", error(403, "not you")).await,
        row("404", error(404, "no such model")).await,
        row("500", error(500, "boom")).await,
        row("503", error(503, "loading")).await,
        row("529", error(529, "overloaded")).await,
        row("gateway", body(502, "text/html", page)).await,
        row("gateway, as success", body(200, "text/html", page)).await,
        row("400", error(400, "a field is wrong")).await,
    ];
    assert_snapshot!(rows.concat());
}

#[tokio::test]
async fn a_reply_that_does_not_come_to_its_end_is_none_in_every_wire() {
    let never = Barrier::closed();
    let hour = Duration::from_secs(3600);
    let comments = |before: &str, comment: &'static str| {
        MockAnswer::sse(before).then_forever(comment, Duration::from_millis(2))
    };
    let sse = |wire| MockAnswer::sse(hello(wire));
    let half = |wire| middle(&hello(wire));
    let part = |wire: Wire| MockAnswer::sse(&hello(wire)[..middle(&hello(wire))]);
    let inside = |wire: Wire, begun: bool| {
        let begun =
            if begun { hello(wire)[..middle(&hello(wire))].to_owned() } else { String::new() };
        let body = format!("{begun}{}", told_inside(wire));
        MockAnswer::sse(body.as_str()).stall_at(body.len(), &never)
    };
    let rows = [
        row("whole", sse).await,
        row("reset", |wire| sse(wire).pieces(50).reset_at(0)).await,
        row("cut", |wire| sse(wire).cut_at(half(wire))).await,
        row("ends early", |wire| sse(wire).ending_at(half(wire))).await,
        row("empty", |_| MockAnswer::sse("")).await,
        row("empty, as JSON", |_| MockAnswer::body("application/json", "")).await,
        short(ShortTimeout::FirstByte, "no answer", |wire| sse(wire).after(hour)).await,
        short(ShortTimeout::FirstByte, "stalls at once", |wire| sse(wire).stall_at(0, &never))
            .await,
        short(ShortTimeout::Idle, "stalls", |wire| part(wire).stall_at(half(wire), &never)).await,
        short(ShortTimeout::FirstByte, "only comments", |_| comments("", ": here\n\n")).await,
        short(ShortTimeout::Idle, "comments after a part", |wire| {
            comments(&hello(wire)[..half(wire)], ": here\n\n")
        })
        .await,
        row("comments without end", |_| {
            MockAnswer::sse("").then_forever(vec![b':'; 1 << 16], Duration::ZERO)
        })
        .await,
        row("an error at once, left open", |wire| inside(wire, false)).await,
        row("an error after a part, left open", |wire| inside(wire, true)).await,
        row("compressed", |wire| sse(wire).header("content-encoding", "gzip")).await,
    ];
    assert_snapshot!(rows.concat());
}

/// Events that a server may send for ever without moving its reply on.
fn idling(wire: Wire) -> &'static [&'static str] {
    match wire {
        Wire::OpenAiChat => &[
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":1}}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f"}}]}}]}"#,
        ],
        Wire::OpenAiResponses => &[
            r#"{"type":"response.created","response":{"model":"m"}}"#,
            r#"{"type":"response.keepalive"}"#,
            r#"{"type":"response.output_text.delta","output_index":0,"delta":""}"#,
            r#"{"type":"response.output_item.added","output_index":9,"item":{"type":"function_call","id":"a","name":"f"}}"#,
        ],
        Wire::AnthropicMessages => &[
            r#"{"type":"message_start","message":{"model":"m"}}"#,
            r#"{"type":"ping"}"#,
            r#"{"type":"content_block_start","index":9,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}"#,
            r#"{"type":"content_block_start","index":9,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            r#"{"type":"content_block_delta","index":9,"delta":{"type":"signature_delta","signature":""}}"#,
        ],
    }
}

#[tokio::test]
async fn what_moves_no_reply_on_is_no_sign_of_life() {
    let often = Duration::from_millis(2);
    for wire in WIRES {
        let part = &hello(wire)[..middle(&hello(wire))];
        for event in idling(wire) {
            let again = format!("data: {event}\n\n");
            let actual =
                outcome(wire, MockAnswer::sse(part).then_forever(again, often), ShortTimeout::Idle);
            let actual = tokio::time::timeout(Duration::from_secs(30), actual).await;
            let actual = actual.unwrap_or_else(|_| panic!("{wire:?} waits for ever: {event}"));
            assert!(actual.contains("stream_idle_timeout_seconds"), "{wire:?}: {actual}");
        }
        let blanks = MockAnswer::body("application/json", "{").then_forever("\n ", often);
        let actual = tokio::time::timeout(
            Duration::from_secs(30),
            outcome(wire, blanks, ShortTimeout::Idle),
        );
        let actual = actual.await.unwrap_or_else(|_| panic!("{wire:?} waits for ever: blanks"));
        assert!(actual.contains("stream_idle_timeout_seconds"), "{wire:?}: {actual}");
    }
}

#[tokio::test]
async fn no_call_is_run_of_a_reply_that_may_have_been_cut() {
    let never = Barrier::closed();
    let at = |wire: Wire| before_mark(wire, &call(wire));
    let calls = |wire: Wire| MockAnswer::sse(call(wire));
    let text_at = |wire: Wire| before_mark(wire, &hello(wire));
    let text = |wire: Wire| MockAnswer::sse(hello(wire));
    let rows = [
        row("whole", calls).await,
        row("whole, without a length", |wire| calls(wire).ending_with_connection()).await,
        row("cut before the mark", |wire| calls(wire).cut_at(at(wire))).await,
        row("ends in order before the mark", |wire| calls(wire).ending_at(at(wire))).await,
        row("closed before the mark, without a length", |wire| {
            calls(wire).ending_at(at(wire)).ending_with_connection()
        })
        .await,
        short(ShortTimeout::Idle, "silent before the mark", |wire| {
            calls(wire).stall_at(at(wire), &never)
        })
        .await,
        row("a text cut before the mark", |wire| text(wire).cut_at(text_at(wire))).await,
        row("a text closed before the mark, without a length", |wire| {
            text(wire).ending_at(text_at(wire)).ending_with_connection()
        })
        .await,
    ];
    assert_snapshot!(rows.concat());
}

#[tokio::test]
async fn a_call_is_reported_while_it_arrives_in_every_wire() {
    for wire in WIRES {
        let body = call(wire);
        let server = MockServer::start([MockAnswer::sse(body)]).await.unwrap();
        let http = http_client(std::sync::Arc::new(deputize_core::clock::FixedClock(NOW_MS)));
        let model = wire.model(endpoint(&server), &http).unwrap();
        let messages = messages();
        let options = ModelOptions::default();
        let mut actual = 0;
        let mut live = |delta: Delta<'_>| actual += u32::from(matches!(delta, Delta::Call(_)));
        let cancel = Cancel::new();
        model.reply(&request(&messages, &options), &mut live, &cancel).await.unwrap();
        assert!(actual > 0, "{wire:?}");
    }
}

#[tokio::test]
async fn a_reply_of_another_api_is_reported_with_the_one_that_it_looks_like() {
    let names = ["openai-chat", "openai-responses", "anthropic-messages"];
    for wire in WIRES {
        for (other, name) in WIRES.into_iter().zip(names).filter(|(other, _)| *other != wire) {
            for body in [hello(other), call(other)] {
                let actual = outcome(wire, MockAnswer::sse(body), ShortTimeout::Nothing).await;
                let means = format!("it looks like {name}: choose {name} for this provider");
                assert!(
                    actual.starts_with("Unavailable: ") && actual.ends_with(&means),
                    "{actual}"
                );
            }
        }
    }
    for (wire, body, name) in [
        (Wire::OpenAiChat, r#"{"type":"message","content":[]}"#, names[2]),
        (Wire::OpenAiChat, r#"{"object":"response","output":[]}"#, names[1]),
        (Wire::OpenAiResponses, r#"{"type":"message","content":[]}"#, names[2]),
        (Wire::AnthropicMessages, r#"{"choices":[{"message":{"content":"x"}}]}"#, names[0]),
    ] {
        let actual =
            outcome(wire, MockAnswer::body("application/json", body), ShortTimeout::Nothing).await;
        assert!(
            actual.ends_with(&format!("choose {name} for this provider")),
            "{wire:?}: {actual}"
        );
    }
}

#[tokio::test]
async fn a_body_that_is_not_compressed_may_say_so_in_any_way() {
    for coding in ["identity", "Identity", " IDENTITY ", ""] {
        let answer = MockAnswer::sse(hello(Wire::OpenAiChat)).header("content-encoding", coding);
        let actual = outcome(Wire::OpenAiChat, answer, ShortTimeout::Nothing).await;
        assert_eq!(actual, "reply \"Hello, this is a longer text.\"", "{coding:?}");
    }
}

#[tokio::test]
async fn a_page_of_a_gateway_passes_and_one_to_sign_in_stays() {
    for (title, kind) in [
        ("Service Temporarily Unavailable", "Transient"),
        ("504 Gateway Time-out", "Transient"),
        ("Down for maintenance", "Transient"),
        ("Sign in", "Unavailable"),
        ("", "Unavailable"),
    ] {
        let page = format!("<html><title>{title}</title></html>");
        let actual =
            outcome(Wire::OpenAiChat, MockAnswer::body("text/html", page), ShortTimeout::Nothing);
        let actual = actual.await;
        assert!(actual.starts_with(&format!("{kind}: ")), "{title}: {actual}");
    }
}

#[tokio::test]
async fn nobody_listening_is_worth_another_try_in_every_wire() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for wire in WIRES {
        let actual = ask(wire, Endpoint::new("mock", format!("http://127.0.0.1:{port}/v1"))).await;
        assert!(actual.starts_with("Transient: provider mock: connection refused"), "{actual}");
    }
}
