//! What the operator says about delegation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use deputize_core::agent::AgentLimits;
use deputize_core::authority::ApproverMode;
use deputize_core::{ArgumentRole, CatalogEntry, Effects, Subject, ToolName, ToolsetName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::prompt::PromptLayout;
use crate::toolset::{TASK, TOOL};

/// The least time limit of a child, in seconds: less would end it before it has begun.
pub const CHILD_TIMEOUT_FLOOR_SECONDS: u32 = 30;
/// The most levels of agents below the top one.
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

/// The operator's settings: plain data, the same for every agent of a session. Field names
/// are the keys under `delegation` in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Model requests of one child; a call may only lower it.
    pub max_iterations: u32,
    /// Seconds that a child may take. 0: no limit; below the floor, the floor.
    pub child_timeout_seconds: u32,
    /// Seconds that it then has for a closing answer.
    pub wrap_up_seconds: u32,
    /// Children of one agent that run side by side, over all its calls; at least 1.
    pub max_concurrent_children: u32,
    /// Levels of agents below the top one; kept within 1 to 3.
    pub max_spawn_depth: u32,
    /// Whether a child may hand on work in its turn.
    pub orchestrator_enabled: bool,
    /// How children's questions are answered, as far as the parent's authority allows it.
    pub approvals: ApproverMode,
    /// What tools do each of whose calls needs an approval, by the rules of the program. Empty: no
    /// tool is withheld for want of one.
    pub approval_effects: Vec<Effects>,
    /// Whether there is a person to ask where approvals are `ask`.
    pub person_available: bool,
    /// Bytes of one child's answer that its parent is shown; 0: as many as there is room for.
    pub max_summary_bytes: u32,
    /// Where goal and context stand in a child's prompt.
    pub prompt_layout: PromptLayout,
    /// Toolsets of a child when the call names none; empty: all the parent's.
    pub default_toolsets: BTreeSet<ToolsetName>,
    /// The most that any child may have; nothing: no ceiling.
    pub toolset_ceiling: Option<BTreeSet<ToolsetName>>,
    /// Whether children keep the parent's MCP tools although the call does not name them.
    pub inherit_mcp_toolsets: bool,
    /// Toolsets that a later version will have: a call that names one goes on without it.
    pub later_toolsets: BTreeSet<String>,
    /// What the operator calls settings, by the names of these fields. Refusals and warnings name
    /// the settings that are here, and no others.
    pub setting_names: BTreeMap<String, String>,
    /// What happens to a call with more tasks than may run side by side.
    pub over_limit: OverLimit,
    /// Children of one session, all levels together; 0: no limit.
    pub max_children_per_session: u32,
    /// The model of children, as `PROVIDER/MODEL`; nothing: the parent's.
    pub model: Option<String>,
    /// Models that a call may choose for a task, as `PROVIDER/MODEL`.
    pub models: Vec<String>,
    /// Models that the operator names and that cannot be reached, each with why, in words for a
    /// model: a call that names one is refused.
    pub unreachable_models: BTreeMap<String, String>,
    /// How hard children think; nothing: as hard as the parent.
    pub reasoning_effort: Option<String>,
    /// The most tokens of one answer of a child's model; nothing: as the parent's.
    pub max_output_tokens: Option<u32>,
    /// Which tools a child is told of.
    pub tool_schemas: ToolSchemas,
    /// The tools that a child must be due, or it is not made: of an external program nothing
    /// bounds what it does. Empty for children that are agents of this program.
    pub external_needs: Vec<ToolName>,
    /// Whether a call may go on without its children.
    pub background: bool,
    /// The form in which delegation is offered.
    pub form: ToolFlavor,
    /// How many tokens fit in the context of each provider's models, by its name, as far as that
    /// is known.
    pub context_windows: BTreeMap<String, u32>,
    /// Where children work, if it is not where their parent does: an absolute directory.
    pub workspace: Option<PathBuf>,
    /// The folder for what is to be known of a child that timed out before it began; nothing:
    /// that is not kept.
    pub logs: Option<PathBuf>,
    /// What all children are told, in rendered blocks, before their own prompt: in their system
    /// text, or, where that is the parent's, in their first message.
    pub child_base: Vec<Arc<str>>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_iterations: 50,
            child_timeout_seconds: 600,
            wrap_up_seconds: 20,
            max_concurrent_children: 3,
            max_spawn_depth: 1,
            orchestrator_enabled: true,
            approvals: ApproverMode::Deny,
            approval_effects: Vec::new(),
            person_available: true,
            max_summary_bytes: 24_000,
            prompt_layout: PromptLayout::Classic,
            default_toolsets: BTreeSet::new(),
            toolset_ceiling: None,
            inherit_mcp_toolsets: true,
            later_toolsets: BTreeSet::new(),
            setting_names: BTreeMap::new(),
            over_limit: OverLimit::Refuse,
            max_children_per_session: 200,
            model: None,
            models: Vec::new(),
            unreachable_models: BTreeMap::new(),
            reasoning_effort: None,
            max_output_tokens: None,
            tool_schemas: ToolSchemas::Narrowed,
            external_needs: Vec::new(),
            background: false,
            form: ToolFlavor::DelegateTask,
            context_windows: BTreeMap::new(),
            workspace: None,
            logs: None,
            child_base: Vec::new(),
        }
    }
}

impl Policy {
    /// The tool by which an agent hands work on.
    #[must_use]
    pub const fn tool(&self) -> ToolName {
        match self.form {
            ToolFlavor::DelegateTask => TOOL,
            ToolFlavor::Task => TASK,
        }
    }

    /// Returns what the operator calls a setting; empty if that is not known.
    pub(crate) fn setting_name(&self, field: &str) -> &str {
        self.setting_names.get(field).map_or("", String::as_str)
    }

    /// Returns the name of a setting in parentheses, after a space; empty if it has none.
    pub(crate) fn setting_note(&self, field: &str) -> String {
        match self.setting_name(field) {
            "" => String::new(),
            name => format!(" ({name})"),
        }
    }

    /// Whether children are runs of another program.
    pub(crate) fn is_external(&self) -> bool {
        !self.external_needs.is_empty()
    }

    /// Whether children whose questions are answered so go without the tools that need an
    /// approval: nobody would give it. External programs bring tools of their own.
    pub(crate) fn withholds_any(&self, approver: ApproverMode) -> bool {
        let approves = match approver {
            ApproverMode::Deny => false,
            ApproverMode::Ask => self.person_available,
            ApproverMode::Auto => true,
        };
        !approves && !self.is_external() && !self.approval_effects.is_empty()
    }

    /// Whether they go without this tool.
    #[must_use]
    pub fn withholds(&self, entry: &CatalogEntry, approver: ApproverMode) -> bool {
        self.withholds_any(approver) && self.approval_effects.contains(&entry.tool.spec().effects)
    }

    /// How many children of one agent may run side by side.
    #[must_use]
    pub fn concurrency(&self) -> u32 {
        self.max_concurrent_children.max(1)
    }

    /// At which depth every agent is a leaf.
    #[must_use]
    pub fn leaf_depth(&self) -> u32 {
        self.max_spawn_depth.clamp(1, MAX_SPAWN_DEPTH_CEILING)
    }

    /// The limits of a child whose task asks for so many iterations, or says nothing of them.
    #[must_use]
    pub fn limits(&self, asked: Option<u32>) -> AgentLimits {
        let most = self.max_iterations.max(1);
        let seconds = match self.child_timeout_seconds {
            0 => 0,
            seconds => seconds.max(CHILD_TIMEOUT_FLOOR_SECONDS),
        };
        AgentLimits {
            max_iterations: asked.map_or(most, |asked| asked.clamp(1, most)),
            time_ms: u64::from(seconds) * 1000,
            wrap_up_ms: u64::from(self.wrap_up_seconds) * 1000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_floors_and_a_call_only_lowers_them() {
        let limits = |child_timeout_seconds, asked| {
            Policy { child_timeout_seconds, ..Policy::default() }.limits(asked)
        };
        assert_eq!(limits(0, None).time_ms, 0);
        assert_eq!(limits(1, None).time_ms, 30_000);
        assert_eq!(limits(31, None).time_ms, 31_000);
        assert_eq!(limits(0, Some(7)).max_iterations, 7);
        assert_eq!(limits(0, Some(51)).max_iterations, 50);
        let odd = Policy { max_spawn_depth: 9, max_concurrent_children: 0, ..Policy::default() };
        assert_eq!((odd.leaf_depth(), odd.concurrency()), (3, 1));
    }
}
