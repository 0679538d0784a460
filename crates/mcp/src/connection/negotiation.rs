//! The handshake with a server: agrees on the version of the protocol.

use std::time::Duration;

use deputize_core::describe_error;
use deputize_core::sanitize::for_terminal_line;
use rmcp::RoleClient;
use rmcp::model::ProtocolVersion;
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, RunningService,
};
use rmcp::transport::Transport;

use crate::connection_handler::ConnectionHandler;
use crate::error::{McpErrorKind, ReachError};
use crate::handshake::HandshakeTransport;
use crate::json::UNREADABLE;
use crate::request_error::RequestError;
use crate::transport_error::{describe_http, is_foreign_answer, request_error};

/// The longest that `server/discover` may stay unanswered before `initialize` is sent.
const DISCOVER_TIMEOUT: Duration = Duration::from_secs(2);
/// The part of a start's limit that this may take at most: one in so many.
const DISCOVER_SHARE: u32 = 10;

/// Why the handshake failed.
#[derive(Debug)]
pub(super) struct HandshakeError {
    pub(super) why: String,
    /// What kind of error it is, with the cause.
    kind: fn(String) -> McpErrorKind,
    /// The status of HTTP that the server answered with, if that is the cause.
    code: Option<u16>,
    pub(super) next: NextHandshake,
}

impl HandshakeError {
    /// Returns why the server cannot be used.
    pub(super) fn into_fault(self) -> McpErrorKind {
        match self.code {
            Some(code) => ReachError::Status { code, message: self.why }.into(),
            None => (self.kind)(self.why),
        }
    }
}

/// The next attempt after a failed handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextHandshake {
    OlderGreeting,
    NewerGreeting,
    /// The server refused `initialize` alone, which it took before.
    BothGreetings,
    Nothing,
}

/// Returns whether a server that agreed on this version before did so by `initialize`.
pub(super) fn takes_initialize(protocol: &str) -> bool {
    // Versions are dates, so that their order is that of their texts.
    !protocol.is_empty() && protocol < ProtocolVersion::V_2026_07_28.as_str()
}

/// Returns how long `server/discover` may stay unanswered at a start of this limit: half of it where
/// the server answered that before, and otherwise a small part.
pub(super) fn discover_timeout(start: Duration, known_protocol: &str) -> Duration {
    if known_protocol.is_empty() || takes_initialize(known_protocol) {
        DISCOVER_TIMEOUT.min(start / DISCOVER_SHARE)
    } else {
        start / 2
    }
}

/// Agrees on the protocol.
pub(super) async fn agree<T>(
    host: ConnectionHandler,
    transport: T,
    mode: ClientLifecycleMode,
    discover_timeout: Duration,
) -> Result<RunningService<RoleClient, ConnectionHandler>, HandshakeError>
where
    T: Transport<RoleClient> + 'static,
{
    let (transport, late) = HandshakeTransport::new(transport, discover_timeout);
    let is_initialize = matches!(mode, ClientLifecycleMode::Initialize);
    let running = Box::pin(host.serve_with_lifecycle(transport, mode)).await;
    running.map_err(|error| {
        let next = match &error {
            _ if late.took_it() => NextHandshake::NewerGreeting,
            ClientInitializeError::JsonRpcError(_) if is_initialize => NextHandshake::BothGreetings,
            ClientInitializeError::ExpectedInitResult(_)
            | ClientInitializeError::TransportError { .. } => NextHandshake::OlderGreeting,
            _ => NextHandshake::Nothing,
        };
        let cause = match &error {
            // The older greeting says more: servers answer it in words.
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => fallback,
            other => other,
        };
        let why = describe_agreement_error(cause);
        let mut code = None;
        let kind: fn(String) -> McpErrorKind = match failed_request(cause) {
            Some(RequestError::SignIn { .. }) => |why| ReachError::SignIn(why).into(),
            Some(RequestError::Way { made: true, code: None, .. }) => no_server,
            Some(RequestError::Way { code: status, .. }) => {
                code = *status;
                McpErrorKind::Handshake
            }
            Some(_) => McpErrorKind::Handshake,
            None => match cause {
                ClientInitializeError::JsonRpcError(error) if error.code.0 == UNREADABLE => {
                    no_server
                }
                ClientInitializeError::TransportError { error, .. } => {
                    let is_foreign = error.error.downcast_ref().is_some_and(is_foreign_answer);
                    if is_foreign { no_server } else { |why| ReachError::Http(why).into() }
                }
                _ => McpErrorKind::Handshake,
            },
        };
        HandshakeError { why: for_terminal_line(&why, 400), kind, code, next }
    })
}

fn no_server(why: String) -> McpErrorKind {
    ReachError::NoServer(why).into()
}

/// Returns the request of ours that failed, if that was the cause.
fn failed_request(error: &ClientInitializeError) -> Option<&RequestError> {
    let ClientInitializeError::TransportError { error, .. } = error else { return None };
    request_error(error.error.downcast_ref()?)
}

/// Why agreeing failed, without the names that the library has for its parts.
fn describe_agreement_error(error: &ClientInitializeError) -> String {
    match failed_request(error) {
        Some(RequestError::SignIn { said, .. }) => return said.clone(),
        // What a page says is for browsers.
        Some(RequestError::Way { said, theirs, .. })
            if theirs.trim().is_empty() || theirs.trim_start().starts_with('<') =>
        {
            return said.clone();
        }
        Some(RequestError::Way { said, theirs, .. }) => return format!("{said}: {theirs}"),
        Some(RequestError::Refused { how, message }) => return format!("{how}: {message}"),
        _ => {}
    }
    match error {
        ClientInitializeError::JsonRpcError(error) if error.code.0 == UNREADABLE => {
            error.message.to_string()
        }
        ClientInitializeError::TransportError { error, .. } => match error.error.downcast_ref() {
            Some(error) => describe_http(error),
            None => describe_error(&*error.error),
        },
        other => describe_error(other),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use serde_json::{Value, json};
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
    use tokio::task::JoinSet;

    use super::*;
    use crate::stdio_transport::PipeTransport;

    /// A server's answer to a greeting.
    type AnswerFn = fn(method: &str) -> Option<Value>;

    /// Reads nothing for a while, as one that is downloaded first, and then answers all of it.
    async fn serve(stream: DuplexStream, answers: AnswerFn) {
        tokio::time::sleep(Duration::from_secs(25)).await;
        let (input, mut output) = tokio::io::split(stream);
        let mut lines = BufReader::new(input).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let asked: Value = serde_json::from_str(&line).unwrap();
            let Some(mut answer) = answers(asked["method"].as_str().unwrap()) else { continue };
            answer["jsonrpc"] = json!("2.0");
            answer["id"] = asked["id"].clone();
            output.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
        }
    }

    /// Agrees with the server at the other end.
    async fn agreed(
        ours: DuplexStream,
    ) -> Result<RunningService<RoleClient, ConnectionHandler>, HandshakeError> {
        let (input, output) = tokio::io::split(ours);
        let mode = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::LATEST],
            legacy_version: None,
        };
        let lines = PipeTransport::new(input, output, Arc::default());
        agree(ConnectionHandler::new(Path::new("/")), lines, mode, DISCOVER_TIMEOUT).await
    }

    async fn greeted(answers: AnswerFn) -> Result<String, HandshakeError> {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let mut server = JoinSet::new();
        server.spawn(serve(theirs, answers));
        let running = agreed(ours).await?;
        let version = running.peer().peer_info().unwrap().protocol_version.to_string();
        Ok(version)
    }

    fn refused() -> Option<Value> {
        Some(json!({"error": {"code": -32601, "message": "no such method"}}))
    }

    fn initialized() -> Option<Value> {
        let info = json!({"name": "slow", "version": "1"});
        let result =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info});
        Some(json!({"result": result}))
    }

    fn discovered() -> Option<Value> {
        Some(json!({"result": {
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {},
            "ttlMs": 0,
            "cacheScope": "private",
        }}))
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_answers_both_greetings_late_is_agreed_with() {
        let older = greeted(|method| match method {
            "server/discover" => refused(),
            "initialize" => initialized(),
            _ => None,
        });
        assert_eq!(older.await.unwrap(), "2025-06-18");
        // Some pass over what they do not know.
        let silent = greeted(|method| if method == "initialize" { initialized() } else { None });
        assert_eq!(silent.await.unwrap(), "2025-06-18");
        let both = greeted(|method| match method {
            "server/discover" => discovered(),
            "initialize" => initialized(),
            _ => None,
        });
        assert_eq!(both.await.unwrap(), "2025-06-18");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_half_read_when_discover_has_waited_too_long_is_not_lost() {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let mut server = JoinSet::new();
        server.spawn(async move {
            let (input, mut output) = tokio::io::split(theirs);
            let mut lines = BufReader::new(input).lines();
            let asked = lines.next_line().await.unwrap().unwrap();
            let asked: Value = serde_json::from_str(&asked).unwrap();
            let mut answer = discovered().unwrap();
            answer["jsonrpc"] = json!("2.0");
            answer["id"] = asked["id"].clone();
            let answer = format!("{answer}\n");
            let (first, rest) = answer.split_at(20);
            output.write_all(first.as_bytes()).await.unwrap();
            // Sent once `discover` has waited too long.
            let asked = lines.next_line().await.unwrap().unwrap();
            let asked: Value = serde_json::from_str(&asked).unwrap();
            assert_eq!(asked["method"], "initialize");
            output.write_all(rest.as_bytes()).await.unwrap();
            let mut answer = refused().unwrap();
            answer["jsonrpc"] = json!("2.0");
            answer["id"] = asked["id"].clone();
            output.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            let _end = lines.next_line().await;
        });
        let error = agreed(ours).await.unwrap_err();
        assert_eq!(error.next, NextHandshake::NewerGreeting);
    }

    #[test]
    fn discover_waits_a_short_part_of_a_start_unless_the_server_answered_it_before() {
        let seconds = Duration::from_secs;
        assert_eq!(discover_timeout(seconds(60), ""), seconds(2));
        assert_eq!(discover_timeout(seconds(5), "2025-06-18"), Duration::from_millis(500));
        assert_eq!(discover_timeout(seconds(60), "2026-07-28"), seconds(30));
        assert!(takes_initialize("2025-11-25") && !takes_initialize("2026-07-28"));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_knows_only_the_newer_greeting_is_started_again_and_waited_for() {
        let newer = greeted(|method| match method {
            "server/discover" => discovered(),
            "initialize" => refused(),
            _ => None,
        });
        assert_eq!(newer.await.unwrap_err().next, NextHandshake::NewerGreeting);
        let neither = greeted(|method| match method {
            "server/discover" | "initialize" => refused(),
            _ => None,
        });
        assert_eq!(neither.await.unwrap_err().next, NextHandshake::Nothing);
    }
}
