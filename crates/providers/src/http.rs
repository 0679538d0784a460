//! One HTTP exchange, the same for every wire format: send, watch the time limits, stop when
//! cancelled, and describe failures.

mod client;
mod direct;
mod failure;
mod keys;
mod model_listing;
mod promise_tracker;
mod transport;
mod transport_error;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use deputize_core::Cancel;
use deputize_core::model::{
    Finish, ModelError, RawCall, Reply, Request, ToolChoice, bounded_partial,
};
use reqwest::header::{self, HeaderMap};
use reqwest::{Response, Url, Version};
use tokio::time::{Instant, timeout_at};

use crate::endpoint::{Endpoint, EndpointError, WireDefaults};
use crate::limits::{
    AFTER_DONE, AFTER_FINISH, AT_ONCE, ERROR_BODY_BYTES, UNREADABLE_CALL_BODY_BYTES,
};
use crate::retry_after;
use crate::server_error::{ServerError, UNREADABLE_CALL};
use crate::stream::{DeltaFn, EventParser, ReplyBytes};
use crate::stream_error::StreamError;
use crate::stream_status::{StreamEnd, StreamStatus};
use crate::tool_lists::ToolLists;
pub use client::{HttpClient, http_client};
use direct::ConnectionReuse;
use failure::{FailureContext, RequestFailure};
use keys::{KeyFault, KeyLease, TakenKey};
pub use model_listing::ModelListing;
pub(crate) use model_listing::look;
use promise_tracker::PromiseTracker;
use transport::Transport;

/// An endpoint, ready for requests: of one agent, or of all that need no key of their own.
pub(crate) struct RemoteModel {
    reach: Arc<Connector>,
    keys: KeyLease,
}

/// How an endpoint is reached.
pub(crate) struct Connector {
    endpoint: Endpoint,
    http: HttpClient,
    /// It keeps connections.
    transport: Transport,
    kept: PromiseTracker,
    /// The address up to and with the version.
    base: Url,
    url: Url,
    headers: HeaderMap,
    pub(crate) tool_lists: ToolLists,
}

impl Deref for RemoteModel {
    type Target = Connector;

    fn deref(&self) -> &Connector {
        &self.reach
    }
}

impl fmt::Debug for RemoteModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteModel({})", self.endpoint.name)
    }
}

impl RemoteModel {
    pub(crate) fn new(
        endpoint: Endpoint,
        http: &HttpClient,
        way: &WireDefaults,
    ) -> Result<Self, EndpointError> {
        let mut url = endpoint.url()?;
        let transport = http.transport(&endpoint, &url, ConnectionReuse::Idle)?;
        let base = url.clone();
        // An address with http or https always takes segments.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(way.path);
        }
        let headers = endpoint.own_headers(way)?;
        let (name, values) = endpoint.key_headers(way)?;
        // A header that the endpoint names itself wins, also with a key in it.
        let keys = if headers.contains_key(&name) { Vec::new() } else { values };
        let keys = http.rings.ring(base.as_str(), name, keys);
        let http = http.clone();
        let kept = PromiseTracker::default();
        let tool_lists = ToolLists::default();
        let reach = Connector { endpoint, http, transport, kept, base, url, headers, tool_lists };
        Ok(Self { reach: Arc::new(reach), keys: KeyLease::new(keys) })
    }

    /// The provider's name in the configuration.
    #[cfg(feature = "tokenizer")]
    pub(crate) fn provider(&self) -> &str {
        &self.endpoint.name
    }

    /// The same for one agent, where there are several keys.
    pub(crate) fn for_one_agent(&self) -> Option<Self> {
        let several = self.keys.all().len() > 1;
        several.then(|| Self { reach: Arc::clone(&self.reach), keys: self.keys.another() })
    }
}

impl Connector {
    /// Sends a request until its answer begins.
    ///
    /// A server without TLS may close a connection that it had promised to keep, and so meet the
    /// next request: llama.cpp does behind each stream. That request is sent again, once, and for
    /// some minutes each has a connection of its own. No other is ever sent twice: a close that
    /// does not come at once is that of a server which may have begun to work.
    async fn post(
        &self,
        headers: &(dyn Fn() -> HeaderMap + Sync),
        body: &(dyn Fn() -> Vec<u8> + Sync),
        until: Instant,
    ) -> Result<Response, RequestFailure> {
        let start = Instant::now();
        let single =
            || self.http.transport(&self.endpoint, &self.base, ConnectionReuse::Nothing).ok();
        let trusted = self.kept.trusted(start);
        let own = if trusted.is_none() { single() } else { None };
        let transport = own.as_ref().unwrap_or(&self.transport);
        let mut sent = self.post_by(transport, headers(), body(), until).await;
        if let Err(RequestFailure::Send(error)) = &sent
            && trusted == Some(true)
            && self.url.scheme() == "http"
            && error.is_closed()
            && start.elapsed() <= AT_ONCE
            && let Some(single) = single()
        {
            self.kept.broken(Instant::now());
            tracing::info!(provider = self.endpoint.name, "kept connection was closed; sent again");
            sent = self.post_by(&single, headers(), body(), until).await;
        }
        if sent.is_ok() {
            self.kept.answered();
        }
        sent
    }

    async fn post_by(
        &self,
        transport: &Transport,
        headers: HeaderMap,
        body: Vec<u8>,
        until: Instant,
    ) -> Result<Response, RequestFailure> {
        let sent = timeout_at(until, transport.post(&self.url, headers, body)).await;
        sent.map_err(|_| RequestFailure::NoAnswer)?.map_err(RequestFailure::Send)
    }
}

/// A request of one wire, and what will read its reply.
pub(crate) struct WireRequest<'m, P, B> {
    pub(crate) model: &'m str,
    /// Writes its body; twice when it must be sent again.
    pub(crate) body: B,
    pub(crate) parser: P,
    /// Whether the model may call tools.
    pub(crate) offers_tools: bool,
}

/// Whether the model may call tools in its reply to a request.
pub(crate) fn offers_tools(request: &Request<'_>) -> bool {
    request.tool_choice == ToolChoice::Auto && !request.tools.is_empty()
}

/// Sends one request and reads its reply.
pub(crate) async fn exchange<P: EventParser>(
    remote: &RemoteModel,
    ask: WireRequest<'_, P, impl Fn() -> Vec<u8> + Sync>,
    live: &mut DeltaFn<'_>,
    cancel: &Cancel,
) -> Result<Reply, ModelError> {
    let start = Instant::now();
    let limit = remote.endpoint.reply_limit.clone();
    let mut bytes = ReplyBytes::new(ask.parser).within(limit);
    let taken = remote.keys.take(start);
    let ended = tokio::select! {
        biased;
        () = cancel.cancelled() => Err(RequestFailure::Cancelled),
        ended = receive(remote, &taken, &ask.body, &mut bytes, live) => ended,
    };
    let used = if let TakenKey::Key(number) = taken { Some(number) } else { None };
    let (partial, partial_left_out) = bounded_partial(bytes.parser().text());
    let context = FailureContext {
        endpoint: &remote.endpoint,
        key: used.and_then(|number| Some(remote.keys.get(number)?.0.as_str())),
        url: &remote.url,
        model: ask.model,
        output: bytes.parser().has_output(),
        partial,
        partial_left_out,
        served: bytes.parser().served_model().to_owned(),
        usage: bytes.parser().usage(),
        seconds: start.elapsed().as_secs_f64(),
    };
    let background = bytes.parser().background().map(str::to_owned);
    let reply = match ended {
        Ok(ending) => bytes.finish(ending).map_err(RequestFailure::Stream),
        // Some servers say all and leave the stream open. One that breaks has not said all.
        Err(RequestFailure::Idle) if bytes.parser().may_end() => {
            bytes.finish(StreamEnd::Silent).map_err(RequestFailure::Stream)
        }
        Err(failure) => Err(failure),
    };
    let reply = reply.map_err(|failure| match background.filter(|_| failure.is_broken_off()) {
        Some(status) => RequestFailure::Stream(StreamError::Background { status }),
        None => failure,
    });
    // The model made a bad call, and the server tells of that as of a failure of the request.
    let reply = reply.or_else(|failure| {
        let server = failure.server().filter(|_| ask.offers_tools);
        let call = server.and_then(ServerError::unreadable_call);
        call.map(|call| reply_with(call, &context)).ok_or(failure)
    });
    if reply.is_ok() {
        remote.keys.answered();
    }
    reply.map_err(|failure| {
        let fault = failure.server().and_then(KeyFault::of);
        let turn = used.zip(fault);
        let turn = turn.and_then(|(used, fault)| remote.keys.failed(used, fault, Instant::now()));
        failure.into_error(context, turn.as_ref())
    })
}

/// The reply of a model whose call the server could not read.
fn reply_with(call: RawCall, context: &FailureContext<'_>) -> Reply {
    Reply {
        model: context.served.clone(),
        text: context.partial.clone(),
        reasoning: String::new(),
        calls: vec![call],
        opaque: Vec::new(),
        finish: Finish::Stop,
        usage: context.usage,
    }
}

/// Sends, and feeds what comes until the reply or the body ends.
async fn receive<P: EventParser>(
    remote: &RemoteModel,
    taken: &TakenKey,
    body: &(dyn Fn() -> Vec<u8> + Sync),
    bytes: &mut ReplyBytes<P>,
    live: &mut DeltaFn<'_>,
) -> Result<StreamEnd, RequestFailure> {
    let first = Instant::now() + remote.endpoint.timeouts.first_byte;
    if let TakenKey::Resting(next) = taken {
        return Err(RequestFailure::KeysRest(next.variable.clone(), next.wait));
    }
    let mut response = remote.post(&|| headers_with(remote, taken), body, first).await?;
    let provider = remote.endpoint.name.as_str();
    let status = response.status().as_u16();
    tracing::debug!(provider, status, version = ?response.version(), "answer began");
    if !response.status().is_success() {
        return Err(refusal(remote, response).await);
    }
    if let Some(coding) = coding(response.headers()) {
        return Err(RequestFailure::Compressed(coding));
    }
    let end = if is_framed(&response) { StreamEnd::InOrder } else { StreamEnd::Closed };
    let mut alive = Instant::now();
    loop {
        let seen = bytes.life();
        let until = match (seen, bytes.parser().may_end()) {
            (0, _) => first,
            (_, true) => alive + AFTER_FINISH.min(remote.endpoint.timeouts.idle),
            (_, false) => alive + remote.endpoint.timeouts.idle,
        };
        let late = if seen == 0 { RequestFailure::NoAnswer } else { RequestFailure::Idle };
        let Ok(chunk) = timeout_at(until, response.chunk()).await else { return Err(late) };
        let Some(chunk) = chunk.map_err(RequestFailure::Broken)? else {
            bytes.end(live).map_err(RequestFailure::Stream)?;
            return Ok(end);
        };
        if bytes.feed(&chunk, live).map_err(RequestFailure::Stream)? == StreamStatus::Done {
            drain(response).await;
            // The next request of this agent would often be faster than a connection that goes back to
            // the others by a task of its own, and open a new one.
            if remote.transport.has_tasks() {
                tokio::task::yield_now().await;
            }
            return Ok(StreamEnd::InOrder);
        }
        if bytes.life() > seen {
            alive = Instant::now();
        } else if Instant::now() >= until {
            // A flood of comments is always ready, so the timeout above would never strike.
            return Err(late);
        }
    }
}

/// Returns the headers of a request with this key.
fn headers_with(remote: &RemoteModel, taken: &TakenKey) -> HeaderMap {
    let mut headers = remote.headers.clone();
    if let TakenKey::Key(number) = taken {
        let value = remote.keys.get(*number).map(|(_, value)| value.clone());
        headers.extend(value.map(|value| (remote.keys.header().clone(), value)));
    }
    headers
}

/// How a body is compressed, if it is.
fn coding(headers: &HeaderMap) -> Option<String> {
    let coding = headers.get(header::CONTENT_ENCODING)?;
    let coding = String::from_utf8_lossy(coding.as_bytes()).trim().to_owned();
    let plain = coding.is_empty() || coding.eq_ignore_ascii_case("identity");
    (!plain).then_some(coding)
}

/// Returns whether the transport distinguishes the end of a body from a broken connection.
fn is_framed(response: &Response) -> bool {
    let codings = response.headers().get_all(header::TRANSFER_ENCODING);
    let last = codings.iter().next_back().and_then(|it| it.to_str().ok());
    let last = last.and_then(|it| it.rsplit(',').next()).unwrap_or_default();
    let chunked = last.trim().eq_ignore_ascii_case("chunked");
    chunked || response.content_length().is_some() || response.version() >= Version::HTTP_2
}

/// Takes the end of a body after its end mark, so that the connection can serve again.
async fn drain(mut response: Response) {
    let until = Instant::now() + AFTER_DONE;
    while let Ok(Ok(Some(_rest))) = timeout_at(until, response.chunk()).await {
        if Instant::now() >= until {
            break;
        }
    }
}

/// Reads what a server says of a failure, but not more than [`ERROR_BODY_BYTES`].
async fn refusal(remote: &RemoteModel, mut response: Response) -> RequestFailure {
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let header = |name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
    let waits = retry_after::from_headers(header, remote.http.clock.now_ms());
    // The status has said what matters: words that do not come are not waited for.
    let until = Instant::now() + AFTER_FINISH.min(remote.endpoint.timeouts.idle);
    let mut body = Vec::new();
    while body.len() < most_read(&body) {
        match timeout_at(until, response.chunk()).await {
            Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
            Ok(Ok(None) | Err(_)) | Err(_) => break,
        }
    }
    let most = most_read(&body);
    let cut = body.len() >= most;
    body.truncate(most);
    let unreadable = match coding(&headers) {
        Some(coding) => {
            Some(format!("a compressed body ({})", crate::line::truncate_to_line(&coding)))
        }
        None if is_binary(&body) => {
            let more = if cut { " or more" } else { "" };
            Some(format!("a binary body of {} bytes{more}", body.len()))
        }
        None => None,
    };
    if unreadable.is_some() {
        body.clear();
    }
    let text = String::from_utf8_lossy(&body);
    let of_call = cut.then(|| ServerError::of_cut_call(status, &text)).flatten();
    let mut error = of_call.unwrap_or_else(|| ServerError::of_answer(status, &text, waits));
    error.should_retry = should_retry(header("x-should-retry").as_deref());
    if let Some(unreadable) = unreadable {
        error.message = unreadable;
    } else if cut {
        error.message.push_str(&format!(" [of the first {ERROR_BODY_BYTES} bytes]"));
    }
    if let Some(target) = header("location").filter(|_| (300..400).contains(&status)) {
        let target = crate::line::truncate_to_line(&target);
        error.message = format!("a redirect to {target}, which is not followed");
    }
    RequestFailure::Refused(error)
}

/// Returns the limit on the body of a failed answer: a call that the server could not parse may be
/// long, and comes after its code.
fn most_read(body: &[u8]) -> usize {
    let head = body.get(..ERROR_BODY_BYTES);
    let holds = |head: &[u8]| String::from_utf8_lossy(head).contains(UNREADABLE_CALL);
    if head.is_some_and(holds) { UNREADABLE_CALL_BODY_BYTES } else { ERROR_BODY_BYTES }
}

/// What the header `x-should-retry` says.
fn should_retry(header: Option<&str>) -> Option<bool> {
    match header?.trim() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// Whether a body is no text that a person could read, in whatever charset.
fn is_binary(body: &[u8]) -> bool {
    let bad: usize = body.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    // One letter in some, in a charset of bytes, is no UTF-8.
    body.contains(&0) || bad > body.len() / 8
}
