//! The parts of prompts that come from the environment. A recording stores them, so a replay on
//! another machine makes the same prompts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use deputize_agent::mcp::KnownServer;
use deputize_agent::plugins::PluginRecord;
use deputize_agent::{PromptSources, local_date, project};
use deputize_core::memory::MemorySnapshot;
use deputize_core::profile::Profile;
use deputize_core::sanitize::Secrets;
use deputize_core::{Catalog, CatalogEntry, ResourceMap, ToolsetName, describe_error};
use deputize_runtime::prompt::Platform;
use deputize_tools::MEMORY_TOOL;
use serde::{Deserialize, Serialize};

use super::settings::{add_composites, memory_files, profile_library, skill_library};
use super::{AssemblyInput, mcp, unreachable};
use crate::zone::zone;

/// Parts of a prompt from the environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PromptEnvironment {
    /// Sources of the base prompts.
    #[serde(flatten)]
    pub(crate) prompt: PromptSources,
    /// Whether a person at a terminal reads the answer.
    terminal: bool,
    /// Whether a person at an editor does.
    #[serde(default)]
    editor: bool,
    /// Whether there is a person who can be asked.
    #[serde(default)]
    pub(super) person_available: bool,
    /// The configured start directory of terminals, if it exists.
    #[serde(default)]
    pub(super) workspace: Option<PathBuf>,
    /// Stored knowledge of MCP servers, by name.
    #[serde(default)]
    pub(super) mcp: BTreeMap<String, KnownServer>,
    /// The models that children may be given and that cannot be reached, each with the reason.
    #[serde(default)]
    pub(super) unreachable_models: BTreeMap<String, String>,
    /// The configured plugins and their descriptions.
    #[serde(default)]
    pub(super) plugins: Vec<PluginRecord>,
    /// The profiles that children may have.
    #[serde(default)]
    pub(super) profiles: Vec<Profile>,
    /// What is wrong with the files of others.
    #[serde(default)]
    pub(super) faulty_profiles: BTreeMap<String, String>,
    /// The profile of the top agent, if it has one.
    #[serde(default)]
    pub(super) profile: Option<Profile>,
}

impl PromptEnvironment {
    /// Reads the environment; adds a warning for each file that cannot be read.
    pub(crate) fn read(from: &AssemblyInput<'_>, warnings: &mut Vec<String>) -> Self {
        let date = local_date(&*from.clock, zone(from.environment));
        let mut prompt = PromptSources::new(&from.cwd, date);
        if from.project_files {
            prompt = prompt.with_project(warnings);
        }
        let home = from.home.as_deref();
        prompt.identity = home.and_then(|home| project::identity(home, warnings));
        let own = from.environment.own.memory.as_ref();
        if let Some(MemorySnapshot { text, sources }) = own.and_then(|memory| memory.snapshot()) {
            (prompt.memory, prompt.memory_sources) = (Some(text), sources);
        }
        Self {
            prompt,
            terminal: from.environment.terminals.stdout,
            editor: from.environment.at_editor,
            person_available: from.environment.person_available,
            workspace: directory(&from.config.terminal.cwd),
            mcp: mcp::known(from.config, from.environment, warnings),
            unreachable_models: unreachable_models(from),
            plugins: Vec::new(),
            profiles: Vec::new(),
            faulty_profiles: BTreeMap::new(),
            profile: from.profile.cloned(),
        }
    }

    /// Returns the same for another directory, with the files of its project only if they are to be
    /// read.
    pub(crate) fn in_directory(
        self,
        cwd: &Path,
        project_files: bool,
        warnings: &mut Vec<String>,
    ) -> Self {
        let Self { prompt: PromptSources { date, .. }, .. } = &self;
        let there = PromptSources::new(cwd, date.clone());
        let there = if project_files { there.with_project(warnings) } else { there };
        let PromptSources { cwd, git, project, .. } = there;
        Self { prompt: PromptSources { cwd, git, project, ..self.prompt }, ..self }
    }

    /// Reads the texts about the tools that agents are to have, the memory if they have its tool, and
    /// the profiles of children if they may delegate.
    pub(super) fn with_guidance(
        self,
        from: &AssemblyInput<'_>,
        linked: &Catalog,
        warnings: &mut Vec<String>,
    ) -> Self {
        let chosen = &from.config.toolsets;
        let mut catalog = linked.clone();
        add_composites(from.config, &mut catalog);
        // Of toolsets with tools of their own, none delegates but the one that is not here yet.
        let own_sets = catalog.toolsets();
        let settings = ResourceMap::default();
        settings.get_or_insert_with(|| skill_library(from));
        let is_chosen = |entry: &CatalogEntry| {
            let includes = |name: &String| {
                ToolsetName::new(name.as_str()).is_ok_and(|set| catalog.includes(&set, entry))
            };
            chosen.is_empty() || chosen.iter().any(includes)
        };
        let has_memory =
            |entry: &CatalogEntry| entry.name().as_str() == MEMORY_TOOL && is_chosen(entry);
        let mut prompt = self.prompt.with_guidance(&catalog, &settings, is_chosen);
        if catalog.iter().any(has_memory) {
            // Without files, a memory of the embedder's own keeps its text.
            if let Some(files) = memory_files(from.environment, Secrets::default()) {
                let memory = files.prompt_text();
                warnings.extend(memory.faults.iter().map(|fault| describe_error(fault)));
                prompt.memory = memory.text;
                prompt.memory_sources = memory.sources;
            }
        }
        let may_delegate = |name: &String| {
            let known = ToolsetName::new(name.as_str()).is_ok_and(|set| own_sets.contains(&set));
            !known
        };
        let (profiles, faulty_profiles) = match chosen.is_empty() || chosen.iter().any(may_delegate)
        {
            true => profile_library(from).list().into_profiles(),
            false => Default::default(),
        };
        Self { prompt, profiles, faulty_profiles, ..self }
    }

    pub(super) const fn platform(&self) -> Platform {
        match (self.editor, self.terminal) {
            (true, _) => Platform::Editor,
            (false, true) => Platform::Terminal,
            (false, false) => Platform::Pipe,
        }
    }
}

fn unreachable_models(from: &AssemblyInput<'_>) -> BTreeMap<String, String> {
    let AssemblyInput { config, overrides, environment, .. } = from;
    let why = |name: &String| unreachable(config, overrides, name, environment);
    let delegation = &config.delegation;
    let models = delegation.models.iter().chain(delegation.profile_models.values());
    models.filter_map(|name| Some((name.clone(), why(name)?))).collect()
}

/// Returns the directory if it is absolute and exists.
fn directory(configured: &str) -> Option<PathBuf> {
    let path = Path::new(configured);
    (path.is_absolute() && path.is_dir()).then(|| path.to_owned())
}
