//! A conversation as this wire has it: user and assistant in turn, each with blocks.

use std::iter;
use std::sync::Arc;

use deputize_core::image::Image;
use deputize_core::message::{AssistantMessage, CallStatus, OpaqueBlock};
use deputize_core::{CallId, Message, ToolCall, ToolResult};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::layout::{BlockSlot, places};
use crate::sendable;

/// What stands for an empty result: servers refuse empty texts.
const NO_TEXT: &str = "(no text)";

/// What stands for a result that is not on record: servers refuse a call without one.
const NO_RESULT: &str = "(no result is on record)";

/// All that one side says before the other does.
#[derive(Serialize)]
pub(super) struct SideTurn<'a> {
    role: Role,
    content: Vec<RequestBlock<'a>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum RequestBlock<'a> {
    Own(TypedBlock<'a>),
    /// As it was received.
    Raw(&'a RawValue),
}

/// A block of our making. `cache_control` is the last member of each, so that a breakpoint
/// changes no other byte.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum TypedBlock<'a> {
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<&'a Value>,
    },
    Image {
        source: ImageSource<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<&'a Value>,
    },
    ToolUse {
        id: CallId,
        name: String,
        input: &'a RawValue,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<&'a Value>,
    },
    ToolResult {
        tool_use_id: CallId,
        content: ResultContent<'a>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<&'a Value>,
    },
}

/// The result of a call: blocks where there are images.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ResultContent<'a> {
    Text(&'a str),
    Blocks(Vec<TypedBlock<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ImageSource<'a> {
    Base64 { media_type: &'static str, data: &'a str },
}

impl<'a> TypedBlock<'a> {
    const fn text(text: &'a str) -> Self {
        Self::Text { text, cache_control: None }
    }

    fn image(image: &'a Image) -> Self {
        let media_type = image.format().media_type();
        let source = ImageSource::Base64 { media_type, data: image.base64() };
        Self::Image { source, cache_control: None }
    }
}

impl<'a> RequestBlock<'a> {
    pub(super) const fn text(text: &'a str) -> Self {
        Self::Own(TypedBlock::text(text))
    }

    /// Makes a breakpoint of it; says whether it can be one.
    pub(super) const fn mark(&mut self, cache: Option<&'a Value>) -> bool {
        let Self::Own(own) = self else { return false };
        let (TypedBlock::Text { cache_control, .. }
        | TypedBlock::Image { cache_control, .. }
        | TypedBlock::ToolUse { cache_control, .. }
        | TypedBlock::ToolResult { cache_control, .. }) = own;
        *cache_control = cache;
        true
    }

    fn result(call: CallId, text: &'a str, images: &'a [Image], is_error: bool) -> Self {
        let text = if text.trim().is_empty() { NO_TEXT } else { text };
        let content = match images {
            [] => ResultContent::Text(text),
            images => {
                let images = images.iter().map(TypedBlock::image);
                ResultContent::Blocks(iter::once(TypedBlock::text(text)).chain(images).collect())
            }
        };
        Self::Own(TypedBlock::ToolResult {
            tool_use_id: call,
            content,
            is_error,
            cache_control: None,
        })
    }

    const fn is_result(&self) -> bool {
        matches!(self, Self::Own(TypedBlock::ToolResult { .. }))
    }

    /// Whether it is thinking, which must not be the last of a message.
    fn is_thinking(&self) -> bool {
        #[derive(Deserialize)]
        struct BlockType<'t> {
            #[serde(rename = "type")]
            kind: &'t str,
        }
        let Self::Raw(raw) = self else { return false };
        let typed = serde_json::from_str::<BlockType<'_>>(raw.get());
        typed.is_ok_and(|it| matches!(it.kind, "thinking" | "redacted_thinking"))
    }
}

/// The messages of a request, with breakpoints at the end of the last turn and of the last
/// user turn before it.
pub(super) fn turns<'a>(
    messages: &'a [Arc<Message>],
    cache: Option<&'a Value>,
) -> Vec<SideTurn<'a>> {
    let mut turns = TurnBuilder::default();
    for message in messages {
        match &**message {
            Message::User(user) => turns.user(&user.text, &user.images),
            Message::Tool(result) => turns.result(result),
            Message::Assistant(said) => turns.assistant(said),
        }
    }
    let mut turns = turns.finish();
    let (last, before) = match turns.split_last_mut() {
        Some((last, before)) => (Some(last), before),
        None => (None, [].as_mut_slice()),
    };
    let before = before.iter_mut().rfind(|turn| turn.role == Role::User);
    for turn in last.into_iter().chain(before) {
        turn.content.iter_mut().rev().any(|block| block.mark(cache));
    }
    turns
}

/// Whether a tool loop is under way that began without thinking: its replies are another
/// model's, whose thinking is not sent. Servers then refuse a request that asks for a budget of it.
pub(super) fn began_without_thinking(turns: &[SideTurn<'_>]) -> bool {
    let goes_on = |turn: &SideTurn<'_>| turn.content.iter().any(RequestBlock::is_result);
    let [before @ .., last] = turns else { return false };
    if !goes_on(last) {
        return false;
    }
    let begin = before.iter().rposition(|turn| turn.role == Role::User && !goes_on(turn));
    let first = before.get(begin.map_or(0, |at| at + 1));
    first.and_then(|turn| turn.content.first()).is_some_and(|block| !block.is_thinking())
}

/// Turns that grow with each message.
#[derive(Default)]
struct TurnBuilder<'a> {
    done: Vec<SideTurn<'a>>,
    /// The user turn that is not at its end: results go before texts.
    results: Vec<RequestBlock<'a>>,
    texts: Vec<RequestBlock<'a>>,
    /// Calls of the turn before that have no result yet.
    open: Vec<CallId>,
}

impl<'a> TurnBuilder<'a> {
    fn user(&mut self, text: &'a str, images: &'a [Image]) {
        let images = images.iter().map(|image| RequestBlock::Own(TypedBlock::image(image)));
        self.texts.extend(images);
        if !text.trim().is_empty() {
            self.texts.push(RequestBlock::text(text));
        }
    }

    fn result(&mut self, result: &'a ToolResult) {
        let text = result.text.as_str();
        match self.open.iter().position(|call| *call == result.call) {
            Some(place) => {
                self.open.remove(place);
                let images = &result.images;
                // Servers take nothing but text in a failed result; its text says that it failed.
                let failed = result.status != CallStatus::Ok && images.is_empty();
                self.results.push(RequestBlock::result(result.call, text, images, failed));
            }
            // Servers refuse a result whose call is not in the turn before.
            None => self.user(text, &result.images),
        }
    }

    fn assistant(&mut self, said: &'a AssistantMessage) {
        self.end_user();
        let content = blocks(said);
        if content.is_empty() {
            return;
        }
        self.open.extend(said.calls.iter().map(|call| call.id));
        self.push(Role::Assistant, content);
    }

    fn end_user(&mut self) {
        let mut content = std::mem::take(&mut self.results);
        let texts = std::mem::take(&mut self.texts);
        if !content.is_empty() || !texts.is_empty() {
            let open = self.open.drain(..);
            content.extend(open.map(|call| RequestBlock::result(call, NO_RESULT, &[], true)));
            content.extend(texts);
            self.push(Role::User, content);
        }
    }

    /// Adds to the last turn, if it is of the same side.
    fn push(&mut self, role: Role, content: Vec<RequestBlock<'a>>) {
        match self.done.last_mut().filter(|turn| turn.role == role) {
            Some(turn) => turn.content.extend(content),
            None => self.done.push(SideTurn { role, content }),
        }
    }

    fn finish(mut self) -> Vec<SideTurn<'a>> {
        self.end_user();
        self.done
    }
}

/// The blocks of a message, in the order in which they were received.
fn blocks(said: &AssistantMessage) -> Vec<RequestBlock<'_>> {
    let ours = |opaque: &&OpaqueBlock| opaque.wire == super::WIRE;
    let mut opaque = said.opaque.iter().filter(ours);
    let mut calls = said.calls.iter();
    let places = places(&said.opaque, &said.text, said.calls.len());
    let block = |place| match place {
        BlockSlot::Opaque => raw(opaque.next()?),
        BlockSlot::Text(from, to) => said.text.get(from..to).map(RequestBlock::text),
        BlockSlot::Call => calls.next().map(tool_use),
    };
    let mut blocks: Vec<_> = places.into_iter().filter_map(block).collect();
    // Servers refuse empty texts, space at the end of a message, and thinking there.
    while let Some(last) = blocks.last_mut() {
        if let RequestBlock::Own(TypedBlock::Text { text, .. }) = last {
            *text = text.trim_end();
            if !text.is_empty() {
                break;
            }
        } else if !last.is_thinking() {
            break;
        }
        blocks.pop();
    }
    let blank = |block: &RequestBlock<'_>| matches!(block, RequestBlock::Own(TypedBlock::Text { text, .. }) if text.trim().is_empty());
    blocks.retain(|block| !blank(block));
    blocks
}

fn raw(opaque: &OpaqueBlock) -> Option<RequestBlock<'_>> {
    serde_json::from_str(&opaque.raw).ok().map(RequestBlock::Raw)
}

fn tool_use(call: &ToolCall) -> RequestBlock<'_> {
    let input = serde_json::from_str(sendable::arguments(&call.arguments));
    RequestBlock::Own(TypedBlock::ToolUse {
        id: call.id,
        name: sendable::name(&call.name),
        input: input.unwrap_or(RawValue::NULL),
        cache_control: None,
    })
}
