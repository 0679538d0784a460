//! Receives the redirect by which a browser ends a sign-in.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use url::Url;

use super::login::{Login, OAuthClient};
use super::redirect_answer::ExpectedRedirect;

/// The most connections at once: browsers open some that they do not use.
const CONNECTIONS: usize = 32;
/// Time limit for the head of a request.
const HEAD: Duration = Duration::from_secs(10);
/// Time limit for the answer, once the redirect came.
const ANSWER: Duration = Duration::from_secs(2);
/// Pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(200);

/// Listens on this machine for one redirect.
#[derive(Debug)]
pub struct RedirectListener {
    listener: TcpListener,
    url: Url,
}

impl RedirectListener {
    /// Takes a port of this machine. A client that registers itself gets a random port and a path
    /// that cannot be guessed; one with an id gets the path `/callback`, and the port that was
    /// registered for it.
    ///
    /// # Errors
    /// If the port cannot be had.
    pub async fn bind(client: &OAuthClient) -> io::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, client.redirect_port));
        let listener = TcpListener::bind(address).await.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot listen at {address}: {error}"))
        })?;
        let path = match client.id {
            Some(_) => "callback".to_owned(),
            None => {
                let mut token = [0; 16];
                getrandom::fill(&mut token).map_err(|error| io::Error::other(error.to_string()))?;
                data_encoding::HEXLOWER.encode(&token)
            }
        };
        let url = format!("http://{}/{path}", listener.local_addr()?);
        let url = Url::parse(&url).map_err(io::Error::other)?;
        Ok(Self { listener, url })
    }

    /// Returns the address that redirects go to.
    #[must_use]
    pub const fn url(&self) -> &Url {
        &self.url
    }

    /// Waits for the redirect of a sign-in, answers it, and returns its address. The page in the browser
    /// says whether it is the answer to this sign-in. Any other request is answered with 404.
    pub async fn redirected(&self, login: &Login) -> Url {
        let expected = Arc::new(login.expected().clone());
        let (sender, mut redirected) = mpsc::channel(1);
        let mut connections = JoinSet::new();
        let url = loop {
            let full = connections.len() >= CONNECTIONS;
            tokio::select! {
                Some(url) = redirected.recv() => break url,
                Some(_) = connections.join_next() => {}
                accepted = self.listener.accept(), if !full => match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(serve(stream, Arc::clone(&expected), sender.clone()));
                    }
                    Err(_) => tokio::time::sleep(PAUSE).await,
                },
            }
        };
        // The browser reads the answer before its connection ends.
        let _answered = tokio::time::timeout(ANSWER, connections.join_next()).await;
        url
    }
}

/// Serves one connection, and passes a redirect on.
async fn serve(stream: TcpStream, expected: Arc<ExpectedRedirect>, sender: mpsc::Sender<Url>) {
    let answer = service_fn(|request: Request<Incoming>| {
        let url = redirect_of(&request, &expected.url);
        let page = url.as_ref().map(|url| page(&expected, url));
        let sender = sender.clone();
        async move {
            let (Some(url), Some(page)) = (url, page) else {
                return Ok(response(StatusCode::NOT_FOUND, "\n".into()));
            };
            // Only the first one counts.
            let _is_first = sender.try_send(url);
            Ok::<_, Infallible>(response(StatusCode::OK, page))
        }
    });
    let serving = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer);
    let _browser_is_gone = serving.await;
}

/// Returns the address of a request that is the redirect.
fn redirect_of(request: &Request<Incoming>, expected: &Url) -> Option<Url> {
    let is_meant = request.method() == Method::GET && request.uri().path() == expected.path();
    let mut url = expected.clone();
    url.set_query(Some(request.uri().query()?));
    is_meant.then_some(url)
}

/// Returns what the person reads in the browser.
fn page(expected: &ExpectedRedirect, redirected: &Url) -> String {
    match expected.read(redirected) {
        Ok(_) => "The sign-in was received. You can close this page and go back.\n".to_owned(),
        Err(why) => format!(
            "The sign-in failed: {why}\nYou can close this page. Go back to the terminal to try \
             again.\n"
        ),
    }
}

fn response(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    // A page that quotes the redirect is text, whatever stands in it.
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
