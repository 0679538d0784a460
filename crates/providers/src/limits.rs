//! What a provider may make us hold, whatever it sends.

use std::time::Duration;

/// Upper bound on the text, reasoning and calls of one reply.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReplyLimit {
    /// Limit in bytes.
    pub bytes: usize,
    /// The setting that changes it, as errors name it; empty: errors name none.
    pub setting: String,
}

impl Default for ReplyLimit {
    fn default() -> Self {
        Self { bytes: CONTENT_BYTES, setting: String::new() }
    }
}

impl ReplyLimit {
    /// Returns the upper bound on the bytes of one event of a stream: a whole reply may come in one,
    /// and JSON may write each byte as two.
    pub(crate) fn event_bytes(&self) -> usize {
        EVENT_BYTES.max(self.bytes.saturating_mul(2))
    }

    /// Returns the upper bound on the bytes of a reply that comes as one JSON document.
    pub(crate) fn document_bytes(&self) -> usize {
        DOCUMENT_BYTES.max(self.bytes.saturating_mul(2))
    }

    /// Returns the upper bound on the bytes of a reply on the wire.
    pub(crate) fn body_bytes(&self) -> usize {
        BODY_BYTES.max(self.bytes.saturating_mul(BODY_BYTES / CONTENT_BYTES))
    }

    /// Returns the setting in brackets, as errors end with it; empty if there is none.
    pub(crate) fn named(&self) -> String {
        match self.setting.as_str() {
            "" => String::new(),
            setting => format!(" ({setting})"),
        }
    }

    /// Returns in brackets how the limit of an event follows from the setting; empty if there is none.
    pub(crate) fn event_rule(&self) -> String {
        self.rule("twice", EVENT_BYTES)
    }

    /// Returns in brackets how the limit of a JSON document follows from the setting; empty if there
    /// is none.
    pub(crate) fn document_rule(&self) -> String {
        self.rule("twice", DOCUMENT_BYTES)
    }

    /// Returns in brackets how the limit of a body follows from the setting; empty if there is none.
    pub(crate) fn body_rule(&self) -> String {
        self.rule("eight times", BODY_BYTES)
    }

    fn rule(&self, times: &str, least: usize) -> String {
        match self.setting.as_str() {
            "" => String::new(),
            setting => format!(" ({times} {setting}, and {least} at least)"),
        }
    }
}

/// Bytes of one event of a stream at least, however small [`ReplyLimit`] is.
pub const EVENT_BYTES: usize = 1024 * 1024;
/// Bytes of one reply on the wire, unless [`ReplyLimit`] allows more.
pub const BODY_BYTES: usize = 32 * 1024 * 1024;
/// Bytes of text, reasoning and calls of one reply, unless [`ReplyLimit`] says otherwise: ten times
/// what any model says at once. Of a reply that is whole there are copies on its way to the record
/// and the screen.
pub const CONTENT_BYTES: usize = 4 * 1024 * 1024;
/// Bytes that are kept of a call that the server itself could not read.
pub const UNREADABLE_CALL_BYTES: usize = 4 * 1024;
/// Bytes that are read of the body of a failed answer that holds such a call.
pub const UNREADABLE_CALL_BODY_BYTES: usize = 256 * 1024;
/// Bytes of a reply that comes as one JSON document instead of a stream, unless [`ReplyLimit`]
/// allows more.
pub const DOCUMENT_BYTES: usize = 8 * 1024 * 1024;
/// Nesting of one JSON text, which must stay below this.
pub const JSON_DEPTH: usize = 128;
/// Values (objects, arrays, texts, numbers …) of one JSON text.
pub const JSON_VALUES: usize = 50_000;
/// Calls of one reply.
pub const CALLS: usize = 128;
/// Output items of one reply, of whatever kind.
pub const ITEMS: usize = 1024;
/// Texts of one output item.
pub const PARTS: usize = 1024;
/// Bytes that are read of the body of a failed answer.
pub const ERROR_BODY_BYTES: usize = 8 * 1024;
/// Characters of a server's own words in an error.
pub const SHOWN_CHARS: usize = 500;
/// Time limit for a server to close a stream after the finish reason.
pub const AFTER_FINISH: Duration = Duration::from_secs(5);
/// Time limit for the end of a body after the end mark, so that the connection can be reused.
pub const AFTER_DONE: Duration = Duration::from_millis(200);
/// Rest of a rate-limited key, if the provider does not say.
pub const KEY_REST: Duration = Duration::from_secs(60);
/// Minimum rest of a rate-limited key, whatever the provider says.
pub const LEAST_REST: Duration = Duration::from_millis(500);
/// How soon after a request the close of a kept connection is taken for the end that the request
/// met. A server that closes later had begun to work on it.
pub const AT_ONCE: Duration = Duration::from_millis(50);
/// Time without kept connections to a server that broke one it had promised to keep.
pub const DISTRUST: Duration = Duration::from_secs(300);
