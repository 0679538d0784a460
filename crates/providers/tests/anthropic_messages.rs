//! Bodies of Messages, odd and broken ones among them. Each file of the corpus has its outcome
//! beside it, and must have the same one in pieces of any size.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod corpus;

use deputize_core::message::OpaqueBlock;
use deputize_providers::StreamEnd;
use deputize_providers::anthropic_messages::ReplyStream;
use proptest::prelude::*;

corpus_parser!(ReplyStream, "anthropic-messages");

#[test]
fn each_body_of_the_corpus_has_its_outcome() {
    corpus::check_outcomes::<ReplyStream>(100);
}

#[test]
fn the_size_of_the_pieces_changes_nothing() {
    corpus::check_pieces::<ReplyStream>();
}

#[test]
fn no_call_is_given_out_before_the_end_mark() {
    let body = corpus::body::<ReplyStream>("plain-calls");
    let text = String::from_utf8(body.clone()).unwrap();
    let stop_reason = text.find("\"stop_reason\": \"tool_use\"").unwrap();
    let stop_reason = stop_reason + text[stop_reason..].find("\n\n").unwrap();
    let end_mark = text.find("\"message_stop\"}").unwrap() + "\"message_stop\"}".len();
    let strict = [StreamEnd::Closed, StreamEnd::Silent, StreamEnd::Broken].map(|it| (it, end_mark));
    for end in 0..=body.len() {
        for (ending, whole) in [(StreamEnd::InOrder, stop_reason)].into_iter().chain(strict) {
            let seen = corpus::outcome::<ReplyStream>([&body[..end]], ending);
            // The event's last line feed may be missing: its JSON is whole.
            assert_eq!(seen.contains("read_file"), end >= whole, "{ending:?} at {end}: {seen}");
        }
    }
}

#[test]
fn thinking_is_the_same_in_pieces_and_in_a_document() {
    let opaque = |name: &str| -> Vec<OpaqueBlock> {
        let mut stream = ReplyStream::new("m");
        stream.feed(&corpus::body::<ReplyStream>(name), &mut |_| {}).unwrap();
        stream.finish(StreamEnd::InOrder, &mut |_| {}).unwrap().opaque
    };
    let raw =
        r#"{"type":"thinking","thinking":"Let me see.\nYes.","signature":"EqQBsignature+/=="}"#;
    assert_eq!(opaque("plain-thinking"), [OpaqueBlock::new("anthropic-messages", raw)]);
    let raw = r#"{ "data" : "QUJD\u002f" ,  "type":"redacted_thinking" }"#;
    assert_eq!(opaque("redacted-thinking-bytes"), [OpaqueBlock::new("anthropic-messages", raw)]);
}

#[test]
fn what_is_held_has_limits() {
    corpus::check_limits::<ReplyStream>();
}

const FRAGMENTS: [&str; 14] = [
    "event: message_stop\n",
    r#"{"type":"message_start","message":{"id":"a","model":"m"}}"#,
    r#"{"type":"message_start","message":{"id":"b"}}"#,
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f"}}"#,
    r#"{"type":"content_block_start","index":1,"content_block":{"type":"thinking","thinking":"\ud83d"}}"#,
    r#"{"type":"content_block_start","index":1,"content_block":{"type":"odd","x":"\ude00"}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\ud83d"}}"#,
    r#"{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"\ude00"}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"signature_delta","signature":"s"}}"#,
    r#"{"type":"content_block_stop","index":0}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":1}}"#,
    r#"{"type":"message_stop"}"#,
    r#"{"type":"message","content":[{"type":"text","text":"x"}]}"#,
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
fn what_is_kept_of_a_reply_has_a_limit() {
    for (block, delta) in [
        (r#""type":"text","text":"""#, r#""type":"text_delta","text":"#),
        (r#""type":"thinking","thinking":"""#, r#""type":"thinking_delta","thinking":"#),
        (
            r#""type":"tool_use","name":"f","input":{}"#,
            r#""type":"input_json_delta","partial_json":"#,
        ),
    ] {
        let first = format!(
            "data: {{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{{{block}}}}}\n\n"
        );
        corpus::check_content::<ReplyStream>(&first, |x| {
            format!(
                "data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{{delta}\"{x}\"}}}}\n\n"
            )
        });
    }
}
