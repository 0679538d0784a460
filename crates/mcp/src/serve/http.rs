//! Serves HTTP to programs of this machine that know the address.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::common::http_header::HEADER_SESSION_ID;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::ServeState;
use crate::stdio_transport::LINE_BYTES;

/// The most connections at once.
const CONNECTIONS: usize = 64;
/// Time limit for the head of each request: any process of this machine can connect, and must not
/// occupy the connections.
const HEAD: Duration = Duration::from_secs(30);
/// Pause after a failed accept; descriptors may become free.
const PAUSE: Duration = Duration::from_secs(1);
/// The most sessions at once.
const SESSIONS: usize = 256;
/// Time after which a silent session is dropped. A call is silent while a model thinks.
const SILENT_SESSION: Duration = Duration::from_secs(60 * 60);
/// Pages of this machine may call; pages from elsewhere may not.
const ORIGINS: [&str; 2] = ["http://localhost:*", "http://127.0.0.1:*"];

/// A port of this machine that is served.
#[derive(Debug)]
pub struct ServedAddress {
    listener: TcpListener,
    path: String,
    /// Where clients reach it. Who knows it may use it.
    pub url: String,
}

/// Takes a port of this machine, 0 for any, under a path that cannot be guessed.
///
/// # Errors
/// When it cannot be had.
pub async fn bind(port: u16) -> io::Result<ServedAddress> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = TcpListener::bind(address).await.map_err(|error| {
        io::Error::new(error.kind(), format!("cannot listen at {address}: {error}"))
    })?;
    let mut token = [0; 16];
    getrandom::fill(&mut token).map_err(|error| io::Error::other(error.to_string()))?;
    let path = format!("/{}/mcp", data_encoding::HEXLOWER.encode(&token));
    let url = format!("http://{}{path}", listener.local_addr()?);
    Ok(ServedAddress { listener, path, url })
}

/// Serves clients by HTTP until the end is signalled.
pub(super) async fn serve(state: &ServeState, address: ServedAddress) {
    let served = state.clone();
    let config = StreamableHttpServerConfig::default()
        .with_allowed_origins(ORIGINS)
        .with_max_request_body_bytes(LINE_BYTES)
        .with_cancellation_token(state.end.token().clone());
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(SILENT_SESSION);
    let sessions = Arc::new(sessions);
    let service =
        StreamableHttpService::new(move || Ok(served.clone()), Arc::clone(&sessions), config);
    let path: Arc<str> = address.path.into();
    let mut connections = JoinSet::new();
    loop {
        let full = connections.len() >= CONNECTIONS;
        tokio::select! {
            () = state.end.cancelled() => break,
            _ended = connections.join_next(), if !connections.is_empty() => {}
            (stream, _) = accept_next(|| address.listener.accept()), if !full => {
                let service = service.clone();
                let path = Arc::clone(&path);
                let sessions = Arc::clone(&sessions);
                let answer = service_fn(move |request: Request<Incoming>| {
                    let service = service.clone();
                    let path = Arc::clone(&path);
                    let sessions = Arc::clone(&sessions);
                    async move {
                        Ok::<_, Infallible>(if *path != *request.uri().path() {
                            nothing_here().map(Either::Right)
                        } else if begins(&request)
                            && sessions.sessions.read().await.len() >= SESSIONS
                        {
                            no_place().map(Either::Right)
                        } else {
                            service.handle(request).await.map(Either::Left)
                        })
                    }
                });
                let serving = hyper::server::conn::http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD)
                    .serve_connection(TokioIo::new(stream), answer);
                connections.spawn(async move {
                    let _client_is_gone = serving.await;
                });
            }
        }
    }
    state.settled().await;
}

/// The next connection. That one cannot be taken, for want of files or because its client is gone
/// already, ends nothing: it is tried again.
async fn accept_next<T, F: Future<Output = io::Result<T>>>(accept: impl Fn() -> F) -> T {
    loop {
        match accept().await {
            Ok(taken) => return taken,
            Err(error) => {
                tracing::warn!(error = error.to_string(), "a connection could not be accepted");
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether a request may begin a session.
fn begins(request: &Request<Incoming>) -> bool {
    request.method() == Method::POST && !request.headers().contains_key(HEADER_SESSION_ID)
}

/// Returns the answer to a client that would exceed the limit on sessions.
fn no_place() -> Response<Full<Bytes>> {
    let text = format!(
        "{SESSIONS} sessions are open, which is the limit; end one (DELETE), or wait: one that is \
         silent for {} minutes ends\n",
        SILENT_SESSION.as_secs() / 60
    );
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
}

fn nothing_here() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(b"nothing is served here\n")));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use deputize_core::{BoxFuture, Cancel, CancelReason};
    use serde_json::{Map, Value};
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::TcpStream;
    use tokio::time::timeout;

    use super::super::{
        AgentService, InvalidCall, ProgressSink, ServedAnswer, ServedTool, ServerInfo,
    };
    use super::*;

    struct IdleService;

    impl AgentService for IdleService {
        fn offers(&self) -> BoxFuture<'_, Vec<ServedTool>> {
            Box::pin(std::future::ready(Vec::new()))
        }

        fn call<'a>(
            &'a self,
            _: &'a str,
            _: Map<String, Value>,
            _: ProgressSink,
            _: Cancel,
        ) -> BoxFuture<'a, Result<ServedAnswer, InvalidCall>> {
            Box::pin(async { Err(InvalidCall("nothing is offered".to_owned())) })
        }
    }

    /// A server that is driven by bare connections. Its clock stands still as long as anybody
    /// has something to do, and jumps to the next limit when all wait.
    struct TestServer {
        host: String,
        path: String,
        end: Cancel,
        serving: JoinSet<()>,
    }

    impl TestServer {
        async fn begin() -> Self {
            let end = Cancel::new();
            let who = ServerInfo { name: "t", version: "1", instructions: String::new() };
            let state = ServeState::new(who, Arc::new(IdleService), end.clone());
            let address = bind(0).await.unwrap();
            let path = address.path.clone();
            let host = address.listener.local_addr().unwrap().to_string();
            let mut serving = JoinSet::new();
            serving.spawn(async move { state.http(address).await });
            Self { host, path, end, serving }
        }

        async fn connect(&self) -> BufReader<TcpStream> {
            BufReader::new(TcpStream::connect(&self.host).await.unwrap())
        }

        /// The head of the answer to a request.
        async fn ask(&self, stream: &mut BufReader<TcpStream>, more: &str, body: &str) -> String {
            let Self { host, path, .. } = self;
            let bytes = body.len();
            let request = format!(
                "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
                 Accept: application/json, text/event-stream\r\nContent-Length: {bytes}\r\n\
                 {more}\r\n{body}"
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).await.unwrap() > 0 {}
            head
        }

        async fn initialize(&self) -> String {
            let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
            self.ask(&mut self.connect().await, "Connection: close\r\n", hello).await
        }

        async fn end(mut self) {
            self.end.cancel(CancelReason::Interrupted);
            self.serving.join_next().await.unwrap().unwrap();
        }
    }

    const PING: &str = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;

    #[tokio::test(start_paused = true)]
    async fn connections_that_ask_nothing_do_not_keep_others_out() {
        let served = TestServer::begin().await;
        let mut idle = Vec::new();
        for number in 0..CONNECTIONS {
            let mut stream = served.connect().await;
            // Some never say anything, some stop in the middle, and some were served once.
            match number % 3 {
                0 => {}
                1 => stream.write_all(b"POST /x HTTP/1.1\r\nHost: a").await.unwrap(),
                _ => drop(served.ask(&mut stream, "Mcp-Session-Id: no\r\n", PING).await),
            }
            idle.push(stream);
        }
        let asked = served.initialize();
        let head = timeout(10 * HEAD, asked).await.expect("there is a place some day");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        drop(idle);
        served.end().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_cannot_be_taken_ends_nothing() {
        let tried = AtomicUsize::new(0);
        let accept = || {
            std::future::ready(match tried.fetch_add(1, Ordering::Relaxed) {
                0 => Err(io::Error::from(io::ErrorKind::ConnectionAborted)),
                1 => Err(io::Error::other("too many open files")),
                count => Ok(count),
            })
        };
        assert_eq!(accept_next(accept).await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_are_so_many_and_silent_ones_end() {
        let served = TestServer::begin().await;
        let mut first = String::new();
        for _ in 0..SESSIONS {
            let head = served.initialize().await;
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
            if first.is_empty() {
                first = head;
            }
        }
        let head = served.initialize().await;
        assert!(head.starts_with("HTTP/1.1 503"), "{head}");
        // Who has a session is served on.
        let name = HEADER_SESSION_ID.to_ascii_lowercase();
        let named = |line: &&str| line.to_ascii_lowercase().starts_with(&name);
        let session = format!("{}\r\n", first.lines().find(named).unwrap());
        let mut stream = served.connect().await;
        let head = served.ask(&mut stream, &session, PING).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        tokio::time::sleep(2 * SILENT_SESSION).await;
        let head = served.initialize().await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        served.end().await;
    }
}
