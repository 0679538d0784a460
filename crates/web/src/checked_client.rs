//! A client for one address that was checked.

use reqwest::Client;
use url::Url;

use crate::address_policy::{AddressPolicy, UrlDenial, host_of};
use crate::fetch_client::{client, resolve};
use crate::fetch_error::FetchError;

/// Why there is no client for an address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckedClientError {
    /// The address may not be asked.
    #[error(transparent)]
    Denied(#[from] UrlDenial),
    /// Its name has no address, or there is no HTTP client.
    #[error("{0}")]
    Unresolved(String),
}

/// Checks an address and everything that its name resolves to, and returns a client that connects
/// to what was checked. The client follows no redirect, uses no proxy and repeats nothing.
///
/// # Errors
/// If the address may not be asked, or its name cannot be resolved.
pub async fn checked_client(
    policy: &AddressPolicy,
    url: &Url,
) -> Result<Client, CheckedClientError> {
    policy.check(url)?;
    let host = host_of(url).unwrap_or_default();
    let resolved = resolve(policy, url, &host).await.map_err(unresolved)?;
    client(url, &resolved).map_err(unresolved)
}

fn unresolved(error: FetchError) -> CheckedClientError {
    match error {
        FetchError::Denied(denial) => CheckedClientError::Denied(denial),
        error => CheckedClientError::Unresolved(error.to_string()),
    }
}
