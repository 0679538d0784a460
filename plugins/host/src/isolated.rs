//! A plugin in a process of its own, which is killed and restarted if it hangs or dies.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use deputize_core::{BoxFuture, Resource, ToolCx};
use deputize_process::{Command, Supervisor, SupervisorError};
use parking_lot::Mutex;
use tokio::time::timeout;

use crate::boundary::{CancelResult, PluginBoundary, PluginCall, SETTLE};
use crate::error::{HostError, PluginError};
use crate::host::{Host, host_gone};

/// Memory limit of a plugin in MB (1,048,576 bytes), unless set otherwise.
pub const MEMORY_MB: u32 = 1024;

/// How a host process is started: a program whose `main` calls [`host_main`](crate::host_main)
/// when it is started with these arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostProgram {
    /// An absolute path.
    pub program: PathBuf,
    /// Arguments of the program.
    pub args: Vec<OsString>,
    /// Its complete environment, which the plugin sees.
    pub env: BTreeMap<OsString, OsString>,
    /// Memory limit in MB (1,048,576 bytes) from when it loads the plugin, beside what it uses by
    /// then. Only Linux enforces it.
    pub memory_mb: u32,
}

/// Returns the supervisor of the processes of a call's session; without a call, the program's.
type OwnerFn = dyn Fn(Option<&ToolCx>) -> Result<Arc<Supervisor>, SupervisorError> + Send + Sync;

/// A plugin in a process of its own, one for each session, started at its first call.
pub struct IsolatedPlugin {
    path: PathBuf,
    sha256: String,
    program: HostProgram,
    supervisor: Arc<OwnerFn>,
}

impl fmt::Debug for IsolatedPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IsolatedPlugin({})", self.path.display())
    }
}

/// The host processes of a session, by plugin. They end with it.
#[derive(Default)]
struct Hosts(Mutex<BTreeMap<PathBuf, Arc<Slot>>>);

/// The host process of a plugin, if one runs.
#[derive(Default)]
struct Slot(tokio::sync::Mutex<Option<Arc<Host>>>);

impl Resource for Hosts {
    fn close<'a>(&'a self) -> BoxFuture<'a, ()> {
        self.0.lock().clear();
        Box::pin(async {})
    }
}

impl IsolatedPlugin {
    /// Creates the plugin at a path, whose file must have this digest. No process is started yet:
    /// the first call starts it, and fails if `supervisor` does.
    #[must_use]
    pub fn new(
        path: PathBuf,
        sha256: String,
        program: HostProgram,
        supervisor: impl Fn(Option<&ToolCx>) -> Result<Arc<Supervisor>, SupervisorError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { path, sha256, program, supervisor: Arc::new(supervisor) }
    }

    async fn start(&self, cx: Option<&ToolCx>) -> Result<Host, PluginError> {
        let owner = Arc::new((self.supervisor)(cx).map_err(HostError::from)?.owner());
        let mut command = Command::new(self.program.program.clone(), "/");
        command.args.clone_from(&self.program.args);
        command.env.clone_from(&self.program.env);
        let service = owner.open(&command).await.map_err(HostError::Start)?;
        let path = self.path.to_string_lossy();
        tracing::debug!(plugin = %path, "plugin process started");
        Host::start(service, &path, &self.sha256, self.program.memory_mb).await
    }

    /// Returns the session's process for this plugin, and starts one if there is none.
    async fn host(&self, cx: &ToolCx) -> Result<Arc<Host>, PluginError> {
        let hosts = cx.agent.session.settings.get_or_insert_with(Hosts::default);
        let slot = {
            let mut hosts = hosts.0.lock();
            Arc::clone(hosts.entry(self.path.clone()).or_default())
        };
        let mut held = slot.0.lock().await;
        if let Some(host) = held.as_ref().filter(|host| !host.has_ended()) {
            return Ok(Arc::clone(host));
        }
        let started = Arc::new(self.start(Some(cx)).await?);
        *held = Some(Arc::clone(&started));
        Ok(started)
    }
}

impl PluginBoundary for IsolatedPlugin {
    fn describe(&self) -> BoxFuture<'_, Result<String, PluginError>> {
        Box::pin(async move { self.start(None).await?.describe().await })
    }

    fn call<'a>(
        &'a self,
        call: PluginCall,
        cx: &'a ToolCx,
    ) -> BoxFuture<'a, Result<CancelResult, PluginError>> {
        Box::pin(async move {
            let host = tokio::select! {
                biased;
                host = self.host(cx) => host?,
                () = cx.cancel.cancelled() => return Ok(CancelResult::Left("it was not begun")),
            };
            let again = call.repeatable.then(|| call.clone());
            let ended = match await_answer(&host, call, cx).await {
                Err(ended @ PluginError::Host(HostError::Ended { others: 1.., .. })) => ended,
                settled => return settled,
            };
            let Some(call) = again.filter(|_| !cx.cancel.is_cancelled()) else { return Err(ended) };
            // It is not known which call ended the process. Alone, each call harms no other.
            let own = tokio::select! {
                biased;
                own = self.start(Some(cx)) => own?,
                () = cx.cancel.cancelled() => return Ok(CancelResult::Left("it was not begun again")),
            };
            await_answer(&own, call, cx).await
        })
    }
}

/// Makes a call in a host process. Returns its answer, or that it was abandoned after a
/// cancellation.
///
/// # Errors
/// If the process ends first.
async fn await_answer(
    host: &Host,
    call: PluginCall,
    cx: &ToolCx,
) -> Result<CancelResult, PluginError> {
    let mut pending = host.call(call);
    let answered = loop {
        tokio::select! {
            biased;
            Some(note) = pending.notes.recv() => cx.report_progress(&note),
            answered = &mut pending.answer => break answered,
            () = cx.cancel.cancelled() => {
                pending.cancel();
                match timeout(SETTLE, &mut pending.answer).await {
                    Ok(answered) => break answered,
                    Err(_) => {
                        host.kill();
                        return Ok(CancelResult::Left(
                            "it did not end when it was told, so its process was ended",
                        ));
                    }
                }
            }
        }
    };
    while let Ok(note) = pending.notes.try_recv() {
        cx.report_progress(&note);
    }
    answered.unwrap_or_else(|_| Err(host_gone())).map(CancelResult::Answer)
}
