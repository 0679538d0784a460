//! Providers that need no entry, names of models, and addresses of endpoints.

use deputize_providers::Proxy;
pub(super) use deputize_providers::{KNOWN_PROVIDERS, KnownProvider, is_loopback, known_provider};
use url::Url;

/// The provider that needs neither key nor network.
pub const OFFLINE: &str = "offline";

/// Names that no entry of `providers` may take.
pub(super) const RESERVED: &[&str] = &[OFFLINE, "replay"];

/// Splits PROVIDER/MODEL at the first slash; `None` when either half is missing.
pub(super) fn split_model(name: &str) -> Option<(&str, &str)> {
    if name == OFFLINE {
        return Some((OFFLINE, OFFLINE));
    }
    name.split_once('/').filter(|(provider, model)| !provider.is_empty() && !model.is_empty())
}

/// Whether a text can be the name of an environment variable.
pub(super) fn is_env_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit())
}

/// Why an address cannot be an endpoint. The address itself is never shown, since it may hold a
/// password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlFault {
    /// It cannot be parsed.
    #[error("is not a URL ({0}); write it like http://127.0.0.1:8080/v1")]
    Invalid(url::ParseError),
    /// Neither http nor https.
    #[error("must begin with http:// or https://")]
    Scheme,
    /// User or password inside.
    #[error(
        "holds a user name or password; leave them out and name the key's variable in `api_key_env`"
    )]
    UserInfo,
    /// A query or fragment, to which no path can be added.
    #[error("must end with its path: leave out `?` or `#` and what follows")]
    Query,
    /// The path of a request, which would be there twice.
    #[error("ends with `{0}`, which each request adds: leave it out")]
    Request(&'static str),
    /// The address of an MCP server cannot be parsed.
    #[error("is not a URL ({0}); write it like https://mcp.example/mcp")]
    ServerInvalid(url::ParseError),
    /// User or password in the address of a proxy.
    #[error(
        "holds a user name or password; leave out the key and set HTTPS_PROXY in the environment, \
         which may hold them"
    )]
    ProxyUserInfo,
    /// User or password in the address of an MCP server.
    #[error(
        "holds a user name or password, which would be shown with the address; leave them out and \
         send a header, such as `Authorization: \"Basic ${{NAME}}\"` under `headers` (of `mcp add`: \
         --header 'Authorization=Basic ${{NAME}}')"
    )]
    ServerUserInfo,
    /// More than host and port in the address of a proxy.
    #[error("names a host and a port and no path, such as http://proxy.example:3128")]
    ProxyPath,
}

/// What the protocols add to an endpoint's address.
const REQUESTS: [&str; 3] = ["/chat/completions", "/responses", "/messages"];

/// Parses an endpoint's address; the result has no slash at its end.
pub(super) fn endpoint(text: &str) -> Result<Url, UrlFault> {
    let mut url = Url::parse(text).map_err(UrlFault::Invalid)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(UrlFault::Scheme);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(UrlFault::UserInfo);
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(UrlFault::Query);
    }
    let path = url.path().trim_end_matches('/').to_owned();
    if let Some(request) = REQUESTS.into_iter().find(|request| path.ends_with(request)) {
        return Err(UrlFault::Request(request));
    }
    url.set_path(&path);
    Ok(url)
}

/// Checks that this can be the address of an MCP server. Nothing is added to it.
///
/// # Errors
///
/// The fault of the address: it is no URL, its scheme is neither `http` nor `https`, or it has a
/// user name or password.
pub fn server_url(text: &str) -> Result<(), UrlFault> {
    match endpoint(text) {
        Ok(_) | Err(UrlFault::Query | UrlFault::Request(_)) => Ok(()),
        Err(UrlFault::UserInfo) => Err(UrlFault::ServerUserInfo),
        Err(UrlFault::Invalid(url::ParseError::RelativeUrlWithoutBase)) => Err(UrlFault::Scheme),
        Err(UrlFault::Invalid(error)) => Err(UrlFault::ServerInvalid(error)),
        Err(other) => Err(other),
    }
}

/// The word for no proxy at all.
const NO_PROXY: &str = "none";

/// Parses the value of `proxy`.
pub(super) fn proxy(text: &str) -> Result<Proxy, UrlFault> {
    if text == NO_PROXY {
        return Ok(Proxy::None);
    }
    let url = endpoint(text).map_err(|fault| match fault {
        UrlFault::UserInfo => UrlFault::ProxyUserInfo,
        UrlFault::Query | UrlFault::Request(_) => UrlFault::ProxyPath,
        other => other,
    })?;
    if url.path() != "/" {
        return Err(UrlFault::ProxyPath);
    }
    Ok(Proxy::At(url.as_str().trim_end_matches('/').to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_endpoint_is_one() {
        for known in KNOWN_PROVIDERS {
            assert_eq!(
                endpoint(known.base_url).map(|url| url.to_string()),
                Ok(known.base_url.into())
            );
            assert!(known.key_variable.is_none_or(is_env_name), "{}", known.name);
        }
    }

    #[test]
    fn an_address_holds_no_path_of_a_request() {
        for request in REQUESTS {
            for end in ["", "/"] {
                let fault = endpoint(&format!("https://models.example/v1{request}{end}"));
                assert_eq!(fault, Err(UrlFault::Request(request)));
            }
        }
        assert!(endpoint("https://responses.example/messages/v1").is_ok());
    }

    #[test]
    fn a_proxy_is_a_host_and_a_port_or_none() {
        let at = |text: &str| Ok(Proxy::At(text.to_owned()));
        assert_eq!(proxy("none"), Ok(Proxy::None));
        assert_eq!(proxy("http://proxy.example:3128/"), at("http://proxy.example:3128"));
        assert_eq!(proxy("https://[::1]:1"), at("https://[::1]:1"));
        assert_eq!(proxy("http://me:hush@proxy.example"), Err(UrlFault::ProxyUserInfo));
        assert_eq!(proxy("http://proxy.example/path"), Err(UrlFault::ProxyPath));
        assert_eq!(proxy("http://proxy.example/?a"), Err(UrlFault::ProxyPath));
        assert_eq!(proxy("socks5://proxy.example"), Err(UrlFault::Scheme));
        assert!(matches!(proxy("proxy.example:3128"), Err(UrlFault::Scheme)));
        assert!(matches!(proxy("None"), Err(UrlFault::Invalid(_))));
    }

    #[test]
    fn loopback_is_seen_through_its_spellings() {
        let local = |text| is_loopback(&endpoint(text).unwrap());
        for text in [
            "http://localhost",
            "http://a.localhost:1/v1",
            "http://127.9.9.9",
            "http://[::1]/",
            "http://2130706433",
            "http://[::ffff:127.0.0.1]/",
            "http://LOCALHOST.",
        ] {
            assert!(local(text), "{text}");
        }
        for text in ["http://localhost.example", "http://10.0.0.1", "https://127.0.0.1.example/"] {
            assert!(!local(text), "{text}");
        }
    }
}
