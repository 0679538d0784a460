//! Assembles the program from its parts; the one place that knows every crate. It starts nothing.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use deputize_agent::plugins::PluginLoadError;
use deputize_agent::{
    Assembly, BasePrompt, DelegationError, PromptConfig, PromptSettings, ToolSelection, Workspace,
    add_delegation_tools,
};
use deputize_core::agent::AgentSpec;
use deputize_core::authority::Grant;
use deputize_core::model::ModelOptions;
use deputize_core::person::Person;
use deputize_core::profile::Profile;
use deputize_core::prompt::FillError;
use deputize_core::sanitize::Secrets;
use deputize_core::{
    Catalog, CatalogEntry, CatalogError, Clock, ResourceMap, ToolName, ToolsetName,
};
use deputize_cron::JobSettings;
use deputize_delegate::{DelegationConfig, profile_allows, send_order};
use deputize_documents::SkillLibrary;
use deputize_mcp::Servers;
use deputize_runtime::{Models, SessionConfig, SystemClock};
use deputize_tools::{GrantedRoots, MemorySettings, MessageSettings};
use deputize_web::Settings as WebSettings;

use crate::approve::TerminalApprover;
use crate::config::{Config, LoadedConfig, ModelOverrides, PluginEntry, Sources};
use crate::exit::CliError;
use crate::process_env::ProcessEnv;
use crate::task::attachment::{message, sources_of};

mod delegation;
pub(crate) mod external;
mod jobs;
mod kept;
mod linked_tools;
pub(crate) mod mcp;
mod messaging;
mod model;
pub(crate) mod plugins;
mod prices;
mod prompt_environment;
mod resolved_models;
mod settings;
pub(crate) mod sign_in;
mod top_profile;
mod web;

pub(crate) use delegation::approvals;
pub(crate) use jobs::job_store;
use linked_tools::linked;
pub(crate) use linked_tools::{
    LinkedTools, linked_catalog, toolset_names, toolset_of, turned_off, why_off,
};
pub(crate) use model::{
    ModelSelection, ModelUse, ca_file_fault, environment_secrets, name, unreachable, whole_endpoint,
};
pub(crate) use prices::{DollarLimits, MissingPrice};
pub(crate) use prompt_environment::PromptEnvironment;
pub(crate) use resolved_models::ResolvedModels;
#[cfg(feature = "browser")]
use settings::browser;
#[cfg(feature = "session-search")]
use settings::session_search;
use settings::{
    add_composites, browser_warning, check_composites, limits, options, prefill, tool_settings,
    toolsets,
};
pub(crate) use settings::{memory_files, missing_tools, profile_library, skill_library};
pub(crate) use top_profile::{TopProfile, profile_error, profile_warnings, unknown_toolsets};

/// Adds the values that are passed to external programs and must stay secret.
pub(crate) fn given_secrets(config: &Config, env: &ProcessEnv, secrets: &mut Secrets) {
    external::secrets(config, env, secrets);
    mcp::secrets(config, env, secrets);
    plugins::secrets(config, env, secrets);
    web::secrets(config, env, secrets);
    messaging::secrets(config, env, secrets);
}

/// Loads the configuration and prints its warnings. Its secrets stay out of the log.
pub(crate) fn load_config(env: &ProcessEnv, sources: &Sources) -> Result<LoadedConfig, CliError> {
    let loaded = env.load(sources)?;
    redact_in_log(&loaded.config, env);
    Ok(loaded)
}

/// Redacts the secrets of a configuration in the program's log.
pub(crate) fn redact_in_log(config: &Config, env: &ProcessEnv) {
    if env.log.is_on() {
        env.log.redact(&config_secrets(config, env));
    }
}

/// Returns the secrets of a configuration, without those of the environment alone.
fn config_secrets(config: &Config, env: &ProcessEnv) -> Secrets {
    let mut secrets = Secrets::default();
    given_secrets(config, env, &mut secrets);
    model::provider_secrets(config, env, &mut secrets);
    secrets
}

/// Returns every value that is a secret by the configuration or by its variable's name.
pub(crate) fn all_secrets(config: &Config, env: &ProcessEnv) -> Secrets {
    let mut secrets = config_secrets(config, env);
    secrets.add_all(&environment_secrets(env));
    secrets
}

/// Input of the assembly.
pub(crate) struct AssemblyInput<'a> {
    pub(crate) links: &'a LinkedTools,
    pub(crate) config: &'a Config,
    pub(crate) environment: &'a ProcessEnv,
    /// Model options of the command line.
    pub(crate) overrides: ModelOverrides,
    /// The directory that the agent works in, absolute.
    pub(crate) cwd: PathBuf,
    /// The program's directory in the person's home, if there is one.
    pub(crate) home: Option<PathBuf>,
    /// Files of this program itself, which no agent may write.
    pub(crate) kept: BTreeSet<PathBuf>,
    /// Whether the project's own files are read: instructions, skills and profiles.
    pub(crate) project_files: bool,
    /// The profile of the top agent, if it has one.
    pub(crate) profile: Option<&'a Profile>,
    pub(crate) clock: Arc<dyn Clock>,
    /// MCP servers whose failure was already reported.
    pub(crate) reported: BTreeSet<String>,
}

impl<'a> AssemblyInput<'a> {
    /// Creates the input for the directory where the program was started.
    pub(crate) fn here(
        links: &'a LinkedTools,
        config: &'a Config,
        environment: &'a ProcessEnv,
        sources: &Sources,
    ) -> Self {
        let cwd = sources.cwd.clone();
        let home = sources.home();
        let clock = Arc::new(SystemClock);
        let reported = BTreeSet::new();
        let kept = kept::of(environment, sources);
        let overrides = ModelOverrides::default();
        let project_files = sources.project_files;
        Self {
            links,
            config,
            environment,
            overrides,
            cwd,
            home,
            kept,
            project_files,
            profile: None,
            clock,
            reported,
        }
    }
}

/// The assembled parts of a program.
pub(crate) struct AssembledProgram {
    pub(crate) config: Config,
    pub(crate) assembly: Assembly,
    /// Warnings for the person.
    pub(crate) warnings: Vec<String>,
    /// The parts of prompts that come from the environment.
    pub(crate) found: PromptEnvironment,
    settings: deputize_tools::Settings,
    roots: Arc<GrantedRoots>,
    pub(crate) skills: SkillLibrary,
    memory: MemorySettings,
    web: WebSettings,
    pub(crate) messages: MessageSettings,
    jobs: JobSettings,
    #[cfg(feature = "browser")]
    browser: deputize_browser::BrowserSettings,
    #[cfg(feature = "session-search")]
    session_search: deputize_session_index::SessionSearchSettings,
    /// Its MCP servers, which all its sessions share.
    pub(crate) servers: Servers,
}

/// An error in combining the parts.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ComposeError {
    #[error("there is no toolset `{name}`; {hint}")]
    Toolset { name: String, hint: String },
    #[error("`composite_toolsets.{set}.tools`: there is no tool `{tool}`{}", did_you_mean(near.as_deref()))]
    CompositeTool { set: String, tool: String, near: Option<String> },
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    #[error(transparent)]
    Plugin(#[from] PluginLoadError),
    #[error("the prompt cannot be built")]
    Prompt(#[from] FillError),
    #[error(transparent)]
    Delegation(#[from] DelegationError),
    #[error("`fetch.allow_hosts`")]
    AllowedHost(#[from] deputize_http::AllowedHostError),
}

fn did_you_mean(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
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
    let mut catalog = linked(from)?;
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
        let linked = linked(from)?;
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
        Self::compose(from, found, linked(from)?, Vec::new()).map_err(CliError::usage)
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
            protected: from.kept.clone(),
            home: from.environment.var("HOME").map(PathBuf::from),
        };
        let catalog = Arc::new(catalog);
        let jobs = jobs::settings(from, found.person_available);
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
            settings: tool_settings(from),
            roots: Arc::new(GrantedRoots::of(&from.cwd)),
            skills: skill_library(from),
            memory: MemorySettings { files: memory_files(from.environment, Secrets::default()) },
            web: web::settings(config, from.environment)?,
            messages: messaging::settings(config, from.environment, &from.clock),
            jobs,
            #[cfg(feature = "browser")]
            browser: browser(config),
            #[cfg(feature = "session-search")]
            session_search: session_search(from.environment),
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
        self.insert_tool_settings(&settings, &Secrets::default());
        if self.assembly.delegation.approvals.person_available {
            let terminal = Arc::new(TerminalApprover::without_screen());
            settings.get_or_insert_with(|| Person::new(terminal));
        }
        settings
    }

    /// Inserts the settings of the tools, which keep these secrets out of what they write.
    fn insert_tool_settings(&self, settings: &ResourceMap, secrets: &Secrets) {
        let secrets = || secrets.clone();
        settings.get_or_insert_with(|| self.settings.clone());
        settings.share(Arc::clone(&self.roots));
        settings.get_or_insert_with(|| self.skills.clone());
        settings.get_or_insert_with(|| self.memory.clone().with_secrets(&secrets()));
        settings.get_or_insert_with(|| WebSettings { secrets: secrets(), ..self.web.clone() });
        settings
            .get_or_insert_with(|| MessageSettings { secrets: secrets(), ..self.messages.clone() });
        settings.get_or_insert_with(|| JobSettings { secrets: secrets(), ..self.jobs.clone() });
        #[cfg(feature = "browser")]
        settings.get_or_insert_with(|| self.browser.clone());
        #[cfg(feature = "session-search")]
        settings.get_or_insert_with(|| self.session_search.clone());
    }

    /// Returns the parts of a session. The caller adds the approver and the observers.
    pub(crate) fn session_config(&self, chosen: ResolvedModels) -> SessionConfig {
        let secrets = chosen.secrets.clone();
        let config = self.assembly.session_config(chosen.models, chosen.secrets);
        self.insert_tool_settings(&config.tools.settings, &secrets);
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
