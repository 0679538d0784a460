//! Failed attempts of a request.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Usage, is_zero};

/// The kind of a failed attempt, which determines what happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// Failed before any output; worth another attempt.
    Transient,
    /// Broke off, so nothing of it is final; worth another attempt.
    Incomplete,
    /// The conversation is too long for the model.
    ContextOverflow,
    /// The provider cannot be used: key, quota, model name, wrong kind of server at the address.
    Unavailable,
    /// The request or the reply is invalid.
    Fatal,
    /// Cancelled by this program.
    Cancelled,
}

/// Maximum bytes stored of a failed attempt's text: its beginning and its end.
pub const PARTIAL_BYTES: usize = 256 * 1024;

/// Room in [`PARTIAL_BYTES`] for the note on how much was left out.
const LEFT_OUT_NOTE: usize = 128;
/// Bytes around a cut that are searched for a word boundary, so that no word is cut in half.
const WORD: usize = 1024;

/// Returns the stored part of a failed attempt's text and the number of bytes left out. For a long
/// text this is its beginning and end, with a note on the omission between them.
///
/// ```
/// use deputize_core::model::{PARTIAL_BYTES, bounded_partial};
///
/// assert_eq!(bounded_partial("so it"), ("so it".to_owned(), 0));
/// let (kept, left_out) = bounded_partial(&"so it goes ".repeat(1_000_000));
/// assert!(kept.len() <= PARTIAL_BYTES && left_out > 10_000_000);
/// ```
#[must_use]
pub fn bounded_partial(text: &str) -> (String, u64) {
    if text.len() <= PARTIAL_BYTES {
        return (text.to_owned(), 0);
    }
    let half = (PARTIAL_BYTES - LEFT_OUT_NOTE) / 2;
    let (head, rest) = text.split_at(text.floor_char_boundary(half));
    let (middle, tail) = rest.split_at(rest.ceil_char_boundary(rest.len() - half));
    let from = head.ceil_char_boundary(head.len().saturating_sub(WORD));
    let cut = head.get(from..).and_then(|end| end.rfind(char::is_whitespace));
    let head = cut.and_then(|cut| head.get(..from + cut)).unwrap_or(head);
    let to = tail.floor_char_boundary(WORD);
    let cut = tail.get(..to).and_then(|begin| begin.find(char::is_whitespace));
    let tail = cut.and_then(|cut| tail.get(cut..)).unwrap_or(tail);
    debug_assert!(!middle.is_empty(), "the halves do not meet");
    let left_out = (text.len() - head.len() - tail.len()) as u64;
    (
        format!("{head}\n[{left_out} bytes of an answer that broke off are left out]\n{tail}"),
        left_out,
    )
}

/// A failed attempt. Its message is for the operator and never contains a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct ModelError {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The HTTP status, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What went wrong, with provider and model, and what to do. Of the last failure of a request
    /// it says how often that was sent, and if several models were tried it has a line for each.
    pub message: String,
    /// The message without the numbers of attempts, the same for all agents whose requests failed
    /// for one reason; `None` if it has no such numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The wait that the provider asks for, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Text that had arrived before the failure.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub partial: String,
    /// The model that served that text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub served: String,
    /// Bytes left out of that text, see [`PARTIAL_BYTES`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub partial_left_out: u64,
    /// Usage of the attempt: as the provider counted it, or an estimate if it began to answer and
    /// counted nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Box<Usage>>,
    /// Whether the usage is an estimate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// Whether the next attempt uses another key, so that no wait is needed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub other_key: bool,
    /// Upper bound on the attempts of this request, if the failure shows that more are useless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_attempts: Option<u32>,
    /// Whether the model made the mistake, such as a call that its server cannot parse or a reply
    /// above a limit: the provider works, and another model may do better.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub model_mistake: bool,
}

impl ModelError {
    /// Creates an error of a kind, without further details.
    #[must_use]
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            status: None,
            message: message.into(),
            cause: None,
            retry_after_ms: None,
            partial: String::new(),
            served: String::new(),
            partial_left_out: 0,
            usage: None,
            estimated: false,
            other_key: false,
            most_attempts: None,
            model_mistake: false,
        }
    }

    /// Cuts its text to [`PARTIAL_BYTES`].
    #[must_use]
    pub fn limit_text(mut self) -> Self {
        if self.partial.len() > PARTIAL_BYTES {
            let before = self.partial_left_out;
            (self.partial, self.partial_left_out) = bounded_partial(&self.partial);
            self.partial_left_out = self.partial_left_out.saturating_add(before);
        }
        self
    }

    /// Returns the number of bytes of text that had arrived, including those left out.
    #[must_use]
    pub const fn partial_bytes(&self) -> u64 {
        (self.partial.len() as u64).saturating_add(self.partial_left_out)
    }

    /// Returns the wait that the provider asks for.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_ms.map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_text_of_a_failed_attempt_the_beginning_and_the_end_are_kept() {
        let error = || ModelError::new(FailureKind::Incomplete, "x");
        for (unit, most) in [("word wörd ", 1100), ("ö", 2), ("€x", 4)] {
            let text = unit.repeat(400_000);
            let kept = ModelError { partial: text.clone(), ..error() }.limit_text();
            assert!(kept.partial.len() <= PARTIAL_BYTES, "{}", kept.partial.len());
            let (head, rest) = kept.partial.split_once("\n[").unwrap();
            let (note, tail) = rest.split_once("]\n").unwrap();
            assert!(text.starts_with(head) && text.ends_with(tail), "{unit}");
            let whole = head.len() + tail.len() + usize::try_from(kept.partial_left_out).unwrap();
            assert_eq!(whole, text.len());
            assert!(note.starts_with(&format!("{} bytes", kept.partial_left_out)), "{note}");
            assert!(PARTIAL_BYTES - head.len() - tail.len() < LEFT_OUT_NOTE + 2 * most, "{unit}");
            assert_eq!(kept.clone().limit_text(), kept);
            assert_eq!(bounded_partial(&text), (kept.partial, kept.partial_left_out));
        }
        let short = "s".repeat(PARTIAL_BYTES);
        assert_eq!(bounded_partial(&short), (short, 0));
    }
}
