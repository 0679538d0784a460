//! The program as it is assembled from its configuration and its environment.

use std::path::PathBuf;
use std::sync::Arc;

use deputize_agent::{
    Assembly, BasePrompt, PromptConfig, PromptSettings, ToolSelection, Workspace,
    add_delegation_tools,
};
use deputize_core::agent::AgentSpec;
use deputize_core::authority::{ApproverMode, Grant};
use deputize_core::model::ModelOptions;
use deputize_core::person::Person;
use deputize_core::profile::Profile;
use deputize_core::prompt::FillError;
use deputize_core::sanitize::Secrets;
use deputize_core::{Catalog, CatalogEntry, ResourceMap, ToolName, ToolsetName};
use deputize_delegate::{DelegationConfig, profile_allows, send_order};
use deputize_mcp::Servers;
use deputize_runtime::{Models, SessionConfig};

use super::input::{AssemblyInput, ComposeError};
use super::linked_tools::linked;
use super::model::ModelSelection;
use super::prices::{DollarLimits, MissingPrice};
use super::prompt_environment::PromptEnvironment;
use super::resolved_models::ResolvedModels;
use super::settings::{
    add_composites, browser_warning, check_composites, limits, options, prefill, toolsets,
};
use super::tool_settings::ToolSettings;
use super::{delegation, external, mcp, plugins};
use crate::approve::TerminalApprover;
use crate::config::{Config, ModelOverrides, PluginEntry};
use crate::exit::CliError;
use crate::process_env::ProcessEnv;
use crate::task::attachment::{message, sources_of};

/// The assembled parts of a program.
pub(crate) struct AssembledProgram {
    pub(crate) config: Config,
    pub(crate) assembly: Assembly,
    /// Warnings for the person.
    pub(crate) warnings: Vec<String>,
    /// The parts of prompts that come from the environment.
    pub(crate) found: PromptEnvironment,
    pub(crate) tools: ToolSettings,
    /// Its MCP servers, which all its sessions share.
    pub(crate) servers: Servers,
}

/// Why nobody approves what children want to run, for the person who can change that.
pub(crate) fn approvals(composition: &AssembledProgram) -> &'static str {
    match composition.assembly.delegation.approvals.mode {
        ApproverMode::Ask => "delegation.approvals is `ask`, and nobody can be asked here",
        ApproverMode::Deny | ApproverMode::Auto => "delegation.approvals is `deny`",
    }
}

/// Returns what comes before each child's own prompt.
fn child_base(config: &Config, found: &PromptEnvironment) -> Result<Vec<Arc<str>>, FillError> {
    let schemas = config.delegation.options.tool_schemas;
    let context_files = config.delegation.context_files;
    found.prompt.child_prompt(&config.system_prompt, schemas, context_files)
}

/// Returns the tools without those of plugins, whose names must not collide with them.
pub(crate) fn without_plugins(from: &AssemblyInput<'_>) -> Result<Catalog, CliError> {
    // The names of tools do not depend on what children are told.
    let found = PromptEnvironment::read(from, &mut Vec::new());
    let delegation = delegation::policy(from, &found, Vec::new(), &mut Vec::new());
    let mut catalog = linked(from.links, from.config)?;
    add_delegation_tools(&mut catalog, &delegation, &from.clock).map_err(CliError::usage)?;
    Ok(catalog)
}

/// Returns the base prompt of the top agent, with its profile.
fn top_prompt(
    config: &Config,
    found: &PromptEnvironment,
    tools: &[ToolName],
    delegation: &DelegationConfig,
) -> Result<BasePrompt, FillError> {
    let mut base = found.prompt.top_prompt(PromptSettings {
        system_text: &config.system_prompt,
        delegation,
        tools,
        platform: Some(found.platform()),
    })?;
    if let Some(profile) = &found.profile {
        base.add_profile(profile, delegation.options.tool_schemas)?;
    }
    Ok(base)
}

/// Returns the toolsets of the top agent, and its tools in the order in which they are sent: those of
/// the configuration that its profile allows.
fn top_tools(
    config: &Config,
    catalog: &Catalog,
    profile: Option<&Profile>,
    delegation: &DelegationConfig,
) -> Result<(Vec<ToolsetName>, Vec<ToolName>), ComposeError> {
    let mut toolsets = toolsets(config, catalog)?;
    let is_allowed =
        |entry: &CatalogEntry| profile.is_none_or(|it| profile_allows(it, catalog, entry));
    let is_chosen = |entry: &&_| toolsets.iter().any(|set| catalog.includes(set, entry));
    let own: Vec<_> = catalog.iter().filter(is_chosen).filter(|entry| is_allowed(entry)).collect();
    if profile.is_some() {
        toolsets.retain(|set| own.iter().any(|entry| catalog.includes(set, entry)));
    }
    Ok((toolsets, send_order(own, delegation)))
}

impl AssembledProgram {
    /// Assembles everything but the models, which need keys.
    pub(crate) fn new(from: &AssemblyInput<'_>) -> Result<Self, CliError> {
        let mut warnings = Vec::new();
        let found = PromptEnvironment::read(from, &mut warnings);
        let linked = linked(from.links, from.config)?;
        let mut found = found.with_guidance(from, &linked, &mut warnings);
        let loader = plugins::loader(from.environment);
        let describe =
            |entry: &PluginEntry| loader.describe(&plugins::plugin(entry, from.environment));
        let described = from.config.plugins.iter().map(describe);
        found.plugins = described.collect::<Result<_, _>>().map_err(CliError::usage)?;
        warnings.extend(plugins::unset(from.config, from.environment));
        warnings.extend(browser_warning(from.config));
        Self::compose(from, found, linked, warnings).map_err(CliError::usage)
    }

    /// Assembles the same from the earlier prompt environment, without reading anything.
    pub(crate) fn again(
        from: &AssemblyInput<'_>,
        found: PromptEnvironment,
    ) -> Result<Self, CliError> {
        Self::compose(from, found, linked(from.links, from.config)?, Vec::new())
            .map_err(CliError::usage)
    }

    fn compose(
        from: &AssemblyInput<'_>,
        found: PromptEnvironment,
        mut catalog: Catalog,
        mut warnings: Vec<String>,
    ) -> Result<Self, ComposeError> {
        let config = from.config;
        let child_base = child_base(config, &found)?;
        let mut delegation = delegation::policy(from, &found, child_base, &mut warnings);
        external::apply(config, &mut delegation, &mut warnings);
        add_delegation_tools(&mut catalog, &delegation, &from.clock)?;
        let loader = plugins::loader(from.environment);
        for plugin in &found.plugins {
            loader.add(plugin, &mut catalog)?;
        }
        add_composites(config, &mut catalog);
        let others = catalog.clone();
        let offers = mcp::offers(config);
        let notes = offers.add(&found.mcp, &mut catalog);
        let servers = mcp::reached(config, from.environment, &from.cwd);
        let source = offers.source(&found.mcp, others, &servers, &notes);
        let unreported = notes.into_iter().filter(|note| !from.reported.contains(&note.server));
        warnings.extend(unreported.map(|note| note.text));
        check_composites(config, &catalog)?;
        let (toolsets, tools) = top_tools(config, &catalog, found.profile.as_ref(), &delegation)?;
        let prompt = PromptConfig {
            base: top_prompt(config, &found, &tools, &delegation)?,
            prefill: prefill(config),
            options: options(config, None),
            profile: found.profile.clone(),
        };
        let workspace = Workspace {
            cwd: from.cwd.clone(),
            protected: from.protected.clone(),
            home: from.environment.var("HOME").map(PathBuf::from),
        };
        let catalog = Arc::new(catalog);
        let tool_settings = ToolSettings::new(from, found.person_available)?;
        Ok(Self {
            config: config.clone(),
            assembly: Assembly {
                tools: ToolSelection { catalog, toolsets, names: tools, source },
                delegation,
                prompt,
                workspace,
                limits: limits(config),
                sync: config.journal.sync,
                clock: Arc::clone(&from.clock),
                memory: from.environment.own.memory.clone(),
                program: concat!("deputize ", env!("CARGO_PKG_VERSION")).to_owned(),
            },
            warnings,
            found,
            tools: tool_settings,
            servers,
        })
    }

    /// Returns the models of a run and their options. No key is read.
    pub(crate) fn asked(&self, overrides: &ModelOverrides) -> Result<ModelSelection, CliError> {
        ModelSelection::of(&self.config, overrides).map_err(CliError::usage)
    }

    /// Returns the models without a price, if the run limits dollars.
    pub(crate) fn unpriced(
        &self,
        asked: &ModelSelection,
        environment: &ProcessEnv,
    ) -> Vec<MissingPrice> {
        self.dollars().refusals(asked, environment)
    }

    /// Returns the selection for a preview without any model given or configured.
    pub(crate) fn asked_nothing(&self, name: &str) -> ModelSelection {
        ModelSelection::new(name, options(&self.config, None))
    }

    fn dollars(&self) -> DollarLimits<'_> {
        DollarLimits { config: &self.config, hands_on: self.assembly.can_delegate() }
    }

    /// Returns the models of a run, with their keys.
    pub(crate) fn models(
        &self,
        overrides: &ModelOverrides,
        environment: &ProcessEnv,
    ) -> Result<ResolvedModels, CliError> {
        let asked = self.asked(overrides)?;
        if let Some(unpriced) = self.unpriced(&asked, environment).into_iter().next() {
            return Err(CliError::usage(unpriced));
        }
        ResolvedModels::connect(asked, self.dollars(), &self.assembly.clock, environment)
    }

    /// Returns the top agent with the attachment placed before the person's words.
    pub(crate) fn with_attachment(&self, spec: AgentSpec, material: Option<&str>) -> AgentSpec {
        let task = self.assembly.prompt.base.open(&message(material, &spec.goal));
        let mut spec = self.assembly.answering(AgentSpec { task, ..spec });
        spec.task_sources.extend(sources_of(material));
        spec
    }

    /// Returns the settings by which tools report whether they can be used.
    pub(crate) fn tool_settings(&self) -> ResourceMap {
        let settings = ResourceMap::default();
        self.tools.insert_into(&settings, &Secrets::default());
        if self.assembly.delegation.approvals.person_available {
            let terminal = Arc::new(TerminalApprover::without_screen());
            settings.get_or_insert_with(|| Person::new(terminal));
        }
        settings
    }

    /// Returns the parts of a session. The caller adds the approver and the observers.
    pub(crate) fn session_config(&self, chosen: ResolvedModels) -> SessionConfig {
        let secrets = chosen.secrets.clone();
        let config = self.assembly.session_config(chosen.models, chosen.secrets);
        self.tools.insert_into(&config.tools.settings, &secrets);
        self.tools.remove_leftovers();
        config.tools.settings.get_or_insert_with(|| self.servers.clone());
        config
    }

    /// Returns the parts of a session that replays a recording, without models.
    pub(crate) fn played(&self) -> SessionConfig {
        let name = String::new();
        let mut models = Models::default();
        // Which of them answered is on record, and must be one of them.
        models.fallback(self.config.fallback_models.clone());
        models.pinned_fallback(self.config.delegation.fallback_models.clone());
        let options = ModelOptions::default();
        let secrets = Secrets::default();
        let mut parts = self.session_config(ResolvedModels {
            name,
            options,
            models,
            secrets,
            warnings: Vec::new(),
        });
        // What children could do is on record, and nothing is done again; the memory was told then.
        parts.children.grant = Grant::default();
        parts.memory = None;
        parts
    }
}

#[cfg(test)]
mod tests;
