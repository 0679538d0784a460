//! Puts the parts together: the one place that knows every crate. It starts nothing.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use deputize_core::door::Secrets;
use deputize_core::{
    AgentSpec, AgentView, ApproverMode, Authority, Catalog, CatalogError, Clock, Entry, FileLedger,
    FillError, Grant, Limits, Memory, ModelOptions, Role, SessionId, SessionView, Store, ToolCrate,
    ToolDecl, ToolName, ToolSource, ToolsetName,
};
use deputize_delegate::{
    Background, ControlTool, DelegateTool, Form, Policy, children_grant, send_order,
};
use deputize_mcp::Servers;
use deputize_runtime::{Budgets, Models, Parts, SyncMode, SystemClock, declare, top_agent};

use crate::config::{Config, JournalSync, ModelOverrides, Sources};
use crate::exit::CliError;
use crate::policy::ByEffects;
use crate::surroundings::Surroundings;
use crate::task::material::message;

pub(crate) mod acp;
mod base;
mod capped;
mod chosen;
mod delegation;
pub(crate) mod external;
mod found;
mod kept;
pub(crate) mod mcp;
pub(crate) mod mcp_serve;
mod model;
mod nobody;
pub(crate) mod plugins;
mod prices;
pub(crate) mod serve;
mod settings;

use base::{Base, child_base, opened, top_base};
pub(crate) use chosen::Chosen;
pub(crate) use delegation::approvals;
pub(crate) use found::Found;
pub(crate) use model::{
    Asked, Use, ca_file_fault, environment_secrets, looks_secret, name, unreachable,
    whole_endpoint, wire,
};
pub(crate) use prices::{Dollars, Unpriced};
pub(crate) use settings::approver_mode;
use settings::{date, options, prefill, seconds, tool_settings, toolsets};

/// The values that programs of others are given and that nobody else may see.
pub(crate) fn given_secrets(config: &Config, around: &Surroundings, secrets: &mut Secrets) {
    external::secrets(config, around, secrets);
    mcp::secrets(config, around, secrets);
    plugins::secrets(config, around, secrets);
}

/// What a composition is made from.
pub(crate) struct Ingredients<'a> {
    pub(crate) links: &'a [ToolCrate],
    pub(crate) config: &'a Config,
    pub(crate) surroundings: &'a Surroundings,
    /// What the command line says of the model.
    pub(crate) overrides: ModelOverrides,
    /// The directory that the agent works in, absolute.
    pub(crate) cwd: PathBuf,
    /// The person's home directory of this program, if there is one.
    pub(crate) home: Option<PathBuf>,
    /// What this program obeys or keeps, by the places of its files: no agent writes there.
    pub(crate) kept: BTreeSet<PathBuf>,
    pub(crate) clock: Arc<dyn Clock>,
    /// MCP servers of which was told already why nothing of them is to be had.
    pub(crate) told: BTreeSet<String>,
}

impl<'a> Ingredients<'a> {
    /// What there is where the program was started.
    pub(crate) fn here(
        links: &'a [ToolCrate],
        config: &'a Config,
        surroundings: &'a Surroundings,
        sources: &Sources,
    ) -> Self {
        let (cwd, home) = (sources.cwd.clone(), sources.home());
        let (clock, told) = (Arc::new(SystemClock), BTreeSet::new());
        let kept = kept::of(surroundings, sources);
        let overrides = ModelOverrides::default();
        Self { links, config, surroundings, overrides, cwd, home, kept, clock, told }
    }
}

/// The parts of a program, put together.
pub(crate) struct Composition {
    pub(crate) config: Config,
    /// Every tool.
    pub(crate) catalog: Arc<Catalog>,
    /// The toolsets of the top agent.
    pub(crate) toolsets: Vec<ToolsetName>,
    /// Its tools, in the order they are sent.
    pub(crate) tools: Vec<ToolName>,
    /// The settings of delegation.
    pub(crate) delegation: Policy,
    /// What is to be told to the person.
    pub(crate) warnings: Vec<String>,
    /// What the prompts took from around the program.
    pub(crate) found: Found,
    system: Vec<Arc<str>>,
    /// What stands before the person's words in the first message.
    opening: Vec<Arc<str>>,
    cwd: PathBuf,
    kept: BTreeSet<PathBuf>,
    clock: Arc<dyn Clock>,
    /// The person's home directory.
    user_home: Option<PathBuf>,
    settings: deputize_tools::Settings,
    /// Its MCP servers. Sessions that are made of it share them.
    pub(crate) servers: Servers,
    /// Where the tools of children come from where servers may change theirs.
    source: Option<Arc<dyn ToolSource>>,
    /// What the program keeps across sessions.
    memory: Option<Arc<dyn Memory>>,
}

/// Why the parts do not fit.
#[derive(Debug, thiserror::Error)]
enum ComposeError {
    #[error("there is no toolset `{name}`; there are: {}", known.join(", "))]
    Toolset { name: String, known: Vec<String> },
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    #[error(transparent)]
    Plugin(#[from] plugins::PluginFault),
    #[error("the prompt cannot be built")]
    Prompt(#[from] FillError),
    #[error("the tool that hands work on cannot be made")]
    Delegation(#[from] deputize_core::SchemaError),
}

/// The names of the toolsets that a program has.
pub(crate) fn toolset_names() -> BTreeSet<String> {
    let mut names = Catalog::linked_toolsets();
    names.insert(deputize_delegate::TOOLSET);
    names.iter().map(ToString::to_string).collect()
}

/// The tools that a program has without its configuration's plugins and servers.
fn brought(from: &Ingredients<'_>, delegation: &Policy) -> Result<Catalog, ComposeError> {
    let mut catalog = Catalog::linked(from.links)?;
    let tool = |policy| DelegateTool::new(policy, Arc::clone(&from.clock));
    catalog.insert(tool(delegation.clone())?.into_entry())?;
    let other = match delegation.form {
        Form::DelegateTask => Form::Task,
        Form::Task => Form::DelegateTask,
    };
    let former = Policy { form: other, ..delegation.clone() };
    catalog.insert_former(tool(former)?.into_entry());
    if delegation.background {
        catalog.insert(ControlTool::new()?.into_entry())?;
    }
    Ok(catalog)
}

/// The tools beside which those of plugins have to stand.
pub(crate) fn without_plugins(from: &Ingredients<'_>) -> Result<Catalog, CliError> {
    // The names of tools do not depend on what children are told.
    let found = Found::read(from, &mut Vec::new());
    let delegation = delegation::policy((from, &found), Vec::new(), &mut Vec::new());
    brought(from, &delegation).map_err(CliError::usage)
}

impl Composition {
    /// Puts everything together but the models, which need keys.
    pub(crate) fn new(from: &Ingredients<'_>) -> Result<Self, CliError> {
        let mut warnings = Vec::new();
        let mut found = Found::read(from, &mut warnings);
        found.plugins = plugins::find(from).map_err(CliError::usage)?;
        warnings.extend(plugins::unset(from.config, from.surroundings));
        Self::compose(from, found, warnings).map_err(CliError::usage)
    }

    /// The same where nothing is looked at: what was found is known.
    pub(crate) fn again(from: &Ingredients<'_>, found: Found) -> Result<Self, CliError> {
        Self::compose(from, found, Vec::new()).map_err(CliError::usage)
    }

    fn compose(
        from: &Ingredients<'_>,
        found: Found,
        mut warnings: Vec<String>,
    ) -> Result<Self, ComposeError> {
        let config = from.config;
        let child_base = child_base(config, &found)?;
        let mut delegation = delegation::policy((from, &found), child_base, &mut warnings);
        external::apply(config, &mut delegation, &mut warnings);
        let mut catalog = brought(from, &delegation)?;
        plugins::add(&found.plugins, from.surroundings, &mut catalog)?;
        let others = catalog.clone();
        let notes = mcp::add(config, &found.mcp, &mut catalog);
        let servers = mcp::reached(config, from.surroundings, &from.cwd);
        let source = mcp::source(config, (&found.mcp, others), &servers, &notes);
        let untold = notes.into_iter().filter(|note| !from.told.contains(&note.server));
        warnings.extend(untold.map(|note| note.text));
        let toolsets = toolsets(config, &catalog)?;
        let own = catalog.iter().filter(|entry| toolsets.contains(&entry.toolset));
        let tools = send_order(own, &delegation);
        let tool = delegation.tool();
        let hands_on = tools.contains(&tool).then_some(tool);
        let Base { system, opening } = top_base(config, &found, hands_on)?;
        Ok(Self {
            config: config.clone(),
            catalog: Arc::new(catalog),
            toolsets,
            tools,
            delegation,
            warnings,
            found,
            system,
            opening,
            cwd: from.cwd.clone(),
            kept: from.kept.clone(),
            clock: Arc::clone(&from.clock),
            user_home: from.surroundings.var("HOME").map(PathBuf::from),
            settings: tool_settings(from),
            servers,
            source,
            memory: from.surroundings.own.memory.clone(),
        })
    }

    /// Whether a tool that nothing bounds is among the top agent's.
    pub(crate) fn has_unbounded(&self) -> bool {
        let unbounded = |name: &ToolName| {
            let effects = self.catalog.get(name.as_str()).map(|entry| entry.tool.spec().effects);
            effects == Some(deputize_core::Effects::Unknown)
        };
        self.tools.iter().any(unbounded)
    }

    /// The top agent's tools that its children go without only because nobody approves their calls.
    pub(crate) fn tools_denied_to_children(&self) -> Vec<&ToolName> {
        let ceiling = self.delegation.toolset_ceiling.as_ref();
        let is_denied = |name: &&ToolName| {
            let entry = self.catalog.get(name.as_str());
            entry.is_some_and(|it| {
                ceiling.is_none_or(|ceiling| ceiling.contains(&it.toolset))
                    && self.delegation.withholds(it, self.delegation.approvals)
            })
        };
        self.tools.iter().filter(is_denied).filter(|_| self.hands_on()).collect()
    }

    /// Whether the top agent may have children.
    fn hands_on(&self) -> bool {
        self.tools.contains(&self.delegation.tool())
    }

    /// What the top agent may do.
    pub(crate) fn authority(&self, approver: ApproverMode, cwd: PathBuf) -> Authority {
        let children = match self.config.delegation.max_children_per_session {
            0 => u32::MAX,
            most => most,
        };
        let authority = Authority::root(
            &self.catalog,
            &Grant {
                tools: Some(self.tools.iter().cloned().collect()),
                read: Some(BTreeSet::from([cwd.clone()])),
                write: Some(BTreeSet::from([cwd])),
                network: Some(true),
                // Children's questions are answered as `delegation.approvals` says, which may
                // be more than the top agent's own mode.
                approver: Some(approver.max(self.delegation.approvals)),
                spawn_depth: Some(self.delegation.leaf_depth()),
                spawn_number: Some(children),
                models: None,
            },
        );
        authority.keeping(self.kept.iter().cloned())
    }

    /// The top agent.
    pub(crate) fn top_agent(
        &self,
        session: &SessionId,
        model: &str,
        task: &str,
        approver: ApproverMode,
    ) -> AgentSpec {
        let role = if self.hands_on() { Role::Orchestrator } else { Role::Leaf };
        let seconds = self.config.budget.seconds.unwrap_or_default();
        let limits = Limits {
            max_iterations: self.config.max_iterations,
            time_ms: u64::from(seconds) * 1000,
            wrap_up_ms: u64::from(self.config.delegation.wrap_up_seconds) * 1000,
        };
        AgentSpec {
            role,
            task: opened(&self.opening, task),
            options: options(&self.config, None),
            system: self.system.clone(),
            prefill: prefill(&self.config),
            toolsets: self.toolsets.clone(),
            tools: self.tools.clone(),
            approver,
            limits,
            ..top_agent(session, model, task, &self.cwd)
        }
    }

    /// The top agent with material before the person's words.
    pub(crate) fn given(&self, spec: AgentSpec, material: Option<&str>) -> AgentSpec {
        let task = opened(&self.opening, &message(material, &spec.goal));
        AgentSpec { task, ..spec }
    }

    /// The parts of a session. The caller adds who is asked and who watches.
    pub(crate) fn parts(&self, chosen: Chosen) -> Parts {
        let settings = Store::default();
        settings.get_or_insert_with(|| self.settings.clone());
        settings.get_or_insert_with(|| self.servers.clone());
        let sync = match self.config.journal.sync {
            JournalSync::Turn => SyncMode::Turn,
            JournalSync::Always => SyncMode::Always,
            JournalSync::Never => SyncMode::Never,
        };
        Parts {
            catalog: Arc::clone(&self.catalog),
            tools: self.source.clone(),
            models: chosen.models,
            policy: Arc::new(ByEffects { home: self.user_home.clone() }),
            children: children_grant(&self.catalog, &self.delegation),
            clock: Arc::clone(&self.clock),
            secrets: chosen.secrets,
            budgets: Budgets {
                session: self.config.budget.spending(),
                children: self.config.delegation.budget.spending(),
            },
            settings,
            sync,
            handoff: Some(Arc::new(Background::new(
                self.delegation.clone(),
                Arc::clone(&self.clock),
            ))),
            pulse: Some(delegation::pulse(&self.config)),
            children_time: self.config.delegation.budget.seconds.map(seconds),
            memory: self.memory.clone(),
            program: concat!("deputize ", env!("CARGO_PKG_VERSION")).to_owned(),
            ..Parts::new(Catalog::default())
        }
    }

    /// The parts of a session that is played from a recording: no model is there to be asked.
    pub(crate) fn played(&self) -> Parts {
        let (name, mut models) = (String::new(), Models::default());
        // Which of them answered is on record, and must be one of them.
        models.fallback(self.config.fallback_models.clone());
        models.pinned_fallback(self.config.delegation.fallback_models.clone());
        let (options, secrets) = (ModelOptions::default(), Secrets::default());
        let parts = self.parts(Chosen { name, options, models, secrets, warnings: Vec::new() });
        // What children could do is on record, and nothing is done again; the memory was told then.
        Parts { children: Grant::default(), memory: None, ..parts }
    }

    /// A tool as the top agent's model is told of it, or as its author wrote it when the top
    /// agent does not have it.
    pub(crate) fn declared(&self, entry: &Entry) -> ToolDecl {
        let top = self.top_agent(&SessionId::literal("preview"), "", "", ApproverMode::Deny);
        let authority = self.authority(ApproverMode::Deny, top.cwd.clone());
        let view = self.view(top, authority);
        let told = view.declared.iter().find(|tool| tool.name == *entry.name());
        told.map_or_else(|| entry.tool.spec().decl.clone(), |decl| ToolDecl::clone(decl))
    }

    /// An agent as it would be made, with what its model would be told, outside any session.
    pub(crate) fn view(&self, spec: AgentSpec, authority: Authority) -> AgentView {
        let session = SessionView {
            id: nobody::session(),
            spill: PathBuf::new(),
            files: FileLedger::default(),
            settings: Store::default(),
            spawn: Arc::new(nobody::Nobody),
        };
        let mut view = AgentView {
            spec: Arc::new(spec),
            authority: Arc::new(authority),
            catalog: Arc::clone(&self.catalog),
            declared: Vec::new(),
            store: Store::default(),
            session: Arc::new(session),
        };
        view.declared = declare(&view);
        view
    }
}

#[cfg(test)]
mod tests;
