//! A session: one top agent, all its descendants, one journal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use deputize_core::door::{FrameSecret, Secrets};
use deputize_core::{
    Agent, AgentId, AgentSpec, AgentView, AllowAll, Approver, ApproverMode, AttachError, Authority,
    BoxFuture, Cancel, CancelReason, Catalog, Clock, Event, FileLedger, Grant, JournalError,
    Limits, Model, ModelOptions, NoPerson, Observer, Outcome, Policy, RetryPolicy, Role, Run,
    SessionId, SessionStart, SessionView, Spawn, Store, ToolDecl, Usable, Usage,
};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use crate::bus::Bus;
use crate::clock::SystemClock;
use crate::driver::{Driver, host_fault};
use crate::resume::Stored;
use crate::store::{Header, ReadError, SessionDir, SessionFile};
use crate::validate::Checker;

/// When the session file is synced to the storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncMode {
    /// Before a call that may not be repeated, and at a turn's end.
    #[default]
    Turn,
    /// After every record of an agent's loop.
    Always,
    /// Never: what was appended survives the end of the process, not that of the machine.
    Never,
}

/// Models by the name that agents use, `PROVIDER/MODEL`.
#[derive(Clone, Default)]
pub struct Models(BTreeMap<String, (Arc<dyn Model>, String)>);

impl Models {
    /// Adds a model: the name agents use, its name at the provider, the way to it.
    pub fn insert(&mut self, name: &str, at_provider: &str, model: Arc<dyn Model>) {
        self.0.insert(name.to_owned(), (model, at_provider.to_owned()));
    }

    pub(crate) fn get(&self, name: &str) -> Option<&(Arc<dyn Model>, String)> {
        self.0.get(name)
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// What a session is made of. Plain fields; start from [`Parts::new`].
pub struct Parts {
    /// The program's tools.
    pub catalog: Arc<Catalog>,
    /// The models.
    pub models: Models,
    /// The rules.
    pub policy: Arc<dyn Policy>,
    /// Who is asked.
    pub approver: Arc<dyn Approver>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// How failed requests are tried again.
    pub retry: RetryPolicy,
    /// Values that must not leave the program.
    pub secrets: Secrets,
    /// Who sees records.
    pub observers: Vec<Arc<dyn Observer>>,
    /// Settings for tools.
    pub settings: Store,
    /// When the session file is synced.
    pub sync: SyncMode,
    /// What frame boundaries are derived from: random bytes.
    pub secret: FrameSecret,
    /// This program and its version, for the record.
    pub program: String,
}

impl Parts {
    /// Parts with these tools, no model, no person to ask, and rules that allow everything.
    #[must_use]
    pub fn new(catalog: Catalog) -> Self {
        let mut random = [0; 16];
        if getrandom::fill(&mut random).is_err() {
            // A boundary that is only hard to guess is better than no session.
            random = [(); 16].map(|()| fastrand::u8(..));
        }
        Self {
            catalog: Arc::new(catalog),
            models: Models::default(),
            policy: Arc::new(AllowAll),
            approver: Arc::new(NoPerson),
            clock: Arc::new(SystemClock),
            retry: RetryPolicy::default(),
            secrets: Secrets::default(),
            observers: Vec::new(),
            settings: Store::default(),
            sync: SyncMode::default(),
            secret: FrameSecret::new(&random),
            program: concat!("deputize-runtime ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parts({:?}, {:?})", self.catalog, self.models)
    }
}

/// Why a session cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Its file.
    #[error(transparent)]
    File(#[from] ReadError),
}

/// Everything the agents of a session share.
pub(crate) struct Shared {
    pub(crate) parts: SharedParts,
    pub(crate) bus: Bus,
    pub(crate) checker: Checker,
    pub(crate) view: Arc<SessionView>,
    pub(crate) cancel: Cancel,
    tree: Mutex<Tree>,
    tasks: TaskTracker,
}

/// [`Parts`] less what moved elsewhere.
pub(crate) struct SharedParts {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) models: Models,
    pub(crate) policy: Arc<dyn Policy>,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) retry: RetryPolicy,
    pub(crate) secrets: Secrets,
    pub(crate) sync: SyncMode,
    pub(crate) secret: FrameSecret,
    program: String,
}

/// What is known of the tree of agents.
#[derive(Default)]
struct Tree {
    /// Agents of the journal that nobody has attached to yet.
    stored: BTreeMap<AgentId, Stored>,
    /// Agents that run.
    live: BTreeSet<AgentId>,
    /// Tokens of descendants that ended, by parent.
    usage: BTreeMap<AgentId, Usage>,
    /// How many descendants each agent has had, ended ones among them.
    descendants: BTreeMap<AgentId, u32>,
    /// How many it may have.
    most_descendants: BTreeMap<AgentId, u32>,
}

impl Tree {
    fn of(stored: BTreeMap<AgentId, Stored>) -> Self {
        let mut tree = Self::default();
        stored.keys().for_each(|id| tree.note(id));
        Self { stored, ..tree }
    }

    /// Counts a new agent at all agents above it, or at none.
    fn count(&mut self, new: &AgentId) -> Result<(), AttachError> {
        for agent in new.ancestors() {
            let limit = self.most_descendants.get(&agent).copied().unwrap_or(u32::MAX);
            if self.descendants.get(&agent).is_some_and(|had| *had >= limit) || limit == 0 {
                return Err(AttachError::TooMany { agent, limit });
            }
        }
        self.note(new);
        Ok(())
    }

    fn note(&mut self, new: &AgentId) {
        for agent in new.ancestors() {
            *self.descendants.entry(agent).or_default() += 1;
        }
    }
}

impl Shared {
    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An agent ended: its parent's totals grow. Gives the tokens of its own descendants and
    /// those of them that still run.
    pub(crate) fn ended(&self, spec: &AgentSpec, own: Usage) -> (Usage, Vec<AgentId>) {
        let mut tree = self.tree();
        tree.live.remove(&spec.id);
        let below = tree.usage.remove(&spec.id).unwrap_or_default();
        if let Some(parent) = &spec.parent {
            let total = tree.usage.entry(parent.clone()).or_default();
            *total += own;
            *total += below;
        }
        let prefix = format!("{}/", spec.id);
        let open = tree.live.iter().filter(|id| id.as_str().starts_with(&prefix));
        (below, open.cloned().collect())
    }

    /// Makes the driver of an agent and puts its start on record.
    fn start(
        self: &Arc<Self>,
        spec: AgentSpec,
        authority: Authority,
        cancel: Cancel,
    ) -> Result<Driver, AttachError> {
        let model = self.parts.models.get(&spec.model).cloned();
        let model = model.ok_or_else(|| AttachError::Model(spec.model.clone()))?;
        let view = self.view_of(spec, authority);
        self.bus
            .start_agent(&view.spec, &view.declared)
            .map_err(|error| AttachError::Journal(error.to_string()))?;
        let run = Run::of(&view.spec);
        Ok(Driver::new(Arc::clone(self), view, run, model, cancel))
    }

    /// Makes the driver of an agent of the journal.
    fn revive(
        self: &Arc<Self>,
        stored: Stored,
        authority: Authority,
        cancel: Cancel,
    ) -> Result<Driver, AttachError> {
        let model = self.parts.models.get(&stored.spec.model).cloned();
        let model = model.ok_or_else(|| AttachError::Model(stored.spec.model.clone()))?;
        let mut view = self.view_of(stored.spec, authority);
        // What its model was told stays, to the byte, also under a newer program.
        if let Some(view) = Arc::get_mut(&mut view) {
            view.declared = stored.declared;
        }
        let mut driver = Driver::new(Arc::clone(self), view, stored.run, model, cancel);
        driver.receipts = stored.receipts;
        driver.begun = stored.begun;
        Ok(driver)
    }

    fn view_of(&self, spec: AgentSpec, authority: Authority) -> Arc<AgentView> {
        let mut view = AgentView {
            spec: Arc::new(spec),
            authority: Arc::new(authority),
            catalog: Arc::clone(&self.parts.catalog),
            declared: Vec::new(),
            store: Store::default(),
            session: Arc::clone(&self.view),
        };
        view.declared = declare(&view);
        Arc::new(view)
    }

    /// Runs an agent as a task of the session.
    fn launch(self: &Arc<Self>, driver: Driver) -> LocalAgent {
        let id = driver.view.id().clone();
        let cancel = driver.cancel.clone();
        let spec = Arc::clone(&driver.view.spec);
        {
            let mut tree = self.tree();
            tree.live.insert(id.clone());
            tree.most_descendants.insert(id.clone(), driver.view.authority.spawn_number());
        }
        let (send, outcome) = oneshot::channel();
        self.tasks.spawn(async move {
            // Whoever no longer waits finds the outcome in the journal.
            let _unheard = send.send(driver.drive().await);
        });
        LocalAgent { id, spec, cancel: Some(cancel), state: AgentState::Runs(outcome) }
    }
}

/// The tools of an agent as its model is told of them, in the order of its spec: those that it
/// may use and that can be used now.
#[must_use]
pub fn declare(view: &AgentView) -> Vec<Arc<ToolDecl>> {
    let known = view.spec.tools.iter().filter_map(|name| view.catalog.get(name.as_str()));
    let mine = known.filter(|entry| view.authority.permits(entry).is_ok());
    let usable = mine.filter(|entry| entry.tool.spec().usable == Usable::Yes);
    let declare = |entry: &deputize_core::Entry| {
        let told = entry.tool.declare(view);
        Arc::new(told.unwrap_or_else(|| entry.tool.spec().decl.clone()))
    };
    usable.map(declare).collect()
}

/// One top agent, all its descendants, one journal.
pub struct Session {
    shared: Arc<Shared>,
    id: SessionId,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({})", self.id)
    }
}

impl Session {
    /// A new session, kept in a folder.
    ///
    /// # Errors
    /// When its file exists or cannot be made.
    pub fn create(dir: &SessionDir, id: SessionId, parts: Parts) -> Result<Self, SessionError> {
        let header = Header {
            format: crate::store::FORMAT,
            session: id.clone(),
            created: parts.clock.now_ms(),
            secret: parts.secret.clone(),
        };
        let file = SessionFile::create(dir, &header)?;
        Ok(Self::over(dir, id, parts, file, Restored::default()))
    }

    pub(crate) fn over(
        dir: &SessionDir,
        id: SessionId,
        parts: Parts,
        file: SessionFile,
        restored: Restored,
    ) -> Self {
        let spill = dir.spill(&id);
        let shared = Arc::new_cyclic(|weak: &Weak<Shared>| Shared {
            bus: Bus::new(
                parts.clock,
                Arc::new(file),
                parts.observers,
                restored.next,
                restored.texts,
            ),
            checker: Checker::default(),
            view: Arc::new(SessionView {
                id: id.clone(),
                spill,
                files: restored.files,
                settings: parts.settings,
                spawn: Arc::new(Spawner { shared: weak.clone() }),
            }),
            cancel: Cancel::new(),
            tree: Mutex::new(Tree {
                usage: usage_below(&restored.agents),
                ..Tree::of(restored.agents)
            }),
            tasks: TaskTracker::new(),
            parts: SharedParts {
                catalog: parts.catalog,
                models: parts.models,
                policy: parts.policy,
                approver: parts.approver,
                retry: parts.retry,
                secrets: parts.secrets,
                sync: parts.sync,
                secret: parts.secret,
                program: parts.program,
            },
        });
        Self { shared, id }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// The program's tools.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.shared.parts.catalog
    }

    /// What all its agents share.
    #[must_use]
    pub fn view(&self) -> &Arc<SessionView> {
        &self.shared.view
    }

    /// An agent as it would be made, without making it: what its model would be told.
    #[must_use]
    pub fn preview(&self, spec: AgentSpec, authority: Authority) -> Arc<AgentView> {
        self.shared.view_of(spec, authority)
    }

    /// Runs the top agent to the end of its turn, and its descendants with it. When this
    /// returns, nothing that the session started still runs.
    pub async fn run(&self, spec: AgentSpec, authority: Authority, cancel: &Cancel) -> Outcome {
        let started = self.record_start(&spec).map_err(|error| error.to_string());
        let driver = started.and_then(|()| {
            self.shared
                .start(spec.clone(), authority, self.below(cancel))
                .map_err(|error| error.to_string())
        });
        self.finish(&spec, driver).await
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn peek_stored<T>(
        &self,
        id: &AgentId,
        look: impl FnOnce(&Stored) -> T,
    ) -> Option<T> {
        self.shared.tree().stored.get(id).map(look)
    }

    pub(crate) fn take_stored(&self, id: &AgentId) -> Option<Stored> {
        self.shared.tree().stored.remove(id)
    }

    pub(crate) async fn run_stored(
        &self,
        stored: Stored,
        authority: Authority,
        cancel: &Cancel,
    ) -> Outcome {
        let spec = stored.spec.clone();
        let driver = self
            .shared
            .revive(stored, authority, self.below(cancel))
            .map_err(|error| error.to_string());
        self.finish(&spec, driver).await
    }

    async fn finish(&self, spec: &AgentSpec, driver: Result<Driver, String>) -> Outcome {
        let outcome = match driver {
            Ok(driver) => self.shared.launch(driver).wait().await,
            Err(error) => host_fault(spec, error),
        };
        // Children that their parent did not wait for are told to end, and waited for.
        self.shared.cancel.cancel(CancelReason::Interrupted);
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
        let end = Event::SessionEnd {
            status: outcome.status,
            exit_code: outcome.exit_code(),
            usage: outcome.tree_usage(),
            cost_usd: outcome.cost_usd,
        };
        if let Ok(record) = self.shared.bus.record(spec, end)
            && self.shared.parts.sync != SyncMode::Never
        {
            // The answer is known either way; a failing disk shows at the next start.
            let _synced = self.shared.bus.durable(record.seq).await;
        }
        outcome
    }

    /// A signal below the caller's and the session's own.
    fn below(&self, cancel: &Cancel) -> Cancel {
        let own = self.shared.cancel.child();
        let (caller, below) = (cancel.clone(), own.clone());
        self.shared.tasks.spawn(async move {
            tokio::select! {
                () = caller.cancelled() => {
                    below.cancel(caller.reason().unwrap_or(CancelReason::Interrupted));
                }
                () = below.cancelled() => {}
            }
        });
        own
    }

    pub(crate) fn record_start(&self, spec: &AgentSpec) -> Result<(), JournalError> {
        let start = SessionStart {
            cwd: spec.cwd.clone(),
            model: spec.model.clone(),
            toolsets: spec.toolsets.iter().map(ToString::to_string).collect(),
            program: self.shared.parts.program.clone(),
        };
        self.shared.bus.record(spec, Event::SessionStart(start)).map(|_| ())
    }

    pub(crate) fn record(
        &self,
        spec: &AgentSpec,
        event: Event,
    ) -> Result<deputize_core::Record, JournalError> {
        self.shared.bus.record(spec, event)
    }
}

/// Tokens of descendants that ended, by the parent that has not ended for good.
fn usage_below(agents: &BTreeMap<AgentId, Stored>) -> BTreeMap<AgentId, Usage> {
    let mut below: BTreeMap<AgentId, Usage> = BTreeMap::new();
    for stored in agents.values() {
        if let (Some(outcome), Some(parent)) = (&stored.outcome, &stored.spec.parent) {
            *below.entry(parent.clone()).or_default() += outcome.tree_usage();
        }
    }
    below
}

/// What a session that is taken up again brings along.
#[derive(Default)]
pub(crate) struct Restored {
    pub(crate) next: u64,
    pub(crate) texts: BTreeSet<String>,
    pub(crate) files: FileLedger,
    pub(crate) agents: BTreeMap<AgentId, Stored>,
}

/// The runtime's [`Spawn`]. It does not keep the session alive.
struct Spawner {
    shared: Weak<Shared>,
}

impl Spawn for Spawner {
    fn attach(
        &self,
        parent: &AgentView,
        spec: AgentSpec,
        cancel: &Cancel,
    ) -> Result<Box<dyn Agent>, AttachError> {
        let gone = || AttachError::Journal("the session has ended".to_owned());
        let shared = self.shared.upgrade().ok_or_else(gone)?;
        let stored = shared.tree().stored.remove(&spec.id);
        match stored {
            Some(Stored { outcome: Some(outcome), spec, .. }) => {
                let state = AgentState::Ended(Box::new(outcome));
                let spec = Arc::new(spec);
                Ok(Box::new(LocalAgent { id: spec.id.clone(), spec, cancel: None, state }))
            }
            Some(stored) => {
                let authority = parent.authority.meet(&stored.spec.grant);
                let settled = crate::resume::settle(&shared, stored)
                    .map_err(|error| AttachError::Journal(error.to_string()))?;
                let driver = shared.revive(settled, authority, cancel.child())?;
                Ok(Box::new(shared.launch(driver)))
            }
            None => {
                let driver = shared.spawn_new(parent, spec, cancel)?;
                Ok(Box::new(shared.launch(driver)))
            }
        }
    }
}

impl Shared {
    fn spawn_new(
        self: &Arc<Self>,
        parent: &AgentView,
        spec: AgentSpec,
        cancel: &Cancel,
    ) -> Result<Driver, AttachError> {
        if parent.authority.spawn_depth() == 0 {
            return Err(AttachError::Depth);
        }
        self.tree().count(&spec.id)?;
        // A level is used up on every path, whatever the spec asks for.
        let levels = parent.authority.spawn_depth() - 1;
        let grant = Grant {
            spawn_depth: Some(spec.grant.spawn_depth.map_or(levels, |asked| asked.min(levels))),
            ..spec.grant.clone()
        };
        let spec = AgentSpec { grant, ..spec };
        let authority = parent.authority.meet(&spec.grant);
        self.start(spec, authority, cancel.child())
    }
}

enum AgentState {
    Runs(oneshot::Receiver<Outcome>),
    Ended(Box<Outcome>),
    Told,
}

/// An agent of this process. Whoever drops it without waiting tells it to end.
struct LocalAgent {
    id: AgentId,
    spec: Arc<AgentSpec>,
    cancel: Option<Cancel>,
    state: AgentState,
}

impl LocalAgent {
    async fn wait(mut self) -> Outcome {
        let outcome = match std::mem::replace(&mut self.state, AgentState::Told) {
            AgentState::Runs(outcome) => outcome.await.ok(),
            AgentState::Ended(outcome) => Some(*outcome),
            AgentState::Told => None,
        };
        self.cancel = None;
        outcome.unwrap_or_else(|| host_fault(&self.spec, "the agent's task was lost".to_owned()))
    }
}

impl Agent for LocalAgent {
    fn id(&self) -> &AgentId {
        &self.id
    }

    fn outcome(self: Box<Self>) -> BoxFuture<'static, Outcome> {
        Box::pin((*self).wait())
    }
}

impl Drop for LocalAgent {
    fn drop(&mut self) {
        if let Some(cancel) = &self.cancel {
            cancel.cancel(CancelReason::Interrupted);
        }
    }
}

/// The spec of a top agent with nothing but a model and a task; set the other fields as
/// needed.
#[must_use]
pub fn top_agent(session: &SessionId, model: &str, task: &str, cwd: &Path) -> AgentSpec {
    AgentSpec {
        id: AgentId::root(session),
        parent: None,
        depth: 0,
        role: Role::Orchestrator,
        spawned_by: None,
        goal: task.to_owned(),
        task: task.to_owned(),
        model: model.to_owned(),
        options: ModelOptions::default(),
        system: Vec::new(),
        prefill: Vec::new(),
        toolsets: Vec::new(),
        tools: Vec::new(),
        grant: Grant::default(),
        approver: ApproverMode::Deny,
        limits: Limits { max_iterations: 90, time_ms: 0, wrap_up_ms: 0 },
        cwd: cwd.to_owned(),
        context: None,
        output_schema: None,
    }
}
