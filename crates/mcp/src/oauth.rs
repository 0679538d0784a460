//! Sign-in to remote servers by OAuth: authorization code with PKCE.
//!
//! [`Login`] finds where a server has people sign in, registers this client there, and exchanges
//! the code of the redirect for a [`StoredToken`]. A [`TokenStore`] keeps it; [`StoredTokens`]
//! gives it to the connection and refreshes it. Every address that a server names is checked
//! before it is asked: https only, and no private address.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use deputize_core::Clock;
//! use deputize_mcp::oauth::{FileTokenStore, Login, OAuthClient, RedirectListener, StoredTokens, TokenStore as _};
//! use deputize_mcp::{ServerConfig, TokenSource};
//!
//! # async fn sign_in(clock: Arc<dyn Clock>) -> Result<ServerConfig, Box<dyn std::error::Error>> {
//! let (name, url) = ("docs", "https://docs.example/mcp");
//! let store = Arc::new(FileTokenStore::new("/home/me/.local/state/my-agent/oauth".into()));
//! let client = OAuthClient { name: "My agent".into(), ..OAuthClient::default() };
//! if store.read(name, url)?.is_none() {
//!     let listener = RedirectListener::bind(&client).await?;
//!     let login = Login::start(url, &client, listener.url()).await?;
//!     println!("open {}", login.address());
//!     let redirected = listener.redirected(&login).await;
//!     let token = login.finish(&redirected, &*clock).await?;
//!     let _lock = store.lock(name, url)?;
//!     store.write(name, &token)?;
//! }
//! let tokens = StoredTokens::new(name, url, client.allowed_hosts, store, clock);
//! let server = ServerConfig::url(name, url, Default::default());
//! Ok(server.with_tokens(TokenSource::new(tokens)))
//! # }
//! ```

mod error;
mod http;
mod login;
mod redirect;
pub(crate) mod redirect_answer;
mod refresh;
mod stored_token;
pub(crate) mod token_answer;
pub(crate) mod token_refusal;
mod token_store;

pub use error::OAuthError;
pub use login::{Login, OAuthClient};
pub use redirect::RedirectListener;
pub use refresh::StoredTokens;
pub use stored_token::{SignInStatus, StoredToken};
pub use token_store::{FileTokenStore, TokenLock, TokenStore, TokenStoreError};
