//! MCP servers: what is known of them before they start, and the tools that agents get of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use deputize_core::{BoxFuture, Catalog, CatalogError, ToolSource, describe_error};
#[cfg(feature = "mcp-oauth")]
pub use deputize_mcp::oauth;
#[cfg(feature = "mcp-oauth")]
pub use deputize_mcp::{AccessTokenError, AccessTokens, TokenSource};
use deputize_mcp::{
    ApprovalStore, ApprovalStoreError, HintCommands, LISTED_BYTES, McpError, ServerListing,
    ServerOffer, ServerRecord, ServerTarget, Servers, look, offer, tool_index,
};
pub use deputize_mcp::{ServerConfig, ServerDirectory, ToolFilter};
use deputize_runtime::SessionConfig;
use deputize_tools::Processes;
use futures_util::future::join_all;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tempfile::TempDir;

use crate::extension::{Extension, ExtensionContext, ExtensionError};

/// Knowledge about a server before it starts. A recording stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownServer {
    /// The program or address.
    start: ServerTarget,
    /// Its listing and its approval.
    #[serde(rename = "card")]
    record: ServerRecord,
}

impl KnownServer {
    /// Returns what is known of a server that is started or reached like this. What it said when it
    /// was started otherwise does not count.
    #[must_use]
    pub fn new(start: ServerTarget, record: ServerRecord) -> Self {
        let record =
            if record.is_stale(&start) { ServerRecord { listed: None, ..record } } else { record };
        Self { start, record }
    }
}

/// A note for a person about a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerNote {
    /// The server's name.
    pub server: String,
    /// Text of the note.
    pub text: String,
}

/// How the tools of servers are offered to agents.
#[derive(Debug, Clone)]
pub struct ServerOffers {
    /// Which tools of a server are offered, by its name. Without a filter all are.
    pub filters: BTreeMap<String, ToolFilter>,
    /// Servers whose tools no agent gets. Their tools come last in a catalog, without notes.
    pub unused: BTreeSet<String>,
    /// The commands that notes name.
    pub commands: HintCommands,
    /// Limit in bytes of JSON of the declarations that one agent's model is sent of them. A model
    /// whose agent has more is sent a tool that finds them and one that calls them.
    pub listed_bytes: u64,
}

impl Default for ServerOffers {
    fn default() -> Self {
        Self {
            filters: BTreeMap::new(),
            unused: BTreeSet::new(),
            commands: HintCommands::default(),
            listed_bytes: LISTED_BYTES,
        }
    }
}

impl ServerOffers {
    fn is_used(&self, server: &str) -> bool {
        !self.unused.contains(server)
    }

    /// Adds the tools of servers with their index, and returns notes on what is not offered. A tool
    /// whose name is taken is left out: no server's tool takes the place of another tool.
    pub fn add(
        &self,
        known: &BTreeMap<String, KnownServer>,
        catalog: &mut Catalog,
    ) -> Vec<ServerNote> {
        let mut all = Vec::new();
        let mut note = |name: &String, text| {
            if self.is_used(name) {
                all.push(ServerNote { server: name.clone(), text });
            }
        };
        let (used, others): (Vec<_>, Vec<_>) =
            known.iter().partition(|(name, _)| self.is_used(name));
        for (name, KnownServer { start, record }) in used.into_iter().chain(others) {
            let filter = self.filters.get(name).cloned().unwrap_or_default();
            let ServerOffer { entries, notes } =
                offer(name, record, start, &filter, &self.commands);
            notes.into_iter().for_each(|text| note(name, text));
            for entry in entries {
                if let Err(CatalogError::Twice { name: tool, first, .. }) = catalog.insert(entry) {
                    let what = format!(
                        "mcp {name}: not offered: the name {tool} is that of a tool of {first}"
                    );
                    note(name, what);
                }
            }
        }
        if let Some(name) = known.keys().next()
            && let Err(taken) = catalog.set_index(tool_index(self.listed_bytes))
        {
            let text = format!("the tools of MCP servers cannot be searched: {taken}");
            all.push(ServerNote { server: name.clone(), text });
        }
        all
    }

    /// Returns where the tools of children come from, of which `others` are no server's. `None`
    /// where there is no server that could change its tools.
    #[must_use]
    pub fn source(
        self,
        known: &BTreeMap<String, KnownServer>,
        others: Catalog,
        servers: &Servers,
        notes: &[ServerNote],
    ) -> Option<Arc<dyn ToolSource>> {
        let used = known.iter().filter(|(name, _)| self.is_used(name));
        let starts: BTreeMap<String, ServerTarget> =
            used.map(|(name, known)| (name.clone(), known.start.clone())).collect();
        if starts.is_empty() {
            return None;
        }
        let notes = Mutex::new(notes.iter().map(|note| note.text.clone()).collect());
        let servers = servers.clone();
        Some(Arc::new(CurrentTools { offers: self, others, servers, starts, notes }))
    }
}

/// The tools that children begin with, while servers change theirs: of each server what was
/// approved, and it has now.
struct CurrentTools {
    offers: ServerOffers,
    /// The tools that no server brings.
    others: Catalog,
    servers: Servers,
    /// How each server is started or reached that could have tools.
    starts: BTreeMap<String, ServerTarget>,
    /// The notes that were given.
    notes: Mutex<BTreeSet<String>>,
}

impl ToolSource for CurrentTools {
    fn now(&self) -> BoxFuture<'_, (Arc<Catalog>, Vec<String>)> {
        Box::pin(async {
            let mut known = BTreeMap::new();
            let mut notes = Vec::new();
            let asked = self.starts.keys().map(|name| self.servers.now(name));
            for ((name, start), now) in self.starts.iter().zip(join_all(asked).await) {
                match now {
                    Ok(Some(record)) => {
                        known.insert(name.clone(), KnownServer::new(start.clone(), record));
                    }
                    Ok(None) => {}
                    Err(error) => {
                        let why = describe_error(&error);
                        notes.push(format!("{why}. Agents that begin now do not get its tools"));
                    }
                }
            }
            let mut catalog = self.others.clone();
            notes.extend(self.offers.add(&known, &mut catalog).into_iter().map(|note| note.text));
            let mut given = self.notes.lock();
            notes.retain(|note| given.insert(note.clone()));
            drop(given);
            (Arc::new(catalog), notes)
        })
    }
}

/// The MCP servers of an agent.
#[derive(Default)]
pub(crate) struct AgentServers {
    servers: Vec<ServerConfig>,
    /// Where what is approved of them is kept while the agent lives.
    store: OnceLock<TempDir>,
    /// They themselves, shared by all sessions.
    shared: OnceLock<Servers>,
}

impl AgentServers {
    pub(crate) fn new(servers: impl IntoIterator<Item = ServerConfig>) -> Self {
        Self { servers: servers.into_iter().collect(), ..Self::default() }
    }
}

impl Extension for AgentServers {
    fn describe(&self, cx: &ExtensionContext<'_>) -> Result<Value, ExtensionError> {
        let folder = tempfile::Builder::new().prefix("deputize-mcp-").tempdir();
        let folder = folder.map_err(AgentServersError::Folder)?;
        let store = ApprovalStore::new(folder.path().to_owned());
        let known = approve_servers(&self.servers, cx.cwd, cx.processes, &store)?;
        let _is_first = self.store.set(folder);
        Ok(serde_json::to_value(known)?)
    }

    fn add_tools(
        &self,
        described: &Value,
        cx: &ExtensionContext<'_>,
        catalog: &mut Catalog,
    ) -> Result<Option<Arc<dyn ToolSource>>, ExtensionError> {
        let known: BTreeMap<String, KnownServer> = serde_json::from_value(described.clone())?;
        let offers = ServerOffers::default();
        let others = catalog.clone();
        let notes = offers.add(&known, catalog);
        let servers = Servers::new(self.servers.clone(), cx.cwd, |settings| {
            settings.get_or_insert_with(Processes::default).shared()
        });
        // A replay has none, and starts no server.
        let servers = match self.store.get() {
            Some(folder) => servers.with_store(ApprovalStore::new(folder.path().to_owned())),
            None => servers,
        };
        let source = offers.source(&known, others, &servers, &notes);
        let _is_first = self.shared.set(servers);
        Ok(source)
    }

    fn comes_last(&self) -> bool {
        true
    }

    fn change_session(&self, _: &ExtensionContext<'_>, config: &mut SessionConfig) {
        for tokens in self.servers.iter().filter_map(|server| server.tokens.as_ref()) {
            config.secrets.add_rotating(&tokens.secrets());
        }
        if let Some(servers) = self.shared.get() {
            config.tools.settings.get_or_insert_with(|| servers.clone());
        }
    }
}

/// Why the MCP servers of an agent cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentServersError {
    /// One cannot be started, or does not say what it has.
    #[error(transparent)]
    Server(#[from] McpError),
    /// An approval cannot be stored.
    #[error(transparent)]
    Store(#[from] ApprovalStoreError),
    /// There is no place for what is approved.
    #[error("no directory for the approvals of MCP servers")]
    Folder(#[source] std::io::Error),
    /// They cannot be asked.
    #[error("cannot start a runtime for listing the tools of MCP servers")]
    Runtime(#[source] std::io::Error),
}

/// Starts servers, asks what they have, and approves it: the program names them. What they change
/// later is not approved.
///
/// # Errors
/// When one cannot be started, or does not say what it has.
fn approve_servers(
    servers: &[ServerConfig],
    cwd: &Path,
    processes: &Arc<Processes>,
    store: &ApprovalStore,
) -> Result<BTreeMap<String, KnownServer>, AgentServersError> {
    let mut known = BTreeMap::new();
    for (server, listed) in servers.iter().zip(list_servers(servers, cwd, processes)?) {
        let start = server.start();
        let mut record = ServerRecord::default();
        record.record_and_approve(&start, listed);
        record.approve(start.clone());
        store.write(&server.name, &start, &record)?;
        known.insert(server.name.clone(), KnownServer::new(start, record));
    }
    Ok(known)
}

/// Asks servers what they have, side by side. A thread of its own waits, since the caller may be in
/// a runtime already.
fn list_servers(
    servers: &[ServerConfig],
    cwd: &Path,
    processes: &Arc<Processes>,
) -> Result<Vec<ServerListing>, AgentServersError> {
    if servers.is_empty() {
        return Ok(Vec::new());
    }
    let waited = std::thread::scope(|scope| {
        let asked = scope.spawn(|| -> Result<Vec<ServerListing>, AgentServersError> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(AgentServersError::Runtime)?;
            let looks = servers.iter().map(|server| {
                let processes = Arc::clone(processes);
                look(server.clone(), cwd.to_owned(), move || processes.shared())
            });
            let listed = runtime.block_on(join_all(looks));
            Ok(listed.into_iter().collect::<Result<_, McpError>>()?)
        });
        asked.join()
    });
    waited.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
