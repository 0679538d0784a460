//! The parts of a program that runs agents, put together.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::agent::{AgentLimits, AgentSpec, Role};
use deputize_core::authority::{ApproverMode, Grant};
use deputize_core::file_state::FileLedger;
use deputize_core::memory::Memory;
use deputize_core::model::ModelOptions;
use deputize_core::profile::Profile;
use deputize_core::sanitize::Secrets;
use deputize_core::tool::{NoAgents, SessionView};
use deputize_core::{
    AgentView, Authority, Catalog, CatalogEntry, Clock, Effects, Message, ResourceMap, SessionId,
    ToolDecl, ToolName, ToolSource, ToolsetName,
};
use deputize_delegate::{BackgroundPolicy, DelegationConfig, children_grant};
use deputize_runtime::{
    Budgets, ChildConfig, CompactionConfig, Heartbeat, Models, SessionConfig, SyncMode, declare,
    top_agent,
};

use crate::base_prompt::BasePrompt;
use crate::policy::EffectPolicy;

/// The tools of a program, and which of them its top agents have.
#[derive(Clone)]
pub struct ToolSelection {
    /// Every tool of the program.
    pub catalog: Arc<Catalog>,
    /// The toolsets of top agents.
    pub toolsets: Vec<ToolsetName>,
    /// The tools of top agents, in the order in which models are sent them.
    pub names: Vec<ToolName>,
    /// Where children's tools come from, where the catalog changes while the program runs.
    pub source: Option<Arc<dyn ToolSource>>,
}

impl std::fmt::Debug for ToolSelection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.names).finish()
    }
}

/// Where top agents work.
#[derive(Debug, Clone, Default)]
pub struct Workspace {
    /// The directory in which they read and write, absolute.
    pub cwd: PathBuf,
    /// Paths to which no agent writes, wherever it works.
    pub protected: BTreeSet<PathBuf>,
    /// The user's home directory, which no command may delete.
    pub home: Option<PathBuf>,
}

/// Limits of agents.
#[derive(Debug, Clone)]
pub struct AssemblyLimits {
    /// Requests and time of a top agent.
    pub agent: AgentLimits,
    /// Tokens and dollars.
    pub budgets: Budgets,
    /// Time limit of all children together, while at least one runs.
    pub children_time: Option<Duration>,
    /// How often children report that they are alive.
    pub heartbeat: Heartbeat,
    /// When conversations are compacted.
    pub compaction: CompactionConfig,
}

/// Settings of a top agent's prompt, apart from its task.
#[derive(Debug, Clone, Default)]
pub struct PromptConfig {
    /// The base prompt.
    pub base: BasePrompt,
    /// Messages before the first one of the user.
    pub prefill: Vec<Message>,
    /// The options of each request.
    pub options: ModelOptions,
    /// The profile of top agents, if they have one. Their tools are within it already.
    pub profile: Option<Profile>,
}

/// The parts of a program that runs agents: all but its models, their keys, and who is asked and
/// who watches. [`AgentBuilder`](crate::AgentBuilder) makes one from a few settings; the command
/// line makes one from its configuration.
pub struct Assembly {
    /// Its tools.
    pub tools: ToolSelection,
    /// Its settings of delegation.
    pub delegation: DelegationConfig,
    /// The prompt of its top agents.
    pub prompt: PromptConfig,
    /// Where its top agents work.
    pub workspace: Workspace,
    /// Limits of its agents.
    pub limits: AssemblyLimits,
    /// When session files are synced.
    pub sync: SyncMode,
    /// Source of the present time.
    pub clock: Arc<dyn Clock>,
    /// Memory across sessions; `None` for no memory.
    pub memory: Option<Arc<dyn Memory>>,
    /// The program and its version, for the record.
    pub program: String,
}

impl std::fmt::Debug for Assembly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Assembly({:?})", self.tools)
    }
}

impl Assembly {
    /// Returns whether the top agent may delegate.
    #[must_use]
    pub fn can_delegate(&self) -> bool {
        self.tools.names.contains(&self.delegation.tool())
    }

    /// Returns whether the top agent has a tool that nothing bounds, such as a terminal.
    #[must_use]
    pub fn has_unbounded(&self) -> bool {
        let unbounded = |name: &ToolName| {
            let effects = self.tools.catalog.get(name.as_str()).map(|it| it.tool.spec().effects);
            effects == Some(Effects::Unknown)
        };
        self.tools.names.iter().any(unbounded)
    }

    /// Returns the top agent's tools that its children do not have only because nobody approves
    /// their calls.
    #[must_use]
    pub fn tools_denied_to_children(&self) -> Vec<&ToolName> {
        let catalog = &self.tools.catalog;
        let granted = |config| children_grant(catalog, config).tools.unwrap_or_default();
        let mut approving = self.delegation.clone();
        approving.approvals.mode = ApproverMode::Auto;
        let (now, then) = (granted(&self.delegation), granted(&approving));
        let is_denied = |name: &&ToolName| then.contains(*name) && !now.contains(*name);
        self.tools.names.iter().filter(is_denied).filter(|_| self.can_delegate()).collect()
    }

    /// Returns what a top agent may do in a directory.
    #[must_use]
    pub fn authority(&self, approver: ApproverMode, cwd: PathBuf) -> Authority {
        let children = match self.delegation.limits.max_children_per_session {
            0 => u32::MAX,
            most => most,
        };
        let authority = Authority::root(
            &*self.tools.catalog,
            &Grant {
                tools: Some(self.tools.names.iter().cloned().collect()),
                read: Some(BTreeSet::from([cwd.clone()])),
                write: Some(BTreeSet::from([cwd])),
                network: Some(true),
                // Children's questions are answered by a setting of their own, which may allow
                // more than the top agent's mode.
                approver: Some(approver.max(self.delegation.approvals.mode)),
                spawn_depth: Some(self.delegation.leaf_depth()),
                spawn_number: Some(children),
                models: None,
            },
        );
        authority.with_protected_paths(self.workspace.protected.iter().cloned())
    }

    /// Returns the spec of a top agent.
    #[must_use]
    pub fn top_agent(
        &self,
        session: &SessionId,
        model: &str,
        task: &str,
        approver: ApproverMode,
    ) -> AgentSpec {
        let role = if self.can_delegate() { Role::Orchestrator } else { Role::Leaf };
        let profile = self.prompt.profile.as_ref();
        // A profile bounds the agent also where it is resumed without it.
        let tools = profile.map(|_| self.tools.names.iter().cloned().collect());
        let spec = AgentSpec {
            role,
            task: self.prompt.base.open(task),
            task_sources: self.prompt.base.opening_sources(),
            options: self.prompt.options.clone(),
            system: self.prompt.base.system.clone(),
            system_sources: self.prompt.base.system_sources(),
            prefill: self.prompt.prefill.clone(),
            toolsets: self.tools.toolsets.clone(),
            tools: self.tools.names.clone(),
            approver,
            limits: self.limits.agent,
            profile: profile.map(|profile| profile.name.clone()),
            profile_max_iterations: profile.and_then(|profile| profile.max_iterations),
            grant: Grant { tools, ..Grant::default() },
            ..top_agent(session, model, task, &self.workspace.cwd)
        };
        self.answering(spec)
    }

    /// Returns the spec of a top agent with the answer that its profile requires.
    #[must_use]
    pub fn answering(&self, spec: AgentSpec) -> AgentSpec {
        let profile = self.prompt.profile.as_ref();
        match profile.and_then(|profile| profile.output_schema.clone()) {
            Some(schema) => spec.answering(schema),
            None => spec,
        }
    }

    /// Returns the parts of a session with these models and secrets. The caller adds who is asked,
    /// who watches, and the settings of tools.
    #[must_use]
    pub fn session_config(&self, models: Models, secrets: Secrets) -> SessionConfig {
        let background = BackgroundPolicy::new(self.delegation.clone(), Arc::clone(&self.clock));
        let children = ChildConfig {
            grant: children_grant(&self.tools.catalog, &self.delegation),
            time_limit: self.limits.children_time,
            heartbeat: Some(self.limits.heartbeat),
            lifecycle: Some(Arc::new(background)),
            setting_names: self.delegation.host.setting_names.clone(),
        };
        let mut config = SessionConfig {
            models,
            policy: Arc::new(EffectPolicy { home: self.workspace.home.clone() }),
            children,
            clock: Arc::clone(&self.clock),
            secrets,
            budgets: self.limits.budgets,
            memory: self.memory.clone(),
            ..SessionConfig::new(Arc::clone(&self.tools.catalog))
        };
        config.tools.source.clone_from(&self.tools.source);
        config.requests.compaction.clone_from(&self.limits.compaction);
        config.record.sync = self.sync;
        config.record.program.clone_from(&self.program);
        config
    }

    /// Returns a tool as the top agent's model is sent it with these settings, or as its author wrote
    /// it where the top agent does not have it.
    #[must_use]
    pub fn declare(&self, entry: &CatalogEntry, settings: ResourceMap) -> ToolDecl {
        let top = self.top_agent(&SessionId::literal("preview"), "", "", ApproverMode::Deny);
        let authority = self.authority(ApproverMode::Deny, top.cwd.clone());
        let view = self.view(top, authority, settings);
        let sent = view.declared.iter().find(|tool| tool.name == *entry.name());
        sent.map_or_else(|| entry.tool.spec().decl.clone(), |decl| ToolDecl::clone(decl))
    }

    /// Returns an agent as it would begin, with the tools that its model would be sent, outside of
    /// any session.
    #[must_use]
    pub fn view(&self, spec: AgentSpec, authority: Authority, settings: ResourceMap) -> AgentView {
        let session = SessionView {
            id: SessionId::literal("preview"),
            spill: PathBuf::new(),
            files: FileLedger::default(),
            settings,
            spawn: Arc::new(NoAgents),
            control: Arc::new(NoAgents),
        };
        let mut view = AgentView {
            spec: Arc::new(spec),
            authority: Arc::new(authority),
            catalog: Arc::clone(&self.tools.catalog),
            declared: Vec::new(),
            store: ResourceMap::default(),
            session: Arc::new(session),
        };
        view.declared = declare(&view);
        view
    }
}
