//! Results of calls that give way to their beginning and their end where a model's context has no
//! room for the whole. Pure.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::message::{Message, ModelText, ToolResult};
use crate::name::{CallId, SessionId};
use crate::truncate::{tail_lines, truncate_lines};

/// Bytes that stay of any result: its frame and what its tool remarks are among them.
const LEAST_BYTES: u64 = 2_048;
/// Bytes for the words that say what is left out, without the session.
const NOTE_BYTES: usize = 320;

/// The text in place of a result's text: its beginning and its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutResult {
    /// The call.
    pub call: CallId,
    /// The text for the model.
    pub text: ModelText,
    /// Number of bytes of the result that are left out.
    pub left_out: u64,
}

impl CutResult {
    /// Cuts the largest results among some messages, so that the messages take at most so many
    /// bytes if that is possible. The file of the session keeps the whole results.
    #[must_use]
    pub fn fit(messages: &[Arc<Message>], room: u64, session: &SessionId) -> Vec<Self> {
        let all: u64 = messages.iter().map(|message| message.text_bytes()).sum();
        if all <= room {
            return Vec::new();
        }
        let results = || messages.iter().filter_map(|message| result_of(message));
        let sizes: Vec<u64> = results().map(|it| it.text.as_str().len() as u64).collect();
        let beside = all.saturating_sub(sizes.iter().sum());
        let most = largest_share(&sizes, room.saturating_sub(beside)).max(LEAST_BYTES);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        results().filter_map(|result| Self::cut(result, most, session)).collect()
    }

    /// Returns a result of at most so many bytes; `None` if the whole is not longer.
    fn cut(result: &ToolResult, most: usize, session: &SessionId) -> Option<Self> {
        let whole = result.text.as_str();
        if whole.len() <= most {
            return None;
        }
        let half = most.saturating_sub(NOTE_BYTES + session.as_str().len()) / 2;
        let (head, tail) = (truncate_lines(whole, half), tail_lines(whole, half));
        let left_out = whole.len().saturating_sub(head.len() + tail.len());
        let text = format!(
            "{}\n[… {left_out} bytes …]\n{}\n[The context is nearly full, so {left_out} bytes in the \
             middle of this result are left out. The file of session {session} keeps the whole. If \
             you need more of it, ask for a part.]",
            head.trim_end(),
            tail.trim_end(),
        );
        let text = ModelText::own(text);
        Some(Self { call: result.call, text, left_out: left_out as u64 })
    }

    /// Puts the text in place of its result's, if the result is among these messages.
    pub fn replace_in(&self, messages: &mut [Arc<Message>]) {
        let is_of_call =
            |it: &&mut Arc<Message>| result_of(it).is_some_and(|result| result.call == self.call);
        let Some(slot) = messages.iter_mut().rev().find(is_of_call) else { return };
        let Some(result) = result_of(slot) else { return };
        let result = ToolResult { text: self.text.clone(), ..result.clone() };
        *slot = Arc::new(Message::Tool(result));
    }
}

fn result_of(message: &Message) -> Option<&ToolResult> {
    if let Message::Tool(result) = message { Some(result) } else { None }
}

/// Returns the size to which the largest of these sizes are cut so that all fit into the room.
fn largest_share(sizes: &[u64], room: u64) -> u64 {
    let mut share = 0;
    loop {
        let small: u64 = sizes.iter().filter(|size| **size <= share).sum();
        let large = sizes.iter().filter(|size| **size > share).count() as u64;
        let next = room.saturating_sub(small) / large.max(1);
        if large == 0 || next <= share {
            return share;
        }
        share = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{AssistantMessage, CallStatus};

    fn step(sizes: &[usize]) -> Vec<Arc<Message>> {
        let said = AssistantMessage { text: "x".repeat(100), ..AssistantMessage::default() };
        let result = |(n, size): (usize, &usize)| {
            let line = format!("line of {n}\n");
            let text = line.repeat(size / line.len());
            Message::Tool(ToolResult::host(CallId::new(1, n as u32), CallStatus::Ok, text))
        };
        let results = sizes.iter().enumerate().map(result);
        std::iter::once(Message::Assistant(said)).chain(results).map(Arc::new).collect()
    }

    fn bytes(messages: &[Arc<Message>]) -> u64 {
        messages.iter().map(|message| message.text_bytes()).sum()
    }

    #[test]
    fn the_largest_share_is_what_the_small_ones_leave() {
        assert_eq!(largest_share(&[10, 100, 200], 90), 40);
        assert_eq!(largest_share(&[10, 30, 200], 90), 50);
        assert_eq!(largest_share(&[10, 10], 90), 45);
        assert_eq!(largest_share(&[], 90), 0);
        assert_eq!(largest_share(&[10], 0), 0);
    }

    #[test]
    fn the_largest_results_keep_beginning_and_end() {
        let mut messages = step(&[1_000, 40_000, 90_000]);
        let before = messages.clone();
        let session = SessionId::literal("s");
        assert_eq!(CutResult::fit(&messages, 200_000, &session), []);
        let cuts = CutResult::fit(&messages, 20_000, &session);
        for cut in &cuts {
            cut.replace_in(&mut messages);
        }
        assert_eq!(cuts.iter().map(|cut| cut.call.slot).collect::<Vec<_>>(), [1, 2]);
        assert!((19_000..=20_000).contains(&bytes(&messages)), "{}", bytes(&messages));
        assert!(Arc::ptr_eq(&messages[0], &before[0]) && Arc::ptr_eq(&messages[1], &before[1]));
        let text = cuts[1].text.as_str();
        assert!(text.starts_with("line of 2\nline of 2\n"), "{text}");
        assert!(text.contains("line of 2\n[The context is nearly full, so "), "{text}");
        assert!(text.contains("The file of session s keeps the whole."), "{text}");
        let kept = text.matches("line of 2\n").count() as u64 * 10;
        let whole = before[3].text_bytes();
        assert!(whole - kept - cuts[1].left_out <= 2, "{whole} {kept} {}", cuts[1].left_out);
        // Something stays, however little room there is.
        let cuts = CutResult::fit(&before, 0, &session);
        assert_eq!(cuts.len(), 2);
        assert!(cuts.iter().all(|cut| cut.text.as_str().len() > 1_500));
    }
}
