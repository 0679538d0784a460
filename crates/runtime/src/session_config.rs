//! Configuration of a session.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::authority::Grant;
use deputize_core::event::ModelEndpoint;
use deputize_core::external_agent::ExternalAgents;
use deputize_core::hook::Hook;
use deputize_core::memory::Memory;
use deputize_core::policy::{AllowAll, NoPerson};
use deputize_core::rate_limit::RateLimiter;
use deputize_core::retry::RetryPolicy;
use deputize_core::sanitize::{FrameSecret, Secrets};
use deputize_core::setting_names::SettingNames;
use deputize_core::tool::ChildLifecycle;
use deputize_core::{Approver, Catalog, Clock, Observer, Policy, ResourceMap, ToolSource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::budgets::Budgets;
use crate::clock::SystemClock;
use crate::compaction_config::CompactionConfig;
use crate::heartbeat_config::Heartbeat;
use crate::models::Models;
use crate::recording::SessionRecorder;

/// Default time limit of one run of a hook.
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

/// Configuration of a session. Plain fields; start from [`SessionConfig::new`].
pub struct SessionConfig {
    /// The program's tools.
    pub tools: ToolConfig,
    /// Models that agents can use, by name.
    pub models: Models,
    /// Ways to agents that are programs of their own, by the name that specs have for a model.
    pub external: BTreeMap<String, Arc<dyn ExternalAgents>>,
    /// How models are asked.
    pub requests: RequestConfig,
    /// Rules that judge each call.
    pub policy: Arc<dyn Policy>,
    /// Who is asked.
    pub approver: Arc<dyn Approver>,
    /// Settings for children.
    pub children: ChildConfig,
    /// Budgets of the agents.
    pub budgets: Budgets,
    /// Values that must not leave the program.
    pub secrets: Secrets,
    /// Who sees records.
    pub observers: Vec<Arc<dyn Observer>>,
    /// Hooks that see what agents do and may block it.
    pub hooks: HookConfig,
    /// Memory across sessions; `None` for no memory.
    pub memory: Option<Arc<dyn Memory>>,
    /// Source of the present time.
    pub clock: Arc<dyn Clock>,
    /// How the session is put on record.
    pub record: RecordConfig,
}

impl SessionConfig {
    /// Returns a configuration with these tools, no model, no person to ask, and rules that allow
    /// everything.
    ///
    /// # Panics
    /// When the system has no randomness to give.
    #[must_use]
    pub fn new(catalog: impl Into<Arc<Catalog>>) -> Self {
        Self {
            tools: ToolConfig::new(catalog),
            models: Models::default(),
            external: BTreeMap::new(),
            requests: RequestConfig::default(),
            policy: Arc::new(AllowAll),
            approver: Arc::new(NoPerson),
            children: ChildConfig::default(),
            budgets: Budgets::default(),
            secrets: Secrets::default(),
            observers: Vec::new(),
            hooks: HookConfig::default(),
            memory: None,
            clock: Arc::new(SystemClock),
            record: RecordConfig::new(),
        }
    }
}

impl fmt::Debug for SessionConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionConfig({:?}, {:?})", self.tools, self.models)
    }
}

/// The tools of a session.
pub struct ToolConfig {
    /// The program's tools.
    pub catalog: Arc<Catalog>,
    /// Where the tools come from that children begin with, where the program's change while it
    /// runs.
    pub source: Option<Arc<dyn ToolSource>>,
    /// Settings for tools.
    pub settings: ResourceMap,
}

impl ToolConfig {
    /// Returns these tools without a source or settings.
    #[must_use]
    pub fn new(catalog: impl Into<Arc<Catalog>>) -> Self {
        Self { catalog: catalog.into(), source: None, settings: ResourceMap::default() }
    }
}

impl fmt::Debug for ToolConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolConfig({:?})", self.catalog)
    }
}

/// How models are asked.
#[derive(Clone)]
pub struct RequestConfig {
    /// How failed requests are tried again.
    pub retry: RetryPolicy,
    /// Rate limiter for all requests of the program, by provider and model. Sessions of one program
    /// share it; with `None` the session makes its own.
    pub rate_limiter: Option<Arc<dyn RateLimiter>>,
    /// Where chance comes from (the spread of waits): the same seed gives the same run.
    pub seed: u64,
    /// When conversations are compacted. Without a known context window of its model, a conversation
    /// is compacted once the provider refuses it as too long.
    pub compaction: CompactionConfig,
}

impl Default for RequestConfig {
    fn default() -> Self {
        Self {
            retry: RetryPolicy::default(),
            rate_limiter: None,
            seed: fastrand::u64(..),
            compaction: CompactionConfig::default(),
        }
    }
}

impl fmt::Debug for RequestConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestConfig({:?})", self.retry)
    }
}

/// Settings for all children of a session.
#[derive(Clone, Default)]
pub struct ChildConfig {
    /// Upper bound on the rights of every child, which no resume exceeds.
    pub grant: Grant,
    /// Time limit of all children together, while at least one runs.
    pub time_limit: Option<Duration>,
    /// Heartbeats of children; `None` means that they send none.
    pub heartbeat: Option<Heartbeat>,
    /// How background children are admitted and reported, where an agent may have any.
    pub lifecycle: Option<Arc<dyn ChildLifecycle>>,
    /// The host's names of settings in errors and outcomes: `approvals`, `children_time`, `prices`
    /// and `wrap_up_seconds`.
    pub setting_names: SettingNames,
}

impl fmt::Debug for ChildConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChildConfig({:?})", self.grant)
    }
}

/// Hooks that see what agents do and may block it.
#[derive(Clone)]
pub struct HookConfig {
    /// The hooks, in the order in which they run.
    pub hooks: Vec<Arc<dyn Hook>>,
    /// Time limit of one run of a hook.
    pub time_limit: Duration,
}

impl Default for HookConfig {
    fn default() -> Self {
        Self { hooks: Vec::new(), time_limit: HOOK_TIME_LIMIT }
    }
}

impl fmt::Debug for HookConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.hooks.iter().map(|hook| hook.name());
        f.debug_list().entries(names).finish()
    }
}

/// How a session is put on record.
#[derive(Debug, Clone)]
pub struct RecordConfig {
    /// When the session file is synced.
    pub sync: SyncMode,
    /// Random bytes from which frame boundaries are derived.
    pub secret: FrameSecret,
    /// The program and its version.
    pub program: String,
    /// Where the top agent's model is reached, so that a resume goes nowhere else.
    pub endpoint: Option<ModelEndpoint>,
    /// The configuration file that a person named: an absolute path.
    pub config_file: Option<PathBuf>,
    /// Where the session is recorded, if it is, so that it can be played again.
    pub recorder: Option<Arc<SessionRecorder>>,
}

impl RecordConfig {
    /// Returns a configuration with a random frame secret and without a recorder.
    ///
    /// # Panics
    /// When the system has no randomness to give.
    #[must_use]
    pub fn new() -> Self {
        let mut random = [0; 16];
        #[expect(clippy::expect_used, reason = "frames that can be guessed protect nobody")]
        getrandom::fill(&mut random).expect("the system has no randomness for frame boundaries");
        Self {
            sync: SyncMode::default(),
            secret: FrameSecret::new(&random),
            program: concat!("deputize-runtime ", env!("CARGO_PKG_VERSION")).to_owned(),
            endpoint: None,
            config_file: None,
            recorder: None,
        }
    }
}

impl Default for RecordConfig {
    fn default() -> Self {
        Self::new()
    }
}
