//! From events to a reply.

use deputize_core::model::{Delta, Finish, Reply, Usage};

use super::calls::Calls;
use super::content::{ChatContent, ReplyTexts};
use super::details::ReasoningDetails;
use super::extra_members;
use crate::json::{self, Json, JsonError, MarkedJson};
use crate::server_error::ServerError;
use crate::sse::SseEvent;
use crate::stream::{DeltaFn, EventParser, each_line_is_whole};
use crate::stream_error::{ForeignBody, StreamError};
use crate::stream_status::{StreamEnd, StreamStatus};

const DONE: &str = "[DONE]";

/// A reply that grows with each chunk. Unknown fields and choices but the first are ignored.
#[derive(Debug, Default)]
pub(super) struct ChatParser {
    model: String,
    served: Option<String>,
    content: ChatContent,
    calls: Calls,
    details: ReasoningDetails,
    /// What only the server understands of the message.
    own: Option<String>,
    usage: Usage,
    /// Number of chunks with content.
    moves: u64,
    /// Whether the first choice was seen at all.
    begun: bool,
    end: ChoiceEnd,
}

/// What is known of the end of a reply.
#[derive(Debug, Default)]
struct ChoiceEnd {
    finish: Option<Finish>,
    /// Whether more of the choice came after its finish reason.
    went_on: bool,
    /// Whether the mark was seen behind which nothing comes.
    done: bool,
}

/// The JSON of one event, and its text.
#[derive(Clone, Copy)]
struct StreamEvent<'e> {
    json: &'e MarkedJson<'e>,
    text: &'e str,
}

impl ChatParser {
    pub(super) fn new(model: &str) -> Self {
        Self { model: model.to_owned(), ..Self::default() }
    }

    /// Takes one chunk of a stream, or a whole document, which has the same shape.
    fn chunk(
        &mut self,
        event: StreamEvent<'_>,
        live: &mut DeltaFn<'_>,
    ) -> Result<StreamStatus, StreamError> {
        let chunk = &event.json.value;
        if let Some(error) = ServerError::within(chunk) {
            return self.end_with_error(error);
        }
        if self.served.is_none() {
            let model = chunk.get("model").and_then(Json::as_str).filter(|it| !it.is_empty());
            self.served = model.map(str::to_owned);
        }
        let choice = first_choice(chunk);
        let usage = [Some(chunk), choice, chunk.get("x_groq")];
        let mut usage = usage.into_iter().flatten().filter_map(|it| it.get("usage"));
        if let Some(usage) = usage.rfind(|it| it.is_object()) {
            self.usage = read_usage(usage);
        }
        choice.map_or(Ok(StreamStatus::More), |choice| self.choice(choice, event, live))
    }

    /// Takes a failure that the server reports. After the finish reason `length`, the reply still
    /// counts as cut there.
    fn end_with_error(&mut self, error: ServerError) -> Result<StreamStatus, StreamError> {
        if self.end.finish != Some(Finish::Length) {
            return Err(StreamError::Server(error));
        }
        self.end.done = true;
        self.end.went_on = false;
        Ok(StreamStatus::Done)
    }

    fn choice(
        &mut self,
        choice: &Json<'_>,
        event: StreamEvent<'_>,
        live: &mut DeltaFn<'_>,
    ) -> Result<StreamStatus, StreamError> {
        let first = !std::mem::replace(&mut self.begun, true);
        if let Some(error) = ServerError::within(choice) {
            return self.end_with_error(error);
        }
        let object = |key: &str| choice.get(key).filter(|it| it.is_object());
        // A last event may hold the whole message again, after its pieces.
        let message = object("message").filter(|_| !self.has_output());
        let grown = match object("delta").or(message) {
            Some(delta) => self.delta(delta, event, live)?,
            None => false,
        };
        self.end.went_on |= grown && self.end.finish.is_some();
        let reason = choice.get("finish_reason").and_then(Json::as_str).unwrap_or_default();
        let open = self.end.finish.is_none();
        match finish(reason) {
            Ok(finish) => self.end.finish = finish.or(self.end.finish),
            Err(error) => return self.end_with_error(error),
        }
        self.moves += u64::from(first || grown || (open && self.end.finish.is_some()));
        Ok(StreamStatus::More)
    }

    /// Takes a piece of the message; says whether it held anything.
    fn delta(
        &mut self,
        delta: &Json<'_>,
        event: StreamEvent<'_>,
        live: &mut DeltaFn<'_>,
    ) -> Result<bool, StreamError> {
        let marked = event.json.marked;
        let text = |key: &str| delta.get(key).and_then(Json::as_str).unwrap_or_default();
        // Some servers send the same reasoning under both names.
        let thought = ["reasoning_content", "reasoning"].map(text);
        let thought = thought.into_iter().find(|it| !it.is_empty()).unwrap_or_default();
        let mut grown = self.content.add_reasoning(thought, marked, live);
        grown |= self.content.add(delta.get("content"), marked, live);
        grown |= self.content.add_refusal(text("refusal"), marked);
        extra_members::take_of_message(&mut self.own, delta, event.text);
        if let Some(Json::Array(details)) = delta.get("reasoning_details") {
            grown |= !details.is_empty();
            self.details.add(details, event.text)?;
        }
        let calls = match delta.get("tool_calls") {
            Some(Json::Array(calls)) => calls.as_slice(),
            Some(call @ Json::Object(_)) => std::slice::from_ref(call),
            _ => &[],
        };
        let old_style = delta.get("function_call").filter(|it| it.is_object());
        let mut raw = extra_members::received(calls, event.text).into_iter();
        for call in calls.iter().chain(old_style) {
            if let Some(bytes) = self.calls.add(call, raw.next(), marked)? {
                grown = true;
                live(Delta::Call(bytes));
            }
        }
        Ok(grown)
    }

    /// Takes the data of one event: a chunk, or (from servers that forget the blank lines)
    /// several, one on each line.
    fn data(&mut self, data: &str, live: &mut DeltaFn<'_>) -> Result<StreamStatus, StreamError> {
        if data == DONE {
            self.end.done = true;
            return Ok(StreamStatus::Done);
        }
        match json::parse(data) {
            Ok(json) => self.chunk(StreamEvent { json: &json, text: data }, live),
            Err(JsonError::Syntax(_)) if data.contains('\n') && each_line_is_whole(data, DONE) => {
                for line in data.lines().map(str::trim).filter(|line| !line.is_empty()) {
                    if self.data(line, live)? == StreamStatus::Done {
                        return Ok(StreamStatus::Done);
                    }
                }
                Ok(StreamStatus::More)
            }
            Err(error) => Err(StreamError::of_json(error, data)),
        }
    }
}

impl EventParser for ChatParser {
    const API: &'static str = crate::stream::OPENAI_CHAT;

    fn event(
        &mut self,
        event: SseEvent<'_>,
        live: &mut DeltaFn<'_>,
    ) -> Result<StreamStatus, StreamError> {
        if event.name == "error" {
            return self.end_with_error(ServerError::of_event(event.data));
        }
        self.data(event.data, live)
    }

    fn document(&mut self, text: &str, live: &mut DeltaFn<'_>) -> Result<(), StreamError> {
        self.data(text.trim(), live)?;
        if !self.begun {
            return Err(without_choices(text));
        }
        self.content.end(live);
        // A document says with its end what a stream says with a finish reason.
        self.end.finish = self.end.finish.or(Some(Finish::Stop));
        self.end.done = true;
        Ok(())
    }

    fn is_whole(data: &str) -> bool {
        each_line_is_whole(data, DONE) || json::parse(data).is_ok()
    }

    fn text(&self) -> &str {
        self.content.answer()
    }

    fn served_model(&self) -> &str {
        self.served.as_deref().unwrap_or(&self.model)
    }

    fn held_bytes(&self) -> usize {
        let own = self.own.as_ref().map_or(0, String::len);
        self.content.held_bytes() + self.calls.held_bytes() + self.details.held_bytes() + own
    }

    fn has_output(&self) -> bool {
        !self.content.is_empty() || !self.calls.is_empty()
    }

    fn moves(&self) -> u64 {
        self.moves
    }

    fn usage(&self) -> Usage {
        self.usage
    }

    fn may_end(&self) -> bool {
        match self.end.finish {
            Some(_) if !self.end.went_on => true,
            // A relay writes the mark also behind what its upstream cut off: calls are believed
            // only where their arguments came to an end.
            Some(_) | None => self.end.done && !self.calls.are_open(),
        }
    }

    fn finish(mut self, ending: StreamEnd) -> Result<Reply, StreamError> {
        self.content.end(&mut |_| {});
        let marked = self.end.done && self.may_end();
        // Without the mark, the way it ended tells whether the finish reason is to be believed.
        let finish_counts = self.end.finish.is_some()
            && match ending {
                // The reason was not the last: calls behind it are believed as with the mark alone.
                StreamEnd::InOrder => !self.end.went_on || !self.calls.are_open(),
                StreamEnd::Closed => self.calls.is_empty(),
                StreamEnd::Silent => !self.end.went_on,
                StreamEnd::Broken => false,
            };
        if !(marked || finish_counts) {
            let empty = !self.begun && ending.is_over();
            return Err(if empty { StreamError::Empty } else { StreamError::NoEndMark });
        }
        if !self.begun {
            return Err(StreamError::Empty);
        }
        let ReplyTexts { text, reasoning, refusal } = self.content.into_texts();
        let refused = !refusal.is_empty();
        let finish =
            if refused { Finish::Refused } else { self.end.finish.unwrap_or(Finish::Stop) };
        let (calls, mut opaque) = self.calls.finish(&self.details);
        opaque.extend(self.own.map(|raw| extra_members::of_message(&raw)));
        opaque.extend(self.details.into_opaque());
        Ok(Reply {
            model: self.served.unwrap_or(self.model),
            text: if text.is_empty() { refusal } else { text },
            reasoning,
            calls,
            opaque,
            finish,
            usage: self.usage,
        })
    }
}

/// The choice that counts: number 0, or the first without a number.
fn first_choice<'v>(chunk: &'v Json<'v>) -> Option<&'v Json<'v>> {
    let choices = chunk.get("choices")?.as_array()?;
    let number = |choice: &Json<'_>| choice.get("index").and_then(Json::as_u64);
    choices.iter().filter(|it| it.is_object()).find(|choice| number(choice).unwrap_or(0) == 0)
}

/// Why a document without choices is no reply.
fn without_choices(text: &str) -> StreamError {
    let value = json::parse(text.trim()).map(|json| json.value).unwrap_or_default();
    let has = |key: &str| value.get(key).is_some();
    let object = value.get("object").and_then(Json::as_str).unwrap_or_default();
    if has("choices") || has("usage") || object.starts_with("chat.completion") {
        return StreamError::NoChoices;
    }
    ForeignBody::Other { shown: crate::line::truncate_to_line(text) }.into()
}

fn finish(reason: &str) -> Result<Option<Finish>, ServerError> {
    Ok(match reason {
        "" | "null" => None,
        "length" | "max_tokens" | "model_length" => Some(Finish::Length),
        "content_filter" | "refusal" | "safety" | "sensitive" => Some(Finish::Refused),
        "error" | "abort" | "network_error" | "insufficient_system_resource" => {
            let words = ServerError::words("the server broke the reply off");
            return Err(ServerError { code: reason.to_owned(), ..words });
        }
        _ => Some(Finish::Stop),
    })
}

fn read_usage(usage: &Json<'_>) -> Usage {
    let number = |value: Option<&Json<'_>>| value.and_then(Json::as_u64);
    let within = |group: &str, key: &str| number(usage.get(group).and_then(|it| it.get(key)));
    let cached = within("prompt_tokens_details", "cached_tokens");
    let cached = cached.or_else(|| number(usage.get("prompt_cache_hit_tokens"))).unwrap_or(0);
    let reasoning = within("completion_tokens_details", "reasoning_tokens").unwrap_or(0);
    let input = number(usage.get("prompt_tokens")).unwrap_or(0);
    let output = number(usage.get("completion_tokens")).unwrap_or(0);
    // Some servers count reasoning beside the output, or in the total alone.
    let counted = ["prompt_tokens", "completion_tokens"].iter().all(|key| usage.get(key).is_some());
    let total = number(usage.get("total_tokens")).filter(|_| counted).unwrap_or(0);
    let beside = total.saturating_sub(input).saturating_sub(output);
    let output = output.saturating_add(beside);
    let reasoning = reasoning.max(beside);
    // As one gateway tells what Anthropic counts.
    let cache_write = within("prompt_tokens_details", "cache_write_tokens").unwrap_or(0);
    Usage { input, cached, cache_write, output, reasoning, context_input: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_that_brings_nothing_is_no_sign_of_life() {
        let mut parser = ChatParser::new("m");
        let mut moves = |delta: &str| {
            let data = format!(r#"{{"choices":[{{"delta":{delta}}}],"usage":null}}"#);
            let before = parser.moves();
            parser.event(SseEvent { name: "", data: &data }, &mut |_| {}).unwrap();
            parser.moves() > before
        };
        assert!(moves(r#"{"role":"assistant"}"#), "the first one tells that the model has begun");
        for empty in
            [r#"{"role":"assistant"}"#, r#"{"content":""}"#, r#"{"tool_calls":[{"index":0}]}"#]
        {
            assert!(!moves(empty), "{empty}");
        }
        let call = r#"{"tool_calls":[{"function":{"name":"f"}}]}"#;
        for more in [r#"{"content":"x"}"#, r#"{"reasoning":"x"}"#, call] {
            assert!(moves(more), "{more}");
        }
        assert!(!moves(call), "the same again");
    }
}
