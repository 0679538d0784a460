//! The keys under `delegation`.

use std::collections::BTreeMap;

use deputize_core::authority::ApproverMode;
use deputize_delegate::{DelegationLimits, DelegationOptions};
use deputize_runtime::Heartbeat;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::budget::ChildBudget;
use super::reasoning_effort::ReasoningEffort;
use super::secret::Secret;

/// Agents that delegate tasks to children.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Delegation {
    /// Limits of children and of the calls that start them.
    #[serde(flatten)]
    pub limits: DelegationLimits,
    /// How delegation is offered, and what children are sent.
    #[serde(flatten)]
    pub options: DelegationOptions,
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
    /// The models of children with a profile, by its name, such as a cheap one for `explore`.
    pub profile_models: BTreeMap<String, String>,
    /// Models to try, in this order, when a child's own model cannot be used: one that `model`,
    /// `provider`, `base_url` or a task names. A child with its parent's model has the parent's.
    pub fallback_models: Vec<String>,
    /// Whether children read the project's files as the top agent does.
    pub context_files: bool,
    /// Toolsets of a child when the call names none. Empty: all the parent's.
    pub default_toolsets: Vec<String>,
    /// Upper bound on the toolsets of every child. Absent: unbounded. An empty list: no tools.
    pub toolset_ceiling: Option<Vec<String>>,
    /// Seconds without progress after which an idle child is shown as stalled. Never if 0.
    pub stale_idle_seconds: u32,
    /// Seconds without progress after which a child with a running tool is shown as stalled. Never
    /// if 0.
    pub stale_in_tool_seconds: u32,
    /// Whether each question of a child is approved, once, and logged. Absent: not approved.
    pub subagent_auto_approve: Option<bool>,
    /// How questions of children are answered. Absent: `auto` with `subagent_auto_approve`, else
    /// `deny`.
    pub approvals: Option<ApproverMode>,
    /// Tokens of one answer of a child's model. The parent's limit if 0.
    pub max_output_tokens: u32,
    /// What a tree of children may spend.
    pub budget: ChildBudget,
    /// Program of an external agent that runs children over ACP. Empty: none.
    pub acp_command: String,
    /// Arguments of `acp_command`.
    pub acp_args: Vec<String>,
    /// Names of the environment variables that `acp_command` gets.
    pub acp_env: Vec<String>,
    /// Seconds between two heartbeats of a child.
    #[schemars(range(min = 1))]
    pub heartbeat_seconds: u32,
}

impl Delegation {
    /// Returns how children's requests for permission are answered: `approvals`, or what
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
        Self {
            limits: DelegationLimits::default(),
            options: DelegationOptions::default(),
            model: String::new(),
            provider: String::new(),
            base_url: String::new(),
            api_key_env: String::new(),
            api_key: None,
            reasoning_effort: ReasoningEffort::default(),
            models: Vec::new(),
            profile_models: BTreeMap::new(),
            fallback_models: Vec::new(),
            context_files: false,
            default_toolsets: Vec::new(),
            toolset_ceiling: None,
            stale_idle_seconds: Heartbeat::STALE_IDLE_SECONDS,
            stale_in_tool_seconds: Heartbeat::STALE_IN_TOOL_SECONDS,
            subagent_auto_approve: None,
            approvals: None,
            max_output_tokens: 0,
            budget: ChildBudget::default(),
            acp_command: String::new(),
            acp_args: Vec::new(),
            acp_env: Vec::new(),
            heartbeat_seconds: Heartbeat::EVERY_SECONDS,
        }
    }
}
