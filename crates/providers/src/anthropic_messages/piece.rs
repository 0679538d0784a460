//! A block or a piece of one, as an event holds it.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::arguments::text_of;
use crate::json::Json;
use crate::text::Utf16Text;

#[derive(Debug, Clone, Copy)]
pub(super) struct StartPiece<'e> {
    pub(super) value: &'e Json<'e>,
    /// Its bytes, where they can be taken as they are.
    pub(super) raw: Option<&'e str>,
    /// Whether texts in it hold marks for lone surrogates.
    pub(super) marked: bool,
}

impl StartPiece<'_> {
    /// A member that is a text; empty if it is none.
    pub(super) fn word(&self, key: &str) -> &str {
        self.value.get(key).and_then(Json::as_str).unwrap_or_default()
    }

    /// All of it as JSON, as received if that is possible.
    pub(super) fn settled(&self) -> String {
        match self.raw {
            Some(raw) => raw.to_owned(),
            None if self.marked => strip_marks(&self.value.to_string()),
            None => self.value.to_string(),
        }
    }

    /// Its members; none if it is no object.
    pub(super) fn object(&self) -> Map<String, Value> {
        serde_json::from_str(&self.settled()).unwrap_or_default()
    }

    /// The arguments of a call that are given whole, as received if that is possible.
    pub(super) fn input(&self) -> String {
        #[derive(Deserialize)]
        struct Input<'a> {
            #[serde(borrow)]
            input: Option<&'a RawValue>,
        }
        let raw = self.raw.and_then(|raw| serde_json::from_str::<Input<'_>>(raw).ok());
        match (raw.and_then(|it| it.input), self.value.get("input")) {
            (Some(raw), Some(Json::Object(_) | Json::Array(_))) => raw.get().to_owned(),
            (_, value) if self.marked => strip_marks(&text_of(value)),
            (_, value) => text_of(value),
        }
    }
}

/// A text without marks: what is half a character becomes the sign for that.
fn strip_marks(text: &str) -> String {
    let mut plain = Utf16Text::default();
    plain.push(text, true);
    plain.into_string()
}

/// The bytes of each item of a list in an event, if they can be taken as they are.
pub(super) fn items(raw: Option<&str>, len: usize) -> Vec<Option<&str>> {
    #[derive(Deserialize)]
    struct BlockList<'a> {
        #[serde(borrow)]
        content: Vec<&'a RawValue>,
    }
    let message = raw.and_then(|raw| serde_json::from_str::<BlockList<'_>>(raw).ok());
    match message.filter(|message| message.content.len() == len) {
        Some(message) => message.content.into_iter().map(|raw| Some(raw.get())).collect(),
        None => vec![None; len],
    }
}

/// The bytes of the block in a start event.
pub(super) fn block(raw: Option<&str>) -> Option<&str> {
    #[derive(Deserialize)]
    struct Start<'a> {
        #[serde(borrow)]
        content_block: &'a RawValue,
    }
    serde_json::from_str::<Start<'_>>(raw?).ok().map(|start| start.content_block.get())
}
