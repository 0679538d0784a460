//! From events to a reply.

use deputize_core::model::{Delta, Finish, RawCall, Reply, Usage};

use super::delta_sender::DeltaSender;
use super::event::{ResponseEvent, word};
use super::item::{ItemKind, PartialItem, TextPart};
use super::items::{PartialItems, TextGrowth};
use super::order::{BETWEEN, OutputSlot, to_opaque};
use super::raw;
use crate::arguments::{self, mended};
use crate::json::{self, Json, JsonError};
use crate::server_error::ServerError;
use crate::sse::SseEvent;
use crate::stream::{DeltaFn, EventParser, OPENAI_CHAT, each_line_is_whole};
use crate::stream_error::{ForeignBody, StreamError};
use crate::stream_status::{StreamEnd, StreamStatus};

/// The mark that some servers send after the last event. It ends nothing: that is for the
/// event before it to say.
const DONE: &str = "[DONE]";

/// A reply that grows with each event. Events and fields that are not known are ignored.
#[derive(Debug, Default)]
pub(super) struct ResponsesParser {
    /// The one that was asked for, until the reply names another.
    model: String,
    /// Most tokens that were asked for.
    limit: Option<u64>,
    items: PartialItems,
    shown: DeltaSender,
    usage: Usage,
    /// Number of starts and of text growths.
    moves: u64,
    /// Whether anything of a reply was seen at all.
    begun: bool,
    /// Whether the body is one JSON text, not a stream of events.
    is_document: bool,
    /// The last status of a reply that the server makes in the background, as it said once.
    background: Option<String>,
    finish: Option<Finish>,
}

impl ResponsesParser {
    pub(super) fn new(model: &str) -> Self {
        Self { model: model.to_owned(), ..Self::default() }
    }

    /// For a reply that may have so many tokens. llama.cpp says of a reply that it cut there that
    /// it is complete.
    pub(super) fn within(self, limit: Option<u64>) -> Self {
        Self { limit, ..self }
    }

    /// Takes the data of one event, or (from servers that forget the blank lines) of several,
    /// one on each line.
    fn data(
        &mut self,
        event: SseEvent<'_>,
        live: &mut DeltaFn<'_>,
    ) -> Result<StreamStatus, StreamError> {
        let SseEvent { name, data } = event;
        if data == DONE {
            return Ok(StreamStatus::Done);
        }
        match json::parse(data) {
            Ok(json) => self.read_event(ResponseEvent { json: &json, text: data, name }, live),
            Err(JsonError::Syntax(_)) if data.contains('\n') && each_line_is_whole(data, DONE) => {
                for data in data.lines().map(str::trim).filter(|line| !line.is_empty()) {
                    if self.data(SseEvent { name: "", data }, live)? == StreamStatus::Done {
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
        event: ResponseEvent<'_>,
        live: &mut DeltaFn<'_>,
    ) -> Result<StreamStatus, StreamError> {
        let value = &event.json.value;
        if let Some(error) = ServerError::within(value) {
            return Err(StreamError::Server(error));
        }
        let kind = event.kind();
        if kind.starts_with("response.") && !std::mem::replace(&mut self.begun, true) {
            self.moves += 1;
        }
        match kind {
            "error" => return Err(StreamError::Server(ServerError::of_value(value))),
            "response.created" | "response.in_progress" | "response.queued" => {
                self.head(event.get("response"));
            }
            "response.output_item.added" => self.item(event, false, live)?,
            "response.output_item.done" => self.item(event, true, live)?,
            "response.content_part.done"
            | "response.reasoning_summary_part.done"
            | "response.reasoning_part.done" => self.part(event, live)?,
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled"
            | "response.done" => {
                return self.response(event, event.get("response").unwrap_or(&Json::Null), live);
            }
            "" | "message" => return self.nameless(event, live),
            _ => self.text(event, live)?,
        }
        Ok(StreamStatus::More)
    }

    /// Takes what does not say what it is: a whole response, from servers without events.
    fn nameless(
        &mut self,
        event: ResponseEvent<'_>,
        live: &mut DeltaFn<'_>,
    ) -> Result<StreamStatus, StreamError> {
        let value = &event.json.value;
        let is_response = |value: &&Json<'_>| {
            word(value, "object") == "response" || value.get("output").is_some_and(Json::is_array)
        };
        match Some(value).filter(is_response).or_else(|| event.get("response").filter(is_response))
        {
            Some(response) => self.response(event, response, live),
            None if value.get("choices").is_some_and(Json::is_array) => {
                Err(ForeignBody::OtherApi { api: OPENAI_CHAT }.into())
            }
            None => Ok(StreamStatus::More),
        }
    }

    /// Takes what a response says of itself.
    fn head(&mut self, response: Option<&Json<'_>>) {
        let Some(response) = response else { return };
        let model = word(response, "model");
        if !model.is_empty() {
            model.clone_into(&mut self.model);
        }
        if let Some(usage) = response.get("usage").filter(|it| it.is_object()) {
            self.usage = read_usage(usage);
        }
        let status = word(response, "status");
        let is_background =
            status == "queued" || response.get("background") == Some(&Json::Bool(true));
        if !status.is_empty() && (is_background || self.background.is_some()) {
            self.background = Some(status.to_owned());
        }
    }

    /// Takes a response as it stands, mostly at its end.
    fn response(
        &mut self,
        event: ResponseEvent<'_>,
        response: &Json<'_>,
        live: &mut DeltaFn<'_>,
    ) -> Result<StreamStatus, StreamError> {
        self.begun = true;
        // Also one that failed has a count.
        self.head(Some(response));
        let kind = event.kind();
        let status = word(response, "status");
        if let Some(error) = ServerError::within(response) {
            return Err(StreamError::Server(error));
        }
        let is = |what: &str| status == what || kind.strip_prefix("response.") == Some(what);
        for (what, message) in [
            ("failed", "the server says that the response failed"),
            ("cancelled", "the server cancelled the response"),
        ] {
            if is(what) {
                return Err(StreamError::Server(ServerError::words(message)));
            }
        }
        if self.is_document && matches!(status, "queued" | "in_progress") {
            return Err(StreamError::Background { status: status.to_owned() });
        }
        self.head(Some(response));
        if let Some(output) = response.get("output").and_then(Json::as_array) {
            self.output(output, event, live)?;
        }
        let reason = response.get("incomplete_details").map_or("", |it| word(it, "reason"));
        // Where neither event nor status says so, only the end of a document is an end.
        let ended =
            kind.contains('.') || matches!(status, "completed" | "incomplete") || self.is_document;
        if !ended {
            return Ok(StreamStatus::More);
        }
        self.finish = Some(match (is("incomplete") || !reason.is_empty(), reason) {
            (false, _) => Finish::Stop,
            (true, "content_filter") => Finish::Refused,
            // Whatever the reason is, calls may be cut.
            (true, _) => Finish::Length,
        });
        Ok(StreamStatus::Done)
    }

    fn output(
        &mut self,
        output: &[Json<'_>],
        event: ResponseEvent<'_>,
        live: &mut DeltaFn<'_>,
    ) -> Result<(), StreamError> {
        let raw = Some(raw::output(event.text)).filter(|raw| raw.len() == output.len());
        let mut raw = raw.unwrap_or_default().into_iter();
        let mut items = Vec::new();
        for value in output {
            items.extend(PartialItem::read(value, event.json.marked, raw.next())?);
        }
        let grown = self.items.settle(items)?;
        self.show(grown, live);
        Ok(())
    }

    /// Takes an item at its beginning or at its end.
    fn item(
        &mut self,
        event: ResponseEvent<'_>,
        done: bool,
        live: &mut DeltaFn<'_>,
    ) -> Result<(), StreamError> {
        let Some(value) = event.get("item") else { return Ok(()) };
        let raw = raw::item(event.text);
        let Some(mut item) = PartialItem::read(value, event.json.marked, raw)? else {
            return Ok(());
        };
        item.index = event.number("output_index");
        if item.kind == ItemKind::Call && !done {
            live(Delta::Call(item.name.len()));
        }
        let grown = if done { self.items.close(item)? } else { self.items.open(item)? };
        self.show(grown, live);
        Ok(())
    }

    /// Takes a part of an item at its end.
    fn part(
        &mut self,
        event: ResponseEvent<'_>,
        live: &mut DeltaFn<'_>,
    ) -> Result<(), StreamError> {
        let Some(value) = event.get("part") else { return Ok(()) };
        let (part, text) = match word(value, "type") {
            "output_text" | "text" => (TextPart::Text, word(value, "text")),
            "refusal" => (TextPart::Refusal, word(value, "refusal")),
            "summary_text" => (TextPart::Summary, word(value, "text")),
            "reasoning_text" => (TextPart::Thought, word(value, "text")),
            _ => return Ok(()),
        };
        self.whole(event, part, text, live)
    }

    /// Takes a piece of a text, or a text at its end.
    fn text(
        &mut self,
        event: ResponseEvent<'_>,
        live: &mut DeltaFn<'_>,
    ) -> Result<(), StreamError> {
        let Some((stem, end)) = event.kind().rsplit_once('.') else { return Ok(()) };
        let (part, field) = match stem {
            "response.output_text" => (TextPart::Text, "text"),
            "response.refusal" => (TextPart::Refusal, "refusal"),
            "response.function_call_arguments" => (TextPart::Arguments, "arguments"),
            "response.reasoning_summary_text" | "response.reasoning_summary" => {
                (TextPart::Summary, "text")
            }
            "response.reasoning_text" | "response.reasoning" => (TextPart::Thought, "text"),
            _ => return Ok(()),
        };
        let text = |field: &str| match event.get(field) {
            given if part == TextPart::Arguments => arguments::text_of(given),
            Some(Json::String(text)) => text.clone().into_owned(),
            Some(given) => word(given, "text").to_owned(),
            None => String::new(),
        };
        match end {
            "delta" => self.piece(event, part, &text("delta"), live),
            "done" => {
                if part == TextPart::Arguments {
                    self.name(event)?;
                }
                self.whole(event, part, &text(field), live)
            }
            _ => Ok(()),
        }
    }

    fn piece(
        &mut self,
        event: ResponseEvent<'_>,
        part: TextPart,
        piece: &str,
        live: &mut DeltaFn<'_>,
    ) -> Result<(), StreamError> {
        if piece.is_empty() {
            return Ok(());
        }
        let key = (part, event.part_number(part));
        let Some(item) = self.items.at(part.kind(), event.address())? else { return Ok(()) };
        let serial = item.serial;
        let shows = item.shows(part);
        let grown = item.push(key, piece, event.json.marked)?;
        self.moves += 1;
        if shows {
            self.shown.add(serial, key, grown, live);
        }
        if part == TextPart::Arguments {
            live(Delta::Call(piece.len()));
        }
        Ok(())
    }

    fn whole(
        &mut self,
        event: ResponseEvent<'_>,
        part: TextPart,
        text: &str,
        live: &mut DeltaFn<'_>,
    ) -> Result<(), StreamError> {
        if text.is_empty() {
            return Ok(());
        }
        let key = (part, event.part_number(part));
        let Some(item) = self.items.at(part.kind(), event.address())? else { return Ok(()) };
        let serial = item.serial;
        let grown = item.settle(key, text, event.json.marked)?;
        self.show(vec![(serial, key, grown)], live);
        Ok(())
    }

    /// Takes the name of a call from the end of its arguments, where its item had none.
    fn name(&mut self, event: ResponseEvent<'_>) -> Result<(), StreamError> {
        let name = word(&event.json.value, "name").trim();
        if name.is_empty() {
            return Ok(());
        }
        let item = self.items.at(ItemKind::Call, event.address())?;
        if let Some(item) = item.filter(|item| item.name.is_empty()) {
            name.clone_into(&mut item.name);
        }
        Ok(())
    }

    fn show(&mut self, grown: Vec<TextGrowth>, live: &mut DeltaFn<'_>) {
        self.moves += u64::from(grown.iter().any(|(_, _, text)| !text.is_empty()));
        for (serial, key, text) in grown {
            if self.items.shows(serial, key.0) {
                self.shown.add(serial, key, &text, live);
            }
        }
    }
}

impl EventParser for ResponsesParser {
    const API: &'static str = crate::stream::OPENAI_RESPONSES;

    fn event(
        &mut self,
        event: SseEvent<'_>,
        live: &mut DeltaFn<'_>,
    ) -> Result<StreamStatus, StreamError> {
        if event.name == "error" {
            return Err(StreamError::Server(ServerError::of_event(event.data)));
        }
        self.data(event, live)
    }

    fn document(&mut self, text: &str, live: &mut DeltaFn<'_>) -> Result<(), StreamError> {
        self.is_document = true;
        self.data(SseEvent { name: "", data: text.trim() }, live)?;
        if !self.begun {
            return Err(ForeignBody::Other { shown: crate::line::truncate_to_line(text) }.into());
        }
        Ok(())
    }

    fn is_whole(data: &str) -> bool {
        each_line_is_whole(data, DONE) || json::parse(data).is_ok()
    }

    fn text(&self) -> &str {
        self.shown.text()
    }

    fn served_model(&self) -> &str {
        &self.model
    }

    fn held_bytes(&self) -> usize {
        self.items.held_bytes()
    }

    fn has_output(&self) -> bool {
        !self.items.are_empty()
    }

    fn moves(&self) -> u64 {
        self.moves + self.items.steps()
    }

    fn usage(&self) -> Usage {
        self.usage
    }

    fn may_end(&self) -> bool {
        self.finish.is_some()
    }

    fn background(&self) -> Option<&str> {
        self.background.as_deref().filter(|_| self.finish.is_none())
    }

    fn finish(self, ending: StreamEnd) -> Result<Reply, StreamError> {
        let Some(finish) = self.finish else {
            return Err(match self.background {
                Some(status) => StreamError::Background { status },
                None if ending.is_over() && !self.begun => StreamError::Empty,
                None => StreamError::NoEndMark,
            });
        };
        let mut reply = Reply::text(self.model, "");
        let mut refusal = String::new();
        let mut slots = Vec::new();
        for item in self.items.into_list() {
            slots.extend(append(&mut reply, &mut refusal, item));
        }
        let cut = self.limit.is_some_and(|limit| self.usage.output >= limit.max(1));
        reply.finish = match finish {
            _ if !refusal.is_empty() => Finish::Refused,
            Finish::Stop if cut => Finish::Length,
            finish => finish,
        };
        if reply.text.is_empty() {
            reply.text = refusal;
        }
        reply.opaque = to_opaque(slots);
        reply.usage = self.usage;
        Ok(reply)
    }
}

/// Adds an item to a reply; gives its place in the order, if it has one.
fn append(reply: &mut Reply, refusal: &mut String, mut item: PartialItem) -> Option<OutputSlot> {
    match item.kind {
        ItemKind::Message => {
            refusal.push_str(&item.take_text(TextPart::Refusal, ""));
            let text = item.take_text(TextPart::Text, "");
            join(&mut reply.text, &text);
            let chars = text.chars().count();
            (chars > 0).then_some(OutputSlot::Text { chars, phase: item.phase })
        }
        ItemKind::Call => {
            let arguments = mended(&item.take_text(TextPart::Arguments, ""));
            reply.calls.push(RawCall { name: item.name, arguments });
            Some(OutputSlot::Calls(1))
        }
        ItemKind::Reasoning => {
            join(&mut reply.reasoning, &item.take_reasoning());
            item.raw.map(OutputSlot::Item)
        }
        ItemKind::Other => item.raw.map(OutputSlot::Item),
    }
}

fn join(whole: &mut String, text: &str) {
    if !whole.is_empty() && !text.is_empty() {
        whole.push_str(BETWEEN);
    }
    whole.push_str(text);
}

fn read_usage(usage: &Json<'_>) -> Usage {
    let number = |value: Option<&Json<'_>>| value.and_then(Json::as_u64);
    let either = |names: [&str; 2]| names.into_iter().find_map(|name| number(usage.get(name)));
    let within = |names: [&str; 2], key: &str| {
        let mut groups = names.into_iter().filter_map(|name| usage.get(name));
        groups.find_map(|group| number(group.get(key))).unwrap_or(0)
    };
    Usage {
        input: either(["input_tokens", "prompt_tokens"]).unwrap_or(0),
        cached: within(["input_tokens_details", "prompt_tokens_details"], "cached_tokens"),
        cache_write: within(
            ["input_tokens_details", "prompt_tokens_details"],
            "cache_write_tokens",
        ),
        output: either(["output_tokens", "completion_tokens"]).unwrap_or(0),
        reasoning: within(
            ["output_tokens_details", "completion_tokens_details"],
            "reasoning_tokens",
        ),
        context_input: None,
    }
}
