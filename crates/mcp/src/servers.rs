//! The servers of a session: started at their first call, restarted when they exit, and ended with
//! the session.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::{BoxFuture, Resource, ResourceMap, describe_error};
use deputize_process::{Supervisor, SupervisorError};
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::approval_store::{ApprovalStore, ApprovalStoreError};
use crate::connection::{Connection, Timeouts};
use crate::error::{BackoffError, LaunchError, McpError, McpErrorKind};
use crate::list_request::listed;
use crate::listing::ServerListing;
use crate::server::{ServerConfig, ServerLimits, ServerTarget};
use crate::server_record::ServerRecord;

/// Limit on consecutive starts, with short pauses, of a server that exits or fails before it
/// answers any call. After that, each start waits for a longer pause. A server that does not answer
/// within its start limit pauses after the first start.
pub const STARTS: u32 = 3;
/// First long pause, as a multiple of the pause before a second start; it doubles each time. By
/// default 30 seconds.
const REST: u32 = 60;
/// Longest pause, by default 16 minutes.
const LONGEST_REST: u32 = REST << 5;

/// Time limit for a running server to list its changed tools before an agent starts.
const ASKED_AGAIN: Duration = Duration::from_secs(5);
/// Time without another wait after a server did not answer.
const SILENT: Duration = Duration::from_secs(30);

/// Time limit for listing changed tools at the end of a session.
const LAST_LOOK: Duration = Duration::from_secs(1);

/// Why the tools of a server are unknown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListingError {
    /// It announced changed tools, and did not list them in time.
    #[error(
        "mcp {0}: it announced changed tools, and did not list them within {limit} s",
        limit = ASKED_AGAIN.as_secs()
    )]
    Slow(String),
    /// It cannot be asked.
    #[error(transparent)]
    Server(#[from] McpError),
    /// Its approval cannot be read.
    #[error(transparent)]
    ServerRecord(#[from] ApprovalStoreError),
}

type SupervisorFn = dyn Fn(&ResourceMap) -> Result<Arc<Supervisor>, SupervisorError> + Send + Sync;

/// The servers that a program has. One value of this is in the settings of a session; the tools
/// of servers find it there. A clone is the same servers: what several sessions share is started
/// once, and ended once for all.
#[derive(Clone)]
pub struct Servers {
    servers: Arc<BTreeMap<String, ManagedServer>>,
    supervisor: Arc<SupervisorFn>,
    root: PathBuf,
    records: Option<ApprovalStore>,
    /// Where what some of them say is kept instead.
    apart: BTreeMap<String, ApprovalStore>,
}

impl Default for Servers {
    fn default() -> Self {
        Self::new(Vec::new(), "/", |_| Supervisor::start().map(Arc::new))
    }
}

/// One server of a session.
struct ManagedServer {
    server: Arc<ServerConfig>,
    held: tokio::sync::Mutex<ServerState>,
}

#[derive(Default)]
struct ServerState {
    up: Option<Arc<RunningServer>>,
    /// Starts in a row without an answered call after them.
    starts: u32,
    /// When it was last started, or it was seen that it had ended.
    last: Option<Instant>,
    /// Whether it said nothing in time when it was last started.
    silent: bool,
    over: bool,
}

/// A server that runs, and what it said that it has.
pub(crate) struct RunningServer {
    pub(crate) link: Connection,
    listed: Mutex<Arc<ServerListing>>,
    /// Number of changes of the list of tools that `listed` includes.
    known_changes: Mutex<u64>,
    /// After how many changes it was asked in vain what it has, and when: for these nobody waits
    /// again for a while.
    silent_after: Mutex<Option<(u64, Instant)>>,
    asking: tokio::sync::Mutex<()>,
}

impl Servers {
    /// Creates the servers. The supervisor that owns their processes is requested at a start, and
    /// may be among the session's settings. The servers get this directory as their root.
    pub fn new(
        servers: Vec<ServerConfig>,
        root: impl Into<PathBuf>,
        supervisor: impl Fn(&ResourceMap) -> Result<Arc<Supervisor>, SupervisorError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let managed = |server: ServerConfig| {
            let managed =
                ManagedServer { server: Arc::new(server), held: tokio::sync::Mutex::default() };
            (managed.server.name.clone(), managed)
        };
        Self {
            servers: Arc::new(servers.into_iter().map(managed).collect()),
            supervisor: Arc::new(supervisor),
            root: root.into(),
            records: None,
            apart: BTreeMap::new(),
        }
    }

    /// Returns the same where what servers say is kept for later runs.
    #[must_use]
    pub fn with_store(self, records: ApprovalStore) -> Self {
        Self { records: Some(records), ..self }
    }

    /// Returns the same where what one of them says is kept elsewhere.
    #[must_use]
    pub fn with_separate_store(mut self, server: &str, records: ApprovalStore) -> Self {
        self.apart.insert(server.to_owned(), records);
        self
    }

    /// Returns the time limits of a server.
    pub(crate) fn limits(&self, server: &str) -> ServerLimits {
        self.servers.get(server).map_or_else(ServerLimits::default, |managed| managed.server.limits)
    }

    /// Asks a server what it has, starting it if it does not run.
    ///
    /// # Errors
    /// When it cannot be started or does not answer.
    pub async fn list(&self, server: &str) -> Result<Arc<ServerListing>, McpError> {
        Ok(self.up(server, &ResourceMap::default()).await?.listed())
    }

    /// The server, running.
    pub(crate) async fn up(
        &self,
        name: &str,
        settings: &ResourceMap,
    ) -> Result<Arc<RunningServer>, McpError> {
        let unknown = || McpError::new(name, McpErrorKind::Unknown);
        let managed = self.servers.get(name).ok_or_else(unknown)?;
        let mut held = managed.held.lock().await;
        if held.over {
            return Err(McpError::new(name, McpErrorKind::Over));
        }
        if let Some(up) = held.up.as_ref().filter(|up| !up.link.is_closed()) {
            return Ok(Arc::clone(up));
        }
        if let Some(gone) = held.up.take() {
            tracing::warn!(server = name, "server connection ended");
            gone.link.close().await;
            held.last = Some(Instant::now());
        }
        let limits = managed.server.limits;
        if let Some(left) = held.rest_left(limits.backoff) {
            let fault = match held.silent {
                true => BackoffError::Silent { limit: limits.start, left },
                false => BackoffError::GivenUp { starts: held.starts, left },
            };
            return Err(McpError::new(name, fault));
        }
        if (1..STARTS).contains(&held.starts) {
            tokio::time::sleep(limits.backoff * 2_u32.pow(held.starts - 1)).await;
        }
        held.starts = held.starts.saturating_add(1);
        let begun = Instant::now();
        let started = self.start(&managed.server, settings).await;
        log_start(name, held.starts, begun.elapsed(), &started);
        held.silent = started.is_err() && begun.elapsed() >= limits.start;
        held.last = Some(Instant::now());
        let up = Arc::new(started?);
        self.store_listing(&managed.server, up.listed()).await;
        held.up = Some(Arc::clone(&up));
        Ok(up)
    }

    async fn start(
        &self,
        server: &ServerConfig,
        settings: &ResourceMap,
    ) -> Result<RunningServer, McpError> {
        let ServerLimits { start, .. } = server.limits;
        let begun = Instant::now();
        let slow = |_| {
            let setting = server.setting_names.name("start").to_owned();
            McpError::new(&server.name, McpErrorKind::Slow { limit: start, setting })
        };
        let supervisor =
            || (self.supervisor)(settings).map_err(|error| LaunchError::from(error).into());
        let known = self.known_protocol(server).await;
        let opening = Connection::open(server, &self.root, &supervisor, &known);
        let opened = tokio::time::timeout(start, Box::pin(opening)).await;
        let opened = opened.map_err(slow).flatten();
        if opened.is_err() {
            self.forget_protocol(server).await;
        }
        let link = opened?;
        let left = start.saturating_sub(begun.elapsed());
        let timeouts = Timeouts { idle: left, total: left };
        let known = link.notifications().tool_changes();
        let listed = listed(&link, &server.name, timeouts).await?;
        Ok(RunningServer {
            link,
            listed: Mutex::new(Arc::new(listed)),
            known_changes: Mutex::new(known),
            silent_after: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        })
    }

    fn store_of(&self, server: &str) -> Option<&ApprovalStore> {
        self.apart.get(server).or(self.records.as_ref())
    }

    /// Returns the protocol version that a server agreed on when it was last started the same way;
    /// empty if none is known.
    async fn known_protocol(&self, server: &ServerConfig) -> String {
        let Some(store) = self.store_of(&server.name) else { return String::new() };
        let (name, start) = (server.name.clone(), server.start());
        let record = store.run(move |store| {
            let record = store.read(&name, &start)?;
            Ok(record.listed.clone().filter(|_| !record.is_stale(&start)))
        });
        record.await.ok().flatten().map(|listed| listed.protocol).unwrap_or_default()
    }

    /// Forgets which protocol version a server agreed on, so that the next start tries each way: a
    /// server that was updated may not know the old one any more.
    async fn forget_protocol(&self, server: &ServerConfig) {
        let change = |record: &mut ServerRecord, _: &ServerTarget| {
            record.listed.iter_mut().for_each(|listed| listed.protocol.clear());
        };
        self.change_record(server, change).await;
    }

    /// Stores what a server says for later runs. A failure hinders no call: what is offered now was
    /// decided before.
    async fn store_listing(&self, server: &ServerConfig, listed: Arc<ServerListing>) {
        let change = move |record: &mut ServerRecord, start: &ServerTarget| {
            record.record_listing(start, ServerListing::clone(&listed));
        };
        self.change_record(server, change).await;
    }

    /// Changes the stored record of a server, if there is one that can be read.
    async fn change_record(
        &self,
        server: &ServerConfig,
        change: impl FnOnce(&mut ServerRecord, &ServerTarget) + Send + 'static,
    ) {
        let Some(store) = self.store_of(&server.name) else { return };
        let (name, start) = (server.name.clone(), server.start());
        let changed = store.run(move |store| {
            let Ok(mut record) = store.read(&name, &start) else { return Ok(()) };
            let before = record.clone();
            change(&mut record, &start);
            if record == before { Ok(()) } else { store.write(&name, &start, &record) }
        });
        if let Err(error) = changed.await {
            tracing::warn!(error = describe_error(&error), "server record not written");
        }
    }

    /// Returns the current listing of a running server; it is requested again after a change.
    pub(crate) async fn current(
        &self,
        name: &str,
        up: &RunningServer,
        limit: Duration,
    ) -> Result<Arc<ServerListing>, McpError> {
        let _one_asks = up.asking.lock().await;
        let changes = up.link.notifications().tool_changes();
        if up.knows_of(changes) {
            return Ok(up.listed());
        }
        let timeouts = Timeouts { idle: limit, total: limit };
        let now = Arc::new(listed(&up.link, name, timeouts).await?);
        *up.listed.lock() = Arc::clone(&now);
        *up.known_changes.lock() = changes;
        if let Some(managed) = self.servers.get(name) {
            self.store_listing(&managed.server, Arc::clone(&now)).await;
        }
        Ok(now)
    }

    /// Returns the stored record of a server with its current tools; a running server that
    /// announced a change is asked. `None` if nothing is stored.
    ///
    /// # Errors
    /// When it does not answer, or the record cannot be read.
    pub async fn now(&self, name: &str) -> Result<Option<ServerRecord>, ListingError> {
        let Some(managed) = self.servers.get(name) else { return Ok(None) };
        let Some(records) = self.store_of(name) else { return Ok(None) };
        let (key, start) = (name.to_owned(), managed.server.start());
        let read = records.run(move |store| store.read(&key, &start));
        let Some(up) = managed.running() else { return Ok(Some(read.await?)) };
        if up.is_silent() {
            return Err(ListingError::Slow(name.to_owned()));
        }
        let changes = up.link.notifications().tool_changes();
        // It is given up below, and nowhere before.
        let asking = self.current(name, &up, 2 * ASKED_AGAIN);
        let Ok(listed) = tokio::time::timeout(ASKED_AGAIN, asking).await else {
            *up.silent_after.lock() = Some((changes, Instant::now()));
            tracing::warn!(server = name, "server does not say what tools it has now");
            return Err(ListingError::Slow(name.to_owned()));
        };
        let listed = listed?;
        let mut record = read.await?;
        record.record_listing(&managed.server.start(), (*listed).clone());
        Ok(Some(record))
    }

    /// Stores the tools of running servers that announced a change, for later sessions. Slow
    /// servers are skipped.
    pub async fn catch_up(&self) {
        let looks = self.servers.iter().map(|(name, managed)| async move {
            if let Some(up) = managed.running().filter(|up| !up.is_silent()) {
                let asking = self.current(name, &up, 2 * LAST_LOOK);
                let _kept = tokio::time::timeout(LAST_LOOK, asking).await;
            }
        });
        join_all(looks).await;
    }

    /// Records that a server answered a call, and resets its failures.
    pub(crate) async fn answered(&self, name: &str) {
        if let Some(managed) = self.servers.get(name) {
            managed.held.lock().await.starts = 0;
        }
    }
}

fn log_start(server: &str, starts: u32, took: Duration, started: &Result<RunningServer, McpError>) {
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    match started {
        Ok(up) => {
            let tools = up.listed().tools.len();
            tracing::info!(server, starts, ms, tools, "server started");
        }
        Err(error) => {
            let error = error.fault.label();
            tracing::warn!(server, starts, ms, error, "server not started");
        }
    }
}

/// Reports that a record of a server could not be written: it hinders no call.
impl ManagedServer {
    /// Returns the server if it runs; `None` during its start, which lists the tools anyway.
    fn running(&self) -> Option<Arc<RunningServer>> {
        let up = self.held.try_lock().ok().and_then(|held| held.up.clone());
        up.filter(|up| !up.link.is_closed())
    }
}

impl ServerState {
    /// Returns the rest of the pause after too many failures in a row; `None` if there is none.
    fn rest_left(&self, backoff: Duration) -> Option<Duration> {
        // Another start of a silent one would be waited for as long again.
        let free = if self.silent { 1 } else { STARTS };
        let times = self.starts.checked_sub(free)?;
        let rest = backoff * REST.checked_shl(times).unwrap_or(LONGEST_REST).min(LONGEST_REST);
        let left = rest.checked_sub(self.last?.elapsed())?;
        (!left.is_zero()).then_some(left)
    }
}

impl RunningServer {
    /// Whether what it is known to have is what it has after so many changes.
    fn knows_of(&self, changes: u64) -> bool {
        changes == *self.known_changes.lock()
    }

    /// Returns whether it did not answer since its last announced change.
    fn is_silent(&self) -> bool {
        let changes = self.link.notifications().tool_changes();
        let silent = *self.silent_after.lock();
        let still = |(of, at): (u64, Instant)| of == changes && at.elapsed() < SILENT;
        silent.is_some_and(still) && !self.knows_of(changes)
    }

    pub(crate) fn listed(&self) -> Arc<ServerListing> {
        Arc::clone(&self.listed.lock())
    }
}

impl Resource for Servers {
    fn close<'a>(&'a self) -> BoxFuture<'a, ()> {
        Box::pin(async {
            let ends = self.servers.values().map(|managed| async {
                let mut held = managed.held.lock().await;
                held.over = true;
                if let Some(up) = held.up.take() {
                    up.link.close().await;
                }
            });
            join_all(ends).await;
        })
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.servers.keys()).finish()
    }
}

/// Asks a server what it has, and ends it again.
///
/// # Errors
/// When it cannot be started, or does not answer.
pub async fn look(
    server: ServerConfig,
    root: impl Into<PathBuf>,
    supervisor: impl Fn() -> Result<Arc<Supervisor>, SupervisorError> + Send + Sync + 'static,
) -> Result<ServerListing, McpError> {
    let name = server.name.clone();
    let servers = Servers::new(vec![server], root, move |_| supervisor());
    let found = servers.list(&name).await;
    servers.close().await;
    found.map(|listed| (*listed).clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_failed_too_often_is_left_alone_for_longer_and_longer_and_not_for_ever() {
        let backoff = Duration::from_millis(500);
        let secs = Duration::from_secs;
        let last = Some(Instant::now());
        let rests = [2, 3, 4, 7, 8, 40, u32::MAX].map(|starts| {
            let held = ServerState { starts, last, ..ServerState::default() };
            held.rest_left(backoff)
        });
        let long = Some(secs(960));
        assert_eq!(
            rests,
            [None, Some(secs(30)), Some(secs(60)), Some(secs(480)), long, long, long]
        );
        tokio::time::advance(secs(30)).await;
        assert_eq!(
            ServerState { starts: 3, last, ..ServerState::default() }.rest_left(backoff),
            None
        );
        let last = Some(Instant::now());
        let rests = [1, 2, 40].map(|starts| {
            ServerState { starts, last, silent: true, ..ServerState::default() }.rest_left(backoff)
        });
        assert_eq!(rests, [Some(secs(30)), Some(secs(60)), long]);
    }
}
