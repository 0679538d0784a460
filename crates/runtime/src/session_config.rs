//! What a session is made of.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::agent::AgentSpec;
use deputize_core::authority::Grant;
use deputize_core::budget::Price;
use deputize_core::event::ModelEndpoint;
use deputize_core::external_agent::ExternalAgents;
use deputize_core::hook::Hook;
use deputize_core::memory::Memory;
use deputize_core::policy::{AllowAll, NoPerson};
use deputize_core::rate_limit::RateLimiter;
use deputize_core::retry::RetryPolicy;
use deputize_core::sanitize::{FrameSecret, Secrets};
use deputize_core::tool::ChildLifecycle;
use deputize_core::{Approver, Catalog, Clock, Model, Observer, Policy, ResourceMap, ToolSource};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::budget_ledger::Budgets;
use crate::clock::SystemClock;
use crate::pulse::Heartbeat;
use crate::recording::SessionRecorder;

/// How long one run of a hook may take, unless said otherwise.
pub const HOOK_TIME_LIMIT: Duration = Duration::from_secs(60);

/// When the record is forced to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SyncMode {
    /// Before a call that must not be repeated, and at the end of a turn.
    #[default]
    Turn,
    /// After every record.
    Always,
    /// Never; a power cut may lose the end.
    Never,
}

/// A model and its names.
#[derive(Clone)]
pub(crate) struct ModelRoute {
    /// As agents use it.
    pub(crate) name: String,
    /// As its provider knows it.
    pub(crate) at_provider: String,
    pub(crate) model: Arc<dyn Model>,
    /// What it costs, if that is known.
    pub(crate) price: Option<Price>,
}

/// Models by the name that agents use, `PROVIDER/MODEL`.
#[derive(Clone, Default)]
pub struct Models {
    routes: BTreeMap<String, ModelRoute>,
    fallback: Vec<String>,
    pinned_fallback: Vec<String>,
}

impl Models {
    /// Adds a model: the name agents use, its name at the provider, the way to it.
    pub fn insert(&mut self, name: &str, at_provider: &str, model: Arc<dyn Model>) {
        let (name, at_provider) = (name.to_owned(), at_provider.to_owned());
        self.routes.insert(name.clone(), ModelRoute { name, at_provider, model, price: None });
    }

    /// Puts something around a model that was added, such as one that answers some requests itself.
    pub fn wrap(&mut self, name: &str, wrap: impl FnOnce(Arc<dyn Model>) -> Arc<dyn Model>) {
        if let Some(route) = self.routes.get_mut(name) {
            route.model = wrap(Arc::clone(&route.model));
        }
    }

    /// Says what a model costs that was added.
    pub fn price(&mut self, name: &str, price: Price) {
        if let Some(route) = self.routes.get_mut(name) {
            route.price = Some(price);
        }
    }

    /// Says which models an agent goes on with, in this order, when its own cannot be used. A
    /// name without a model is passed over.
    pub fn fallback(&mut self, names: Vec<String>) {
        self.fallback = names;
    }

    /// Says the same of agents whose model was named for them
    /// ([`AgentSpec::model_pinned`](deputize_core::agent::AgentSpec::model_pinned)).
    pub fn pinned_fallback(&mut self, names: Vec<String>) {
        self.pinned_fallback = names;
    }

    /// The models that an agent goes on with.
    fn fallback_of(&self, spec: &AgentSpec) -> &[String] {
        if spec.model_pinned { &self.pinned_fallback } else { &self.fallback }
    }

    /// Whether an agent may go on with the other model, known at its provider as told: by the
    /// names of those to fall back on, because a replay needs no way to them.
    pub(crate) fn may_serve(&self, spec: &AgentSpec, (other, at_provider): (&str, &str)) -> bool {
        let known = other == spec.model || self.fallback_of(spec).iter().any(|name| name == other);
        known && self.routes.get(other).is_none_or(|route| route.at_provider == at_provider)
    }

    pub(crate) fn route(&self, name: &str) -> Option<&ModelRoute> {
        self.routes.get(name)
    }

    /// The model of an agent, and after it those to fall back on.
    pub(crate) fn routes(&self, spec: &AgentSpec) -> Option<Vec<ModelRoute>> {
        let own = self.routes.get(&spec.model)?;
        let others = self.fallback_of(spec).iter().filter(|other| **other != spec.model);
        let others = others.filter_map(|other| self.routes.get(other));
        Some(std::iter::once(own).chain(others).cloned().collect())
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.routes.keys()).finish()
    }
}

/// What a session is made of. Plain fields; start from [`SessionConfig::new`].
pub struct SessionConfig {
    /// The program's tools.
    pub catalog: Arc<Catalog>,
    /// Where the tools come from that children begin with, where the program's change while it
    /// runs.
    pub tools: Option<Arc<dyn ToolSource>>,
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
    /// What all requests of the program pass, for each provider and model. Sessions of one
    /// program share it; without one the session makes its own.
    pub rate_limiter: Option<Arc<dyn RateLimiter>>,
    /// What every child may have at most, whenever it was made: no resume gives it more.
    pub children: Grant,
    /// What agents may spend.
    pub budgets: Budgets,
    /// Where chance comes from (the spread of waits): the same seed gives the same run.
    pub seed: u64,
    /// Values that must not leave the program.
    pub secrets: Secrets,
    /// Who sees records.
    pub observers: Vec<Arc<dyn Observer>>,
    /// What is told of what agents do and may stop some of it, in this order.
    pub hooks: Vec<Arc<dyn Hook>>,
    /// How long one run of a hook may take.
    pub hook_time_limit: Duration,
    /// Ways to agents that are programs of their own, by the name that specs have for a model.
    pub external: BTreeMap<String, Arc<dyn ExternalAgents>>,
    /// What keeps something beyond the session, if there is such a thing.
    pub memory: Option<Arc<dyn Memory>>,
    /// How background children are admitted and reported, where an agent may have any.
    pub handoff: Option<Arc<dyn ChildLifecycle>>,
    /// When children give signs of life; nothing: they give none.
    pub heartbeat: Option<Heartbeat>,
    /// How long children may take together: the time in which at least one runs.
    pub children_time: Option<Duration>,
    /// Settings for tools.
    pub settings: ResourceMap,
    /// When the session file is synced.
    pub sync: SyncMode,
    /// What frame boundaries are derived from: random bytes.
    pub secret: FrameSecret,
    /// This program and its version, for the record.
    pub program: String,
    /// Where the top agent's model is reached, for the record, so that a resume goes nowhere
    /// else.
    pub endpoint: Option<ModelEndpoint>,
    /// The configuration file that a person named, for the record: an absolute path.
    pub config_file: Option<PathBuf>,
    /// Where the session is recorded, if it is, so that it can be played again.
    pub recorder: Option<Arc<SessionRecorder>>,
}

impl SessionConfig {
    /// Parts with these tools, no model, no person to ask, and rules that allow everything.
    ///
    /// # Panics
    /// When the system has no randomness to give.
    #[must_use]
    pub fn new(catalog: Catalog) -> Self {
        let mut random = [0; 16];
        #[expect(clippy::expect_used, reason = "frames that can be guessed protect nobody")]
        getrandom::fill(&mut random).expect("the system has no randomness for frame boundaries");
        Self {
            catalog: Arc::new(catalog),
            tools: None,
            models: Models::default(),
            policy: Arc::new(AllowAll),
            approver: Arc::new(NoPerson),
            clock: Arc::new(SystemClock),
            retry: RetryPolicy::default(),
            rate_limiter: None,
            children: Grant::default(),
            budgets: Budgets::default(),
            seed: fastrand::u64(..),
            secrets: Secrets::default(),
            observers: Vec::new(),
            hooks: Vec::new(),
            hook_time_limit: HOOK_TIME_LIMIT,
            external: BTreeMap::new(),
            memory: None,
            handoff: None,
            heartbeat: None,
            children_time: None,
            settings: ResourceMap::default(),
            sync: SyncMode::default(),
            secret: FrameSecret::new(&random),
            program: concat!("deputize-runtime ", env!("CARGO_PKG_VERSION")).to_owned(),
            endpoint: None,
            config_file: None,
            recorder: None,
        }
    }
}

impl fmt::Debug for SessionConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parts({:?}, {:?})", self.catalog, self.models)
    }
}
