//! Blocks of reasoning that must go back to the server as they came.

use deputize_core::message::OpaqueBlock;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::WIRE;
use crate::json::Json;
use crate::limits::ITEMS;
use crate::stream_error::{ReplyTooLarge, StreamError};

/// The blocks of a reply, in order.
#[derive(Debug, Default)]
pub(super) struct ReasoningDetails(Vec<ReasoningDetail>);

#[derive(Debug)]
struct ReasoningDetail {
    /// Kept only of the last one, and of a text, which may go on: parsed, a block takes many
    /// times its bytes.
    value: Value,
    /// Its bytes as received; `None` if it was put together from pieces.
    raw: Option<String>,
    /// Number of bytes received.
    bytes: usize,
}

impl ReasoningDetails {
    /// Takes the blocks of one piece of a message; `text` is the JSON of the whole event.
    /// Pieces of one text are joined; all else (signatures, encrypted blocks) stays as it came.
    pub(super) fn add(&mut self, values: &[Json<'_>], text: &str) -> Result<(), StreamError> {
        let raw =
            received_details(text).filter(|raw| raw.len() == values.len()).unwrap_or_default();
        let mut raw = raw.into_iter();
        for value in values {
            let raw = raw.next().map(|raw| raw.get().to_owned());
            let bytes = raw.as_ref().map_or(text.len(), String::len);
            let full = self.0.len() == ITEMS;
            match self.0.last_mut() {
                Some(last) if joins(&last.value, value) => last.join(value, bytes),
                _ if full => return Err(ReplyTooLarge::Items.into()),
                last => {
                    last.into_iter().for_each(ReasoningDetail::settle);
                    self.0.push(ReasoningDetail::new(value, raw, bytes));
                }
            }
        }
        Ok(())
    }

    /// Whether one of them names this call.
    pub(super) fn names(&self, call: &str) -> bool {
        #[derive(Deserialize)]
        struct DetailId {
            id: Option<String>,
        }
        let named = |raw: &str| serde_json::from_str::<DetailId>(raw).ok()?.id;
        let names = |it: &ReasoningDetail| match &it.raw {
            Some(raw) => named(raw).as_deref() == Some(call),
            None => it.value.get("id").and_then(Value::as_str) == Some(call),
        };
        !call.is_empty() && self.0.iter().any(names)
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.0.iter().map(|detail| detail.bytes).sum()
    }

    pub(super) fn into_opaque(self) -> Vec<OpaqueBlock> {
        let opaque = |detail: ReasoningDetail| OpaqueBlock::new(WIRE, detail.into_raw());
        self.0.into_iter().map(opaque).collect()
    }
}

impl ReasoningDetail {
    fn new(value: &Json<'_>, raw: Option<String>, bytes: usize) -> Self {
        if is_text(value) {
            return Self { value: value.to_value(), raw, bytes };
        }
        Self { value: Value::Null, raw: raw.or_else(|| Some(value.to_string())), bytes }
    }

    /// Nothing more comes to it.
    fn settle(&mut self) {
        let value = std::mem::take(&mut self.value);
        self.raw.get_or_insert_with(|| value.to_string());
    }

    fn into_raw(mut self) -> String {
        self.settle();
        self.raw.unwrap_or_default()
    }

    fn join(&mut self, piece: &Json<'_>, bytes: usize) {
        self.raw = None;
        self.bytes += bytes;
        let (Some(whole), Some(piece)) = (self.value.as_object_mut(), piece.as_object()) else {
            return;
        };
        for (key, value) in piece.iter().filter(|(_, value)| !value.is_null()) {
            match (whole.get_mut(key), value) {
                (Some(Value::String(text)), Json::String(more)) if key == "text" => {
                    text.push_str(more);
                }
                _ => {
                    whole.insert(key.to_owned(), value.to_value());
                }
            }
        }
    }
}

fn is_text(block: &Json<'_>) -> bool {
    block.get("type").and_then(Json::as_str) == Some("reasoning.text")
}

/// Whether a piece goes on with the text before it. A signature ends a text.
fn joins(last: &Value, piece: &Json<'_>) -> bool {
    // Only texts are kept as values.
    !last.is_null()
        && is_text(piece)
        && last.get("index") == piece.get("index").map(Json::to_value).as_ref()
        && last.get("signature").is_none_or(Value::is_null)
}

/// The blocks of an event as received, if its shape is the plain one.
fn received_details(text: &str) -> Option<Vec<&RawValue>> {
    #[derive(Deserialize)]
    struct DetailList<'a> {
        #[serde(borrow)]
        reasoning_details: Vec<&'a RawValue>,
    }
    let message: DetailList<'_> = serde_json::from_str(message(text)?.get()).ok()?;
    Some(message.reasoning_details)
}

/// The message of an event, or a piece of one, as received, if its shape is the plain one.
pub(super) fn message(text: &str) -> Option<&RawValue> {
    #[derive(Deserialize)]
    struct Chunk<'a> {
        #[serde(borrow)]
        choices: Vec<Choice<'a>>,
    }
    #[derive(Deserialize)]
    struct Choice<'a> {
        #[serde(default)]
        index: Value,
        #[serde(borrow)]
        delta: Option<&'a RawValue>,
        #[serde(borrow)]
        message: Option<&'a RawValue>,
    }
    let chunk: Chunk<'_> = serde_json::from_str(text).ok()?;
    let mut choices = chunk.choices.into_iter();
    let choice = choices.find(|choice| choice.index.as_u64().unwrap_or(0) == 0)?;
    let is_object = |raw: &&RawValue| raw.get().starts_with('{');
    choice.delta.filter(is_object).or(choice.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn their_number_is_limited() {
        let block: Json<'_> =
            serde_json::json!({"type": "reasoning.encrypted", "data": "x"}).into();
        let mut details = ReasoningDetails::default();
        for _ in 0..ITEMS {
            details.add(std::slice::from_ref(&block), "").unwrap();
        }
        let refused = details.add(std::slice::from_ref(&block), "");
        assert!(matches!(refused, Err(StreamError::TooLarge(ReplyTooLarge::Items))));
        let blocks = details.into_opaque();
        assert_eq!(blocks.len(), ITEMS);
        let whole = block.to_string();
        assert!(blocks.iter().all(|it| it.raw == whole));
    }

    #[test]
    fn pieces_of_one_text_are_one_block() {
        let piece: Json<'_> = serde_json::json!({"type": "reasoning.text", "text": "x"}).into();
        let mut details = ReasoningDetails::default();
        for _ in 0..=ITEMS {
            details.add(std::slice::from_ref(&piece), "").unwrap();
        }
        assert_eq!(details.into_opaque().len(), 1);
    }
}
