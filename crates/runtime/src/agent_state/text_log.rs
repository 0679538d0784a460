//! Texts of an agent that are no messages of its conversation.

use deputize_core::Event;
use deputize_core::model::ModelError;

/// Texts of an agent that are no messages of its conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct TextLog {
    pub(super) external: ExternalTexts,
    pub(super) cut: CutReplies,
}

impl TextLog {
    /// Applies an event that comes after so many messages.
    pub(super) fn apply(&mut self, event: &Event, messages: usize) {
        match event {
            Event::ExternalText { text } => self.external.push(messages, text),
            Event::ToolStart { .. } | Event::AnswerRejected { .. } | Event::AgentWrapUp { .. } => {
                self.external.ended = true;
            }
            Event::ModelResponse { .. } => self.cut.partial.clear(),
            Event::ModelError { error, retried, .. } => {
                self.cut.record_broken_stream(error);
                if !retried {
                    self.cut.record_failure(messages);
                }
            }
            Event::Compaction(compaction) => {
                let external = self.external.texts.iter_mut();
                let all = external.chain(&mut self.cut.texts);
                all.for_each(|(at, _)| *at = compaction.part.position_after(*at));
            }
            _ => {}
        }
    }
}

/// Texts of an external agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ExternalTexts {
    /// Each text with the number of messages before it.
    pub(super) texts: Vec<(usize, String)>,
    /// Whether the next piece begins a new text.
    ended: bool,
}

impl ExternalTexts {
    fn push(&mut self, messages: usize, piece: &str) {
        let ended = std::mem::take(&mut self.ended);
        match self.texts.last_mut() {
            Some((_, text)) if !ended => text.push_str(piece),
            _ => self.texts.push((messages, piece.to_owned())),
        }
    }
}

/// The texts of replies that were cut or broke off.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct CutReplies {
    /// The text of the last attempt that broke off, until the request succeeds or fails.
    partial: String,
    /// The texts of requests that failed, each with the number of messages before it.
    pub(super) texts: Vec<(usize, String)>,
}

impl CutReplies {
    fn record_broken_stream(&mut self, error: &ModelError) {
        if !error.partial.trim().is_empty() {
            self.partial.clone_from(&error.partial);
        }
    }

    fn record_failure(&mut self, messages: usize) {
        if !self.partial.is_empty() {
            self.texts.push((messages, std::mem::take(&mut self.partial)));
        }
    }
}
