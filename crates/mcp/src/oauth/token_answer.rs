//! What a token endpoint answers.

use serde::Deserialize;
use serde_json::Value;

use super::error::OAuthError;

/// The most characters of a token.
const TOKEN_CHARS: usize = 64 * 1024;
/// The longest time that a token is taken to be valid, in seconds: a year.
const LONGEST: u64 = 366 * 24 * 60 * 60;

/// A token as an authorization server sends it.
#[derive(Deserialize)]
pub(crate) struct TokenAnswer {
    pub(crate) access_token: String,
    #[serde(default)]
    token_type: Option<String>,
    #[serde(default)]
    expires_in: Value,
    #[serde(default)]
    pub(crate) refresh_token: Option<String>,
    #[serde(default)]
    scope: Option<String>,
}

impl TokenAnswer {
    /// Reads an answer.
    ///
    /// # Errors
    /// If it is no bearer token, or one that no header carries.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, OAuthError> {
        // What is wrong in it is not shown: a token may stand there.
        let read = serde_json::from_slice::<Self>(body);
        let mut answer =
            read.map_err(|_| OAuthError::NoToken("its answer is not the JSON of a token"))?;
        let kind = answer.token_type.as_deref().unwrap_or("bearer");
        if !kind.eq_ignore_ascii_case("bearer") {
            return Err(OAuthError::NoToken("its token is not a bearer token"));
        }
        if !is_sendable(&answer.access_token) {
            return Err(OAuthError::NoToken("its token cannot be sent in a header"));
        }
        answer.refresh_token = answer.refresh_token.filter(|token| is_sendable(token));
        Ok(answer)
    }

    /// Returns how long it is valid, in seconds, if the server says so.
    pub(crate) fn expires_in(&self) -> Option<u64> {
        let seconds = match &self.expires_in {
            Value::String(text) => text.trim().parse().ok(),
            number => number.as_u64().or_else(|| number.as_f64().map(whole_seconds)),
        };
        seconds.map(|seconds| seconds.min(LONGEST))
    }

    /// Returns the scopes that were granted, if the server names them.
    pub(crate) fn scopes(&self) -> Option<Vec<String>> {
        let words = self.scope.as_deref()?.split_whitespace();
        Some(words.map(str::to_owned).collect())
    }
}

/// A fraction is no time at all, and so is what is no number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and a year is the limit anyway"
)]
const fn whole_seconds(seconds: f64) -> u64 {
    seconds as u64
}

fn is_sendable(token: &str) -> bool {
    !token.is_empty()
        && token.len() <= TOKEN_CHARS
        && token.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<TokenAnswer, String> {
        TokenAnswer::parse(text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_token_is_read_and_what_is_none_is_refused_without_its_words() {
        let answer = parsed(
            r#"{"access_token":"a","token_type":"Bearer","expires_in":"60","scope":"x  y"}"#,
        );
        let answer = answer.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(answer.expires_in(), Some(60));
        assert_eq!(answer.scopes(), Some(vec!["x".to_owned(), "y".to_owned()]));
        for (text, seconds) in
            [("1e30", Some(LONGEST)), ("-1", Some(0)), ("2.9", Some(2)), ("null", None)]
        {
            let text = format!(r#"{{"access_token":"a","expires_in":{text}}}"#);
            assert_eq!(parsed(&text).map(|answer| answer.expires_in()), Ok(seconds), "{text}");
        }
        let bad = [
            r#"{"access_token":""}"#,
            r#"{"access_token":"hush\r\nX: y"}"#,
            r#"{"access_token":"hush","token_type":"mac"}"#,
            r#"{"access_token":"hush""#,
            "[]",
        ];
        for text in bad {
            let error = parsed(text).err().unwrap();
            assert!(error.starts_with("the authorization server sent no usable token"), "{error}");
            assert!(!error.contains("hush"), "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_token_or_an_error(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            if let Ok(answer) = TokenAnswer::parse(&bytes) {
                proptest::prop_assert!(is_sendable(&answer.access_token));
            }
        }
    }
}
