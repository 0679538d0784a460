//! How a token endpoint refuses.

use reqwest::StatusCode;
use serde_json::Value;

use super::error::OAuthError;

/// Codes of refusals that no repetition lifts: the sign-in has ended.
const FINAL: [&str; 3] = ["invalid_grant", "invalid_client", "unauthorized_client"];

/// A refusal to refresh a token.
pub(crate) enum TokenRefusal {
    /// The sign-in has ended, by this code.
    Ended(&'static str),
    /// It may work later.
    Failed(OAuthError),
}

impl TokenRefusal {
    /// Reads an answer that is a failure.
    pub(crate) fn parse(status: StatusCode, body: &[u8]) -> Self {
        let said: Value = serde_json::from_slice(body).unwrap_or_default();
        let code = said.get("error").and_then(Value::as_str).unwrap_or_default();
        match FINAL.into_iter().find(|known| *known == code) {
            Some(code) => Self::Ended(code),
            None => Self::Failed(OAuthError::refused(&format!("HTTP {} {code}", status.as_u16()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_in_ends_only_by_the_codes_that_say_so() {
        let read = |status: u16, body: &str| {
            let status = StatusCode::from_u16(status).unwrap();
            match TokenRefusal::parse(status, body.as_bytes()) {
                TokenRefusal::Ended(code) => format!("ended: {code}"),
                TokenRefusal::Failed(error) => error.to_string(),
            }
        };
        assert_eq!(read(400, r#"{"error":"invalid_grant"}"#), "ended: invalid_grant");
        assert_eq!(read(401, r#"{"error":"invalid_client"}"#), "ended: invalid_client");
        let refused = |words: &str| format!("the authorization server refused: {words}");
        assert_eq!(read(503, "<html>"), refused("HTTP 503"));
        assert_eq!(read(429, r#"{"error":"slow_down"}"#), refused("HTTP 429 slow_down"));
        assert_eq!(read(400, r#"{"error":["invalid_grant"]}"#), refused("HTTP 400"));
        assert_eq!(read(400, r#"{"error":"a\u001b[2Jb"}"#), refused("HTTP 400 ab"));
    }
}
