//! Sanitizes foreign text on its way to the model, the terminal or a question.

use std::borrow::Cow;
use std::fmt;

use data_encoding::BASE32_NOPAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::message::ModelText;
use crate::name::{AgentId, CallId};
use crate::truncate::{truncate_chars, truncate_with_ellipsis};
use crate::wording::one_line;

mod clean;
mod mark_syntax;
mod marks;
mod secrets;

pub use crate::escape::{for_exact_line, for_question, for_verbatim_line, verbatim_start};
use crate::source::Source;
pub use clean::{CleanText, clean, clean_json, restored_json, visible_json};
pub use marks::{
    AmbiguousMark, InertText, RestoredText, glob_of_marks, has_inert_mark, pattern_of_marks,
    restore_marks, restored_whole,
};
pub use secrets::{RotatingSecrets, Secrets};

/// A session's secret, from which frame boundaries are derived so that content cannot guess them. A
/// recording stores it, so that a replay sends the same bytes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FrameSecret(String);

impl From<FrameSecret> for String {
    fn from(secret: FrameSecret) -> Self {
        secret.0
    }
}

/// A text is not a valid secret: it was changed or cut.
#[derive(Debug, thiserror::Error)]
#[error("its secret is not 32 hexadecimal digits")]
pub struct NoSecret;

impl TryFrom<String> for FrameSecret {
    type Error = NoSecret;

    fn try_from(text: String) -> Result<Self, NoSecret> {
        let is_one = data_encoding::HEXLOWER.decode(text.as_bytes()).is_ok_and(|it| it.len() == 16);
        if is_one { Ok(Self(text)) } else { Err(NoSecret) }
    }
}

impl FrameSecret {
    /// Creates a secret from random bytes.
    #[must_use]
    pub fn new(random: &[u8; 16]) -> Self {
        Self(data_encoding::HEXLOWER.encode(random))
    }
}

impl fmt::Debug for FrameSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FrameSecret(..)")
    }
}

/// Sanitizes content for the model and frames it with its source and an unguessable boundary.
///
/// ```
/// use deputize_core::sanitize::{FrameSecret, frame_for_model};
/// use deputize_core::source::Source;
/// use deputize_core::{AgentId, CallId, SessionId};
/// let secret = FrameSecret::new(&[7; 16]);
/// let agent = AgentId::root(&SessionId::literal("s"));
/// let source = Source::tool("read_file");
/// let text = frame_for_model(&secret, &agent, CallId::new(1, 0), &source, "1\u{1b}[31mred");
/// assert!(text.as_str().starts_with("<tool:read_file "));
/// assert!(text.as_str().ends_with("[1 terminal sequence removed]"));
/// ```
#[must_use]
pub fn frame_for_model(
    secret: &FrameSecret,
    agent: &AgentId,
    call: CallId,
    source: &Source,
    content: &str,
) -> ModelText {
    frame(&frame_boundary(secret, agent, call), source, content)
}

/// Returns the boundary of a call's frame: unique to each call, and the same after a resume.
#[must_use]
pub fn frame_boundary(secret: &FrameSecret, agent: &AgentId, call: CallId) -> String {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.0.as_bytes()).expect("a key of any length");
    mac.update(agent.as_str().as_bytes());
    mac.update(call.to_string().as_bytes());
    short(&mac.finalize().into_bytes())
}

/// Frames foreign text inside a prompt, where there is no call: the boundary is a hash of the text,
/// which the text cannot contain.
#[must_use]
pub fn frame_quote(source: &Source, content: &str) -> ModelText {
    frame(&short(&Sha256::digest(content.as_bytes())), source, content)
}

fn short(bytes: &[u8]) -> String {
    let mut text = BASE32_NOPAD.encode(bytes).to_ascii_lowercase();
    text.truncate(12);
    text
}

fn frame(boundary: &str, source: &Source, content: &str) -> ModelText {
    let cleaned = clean(content);
    let end = if cleaned.text.ends_with('\n') || cleaned.text.is_empty() { "" } else { "\n" };
    let mut text = format!("<{source} {boundary}>\n{}{end}</{boundary}>", cleaned.text);
    for note in cleaned.notes() {
        text.push_str("\n[");
        text.push_str(&note);
        text.push(']');
    }
    ModelText::own(text)
}

/// Removes the frame from a call's result, for display to a person. Anything that only looks like a
/// frame stays.
#[must_use]
pub fn remove_frame<'t>(
    secret: &FrameSecret,
    agent: &AgentId,
    call: CallId,
    text: &'t str,
) -> Cow<'t, str> {
    remove_frames(text, &frame_boundary(secret, agent, call))
}

/// Removes all frames with this boundary from a result, for display to a person. Anything that only
/// looks like a frame has another boundary and stays.
#[must_use]
pub fn remove_frames<'t>(text: &'t str, boundary: &str) -> Cow<'t, str> {
    let parts = |text: &str| {
        let (before, rest) = text.split_once(&format!(" {boundary}>\n"))?;
        let (before, _source) = before.rsplit_once('<')?;
        let (inside, behind) = rest.split_once(&format!("</{boundary}>"))?;
        Some(format!("{before}{inside}{}", behind.trim_start_matches('\n')))
    };
    let mut text = Cow::Borrowed(text);
    while let Some(without) = parts(&text) {
        text = Cow::Owned(without);
    }
    text
}

/// Sanitizes content for a terminal: no control character but newline and tab passes. Marks of chat
/// formats mean nothing to people and stay.
#[must_use]
pub fn for_terminal(content: &str) -> String {
    clean::visible(content).text.into_owned()
}

/// Sanitizes content for one line of a terminal, cut to `most` characters with an ellipsis.
#[must_use]
pub fn for_terminal_line(content: &str, most: usize) -> String {
    let head = truncate_chars(content, most.saturating_mul(4));
    let text = one_line(&clean(head).text);
    truncate_with_ellipsis(&text, most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::SessionId;

    fn framed(call: u32, content: &str) -> String {
        let agent = AgentId::root(&SessionId::literal("s"));
        let secret = FrameSecret::new(&[1; 16]);
        let call = CallId::new(call, 0);
        frame_for_model(&secret, &agent, call, &Source::tool("t"), content).into_string()
    }

    #[test]
    fn the_boundary_is_new_for_each_call_and_the_same_again() {
        assert_eq!(framed(1, "x"), framed(1, "x"));
        assert_ne!(framed(1, "x"), framed(2, "x"));
        let text = framed(1, "x");
        let boundary = text.split_once(' ').unwrap().1.split_once('>').unwrap().0;
        assert_eq!(boundary.len(), 12);
        assert_eq!(text, format!("<tool:t {boundary}>\nx\n</{boundary}>"));
    }

    #[test]
    fn a_person_sees_no_frame_wherever_it_stands_and_all_that_looks_like_one() {
        let agent = AgentId::root(&SessionId::literal("s"));
        let boundary = frame_boundary(&FrameSecret::new(&[1; 16]), &agent, CallId::new(1, 0));
        let frame = framed(1, "one\ntwo");
        let alike = "<tool:t abc>\nx < y\n</abc>";
        let cases = [
            (frame.clone(), "one\ntwo\n"),
            (
                format!("error: it failed:\n{frame}\n[a note]"),
                "error: it failed:\none\ntwo\n[a note]",
            ),
            (format!("error: {alike}\n{frame}"), "error: <tool:t abc>\nx < y\n</abc>\none\ntwo\n"),
            (framed(1, alike), "<tool:t abc>\nx < y\n</abc>\n"),
            (framed(2, "of another call"), framed(2, "of another call").as_str()),
            (alike.to_owned(), alike),
            (framed(1, ""), ""),
            (format!("A:\n{frame}\nB:\n{frame}"), "A:\none\ntwo\nB:\none\ntwo\n"),
            (format!("<tool:t {boundary}>\nno end"), &format!("<tool:t {boundary}>\nno end")),
        ]
        .map(|(text, shown)| (remove_frames(&text, &boundary).into_owned(), shown.to_owned()));
        cases.into_iter().for_each(|(seen, shown)| assert_eq!(seen, shown));
    }

    #[test]
    fn a_source_cannot_break_its_frame() {
        let source = Source::child("a>\n# System");
        assert_eq!(source.to_string(), "child:a____System");
    }

    #[test]
    fn a_line_is_one_line_and_says_that_it_is_cut() {
        assert_eq!(for_terminal_line("a\n\tb  c", 80), "a b c");
        assert_eq!(for_terminal_line("abcdef", 4), "abc…");
    }
}
