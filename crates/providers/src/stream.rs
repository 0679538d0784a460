//! A reply as it arrives: bytes in pieces of any size on one side, the reply or what is wrong
//! with it on the other. No IO here, and no clock.

use deputize_core::model::{Delta, Reply, Usage};

use crate::json::{self, Json};
use crate::limits::{ERROR_BODY_BYTES, ReplyLimit};
use crate::line::{page_title, truncate_to_line};
use crate::sse::{SseDecoder, SseEvent};
use crate::stream_error::{ForeignBody, ReplyTooLarge, StreamError};
use crate::stream_status::{StreamEnd, StreamStatus};

/// Gets the pieces of a reply while they arrive.
pub(crate) type DeltaFn<'l> = dyn FnMut(Delta<'_>) + Send + 'l;

/// What a wire format makes of events.
pub(crate) trait EventParser {
    /// The configuration's word for it.
    const API: &'static str;

    /// Takes one event of a stream.
    fn event(
        &mut self,
        event: SseEvent<'_>,
        live: &mut DeltaFn<'_>,
    ) -> Result<StreamStatus, StreamError>;

    /// Takes a reply that came as one document.
    fn document(&mut self, text: &str, live: &mut DeltaFn<'_>) -> Result<(), StreamError>;

    /// Whether data without an event's end is one all the same.
    fn is_whole(data: &str) -> bool {
        json::parse(data).is_ok()
    }

    /// The answer's text so far.
    fn text(&self) -> &str;

    /// The model, as it calls itself once it has said so.
    fn served_model(&self) -> &str;

    /// About how many bytes it holds of the reply.
    fn held_bytes(&self) -> usize;

    /// Whether anything of a reply has arrived.
    fn has_output(&self) -> bool;

    /// Returns a counter of progress. An event without content (a ping, an empty delta) does not
    /// count.
    fn moves(&self) -> u64;

    /// The tokens that were counted so far.
    fn usage(&self) -> Usage;

    /// Whether the reply is complete when nothing more of it comes.
    fn may_end(&self) -> bool;

    /// The last status of a reply that the server goes on making though nobody reads it, until it
    /// is complete.
    fn background(&self) -> Option<&str> {
        None
    }

    /// The reply, if it is complete.
    fn finish(self, ending: StreamEnd) -> Result<Reply, StreamError>;
}

/// What a body turned out to be; the content type is not asked, because servers lie in it.
#[derive(Debug)]
enum BodyState {
    /// Only space and perhaps a byte order mark until now.
    Unknown(Vec<u8>),
    Events(SseDecoder),
    Document(Vec<u8>),
    Page(Vec<u8>),
}

/// A reply that is arriving in some wire format.
#[derive(Debug)]
pub(crate) struct ReplyBytes<P> {
    parser: P,
    body: BodyState,
    limit: ReplyLimit,
    received: usize,
    /// Bytes of events since it was looked how much is held, which takes a while.
    unmeasured: usize,
    /// Bytes of a body that is no stream, without space: servers send that to keep a connection.
    solid: u64,
    /// What it looks like, when that is another API and nothing of it was understood.
    other_api: Option<&'static str>,
}

impl<P: EventParser> ReplyBytes<P> {
    pub(crate) fn new(parser: P) -> Self {
        let body = BodyState::Unknown(Vec::new());
        let limit = ReplyLimit::default();
        Self { parser, body, limit, received: 0, unmeasured: 0, solid: 0, other_api: None }
    }

    /// The same with another limit.
    pub(crate) fn within(self, limit: ReplyLimit) -> Self {
        Self { limit, ..self }
    }

    pub(crate) fn parser(&self) -> &P {
        &self.parser
    }

    /// Returns the amount of progress so far.
    pub(crate) fn life(&self) -> u64 {
        match &self.body {
            BodyState::Unknown(_) => 0,
            BodyState::Events(_) => self.parser.moves(),
            BodyState::Document(_) | BodyState::Page(_) => self.solid,
        }
    }

    /// Takes the next bytes.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        live: &mut DeltaFn<'_>,
    ) -> Result<StreamStatus, StreamError> {
        self.received += bytes.len();
        let limit = self.limit.body_bytes();
        if self.received > limit {
            return Err(body_too_long(limit, self.received, self.limit.body_rule()));
        }
        let BodyState::Unknown(head) = &mut self.body else { return self.read_bytes(bytes, live) };
        let Some((body, head)) = recognise(head, bytes, &self.limit) else {
            return Ok(StreamStatus::More);
        };
        self.body = body;
        self.read_bytes(&head, live)
    }

    fn read_bytes(
        &mut self,
        bytes: &[u8],
        live: &mut DeltaFn<'_>,
    ) -> Result<StreamStatus, StreamError> {
        if matches!(self.body, BodyState::Document(_) | BodyState::Page(_)) {
            let solid = bytes.iter().filter(|byte| !byte.is_ascii_whitespace()).count();
            self.solid += solid as u64;
        }
        match &mut self.body {
            BodyState::Unknown(_) => Ok(StreamStatus::More),
            BodyState::Events(decoder) => {
                let parser = &mut self.parser;
                let other_api = &mut self.other_api;
                let unmeasured = &mut self.unmeasured;
                let limit = &self.limit;
                decoder.feed(bytes, &mut |event| {
                    *unmeasured += event.data.len();
                    let flow = parser.event(event, live)?;
                    if parser.moves() == 0 && other_api.is_none() {
                        *other_api = other_than(P::API, event.data);
                    }
                    if *unmeasured >= MEASURE_EVERY {
                        *unmeasured = 0;
                        check_limit(parser, limit)?;
                    }
                    Ok(flow)
                })
            }
            BodyState::Document(document) => {
                document.extend_from_slice(bytes);
                let found = document.len();
                let limit = self.limit.document_bytes();
                if found > limit {
                    return Err(body_too_long(limit, found, self.limit.document_rule()));
                }
                Ok(StreamStatus::More)
            }
            BodyState::Page(page) => {
                // Not all that is at hand: what is told must not depend on how much that is.
                let room = (ERROR_BODY_BYTES + 1).saturating_sub(page.len());
                page.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
                if page.len() > ERROR_BODY_BYTES {
                    Err(page_error(page))
                } else {
                    Ok(StreamStatus::More)
                }
            }
        }
    }

    /// There are no more bytes: what was still waiting for an end is looked at.
    pub(crate) fn end(&mut self, live: &mut DeltaFn<'_>) -> Result<(), StreamError> {
        match &mut self.body {
            BodyState::Unknown(_) => Ok(()),
            BodyState::Events(decoder) => {
                let parser = &mut self.parser;
                decoder.end(&mut |event| parser.event(event, live), P::is_whole).map(|_| ())
            }
            BodyState::Document(document) => {
                let document = std::mem::take(document);
                let text = String::from_utf8_lossy(&document);
                self.parser.document(&text, live).map_err(|error| match error {
                    StreamError::NotAReply(ForeignBody::Other { .. }) => {
                        let api = other_than(P::API, &text);
                        api.map_or(error, |api| ForeignBody::OtherApi { api }.into())
                    }
                    error => error.of_document(),
                })
            }
            BodyState::Page(page) => Err(page_error(page)),
        }
    }

    /// The reply, if it is complete.
    pub(crate) fn finish(self, ending: StreamEnd) -> Result<Reply, StreamError> {
        let Self { parser, other_api, body, limit, .. } = self;
        check_limit(&parser, &limit)?;
        let (is_cut, text) = match &body {
            BodyState::Events(decoder) => (decoder.is_cut(), decoder.plain_text()),
            BodyState::Unknown(_) | BodyState::Document(_) | BodyState::Page(_) => (false, None),
        };
        parser.finish(ending).map_err(|error| match (error, other_api, text) {
            (StreamError::Empty, Some(api), _) => ForeignBody::OtherApi { api }.into(),
            (StreamError::Empty, None, _) if is_cut => StreamError::CutEvent,
            (StreamError::Empty, None, Some(text)) => {
                ForeignBody::PlainText { shown: truncate_to_line(&text) }.into()
            }
            (error, _, _) => error,
        })
    }
}

/// After how many bytes of events it is looked again how much of a reply is held.
const MEASURE_EVERY: usize = 64 * 1024;

fn check_limit(parser: &impl EventParser, limit: &ReplyLimit) -> Result<(), StreamError> {
    if parser.held_bytes() <= limit.bytes {
        return Ok(());
    }
    Err(ReplyTooLarge::Content { limit: limit.bytes, setting: limit.named() }.into())
}

fn body_too_long(limit: usize, found: usize, setting: String) -> StreamError {
    ReplyTooLarge::Body { limit, found, setting }.into()
}

pub(crate) const OPENAI_CHAT: &str = "openai-chat";
pub(crate) const OPENAI_RESPONSES: &str = "openai-responses";
pub(crate) const ANTHROPIC_MESSAGES: &str = "anthropic-messages";

/// Returns the other API that a text belongs to, judged by what only that API sends.
fn other_than(own: &str, text: &str) -> Option<&'static str> {
    const EVENTS: [&str; 5] = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "message_delta",
        "message_stop",
    ];
    let value = json::parse(text).ok()?.value;
    let word = |key: &str| value.get(key).and_then(Json::as_str).unwrap_or_default();
    let has_list = |key: &str| value.get(key).is_some_and(Json::is_array);
    let kind = word("type");
    let api = if has_list("choices") {
        OPENAI_CHAT
    } else if kind.starts_with("response.") || word("object") == "response" {
        OPENAI_RESPONSES
    } else if EVENTS.contains(&kind) || (kind == "message" && has_list("content")) {
        ANTHROPIC_MESSAGES
    } else {
        return None;
    };
    (api != own).then_some(api)
}

/// Whether each line is a JSON text or the mark `done`: from servers that forget what stands
/// between events.
pub(crate) fn each_line_is_whole(data: &str, done: &str) -> bool {
    let mut lines = data.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.all(|line| line == done || json::parse(line).is_ok())
}

fn page_error(page: &[u8]) -> StreamError {
    // What gateways say of a server that is away for now. Other pages, such as one to sign in, stay.
    const PASSING: [&str; 7] =
        ["502", "503", "504", "gateway", "unavailable", "overloaded", "maintenance"];
    let shown = page_title(&String::from_utf8_lossy(page));
    let title = shown.to_ascii_lowercase();
    if PASSING.iter().any(|word| title.contains(word)) {
        ForeignBody::GatewayPage { shown }.into()
    } else {
        ForeignBody::Other { shown }.into()
    }
}

/// Looks at the first bytes that are neither space nor byte order marks; gives the bytes that belong to the body.
fn recognise(head: &mut Vec<u8>, bytes: &[u8], limit: &ReplyLimit) -> Option<(BodyState, Vec<u8>)> {
    const BOM: &[u8] = b"\xEF\xBB\xBF";
    head.extend_from_slice(bytes);
    let mut rest = head.as_slice();
    loop {
        let next = rest.trim_ascii_start();
        let next = next.strip_prefix(BOM).unwrap_or(next);
        if next.len() == rest.len() {
            break;
        }
        rest = next;
    }
    let blank = head.len() - rest.len();
    head.drain(..blank);
    if BOM.starts_with(head) {
        return None;
    }
    let body = match head.first()? {
        b'{' | b'[' => BodyState::Document(Vec::new()),
        b'<' => BodyState::Page(Vec::new()),
        _ => BodyState::Events(SseDecoder::new(limit.clone())),
    };
    Some((body, std::mem::take(head)))
}
/// Makes `ReplyStream` of a wire's parser, which is no type that others see.
macro_rules! reply_stream {
    ($(#[$doc:meta])* $parser:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct ReplyStream(ReplyBytes<$parser>);

        impl ReplyStream {
            /// Creates the stream of a reply of this model, unless the reply names another.
            #[must_use]
            pub fn new(model: &str) -> Self {
                Self(ReplyBytes::new($parser::new(model)))
            }

            /// Returns the same with another limit on the reply.
            #[must_use]
            pub fn within(self, limit: crate::limits::ReplyLimit) -> Self {
                Self(self.0.within(limit))
            }

            /// Takes the next bytes, in pieces of any size.
            ///
            /// # Errors
            /// When the reply cannot become a whole one any more.
            pub fn feed(
                &mut self,
                bytes: &[u8],
                live: &mut (dyn FnMut(Delta<'_>) + Send),
            ) -> Result<StreamStatus, StreamError> {
                self.0.feed(bytes, live)
            }

            /// Returns the answer's text so far.
            #[must_use]
            pub fn text(&self) -> &str {
                self.0.parser().text()
            }

            /// Returns the reply, after the last bytes.
            ///
            /// # Errors
            /// When it is not complete.
            pub fn finish(
                mut self,
                ending: StreamEnd,
                live: &mut (dyn FnMut(Delta<'_>) + Send),
            ) -> Result<Reply, StreamError> {
                self.0.end(live)?;
                self.0.finish(ending)
            }
        }
    };
}
pub(crate) use reply_stream;
