//! Puts the parts together: the one place that knows every crate. It starts nothing.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::door::Secrets;
use deputize_core::{
    AgentSpec, AgentView, ApproverMode, AssistantMessage, Authority, Catalog, CatalogError, Clock,
    Entry, FileLedger, FillError, Grant, Limits, Memory, Message, ModelOptions, OnStaleWrite, Role,
    SessionId, SessionView, Store, ToolCrate, ToolDecl, ToolName, ToolsetName, UserMessage,
};
use deputize_delegate::{
    Background, ControlTool, DelegateTool, Form, Policy, children_grant, send_order,
};
use deputize_mcp::Servers;
use deputize_runtime::{Budgets, Models, Parts, SyncMode, SystemClock, declare, top_agent};
use jiff::Timestamp;

use crate::config::{
    ApprovalMode, Config, JournalSync, LATER_TOOLSETS, ModelOverrides, PrefillRole,
    ReasoningEffort, SERVER_TOOLSETS, Sources,
};
use crate::exit::CliError;
use crate::policy::ByEffects;
use crate::surroundings::Surroundings;
use crate::task::material::message;
use crate::zone::zone;

pub(crate) mod acp;
mod base;
mod capped;
mod delegation;
pub(crate) mod external;
mod found;
pub(crate) mod mcp;
pub(crate) mod mcp_serve;
mod model;
mod nobody;
pub(crate) mod plugins;
mod prices;

use base::{Base, child_base, opened, top_base};
pub(crate) use found::Found;
pub(crate) use model::{
    Asked, Use, ca_file_fault, environment_secrets, name, whole_endpoint, wire,
};
pub(crate) use prices::{Dollars, Unpriced};

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
    /// The directory that the agent works in, absolute.
    pub(crate) cwd: PathBuf,
    /// The person's home directory of this program, if there is one.
    pub(crate) home: Option<PathBuf>,
    pub(crate) clock: Arc<dyn Clock>,
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
        Self { links, config, surroundings, cwd, home, clock: Arc::new(SystemClock) }
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
    clock: Arc<dyn Clock>,
    /// The person's home directory.
    user_home: Option<PathBuf>,
    settings: deputize_tools::Settings,
    /// Its MCP servers. Sessions that are made of it share them.
    pub(crate) servers: Servers,
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
        mcp::add(config, &found.mcp, &mut catalog, &mut warnings);
        let toolsets = toolsets(config, &catalog)?;
        let names = catalog.iter().filter(|entry| toolsets.contains(&entry.toolset));
        let tools = send_order(names.map(|entry| entry.name().clone()));
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
            clock: Arc::clone(&from.clock),
            user_home: from.surroundings.var("HOME").map(PathBuf::from),
            settings: tool_settings(from),
            servers: mcp::reached(config, from.surroundings, &from.cwd),
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

    /// What the top agent may do.
    pub(crate) fn authority(&self, approver: ApproverMode, cwd: PathBuf) -> Authority {
        let children = match self.config.delegation.max_children_per_session {
            0 => u32::MAX,
            most => most,
        };
        Authority::root(
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
        )
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

    /// Which models a run asks, and what is wanted of them. No key is looked for.
    pub(crate) fn asked(&self, overrides: &ModelOverrides) -> Result<Asked, CliError> {
        Asked::of(&self.config, overrides).map_err(CliError::usage)
    }

    /// Why a run that asks these models cannot begin, if it limits dollars and does not know what
    /// they cost.
    pub(crate) fn unpriced(&self, asked: &Asked, surroundings: &Surroundings) -> Vec<Unpriced> {
        self.dollars().refusals(asked, surroundings)
    }

    /// A preview of a run for which no model is given or configured.
    pub(crate) fn asked_nothing(&self, name: &str) -> Asked {
        Asked::new(name, options(&self.config, None))
    }

    /// Whether the top agent may have children.
    fn hands_on(&self) -> bool {
        self.tools.contains(&self.delegation.tool())
    }

    fn dollars(&self) -> Dollars<'_> {
        Dollars { config: &self.config, hands_on: self.hands_on() }
    }

    /// The models of a run, with their keys.
    pub(crate) fn models(
        &self,
        overrides: &ModelOverrides,
        surroundings: &Surroundings,
    ) -> Result<Chosen, CliError> {
        let asked = self.asked(overrides)?;
        if let Some(unpriced) = self.unpriced(&asked, surroundings).into_iter().next() {
            return Err(CliError::usage(unpriced));
        }
        let (mut secrets, mut warnings) = (Secrets::default(), Vec::new());
        let mut models = Models::default();
        let dollars = self.dollars().any();
        let http = deputize_providers::http_client(Arc::clone(&self.clock));
        for (choice, used) in &asked.choices {
            if let Some(why) = used.passed_over(choice, surroundings) {
                warnings.push(why);
                continue;
            }
            warnings.extend(model::short_keys(choice, surroundings));
            let has_fallback = !asked.fallback.is_empty();
            let made = model::make(choice, surroundings, &http, &mut secrets, has_fallback)?;
            let name = model::name(choice);
            models.insert(&name, &choice.model, made);
            if dollars && prices::counts_as_free(choice, &self.config) {
                warnings.push(format!(
                    "{name} is on this machine and counts as free; set providers.{}.prices if it \
                     is not",
                    choice.provider
                ));
            }
            match prices::price(choice, &self.config) {
                Some(price) => models.price(&name, price),
                None if dollars && *used == Use::Fallback => {
                    warnings.push(format!(
                        "fallback model {name} is passed over: its price is not known, and the \
                         budget is in dollars; set providers.{}.prices",
                        choice.provider
                    ));
                }
                None => {}
            }
        }
        // Also those that this run does not use: a command may find them elsewhere.
        model::add_environment(&mut secrets, surroundings);
        let Asked { name, options, fallback, .. } = asked;
        models.fallback(fallback);
        Ok(Chosen { name, options, models, secrets, warnings })
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

/// The models of a run.
#[derive(Clone)]
pub(crate) struct Chosen {
    /// The top agent's, as agents name it.
    pub(crate) name: String,
    /// What is wanted of it.
    pub(crate) options: ModelOptions,
    pub(crate) models: Models,
    pub(crate) secrets: Secrets,
    /// What is to be told to the person.
    pub(crate) warnings: Vec<String>,
}

/// How questions are answered, as a mode that agents carry.
pub(crate) const fn approver_mode(mode: ApprovalMode) -> ApproverMode {
    match mode {
        ApprovalMode::Ask => ApproverMode::Ask,
        ApprovalMode::Deny => ApproverMode::Deny,
        ApprovalMode::Auto => ApproverMode::Auto,
    }
}

/// What is wanted of a model, that has its own limit of an answer or the configured one.
fn options(config: &Config, max_output_tokens: Option<u32>) -> ModelOptions {
    let configured = Some(config.max_output_tokens).filter(|tokens| *tokens > 0);
    ModelOptions {
        reasoning_effort: effort(config.reasoning_effort),
        max_output_tokens: max_output_tokens.or(configured),
    }
}

/// How hard a model is to think, as models are told.
fn effort(effort: ReasoningEffort) -> Option<String> {
    let word = match effort {
        ReasoningEffort::Unset => return None,
        ReasoningEffort::None => "none",
        ReasoningEffort::Minimal => "minimal",
        ReasoningEffort::Low => "low",
        ReasoningEffort::Medium => "medium",
        ReasoningEffort::High => "high",
        ReasoningEffort::Xhigh => "xhigh",
    };
    Some(word.to_owned())
}

fn seconds(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}

/// The toolsets of the top agent: all, or those that the configuration names. That a name is of a
/// later version was told where it was read.
fn toolsets(config: &Config, catalog: &Catalog) -> Result<Vec<ToolsetName>, ComposeError> {
    let known = catalog.toolsets();
    if config.toolsets.is_empty() {
        return Ok(known.into_iter().collect());
    }
    let mut chosen = Vec::new();
    let of_editor = mcp::toolsets_of_editor(config);
    for name in config.toolsets.iter().cloned().chain(of_editor) {
        if let Some(found) = known.iter().find(|known| known.as_str() == name) {
            if !chosen.contains(found) {
                chosen.push(found.clone());
            }
        } else if !LATER_TOOLSETS.contains(&name.as_str())
            // Why a server's tools are not to be had was told already.
            && !name.starts_with(SERVER_TOOLSETS)
        {
            let known = known.iter().map(ToString::to_string).collect();
            return Err(ComposeError::Toolset { name, known });
        }
    }
    Ok(chosen)
}

/// The date where the person is.
fn date(from: &Ingredients<'_>) -> String {
    let now = i64::try_from(from.clock.now_ms()).ok();
    let now = now.and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let now = now.unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(zone(from.surroundings));
    now.strftime("%Y-%m-%d").to_string()
}

fn prefill(config: &Config) -> Vec<Message> {
    let message = |message: &crate::config::PrefillMessage| {
        let text = message.content.clone();
        match message.role {
            PrefillRole::User => Message::User(UserMessage { text, from: None }),
            PrefillRole::Assistant => {
                Message::Assistant(AssistantMessage { text, ..AssistantMessage::default() })
            }
        }
    };
    config.prefill_messages.iter().map(message).collect()
}

fn tool_settings(from: &Ingredients<'_>) -> deputize_tools::Settings {
    let config = from.config;
    deputize_tools::Settings {
        read_lines: config.limits.read_lines as usize,
        read_bytes: config.limits.read_bytes as usize,
        on_stale_write: match config.file_state.on_stale_write {
            crate::config::OnStaleWrite::Refuse => OnStaleWrite::Refuse,
            crate::config::OnStaleWrite::Warn => OnStaleWrite::Warn,
        },
        env: from.surroundings.os_env.clone(),
        terminal_cwd: Some(&config.terminal.cwd).filter(|cwd| !cwd.is_empty()).map(PathBuf::from),
        ..deputize_tools::Settings::default()
    }
}

#[cfg(test)]
mod tests;
