//! Puts the parts together: the one place that knows every crate. It starts nothing.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use deputize_core::door::Secrets;
use deputize_core::{
    AgentSpec, AgentView, ApproverMode, AssistantMessage, Authority, Catalog, CatalogError, Clock,
    FileLedger, FillError, Grant, Limits, Message, ModelOptions, OnStaleWrite, Role, SessionId,
    SessionView, Store, ToolCrate, ToolName, ToolsetName, UserMessage,
};
use deputize_delegate::{DelegateTool, Policy, TOOL, send_order};
use deputize_runtime::prompt::{BaseParts, Environment, Platform, ProjectFile, base_prompt};
use deputize_runtime::{Models, Parts, SyncMode, SystemClock, declare, top_agent};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::config::{
    ApprovalMode, Config, JournalSync, LATER_TOOLSETS, ModelOverrides, PrefillRole,
    ReasoningEffort, Sources, resolve_model,
};
use crate::exit::CliError;
use crate::policy::ByEffects;
use crate::project;
use crate::surroundings::Surroundings;

mod delegation;
mod model;
mod nobody;

pub(crate) use model::{Asked, environment_secrets};

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
    system: Vec<Arc<str>>,
    cwd: PathBuf,
    clock: Arc<dyn Clock>,
    settings: deputize_tools::Settings,
}

/// Why the parts do not fit.
#[derive(Debug, thiserror::Error)]
enum ComposeError {
    #[error("there is no toolset `{name}`; there are: {}", known.join(", "))]
    Toolset { name: String, known: Vec<String> },
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    #[error("the prompt cannot be built")]
    Prompt(#[from] FillError),
    #[error("the tool that hands work on cannot be made")]
    Delegation(#[from] deputize_core::SchemaError),
}

/// The names of the toolsets that a program has. None when its tools do not fit together, which
/// [`Composition::new`] says.
pub(crate) fn toolset_names(links: &[ToolCrate]) -> BTreeSet<String> {
    let Ok(catalog) = Catalog::linked(links) else { return BTreeSet::new() };
    let mut names = catalog.toolsets();
    names.insert(deputize_delegate::TOOLSET);
    names.iter().map(ToString::to_string).collect()
}

impl Composition {
    /// Puts everything together but the models, which need keys.
    pub(crate) fn new(from: &Ingredients<'_>) -> Result<Self, CliError> {
        Self::compose(from).map_err(CliError::usage)
    }

    fn compose(from: &Ingredients<'_>) -> Result<Self, ComposeError> {
        let config = from.config;
        let mut warnings = Vec::new();
        let child_base = child_base(from)?;
        let delegation = delegation::policy(config, child_base, &mut warnings);
        let mut catalog = Catalog::linked(from.links)?;
        let tool = DelegateTool::new(delegation.clone(), Arc::clone(&from.clock))?;
        catalog.insert(tool.into_entry())?;
        let toolsets = toolsets(config, &catalog)?;
        let names = catalog.iter().filter(|entry| toolsets.contains(&entry.toolset));
        let tools = send_order(names.map(|entry| entry.name().clone()));
        let hands_on = tools.contains(&TOOL).then_some(TOOL);
        let system = top_base(from, hands_on, &mut warnings)?;
        Ok(Self {
            config: config.clone(),
            catalog: Arc::new(catalog),
            toolsets,
            tools,
            delegation,
            warnings,
            system,
            cwd: from.cwd.clone(),
            clock: Arc::clone(&from.clock),
            settings: tool_settings(from),
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
        let role = if self.tools.contains(&TOOL) { Role::Orchestrator } else { Role::Leaf };
        let limits =
            Limits { max_iterations: self.config.max_iterations, time_ms: 0, wrap_up_ms: 0 };
        AgentSpec {
            role,
            options: self.options(None),
            system: self.system.clone(),
            prefill: prefill(&self.config),
            toolsets: self.toolsets.clone(),
            tools: self.tools.clone(),
            approver,
            limits,
            ..top_agent(session, model, task, &self.cwd)
        }
    }

    fn options(&self, max_output_tokens: Option<u32>) -> ModelOptions {
        let effort = match self.config.reasoning_effort {
            ReasoningEffort::Unset => None,
            ReasoningEffort::None => Some("none"),
            ReasoningEffort::Minimal => Some("minimal"),
            ReasoningEffort::Low => Some("low"),
            ReasoningEffort::Medium => Some("medium"),
            ReasoningEffort::High => Some("high"),
            ReasoningEffort::Xhigh => Some("xhigh"),
        };
        let configured = Some(self.config.max_output_tokens).filter(|tokens| *tokens > 0);
        ModelOptions {
            reasoning_effort: effort.map(str::to_owned),
            max_output_tokens: max_output_tokens.or(configured),
        }
    }

    /// Which models a run asks, and what is wanted of them. No key is looked for.
    pub(crate) fn asked(&self, overrides: &ModelOverrides) -> Result<Asked, CliError> {
        let resolve = |overrides: &ModelOverrides| {
            resolve_model(&self.config, overrides).map_err(CliError::usage)
        };
        let top = resolve(overrides)?;
        let (name, options) = (model::name(&top), self.options(top.max_output_tokens));
        let mut choices = vec![top];
        if let Some(child) = &self.delegation.model {
            let model = Some(child.clone());
            let child = resolve(&ModelOverrides { model, ..ModelOverrides::default() })?;
            // Of one name there is one model: the address that was given for it holds.
            if model::name(&child) != name {
                choices.push(child);
            }
        }
        Ok(Asked { name, options, choices })
    }

    /// A preview of a run for which no model is given or configured.
    pub(crate) fn asked_nothing(&self, name: &str) -> Asked {
        Asked { name: name.to_owned(), options: self.options(None), choices: Vec::new() }
    }

    /// The models of a run, with their keys.
    pub(crate) fn models(
        &self,
        overrides: &ModelOverrides,
        surroundings: &Surroundings,
    ) -> Result<Chosen, CliError> {
        let Asked { name, options, choices } = self.asked(overrides)?;
        let mut secrets = Secrets::default();
        let mut models = Models::default();
        let http = deputize_providers::http_client(Arc::clone(&self.clock));
        for choice in &choices {
            let made = model::make(choice, surroundings, &http, &mut secrets)?;
            models.insert(&model::name(choice), &choice.model, made);
        }
        Ok(Chosen { name, options, models, secrets })
    }

    /// The parts of a session. The caller adds who is asked and who watches.
    pub(crate) fn parts(&self, chosen: Chosen) -> Parts {
        let settings = Store::default();
        settings.get_or_insert_with(|| self.settings.clone());
        let sync = match self.config.journal.sync {
            JournalSync::Turn => SyncMode::Turn,
            JournalSync::Always => SyncMode::Always,
            JournalSync::Never => SyncMode::Never,
        };
        Parts {
            catalog: Arc::clone(&self.catalog),
            models: chosen.models,
            policy: Arc::new(ByEffects),
            clock: Arc::clone(&self.clock),
            secrets: chosen.secrets,
            settings,
            sync,
            program: concat!("deputize ", env!("CARGO_PKG_VERSION")).to_owned(),
            ..Parts::new(Catalog::default())
        }
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
pub(crate) struct Chosen {
    /// The top agent's, as agents name it.
    pub(crate) name: String,
    /// What is wanted of it.
    pub(crate) options: ModelOptions,
    pub(crate) models: Models,
    pub(crate) secrets: Secrets,
}

/// How questions are answered, as a mode that agents carry.
pub(crate) const fn approver_mode(mode: ApprovalMode) -> ApproverMode {
    match mode {
        ApprovalMode::Ask => ApproverMode::Ask,
        ApprovalMode::Deny => ApproverMode::Deny,
        ApprovalMode::Auto => ApproverMode::Auto,
    }
}

/// The toolsets of the top agent: all, or those that the configuration names. That a name is of a
/// later version was told where it was read.
fn toolsets(config: &Config, catalog: &Catalog) -> Result<Vec<ToolsetName>, ComposeError> {
    let known = catalog.toolsets();
    if config.toolsets.is_empty() {
        return Ok(known.into_iter().collect());
    }
    let mut chosen = Vec::new();
    for name in &config.toolsets {
        if let Some(found) = known.iter().find(|known| known.as_str() == name) {
            if !chosen.contains(found) {
                chosen.push(found.clone());
            }
        } else if !LATER_TOOLSETS.contains(&name.as_str()) {
            let known = known.iter().map(ToString::to_string).collect();
            return Err(ComposeError::Toolset { name: name.clone(), known });
        }
    }
    Ok(chosen)
}

/// The base prompt that all children share.
fn child_base(from: &Ingredients<'_>) -> Result<Vec<Arc<str>>, FillError> {
    let (date, git) = (date(from.clock.now_ms()), project::root(&from.cwd).is_some());
    let environment = Environment { os: std::env::consts::OS, cwd: &from.cwd, git };
    let parts = BaseParts {
        system_text: Some(&from.config.system_prompt),
        ..BaseParts::new(&date, environment)
    };
    Ok(base_prompt(&parts)?.render().into_blocks())
}

/// The base prompt of the top agent.
fn top_base(
    from: &Ingredients<'_>,
    delegation_tool: Option<ToolName>,
    warnings: &mut Vec<String>,
) -> Result<Vec<Arc<str>>, FillError> {
    let project = project::read(&from.cwd);
    warnings.extend(project.warnings);
    let identity = match from.home.as_deref().map(project::identity) {
        Some(Ok(text)) => text,
        Some(Err(warning)) => {
            warnings.push(warning);
            None
        }
        None => None,
    };
    let (date, git) = (date(from.clock.now_ms()), project.root.is_some());
    let environment = Environment { os: std::env::consts::OS, cwd: &from.cwd, git };
    let platform =
        if from.surroundings.stdout_is_terminal { Platform::Terminal } else { Platform::Pipe };
    let parts = BaseParts {
        identity: identity.as_deref(),
        system_text: Some(&from.config.system_prompt),
        delegation_tool,
        project: project.files.iter().map(|(path, text)| ProjectFile { path, text }).collect(),
        platform: Some(platform),
        ..BaseParts::new(&date, environment)
    };
    Ok(base_prompt(&parts)?.render().into_blocks())
}

/// The date where the person is.
fn date(now_ms: u64) -> String {
    let now = i64::try_from(now_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let now = now.unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(TimeZone::system());
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
