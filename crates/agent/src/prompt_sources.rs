//! What the base prompts of agents are made from, besides settings.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use deputize_core::prompt::FillError;
use deputize_core::source::Source;
use deputize_core::source_set::SourceSet;
use deputize_core::tool::ToolGuidance;
use deputize_core::{Catalog, CatalogEntry, Clock, ResourceMap, ToolName};
use deputize_delegate::{DelegationConfig, ToolFlavor, ToolSchemas};
use deputize_runtime::prompt::{
    BaseParts, Directory, Environment, Platform, ProjectFile, project_warnings,
};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::base_prompt::BasePrompt;
use crate::project;

/// Sources of base prompts in the environment. A recording stores them, so a replay on another
/// machine makes the same prompts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptSources {
    /// The directory that top agents work in.
    pub cwd: PathBuf,
    /// The operating system.
    pub os: String,
    /// Whether the directory is in a git repository.
    pub git: bool,
    /// The date, as models read it.
    pub date: String,
    /// Who the agent is; `None` for the built-in words.
    pub identity: Option<String>,
    /// Texts about tools, in the order of their names.
    #[serde(default)]
    pub guidance: Vec<ToolGuidance>,
    /// Files of the project that speak to agents: paths as the model reads them, and texts.
    pub project: Vec<(String, String)>,
    /// The memory's part of the system text of top agents.
    #[serde(default)]
    pub memory: Option<String>,
    /// Sources of that part: its topics, and those from outside that its entries name.
    #[serde(default)]
    pub memory_sources: SourceSet,
}

/// The settings of a top agent's base prompt.
#[derive(Debug, Clone, Copy)]
pub struct PromptSettings<'a> {
    /// The program's own text.
    pub system_text: &'a str,
    /// How the agent delegates.
    pub delegation: &'a DelegationConfig,
    /// The agent's tools.
    pub tools: &'a [ToolName],
    /// Who reads the answer, if that is known.
    pub platform: Option<Platform>,
}

impl PromptSources {
    /// Returns the sources of agents that work in a directory. No file is read.
    #[must_use]
    pub fn new(cwd: &Path, date: String) -> Self {
        Self {
            cwd: cwd.to_owned(),
            os: std::env::consts::OS.to_owned(),
            git: project::root(cwd).is_some(),
            date,
            identity: None,
            guidance: Vec::new(),
            project: Vec::new(),
            memory: None,
            memory_sources: SourceSet::new(),
        }
    }

    /// Reads the project's files, and adds a warning for each that cannot be read or that the prompt
    /// has not room enough for.
    #[must_use]
    pub fn with_project(self, warnings: &mut Vec<String>) -> Self {
        let project = project::read(&self.cwd);
        warnings.extend(project.warnings);
        let sources = Self { project: project.files, ..self };
        warnings.extend(project_warnings(&sources.project_files()));
        sources
    }

    /// Reads the texts about the tools that agents are to have.
    #[must_use]
    pub fn with_guidance(
        self,
        catalog: &Catalog,
        settings: &ResourceMap,
        is_offered: impl Fn(&CatalogEntry) -> bool,
    ) -> Self {
        let text = |entry: &CatalogEntry| {
            let text = entry.tool.guidance(settings)?.into();
            let sources = entry.tool.guidance_sources(settings);
            Some(ToolGuidance { tool: entry.name().clone(), text, sources })
        };
        let offered = catalog.iter().filter(|entry| is_offered(entry));
        Self { guidance: offered.filter_map(text).collect(), ..self }
    }

    /// Builds the base prompt of top agents.
    ///
    /// # Errors
    /// When a template and its values do not fit.
    pub fn top_prompt(&self, settings: PromptSettings<'_>) -> Result<BasePrompt, FillError> {
        let directory = Directory { path: &self.cwd, git: self.git };
        let environment = Environment { os: &self.os, directory: Some(directory) };
        let has_tool = |it: &&ToolGuidance| settings.tools.contains(&it.tool);
        let guidance: Vec<_> = self.guidance.iter().filter(has_tool).collect();
        let schemas = settings.delegation.options.tool_schemas;
        let parts = BaseParts {
            identity: self.identity.as_deref(),
            system_text: Some(settings.system_text),
            delegation_tool: delegation_tool(&settings),
            guidance: guidance.iter().map(|it| &*it.text).collect(),
            project: self.project_files(),
            platform: settings.platform,
            ..BaseParts::new(&self.date, environment)
        };
        let mut prompt = BasePrompt::build(&parts, schemas)?;
        prompt.add_sources(guidance.iter().flat_map(|it| &it.sources));
        if let Some(memory) = &self.memory {
            prompt.add_memory(memory, &self.memory_sources, schemas);
        }
        Ok(prompt)
    }

    /// Builds the base prompt that all children share: each works in a directory of its own. The
    /// project's files are in it only if `context_files`.
    ///
    /// # Errors
    /// When a template and its values do not fit.
    pub fn child_prompt(
        &self,
        system_text: &str,
        schemas: ToolSchemas,
        context_files: bool,
    ) -> Result<Vec<Arc<str>>, FillError> {
        let environment = Environment { os: &self.os, directory: None };
        let parts = BaseParts {
            system_text: Some(system_text),
            project: if context_files { self.project_files() } else { Vec::new() },
            ..BaseParts::new(&self.date, environment)
        };
        Ok(BasePrompt::build(&parts, schemas)?.for_children(schemas))
    }

    /// Returns the sources of the base prompt of children, beside this program.
    #[must_use]
    pub fn child_sources(&self, context_files: bool) -> SourceSet {
        let files = if context_files { self.project_files() } else { Vec::new() };
        files.iter().map(|file| Source::project(file.path)).collect()
    }

    fn project_files(&self) -> Vec<ProjectFile<'_>> {
        self.project.iter().map(|(path, text)| ProjectFile { path, text }).collect()
    }
}

/// Returns the date in a time zone, as models read it.
#[must_use]
pub fn local_date(clock: &dyn Clock, zone: TimeZone) -> String {
    let now = i64::try_from(clock.now_ms()).ok();
    let now = now.and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let now = now.unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(zone);
    now.strftime("%Y-%m-%d").to_string()
}

/// Returns the tool whose use the prompt explains: only that of one text, for the other one's
/// description says it.
fn delegation_tool(settings: &PromptSettings<'_>) -> Option<ToolName> {
    let tool = settings.delegation.tool();
    let explained = settings.delegation.options.tool_name == ToolFlavor::Task;
    (explained && settings.tools.contains(&tool)).then_some(tool)
}
