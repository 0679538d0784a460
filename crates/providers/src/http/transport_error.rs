//! Why a request got no answer.

use std::error::Error;
use std::{io, iter};

use crate::line::truncate_to_line;

/// Why a request got no answer.
#[derive(Debug)]
pub(super) enum TransportError {
    /// The library's error, of a connection with TLS or by a proxy.
    Library(reqwest::Error),
    /// No connection came about.
    Connect(Box<dyn Error + Send + Sync>),
    /// No connection came about in time.
    ConnectTimeout,
    /// The address cannot be a request's.
    Target(Box<dyn Error + Send + Sync>),
    /// The connection ended before an answer, or the answer was no HTTP.
    Exchange(hyper::Error),
}

impl TransportError {
    /// Returns whether no connection came about.
    pub(super) fn is_connect(&self) -> bool {
        match self {
            Self::Library(error) => error.is_connect(),
            Self::Connect(_) | Self::ConnectTimeout => true,
            Self::Target(_) | Self::Exchange(_) => false,
        }
    }

    /// Returns whether no connection came about in time.
    pub(super) fn is_timeout(&self) -> bool {
        match self {
            Self::Library(error) => error.is_timeout(),
            Self::Connect(_) => self.io_kind() == Some(io::ErrorKind::TimedOut),
            Self::ConnectTimeout => true,
            Self::Target(_) | Self::Exchange(_) => false,
        }
    }

    /// Returns whether no request could be made of what was to be sent.
    pub(super) fn is_builder(&self) -> bool {
        match self {
            Self::Library(error) => error.is_builder(),
            Self::Target(_) => true,
            Self::Connect(_) | Self::ConnectTimeout | Self::Exchange(_) => false,
        }
    }

    /// Returns whether the connection was closed before anything of an answer came.
    pub(super) fn is_closed(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
        let kinds = [BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected];
        let said = match self {
            Self::Exchange(error) => error.is_incomplete_message() || error.is_canceled(),
            // The library's own kind of error is not in reach, only its words.
            _ => self.chain().contains("connection closed before message completed"),
        };
        !self.is_connect() && (said || self.io_kind().is_some_and(|kind| kinds.contains(&kind)))
    }

    /// Returns whether nothing listens there.
    pub(super) fn is_refused(&self) -> bool {
        self.is_connect() && self.io_kind() == Some(io::ErrorKind::ConnectionRefused)
    }

    /// Returns whether no later try can find what is missing now: trust, TLS at all, or leave of the
    /// proxy. A server, a network or a proxy that is down may be up again at the next try.
    pub(super) fn is_hopeless(&self) -> bool {
        let forbidden = || self.chain().contains("proxy authorization required");
        self.is_connect() && (self.tls_fault().is_some() || forbidden())
    }

    /// Returns what went wrong with TLS, if that is what went wrong.
    pub(super) fn tls_fault(&self) -> Option<&rustls::Error> {
        self.causes().find_map(|source| innermost_error(source).downcast_ref())
    }

    /// Returns the error on one line, without the address.
    pub(super) fn chain(&self) -> String {
        chain(self.cause())
    }

    fn io_kind(&self) -> Option<io::ErrorKind> {
        self.causes().find_map(|source| Some(source.downcast_ref::<io::Error>()?.kind()))
    }

    /// The first error that does not name the address.
    fn cause(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Library(error) => error.source(),
            Self::Connect(error) | Self::Target(error) => Some(&**error),
            Self::Exchange(error) => Some(error),
            Self::ConnectTimeout => None,
        }
    }

    fn causes(&self) -> impl Iterator<Item = &(dyn Error + 'static)> {
        iter::successors(self.cause(), |&error| error.source())
    }
}

/// Returns an error of the library on one line, without the address.
pub(super) fn library_chain(error: &reqwest::Error) -> String {
    chain(error.source())
}

/// An error and its sources on one line, each said once.
fn chain(first: Option<&(dyn Error + 'static)>) -> String {
    let mut words = Vec::new();
    let sources = iter::successors(first, |&error| error.source());
    // The library's own error inside another has no word of its own but the address.
    for source in sources.filter(|source| !source.is::<reqwest::Error>()) {
        let text = source.to_string();
        // Some sources repeat what follows them.
        words.retain(|earlier: &String| !earlier.ends_with(&text));
        words.push(text);
    }
    if words.is_empty() { "no details".to_owned() } else { truncate_to_line(&words.join(": ")) }
}

/// What is inside errors of IO, which is not among their sources.
fn innermost_error<'e>(mut error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    while let Some(inner) = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        error = inner;
    }
    error
}
