//! The settings of delegation, from the configuration.

use std::collections::BTreeSet;
use std::sync::Arc;

use deputize_core::ToolsetName;
use deputize_delegate::{OverLimit, Policy, PromptLayout};

use super::approver_mode;
use crate::config::{self, Config};

pub(super) fn policy(
    config: &Config,
    child_base: Vec<Arc<str>>,
    warnings: &mut Vec<String>,
) -> Policy {
    let set = &config.delegation;
    let mut names = |names: &[String], key: &str| -> BTreeSet<ToolsetName> {
        let mut kept = BTreeSet::new();
        for name in names {
            match ToolsetName::new(name.as_str()) {
                Ok(name) => {
                    kept.insert(name);
                }
                Err(error) => warnings.push(format!("{key}: {error}")),
            }
        }
        kept
    };
    let default_toolsets = names(&set.default_toolsets, "delegation.default_toolsets");
    let ceiling = set.toolset_ceiling.as_ref();
    let toolset_ceiling = ceiling.map(|list| names(list, "delegation.toolset_ceiling"));
    Policy {
        max_iterations: set.max_iterations,
        child_timeout_seconds: set.child_timeout_seconds,
        wrap_up_seconds: set.wrap_up_seconds,
        max_concurrent_children: set.max_concurrent_children,
        max_spawn_depth: u32::from(set.max_spawn_depth),
        orchestrator_enabled: set.orchestrator_enabled,
        approvals: approver_mode(set.child_approvals()),
        max_summary_bytes: set.max_summary_bytes,
        prompt_layout: match set.prompt_layout {
            config::PromptLayout::Classic => PromptLayout::Classic,
            config::PromptLayout::CacheFirst => PromptLayout::CacheFirst,
        },
        default_toolsets,
        toolset_ceiling,
        inherit_mcp_toolsets: set.inherit_mcp_toolsets,
        over_limit: match set.over_limit {
            config::OverLimit::Refuse => OverLimit::Refuse,
            config::OverLimit::Queue => OverLimit::Queue,
        },
        max_children_per_session: set.max_children_per_session,
        model: Some(set.model.clone()).filter(|model| !model.is_empty()),
        child_base,
    }
}
