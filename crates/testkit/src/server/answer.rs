//! What the server does with one request.

use std::time::Duration;

use deputize_core::Reply;
use serde_json::{Value, json};

use crate::barrier::Barrier;
use crate::chat_sse::chat_sse;

/// How a body comes to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyEnd {
    /// As HTTP has it: the last chunk, and the connection stays.
    InOrder,
    /// Without the last chunk: the connection is closed inside the body.
    Cut,
    /// The connection is reset.
    Reset,
    /// The body has no length and ends with the connection, which tells nobody whether it is
    /// whole.
    WithConnection,
}

/// An answer of the [`MockServer`](crate::MockServer): a status, headers and a body, and how
/// badly it is delivered.
///
/// ```
/// use deputize_core::Reply;
/// use deputize_testkit::MockAnswer;
/// let slow = MockAnswer::error(503, "loading").header("retry-after", "1");
/// let cut = MockAnswer::reply(&Reply::text("m", "A long answer.")).pieces(7).cut_at(150);
/// # let _ = (slow, cut);
/// ```
#[derive(Debug, Clone)]
pub struct MockAnswer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    pub(super) pieces: usize,
    pub(super) latency: Duration,
    pub(super) held: Option<Barrier>,
    pub(super) stall: Option<(usize, Barrier)>,
    pub(super) forever: Option<(Vec<u8>, Duration)>,
    pub(super) end: BodyEnd,
}

impl MockAnswer {
    /// A body of some content type, with status 200.
    #[must_use]
    pub fn body(content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: 200,
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            body: body.into(),
            pieces: usize::MAX,
            latency: Duration::ZERO,
            held: None,
            stall: None,
            forever: None,
            end: BodyEnd::InOrder,
        }
    }

    /// An event stream, byte for byte.
    #[must_use]
    pub fn sse(body: impl Into<Vec<u8>>) -> Self {
        Self::body("text/event-stream", body)
    }

    /// A reply, streamed; see [`chat_sse`].
    #[must_use]
    pub fn reply(reply: &Reply) -> Self {
        Self::sse(chat_sse(reply))
    }

    /// A JSON document.
    #[must_use]
    pub fn json(value: &Value) -> Self {
        Self::body("application/json", value.to_string())
    }

    /// A failure as such servers tell it.
    #[must_use]
    pub fn error(status: u16, message: &str) -> Self {
        Self::json(&json!({"error": {"message": message}})).status(status)
    }

    /// The same with another status.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// The same with a header more; one of the same name is replaced.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The body in pieces of so many bytes.
    #[must_use]
    pub fn pieces(mut self, bytes: usize) -> Self {
        self.pieces = bytes.max(1);
        self
    }

    /// Nothing is sent before this time has passed.
    #[must_use]
    pub fn after(mut self, latency: Duration) -> Self {
        self.latency = latency;
        self
    }

    /// Nothing is sent before the gate lets it through.
    #[must_use]
    pub fn held_by(mut self, gate: &Barrier) -> Self {
        self.held = Some(gate.clone());
        self
    }

    /// So many bytes of the body are sent, and the connection is closed inside it.
    #[must_use]
    pub fn cut_at(self, bytes: usize) -> Self {
        Self { end: BodyEnd::Cut, ..self.ending_at(bytes) }
    }

    /// So many bytes of the body are sent, and the connection is reset.
    #[must_use]
    pub fn reset_at(self, bytes: usize) -> Self {
        Self { end: BodyEnd::Reset, ..self.ending_at(bytes) }
    }

    /// So many bytes of the body are sent, and all looks as if that were all.
    #[must_use]
    pub fn ending_at(mut self, bytes: usize) -> Self {
        self.body.truncate(bytes);
        self
    }

    /// Whether it goes out in one piece, as HTTP has it.
    pub(super) fn is_plain(&self) -> bool {
        let whole = self.pieces >= self.body.len() && self.end == BodyEnd::InOrder;
        whole && self.stall.is_none() && self.forever.is_none()
    }

    /// The body has no length and ends with the connection.
    #[must_use]
    pub fn ending_with_connection(mut self) -> Self {
        self.end = BodyEnd::WithConnection;
        self
    }

    /// So many bytes of the body are sent, the rest when the gate lets it through.
    #[must_use]
    pub fn stall_at(mut self, bytes: usize, gate: &Barrier) -> Self {
        self.stall = Some((bytes, gate.clone()));
        self
    }

    /// After the body the same bytes again and again, with a pause before each, until the
    /// client leaves.
    #[must_use]
    pub fn then_forever(mut self, bytes: impl Into<Vec<u8>>, pause: Duration) -> Self {
        self.forever = Some((bytes.into(), pause));
        self
    }
}
