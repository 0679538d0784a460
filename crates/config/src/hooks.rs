//! The keys under `hooks`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Shell commands to run at events. A command gets one JSON object on its standard input; exit
/// status 2 blocks, and then standard error is the reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "PascalCase")]
pub struct Hooks {
    /// Before a tool runs.
    pub pre_tool_use: Vec<String>,
    /// After a tool ran.
    pub post_tool_use: Vec<String>,
    /// When the person sends a message.
    pub user_prompt_submit: Vec<String>,
    /// Before a child starts.
    pub subagent_start: Vec<String>,
    /// After a child ended.
    pub subagent_stop: Vec<String>,
}
