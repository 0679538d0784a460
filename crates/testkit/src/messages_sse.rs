//! Streams a reply like a Messages server.

use deputize_core::model::{Finish, Reply};
use serde_json::{Value, json};

/// Characters in a piece of text.
const PIECE: usize = 12;

/// Signature of reasoning for which the reply has no block.
const SIGNATURE: &str = "c2lnbmF0dXJl";

/// Returns the body of a streamed reply in Anthropic's format: thinking, text, calls, stop reason
/// with usage, and the end marker.
///
/// Opaque blocks of the wire format `anthropic-messages` are the thinking; without any, reasoning
/// becomes one signed block.
///
/// ```
/// use deputize_core::model::Reply;
/// let body = deputize_testkit::messages_sse(&Reply::text("m", "Good day."));
/// assert!(body.starts_with("event: message_start\n") && body.contains("event: message_stop\n"));
/// ```
#[must_use]
pub fn messages_sse(reply: &Reply) -> String {
    let usage = reply.usage;
    let cached = usage.cached.saturating_add(usage.cache_write);
    let fresh = usage.input.saturating_sub(cached);
    let mut events = vec![json!({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": reply.model,
        "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {
            "input_tokens": fresh, "cache_read_input_tokens": usage.cached,
            "cache_creation_input_tokens": usage.cache_write, "output_tokens": 0,
        },
    }})];
    for (index, block) in blocks(reply).iter().enumerate() {
        events.extend(events_of(index, block));
    }
    let reason = match reply.finish {
        Finish::Length => "max_tokens",
        Finish::Refused | Finish::Undone => "refusal",
        Finish::Paused => "pause_turn",
        Finish::Stop if reply.calls.is_empty() => "end_turn",
        Finish::Stop => "tool_use",
    };
    events.push(json!({
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": null},
        "usage": {
            "output_tokens": usage.output,
            "output_tokens_details": {"thinking_tokens": usage.reasoning},
        },
    }));
    events.push(json!({"type": "message_stop"}));
    let line = |event: &Value| {
        let name = event.get("type").and_then(Value::as_str).unwrap_or_default();
        format!("event: {name}\ndata: {event}\n\n")
    };
    events.iter().map(line).collect()
}

/// Returns the blocks as in a complete document; the arguments of calls are texts.
fn blocks(reply: &Reply) -> Vec<Value> {
    let opaque = reply.opaque.iter().filter(|block| block.wire == "anthropic-messages");
    let mut blocks: Vec<Value> =
        opaque.filter_map(|block| serde_json::from_str(&block.raw).ok()).collect();
    if blocks.is_empty() && !reply.reasoning.is_empty() {
        let thinking = reply.reasoning.as_str();
        blocks.push(json!({"type": "thinking", "thinking": thinking, "signature": SIGNATURE}));
    }
    if !reply.text.is_empty() {
        blocks.push(json!({"type": "text", "text": reply.text}));
    }
    for (index, call) in reply.calls.iter().enumerate() {
        let id = format!("toolu_{index}");
        let input = call.arguments.as_str();
        blocks.push(json!({"type": "tool_use", "id": id, "name": call.name, "input": input}));
    }
    blocks
}

/// Returns a block's start, its pieces and its stop. Members sent in pieces are blank in the start.
fn events_of(index: usize, block: &Value) -> Vec<Value> {
    let pieces: &[(&str, &str, &str)] = match block.get("type").and_then(Value::as_str) {
        Some("text") => &[("text", "text_delta", "text")],
        Some("tool_use") => &[("input", "input_json_delta", "partial_json")],
        Some("thinking") => &[
            ("thinking", "thinking_delta", "thinking"),
            ("signature", "signature_delta", "signature"),
        ],
        _ => &[],
    };
    let mut start = block.clone();
    let mut deltas = Vec::new();
    for (member, kind, key) in pieces {
        let Some(whole) = start.get_mut(*member) else { continue };
        let blank = if *member == "input" { json!({}) } else { json!("") };
        let Value::String(text) = std::mem::replace(whole, blank) else { continue };
        let chars: Vec<char> = text.chars().collect();
        // A signature is sent in one piece.
        let size = if *member == "signature" { chars.len().max(1) } else { PIECE };
        deltas.extend(chars.chunks(size).map(|piece| {
            let text: String = piece.iter().collect();
            let delta = json!({"type": kind, (*key): text});
            json!({"type": "content_block_delta", "index": index, "delta": delta})
        }));
    }
    let start = json!({"type": "content_block_start", "index": index, "content_block": start});
    let stop = json!({"type": "content_block_stop", "index": index});
    std::iter::once(start).chain(deltas).chain([stop]).collect()
}

#[cfg(test)]
mod tests {
    use deputize_core::message::OpaqueBlock;
    use deputize_core::model::Usage;
    use deputize_providers::StreamEnd;
    use deputize_providers::anthropic_messages::ReplyStream;

    use super::*;

    fn read_back(reply: &Reply) -> Reply {
        let mut stream = ReplyStream::new("other");
        stream.feed(messages_sse(reply).as_bytes(), &mut |_| {}).unwrap();
        stream.finish(StreamEnd::InOrder, &mut |_| {}).unwrap()
    }

    #[test]
    fn the_parser_reads_back_what_was_written() {
        let calls = [("f", json!({"path": "a long path 🌍.txt"})), ("g", json!({}))];
        let mut reply = Reply::calls("m", calls);
        reply.text = "A text that is longer than one piece 🌍".into();
        reply.reasoning = "I think, therefore I call.".into();
        let thinking =
            r#"{"type":"thinking","thinking":"I think, therefore I call.","signature":"a+/="}"#;
        let redacted = r#"{"data":"eA==","type":"redacted_thinking"}"#;
        reply.opaque =
            [thinking, redacted].map(|raw| OpaqueBlock::new("anthropic-messages", raw)).into();
        reply.usage = Usage {
            input: 9,
            cached: 6,
            cache_write: 2,
            output: 7,
            reasoning: 6,
            ..Usage::default()
        };
        for finish in [Finish::Stop, Finish::Length] {
            reply.finish = finish;
            assert_eq!(read_back(&reply), reply);
        }
    }

    #[test]
    fn reasoning_without_a_block_is_signed_and_a_refusal_is_one() {
        let mut reply = Reply::text("m", "No.");
        reply.reasoning = "Hm.".into();
        let read = read_back(&reply);
        assert_eq!(read.reasoning, "Hm.");
        assert!(read.opaque[0].raw.contains(SIGNATURE));
        reply.finish = Finish::Refused;
        assert_eq!(read_back(&reply), reply);
    }
}
