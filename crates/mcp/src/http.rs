//! The way to servers that are reached by HTTP.

use std::collections::BTreeMap;
use std::sync::Once;
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use crate::error::{Fault, chain};
use crate::lines::LINE_BYTES;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

/// A connection to an address. No redirect is followed: a key must not wander.
pub(crate) fn transport(
    url: &str,
    headers: &BTreeMap<String, String>,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, Fault> {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let provider = rustls::crypto::ring::default_provider();
        // Fails only where the program has installed one already, which then serves as well.
        let _theirs_stays = provider.install_default();
    });
    let address = reqwest::Url::parse(url).map_err(|error| Fault::Http(error.to_string()))?;
    let builder = reqwest::Client::builder()
        .connect_timeout(CONNECT)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .user_agent(concat!("deputize/", env!("CARGO_PKG_VERSION")));
    let loopback = match address.host_str() {
        Some("localhost") => true,
        Some(host) => host
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback()),
        None => false,
    };
    let builder = if loopback { builder.no_proxy() } else { builder };
    // A plain connection needs no authorities, and a machine without any is no hindrance.
    let plain = loopback && address.scheme() == "http";
    let builder = if plain { builder.tls_certs_only([]) } else { builder };
    let client = builder.build().map_err(|error| Fault::Http(chain(&error)))?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    config.max_sse_event_size = LINE_BYTES;
    for (name, value) in headers {
        let wrong = || Fault::Header(name.clone());
        let header = HeaderName::try_from(name.as_str()).map_err(|_| wrong())?;
        let mut value = HeaderValue::try_from(value.trim()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        config.custom_headers.insert(header, value);
    }
    Ok(StreamableHttpClientTransport::with_client(client, config))
}
