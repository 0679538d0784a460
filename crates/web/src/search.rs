//! Search engines: what is sent to one, and what its answer says.

mod brave;
mod searxng;
mod tavily;

use reqwest::header::HeaderMap;
use url::Url;

use crate::fetch_client::FetchRequest;
use crate::settings::{SearchBackend, SearchKey, SearchSettings, Settings};

/// A page that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchHit {
    pub(crate) title: String,
    pub(crate) url: String,
    /// A few words of it.
    pub(crate) snippet: String,
}

/// The form of a search engine's requests and answers.
trait SearchApi: Sync {
    /// Returns the address that it usually has; `None` if each one has its own.
    fn usual_url(&self) -> Option<&'static str>;

    /// Returns whether it needs a key.
    fn needs_key(&self) -> bool;

    /// Builds the request for some words.
    fn request(
        &self,
        base: &Url,
        key: Option<&SearchKey>,
        query: &str,
        limit: u8,
    ) -> Result<FetchRequest, String>;

    /// Reads an answer.
    fn hits(&self, body: &[u8]) -> Result<Vec<SearchHit>, String>;
}

/// The search engine of a session.
pub(crate) struct SearchEngine<'s> {
    api: &'static dyn SearchApi,
    base: Url,
    key: Option<&'s SearchKey>,
}

impl<'s> SearchEngine<'s> {
    /// Returns the engine that is configured.
    ///
    /// # Errors
    /// If none is, or something is missing: what, and what to do.
    pub(crate) fn of(settings: &'s Settings) -> Result<Self, String> {
        let Some(SearchSettings { backend, base_url, key }) = &settings.search else {
            let remedy = set(settings, "search_backend");
            return Err(format!("no search engine is configured{remedy}"));
        };
        let api: &'static dyn SearchApi = match backend {
            SearchBackend::Searxng => &searxng::Searxng,
            SearchBackend::Brave => &brave::Brave,
            SearchBackend::Tavily => &tavily::Tavily,
        };
        let usual = || api.usual_url().and_then(|url| Url::parse(url).ok());
        let base = base_url.clone().or_else(usual);
        let base = base.ok_or_else(|| {
            let remedy = set(settings, "search_base_url");
            format!("the address of the search engine is not known{remedy}")
        })?;
        let key = match key {
            None => None,
            Some(Ok(key)) => Some(key),
            Some(Err(why)) => return Err(why.clone()),
        };
        if key.is_none() && api.needs_key() {
            let remedy = set(settings, "search_key");
            return Err(format!("the search engine needs a key{remedy}"));
        }
        Ok(Self { api, base, key })
    }

    pub(crate) fn request(&self, query: &str, limit: u8) -> Result<FetchRequest, String> {
        self.api.request(&self.base, self.key, query, limit)
    }

    pub(crate) fn hits(&self, body: &[u8]) -> Result<Vec<SearchHit>, String> {
        self.api.hits(body)
    }
}

/// Returns the advice to change a setting; empty if the host has no name for it.
fn set(settings: &Settings, field: &str) -> String {
    match settings.setting_names.name(field) {
        "" => String::new(),
        name => format!(": set `{name}`"),
    }
}

/// Headers with a key in one of them.
fn key_header(name: &'static str, value: &str) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let value = reqwest::header::HeaderValue::from_str(value);
    let mut value =
        value.map_err(|_| "the key has characters that no header may have".to_owned())?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(headers)
}

/// Adds a path to a base address, which may have one of its own.
fn endpoint(base: &Url, path: &str) -> Result<Url, String> {
    let base = base.as_str().trim_end_matches('/');
    Url::parse(&format!("{base}/{path}")).map_err(|error| error.to_string())
}

/// The hits of a JSON answer: an array at `list`, whose objects have a text at `snippet`.
fn hits_at(body: &[u8], list: &str, snippet: &str) -> Result<Vec<SearchHit>, String> {
    let answer: serde_json::Value =
        serde_json::from_slice(body).map_err(|error| format!("no JSON ({error})"))?;
    let found = answer.pointer(list).and_then(serde_json::Value::as_array);
    let found = found.ok_or_else(|| format!("no list at {list}"))?;
    let text = |hit: &serde_json::Value, key: &str| {
        hit.get(key).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
    };
    let hit = |hit: &serde_json::Value| SearchHit {
        title: text(hit, "title"),
        url: text(hit, "url"),
        snippet: text(hit, snippet),
    };
    Ok(found.iter().map(hit).filter(|hit| !hit.url.is_empty()).collect())
}
