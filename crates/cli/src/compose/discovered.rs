//! What a prompt takes from around the program: a recording keeps it, so that a replay on
//! another machine makes the same prompt.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::plugins::FoundPlugin;
use deputize_runtime::prompt::{Directory, Environment, Platform, ProjectFile};
use serde::{Deserialize, Serialize};

use super::{AssemblyInput, date, mcp, unreachable};
use deputize_agent::project;

/// What was found around the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Discovered {
    /// The directory that the agent works in.
    pub(crate) cwd: PathBuf,
    os: String,
    /// Whether that is in a git repository.
    git: bool,
    pub(super) date: String,
    /// Who the agent is, as the person's home directory says.
    pub(super) identity: Option<String>,
    /// Files of the project that speak to agents: paths as the model reads them, and texts.
    project: Vec<(String, String)>,
    /// Whether a person at a terminal reads the answer.
    terminal: bool,
    /// Whether a person at an editor does.
    #[serde(default)]
    editor: bool,
    /// Whether there is a person who can be asked.
    #[serde(default)]
    pub(super) person_available: bool,
    /// The directory that terminals begin in by the configuration, if it is there.
    #[serde(default)]
    pub(super) workspace: Option<PathBuf>,
    /// What is known of MCP servers, by their names.
    #[serde(default)]
    pub(super) mcp: BTreeMap<String, mcp::KnownServer>,
    /// What the program's memory has for the system text of top agents.
    #[serde(default)]
    pub(super) memory: Option<String>,
    /// The models of `delegation.models` that cannot be asked, each with why.
    #[serde(default)]
    pub(super) unreachable_models: BTreeMap<String, String>,
    /// The plugins of the configuration, and what they said of themselves.
    #[serde(default)]
    pub(super) plugins: Vec<FoundPlugin>,
}

impl Discovered {
    /// Looks around, and tells what could not be read.
    pub(crate) fn read(from: &AssemblyInput<'_>, warnings: &mut Vec<String>) -> Self {
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
        Self {
            cwd: from.cwd.clone(),
            os: std::env::consts::OS.to_owned(),
            git: project.root.is_some(),
            date: date(from),
            identity,
            project: project.files,
            terminal: from.surroundings.stdout_is_terminal,
            editor: from.surroundings.at_editor,
            person_available: from.surroundings.person_available,
            workspace: directory(&from.config.terminal.cwd),
            mcp: mcp::known(from.config, from.surroundings, warnings),
            memory: from.surroundings.own.memory.as_ref().and_then(|memory| memory.snapshot()),
            unreachable_models: unreachable_models(from),
            plugins: Vec::new(),
        }
    }

    /// The same with another project, as that is found there.
    pub(crate) fn in_directory(self, cwd: &Path, warnings: &mut Vec<String>) -> Self {
        let project = project::read(cwd);
        warnings.extend(project.warnings);
        let (git, cwd) = (project.root.is_some(), cwd.to_owned());
        Self { cwd, git, project: project.files, ..self }
    }

    pub(super) fn environment(&self) -> Environment<'_> {
        let directory = Some(Directory { path: &self.cwd, git: self.git });
        Environment { directory, ..self.children_environment() }
    }

    /// What children share: each works in a directory of its own.
    pub(super) fn children_environment(&self) -> Environment<'_> {
        Environment { os: &self.os, directory: None }
    }

    pub(super) fn files(&self) -> Vec<ProjectFile<'_>> {
        self.project.iter().map(|(path, text)| ProjectFile { path, text }).collect()
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
    let AssemblyInput { config, overrides, surroundings, .. } = from;
    let why = |name: &String| unreachable(config, overrides, name, surroundings);
    let models = config.delegation.models.iter();
    models.filter_map(|name| Some((name.clone(), why(name)?))).collect()
}

/// A directory, if it is one that agents can be told of.
fn directory(configured: &str) -> Option<PathBuf> {
    let path = Path::new(configured);
    (path.is_absolute() && path.is_dir()).then(|| path.to_owned())
}
