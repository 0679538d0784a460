//! A client for one address that was checked.

use reqwest::Client;
use url::Url;

use crate::address_policy::{AddressPolicy, ResolveError, UrlDenial};
use crate::fetch_client::client;

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
    let resolved = policy.resolve(url).await.map_err(|error| match error {
        ResolveError::Denied(denial) => CheckedClientError::Denied(denial),
        error => CheckedClientError::Unresolved(error.to_string()),
    })?;
    client(url, &resolved).map_err(|error| CheckedClientError::Unresolved(error.to_string()))
}
