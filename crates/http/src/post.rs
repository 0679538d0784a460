//! JSON documents for addresses that the person chose, such as webhooks.

use std::time::Duration;

use deputize_core::Cancel;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Url;

use crate::address_policy::{AddressPolicy, ResolveError, UrlDenial, host_of};
use crate::checked_client::{CheckedClientError, checked_client};
use crate::request_problem::request_problem;

/// A JSON document for an address that the person chose: its host may be private and its port any,
/// but no metadata service. Redirects are not followed, and nothing is sent twice.
#[derive(Clone)]
pub struct PostRequest {
    /// URL to post to.
    pub url: Url,
    /// Further headers by name.
    pub headers: Vec<(String, String)>,
    /// JSON document to send.
    pub body: String,
    /// Time limit of the whole request.
    pub timeout: Duration,
}

impl std::fmt::Debug for PostRequest {
    // Address and headers may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PostRequest({} bytes)", self.body.len())
    }
}

/// Why a document was not accepted, or may not have been.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostError {
    /// The address may not be asked. Nothing was sent.
    #[error(transparent)]
    Denied(#[from] UrlDenial),
    /// Nothing was sent.
    #[error("{0}")]
    NotSent(String),
    /// The server refused it.
    #[error("the server answered {0}")]
    Status(u16),
    /// Some or all of it was sent, and no answer came.
    #[error("{0}")]
    Unsure(String),
}

impl From<CheckedClientError> for PostError {
    fn from(error: CheckedClientError) -> Self {
        match error {
            CheckedClientError::Resolve(ResolveError::Denied(denial)) => Self::Denied(denial),
            error => Self::NotSent(error.to_string()),
        }
    }
}

/// Sends a document, and returns the status of the answer, which is a success.
///
/// # Errors
/// As [`PostError`] says.
pub async fn post_json(request: &PostRequest, cancel: &Cancel) -> Result<u16, PostError> {
    let headers = headers(&request.headers)?;
    let url = request.url.clone();
    let policy = AddressPolicy::of_person(&url);
    let host = host_of(&url).unwrap_or_default();
    let client = tokio::select! {
        () = cancel.cancelled() => return Err(PostError::NotSent("cancelled".to_owned())),
        found = timeout(request.timeout, checked_client(&policy, &url)) => found,
    };
    let late = || PostError::NotSent("its name was not resolved in time".to_owned());
    let client = client.map_err(|_| late())??;
    let send = client.post(url).headers(headers).body(request.body.clone()).send();
    let sent = tokio::select! {
        () = cancel.cancelled() => return Err(PostError::Unsure("cancelled".to_owned())),
        sent = timeout(request.timeout, send) => sent,
    };
    let seconds = request.timeout.as_secs();
    let response = match sent {
        Err(_) => return Err(PostError::Unsure(format!("no answer within {seconds} s"))),
        Ok(Err(error)) if error.is_connect() || error.is_builder() => {
            return Err(PostError::NotSent(no_answer(&host, &error)));
        }
        Ok(Err(error)) => return Err(PostError::Unsure(no_answer(&host, &error))),
        Ok(Ok(response)) => response,
    };
    let status = response.status();
    if status.is_success() { Ok(status.as_u16()) } else { Err(PostError::Status(status.as_u16())) }
}

/// Checks that an address may be asked and that its host takes connections. Nothing is sent.
///
/// # Errors
/// As [`PostError`] says.
pub async fn check_post(url: &Url, limit: Duration) -> Result<(), PostError> {
    let policy = AddressPolicy::of_person(url);
    policy.check(url)?;
    let late = |_| PostError::NotSent(format!("no connection within {} s", limit.as_secs()));
    let connect = async {
        let found = policy.resolve(url).await.map_err(CheckedClientError::from)?;
        let connected = TcpStream::connect(&*found).await;
        connected.map(drop).map_err(|error| PostError::NotSent(error.to_string()))
    };
    timeout(limit, connect).await.map_err(late)?
}

fn no_answer(host: &str, error: &reqwest::Error) -> String {
    format!("{host} did not answer: {}", request_problem(error))
}

fn headers(given: &[(String, String)]) -> Result<HeaderMap, PostError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in given {
        let wrong = || PostError::NotSent(format!("`{name}` with its value is no header"));
        let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(HeaderName::try_from(name).map_err(|_| wrong())?, value);
    }
    Ok(headers)
}
