//! Puts the tools, prompts and limits of an agent together.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use deputize_core::agent::AgentLimits;
use deputize_core::authority::ApproverMode;
use deputize_core::budget::Budget;
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
                #[cfg(feature = "tools")]
                code: deputize_tools::CodeLimits::default(),
            },
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
                children_time: None,
                heartbeat: Heartbeat::default(),
                compaction: CompactionConfig::default(),
            },
            sync: SyncMode::default(),
            clock: Arc::clone(clock),
            memory: None,
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
        Ok(sources.with_guidance(&self.linked_tools()?, &ResourceMap::default(), |_| true))
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
    #[cfg(feature = "tools")]
    pub(super) code: deputize_tools::CodeLimits,
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
