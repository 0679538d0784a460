//! Errors of building an agent.

use std::path::PathBuf;

use deputize_core::prompt::FillError;

use crate::delegation::DelegationError;
use crate::extension::ExtensionError;
use crate::model::ModelSourceError;

/// Why an agent cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No model was given.
    #[error("the agent has no model; call `model` with a name such as `openai/gpt-5`")]
    NoModel,
    /// Its model cannot be asked.
    #[error(transparent)]
    Model(#[from] ModelSourceError),
    /// No directory was given.
    #[error("the agent has no workspace; call `workspace` with the directory that it may change")]
    NoWorkspace,
    /// The directory is not there.
    #[error("the workspace `{path}` is not a directory, or cannot be opened")]
    Workspace {
        /// Path of the directory.
        path: PathBuf,
        /// I/O error from the system.
        #[source]
        source: std::io::Error,
    },
    /// There is no place for sessions.
    #[error("there is no directory for sessions")]
    Sessions(#[source] std::io::Error),
    /// Its tools do not fit together.
    #[error(transparent)]
    Tools(#[from] deputize_core::CatalogError),
    /// Its delegation tools could not be made.
    #[error(transparent)]
    Delegation(#[from] DelegationError),
    /// A template of its prompt is broken.
    #[error("the prompt cannot be built")]
    Prompt(#[from] FillError),
    /// A plugin or an MCP server cannot be used.
    #[error(transparent)]
    Extension(ExtensionError),
    /// Dollars are limited, and nobody knows what a model costs.
    #[error(
        "the budget is in dollars, and the price of `{model}` is not known; call `with_price` of \
         `AgentModel`, or limit tokens"
    )]
    NoPrice {
        /// Name of the model.
        model: String,
    },
}
