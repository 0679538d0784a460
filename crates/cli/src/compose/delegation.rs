//! The settings of delegation, from the configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use deputize_agent::EffectPolicy;
use deputize_core::setting_names::SettingNames;
use deputize_core::{SessionId, ToolsetName};
use deputize_delegate::{
    ChildApprovals, ChildModels, ChildToolsets, DelegationConfig, DelegationHost,
    DelegationOptions, ToolFlavor,
};

use super::{AssemblyInput, PromptEnvironment};
use crate::config::{Config, OPTIONAL_TOOLSETS, child_model_name};

pub(super) fn policy(
    from: &AssemblyInput<'_>,
    found: &PromptEnvironment,
    child_base: Vec<Arc<str>>,
    warnings: &mut Vec<String>,
) -> DelegationConfig {
    let set = &from.config.delegation;
    let unreachable_models = found.unreachable_models.clone();
    let is_reachable = |name: &&String| !unreachable_models.contains_key(*name);
    let models = set.models.iter().filter(is_reachable).cloned().collect();
    let by_profile = set.profile_models.iter().filter(|(_, model)| is_reachable(model));
    let by_profile = by_profile.map(|(name, model)| (name.clone(), model.clone())).collect();
    let mut names = |list: &[String], key: &str| toolset_names(list, key, warnings);
    let default_toolsets = names(&set.default_toolsets, "delegation.default_toolsets");
    let ceiling = set.toolset_ceiling.as_ref();
    let toolset_ceiling = ceiling.map(|list| names(list, "delegation.toolset_ceiling"));
    DelegationConfig {
        limits: set.limits,
        options: DelegationOptions {
            background: set.options.background && set.options.tool_name == ToolFlavor::DelegateTask,
            ..set.options
        },
        toolsets: ChildToolsets {
            default: default_toolsets,
            ceiling: toolset_ceiling,
            later: OPTIONAL_TOOLSETS.iter().map(|name| (*name).to_owned()).collect(),
        },
        models: ChildModels {
            model: child_model_name(from.config),
            choices: models,
            by_profile,
            unreachable: unreachable_models,
            reasoning_effort: set.reasoning_effort.word(),
            max_output_tokens: Some(set.max_output_tokens).filter(|tokens| *tokens > 0),
            context_windows: context_windows(from.config),
        },
        profiles: found.profiles.clone(),
        faulty_profiles: found.faulty_profiles.clone(),
        approvals: ChildApprovals {
            mode: set.child_approvals(),
            effects: EffectPolicy::approval_effects(),
            person_available: found.person_available,
        },
        host: DelegationHost {
            setting_names: setting_names(),
            transcript_command: "deputize sessions show {session} --agent {agent}".to_owned(),
            external_needs: Vec::new(),
            workspace: found.workspace.clone(),
            logs: logs(from),
            child_base,
            child_base_sources: found.prompt.child_sources(set.context_files),
            guidance: found.prompt.guidance.clone(),
        },
    }
}

/// Returns what the configuration calls the settings that refusals and warnings name.
fn setting_names() -> SettingNames {
    let same = [
        "approvals",
        "background",
        "child_timeout_seconds",
        "default_toolsets",
        "max_children_per_session",
        "max_concurrent_children",
        "max_iterations",
        "max_spawn_depth",
        "model",
        "models",
        "orchestrator_enabled",
        "tool_name",
        "tool_schemas",
        "toolset_ceiling",
        "wrap_up_seconds",
    ];
    let others = [("children_time", "budget.seconds"), ("external_needs", "acp_command")];
    let all = same.into_iter().map(|name| (name, name)).chain(others);
    let all = all.map(|(field, key)| (field, format!("delegation.{key}")));
    let outside =
        [("prices", "providers.NAME.prices"), ("toolsets", "the configuration's `toolsets`")];
    all.chain(outside.map(|(field, key)| (field, key.to_owned()))).collect()
}

/// Reads the toolset names of a key. A name that cannot be one is left out, with a warning.
fn toolset_names(list: &[String], key: &str, warnings: &mut Vec<String>) -> BTreeSet<ToolsetName> {
    let mut names = BTreeSet::new();
    for name in list {
        match ToolsetName::new(name.as_str()) {
            Ok(name) => {
                names.insert(name);
            }
            Err(error) => warnings.push(format!("{key}: {error}")),
        }
    }
    names
}

/// Returns the configured context windows of models.
fn context_windows(config: &Config) -> BTreeMap<String, u32> {
    let known = config.providers.iter().filter(|(_, entry)| entry.context_window > 0);
    known.map(|(name, entry)| (name.clone(), entry.context_window)).collect()
}

/// The folder for the program's logs, beside that of the sessions.
fn logs(from: &AssemblyInput<'_>) -> Option<PathBuf> {
    let sessions = from.environment.sessions().ok()?;
    let one = sessions.spill(&SessionId::literal("any"));
    Some(one.parent()?.parent()?.join("logs"))
}
