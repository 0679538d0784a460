//! The way to servers that are reached by HTTP.

use deputize_core::describe_error;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Once};
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
};

use crate::access_tokens::{AccessTokenError, TokenSource};
use crate::error::{McpErrorKind, ReachError};
use crate::http_request::{SESSION, SentRequest, mended_events, read_answer, to_post};
use crate::request_error::RequestError;
use crate::server::ServerConfig;
use crate::stdio_transport::LINE_BYTES;
use crate::transport_error::{HttpError, PostResult, SseEvents, bottom, failed};

/// Time limit for a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Number of times a broken stream is resumed: after 1, 2, 4, 8 and 16 seconds.
const TAKEN_UP: usize = 5;

#[expect(clippy::disallowed_types, reason = "the type of the library; no order of it is seen")]
type HeaderMap = std::collections::HashMap<HeaderName, HeaderValue>;

/// A connection to an address. No redirect is followed: a key must not wander.
pub(crate) fn transport(
    server: &ServerConfig,
    url: &str,
    headers: &BTreeMap<String, String>,
) -> Result<StreamableHttpClientTransport<McpHttpClient>, McpErrorKind> {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let provider = rustls::crypto::ring::default_provider();
        // Fails only where the program has installed one already, which then serves as well.
        let _theirs_stays = provider.install_default();
    });
    let address = reqwest::Url::parse(url).map_err(|error| ReachError::Http(error.to_string()))?;
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
    let client = builder.build().map_err(|error| ReachError::Http(describe_error(&error)))?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    config.max_sse_event_size = LINE_BYTES;
    // A new session may be one with another program: it is asked anew what it has.
    config.reinit_on_expired_session = false;
    let mut again = ExponentialBackoff::default();
    again.max_times = Some(TAKEN_UP);
    config.retry_config = Arc::new(again);
    for (name, value) in headers {
        let wrong = || ReachError::Header(name.clone());
        let header = HeaderName::try_from(name.as_str()).map_err(|_| wrong())?;
        let mut value = HeaderValue::try_from(value.trim()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        config.custom_headers.insert(header, value);
    }
    // A header of the person's own is what they mean to be known by.
    let is_known = config.custom_headers.contains_key(&AUTHORIZATION);
    let tokens = server.tokens.clone().filter(|_| !is_known);
    let command = server.setting_names.name("sign_in");
    let has_sign_in = tokens.is_some() || (!is_known && !command.is_empty());
    let sign_in = has_sign_in.then(|| command.into());
    let client = McpHttpClient { client, tokens, sign_in };
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// The library's client, which posts messages itself: see [`crate::http_request`].
#[derive(Debug, Clone)]
pub(crate) struct McpHttpClient {
    client: reqwest::Client,
    tokens: Option<TokenSource>,
    /// How a person signs in to the server, empty if the host has no word for it; `None` if that is
    /// not how it is used.
    sign_in: Option<Arc<str>>,
}

impl McpHttpClient {
    /// Returns the access token to send, other than one that was refused.
    async fn token(&self, rejected: Option<&str>) -> Result<Option<String>, HttpError> {
        let Some(tokens) = &self.tokens else { return Ok(None) };
        let wrong = |error: AccessTokenError| {
            let said = describe_error(&error);
            failed(RequestError::Way { code: None, said, made: false, theirs: String::new() })
        };
        tokens.token(rejected).await.map_err(wrong)
    }

    /// Sends a request in the library's way; where the token is refused, once more with another.
    async fn send_with_token<T, F>(
        &self,
        send: impl Fn(Option<String>) -> F,
    ) -> Result<T, HttpError>
    where
        F: Future<Output = Result<T, HttpError>>,
    {
        let token = self.token(None).await?;
        let mut sent = send(token.clone()).await;
        if sent.as_ref().is_err_and(is_unauthorized)
            && let Some(next) = self.token(Some(token.as_deref().unwrap_or_default())).await?
        {
            sent = send(Some(next)).await;
        }
        sent
    }
}

impl StreamableHttpClient for McpHttpClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: HeaderMap,
    ) -> PostResult {
        let most = LINE_BYTES;
        self.post_message_with_max_sse_event_size(uri, message, session, None, headers, most).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: HeaderMap,
        most: usize,
    ) -> PostResult {
        let (id, greets) = match &message {
            ClientJsonRpcMessage::Request(asked) => {
                (Some(asked.id.clone()), greets(&asked.request))
            }
            _ => (None, false),
        };
        let message = serde_json::to_vec(&message)?;
        let headers: reqwest::header::HeaderMap = headers.into_iter().collect();
        let send = |token: Option<&str>| {
            let request = self.client.post(&*uri).headers(headers.clone());
            let request = match token {
                Some(token) => request.bearer_auth(token),
                None => request,
            };
            let request = match session.as_deref() {
                Some(session) => request.header(SESSION, session),
                None => request,
            };
            to_post(request, message.clone()).send()
        };
        let token = self.token(None).await?;
        let mut response = send(token.as_deref()).await?;
        // What is refused so was not done.
        if response.status() == StatusCode::UNAUTHORIZED
            && let Some(next) = self.token(Some(token.as_deref().unwrap_or_default())).await?
        {
            response = send(Some(&next)).await?;
        }
        let in_session = session.is_some();
        let sign_in = self.sign_in.as_deref();
        let sent = SentRequest { id: id.as_ref(), greets, in_session, sign_in };
        read_answer(response, sent, most).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        headers: HeaderMap,
    ) -> Result<(), HttpError> {
        let token = self.token(None).await?;
        self.client.delete_session(uri, session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        _: Option<String>,
        headers: HeaderMap,
    ) -> Result<SseEvents, HttpError> {
        let most = LINE_BYTES;
        self.get_stream_with_max_sse_event_size(uri, session, last, None, headers, most).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        _: Option<String>,
        headers: HeaderMap,
        most: usize,
    ) -> Result<SseEvents, HttpError> {
        let resumes = last.is_some();
        let events = self.send_with_token(|token| {
            let (uri, session, last) = (Arc::clone(&uri), session.clone(), last.clone());
            let headers = headers.clone();
            self.client.get_stream_with_max_sse_event_size(uri, session, last, token, headers, most)
        });
        match events.await {
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

/// Whether a server does not know who asks.
fn is_unauthorized(error: &HttpError) -> bool {
    match error {
        StreamableHttpError::AuthRequired(_) => true,
        StreamableHttpError::Client(error) => error.status() == Some(StatusCode::UNAUTHORIZED),
        _ => false,
    }
}

/// Whether a request is one of those by which the library agrees with a server.
const fn greets(request: &ClientRequest) -> bool {
    matches!(request, ClientRequest::InitializeRequest(_) | ClientRequest::DiscoverRequest(_))
}
