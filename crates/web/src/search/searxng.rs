//! SearXNG, a search engine that people run themselves.

use reqwest::header::HeaderMap;
use url::Url;

use super::{SearchApi, SearchHit, endpoint, hits_at, key_header};
use crate::fetch_client::FetchRequest;
use crate::settings::SearchKey;

pub(super) struct Searxng;

impl SearchApi for Searxng {
    fn usual_url(&self) -> Option<&'static str> {
        None
    }

    fn needs_key(&self) -> bool {
        false
    }

    fn request(
        &self,
        base: &Url,
        key: Option<&SearchKey>,
        query: &str,
        _: u8,
    ) -> Result<FetchRequest, String> {
        let mut url = endpoint(base, "search")?;
        url.query_pairs_mut().append_pair("q", query).append_pair("format", "json");
        let headers = match key {
            None => HeaderMap::new(),
            Some(key) => key_header("authorization", &format!("Bearer {}", key.expose()))?,
        };
        Ok(FetchRequest { url, headers, body: None })
    }

    fn hits(&self, body: &[u8]) -> Result<Vec<SearchHit>, String> {
        hits_at(body, "/results", "content")
    }
}
