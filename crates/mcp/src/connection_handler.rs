//! Our end of a connection: what a server learns of us, and what it may request.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use deputize_core::sanitize::for_terminal_line;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ErrorData, Implementation, ProgressNotificationParam,
    ProgressToken, ProtocolVersion,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, RoleClient};
use tokio::sync::broadcast;

/// Our end of a connection. It has roots; it has no model for servers to ask (sampling) and no
/// form for a person to fill (elicitation), and says so.
#[derive(Debug)]
pub(crate) struct ConnectionHandler {
    root: Option<String>,
    notifications: Notifications,
}

/// Notifications of a server.
#[derive(Debug, Clone)]
pub(crate) struct Notifications {
    /// Number of changes of its list of tools.
    tools: Arc<AtomicU64>,
    /// Progress notes of calls.
    progress: broadcast::Sender<ProgressNote>,
}

/// The call that a note is about, and its text.
pub(crate) type ProgressNote = (ProgressToken, String);

/// Limit on progress notes buffered for a slow call.
const KEPT: usize = 64;

impl Default for Notifications {
    fn default() -> Self {
        Self { tools: Arc::default(), progress: broadcast::Sender::new(KEPT) }
    }
}

impl Notifications {
    /// Returns the number of changes of the list of tools.
    pub(crate) fn tool_changes(&self) -> u64 {
        self.tools.load(Ordering::Acquire)
    }

    /// Records a change of the list of tools.
    pub(crate) fn record_tools_change(&self) {
        self.tools.fetch_add(1, Ordering::AcqRel);
    }

    /// Subscribes to progress notes of calls.
    pub(crate) fn progress(&self) -> broadcast::Receiver<ProgressNote> {
        self.progress.subscribe()
    }
}

impl ConnectionHandler {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root_uri(root), notifications: Notifications::default() }
    }

    pub(crate) fn notifications(&self) -> Notifications {
        self.notifications.clone()
    }
}

#[expect(deprecated, reason = "servers of today ask for roots")]
impl ClientHandler for ConnectionHandler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(rmcp::model::RootsCapabilities::default());
        let us = Implementation::new("deputize", env!("CARGO_PKG_VERSION"));
        // Only the older greeting says this, and protocols after this one do not have it.
        ClientConfig::new(capabilities, us)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        let roots = self.root.iter().map(rmcp::model::Root::new).collect();
        Ok(rmcp::model::ListRootsResult::new(roots))
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let of = params.total.map(|total| format!(" of {total}")).unwrap_or_default();
        let words = params.message.map(|words| format!(": {}", for_terminal_line(&words, 200)));
        let said = format!("{}{of}{}", params.progress, words.unwrap_or_default());
        let _nobody_hears = self.notifications.progress.send((params.progress_token, said));
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.notifications.record_tools_change();
    }
}

/// Returns the program's directory as a root for servers.
pub(crate) fn root_uri(path: &Path) -> Option<String> {
    reqwest::Url::from_file_path(path).ok().map(String::from)
}
