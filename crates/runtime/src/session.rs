//! A session: one top agent, all its descendants, one journal.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Weak};

use deputize_core::agent::{AgentLimits, AgentSpec, AttachError, Role};
use deputize_core::authority::{ApproverMode, Grant};
use deputize_core::event::Journal;
use deputize_core::model::ModelOptions;
use deputize_core::sanitize::frame_quote;
use deputize_core::source::Source;
use deputize_core::source_set::SourceSet;
use deputize_core::tool::{Progress, SessionView};
use deputize_core::{
    AgentId, AgentView, Authority, Cancel, Catalog, Observer, Outcome, Record, ResourceMap,
    SessionId, describe_error,
};
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, Span, info_span};

use crate::agent_registry::AgentRegistry;
use crate::agent_tree::AgentTree;
use crate::approval::Approvals;
use crate::budget_ledger::BudgetLedger;
use crate::bus::{Bus, JournalState};
use crate::child_authority::ChildAuthorities;
use crate::hook_runner::HookRunner;
use crate::launch::{ReadyAgent, resume_agent, start};
use crate::recording::RecordingStart;
use crate::resume::{Continue, Recovery, ResumeError, resume_top_agent};
use crate::session_config::SessionConfig;
use crate::session_control::SessionControl;
use crate::session_inner::{SessionInner, SessionParts};
use crate::session_run::{record_start, run_to_end, signal_below};
use crate::spawn::Spawner;
use crate::store::{FileTail, Header, ReadError, SessionDir, SessionFile};
use crate::stored_agent::{RestoredSession, StoredAgent, restore_session};
use crate::time_limit::TimeLimit;
use crate::validate::Checker;

/// Why a session cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Its file cannot be created or read.
    #[error(transparent)]
    File(#[from] ReadError),
}

/// Returns the settings of a session, with the progress of calls sent to the observers. A tool may
/// still report progress after the session has ended.
fn observers_of(settings: ResourceMap, shared: &Weak<SessionInner>) -> ResourceMap {
    let shared = Weak::clone(shared);
    settings.get_or_insert_with(|| {
        Progress::new(move |agent, call, text| {
            if let Some(shared) = shared.upgrade() {
                shared.bus.progress(agent, call, &shared.config.secrets.scrub(text));
            }
        })
    });
    settings
}

/// One top agent, all its descendants, one journal.
pub struct Session {
    shared: Arc<SessionInner>,
    id: SessionId,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({})", self.id)
    }
}

impl Session {
    /// Creates a session, stored in a folder.
    ///
    /// # Errors
    /// When its file exists or cannot be made.
    pub fn create(
        dir: &SessionDir,
        id: SessionId,
        config: SessionConfig,
    ) -> Result<Self, SessionError> {
        let header = Header {
            format: crate::store::FORMAT,
            session: id.clone(),
            created: config.clock.now_ms(),
            secret: config.record.secret.clone(),
        };
        let file = SessionFile::create(dir, &header)?;
        begin_recording(&config, &id, None);
        Ok(Self::with_journal(dir, id, config, Arc::new(file), RestoredSession::default()))
    }

    /// Returns a session whose records go to a journal.
    pub(crate) fn with_journal(
        dir: &SessionDir,
        id: SessionId,
        mut config: SessionConfig,
        journal: Arc<dyn Journal>,
        restored: RestoredSession,
    ) -> Self {
        let recorder = config.record.recorder.clone().map(|recorder| recorder as Arc<dyn Observer>);
        let bus = Arc::new(Bus::new(
            Arc::clone(&config.clock),
            journal,
            recorder.into_iter().chain(std::mem::take(&mut config.observers)).collect(),
            Arc::clone(&restored.states),
            JournalState { next: restored.next, texts: restored.texts },
        ));
        let registry = Arc::new(AgentRegistry::new(AgentTree::of(restored.agents)));
        let secrets = Arc::new(std::mem::take(&mut config.secrets));
        let shared = Arc::new_cyclic(|weak: &Weak<SessionInner>| SessionInner {
            hooks: HookRunner {
                session: id.clone(),
                hooks: std::mem::take(&mut config.hooks.hooks),
                time_limit: config.hooks.time_limit,
                secrets: Arc::clone(&secrets),
                bus: Arc::clone(&bus),
            },
            approvals: Approvals {
                approver: Arc::clone(&config.approver),
                registry: Arc::clone(&registry),
                bus: Arc::clone(&bus),
                disk: Arc::clone(dir.disk()),
                spill: dir.spill(&id),
            },
            registry,
            bus,
            states: restored.states,
            path: dir.file(&id),
            checker: Checker::default(),
            view: Arc::new(SessionView {
                id: id.clone(),
                spill: dir.spill(&id),
                files: restored.files,
                settings: observers_of(std::mem::take(&mut config.tools.settings), weak),
                spawn: Arc::new(Spawner { shared: weak.clone() }),
                control: Arc::new(Spawner { shared: weak.clone() }),
            }),
            cancel: Cancel::new(),
            budget: Arc::new(BudgetLedger::new(
                config.budgets,
                restored.spent,
                restored.cost_history,
            )),
            play: restored.play,
            children_time: config
                .children
                .time_limit
                .map(|most| Arc::new(TimeLimit::new(most, restored.children_time))),
            tasks: TaskTracker::new(),
            child_authorities: ChildAuthorities::default(),
            config: SessionParts::new(config, secrets),
        });
        Self { shared, id }
    }

    /// Returns its id.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Returns the program's tools.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.shared.config.tools.catalog
    }

    /// Returns the spec of a top agent with a model, a task, all tools of the program, and what the
    /// memory has for its system text; set or add to the other fields as needed.
    #[must_use]
    pub fn top_agent(&self, model: &str, task: &str, cwd: &Path) -> AgentSpec {
        let catalog = self.catalog();
        let memory = self.shared.config.memory.as_ref();
        let memory = memory.and_then(|memory| memory.snapshot());
        let (memory, system_sources) = memory.map(|it| (it.text, it.sources)).unzip();
        let source = Source::tool("memory");
        let quoted = |text: String| frame_quote(&source, &text).into_string().into();
        AgentSpec {
            system: memory.map(quoted).into_iter().collect(),
            system_sources: system_sources.unwrap_or_default(),
            toolsets: catalog.toolsets().into_iter().collect(),
            tools: catalog.iter().map(|entry| entry.name().clone()).collect(),
            ..top_agent(&self.id, model, task, cwd)
        }
    }

    /// Returns the view that all its agents share.
    #[must_use]
    pub fn view(&self) -> &Arc<SessionView> {
        &self.shared.view
    }

    /// Returns the view of an agent without creating it: what its model would get.
    #[must_use]
    pub fn preview(&self, spec: AgentSpec, authority: Authority) -> Arc<AgentView> {
        self.shared.view_of(Arc::new(spec), Arc::new(authority))
    }

    /// Returns the control of the session, usable while it runs.
    #[must_use]
    pub fn control(&self) -> SessionControl {
        SessionControl { shared: Arc::downgrade(&self.shared) }
    }

    /// Runs the top agent to the end of its turn, and its descendants with it. When this
    /// returns, nothing that the session started still runs.
    pub async fn run(&self, spec: AgentSpec, authority: Authority, cancel: &Cancel) -> Outcome {
        let spec = self.shared.without_secrets(Arc::new(spec));
        let shared = &self.shared;
        let run = async {
            let agent = record_start(shared, &spec).map_err(|error| describe_error(&error));
            let agent = agent.and_then(|()| {
                let cancel = signal_below(shared, cancel);
                let started = start(shared, Arc::clone(&spec), Arc::new(authority), cancel);
                started.map_err(|error| describe_error(&error))
            });
            run_to_end(shared, &spec, agent).await
        };
        run.instrument(self.span()).await
    }

    /// Returns the span of this session in the log.
    fn span(&self) -> Span {
        info_span!("session", id = %self.id)
    }

    /// Makes the top agent of a recording that is played.
    pub(crate) fn replayed_agent(
        &self,
        stored: Option<StoredAgent>,
        spec: AgentSpec,
        authority: Authority,
    ) -> Result<ReadyAgent, AttachError> {
        let shared = &self.shared;
        let cancel = shared.cancel.child();
        match stored {
            Some(stored) => {
                let authority = Arc::new(authority.intersect(&stored.spec.grant));
                resume_agent(shared, stored, authority, cancel)
            }
            None => {
                let spec = shared.without_secrets(Arc::new(spec));
                start(shared, spec, Arc::new(authority), cancel)
            }
        }
    }

    #[cfg(feature = "fuzz")]
    pub(crate) fn downgrade(&self) -> Weak<SessionInner> {
        Arc::downgrade(&self.shared)
    }

    pub(crate) fn shared(&self) -> &Arc<SessionInner> {
        &self.shared
    }

    pub(crate) fn take_stored(&self, id: &AgentId) -> Option<StoredAgent> {
        self.shared.tree().stored.remove(id)
    }

    /// Opens a stored session to resume it.
    ///
    /// # Errors
    /// When it is in use, damaged, or cannot be opened.
    pub fn open(
        dir: &SessionDir,
        id: SessionId,
        config: SessionConfig,
    ) -> Result<(Self, Recovery), SessionError> {
        let (file, stored) = SessionFile::open(dir, &id)?;
        let mut config = config;
        config.record.secret = stored.header.secret.clone();
        let dropped_bytes = match stored.tail {
            FileTail::Whole => 0,
            FileTail::Torn { bytes } => {
                tracing::warn!(session = %id, bytes, "torn end of the session file cut off");
                bytes
            }
        };
        config.observers.iter().for_each(|observer| observer.on_restore(&stored.records));
        let restored = restore_session(&stored.records, &config);
        let recovery = Recovery::of(&restored.agents, &id, &config.tools.catalog, dropped_bytes);
        begin_recording(&config, &id, Some(&stored.records));
        Ok((Self::with_journal(dir, id, config, Arc::new(file), restored), recovery))
    }

    /// Returns the spec of the stored top agent.
    ///
    /// # Errors
    /// When the session has none.
    pub fn stored_spec(&self) -> Result<AgentSpec, ResumeError> {
        let root = AgentId::root(self.id());
        let spec = self.shared.tree().stored.get(&root).map(|stored| stored.spec.clone());
        spec.ok_or_else(|| ResumeError::Empty(self.id().clone()))
    }

    /// Goes on with a session that was opened: finishes what was begun, or takes a new
    /// message. One that is complete gives the outcome it has. The authority is met with what the agent had asked for.
    ///
    /// # Errors
    /// If there is nothing to resume, or if the journal takes no records.
    pub async fn resume(
        &self,
        how: Continue,
        authority: Authority,
        cancel: &Cancel,
    ) -> Result<Outcome, ResumeError> {
        // What it holds across its waits is too large for the stack of every caller.
        let run = resume_top_agent(&self.shared, how, authority, cancel);
        Box::pin(run.instrument(self.span())).await
    }
}

/// Begins a recording, if there is to be one, with what was there before.
pub(crate) fn begin_recording(
    config: &SessionConfig,
    session: &SessionId,
    before: Option<&[Record]>,
) {
    if let Some(recorder) = &config.record.recorder {
        recorder.begin(&RecordingStart {
            program: &config.record.program,
            session,
            created: config.clock.now_ms(),
            secret: &config.record.secret,
            before,
        });
    }
}

/// Returns the spec of a top agent with nothing but a model and a task: no tools, no system text;
/// see [`Session::top_agent`].
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
        task_sources: SourceSet::new(),
        model: model.to_owned(),
        images: Vec::new(),
        model_pinned: false,
        options: ModelOptions::default(),
        system: Vec::new(),
        system_sources: SourceSet::new(),
        prefill: Vec::new(),
        is_fork: false,
        toolsets: Vec::new(),
        tools: Vec::new(),
        grant: Grant::default(),
        approver: ApproverMode::Deny,
        limits: AgentLimits { max_iterations: 90, time_ms: 0, wrap_up_ms: 0 },
        cwd: cwd.to_owned(),
        context: None,
        output_schema: None,
        background: false,
        declared: None,
        unapproved: Vec::new(),
        profile: None,
        profile_max_iterations: None,
    }
}
