//! Bodies of Responses, odd and broken ones among them. Each file of the corpus has its
//! outcome beside it, and must have the same one in pieces of any size.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod corpus;

use deputize_providers::StreamEnd;
use deputize_providers::openai_responses::ReplyStream;
use proptest::prelude::*;

corpus_parser!(ReplyStream, "openai-responses", false);

#[test]
fn each_body_of_the_corpus_has_its_outcome() {
    corpus::check_outcomes::<ReplyStream>(120);
}

#[test]
fn the_size_of_the_pieces_changes_nothing() {
    corpus::check_pieces::<ReplyStream>();
}

#[test]
fn no_call_is_given_out_before_the_end_mark() {
    let body = corpus::body::<ReplyStream>("plain-calls");
    let text = String::from_utf8(body.clone()).unwrap();
    let end_mark = text.rfind("data: ").unwrap();
    let end_mark = end_mark + text[end_mark..].find("\n\n").unwrap();
    for end in 0..body.len() {
        for ending in [StreamEnd::InOrder, StreamEnd::Closed, StreamEnd::Silent, StreamEnd::Broken]
        {
            let seen = corpus::outcome::<ReplyStream>([&body[..end]], ending);
            // The event's last line feed may be missing: its JSON is whole.
            assert_eq!(seen.contains("read_file"), end >= end_mark, "cut at {end}: {seen}");
        }
    }
}

#[test]
fn what_is_held_has_limits() {
    corpus::check_limits::<ReplyStream>();
}

/// Pieces of streams of this wire.
const OWN: [&str; 14] = [
    r#"{"type":"response.output_text.delta","item_id":"a","output_index":0,"delta":"a\ud83d"}"#,
    r#"{"type":"response.output_text.delta","output_index":0,"delta":"\ude00"}"#,
    r#"{"type":"response.output_text.done","item_id":"a","text":"b"}"#,
    r#"{"type":"response.output_item.added","item":{"type":"message","id":"a","content":[]}}"#,
    r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"a","content":[{"text":"c"}]}}"#,
    r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"b","name":"f"}}"#,
    r#"{"type":"response.function_call_arguments.delta","item_id":"b","delta":"{}"}"#,
    r#"{"type":"response.output_item.done","item":{"type":"function_call","call_id":"b","name":"f","arguments":"{}"}}"#,
    r#"{"type":"response.output_item.done","item":{"type":"reasoning","encrypted_content":"x","summary":["y"]}}"#,
    r#"{"type":"response.reasoning_text.delta","delta":"z"}"#,
    r#"{"type":"response.completed","response":{"output":[]}}"#,
    r#"{"type":"response.completed","response":{"output":[{"type":"message","content":"c"},{"type":"x"}]}}"#,
    r#"{"object":"response","status":"in_progress","output":[{"name":"f","arguments":{}}]}"#,
    r#"{"type":"response.failed","response":{"error":{"message":"x"}}}"#,
];

/// Events of this wire, in any order.
fn events() -> impl Strategy<Value = Vec<u8>> {
    let event = proptest::sample::select(OWN.to_vec());
    let event = event.prop_map(|json| format!("data: {json}\n\n").into_bytes());
    proptest::collection::vec(event, 0..12).prop_map(|events| events.concat())
}

proptest! {
    #[test]
    fn any_bytes_in_any_pieces_end_the_same_way(
        body in corpus::fragments(&OWN),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..8),
    ) {
        corpus::check_cuts::<ReplyStream>(&body, &cuts)?;
    }

    #[test]
    fn any_events_in_any_order_end_the_same_way(
        body in events(),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..8),
    ) {
        corpus::check_cuts::<ReplyStream>(&body, &cuts)?;
    }
}

#[test]
fn what_is_kept_of_a_reply_has_a_limit() {
    for kind in ["output_text", "refusal", "reasoning_text", "function_call_arguments"] {
        corpus::check_content::<ReplyStream>("", |x| {
            format!("data: {{\"type\":\"response.{kind}.delta\",\"delta\":\"{x}\"}}\n\n")
        });
    }
}
