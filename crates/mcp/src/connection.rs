//! A running server, and requests to it.

use deputize_core::describe_error;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use deputize_core::Cancel;
use deputize_process::{Command, Exit, ServiceProcess, Supervisor};
use rmcp::RoleClient;
use rmcp::model::{
    CancelledNotificationParam, ClientRequest, ProgressToken, ProtocolVersion, RequestId,
    ServerPeerInfo, ServerResult, SubscriptionFilter,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, PeerRequestOptions,
    RunningService,
};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use serde_json::Value;
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::connection_handler::{ConnectionHandler, Notifications, ProgressNote};
use crate::error::{LaunchError, McpError, McpErrorKind, ProtocolViolation};
use crate::handshake::HandshakeTransport;
use crate::http;
use crate::request_error::RequestError;
use crate::server::{ServerConfig, ServerTransport};
use crate::stdio_transport::{ConnectionStatus, PipeTransport, StderrTail};
use crate::transport_error::{from_service, request_error, root};

/// Grace period for a server to exit by itself.
const END_GRACE: Duration = Duration::from_millis(300);
/// Time limit for a program's exit and last output, once its output has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Time limit for sending a cancel message to a server; it is within the grace period of a
/// cancelled call.
const CANCEL_LIMIT: Duration = Duration::from_millis(500);

/// A connection to a server, after the handshake.
pub(crate) struct Connection {
    server: String,
    running: tokio::sync::Mutex<RunningService<RoleClient, ConnectionHandler>>,
    peer: rmcp::Peer<RoleClient>,
    notifications: Notifications,
    heard: Arc<ConnectionStatus>,
    words: Arc<StderrTail>,
    /// The program; `None` for a server that somebody else runs.
    life: tokio::sync::Mutex<Option<ServiceProcess>>,
    /// Whether the server no longer knows this session.
    forgotten: AtomicBool,
    /// The owner of the program, which ends with it.
    supervisor: Option<Arc<Supervisor>>,
    /// Reads its standard error, and notifications of tool changes.
    _hearing: JoinSet<()>,
}

/// A server's program that this one started.
struct StartedProgram {
    life: ServiceProcess,
    supervisor: Arc<Supervisor>,
    words: Arc<StderrTail>,
    /// Reads its standard error.
    hearing: JoinSet<()>,
}

/// Why the handshake failed.
#[derive(Debug)]
struct HandshakeError {
    why: String,
    /// What kind of error it is, with the cause.
    kind: fn(String) -> McpErrorKind,
    next: NextHandshake,
}

/// The next attempt after a failed handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextHandshake {
    OlderGreeting,
    NewerGreeting,
    /// The server refused `initialize` alone, which it took before.
    BothGreetings,
    Nothing,
}

type SupervisorFn<'a> = dyn Fn() -> Result<Arc<Supervisor>, McpErrorKind> + Send + Sync + 'a;

/// The longest that `server/discover` may stay unanswered before `initialize` is sent.
const DISCOVER_TIMEOUT: Duration = Duration::from_secs(2);
/// The part of a start's limit that this may take at most: one in so many.
const DISCOVER_SHARE: u32 = 10;

/// Time limits of an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    /// Limit without progress.
    pub(crate) idle: Duration,
    /// Limit in total.
    pub(crate) total: Duration,
}

impl Connection {
    /// Starts or reaches a server, and does the handshake. A server that answers `server/discover`
    /// with anything but a refusal is restarted and gets `initialize`; so is one that answers late
    /// and knows nothing else, and then it has the full time limit. `known_protocol` is the version
    /// of the last handshake, or empty; a server that took `initialize` then gets nothing else.
    pub(crate) async fn open(
        server: &ServerConfig,
        root: &Path,
        supervisor: &SupervisorFn<'_>,
        known_protocol: &str,
    ) -> Result<Self, McpError> {
        if takes_initialize(known_protocol) {
            let mode = ClientLifecycleMode::Initialize;
            match Self::open_as(server, root, supervisor, mode, Duration::ZERO).await {
                Err((_, NextHandshake::BothGreetings)) => {}
                opened => return opened.map_err(|(error, _)| error),
            }
        }
        let limit = discover_timeout(server.limits.start, known_protocol);
        let preferred_versions = vec![ProtocolVersion::LATEST];
        let both = ClientLifecycleMode::Auto {
            preferred_versions: preferred_versions.clone(),
            legacy_version: None,
        };
        let mode = match Self::open_as(server, root, supervisor, both, limit).await {
            Ok(link) => return Ok(link),
            Err((error, NextHandshake::Nothing | NextHandshake::BothGreetings)) => {
                return Err(error);
            }
            Err((_, NextHandshake::OlderGreeting)) => ClientLifecycleMode::Initialize,
            Err((_, NextHandshake::NewerGreeting)) => {
                ClientLifecycleMode::Discover { preferred_versions }
            }
        };
        // In the second mode the only limit is that of the whole start.
        let limit = server.limits.start;
        Self::open_as(server, root, supervisor, mode, limit).await.map_err(|(error, _)| error)
    }

    async fn open_as(
        server: &ServerConfig,
        root: &Path,
        supervisor: &SupervisorFn<'_>,
        mode: ClientLifecycleMode,
        discover_timeout: Duration,
    ) -> Result<Self, (McpError, NextHandshake)> {
        let wrong = |fault: McpErrorKind| McpError::new(&server.name, fault);
        let ends = |fault: McpErrorKind| (wrong(fault), NextHandshake::Nothing);
        match &server.reach {
            ServerTransport::Url { url, headers } => {
                let transport = http::transport(server, url, headers).map_err(ends)?;
                let heard = Arc::new(ConnectionStatus::default());
                let handler = ConnectionHandler::new(root);
                let running = agree(handler, transport, mode, discover_timeout).await;
                let running = running
                    .map_err(|HandshakeError { why, kind, next }| (wrong(kind(why)), next))?;
                Ok(Self::new(server, running, heard, None))
            }
            ServerTransport::Program { path, args, env, cwd } => {
                let supervisor = supervisor().map_err(ends)?;
                let owner = Arc::new(supervisor.owner());
                let cwd = cwd.prepare(root).await;
                let cwd = cwd.map_err(|error| ends(LaunchError::Directory(error).into()))?;
                let mut command = Command::new(path, cwd);
                command.args.clone_from(args);
                command.env.clone_from(env);
                let service = owner
                    .open(&command)
                    .await
                    .map_err(|error| ends(LaunchError::from(error).into()))?;
                let (stdin, stdout, stderr, mut life) = service.into_parts();
                let words = Arc::new(StderrTail::default());
                let mut hearing = JoinSet::new();
                let hears = Arc::clone(&words);
                hearing.spawn(async move { hears.hear(stderr).await });
                let heard = Arc::new(ConnectionStatus::default());
                let stdin = stdin.ok_or_else(|| ends(McpErrorKind::Unknown))?;
                let lines = PipeTransport::new(stdout, stdin, Arc::clone(&heard));
                let HandshakeError { why, next, .. } = match agree(
                    ConnectionHandler::new(root),
                    lines,
                    mode,
                    discover_timeout,
                )
                .await
                {
                    Ok(running) => {
                        let program = StartedProgram { life, supervisor, words, hearing };
                        return Ok(Self::new(server, running, heard, Some(program)));
                    }
                    Err(error) => error,
                };
                let fault = match heard.fault() {
                    Some(garbage) => garbage.into(),
                    None => McpErrorKind::Handshake(describe(why, &heard, ended(&mut life).await)),
                };
                let _heard_out = tokio::time::timeout(LAST_WORDS, hearing.join_next()).await;
                let words = words.describe();
                Err((McpError { words, ..wrong(fault) }, next))
            }
        }
    }

    fn new(
        server: &ServerConfig,
        running: RunningService<RoleClient, ConnectionHandler>,
        heard: Arc<ConnectionStatus>,
        program: Option<StartedProgram>,
    ) -> Self {
        let peer = running.peer().clone();
        let notifications = running.service().notifications();
        let (life, supervisor, words, mut hearing) = match program {
            Some(it) => (Some(it.life), Some(it.supervisor), it.words, it.hearing),
            None => (None, None, Arc::default(), JoinSet::new()),
        };
        hears_changes(&peer, &notifications, &mut hearing);
        Self {
            server: server.name.clone(),
            running: tokio::sync::Mutex::new(running),
            peer,
            notifications,
            heard,
            words,
            life: tokio::sync::Mutex::new(life),
            forgotten: AtomicBool::new(false),
            supervisor,
            _hearing: hearing,
        }
    }

    /// Returns whether this program started it.
    pub(crate) const fn is_ours(&self) -> bool {
        self.supervisor.is_some()
    }

    /// Returns the server's description of itself.
    pub(crate) fn info(&self) -> Option<Arc<ServerPeerInfo>> {
        self.peer.peer_info()
    }

    /// Returns its notifications.
    pub(crate) const fn notifications(&self) -> &Notifications {
        &self.notifications
    }

    /// Returns whether it is gone, or no longer knows the session.
    pub(crate) fn is_closed(&self) -> bool {
        self.forgotten.load(Ordering::Relaxed)
            || self.heard.is_closed()
            || self.peer.is_transport_closed()
    }

    /// Sends a request and waits for the answer. `on_progress` gets notes of progress. A request
    /// that is cancelled or runs out of time is cancelled at the server.
    pub(crate) async fn ask(
        &self,
        request: ClientRequest,
        timeouts: Timeouts,
        cancel: &Cancel,
        on_progress: &(dyn Fn(&str) + Sync),
    ) -> Result<Value, RequestError> {
        let answer = Box::pin(self.send(request, timeouts, cancel, on_progress)).await;
        if let Err(error) = &answer {
            let error = error.label();
            tracing::debug!(server = self.server, error, "request to the server failed");
        }
        if matches!(answer, Err(RequestError::Forgotten { .. })) {
            self.forgotten.store(true, Ordering::Relaxed);
        }
        answer
    }

    async fn send(
        &self,
        request: ClientRequest,
        timeouts: Timeouts,
        cancel: &Cancel,
        on_progress: &(dyn Fn(&str) + Sync),
    ) -> Result<Value, RequestError> {
        let progress = self.notifications.progress();
        let sent = OnceLock::new();
        // The limits are kept here: at its own the library waits until the server has taken the message
        // that it shall stop, and one that hangs never does.
        let asking = async {
            let options = PeerRequestOptions::no_options();
            let handle = self.peer.send_cancellable_request(request, options).await?;
            let _first = sent.set((handle.id.clone(), handle.progress_token.clone()));
            handle.await_response().await
        };
        let why = tokio::select! {
            biased;
            answer = asking => return value(answer.map_err(from_service)?),
            () = self.heard.closed() => return Err(RequestError::Ended),
            () = cancel.cancelled() => RequestError::Cancelled,
            limit = wait(timeouts, progress, &sent, on_progress) => RequestError::Slow(limit),
        };
        if let Some((id, _)) = sent.into_inner() {
            self.stop(id).await;
        }
        Err(why)
    }

    /// Sends a cancel to the server. A program that does not read it would not read later messages
    /// either: it is ended, and restarted with the next call.
    async fn stop(&self, id: RequestId) {
        let why = "nobody waits for it any more".to_owned();
        let params = CancelledNotificationParam::new(Some(id), Some(why));
        let sent = timeout(CANCEL_LIMIT, self.peer.notify_cancelled(params)).await;
        if sent.is_ok() || !self.heard.is_writing() {
            return;
        }
        tracing::warn!(server = self.server, "server ended: it does not take messages");
        self.heard.close();
        if let Some(life) = self.life.lock().await.take() {
            let _all = life.end().await;
        }
    }

    /// Returns how it ended (the exit, or what it did wrong), and its last words if it exited.
    pub(crate) async fn describe_end(&self) -> (String, String) {
        let how = match self.heard.fault() {
            Some(ProtocolViolation::NoMessages { count, first }) => {
                let how = format!("it printed {count} lines that are not messages on its output");
                return (how, first);
            }
            Some(garbage) => garbage.to_string(),
            None => match self.life.lock().await.as_mut() {
                Some(life) => {
                    ended(life).await.unwrap_or_else(|| "it closed its output".to_owned())
                }
                None => "it was ended".to_owned(),
            },
        };
        (how, String::new())
    }

    /// Returns the last lines of its standard error.
    pub(crate) fn words(&self) -> String {
        self.words.describe()
    }

    /// Returns the number of lines that were not messages, and the first of them.
    pub(crate) fn stray(&self) -> Option<(u32, String)> {
        self.heard.stray()
    }

    /// Ends it, with everything it started.
    pub(crate) async fn close(&self) {
        let mut running = self.running.lock().await;
        let _closed = running.close_with_timeout(END_GRACE).await;
        if let Some(mut life) = self.life.lock().await.take() {
            // Its input is closed: most end by themselves now.
            let _ended = tokio::time::timeout(END_GRACE, life.wait_for_exit()).await;
            let _all = life.end().await;
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection({})", self.server)
    }
}

/// Waits within the timeouts, and returns the limit that passed; `on_progress` receives progress
/// notes.
async fn wait(
    timeouts: Timeouts,
    mut progress: Receiver<ProgressNote>,
    of: &OnceLock<(RequestId, ProgressToken)>,
    on_progress: &(dyn Fn(&str) + Sync),
) -> Duration {
    let total = sleep(timeouts.total);
    let idle = sleep(timeouts.idle);
    tokio::pin!(total, idle);
    loop {
        let said = async {
            match progress.recv().await {
                Ok(said) => Some(said),
                Err(RecvError::Lagged(_)) => None,
                Err(RecvError::Closed) => std::future::pending().await,
            }
        };
        let said = tokio::select! {
            biased;
            () = &mut total => return timeouts.total,
            said = said => said,
            () = &mut idle => return timeouts.idle,
        };
        match said {
            Some((token, words)) if of.get().is_some_and(|(_, ours)| *ours == token) => {
                on_progress(&words)
            }
            Some(_) => continue,
            // Of those that were missed one may have been about this request.
            None => {}
        }
        idle.as_mut().reset(Instant::now() + timeouts.idle);
    }
}

/// Subscribes to changes: in the newer protocol, a server reports them only to subscribers.
fn hears_changes(
    peer: &rmcp::Peer<RoleClient>,
    notifications: &Notifications,
    hearing: &mut JoinSet<()>,
) {
    let Some(info) = peer.peer_info() else { return };
    let tools = info.capabilities.tools.as_ref();
    let tells = tools.and_then(|tools| tools.list_changed) == Some(true);
    if !tells || info.protocol_version < ProtocolVersion::V_2026_07_28 {
        return;
    }
    let peer = peer.clone();
    let notifications = notifications.clone();
    hearing.spawn(async move {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        let Ok(mut changes) = peer.listen(filter).await else {
            tracing::warn!("the server's changes of tools are not heard of");
            return;
        };
        while let Ok(Some(_)) = changes.next().await {
            notifications.record_tools_change();
        }
    });
}

/// Returns whether a server that agreed on this version before did so by `initialize`.
fn takes_initialize(protocol: &str) -> bool {
    // Versions are dates, so that their order is that of their texts.
    !protocol.is_empty() && protocol < ProtocolVersion::V_2026_07_28.as_str()
}

/// Returns how long `server/discover` may stay unanswered at a start of this limit: half of it where
/// the server answered that before, and otherwise a small part.
fn discover_timeout(start: Duration, known_protocol: &str) -> Duration {
    if known_protocol.is_empty() || takes_initialize(known_protocol) {
        DISCOVER_TIMEOUT.min(start / DISCOVER_SHARE)
    } else {
        start / 2
    }
}

/// Agrees on the protocol.
async fn agree<T>(
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
        let kind = match failed_request(cause) {
            Some(RequestError::SignIn { .. }) => McpErrorKind::SignIn,
            None if matches!(error, ClientInitializeError::TransportError { .. }) => {
                McpErrorKind::Http
            }
            _ => McpErrorKind::Handshake,
        };
        HandshakeError { why: deputize_core::sanitize::for_terminal_line(&why, 400), kind, next }
    })
}

/// Returns the request of ours that failed, if that was the cause.
fn failed_request(error: &ClientInitializeError) -> Option<&RequestError> {
    let ClientInitializeError::TransportError { error, .. } = error else { return None };
    request_error(error.error.downcast_ref()?)
}

/// Why agreeing failed, without the names that the library has for its parts.
fn describe_agreement_error(error: &ClientInitializeError) -> String {
    if let Some(RequestError::SignIn { said, .. } | RequestError::Way { said, .. }) =
        failed_request(error)
    {
        return said.clone();
    }
    match error {
        ClientInitializeError::TransportError { error, .. } => {
            match error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
                Some(StreamableHttpError::Client(error)) => root(error),
                _ => describe_error(&*error.error),
            }
        }
        other => describe_error(other),
    }
}

fn describe(why: String, heard: &ConnectionStatus, end: Option<String>) -> String {
    // That it ended is the cause only where nothing else was said.
    let mut said = match end {
        Some(end) if why.contains("connection closed") || why.contains("Broken pipe") => end,
        _ => why,
    };
    if let Some((count, first)) = heard.stray() {
        said =
            format!("{said}; it printed {count} lines that are not messages, the first: {first}");
    }
    said
}

/// Returns how a program ended; `None` if it still runs.
async fn ended(life: &mut ServiceProcess) -> Option<String> {
    let exit = tokio::time::timeout(LAST_WORDS, life.wait_for_exit()).await.ok()?;
    Some(match exit {
        Exit::Code(code) => format!("its program ended with exit code {code}"),
        Exit::Signal(signal) => format!("its program was ended by signal {signal}"),
        other => format!("its program ended ({other:?})"),
    })
}

/// An answer as JSON, whatever the library took it for: servers are freer in what they say than
/// types are.
fn value(result: ServerResult) -> Result<Value, RequestError> {
    serde_json::to_value(result).map_err(|error| RequestError::Way {
        said: format!("the server's answer cannot be read ({error})"),
        made: true,
        theirs: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};

    use super::*;

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

    async fn greeted(answers: AnswerFn) -> Result<String, HandshakeError> {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let mut server = JoinSet::new();
        server.spawn(serve(theirs, answers));
        let (input, output) = tokio::io::split(ours);
        let mode = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::LATEST],
            legacy_version: None,
        };
        let lines = PipeTransport::new(input, output, Arc::default());
        let handler = ConnectionHandler::new(Path::new("/"));
        let running = agree(handler, lines, mode, DISCOVER_TIMEOUT).await?;
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
        let (input, output) = tokio::io::split(ours);
        let mode = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::LATEST],
            legacy_version: None,
        };
        let lines = PipeTransport::new(input, output, Arc::default());
        let handler = ConnectionHandler::new(Path::new("/"));
        let error = agree(handler, lines, mode, DISCOVER_TIMEOUT).await.unwrap_err();
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
