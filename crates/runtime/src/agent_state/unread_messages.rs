//! The messages that were left for an agent and that it has not read.

use std::collections::VecDeque;

use deputize_core::message::UserMessage;

/// The messages that were left for an agent and that it has not read, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct UnreadMessages(VecDeque<UnreadMessage>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct UnreadMessage {
    message: UserMessage,
    /// Whether it is about the end of a background command.
    of_process: bool,
}

impl UnreadMessages {
    pub(super) fn push(&mut self, message: UserMessage) {
        self.0.push_back(UnreadMessage { message, of_process: false });
    }

    pub(super) fn push_process_end(&mut self, message: UserMessage) {
        self.0.push_back(UnreadMessage { message, of_process: true });
    }

    /// Records a message that the agent has read. It reads them in the order they were left.
    pub(super) fn record_read(&mut self, read: &UserMessage) {
        let is_left = |left: &UserMessage| read.from.is_none() && left.text == read.text;
        if self.front().is_some_and(is_left) {
            self.0.pop_front();
        }
    }

    pub(crate) fn front(&self) -> Option<&UserMessage> {
        self.0.front().map(|unread| &unread.message)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether somebody left one: not the end of a background command.
    pub(crate) fn has_words(&self) -> bool {
        self.0.iter().any(|unread| !unread.of_process)
    }
}
