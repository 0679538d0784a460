//! Puts the tools, prompts and limits of an agent together.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::agent::AgentLimits;
use deputize_core::authority::ApproverMode;
use deputize_core::budget::Budget;
use deputize_core::memory::Memory;
use deputize_core::profile::Profile;
use deputize_core::{Catalog, CatalogEntry, CatalogError, Clock, Origin, ResourceMap, ToolCrate};
use deputize_delegate::{ChildApprovals, DelegationConfig, DelegationHost, send_order};
use deputize_runtime::{Budgets, CompactionConfig, Heartbeat, SyncMode, SystemClock};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::build_error::BuildError;
use crate::assembly::{Assembly, AssemblyLimits, PromptConfig, ToolSelection, Workspace};
use crate::delegation::add_delegation_tools;
use crate::extension::{Extension, ExtensionContext};
use crate::policy::EffectPolicy;
use crate::prompt_sources::{PromptSettings, PromptSources};

/// What an agent is assembled from.
pub(super) struct AssemblySettings {
    pub(super) crates: Vec<ToolCrate>,
    pub(super) extensions: Vec<Box<dyn Extension>>,
    /// `None`: it does not delegate.
    pub(super) delegation: Option<DelegationConfig>,
    pub(super) system_prompt: String,
    /// Whether the project's instructions are part of the prompt.
    pub(super) project_files: bool,
    pub(super) limits: LimitSettings,
    #[cfg(feature = "tools")]
    pub(super) tools: BuiltInSettings,
    /// A memory of the program's own.
    pub(super) memory: Option<Arc<dyn Memory>>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Default for AssemblySettings {
    fn default() -> Self {
        Self {
            crates: Vec::new(),
            extensions: Vec::new(),
            delegation: None,
            system_prompt: String::new(),
            project_files: false,
            limits: LimitSettings {
                budget: Budget::default(),
                max_iterations: AgentLimits::MAX_ITERATIONS,
                children_time: None,
                heartbeat: Heartbeat::default(),
                compaction: CompactionConfig::default(),
            },
            #[cfg(feature = "tools")]
            tools: BuiltInSettings::default(),
            memory: None,
            clock: Arc::new(SystemClock),
        }
    }
}

impl AssemblySettings {
    /// Puts the tools, prompts and limits together.
    pub(super) fn assemble(
        &self,
        workspace: Workspace,
        setup: &AgentSetup,
        cx: &ExtensionContext<'_>,
    ) -> Result<Assembly, BuildError> {
        let clock = &self.clock;
        let delegation = self.delegation_config(setup, cx.mode)?;
        let mut catalog = self.linked_tools()?;
        if self.delegation.is_some() {
            add_delegation_tools(&mut catalog, &delegation, clock)?;
        }
        let mut source = None;
        for (extension, described) in self.extensions.iter().zip(&setup.extensions) {
            let added = extension.add_tools(described, cx, &mut catalog);
            source = added.map_err(BuildError::Extension)?.or(source);
        }
        let names = send_order(catalog.iter(), &delegation);
        let base = setup.prompt.top_prompt(PromptSettings {
            system_text: &self.system_prompt,
            delegation: &delegation,
            tools: &names,
            platform: None,
        })?;
        let toolsets = catalog.toolsets().into_iter().collect();
        let catalog = Arc::new(catalog);
        Ok(Assembly {
            tools: ToolSelection { catalog, toolsets, names, source },
            delegation,
            prompt: PromptConfig { base, ..PromptConfig::default() },
            workspace,
            limits: AssemblyLimits {
                agent: AgentLimits {
                    max_iterations: self.limits.max_iterations,
                    time_ms: 0,
                    wrap_up_ms: u64::from(AgentLimits::WRAP_UP_SECONDS) * 1000,
                },
                budgets: Budgets { session: self.limits.budget, children: Budget::default() },
                children_time: self.limits.children_time,
                heartbeat: self.limits.heartbeat,
                compaction: self.limits.compaction.clone(),
            },
            sync: SyncMode::default(),
            clock: Arc::clone(clock),
            memory: self.memory.clone(),
            program: concat!("deputize-agent ", env!("CARGO_PKG_VERSION")).to_owned(),
        })
    }

    /// Reads what the prompts of agents in a directory are made of.
    pub(super) fn prompt_sources(
        &self,
        cwd: &Path,
        date: String,
        warnings: &mut Vec<String>,
    ) -> Result<PromptSources, CatalogError> {
        let sources = PromptSources::new(cwd, date);
        let sources = if self.project_files { sources.with_project(warnings) } else { sources };
        let tools = self.linked_tools()?;
        let mut sources = sources.with_guidance(&tools, &ResourceMap::default(), |_| true);
        if let Some(memory) = self.memory.as_ref().and_then(|memory| memory.snapshot()) {
            (sources.memory, sources.memory_sources) = (Some(memory.text), memory.sources);
        }
        for extension in &self.extensions {
            extension.change_prompt(&mut sources, warnings);
        }
        Ok(sources)
    }

    /// The models that the settings name, beside the agent's own.
    pub(super) fn model_names(&self) -> impl Iterator<Item = &String> {
        let models = self.delegation.iter().map(|delegation| &delegation.models);
        let of_children = models.flat_map(|models| models.model.iter().chain(&models.choices));
        let of_summaries = Some(&self.limits.compaction.model).filter(|name| !name.is_empty());
        of_children.chain(of_summaries)
    }

    /// The tools of the crates that were named, and of no other linked crate.
    fn linked_tools(&self) -> Result<Catalog, CatalogError> {
        if self.crates.is_empty() {
            return Ok(Catalog::default());
        }
        let is_named = |entry: &CatalogEntry| {
            let named = |krate: &str| self.crates.iter().any(|link| link.name == krate);
            matches!(&entry.origin, Origin::Linked { krate } if named(krate))
        };
        Ok(Catalog::linked(&self.crates)?.filtered(is_named))
    }

    /// The settings of delegation, with what follows from the other settings.
    fn delegation_config(
        &self,
        setup: &AgentSetup,
        mode: ApproverMode,
    ) -> Result<DelegationConfig, BuildError> {
        let sources = &setup.prompt;
        let config = self.delegation.clone().unwrap_or_default();
        let child_base =
            sources.child_prompt(&self.system_prompt, config.options.tool_schemas, false)?;
        let mut config = DelegationConfig {
            approvals: ChildApprovals {
                effects: EffectPolicy::approval_effects(),
                person_available: mode == ApproverMode::Ask,
                ..config.approvals
            },
            host: DelegationHost { child_base, guidance: sources.guidance.clone(), ..config.host },
            profiles: config.profiles.into_iter().chain(setup.profiles.iter().cloned()).collect(),
            faulty_profiles: { config.faulty_profiles.into_iter() }
                .chain(setup.faulty_profiles.clone())
                .collect(),
            ..config
        };
        for extension in &self.extensions {
            extension.change_delegation(&mut config);
        }
        Ok(config)
    }
}

/// Limits of an agent.
pub(super) struct LimitSettings {
    pub(super) budget: Budget,
    pub(super) max_iterations: u32,
    /// Of all children together.
    pub(super) children_time: Option<Duration>,
    pub(super) heartbeat: Heartbeat,
    pub(super) compaction: CompactionConfig,
}

/// Settings of the built-in tools.
#[cfg(feature = "tools")]
#[derive(Clone, Default)]
pub(super) struct BuiltInSettings {
    pub(super) code: deputize_tools::CodeLimits,
    #[cfg(feature = "web")]
    pub(super) web: deputize_tools::web::Settings,
}

/// Settings of an agent in a recording, for setting it up again.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AgentSetup {
    pub(super) prompt: PromptSources,
    /// The profiles of children.
    #[serde(default)]
    pub(super) profiles: Vec<Profile>,
    /// What is wrong with the files of others.
    #[serde(default)]
    pub(super) faulty_profiles: BTreeMap<String, String>,
    /// Descriptions by the extensions, in their order.
    pub(super) extensions: Vec<Value>,
}
