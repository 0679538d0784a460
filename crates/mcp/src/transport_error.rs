//! Errors of the library's transport, as errors of requests, and back.

use std::error::Error;
use std::fmt;
use std::io;

use deputize_core::describe_error;
use deputize_core::sanitize::for_terminal_line;
use futures_util::stream::BoxStream;
use reqwest::StatusCode;
use rmcp::ServiceError;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;

use crate::json::UNREADABLE;
use crate::request_error::RequestError;

/// The result of a request of this protocol by HTTP.
pub(crate) type PostResult = Result<StreamableHttpPostResponse, HttpError>;
pub(crate) type HttpError = StreamableHttpError<reqwest::Error>;
pub(crate) type SseEvents = BoxStream<'static, Result<Sse, SseError>>;
/// Returns the request error that an error of the library stands for.
pub(crate) fn from_service(error: ServiceError) -> RequestError {
    match error {
        ServiceError::McpError(error) if error.code.0 == UNREADABLE => {
            let said = "the server's answer cannot be read".to_owned();
            RequestError::Way { code: None, said, made: true, theirs: error.message.into_owned() }
        }
        ServiceError::McpError(error) => {
            let how = format!("code {}", error.code.0);
            RequestError::Refused { how, message: error.message.into_owned() }
        }
        ServiceError::Timeout { timeout } => RequestError::Slow(timeout),
        ServiceError::TransportSend(error) => from_transport(&*error.error),
        _ => RequestError::Ended,
    }
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

/// Describes a transport fault without naming parts of a library.
pub(crate) fn from_transport(error: &(dyn Error + 'static)) -> RequestError {
    let way = |said: &str, made: bool, theirs: String| {
        let said = format!("the {said}");
        RequestError::Way { code: None, said, made, theirs }
    };
    match error.downcast_ref::<HttpError>() {
        // Not by HTTP: its program does not read any more.
        None => RequestError::Ended,
        Some(StreamableHttpError::Io(error)) => {
            let request_error =
                error.get_ref().and_then(|error| error.downcast_ref::<IoRequestError>());
            request_error
                .map_or_else(|| way("way to the server failed", true, root(error)), |t| t.0.clone())
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
        "the server answered {}: it refuses the credentials that it was sent, which a person has to \
         change",
        status(code)
    )
}

/// Returns the error of a server that does not know who asks. `sign_in` is how a person signs in,
/// empty if the host has no word for it; `None` if that is not how the server is used.
pub(crate) fn unauthorized(sign_in: Option<&str>, theirs: String) -> RequestError {
    let Some(command) = sign_in else {
        return RequestError::Way { code: Some(401), said: refused(401), made: false, theirs };
    };
    let how = if command.is_empty() { String::new() } else { format!(": {command}") };
    let said = format!("the server answered {}: a person has to sign in to it{how}", status(401));
    RequestError::SignIn { said, theirs }
}

/// Returns whether something answered that is no server of this protocol.
pub(crate) const fn is_foreign_answer(error: &HttpError) -> bool {
    matches!(
        error,
        StreamableHttpError::UnexpectedContentType(_) | StreamableHttpError::Deserialize(_)
    )
}

/// Describes why a server cannot be used, without the names that the library has for its parts.
pub(crate) fn describe_http(error: &HttpError) -> String {
    match error {
        StreamableHttpError::Client(error) => root(error),
        StreamableHttpError::UnexpectedContentType(kind) => {
            let kind = kind.as_deref().unwrap_or("of no type");
            format!("its answer is {kind}, and neither JSON nor events")
        }
        StreamableHttpError::Deserialize(_) => {
            "its answer is not a message of the protocol".to_owned()
        }
        other => describe_error(other),
    }
}

/// Returns the request error in an error of the library, if there is one.
pub(crate) fn request_error(error: &HttpError) -> Option<&RequestError> {
    let StreamableHttpError::Io(error) = error else { return None };
    Some(&error.get_ref()?.downcast_ref::<IoRequestError>()?.0)
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

pub(crate) fn bottom<'e>(error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last
}
