//! The blocks of a reply, put together from pieces whose indexes cannot be trusted.
//!
//! Blocks stand in the order in which they began. All texts are one text, of which a block of
//! text is a range; between two of them that something else divides stands a blank line.

use deputize_core::message::OpaqueBlock;
use deputize_core::model::{Delta, RawCall};
use serde_json::Value;

use super::block::{BlockKind, OpaquePart, PartialBlock, PartialCall, Thinking};
use super::layout::{self, BlockSlot};
use super::piece::StartPiece;
use crate::arguments::text_of;
use crate::json::Json;
use crate::limits::{CALLS, ITEMS};
use crate::stream::DeltaFn;
use crate::stream_error::{ReplyTooLarge, StreamError};
use crate::text::Utf16Text;

#[derive(Debug, Default)]
pub(super) struct Blocks {
    blocks: Vec<PartialBlock>,
    text: Utf16Text,
    reasoning: Utf16Text,
    calls: usize,
}

/// What the blocks amount to.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) text: String,
    pub(super) reasoning: String,
    pub(super) calls: Vec<RawCall>,
    pub(super) opaque: Vec<OpaqueBlock>,
}

impl Blocks {
    pub(super) fn text(&self) -> &str {
        self.text.as_str()
    }

    pub(super) fn held_bytes(&self) -> usize {
        let blocks: usize = self.blocks.iter().map(PartialBlock::held_bytes).sum();
        self.text.len() + self.reasoning.len() + blocks
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(super) const fn has_calls(&self) -> bool {
        self.calls > 0
    }

    /// Takes a block's start, which may hold all of it; says whether that changed anything.
    pub(super) fn start(
        &mut self,
        index: Option<u64>,
        piece: &StartPiece<'_>,
        live: &mut DeltaFn<'_>,
    ) -> Result<bool, StreamError> {
        let before = self.blocks.len();
        let grown = match piece.word("type") {
            "text" => self.say(index, piece.word("text"), piece.marked, live)?,
            "thinking" => self.start_thinking(index, piece, live)?,
            "tool_use" => {
                live(Delta::Call(piece.word("name").len()));
                self.start_call(index, piece).map(|()| false)?
            }
            _ if !piece.value.is_object() => false,
            _ => self.start_other(index, piece).map(|()| false)?,
        };
        Ok(grown || self.blocks.len() > before)
    }

    /// Takes a piece of a block; says whether that changed anything.
    pub(super) fn delta(
        &mut self,
        index: Option<u64>,
        piece: &StartPiece<'_>,
        live: &mut DeltaFn<'_>,
    ) -> Result<bool, StreamError> {
        let has = |key: &str| piece.value.get(key).is_some_and(|value| !value.is_null());
        match piece.word("type") {
            "text_delta" => self.say(index, piece.word("text"), piece.marked, live),
            "thinking_delta" => self.think(index, piece.word("thinking"), piece.marked, live),
            "signature_delta" => {
                self.sign(index, piece).map(|()| !piece.word("signature").is_empty())
            }
            "input_json_delta" => self.argue(index, piece, live),
            "citations_delta" => Ok(false),
            "compaction_delta" => Ok(self.compact(index, piece)),
            "" if has("text") => self.say(index, piece.word("text"), piece.marked, live),
            "" if has("partial_json") => self.argue(index, piece, live),
            _ => Ok(self.mystify(index)),
        }
    }

    /// A block is over.
    pub(super) fn stop(&mut self, index: Option<u64>) {
        let block = self.blocks.iter_mut().rfind(|it| index.is_none() || it.index == index);
        if let Some(block) = block {
            block.stopped = true;
        }
    }

    fn push(&mut self, index: Option<u64>, kind: BlockKind) -> Result<(), StreamError> {
        if self.blocks.len() == ITEMS {
            return Err(ReplyTooLarge::Items.into());
        }
        self.blocks.push(PartialBlock { index, kind, stopped: false });
        Ok(())
    }

    /// The block of an index, or without one the last, if it is of a kind.
    fn find<'b, K>(
        &'b mut self,
        index: Option<u64>,
        kind: impl Fn(&'b mut BlockKind) -> Option<K>,
    ) -> Option<K> {
        let mut blocks = self.blocks.iter_mut().rev();
        blocks.find_map(|it| {
            if index.is_none() || it.index == index { kind(&mut it.kind) } else { None }
        })
    }

    fn say(
        &mut self,
        index: Option<u64>,
        piece: &str,
        marked: bool,
        live: &mut DeltaFn<'_>,
    ) -> Result<bool, StreamError> {
        if piece.is_empty() {
            return Ok(false);
        }
        let last = self.blocks.len().checked_sub(1);
        let place = self.blocks.iter().rposition(|it| matches!(it.kind, BlockKind::Text { .. }));
        let place = place.filter(|place| {
            let block = self.blocks.get(*place);
            Some(*place) == last || (index.is_some() && block.is_some_and(|it| it.index == index))
        });
        let place = match place {
            Some(place) => place,
            None => {
                let apart = !self.text.is_empty() && !self.text.as_str().ends_with('\n');
                let gap = self.text.push(if apart { "\n\n" } else { "" }, false);
                if !gap.is_empty() {
                    live(Delta::Text(gap));
                }
                let from = self.text.as_str().len();
                self.push(index, BlockKind::Text { from, to: from })?;
                self.blocks.len() - 1
            }
        };
        let grown = self.text.push(piece, marked);
        if !grown.is_empty() {
            live(Delta::Text(grown));
        }
        let end = self.text.as_str().len();
        if let Some(PartialBlock { kind: BlockKind::Text { to, .. }, .. }) =
            self.blocks.get_mut(place)
        {
            *to = end;
        }
        Ok(true)
    }

    fn start_thinking(
        &mut self,
        index: Option<u64>,
        piece: &StartPiece<'_>,
        live: &mut DeltaFn<'_>,
    ) -> Result<bool, StreamError> {
        let again = self.blocks.iter().rfind(|it| index.is_some() && it.index == index);
        let again =
            again.is_some_and(|it| matches!(it.kind, BlockKind::Thinking(_)) && !it.stopped);
        if !again {
            let mut rest = piece.object();
            rest.retain(|key, _| !matches!(key.as_str(), "type" | "thinking" | "signature"));
            // As text: parsed, it takes many times its bytes.
            let rest = Value::Object(rest).to_string();
            self.push(index, BlockKind::Thinking(Thinking { rest, ..Thinking::default() }))?;
        }
        let grown = self.think(index, piece.word("thinking"), piece.marked, live)?;
        if piece.value.get("signature").is_some_and(Json::is_string) {
            self.sign(index, piece)?;
        }
        if !again {
            self.with_thinking(index, |thinking| thinking.raw = Some(piece.settled()))?;
        }
        Ok(grown)
    }

    fn think(
        &mut self,
        index: Option<u64>,
        piece: &str,
        marked: bool,
        live: &mut DeltaFn<'_>,
    ) -> Result<bool, StreamError> {
        if piece.is_empty() {
            return Ok(false);
        }
        let mut first = false;
        self.with_thinking(index, |thinking| {
            first = thinking.text.is_empty();
            thinking.raw = None;
            thinking.text.push(piece, marked);
        })?;
        if first && !self.reasoning.is_empty() && !self.reasoning.as_str().ends_with('\n') {
            live(Delta::Reasoning(self.reasoning.push("\n\n", false)));
        }
        let grown = self.reasoning.push(piece, marked);
        if !grown.is_empty() {
            live(Delta::Reasoning(grown));
        }
        Ok(true)
    }

    fn sign(&mut self, index: Option<u64>, piece: &StartPiece<'_>) -> Result<(), StreamError> {
        self.with_thinking(index, |thinking| {
            thinking.raw = None;
            let signature = thinking.signature.get_or_insert_default();
            signature.push(piece.word("signature"), piece.marked);
        })
    }

    /// Changes the thinking of an index; one whose start is missing begins now.
    fn with_thinking(
        &mut self,
        index: Option<u64>,
        change: impl FnOnce(&mut Thinking),
    ) -> Result<(), StreamError> {
        let found = self.find(index, |kind| match kind {
            BlockKind::Thinking(thinking) => Some(thinking),
            BlockKind::Text { .. } | BlockKind::Call(_) | BlockKind::Other(_) => None,
        });
        if let Some(thinking) = found {
            change(thinking);
            return Ok(());
        }
        let mut thinking = Thinking::default();
        change(&mut thinking);
        self.push(index, BlockKind::Thinking(thinking))
    }

    fn start_call(
        &mut self,
        index: Option<u64>,
        piece: &StartPiece<'_>,
    ) -> Result<(), StreamError> {
        let id = piece.word("id");
        let name = piece.word("name");
        let whole = piece.input();
        let again = self.blocks.iter_mut().rfind(|it| index.is_some() && it.index == index);
        if let Some(PartialBlock { kind: BlockKind::Call(call), stopped, .. }) = again {
            let begun = *stopped || !call.pieces.is_empty();
            if call.name == name && call.id == id && !(id.is_empty() && begun) {
                if !whole.is_empty() {
                    call.whole = whole;
                }
                return Ok(());
            }
        }
        let call = PartialCall {
            id: id.to_owned(),
            name: name.to_owned(),
            whole,
            pieces: Utf16Text::default(),
        };
        self.push_call(index, call)
    }

    fn push_call(&mut self, index: Option<u64>, call: PartialCall) -> Result<(), StreamError> {
        if self.calls == CALLS {
            return Err(ReplyTooLarge::Calls.into());
        }
        self.calls += 1;
        self.push(index, BlockKind::Call(call))
    }

    /// Takes a piece of arguments. Arguments of a block that never began become a call without a
    /// name, so that the model gets an error instead of waiting for nothing.
    fn argue(
        &mut self,
        index: Option<u64>,
        piece: &StartPiece<'_>,
        live: &mut DeltaFn<'_>,
    ) -> Result<bool, StreamError> {
        let text = text_of(piece.value.get("partial_json"));
        if text.is_empty() {
            return Ok(false);
        }
        live(Delta::Call(text.len()));
        let found = self.find(index, |kind| match kind {
            BlockKind::Call(call) => Some(&mut call.pieces),
            BlockKind::Other(other) => Some(&mut other.input),
            BlockKind::Text { .. } | BlockKind::Thinking(_) => None,
        });
        if let Some(pieces) = found {
            pieces.push(&text, piece.marked);
            return Ok(true);
        }
        let mut call = PartialCall::default();
        call.pieces.push(&text, piece.marked);
        self.push_call(index, call).map(|()| true)
    }

    fn start_other(
        &mut self,
        index: Option<u64>,
        piece: &StartPiece<'_>,
    ) -> Result<(), StreamError> {
        let raw = piece.settled();
        let again = self.blocks.iter().rfind(|it| index.is_some() && it.index == index);
        if again.is_some_and(|it| matches!(&it.kind, BlockKind::Other(other) if other.raw == raw)) {
            return Ok(());
        }
        let other = OpaquePart { raw, ..OpaquePart::default() };
        self.push(index, BlockKind::Other(other))
    }

    /// Takes a piece of the summary that the server made of the conversation before.
    fn compact(&mut self, index: Option<u64>, piece: &StartPiece<'_>) -> bool {
        let found = self.find(index, |kind| match kind {
            BlockKind::Other(other) => Some(other),
            BlockKind::Text { .. } | BlockKind::Thinking(_) | BlockKind::Call(_) => None,
        });
        let Some(other) = found else { return false };
        let compaction = other.compaction.get_or_insert_default();
        if let Some(text) = piece.value.get("content").and_then(Json::as_str) {
            compaction.content.get_or_insert_default().push(text, piece.marked);
        }
        let encrypted = piece.word("encrypted_content");
        if !encrypted.is_empty() {
            encrypted.clone_into(&mut compaction.encrypted);
        }
        true
    }

    /// A piece of a kind that is not known: its block cannot be put together.
    fn mystify(&mut self, index: Option<u64>) -> bool {
        let found = self.find(index, |kind| match kind {
            BlockKind::Other(other) => Some(other),
            BlockKind::Text { .. } | BlockKind::Thinking(_) | BlockKind::Call(_) => None,
        });
        found.is_some_and(|other| !std::mem::replace(&mut other.unknown, true))
    }

    /// Returns the finished content. `cut` is whether the output limit ended it.
    pub(super) fn finish(mut self, cut: bool) -> Content {
        if cut && self.blocks.last().is_some_and(PartialBlock::is_unsigned) {
            self.blocks.pop();
        }
        let text = self.text.into_string();
        let last = self.blocks.iter().rposition(|it| matches!(it.kind, BlockKind::Text { .. }));
        let mut calls = Vec::new();
        let mut opaque = Vec::new();
        let mut places = Vec::new();
        for (place, block) in self.blocks.into_iter().enumerate() {
            match block.kind {
                // The end of the text may have been waiting for its other half.
                BlockKind::Text { from, .. } if Some(place) == last => {
                    places.push(BlockSlot::Text(from, text.len()));
                }
                BlockKind::Text { from, to } => places.push(BlockSlot::Text(from, to)),
                BlockKind::Call(call) => {
                    if let Some(call) = call.finish() {
                        calls.push(call);
                        places.push(BlockSlot::Call);
                    }
                }
                BlockKind::Thinking(thinking) => {
                    if let Some(raw) = thinking.finish() {
                        opaque.push(OpaqueBlock::new(super::WIRE, raw));
                        places.push(BlockSlot::Opaque);
                    }
                }
                BlockKind::Other(other) => {
                    if let Some(raw) = other.finish() {
                        opaque.push(OpaqueBlock::new(super::WIRE, raw));
                        places.push(BlockSlot::Opaque);
                    }
                }
            }
        }
        opaque.extend(layout::entry(&places));
        Content { text, reasoning: self.reasoning.into_string(), calls, opaque }
    }
}
