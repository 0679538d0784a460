//! State that a session's agents share, and how agents start in it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use deputize_core::agent::{AgentActivity, AgentSpec, AttachError};
use deputize_core::authority::Grant;
use deputize_core::event::LogLevel;
use deputize_core::external_agent::ExternalAgents;
use deputize_core::memory::Memory;
use deputize_core::rate_limit::RateLimiter;
use deputize_core::retry::RetryPolicy;
use deputize_core::sanitize::Secrets;
use deputize_core::tool::SessionView;
use deputize_core::{
    AgentId, AgentView, Authority, Cancel, Catalog, Event, Policy, ResourceMap, Status, ToolSource,
};
use parking_lot::{Mutex, MutexGuard};
use tokio_util::task::TaskTracker;

use crate::agent_registry::AgentRegistry;
use crate::agent_states::AgentStates;
use crate::agent_tree::{AgentTree, ended_summary};
use crate::approval::Approvals;
use crate::budget_ledger::BudgetLedger;
use crate::budgets::Budgets;
use crate::bus::Bus;
use crate::child_authority::ChildAuthorities;
use crate::compaction_config::CompactionConfig;
use crate::declare::declare;
use crate::hook_runner::HookRunner;
use crate::models::{ModelRoute, Models};
use crate::rate_limiters::RateLimiters;
use crate::recording::Playback;
use crate::session_config::{ChildConfig, RecordConfig, RequestConfig, SessionConfig};
use crate::store::{ReadError, StoredSession, read};
use crate::stored_agent::StoredAgent;
use crate::time_limit::TimeLimit;
use crate::validate::Checker;

/// Everything the agents of a session share.
pub(crate) struct SessionInner {
    pub(crate) config: SessionParts,
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
    /// The recording that is played instead of a run.
    pub(crate) play: Option<Arc<Playback>>,
    /// The time that children may take together, where it is limited.
    pub(crate) children_time: Option<Arc<TimeLimit>>,
    pub(crate) tasks: TaskTracker,
    pub(crate) child_authorities: ChildAuthorities,
}

impl std::fmt::Debug for SessionInner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SessionInner({})", self.view.id)
    }
}

/// [`SessionConfig`] less what moved elsewhere.
pub(crate) struct SessionParts {
    pub(crate) tools: SessionTools,
    pub(crate) models: Models,
    pub(crate) external: BTreeMap<String, Arc<dyn ExternalAgents>>,
    pub(crate) requests: RequestParts,
    pub(crate) policy: Arc<dyn Policy>,
    pub(crate) children: ChildConfig,
    pub(crate) budgets: Budgets,
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) memory: Option<Arc<dyn Memory>>,
    pub(crate) record: RecordConfig,
}

/// How the models of a session are asked.
pub(crate) struct RequestParts {
    pub(crate) retry: RetryPolicy,
    pub(crate) rate_limiter: Arc<dyn RateLimiter>,
    pub(crate) random: Mutex<fastrand::Rng>,
    pub(crate) compaction: CompactionConfig,
}

impl RequestParts {
    fn new(requests: RequestConfig) -> Self {
        let RequestConfig { retry, rate_limiter, seed, compaction } = requests;
        Self {
            retry,
            rate_limiter: rate_limiter.unwrap_or_else(|| Arc::new(RateLimiters::new(retry, seed))),
            random: Mutex::new(fastrand::Rng::with_seed(seed)),
            compaction,
        }
    }
}

/// The tools of a session's agents.
pub(crate) struct SessionTools {
    /// Those with which the session began.
    pub(crate) catalog: Arc<Catalog>,
    /// Where they come from, where they change.
    source: Option<Arc<dyn ToolSource>>,
    /// Those that agents begin with from now on.
    current: Mutex<Arc<Catalog>>,
}

impl SessionTools {
    fn new(catalog: Arc<Catalog>, source: Option<Arc<dyn ToolSource>>) -> Self {
        Self { current: Mutex::new(Arc::clone(&catalog)), catalog, source }
    }

    fn current(&self) -> Arc<Catalog> {
        Arc::clone(&self.current.lock())
    }

    /// Looks what the tools are now; returns them and notes on what changed.
    async fn refresh(&self) -> (Arc<Catalog>, Vec<String>) {
        let Some(source) = &self.source else { return (Arc::clone(&self.catalog), Vec::new()) };
        let (now, notes) = source.now().await;
        *self.current.lock() = Arc::clone(&now);
        (now, notes)
    }
}

impl SessionParts {
    pub(crate) fn new(config: SessionConfig, secrets: Arc<Secrets>) -> Self {
        Self {
            tools: SessionTools::new(config.tools.catalog, config.tools.source),
            models: config.models,
            external: config.external,
            requests: RequestParts::new(config.requests),
            policy: config.policy,
            children: config.children,
            budgets: config.budgets,
            secrets,
            memory: config.memory,
            record: config.record,
        }
    }
}

impl SessionInner {
    pub(crate) fn tree(&self) -> MutexGuard<'_, AgentTree> {
        self.registry.tree()
    }

    /// A spec whose texts hold no secret: the same one if none has any, and else a text that holds
    /// none stays the same allocation, which agents share.
    pub(crate) fn without_secrets(&self, mut shared: Arc<AgentSpec>) -> Arc<AgentSpec> {
        let secrets = &self.config.secrets;
        let is_clean = |text: &str| matches!(secrets.scrub(text), Cow::Borrowed(_));
        let is_clean = shared.system.iter().all(|block| is_clean(block))
            && is_clean(&shared.goal)
            && is_clean(&shared.task)
            && shared.context.as_ref().is_none_or(|text| is_clean(text));
        if is_clean {
            return shared;
        }
        let spec = Arc::make_mut(&mut shared);
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
        shared
    }

    /// Returns the rights of a child, on every path that starts one: its request, within its
    /// parent's rights and the present bound for children, and one level less.
    pub(crate) fn child_authority(
        &self,
        parent: &AgentView,
        grant: &Grant,
    ) -> Result<Arc<Authority>, AttachError> {
        self.child_authorities.of(&parent.authority, grant, &self.config.children.grant)
    }

    fn no_price(&self, spec: &AgentSpec) -> AttachError {
        let setting = self.config.children.setting_names.note("prices");
        AttachError::NoPrice { model: spec.model.clone(), setting }
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
        if self.config.external.contains_key(&spec.model) {
            // What it costs, and how much it takes, is not known to anybody here.
            let budgets = &self.config.budgets;
            let child = spec.depth > 0;
            return match (budgets.need_prices(child), budgets.limit(child)) {
                (true, _) => Err(self.no_price(spec)),
                (false, true) => Err(AttachError::External(format!(
                    "the budget is in tokens, and the tokens of `{}` are unknown",
                    spec.model
                ))),
                (false, false) => Ok(Vec::new()),
            };
        }
        let routes = self.config.models.routes(spec);
        let mut routes = routes.ok_or_else(|| AttachError::Model(spec.model.clone()))?;
        routes.retain(|route| may.may_use_model(&route.name));
        if self.config.budgets.need_prices(spec.depth > 0) {
            if routes.first().is_some_and(|own| own.price.is_none()) {
                return Err(self.no_price(spec));
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
            Some(play) => play.tools_of(agent, &self.config.tools.catalog),
            None => self.config.tools.current(),
        }
    }

    /// Refreshes the program's tools, and records notes about them at this agent.
    pub(crate) async fn look_at_tools(&self, by: &AgentSpec) -> Arc<Catalog> {
        let (now, notes) = self.config.tools.refresh().await;
        for message in notes {
            // A journal that takes no records ends the agent at its next one.
            let _kept =
                self.bus.record(by, Event::Log { level: LogLevel::Warn, message, cause: None });
        }
        now
    }

    pub(crate) fn view_of(
        &self,
        spec: Arc<AgentSpec>,
        authority: Arc<Authority>,
    ) -> Arc<AgentView> {
        let mut view = AgentView {
            catalog: self.catalog_for(&spec.id),
            spec,
            authority,
            declared: Vec::new(),
            store: ResourceMap::default(),
            session: Arc::clone(&self.view),
        };
        view.declared = declare(&view);
        Arc::new(view)
    }
    /// Reads the session's file, as far as it is written.
    pub(crate) fn stored(&self) -> Result<StoredSession, ReadError> {
        read(&*self.approvals.disk, &self.path)
    }

    /// An agent has ended for good, and its outcome is known. Keeps it if it may get a further task;
    /// forgets it otherwise. What is kept has no messages: the session file has them.
    pub(crate) fn keep_continuable(&self, ended: StoredAgent) {
        let lifecycle = self.config.children.lifecycle.as_ref();
        let may_continue = lifecycle.is_some_and(|lifecycle| lifecycle.continues_children());
        let id = ended.spec.id.clone();
        let status = ended.state.read().outcome().map_or(Status::Error, |end| end.status);
        let summary = ended_summary(&ended.spec, AgentActivity::Ended(status));
        let mut tree = self.tree();
        tree.ended.insert(id.clone(), summary);
        if may_continue && ended.spec.depth > 0 {
            // A replay has no file to read them from.
            if self.play.is_none() {
                ended.state.release_messages();
            }
            tree.continuable.insert(id, ended);
        } else {
            self.states.remove(&id);
        }
        drop(tree);
        self.registry.notify();
    }
}
