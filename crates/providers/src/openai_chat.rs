//! The OpenAI Chat Completions wire, which most servers speak.
//!
//! [`request_body`] turns a request into bytes, [`ReplyStream`] turns bytes into a reply; both
//! are pure. [`OpenAiChat`] puts HTTP between them.
//!
//! # When a reply is complete
//!
//! The end mark is `data: [DONE]`, or a finish reason of the first choice after which nothing
//! more of that choice came, or a finish reason and a body that ended in order. A document
//! (an answer that is no stream) is complete when its JSON is. Without an end mark there is no
//! reply, only the text until then, and no call of it is ever given out.
//!
//! # Thoughts in the content
//!
//! Blocks of `<think>`, `<thinking>` or `<reasoning>` (in any case) that the content begins with
//! are the reply's reasoning, also one that is never closed. They do not go back in the content:
//! chat templates drop the thoughts of earlier turns. Where [`Dialect::echo_reasoning`] is set they
//! go back as other reasoning does. Where a server keeps the opening tag, the content before the closing one is
//! reasoning too; it was passed on as text by then. Further on such a tag is text.

mod calls;
mod constrained;
mod content;
mod details;
mod extra_members;
mod request;
mod stream;
mod thought_splitter;

use deputize_core::model::{Delta, ModelError, Reply, Request};
use deputize_core::{BoxFuture, Cancel};

use crate::endpoint::{KeyHeader, WireDefaults};
use crate::http::{RemoteModel, WireRequest, exchange, offers_tools};
use crate::http_model::http_model;
use crate::stream::{EventParser as _, ReplyBytes, reply_stream};
use crate::stream_error::StreamError;
use crate::stream_status::{StreamEnd, StreamStatus};

use request::body_with;
pub use request::{Dialect, request_body};
use stream::ChatParser;

/// The wire's name in an opaque block.
const WIRE: &str = "openai-chat";

const WIRE_DEFAULTS: WireDefaults =
    WireDefaults { path: &["chat", "completions"], key: KeyHeader::Bearer, headers: &[] };

/// A model behind an endpoint that speaks Chat Completions.
///
/// ```no_run
/// # async fn example(clock: std::sync::Arc<dyn deputize_core::Clock>) -> Result<(), Box<dyn std::error::Error>> {
/// use deputize_core::{Cancel, Model as _};
/// use deputize_core::model::{ModelOptions, Request, ToolChoice};
/// use deputize_providers::{Endpoint, OpenAiChat, http_client};
///
/// let endpoint = Endpoint::new("local", "http://127.0.0.1:8080/v1");
/// let model = OpenAiChat::new(endpoint, &http_client(clock))?;
/// let request = Request {
///     model: "qwen3",
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
pub struct OpenAiChat {
    pub(crate) remote: RemoteModel,
    dialect: Dialect,
}

http_model!(OpenAiChat, Dialect::of, WIRE_DEFAULTS);

impl OpenAiChat {
    fn send<'a>(
        &'a self,
        request: &'a Request<'a>,
        live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        let ask = WireRequest {
            model: request.model,
            body: || body_with(&self.remote.tool_lists, request, &self.dialect),
            parser: ChatParser::new(request.model),
            offers_tools: offers_tools(request),
        };
        if !self.dialect.constrained {
            return Box::pin(exchange(&self.remote, ask, live, cancel));
        }
        Box::pin(async move {
            let mut live = |delta: Delta<'_>| live(constrained::shown(request, delta));
            match exchange(&self.remote, ask, &mut live, cancel).await {
                Ok(reply) => Ok(constrained::read_reply(request, reply)),
                Err(error) => Err(constrained::read_failure(request, error)),
            }
        })
    }
}

reply_stream! {
    /// A reply that is arriving, without HTTP: for replays, tests and fuzzing.
    ///
    /// ```
    /// use deputize_providers::openai_chat::ReplyStream;
    /// use deputize_providers::{StreamEnd, StreamStatus};
    ///
    /// let body = "data: {\"choices\":[{\"delta\":{\"content\":\"Hello\"}}]}\n\ndata: [DONE]\n\n";
    /// let mut stream = ReplyStream::new("m");
    /// for byte in body.as_bytes() {
    ///     if stream.feed(&[*byte], &mut |_piece| {})? == StreamStatus::Done {
    ///         break;
    ///     }
    /// }
    /// assert_eq!(stream.finish(StreamEnd::InOrder, &mut |_piece| {})?.text, "Hello");
    /// # Ok::<(), deputize_providers::StreamError>(())
    /// ```
    ChatParser
}
