//! Several keys of one endpoint: each attempt goes out with one that is worth it.

use deputize_core::model::{ModelError, Reply};
use deputize_providers::{Key, KeyHeader};
use deputize_testkit::{MockAnswer, MockServer};
use insta::assert_snapshot;

use super::{ask, endpoint, model};

/// Sends `attempts` requests to a server that answers by key, and returns their results.
async fn attempts(
    attempts: usize,
    keys: &[&str],
    rule: impl Fn(&str) -> MockAnswer + Send + Sync + 'static,
) -> String {
    let server = MockServer::start_with(move |request| {
        rule(request.header("authorization").unwrap_or("Bearer none").trim_start_matches("Bearer "))
    });
    let server = server.await.unwrap();
    let mut endpoint = endpoint(&server);
    endpoint.keys =
        keys.iter().map(|name| Key::new(*name, format!("key-of-{name}-secret"))).collect();
    let model = model(endpoint);
    let mut lines = Vec::new();
    for _ in 0..attempts {
        lines.push(describe(ask(&model).await));
    }
    let with = |name: &str| Some(name.trim_start_matches("Bearer key-of-").to_owned());
    let sent: Vec<String> = server
        .requests()
        .iter()
        .filter_map(|request| with(request.header("authorization")?))
        .collect();
    lines.push(format!("sent: {}", sent.join(" ").replace("-secret", "")));
    let lines = lines.join("\n");
    assert!(!lines.contains("secret"), "{lines}");
    lines
}

fn describe(result: Result<Reply, ModelError>) -> String {
    match result {
        Ok(reply) => format!("ok {}", reply.text),
        Err(error) => {
            let wait = error.retry_after().map(|wait| format!(" {} s", wait.as_secs_f64().ceil()));
            let other = if error.other_key { " at once" } else { "" };
            let actual = (error.kind, wait.unwrap_or_default(), error.message);
            full_tens(&format!("{:?}{other}{}: {}", actual.0, actual.1, actual.2))
        }
    }
}

/// Seconds as the next full ten, so that the time that a test takes is not seen.
fn full_tens(text: &str) -> String {
    let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    for n in 1..words.len() {
        if matches!(words[n].as_str(), "s" | "s," | "s:")
            && let Ok(seconds) = words[n - 1].parse::<u64>()
        {
            words[n - 1] = (seconds.div_ceil(10) * 10).to_string();
        }
    }
    words.join(" ")
}

fn limited(seconds: &str) -> MockAnswer {
    MockAnswer::error(429, "slow down").header("retry-after", seconds)
}

fn good() -> MockAnswer {
    MockAnswer::reply(&Reply::text("m", "Hello."))
}

#[tokio::test]
async fn a_limited_key_gives_way_to_the_next_at_once() {
    let rule = |key: &str| if key.contains("-A-") { limited("30") } else { good() };
    assert_snapshot!(attempts(3, &["A", "B"], rule).await, @"
    Transient at once: provider mock: HTTP 429: slow down; it asks to wait 30 s; the key in A rests for 30 s, the one in B is next
    ok Hello.
    ok Hello.
    sent: A B B
    ");
}

#[tokio::test]
async fn when_all_keys_rest_nothing_is_sent_until_the_first_is_ready() {
    let rule = |key: &str| limited(if key.contains("-A-") { "30" } else { "20" });
    assert_snapshot!(attempts(3, &["A", "B"], rule).await, @"
    Transient at once: provider mock: HTTP 429: slow down; it asks to wait 30 s; the key in A rests for 30 s, the one in B is next
    Transient 20 s: provider mock: HTTP 429: slow down; it asks to wait 20 s; the key in B rests for 20 s, the one in B is next, in 20 s
    Transient 20 s: provider mock: no key can be used now; the one in B is ready in 20 s
    sent: A B
    ");
}

#[tokio::test]
async fn keys_that_rest_for_no_time_at_all_do_not_take_turns_at_once() {
    for wait in ["0", "0.001"] {
        let actual = attempts(3, &["A", "B"], move |_| limited(wait)).await;
        let actual: Vec<_> = actual.lines().map(|line| line.split(" s").next().unwrap()).collect();
        assert!(actual[0].starts_with("Transient at once: "), "{actual:?}");
        assert_eq!(actual[1..3], ["Transient 10"; 2], "{actual:?}");
        assert_eq!(actual[3], "sent: A B");
    }
}

#[tokio::test]
async fn a_key_that_is_refused_or_used_up_gives_way_too_and_the_last_one_is_reported() {
    let quota = r#"{"error":{"message":"no credit","code":"insufficient_quota"}}"#;
    let rule = move |key: &str| match key {
        "key-of-A-secret" => MockAnswer::error(401, &format!("bad key {key}")),
        "key-of-B-secret" => MockAnswer::body("application/json", quota).status(429),
        _ => MockAnswer::error(403, "not you"),
    };
    assert_snapshot!(attempts(4, &["A", "B", "C"], rule).await, @"
    Transient at once: provider mock: no access to model `m-1` (HTTP 401: bad key [redacted]); check the key in A; the key in A is not used again, the one in B is next
    Transient at once: provider mock: the quota for model `m-1` is used up (HTTP 429 `insufficient_quota`: no credit); add credit, or set B to another key; the key in B is not used again, the one in C is next
    Unavailable: provider mock: no access to model `m-1` (HTTP 403: not you); check the key in C; the key in C is not used again, and no other is left
    Unavailable: provider mock: no access to model `m-1` (HTTP 403: not you); check the key in C; the key in C is not used again, and no other is left
    sent: A B C C
    ");
}

#[tokio::test]
async fn keys_that_are_all_refused_make_the_provider_unusable() {
    let rule = |_: &str| MockAnswer::error(401, "bad key");
    assert_snapshot!(attempts(3, &["A", "B"], rule).await, @"
    Transient at once: provider mock: no access to model `m-1` (HTTP 401: bad key); check the key in A; the key in A is not used again, the one in B is next
    Unavailable: provider mock: no access to model `m-1` (HTTP 401: bad key); check the key in B; the key in B is not used again, and no other is left
    Unavailable: provider mock: no access to model `m-1` (HTTP 401: bad key); check the key in B; the key in B is not used again, and no other is left
    sent: A B B
    ");
}

#[tokio::test]
async fn one_key_alone_is_asked_again_when_the_server_says() {
    assert_snapshot!(attempts(2, &["A"], |_| limited("30")).await, @"
    Transient 30 s: provider mock: HTTP 429: slow down; it asks to wait 30 s
    Transient 30 s: provider mock: HTTP 429: slow down; it asks to wait 30 s
    sent: A A
    ");
}

#[tokio::test]
async fn a_limit_reported_inside_a_stream_counts_as_well() {
    let body = "data: {\"error\":{\"code\":429,\"message\":\"slow down\"}}\n\n";
    let rule = move |key: &str| if key.contains("-A-") { MockAnswer::sse(body) } else { good() };
    assert_snapshot!(attempts(2, &["A", "B"], rule).await, @"
    Transient at once: provider mock: HTTP 429: slow down; the key in A rests for 60 s, the one in B is next
    ok Hello.
    sent: A B
    ");
}

#[tokio::test]
async fn what_is_not_about_the_key_leaves_it() {
    let rule = |_: &str| MockAnswer::error(529, "overloaded").header("retry-after", "3");
    let actual = attempts(2, &["A", "B"], rule).await;
    assert!(actual.ends_with("sent: A A") && actual.contains("Transient 10 s"), "{actual}");
    let actual = attempts(1, &["A", "B"], |_| MockAnswer::error(404, "no such model")).await;
    assert!(actual.starts_with("Unavailable: "), "{actual}");
}

#[tokio::test]
async fn the_header_of_the_key_is_the_endpoints_to_say() {
    let server = MockServer::start([good(), good()]).await.unwrap();
    let mut named = endpoint(&server);
    named.key_header = Some(KeyHeader::of("x-api-key"));
    ask(&model(named)).await.unwrap();
    let mut own = endpoint(&server);
    own.headers.insert("Authorization".into(), "Basic abc".into());
    ask(&model(own)).await.unwrap();
    let requests = server.requests();
    let header = |n: usize, name: &str| requests[n].header(name).map(str::to_owned);
    assert_eq!(header(0, "x-api-key").as_deref(), Some(super::KEY));
    assert_eq!(header(0, "authorization"), None);
    assert_eq!(header(1, "authorization").as_deref(), Some("Basic abc"));
}

#[tokio::test]
async fn hundreds_of_requests_at_once_move_to_the_next_key_together() {
    let rule = |key: &str| if key.contains("-A-") { limited("30") } else { good() };
    let server = MockServer::start_with(move |request| {
        rule(request.header("authorization").unwrap_or_default())
    });
    let server = server.await.unwrap();
    let mut endpoint = endpoint(&server);
    endpoint.keys = vec![Key::new("A", "key-of-A-"), Key::new("B", "key-of-B-")];
    let model = std::sync::Arc::new(model(endpoint));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let model = std::sync::Arc::clone(&model);
        tasks.spawn(async move {
            match ask(&model).await {
                Err(error) if error.other_key => ask(&model).await,
                other => other,
            }
        });
    }
    while let Some(joined) = tasks.join_next().await {
        assert_eq!(joined.unwrap().unwrap().text, "Hello.");
    }
}
