//! Blocks of reasoning that must go back to the server as they came.

use deputize_core::Opaque;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::request::WIRE;
use crate::limits::ITEMS;
use crate::stream::StreamError;

/// The blocks of a reply, in order.
#[derive(Debug, Default)]
pub(super) struct Details(Vec<Detail>);

#[derive(Debug)]
struct Detail {
    /// Kept only of a text, which may go on: parsed, a block takes many times its bytes.
    value: Value,
    /// Its bytes as received; nothing when it was put together from pieces.
    raw: Option<String>,
}

impl Details {
    /// Takes the blocks of one piece of a message; `text` is the JSON of the whole event.
    /// Pieces of one text are joined; all else (signatures, encrypted blocks) stays as it came.
    pub(super) fn add(&mut self, values: &[Value], text: &str) -> Result<(), StreamError> {
        let raw = received(text).filter(|raw| raw.len() == values.len()).unwrap_or_default();
        let mut raw = raw.into_iter();
        for value in values {
            let raw = raw.next().map(|raw| raw.get().to_owned());
            let full = self.0.len() == ITEMS;
            match self.0.last_mut().filter(|last| joins(&last.value, value)) {
                Some(last) => last.join(value),
                None if full => return Err(StreamError::TooManyItems),
                None => self.0.push(Detail::new(value, raw)),
            }
        }
        Ok(())
    }

    pub(super) fn into_opaque(self) -> Vec<Opaque> {
        let raw = |detail: Detail| detail.raw.unwrap_or_else(|| detail.value.to_string());
        let opaque = |detail| Opaque::new(WIRE, raw(detail));
        self.0.into_iter().map(opaque).collect()
    }
}

impl Detail {
    fn new(value: &Value, raw: Option<String>) -> Self {
        if is_text(value) {
            return Self { value: value.clone(), raw };
        }
        Self { value: Value::Null, raw: raw.or_else(|| Some(value.to_string())) }
    }

    fn join(&mut self, piece: &Value) {
        self.raw = None;
        let (Some(whole), Some(piece)) = (self.value.as_object_mut(), piece.as_object()) else {
            return;
        };
        for (key, value) in piece.iter().filter(|(_, value)| !value.is_null()) {
            match (whole.get_mut(key), value) {
                (Some(Value::String(text)), Value::String(more)) if key == "text" => {
                    text.push_str(more);
                }
                _ => {
                    whole.insert(key.clone(), value.clone());
                }
            }
        }
    }
}

fn is_text(block: &Value) -> bool {
    block.get("type").and_then(Value::as_str) == Some("reasoning.text")
}

/// Whether a piece goes on with the text before it. A signature ends a text.
fn joins(last: &Value, piece: &Value) -> bool {
    is_text(last)
        && is_text(piece)
        && last.get("index") == piece.get("index")
        && last.get("signature").is_none_or(Value::is_null)
}

/// The blocks of an event as received, if its shape is the plain one.
fn received(text: &str) -> Option<Vec<&RawValue>> {
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
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        reasoning_details: Vec<&'a RawValue>,
    }
    let chunk: Chunk<'_> = serde_json::from_str(text).ok()?;
    let mut choices = chunk.choices.into_iter();
    let choice = choices.find(|choice| choice.index.as_u64().unwrap_or(0) == 0)?;
    let is_object = |raw: &&RawValue| raw.get().starts_with('{');
    let message = choice.delta.filter(is_object).or(choice.message)?;
    let message: Message<'_> = serde_json::from_str(message.get()).ok()?;
    Some(message.reasoning_details)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn their_number_is_limited() {
        let block = serde_json::json!({"type": "reasoning.encrypted", "data": "x"});
        let mut details = Details::default();
        for _ in 0..ITEMS {
            details.add(std::slice::from_ref(&block), "").unwrap();
        }
        let refused = details.add(std::slice::from_ref(&block), "");
        assert!(matches!(refused, Err(StreamError::TooManyItems)));
        let blocks = details.into_opaque();
        assert_eq!(blocks.len(), ITEMS);
        let whole = block.to_string();
        assert!(blocks.iter().all(|it| it.raw == whole));
    }

    #[test]
    fn pieces_of_one_text_are_one_block() {
        let piece = serde_json::json!({"type": "reasoning.text", "text": "x"});
        let mut details = Details::default();
        for _ in 0..=ITEMS {
            details.add(std::slice::from_ref(&piece), "").unwrap();
        }
        assert_eq!(details.into_opaque().len(), 1);
    }
}
