//! The proxy through which a browser reaches the network: it checks each address as `web_fetch`
//! does, and connects to what it checked.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use deputize_http::ResolveError;
use deputize_web::Settings;
use http_body_util::{Either, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use url::Url;

use crate::refusals::Refusals;

/// Connections of one browser at once.
const CONNECTIONS: usize = 256;
/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a request may take to arrive.
const REQUEST: Duration = Duration::from_secs(30);

/// Headers that are between the browser and the proxy.
const OWN_HEADERS: [HeaderName; 5] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-authorization"),
    HeaderName::from_static("proxy-connection"),
    UPGRADE,
];

/// Hosts that Chromium itself asks, for updates and for judging pages. No page is there.
const OWN_HOSTS: [&str; 17] = [
    "android.clients.google.com",
    "chromewebstore.googleapis.com",
    "clients2.google.com",
    "clients2.googleusercontent.com",
    "clients4.google.com",
    "clientservices.googleapis.com",
    "content-autofill.googleapis.com",
    "edgedl.me.gvt1.com",
    "enterprise-safebrowsing.googleapis.com",
    "mtalk.google.com",
    "oauthaccountmanager.googleapis.com",
    "redirector.gvt1.com",
    "safebrowsing.googleapis.com",
    "safebrowsingohttpgateway.googleapis.com",
    "sb-ssl.google.com",
    "update.googleapis.com",
    "webpermissionpredictions.googleapis.com",
];
/// The ends of hosts with services for its maker's own programs, which Chromium asks too.
const OWN_SERVICES: [&str; 2] = ["-pa.googleapis.com", ".pa.googleapis.com"];
/// Those of them that pages ask: players of videos, and pages that offer translations.
const PAGE_SERVICES: [&str; 2] = ["jnn-pa.googleapis.com", "translate-pa.googleapis.com"];

/// Returns whether Chromium itself asks a host, and no page does.
fn is_own_host(host: &str) -> bool {
    let is_service = OWN_SERVICES.iter().any(|end| host.ends_with(end));
    OWN_HOSTS.contains(&host) || (is_service && !PAGE_SERVICES.contains(&host))
}

type Body = Either<Incoming, Empty<Bytes>>;

/// A proxy on 127.0.0.1 for one browser. Dropping it ends all its connections.
#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    refusals: Arc<Refusals>,
    _tasks: JoinSet<()>,
}

/// What each connection has of the proxy.
#[derive(Debug)]
struct ProxyContext {
    web: Arc<Settings>,
    refusals: Arc<Refusals>,
    /// Connections with hosts. Each ends with the answer that it brings.
    hosts: Mutex<JoinSet<()>>,
}

impl Proxy {
    /// Starts a proxy that judges addresses by the settings of the tools for the web.
    pub(crate) async fn start(web: Arc<Settings>) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let refusals = Arc::new(Refusals::default());
        let hosts = Mutex::default();
        let context = Arc::new(ProxyContext { web, refusals: Arc::clone(&refusals), hosts });
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, context));
        Ok(Self { port, refusals, _tasks: tasks })
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// What was refused.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.refusals
    }
}

async fn serve(listener: TcpListener, context: Arc<ProxyContext>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Mostly that no descriptor is left; others are closed meanwhile.
                tracing::warn!(error = error.to_string(), "proxy of a browser");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        let context = Arc::clone(&context);
        connections.spawn(async move {
            let _place = place;
            serve_connection(stream, context).await;
        });
    }
}

async fn serve_connection(stream: TcpStream, context: Arc<ProxyContext>) {
    // A tunnel is served by the task of its connection, so that it ends with it.
    let (send, tunnel) = tokio::sync::oneshot::channel();
    let send = Arc::new(Mutex::new(Some(send)));
    let service = service_fn(move |request: Request<Incoming>| {
        let context = Arc::clone(&context);
        let send = Arc::clone(&send);
        async move {
            let answer = if request.method() == Method::CONNECT {
                context.tunnel(request, &send).await
            } else {
                context.forward(request).await
            };
            Ok::<_, Infallible>(answer.unwrap_or_else(empty))
        }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(hyper_util::rt::TokioTimer::new())
        .header_read_timeout(REQUEST)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::debug!(error = error.to_string(), "connection of a browser");
    }
    if let Ok(Tunnel { request, mut server }) = tunnel.await
        && let Ok(browser) = hyper::upgrade::on(request).await
    {
        let _closed = copy_bidirectional(&mut TokioIo::new(browser), &mut server).await;
    }
}

/// A tunnel that begins when its request was answered.
struct Tunnel {
    request: Request<Incoming>,
    server: TcpStream,
}

type TunnelSender = Mutex<Option<tokio::sync::oneshot::Sender<Tunnel>>>;

impl ProxyContext {
    /// Makes a tunnel to a host, whose address is checked.
    async fn tunnel(
        &self,
        request: Request<Incoming>,
        begin: &TunnelSender,
    ) -> Result<Response<Body>, StatusCode> {
        let authority = request.uri().authority().ok_or(StatusCode::BAD_REQUEST)?;
        // Only the host and the port of the address are known here.
        let port = authority.port_u16().unwrap_or(443);
        let scheme = if port == 80 { "http" } else { "https" };
        let server = self.connect(&format!("{scheme}://{authority}/")).await?.1;
        if let Some(begin) = begin.lock().take() {
            let _ended = begin.send(Tunnel { request, server });
        }
        Ok(empty(StatusCode::OK))
    }

    /// Sends a request on to its host, whose address is checked.
    async fn forward(&self, request: Request<Incoming>) -> Result<Response<Body>, StatusCode> {
        let (url, server) = self.connect(&request.uri().to_string()).await?;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(server)).await;
        let (mut sender, connection) = handshake.map_err(|_| StatusCode::BAD_GATEWAY)?;
        let request = request_for_host(request, &url).ok_or(StatusCode::BAD_REQUEST)?;
        self.track_connection(connection);
        let answer = sender.send_request(request).await;
        let answer = answer.map_err(|_| StatusCode::BAD_GATEWAY)?;
        let mut answer = answer.map(Either::Left);
        remove_own_headers(answer.headers_mut());
        Ok(answer)
    }

    /// Has a connection with a host served.
    fn track_connection(
        &self,
        connection: impl Future<Output = hyper::Result<()>> + Send + 'static,
    ) {
        let mut hosts = self.hosts.lock();
        while hosts.try_join_next().is_some() {}
        hosts.spawn(async move {
            // How it ended shows in the answer.
            let _ended = connection.await;
        });
    }

    /// Connects to the host of an address, if it may be asked.
    async fn connect(&self, text: &str) -> Result<(Url, TcpStream), StatusCode> {
        let refuse = |denied: &dyn std::error::Error| {
            self.refusals.add(text, &denied.to_string());
            StatusCode::FORBIDDEN
        };
        let url = self.web.check_url(text).map_err(|denied| refuse(&denied))?;
        if let Some(host) = url.host_str().filter(|host| is_own_host(host)) {
            self.refusals.add_own(text, host);
            return Err(StatusCode::FORBIDDEN);
        }
        let addresses = match timeout(CONNECT, self.web.fetch.policy.resolve(&url)).await {
            Ok(Ok(addresses)) => addresses,
            Ok(Err(ResolveError::Denied(denied))) => return Err(refuse(&denied)),
            Ok(Err(unknown)) => {
                self.refusals.add(text, &unknown.to_string());
                return Err(StatusCode::BAD_GATEWAY);
            }
            Err(_late) => return Err(StatusCode::GATEWAY_TIMEOUT),
        };
        match timeout(CONNECT, TcpStream::connect(&*addresses)).await {
            Ok(Ok(stream)) => Ok((url, stream)),
            Ok(Err(error)) => {
                self.refusals.add(text, &format!("no connection: {error}"));
                Err(StatusCode::BAD_GATEWAY)
            }
            Err(_late) => Err(StatusCode::GATEWAY_TIMEOUT),
        }
    }
}

/// Returns the request as the host itself gets it.
fn request_for_host(mut request: Request<Incoming>, url: &Url) -> Option<Request<Incoming>> {
    let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
    *request.uri_mut() = target.parse::<Uri>().ok()?;
    remove_own_headers(request.headers_mut());
    request.headers_mut().insert(HOST, HeaderValue::from_str(host).ok()?);
    Some(request)
}

/// Removes the headers that are for one connection, and those that it names.
fn remove_own_headers(headers: &mut HeaderMap) {
    let named = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named = named.flat_map(|value| value.split(','));
    let named: Vec<_> = named.filter_map(|name| name.trim().parse::<HeaderName>().ok()).collect();
    for name in OWN_HEADERS.iter().chain(&named) {
        headers.remove(name);
    }
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut answer = Response::new(Either::Right(Empty::new()));
    *answer.status_mut() = status;
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_only_chromium_asks_are_known() {
        let own = [
            "update.googleapis.com",
            "passwordsleakcheck-pa.googleapis.com",
            "x.pa.googleapis.com",
        ];
        assert!(own.into_iter().all(is_own_host));
        let of_pages = ["fonts.googleapis.com", "translate-pa.googleapis.com", "www.google.com"];
        assert!(!of_pages.into_iter().any(is_own_host));
    }
}
