//! A question to a server that came to nothing.

use std::time::Duration;

/// How a question came to nothing.
#[derive(Debug, Clone)]
pub(crate) enum RequestError {
    /// Nobody wants the answer any more.
    Cancelled,
    /// It took too long: so much without a sign, or in all.
    Slow(Duration),
    /// The server refused.
    Refused {
        /// By which code, of the protocol or of HTTP.
        how: String,
        message: String,
    },
    /// The server is gone.
    Ended,
    /// It does not know the session any more.
    Forgotten {
        words: String,
        /// Whether the protocol has it that nothing was done then.
        undone: bool,
    },
    /// A person has to sign in to the server first.
    SignIn {
        /// What, in words of ours.
        said: String,
        /// The server's message; empty if it sent none.
        theirs: String,
    },
    /// Something on the way to it failed.
    Way {
        /// The status of HTTP that it answered with, if that is what failed.
        code: Option<u16>,
        /// What, in words of ours.
        said: String,
        /// Whether the server may have begun.
        made: bool,
        /// The server's message; empty if it sent none.
        theirs: String,
    },
}

impl RequestError {
    /// Returns what is wrong, without the server's words, which may hold a secret.
    pub(crate) const fn label(&self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Slow(_) => "no answer in time",
            Self::Refused { .. } => "refused",
            Self::Ended => "the server is gone",
            Self::Forgotten { .. } => "the server does not know the session any more",
            Self::SignIn { .. } => "a person has to sign in",
            Self::Way { .. } => "the way to the server failed",
        }
    }
}
