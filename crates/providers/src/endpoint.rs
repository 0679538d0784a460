//! Where a model is reached, and with what.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue, InvalidHeaderValue};
use serde_json::Value;

use crate::secret::Secret;

/// An address that speaks one wire, with the key and the limits of time for it.
///
/// ```
/// let endpoint = deputize_providers::Endpoint::new("local", "http://127.0.0.1:8080/v1");
/// assert_eq!(endpoint.first_byte_timeout.as_secs(), 600);
/// ```
#[derive(Clone)]
pub struct Endpoint {
    /// The provider's name in the configuration, for messages.
    pub name: String,
    /// The address up to and with the version, such as `https://api.openai.com/v1`. A query
    /// stays on every request.
    pub base_url: String,
    /// The key.
    pub key: Option<Secret>,
    /// The environment variable that the key comes from, for messages.
    pub key_env: Option<String>,
    /// More headers. Their values count as secrets.
    pub headers: BTreeMap<String, String>,
    /// The longest wait for a connection.
    pub connect_timeout: Duration,
    /// The longest wait from sending to the first data of the reply; comments do not count.
    pub first_byte_timeout: Duration,
    /// The longest wait between data of the reply; comments do not count.
    pub idle_timeout: Duration,
    /// More fields of the request's body.
    pub extra: BTreeMap<String, Value>,
}

impl Endpoint {
    /// An endpoint without a key and with the usual limits: 10 s to connect, 60 s to the first
    /// data (600 s on this machine, where models are slow), 90 s between data.
    #[must_use]
    pub fn new(name: impl Into<String>, base_url: impl Into<String>) -> Self {
        let base_url = base_url.into();
        let local = Url::parse(&base_url).is_ok_and(|url| is_loopback(&url));
        Self {
            name: name.into(),
            base_url,
            key: None,
            key_env: None,
            headers: BTreeMap::new(),
            connect_timeout: Duration::from_secs(10),
            first_byte_timeout: Duration::from_secs(if local { 600 } else { 60 }),
            idle_timeout: Duration::from_secs(90),
            extra: BTreeMap::new(),
        }
    }

    /// The checked address.
    pub(crate) fn url(&self) -> Result<Url, EndpointError> {
        let wrong = |problem| EndpointError::BaseUrl { provider: self.name.clone(), problem };
        let url = Url::parse(&self.base_url).map_err(|error| wrong(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong(format!("`{}` is neither http nor https", url.scheme())));
        }
        if !url.username().is_empty() || url.password().is_some() {
            let way = "a name or password in it is not sent; use a key or headers";
            return Err(wrong(way.to_owned()));
        }
        Ok(url)
    }

    /// The headers of every request. The key goes into `authorization` as a bearer, unless
    /// the endpoint's own headers hold one.
    pub(crate) fn bearer_headers(&self) -> Result<HeaderMap, EndpointError> {
        let mut map = HeaderMap::new();
        if let Some(key) = self.key.as_ref().filter(|key| !key.is_empty()) {
            let value = key.header("Bearer ").map_err(|source| EndpointError::Key {
                provider: self.name.clone(),
                variable: self.key_env.clone().unwrap_or_else(|| "api_key_env".to_owned()),
                source,
            })?;
            map.insert(header::AUTHORIZATION, value);
        }
        for (name, value) in &self.headers {
            let wrong =
                || EndpointError::Header { provider: self.name.clone(), header: name.clone() };
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
            let mut value = HeaderValue::from_str(value.trim()).map_err(|_| wrong())?;
            value.set_sensitive(true);
            map.insert(name, value);
        }
        Ok(map)
    }

    /// A text without the key and without header values in it.
    pub(crate) fn scrub(&self, text: &str) -> String {
        let text = self.key.as_ref().map_or_else(|| text.to_owned(), |key| key.scrub(text));
        let long = self.headers.values().filter(|value| value.trim().len() >= 8);
        long.fold(text, |text, value| text.replace(value.trim(), "[redacted]"))
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({})", self.name)
    }
}

/// Whether an address is on this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

/// Why an endpoint cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// Its address is none.
    #[error("provider {provider}: base_url cannot be used: {problem}")]
    BaseUrl {
        /// Which provider.
        provider: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Its key cannot be sent.
    #[error("provider {provider}: the key in {variable} has characters that a header cannot carry")]
    Key {
        /// Which provider.
        provider: String,
        /// The environment variable of the key.
        variable: String,
        /// What HTTP says.
        #[source]
        source: InvalidHeaderValue,
    },
    /// One of its headers cannot be sent.
    #[error("provider {provider}: header `{header}` has characters that HTTP does not allow")]
    Header {
        /// Which provider.
        provider: String,
        /// The header.
        header: String,
    },
    /// One of its extra fields is ours alone.
    #[error("provider {provider}: `{field}` cannot be an extra field")]
    Extra {
        /// Which provider.
        provider: String,
        /// The field.
        field: &'static str,
    },
    /// There is no HTTP client.
    #[error("cannot set up HTTPS on this machine: {reason}")]
    Tls {
        /// Why, in the library's words.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_are_known() {
        let is = |text: &str| is_loopback(&Url::parse(text).unwrap());
        for here in [
            "http://127.0.0.1:1/v1",
            "http://localhost",
            "http://[::1]:8080",
            "http://127.9.9.9",
            "http://a.localhost",
        ] {
            assert!(is(here), "{here}");
        }
        for there in [
            "https://api.openai.com",
            "http://10.0.0.1",
            "http://localhost.example",
            "http://[::2]",
        ] {
            assert!(!is(there), "{there}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_named_and_no_key_is_shown() {
        let error = |change: &dyn Fn(&mut Endpoint)| {
            let mut endpoint = Endpoint::new("p", "https://host/v1");
            change(&mut endpoint);
            let result =
                endpoint.url().map(drop).and_then(|()| endpoint.bearer_headers().map(drop));
            result.unwrap_err().to_string()
        };
        let lines = [
            error(&|it| it.base_url = "host/v1".into()),
            error(&|it| it.base_url = "file:///etc".into()),
            error(&|it| it.base_url = "https://me:pw@host".into()),
            error(&|it| {
                it.key = Some(Secret::new("sk-\u{1}x"));
                it.key_env = Some("P_KEY".into());
            }),
            error(&|it| drop(it.headers.insert("a b".into(), "x".into()))),
            error(&|it| drop(it.headers.insert("a".into(), "x\ny".into()))),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r"
        provider p: base_url cannot be used: relative URL without a base
        provider p: base_url cannot be used: `file` is neither http nor https
        provider p: base_url cannot be used: a name or password in it is not sent; use a key or headers
        provider p: the key in P_KEY has characters that a header cannot carry
        provider p: header `a b` has characters that HTTP does not allow
        provider p: header `a` has characters that HTTP does not allow
        ");
    }

    #[test]
    fn nothing_of_an_endpoint_that_is_secret_can_be_printed() {
        let mut endpoint = Endpoint::new("p", "https://host/v1");
        endpoint.key = Some(Secret::new("sk-secret"));
        endpoint.headers.insert("x-key".into(), "other-secret".into());
        let headers = endpoint.bearer_headers().unwrap();
        let shown = format!("{endpoint:?} {headers:?}");
        assert!(!shown.contains("secret"), "{shown}");
        let scrubbed = endpoint.scrub("sk-secret and other-secret");
        assert_eq!(scrubbed, "[redacted] and [redacted]");
    }
}
