//! From events to a reply.

use deputize_core::model::{Finish, Reply, Usage};

use super::blocks::Blocks;
use super::piece::{self, StartPiece};
use super::usage::UsageCount;
use crate::json::{self, Json, JsonError, MarkedJson};
use crate::server_error::ServerError;
use crate::sse::SseEvent;
use crate::stream::{DeltaFn, EventParser, each_line_is_whole};
use crate::stream_error::{ForeignBody, StreamError};
use crate::stream_status::{StreamEnd, StreamStatus};

/// What some relays send behind the end mark, as another wire has it.
const DONE: &str = "[DONE]";

/// A reply that grows with each event. Unknown events and fields are ignored.
#[derive(Debug, Default)]
pub(super) struct MessagesParser {
    /// The one that was asked for, until the reply names another.
    model: String,
    id: Option<String>,
    blocks: Blocks,
    usage: UsageCount,
    /// Number of events with content.
    moves: u64,
    /// Whether anything of a message was seen at all.
    begun: bool,
    stop: Option<StopReason>,
    /// What the server says of a refusal.
    explanation: String,
    /// Whether content came after the stop reason.
    went_on: bool,
    done: bool,
}

/// Why the model stopped, where it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopReason {
    End,
    Limit,
    Window,
    Pause,
    Refusal,
}

/// The JSON of one event, and its text.
#[derive(Clone, Copy)]
struct StreamEvent<'e> {
    value: &'e Json<'e>,
    text: &'e str,
    marked: bool,
}

impl<'e> StreamEvent<'e> {
    fn new(json: &'e MarkedJson<'e>, text: &'e str) -> Self {
        Self { value: &json.value, text, marked: json.marked }
    }

    fn kind(&self) -> Option<&'e str> {
        self.value.get("type").and_then(Json::as_str)
    }

    /// The text, where blocks in it can be taken as they are.
    fn raw(&self) -> Option<&'e str> {
        (!self.marked).then_some(self.text)
    }

    fn index(&self) -> Option<u64> {
        let index = self.value.get("index")?;
        index.as_u64().or_else(|| index.as_str()?.trim().parse().ok())
    }

    fn piece(&self, value: &'e Json<'e>, raw: Option<&'e str>) -> StartPiece<'e> {
        StartPiece { value, raw, marked: self.marked }
    }
}

impl MessagesParser {
    pub(super) fn new(model: &str) -> Self {
        Self { model: model.to_owned(), ..Self::default() }
    }

    /// Takes the data of one event, or (from servers that forget the blank lines) of several,
    /// one on each line.
    fn data(
        &mut self,
        name: &str,
        data: &str,
        live: &mut DeltaFn<'_>,
    ) -> Result<StreamStatus, StreamError> {
        if data == DONE {
            return Ok(StreamStatus::More);
        }
        match json::parse(data) {
            Ok(json) => self.read_event(name, StreamEvent::new(&json, data), live),
            Err(JsonError::Syntax(_)) if data.contains('\n') && each_line_is_whole(data, DONE) => {
                for line in data.lines().map(str::trim).filter(|line| !line.is_empty()) {
                    if self.data("", line, live)? == StreamStatus::Done {
                        return Ok(StreamStatus::Done);
                    }
                }
                Ok(StreamStatus::More)
            }
            Err(error) => Err(StreamError::of_json(error, data)),
        }
    }

    fn read_event(
        &mut self,
        name: &str,
        event: StreamEvent<'_>,
        live: &mut DeltaFn<'_>,
    ) -> Result<StreamStatus, StreamError> {
        if let Some(error) = ServerError::within(event.value) {
            return Err(StreamError::Server(error));
        }
        let value = event.value;
        match event.kind().unwrap_or(name) {
            "message_start" => self.start(value.get("message").unwrap_or(value))?,
            "content_block_start" => {
                let block = value.get("content_block").unwrap_or(&Json::Null);
                let piece = event.piece(block, piece::block(event.raw()));
                self.grow(|blocks| blocks.start(event.index(), &piece, live))?;
            }
            "content_block_delta" => {
                let piece = event.piece(value.get("delta").unwrap_or(&Json::Null), None);
                self.grow(|blocks| blocks.delta(event.index(), &piece, live))?;
            }
            "content_block_stop" => self.blocks.stop(event.index()),
            "message_delta" => {
                self.begun = true;
                self.stopped(value.get("delta").unwrap_or(value))?;
                self.usage.add_usage(value.get("usage"));
            }
            "message_stop" => {
                self.begun = true;
                self.done = true;
                return Ok(StreamStatus::Done);
            }
            "message" => {
                self.message(event, live)?;
                return Ok(StreamStatus::Done);
            }
            "error" => return Err(StreamError::Server(ServerError::of_value(value))),
            _ => {}
        }
        Ok(StreamStatus::More)
    }

    fn grow(
        &mut self,
        change: impl FnOnce(&mut Blocks) -> Result<bool, StreamError>,
    ) -> Result<(), StreamError> {
        self.begun = true;
        let grown = change(&mut self.blocks)?;
        self.moves += u64::from(grown);
        self.went_on |= grown && self.stop.is_some();
        Ok(())
    }

    fn start(&mut self, message: &Json<'_>) -> Result<(), StreamError> {
        let id = message.get("id").and_then(Json::as_str).filter(|id| !id.is_empty());
        let other = id.is_some() && id != self.id.as_deref();
        if other && !self.blocks.is_empty() {
            let words = "another message began inside the reply";
            return Err(StreamError::Server(ServerError::words(words)));
        }
        if other {
            self.id = id.map(str::to_owned);
        }
        self.moves += u64::from(!self.begun);
        self.begun = true;
        self.head(message);
        Ok(())
    }

    /// Takes what stands at the head of a message.
    fn head(&mut self, message: &Json<'_>) {
        let model = message.get("model").and_then(Json::as_str).filter(|it| !it.is_empty());
        if let Some(model) = model {
            model.clone_into(&mut self.model);
        }
        self.usage.add_usage(message.get("usage"));
    }

    fn stopped(&mut self, delta: &Json<'_>) -> Result<(), StreamError> {
        let reason = delta.get("stop_reason").and_then(Json::as_str).unwrap_or_default();
        let details = delta.get("stop_details");
        let words = details.and_then(|it| it.get("explanation")).and_then(Json::as_str);
        if let Some(words) = words {
            words.clone_into(&mut self.explanation);
        }
        if let Some(stop) = stop(reason)? {
            self.moves += u64::from(self.stop.is_none());
            self.stop = Some(stop);
            self.went_on = false;
        }
        Ok(())
    }

    /// Takes a whole message.
    fn message(
        &mut self,
        event: StreamEvent<'_>,
        live: &mut DeltaFn<'_>,
    ) -> Result<(), StreamError> {
        let message = event.value;
        self.head(message);
        self.stopped(message)?;
        match message.get("content") {
            Some(Json::Array(blocks)) => {
                let raw = piece::items(event.raw(), blocks.len());
                for (index, (block, raw)) in (0..).zip(blocks.iter().zip(raw)) {
                    let piece = event.piece(block, raw);
                    self.blocks.start(Some(index), &piece, live)?;
                    self.blocks.stop(Some(index));
                }
            }
            Some(text @ Json::String(_)) => {
                let delta = [("type", Json::from("text_delta")), ("text", text.clone())];
                let delta = Json::Object(delta.into());
                let piece = StartPiece { value: &delta, raw: None, marked: event.marked };
                self.blocks.delta(None, &piece, live)?;
            }
            _ => {}
        }
        self.begun = true;
        self.done = true;
        Ok(())
    }
}

impl EventParser for MessagesParser {
    const API: &'static str = crate::stream::ANTHROPIC_MESSAGES;

    fn event(
        &mut self,
        event: SseEvent<'_>,
        live: &mut DeltaFn<'_>,
    ) -> Result<StreamStatus, StreamError> {
        if event.name == "error" {
            return Err(StreamError::Server(ServerError::of_event(event.data)));
        }
        self.data(event.name, event.data, live)
    }

    fn document(&mut self, text: &str, live: &mut DeltaFn<'_>) -> Result<(), StreamError> {
        let text = text.trim();
        match json::parse(text) {
            Ok(json)
                if json.value.get("content").is_some_and(|it| it.is_array() || it.is_string()) =>
            {
                let event = StreamEvent::new(&json, text);
                match ServerError::within(event.value) {
                    Some(error) => return Err(StreamError::Server(error)),
                    None => self.message(event, live)?,
                }
            }
            _ => {
                self.data("", text, live)?;
            }
        }
        if !self.begun {
            return Err(ForeignBody::Other { shown: crate::line::truncate_to_line(text) }.into());
        }
        Ok(())
    }

    fn is_whole(data: &str) -> bool {
        each_line_is_whole(data, DONE) || json::parse(data).is_ok()
    }

    fn text(&self) -> &str {
        self.blocks.text()
    }

    fn served_model(&self) -> &str {
        &self.model
    }

    fn held_bytes(&self) -> usize {
        self.blocks.held_bytes()
    }

    fn has_output(&self) -> bool {
        !self.blocks.is_empty()
    }

    fn moves(&self) -> u64 {
        self.moves
    }

    fn usage(&self) -> Usage {
        self.usage.usage()
    }

    fn may_end(&self) -> bool {
        self.done
    }

    fn finish(self, ending: StreamEnd) -> Result<Reply, StreamError> {
        let reason_counts = match ending {
            StreamEnd::InOrder => true,
            StreamEnd::Closed => !self.blocks.has_calls(),
            StreamEnd::Silent | StreamEnd::Broken => false,
        };
        let stopped = reason_counts && self.stop.is_some() && !self.went_on;
        if !(self.done || stopped) {
            let empty = ending.is_over() && !self.begun;
            return Err(if empty { StreamError::Empty } else { StreamError::NoEndMark });
        }
        let finish = match self.stop {
            Some(StopReason::Window) => {
                let words = if self.blocks.is_empty() {
                    "the request fills the model's context"
                } else {
                    "request and reply fill the model's context"
                };
                return Err(StreamError::Server(ServerError {
                    code: "model_context_window_exceeded".to_owned(),
                    ..ServerError::words(words)
                }));
            }
            Some(StopReason::Limit) => Finish::Length,
            Some(StopReason::Pause) if !self.blocks.has_calls() => Finish::Paused,
            Some(StopReason::End | StopReason::Pause) | None => Finish::Stop,
            Some(StopReason::Refusal) => Finish::Refused,
        };
        let mut content = self.blocks.finish(finish == Finish::Length);
        if finish == Finish::Refused {
            // What was refused half-way is neither run nor gone on with.
            content.calls.clear();
            content.opaque.clear();
            if content.text.is_empty() {
                content.text = self.explanation;
            }
        }
        Ok(Reply {
            model: self.model,
            text: content.text,
            reasoning: content.reasoning,
            calls: content.calls,
            opaque: content.opaque,
            finish,
            usage: self.usage.usage(),
        })
    }
}

fn stop(reason: &str) -> Result<Option<StopReason>, StreamError> {
    Ok(match reason {
        "" | "null" => None,
        "max_tokens" | "length" => Some(StopReason::Limit),
        "model_context_window_exceeded" => Some(StopReason::Window),
        "pause_turn" | "compaction" => Some(StopReason::Pause),
        "refusal" | "content_filter" => Some(StopReason::Refusal),
        "error" | "abort" | "network_error" => {
            return Err(StreamError::Server(ServerError {
                code: reason.to_owned(),
                ..ServerError::words("the server broke the reply off")
            }));
        }
        _ => Some(StopReason::End),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_brings_nothing_is_no_sign_of_life() {
        let mut parser = MessagesParser::new("m");
        let mut moves = |data: &str| {
            let before = parser.moves();
            parser.event(SseEvent { name: "", data }, &mut |_| {}).unwrap();
            parser.moves() > before
        };
        let delta = |text: &str| {
            let delta = serde_json::json!({"type": "text_delta", "text": text});
            serde_json::json!({"type": "content_block_delta", "index": 0, "delta": delta})
                .to_string()
        };
        assert!(moves(r#"{"type":"message_start","message":{}}"#));
        assert!(!moves(r#"{"type":"ping"}"#));
        assert!(moves(&delta("x")));
        assert!(!moves(&delta("")));
        let stop = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#;
        assert!(moves(stop));
        assert!(!moves(stop));
    }
}
