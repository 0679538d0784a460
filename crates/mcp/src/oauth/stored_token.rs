//! A token with all that is needed to use and refresh it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::token_answer::TokenAnswer;

/// Seconds before its end at which a token is refreshed, if it is valid for twice as long.
const EARLY: u64 = 60;

/// A token of one server, with all that is needed to refresh it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredToken {
    /// The server's address without its query: the token is sent nowhere else.
    pub(crate) server: String,
    /// The authorization server that issued it.
    pub(crate) issuer: Option<String>,
    /// Where it is refreshed.
    pub(crate) token_endpoint: String,
    /// The resource that it was issued for.
    pub(crate) resource: String,
    pub(crate) client_id: String,
    pub(crate) client_secret: Option<String>,
    /// Whether the secret goes into the body of a request and not into a header.
    pub(crate) secret_in_body: bool,
    pub(crate) access_token: String,
    pub(crate) refresh_token: Option<String>,
    /// Unix time in seconds; `None` if the server did not say.
    pub(crate) expires_at: Option<u64>,
    /// When it is refreshed: shortly before `expires_at`.
    pub(crate) refresh_at: Option<u64>,
    pub(crate) scopes: Vec<String>,
}

/// Whether somebody is signed in to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignInStatus {
    /// A token is there that is valid or can be refreshed.
    SignedIn,
    /// The token has expired and cannot be refreshed.
    Expired,
}

impl StoredToken {
    /// Returns whether it can still be used. `now_ms` is Unix time in milliseconds.
    #[must_use]
    pub fn status(&self, now_ms: u64) -> SignInStatus {
        let ended = self.expires_at.is_some_and(|end| end <= now_ms / 1000);
        if ended && self.refresh_token.is_none() {
            SignInStatus::Expired
        } else {
            SignInStatus::SignedIn
        }
    }

    /// Returns whether it can be sent: it is valid for a while, or it is all there is.
    pub(crate) fn is_fresh(&self, now_ms: u64) -> bool {
        let until = if self.refresh_token.is_some() { self.refresh_at } else { self.expires_at };
        until.is_none_or(|until| until > now_ms / 1000)
    }

    /// Returns the same with what a token endpoint sent at this time, in Unix seconds. What it left
    /// out stays as it was.
    pub(crate) fn with_answer(self, answer: &TokenAnswer, now: u64) -> Self {
        let valid = answer.expires_in();
        // A token that is valid for a minute is not refreshed with each request.
        let used = valid.map(|seconds| seconds - EARLY.min(seconds / 2));
        Self {
            access_token: answer.access_token.clone(),
            refresh_token: answer.refresh_token.clone().or(self.refresh_token),
            expires_at: valid.map(|seconds| now.saturating_add(seconds)),
            refresh_at: used.map(|seconds| now.saturating_add(seconds)),
            scopes: answer.scopes().unwrap_or(self.scopes),
            ..self
        }
    }

    /// Returns the values in it that are secret.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let others = [&self.refresh_token, &self.client_secret].into_iter().flatten();
        std::iter::once(&self.access_token).chain(others).map(String::as_str)
    }

    /// Returns the address of the server that it is for, without its query.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns the scopes that were granted.
    #[must_use]
    pub fn scopes(&self) -> &[String] {
        &self.scopes
    }
}

impl fmt::Debug for StoredToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredToken({})", self.server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(expires_in: &str) -> StoredToken {
        let empty = StoredToken {
            server: String::new(),
            issuer: None,
            token_endpoint: String::new(),
            resource: String::new(),
            client_id: String::new(),
            client_secret: None,
            secret_in_body: false,
            access_token: String::new(),
            refresh_token: Some("r".to_owned()),
            expires_at: None,
            refresh_at: None,
            scopes: Vec::new(),
        };
        let text = format!(r#"{{"access_token":"a","expires_in":{expires_in}}}"#);
        let answer = TokenAnswer::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
        empty.with_answer(&answer, 1000)
    }

    #[test]
    fn a_token_is_refreshed_a_minute_before_its_end_or_at_half_of_its_time() {
        let last = |expires_in| {
            let token = token(expires_in);
            let fresh = |second: &u64| token.is_fresh(second * 1000);
            (1000..5000).take_while(fresh).last().map(|second| second - 1000)
        };
        assert_eq!(last("3600"), Some(3539));
        assert_eq!(last("60"), Some(29));
        assert_eq!((last("1"), last("0")), (Some(0), None));
        assert!(token("null").is_fresh(u64::MAX));
        // One that cannot be refreshed is used to its end.
        let alone = StoredToken { refresh_token: None, ..token("3600") };
        assert!(alone.is_fresh(4_599_999) && !alone.is_fresh(4_600_000));
        assert_eq!(alone.status(4_600_000), SignInStatus::Expired);
        assert_eq!(token("0").status(4_600_000), SignInStatus::SignedIn);
    }
}
