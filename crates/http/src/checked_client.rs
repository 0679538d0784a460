//! A client for one address that was checked.

use std::net::SocketAddr;
use std::sync::Once;
use std::time::Duration;

use reqwest::Client;
use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};
use url::Url;

use crate::address_policy::{AddressPolicy, ResolveError, UrlDenial};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

/// Why there is no client for an address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckedClientError {
    /// The address may not be asked, or its host has none.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// There is no HTTP client.
    #[error("there is no HTTP client: {0}")]
    NoClient(String),
}

impl From<UrlDenial> for CheckedClientError {
    fn from(denial: UrlDenial) -> Self {
        Self::Resolve(denial.into())
    }
}

/// Checks an address and everything that its name resolves to, and returns a client that connects
/// to what was checked. The client follows no redirect, uses no proxy and repeats nothing.
///
/// # Errors
/// If the address may not be asked, or its name cannot be resolved.
pub async fn checked_client(
    policy: &AddressPolicy,
    url: &Url,
) -> Result<Client, CheckedClientError> {
    policy.check(url)?;
    client(url, &policy.resolve(url).await?)
}

/// A client that connects to these addresses of a host and to nothing else.
fn client(url: &Url, addresses: &[SocketAddr]) -> Result<Client, CheckedClientError> {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let provider = rustls::crypto::ring::default_provider();
        // Fails only where the program has installed one already, which then serves as well.
        let _theirs_stays = provider.install_default();
    });
    let mut headers = HeaderMap::new();
    // Without this a server may send a body that takes a decoder without limits to read.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let mut builder = Client::builder()
        .connect_timeout(CONNECT)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .default_headers(headers)
        .user_agent(concat!("deputize/", env!("CARGO_PKG_VERSION")));
    if let Some(name) = url.domain() {
        builder = builder.resolve_to_addrs(name, addresses);
    }
    if url.scheme() == "http" {
        // The system's authorities are not read for a connection that needs none.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|error| CheckedClientError::NoClient(error.to_string()))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Whatever the name resolves to a moment later, nothing else is asked.
    #[tokio::test]
    async fn a_client_connects_to_the_addresses_that_were_checked() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let checked = listener.local_addr().unwrap();
        let url = Url::parse(&format!("http://rebound.invalid:{}/", checked.port())).unwrap();
        let answer = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let read = stream.read(&mut request).await.unwrap();
            let reply = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
            stream.write_all(reply.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&request[..read]).into_owned()
        };
        let client = client(&url, &[checked]).unwrap();
        let asked = async { client.get(url.clone()).send().await.unwrap().text().await.unwrap() };
        // Without the checked address the name is not found, and nobody comes.
        let both = async { tokio::join!(answer, asked) };
        let (request, text) = tokio::time::timeout(CONNECT, both).await.unwrap();
        assert_eq!(text, "ok");
        assert!(request.contains("host: rebound.invalid:"), "{request}");
        assert!(request.contains("accept-encoding: identity"), "{request}");
    }
}
