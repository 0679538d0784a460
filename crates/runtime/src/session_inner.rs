//! What the agents of a session share, and how they begin in it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deputize_core::agent::{AgentSpec, AttachError};
use deputize_core::authority::Grant;
use deputize_core::event::{LogLevel, ModelEndpoint};
use deputize_core::external_agent::ExternalAgents;
use deputize_core::memory::Memory;
use deputize_core::rate_limit::RateLimiter;
use deputize_core::retry::RetryPolicy;
use deputize_core::sanitize::{FrameSecret, Secrets};
use deputize_core::tool::{ChildLifecycle, SessionView};
use deputize_core::{
    AgentId, AgentView, Authority, Cancel, Catalog, Event, Policy, ResourceMap, ToolSource,
};
use tokio_util::task::TaskTracker;

use crate::agent_registry::AgentRegistry;
use crate::agent_state::AgentStates;
use crate::agent_tree::AgentTree;
use crate::approval::Approvals;
use crate::budget_ledger::{BudgetLedger, Budgets};
use crate::bus::Bus;
use crate::declare::declare;
use crate::hook_runner::HookRunner;
use crate::pulse::Heartbeat;
use crate::rate_limiters::RateLimiters;
use crate::recording::{Playback, SessionRecorder};
use crate::session_config::{ModelRoute, Models, SessionConfig, SyncMode};
use crate::time_limit::TimeLimit;
use crate::validate::Checker;

/// Everything the agents of a session share.
pub(crate) struct SessionInner {
    pub(crate) parts: SessionParts,
    pub(crate) bus: Arc<Bus>,
    pub(crate) registry: Arc<AgentRegistry>,
    pub(crate) hooks: HookRunner,
    pub(crate) approvals: Approvals,
    pub(crate) states: Arc<AgentStates>,
    pub(crate) checker: Checker,
    pub(crate) view: Arc<SessionView>,
    /// The session's file.
    pub(crate) path: PathBuf,
    pub(crate) cancel: Cancel,
    pub(crate) budget: Arc<BudgetLedger>,
    /// Where what is sent is recorded.
    pub(crate) tape: Option<Arc<SessionRecorder>>,
    /// The recording that is played instead of a run.
    pub(crate) play: Option<Arc<Playback>>,
    /// The time that children may take together, where it is limited.
    pub(crate) children_time: Option<Arc<TimeLimit>>,
    /// The tools that agents begin with from now on.
    pub(crate) catalog: Mutex<Arc<Catalog>>,
    pub(crate) tasks: TaskTracker,
}

impl std::fmt::Debug for SessionInner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SessionInner({})", self.view.id)
    }
}

/// [`SessionConfig`] less what moved elsewhere.
pub(crate) struct SessionParts {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) tools: Option<Arc<dyn ToolSource>>,
    pub(crate) models: Models,
    pub(crate) policy: Arc<dyn Policy>,
    pub(crate) retry: RetryPolicy,
    pub(crate) children: Grant,
    pub(crate) budgets: Budgets,
    pub(crate) gate: Arc<dyn RateLimiter>,
    pub(crate) random: Mutex<fastrand::Rng>,
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) external: BTreeMap<String, Arc<dyn ExternalAgents>>,
    pub(crate) memory: Option<Arc<dyn Memory>>,
    pub(crate) handoff: Option<Arc<dyn ChildLifecycle>>,
    pub(crate) pulse: Option<Heartbeat>,
    pub(crate) sync: SyncMode,
    pub(crate) secret: FrameSecret,
    pub(crate) program: String,
    pub(crate) endpoint: Option<ModelEndpoint>,
    pub(crate) config_file: Option<PathBuf>,
}

impl SessionParts {
    pub(crate) fn new(parts: SessionConfig, secrets: Arc<Secrets>) -> Self {
        Self {
            catalog: parts.catalog,
            tools: parts.tools,
            models: parts.models,
            policy: parts.policy,
            retry: parts.retry,
            children: parts.children,
            budgets: parts.budgets,
            gate: parts
                .rate_limiter
                .unwrap_or_else(|| Arc::new(RateLimiters::new(parts.retry, parts.seed))),
            random: Mutex::new(fastrand::Rng::with_seed(parts.seed)),
            secrets,
            handoff: parts.handoff,
            pulse: parts.heartbeat,
            external: parts.external,
            memory: parts.memory,
            sync: parts.sync,
            secret: parts.secret,
            program: parts.program,
            endpoint: parts.endpoint,
            config_file: parts.config_file,
        }
    }
}

impl SessionInner {
    pub(crate) fn tree(&self) -> MutexGuard<'_, AgentTree> {
        self.registry.tree()
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
        Ok(parent.authority.intersect(grant).intersect(&self.parts.children).intersect(&below))
    }

    /// The model of an agent, and those to fall back on that it may use. Where dollars are
    /// limited, each must have a price.
    pub(crate) fn routes(
        &self,
        spec: &AgentSpec,
        may: &Authority,
    ) -> Result<Vec<ModelRoute>, AttachError> {
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
            store: ResourceMap::default(),
            session: Arc::clone(&self.view),
        };
        view.declared = declare(&view);
        Arc::new(view)
    }
}
