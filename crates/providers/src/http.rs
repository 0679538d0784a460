//! One HTTP exchange, the same for every wire: send, watch the time, end when told to, and
//! say what went wrong.

mod failure;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use deputize_core::{Cancel, Clock, ModelError, Reply};
use reqwest::header::{self, HeaderMap};
use reqwest::{Client, Response, Url};
use tokio::time::{Instant, timeout_at};

use crate::endpoint::{Endpoint, EndpointError, is_loopback};
use crate::limits::{AFTER_DONE, AFTER_FINISH, ERROR_BODY_BYTES};
use crate::retry_after;
use crate::server_error::ServerError;
use crate::stream::{Ending, EventParser, Flow, Live, ReplyBytes};
use failure::{Failure, Told};

/// The program's way to HTTP. It keeps connections, so a program has one; making it installs
/// the TLS provider.
///
/// Redirects are not followed: a key must not wander. Proxies are taken from the environment,
/// but never for this machine's own addresses. Requests are never sent twice: retries are the
/// driver's. `clock` serves `Retry-After` dates alone.
#[must_use]
pub fn http_client(clock: Arc<dyn Clock>) -> HttpClient {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let provider = rustls::crypto::ring::default_provider();
        // Fails only when the program has installed one of its own, which then serves as well.
        let _theirs_stays = provider.install_default();
    });
    HttpClient { clock, clients: Arc::default() }
}

/// See [`http_client`]. Clones share connections.
#[derive(Clone)]
pub struct HttpClient {
    clock: Arc<dyn Clock>,
    clients: Arc<Mutex<BTreeMap<(Duration, bool), Client>>>,
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpClient")
    }
}

impl HttpClient {
    fn client(&self, connect_timeout: Duration, local: bool) -> Result<Client, EndpointError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&(connect_timeout, local)) {
            return Ok(client.clone());
        }
        let builder = Client::builder()
            .connect_timeout(connect_timeout)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .user_agent(concat!("deputize/", env!("CARGO_PKG_VERSION")));
        let builder = if local { builder.no_proxy() } else { builder };
        let client = builder.build();
        let client =
            client.map_err(|error| EndpointError::Tls { reason: failure::chain(&error) })?;
        clients.insert((connect_timeout, local), client.clone());
        Ok(client)
    }
}

/// An endpoint, ready for requests.
pub(crate) struct Remote {
    endpoint: Endpoint,
    client: Client,
    clock: Arc<dyn Clock>,
    url: Url,
    headers: HeaderMap,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Remote({})", self.endpoint.name)
    }
}

impl Remote {
    pub(crate) fn new(
        endpoint: Endpoint,
        http: &HttpClient,
        path: &[&str],
    ) -> Result<Self, EndpointError> {
        let mut url = endpoint.url()?;
        let client = http.client(endpoint.connect_timeout, is_loopback(&url))?;
        // An address with http or https always takes segments.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        let mut headers = endpoint.bearer_headers()?;
        let json = header::HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
        let accept = header::HeaderValue::from_static("text/event-stream, application/json");
        headers.insert(header::ACCEPT, accept);
        Ok(Self { endpoint, client, clock: Arc::clone(&http.clock), url, headers })
    }
}

/// A request of one wire, and what will read its reply.
pub(crate) struct Ask<'m, P> {
    pub(crate) model: &'m str,
    pub(crate) body: Vec<u8>,
    pub(crate) parser: P,
}

/// Sends one request and reads its reply.
pub(crate) async fn exchange<P: EventParser>(
    remote: &Remote,
    ask: Ask<'_, P>,
    live: &mut Live<'_>,
    cancel: &Cancel,
) -> Result<Reply, ModelError> {
    let start = Instant::now();
    let mut bytes = ReplyBytes::new(ask.parser);
    let ended = tokio::select! {
        biased;
        () = cancel.cancelled() => Err(Failure::Cancelled),
        ended = receive(remote, ask.body, &mut bytes, live) => ended,
    };
    let told = Told {
        endpoint: &remote.endpoint,
        url: &remote.url,
        model: ask.model,
        output: bytes.parser().has_output(),
        partial: bytes.parser().text().to_owned(),
        seconds: start.elapsed().as_secs_f64(),
    };
    let reply = match ended {
        Ok(ending) => bytes.finish(ending).map_err(Failure::Stream),
        // What breaks after the reply is complete does not matter any more.
        Err(Failure::Broken(_) | Failure::Idle) if bytes.parser().may_end() => {
            bytes.finish(Ending::Broken).map_err(Failure::Stream)
        }
        Err(failure) => Err(failure),
    };
    reply.map_err(|failure| failure.tell(told))
}

/// Sends, and feeds what comes until the reply or the body ends.
async fn receive<P: EventParser>(
    remote: &Remote,
    body: Vec<u8>,
    bytes: &mut ReplyBytes<P>,
    live: &mut Live<'_>,
) -> Result<Ending, Failure> {
    let first = Instant::now() + remote.endpoint.first_byte_timeout;
    let request = remote.client.post(remote.url.clone()).headers(remote.headers.clone());
    let sent = timeout_at(first, request.body(body).send()).await;
    let mut response = sent.map_err(|_| Failure::NoAnswer)?.map_err(Failure::Send)?;
    if !response.status().is_success() {
        return Err(refusal(remote, response).await);
    }
    let coding = response.headers().get(header::CONTENT_ENCODING);
    if let Some(coding) = coding.filter(|coding| *coding != "identity") {
        return Err(Failure::Compressed(String::from_utf8_lossy(coding.as_bytes()).into_owned()));
    }
    let mut alive = Instant::now();
    loop {
        let seen = bytes.data_bytes();
        let until = match (seen, bytes.parser().may_end()) {
            (0, _) => first,
            (_, true) => alive + AFTER_FINISH.min(remote.endpoint.idle_timeout),
            (_, false) => alive + remote.endpoint.idle_timeout,
        };
        let late = if seen == 0 { Failure::NoAnswer } else { Failure::Idle };
        let Ok(chunk) = timeout_at(until, response.chunk()).await else { return Err(late) };
        let Some(chunk) = chunk.map_err(Failure::Broken)? else {
            bytes.end(live).map_err(Failure::Stream)?;
            return Ok(Ending::InOrder);
        };
        if bytes.feed(&chunk, live).map_err(Failure::Stream)? == Flow::Done {
            drain(response).await;
            return Ok(Ending::InOrder);
        }
        if bytes.data_bytes() > seen {
            alive = Instant::now();
        } else if Instant::now() >= until {
            // A flood of comments is always ready, so the timeout above would never strike.
            return Err(late);
        }
    }
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
async fn refusal(remote: &Remote, mut response: Response) -> Failure {
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let header = |name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
    let waits = retry_after::from_headers(header, remote.clock.now_ms());
    let until = Instant::now() + remote.endpoint.idle_timeout;
    let mut body = Vec::new();
    while body.len() < ERROR_BODY_BYTES {
        match timeout_at(until, response.chunk()).await {
            Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
            Ok(Ok(None) | Err(_)) | Err(_) => break,
        }
    }
    let cut = body.len() >= ERROR_BODY_BYTES;
    body.truncate(ERROR_BODY_BYTES);
    let mut error = ServerError::of_answer(status, &String::from_utf8_lossy(&body), waits);
    if cut {
        error.message.push_str(&format!(" [of the first {ERROR_BODY_BYTES} bytes]"));
    }
    if let Some(target) = header("location").filter(|_| (300..400).contains(&status)) {
        let target = crate::line::shown(&target);
        error.message = format!("a redirect to {target}, which is not followed");
    }
    Failure::Refused(error)
}
