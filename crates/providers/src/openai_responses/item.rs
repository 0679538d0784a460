//! One output item: a message, a call, a piece of reasoning, or something newer than we are.

use std::collections::BTreeMap;

use crate::arguments;
use crate::json::Json;
use crate::limits::PARTS;
use crate::stream_error::{ReplyTooLarge, StreamError};
use crate::text::Utf16Text;

/// What an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemKind {
    Message,
    Call,
    Reasoning,
    /// Anything else, which goes back as it came.
    Other,
}

impl ItemKind {
    pub(super) const ALL: [Self; 4] = [Self::Message, Self::Call, Self::Reasoning, Self::Other];
}

/// What a text of an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TextPart {
    Text,
    Refusal,
    /// The arguments of a call.
    Arguments,
    /// A summary of the reasoning.
    Summary,
    /// The reasoning itself, from open models.
    Thought,
}

impl TextPart {
    const ALL: [Self; 5] =
        [Self::Text, Self::Refusal, Self::Arguments, Self::Summary, Self::Thought];

    /// The items that have such texts.
    pub(super) const fn kind(self) -> ItemKind {
        match self {
            Self::Text | Self::Refusal => ItemKind::Message,
            Self::Arguments => ItemKind::Call,
            Self::Summary | Self::Thought => ItemKind::Reasoning,
        }
    }
}

/// Which text of an item: what it is, and its number among those.
pub(super) type TextKey = (TextPart, u64);

/// An item that is arriving or has arrived.
#[derive(Debug)]
pub(super) struct PartialItem {
    pub(super) kind: ItemKind,
    /// Our number of it, in the order of arrival.
    pub(super) serial: usize,
    ids: ItemIds,
    pub(super) index: Option<u64>,
    pub(super) name: String,
    /// Which part of a turn a message belongs to; such a server wants it back.
    pub(super) phase: String,
    /// Whether the event that ends it was seen.
    pub(super) closed: bool,
    /// Its bytes as received, when whole, if they are to go back.
    pub(super) raw: Option<String>,
    texts: BTreeMap<TextKey, Utf16Text>,
    /// Which of its texts is shown as its reasoning: what came first.
    shown_reasoning: Option<TextPart>,
}

/// What a server calls an item; empty where it says nothing.
#[derive(Debug, Default)]
struct ItemIds {
    item: String,
    call: String,
}

/// Items that ask the client for something that we do not offer: no answer to them could go
/// back, and without one a server refuses them.
const UNANSWERED: [&str; 6] = [
    "custom_tool_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "computer_call",
    "mcp_approval_request",
];

impl PartialItem {
    /// An item of which nothing is known but where it stands.
    pub(super) fn new(kind: ItemKind, id: &str, index: Option<u64>) -> Self {
        Self {
            kind,
            serial: 0,
            ids: ItemIds { item: id.to_owned(), call: String::new() },
            index,
            name: String::new(),
            phase: String::new(),
            closed: false,
            raw: None,
            texts: BTreeMap::new(),
            shown_reasoning: None,
        }
    }

    /// Reads an item as a server wrote it; `raw` are its bytes.
    pub(super) fn read(
        value: &Json<'_>,
        marked: bool,
        raw: Option<&str>,
    ) -> Result<Option<Self>, StreamError> {
        let word = |key: &str| value.get(key).and_then(Json::as_str).unwrap_or_default();
        let has = |key: &str| value.get(key).is_some();
        let kind = match word("type") {
            "message" => ItemKind::Message,
            "function_call" => ItemKind::Call,
            "reasoning" => ItemKind::Reasoning,
            "" if has("arguments") && has("name") => ItemKind::Call,
            "" if has("content") => ItemKind::Message,
            "" => return Ok(None),
            _ => ItemKind::Other,
        };
        let mut item = Self::new(kind, word("id").trim(), None);
        word("call_id").trim().clone_into(&mut item.ids.call);
        match kind {
            ItemKind::Message => {
                word("phase").clone_into(&mut item.phase);
                item.read_texts(value.get("content"), TextPart::Text, marked)?;
            }
            ItemKind::Call => {
                word("name").trim().clone_into(&mut item.name);
                let text = arguments::text_of(value.get("arguments"));
                item.push((TextPart::Arguments, 0), &text, marked)?;
            }
            ItemKind::Reasoning => {
                item.read_texts(value.get("summary"), TextPart::Summary, marked)?;
                item.read_texts(value.get("content"), TextPart::Thought, marked)?;
            }
            ItemKind::Other => {}
        }
        let encrypted = word("encrypted_content");
        let kept = match kind {
            // Without either of the two there is nothing in it that a server could read.
            ItemKind::Reasoning => {
                !encrypted.is_empty() || !item.join_texts(TextPart::Thought).is_empty()
            }
            ItemKind::Other => !UNANSWERED.contains(&word("type")),
            ItemKind::Message | ItemKind::Call => false,
        };
        item.raw = kept.then(|| raw.map_or_else(|| value.to_string(), str::to_owned));
        Ok(Some(item))
    }

    /// Reads a list of parts, or the bare text in its place.
    fn read_texts(
        &mut self,
        parts: Option<&Json<'_>>,
        part: TextPart,
        marked: bool,
    ) -> Result<(), StreamError> {
        match parts {
            Some(Json::String(text)) => self.push((part, 0), text, marked).map(drop),
            Some(Json::Array(parts)) => {
                for (number, value) in (0..).zip(parts) {
                    let refusal = value.get("refusal").and_then(Json::as_str);
                    let refusal = refusal.filter(|_| part == TextPart::Text);
                    let text = value.as_str().or_else(|| value.get("text")?.as_str());
                    let part = if refusal.is_some() { TextPart::Refusal } else { part };
                    self.push((part, number), refusal.or(text).unwrap_or_default(), marked)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// What it is called: its id, or else that of its call.
    pub(super) fn id(&self) -> &str {
        if self.ids.item.is_empty() { &self.ids.call } else { &self.ids.item }
    }

    pub(super) fn has_id(&self, id: &str) -> bool {
        !id.is_empty() && (self.ids.item == id || self.ids.call == id)
    }

    /// Whether two items carry the same id.
    pub(super) fn shares_id(&self, other: &Self) -> bool {
        self.has_id(&other.ids.item) || self.has_id(&other.ids.call)
    }

    pub(super) fn has_no_id(&self) -> bool {
        self.ids.item.is_empty() && self.ids.call.is_empty()
    }

    /// Whether it says nothing at all.
    pub(super) fn is_empty(&self) -> bool {
        self.name.is_empty() && self.raw.is_none() && self.texts.values().all(Utf16Text::is_empty)
    }

    /// Returns the bytes held of it.
    pub(super) fn held_bytes(&self) -> usize {
        let texts = self.texts.values().map(|text| text.len() + size_of::<(TextKey, Utf16Text)>());
        let words = [&self.ids.item, &self.ids.call, &self.name, &self.phase].map(String::len);
        let raw = self.raw.as_ref().map_or(0, String::len);
        let words: usize = words.iter().sum();
        size_of::<Self>() + raw + words + texts.sum::<usize>()
    }

    /// Adds a piece to one of its texts; gives what that text grew by.
    pub(super) fn push(
        &mut self,
        key: TextKey,
        piece: &str,
        marked: bool,
    ) -> Result<&str, StreamError> {
        if piece.is_empty() {
            return Ok("");
        }
        if self.texts.len() == PARTS && !self.texts.contains_key(&key) {
            return Err(ReplyTooLarge::Items.into());
        }
        if key.0.kind() == ItemKind::Reasoning {
            self.shown_reasoning = self.shown_reasoning.or(Some(key.0));
        }
        Ok(self.texts.entry(key).or_default().push(piece, marked))
    }

    /// Takes the whole of one of its texts in place of the pieces; gives what is new at its
    /// end, if the pieces were its beginning.
    pub(super) fn settle(
        &mut self,
        key: TextKey,
        whole: &str,
        marked: bool,
    ) -> Result<String, StreamError> {
        if whole.is_empty() {
            return Ok(String::new());
        }
        // Some servers number the pieces of one text otherwise than the whole.
        let same = |(known, _): &(&TextKey, &Utf16Text)| known.0 == key.0;
        let mut known = self.texts.iter().filter(same);
        let key = match (self.texts.contains_key(&key), known.next(), known.next()) {
            (false, Some((only, text)), None) if whole.starts_with(text.as_str()) => *only,
            _ => key,
        };
        let before = self.texts.remove(&key).unwrap_or_default();
        let whole = self.push(key, whole, marked)?;
        Ok(whole.strip_prefix(before.as_str()).unwrap_or_default().to_owned())
    }

    /// Takes the item as it was at its end. What that leaves out stays as it was. Gives the
    /// texts that grew, and by what.
    pub(super) fn absorb(&mut self, whole: Self) -> Vec<(TextKey, String)> {
        let mut grown = Vec::new();
        let fill = |old: &mut String, new: String| {
            if !new.is_empty() {
                *old = new;
            }
        };
        fill(&mut self.ids.item, whole.ids.item);
        fill(&mut self.ids.call, whole.ids.call);
        fill(&mut self.name, whole.name);
        fill(&mut self.phase, whole.phase);
        self.index = self.index.or(whole.index);
        self.raw = whole.raw.or_else(|| self.raw.take());
        self.shown_reasoning = self.shown_reasoning.or(whole.shown_reasoning);
        let mut texts = whole.texts;
        for part in TextPart::ALL {
            let old = split_off(&mut self.texts, part);
            let new = split_off(&mut texts, part);
            if new.values().all(Utf16Text::is_empty) {
                self.texts.extend(old);
                continue;
            }
            let same = old.values().flat_map(|it| it.as_str().bytes());
            let same = same.eq(new.values().flat_map(|it| it.as_str().bytes()));
            let within = old.keys().all(|key| new.contains_key(key));
            for (key, text) in &new {
                let before = old.get(key).map_or("", Utf16Text::as_str);
                let more = text.as_str().strip_prefix(before).filter(|_| within && !same);
                if let Some(more) = more.filter(|more| !more.is_empty()) {
                    grown.push((*key, more.to_owned()));
                }
            }
            self.texts.extend(new);
        }
        grown
    }

    /// All its texts.
    pub(super) fn all_texts(&self) -> Vec<(TextKey, String)> {
        self.texts.iter().map(|(key, text)| (*key, text.as_str().to_owned())).collect()
    }

    /// Whether a text of it is shown while it arrives.
    pub(super) fn shows(&self, part: TextPart) -> bool {
        part == TextPart::Text || self.shown_reasoning.is_none_or(|shown| shown == part)
    }

    fn join_texts(&self, part: TextPart) -> String {
        let texts = self.texts.iter().filter(|(key, _)| key.0 == part);
        texts.map(|(_, text)| text.as_str()).collect()
    }

    /// Takes a text out, its parts put together with `between`.
    pub(super) fn take_text(&mut self, part: TextPart, between: &str) -> String {
        let texts = split_off(&mut self.texts, part).into_values().map(Utf16Text::into_string);
        let mut texts = texts.filter(|text| !text.is_empty());
        let Some(mut whole) = texts.next() else { return String::new() };
        for text in texts {
            whole.push_str(between);
            whole.push_str(&text);
        }
        whole
    }

    /// Takes its reasoning out, as it was shown.
    pub(super) fn take_reasoning(&mut self) -> String {
        let shown = self.shown_reasoning.unwrap_or(TextPart::Summary);
        let other = if shown == TextPart::Summary { TextPart::Thought } else { TextPart::Summary };
        let reasoning = self.take_text(shown, "\n\n");
        if reasoning.is_empty() { self.take_text(other, "\n\n") } else { reasoning }
    }
}

fn split_off(
    texts: &mut BTreeMap<TextKey, Utf16Text>,
    part: TextPart,
) -> BTreeMap<TextKey, Utf16Text> {
    let keys: Vec<TextKey> = texts.keys().filter(|key| key.0 == part).copied().collect();
    keys.into_iter().filter_map(|key| Some((key, texts.remove(&key)?))).collect()
}
