//! The messages of an agent loop.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::message::{Message, UserMessage};
use crate::name::AgentId;

/// A conversation, and the messages that wait until its calls have results.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Conversation {
    messages: Vec<Arc<Message>>,
    /// Messages that arrived while calls were open.
    waiting: Vec<UserMessage>,
    /// Children whose end was reported to it.
    delivered: BTreeSet<AgentId>,
}

impl Conversation {
    pub(super) fn new(prefill: impl IntoIterator<Item = Message>) -> Self {
        Self {
            messages: prefill.into_iter().map(Arc::new).collect(),
            waiting: Vec::new(),
            delivered: BTreeSet::new(),
        }
    }

    pub(super) fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    pub(super) const fn delivered(&self) -> &BTreeSet<AgentId> {
        &self.delivered
    }

    /// Returns whether the model wrote the last message.
    pub(super) fn ends_with_reply(&self) -> bool {
        self.messages.last().is_some_and(|it| matches!(**it, Message::Assistant(_)))
    }

    /// Records the child whose end a message reports, if any. Returns whether the message is new: a
    /// child ends once, and its end is reported to the parent once.
    pub(super) fn record_delivery(&mut self, message: &UserMessage) -> bool {
        message.from.as_ref().is_none_or(|from| self.delivered.insert(from.clone()))
    }

    pub(super) fn push(&mut self, message: Message) {
        self.messages.push(Arc::new(message));
    }

    /// Adds a message of the host.
    pub(super) fn push_host(&mut self, text: &str) {
        let text = text.trim_end().to_owned();
        self.push(Message::User(UserMessage { text, from: None }));
    }

    /// Adds a message once the open calls have results.
    pub(super) fn postpone(&mut self, message: UserMessage) {
        self.waiting.push(message);
    }

    /// Adds the postponed messages.
    pub(super) fn push_postponed(&mut self) {
        for message in std::mem::take(&mut self.waiting) {
            self.push(Message::User(message));
        }
    }
}
