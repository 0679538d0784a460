//! Counts the tokens of requests and replies with the tokenizer of their model.

use std::sync::Arc;

use deputize_core::image::Image;
use deputize_core::model::{Reply, Request};
use deputize_core::{Message, ToolDecl};

use crate::models::ModelRoute;

/// Tokens around a message or a tool: its role, its marks.
const AROUND: u64 = 4;
/// Bytes of text that stand for a token of an image.
const BYTES_PER_TOKEN: u64 = 3;

/// Counts with the tokenizer of a model.
pub(crate) struct TokenCounter<'r> {
    route: &'r ModelRoute,
}

impl<'r> TokenCounter<'r> {
    /// Returns the counter of a model whose tokenizer is known.
    pub(crate) fn of(route: &'r ModelRoute) -> Option<Self> {
        route.model.count_tokens(&route.at_provider, "").map(|_| Self { route })
    }

    /// Returns the tokens of a request.
    pub(crate) fn request(&self, request: &Request<'_>) -> u64 {
        let system: u64 = request.system.iter().map(|block| self.text(block)).sum();
        let tool = |tool: &Arc<ToolDecl>| {
            let name = self.text(tool.name.as_str());
            name + self.text(&tool.description) + self.text(tool.parameters.as_str()) + AROUND
        };
        let tools: u64 = request.tools.iter().map(tool).sum();
        let messages: u64 = request.messages.iter().map(|message| self.message(message)).sum();
        system + tools + messages
    }

    /// Returns the tokens of the last messages that have so many bytes.
    pub(crate) fn last_messages(&self, messages: &[Arc<Message>], bytes: u64) -> u64 {
        let mut left = bytes;
        let is_among = |message: &&Arc<Message>| {
            let among = left > 0;
            left = left.saturating_sub(message.text_bytes());
            among
        };
        messages.iter().rev().take_while(is_among).map(|message| self.message(message)).sum()
    }

    /// Returns the tokens of a reply.
    pub(crate) fn reply(&self, reply: &Reply) -> u64 {
        let calls = reply.calls.iter();
        let calls: u64 =
            calls.map(|call| self.text(&call.name) + self.text(&call.arguments) + AROUND).sum();
        self.text(&reply.text) + self.text(&reply.reasoning) + calls
    }

    /// Returns the tokens of a text.
    pub(crate) fn text(&self, text: &str) -> u64 {
        let tokens = self.route.model.count_tokens(&self.route.at_provider, text);
        tokens.unwrap_or_default()
    }

    fn message(&self, message: &Message) -> u64 {
        let text = match message {
            Message::User(user) => self.text(&user.text),
            Message::Tool(result) => self.text(result.text.as_str()),
            Message::Assistant(said) => {
                let calls = said.calls.iter();
                let calls: u64 =
                    calls.map(|call| self.text(&call.name) + self.text(&call.arguments)).sum();
                let opaque: u64 = said.opaque.iter().map(|block| self.text(&block.raw)).sum();
                self.text(&said.text) + self.text(&said.reasoning) + calls + opaque
            }
        };
        let images: u64 = message.images().iter().map(Image::text_bytes).sum();
        text + images.div_ceil(BYTES_PER_TOKEN) + AROUND
    }
}
