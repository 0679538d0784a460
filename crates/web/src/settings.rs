//! What a program may set for these tools.

use std::sync::Arc;
use std::time::Duration;

use deputize_core::sanitize::Secrets;
use deputize_core::setting_names::SettingNames;
use deputize_core::{Resource, ToolCx};
use url::Url;

use crate::converter::Converter;
use crate::percent_decode::percent_decoded;
use deputize_http::{AddressPolicy, UrlDenial};

/// Seconds of one fetch with all its redirects, unless set otherwise.
pub const TIMEOUT_SECONDS: u32 = 30;
/// Bytes of the largest body that is read, unless set otherwise.
pub const MAX_BYTES: u64 = 5 * 1024 * 1024;
/// Bytes of one result of `web_fetch`, unless set otherwise.
pub const PAGE_BYTES: usize = 64 * 1024;

/// How many times the characters of an address are escaped at most for a secret in it to be found.
const MOST_ESCAPES: usize = 8;

/// The settings of the tools for the web. A program puts them into its session's settings; what it
/// does not put there are the defaults.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Limits of fetches.
    pub fetch: FetchSettings,
    /// The search engine; `None` if there is none, and then `web_search` is not usable.
    pub search: Option<SearchSettings>,
    /// Where web pages and PDF files become text.
    pub converter: Converter,
    /// Values that no address may have in it.
    pub secrets: Secrets,
    /// The host's names of settings: `allow_hosts` (the policy's hosts), `search_backend`,
    /// `search_base_url` and `search_key`.
    pub setting_names: SettingNames,
}

impl Resource for Settings {}

impl Settings {
    /// Returns those of the session that a call belongs to.
    pub(crate) fn of(cx: &ToolCx) -> Arc<Self> {
        cx.agent.session.settings.get_or_insert_with(Self::default)
    }

    /// Reads an address as `web_fetch` does, and checks everything but what its name resolves to.
    ///
    /// # Errors
    /// If it is no address, may not be asked, or has a secret in it.
    pub fn check_url(&self, text: &str) -> Result<Url, UrlDenial> {
        let url = self.fetch.policy.parse(text)?;
        self.check_secrets(&url)?;
        Ok(url)
    }

    /// Fails if a secret stands in an address, as it is or escaped, also several times.
    pub(crate) fn check_secrets(&self, url: &Url) -> Result<(), UrlDenial> {
        let mut text = url.as_str().to_owned();
        for _ in 0..=MOST_ESCAPES {
            if let Some(name) = self.secret_in(&text) {
                return Err(UrlDenial::Secret { name });
            }
            let plain = percent_decoded(&text);
            if plain == text {
                break;
            }
            text = plain;
        }
        Ok(())
    }

    /// Returns the name of a secret that stands in a text; `None` if there is none. The arguments of
    /// a call already have the mark in place of a secret that stood there in plain.
    pub(crate) fn secret_in(&self, text: &str) -> Option<String> {
        let scrubbed = self.secrets.scrub(text);
        let (_, rest) = scrubbed.split_once("[redacted:")?;
        Some(rest.split(']').next().unwrap_or_default().to_owned())
    }
}

/// Limits of fetches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchSettings {
    /// Which addresses may be asked.
    pub policy: AddressPolicy,
    /// Time limit of one fetch with all its redirects.
    pub timeout: Duration,
    /// Bytes of the largest body that is read.
    pub max_bytes: u64,
    /// Bytes of one result of `web_fetch`.
    pub page_bytes: usize,
}

impl Default for FetchSettings {
    fn default() -> Self {
        Self {
            policy: AddressPolicy::default(),
            timeout: Duration::from_secs(TIMEOUT_SECONDS.into()),
            max_bytes: MAX_BYTES,
            page_bytes: PAGE_BYTES,
        }
    }
}

/// A kind of search engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SearchBackend {
    /// A SearXNG server that offers its JSON format.
    Searxng,
    /// The search API of Brave.
    Brave,
    /// The search API of Tavily.
    Tavily,
}

/// The search engine.
#[derive(Debug, Clone)]
pub struct SearchSettings {
    /// Kind of the search service.
    pub backend: SearchBackend,
    /// Its address; `None` for the usual one, which SearXNG does not have.
    pub base_url: Option<Url>,
    /// The key to it, or why it is not known; `None` if it needs none.
    pub key: Option<Result<SearchKey, String>>,
}

/// A key to a search engine. It is shown nowhere.
#[derive(Clone)]
pub struct SearchKey(String);

impl SearchKey {
    /// Wraps a key.
    #[must_use]
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for SearchKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SearchKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_has_a_secret_in_it_in_whatever_encoding() {
        let mut settings = Settings::default();
        settings.secrets.add("KEY", "sk-0123456789-abc");
        let escaped = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let mut text = "sk-0123456789-abc".to_owned();
        let mut forms =
            vec!["c2stMDEyMzQ1Njc4OS1hYmM=".to_owned(), "AXNrLTAxMjM0NTY3ODktYWJj".to_owned()];
        forms.push("736b2d303132333435363738392d616263".to_owned());
        for _ in 0..3 {
            forms.push(text.clone());
            text = escaped(&text);
        }
        forms.push(text);
        for form in forms {
            let checked = settings.check_url(&format!("https://example.org/?q={form}"));
            assert!(matches!(checked, Err(UrlDenial::Secret { name }) if name == "KEY"), "{form}");
        }
        assert!(settings.check_url("https://example.org/?q=%25%2525").is_ok());
    }
}
