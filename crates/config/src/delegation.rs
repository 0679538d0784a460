//! The keys under `delegation`.

use std::time::Duration;

use deputize_core::authority::ApproverMode;
use deputize_delegate::{OverLimit, Policy, PromptLayout, ToolFlavor, ToolSchemas};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::budget::Budget;
use super::reasoning_effort::ReasoningEffort;
use super::secret::Secret;

/// Agents that hand work to others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Delegation {
    /// The model of children, as PROVIDER/MODEL. Empty: the parent's.
    pub model: String,
    /// The provider of children. Empty: the parent's, or what `model` says.
    pub provider: String,
    /// The endpoint of children. Without `provider` it speaks `openai-chat`.
    pub base_url: String,
    /// Environment variable that holds the key for `base_url` or `provider`.
    #[schemars(regex(pattern = "^([A-Za-z_][A-Za-z0-9_]*)?$"))]
    pub api_key_env: String,
    /// The key itself. `api_key_env` is the better way: it keeps the key out of files.
    pub api_key: Option<Secret>,
    /// How hard children think. Empty: as hard as the parent.
    pub reasoning_effort: ReasoningEffort,
    /// Names of models that the parent may choose for a task.
    pub models: Vec<String>,
    /// Models to try, in this order, when a child's own model cannot be used: one that `model`,
    /// `provider`, `base_url` or a task names. A child with its parent's model has the parent's.
    pub fallback_models: Vec<String>,
    /// Whether children keep the parent's MCP tools although `toolsets` of the call, or
    /// `default_toolsets`, does not name them. Where neither names any, they have them anyway.
    pub inherit_mcp_toolsets: bool,
    /// Toolsets of a child when the call names none. Empty: all the parent's.
    pub default_toolsets: Vec<String>,
    /// The most that any child may have. Absent: no ceiling; an empty list: no tools.
    pub toolset_ceiling: Option<Vec<String>>,
    /// Model requests of one child.
    #[schemars(range(min = 1))]
    pub max_iterations: u32,
    /// Seconds that a child may take. No limit if 0 or less; 1 to 29 count as 30.
    #[schemars(with = "i64")]
    pub child_timeout_seconds: u32,
    /// Seconds for a closing answer after the time limit. No closing answer if 0.
    pub wrap_up_seconds: u32,
    /// Seconds without progress after which an idle child is shown as stalled.
    pub stale_idle_seconds: u32,
    /// The same for a child inside a tool.
    pub stale_in_tool_seconds: u32,
    /// Children of one agent that run side by side. At least 1.
    #[schemars(with = "i64")]
    pub max_concurrent_children: u32,
    /// Levels of agents below the top one, 1 to 3.
    #[schemars(with = "i64")]
    pub max_spawn_depth: u32,
    /// Whether a child may hand on work in its turn.
    pub orchestrator_enabled: bool,
    /// Approve what children ask for, once each, and log it. Absent: no.
    pub subagent_auto_approve: Option<bool>,
    /// How children's requests are answered. Absent: `auto` with `subagent_auto_approve`, else
    /// `deny`.
    pub approvals: Option<ApproverMode>,
    /// Bytes of a child's answer that its parent is shown. As many as there is room for if 0.
    pub max_summary_bytes: u32,
    /// Children of one session, all levels together. No limit if 0.
    pub max_children_per_session: u32,
    /// Tokens of one answer of a child's model. The parent's limit if 0.
    pub max_output_tokens: u32,
    /// What a tree of children may spend.
    pub budget: Budget,
    /// Where goal and context stand in a child's prompt.
    pub prompt_layout: PromptLayout,
    /// Which tool descriptions a child is sent.
    pub tool_schemas: ToolSchemas,
    /// What happens to a call with more tasks than may run side by side.
    pub over_limit: OverLimit,
    /// Program of an external agent that runs children over ACP. Empty: none.
    pub acp_command: String,
    /// Its arguments.
    pub acp_args: Vec<String>,
    /// Names of the environment variables it is given.
    pub acp_env: Vec<String>,
    /// The name under which delegation is offered to the model.
    pub tool_name: ToolFlavor,
    /// Whether a call may return a handle before its children end.
    pub background: bool,
    /// Seconds between two signs of life of a child.
    #[schemars(range(min = 1))]
    pub heartbeat_seconds: u32,
}

impl Delegation {
    /// The time limit of a child, or none.
    pub fn child_timeout(&self) -> Option<Duration> {
        let seconds = u64::from(self.child_timeout_seconds);
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }

    /// How children's requests for permission are answered: `approvals`, or what
    /// `subagent_auto_approve` means.
    pub fn child_approvals(&self) -> ApproverMode {
        let unset = match self.subagent_auto_approve {
            Some(true) => ApproverMode::Auto,
            Some(false) | None => ApproverMode::Deny,
        };
        self.approvals.unwrap_or(unset)
    }
}

impl Default for Delegation {
    fn default() -> Self {
        // What delegation itself obeys has its defaults there.
        let policy = Policy::default();
        Self {
            model: String::new(),
            provider: String::new(),
            base_url: String::new(),
            api_key_env: String::new(),
            api_key: None,
            reasoning_effort: ReasoningEffort::default(),
            models: Vec::new(),
            fallback_models: Vec::new(),
            inherit_mcp_toolsets: policy.inherit_mcp_toolsets,
            default_toolsets: Vec::new(),
            toolset_ceiling: None,
            max_iterations: policy.max_iterations,
            child_timeout_seconds: policy.child_timeout_seconds,
            wrap_up_seconds: policy.wrap_up_seconds,
            stale_idle_seconds: 450,
            stale_in_tool_seconds: 1200,
            max_concurrent_children: policy.max_concurrent_children,
            max_spawn_depth: policy.max_spawn_depth,
            orchestrator_enabled: policy.orchestrator_enabled,
            subagent_auto_approve: None,
            approvals: None,
            max_summary_bytes: policy.max_summary_bytes,
            max_children_per_session: policy.max_children_per_session,
            max_output_tokens: 0,
            budget: Budget::default(),
            prompt_layout: policy.prompt_layout,
            tool_schemas: policy.tool_schemas,
            over_limit: policy.over_limit,
            acp_command: String::new(),
            acp_args: Vec::new(),
            acp_env: Vec::new(),
            tool_name: policy.form,
            background: policy.background,
            heartbeat_seconds: 30,
        }
    }
}
