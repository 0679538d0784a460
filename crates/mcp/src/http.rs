//! The way to servers that are reached by HTTP.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Once};
use std::time::Duration;

use futures_util::stream::BoxStream;
use reqwest::StatusCode;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ErrorCode, ErrorData, ServerJsonRpcMessage};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::Sse;

use crate::error::{Fault, chain};
use crate::lines::LINE_BYTES;
use crate::link::Unanswered;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// How often a stream that broke is taken up again: after 1, 2, 4, 8 and 16 seconds.
const TAKEN_UP: usize = 5;

/// What came of a request of this protocol by HTTP.
type Posted = Result<StreamableHttpPostResponse, HttpError>;
type HttpError = StreamableHttpError<reqwest::Error>;
type Events = BoxStream<'static, Result<Sse, SseError>>;
#[expect(clippy::disallowed_types, reason = "the type of the library; no order of it is seen")]
type Headers = std::collections::HashMap<HeaderName, HeaderValue>;

/// A connection to an address. No redirect is followed: a key must not wander.
pub(crate) fn transport(
    url: &str,
    headers: &BTreeMap<String, String>,
) -> Result<StreamableHttpClientTransport<Client>, Fault> {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let provider = rustls::crypto::ring::default_provider();
        // Fails only where the program has installed one already, which then serves as well.
        let _theirs_stays = provider.install_default();
    });
    let address = reqwest::Url::parse(url).map_err(|error| Fault::Http(error.to_string()))?;
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
    let client = builder.build().map_err(|error| Fault::Http(chain(&error)))?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    config.max_sse_event_size = LINE_BYTES;
    // A new session may be one with another program: it is asked anew what it has.
    config.reinit_on_expired_session = false;
    let mut again = ExponentialBackoff::default();
    again.max_times = Some(TAKEN_UP);
    config.retry_config = Arc::new(again);
    for (name, value) in headers {
        let wrong = || Fault::Header(name.clone());
        let header = HeaderName::try_from(name.as_str()).map_err(|_| wrong())?;
        let mut value = HeaderValue::try_from(value.trim()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        config.custom_headers.insert(header, value);
    }
    Ok(StreamableHttpClientTransport::with_client(Client(client), config))
}

/// The library's client, which sees as well when a server does not know the session any more. Many
/// say so with an error that names no request: nobody would take that for an answer.
#[derive(Debug, Clone)]
pub(crate) struct Client(reqwest::Client);

impl StreamableHttpClient for Client {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
    ) -> Posted {
        let most = LINE_BYTES;
        self.post_message_with_max_sse_event_size(uri, message, session, auth, headers, most).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
        most: usize,
    ) -> Posted {
        let asked = match &message {
            ClientJsonRpcMessage::Request(request) => Some(request.id.to_string()),
            _ => None,
        };
        let in_session = session.is_some();
        let posted = self
            .0
            .post_message_with_max_sse_event_size(uri, message, session, auth, headers, most)
            .await;
        match asked {
            Some(id) => answer_of(&id, in_session, posted),
            None => posted,
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<(), HttpError> {
        self.0.delete_session(uri, session, auth, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<Events, HttpError> {
        let most = LINE_BYTES;
        self.get_stream_with_max_sse_event_size(uri, session, last, auth, headers, most).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        auth: Option<String>,
        headers: Headers,
        most: usize,
    ) -> Result<Events, HttpError> {
        let events = self
            .0
            .get_stream_with_max_sse_event_size(uri, session, last, auth, headers, most)
            .await;
        match events {
            // What it does not know it will not know later: the stream ends, and who waits on it is told.
            Err(StreamableHttpError::Client(error))
                if error.status().is_some_and(|status| status.is_client_error()) =>
            {
                Err(StreamableHttpError::ServerDoesNotSupportSse)
            }
            events => events,
        }
    }
}

/// What a request was answered. An error that names another request, or none, is about this one:
/// it came as the answer to it. Within a session it says that there is none (any more).
fn answer_of(id: &str, in_session: bool, posted: Posted) -> Posted {
    let forgotten = StreamableHttpError::ReinitializationFailed;
    match posted {
        Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), session))
            if error.id.as_ref().is_none_or(|of| of.to_string() != id) =>
        {
            if in_session {
                return Err(forgotten(error.error));
            }
            let id = id.parse().map(rmcp::model::RequestId::Number).ok();
            let error = ServerJsonRpcMessage::error(error.error, id);
            Ok(StreamableHttpPostResponse::Json(error, session))
        }
        Err(StreamableHttpError::UnexpectedServerResponse(said))
            if in_session && said.starts_with("HTTP 400") =>
        {
            Err(forgotten(ErrorData::new(ErrorCode::INVALID_REQUEST, said, None)))
        }
        posted => posted,
    }
}

/// What went wrong on the way, in words that name no part of a library.
pub(crate) fn unanswered(error: &(dyn Error + 'static)) -> Unanswered {
    let unmade = |said: String| Unanswered::Way { said, made: false, theirs: String::new() };
    let unknown = |said: String| Unanswered::Way { said, made: true, theirs: String::new() };
    match error.downcast_ref::<HttpError>() {
        // Not by HTTP: its program does not read any more.
        None => Unanswered::Ended,
        Some(StreamableHttpError::SessionExpired) => Unanswered::Forgotten(String::new()),
        Some(StreamableHttpError::ReinitializationFailed(error)) => {
            Unanswered::Forgotten(error.message.to_string())
        }
        Some(StreamableHttpError::Client(error)) if error.is_connect() => {
            unmade(format!("the server cannot be reached ({})", root(error)))
        }
        Some(StreamableHttpError::Client(error)) => {
            unknown(format!("the connection to the server broke ({})", root(error)))
        }
        Some(StreamableHttpError::HttpStatus(error)) if error.status == 429 => {
            unmade(format!("the server answered {}: wait before you repeat it", status(429)))
        }
        Some(StreamableHttpError::HttpStatus(error)) => {
            unknown(format!("the server answered {}", status(error.status)))
        }
        Some(StreamableHttpError::AuthRequired(_)) => unmade(refused(401)),
        Some(StreamableHttpError::InsufficientScope(_)) => unmade(refused(403)),
        Some(StreamableHttpError::UnexpectedServerResponse(said)) => unexpected(said),
        Some(StreamableHttpError::ResponseBodyTooLarge { max_size }) => {
            unknown(format!("the server's answer has more than {max_size} bytes"))
        }
        Some(StreamableHttpError::UnexpectedContentType(kind)) => {
            let kind = kind.as_deref().unwrap_or("no type that it names");
            let kind = deputize_core::door::to_line(kind, 60);
            unknown(format!("the server's answer is {kind}, neither JSON nor events"))
        }
        Some(other) => unknown(format!("the way to the server failed ({})", root(other))),
    }
}

/// An answer that is no message, as the library tells of it: with its status, or as it begins.
fn unexpected(said: &str) -> Unanswered {
    let code = said.strip_prefix("HTTP ").and_then(|rest| rest.get(..3));
    match (code.and_then(|code| code.parse().ok()), said.split_once(": ")) {
        (Some(code), Some((_, body))) => {
            let said = match code {
                401 | 403 => refused(code),
                code => format!("the server answered {}", status(code)),
            };
            // Who refuses a request by its status has not begun with it.
            Unanswered::Way { said, made: code >= 500, theirs: body.to_owned() }
        }
        _ => {
            let theirs =
                said.trim_start_matches("could not parse JSON response as ServerJsonRpcMessage: ");
            let said = "the server's answer is no message of the protocol".to_owned();
            Unanswered::Way { said, made: true, theirs: theirs.to_owned() }
        }
    }
}

fn refused(code: u16) -> String {
    format!(
        "the server answered {}: what it was sent under `headers` of its entry in `mcp_servers` does \
         not let us in, which a person has to change",
        status(code)
    )
}

fn status(code: u16) -> String {
    match StatusCode::from_u16(code).ok().and_then(|status| status.canonical_reason()) {
        Some(reason) => format!("HTTP {code} {reason}"),
        None => format!("HTTP {code}"),
    }
}

/// The cause at the bottom: what is above it names addresses, which may be secret, and types.
pub(crate) fn root(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    deputize_core::door::to_line(&last.to_string(), 200)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(error: &HttpError) -> Unanswered {
        unanswered(error)
    }

    #[test]
    fn a_status_is_told_in_words_of_ours_and_only_its_body_as_the_servers() {
        let body = "HTTP 403 Forbidden: come: back".into();
        let Unanswered::Way { said, made, theirs } =
            told(&StreamableHttpError::UnexpectedServerResponse(body))
        else {
            panic!("a way");
        };
        assert!(
            said.starts_with("the server answered HTTP 403 Forbidden: what it was sent"),
            "{said}"
        );
        assert_eq!((made, theirs.as_str()), (false, "come: back"));
        let error = rmcp::transport::streamable_http_client::HttpStatusError::new(503, None);
        let Unanswered::Way { said, made, .. } = told(&error.into()) else { panic!("a way") };
        assert_eq!(
            (said.as_str(), made),
            ("the server answered HTTP 503 Service Unavailable", true)
        );
    }

    #[test]
    fn only_within_a_session_an_error_without_a_request_says_that_it_is_forgotten() {
        let error = || {
            let error = ErrorData::new(ErrorCode(-32000), "no valid session", None);
            Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(error, None), None))
        };
        let forgotten = answer_of("7", true, error()).unwrap_err();
        assert!(
            matches!(told(&forgotten), Unanswered::Forgotten(said) if said == "no valid session")
        );
        let answered = answer_of("7", false, error()).unwrap();
        let StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), _) = answered
        else {
            panic!("an error");
        };
        assert_eq!(error.id, Some(rmcp::model::RequestId::Number(7)));
        assert!(matches!(told(&StreamableHttpError::SessionExpired), Unanswered::Forgotten(_)));
    }
}
