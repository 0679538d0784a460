//! Bodies of Chat Completions, odd and broken ones among them. Each file of the corpus has
//! its outcome beside it, and must have the same one in pieces of any size.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod corpus;

use deputize_providers::StreamEnd;
use deputize_providers::openai_chat::ReplyStream;
use proptest::prelude::*;

corpus_parser!(ReplyStream, "openai-chat");

#[test]
fn each_body_of_the_corpus_has_its_outcome() {
    corpus::check_outcomes::<ReplyStream>(40);
}

#[test]
fn the_size_of_the_pieces_changes_nothing() {
    corpus::check_pieces::<ReplyStream>();
}

#[test]
fn no_call_is_given_out_before_the_end_mark() {
    let body = corpus::body::<ReplyStream>("plain-calls");
    let text = String::from_utf8(body.clone()).unwrap();
    let finish = text.find("\"finish_reason\": \"tool_calls\"").unwrap();
    let finish = finish + text[finish..].find("\n\n").unwrap();
    let mark = text.find("[DONE]").unwrap() + "[DONE]".len();
    let endings = [
        (StreamEnd::InOrder, finish),
        (StreamEnd::Silent, finish),
        (StreamEnd::Closed, mark),
        (StreamEnd::Broken, mark),
    ];
    for end in 0..=body.len() {
        for (ending, whole) in endings {
            let seen = corpus::outcome::<ReplyStream>([&body[..end]], ending);
            // The event's last line feed may be missing: its JSON is whole.
            assert_eq!(seen.contains("read_file"), end >= whole, "{ending:?} at {end}: {seen}");
        }
    }
}

#[test]
fn what_is_held_has_limits() {
    corpus::check_limits::<ReplyStream>();
}

#[test]
fn space_and_byte_order_marks_before_a_body_are_passed_over_in_pieces_of_any_size() {
    for before in ["\n\u{feff}", "\u{feff}\u{feff}", " \u{feff}\r\n\u{feff} "] {
        let body = format!("{before}{{\"choices\":[{{\"message\":{{\"content\":\"x\"}}}}]}}");
        for size in [1, 2, body.len()] {
            let seen =
                corpus::outcome::<ReplyStream>(body.as_bytes().chunks(size), StreamEnd::InOrder);
            assert!(seen.starts_with("text: \"x\"\n{"), "{before:?} in {size}s: {seen}");
        }
    }
}

#[test]
fn a_long_page_is_shown_alike_in_pieces_of_any_size() {
    // Its title ends behind what is read of a page.
    let page = format!("<html><title>{}</title>", "busy ".repeat(3_000));
    let request_counts =
        |size| corpus::outcome::<ReplyStream>(page.as_bytes().chunks(size), StreamEnd::InOrder);
    assert_eq!(request_counts(page.len()), request_counts(7));
}

const FRAGMENTS: [&str; 4] = [
    r#"{"choices":[{"index":0,"delta":{"content":"a\ud83d"}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"\ude00"},"finish_reason":"stop"}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}}]}"#,
];

proptest! {
    #[test]
    fn any_bytes_in_any_pieces_end_the_same_way(
        body in corpus::fragments(&FRAGMENTS),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..8),
    ) {
        corpus::check_cuts::<ReplyStream>(&body, &cuts)?;
    }
}

#[test]
fn a_done_mark_without_a_finish_reason_ends_a_text_but_no_call_that_was_cut() {
    let seen = |delta: &str| {
        let body = format!("data: {{\"choices\":[{{\"delta\":{delta}}}]}}\n\ndata: [DONE]\n\n");
        corpus::outcome::<ReplyStream>([body.as_bytes()], StreamEnd::InOrder)
    };
    let call = |arguments: &str| {
        let arguments = serde_json::json!(arguments);
        seen(&format!(
            r#"{{"tool_calls":[{{"id":"a","function":{{"name":"f","arguments":{arguments}}}}}]}}"#
        ))
    };
    assert!(seen(r#"{"content":"x"}"#).starts_with("text: \"x\"\n{"));
    assert!(call("{}").contains("\"f\""), "{}", call("{}"));
    for cut in ["", " ", "{", r#"{"x":"}"#] {
        assert!(call(cut).contains("without an end mark"), "{cut}: {}", call(cut));
    }
}

#[test]
fn what_is_kept_of_a_reply_has_a_limit() {
    let event = |delta: String| format!("data: {{\"choices\":[{{\"delta\":{delta}}}]}}\n\n");
    for key in ["content", "reasoning", "refusal"] {
        corpus::check_content::<ReplyStream>("", |x| event(format!("{{\"{key}\":\"{x}\"}}")));
    }
    corpus::check_content::<ReplyStream>("", |x| {
        event(format!(
            "{{\"tool_calls\":[{{\"index\":0,\"function\":{{\"arguments\":\"{x}\"}}}}]}}"
        ))
    });
    corpus::check_content::<ReplyStream>("", |x| {
        let detail = format!("{{\"type\":\"reasoning.text\",\"text\":\"{x}\"}}");
        event(format!("{{\"reasoning_details\":[{detail}]}}"))
    });
}
