//! Compaction: the older messages of a conversation give way to a summary. Pure.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::budget::Cost;
use crate::message::Message;
use crate::model::Usage;

/// A compaction of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compaction {
    /// The part of the conversation that was replaced.
    pub part: ReplacedPart,
    /// The message in its place.
    pub text: String,
    /// Bytes of the next request's text before the compaction.
    pub bytes_before: u64,
    /// Bytes of the same request after it.
    pub bytes_after: u64,
    /// The file that keeps the replaced messages.
    pub path: PathBuf,
    /// The request that made the summary.
    pub request: SummaryRequest,
}

/// A request to a model for a summary, once it is answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SummaryRequest {
    /// The model, by the name that agents use.
    pub model: String,
    /// Tokens of the request and its reply.
    pub usage: Usage,
    /// Whether these are estimated because the server did not count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// Cost in dollars, if the price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Duration in milliseconds.
    pub ms: u64,
}

impl SummaryRequest {
    /// Returns its cost.
    #[must_use]
    pub fn cost(&self) -> Cost {
        Cost {
            tokens: self.usage.input.saturating_add(self.usage.output),
            usd: self.cost_usd.unwrap_or_default(),
            unpriced: self.cost_usd.is_none(),
        }
    }
}

/// Limits of a compaction, in bytes of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionLimits {
    /// Maximum size of the last messages that stay as they are.
    pub tail: u64,
    /// Maximum size of the last step, with the messages after it, that stays as it is whatever
    /// `tail` says: no model has answered it.
    pub step: u64,
    /// Maximum size of earlier requests that stay word for word. The last one, and the one that
    /// began the turn, stay whatever their size.
    pub requests: u64,
    /// Minimum size of the replaced messages.
    pub least: u64,
}

/// The part of a conversation that a compaction replaces. Positions are indexes of the conversation
/// before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplacedPart {
    /// The first message.
    pub first: usize,
    /// The message after the last one.
    pub end: usize,
    /// Messages within the part that stay word for word, in ascending order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<usize>,
}

/// The messages of a conversation, and those of them that a compaction must know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompactionInput<'c> {
    pub(crate) messages: &'c [Arc<Message>],
    /// Number of messages before the first one that may be replaced.
    pub(crate) prefill: usize,
    /// Messages from outside, in ascending order.
    pub(crate) requests: &'c [usize],
    /// The one that began the turn; `None` before the first turn.
    pub(crate) turn_request: Option<usize>,
}

impl ReplacedPart {
    /// Chooses the part of a conversation without open calls that a compaction replaces; `None` if
    /// too little of it can be replaced.
    pub(crate) fn choose(input: CompactionInput<'_>, limits: CompactionLimits) -> Option<Self> {
        let first = input.prefill;
        let end = tail_start(input.messages, first, limits);
        let size = |at: usize| input.messages.get(at).map_or(0, |it| it.text_bytes());
        let is_inside = |at: &usize| (first..end).contains(at);
        let last = input.requests.last().copied();
        let always = [last, input.turn_request].into_iter().flatten().filter(is_inside);
        let mut kept: BTreeSet<usize> = always.collect();
        let mut room = limits.requests;
        for at in input.requests.iter().rev().copied().filter(is_inside) {
            let Some(rest) = room.checked_sub(size(at)) else { break };
            room = rest;
            kept.insert(at);
        }
        let replaced = (first..end).filter(|at| !kept.contains(at));
        let bytes: u64 = replaced.map(size).sum();
        let part = Self { first, end, kept: kept.into_iter().collect() };
        (part.count() > 0 && bytes >= limits.least).then_some(part)
    }

    /// Returns the number of messages that are replaced.
    #[must_use]
    pub fn count(&self) -> usize {
        self.end.saturating_sub(self.first).saturating_sub(self.kept.len())
    }

    /// Returns the position that a message, or the place before it, has after the compaction.
    #[must_use]
    pub fn position_after(&self, at: usize) -> usize {
        if at <= self.first {
            return at;
        }
        if at >= self.end {
            return at - self.end + self.first + self.kept.len() + 1;
        }
        self.first + self.kept.partition_point(|kept| *kept < at)
    }

    /// Returns whether a conversation of this many messages has such a part.
    pub(crate) fn fits(&self, messages: usize) -> bool {
        let inside = |at: &usize| (self.first..self.end).contains(at);
        self.first < self.end
            && self.end <= messages
            && self.kept.iter().all(inside)
            && self.kept.is_sorted_by(|one, next| one < next)
    }

    /// Returns whether a message stays, as it is, in the conversation.
    #[must_use]
    pub fn keeps(&self, at: usize) -> bool {
        !(self.first..self.end).contains(&at) || self.kept.binary_search(&at).is_ok()
    }
}

/// Returns where the last messages begin that stay as they are. No result of a call stands there,
/// so that each call stays with its results, and a last message of the model is among them: its
/// provider may expect it back.
fn tail_start(messages: &[Arc<Message>], first: usize, limits: CompactionLimits) -> usize {
    let mut bytes: u64 = 0;
    let mut start = messages.len();
    let step = last_step(messages, first);
    let is_small = |from: &usize| {
        let step = messages.get(*from..).unwrap_or_default();
        step.iter().map(|message| message.text_bytes()).sum::<u64>() <= limits.step
    };
    let step = Some(step).filter(is_small).unwrap_or(messages.len());
    for (at, message) in messages.iter().enumerate().skip(first).rev() {
        bytes = bytes.saturating_add(message.text_bytes());
        let is_last_of_model =
            at + 1 == messages.len() && matches!(**message, Message::Assistant(_));
        if bytes > limits.tail && at < step && !is_last_of_model {
            break;
        }
        if !matches!(**message, Message::Tool(_)) {
            start = at;
        }
    }
    start
}

/// Returns where the last step begins: the last message of the model. Without one, all messages
/// are before it.
pub(crate) fn last_step(messages: &[Arc<Message>], first: usize) -> usize {
    let own = messages.get(first..).unwrap_or_default();
    let at = own.iter().rposition(|message| matches!(**message, Message::Assistant(_)));
    at.map_or(messages.len(), |at| first + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{AssistantMessage, UserMessage};

    fn said(bytes: usize) -> Arc<Message> {
        let text = "x".repeat(bytes);
        Arc::new(Message::Assistant(AssistantMessage { text, ..AssistantMessage::default() }))
    }

    fn asked(bytes: usize) -> Arc<Message> {
        Arc::new(Message::User(UserMessage::new("x".repeat(bytes))))
    }

    fn choose(
        messages: &[Arc<Message>],
        requests: &[usize],
        turn_request: Option<usize>,
    ) -> Option<ReplacedPart> {
        let limits = CompactionLimits { tail: 100, step: 150, requests: 50, least: 40 };
        ReplacedPart::choose(
            CompactionInput { messages, prefill: 1, requests, turn_request },
            limits,
        )
    }

    #[test]
    fn of_the_requests_the_newest_stay_and_the_one_that_began_the_turn() {
        let requests = [1, 2, 4, 5, 7, 8];
        let messages: Vec<_> = [(200, 40, 40), (40, 40, 20), (40, 20, 90)].iter().fold(
            vec![asked(9)],
            |mut all, it| {
                all.extend([asked(it.0), asked(it.1), said(it.2)]);
                all
            },
        );
        // 9 | 200 40 40' 40 40 20' 40 20 90'
        assert_eq!(messages.len(), 10);
        let part = choose(&messages, &requests, Some(1)).unwrap();
        assert_eq!(part, ReplacedPart { first: 1, end: 9, kept: vec![1, 8] });
        assert_eq!(part.count(), 6);
        let part = choose(&messages, &requests, None).unwrap();
        assert_eq!(part.kept, [8], "the next one is too large for what is left");
    }

    #[test]
    fn too_little_is_not_replaced() {
        let messages = [asked(9), asked(200), said(30), said(90)];
        assert_eq!(choose(&messages, &[1], Some(1)), None);
        let messages = [asked(9), asked(200), said(40), said(90)];
        assert_eq!(choose(&messages, &[1], Some(1)).unwrap().end, 3);
    }

    #[test]
    fn a_last_message_of_the_model_stays_whatever_its_size() {
        let messages = [asked(9), asked(20), said(50), said(900)];
        assert_eq!(choose(&messages, &[1], Some(1)).unwrap().end, 3);
    }

    #[test]
    fn positions_move_with_their_messages() {
        let part = ReplacedPart { first: 1, end: 6, kept: vec![2, 4] };
        // a b C d E f g  →  a C E summary g
        let moved: Vec<usize> = (0..=7).map(|at| part.position_after(at)).collect();
        assert_eq!(moved, [0, 1, 1, 2, 2, 3, 4, 5]);
        assert!(part.fits(6) && !part.fits(5));
        assert!(!ReplacedPart { kept: vec![6], ..part.clone() }.fits(9));
        assert!(!ReplacedPart { kept: vec![4, 2], ..part }.fits(9));
    }
}
