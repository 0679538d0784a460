//! The texts of a reply: its answer, its reasoning and its refusal.

use deputize_core::model::Delta;

use super::thought_splitter::{ContentPart, ThoughtSplitter, split_unopened, split_whole};
use crate::json::Json;
use crate::stream::DeltaFn;
use crate::text::Utf16Text;

/// The texts of a reply that is arriving.
#[derive(Debug, Default)]
pub(super) struct ChatContent {
    text: Utf16Text,
    reasoning: Utf16Text,
    refusal: Utf16Text,
    /// Takes thoughts out of the content.
    splitter: ThoughtSplitter,
}

/// The texts of a whole reply.
#[derive(Debug)]
pub(super) struct ReplyTexts {
    pub(super) text: String,
    pub(super) reasoning: String,
    pub(super) refusal: String,
}

impl ChatContent {
    /// Adds a piece of the content, a text or a list of parts; returns whether it held anything.
    pub(super) fn add(
        &mut self,
        content: Option<&Json<'_>>,
        marked: bool,
        live: &mut DeltaFn<'_>,
    ) -> bool {
        let mut grown = false;
        match content {
            Some(Json::String(text)) => grown = self.add_text(text, marked, live),
            Some(Json::Array(parts)) => {
                for part in parts {
                    grown |= self.add_part(part, marked, live);
                }
            }
            _ => {}
        }
        grown
    }

    /// Adds a piece of the reasoning; returns whether it held anything.
    pub(super) fn add_reasoning(
        &mut self,
        piece: &str,
        marked: bool,
        live: &mut DeltaFn<'_>,
    ) -> bool {
        grow_reasoning(&mut self.reasoning, piece, marked, live);
        !piece.is_empty()
    }

    /// Adds a piece of the refusal; returns whether the refusal grew.
    pub(super) fn add_refusal(&mut self, piece: &str, marked: bool) -> bool {
        !self.refusal.push(piece, marked).is_empty()
    }

    fn add_part(&mut self, part: &Json<'_>, marked: bool, live: &mut DeltaFn<'_>) -> bool {
        let text = |value: &Json<'_>| value.get("text").and_then(Json::as_str).map(str::to_owned);
        if let Some(thoughts) = part.get("thinking").and_then(Json::as_array) {
            let thought: String = thoughts.iter().filter_map(text).collect();
            return self.add_reasoning(&thought, marked, live);
        }
        text(part).is_some_and(|text| self.add_text(&text, marked, live))
    }

    /// Adds a piece of the content, which may begin with thoughts.
    fn add_text(&mut self, piece: &str, marked: bool, live: &mut DeltaFn<'_>) -> bool {
        let Self { splitter, text, reasoning, .. } = self;
        splitter.push(piece, &mut |part, piece| match part {
            ContentPart::Thought => grow_reasoning(reasoning, piece, marked, live),
            ContentPart::Answer => grow_text(text, piece, marked, live),
        });
        !piece.is_empty()
    }

    /// Takes what the splitter still holds: the content is over.
    pub(super) fn end(&mut self, live: &mut DeltaFn<'_>) {
        let Self { splitter, text, reasoning, .. } = self;
        splitter.finish(&mut |part, piece| match part {
            ContentPart::Thought => grow_reasoning(reasoning, piece, false, live),
            ContentPart::Answer => grow_text(text, piece, false, live),
        });
    }

    /// Returns the answer so far, without thoughts before it.
    pub(super) fn answer(&self) -> &str {
        let text = self.text.as_str();
        let unopened = if self.reasoning.is_empty() { split_unopened(text) } else { None };
        unopened.map_or(text, |(_thought, answer)| answer.trim_start())
    }

    /// Returns about how many bytes are held.
    pub(super) fn held_bytes(&self) -> usize {
        let texts = [&self.text, &self.reasoning, &self.refusal];
        texts.iter().map(|text| text.len()).sum::<usize>() + self.splitter.held_bytes()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.reasoning.is_empty() && self.refusal.is_empty() && self.splitter.is_empty()
    }

    /// Returns the texts of the whole reply. That the text began inside a block of thoughts shows
    /// only when the block is closed: until then it was passed on as text.
    pub(super) fn into_texts(self) -> ReplyTexts {
        let text = self.text.into_string();
        let reasoning = self.reasoning.into_string();
        let refusal = self.refusal.into_string();
        let unopened = if reasoning.is_empty() { split_whole(&text) } else { None };
        match unopened {
            Some((thought, answer)) => ReplyTexts { text: answer, reasoning: thought, refusal },
            None => ReplyTexts { text, reasoning, refusal },
        }
    }
}

fn grow_text(text: &mut Utf16Text, piece: &str, marked: bool, live: &mut DeltaFn<'_>) {
    let grown = text.push(piece, marked);
    if !grown.is_empty() {
        live(Delta::Text(grown));
    }
}

fn grow_reasoning(reasoning: &mut Utf16Text, piece: &str, marked: bool, live: &mut DeltaFn<'_>) {
    let grown = reasoning.push(piece, marked);
    if !grown.is_empty() {
        live(Delta::Reasoning(grown));
    }
}
