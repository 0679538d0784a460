//! What a redirect says.

use deputize_core::sanitize::for_terminal_line;
use url::Url;

use super::error::OAuthError;

/// The answer to a sign-in: the code that is exchanged for a token.
pub(crate) struct RedirectAnswer {
    pub(crate) code: String,
    pub(crate) issuer: Option<String>,
}

/// What the redirect of a sign-in must have.
#[derive(Debug, Clone)]
pub(crate) struct ExpectedRedirect {
    pub(crate) url: Url,
    pub(crate) state: String,
}

impl ExpectedRedirect {
    /// Reads a redirect; see [`RedirectAnswer::read`].
    pub(crate) fn read(&self, redirected: &Url) -> Result<RedirectAnswer, OAuthError> {
        RedirectAnswer::read(redirected, &self.url, &self.state)
    }
}

impl RedirectAnswer {
    /// Reads a redirect that must go where it was to go, with the state of this sign-in.
    ///
    /// # Errors
    /// If it goes elsewhere, is no answer to this sign-in, or says that the person was refused.
    pub(crate) fn read(redirected: &Url, expected: &Url, state: &str) -> Result<Self, OAuthError> {
        let place = |url: &Url| {
            (url.scheme().to_owned(), url.authority().to_owned(), url.path().to_owned())
        };
        if place(redirected) != place(expected) {
            return Err(OAuthError::Redirect("it leads to another address"));
        }
        let values = |name: &str| {
            let found = redirected.query_pairs().filter(|(key, _)| key == name);
            found.map(|(_, value)| value.into_owned()).collect::<Vec<_>>()
        };
        let one = |name: &str| match values(name).as_slice() {
            [] => Ok(None),
            [value] => Ok(Some(value.clone())),
            _ => Err(OAuthError::Redirect("a parameter is there twice")),
        };
        if one("state")?.as_deref() != Some(state) {
            return Err(OAuthError::Redirect("its state is another one"));
        }
        if let Some(words) = refusal(redirected) {
            return Err(OAuthError::refused(&words));
        }
        let issuer = one("iss")?;
        let code = one("code")?.filter(|code| !code.is_empty());
        Ok(Self { code: code.ok_or(OAuthError::Redirect("it has no code"))?, issuer })
    }
}

/// Returns why a redirect says that nobody was signed in; `None` if it says no such thing.
fn refusal(redirected: &Url) -> Option<String> {
    let value = |name: &str| {
        let found = redirected.query_pairs().find(|(key, _)| key == name);
        found.map(|(_, value)| for_terminal_line(&value, 200))
    };
    let error = value("error")?;
    Some(match value("error_description") {
        Some(words) => format!("{error}: {words}"),
        None => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_answer_to_this_sign_in_is_read() {
        let expected = Url::parse("http://127.0.0.1:9/path").unwrap();
        let read = |text: &str| {
            let url = Url::parse(text).unwrap();
            RedirectAnswer::read(&url, &expected, "s").map_or_else(
                |error| error.to_string(),
                |answer| format!("{} {:?}", answer.code, answer.issuer),
            )
        };
        assert_eq!(read("http://127.0.0.1:9/path?code=c&state=s"), "c None");
        assert_eq!(
            read("http://127.0.0.1:9/path?state=s&iss=https://a&code=c%20d"),
            "c d Some(\"https://a\")"
        );
        let wrong = |why: &str| format!("the redirect is not an answer to this sign-in: {why}");
        assert_eq!(
            read("http://127.0.0.1:8/path?code=c&state=s"),
            wrong("it leads to another address")
        );
        assert_eq!(
            read("http://127.0.0.1:9/other?code=c&state=s"),
            wrong("it leads to another address")
        );
        for state in ["", "&state=", "&state=S"] {
            assert_eq!(
                read(&format!("http://127.0.0.1:9/path?code=c{state}")),
                wrong("its state is another one")
            );
        }
        for code in ["", "&code="] {
            assert_eq!(
                read(&format!("http://127.0.0.1:9/path?state=s{code}")),
                wrong("it has no code")
            );
        }
        assert_eq!(
            read("http://127.0.0.1:9/path?state=s&code=a&code=b"),
            wrong("a parameter is there twice")
        );
        let refused =
            read("http://127.0.0.1:9/path?state=s&error=access_denied&error_description=no%1b[2J");
        assert!(
            refused.starts_with("the authorization server refused: access_denied: no"),
            "{refused}"
        );
        assert!(!refused.contains('\u{1b}'), "{refused}");
    }
}
