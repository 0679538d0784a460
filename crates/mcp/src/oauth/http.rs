//! Requests of a sign-in. Every address is checked, whoever named it.

use std::net::IpAddr;
use std::time::Duration;

use deputize_core::describe_error;
use deputize_core::sanitize::for_terminal_line;
use deputize_http::{AddressPolicy, AllowedHost, checked_client};
use hyper::Response;
use parking_lot::Mutex;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Method, StatusCode};
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use url::{Host, Url};

use super::error::OAuthError;

/// Time limit of one request.
const LIMIT: Duration = Duration::from_secs(30);
/// The most bytes of an answer.
const BODY_BYTES: usize = 1024 * 1024;

/// A request with all that it sends.
#[derive(Default)]
pub(crate) struct OAuthRequest {
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// An answer, read.
pub(crate) struct OAuthResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// Asks the servers of a sign-in. No redirect is followed.
pub(crate) struct OAuthHttp {
    policy: AddressPolicy,
    /// Whether the MCP server is on this machine, so that others here may be named.
    is_local: bool,
    /// Why the last request failed: on its way through the library the cause is lost.
    last_error: Mutex<Option<OAuthError>>,
}

impl OAuthHttp {
    /// Creates one for the sign-in to a server, whose own host the person chose. `allowed` are
    /// further hosts that may have private addresses.
    ///
    /// # Errors
    /// If the address is not one that a token may be sent to.
    pub(crate) fn new(server: &Url, allowed: &[AllowedHost]) -> Result<Self, OAuthError> {
        let is_local = is_loopback(server);
        let host = server.host_str().unwrap_or_default();
        let port = server.port_or_known_default().unwrap_or_default();
        let own = [host.to_owned(), format!("{host}:{port}")];
        let own = own.into_iter().filter_map(|host| host.parse().ok());
        let local = ["localhost", "127.0.0.1", "[::1]"].iter().filter(|_| is_local);
        let local = local.filter_map(|host| host.parse().ok());
        let allowed = allowed.iter().cloned().chain(own).chain(local).collect();
        let policy = AddressPolicy::new(allowed);
        let http = Self { policy, is_local, last_error: Mutex::default() };
        http.check_scheme(server)?;
        Ok(http)
    }

    /// Checks that an address is https, or on this machine as the server is.
    fn check_scheme(&self, url: &Url) -> Result<(), OAuthError> {
        match url.scheme() {
            "https" => Ok(()),
            "http" if self.is_local && is_loopback(url) => Ok(()),
            _ => Err(OAuthError::address(url.as_str(), "only https addresses are used")),
        }
    }

    /// Checks an address that a person's browser is sent to.
    pub(crate) async fn check(&self, url: &Url) -> Result<(), OAuthError> {
        self.client(url).await.map(drop)
    }

    async fn client(&self, url: &Url) -> Result<reqwest::Client, OAuthError> {
        self.check_scheme(url)?;
        checked_client(&self.policy, url).await.map_err(|source| OAuthError::Denied {
            url: for_terminal_line(&without_query(url), 300),
            source,
        })
    }

    /// Sends a request and reads the answer.
    pub(crate) async fn send(
        &self,
        url: &Url,
        request: OAuthRequest,
    ) -> Result<OAuthResponse, OAuthError> {
        let host = for_terminal_line(url.host_str().unwrap_or_default(), 100);
        let late = |_| OAuthError::Connection {
            host: host.clone(),
            problem: format!("no answer within {} s", LIMIT.as_secs()),
        };
        tokio::time::timeout(LIMIT, self.exchange(url, request)).await.map_err(late)?
    }

    async fn exchange(
        &self,
        url: &Url,
        request: OAuthRequest,
    ) -> Result<OAuthResponse, OAuthError> {
        let host = || for_terminal_line(url.host_str().unwrap_or_default(), 100);
        let broken = |error: reqwest::Error| OAuthError::Connection {
            host: host(),
            problem: for_terminal_line(&describe_error(&error.without_url()), 200),
        };
        let client = self.client(url).await?;
        let OAuthRequest { method, headers, body } = request;
        let request = client.request(method, url.clone()).headers(headers).body(body);
        let mut response = request.send().await.map_err(broken)?;
        let (status, headers) = (response.status(), response.headers().clone());
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let mut body = Vec::new();
        // A stream of events, which the server itself may answer with, has no end.
        if kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            return Ok(OAuthResponse { status, headers, body });
        }
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            if body.len() + chunk.len() > BODY_BYTES {
                return Err(OAuthError::TooLarge { host: host(), limit: BODY_BYTES });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(OAuthResponse { status, headers, body })
    }

    /// Returns why the last request failed, if it did.
    pub(crate) fn take_error(&self) -> Option<OAuthError> {
        self.last_error.lock().take()
    }
}

impl OAuthHttpClient for OAuthHttp {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            self.last_error.lock().take();
            let (head, body) = request.request.into_parts();
            let url = Url::parse(&head.uri.to_string())?;
            let asked = OAuthRequest { method: head.method, headers: head.headers, body };
            match self.send(&url, asked).await {
                Ok(OAuthResponse { status, headers, body }) => {
                    let mut response = Response::new(body);
                    *response.status_mut() = status;
                    *response.headers_mut() = headers;
                    Ok(response)
                }
                Err(error) => {
                    let message = describe_error(&error);
                    *self.last_error.lock() = Some(error);
                    Err(message.into())
                }
            }
        })
    }
}

/// The address of a server without what may be secret in it.
pub(crate) fn without_query(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}

pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.trim_end_matches('.') == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::from(address).to_canonical().is_loopback(),
        None => false,
    }
}
