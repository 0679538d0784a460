//! A plugin in this process. It has all of this program's rights and may end it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use deputize_core::{BoxFuture, ToolCx, describe_error};
use deputize_plugin::{CallContext, Plugin};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::boundary::{
    CancelResult, DESCRIBE_LIMIT, MAX_NOTES, PluginBoundary, PluginCall, SETTLE,
};
use crate::error::{HostError, PluginError};
use crate::file::PluginFile;
use crate::load::load;

/// Maximum number of cancelled calls of a plugin that go on; beyond it, it gets no calls.
pub const MAX_STUCK: usize = 4;

/// A plugin that is loaded into this process at its first use. Each call has a thread of its own,
/// so one that never ends delays no other.
#[derive(Debug)]
pub struct InProcessPlugin(Arc<PluginInner>);

#[derive(Debug)]
struct PluginInner {
    path: PathBuf,
    sha256: String,
    plugin: OnceLock<Result<Plugin, String>>,
    /// Number of abandoned calls that go on.
    stuck: AtomicUsize,
}

impl InProcessPlugin {
    /// Creates the plugin at a path, whose file must have this digest. It is read at its first use.
    #[must_use]
    pub fn new(path: PathBuf, sha256: String) -> Self {
        Self(Arc::new(PluginInner {
            path,
            sha256,
            plugin: OnceLock::new(),
            stuck: AtomicUsize::new(0),
        }))
    }
}

impl PluginInner {
    fn plugin(&self) -> Result<Plugin, PluginError> {
        let load = || load(&PluginFile::read(&self.path)?.verify(&self.sha256)?);
        let loaded = self.plugin.get_or_init(|| load().map_err(|error| describe_error(&error)));
        loaded.clone().map_err(PluginError::Message)
    }
}

/// State shared between a running call and whoever waits for it.
struct CallInner {
    about: String,
    cancelled: AtomicBool,
    /// Whether it was abandoned.
    left: AtomicBool,
    notes: mpsc::UnboundedSender<String>,
    notes_sent: AtomicU32,
}

impl CallContext for CallInner {
    fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    fn note(&self, text: &str) {
        if self.notes_sent.fetch_add(1, Ordering::Relaxed) < MAX_NOTES {
            // An abandoned call has no receiver.
            let _unheard = self.notes.send(text.to_owned());
        }
    }

    fn about(&self) -> &str {
        &self.about
    }
}

/// Cancels a call when dropped.
struct CancelOnDrop(Arc<CallInner>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
    }
}

impl PluginBoundary for InProcessPlugin {
    fn describe(&self) -> BoxFuture<'_, Result<String, PluginError>> {
        Box::pin(async move {
            let shared = Arc::clone(&self.0);
            let described = on_thread(move || Ok(shared.plugin()?.describe()?))?;
            match timeout(DESCRIBE_LIMIT, described).await {
                Ok(Ok(described)) => described,
                Ok(Err(_)) => Err(PluginError::Message("the plugin's thread has ended".to_owned())),
                Err(_) => Err(PluginError::Slow(DESCRIBE_LIMIT.as_secs())),
            }
        })
    }

    fn call<'a>(
        &'a self,
        call: PluginCall,
        cx: &'a ToolCx,
    ) -> BoxFuture<'a, Result<CancelResult, PluginError>> {
        Box::pin(async move {
            let stuck = self.0.stuck.load(Ordering::Relaxed);
            if stuck >= MAX_STUCK {
                return Err(PluginError::Stuck(stuck));
            }
            let (notes, mut noted) = mpsc::unbounded_channel();
            let call_shared = Arc::new(CallInner {
                about: call.about.clone(),
                cancelled: AtomicBool::new(false),
                left: AtomicBool::new(false),
                notes,
                notes_sent: AtomicU32::new(0),
            });
            let leave = CancelOnDrop(Arc::clone(&call_shared));
            let shared = Arc::clone(&self.0);
            let mut answer = on_thread(move || {
                let answered = shared.plugin().and_then(|plugin| {
                    Ok(plugin.call(&call.tool, &call.arguments, &*call_shared)?)
                });
                if call_shared.left.swap(true, Ordering::AcqRel) {
                    shared.stuck.fetch_sub(1, Ordering::Relaxed);
                }
                answered
            })?;
            let gone = || PluginError::Message("the plugin's thread has ended".to_owned());
            let answered = loop {
                tokio::select! {
                    biased;
                    Some(note) = noted.recv() => cx.report_progress(&note),
                    answered = &mut answer => break answered.map_err(|_| gone())?,
                    () = cx.cancel.cancelled() => {
                        leave.0.cancelled.store(true, Ordering::Relaxed);
                        match timeout(SETTLE, &mut answer).await {
                            Ok(answered) => break answered.map_err(|_| gone())?,
                            Err(_) => return Ok(self.left_behind(&leave.0)),
                        }
                    }
                }
            };
            while let Ok(note) = noted.try_recv() {
                cx.report_progress(&note);
            }
            answered.map(CancelResult::Answer)
        })
    }
}

impl InProcessPlugin {
    fn left_behind(&self, call_shared: &CallInner) -> CancelResult {
        self.0.stuck.fetch_add(1, Ordering::Relaxed);
        if call_shared.left.swap(true, Ordering::AcqRel) {
            // It ended just now.
            self.0.stuck.fetch_sub(1, Ordering::Relaxed);
        }
        CancelResult::Left(
            "it did not end when it was told and goes on in this program: its outcome is unknown",
        )
    }
}

/// Runs work on a thread that is not joined, because a plugin may never return.
fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<oneshot::Receiver<T>, PluginError> {
    let (send, receive) = oneshot::channel();
    let work = move || {
        // The receiver may be gone.
        let _unread = send.send(work());
    };
    std::thread::Builder::new().name("plugin".to_owned()).spawn(work).map_err(HostError::Thread)?;
    Ok(receive)
}
