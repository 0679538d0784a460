//! One event of a stream, and what it speaks of.

use super::item::TextPart;
use super::items::ItemAddress;
use crate::json::{Json, MarkedJson};

/// The JSON of one event, its text and its name.
#[derive(Clone, Copy)]
pub(super) struct ResponseEvent<'e> {
    pub(super) json: &'e MarkedJson<'e>,
    pub(super) text: &'e str,
    pub(super) name: &'e str,
}

impl<'e> ResponseEvent<'e> {
    /// A member of it.
    pub(super) fn get(self, key: &str) -> Option<&'e Json<'e>> {
        self.json.value.get(key)
    }

    /// What it is: by its own word, or else by its name.
    pub(super) fn kind(self) -> &'e str {
        let kind = word(&self.json.value, "type");
        if kind.is_empty() { self.name } else { kind }
    }

    /// The item that it speaks of.
    pub(super) fn address(self) -> ItemAddress<'e> {
        let id = word(&self.json.value, "item_id").trim();
        ItemAddress { id, index: self.number("output_index") }
    }

    /// A number, also as a text.
    pub(super) fn number(self, key: &str) -> Option<u64> {
        let value = self.get(key)?;
        value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
    }

    /// The number of a text among those of its item.
    pub(super) fn part_number(self, part: TextPart) -> u64 {
        let key = if part == TextPart::Summary { "summary_index" } else { "content_index" };
        let number = self.number(key).filter(|_| part != TextPart::Arguments);
        number.unwrap_or(0)
    }
}

/// A member that is a text; empty where there is none.
pub(super) fn word<'v>(value: &'v Json<'v>, key: &str) -> &'v str {
    value.get(key).and_then(Json::as_str).unwrap_or_default()
}
