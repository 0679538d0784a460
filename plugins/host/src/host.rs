//! A host process, as its owner uses it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deputize_core::sanitize::for_terminal_line;
use deputize_process::{Exit, Service, ServiceProcess};
use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::boundary::{DESCRIBE_LIMIT, PluginCall};
use crate::error::{HostError, PluginError};
use crate::wire::{HostMessage, HostRequest, message, read};

/// Time that a process may take to exit after its output has ended.
const EXIT_LIMIT: Duration = Duration::from_secs(2);
/// Time to wait for the rest of its standard error.
const WORDS_LIMIT: Duration = Duration::from_millis(200);
/// Maximum bytes stored of its standard error: the last ones.
const WORDS_BYTES: usize = 4096;
/// Maximum characters shown of them.
const WORDS_CHARS: usize = 300;
/// Messages of libraries when an allocation fails.
const NO_MEMORY: [&str; 4] =
    ["memory allocation of", "bad_alloc", "out of memory", "Cannot allocate memory"];

/// A host process with its plugin loaded. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Host {
    shared: Arc<HostInner>,
    next: AtomicU64,
    /// Serves the process's streams.
    _task: JoinSet<()>,
}

#[derive(Debug)]
struct HostInner {
    state: Mutex<HostState>,
    out: mpsc::UnboundedSender<Vec<u8>>,
    kill: CancellationToken,
    memory_mb: u32,
}

#[derive(Debug, Default)]
struct HostState {
    waiting: BTreeMap<u64, PendingAnswer>,
    /// How the process ended, and its last words.
    ended: Option<(String, String)>,
}

#[derive(Debug)]
struct PendingAnswer {
    answer: oneshot::Sender<Result<String, PluginError>>,
    notes: mpsc::UnboundedSender<String>,
}

/// A call that has no answer yet.
#[derive(Debug)]
pub(crate) struct PendingCall {
    id: u64,
    shared: Arc<HostInner>,
    pub(crate) answer: oneshot::Receiver<Result<String, PluginError>>,
    pub(crate) notes: mpsc::UnboundedReceiver<String>,
}

impl PendingCall {
    /// Cancels the call.
    pub(crate) fn cancel(&self) {
        self.shared.send(&HostRequest::Cancel { id: self.id }, "");
    }
}

impl Drop for PendingCall {
    /// Cancels the call, because it was abandoned.
    fn drop(&mut self) {
        if self.shared.state().waiting.remove(&self.id).is_some() {
            self.cancel();
        }
    }
}

impl Host {
    /// Makes a started process load a plugin.
    pub(crate) async fn start(
        service: Service,
        path: &str,
        sha256: &str,
        memory_mb: u32,
    ) -> Result<Self, PluginError> {
        let (out, outgoing) = mpsc::unbounded_channel();
        let shared = Arc::new(HostInner {
            state: Mutex::default(),
            out,
            kill: CancellationToken::new(),
            memory_mb,
        });
        let mut task = JoinSet::new();
        task.spawn(serve(service, outgoing, Arc::clone(&shared)));
        let host = Self { shared, next: AtomicU64::new(1), _task: task };
        let sha256 = sha256.to_owned();
        host.within(host.ask(|id| HostRequest::Load { id, sha256, memory_mb }, path)).await?;
        Ok(host)
    }

    /// Returns whether it has ended, so that another one is needed.
    pub(crate) fn has_ended(&self) -> bool {
        self.shared.kill.is_cancelled() || self.shared.state().ended.is_some()
    }

    /// Kills the process with all its calls.
    pub(crate) fn kill(&self) {
        self.shared.kill.cancel();
    }

    /// Returns the plugin's description.
    pub(crate) async fn describe(&self) -> Result<String, PluginError> {
        self.within(self.ask(|id| HostRequest::Describe { id }, "")).await
    }

    /// Begins a call.
    pub(crate) fn call(&self, call: PluginCall) -> PendingCall {
        let PluginCall { tool, arguments, about, repeatable: _ } = call;
        self.ask(|id| HostRequest::Call { id, tool, about }, &arguments)
    }

    /// Waits for an answer within the time limit of a description, and kills the process after it.
    async fn within(&self, mut asked: PendingCall) -> Result<String, PluginError> {
        match timeout(DESCRIBE_LIMIT, &mut asked.answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(host_gone()),
            Err(_) => {
                self.kill();
                Err(PluginError::Slow(DESCRIBE_LIMIT.as_secs()))
            }
        }
    }

    fn ask(&self, head: impl FnOnce(u64) -> HostRequest, text: &str) -> PendingCall {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        let (notes, noted) = mpsc::unbounded_channel();
        let waiting = PendingAnswer { answer, notes };
        self.shared.state().waiting.insert(id, waiting);
        self.shared.send(&head(id), text);
        self.shared.fail_if_ended();
        PendingCall { id, shared: Arc::clone(&self.shared), answer: answered, notes: noted }
    }
}

/// Returns the error of a call whose process is gone for an unknown reason.
pub(crate) fn host_gone() -> PluginError {
    HostError::Ended { how: "has gone".to_owned(), words: String::new(), others: 0 }.into()
}

impl HostInner {
    fn state(&self) -> MutexGuard<'_, HostState> {
        self.state.lock()
    }

    /// Sends a request. If the process has gone, whoever waits gets the error another way.
    fn send(&self, head: &HostRequest, text: &str) {
        if let Ok(message) = message(head, text) {
            let _unread = self.out.send(message);
        }
    }

    fn take(&self, tell: &HostMessage, text: String) {
        let mut state = self.state();
        match tell {
            HostMessage::Answer { id } | HostMessage::Failed { id } => {
                let answer = match tell {
                    HostMessage::Failed { .. } => Err(PluginError::Message(text)),
                    _ => Ok(text),
                };
                if let Some(waiting) = state.waiting.remove(id) {
                    let _unread = waiting.answer.send(answer);
                }
            }
            HostMessage::Note { id } => {
                if let Some(waiting) = state.waiting.get(id) {
                    let _unread = waiting.notes.send(text);
                }
            }
        }
    }

    fn ended(&self, how: String, words: String) {
        self.state().ended = Some((how, words));
        self.fail_if_ended();
    }

    /// Fails all pending calls if the process has ended.
    fn fail_if_ended(&self) {
        let mut state = self.state();
        let Some((how, words)) = state.ended.clone() else { return };
        let waiting = std::mem::take(&mut state.waiting);
        let others = waiting.len().saturating_sub(1);
        for waiting in waiting.into_values() {
            let ended = HostError::Ended { how: how.clone(), words: words.clone(), others };
            let _unread = waiting.answer.send(Err(ended.into()));
        }
    }
}

/// Serves the streams of a process until it ends or is killed, and cleans up after it.
async fn serve(
    service: Service,
    mut outgoing: mpsc::UnboundedReceiver<Vec<u8>>,
    shared: Arc<HostInner>,
) {
    let (mut stdin, mut stdout, mut stderr, mut life) = service.into_parts();
    let mut words = Vec::new();
    let write = async {
        while let Some(message) = outgoing.recv().await {
            let Some(stdin) = &mut stdin else { break };
            if stdin.write_all(&message).await.is_err() {
                break;
            }
        }
        // Its last output may still arrive.
        std::future::pending::<()>().await;
    };
    let stderr_reader = async {
        read_stderr(&mut stderr, &mut words).await;
        std::future::pending::<()>().await;
    };
    let why = tokio::select! {
        why = read_messages(&mut stdout, &shared) => why,
        () = shared.kill.cancelled() => Some("was ended, since a call did not end".to_owned()),
        () = write => None,
        () = stderr_reader => None,
    };
    let mut how = match why {
        Some(why) => why,
        None => exit_of(&mut life).await,
    };
    let _gone = life.end().await;
    // A descendant may hold the stream.
    let _rest = timeout(WORDS_LIMIT, read_stderr(&mut stderr, &mut words)).await;
    shared.kill.cancel();
    let words = last_lines(&words);
    if NO_MEMORY.iter().any(|said| words.contains(said)) {
        let most = shared.memory_mb;
        how = format!("{how}: it got no more memory (`memory_mb` of the plugin is {most})");
    }
    // Its own words may hold a secret: the calls that fail have them, where secrets are redacted.
    tracing::warn!(how, "plugin process ended");
    shared.ended(how, words);
}

/// Reads the messages of the process until its output ends. Returns why it must be killed, if it
/// sends something else.
async fn read_messages(
    stdout: &mut (impl AsyncRead + Unpin),
    shared: &HostInner,
) -> Option<String> {
    loop {
        match read::<HostMessage>(stdout).await {
            Ok(Some((tell, text))) => shared.take(&tell, text),
            Ok(None) => return None,
            Err(error) => return Some(format!("was ended, since it sent no message ({error})")),
        }
    }
}

/// Describes how a process ended whose output has.
async fn exit_of(life: &mut ServiceProcess) -> String {
    match timeout(EXIT_LIMIT, life.wait_for_exit()).await {
        Ok(Exit::Code(code)) => format!("ended by itself with exit code {code}"),
        Ok(Exit::Signal(signal)) => format!("died of {}", signal_name(signal)),
        Ok(Exit::TimedOut | Exit::Cancelled) => "was ended".to_owned(),
        Ok(_) => "ended".to_owned(),
        Err(_) => "closed its output".to_owned(),
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        4 => "an illegal instruction (SIGILL)",
        6 => "an abort (SIGABRT)",
        7 => "a bad memory access (SIGBUS)",
        8 => "an arithmetic fault (SIGFPE)",
        9 => "a kill (SIGKILL)",
        11 => "a segmentation fault (SIGSEGV)",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

async fn read_stderr(stderr: &mut (impl AsyncRead + Unpin), words: &mut Vec<u8>) {
    let mut chunk = vec![0; WORDS_BYTES];
    while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
        words.extend(chunk.iter().take(count));
        let surplus = words.len().saturating_sub(WORDS_BYTES);
        words.drain(..surplus);
    }
}

/// Returns the last lines of its standard error, on one line.
fn last_lines(words: &[u8]) -> String {
    let text = String::from_utf8_lossy(words);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(3)..).unwrap_or_default();
    for_terminal_line(&last.join(" | "), WORDS_CHARS)
}
