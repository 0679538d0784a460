//! Why a sign-in or a refresh failed.

use deputize_core::sanitize::for_terminal_line;
use deputize_http::CheckedClientError;

/// The most characters of a server's words in an error.
const SHOWN_CHARS: usize = 300;

/// Why a sign-in or a refresh failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OAuthError {
    /// An address is none, or not one that tokens may go to.
    #[error("`{url}` cannot be used to sign in: {problem}")]
    Address {
        /// URL that was refused.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// An address may not be asked.
    #[error("`{url}` is not asked")]
    Denied {
        /// URL that was refused.
        url: String,
        /// Underlying error.
        #[source]
        source: CheckedClientError,
    },
    /// An address did not answer.
    #[error("{host} did not answer: {problem}")]
    Connection {
        /// Name of the host.
        host: String,
        /// The cause, as text.
        problem: String,
    },
    /// An answer is longer than any that is needed.
    #[error("{host} answered with more than {limit} bytes")]
    TooLarge {
        /// Name of the host.
        host: String,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The server does not say where people sign in.
    #[error("the server does not say where to sign in: it publishes no OAuth metadata")]
    NoMetadata,
    /// The authorization server does not register this client.
    #[error("the authorization server does not register this client: {0}")]
    Registration(String),
    /// A step of the sign-in failed.
    #[error("{step} failed: {problem}")]
    Step {
        /// Name of the step.
        step: &'static str,
        /// The cause, as text.
        problem: String,
    },
    /// The authorization server refused.
    #[error("the authorization server refused: {0}")]
    Refused(String),
    /// The redirect is not an answer to this sign-in.
    #[error("the redirect is not an answer to this sign-in: {0}")]
    Redirect(&'static str),
    /// The authorization server answered with something that is no token.
    #[error("the authorization server sent no usable token: {0}")]
    NoToken(&'static str),
}

impl OAuthError {
    pub(crate) fn address(url: &str, problem: impl Into<String>) -> Self {
        Self::Address { url: for_terminal_line(url, SHOWN_CHARS), problem: problem.into() }
    }

    pub(crate) fn step(step: &'static str, problem: &str) -> Self {
        Self::Step { step, problem: for_terminal_line(problem, SHOWN_CHARS) }
    }

    pub(crate) fn registration(problem: &str) -> Self {
        Self::Registration(for_terminal_line(problem, SHOWN_CHARS))
    }

    pub(crate) fn refused(words: &str) -> Self {
        Self::Refused(for_terminal_line(words, SHOWN_CHARS))
    }
}
