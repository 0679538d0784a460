//! A reply as it arrives: bytes in pieces of any size on one side, the reply or what is wrong
//! with it on the other. No IO here, and no clock.

use deputize_core::model::{Delta, FailureKind, Reply, Usage};
use serde_json::Value;

use crate::json::{self, JsonError};
use crate::limits::{CALLS, ERROR_BODY_BYTES, ITEMS, JSON_DEPTH, JSON_VALUES, PARTS, ReplyLimit};
use crate::line::{page_title, shown};
use crate::server_error::ServerError;
use crate::sse::{SseDecoder, SseEvent};

/// Gets the pieces of a reply while they arrive.
pub(crate) type DeltaFn<'l> = dyn FnMut(Delta<'_>) + Send + 'l;

/// Whether more bytes are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamStatus {
    /// Yes.
    More,
    /// No: the end mark was seen.
    Done,
}

/// How the bytes of a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// The body was over, as the transport frames it: by its length or its last chunk.
    InOrder,
    /// The connection was closed, and the body had no other end: it may be whole or cut.
    Closed,
    /// Nothing came any more.
    Silent,
    /// The connection broke inside the body.
    Broken,
}

impl StreamEnd {
    /// Whether the transport says that there was no more.
    pub(crate) fn is_over(self) -> bool {
        matches!(self, Self::InOrder | Self::Closed)
    }
}

/// Why bytes are no reply.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// It stopped before the format's end mark.
    #[error("stream ended without an end mark")]
    NoEndMark,
    /// There was nothing in it.
    #[error("the reply is empty")]
    Empty,
    /// It ended inside an event, and there was nothing before that.
    #[error("the reply ended in the middle of an event")]
    CutEvent,
    /// There is no answer in it, though it is of this API.
    #[error("the reply has no choices")]
    NoChoices,
    /// It is bare text.
    #[error("the answer is text and no reply of a model: {shown}; check base_url")]
    PlainText {
        /// The beginning of it.
        shown: String,
    },
    /// The server works on it after it has answered.
    #[error(
        "the server works on the reply in the background (status `{status}`), which is not \
         supported: it is not asked again, because each request is paid; leave out `background`"
    )]
    Background {
        /// What it says of the reply.
        status: String,
    },
    /// The whole body is one JSON text that was cut off, or is none.
    #[error("{problem}: {shown}")]
    Document {
        /// Which of the two.
        problem: &'static str,
        /// The beginning of it.
        shown: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The server told of a failure inside the reply.
    #[error("{0}")]
    Server(ServerError),
    /// One event is no JSON.
    #[error("an event of the stream is no JSON: {shown}")]
    NotJson {
        /// The beginning of it.
        shown: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The whole body is something else.
    #[error("the answer is no reply of a model: {shown}; check base_url")]
    NotAReply {
        /// What it is, or its beginning.
        shown: String,
    },
    /// The whole body is the page of a gateway, of a trouble that passes.
    #[error("the answer is {shown}, and no reply of a model")]
    GatewayPage {
        /// The page.
        shown: String,
    },
    /// It is of another API than the one that was asked for.
    #[error("the answer is no reply of this API; it looks like {api}: set `api: {api}`")]
    OtherApi {
        /// The configuration's word for the one that it looks like.
        api: &'static str,
    },
    /// One event is too long.
    #[error("an event of the stream has {found} bytes or more; the limit is {limit}{setting}")]
    EventTooLong {
        /// The limit.
        limit: usize,
        /// What had arrived.
        found: usize,
        /// Which setting changes it, in brackets, or nothing.
        setting: String,
    },
    /// The whole body is too long.
    #[error("the reply has {found} bytes or more; the limit is {limit}{setting}")]
    BodyTooLong {
        /// The limit.
        limit: usize,
        /// What had arrived.
        found: usize,
        /// Which setting changes it, in brackets, or nothing.
        setting: String,
    },
    /// There is too much in it.
    #[error(
        "the reply holds more than {limit} bytes of text and calls, which is the limit{setting}"
    )]
    TooMuch {
        /// The limit.
        limit: usize,
        /// Which setting changes it, in brackets, or nothing.
        setting: String,
    },
    /// JSON is nested too deeply.
    #[error("JSON of the reply is nested {JSON_DEPTH} levels or more; the limit is below that")]
    TooDeep,
    /// JSON has too many parts.
    #[error("JSON of one event has {JSON_VALUES} values or more; the limit is below that")]
    TooManyValues,
    /// Too many calls.
    #[error("the reply asks for more than {CALLS} calls, which is the limit")]
    TooManyCalls,
    /// Too many parts of other kinds.
    #[error(
        "the reply has more than {ITEMS} items, or one of more than {PARTS} parts; those are the \
         limits"
    )]
    TooManyItems,
}

impl StreamError {
    /// What kind of failure it is. `output` tells whether any of the reply had arrived.
    #[must_use]
    pub fn kind(&self, output: bool) -> FailureKind {
        match self {
            Self::Empty
            | Self::CutEvent
            | Self::NoChoices
            | Self::PlainText { .. }
            | Self::GatewayPage { .. } => FailureKind::Transient,
            Self::NoEndMark | Self::NotJson { .. } | Self::Document { .. } => {
                FailureKind::Incomplete
            }
            Self::Background { .. } => FailureKind::Fatal,
            Self::Server(error) => match error.kind() {
                FailureKind::Transient if output => FailureKind::Incomplete,
                kind => kind,
            },
            // The request was taken, but what comes back is of no use: another model may be asked.
            Self::NotAReply { .. }
            | Self::OtherApi { .. }
            | Self::EventTooLong { .. }
            | Self::BodyTooLong { .. }
            | Self::TooMuch { .. }
            | Self::TooDeep
            | Self::TooManyValues
            | Self::TooManyCalls
            | Self::TooManyItems => FailureKind::Unavailable,
        }
    }

    /// The error for a text that is no JSON that we take.
    pub(crate) fn of_json(error: JsonError, text: &str) -> Self {
        match error {
            JsonError::TooDeep => Self::TooDeep,
            JsonError::TooManyValues => Self::TooManyValues,
            JsonError::Syntax(source) => Self::NotJson { shown: shown(text), source },
        }
    }

    /// The same of a body that is one JSON text: it has no events.
    fn of_document(self) -> Self {
        match self {
            Self::NotJson { shown, source } => {
                let problem =
                    if source.is_eof() { "the reply was cut off" } else { "the reply is no JSON" };
                Self::Document { problem, shown, source }
            }
            other => other,
        }
    }
}

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
    fn served(&self) -> &str;

    /// About how many bytes it holds of the reply.
    fn held(&self) -> usize;

    /// Whether anything of a reply has arrived.
    fn has_output(&self) -> bool;

    /// How often the reply moved on. An event that brings nothing (a ping, an empty delta) is
    /// no sign of life.
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
        let (body, limit) = (BodyState::Unknown(Vec::new()), ReplyLimit::default());
        Self { parser, body, limit, received: 0, unmeasured: 0, solid: 0, other_api: None }
    }

    /// The same with another limit.
    pub(crate) fn within(self, limit: ReplyLimit) -> Self {
        Self { limit, ..self }
    }

    pub(crate) fn parser(&self) -> &P {
        &self.parser
    }

    /// How much has come until now of what counts as a sign of life.
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
            return Err(body_too_long(limit, self.received, &self.limit));
        }
        let BodyState::Unknown(head) = &mut self.body else { return self.take(bytes, live) };
        let Some((body, head)) = recognise(head, bytes, &self.limit) else {
            return Ok(StreamStatus::More);
        };
        self.body = body;
        self.take(&head, live)
    }

    fn take(&mut self, bytes: &[u8], live: &mut DeltaFn<'_>) -> Result<StreamStatus, StreamError> {
        if matches!(self.body, BodyState::Document(_) | BodyState::Page(_)) {
            let solid = bytes.iter().filter(|byte| !byte.is_ascii_whitespace()).count();
            self.solid += solid as u64;
        }
        match &mut self.body {
            BodyState::Unknown(_) => Ok(StreamStatus::More),
            BodyState::Events(decoder) => {
                let (parser, other_api) = (&mut self.parser, &mut self.other_api);
                let (unmeasured, limit) = (&mut self.unmeasured, &self.limit);
                decoder.feed(bytes, &mut |event| {
                    if parser.moves() == 0 && other_api.is_none() {
                        *other_api = other_than(P::API, event.data);
                    }
                    *unmeasured += event.data.len();
                    let flow = parser.event(event, live)?;
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
                    return Err(body_too_long(limit, found, &self.limit));
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
                    StreamError::NotAReply { .. } => {
                        other_than(P::API, &text).map_or(error, |api| StreamError::OtherApi { api })
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
            (StreamError::Empty, Some(api), _) => StreamError::OtherApi { api },
            (StreamError::Empty, None, _) if is_cut => StreamError::CutEvent,
            (StreamError::Empty, None, Some(text)) => {
                StreamError::PlainText { shown: shown(&text) }
            }
            (error, _, _) => error,
        })
    }
}

/// After how many bytes of events it is looked again how much of a reply is held.
const MEASURE_EVERY: usize = 64 * 1024;

fn check_limit(parser: &impl EventParser, limit: &ReplyLimit) -> Result<(), StreamError> {
    if parser.held() <= limit.bytes {
        return Ok(());
    }
    Err(StreamError::TooMuch { limit: limit.bytes, setting: limit.named() })
}

fn body_too_long(limit: usize, found: usize, reply: &ReplyLimit) -> StreamError {
    StreamError::BodyTooLong { limit, found, setting: reply.named() }
}

pub(crate) const OPENAI_CHAT: &str = "openai-chat";
pub(crate) const OPENAI_RESPONSES: &str = "openai-responses";
pub(crate) const ANTHROPIC_MESSAGES: &str = "anthropic-messages";

/// Which API other than the one that was asked for a text looks like, told by what only that has.
fn other_than(own: &str, text: &str) -> Option<&'static str> {
    const EVENTS: [&str; 5] = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "message_delta",
        "message_stop",
    ];
    let value = json::parse(text).ok()?.value;
    let word = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let has_list = |key: &str| value.get(key).is_some_and(Value::is_array);
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
        StreamError::GatewayPage { shown }
    } else {
        StreamError::NotAReply { shown }
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
            /// For a reply of this model, unless the reply names another.
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

            /// The answer's text so far.
            #[must_use]
            pub fn text(&self) -> &str {
                self.0.parser().text()
            }

            /// The reply, after the last bytes.
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
