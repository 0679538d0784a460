//! A session: one top agent, all its descendants, one journal.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use deputize_core::door::{FrameSecret, Secrets};
use deputize_core::{
    AgentId, AgentSpec, AgentView, Approver, ApproverMode, AttachError, Authority, Cancel,
    CancelReason, Catalog, Endpoint, Event, FileLedger, Grant, JournalError, Limits, ModelOptions,
    Outcome, Policy, RetryPolicy, Role, Run, SessionId, SessionStart, SessionView, Store, ToolDecl,
    Usable, Usage,
};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use crate::bus::Bus;
use crate::driver::{Driver, host_fault};
use crate::parts::{Models, Parts, SyncMode};
use crate::resume::Stored;
use crate::spawn::{AgentState, LocalAgent, Spawner};
use crate::store::{Header, ReadError, SessionDir, SessionFile};
use crate::tree::Tree;
use crate::validate::Checker;

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
    endpoint: Option<Endpoint>,
}

impl Shared {
    pub(crate) fn tree(&self) -> MutexGuard<'_, Tree> {
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

    /// A spec whose texts hold no secret. A text that holds none stays the same allocation,
    /// which agents share.
    pub(crate) fn without_secrets(&self, mut spec: AgentSpec) -> AgentSpec {
        let secrets = &self.parts.secrets;
        for block in &mut spec.system {
            if let Cow::Owned(scrubbed) = secrets.scrub(block) {
                *block = scrubbed.into();
            }
        }
        for text in [&mut spec.goal, &mut spec.task].into_iter().chain(&mut spec.context) {
            if let Cow::Owned(scrubbed) = secrets.scrub(text) {
                *text = scrubbed;
            }
        }
        spec
    }

    /// Makes the driver of an agent and puts its start on record.
    pub(crate) fn start(
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
    pub(crate) fn revive(
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
    pub(crate) fn launch(self: &Arc<Self>, driver: Driver) -> LocalAgent {
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
            tree: Mutex::new(Tree::of(restored.agents)),
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
                endpoint: parts.endpoint,
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

    /// The spec of a top agent with a model, a task, and all tools of the program; set the other
    /// fields as needed.
    #[must_use]
    pub fn top_agent(&self, model: &str, task: &str, cwd: &Path) -> AgentSpec {
        let catalog = self.catalog();
        AgentSpec {
            toolsets: catalog.toolsets().into_iter().collect(),
            tools: catalog.iter().map(|entry| entry.name().clone()).collect(),
            ..top_agent(&self.id, model, task, cwd)
        }
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
        let spec = self.shared.without_secrets(spec);
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
        self.record_end(spec, &outcome).await;
        outcome
    }

    /// Puts the end of the session on record. The answer is known either way; a disk that fails
    /// here shows at the next start.
    pub(crate) async fn record_end(&self, spec: &AgentSpec, outcome: &Outcome) {
        let end = Event::SessionEnd {
            status: outcome.status,
            exit_code: outcome.exit_code(),
            usage: outcome.tree_usage(),
            cost_usd: outcome.cost_usd,
        };
        if let Ok(record) = self.shared.bus.record(spec, end)
            && self.shared.parts.sync != SyncMode::Never
        {
            let _synced = self.shared.bus.durable(record.seq).await;
        }
    }

    /// A signal below the caller's and the session's own.
    fn below(&self, cancel: &Cancel) -> Cancel {
        let own = self.shared.cancel.child();
        let (caller, below) = (cancel.clone(), own.clone());
        self.shared.tasks.spawn(async move {
            tokio::select! {
                biased;
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
            endpoint: self.shared.parts.endpoint.clone(),
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

/// What a session that is taken up again brings along.
#[derive(Default)]
pub(crate) struct Restored {
    pub(crate) next: u64,
    pub(crate) texts: BTreeSet<String>,
    pub(crate) files: FileLedger,
    pub(crate) agents: BTreeMap<AgentId, Stored>,
}

/// The spec of a top agent with nothing but a model and a task: no tools, no system text; see
/// [`Session::top_agent`].
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
