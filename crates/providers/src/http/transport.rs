//! How requests reach a server.

use std::convert::Infallible;
use std::future::ready;

use futures_util::stream;
use http_body_util::Full;
use hyper::header::{ACCEPT, CONTENT_LENGTH, HeaderMap, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Uri};
use reqwest::{Body, Client, Response, ResponseBuilderExt as _, Url};

use super::direct::DirectClient;
use super::transport_error::TransportError;

/// How this program names itself.
pub(super) const AGENT: &str = concat!("deputize/", env!("CARGO_PKG_VERSION"));

/// How requests reach a server. Clones share connections.
#[derive(Clone)]
pub(super) enum Transport {
    /// With TLS, or by a proxy.
    Library(Client),
    Direct(DirectClient),
}

impl Transport {
    /// Sends a request until its answer begins. A body is let go when it is sent, not when the answer
    /// comes: what waits for a model stays small.
    pub(super) async fn post(
        &self,
        url: &Url,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<Response, TransportError> {
        match self {
            Self::Library(client) => {
                let request = client.post(url.clone()).headers(headers);
                let request = request.header(CONTENT_LENGTH, body.len());
                // As a stream it cannot be sent twice, and so it is not kept.
                let body = Body::wrap_stream(stream::once(ready(Ok::<_, Infallible>(body))));
                request.body(body).send().await.map_err(TransportError::Library)
            }
            Self::Direct(client) => direct(client, Method::POST, url, headers, body).await,
        }
    }

    /// Asks for a document until its answer begins.
    pub(super) async fn get(
        &self,
        url: &Url,
        headers: HeaderMap,
    ) -> Result<Response, TransportError> {
        match self {
            Self::Library(client) => {
                let request = client.get(url.clone()).headers(headers);
                request.send().await.map_err(TransportError::Library)
            }
            Self::Direct(client) => direct(client, Method::GET, url, headers, Vec::new()).await,
        }
    }

    /// Returns whether a connection goes back to the others by a task of its own.
    pub(super) fn has_tasks(&self) -> bool {
        matches!(self, Self::Library(_))
    }
}

async fn direct(
    client: &DirectClient,
    method: Method,
    url: &Url,
    mut headers: HeaderMap,
    body: Vec<u8>,
) -> Result<Response, TransportError> {
    headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
    headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
    let target = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let target = Uri::try_from(target).map_err(|error| TransportError::Target(error.into()))?;
    let mut request = Request::new(Full::from(body));
    *request.method_mut() = method;
    *request.uri_mut() = target;
    *request.headers_mut() = headers;
    let (parts, body) = client.send(request).await?.into_parts();
    let answer = hyper::http::response::Builder::new().url(url.clone()).body(Body::wrap(body));
    let mut answer = answer.map_err(|error| TransportError::Target(error.into()))?;
    *answer.status_mut() = parts.status;
    *answer.version_mut() = parts.version;
    *answer.headers_mut() = parts.headers;
    Ok(answer.into())
}
