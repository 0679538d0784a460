//! Where the access tokens of a server come from.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use deputize_core::BoxFuture;
use deputize_core::sanitize::RotatingSecrets;

/// Why there is no access token to send. No token is in the error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessTokenError {
    /// The stored token cannot be read or written.
    #[error(transparent)]
    Store(Box<dyn Error + Send + Sync>),
    /// The token cannot be refreshed.
    #[error("cannot refresh the sign-in")]
    Refresh(#[source] Box<dyn Error + Send + Sync>),
    /// Another process has been refreshing the token for more than this many seconds.
    #[error("another process has been refreshing the sign-in for more than {0} s")]
    Locked(u64),
    /// The refresh was interrupted.
    #[error("the refresh of the sign-in was interrupted")]
    Interrupted,
}

/// Gives the access token of one server that is reached by HTTP.
pub trait AccessTokens: Send + Sync {
    /// Returns the token to send; `None` if nobody signed in, or the sign-in has ended. `rejected`
    /// is what the server refused, which is not returned again: a token, or empty if none was sent.
    ///
    /// # Errors
    /// If a token is there that can neither be read nor refreshed.
    fn token<'a>(
        &'a self,
        rejected: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Option<String>, AccessTokenError>>;

    /// Returns the secret values that this has given or used so far, which a session redacts. By
    /// default there are none: then nothing is redacted.
    fn secrets(&self) -> RotatingSecrets {
        RotatingSecrets::default()
    }
}

/// The access tokens of a server, as a part of its configuration.
#[derive(Clone)]
pub struct TokenSource(Arc<dyn AccessTokens>);

impl TokenSource {
    /// Takes the tokens from here.
    pub fn new(tokens: impl AccessTokens + 'static) -> Self {
        Self(Arc::new(tokens))
    }

    /// Returns the secret values of the tokens so far, as [`AccessTokens::secrets`] does.
    #[must_use]
    pub fn secrets(&self) -> RotatingSecrets {
        self.0.secrets()
    }

    pub(crate) async fn token(
        &self,
        rejected: Option<&str>,
    ) -> Result<Option<String>, AccessTokenError> {
        self.0.token(rejected).await
    }
}

impl PartialEq for TokenSource {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for TokenSource {}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSource(..)")
    }
}
