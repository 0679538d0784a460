//! One block of a reply, as far as it has come.

use deputize_core::model::RawCall;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::arguments::{is_object, mended};
use crate::text::Utf16Text;

#[derive(Debug)]
pub(super) struct PartialBlock {
    pub(super) index: Option<u64>,
    pub(super) kind: BlockKind,
    pub(super) stopped: bool,
}

#[derive(Debug)]
pub(super) enum BlockKind {
    Text { from: usize, to: usize },
    Thinking(Thinking),
    Call(PartialCall),
    Other(OpaquePart),
}

#[derive(Debug, Default)]
pub(super) struct Thinking {
    /// Its bytes as received; `None` if pieces followed.
    pub(super) raw: Option<String>,
    pub(super) text: Utf16Text,
    /// Nothing: it has no such member, not even an empty one.
    pub(super) signature: Option<Utf16Text>,
    /// Its other members, as a JSON object.
    pub(super) rest: String,
}

#[derive(Debug, Default)]
pub(super) struct PartialCall {
    pub(super) id: String,
    pub(super) name: String,
    /// Arguments that came with the block's start.
    pub(super) whole: String,
    pub(super) pieces: Utf16Text,
}

/// A block that goes back as it came.
#[derive(Debug, Default)]
pub(super) struct OpaquePart {
    pub(super) raw: String,
    /// Arguments of a server's own tool.
    pub(super) input: Utf16Text,
    /// What came of a summary in pieces.
    pub(super) compaction: Option<Compaction>,
    /// Whether pieces came that are not understood.
    pub(super) unknown: bool,
}

/// A summary that the server made of the conversation before, as far as it came in pieces.
#[derive(Debug, Default)]
pub(super) struct Compaction {
    /// Nothing: it failed.
    pub(super) content: Option<Utf16Text>,
    /// Only the server reads it; the last one holds.
    pub(super) encrypted: String,
}

impl PartialBlock {
    /// Returns the bytes held of it. Texts are held with all texts, and counted there.
    pub(super) fn held_bytes(&self) -> usize {
        let own = match &self.kind {
            BlockKind::Text { .. } => 0,
            BlockKind::Thinking(it) => {
                let raw = it.raw.as_ref().map_or(0, String::len);
                raw + it.rest.len() + it.signature.as_ref().map_or(0, Utf16Text::len)
            }
            BlockKind::Call(it) => it.id.len() + it.name.len() + it.whole.len() + it.pieces.len(),
            BlockKind::Other(it) => {
                it.raw.len()
                    + it.input.len()
                    + it.compaction.as_ref().map_or(0, Compaction::held_bytes)
            }
        };
        own + size_of::<Self>()
    }

    pub(super) fn is_unsigned(&self) -> bool {
        match &self.kind {
            BlockKind::Thinking(it) => it.signature.as_ref().is_none_or(Utf16Text::is_empty),
            BlockKind::Text { .. } | BlockKind::Call(_) | BlockKind::Other(_) => false,
        }
    }
}

impl Thinking {
    /// The block as a document would hold it, unless there is nothing in it.
    pub(super) fn finish(self) -> Option<String> {
        #[derive(Serialize)]
        struct WholeThinking<'a> {
            #[serde(rename = "type")]
            kind: &'static str,
            thinking: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            signature: Option<&'a str>,
            #[serde(flatten)]
            rest: Map<String, Value>,
        }
        let text = self.text.into_string();
        let signature = self.signature.map(Utf16Text::into_string);
        if text.is_empty() && signature.as_ref().is_none_or(String::is_empty) {
            return None;
        }
        let thinking = text.as_str();
        let signature = signature.as_deref();
        let rest = serde_json::from_str(&self.rest).unwrap_or_default();
        let whole = WholeThinking { kind: "thinking", thinking, signature, rest };
        self.raw.or_else(|| serde_json::to_string(&whole).ok())
    }
}

impl PartialCall {
    pub(super) fn finish(self) -> Option<RawCall> {
        let pieces = self.pieces.into_string();
        let arguments = if pieces.trim().is_empty() { self.whole } else { pieces };
        let name = self.name.trim().to_owned();
        (!name.is_empty() || !arguments.is_empty())
            .then(|| RawCall { name, arguments: mended(&arguments) })
    }
}

impl Compaction {
    fn held_bytes(&self) -> usize {
        self.content.as_ref().map_or(0, Utf16Text::len) + self.encrypted.len()
    }

    /// The block as a document would hold it. `raw` is what it began with.
    fn finish(self, raw: &str) -> Option<String> {
        let mut block = serde_json::from_str::<Map<String, Value>>(raw).ok()?;
        if let Some(text) = self.content {
            let begun = block.get("content").and_then(Value::as_str).unwrap_or_default();
            block.insert(
                "content".to_owned(),
                Value::from(format!("{begun}{}", text.into_string())),
            );
        }
        if !self.encrypted.is_empty() {
            block.insert("encrypted_content".to_owned(), Value::from(self.encrypted));
        }
        Some(Value::Object(block).to_string())
    }
}

impl OpaquePart {
    pub(super) fn finish(self) -> Option<String> {
        if let Some(compaction) = self.compaction.filter(|_| !self.unknown) {
            return compaction.finish(&self.raw);
        }
        let input = self.input.into_string();
        if self.unknown || input.trim().is_empty() {
            return (!self.unknown).then_some(self.raw);
        }
        let block = serde_json::from_str::<Map<String, Value>>(&self.raw);
        let input = is_object(&input).then(|| serde_json::from_str(&input).ok()).flatten();
        let mut block = block.ok()?;
        let input = input?;
        block.insert("input".to_owned(), input);
        Some(Value::Object(block).to_string())
    }
}
