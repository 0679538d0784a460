//! A session: one top agent, all its descendants, one journal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use deputize_core::door::{Source, quote};
use deputize_core::{
    AgentId, AgentSpec, AgentView, ApproverMode, AttachError, Authority, Cancel, CancelReason,
    Catalog, Cost, Event, ExitReason, FileLedger, Grant, Journal, JournalError, Limits,
    ModelOptions, Observer, Outcome, Progress, Record, Role, SessionId, SessionStart, SessionView,
    Status, Store, ToolDecl, Usable, describe_error,
};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use crate::agent_state::AgentStates;
use crate::budget_ledger::BudgetLedger;
use crate::bus::Bus;
use crate::cost_history::CostHistory;
use crate::driver::{Driver, host_fault};
use crate::gate::Gates;
use crate::oversee::Overseer;
use crate::parts::{Parts, SyncMode};
use crate::shared::{Shared, SharedParts};
use crate::spawn::Spawner;
use crate::store::{Header, ReadError, SessionDir, SessionFile};
use crate::stored::StoredAgent;
use crate::tape::{Beginning, Play};
use crate::tree::Tree;
use crate::validate::Checker;
use crate::wall::Wall;

/// Why a session cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Its file.
    #[error(transparent)]
    File(#[from] ReadError),
}

/// An outcome whose record may be lost: it is no success any more.
fn unkept(outcome: Outcome, error: &JournalError) -> Outcome {
    let unkept = "the end of the session could not be kept";
    let error = match &outcome.error {
        // Why is told once where no record could be kept any more.
        Some(first) if first.contains(&*error.path.to_string_lossy()) => {
            format!("{first}; {unkept}")
        }
        Some(first) => format!("{first}; {unkept}: {}", describe_error(error)),
        None => format!("{unkept}: {}", describe_error(error)),
    };
    let (status, exit_reason) = match outcome.status {
        Status::Completed => (Status::Error, ExitReason::Error),
        status => (status, outcome.exit_reason),
    };
    Outcome { status, exit_reason, error: Some(error), ..outcome }
}

/// The settings of a session, with who hears what its calls tell while they run: whoever watches.
/// A tool may go on telling when the session has ended.
fn heard(settings: Store, shared: &Weak<Shared>) -> Store {
    let shared = Weak::clone(shared);
    settings.get_or_insert_with(|| {
        Progress::new(move |agent, call, text| {
            if let Some(shared) = shared.upgrade() {
                shared.bus.progress(agent, call, &shared.parts.secrets.scrub(text));
            }
        })
    });
    settings
}

/// The tools of an agent as its model is told of them: the list that its spec has, or else, in
/// the order of its spec, those that it may use and that can be used now.
#[must_use]
pub fn declare(view: &AgentView) -> Vec<Arc<ToolDecl>> {
    if let Some(declared) = &view.spec.declared {
        return declared.to_vec();
    }
    let known = view.spec.tools.iter().filter_map(|name| view.catalog.get(name.as_str()));
    let mine = known.filter(|entry| view.authority.permits(entry).is_ok());
    let usable = mine.filter(|entry| entry.tool.spec().usable == Usable::Yes);
    let declare = |entry: &deputize_core::Entry| match entry.tool.declare(view) {
        Some(told) => Some(Arc::new(told)),
        None => view.catalog.declaration(entry.name().as_str()).cloned(),
    };
    usable.filter_map(declare).collect()
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
        begin_tape(&parts, &id, None);
        Ok(Self::over(dir, id, parts, Arc::new(file), Restored::default()))
    }

    pub(crate) fn over(
        dir: &SessionDir,
        id: SessionId,
        parts: Parts,
        journal: Arc<dyn Journal>,
        restored: Restored,
    ) -> Self {
        let tape = parts.tape.clone().map(|tape| tape as Arc<dyn Observer>);
        let shared = Arc::new_cyclic(|weak: &Weak<Shared>| Shared {
            bus: Bus::new(
                parts.clock,
                journal,
                tape.into_iter().chain(parts.observers).collect(),
                Arc::clone(&restored.states),
                (restored.next, restored.texts),
            ),
            states: restored.states,
            path: dir.file(&id),
            disk: Arc::clone(dir.disk()),
            checker: Checker::default(),
            view: Arc::new(SessionView {
                id: id.clone(),
                spill: dir.spill(&id),
                files: restored.files,
                settings: heard(parts.settings, weak),
                spawn: Arc::new(Spawner { shared: weak.clone() }),
            }),
            cancel: Cancel::new(),
            budget: Arc::new(BudgetLedger::new(
                parts.budgets,
                restored.spent,
                restored.cost_history,
            )),
            tape: parts.tape,
            play: restored.play,
            paused: Mutex::default(),
            changed: Notify::new(),
            wall: parts.children_time.map(|most| Arc::new(Wall::new(most, restored.children_time))),
            tree: Mutex::new(Tree::of(restored.agents)),
            tasks: TaskTracker::new(),
            catalog: Mutex::new(Arc::clone(&parts.catalog)),
            parts: SharedParts {
                catalog: parts.catalog,
                tools: parts.tools,
                models: parts.models,
                policy: parts.policy,
                approver: parts.approver,
                retry: parts.retry,
                children: parts.children,
                budgets: parts.budgets,
                gate: parts.gate.unwrap_or_else(|| Arc::new(Gates::new(parts.retry, parts.seed))),
                random: Mutex::new(fastrand::Rng::with_seed(parts.seed)),
                secrets: parts.secrets,
                hooks: parts.hooks,
                hook_time_limit: parts.hook_time_limit,
                handoff: parts.handoff,
                pulse: parts.pulse,
                external: parts.external,
                memory: parts.memory,
                sync: parts.sync,
                secret: parts.secret,
                program: parts.program,
                endpoint: parts.endpoint,
                config_file: parts.config_file,
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

    /// The spec of a top agent with a model, a task, all tools of the program, and what the
    /// memory has for its system text; set or add to the other fields as needed.
    #[must_use]
    pub fn top_agent(&self, model: &str, task: &str, cwd: &Path) -> AgentSpec {
        let catalog = self.catalog();
        let memory = self.shared.parts.memory.as_ref().and_then(|memory| memory.snapshot());
        let source = Source::Tool("memory".to_owned());
        let quoted = |text: String| quote(&source, &text).into_string().into();
        AgentSpec {
            system: memory.map(quoted).into_iter().collect(),
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

    /// The way to it while it runs, for whoever watches over it.
    #[must_use]
    pub fn overseer(&self) -> Overseer {
        Overseer { shared: Arc::downgrade(&self.shared) }
    }

    /// Runs the top agent to the end of its turn, and its descendants with it. When this
    /// returns, nothing that the session started still runs.
    pub async fn run(&self, spec: AgentSpec, authority: Authority, cancel: &Cancel) -> Outcome {
        let spec = self.shared.without_secrets(spec);
        let started = self.record_start(&spec).map_err(|error| describe_error(&error));
        let driver = started.and_then(|()| {
            self.shared
                .start(spec.clone(), authority, self.below(cancel))
                .map_err(|error| describe_error(&error))
        });
        self.finish(&spec, driver).await
    }

    /// The top agent of a recording that is played.
    pub(crate) fn actor(
        &self,
        stored: Option<StoredAgent>,
        spec: AgentSpec,
        authority: Authority,
    ) -> Result<Driver, AttachError> {
        let cancel = self.shared.cancel.child();
        match stored {
            Some(stored) => {
                let authority = authority.meet(&stored.spec.grant);
                self.shared.revive(stored, authority, cancel)
            }
            None => self.shared.start(self.shared.without_secrets(spec), authority, cancel),
        }
    }

    #[cfg(feature = "fuzz")]
    pub(crate) fn downgrade(&self) -> Weak<Shared> {
        Arc::downgrade(&self.shared)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn peek_stored<T>(
        &self,
        id: &AgentId,
        look: impl FnOnce(&StoredAgent) -> T,
    ) -> Option<T> {
        self.shared.tree().stored.get(id).map(look)
    }

    pub(crate) fn take_stored(&self, id: &AgentId) -> Option<StoredAgent> {
        self.shared.tree().stored.remove(id)
    }

    pub(crate) async fn run_stored(
        &self,
        stored: StoredAgent,
        authority: Authority,
        cancel: &Cancel,
    ) -> Outcome {
        let spec = stored.spec.clone();
        let driver = self
            .shared
            .revive(stored, authority, self.below(cancel))
            .map_err(|error| describe_error(&error));
        self.finish(&spec, driver).await
    }

    async fn finish(&self, spec: &AgentSpec, driver: Result<Driver, String>) -> Outcome {
        let outcome = match driver {
            Ok(driver) => self.shared.launch(driver).wait().await,
            Err(error) => host_fault(spec, error),
        };
        // Children that their parent did not wait for are told to end, and waited for.
        self.shared.cancel.cancel(CancelReason::EndedAbove);
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
        self.record_end(spec, outcome).await
    }

    /// Puts the end of the session on record, and gives the outcome, which says so if that
    /// failed. The answer is known either way; what a failed sync may have lost is written again
    /// by the next process that opens the session.
    pub(crate) async fn record_end(&self, spec: &AgentSpec, outcome: Outcome) -> Outcome {
        let end = Event::SessionEnd {
            status: outcome.status,
            exit_code: outcome.exit_code(),
            usage: outcome.tree_usage(),
            cost_usd: outcome.cost_usd,
        };
        match self.shared.bus.record(spec, end) {
            Ok(record) => self.kept_until(record.seq, outcome).await,
            Err(error) => unkept(outcome, &error),
        }
    }

    /// Waits until all up to this record is durable, and gives the outcome, which says so if that
    /// failed.
    pub(crate) async fn kept_until(&self, seq: u64, outcome: Outcome) -> Outcome {
        if self.shared.parts.sync == SyncMode::Never {
            return outcome;
        }
        match self.shared.bus.durable(seq).await {
            Ok(()) => outcome,
            Err(error) => unkept(outcome, &error),
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
            config_file: self.shared.parts.config_file.clone(),
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
    pub(crate) states: Arc<AgentStates>,
    pub(crate) agents: BTreeMap<AgentId, StoredAgent>,
    /// What was spent by all agents, and by children among them.
    pub(crate) spent: (Cost, Cost),
    /// What replies and completed tasks cost.
    pub(crate) cost_history: CostHistory,
    /// The time in which at least one child ran.
    pub(crate) children_time: Duration,
    pub(crate) play: Option<Arc<Play>>,
}

/// Begins a recording, if there is to be one, with what was there before.
pub(crate) fn begin_tape(parts: &Parts, session: &SessionId, before: Option<&[Record]>) {
    if let Some(tape) = &parts.tape {
        tape.begin(&Beginning {
            program: &parts.program,
            session,
            created: parts.clock.now_ms(),
            secret: &parts.secret,
            before,
        });
    }
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
        model_pinned: false,
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
        background: false,
        declared: None,
        unapproved: Vec::new(),
    }
}
