//! What an agent may have beside linked crates: plugins, MCP servers, external agents, hooks.

#[cfg(feature = "tools")]
use std::collections::BTreeMap;
use std::error::Error;
#[cfg(feature = "tools")]
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use deputize_core::authority::ApproverMode;
use deputize_core::{Catalog, ResourceMap, ToolSource};
use deputize_delegate::DelegationConfig;
use deputize_runtime::SessionConfig;
use serde_json::Value;

use crate::prompt_sources::PromptSources;

/// Why an extension cannot be used.
pub(crate) type ExtensionError = Box<dyn Error + Send + Sync>;

/// Context of extensions in an agent.
pub(crate) struct ExtensionContext<'a> {
    /// The directory of the agent.
    #[cfg_attr(
        not(feature = "mcp"),
        expect(dead_code, reason = "only MCP servers get the directory")
    )]
    pub(crate) cwd: &'a Path,
    /// How questions are answered.
    #[cfg_attr(not(feature = "cron"), expect(dead_code, reason = "only jobs ask for it"))]
    pub(crate) mode: ApproverMode,
    /// The environment of the program.
    #[cfg(feature = "tools")]
    pub(crate) env: &'a BTreeMap<OsString, OsString>,
    /// Who owns the processes of the agent.
    #[cfg(feature = "tools")]
    pub(crate) processes: &'a Arc<deputize_tools::Processes>,
}

/// Something that an agent has beside linked crates.
pub(crate) trait Extension: Send + Sync {
    /// Asks the extension what it has. A recording keeps the answer, so that a replay does not ask.
    fn describe(&self, _: &ExtensionContext<'_>) -> Result<Value, ExtensionError> {
        Ok(Value::Null)
    }

    /// Adds its tools to a catalog, by its description. Returns where the tools of children come
    /// from, if they change while the agent lives.
    fn add_tools(
        &self,
        _: &Value,
        _: &ExtensionContext<'_>,
        _: &mut Catalog,
    ) -> Result<Option<Arc<dyn ToolSource>>, ExtensionError> {
        Ok(None)
    }

    /// Returns whether its tools are added after those of other extensions.
    fn comes_last(&self) -> bool {
        false
    }

    /// Changes settings of delegation.
    fn change_delegation(&self, _: &mut DelegationConfig) {}

    /// Adds what prompts say of it, when the agent is built.
    fn change_prompt(&self, _: &mut PromptSources, _: &mut Vec<String>) {}

    /// Adds what makes its tools usable in a replay, where nothing runs.
    fn add_replay_settings(&self, _: &ResourceMap, _: ApproverMode) {}

    /// Changes a session before it begins.
    fn change_session(&self, _: &ExtensionContext<'_>, _: &mut SessionConfig) {}
}
