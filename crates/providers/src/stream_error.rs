//! Why the bytes of a reply are none.

use deputize_core::model::FailureKind;

use crate::json::JsonError;
use crate::limits::{CALLS, ITEMS, JSON_DEPTH, JSON_VALUES, PARTS};
use crate::line::truncate_to_line;
use crate::server_error::ServerError;

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
    /// It is something else.
    #[error(transparent)]
    NotAReply(#[from] ForeignBody),
    /// It is larger than a limit allows.
    #[error(transparent)]
    TooLarge(#[from] ReplyTooLarge),
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
        /// Underlying error.
        #[source]
        source: serde_json::Error,
    },
    /// The server reported a failure inside the reply.
    #[error("{0}")]
    Server(ServerError),
    /// One event is no JSON.
    #[error("an event of the stream is not JSON: {shown}")]
    NotJson {
        /// The beginning of it.
        shown: String,
        /// Underlying error.
        #[source]
        source: serde_json::Error,
    },
}

/// A body that is something else than a reply.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForeignBody {
    /// It is bare text.
    #[error("the answer is text, not a model's reply: {shown}; check base_url")]
    PlainText {
        /// The beginning of it.
        shown: String,
    },
    /// It is some other document.
    #[error("the answer is not a model's reply: {shown}; check base_url")]
    Other {
        /// What it is, or its beginning.
        shown: String,
    },
    /// It is the page of a gateway, of a trouble that passes.
    #[error("the answer is {shown}, not a model's reply")]
    GatewayPage {
        /// The page.
        shown: String,
    },
    /// It is of another API than the one that was asked for.
    #[error(
        "the answer is not a reply of this API; it looks like {api}: choose {api} for this provider"
    )]
    OtherApi {
        /// The API that it looks like, such as `openai-chat`.
        api: &'static str,
    },
}

/// A limit that a reply exceeds.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyTooLarge {
    /// One event is too long.
    #[error("an event of the stream has {found} bytes or more; the limit is {limit}{setting}")]
    Event {
        /// Limit in bytes.
        limit: usize,
        /// What had arrived.
        found: usize,
        /// Which setting changes it, in brackets, or nothing.
        setting: String,
    },
    /// The whole body is too long.
    #[error("the reply has {found} bytes or more; the limit is {limit}{setting}")]
    Body {
        /// Limit in bytes.
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
    Content {
        /// Limit in bytes.
        limit: usize,
        /// Which setting changes it, in brackets, or nothing.
        setting: String,
    },
    /// JSON is nested too deeply.
    #[error("JSON of the reply is nested {JSON_DEPTH} levels or more; the limit is below that")]
    Depth,
    /// JSON has too many parts.
    #[error("JSON of one event has {JSON_VALUES} values or more; the limit is below that")]
    Values,
    /// Too many calls.
    #[error("the reply asks for more than {CALLS} calls, which is the limit")]
    Calls,
    /// Too many parts of other kinds.
    #[error(
        "the reply has more than {ITEMS} items, or one of more than {PARTS} parts; those are the \
         limits"
    )]
    Items,
}

impl StreamError {
    /// Returns the kind of failure. `output` is whether any of the reply had arrived.
    #[must_use]
    pub fn kind(&self, output: bool) -> FailureKind {
        match self {
            Self::Empty
            | Self::CutEvent
            | Self::NoChoices
            | Self::NotAReply(ForeignBody::PlainText { .. } | ForeignBody::GatewayPage { .. }) => {
                FailureKind::Transient
            }
            Self::NoEndMark | Self::NotJson { .. } | Self::Document { .. } => {
                FailureKind::Incomplete
            }
            Self::Background { .. } => FailureKind::Fatal,
            Self::Server(error) => match error.kind() {
                FailureKind::Transient if output => FailureKind::Incomplete,
                kind => kind,
            },
            // The request was taken, but what comes back is of no use: another model may be asked.
            Self::NotAReply(ForeignBody::Other { .. } | ForeignBody::OtherApi { .. })
            | Self::TooLarge(_) => FailureKind::Unavailable,
        }
    }

    /// The error for a text that is no JSON that we take.
    pub(crate) fn of_json(error: JsonError, text: &str) -> Self {
        match error {
            JsonError::TooDeep => ReplyTooLarge::Depth.into(),
            JsonError::TooManyValues => ReplyTooLarge::Values.into(),
            JsonError::Syntax(source) => Self::NotJson { shown: truncate_to_line(text), source },
        }
    }

    /// The same of a body that is one JSON text: it has no events.
    pub(crate) fn of_document(self) -> Self {
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
