//! Replies and failures of real vendors that are none of the usual ones.

use deputize_core::model::{RawCall, Reply};
use deputize_testkit::{HttpRequest, MockAnswer, MockServer};
use serde_json::{Value, json};

use crate::program::{Lab, ProgramEnd, RunningProgram, hang, model};

fn text(text: &str) -> MockAnswer {
    MockAnswer::reply(&Reply::text("mock", text))
}

/// A run against these answers, and the requests that it made.
async fn run(
    answers: impl IntoIterator<Item = MockAnswer>,
    args: &[&str],
) -> (ProgramEnd, Vec<HttpRequest>) {
    let lab = Lab::new();
    let server = MockServer::start(answers).await.unwrap();
    let ended = RunningProgram::start(lab.run_command(&server, &[args, &["Answer me"]].concat()))
        .end()
        .await;
    assert!(!ended.err.contains("was not scripted"), "{}", ended.err);
    (ended, server.requests())
}

/// The last message of a request.
fn last_message(request: &HttpRequest) -> Value {
    request.json()["messages"].as_array().unwrap().last().unwrap().clone()
}

#[tokio::test]
async fn a_document_without_choices_is_asked_for_again() {
    for choices in [json!([]), Value::Null] {
        let usage = json!({"prompt_tokens": 7, "completion_tokens": 0, "total_tokens": 7});
        let document =
            json!({"id": "c1", "object": "chat.completion", "choices": choices, "usage": usage});
        let (ended, requests) = run([MockAnswer::json(&document), text("Fine.")], &[]).await;
        assert_eq!((ended.with_code(0).out.as_str(), requests.len()), ("Fine.\n", 2));
    }
}

#[tokio::test]
async fn a_server_says_itself_whether_another_try_is_worth_it() {
    let busy = || MockAnswer::error(429, "busy");
    let no = busy().header("x-should-retry", "false").header("retry-after-ms", "1");
    let (ended, requests) = run([no], &[]).await;
    let ended = ended.with_code(3);
    assert_eq!(requests.len(), 1, "{}", ended.err);
    assert!(ended.err.contains("it asks not to try again"), "{}", ended.err);
    let soon = busy().header("retry-after-ms", "1");
    let yes = MockAnswer::error(400, "odd")
        .header("x-should-retry", "true")
        .header("retry-after-ms", "1");
    for answer in [soon, yes] {
        let (ended, requests) = run([answer, text("Fine.")], &[]).await;
        assert_eq!((ended.with_code(0).out.as_str(), requests.len()), ("Fine.\n", 2));
    }
}

#[tokio::test]
async fn a_call_that_the_server_cannot_read_is_the_models_own_mistake() {
    let error = |written: &str| {
        json!({"error": {
            "message": "tool call validation failed: missing properties: 'path'",
            "type": "invalid_request_error", "code": "tool_use_failed",
            "failed_generation": written,
        }})
    };
    let short = error("<function=read_file>{\"pth\": \"a\"}</function>");
    let long = error(&format!("<function=write_file>{{\"content\": \"{}\"}}", "x".repeat(20_000)));
    let chunk = json!({"choices": [{"index": 0, "delta": {"content": "I read it."}}]});
    let event = format!("data: {chunk}\n\nevent: error\ndata: {short}\n\n");
    for (answer, words) in [
        (MockAnswer::json(&short).status(400), "missing properties: 'path' | ‹function=read_file>"),
        (MockAnswer::json(&long).status(400), "‹function=write_file>"),
        (MockAnswer::sse(event), "missing properties: 'path' | ‹function=read_file>"),
    ] {
        let (ended, requests) = run([answer, text("Fine.")], &["-t", "file"]).await;
        assert_eq!((ended.with_code(0).out.as_str(), requests.len()), ("Fine.\n", 2));
        let actual = last_message(&requests[1]);
        assert_eq!(actual["role"], "tool", "{actual}");
        let actual = actual["content"].as_str().unwrap();
        assert!(actual.contains("could not be read") && actual.contains(words), "{actual}");
        assert!(actual.len() < 2000, "{actual}");
    }
}

/// A call that the server could not read, with other words in each error.
fn unreadable_call(number: usize) -> MockAnswer {
    let error = json!({"error": {"message": "Failed to call a function.", "code": "tool_use_failed",
                                 "failed_generation": format!("<function=read_file{{{number}")}});
    MockAnswer::json(&error).status(400)
}

#[tokio::test]
async fn a_model_that_only_makes_such_calls_is_stopped() {
    let (ended, requests) = run((0..20).map(unreadable_call), &["-t", "file"]).await;
    let ended = ended.with_code(1);
    assert_eq!(requests.len(), 6, "{}", ended.err);
    assert_eq!(ended.err.matches("Failed to call a function.").count(), 1, "{}", ended.err);
    let expected = "openai/mock made 6 calls in a row that its server could not read";
    assert!(ended.err.contains(expected), "{}", ended.err);
    // The calls are told in detail to who wants that.
    let (ended, _) = run((0..20).map(unreadable_call), &["-v", "-t", "file"]).await;
    assert!(ended.err.matches("Failed to call a function.").count() > 5, "{}", ended.err);
}

#[tokio::test]
async fn a_model_that_stops_making_such_calls_is_reported_once() {
    let answers = (0..3).map(unreadable_call).chain([text("Fine.")]);
    let (ended, requests) = run(answers, &["-t", "file"]).await;
    let ended = ended.with_code(0);
    assert_eq!((ended.out.as_str(), requests.len()), ("Fine.\n", 4));
    assert_eq!(ended.err.matches("Failed to call a function.").count(), 1, "{}", ended.err);
    let expected = "3 calls in a row could not be read: ";
    assert!(ended.err.contains(expected), "{}", ended.err);
}

#[tokio::test]
async fn another_model_goes_on_after_a_model_that_only_makes_such_calls() {
    let lab = Lab::new();
    let server = MockServer::start_with(|request: &HttpRequest| {
        if request.json()["model"] == "mock" { unreadable_call(0) } else { text("Fine.") }
    })
    .await
    .unwrap();
    let args = ["-t", "file", "--set", "fallback_models=[openai/other]", "Answer me"];
    let ended = lab.run(&server, &args).end().await.with_code(0);
    assert_eq!((ended.out.as_str(), server.requests().len()), ("Fine.\n", 7));
    assert!(ended.err.contains("going on with openai/other: openai/mock made 6"), "{}", ended.err);
    assert_eq!(ended.err.matches("Failed to call a function.").count(), 1, "{}", ended.err);
    // The other one may call tools, and has as many calls of its own.
    let last = server.requests().pop().unwrap().json();
    assert_ne!(last["tool_choice"], "none");
}

#[tokio::test]
async fn such_calls_in_place_of_the_closing_answer_end_it_soon() {
    let called = || {
        let call = RawCall { name: "list_dir".to_owned(), arguments: "{}".to_owned() };
        MockAnswer::reply(&Reply { calls: vec![call], ..Reply::text("mock", "") })
    };
    let answers = [called()].into_iter().chain((0..20).map(unreadable_call));
    let (ended, requests) = run(answers, &["-t", "file", "--set", "max_iterations=1"]).await;
    let ended = ended.with_code(1);
    assert_eq!(requests.len(), 3, "{}", ended.err);
    assert!(ended.err.contains("(tried 2 times)"), "{}", ended.err);
}

#[tokio::test]
async fn a_call_where_none_is_allowed_is_a_broken_reply_and_asked_for_again() {
    let called = || {
        let call = RawCall { name: "list_dir".to_owned(), arguments: "{}".to_owned() };
        MockAnswer::reply(&Reply { calls: vec![call], ..Reply::text("mock", "") })
    };
    let error = json!({"error": {
        "message": "Tool choice is none, but model called a tool",
        "type": "invalid_request_error", "code": "tool_use_failed",
        "failed_generation": "<function=read_file>{}</function>",
    }});
    let chunk = json!({"choices": [{"index": 0, "delta": {"content": "What I found is"}}]});
    let event = format!("data: {chunk}\n\nevent: error\ndata: {error}\n\n");
    let failures = [MockAnswer::json(&error).status(400), MockAnswer::sse(event)];
    let args = ["-t", "file", "--set", "max_iterations=1"];
    for failure in failures {
        let answers = [called(), failure, text("Two files.")];
        let (ended, requests) = run(answers, &args).await;
        assert_eq!(ended.out, "Two files.\n", "{}", ended.err);
        assert_eq!(requests.len(), 3);
    }
}

#[tokio::test]
async fn a_reply_in_the_background_is_not_asked_for_again_however_its_stream_ends() {
    let event = |kind: &str, background: bool, status: &str| {
        let response = json!({"id": "r", "object": "response", "status": status,
                              "background": background, "output": []});
        let event = json!({"type": kind, "response": response});
        format!("event: {kind}\ndata: {event}\n\n")
    };
    let created = event("response.created", true, "queued");
    let queued = event("response.queued", false, "queued");
    let progress = |background| event("response.in_progress", background, "in_progress");
    let api = ["--set", "providers.openai={api: openai-responses}"];
    for (events, status) in [
        (queued.clone(), "queued"),
        (queued + &progress(false), "in_progress"),
        (created + &progress(true), "in_progress"),
    ] {
        let bytes = events.len();
        let more = format!("{events}event: x\ndata: {{}}\n\n");
        for answer in [
            MockAnswer::sse(events.clone()),
            MockAnswer::sse(events.clone()).ending_with_connection(),
            MockAnswer::sse(more.clone()).cut_at(bytes),
            MockAnswer::sse(more.clone()).reset_at(bytes),
        ] {
            let (ended, requests) = run([answer], &api).await;
            let ended = ended.with_code(1);
            assert_eq!(requests.len(), 1, "{}", ended.err);
            assert!(ended.err.contains(&format!("status `{status}`")), "{}", ended.err);
        }
    }
}

#[tokio::test]
async fn a_reply_in_the_background_is_not_asked_for_and_paid_again() {
    for status in ["queued", "in_progress"] {
        let document =
            json!({"id": "resp_1", "object": "response", "status": status, "output": []});
        let api = [
            "--set",
            "providers.openai={api: openai-responses}",
            "--set",
            "fallback_models=[offline]",
        ];
        let (ended, requests) = run([MockAnswer::json(&document)], &api).await;
        let ended = ended.with_code(1);
        assert_eq!(requests.len(), 1, "{}", ended.err);
        assert!(ended.err.contains(&format!("status `{status}`")), "{}", ended.err);
    }
}

#[tokio::test]
async fn the_limit_of_a_reply_has_a_key_and_its_error_names_it() {
    let long = "word ".repeat(20_000);
    let limit = ["--set", "limits.reply_bytes=65536"];
    let (ended, requests) = run([text(&long)], &limit).await;
    // The provider works, so this is a failure as any other.
    let ended = ended.with_code(1);
    assert_eq!(requests.len(), 1);
    assert!(ended.err.contains("more than 65536 bytes"), "{}", ended.err);
    assert!(ended.err.contains("limits.reply_bytes"), "{}", ended.err);
    let limit = ["--set", "limits.reply_bytes=131072"];
    let (ended, _) = run([text(&long)], &limit).await;
    assert_eq!(ended.with_code(0).out.trim(), long.trim());
}

#[tokio::test]
async fn the_key_of_a_replys_limit_bounds_events_and_bodies_too() {
    let event = |text: &str| {
        let chunk = json!({"choices": [{"delta": {"content": text}}]});
        format!("data: {chunk}\n\n")
    };
    let key = ["--set", "limits.reply_bytes=6000000"];
    // One event of 5 MB, and a body of more than 32 MiB, most of which stands around the text.
    let large = "word ".repeat(1_000_000);
    let flood = format!(": {}\n\n", "x".repeat(1_000_000)).repeat(36) + &event("Fine.");
    for (body, answer) in [(event(&large), large.trim()), (flood, "Fine.")] {
        let (ended, _) = run([MockAnswer::sse(body + "data: [DONE]\n\n")], &key).await;
        assert!(ended.with_code(0).out.trim() == answer, "another answer");
    }
    let (ended, requests) = run([MockAnswer::sse(event(&"word ".repeat(3_000_000)))], &key).await;
    let ended = ended.with_code(1);
    assert_eq!(requests.len(), 1);
    let expected = "the limit is 12000000 (twice limits.reply_bytes, and 1048576 at least)";
    assert!(ended.err.contains(expected), "{}", ended.err);
}

#[tokio::test]
async fn a_call_of_three_megabytes_in_one_event_runs() {
    let content = "line\n".repeat(600_000);
    let call = |content: &str| {
        let arguments = json!({"path": "a.txt", "content": content}).to_string();
        let function = json!({"name": "write_file", "arguments": arguments});
        let call = json!({"index": 0, "id": "c1", "type": "function", "function": function});
        let chunk = json!({"choices": [{"delta": {"tool_calls": [call]}}]});
        let end = json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]});
        MockAnswer::sse(format!("data: {chunk}\n\ndata: {end}\n\ndata: [DONE]\n\n"))
    };
    let lab = Lab::new();
    let server = MockServer::start([call(&content), text("Written.")]).await.unwrap();
    let ended = lab.run(&server, &["Write it."]).end().await.with_code(0);
    assert_eq!(ended.out, "Written.\n");
    assert!(std::fs::read_to_string(lab.work("a.txt")).unwrap() == content, "another content");
    // Above the limit of a reply the error names that limit.
    let (ended, requests) = run([call(&"line\n".repeat(900_000))], &[]).await;
    let expected =
        "more than 4194304 bytes of text and calls, which is the limit (limits.reply_bytes)";
    assert!(ended.with_code(1).err.contains(expected));
    assert_eq!(requests.len(), 1);
}

#[tokio::test]
async fn each_wait_between_attempts_of_five_seconds_is_shown_also_when_quiet() {
    let lab = Lab::new();
    let busy = |seconds| MockAnswer::error(429, "busy").header("retry-after", seconds);
    let server = MockServer::start([busy("5"), busy("50")]).await.unwrap();
    let running = lab.run(&server, &["-q", "Answer me"]);
    running.says("waiting for the model: attempt 2 of 5 in 5").await;
    running.says("waiting for the model: attempt 3 of 5 in 5").await;
    running.signal(rustix::process::Signal::INT);
    running.end().await.with_code(130);
}

#[tokio::test]
async fn a_reply_that_does_not_begin_is_shown_after_five_seconds_also_when_quiet() {
    let lab = Lab::new();
    let server = model(|_| hang()).await;
    let running = lab.run(&server, &["-q", "Answer me"]);
    running.says("waiting for the model: nothing has come of its reply for 5 s").await;
    running.signal(rustix::process::Signal::INT);
    running.end().await.with_code(130);
}

#[tokio::test]
async fn a_stream_that_is_cut_inside_its_first_event_is_no_empty_reply() {
    let begun = r#"data: {"id": "c1", "choices": [{"delta": {"content": "He"#;
    let set = ["--output", "events"];
    let (ended, requests) = run([MockAnswer::sse(begun), text("Fine.")], &set).await;
    let ended = ended.with_code(0);
    assert_eq!(requests.len(), 2);
    let retry = &ended.events("model.retry")[0];
    let expected = "the reply ended in the middle of an event";
    assert!(retry["reason"].as_str().unwrap().contains(expected), "{retry}");
}

#[tokio::test]
async fn what_a_compaction_at_the_provider_cost_is_not_the_size_of_the_conversation() {
    let usage =
        |input, output| json!({"type": "message", "input_tokens": input, "output_tokens": output});
    let compacted = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "mock",
        "content": [
            {"type": "compaction", "content": "They asked.", "encrypted_content": "opaque=="},
            {"type": "tool_use", "id": "t1", "name": "list_dir", "input": {}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3000, "output_tokens": 100,
                  "iterations": [usage(180_000, 500), usage(3000, 100)]},
    });
    let last = json!({
        "id": "msg_2", "type": "message", "role": "assistant", "model": "mock",
        "content": [{"type": "text", "text": "Fine."}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 3200, "output_tokens": 10},
    });
    let args = [
        "-t",
        "file",
        "--set",
        "providers.openai={api: anthropic-messages}",
        "--set",
        "budget.tokens=300000",
    ];
    let (ended, requests) =
        run([MockAnswer::json(&compacted), MockAnswer::json(&last)], &args).await;
    assert_eq!((ended.with_code(0).out.as_str(), requests.len()), ("Fine.\n", 2));
}
