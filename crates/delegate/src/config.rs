//! The settings of delegation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use deputize_core::agent::AgentLimits;
use deputize_core::authority::ApproverMode;
use deputize_core::profile::Profile;
use deputize_core::setting_names::SettingNames;
use deputize_core::source_set::SourceSet;
use deputize_core::tool::ToolGuidance;
use deputize_core::{ArgumentRole, CatalogEntry, Effects, Subject, ToolName, ToolsetName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::{DELEGATE_TASK, TASK_TOOL};

/// Minimum time limit of a child, in seconds; a shorter one would end it before it starts.
pub const CHILD_TIMEOUT_FLOOR_SECONDS: u32 = 30;
/// Maximum depth below the top agent.
pub const MAX_SPAWN_DEPTH_CEILING: u32 = 3;

/// What happens to a call with more tasks than may run side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OverLimit {
    /// Refuse the call.
    #[default]
    Refuse,
    /// Run all its tasks, so many at a time.
    Queue,
}

/// Which tool descriptions a child is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolSchemas {
    /// Those of the tools that it may use.
    #[default]
    Narrowed,
    /// All of its parent's. A call of a tool that it may not use is refused.
    // The system text is the parent's too, so that a provider's cache serves both; what is the
    // child's own stands in its first message.
    CachePreserving,
}

/// Where goal and context stand in a child's prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PromptLayout {
    /// At the top.
    #[default]
    Classic,
    /// At the end, so that siblings share more of a provider's cache.
    CacheFirst,
}

/// The name under which delegation is offered to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolFlavor {
    /// The full tool.
    #[default]
    DelegateTask,
    /// A tool with one argument, for models trained on it.
    Task,
}

impl ToolFlavor {
    /// Returns what calls of the tool are about.
    pub(crate) fn subject(self) -> Subject {
        let verb = Some("delegate".into());
        match self {
            Self::DelegateTask => {
                Subject::new(verb, "tasks", ArgumentRole::Tasks).with("goal", ArgumentRole::Task)
            }
            Self::Task => Subject::new(verb, "description", ArgumentRole::Task),
        }
    }
}

/// Limits of children and of the calls that start them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DelegationLimits {
    /// Maximum number of model requests of one child.
    #[schemars(range(min = 1))]
    pub max_iterations: u32,
    /// Time limit of a child in seconds. No limit if 0 or less; 1 to 29 count as 30.
    #[schemars(with = "i64")]
    pub child_timeout_seconds: u32,
    /// Seconds for a closing answer after the time limit. No closing answer if 0.
    pub wrap_up_seconds: u32,
    /// Children of one agent that run side by side. At least 1.
    #[schemars(with = "i64")]
    pub max_concurrent_children: u32,
    /// Levels of agents below the top one, 1 to 3.
    #[schemars(with = "i64")]
    pub max_spawn_depth: u32,
    /// Children of one session, all levels together. No limit if 0.
    pub max_children_per_session: u32,
    /// Maximum number of bytes of a child's answer in its parent's result. As many as fit if 0.
    pub max_summary_bytes: u32,
    /// What happens to a call with more tasks than may run side by side.
    pub over_limit: OverLimit,
}

impl Default for DelegationLimits {
    fn default() -> Self {
        Self {
            max_iterations: 50,
            child_timeout_seconds: 600,
            wrap_up_seconds: AgentLimits::WRAP_UP_SECONDS,
            max_concurrent_children: 3,
            max_spawn_depth: 1,
            max_children_per_session: 200,
            max_summary_bytes: 24_000,
            over_limit: OverLimit::Refuse,
        }
    }
}

/// How delegation is offered, and what children are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DelegationOptions {
    /// Whether children may delegate.
    pub orchestrator_enabled: bool,
    /// Whether children keep the parent's MCP tools although `toolsets` of the call, or
    /// `default_toolsets`, does not name them. Where neither names any, they have them anyway.
    pub inherit_mcp_toolsets: bool,
    /// Where goal and context stand in a child's prompt.
    pub prompt_layout: PromptLayout,
    /// Which tool descriptions a child is sent.
    pub tool_schemas: ToolSchemas,
    /// The name under which delegation is offered to the model.
    pub tool_name: ToolFlavor,
    /// Whether a call may return a handle before its children end.
    pub background: bool,
}

impl Default for DelegationOptions {
    fn default() -> Self {
        Self {
            orchestrator_enabled: true,
            inherit_mcp_toolsets: true,
            prompt_layout: PromptLayout::Classic,
            tool_schemas: ToolSchemas::Narrowed,
            tool_name: ToolFlavor::DelegateTask,
            background: false,
        }
    }
}

/// Which toolsets children may have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChildToolsets {
    /// Toolsets of a child when the call names none; empty means all the parent's.
    pub default: BTreeSet<ToolsetName>,
    /// Upper bound on the toolsets of every child; `None` means unbounded.
    pub ceiling: Option<BTreeSet<ToolsetName>>,
    /// Toolsets that a later version will have. A call that names one goes on without it.
    pub later: BTreeSet<String>,
}

/// Which models children use, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChildModels {
    /// The model of children, as `PROVIDER/MODEL`; `None` means the parent's.
    pub model: Option<String>,
    /// Models that a call or a profile may choose for a task, as `PROVIDER/MODEL`.
    pub choices: Vec<String>,
    /// The models of children with a profile, by its name.
    pub by_profile: BTreeMap<String, String>,
    /// Configured models that cannot be reached, each with the reason in words for a model. A call
    /// that names one is refused.
    pub unreachable: BTreeMap<String, String>,
    /// How hard children think; `None` means as hard as the parent.
    pub reasoning_effort: Option<String>,
    /// Maximum number of tokens of one answer; `None` means the parent's limit.
    pub max_output_tokens: Option<u32>,
    /// Size of the context of each provider's models in tokens, where it is known, by provider.
    pub context_windows: BTreeMap<String, u32>,
}

/// Who answers the questions of children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildApprovals {
    /// How questions are answered, as far as the parent's authority allows it.
    pub mode: ApproverMode,
    /// The effects of tools each of whose calls needs an approval, by the rules of the program. Empty
    /// means that no tool is withheld for want of one.
    pub effects: Vec<Effects>,
    /// Whether there is a person to ask where the mode is `ask`.
    pub person_available: bool,
}

impl Default for ChildApprovals {
    fn default() -> Self {
        Self { mode: ApproverMode::Deny, effects: Vec::new(), person_available: true }
    }
}

/// Properties of the host program that delegation needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DelegationHost {
    /// The operator's names of settings such as `max_iterations`, `models` or `external_needs`.
    pub setting_names: SettingNames,
    /// Command that shows the conversation of an agent, with `{session}` and `{agent}` for their
    /// ids; empty if there is none.
    pub transcript_command: String,
    /// The tools that a child must be due to be an external program, since nothing bounds what that
    /// does. Empty for children that are agents of this program.
    pub external_needs: Vec<ToolName>,
    /// The absolute directory in which children work; `None` means the parent's.
    pub workspace: Option<PathBuf>,
    /// The folder for diagnostics of children that timed out before they began; `None` means that
    /// none are written.
    pub logs: Option<PathBuf>,
    /// Rendered blocks that come before every child's own prompt: in its system text or, if that is
    /// the parent's, in its first message.
    pub child_base: Vec<Arc<str>>,
    /// Sources of those blocks, beside this program.
    pub child_base_sources: SourceSet,
    /// Texts about tools, for children that have the tool; after `child_base`.
    pub guidance: Vec<ToolGuidance>,
}

/// The settings of delegation: plain data, the same for every agent of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DelegationConfig {
    /// Limits of children and of the calls that start them.
    pub limits: DelegationLimits,
    /// How delegation is offered, and what children are sent.
    pub options: DelegationOptions,
    /// Which toolsets children may have.
    pub toolsets: ChildToolsets,
    /// Which models children use, and how.
    pub models: ChildModels,
    /// The profiles that a call may choose for a task, each name once, in the order in which models
    /// read them.
    pub profiles: Vec<Profile>,
    /// What is wrong with the file of each faulty profile, by its name.
    pub faulty_profiles: BTreeMap<String, String>,
    /// Who answers the questions of children.
    pub approvals: ChildApprovals,
    /// Properties of the host program.
    pub host: DelegationHost,
}

impl DelegationConfig {
    /// Returns the name of the tool by which an agent delegates.
    #[must_use]
    pub const fn tool(&self) -> ToolName {
        match self.options.tool_name {
            ToolFlavor::DelegateTask => DELEGATE_TASK,
            ToolFlavor::Task => TASK_TOOL,
        }
    }

    /// Returns the profile of this name, if there is one.
    #[must_use]
    pub fn profile(&self, name: &str) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.name == name)
    }

    /// Returns what the operator calls a setting; empty if that is not known.
    pub(crate) fn setting_name(&self, field: &str) -> &str {
        self.host.setting_names.name(field)
    }

    /// Returns the name of a setting in parentheses, after a space; empty if it has none.
    pub(crate) fn setting_note(&self, field: &str) -> String {
        self.host.setting_names.note(field)
    }

    /// Whether children are runs of another program.
    pub(crate) fn is_external(&self) -> bool {
        !self.host.external_needs.is_empty()
    }

    /// Whether a child's conversation may begin with that of its parent, so that a cache serves it.
    pub(crate) fn has_forks(&self) -> bool {
        self.options.tool_schemas == ToolSchemas::CachePreserving && !self.is_external()
    }

    /// Whether children whose questions are answered so go without the tools that need an
    /// approval: nobody would give it. External programs bring tools of their own.
    pub(crate) fn withholds_any(&self, approver: ApproverMode) -> bool {
        let approves = match approver {
            ApproverMode::Deny => false,
            ApproverMode::Ask => self.approvals.person_available,
            ApproverMode::Auto => true,
        };
        !approves && !self.is_external() && !self.approvals.effects.is_empty()
    }

    /// Returns whether children go without this tool.
    #[must_use]
    pub fn withholds(&self, entry: &CatalogEntry, approver: ApproverMode) -> bool {
        self.withholds_any(approver) && self.approvals.effects.contains(&entry.tool.spec().effects)
    }

    /// Returns the limit on children of one agent that run side by side.
    #[must_use]
    pub fn concurrency(&self) -> u32 {
        self.limits.max_concurrent_children.max(1)
    }

    /// At which depth every agent is a leaf.
    #[must_use]
    pub fn leaf_depth(&self) -> u32 {
        self.limits.max_spawn_depth.clamp(1, MAX_SPAWN_DEPTH_CEILING)
    }

    /// Returns the limits of a child whose task asks for `asked` iterations, or for no number.
    #[must_use]
    pub fn limits(&self, asked: Option<u32>) -> AgentLimits {
        let most = self.limits.max_iterations.max(1);
        let seconds = match self.limits.child_timeout_seconds {
            0 => 0,
            seconds => seconds.max(CHILD_TIMEOUT_FLOOR_SECONDS),
        };
        AgentLimits {
            max_iterations: asked.map_or(most, |asked| asked.clamp(1, most)),
            time_ms: u64::from(seconds) * 1000,
            wrap_up_ms: u64::from(self.limits.wrap_up_seconds) * 1000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_floors_and_a_call_only_lowers_them() {
        let limits = |child_timeout_seconds, asked| {
            DelegationConfig {
                limits: DelegationLimits { child_timeout_seconds, ..DelegationLimits::default() },
                ..DelegationConfig::default()
            }
            .limits(asked)
        };
        assert_eq!(limits(0, None).time_ms, 0);
        assert_eq!(limits(1, None).time_ms, 30_000);
        assert_eq!(limits(31, None).time_ms, 31_000);
        assert_eq!(limits(0, Some(7)).max_iterations, 7);
        assert_eq!(limits(0, Some(51)).max_iterations, 50);
        let odd = DelegationConfig {
            limits: DelegationLimits {
                max_spawn_depth: 9,
                max_concurrent_children: 0,
                ..DelegationLimits::default()
            },
            ..DelegationConfig::default()
        };
        assert_eq!((odd.leaf_depth(), odd.concurrency()), (3, 1));
    }
}
