//! Entry points of the fuzz targets beside the public interface.

use std::sync::Arc;

use rmcp::model::{ClientRequest, JsonRpcMessage, PingRequest, RequestId};
use rmcp::transport::Transport as _;
use tokio::io::AsyncRead;

use crate::stdio_transport::{ConnectionStatus, PipeTransport};

/// The reading of a server's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadResult {
    /// Its messages, as JSON.
    pub messages: Vec<String>,
    /// Lines that were none: how many, and the first.
    pub stray: Option<(u32, String)>,
    /// The fault that ended it early; `None` if it was read to its end.
    pub garbage: Option<String>,
}

/// Number of pending requests while input is read.
const OPEN: i64 = 10;

/// Reads all that a server says.
pub async fn read(from: impl AsyncRead + Unpin + Send) -> ReadResult {
    let heard = Arc::new(ConnectionStatus::default());
    let mut lines = PipeTransport::new(from, tokio::io::sink(), Arc::clone(&heard));
    for id in 0..OPEN {
        let asked = ClientRequest::PingRequest(PingRequest::default());
        let _a_sink = lines.send(JsonRpcMessage::request(asked, RequestId::Number(id))).await;
    }
    let mut messages = Vec::new();
    while let Some(message) = lines.receive().await {
        messages.push(serde_json::to_string(&message).unwrap_or_default());
    }
    let garbage = heard.fault().map(|garbage| garbage.to_string());
    ReadResult { messages, stray: heard.stray(), garbage }
}

/// Returns the answer to a client's line that is not a message; `None` if it is one, or if nobody
/// waits for an answer.
#[must_use]
pub fn answered(line: &[u8]) -> Option<String> {
    crate::serve::answered(line)
}

#[cfg(feature = "oauth")]
mod oauth {
    use reqwest::StatusCode;
    use url::Url;

    use crate::oauth::redirect_answer::RedirectAnswer;
    use crate::oauth::token_answer::TokenAnswer;
    use crate::oauth::token_refusal::TokenRefusal;
    use crate::oauth::{OAuthError, StoredToken};

    /// What a token endpoint grants.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct GrantedToken {
        /// Its tokens.
        pub tokens: Vec<String>,
        /// How long the access token is valid, in seconds.
        pub expires_in: Option<u64>,
        /// The scopes.
        pub scopes: Vec<String>,
    }

    /// Reads the success of a token endpoint.
    ///
    /// # Errors
    /// As the sign-in tells it.
    pub fn granted_token(body: &[u8]) -> Result<GrantedToken, OAuthError> {
        let answer = TokenAnswer::parse(body)?;
        let (expires_in, scopes) = (answer.expires_in(), answer.scopes().unwrap_or_default());
        let tokens = std::iter::once(answer.access_token).chain(answer.refresh_token).collect();
        Ok(GrantedToken { tokens, expires_in, scopes })
    }

    /// Reads the failure of a token endpoint, as the sign-in tells it; `None` if it has ended.
    #[must_use]
    pub fn token_refusal(body: &[u8]) -> Option<OAuthError> {
        match TokenRefusal::parse(StatusCode::BAD_REQUEST, body) {
            TokenRefusal::Ended(_) => None,
            TokenRefusal::Failed(error) => Some(error),
        }
    }

    /// Reads a redirect to an address with a state. Returns its code.
    ///
    /// # Errors
    /// As the sign-in tells it.
    pub fn redirect_code(
        redirected: &Url,
        expected: &Url,
        state: &str,
    ) -> Result<String, OAuthError> {
        RedirectAnswer::read(redirected, expected, state).map(|answer| answer.code)
    }

    /// Reads the file of a token. Returns what is written of it; `None` if it is none.
    #[must_use]
    pub fn token_file(bytes: &[u8]) -> Option<Vec<u8>> {
        serde_json::to_vec(&serde_json::from_slice::<StoredToken>(bytes).ok()?).ok()
    }
}
#[cfg(feature = "oauth")]
pub use oauth::{GrantedToken, granted_token, redirect_code, token_file, token_refusal};
