//! The server's answer to one request.

use std::time::Duration;

use deputize_core::model::Reply;
use serde_json::{Value, json};

use crate::barrier::Barrier;
use crate::chat_sse::chat_sse;

/// How a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyEnd {
    /// Properly: with the last chunk, and the connection stays open.
    InOrder,
    /// Without the last chunk: the connection is closed within the body.
    Cut,
    /// The connection is reset.
    Reset,
    /// The body has no length and ends with the connection, so the client cannot know whether it is
    /// complete.
    WithConnection,
}

/// An answer of the [`MockServer`](crate::MockServer): status, headers and body, and any faults in
/// its delivery.
///
/// ```
/// use deputize_core::model::Reply;
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
    /// Creates an answer with a body of this content type and status 200.
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

    /// Creates an answer with an event stream, byte for byte.
    #[must_use]
    pub fn sse(body: impl Into<Vec<u8>>) -> Self {
        Self::body("text/event-stream", body)
    }

    /// Creates an answer with a streamed reply; see [`chat_sse`].
    #[must_use]
    pub fn reply(reply: &Reply) -> Self {
        Self::sse(chat_sse(reply))
    }

    /// Creates an answer with a JSON document.
    #[must_use]
    pub fn json(value: &Value) -> Self {
        Self::body("application/json", value.to_string())
    }

    /// Creates an error in the format of such servers.
    #[must_use]
    pub fn error(status: u16, message: &str) -> Self {
        Self::json(&json!({"error": {"message": message}})).status(status)
    }

    /// Sets the status.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Adds a header, replacing one of the same name.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends the body in pieces of this many bytes.
    #[must_use]
    pub fn pieces(mut self, bytes: usize) -> Self {
        self.pieces = bytes.max(1);
        self
    }

    /// Sends nothing before this time has passed.
    #[must_use]
    pub fn after(mut self, latency: Duration) -> Self {
        self.latency = latency;
        self
    }

    /// Sends nothing before the barrier lets it through.
    #[must_use]
    pub fn held_by(mut self, gate: &Barrier) -> Self {
        self.held = Some(gate.clone());
        self
    }

    /// Closes the connection after this many bytes of the body.
    #[must_use]
    pub fn cut_at(self, bytes: usize) -> Self {
        Self { end: BodyEnd::Cut, ..self.ending_at(bytes) }
    }

    /// Resets the connection after this many bytes of the body.
    #[must_use]
    pub fn reset_at(self, bytes: usize) -> Self {
        Self { end: BodyEnd::Reset, ..self.ending_at(bytes) }
    }

    /// Ends the body after this many bytes, as if it were complete.
    #[must_use]
    pub fn ending_at(mut self, bytes: usize) -> Self {
        self.body.truncate(bytes);
        self
    }

    /// Returns whether it is sent in one piece, as regular HTTP.
    pub(super) fn is_plain(&self) -> bool {
        let whole = self.pieces >= self.body.len() && self.end == BodyEnd::InOrder;
        whole && self.stall.is_none() && self.forever.is_none()
    }

    /// Sends a body without a length, which ends with the connection.
    #[must_use]
    pub fn ending_with_connection(mut self) -> Self {
        self.end = BodyEnd::WithConnection;
        self
    }

    /// Sends this many bytes of the body, and the rest when the barrier lets it through.
    #[must_use]
    pub fn stall_at(mut self, bytes: usize, gate: &Barrier) -> Self {
        self.stall = Some((bytes, gate.clone()));
        self
    }

    /// Sends these bytes repeatedly after the body, with a pause before each, until the client
    /// disconnects.
    #[must_use]
    pub fn then_forever(mut self, bytes: impl Into<Vec<u8>>, pause: Duration) -> Self {
        self.forever = Some((bytes.into(), pause));
        self
    }
}
