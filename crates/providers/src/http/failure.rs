//! What went wrong in an exchange, and how it is told.

use std::error::Error as _;
use std::io;

use deputize_core::{FailureKind, ModelError};
use reqwest::Url;

use crate::endpoint::Endpoint;
use crate::line::shown;
use crate::server_error::ServerError;
use crate::stream::StreamError;

/// Why there is no reply.
#[derive(Debug)]
pub(super) enum Failure {
    Cancelled,
    /// The request was not answered.
    Send(reqwest::Error),
    /// Nothing of a reply came in time.
    NoAnswer,
    /// The server answered with a failure status.
    Refused(ServerError),
    /// The body is compressed, though nobody asked for that.
    Compressed(String),
    /// The connection broke inside the reply.
    Broken(reqwest::Error),
    /// The reply stopped coming.
    Idle,
    Stream(StreamError),
}

/// What else is known when a failure is told.
pub(super) struct Told<'t> {
    pub(super) endpoint: &'t Endpoint,
    pub(super) url: &'t Url,
    pub(super) model: &'t str,
    pub(super) output: bool,
    pub(super) partial: String,
    pub(super) seconds: f64,
}

impl Failure {
    /// The error for the operator: one line, without the key.
    pub(super) fn tell(self, told: Told<'_>) -> ModelError {
        let server = match &self {
            Self::Refused(error) | Self::Stream(StreamError::Server(error)) => Some(error),
            _ => None,
        };
        let (status, waits) = server.map_or((None, None), |it| (it.status, it.retry_after));
        let kind = self.kind(told.output);
        let message = format!("provider {}: {}", told.endpoint.name, self.message(&told));
        ModelError {
            kind,
            status,
            message: told.endpoint.scrub(&message),
            retry_after_ms: waits.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX)),
            partial: told.partial,
        }
    }

    fn kind(&self, output: bool) -> FailureKind {
        match self {
            Self::Cancelled => FailureKind::Cancelled,
            Self::Send(error) if is_unreachable(error) => FailureKind::Unavailable,
            Self::Send(error) if error.is_builder() => FailureKind::Fatal,
            Self::Send(_) | Self::NoAnswer => FailureKind::Transient,
            Self::Refused(error) => error.kind(),
            Self::Compressed(_) => FailureKind::Fatal,
            Self::Broken(_) | Self::Idle => FailureKind::Incomplete,
            Self::Stream(error) => error.kind(output),
        }
    }

    fn message(&self, told: &Told<'_>) -> String {
        let (endpoint, kept) = (told.endpoint, told.kept());
        match self {
            Self::Cancelled => format!("cancelled{kept}"),
            Self::Send(error) if is_refused(error) => {
                format!("connection refused; is the server running at {}?", told.address())
            }
            Self::Send(error) if is_unreachable(error) => {
                format!("cannot reach {}: {}", told.address(), chain(error))
            }
            Self::Send(error) if error.is_timeout() => {
                let seconds = endpoint.connect_timeout.as_secs_f64();
                format!(
                    "no connection to {} within {seconds} s (connect_timeout_seconds)",
                    told.address()
                )
            }
            Self::Send(error) => format!("the request was not answered: {}", chain(error)),
            Self::NoAnswer => {
                let seconds = endpoint.first_byte_timeout.as_secs_f64();
                format!("no data within {seconds} s (first_byte_timeout_seconds)")
            }
            Self::Compressed(coding) => {
                format!("the reply is compressed ({}), which was not asked for", shown(coding))
            }
            Self::Broken(error) => {
                format!("the connection broke after {:.1} s{kept}: {}", told.seconds, chain(error))
            }
            Self::Idle => {
                let seconds = endpoint.idle_timeout.as_secs_f64();
                format!("no data for {seconds} s (stream_idle_timeout_seconds){kept}")
            }
            Self::Refused(error) | Self::Stream(StreamError::Server(error)) => refused(error, told),
            Self::Stream(StreamError::NotJson { shown, source }) => {
                format!("an event of the stream is no JSON{kept}: {source}: {shown}")
            }
            Self::Stream(error @ StreamError::NoEndMark) => {
                format!("{error} after {:.1} s{kept}", told.seconds)
            }
            Self::Stream(error) => format!("{error}{kept}"),
        }
    }
}

impl Told<'_> {
    fn kept(&self) -> String {
        match self.partial.chars().count() {
            0 => String::new(),
            n => format!(" ({n} characters kept as partial)"),
        }
    }

    /// The address without what may be secret in it.
    fn address(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        url.set_fragment(None);
        url.to_string()
    }

    /// What to do about the key.
    fn key_advice(&self) -> String {
        match (&self.endpoint.key_env, &self.endpoint.key) {
            (Some(variable), Some(_)) => format!("check the key in {variable}"),
            (Some(variable), None) => format!("set {variable} to a key"),
            (None, Some(_)) => "check its key".to_owned(),
            (None, None) => "name the variable that holds its key with api_key_env".to_owned(),
        }
    }
}

/// A failure in the server's words, with what to do about it.
fn refused(error: &ServerError, told: &Told<'_>) -> String {
    let (model, kept) = (told.model, told.kept());
    let advice = told.key_advice();
    match (error.kind(), error.status) {
        (FailureKind::Unavailable, _) if error.is_quota() => {
            let variable = told.endpoint.key_env.as_deref().unwrap_or("api_key_env");
            format!(
                "the quota for model `{model}` is used up ({error}); add credit, or set {variable} \
                 to another key{kept}"
            )
        }
        (FailureKind::Unavailable, Some(404 | 405 | 410)) => format!(
            "no model `{model}` at {} ({error}); check the model's name, base_url and {}",
            told.address(),
            advice.trim_start_matches("check ")
        ),
        (FailureKind::Unavailable, Some(300..=399)) => {
            format!("{} answers with {error}; check base_url", told.address())
        }
        (FailureKind::Unavailable, _) => {
            format!("no access to model `{model}` ({error}); {advice}{kept}")
        }
        (FailureKind::ContextOverflow, _) => {
            format!("the conversation is too long for model `{model}` ({error})")
        }
        (FailureKind::Fatal, _) => format!("the request for model `{model}` was refused ({error})"),
        (FailureKind::Transient | FailureKind::Incomplete | FailureKind::Cancelled, _) => {
            let wait = error.retry_after.map(|wait| format!("; it asks to wait {wait:?}"));
            format!("{error}{kept}{}", wait.unwrap_or_default())
        }
    }
}

/// An error and its sources on one line, each said once, without the address.
pub(super) fn chain(error: &reqwest::Error) -> String {
    let mut words = Vec::new();
    let mut next = error.source();
    while let Some(source) = next {
        let text = source.to_string();
        // Some sources repeat what follows them.
        words.retain(|earlier: &String| !earlier.ends_with(&text));
        words.push(text);
        next = source.source();
    }
    if words.is_empty() { "no details".to_owned() } else { shown(&words.join(": ")) }
}

fn io_kind(error: &reqwest::Error) -> Option<io::ErrorKind> {
    let mut next = error.source();
    while let Some(source) = next {
        if let Some(error) = source.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        next = source.source();
    }
    None
}

fn is_refused(error: &reqwest::Error) -> bool {
    error.is_connect() && io_kind(error) == Some(io::ErrorKind::ConnectionRefused)
}

/// Whether there is nobody to talk to: no such host, no way to it, no trust in it. A
/// connection that took too long or was reset may work at the next try.
fn is_unreachable(error: &reqwest::Error) -> bool {
    use io::ErrorKind as Kind;
    let may_heal = [Kind::TimedOut, Kind::ConnectionReset, Kind::ConnectionAborted];
    let may_heal = io_kind(error).is_some_and(|kind| may_heal.contains(&kind));
    error.is_connect() && !error.is_timeout() && !may_heal
}
