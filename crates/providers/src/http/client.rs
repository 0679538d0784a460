//! The program's way to HTTP: connections, proxies, and whose certificates are trusted.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Once};
use std::time::Duration;

use deputize_core::Clock;
use parking_lot::Mutex;
use reqwest::{Certificate, Client, Url};

use super::direct::{ConnectionReuse, DirectClient};
use super::keys::KeyRings;
use super::transport::{AGENT, Transport};
use super::transport_error::library_chain;
use crate::endpoint::{CaBundle, Endpoint, EndpointError, Proxy, is_loopback};

/// Returns the program's way to HTTP. It keeps connections, so a program has one; making it
/// installs the TLS provider.
///
/// Redirects are not followed: a key must not wander. Proxies are taken from the environment,
/// but never for this machine's own addresses, unless an endpoint says otherwise. Certificates
/// are checked against the authorities of the system (on Linux, where `SSL_CERT_FILE` and
/// `SSL_CERT_DIR` name others, against those) and the endpoint's own. A request is never
/// sent twice, but for one that met the end of a kept connection without TLS, where the close came
/// at once and before any byte of an answer: retries are the driver's. `clock` serves `Retry-After`
/// dates alone.
#[must_use]
pub fn http_client(clock: Arc<dyn Clock>) -> HttpClient {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let provider = rustls::crypto::ring::default_provider();
        // Fails only when the program has installed one of its own, which then serves as well.
        let _theirs_stays = provider.install_default();
    });
    HttpClient { clock, clients: Arc::default(), rings: Arc::default() }
}

/// See [`http_client`]. Clones share connections, and what is known of keys.
#[derive(Clone)]
pub struct HttpClient {
    pub(super) clock: Arc<dyn Clock>,
    clients: Arc<Mutex<BTreeMap<ClientKey, Transport>>>,
    pub(super) rings: Arc<KeyRings>,
}

/// What endpoints must have in common to share connections.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ClientKey {
    connect_timeout: Duration,
    proxy: Proxy,
    authorities: Option<CaBundle>,
    keep: ConnectionReuse,
    /// The server's host and port, if no connection to it can need a certificate or a proxy.
    direct: Option<String>,
}

impl ClientKey {
    fn of(endpoint: &Endpoint, url: &Url, keep: ConnectionReuse) -> Self {
        let direct = is_loopback(url) && endpoint.proxy == Proxy::Environment;
        let proxy = if direct { Proxy::None } else { endpoint.proxy.clone() };
        Self {
            connect_timeout: endpoint.timeouts.connect,
            direct: authority(url).filter(|_| url.scheme() == "http" && proxy == Proxy::None),
            proxy,
            authorities: endpoint.authorities.clone(),
            keep,
        }
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpClient")
    }
}

impl HttpClient {
    pub(super) fn transport(
        &self,
        endpoint: &Endpoint,
        url: &Url,
        keep: ConnectionReuse,
    ) -> Result<Transport, EndpointError> {
        let kind = ClientKey::of(endpoint, url, keep);
        let mut clients = self.clients.lock();
        if let Some(client) = clients.get(&kind) {
            return Ok(client.clone());
        }
        let direct = kind.direct.as_deref();
        let direct = direct.and_then(|it| DirectClient::new(it, kind.connect_timeout, keep));
        let client = match direct {
            Some(direct) => Transport::Direct(direct),
            None => Transport::Library(build(endpoint, &kind)?),
        };
        clients.insert(kind, client.clone());
        Ok(client)
    }
}

/// Returns the host and the port of an address.
fn authority(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

fn build(endpoint: &Endpoint, kind: &ClientKey) -> Result<Client, EndpointError> {
    let provider = || endpoint.name.clone();
    let builder = Client::builder()
        .connect_timeout(kind.connect_timeout)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .user_agent(AGENT);
    let builder = match kind.keep {
        ConnectionReuse::Idle => builder,
        ConnectionReuse::Nothing => builder.pool_max_idle_per_host(0),
    };
    let builder = match &kind.proxy {
        Proxy::Environment => builder,
        Proxy::None => builder.no_proxy(),
        Proxy::At(address) => {
            let wrong = |problem| EndpointError::Proxy { provider: provider(), problem };
            let proxy = reqwest::Proxy::all(address);
            builder.proxy(proxy.map_err(|error| wrong(library_chain(&error)))?)
        }
    };
    let Some(own) = &kind.authorities else {
        let client = builder.build();
        return client.map_err(|error| EndpointError::Tls { reason: library_chain(&error) });
    };
    let wrong = |problem| EndpointError::Authorities {
        provider: provider(),
        path: own.path.clone(),
        problem,
    };
    let certificates = Certificate::from_pem_bundle(&own.pem);
    let certificates = certificates.map_err(|error| wrong(library_chain(&error)))?;
    if certificates.is_empty() {
        return Err(wrong("there is no certificate in it; it must be a PEM file".to_owned()));
    }
    let client = builder.tls_certs_merge(certificates).build();
    client.map_err(|error| {
        wrong(format!("one of its certificates cannot be read ({})", library_chain(&error)))
    })
}
