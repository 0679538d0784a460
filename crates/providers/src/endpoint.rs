//! Where a model is reached, and with what.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use deputize_core::sanitize::Secrets;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, InvalidHeaderValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits::ReplyLimit;
use crate::secret::{Key, without};

/// An address that speaks one wire, with the key and the limits of time for it.
///
/// ```
/// let endpoint = deputize_providers::Endpoint::new("local", "http://127.0.0.1:8080/v1");
/// assert_eq!(endpoint.timeouts.first_byte.as_secs(), 600);
/// ```
#[derive(Clone)]
pub struct Endpoint {
    /// The provider's name in the configuration, for messages.
    pub name: String,
    /// The address up to and with the version, such as `https://api.openai.com/v1`. A query
    /// stays on every request.
    pub base_url: String,
    /// The keys, in the order to use them. When one is limited or refused, the next attempt
    /// takes the next.
    pub keys: Vec<Key>,
    /// Header for the key; `None` for the wire format's own.
    pub key_header: Option<KeyHeader>,
    /// More headers. Their values count as secrets.
    pub headers: BTreeMap<String, String>,
    /// Which proxy requests go through.
    pub proxy: Proxy,
    /// Authorities to trust beside the system's.
    pub authorities: Option<CaBundle>,
    /// How long a request waits.
    pub timeouts: EndpointTimeouts,
    /// Limit on a reply's size.
    pub reply_limit: ReplyLimit,
    /// What the body of a request has at this address.
    pub body: BodyOptions,
}

/// How long a request waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointTimeouts {
    /// Limit on connecting.
    pub connect: Duration,
    /// Limit from sending to the first data of the reply; comments do not count.
    pub first_byte: Duration,
    /// Limit between two pieces of data of the reply; comments do not count.
    pub idle: Duration,
}

impl Default for EndpointTimeouts {
    /// Returns the usual limits.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_mins(1),
            idle: Duration::from_secs(90),
        }
    }
}

impl EndpointTimeouts {
    /// Returns the usual limits for models on this machine, which are slow to begin, and for answers
    /// that come whole, whose first byte is the last.
    #[must_use]
    pub fn slow() -> Self {
        Self { first_byte: Duration::from_mins(10), ..Self::default() }
    }
}

/// How models at an address call tools.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ToolCalling {
    /// As the wire format does.
    #[default]
    Native,
    /// For models that cannot: each reply follows a JSON Schema (`response_format`) that is one of
    /// the tools or an answer. Chat Completions only.
    Constrained,
}

/// What the body of a request has at some address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyOptions {
    /// Whether the reply is asked for as a stream.
    pub streaming: bool,
    /// Whether reasoning goes back with a message that made calls, in Chat Completions;
    /// `None`: as is known of the address.
    pub echo_reasoning: Option<bool>,
    /// How the models call tools.
    pub tools: ToolCalling,
    /// Whether the models see images; `None`: as their makers say.
    pub vision: Option<bool>,
    /// Further fields of the request body, by name.
    pub extra: BTreeMap<String, Value>,
}

impl Default for BodyOptions {
    fn default() -> Self {
        Self {
            streaming: true,
            echo_reasoning: None,
            tools: ToolCalling::Native,
            vision: None,
            extra: BTreeMap::new(),
        }
    }
}

/// Which proxy requests go through.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proxy {
    /// The one that the environment names, but none for this machine's own addresses.
    #[default]
    Environment,
    /// No proxy.
    None,
    /// The one at this address.
    At(String),
}

/// Certificate authorities, as read from a file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CaBundle {
    /// The file, for messages.
    pub path: String,
    /// What is in it: one or more certificates in PEM.
    pub pem: Vec<u8>,
}

impl fmt::Debug for CaBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CaBundle({})", self.path)
    }
}

/// Which header carries a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyHeader {
    /// `authorization`, as a bearer.
    Bearer,
    /// The bare key in a header of this name, such as `x-api-key`.
    Named(String),
}

impl KeyHeader {
    /// Returns the header of this name, as a configuration has it.
    ///
    /// ```
    /// use deputize_providers::KeyHeader;
    /// assert_eq!(KeyHeader::of("Authorization"), KeyHeader::Bearer);
    /// assert_eq!(KeyHeader::of("x-api-key"), KeyHeader::Named("x-api-key".into()));
    /// ```
    #[must_use]
    pub fn of(name: &str) -> Self {
        if name.eq_ignore_ascii_case("authorization") {
            Self::Bearer
        } else {
            Self::Named(name.to_owned())
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Bearer => "authorization",
            Self::Named(name) => name,
        }
    }

    const fn prefix(&self) -> &'static str {
        match self {
            Self::Bearer => "Bearer ",
            Self::Named(_) => "",
        }
    }
}

/// What a wire adds to an endpoint's address and headers.
pub(crate) struct WireDefaults {
    /// The path behind `base_url`.
    pub(crate) path: &'static [&'static str],
    /// Which header carries the key, unless the endpoint says.
    pub(crate) key: KeyHeader,
    /// Headers of every request, unless the endpoint has its own of the same name.
    pub(crate) headers: &'static [(&'static str, &'static str)],
}

impl Endpoint {
    /// Creates an endpoint without a key and with the usual limits: 10 s to connect, 60 s to the
    /// first data (600 s on this machine, where models are slow), 90 s between data.
    #[must_use]
    pub fn new(name: impl Into<String>, base_url: impl Into<String>) -> Self {
        let base_url = base_url.into();
        let local = Url::parse(&base_url).is_ok_and(|url| is_loopback(&url));
        Self {
            name: name.into(),
            base_url,
            keys: Vec::new(),
            key_header: None,
            headers: BTreeMap::new(),
            proxy: Proxy::Environment,
            authorities: None,
            timeouts: if local { EndpointTimeouts::slow() } else { EndpointTimeouts::default() },
            reply_limit: ReplyLimit::default(),
            body: BodyOptions::default(),
        }
    }

    /// Adds its keys and the values of its headers to the values that must not leave the program.
    pub fn add_secrets(&self, secrets: &mut Secrets) {
        for key in &self.keys {
            key.secret.add_to(&key.variable, secrets);
        }
        for (name, value) in &self.headers {
            secrets.add(name, value);
        }
    }

    /// Checks that no extra field of the body is one of those that are ours alone.
    pub(crate) fn check_extra(&self, reserved: &[&'static str]) -> Result<(), EndpointError> {
        let field = reserved.iter().find(|field| self.body.extra.contains_key(**field));
        match field {
            Some(field) => Err(EndpointError::Extra { provider: self.name.clone(), field }),
            None => Ok(()),
        }
    }

    /// Checks that tools are called as the wire has it.
    pub(crate) fn check_native_tools(&self) -> Result<(), EndpointError> {
        match self.body.tools {
            ToolCalling::Native => Ok(()),
            ToolCalling::Constrained => {
                Err(EndpointError::Constrained { provider: self.name.clone() })
            }
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

    /// The headers of every request but the key's.
    pub(crate) fn own_headers(&self, way: &WireDefaults) -> Result<HeaderMap, EndpointError> {
        let mut map = HeaderMap::new();
        let accept = if self.body.streaming {
            "text/event-stream, application/json"
        } else {
            "application/json"
        };
        // Without it some relays compress, and what is compressed is not read: it may be a bomb.
        let usual = [
            ("content-type", "application/json"),
            ("accept", accept),
            ("accept-encoding", "identity"),
        ];
        for (name, value) in usual.iter().chain(way.headers) {
            map.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
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

    /// The header that carries keys, and for each its variable and the header's value.
    pub(crate) fn key_headers(
        &self,
        way: &WireDefaults,
    ) -> Result<(HeaderName, Vec<(String, HeaderValue)>), EndpointError> {
        let header = self.key_header.as_ref().unwrap_or(&way.key);
        let name = HeaderName::from_bytes(header.name().as_bytes()).map_err(|_| {
            EndpointError::Header { provider: self.name.clone(), header: header.name().to_owned() }
        })?;
        let value = |key: &Key| {
            let value = key.secret.header(header.prefix());
            let value = value.map_err(|source| EndpointError::Key {
                provider: self.name.clone(),
                variable: key.variable.clone(),
                source,
            })?;
            Ok((key.variable.clone(), value))
        };
        let keys = self.keys.iter().filter(|key| !key.secret.is_empty());
        let values = keys.map(value).collect::<Result<_, _>>()?;
        Ok((name, values))
    }

    /// A text without the keys and header values in it, nor the beginning of one where the text
    /// was cut.
    pub(crate) fn scrub(&self, text: &str) -> String {
        let text = self.keys.iter().fold(text.to_owned(), |text, key| key.secret.scrub(&text));
        let long = self.headers.values().map(|value| value.trim()).filter(|it| it.len() >= 8);
        long.fold(text, |text, value| without(&text, value))
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({})", self.name)
    }
}

/// Returns whether an address is on this machine, in whatever spelling.
///
/// ```
/// use deputize_providers::is_loopback;
/// assert!(is_loopback(&"http://[::ffff:127.0.0.1]:8080/v1".parse()?));
/// assert!(!is_loopback(&"https://localhost.example/v1".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<std::net::IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => {
            let name = host.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
    }
}

/// Why an endpoint cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// Its address is none.
    #[error("provider {provider}: base_url cannot be used: {problem}")]
    BaseUrl {
        /// Name of the provider.
        provider: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Its key cannot be sent.
    #[error("provider {provider}: the key in {variable} has characters that a header cannot carry")]
    Key {
        /// Name of the provider.
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
        /// Name of the provider.
        provider: String,
        /// Name of the header.
        header: String,
    },
    /// One of its extra fields is ours alone.
    #[error("provider {provider}: `{field}` cannot be an extra field")]
    Extra {
        /// Name of the provider.
        provider: String,
        /// Name of the field.
        field: &'static str,
    },
    /// Its models cannot call tools, and its wire has no other way.
    #[error("provider {provider}: `constrained` tools need Chat Completions")]
    Constrained {
        /// Name of the provider.
        provider: String,
    },
    /// Its proxy cannot be used.
    #[error("provider {provider}: proxy cannot be used: {problem}")]
    Proxy {
        /// Name of the provider.
        provider: String,
        /// What is wrong with its address.
        problem: String,
    },
    /// Its authorities cannot be used.
    #[error("provider {provider}: ca_file {path} cannot be used: {problem}")]
    Authorities {
        /// Name of the provider.
        provider: String,
        /// Path of the file.
        path: String,
        /// What is wrong with it.
        problem: String,
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

    const BEARER: WireDefaults = WireDefaults { path: &[], key: KeyHeader::Bearer, headers: &[] };

    #[test]
    fn an_endpoint_may_say_more_of_headers_than_its_wire() {
        let way = WireDefaults {
            path: &[],
            key: KeyHeader::Named(String::new()),
            headers: &[("version-of-wire", "1")],
        };
        let mut endpoint = Endpoint::new("p", "https://host/v1");
        endpoint.keys = vec![Key::new("A", "a"), Key::new("B", "b")];
        endpoint.key_header = Some(KeyHeader::of("X-Api-Key"));
        endpoint.headers.insert("Version-Of-Wire".into(), "2".into());
        endpoint.body.streaming = false;
        let (name, values) = endpoint.key_headers(&way).unwrap();
        assert_eq!((name.as_str(), values.len()), ("x-api-key", 2));
        assert_eq!((values[1].0.as_str(), &values[1].1), ("B", &HeaderValue::from_static("b")));
        let headers = endpoint.own_headers(&way).unwrap();
        assert_eq!(headers["version-of-wire"], "2");
        assert_eq!(headers["accept"], "application/json");
    }

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
            let result = endpoint.url().map(drop);
            let result = result.and_then(|()| endpoint.own_headers(&BEARER).map(drop));
            let result = result.and_then(|()| endpoint.key_headers(&BEARER).map(drop));
            result.unwrap_err().to_string()
        };
        let lines = [
            error(&|it| it.base_url = "host/v1".into()),
            error(&|it| it.base_url = "file:///etc".into()),
            error(&|it| it.base_url = "https://me:pw@host".into()),
            error(&|it| it.keys = vec![Key::new("P_KEY", "sk-\u{1}x")]),
            error(&|it| it.key_header = Some(KeyHeader::of("x key"))),
            error(&|it| drop(it.headers.insert("a b".into(), "x".into()))),
            error(&|it| drop(it.headers.insert("a".into(), "x\ny".into()))),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r"
        provider p: base_url cannot be used: relative URL without a base
        provider p: base_url cannot be used: `file` is neither http nor https
        provider p: base_url cannot be used: a name or password in it is not sent; use a key or headers
        provider p: the key in P_KEY has characters that a header cannot carry
        provider p: header `x key` has characters that HTTP does not allow
        provider p: header `a b` has characters that HTTP does not allow
        provider p: header `a` has characters that HTTP does not allow
        ");
    }

    #[test]
    fn nothing_of_an_endpoint_that_is_secret_can_be_printed() {
        let mut endpoint = Endpoint::new("p", "https://host/v1");
        endpoint.keys = vec![Key::new("P_KEY", "sk-secret")];
        endpoint.headers.insert("x-key".into(), "other-secret".into());
        let headers = endpoint.own_headers(&BEARER).unwrap();
        let keys = endpoint.key_headers(&BEARER).unwrap();
        let shown = format!("{endpoint:?} {headers:?} {keys:?}");
        assert!(!shown.contains("secret"), "{shown}");
        let scrubbed = endpoint.scrub("sk-secret and other-secret");
        assert_eq!(scrubbed, "[redacted] and [redacted]");
    }

    #[test]
    fn nothing_is_left_of_a_key_that_a_cut_went_through() {
        let mut endpoint = Endpoint::new("p", "https://host/v1");
        endpoint.keys = vec![Key::new("P_KEY", "sk-secret")];
        endpoint.headers.insert("x-key".into(), "other-secret".into());
        for secret in ["sk-secret", "other-secret"] {
            for end in 0..=12 {
                let room = "x".repeat(crate::limits::SHOWN_CHARS - end);
                let words = crate::line::truncate_to_line(&format!("{room}{secret} is wrong"));
                let scrubbed = endpoint.scrub(&words);
                assert!(!scrubbed.contains(secret.get(..4).unwrap()), "{scrubbed}");
                assert!(scrubbed.contains("more characters)"), "{scrubbed}");
            }
        }
    }
}
