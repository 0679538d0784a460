//! A running server, and requests to it.

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
use rmcp::service::{ClientLifecycleMode, PeerRequestOptions, RunningService};
use serde_json::Value;
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::connection_handler::{ConnectionHandler, Notifications, ProgressNote};
use crate::error::{LaunchError, McpError, McpErrorKind, ProtocolViolation, stray_lines};
use crate::http;
use crate::request_error::RequestError;
use crate::server::{ServerConfig, ServerTransport};
use crate::stdio_transport::{ConnectionStatus, PipeTransport, StderrTail};
use crate::transport_error::from_service;

mod negotiation;

use negotiation::{HandshakeError, NextHandshake, agree, discover_timeout, takes_initialize};

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

type SupervisorFn<'a> = dyn Fn() -> Result<Arc<Supervisor>, McpErrorKind> + Send + Sync + 'a;

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
                let running = running.map_err(|error| {
                    let next = error.next;
                    (wrong(error.into_fault()), next)
                })?;
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
                hearing.spawn(async move { hears.read_all(stderr).await });
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
                let how = format!("it printed {} on its output", stray_lines(count));
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
    let announces_changes = tools.and_then(|tools| tools.list_changed) == Some(true);
    if !announces_changes || info.protocol_version < ProtocolVersion::V_2026_07_28 {
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

fn describe(why: String, heard: &ConnectionStatus, end: Option<String>) -> String {
    // That it ended is the cause only where nothing else was said.
    let mut said = match end {
        Some(end) if why.contains("connection closed") || why.contains("Broken pipe") => end,
        _ => why,
    };
    if let Some((count, first)) = heard.stray() {
        said = format!("{said}; it printed {}, the first: {first}", stray_lines(count));
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
        code: None,
        said: format!("the server's answer cannot be read ({error})"),
        made: true,
        theirs: String::new(),
    })
}
