//! Failures of an exchange, and their description.

use std::time::Duration;

use deputize_core::model::{FailureKind, ModelError, Usage};
use reqwest::Url;

use super::keys::{KeyFailure, NextKey};
use super::transport_error::{TransportError, library_chain};
use crate::endpoint::{Endpoint, Proxy, is_loopback};
use crate::line::truncate_to_line;
use crate::retry_after;
use crate::server_error::ServerError;
use crate::stream_error::StreamError;

/// Attempts where nothing listens at a port of this machine: one more, for a server that is just
/// being restarted.
const ATTEMPTS_ON_THIS_MACHINE: u32 = 2;

/// Attempts where the model makes a call that its server cannot read and none is allowed.
const ATTEMPTS_AT_UNREADABLE_CALLS: u32 = 2;

/// Why there is no reply.
#[derive(Debug)]
pub(super) enum RequestFailure {
    Cancelled,
    /// The request was not answered.
    Send(TransportError),
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
    /// No key can be used now: which is the first that can, and when.
    KeysRest(String, Duration),
}

/// The context of a failure, for its description.
pub(super) struct FailureContext<'t> {
    pub(super) endpoint: &'t Endpoint,
    /// The variable of the key that was used.
    pub(super) key: Option<&'t str>,
    pub(super) url: &'t Url,
    pub(super) model: &'t str,
    pub(super) output: bool,
    pub(super) partial: String,
    /// The model that said it, if any of it came.
    pub(super) served: String,
    /// Bytes of it that were dropped.
    pub(super) partial_left_out: u64,
    /// The usage counted until then.
    pub(super) usage: Usage,
    pub(super) seconds: f64,
}

impl RequestFailure {
    /// The server's own words, where it said any.
    pub(super) fn server(&self) -> Option<&ServerError> {
        match self {
            Self::Refused(error) | Self::Stream(StreamError::Server(error)) => Some(error),
            _ => None,
        }
    }

    /// Whether the model made a call that the server could not read.
    fn is_unreadable_call(&self) -> bool {
        self.server().is_some_and(|error| error.unreadable_call().is_some())
    }

    fn is_above_limit(&self) -> bool {
        matches!(self, Self::Stream(StreamError::TooLarge(_)))
    }

    /// Whether the reply ended before the server had said that it is over.
    pub(super) fn is_broken_off(&self) -> bool {
        use StreamError::{Document, NoEndMark, NotJson};

        matches!(
            self,
            Self::Broken(_)
                | Self::Idle
                | Self::Stream(NoEndMark | NotJson { .. } | Document { .. })
        )
    }

    /// The error for the operator: one line, without the key. `turn` is what becomes of the
    /// key that was used.
    pub(super) fn into_error(
        self,
        context: FailureContext<'_>,
        turn: Option<&KeyFailure>,
    ) -> ModelError {
        let (status, mut waits) =
            // Inside a reply an error mostly has a code alone; its meaning is a status too.
            self.server().map_or((None, None), |it| (it.status.or(it.meaning()), it.retry_after));
        if let Self::KeysRest(_, wait) = &self {
            waits = Some(*wait);
        }
        let most_attempts = self.most_attempts(&context);
        let model_mistake = self.is_unreadable_call() || self.is_above_limit();
        let mut kind = self.kind(context.output);
        let mut message = self.message(&context);
        let next = turn.and_then(|turn| turn.next.as_ref());
        if let Some(turn) = turn {
            message = format!("{message}; {}", turn_text(turn));
        }
        if let Some(next) = next {
            // What no key of its own could heal is healed by another.
            if kind == FailureKind::Unavailable {
                kind = FailureKind::Transient;
            }
            waits = Some(next.wait).filter(|wait| !wait.is_zero());
        }
        let message = format!("provider {}: {message}", context.endpoint.name);
        // A wait that is rounded down would end before the key is ready.
        let ms = |wait: Duration| u64::try_from(wait.as_nanos().div_ceil(1_000_000));
        ModelError {
            status,
            retry_after_ms: waits.map(|wait| ms(wait).unwrap_or(u64::MAX)),
            served: if context.partial.is_empty() { String::new() } else { context.served },
            partial: context.partial,
            partial_left_out: context.partial_left_out,
            usage: Some(context.usage).filter(|usage| *usage != Usage::default()).map(Box::new),
            other_key: next.is_some_and(|next| next.wait.is_zero() && !next.tried),
            most_attempts,
            model_mistake,
            ..ModelError::new(kind, context.endpoint.scrub(&message))
        }
    }

    fn kind(&self, output: bool) -> FailureKind {
        match self {
            Self::Cancelled => FailureKind::Cancelled,
            Self::Send(error) if error.is_hopeless() => FailureKind::Unavailable,
            Self::Send(error) if error.is_builder() => FailureKind::Fatal,
            Self::Send(_) | Self::NoAnswer | Self::KeysRest(..) => FailureKind::Transient,
            Self::Refused(error) => error.kind(),
            Self::Compressed(_) => FailureKind::Unavailable,
            Self::Broken(_) if !output => FailureKind::Transient,
            Self::Broken(_) | Self::Idle => FailureKind::Incomplete,
            Self::Stream(error) => error.kind(output),
        }
    }

    /// Upper bound on attempts, where more are of no use.
    fn most_attempts(&self, context: &FailureContext<'_>) -> Option<u32> {
        match self {
            Self::Send(error) if error.is_refused() && context.asks_this_machine() => {
                Some(ATTEMPTS_ON_THIS_MACHINE)
            }
            Self::Refused(error) if error.should_retry == Some(false) => Some(1),
            _ if self.is_unreadable_call() => Some(ATTEMPTS_AT_UNREADABLE_CALLS),
            _ => None,
        }
    }

    fn message(&self, context: &FailureContext<'_>) -> String {
        let endpoint = context.endpoint;
        let kept = context.partial_note();
        match self {
            Self::Cancelled => format!("cancelled{kept}"),
            Self::Send(error) => unsent(error, context),
            Self::NoAnswer => {
                let seconds = endpoint.timeouts.first_byte.as_secs_f64();
                format!("no data within {seconds} s (first_byte_timeout_seconds)")
            }
            Self::Compressed(coding) => {
                format!(
                    "the reply is compressed ({}), which was not asked for",
                    truncate_to_line(coding)
                )
            }
            Self::Broken(error) => {
                format!(
                    "the connection broke after {:.1} s{kept}: {}",
                    context.seconds,
                    library_chain(error)
                )
            }
            Self::Idle => {
                let seconds = endpoint.timeouts.idle.as_secs_f64();
                format!("no data for {seconds} s (stream_idle_timeout_seconds){kept}")
            }
            Self::KeysRest(variable, wait) => {
                format!("no key can be used now; the one in {variable} is ready in {}", rest(*wait))
            }
            Self::Refused(error) | Self::Stream(StreamError::Server(error)) => {
                describe_refusal(error, context)
            }
            Self::Stream(StreamError::Document { problem, shown, source }) => {
                format!("{problem}{kept}: {source}: {shown}")
            }
            Self::Stream(StreamError::NotJson { shown, source }) => {
                format!("an event of the stream is not JSON{kept}: {source}: {shown}")
            }
            Self::Stream(error @ StreamError::NoEndMark) => {
                format!("{error} after {:.1} s{kept}", context.seconds)
            }
            Self::Stream(error) => format!("{error}{kept}"),
        }
    }
}

impl FailureContext<'_> {
    fn partial_note(&self) -> String {
        match (self.partial.chars().count(), self.partial_left_out) {
            (0, _) => String::new(),
            (_, more @ 1..) => {
                format!(" (beginning and end kept as partial, {more} bytes left out)")
            }
            (n, 0) => format!(" ({n} characters kept as partial)"),
        }
    }

    /// The address without what may be secret in it.
    fn address(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        url.set_fragment(None);
        url.to_string()
    }

    /// The address and, where the endpoint names one, the proxy on the way.
    fn way(&self) -> String {
        match &self.endpoint.proxy {
            Proxy::At(proxy) => format!("{} through the proxy {proxy}", self.address()),
            Proxy::Environment | Proxy::None => self.address(),
        }
    }

    /// The proxy on the way, in words.
    fn proxy(&self) -> String {
        match &self.endpoint.proxy {
            Proxy::At(proxy) => format!("the proxy {proxy}"),
            Proxy::Environment | Proxy::None => "the proxy that the environment names".to_owned(),
        }
    }

    /// Whether the connection is one to this machine: to the server, or to the proxy on the way.
    fn asks_this_machine(&self) -> bool {
        match &self.endpoint.proxy {
            Proxy::At(proxy) => Url::parse(proxy).is_ok_and(|url| is_loopback(&url)),
            Proxy::Environment | Proxy::None => is_loopback(self.url),
        }
    }

    /// What to do about a model that is not found.
    fn model_advice(&self) -> String {
        if self.key.is_none() && self.endpoint.headers.is_empty() {
            return "check the model's name and base_url".to_owned();
        }
        let key = self.key_advice();
        format!("check the model's name, base_url and {}", key.trim_start_matches("check "))
    }

    /// What to do about the key.
    fn key_advice(&self) -> String {
        match self.key {
            Some(variable) => format!("check the key in {variable}"),
            None if !self.endpoint.headers.is_empty() => "check the key in its headers".to_owned(),
            None => "name the variable that holds its key with api_key_env".to_owned(),
        }
    }
}

/// Why a request was not answered, with what to do about it.
fn unsent(error: &TransportError, context: &FailureContext<'_>) -> String {
    let endpoint = context.endpoint;
    if error.is_refused() {
        return match &endpoint.proxy {
            Proxy::At(proxy) => format!("connection refused; is the proxy running at {proxy}?"),
            Proxy::Environment | Proxy::None => {
                format!("connection refused; is the server running at {}?", context.address())
            }
        };
    }
    if let Some(fault) = error.tls_fault() {
        let way = context.way();
        return match (fault, &endpoint.authorities) {
            (rustls::Error::InvalidCertificate(_), None) => format!(
                "{way} is not trusted: {fault}; ca_file names a PEM file of authorities to trust"
            ),
            (rustls::Error::InvalidCertificate(_), Some(own)) => {
                format!("{way} is not trusted, also not with ca_file {}: {fault}", own.path)
            }
            (rustls::Error::InvalidMessage(_), _) => {
                format!("{way} does not speak TLS: {fault}; is it http://?")
            }
            _ => format!("no TLS with {way}: {fault}"),
        };
    }
    if error.is_timeout() {
        let seconds = endpoint.timeouts.connect.as_secs_f64();
        let way = context.way();
        return format!("no connection to {way} within {seconds} s (connect_timeout_seconds)");
    }
    if error.is_connect() {
        let details = error.chain();
        if let Some(refused) = no_tunnel(&details, context) {
            return refused;
        }
        let why = no_address(&details, context).unwrap_or(details);
        return format!("cannot reach {}: {why}", context.way());
    }
    // A server that speaks TLS hangs up on who does not.
    let tls = if context.url.scheme() == "http" { "; is it https://?" } else { "" };
    format!("the request was not answered: {}{tls}", error.chain())
}

/// Explains why a proxy gave no tunnel, and what to do. The library reports this in prose only.
fn no_tunnel(details: &str, context: &FailureContext<'_>) -> Option<String> {
    let host = context.url.host_str().unwrap_or_default();
    if details.contains("proxy authorization required") {
        return Some(no_pass(context));
    }
    details.contains("tunnel error: unsuccessful").then(|| {
        format!(
            "{} did not connect to {host}: it answered CONNECT with a status other than 200; look \
             whether it is the right proxy and may reach {host}, or use none",
            context.proxy()
        )
    })
}

/// A proxy that wants to know who asks.
fn no_pass(context: &FailureContext<'_>) -> String {
    format!(
        "{} asks for a user name and a password (HTTP 407): name it with them in the environment, \
         as HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT (HTTP_PROXY for http://), without the key \
         `proxy`",
        context.proxy()
    )
}

/// Explains a failed name lookup. The system reports this in prose only.
fn no_address(details: &str, context: &FailureContext<'_>) -> Option<String> {
    if !details.contains("dns error") {
        return None;
    }
    if details.contains("Temporary failure") || details.contains("Try again") {
        return Some("no network, or no name server that answers".to_owned());
    }
    let proxy = match &context.endpoint.proxy {
        Proxy::At(proxy) => Url::parse(proxy).ok(),
        // The environment may name one, so which name was looked up is not known.
        Proxy::Environment | Proxy::None => None,
    };
    let host = proxy.as_ref().unwrap_or(context.url).host_str().unwrap_or_default();
    Some(format!("no such host {host}"))
}

/// A failure in the server's words, with what to do about it.
fn describe_refusal(error: &ServerError, context: &FailureContext<'_>) -> String {
    let model = context.model;
    let kept = context.partial_note();
    let advice = context.key_advice();
    match (error.kind(), error.meaning()) {
        (FailureKind::Unavailable, _) if error.is_quota() => {
            let variable = context.key.unwrap_or("api_key_env");
            format!(
                "the quota for model `{model}` is used up ({error}); add credit, or set {variable} \
                 to another key{kept}"
            )
        }
        (FailureKind::Unavailable, Some(404 | 405 | 410)) => {
            format!(
                "no model `{model}` at {} ({error}); {}",
                context.address(),
                context.model_advice()
            )
        }
        (FailureKind::Unavailable, Some(407)) => no_pass(context),
        (FailureKind::Unavailable, Some(300..=399)) => {
            format!("{} answers with {error}; check base_url", context.address())
        }
        (FailureKind::Unavailable, _) => {
            format!("no access to model `{model}` ({error}); {advice}{kept}")
        }
        (FailureKind::ContextOverflow, _) => {
            format!("the conversation is too long for model `{model}` ({error})")
        }
        (FailureKind::Fatal, _) => format!("the request for model `{model}` was refused ({error})"),
        (FailureKind::Transient | FailureKind::Incomplete | FailureKind::Cancelled, _) => {
            let wait = error.retry_after.and_then(retry_after::format_wait);
            let wait = wait.map(|wait| format!("; it asks to wait {wait}"));
            let again = match error.should_retry {
                Some(false) => "; it asks not to try again",
                Some(true) | None => "",
            };
            format!("{error}{kept}{}{again}", wait.unwrap_or_default())
        }
    }
}

/// What becomes of a key that failed, and which is next.
fn turn_text(turn: &KeyFailure) -> String {
    let KeyFailure { variable, rests, next } = turn;
    let now = match rests {
        Some(wait) => format!("the key in {variable} rests for {}", rest(*wait)),
        None => format!("the key in {variable} is not used again"),
    };
    match next {
        Some(NextKey { variable, wait, .. }) if wait.is_zero() => {
            format!("{now}, the one in {variable} is next")
        }
        Some(NextKey { variable, wait, .. }) => {
            let wait = rest(*wait);
            format!("{now}, the one in {variable} is next, in {wait}")
        }
        None => format!("{now}, and no other is left"),
    }
}

/// Formats a key's rest in whole seconds, rounded since its start has passed.
fn rest(wait: Duration) -> String {
    let seconds = wait.as_millis().div_ceil(1000);
    let whole = Duration::from_secs(u64::try_from(seconds).unwrap_or(u64::MAX));
    retry_after::format_wait(whole).unwrap_or_else(|| "0 s".to_owned())
}
