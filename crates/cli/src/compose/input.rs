//! What the assembly of the program is made from, and why it fails.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use deputize_agent::DelegationError;
use deputize_agent::plugins::PluginLoadError;
use deputize_core::profile::Profile;
use deputize_core::prompt::FillError;
use deputize_core::{CatalogError, Clock};
use deputize_runtime::SystemClock;

use super::linked_tools::LinkedTools;
use super::protected_folders::protected_folders;
use crate::config::{Config, ModelOverrides, Sources};
use crate::process_env::ProcessEnv;

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
    pub(crate) protected: BTreeSet<PathBuf>,
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
        let protected = protected_folders(environment, sources);
        let overrides = ModelOverrides::default();
        let project_files = sources.project_files;
        Self {
            links,
            config,
            environment,
            overrides,
            cwd,
            home,
            protected,
            project_files,
            profile: None,
            clock,
            reported,
        }
    }
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

/// Returns the end of a message that names the nearest name; empty without one.
pub(super) fn did_you_mean(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}
