//! Keys whose features come with a later version: known and checked, not yet obeyed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The tool that fetches pages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Fetch {
    /// Hosts that may be fetched from without asking.
    pub allow_hosts: Vec<String>,
}

/// The sandbox of started programs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Sandbox {
    /// Whether programs may run where no sandbox is to be had.
    pub unsandboxed: Unsandboxed,
    /// Further directories that programs may read.
    pub read_roots: Vec<String>,
    /// Further directories that programs may write.
    pub write_roots: Vec<String>,
    /// Hosts that programs may reach.
    pub network_hosts: Vec<String>,
}

/// Whether programs may run where no sandbox is to be had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unsandboxed {
    /// No.
    #[default]
    Deny,
    /// Each time the person is asked.
    Ask,
    /// Yes.
    Allow,
}

/// How a conversation that grows too long is shortened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Compaction {
    /// The filled share of the model's context at which it happens, above 0 and at most 1.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub at: f64,
    /// The model that writes the summary, as PROVIDER/MODEL. Empty: the agent's own.
    pub model: String,
}

impl Default for Compaction {
    fn default() -> Self {
        Self { at: 0.8, model: String::new() }
    }
}

/// The interactive session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Chat {
    /// What a message written during a turn does.
    pub busy: WhenBusy,
}

/// What a message written during a turn does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WhenBusy {
    /// It ends the turn and its children.
    #[default]
    Interrupt,
    /// It waits for the turn's end.
    Queue,
}

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
