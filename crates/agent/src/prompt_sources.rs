//! What the base prompts of agents are made from, besides settings.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use deputize_core::prompt::FillError;
use deputize_core::{Clock, ToolName};
use deputize_delegate::ToolSchemas;
use deputize_runtime::prompt::{BaseParts, Directory, Environment, Platform, ProjectFile};
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
    /// Files of the project that speak to agents: paths as the model reads them, and texts.
    pub project: Vec<(String, String)>,
    /// The memory's part of the system text of top agents.
    #[serde(default)]
    pub memory: Option<String>,
}

/// The settings of a top agent's base prompt.
#[derive(Debug, Clone, Default)]
pub struct PromptSettings<'a> {
    /// The program's own text.
    pub system_text: &'a str,
    /// Whether parent and children share one system text.
    pub schemas: ToolSchemas,
    /// The tool by which the agent hands work on, if it has one.
    pub delegation_tool: Option<ToolName>,
    /// Who reads the answer, if that is known.
    pub platform: Option<Platform>,
}

impl PromptSources {
    /// Reads the project's files, and adds a warning for each that cannot be read.
    #[must_use]
    pub fn read(cwd: &Path, date: String, warnings: &mut Vec<String>) -> Self {
        let project = project::read(cwd);
        warnings.extend(project.warnings);
        Self {
            cwd: cwd.to_owned(),
            os: std::env::consts::OS.to_owned(),
            git: project.root.is_some(),
            date,
            identity: None,
            project: project.files,
            memory: None,
        }
    }

    /// Returns the same for another directory, whose project's files are read.
    #[must_use]
    pub fn in_directory(self, cwd: &Path, warnings: &mut Vec<String>) -> Self {
        let Self { identity, memory, date, os, .. } = self;
        Self { identity, memory, os, ..Self::read(cwd, date, warnings) }
    }

    /// Builds the base prompt of top agents.
    ///
    /// # Errors
    /// When a template and its values do not fit.
    pub fn top_prompt(&self, settings: PromptSettings<'_>) -> Result<BasePrompt, FillError> {
        let directory = Directory { path: &self.cwd, git: self.git };
        let environment = Environment { os: &self.os, directory: Some(directory) };
        let files = self.project.iter();
        let parts = BaseParts {
            identity: self.identity.as_deref(),
            system_text: Some(settings.system_text),
            delegation_tool: settings.delegation_tool,
            project: files.map(|(path, text)| ProjectFile { path, text }).collect(),
            platform: settings.platform,
            ..BaseParts::new(&self.date, environment)
        };
        let mut prompt = BasePrompt::build(&parts, settings.schemas)?;
        if let Some(memory) = &self.memory {
            prompt.add_memory(memory, settings.schemas);
        }
        Ok(prompt)
    }

    /// Builds the base prompt that all children share: each works in a directory of its own.
    ///
    /// # Errors
    /// When a template and its values do not fit.
    pub fn child_prompt(
        &self,
        system_text: &str,
        schemas: ToolSchemas,
    ) -> Result<Vec<Arc<str>>, FillError> {
        let environment = Environment { os: &self.os, directory: None };
        let parts =
            BaseParts { system_text: Some(system_text), ..BaseParts::new(&self.date, environment) };
        Ok(BasePrompt::build(&parts, schemas)?.for_children(schemas))
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
