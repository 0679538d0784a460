//! The OpenAI Responses wire.
//!
//! [`request_body`] turns a request into bytes, [`ReplyStream`] turns bytes into a reply; both
//! are pure. [`OpenAiResponses`] puts HTTP between them.
//!
//! # When a reply is complete
//!
//! The end mark is an event: `response.completed`, or `response.incomplete` with its reason.
//! `response.failed` and `error` end the reply at once, in the server's words. A document (an
//! answer that is no stream) is complete when its JSON is, unless its own status says
//! otherwise. `[DONE]` alone is no end mark. Without one there is no reply, only the text
//! until then, and no call of it is ever given out.
//!
//! # What goes back
//!
//! Nothing is stored by the server (`store: false`), so each request holds the whole
//! conversation. Reasoning, and items that are newer than we are, go back byte for byte in
//! their place among text and calls.

mod delta_sender;
mod event;
mod item;
mod items;
mod order;
mod raw;
mod request;
mod stream;

use deputize_core::model::{Delta, ModelError, Reply, Request};
use deputize_core::{BoxFuture, Cancel};

use crate::endpoint::{KeyHeader, WireDefaults};
use crate::http::{RemoteModel, WireRequest, exchange, offers_tools};
use crate::http_model::http_model;
use crate::stream::{EventParser as _, ReplyBytes, reply_stream};
use crate::stream_error::StreamError;
use crate::stream_status::{StreamEnd, StreamStatus};

pub use crate::dialect::Dialect;
use request::{body_with, output_limit};
pub use request::{endpoint_dialect, request_body};
use stream::ResponsesParser;

const WIRE_DEFAULTS: WireDefaults =
    WireDefaults { path: &["responses"], key: KeyHeader::Bearer, headers: &[] };

/// A model behind an endpoint that speaks Responses.
///
/// ```no_run
/// # async fn example(clock: std::sync::Arc<dyn deputize_core::Clock>) -> Result<(), Box<dyn std::error::Error>> {
/// use deputize_core::{Cancel, Model as _};
/// use deputize_core::model::{ModelOptions, Request, ToolChoice};
/// use deputize_providers::{Endpoint, OpenAiResponses, http_client};
///
/// let endpoint = Endpoint::new("local", "http://127.0.0.1:8080/v1");
/// let model = OpenAiResponses::new(endpoint, &http_client(clock))?;
/// let request = Request {
///     model: "gpt-oss",
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
pub struct OpenAiResponses {
    pub(crate) remote: RemoteModel,
    dialect: Dialect,
}

http_model!(OpenAiResponses, endpoint_dialect, WIRE_DEFAULTS);

impl OpenAiResponses {
    fn send<'a>(
        &'a self,
        request: &'a Request<'a>,
        live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        let limit = output_limit(request, &self.dialect);
        let ask = WireRequest {
            model: request.model,
            body: || body_with(&self.remote.tool_lists, request, &self.dialect),
            parser: ResponsesParser::new(request.model).within(limit),
            offers_tools: offers_tools(request),
        };
        Box::pin(exchange(&self.remote, ask, live, cancel))
    }
}

reply_stream! {
    /// A reply that is arriving, without HTTP: for replays, tests and fuzzing.
    ///
    /// ```
    /// use deputize_providers::openai_responses::ReplyStream;
    /// use deputize_providers::{StreamEnd, StreamStatus};
    ///
    /// let body = "data: {\"type\":\"response.output_text.delta\",\"delta\":\"Hello\"}\n\n\
    ///             data: {\"type\":\"response.completed\"}\n\n";
    /// let mut stream = ReplyStream::new("m");
    /// for byte in body.as_bytes() {
    ///     if stream.feed(&[*byte], &mut |_piece| {})? == StreamStatus::Done {
    ///         break;
    ///     }
    /// }
    /// assert_eq!(stream.finish(StreamEnd::InOrder, &mut |_piece| {})?.text, "Hello");
    /// # Ok::<(), deputize_providers::StreamError>(())
    /// ```
    ResponsesParser
}
