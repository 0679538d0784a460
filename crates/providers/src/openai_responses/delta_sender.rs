//! What of a reply was shown while it arrived.

use deputize_core::model::Delta;

use super::item::{TextKey, TextPart};
use super::order::BETWEEN;
use crate::stream::DeltaFn;

/// Hands pieces out, with a blank line between messages and between thoughts.
#[derive(Debug, Default)]
pub(super) struct DeltaSender {
    text: String,
    /// The item of the last piece of the answer.
    speaker: Option<usize>,
    /// The text of the last piece of reasoning.
    thinker: Option<(usize, TextKey)>,
}

impl DeltaSender {
    /// Shows a piece of a text of an item.
    pub(super) fn add(&mut self, item: usize, key: TextKey, piece: &str, live: &mut DeltaFn<'_>) {
        if piece.is_empty() {
            return;
        }
        match key.0 {
            TextPart::Text => {
                if self.speaker.replace(item).is_some_and(|last| last != item) {
                    self.text.push_str(BETWEEN);
                    live(Delta::Text(BETWEEN));
                }
                self.text.push_str(piece);
                live(Delta::Text(piece));
            }
            TextPart::Summary | TextPart::Thought => {
                if self.thinker.replace((item, key)).is_some_and(|last| last != (item, key)) {
                    live(Delta::Reasoning(BETWEEN));
                }
                live(Delta::Reasoning(piece));
            }
            TextPart::Refusal | TextPart::Arguments => {}
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }
}
