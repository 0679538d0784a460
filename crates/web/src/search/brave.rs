//! The search API of Brave.

use url::Url;

use super::{SearchApi, SearchHit, endpoint, hits_at, key_header};
use crate::fetch_client::FetchRequest;
use crate::settings::SearchKey;

pub(super) struct Brave;

impl SearchApi for Brave {
    fn usual_url(&self) -> Option<&'static str> {
        Some("https://api.search.brave.com/res/v1")
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
        let mut url = endpoint(base, "web/search")?;
        let count = limit.to_string();
        url.query_pairs_mut().append_pair("q", query).append_pair("count", &count);
        let key = key.map_or("", SearchKey::expose);
        Ok(FetchRequest { url, headers: key_header("x-subscription-token", key)?, body: None })
    }

    fn hits(&self, body: &[u8]) -> Result<Vec<SearchHit>, String> {
        // A search without results has no list at all.
        let answer: serde_json::Value =
            serde_json::from_slice(body).map_err(|error| format!("no JSON ({error})"))?;
        if answer.get("web").is_none() && answer.get("query").is_some() {
            return Ok(Vec::new());
        }
        hits_at(body, "/web/results", "description")
    }
}
