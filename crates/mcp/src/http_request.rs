//! A request by HTTP, and what it is answered. The library's own way does not tell with which status
//! an error came, by which it is known whether a call was made.

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, LOCATION, RETRY_AFTER};
use reqwest::{RequestBuilder, Response, StatusCode};
use rmcp::model::{RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{StreamableHttpError, StreamableHttpPostResponse};
use serde_json::Value;
use sse_stream::{Sse, SseStream};

use futures_util::StreamExt as _;

use deputize_core::truncate::truncate_chars;

use crate::json::{as_answer, error_in, mended, read, unreadable};
use crate::request_error::RequestError;
use crate::stdio_transport::UNASKED;
use crate::transport_error::{
    HttpError, PostResult, SseEvents, failed, refused, status, unauthorized,
};

/// Limit on an answer in JSON, in bytes.
const ANSWER_BYTES: usize = 16 * 1024 * 1024;
/// Limit on the body of a failed answer, in bytes.
const FAILURE_BYTES: usize = 64 * 1024;
const OTHER_CALL: &str = "the server's answer names another call";
/// The header that names a session.
pub(crate) const SESSION: &str = "mcp-session-id";

/// The request whose answer is read.
#[derive(Clone, Copy)]
pub(crate) struct SentRequest<'a> {
    /// `None` for a message that has no answer.
    pub(crate) id: Option<&'a RequestId>,
    /// Whether it agrees with the server, which needs an answer at once.
    pub(crate) greets: bool,
    /// Whether it is sent within a session.
    pub(crate) in_session: bool,
    /// How a person signs in to the server, empty if the host has no word for it; `None` if that is
    /// not how it is used.
    pub(crate) sign_in: Option<&'a str>,
}

/// Returns a request with its message.
pub(crate) fn to_post(request: RequestBuilder, message: Vec<u8>) -> RequestBuilder {
    request
        .header(ACCEPT, "text/event-stream, application/json")
        .header(CONTENT_TYPE, "application/json")
        .body(message)
}

/// Reads the answer to a request.
pub(crate) async fn read_answer(
    response: Response,
    sent: SentRequest<'_>,
    event_bytes: usize,
) -> PostResult {
    let code = response.status();
    let headers = response.headers();
    let kind = text(headers, CONTENT_TYPE.as_str());
    let plain = kind.as_deref().map(str::to_ascii_lowercase).unwrap_or_default();
    let is = |what: &str| plain.starts_with(what);
    let named = text(headers, SESSION);
    if code.is_redirection() {
        return Err(failed(moved(&response)));
    }
    if !code.is_success() {
        let wait = text(headers, RETRY_AFTER.as_str());
        let said = body(response, FAILURE_BYTES).await.unwrap_or_default();
        return failure(code, wait.as_deref(), &said, sent);
    }
    let accepted = code == StatusCode::ACCEPTED || code == StatusCode::NO_CONTENT;
    let nothing = || {
        let said = "the server answered nothing, where the protocol has JSON or events";
        Err(unknown(said, String::new()))
    };
    let id = match sent.id {
        Some(_) if accepted && sent.greets => return nothing(),
        Some(id) if !accepted => id,
        _ => return Ok(StreamableHttpPostResponse::Accepted),
    };
    if is("text/event-stream") {
        let events = answering(mended_events(events(response, event_bytes)), id, sent.greets);
        return Ok(StreamableHttpPostResponse::Sse(events, named));
    }
    if kind.is_some() && !is("application/json") {
        return Err(StreamableHttpError::UnexpectedContentType(kind));
    }
    let said = body(response, ANSWER_BYTES).await?;
    if said.trim().is_empty() {
        return nothing();
    }
    if kind.is_none() {
        return Err(StreamableHttpError::UnexpectedContentType(None));
    }
    answer(&said, id, sent.greets).map(|answer| StreamableHttpPostResponse::Json(answer, named))
}

/// Returns the error of a redirect, which is not followed: whatever it leads to was not asked.
fn moved(response: &Response) -> RequestError {
    let code = response.status().as_u16();
    let location = text(response.headers(), LOCATION.as_str());
    let address = location.and_then(|location| response.url().join(&location).ok());
    let theirs = address.map(|mut address| {
        address.set_query(None);
        address.set_fragment(None);
        address.to_string()
    });
    let said = format!("the server answered {}, which is not followed", status(code));
    RequestError::Way { code: Some(code), said, made: false, theirs: theirs.unwrap_or_default() }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(String::from_utf8_lossy(headers.get(name)?.as_bytes()).into_owned())
}

/// A body, up to a limit.
async fn body(
    mut response: Response,
    most: usize,
) -> Result<String, StreamableHttpError<reqwest::Error>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > most {
            return Err(StreamableHttpError::ResponseBodyTooLarge { max_size: most });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// Returns the result of a request that was answered with a failure status.
fn failure(
    code: StatusCode,
    wait: Option<&str>,
    said: &str,
    SentRequest { id, in_session, sign_in, .. }: SentRequest<'_>,
) -> PostResult {
    let answer = read(said);
    let error = answer.as_ref().and_then(error_in).map(|(error, _)| error);
    let theirs = error.as_ref().map_or_else(|| said.to_owned(), |error| error.message.to_string());
    let number = code.as_u16();
    if in_session && number == 404 {
        // The protocol has this status for a session that is unknown, and nothing else.
        return Err(failed(RequestError::Forgotten { words: theirs, undone: true }));
    }
    if in_session && number == 400 && is_about_the_session(&theirs) {
        return Err(failed(RequestError::Forgotten { words: theirs, undone: false }));
    }
    let way = |said: String, made: bool| {
        Err(failed(RequestError::Way { code: Some(number), said, made, theirs: theirs.clone() }))
    };
    let answered = format!("the server answered {}", status(number));
    match (number, error.zip(id)) {
        (401, _) => Err(failed(unauthorized(sign_in, theirs))),
        (403, _) => way(refused(number), false),
        (404 | 405, _) => way(answered, false),
        (429, _) => {
            // The other form is a date.
            let seconds = wait.and_then(|wait| wait.trim().parse::<u32>().ok());
            let wait = seconds.map(|seconds| format!(" {seconds} s")).unwrap_or_default();
            way(format!("{answered}: wait{wait} before you repeat it"), false)
        }
        (400..=499, Some((error, id))) => {
            Ok(StreamableHttpPostResponse::Json(as_answer(error, id), None))
        }
        (400..=499, None) => {
            let how = status(number);
            Err(failed(RequestError::Refused { how, message: theirs }))
        }
        _ => way(answered, true),
    }
}

/// Whether words refuse a request because of the session that it was made in.
fn is_about_the_session(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    ["session", "not initialized"].iter().any(|about| words.contains(about))
}

/// The answer in a body. What names another request, or an error that names none, came as the answer
/// to this one, and says nothing of what was done.
fn answer(
    said: &str,
    id: &RequestId,
    greets: bool,
) -> Result<ServerJsonRpcMessage, StreamableHttpError<reqwest::Error>> {
    let theirs = || truncate_chars(said, 400).to_owned();
    let none = || unknown("the server's answer is no message of the protocol", theirs());
    let answer = read(said).ok_or_else(none)?;
    if let Some((error, of)) = error_in(&answer)
        && !is_id(of, id)
        && !(greets && of.is_null())
    {
        let said = "the server answered with an error that names no call";
        return Err(unknown(said, error.message.into_owned()));
    }
    if answer.get("result").is_some() && answer.get("id").is_some_and(|of| !is_id(of, id)) {
        return Err(unknown(OTHER_CALL, theirs()));
    }
    serde_json::from_value(answer).map_err(|_| none())
}

/// The error of an answer that says nothing of what was done.
fn unknown(said: &str, theirs: String) -> HttpError {
    failed(RequestError::Way { code: None, said: said.to_owned(), made: true, theirs })
}

fn is_id(found: &Value, id: &RequestId) -> bool {
    match found {
        Value::String(found) => *found == id.to_string(),
        found => serde_json::to_value(id).is_ok_and(|id| id == *found),
    }
}

/// The events of an answer. One that is longer than it may be is the last.
fn events(response: Response, most: usize) -> SseEvents {
    let mut long = EventLimit { most, event: 0, line: 0 };
    let bytes = response.bytes_stream().map(move |chunk| {
        let chunk = chunk.map_err(std::io::Error::other)?;
        if long.is_too_long(&chunk) {
            return Err(std::io::Error::other(format!("an event of more than {most} bytes")));
        }
        Ok(chunk)
    });
    let mut ended = false;
    let until_an_error = bytes.take_while(move |chunk| {
        let goes_on = !ended;
        ended = chunk.is_err();
        futures_util::future::ready(goes_on)
    });
    SseStream::from_bytes_stream(until_an_error).boxed()
}

/// Checks the length of an event while it is read.
struct EventLimit {
    most: usize,
    event: usize,
    line: usize,
}

impl EventLimit {
    fn is_too_long(&mut self, chunk: &[u8]) -> bool {
        for byte in chunk {
            match byte {
                b'\n' if self.line == 0 => self.event = 0,
                b'\n' => self.line = 0,
                b'\r' => {}
                _ => self.line += 1,
            }
            self.event += 1;
            if self.event > self.most {
                return true;
            }
        }
        false
    }
}

/// Events whose data is JSON, as far as it can be made of them.
pub(crate) fn mended_events(events: SseEvents) -> SseEvents {
    let mend = |mut event: Sse| {
        event.data = event.data.map(|data| match mended(&data) {
            Some(mended) => mended.into_owned(),
            None => data,
        });
        event
    };
    events.map(move |event| event.map(mend)).boxed()
}

/// The events of the answer to one request. An answer to another one is dropped, up to a number of
/// them. An error that names none came for this one, and as in a body says nothing of what was done:
/// nobody else would take it, and the call would wait for its limit. The end of the events is one too
/// for a request that greets.
pub(crate) fn answering(events: SseEvents, id: &RequestId, greets: bool) -> SseEvents {
    let id = id.clone();
    let mut dropped = 0;
    let mut other = String::new();
    let mut own = move |event: Option<Sse>| {
        let failed = |event: Sse, why: &str| {
            let id = serde_json::to_value(&id).unwrap_or_default();
            Some(Sse { data: Some(unreadable(&id, why).to_string()), ..event })
        };
        let Some(event) = event else {
            return match other.as_str() {
                "" => failed(Sse::default(), "the server's events have no answer"),
                other => failed(Sse::default(), &format!("{OTHER_CALL}: {other}")),
            };
        };
        let data = event.data.as_deref().unwrap_or_default();
        let may_answer = ["\"error\"", "\"result\""].iter().any(|key| data.contains(key));
        let Some(read) = may_answer.then(|| read(data)).flatten() else { return Some(event) };
        if let Some((error, Value::Null)) = error_in(&read) {
            return failed(event, &error.message);
        }
        let of = read.get("id").filter(|of| !of.is_null() && read.get("method").is_none());
        if of.is_none_or(|of| is_id(of, &id)) {
            return Some(event);
        }
        other = truncate_chars(data, 400).to_owned();
        None
    };
    let events = events.map(Some).chain(futures_util::stream::iter(greets.then_some(None)));
    let checked = events.map(move |event| event.transpose().map(&mut own).transpose());
    // Past the limit the answer is at its end.
    let bounded = checked.take_while(move |event| {
        dropped += u64::from(event.is_none());
        std::future::ready(dropped <= UNASKED)
    });
    bounded.filter_map(std::future::ready).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport_error::from_transport;

    const SEVEN: RequestId = RequestId::Number(7);

    fn failed_with(code: u16, said: &str, in_session: bool) -> String {
        let code = StatusCode::from_u16(code).unwrap();
        let sent = SentRequest { id: Some(&SEVEN), greets: false, in_session, sign_in: None };
        describe(failure(code, None, said, sent))
    }

    fn describe(posted: PostResult) -> String {
        match posted {
            Err(error) => match from_transport(&error) {
                RequestError::Forgotten { undone, .. } => format!("forgotten, undone: {undone}"),
                RequestError::Way { made, said, theirs, .. } => {
                    format!("made: {made}, {said}, {theirs}")
                }
                RequestError::Refused { how, message } => format!("refused, {how}, {message}"),
                other => format!("{other:?}"),
            },
            Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), _)) => {
                format!("an answer, {:?}, {}", error.id, error.error.message)
            }
            Ok(other) => format!("{other:?}"),
        }
    }

    #[test]
    fn only_words_of_the_session_or_the_status_for_that_say_that_it_is_forgotten() {
        let error = |words: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":-32000,"message":"{words}"}}}}"#
            )
        };
        assert_eq!(failed_with(404, "", true), "forgotten, undone: true");
        let words = "Bad Request: No valid session ID provided";
        assert_eq!(failed_with(400, &error(words), true), "forgotten, undone: false");
        assert_eq!(failed_with(400, words, true), "forgotten, undone: false");
        let refused = "an answer, Some(Number(7)), bad city";
        assert_eq!(failed_with(400, &error("bad city"), true), refused);
        assert_eq!(failed_with(400, "bad city", true), "refused, HTTP 400 Bad Request, bad city");
        assert!(failed_with(400, &error(words), false).starts_with("an answer, "));
        for (code, name) in [(500, "Internal Server Error"), (503, "Service Unavailable")] {
            let unknown = format!("made: true, the server answered HTTP {code} {name}, no session");
            assert_eq!(failed_with(code, &error("no session"), true), unknown);
            assert_eq!(failed_with(code, "no session", false), unknown);
        }
        let outside = failed_with(403, "come: back", true);
        assert!(
            outside.starts_with("made: false, the server answered HTTP 403 Forbidden: it refuses")
        );
        assert!(outside.ends_with(", come: back"), "{outside}");
    }

    #[test]
    fn an_error_that_names_no_call_says_nothing_of_what_was_done() {
        let answered = |text: &str| {
            describe(
                answer(text, &SEVEN, false)
                    .map(|json| StreamableHttpPostResponse::Json(json, None)),
            )
        };
        let error = |id: &str| {
            answered(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"no session"}}}}"#
            ))
        };
        let unknown =
            "made: true, the server answered with an error that names no call, no session";
        assert_eq!((error("null").as_str(), error("8").as_str()), (unknown, unknown));
        let own = "an answer, Some(Number(7)), no session";
        assert_eq!(error("7"), own);
        let other = r#"{"jsonrpc":"2.0","id":8,"result":{}}"#;
        let expected = format!("made: true, the server's answer names another call, {other}");
        assert_eq!(answered(other), expected);
        let none = "made: true, the server's answer is no message of the protocol, {\"a\":NaN}";
        assert_eq!(answered("{\"a\":NaN}"), none);
    }

    #[test]
    fn an_event_ends_with_an_empty_line() {
        let mut long = EventLimit { most: 10, event: 0, line: 0 };
        for chunk in ["data: a\r", "\n\r\ndata: b\n\n", "data: c\n\n"] {
            assert!(!long.is_too_long(chunk.as_bytes()), "{chunk}");
        }
        assert!(long.is_too_long(b"data: long"));
    }
}
