//! The sign-ins to MCP servers: where their tokens are, and how this program is known.

use std::path::Path;
use std::sync::Arc;

use deputize_core::Clock as _;
use deputize_core::sanitize::Secrets;
use deputize_mcp::oauth::{
    FileTokenStore, OAuthClient, SignInStatus, StoredToken, StoredTokens, TokenLock,
    TokenStore as _,
};
use deputize_mcp::{ServerRecord, TokenSource};
use deputize_runtime::SystemClock;

use crate::config::McpServer;
use crate::exit::CliError;
use crate::invocation::format_command;
use crate::process_env::ProcessEnv;
use crate::stdio::tell;

/// Why this program cannot be made known to an authorization server.
#[derive(Debug, thiserror::Error)]
enum SignInError {
    #[error(
        "mcp {server}: `mcp_servers.{server}.oauth.client_secret` names the variable `{variable}`, which is not set"
    )]
    Variable { server: String, variable: String },
}

/// Returns the store of tokens, beside the sessions.
pub(crate) fn store(env: &ProcessEnv) -> Result<FileTokenStore, CliError> {
    let sessions = env.sessions()?;
    let state = sessions.path().parent().unwrap_or(Path::new("."));
    let store = FileTokenStore::new(state.join("mcp").join("oauth"));
    Ok(store.with_secrets(env.rotating_secrets.clone()))
}

/// Returns the command by which a person signs in.
pub(crate) fn command(name: &str) -> String {
    format!("{} {name}", format_command("mcp login"))
}

/// Returns the address of a server to which a person can sign in: a configured one, by its address.
pub(super) fn address(entry: &McpServer) -> Option<&str> {
    entry.url.as_deref().filter(|_| !entry.of_editor)
}

/// Returns where the token of a server comes from.
pub(super) fn tokens(
    name: &str,
    entry: &McpServer,
    env: &ProcessEnv,
) -> Result<Option<TokenSource>, CliError> {
    let Some(url) = address(entry) else { return Ok(None) };
    let hosts = allowed_hosts(entry)?;
    let store = Arc::new(store(env)?);
    let tokens = StoredTokens::new(name, url, hosts, store, Arc::new(SystemClock));
    Ok(Some(TokenSource::new(tokens)))
}

fn allowed_hosts(entry: &McpServer) -> Result<Vec<deputize_http::AllowedHost>, CliError> {
    let hosts = entry.oauth.allow_hosts.iter().map(|host| host.parse());
    hosts.collect::<Result<_, _>>().map_err(CliError::usage)
}

/// Returns this program as the client of the server's authorization server.
pub(crate) fn client(
    name: &str,
    entry: &McpServer,
    env: &ProcessEnv,
) -> Result<OAuthClient, CliError> {
    let oauth = &entry.oauth;
    let secret = oauth.client_secret.as_ref().map(|secret| env.expand(secret.expose()));
    let secret = secret.transpose().map_err(|variable| {
        let variable = variable.to_owned();
        CliError::usage(SignInError::Variable { server: name.to_owned(), variable })
    })?;
    Ok(OAuthClient {
        name: "Deputize".to_owned(),
        id: oauth.client_id.clone(),
        secret,
        scopes: oauth.scopes.clone(),
        redirect_port: oauth.redirect_port,
        allowed_hosts: allowed_hosts(entry)?,
    })
}

/// Returns what a person reads of a server that wants a sign-in and has none that can be used.
pub(crate) fn missing(
    name: &str,
    entry: &McpServer,
    record: &ServerRecord,
    env: &ProcessEnv,
) -> Option<String> {
    let is_sent = entry.headers.keys().any(|header| header.eq_ignore_ascii_case("authorization"));
    address(entry).filter(|_| !is_sent)?;
    let why = match status(name, entry, env) {
        Some(SignInStatus::SignedIn) => return None,
        Some(SignInStatus::Expired) => "the sign-in has expired",
        None if record.wants_sign_in => "not signed in",
        None => return None,
    };
    Some(format!("{why}: {}", command(name)))
}

/// Returns whether somebody is signed in to a server; `None` if nobody is.
pub(crate) fn status(name: &str, entry: &McpServer, env: &ProcessEnv) -> Option<SignInStatus> {
    let token = store(env).ok()?.read(name, address(entry)?).ok()??;
    Some(token.status(SystemClock.now_ms()))
}

/// Adds the secrets of a sign-in.
pub(super) fn secrets(name: &str, entry: &McpServer, env: &ProcessEnv, secrets: &mut Secrets) {
    let label = format!("mcp_servers.{name}.oauth");
    let given = entry.oauth.client_secret.as_ref();
    if let Some(Ok(secret)) = given.map(|secret| env.expand(secret.expose())) {
        secrets.add(&label, &secret);
    }
    let Some(url) = address(entry) else { return };
    // What is read is added to them; what cannot be read is told when it is used.
    let _token = store(env).map(|store| store.read(name, url));
    secrets.add_rotating(&env.rotating_secrets);
}

/// Forgets the sign-in to a server that is configured no more.
pub(crate) fn forget_removed(
    name: &str,
    entry: &McpServer,
    env: &ProcessEnv,
) -> Result<(), CliError> {
    let Some(url) = address(entry) else { return Ok(()) };
    let store = store(env)?;
    let _lock = lock(&store, name, url)?;
    store.remove(name, url).map(drop).map_err(CliError::failed)
}

/// Forgets the sign-ins to all servers of a name, of which one may be configured. Returns whether
/// there was one.
pub(crate) fn forget(
    name: &str,
    entry: Option<&McpServer>,
    env: &ProcessEnv,
) -> Result<bool, CliError> {
    let store = store(env)?;
    let lock = entry.and_then(address).map(|url| lock(&store, name, url));
    let _lock = lock.transpose()?;
    store.remove_all(name).map_err(CliError::failed)
}

/// Keeps the token of a sign-in.
pub(crate) fn store_token(
    name: &str,
    token: &StoredToken,
    env: &ProcessEnv,
) -> Result<(), CliError> {
    let store = store(env)?;
    let _lock = lock(&store, name, token.server())?;
    store.write(name, token).map_err(CliError::failed)
}

/// Waits until no other program changes the token of a server.
fn lock(store: &FileTokenStore, name: &str, url: &str) -> Result<TokenLock, CliError> {
    if let Some(lock) = store.try_lock(name, url).map_err(CliError::failed)? {
        return Ok(lock);
    }
    tell(&format!("mcp {name}: another program refreshes the sign-in; waiting for it"));
    store.lock(name, url).map_err(CliError::failed)
}
