//! Counts the bytes of requests and replies, without what a wire adds.

use std::sync::Arc;

use deputize_core::ToolDecl;
use deputize_core::model::{Reply, Request};

/// The size of the next request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestSize {
    pub(crate) bytes: u64,
    /// Its likely number of tokens.
    pub(crate) tokens: u64,
}

impl RequestSize {
    /// Returns the bytes of so many of its tokens.
    pub(crate) fn bytes_of(self, tokens: u64) -> u64 {
        tokens.saturating_mul(self.bytes) / self.tokens.max(1)
    }

    /// Returns the bytes that fill a model's context, at most its own.
    pub(crate) fn window_bytes(self, window: Option<u32>) -> u64 {
        window.map_or(self.bytes, |window| self.bytes_of(window.into()).min(self.bytes))
    }
}

/// Returns the bytes of the text of a request: system, tools and messages.
pub(crate) fn request_bytes(request: &Request<'_>) -> u64 {
    let system: usize = request.system.iter().map(|block| block.len()).sum();
    let tool = |tool: &Arc<ToolDecl>| {
        tool.name.as_str().len() + tool.description.len() + tool.parameters.as_str().len()
    };
    let tools: usize = request.tools.iter().map(tool).sum();
    let messages: u64 = request.messages.iter().map(|message| message.text_bytes()).sum();
    (system + tools) as u64 + messages
}

/// Returns the bytes of a reply, as [`request_bytes`] counts them when it is sent back.
pub(crate) fn reply_bytes(reply: &Reply) -> u64 {
    let calls = reply.calls.iter().map(|call| call.name.len() + call.arguments.len());
    let opaque = reply.opaque.iter().map(|block| block.raw.len());
    let rest: usize = calls.chain(opaque).sum();
    (reply.text.len() + reply.reasoning.len() + rest) as u64
}

/// Returns the bytes that a model wrote in a reply.
pub(crate) fn said_bytes(reply: &Reply) -> u64 {
    let calls: usize = reply.calls.iter().map(|call| call.arguments.len()).sum();
    (reply.text.len() + reply.reasoning.len() + calls) as u64
}
