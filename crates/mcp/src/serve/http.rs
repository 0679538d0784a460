//! Serving by HTTP, to programs of this machine that were told the address.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::Desk;
use crate::lines::LINE_BYTES;

/// The most connections at once.
const CONNECTIONS: usize = 64;
/// Pages of this machine may call; pages from elsewhere may not.
const ORIGINS: [&str; 2] = ["http://localhost:*", "http://127.0.0.1:*"];

/// A port of this machine that is served.
#[derive(Debug)]
pub struct Address {
    listener: TcpListener,
    path: String,
    /// Where clients reach it. Who knows it may use it.
    pub url: String,
}

/// Takes a port of this machine, 0 for any, under a path that cannot be guessed.
///
/// # Errors
/// When it cannot be had.
pub async fn bind(port: u16) -> io::Result<Address> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = TcpListener::bind(address).await.map_err(|error| {
        io::Error::new(error.kind(), format!("cannot listen at {address}: {error}"))
    })?;
    let mut token = [0; 16];
    getrandom::fill(&mut token).map_err(|error| io::Error::other(error.to_string()))?;
    let path = format!("/{}/mcp", data_encoding::HEXLOWER.encode(&token));
    let url = format!("http://{}{path}", listener.local_addr()?);
    Ok(Address { listener, path, url })
}

impl Desk {
    /// Serves clients by HTTP until the end is signalled.
    ///
    /// # Errors
    /// When no connection can be taken any more.
    pub async fn http(&self, address: Address) -> io::Result<()> {
        let desk = self.clone();
        let config = StreamableHttpServerConfig::default()
            .with_allowed_origins(ORIGINS)
            .with_max_request_body_bytes(LINE_BYTES)
            .with_cancellation_token(self.end.token().clone());
        let sessions = Arc::new(LocalSessionManager::default());
        let service = StreamableHttpService::new(move || Ok(desk.clone()), sessions, config);
        let path: Arc<str> = address.path.into();
        let mut connections = JoinSet::new();
        loop {
            let full = connections.len() >= CONNECTIONS;
            tokio::select! {
                () = self.end.cancelled() => break,
                _ended = connections.join_next(), if !connections.is_empty() => {}
                taken = address.listener.accept(), if !full => {
                    let (stream, _) = taken?;
                    let (service, path) = (service.clone(), Arc::clone(&path));
                    let answer = service_fn(move |request: Request<Incoming>| {
                        let (service, path) = (service.clone(), Arc::clone(&path));
                        async move {
                            let known = *path == *request.uri().path();
                            Ok::<_, Infallible>(if known {
                                service.handle(request).await.map(Either::Left)
                            } else {
                                nothing_here().map(Either::Right)
                            })
                        }
                    });
                    let serving = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), answer);
                    connections.spawn(async move {
                        let _client_is_gone = serving.await;
                    });
                }
            }
        }
        self.settled().await;
        Ok(())
    }
}

fn nothing_here() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(b"nothing is served here\n")));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}
