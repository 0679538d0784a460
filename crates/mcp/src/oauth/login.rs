//! A sign-in, from the server's address to a token.

use std::fmt;
use std::sync::Arc;

use deputize_core::{Clock, describe_error};
use deputize_http::AllowedHost;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, OAuthClientConfig,
};
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;
use url::Url;

use super::error::OAuthError;
use super::http::{OAuthHttp, without_query};
use super::redirect_answer::ExpectedRedirect;
use super::stored_token::StoredToken;
use super::token_answer::TokenAnswer;

/// This program as the client of an authorization server.
#[derive(Clone, Default)]
pub struct OAuthClient {
    /// The name by which it registers itself, which the person reads when they sign in.
    pub name: String,
    /// The id that it has there; `None` for one that registers itself.
    pub id: Option<String>,
    /// The secret that goes with the id, if it has one.
    pub secret: Option<String>,
    /// The scopes to ask for; empty for what the server asks for.
    pub scopes: Vec<String>,
    /// The port of redirects, where one is registered with the id; 0 for any.
    pub redirect_port: u16,
    /// Hosts of the sign-in that may have private addresses.
    pub allowed_hosts: Vec<AllowedHost>,
}

impl fmt::Debug for OAuthClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OAuthClient({})", self.name)
    }
}

/// A sign-in that waits for the person.
pub struct Login {
    manager: AuthorizationManager,
    http: Arc<OAuthHttp>,
    address: Url,
    expected: ExpectedRedirect,
    /// What becomes of it, but for what the authorization server has yet to send.
    token: StoredToken,
}

impl Login {
    /// Asks a server where people sign in, and registers this client there if it has no id.
    /// `redirect` is where the browser is sent afterwards.
    ///
    /// # Errors
    /// If the server does not say where, or an address that it names may not be asked.
    pub async fn start(
        server: &str,
        client: &OAuthClient,
        redirect: &Url,
    ) -> Result<Self, OAuthError> {
        // The library logs what it sends, and codes and tokens are for no log.
        Self::open(server, client, redirect).with_subscriber(NoSubscriber::default()).await
    }

    async fn open(server: &str, client: &OAuthClient, redirect: &Url) -> Result<Self, OAuthError> {
        let url =
            Url::parse(server).map_err(|error| OAuthError::address(server, error.to_string()))?;
        let server = without_query(&url);
        let http = Arc::new(OAuthHttp::new(&url, &client.allowed_hosts)?);
        let of = &http;
        let failed = |step| move |error: AuthError| failure(of, step, &error);
        let asked = Arc::clone(&http);
        let manager = AuthorizationManager::new_with_oauth_http_client(server.as_str(), asked);
        let mut manager = manager.await.map_err(failed("the sign-in"))?;
        let found = manager.resolve_metadata().await;
        let found = found.map_err(failed("asking where to sign in"))?;
        if !found.source.is_discovered() {
            return Err(http.take_error().unwrap_or(OAuthError::NoMetadata));
        }
        let metadata = found.metadata;
        check_endpoints(&http, &metadata).await?;
        manager.set_metadata(metadata.clone());
        let scopes = match client.scopes.as_slice() {
            [] => manager.select_initial_scopes(&[]).await,
            scopes => scopes.to_vec(),
        };
        let config = register(&mut manager, client, redirect, &scopes).await;
        let config = config.map_err(|error| {
            let refused = || OAuthError::registration(&describe(&error));
            http.take_error().unwrap_or_else(refused)
        })?;
        let scope_names: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let address = manager.get_authorization_url(&scope_names).await;
        let address = address.map_err(failed("the sign-in"))?;
        let address = Url::parse(&address)
            .map_err(|error| OAuthError::address(&address, error.to_string()))?;
        let parameter = |name: &str| {
            let found = address.query_pairs().find(|(key, _)| key == name);
            found.map(|(_, value)| value.into_owned()).unwrap_or_default()
        };
        let token = StoredToken {
            server,
            issuer: metadata.issuer.clone(),
            token_endpoint: metadata.token_endpoint.clone(),
            resource: parameter("resource"),
            client_id: config.client_id,
            secret_in_body: takes_secret_in_body(&metadata),
            client_secret: config.client_secret,
            access_token: String::new(),
            refresh_token: None,
            expires_at: None,
            refresh_at: None,
            scopes,
        };
        let expected = ExpectedRedirect { url: redirect.clone(), state: parameter("state") };
        Ok(Self { manager, http, address, expected, token })
    }

    /// Returns the address at which the person signs in.
    #[must_use]
    pub const fn address(&self) -> &Url {
        &self.address
    }

    /// Returns what the redirect must have.
    pub(super) const fn expected(&self) -> &ExpectedRedirect {
        &self.expected
    }

    /// Checks that a redirect is the answer to this sign-in, whatever it says.
    ///
    /// # Errors
    /// If it goes elsewhere, or is the answer to another sign-in.
    pub fn check(&self, redirected: &Url) -> Result<(), OAuthError> {
        match self.expected.read(redirected) {
            Err(error @ OAuthError::Redirect(_)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Exchanges the code of a redirect for a token.
    ///
    /// # Errors
    /// If the redirect is not the answer to this sign-in, or the authorization server refuses.
    pub async fn finish(
        self,
        redirected: &Url,
        clock: &dyn Clock,
    ) -> Result<StoredToken, OAuthError> {
        self.exchange(redirected, clock).with_subscriber(NoSubscriber::default()).await
    }

    async fn exchange(
        self,
        redirected: &Url,
        clock: &dyn Clock,
    ) -> Result<StoredToken, OAuthError> {
        let answer = self.expected.read(redirected)?;
        let begun = clock.now_ms() / 1000;
        let (code, issuer) = (answer.code.as_str(), answer.issuer.as_deref());
        let exchanged = self
            .manager
            .exchange_code_for_token_with_issuer(code, &self.expected.state, issuer)
            .await;
        let token = exchanged
            .map_err(|error| failure(&self.http, "the exchange of the code for a token", &error))?;
        let token = serde_json::to_vec(&token).unwrap_or_default();
        Ok(self.token.with_answer(&TokenAnswer::parse(&token)?, begun))
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({})", self.token.server)
    }
}

/// Checks the addresses that a token, a secret or a person is sent to.
async fn check_endpoints(
    http: &OAuthHttp,
    metadata: &AuthorizationMetadata,
) -> Result<(), OAuthError> {
    let registration = metadata.registration_endpoint.as_deref();
    let endpoints = [&*metadata.authorization_endpoint, &*metadata.token_endpoint];
    for text in endpoints.into_iter().chain(registration) {
        let url = Url::parse(text).map_err(|error| OAuthError::address(text, error.to_string()))?;
        http.check(&url).await?;
    }
    Ok(())
}

/// Returns this client as the authorization server knows it.
async fn register(
    manager: &mut AuthorizationManager,
    client: &OAuthClient,
    redirect: &Url,
    scopes: &[String],
) -> Result<OAuthClientConfig, AuthError> {
    let Some(id) = &client.id else {
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        return manager.register_client(&client.name, redirect.as_str(), &scopes).await;
    };
    let mut config = OAuthClientConfig::new(id, redirect.as_str());
    config.client_secret.clone_from(&client.secret);
    manager.configure_client(config.clone())?;
    Ok(config)
}

/// Returns whether an authorization server takes the secret of a client in the body alone.
fn takes_secret_in_body(metadata: &AuthorizationMetadata) -> bool {
    let methods = metadata.additional_fields.get("token_endpoint_auth_methods_supported");
    let methods = methods.and_then(|methods| methods.as_array());
    let takes = |name: &str| {
        methods.is_some_and(|methods| methods.iter().any(|method| method.as_str() == Some(name)))
    };
    takes("client_secret_post") && !takes("client_secret_basic")
}

/// Returns why a step failed: the error of its request, if that was what failed.
fn failure(http: &OAuthHttp, step: &'static str, error: &AuthError) -> OAuthError {
    http.take_error().unwrap_or_else(|| OAuthError::step(step, &describe(error)))
}

/// Describes an error of the library without the names that it has for its parts.
fn describe(error: &AuthError) -> String {
    match error {
        AuthError::AuthorizationFailed(why)
        | AuthError::TokenExchangeFailed(why)
        | AuthError::OAuthError(why)
        | AuthError::MetadataError(why)
        | AuthError::RegistrationFailed(why)
        | AuthError::InvalidScope(why)
        | AuthError::InternalError(why) => why.clone(),
        AuthError::AuthorizationServerMismatch { expected_issuer, received_issuer } => {
            format!("issuer mismatch: {received_issuer} answered, and {expected_issuer} was asked")
        }
        AuthError::AuthorizationServerMissingIssuer { expected_issuer } => {
            format!("the answer does not name its issuer, which is {expected_issuer}")
        }
        AuthError::PkceUnsupported => {
            "the authorization server has no PKCE with S256, without which nobody signs in here"
                .to_owned()
        }
        other => describe_error(other),
    }
}
