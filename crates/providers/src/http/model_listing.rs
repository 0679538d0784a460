//! Whether an endpoint answers, by a request that costs nothing.

use std::time::Duration;

use deputize_core::model::{ModelError, Usage};
use futures_util::future::join_all;
use reqwest::header::HeaderValue;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::failure::{FailureContext, RequestFailure};
use super::{RemoteModel, refusal};
use crate::limits::DOCUMENT_BYTES;

/// What came of asking an endpoint for its models.
#[derive(Debug)]
#[non_exhaustive]
pub struct ModelListing {
    /// The variable of the key that was sent; `None` without a key.
    pub variable: Option<String>,
    /// The models, as the endpoint names them, or why there are none: that it answers without
    /// such a list is a failure with a status.
    pub models: Result<Vec<String>, ModelError>,
}

/// Asks once with each key, side by side.
pub(crate) async fn look(remote: &RemoteModel, limit: Duration) -> Vec<ModelListing> {
    let keys = remote.keys.all();
    let with = |key: &(String, HeaderValue)| Some(key.clone());
    let tries: Vec<Option<_>> =
        if keys.is_empty() { vec![None] } else { keys.iter().map(with).collect() };
    join_all(tries.into_iter().map(|key| one(remote, key, limit))).await
}

async fn one(
    remote: &RemoteModel,
    key: Option<(String, HeaderValue)>,
    limit: Duration,
) -> ModelListing {
    let mut endpoint = remote.endpoint.clone();
    // What is said of a late answer names the limit that was met.
    endpoint.timeouts.first_byte = limit;
    let mut url = remote.base.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().push("models");
    }
    let mut headers = remote.headers.clone();
    let variable = key.as_ref().map(|(variable, _)| variable.clone());
    headers.extend(key.map(|(_, value)| (remote.keys.header().clone(), value)));
    let until = Instant::now() + limit;
    let asked = async {
        let response = remote.transport.get(&url, headers).await;
        let mut response = response.map_err(RequestFailure::Send)?;
        if !response.status().is_success() {
            return Err(refusal(remote, response).await);
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(RequestFailure::Broken)? {
            body.extend_from_slice(&chunk);
            if body.len() > DOCUMENT_BYTES {
                return Ok(Vec::new());
            }
        }
        Ok(names(&body))
    };
    let models = timeout_at(until, asked).await.unwrap_or(Err(RequestFailure::NoAnswer));
    let context = FailureContext {
        endpoint: &endpoint,
        key: variable.as_deref(),
        url: &url,
        model: "",
        output: false,
        partial: String::new(),
        served: String::new(),
        partial_left_out: 0,
        usage: Usage::default(),
        seconds: limit.as_secs_f64(),
    };
    let models = models.map_err(|failure| match failure {
        // No model was asked for, so what is told of one would mislead.
        RequestFailure::Refused(error) => ModelError {
            status: error.status,
            ..ModelError::new(error.kind(), endpoint.scrub(&error.to_string()))
        },
        other => other.into_error(context, None),
    });
    ModelListing { variable, models }
}

/// The names in a list of models; none where it is no such list.
fn names(body: &[u8]) -> Vec<String> {
    let Ok(value) = serde_json::from_slice::<Value>(body) else { return Vec::new() };
    let items = value.get("data").and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| Some(item.get("id")?.as_str()?.to_owned())).collect()
}
