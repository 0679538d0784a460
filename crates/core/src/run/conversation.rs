//! The messages of an agent loop.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::compaction::{Compaction, CompactionInput, last_step};
use crate::cut_result::CutResult;
use crate::message::{Message, UserMessage};
use crate::name::ChildEndId;
use crate::source::Source;
use crate::source_set::SourceSet;

/// A conversation, and the messages that wait until its calls have results.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Conversation {
    messages: Vec<Arc<Message>>,
    /// Number of messages before the first one of the agent's own conversation.
    prefill: usize,
    /// Positions of the messages from outside that report no child, in order.
    requests: Vec<usize>,
    /// The one of them that began the turn; `None` if the next one does.
    turn_request: Option<usize>,
    /// Messages that arrived while calls were open.
    waiting: Vec<UserMessage>,
    /// Ends of children that were reported to it.
    delivered: BTreeSet<ChildEndId>,
}

impl Conversation {
    pub(super) fn new(prefill: impl IntoIterator<Item = Message>) -> Self {
        let messages: Vec<_> = prefill.into_iter().map(Arc::new).collect();
        Self {
            prefill: messages.len(),
            messages,
            requests: Vec::new(),
            turn_request: None,
            waiting: Vec::new(),
            delivered: BTreeSet::new(),
        }
    }

    /// Returns the beginning of a child's conversation: all before the reply whose calls are open.
    pub(super) fn fork(&self) -> Self {
        let is_open = |message: &Arc<Message>| matches!(&**message, Message::Assistant(said) if !said.calls.is_empty());
        let mut messages = self.messages.clone();
        messages.pop_if(|last| is_open(last));
        let prefill = self.prefill.min(messages.len());
        // What its parent was asked holds for it, too.
        let requests = self.requests.clone();
        Self { messages, prefill, requests, ..Self::new([]) }
    }

    /// Drops the messages, and where which one stands.
    pub(super) fn forget_messages(&mut self) {
        self.messages = Vec::new();
        self.requests = Vec::new();
        self.turn_request = None;
    }

    pub(super) fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    pub(super) const fn delivered(&self) -> &BTreeSet<ChildEndId> {
        &self.delivered
    }

    /// Returns whether the model wrote the last message.
    pub(super) fn ends_with_reply(&self) -> bool {
        self.messages.last().is_some_and(|it| matches!(**it, Message::Assistant(_)))
    }

    /// Records the end of a child that a message reports, if any. Returns whether the message is
    /// new: each end is reported to the parent once.
    pub(super) fn record_delivery(&mut self, message: &UserMessage) -> bool {
        message.from.as_ref().is_none_or(|from| self.delivered.insert(from.clone()))
    }

    /// Returns what a choice of messages to replace depends on.
    pub(super) fn compaction_input(&self) -> CompactionInput<'_> {
        CompactionInput {
            messages: &self.messages,
            prefill: self.prefill,
            requests: &self.requests,
            turn_request: self.turn_request,
        }
    }

    /// Replaces a part of the conversation by a message. A part that it does not have changes
    /// nothing; the result says whether it has it. The message has the sources of those that it
    /// replaces.
    pub(super) fn compact(&mut self, compaction: &Compaction) -> bool {
        let Compaction { part, text, request, .. } = compaction;
        if !part.fits(self.messages.len()) {
            return false;
        }
        let replaced = self.messages.iter().enumerate().filter(|(at, _)| !part.keeps(*at));
        let sources = replaced.flat_map(|(_, message)| message.sources());
        let mut sources: SourceSet = sources.cloned().collect();
        sources.insert(Source::summary(&request.model));
        let tail = self.messages.split_off(part.end);
        let mut at = 0;
        self.messages.retain(|_| {
            at += 1;
            part.keeps(at - 1)
        });
        self.push(Message::User(UserMessage::new(text).with_sources(sources)));
        self.messages.extend(tail);
        let moved = |at: usize| part.keeps(at).then(|| part.position_after(at));
        self.requests = self.requests.iter().copied().filter_map(moved).collect();
        self.turn_request = self.turn_request.and_then(moved);
        true
    }

    /// Returns the messages of the last step, and those after it.
    pub(super) fn last_step(&self) -> &[Arc<Message>] {
        self.messages.get(last_step(&self.messages, self.prefill)..).unwrap_or_default()
    }

    /// Puts shorter texts in place of those of results.
    pub(super) fn cut_results(&mut self, results: &[CutResult]) {
        for result in results {
            result.replace_in(&mut self.messages);
        }
    }

    /// The next message from outside begins a turn.
    pub(super) const fn end_turn(&mut self) {
        self.turn_request = None;
    }

    /// Adds a message from outside.
    pub(super) fn push_message(&mut self, message: UserMessage) {
        if message.from.is_none() {
            let at = self.messages.len();
            self.requests.push(at);
            self.turn_request.get_or_insert(at);
        }
        self.push(Message::User(message));
    }

    pub(super) fn push(&mut self, message: Message) {
        self.messages.push(Arc::new(message));
    }

    /// Adds a message of the host.
    pub(super) fn push_host(&mut self, text: &str) {
        let message = UserMessage::new(text.trim_end()).with_sources([Source::host()]);
        self.push(Message::User(message));
    }

    /// Adds a message once the open calls have results.
    pub(super) fn postpone(&mut self, message: UserMessage) {
        self.waiting.push(message);
    }

    /// Adds the postponed messages.
    pub(super) fn push_postponed(&mut self) {
        for message in std::mem::take(&mut self.waiting) {
            self.push_message(message);
        }
    }
}
