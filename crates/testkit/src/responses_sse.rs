//! Streams a reply like a Responses server.

use deputize_core::model::{Finish, Reply};
use serde_json::{Value, json};

use crate::chat_sse::pieces;

/// Returns the body of a streamed reply: its items in pieces, each followed by the complete item,
/// and the response with its usage.
///
/// The opaque blocks of a reply come first, byte for byte, then its text, then its calls; its
/// reasoning belongs to the first block. Opaque blocks that are not JSON objects are left out.
///
/// ```
/// use deputize_core::model::Reply;
/// let body = deputize_testkit::responses_sse(&Reply::text("m", "Good day."));
/// assert!(body.starts_with("event: response.created\n"));
/// assert!(body.contains("event: response.completed\n"));
/// ```
#[must_use]
pub fn responses_sse(reply: &Reply) -> String {
    let mut body = SseBody::default();
    let created = response(reply, "in_progress", &[]);
    body.event("response.created", &[("response", created)]);
    let ours = reply.opaque.iter().filter(|it| it.wire == "openai-responses");
    let mut blocks: Vec<String> = ours.map(|it| it.raw.clone()).collect();
    blocks.retain(|raw| raw.starts_with('{'));
    if blocks.is_empty() && !reply.reasoning.is_empty() {
        let summary = json!([{"type": "summary_text", "text": reply.reasoning}]);
        blocks.push(json!({"type": "reasoning", "summary": summary}).to_string());
    }
    for (number, raw) in blocks.into_iter().enumerate() {
        let thoughts = if number == 0 { reply.reasoning.as_str() } else { "" };
        body.pieces("response.reasoning_summary_text.delta", thoughts);
        body.done(raw);
    }
    if !reply.text.is_empty() {
        let message = |content: Value| json!({"type": "message", "id": "msg_0", "role": "assistant", "content": content});
        body.added(&message(json!([])));
        body.pieces("response.output_text.delta", &reply.text);
        body.done(message(json!([{"type": "output_text", "text": reply.text}])).to_string());
    }
    for (number, call) in reply.calls.iter().enumerate() {
        let item = |arguments: &str| {
            json!({
                "type": "function_call", "id": format!("fc_{number}"),
                "call_id": format!("tool_{number}"), "name": call.name, "arguments": arguments,
            })
        };
        body.added(&item(""));
        body.pieces("response.function_call_arguments.delta", &call.arguments);
        body.done(item(&call.arguments).to_string());
    }
    let (kind, status) = match reply.finish {
        Finish::Stop => ("response.completed", "completed"),
        Finish::Length | Finish::Paused | Finish::Refused | Finish::Undone => {
            ("response.incomplete", "incomplete")
        }
    };
    let end = response(reply, status, &body.output);
    body.event(kind, &[("response", end)]);
    body.text
}

/// The events so far, and the completed items.
#[derive(Default)]
struct SseBody {
    text: String,
    output: Vec<String>,
}

impl SseBody {
    /// Adds an event with these members, given as JSON.
    fn event(&mut self, kind: &str, members: &[(&str, String)]) {
        let members = members.iter().map(|(key, json)| format!(",\"{key}\":{json}"));
        let data = format!("{{\"type\":\"{kind}\"{}}}", members.collect::<String>());
        let data = data.replace('\n', "\ndata: ");
        self.text.push_str(&format!("event: {kind}\ndata: {data}\n\n"));
    }

    fn added(&mut self, item: &Value) {
        let members = [("output_index", self.output.len().to_string()), ("item", item.to_string())];
        self.event("response.output_item.added", &members);
    }

    fn pieces(&mut self, kind: &str, text: &str) {
        for piece in pieces(text) {
            let index = self.output.len().to_string();
            self.event(kind, &[("output_index", index), ("delta", json!(piece).to_string())]);
        }
    }

    fn done(&mut self, item: String) {
        let members = [("output_index", self.output.len().to_string()), ("item", item.clone())];
        self.event("response.output_item.done", &members);
        self.output.push(item);
    }
}

/// Returns a response with these items, given as JSON.
fn response(reply: &Reply, status: &str, output: &[String]) -> String {
    let reason = match reply.finish {
        Finish::Refused | Finish::Undone => "content_filter",
        Finish::Stop | Finish::Length | Finish::Paused => "max_output_tokens",
    };
    let details = (status == "incomplete").then(|| json!({ "reason": reason }));
    let usage = reply.usage;
    let usage = (status != "in_progress").then(|| {
        json!({
            "input_tokens": usage.input,
            "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.input + usage.output,
        })
    });
    let head = json!({
        "id": "resp_1", "object": "response", "created_at": 0, "status": status,
        "model": reply.model, "error": null, "incomplete_details": details, "usage": usage,
    });
    let head = head.to_string();
    let head = head.strip_suffix('}').unwrap_or(&head);
    format!("{head},\"output\":[{}]}}", output.join(","))
}

#[cfg(test)]
mod tests {
    use deputize_core::message::OpaqueBlock;
    use deputize_core::model::Usage;
    use deputize_providers::StreamEnd;
    use deputize_providers::openai_responses::ReplyStream;

    use super::*;

    fn read_back(reply: &Reply) -> Reply {
        let mut stream = ReplyStream::new("other");
        stream.feed(responses_sse(reply).as_bytes(), &mut |_| {}).unwrap();
        stream.finish(StreamEnd::InOrder, &mut |_| {}).unwrap()
    }

    #[test]
    fn the_parser_reads_back_what_was_written() {
        let calls = [("f", json!({"path": "a long path 🌍.txt"})), ("g", json!({}))];
        let mut reply = Reply::calls("m", calls);
        reply.text = "A text that is longer than one piece 🌍".into();
        reply.reasoning = "Hm, that is hard.".into();
        reply.usage = Usage { input: 9, cached: 8, output: 7, reasoning: 6, ..Usage::default() };
        for finish in [Finish::Stop, Finish::Length, Finish::Refused] {
            reply.finish = finish;
            assert_eq!(read_back(&reply), reply);
        }
        let raw = "{ \"type\":\"reasoning\",\n \"encrypted_content\" : \"g\\u0041+/=\" }";
        reply.opaque = vec![OpaqueBlock::new("openai-responses", raw)];
        assert_eq!(read_back(&reply), reply);
        assert_eq!(read_back(&Reply::text("m", "Ok.")), Reply::text("m", "Ok."));
    }
}
