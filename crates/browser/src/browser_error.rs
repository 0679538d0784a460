//! Why a browser did not do what was asked of it.

use std::error::Error;

use deputize_core::sanitize::for_terminal_line;
use deputize_core::setting_names::SettingNames;
use deputize_core::wording::count;
use deputize_core::{ToolError, describe_error};
use deputize_http::UrlDenial;
use deputize_process::SpawnError;

use crate::devtools::DevToolsError;
use crate::element_refs::RefError;

/// The most characters of a text from outside in an error.
const SHOWN_CHARS: usize = 300;

#[derive(Debug, thiserror::Error)]
pub(crate) enum BrowserError {
    #[error("{0}")]
    Missing(String),
    #[error("no page is open: open one with an address")]
    NoPage,
    #[error("{}: an agent must close its browser first", running(*.0))]
    TooMany(usize),
    #[error("the browser was not started")]
    Spawn(#[source] Box<dyn Error + Send + Sync>),
    #[error("denied: {0}")]
    Denied(#[from] UrlDenial),
    #[error("{url} was not loaded: {problem}")]
    NotLoaded { url: String, problem: String },
    #[error(transparent)]
    Ref(#[from] RefError),
    /// The element cannot be used so.
    #[error("{element}: {problem}")]
    Element { element: String, problem: String },
    #[error(transparent)]
    End(#[from] BrowserEnd),
    #[error("cancelled")]
    Cancelled,
    #[error(transparent)]
    DevTools(#[from] DevToolsError),
}

/// Why a browser cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BrowserEnd {
    #[error("the browser ended at its start: {said}")]
    AtStart { said: String },
    #[error("the page has ended by itself, or its process crashed: open it again")]
    Page,
    #[error("the browser did not answer within {0} s and was ended: open the page again")]
    NoAnswer(u64),
}

fn running(browsers: usize) -> String {
    let verb = if browsers == 1 { "runs" } else { "run" };
    format!("{} of this session {verb} already", count(browsers, "browser"))
}

impl From<SpawnError> for BrowserError {
    fn from(error: SpawnError) -> Self {
        Self::Spawn(error.into())
    }
}

impl BrowserError {
    pub(crate) fn not_loaded(url: &str, problem: &str) -> Self {
        let shown = |text: &str| for_terminal_line(text, SHOWN_CHARS);
        Self::NotLoaded { url: shown(url), problem: shown(problem) }
    }

    pub(crate) fn element(element: &str, problem: impl Into<String>) -> Self {
        let element = for_terminal_line(element, SHOWN_CHARS);
        Self::Element { element, problem: problem.into() }
    }

    /// Returns whether the browser cannot go on after this.
    pub(crate) const fn ends_browser(&self) -> bool {
        matches!(self, Self::End(_) | Self::DevTools(DevToolsError::Closed))
    }

    /// Returns the error of a call, with the host's name of a setting that would allow it.
    pub(crate) fn into_tool_error(self, names: &SettingNames) -> ToolError {
        match self {
            Self::Cancelled => ToolError::Cancelled(Box::default()),
            Self::Denied(denied) => {
                ToolError::refused(format!("denied: {}", denied.with_remedy(names)))
            }
            Self::DevTools(
                error @ (DevToolsError::Refused { .. } | DevToolsError::Answer { .. }),
            ) => ToolError::failed(error),
            error => ToolError::refused(describe_error(&error)),
        }
    }
}
