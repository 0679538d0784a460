//! What of a reply was shown while it arrived.

use deputize_core::Delta;

use super::item::{Key, Part};
use super::order::BETWEEN;
use crate::stream::Live;

/// Hands pieces out, with a blank line between messages and between thoughts.
#[derive(Debug, Default)]
pub(super) struct Shown {
    text: String,
    /// The item of the last piece of the answer.
    speaker: Option<usize>,
    /// The text of the last piece of reasoning.
    thinker: Option<(usize, Key)>,
}

impl Shown {
    /// Shows a piece of a text of an item.
    pub(super) fn add(&mut self, item: usize, key: Key, piece: &str, live: &mut Live<'_>) {
        if piece.is_empty() {
            return;
        }
        match key.0 {
            Part::Text => {
                if self.speaker.replace(item).is_some_and(|last| last != item) {
                    self.text.push_str(BETWEEN);
                    live(Delta::Text(BETWEEN));
                }
                self.text.push_str(piece);
                live(Delta::Text(piece));
            }
            Part::Summary | Part::Thought => {
                if self.thinker.replace((item, key)).is_some_and(|last| last != (item, key)) {
                    live(Delta::Reasoning(BETWEEN));
                }
                live(Delta::Reasoning(piece));
            }
            Part::Refusal | Part::Arguments => {}
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }
}
