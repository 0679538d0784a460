//! The way to servers that are reached by HTTP.

use deputize_core::describe_error;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::{Arc, Once};
use std::time::Duration;

use deputize_core::sanitize::for_terminal_line;
use futures_util::stream::BoxStream;
use reqwest::StatusCode;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::Sse;

use crate::error::McpErrorKind;
use crate::http_request::{mended_events, post, to_greeting};
use crate::request_error::RequestError;
use crate::stdio_transport::LINE_BYTES;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// How often a stream that broke is taken up again: after 1, 2, 4, 8 and 16 seconds.
const TAKEN_UP: usize = 5;

/// What came of a request of this protocol by HTTP.
pub(crate) type PostResult = Result<StreamableHttpPostResponse, HttpError>;
pub(crate) type HttpError = StreamableHttpError<reqwest::Error>;
pub(crate) type SseEvents = BoxStream<'static, Result<Sse, SseError>>;
#[expect(clippy::disallowed_types, reason = "the type of the library; no order of it is seen")]
type HeaderMap = std::collections::HashMap<HeaderName, HeaderValue>;

/// A connection to an address. No redirect is followed: a key must not wander.
pub(crate) fn transport(
    url: &str,
    headers: &BTreeMap<String, String>,
) -> Result<StreamableHttpClientTransport<McpHttpClient>, McpErrorKind> {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let provider = rustls::crypto::ring::default_provider();
        // Fails only where the program has installed one already, which then serves as well.
        let _theirs_stays = provider.install_default();
    });
    let address =
        reqwest::Url::parse(url).map_err(|error| McpErrorKind::Http(error.to_string()))?;
    let builder = reqwest::Client::builder()
        .connect_timeout(CONNECT)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .user_agent(concat!("deputize/", env!("CARGO_PKG_VERSION")));
    let loopback = match address.host_str() {
        Some("localhost") => true,
        Some(host) => host
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback()),
        None => false,
    };
    let builder = if loopback { builder.no_proxy() } else { builder };
    // A plain connection needs no authorities, and a machine without any is no hindrance.
    let plain = loopback && address.scheme() == "http";
    let builder = if plain { builder.tls_certs_only([]) } else { builder };
    let client = builder.build().map_err(|error| McpErrorKind::Http(describe_error(&error)))?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    config.max_sse_event_size = LINE_BYTES;
    // A new session may be one with another program: it is asked anew what it has.
    config.reinit_on_expired_session = false;
    let mut again = ExponentialBackoff::default();
    again.max_times = Some(TAKEN_UP);
    config.retry_config = Arc::new(again);
    for (name, value) in headers {
        let wrong = || McpErrorKind::Header(name.clone());
        let header = HeaderName::try_from(name.as_str()).map_err(|_| wrong())?;
        let mut value = HeaderValue::try_from(value.trim()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        config.custom_headers.insert(header, value);
    }
    Ok(StreamableHttpClientTransport::with_client(McpHttpClient(client), config))
}

/// The library's client, which makes the requests of calls itself: see [`crate::http_request`].
#[derive(Debug, Clone)]
pub(crate) struct McpHttpClient(reqwest::Client);

impl StreamableHttpClient for McpHttpClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: HeaderMap,
    ) -> PostResult {
        let most = LINE_BYTES;
        self.post_message_with_max_sse_event_size(uri, message, session, auth, headers, most).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: HeaderMap,
        most: usize,
    ) -> PostResult {
        let asked = match &message {
            ClientJsonRpcMessage::Request(asked) => {
                Some((asked.id.clone(), greets(&asked.request)))
            }
            _ => None,
        };
        let Some((id, false)) = asked else {
            let post = self
                .0
                .post_message_with_max_sse_event_size(uri, message, session, auth, headers, most);
            let posted = post.await?;
            return match asked {
                Some((id, _)) => to_greeting(posted, &id),
                None => Ok(posted),
            };
        };
        let request = self.0.post(&*uri).headers(headers.into_iter().collect());
        let request = match auth {
            Some(auth) => request.bearer_auth(auth),
            None => request,
        };
        let message = serde_json::to_vec(&message)?;
        post(request, message, (&id, session.as_deref()), most).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        auth: Option<String>,
        headers: HeaderMap,
    ) -> Result<(), HttpError> {
        self.0.delete_session(uri, session, auth, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        auth: Option<String>,
        headers: HeaderMap,
    ) -> Result<SseEvents, HttpError> {
        let most = LINE_BYTES;
        self.get_stream_with_max_sse_event_size(uri, session, last, auth, headers, most).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        auth: Option<String>,
        headers: HeaderMap,
        most: usize,
    ) -> Result<SseEvents, HttpError> {
        let resumes = last.is_some();
        let events = self
            .0
            .get_stream_with_max_sse_event_size(uri, session, last, auth, headers, most)
            .await;
        match events {
            // What it does not know it will not know later: the stream ends, and who waits on it is told.
            Err(StreamableHttpError::Client(error))
                if error.status().is_some_and(|status| status.is_client_error())
                    // Nobody is there any more: whoever comes will not know of the call.
                    || resumes && is_refused(&error) =>
            {
                Err(StreamableHttpError::ServerDoesNotSupportSse)
            }
            events => events.map(mended_events),
        }
    }
}

/// Whether nobody listens where a connection was to be made.
fn is_refused(error: &reqwest::Error) -> bool {
    let cause = bottom(error).downcast_ref::<io::Error>();
    cause.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Whether a request is one of those by which the library agrees with a server, in its own way.
const fn greets(request: &ClientRequest) -> bool {
    matches!(request, ClientRequest::InitializeRequest(_) | ClientRequest::DiscoverRequest(_))
}

/// Why a request has no answer, on its way through the library.
#[derive(Debug)]
struct IoRequestError(RequestError);

impl fmt::Display for IoRequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl Error for IoRequestError {}

/// A request without an answer, as an error that the library passes on.
pub(crate) fn failed(why: RequestError) -> HttpError {
    StreamableHttpError::Io(io::Error::other(IoRequestError(why)))
}

/// What went wrong on the way, in words that name no part of a library. What a server may have a
/// part in is its own words.
pub(crate) fn unanswered(error: &(dyn Error + 'static)) -> RequestError {
    let way = |said: &str, made: bool, theirs: String| {
        let said = format!("the {said}");
        RequestError::Way { said, made, theirs }
    };
    match error.downcast_ref::<HttpError>() {
        // Not by HTTP: its program does not read any more.
        None => RequestError::Ended,
        Some(StreamableHttpError::Io(error)) => {
            let told = error.get_ref().and_then(|error| error.downcast_ref::<IoRequestError>());
            told.map_or_else(|| way("way to the server failed", true, root(error)), |t| t.0.clone())
        }
        Some(StreamableHttpError::SessionExpired) => {
            RequestError::Forgotten { words: String::new(), undone: true }
        }
        Some(StreamableHttpError::Client(error)) => {
            let (how, theirs) = cause(error);
            let what = if error.is_connect() {
                "server cannot be reached"
            } else {
                "connection to the server broke"
            };
            way(&format!("{what}{how}"), !error.is_connect(), theirs)
        }
        Some(StreamableHttpError::ResponseBodyTooLarge { max_size }) => {
            way(&format!("server's answer has more than {max_size} bytes"), true, String::new())
        }
        Some(StreamableHttpError::UnexpectedContentType(kind)) => {
            let theirs =
                kind.as_deref().map(|kind| for_terminal_line(kind, 60)).unwrap_or_default();
            way("server's answer is neither JSON nor events", true, theirs)
        }
        Some(other) => way("way to the server failed", true, root(other)),
    }
}

/// The cause of a broken connection, where this machine names it, or else in words that may be the
/// server's.
fn cause(error: &reqwest::Error) -> (String, String) {
    let last = bottom(error);
    let ours = last.downcast_ref::<io::Error>().filter(|error| error.raw_os_error().is_some());
    match ours {
        Some(error) => (format!(" ({error})"), String::new()),
        None => (String::new(), for_terminal_line(&last.to_string(), 200)),
    }
}

pub(crate) fn refused(code: u16) -> String {
    format!(
        "the server answered {}: what it was sent under `headers` of its entry in `mcp_servers` does \
         not let us in, which a person has to change",
        status(code)
    )
}

pub(crate) fn status(code: u16) -> String {
    match StatusCode::from_u16(code).ok().and_then(|status| status.canonical_reason()) {
        Some(reason) => format!("HTTP {code} {reason}"),
        None => format!("HTTP {code}"),
    }
}

/// The cause at the bottom: what is above it names addresses, which may be secret, and types.
pub(crate) fn root(error: &(dyn Error + 'static)) -> String {
    for_terminal_line(&bottom(error).to_string(), 200)
}

fn bottom<'e>(error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last
}
