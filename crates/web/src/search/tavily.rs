//! The search API of Tavily.

use reqwest::header::{CONTENT_TYPE, HeaderValue};
use url::Url;

use super::{SearchApi, SearchHit, endpoint, hits_at, key_header};
use crate::fetch_client::FetchRequest;
use crate::settings::SearchKey;

pub(super) struct Tavily;

impl SearchApi for Tavily {
    fn usual_url(&self) -> Option<&'static str> {
        Some("https://api.tavily.com")
    }

    fn needs_key(&self) -> bool {
        true
    }

    fn request(
        &self,
        base: &Url,
        key: Option<&SearchKey>,
        query: &str,
        limit: u8,
    ) -> Result<FetchRequest, String> {
        let url = endpoint(base, "search")?;
        let key = key.map_or("", SearchKey::expose);
        let mut headers = key_header("authorization", &format!("Bearer {key}"))?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let body = serde_json::json!({"query": query, "max_results": limit}).to_string();
        Ok(FetchRequest { url, headers, body: Some(body) })
    }

    fn hits(&self, body: &[u8]) -> Result<Vec<SearchHit>, String> {
        hits_at(body, "/results", "content")
    }
}
