//! From the configuration to the request, with the program as a person starts it.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

use deputize_core::model::Reply;
use deputize_testkit::{
    HttpRequest, MockAnswer, MockServer, chat_sse, messages_sse, responses_sse,
};
use serde_json::{Value, json};

use crate::program::{Lab, ProgramEnd, RunningProgram};

/// A server that answers each wire in its own way.
async fn server() -> MockServer {
    MockServer::start_with(answer).await.unwrap()
}

fn answer(request: &HttpRequest) -> MockAnswer {
    if request.method == "GET" {
        let models = json!({"data": [{"id": "large"}, {"id": "small"}]});
        return MockAnswer::json(&models);
    }
    let reply = Reply::text("served", "Hello.");
    let whole = request.json()["stream"] == false;
    match request.path.rsplit('/').next().unwrap_or_default() {
        "completions" if whole => MockAnswer::json(&json!({
            "choices": [{"message": {"content": "Hello."}, "finish_reason": "stop"}],
        })),
        "completions" => MockAnswer::sse(chat_sse(&reply)),
        "responses" => MockAnswer::sse(responses_sse(&reply)),
        "messages" => MockAnswer::sse(messages_sse(&reply)),
        other => MockAnswer::error(404, &format!("no path {other}")),
    }
}

/// Runs the program with a configuration file.
async fn run(lab: &Lab, config: &str, args: &[&str], env: &[(&str, &str)]) -> ProgramEnd {
    fs::create_dir_all(lab.path("home")).unwrap();
    fs::write(lab.path("home/config.yaml"), config).unwrap();
    let mut command = lab.deputize(args);
    command.envs(env.iter().copied());
    RunningProgram::start(command).end().await
}

const HELLO: [&str; 3] = ["run", "-q", "Hello."];

#[tokio::test]
async fn each_protocol_is_spoken_where_the_configuration_says() {
    let lab = Lab::new();
    let server = server().await;
    let url = server.base_url();
    let bearer = ("authorization", "Bearer k-12345678");
    let bare = ("x-api-key", "k-12345678");
    for (api, path, (header, value)) in [
        ("openai-chat", "/v1/chat/completions", bearer),
        ("openai-responses", "/v1/responses", bearer),
        ("anthropic-messages", "/v1/messages", bare),
    ] {
        let config = format!(
            "model: team/large\nproviders:\n  team: {{ base_url: {url}, api: {api}, api_key_env: K }}\n"
        );
        let ended = run(&lab, &config, &HELLO, &[("K", "k-12345678")]).await.with_code(0);
        assert_eq!(ended.out, "Hello.\n");
        let sent = server.requests().pop().unwrap();
        assert_eq!((sent.path.as_str(), sent.header(header)), (path, Some(value)));
    }
}

#[tokio::test]
async fn a_known_provider_at_another_address_speaks_what_most_servers_there_speak() {
    let lab = Lab::new();
    let server = server().await;
    let url = server.base_url();
    for (model, path) in
        [("openai/large", "/v1/chat/completions"), ("anthropic/large", "/v1/messages")]
    {
        let args = ["run", "-q", "-m", model, "--base-url", &url, "Hello."];
        run(&lab, "", &args, &[]).await.with_code(0);
        assert_eq!(server.requests().pop().unwrap().path, path);
    }
}

#[tokio::test]
async fn what_an_entry_says_is_in_the_request_and_in_its_preview() {
    let lab = Lab::new();
    let server = server().await;
    let config = format!(
        "model: team/large\nproviders:\n  team:\n    base_url: {}\n    extra_body: {{ top_k: 5 }}\n    \
         omit_body: [stream_options]\n    key_header: api-key\n    api_key_env: K\n    \
         streaming: false\n    max_output_tokens: 77\n",
        server.base_url()
    );
    run(&lab, &config, &HELLO, &[("K", "k-12345678")]).await.with_code(0);
    let sent = server.requests().pop().unwrap();
    let body = sent.json();
    assert_eq!(
        (&body["stream"], &body["top_k"], &body["max_tokens"], body.get("stream_options")),
        (&json!(false), &json!(5), &json!(77), None)
    );
    assert_eq!(sent.header("api-key"), Some("k-12345678"));
    assert_eq!(sent.header("authorization"), None);
    let shown = run(&lab, &config, &["prompt", "--json", "Hello."], &[]).await.with_code(0);
    assert_eq!(shown.out.trim_end(), sent.text());
}

#[tokio::test]
async fn a_preview_is_in_the_models_own_protocol() {
    let lab = Lab::new();
    for (model, keys) in [
        ("openai/gpt-5", &["instructions", "input"][..]),
        ("anthropic/claude-sonnet-5", &["system", "messages", "max_tokens"]),
        ("openrouter/a/b", &["messages", "stream_options"]),
    ] {
        let args = ["prompt", "--json", "-m", model, "Hello."];
        let shown = run(&lab, "", &args, &[]).await.with_code(0).out;
        let body: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(body["model"], model.split_once('/').unwrap().1);
        assert!(keys.iter().all(|key| body.get(*key).is_some()), "{model}: {shown}");
    }
}

/// An entry of `providers`, at an address.
fn entry(name: &str, server: &MockServer, more: &str) -> String {
    format!("  {name}: {{ base_url: {}, {more} }}\n", server.base_url())
}

#[tokio::test]
async fn a_fallback_model_serves_when_the_first_never_does() {
    let lab = Lab::new();
    let good = server().await;
    // A wait of more than a minute is not waited for.
    let down = |_: &HttpRequest| MockAnswer::error(503, "loading").header("retry-after", "7200");
    let down = MockServer::start_with(down).await.unwrap();
    let config = format!(
        "model: a/large\nfallback_models: [keyless/large, b/small]\nproviders:\n{}{}{}",
        entry("a", &down, ""),
        entry("b", &good, "api: anthropic-messages, max_output_tokens: 99"),
        entry("keyless", &good, "api_key_env: NOT_SET"),
    );
    let ended = run(&lab, &config, &HELLO, &[]).await.with_code(0);
    assert_eq!(ended.out, "Hello.\n");
    let expected = "warning: fallback model keyless/large is passed over: provider keyless needs a \
                key: set NOT_SET";
    assert!(ended.err.contains(expected), "{}", ended.err);
    assert_eq!(down.requests().len(), 1);
    let sent = good.requests();
    assert_eq!(sent.len(), 1);
    let body = sent[0].json();
    assert_eq!((&body["model"], &body["max_tokens"]), (&json!("small"), &json!(99)));
}

#[tokio::test]
async fn a_fallback_model_serves_when_what_the_first_sends_is_of_no_use() {
    let good = server().await;
    let data = |json: &str| format!("data: {json}\n\n");
    let call = |n: usize| json!({"index": n, "id": n.to_string(), "function": {"name": "f"}});
    let calls: Vec<_> = (0..129).map(call).collect();
    let rows = [
        (MockAnswer::sse("x").header("content-encoding", "gzip"), "compressed (gzip)"),
        (MockAnswer::sse(data(&"[".repeat(200))), "nested"),
        (MockAnswer::sse(data(&"x".repeat(9 << 20))), "an event of the stream has"),
        (MockAnswer::sse(": x\n".repeat(10 << 20)), "the reply has"),
        (MockAnswer::sse(data(&format!("[{}0]", "0,".repeat(60_000)))), "50000 values"),
        (
            MockAnswer::sse(data(
                &json!({"choices": [{"delta": {"tool_calls": calls}}]}).to_string(),
            )),
            "more than 128 calls",
        ),
        (
            MockAnswer::sse(
                data(&json!({"choices": [{"delta": {"content": "x".repeat(1000)}}]}).to_string())
                    .repeat(9000),
            ),
            "the reply holds more than",
        ),
    ];
    for (answer, actual) in rows {
        let lab = Lab::new();
        let bad = MockServer::start_with(move |_: &HttpRequest| answer.clone()).await.unwrap();
        let config = format!(
            "model: a/large\nfallback_models: [b/small]\nproviders:\n{}{}",
            entry("a", &bad, ""),
            entry("b", &good, ""),
        );
        // With -q nothing but errors is told.
        let ended = run(&lab, &config, &["run", "Hello."], &[]).await.with_code(0);
        assert_eq!(ended.out, "Hello.\n", "{actual}");
        assert!(ended.err.contains(actual), "{actual}: {}", ended.err);
        assert!(ended.err.contains("going on with b/small"), "{actual}: {}", ended.err);
        assert_eq!(bad.requests().len(), 1, "{actual}");
    }
}

#[tokio::test]
async fn what_a_server_wrote_of_a_call_goes_back_but_not_to_another_model() {
    let call = r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"own-1","extra_content":{ "google":{"thought_signature":"AB"}},"function":{"name":"read_file","arguments":"\"{\\\"path\\\":\\\"a\\\"}\""}}],"reasoning_details":[{"type":"reasoning.encrypted","id":"own-1","data":"x"}]},"finish_reason":"tool_calls"}]}

data: [DONE]

"#;
    let own = r#""extra_content":{ "google":{"thought_signature":"AB"}}"#;
    for second in
        [MockAnswer::sse(chat_sse(&Reply::text("served", "Done."))), MockAnswer::error(404, "gone")]
    {
        let lab = Lab::new();
        let other = server().await;
        fs::write(lab.work("a"), "all of it\n").unwrap();
        let model = MockServer::start([MockAnswer::sse(call), second]).await.unwrap();
        let config = format!(
            "model: a/large\nfallback_models: [b/small]\nproviders:\n{}{}",
            entry("a", &model, ""),
            entry("b", &other, ""),
        );
        run(&lab, &config, &HELLO, &[]).await.with_code(0);
        let sent = model.requests().pop().unwrap().text();
        assert!(sent.contains(own), "{sent}");
        assert!(
            sent.contains(r#""tool_call_id":"own-1""#) && sent.contains(r#"{"id":"own-1","#),
            "{sent}"
        );
        // Arguments that were written as JSON twice were read.
        assert!(sent.contains("all of it"), "{sent}");
        for request in other.requests() {
            let sent = request.text();
            assert!(!sent.contains("own-1") && !sent.contains("google"), "{sent}");
            assert!(sent.contains(r#""tool_call_id":"call_1_0""#), "{sent}");
        }
    }
}

#[tokio::test]
async fn what_a_server_does_not_count_is_estimated_also_without_a_budget() {
    let said =
        json!({"choices": [{"delta": {"content": "x".repeat(3000)}, "finish_reason": "stop"}]});
    let body = format!("data: {said}\n\ndata: [DONE]\n\n");
    let server = MockServer::start_with(move |_: &HttpRequest| MockAnswer::sse(body.clone())).await;
    let server = server.unwrap();
    let config = format!(
        "model: a/m\nproviders:\n{}",
        entry("a", &server, "prices: { m: { input: 1, output: 10 } }")
    );
    let mut actual = Vec::new();
    for more in [&[][..], &["--max-cost", "1"]] {
        let lab = Lab::new();
        let args = [&["run", "-q", "--output", "json"], more, &["Hello."]].concat();
        let ended = run(&lab, &config, &args, &[]).await.with_code(0);
        let outcome: Value = serde_json::from_str(&ended.out).unwrap();
        let usage = &outcome["tokens"];
        assert_eq!(usage["output"], 1000, "{outcome}");
        let input = usage["input"].as_u64().unwrap();
        assert!(input > 500, "{outcome}");
        let usd = outcome["cost_usd"].as_f64().unwrap();
        assert!((usd - (input as f64 + 10_000.0) / 1e6).abs() < 1e-9, "{outcome}");
        actual.push((usage.clone(), usd));
    }
    assert_eq!(actual[0], actual[1]);
}

#[tokio::test]
async fn several_keys_rotate_at_once_and_none_is_shown() {
    let lab = Lab::new();
    let by_key = |request: &HttpRequest| match request.header("authorization") {
        // A wait of more than a minute would not be waited for.
        Some("Bearer first-key-1234") => {
            MockAnswer::error(429, "slow down").header("retry-after", "7200")
        }
        _ => answer(request),
    };
    let server = MockServer::start_with(by_key).await.unwrap();
    let config = format!(
        "model: a/large\nproviders:\n{}",
        entry("a", &server, "api_key_envs: [FIRST, UNSET, SECOND]")
    );
    let keys = [("FIRST", "first-key-1234"), ("SECOND", "second-key-1234")];
    let args = ["run", "--output", "events", "Hello."];
    let ended = run(&lab, &config, &args, &keys).await.with_code(0);
    let failed = ended.events("model.error");
    let message = failed[0]["message"].as_str().unwrap();
    assert!(message.contains("the key in FIRST rests for 2 h"), "{message}");
    assert!(message.ends_with("the one in SECOND is next"), "{message}");
    assert_eq!(server.requests().len(), 2);
    for (_, key) in keys {
        lab.holds_no(key, &ended);
    }
}

#[tokio::test]
async fn when_all_keys_were_tried_the_next_round_is_waited_for() {
    let lab = Lab::new();
    let asked = AtomicU32::new(0);
    let limited = move |request: &HttpRequest| match asked.fetch_add(1, Ordering::SeqCst) {
        0..3 => MockAnswer::error(429, "slow down").header("retry-after", "0"),
        _ => answer(request),
    };
    let server = MockServer::start_with(limited).await.unwrap();
    let config =
        format!("model: a/large\nproviders:\n{}", entry("a", &server, "api_key_envs: [ONE, TWO]"));
    let keys = [("ONE", "one-key-1234"), ("TWO", "two-key-1234")];
    let ended = run(&lab, &config, &["run", "--output", "events", "Hello."], &keys).await;
    let ended = ended.with_code(0);
    let retries = ended.events("model.retry");
    let waits: Vec<_> = retries.iter().map(|it| it["wait_ms"].as_u64().unwrap()).collect();
    let [other_key, first, second] = waits[..] else { panic!("{waits:?}") };
    assert_eq!(other_key, 0);
    // The first key has rested already for as long as the second one's answer took.
    assert!((1..=750).contains(&first) && (1500..=2250).contains(&second), "{waits:?}");
}

#[tokio::test]
async fn the_doctor_asks_each_provider_with_each_key() {
    let lab = Lab::new();
    let good = server().await;
    let strict = |request: &HttpRequest| match request.header("x-api-key") {
        Some("good-key-1234") => answer(request),
        _ => MockAnswer::error(401, "bad key"),
    };
    let strict = MockServer::start_with(strict).await.unwrap();
    let bare = MockServer::start([]).await.unwrap();
    let busy = MockServer::start_with(|_| MockAnswer::error(503, "loading")).await.unwrap();
    let gone = "http://127.0.0.1:1/v1";
    let config = format!(
        "model: a/large\nfallback_models: [b/small, c/x, d/x, e/x, f/huge, offline]\nproviders:\n\
         {}{}{}{}{}  e: {{ base_url: {gone}, proxy: none }}\n",
        entry("a", &strict, "api: anthropic-messages, api_key_envs: [GOOD, BAD, UNSET]"),
        entry("b", &good, "api_key_env: UNSET"),
        entry("c", &bare, "streaming: false"),
        entry("d", &busy, ""),
        entry("f", &good, ""),
    );
    let keys = [("GOOD", "good-key-1234"), ("BAD", "bad-key-1234")];
    let ended = run(&lab, &config, &["doctor"], &keys).await.with_code(0);
    let mut actual: String = ended
        .out
        .lines()
        .filter(|line| {
            ["model", "key", "provider"].iter().any(|what| line[6..].starts_with(what))
                || line[6..].starts_with("fallback")
        })
        .map(|line| format!("{line}\n"))
        .collect();
    for (name, server) in [("A", &strict), ("B", &good), ("C", &bare), ("D", &busy)] {
        actual = actual.replace(&server.address().to_string(), name);
    }
    insta::assert_snapshot!(actual, @"
    ok    model            a/large at http://A/v1 by anthropic-messages
    ok    key              in GOOD
    ok    key              in BAD
    warn  key              UNSET is not set and is passed over
    ok    provider         answers, and takes the key in GOOD
    warn  provider         refuses the key in BAD (HTTP 401: bad key)
    ok    fallback model   b/small at http://B/v1 by openai-chat
    warn  key              set UNSET
    warn  provider         not asked without its key
    ok    fallback model   c/x at http://C/v1 by openai-chat, not as a stream
    ok    key              none is sent
    warn  provider         answers, but has no list of models: name and base_url are not checked (HTTP 404: GET /v1/models was not scripted)
    ok    fallback model   d/x at http://D/v1 by openai-chat
    ok    key              none is sent
    warn  provider         answers with a failure (HTTP 503: loading)
    ok    fallback model   e/x at http://127.0.0.1:1/v1 by openai-chat, without a proxy
    ok    key              none is sent
    warn  provider         provider e: connection refused; is the server running at http://127.0.0.1:1/v1/models?
    ok    fallback model   f/huge at http://B/v1 by openai-chat
    ok    key              none is sent
    warn  provider         answers, but `huge` is not among its 2 models
    ok    fallback model   offline: by rule, no network
    ");
    assert!(good.requests().iter().all(|request| request.method == "GET"));
    assert_eq!(good.requests().len(), 1, "without its key a provider is not asked");
}
