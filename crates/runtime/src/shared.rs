//! What the agents of a session share, and how they begin in it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deputize_core::door::{FrameSecret, Secrets};
use deputize_core::{
    AgentId, AgentSpec, AgentView, Approver, AttachError, Authority, Cancel, Catalog, Endpoint,
    Event, External, Grant, Handoff, Hook, LogLevel, Memory, Policy, RateGate, RetryPolicy,
    SessionView, Store, ToolSource, describe_error,
};
use tokio::sync::{Notify, oneshot};
use tokio_util::task::TaskTracker;

use crate::agent_state::AgentStates;
use crate::background::Tell;
use crate::budget_ledger::{BudgetLedger, Budgets};
use crate::bus::Bus;
use crate::driver::Driver;
use crate::parts::{Models, Route, SyncMode};
use crate::pulse::Pulse;
use crate::session::declare;
use crate::spawn::{AgentState, LocalAgent};
use crate::store::Disk;
use crate::stored::StoredAgent;
use crate::tape::{Play, Tape};
use crate::tree::{Spent, Tree};
use crate::validate::Checker;
use crate::wall::Wall;

/// Everything the agents of a session share.
pub(crate) struct Shared {
    pub(crate) parts: SharedParts,
    pub(crate) bus: Bus,
    pub(crate) states: Arc<AgentStates>,
    pub(crate) checker: Checker,
    pub(crate) view: Arc<SessionView>,
    /// The session's file.
    pub(crate) path: PathBuf,
    /// The storage of the session's files.
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) cancel: Cancel,
    pub(crate) budget: Arc<BudgetLedger>,
    /// Where what is sent is recorded.
    pub(crate) tape: Option<Arc<Tape>>,
    /// The recording that is played instead of a run.
    pub(crate) play: Option<Arc<Play>>,
    /// Who said that no agent may be started for now.
    pub(crate) paused: Mutex<Option<String>>,
    /// An agent has ended, or new ones may begin or may not any more.
    pub(crate) changed: Notify,
    /// The time that children may take together, where it is limited.
    pub(crate) wall: Option<Arc<Wall>>,
    /// The tools that agents begin with from now on.
    pub(crate) catalog: Mutex<Arc<Catalog>>,
    pub(crate) tasks: TaskTracker,
    pub(crate) tree: Mutex<Tree>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shared({})", self.view.id)
    }
}

/// [`Parts`] less what moved elsewhere.
pub(crate) struct SharedParts {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) tools: Option<Arc<dyn ToolSource>>,
    pub(crate) models: Models,
    pub(crate) policy: Arc<dyn Policy>,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) retry: RetryPolicy,
    pub(crate) children: Grant,
    pub(crate) budgets: Budgets,
    pub(crate) gate: Arc<dyn RateGate>,
    pub(crate) random: Mutex<fastrand::Rng>,
    pub(crate) secrets: Secrets,
    pub(crate) hooks: Vec<Arc<dyn Hook>>,
    pub(crate) hook_time_limit: Duration,
    pub(crate) external: BTreeMap<String, Arc<dyn External>>,
    pub(crate) memory: Option<Arc<dyn Memory>>,
    pub(crate) handoff: Option<Arc<dyn Handoff>>,
    pub(crate) pulse: Option<Pulse>,
    pub(crate) sync: SyncMode,
    pub(crate) secret: FrameSecret,
    pub(crate) program: String,
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) config_file: Option<PathBuf>,
}

/// What is known of an agent's descendants at its end.
pub(crate) struct Ended {
    /// What those cost that ended.
    pub(crate) below: Spent,
    /// Those that still run.
    pub(crate) unfinished: Vec<AgentId>,
}

impl Shared {
    pub(crate) fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An agent ended: its parent's totals grow. Gives the tokens of its own descendants and
    /// those of them that still run.
    pub(crate) fn ended(&self, spec: &AgentSpec, own: Spent) -> Ended {
        let mut tree = self.tree();
        tree.live.remove(&spec.id);
        let below = tree.spent.remove(&spec.id).unwrap_or_default();
        if let Some(parent) = &spec.parent {
            let total = tree.spent.entry(parent.clone()).or_default();
            *total += own;
            *total += below;
        }
        Ended { below, unfinished: tree.live_below(&spec.id).cloned().collect() }
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

    /// What a child may do, on whatever path it comes to be: of what its parent may, what it asks
    /// for, within what children may have now, and a level less.
    pub(crate) fn child_authority(
        &self,
        parent: &AgentView,
        grant: &Grant,
    ) -> Result<Authority, AttachError> {
        let levels = parent.authority.spawn_depth().checked_sub(1);
        let below =
            Grant { spawn_depth: Some(levels.ok_or(AttachError::Depth)?), ..Grant::default() };
        Ok(parent.authority.meet(grant).meet(&self.parts.children).meet(&below))
    }

    /// The model of an agent, and those to fall back on that it may use. Where dollars are
    /// limited, each must have a price.
    pub(crate) fn routes(
        &self,
        spec: &AgentSpec,
        may: &Authority,
    ) -> Result<Vec<Route>, AttachError> {
        if self.play.is_some() {
            // No model is asked.
            return Ok(Vec::new());
        }
        if !may.may_use_model(&spec.model) {
            return Err(AttachError::ModelRefused(spec.model.clone()));
        }
        if self.parts.external.contains_key(&spec.model) {
            // What it costs, and how much it takes, is not known to anybody here.
            let (budgets, child) = (&self.parts.budgets, spec.depth > 0);
            return match (budgets.need_prices(child), budgets.limit(child)) {
                (true, _) => Err(AttachError::NoPrice(spec.model.clone())),
                (false, true) => Err(AttachError::External(format!(
                    "the budget is in tokens, and nobody here sees how many `{}` takes",
                    spec.model
                ))),
                (false, false) => Ok(Vec::new()),
            };
        }
        let routes = self.parts.models.routes(spec);
        let mut routes = routes.ok_or_else(|| AttachError::Model(spec.model.clone()))?;
        routes.retain(|route| may.may_use_model(&route.name));
        if self.parts.budgets.need_prices(spec.depth > 0) {
            if routes.first().is_some_and(|own| own.price.is_none()) {
                return Err(AttachError::NoPrice(spec.model.clone()));
            }
            routes.retain(|route| route.price.is_some());
        }
        for route in &mut routes {
            if let Some(own) = route.model.for_one_agent() {
                route.model = own;
            }
        }
        Ok(routes)
    }

    /// Makes the driver of an agent and puts its start on record.
    pub(crate) fn start(
        self: &Arc<Self>,
        spec: AgentSpec,
        authority: Authority,
        cancel: Cancel,
    ) -> Result<Driver, AttachError> {
        let routes = self.routes(&spec, &authority)?;
        let view = self.view_of(spec, authority);
        if self.play.is_none() {
            self.bus
                .start_agent(&view.spec, &view.declared)
                .map_err(|error| AttachError::Journal(describe_error(&error)))?;
        }
        Ok(Driver::new(Arc::clone(self), view, routes, cancel))
    }

    /// Makes the driver of an agent of the journal.
    pub(crate) fn revive(
        self: &Arc<Self>,
        stored: StoredAgent,
        authority: Authority,
        cancel: Cancel,
    ) -> Result<Driver, AttachError> {
        let routes = self.routes(&stored.spec, &authority)?;
        let mut view = self.view_of(stored.spec, authority);
        // What its model was told stays, to the byte, also under a newer program.
        if let Some(view) = Arc::get_mut(&mut view) {
            view.declared = stored.declared;
        }
        let mut driver = Driver::new(Arc::clone(self), view, routes, cancel);
        driver.earlier = stored.earlier;
        Ok(driver)
    }

    /// The tools that an agent begins with.
    fn catalog_for(&self, agent: &AgentId) -> Arc<Catalog> {
        match &self.play {
            Some(play) => play.tools_of(agent, &self.parts.catalog),
            None => Arc::clone(&self.catalog.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Looks what the program's tools are now. What is to be told of that goes on record, where
    /// the agent stands for which that is done.
    pub(crate) async fn look_at_tools(&self, by: &AgentSpec) -> Arc<Catalog> {
        let Some(source) = &self.parts.tools else { return Arc::clone(&self.parts.catalog) };
        let (now, notes) = source.now().await;
        *self.catalog.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&now);
        for message in notes {
            // A journal that takes no records ends the agent at its next one.
            let _kept = self.bus.record(by, Event::Log { level: LogLevel::Warn, message });
        }
        now
    }

    pub(crate) fn view_of(&self, spec: AgentSpec, authority: Authority) -> Arc<AgentView> {
        let mut view = AgentView {
            catalog: self.catalog_for(&spec.id),
            spec: Arc::new(spec),
            authority: Arc::new(authority),
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
        let (send, outcome) = oneshot::channel();
        // Whoever no longer waits finds the outcome in the journal.
        let tell = move |outcome| _ = send.send(outcome);
        self.launch_telling(driver, Box::new(tell));
        LocalAgent { id, spec, cancel: Some(cancel), state: AgentState::Runs(outcome) }
    }

    /// An agent is there from now on: others can find it, and it may have children.
    pub(crate) fn appears(&self, driver: &Driver) {
        let id = driver.view.id().clone();
        let mut tree = self.tree();
        tree.top.get_or_insert_with(|| Arc::clone(&driver.view.spec));
        tree.live.insert(id.clone(), Arc::clone(&driver.presence));
        tree.most_descendants.insert(id, driver.view.authority.spawn_number());
    }

    /// Runs an agent as a task of the session, whose outcome somebody is told.
    pub(crate) fn launch_telling(self: &Arc<Self>, driver: Driver, tell: Tell) {
        let child = driver.view.spec.depth > 0;
        self.appears(&driver);
        let driven = async move { tell(driver.drive().await) };
        match &self.play {
            Some(play) => play.launch(Box::pin(driven)),
            None => {
                self.tasks.spawn(driven);
                if child {
                    self.feel_pulse();
                }
            }
        }
    }
}
