//! Streams a reply like a Chat Completions server.

use deputize_core::model::{Finish, Reply};
use serde_json::{Value, json};

/// Characters in a piece of text.
const PIECE: usize = 12;

/// Returns the body of a streamed reply: its pieces, finish reason, usage and `[DONE]`.
///
/// ```
/// use deputize_core::model::Reply;
/// let body = deputize_testkit::chat_sse(&Reply::text("m", "Good day."));
/// assert!(body.starts_with("data: {") && body.ends_with("data: [DONE]\n\n"));
/// ```
#[must_use]
pub fn chat_sse(reply: &Reply) -> String {
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    deltas.extend(pieces(&reply.reasoning).map(|piece| json!({"reasoning_content": piece})));
    deltas.extend(pieces(&reply.text).map(|piece| json!({"content": piece})));
    for (index, call) in reply.calls.iter().enumerate() {
        let id = format!("tool_{index}");
        let head = json!({"name": call.name, "arguments": ""});
        let head = json!({"index": index, "id": id, "type": "function", "function": head});
        deltas.push(json!({ "tool_calls": [head] }));
        deltas.extend(pieces(&call.arguments).map(
            |piece| json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}),
        ));
    }
    let reason = match reply.finish {
        Finish::Length | Finish::Paused => "length",
        Finish::Refused | Finish::Undone => "content_filter",
        Finish::Stop if reply.calls.is_empty() => "stop",
        Finish::Stop => "tool_calls",
    };
    let mut events: Vec<Value> =
        deltas.into_iter().map(|delta| chunk(reply, &delta, None)).collect();
    events.push(chunk(reply, &json!({}), Some(reason)));
    events.push(usage(reply));
    let mut body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    body.push_str("data: [DONE]\n\n");
    body
}

/// Splits a text into pieces of a few characters.
pub(crate) fn pieces(text: &str) -> impl Iterator<Item = String> {
    let chars: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = chars.chunks(PIECE).map(|piece| piece.iter().collect()).collect();
    pieces.into_iter()
}

fn chunk(reply: &Reply, delta: &Value, reason: Option<&str>) -> Value {
    json!({
        "id": "chat-1", "object": "chat.completion.chunk", "created": 0, "model": reply.model,
        "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
    })
}

fn usage(reply: &Reply) -> Value {
    let usage = reply.usage;
    json!({
        "id": "chat-1", "object": "chat.completion.chunk", "created": 0, "model": reply.model,
        "choices": [],
        "usage": {
            "prompt_tokens": usage.input,
            "completion_tokens": usage.output,
            "total_tokens": usage.input + usage.output,
            "prompt_tokens_details": {"cached_tokens": usage.cached},
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
        },
    })
}

#[cfg(test)]
mod tests {
    use deputize_core::model::Usage;
    use deputize_providers::StreamEnd;
    use deputize_providers::openai_chat::ReplyStream;

    use super::*;

    #[test]
    fn the_parser_reads_back_what_was_written() {
        let calls = [("f", json!({"path": "a long path 🌍.txt"})), ("g", json!({}))];
        let mut reply = Reply::calls("m", calls);
        reply.text = "A text that is longer than one piece 🌍".into();
        reply.reasoning = "Hm.".into();
        reply.usage = Usage { input: 9, cached: 8, output: 7, reasoning: 6, ..Usage::default() };
        for finish in [Finish::Stop, Finish::Length, Finish::Refused] {
            reply.finish = finish;
            let mut stream = ReplyStream::new("other");
            stream.feed(chat_sse(&reply).as_bytes(), &mut |_| {}).unwrap();
            assert_eq!(stream.finish(StreamEnd::InOrder, &mut |_| {}).unwrap(), reply);
        }
    }
}
