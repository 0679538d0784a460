//! The stored token of a server, refreshed when it must be.

use std::fmt;
use std::sync::Arc;

use deputize_core::sanitize::RotatingSecrets;
use deputize_core::{BoxFuture, Clock};
use deputize_http::AllowedHost;
use parking_lot::Mutex;
use reqwest::Method;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, spawn_blocking};
use url::{Url, form_urlencoded};

use super::error::OAuthError;
use super::http::{OAuthHttp, OAuthRequest, OAuthResponse};
use super::stored_token::StoredToken;
use super::token_answer::TokenAnswer;
use super::token_refusal::TokenRefusal;
use super::token_store::{LOCK_LIMIT, LOCK_PAUSE, TokenLock, TokenStore, TokenStoreError};
use crate::access_tokens::{AccessTokenError, AccessTokens};

/// The stored token of one server. It is read when it is first needed, and refreshed shortly before
/// it expires or when the server refuses it, by one process at a time.
pub struct StoredTokens {
    refresher: Arc<Refresher>,
    /// What goes on when its caller gives up.
    refreshes: Mutex<JoinSet<()>>,
}

/// Reads the stored token of one server, and refreshes it.
struct Refresher {
    place: TokenPlace,
    allowed: Vec<AllowedHost>,
    clock: Arc<dyn Clock>,
    /// What was read last; `None` before that.
    current: Mutex<Option<Option<StoredToken>>>,
    /// One at a time reads or refreshes.
    changing: tokio::sync::Mutex<()>,
}

/// Where the token of one server is kept.
#[derive(Clone)]
struct TokenPlace {
    server: String,
    url: String,
    store: Arc<dyn TokenStore>,
}

/// What came of a refresh.
enum RefreshResult {
    Refreshed(Box<StoredToken>),
    /// The sign-in has ended, by this code.
    Ended(&'static str),
}

impl StoredTokens {
    /// Uses the token that a store has for a server of this name and address. `allowed` are hosts
    /// of the sign-in that may have private addresses.
    pub fn new(
        server: impl Into<String>,
        url: impl Into<String>,
        allowed: Vec<AllowedHost>,
        store: Arc<dyn TokenStore>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let place = TokenPlace { server: server.into(), url: url.into(), store };
        let (current, changing) = (Mutex::default(), tokio::sync::Mutex::default());
        let refresher = Arc::new(Refresher { place, allowed, clock, current, changing });
        Self { refresher, refreshes: Mutex::default() }
    }

    fn spawn(&self, refresh: impl Future<Output = ()> + Send + 'static) {
        let mut refreshes = self.refreshes.lock();
        while refreshes.try_join_next().is_some() {}
        refreshes.spawn(refresh);
    }
}

impl Refresher {
    /// Returns the token that was read last, if it can be sent and was not refused.
    fn usable(&self, rejected: Option<&str>) -> Option<Option<String>> {
        let current = self.current.lock();
        match current.as_ref()? {
            Some(token) if self.is_usable(token, rejected) => {
                Some(Some(token.access_token.clone()))
            }
            // Nobody has signed in: that is looked up again only after a refusal.
            None if rejected.is_none() => Some(None),
            _ => None,
        }
    }

    fn is_usable(&self, token: &StoredToken, rejected: Option<&str>) -> bool {
        token.is_fresh(self.clock.now_ms()) && rejected != Some(&token.access_token)
    }

    async fn give(&self, rejected: Option<&str>) -> Result<Option<String>, AccessTokenError> {
        let _one_at_a_time = self.changing.lock().await;
        if let Some(known) = self.usable(rejected) {
            return Ok(known);
        }
        let stored = self.place.run(|place| place.read()).await?;
        let found = match stored {
            Some(token) if self.is_usable(&token, rejected) => Some(token),
            Some(token) if token.refresh_token.is_some() => self.refresh(rejected).await?,
            // It cannot be refreshed; the server says whether it takes it all the same.
            Some(token) if rejected.is_none() => Some(token),
            _ => None,
        };
        let access = found.as_ref().map(|token| token.access_token.clone());
        *self.current.lock() = Some(found);
        Ok(access)
    }

    /// Refreshes the token, unless another process did while this one waited.
    async fn refresh(
        &self,
        rejected: Option<&str>,
    ) -> Result<Option<StoredToken>, AccessTokenError> {
        let _lock = self.place.lock().await?;
        let Some(token) = self.place.run(|place| place.read()).await? else { return Ok(None) };
        if self.is_usable(&token, rejected) || token.refresh_token.is_none() {
            return Ok(Some(token).filter(|token| rejected != Some(&token.access_token)));
        }
        let now = self.clock.now_ms() / 1000;
        let refreshed = ask(&token, &self.allowed, now).await;
        let refreshed = refreshed.map_err(|error| AccessTokenError::Refresh(error.into()))?;
        // A person may have signed in anew meanwhile, or signed out.
        let kept = self.place.run(|place| place.read()).await?;
        if kept.as_ref() != Some(&token) {
            return Ok(kept);
        }
        let (token, usable) = match refreshed {
            RefreshResult::Refreshed(token) => {
                tracing::info!(server = self.place.server, "sign-in refreshed");
                (*token.clone(), Some(*token))
            }
            RefreshResult::Ended(why) => {
                tracing::warn!(server = self.place.server, why, "sign-in ended");
                // That it cannot be refreshed is known from now on.
                let expires_at = token.expires_at.map(|end| end.min(now)).or(Some(now));
                (StoredToken { refresh_token: None, expires_at, ..token }, None)
            }
        };
        self.place.run(move |place| place.store.write(&place.server, &token)).await?;
        Ok(usable)
    }
}

impl AccessTokens for StoredTokens {
    fn token<'a>(
        &'a self,
        rejected: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Option<String>, AccessTokenError>> {
        Box::pin(async move {
            if let Some(known) = self.refresher.usable(rejected) {
                return Ok(known);
            }
            // A caller that gives up must not lose the token that a server has just replaced.
            let (refresher, rejected) = (Arc::clone(&self.refresher), rejected.map(str::to_owned));
            let (sender, given) = oneshot::channel();
            let refresh = async move {
                // Nobody may wait for it any more.
                let _given_up = sender.send(refresher.give(rejected.as_deref()).await);
            };
            self.spawn(refresh);
            given.await.map_err(|_| AccessTokenError::Interrupted)?
        })
    }

    fn secrets(&self) -> RotatingSecrets {
        self.refresher.place.store.secrets()
    }
}

impl fmt::Debug for StoredTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredTokens({})", self.refresher.place.server)
    }
}

impl TokenPlace {
    fn read(&self) -> Result<Option<StoredToken>, TokenStoreError> {
        self.store.read(&self.server, &self.url)
    }

    /// Works on the store on a thread that may block.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, TokenStoreError> + Send + 'static,
    ) -> Result<T, AccessTokenError> {
        let place = self.clone();
        let done = spawn_blocking(move || work(&place)).await;
        let done = done.map_err(|_| AccessTokenError::Interrupted)?;
        done.map_err(|error| AccessTokenError::Store(error.into()))
    }

    async fn lock(&self) -> Result<TokenLock, AccessTokenError> {
        let locked = async {
            loop {
                let lock =
                    self.run(|place| place.store.try_lock(&place.server, &place.url)).await?;
                if let Some(lock) = lock {
                    return Ok(lock);
                }
                tokio::time::sleep(LOCK_PAUSE).await;
            }
        };
        let late = |_| AccessTokenError::Locked(LOCK_LIMIT.as_secs());
        tokio::time::timeout(LOCK_LIMIT, locked).await.map_err(late)?
    }
}

/// Asks for a new token. The time is Unix time in seconds.
async fn ask(
    token: &StoredToken,
    allowed: &[AllowedHost],
    now: u64,
) -> Result<RefreshResult, OAuthError> {
    let parse =
        |text: &str| Url::parse(text).map_err(|error| OAuthError::address(text, error.to_string()));
    let http = OAuthHttp::new(&parse(&token.server)?, allowed)?;
    let answer = http.send(&parse(&token.token_endpoint)?, refresh_request(token)).await?;
    let OAuthResponse { status, body, .. } = answer;
    if status.is_success() {
        let answer = TokenAnswer::parse(&body)?;
        let refreshed = token.clone().with_answer(&answer, now);
        return Ok(RefreshResult::Refreshed(Box::new(refreshed)));
    }
    match TokenRefusal::parse(status, &body) {
        TokenRefusal::Ended(code) => Ok(RefreshResult::Ended(code)),
        TokenRefusal::Failed(error) => Err(error),
    }
}

fn refresh_request(token: &StoredToken) -> OAuthRequest {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "refresh_token");
    form.append_pair("refresh_token", token.refresh_token.as_deref().unwrap_or_default());
    form.append_pair("resource", &token.resource);
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
    headers.insert(CONTENT_TYPE, kind);
    match &token.client_secret {
        Some(secret) if !token.secret_in_body => {
            let escaped =
                |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
            let pair = format!("{}:{}", escaped(&token.client_id), escaped(secret));
            let pair = format!("Basic {}", data_encoding::BASE64.encode(pair.as_bytes()));
            if let Ok(mut value) = HeaderValue::try_from(pair) {
                value.set_sensitive(true);
                headers.insert(AUTHORIZATION, value);
            }
        }
        secret => {
            form.append_pair("client_id", &token.client_id);
            if let Some(secret) = secret {
                form.append_pair("client_secret", secret);
            }
        }
    }
    OAuthRequest { method: Method::POST, headers, body: form.finish().into_bytes() }
}
