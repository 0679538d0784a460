//! The Anthropic Messages wire.
//!
//! [`request_body`] turns a request into bytes, [`ReplyStream`] turns bytes into a reply; both
//! are pure. [`AnthropicMessages`] puts HTTP between them.
//!
//! # When a reply is complete
//!
//! The end mark is the event `message_stop`. A `message_delta` with a stop reason after which
//! nothing but the end of the body came counts too, if that end is in order: some servers
//! forget the mark, and whatever holds content stands before the stop reason. When the
//! connection breaks there, the reply is incomplete. A document (an answer that is no stream)
//! is complete when its JSON is. Without an end mark there is no reply, only the text until
//! then, and no call of it is ever given out. A `message_start` of another message inside a
//! message (a relay that began anew) is a failure, because two halves are no reply.
//!
//! # Why it stopped
//!
//! | stop reason | reply |
//! | --- | --- |
//! | `end_turn`, `tool_use`, `stop_sequence`, unknown ones | done |
//! | `max_tokens` | cut: it is not at its end |
//! | `pause_turn`, `compaction` (unless there are calls to run) | paused: it goes back, and the model goes on |
//! | `model_context_window_exceeded` | a context overflow; what had arrived is partial |
//! | `refusal` | refused; calls of it do not run |
//!
//! # Blocks that go back
//!
//! Thinking, redacted thinking, the server's compaction of the conversation, and blocks that this
//! wire does not know are kept as
//! [`OpaqueBlock`](deputize_core::message::OpaqueBlock) of the wire `anthropic-messages`: as received, or, where
//! they came in pieces, as the block of a document with the same texts. Blocks go back in the
//! order opaque ones, text, calls. Where the reply had another order (thinking between calls),
//! one more entry, of the wire `anthropic-messages/layout`, says so: a list of `"opaque"`,
//! `"call"` and `{"text":[FROM,TO]}`, bytes of the message's text. Blocks of which not all
//! pieces are understood, and thinking without a signature that the output limit cut, are left
//! out, because a server refuses them.
//!
//! # What is cached
//!
//! At most four breakpoints: two for what comes before the conversation (the last two of: end
//! of the tools, end of the first system block, which agents share, end of the system text),
//! one at the end of the conversation, one at the end of the last user turn before it, where
//! the request before had its last. An extra field `cache_control` is the breakpoint's value
//! (`{"type":"ephemeral","ttl":"1h"}`); null leaves all of them out.
//!
//! # How much it thinks
//!
//! Only where an effort is asked for. Claude models from 4.6 on (and Claude names without a
//! version) take `thinking: adaptive` and the effort in `output_config`, where `minimal` is
//! `low`, and `xhigh` is `max` for 4.6; `none` is `low` without asking for thinking. All others
//! take a budget of tokens: 1,024 for `minimal`, 4,096 `low`, 8,192 `medium`, 16,384 `high`,
//! 24,000 `xhigh` and `max`, at most three quarters of `max_tokens`, and none at all if that is
//! less than 1,024; `none` disables it. Extra fields replace all of that. A tool loop that
//! another model began, whose thinking is not sent, goes on without a budget until it is over:
//! servers refuse the request otherwise.

mod block;
mod blocks;
mod layout;
mod piece;
mod request;
mod stream;
mod thinking;
mod turns;
mod usage;

use deputize_core::model::{Delta, ModelError, Reply, Request};
use deputize_core::{BoxFuture, Cancel};

use crate::endpoint::{KeyHeader, WireDefaults};
use crate::http::{RemoteModel, WireRequest, exchange, offers_tools};
use crate::http_model::http_model;
use crate::stream::{EventParser as _, ReplyBytes, reply_stream};
use crate::stream_error::StreamError;
use crate::stream_status::{StreamEnd, StreamStatus};

pub use crate::dialect::Dialect;
pub use request::{DEFAULT_MAX_TOKENS, endpoint_dialect, request_body};
use stream::MessagesParser;

/// The wire's name in [`OpaqueBlock`](deputize_core::message::OpaqueBlock).
const WIRE: &str = "anthropic-messages";

/// A model behind an endpoint that speaks Messages. The key goes in `x-api-key`, unless the
/// endpoint names another header.
///
/// ```no_run
/// # async fn example(clock: std::sync::Arc<dyn deputize_core::Clock>) -> Result<(), Box<dyn std::error::Error>> {
/// use deputize_core::{Cancel, Model as _};
/// use deputize_core::model::{ModelOptions, Request, ToolChoice};
/// use deputize_providers::{AnthropicMessages, Endpoint, Key, http_client};
///
/// let mut endpoint = Endpoint::new("anthropic", "https://api.anthropic.com/v1");
/// endpoint.keys = vec![Key::new("ANTHROPIC_API_KEY", "sk-1234")];
/// let model = AnthropicMessages::new(endpoint, &http_client(clock))?;
/// let request = Request {
///     model: "claude-sonnet-5",
///     system: &[],
///     tools: &[],
///     messages: &[],
///     tool_choice: ToolChoice::Auto,
///     options: &ModelOptions::default(),
/// };
/// let reply = model.reply(&request, &mut |_piece| {}, &Cancel::new()).await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct AnthropicMessages {
    pub(crate) remote: RemoteModel,
    dialect: Dialect,
}

http_model!(AnthropicMessages, endpoint_dialect, wire_defaults());

impl AnthropicMessages {
    fn send<'a>(
        &'a self,
        request: &'a Request<'a>,
        live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        let ask = WireRequest {
            model: request.model,
            body: || request_body(request, &self.dialect),
            parser: MessagesParser::new(request.model),
            offers_tools: offers_tools(request),
        };
        Box::pin(exchange(&self.remote, ask, live, cancel))
    }
}

fn wire_defaults() -> WireDefaults {
    WireDefaults {
        path: &["messages"],
        key: KeyHeader::Named("x-api-key".to_owned()),
        headers: &[("anthropic-version", "2023-06-01")],
    }
}

reply_stream! {
    /// A reply that is arriving, without HTTP: for replays, tests and fuzzing.
    ///
    /// ```
    /// use deputize_providers::anthropic_messages::ReplyStream;
    /// use deputize_providers::{StreamEnd, StreamStatus};
    ///
    /// let body = r#"data: {"type":"message_start","message":{"model":"claude-sonnet-5"}}
    ///
    /// data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}
    ///
    /// data: {"type":"message_stop"}
    ///
    /// "#;
    /// let mut stream = ReplyStream::new("m");
    /// for byte in body.as_bytes() {
    ///     if stream.feed(&[*byte], &mut |_piece| {})? == StreamStatus::Done {
    ///         break;
    ///     }
    /// }
    /// let reply = stream.finish(StreamEnd::InOrder, &mut |_piece| {})?;
    /// assert_eq!((reply.model.as_str(), reply.text.as_str()), ("claude-sonnet-5", "Hello"));
    /// # Ok::<(), deputize_providers::StreamError>(())
    /// ```
    MessagesParser
}
