//! Plans the children of a call: pure, and the same for the same input.

use std::collections::BTreeSet;
use std::sync::Arc;

use deputize_core::agent::{AgentSpec, Role, SpawnedBy};
use deputize_core::profile::Profile;
use deputize_core::prompt::FillError;
use deputize_core::{CallId, ToolName, ToolsetName};

use crate::call_check::{list, model_refused, requested, too_free, whole_call};
use crate::call_error::{Refusal, bounded};
use crate::child_spec::{child_spec, profile_of};
use crate::config::DelegationConfig;
use crate::drop_reason::DropReason;
use crate::parent_view::ParentView;
use crate::parsed_call::{ParsedCall, RequestedTask};
use crate::profiles::ToolRequest;
use crate::toolset::{ChildTools, DroppedTool, child_tools};

/// The children that a call makes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DelegationPlan {
    /// One spec per task, in order.
    pub specs: Vec<Arc<AgentSpec>>,
    /// For each, the parent's tools that it does not have, and why.
    pub dropped: Vec<Arc<[DroppedTool]>>,
    /// For each, why it does not begin, if so: in a call that an earlier process accepted, what
    /// stands against a task now holds back those that had not begun.
    pub held: Vec<Option<String>>,
    /// The tasks whose children an earlier process of the session began.
    pub started_tasks: BTreeSet<u32>,
    /// Warnings beside the results.
    pub warnings: Vec<String>,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// The call is wrong; the model can act on it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A template of this crate and its values do not fit.
    #[error("the prompt of a child cannot be built")]
    Prompt(#[source] FillError),
}

/// Plans the children of a call, or returns all that is wrong with it.
///
/// # Errors
/// When the call is wrong in any way: then no child is made.
pub fn plan(
    reading: ParsedCall,
    call: CallId,
    parent: ParentView<'_>,
    config: &DelegationConfig,
) -> Result<DelegationPlan, PlanError> {
    let whole = whole_call(&reading, parent, config);
    let ParsedCall { count, tasks, background, started_tasks, mut errors, mut warnings } = reading;
    errors.extend(whole);
    let mut chosen: Vec<ChosenTools> = Vec::with_capacity(tasks.len());
    for task in &tasks {
        errors.extend(model_refused(task, parent, config));
        let toolsets = requested(task, parent, config);
        let is_known = toolsets.is_ok();
        let toolsets = toolsets.unwrap_or_else(|unknown| {
            errors.extend(unknown);
            None
        });
        // Most tasks of a call ask for the same.
        let same = chosen.last().filter(|last| last.is_for(task, toolsets.as_ref()));
        let next = same.cloned().unwrap_or_else(|| ChosenTools::of(task, toolsets, parent, config));
        if is_known {
            errors.extend(too_free(task, &next.tools, config));
        }
        chosen.push(next);
    }
    if !errors.is_empty() && (started_tasks.is_empty() || tasks.len() != count) {
        return Err(Refusal::new(errors, warnings).into());
    }
    let task_count = u32::try_from(count).unwrap_or(u32::MAX);
    let mut out = DelegationPlan::default();
    for ((task_index, task), chosen) in (0..).zip(tasks).zip(chosen) {
        let ChosenTools { tools, missed, .. } = chosen;
        let held = errors.iter().filter(|error| error.task_index.is_none_or(|it| it == task_index));
        let held: Vec<&str> = held.map(|error| error.remedy.as_str()).collect();
        let holds = !held.is_empty() && !started_tasks.contains(&task_index);
        out.held.push(holds.then(|| held.join("; ")));
        out.dropped.push(Arc::clone(&tools.dropped));
        let by = SpawnedBy { call, task_index, task_count };
        let spec = child_spec(task, &tools, by, parent, config).map_err(PlanError::Prompt)?;
        if !holds {
            warnings.extend(missed.iter().map(|missed| format!("task {task_index} {missed}")));
            warnings.extend(uncached_fork(task_index, &spec, parent.spec));
        }
        out.specs.push(Arc::new(AgentSpec { background, ..spec }));
    }
    warnings.extend(lost(parent));
    out.started_tasks = started_tasks;
    out.warnings = bounded(warnings);
    Ok(out)
}

/// The tools of a child, and what they follow from beside its parent.
#[derive(Clone)]
struct ChosenTools {
    toolsets: Option<Arc<BTreeSet<ToolsetName>>>,
    role: Role,
    profile: Option<String>,
    tools: Arc<ChildTools>,
    /// What was asked for and is not among them.
    missed: Arc<[String]>,
}

impl ChosenTools {
    fn of(
        task: &RequestedTask,
        toolsets: Option<BTreeSet<ToolsetName>>,
        parent: ParentView<'_>,
        config: &DelegationConfig,
    ) -> Self {
        let profile = profile_of(task, config);
        let request = ToolRequest { toolsets: toolsets.as_ref(), role: task.role, profile };
        let tools = Arc::new(child_tools(parent, request, config));
        let missed = missed_tools(toolsets.as_ref(), &tools, parent, config);
        let of_profile = if toolsets.is_none() { missed_of_profile(profile, &tools) } else { None };
        let missed: Vec<String> = missed.into_iter().chain(of_profile).collect();
        let toolsets = toolsets.map(Arc::new);
        Self {
            toolsets,
            role: task.role,
            profile: task.profile.clone(),
            tools,
            missed: missed.into(),
        }
    }

    /// Whether a task that asks for these toolsets has the same tools.
    fn is_for(&self, task: &RequestedTask, toolsets: Option<&BTreeSet<ToolsetName>>) -> bool {
        self.toolsets.as_deref() == toolsets
            && (self.role, &self.profile) == (task.role, &task.profile)
    }
}

/// Returns what a child was to have and does not, as a sentence about it without its subject; `None`
/// if it has what was asked.
fn missed_tools(
    requested: Option<&BTreeSet<ToolsetName>>,
    child: &ChildTools,
    parent: ParentView<'_>,
    config: &DelegationConfig,
) -> Option<String> {
    let own = parent.toolsets();
    let who = |toolset: &ToolsetName| {
        let later = config.toolsets.later.contains(toolset.as_str());
        if later { "this version" } else { "this agent" }
    };
    let mut lost: Vec<String> = requested
        .into_iter()
        .flatten()
        .filter(|toolset| !own.contains(*toolset))
        .map(|toolset| format!("toolset {toolset} ({} does not have it)", who(toolset)))
        .collect();
    // A leaf that cannot delegate has lost nothing, unless nothing else is left.
    let empty = child.tools.is_empty();
    let missed = |dropped: &&DroppedTool| match requested {
        Some(sets) => {
            let entry = parent.catalog.get(dropped.tool.as_str());
            let is_named = |set| entry.is_some_and(|it| parent.catalog.includes(set, it));
            sets.iter().any(is_named) && (empty || !matches!(dropped.reason, DropReason::Leaf(_)))
        }
        None => empty,
    };
    let tools = child.dropped.iter().filter(missed);
    lost.extend(tools.map(|dropped| format!("{} ({})", dropped.tool, dropped.reason)));
    if let Some(why) = &child.demoted {
        lost.push(format!("role orchestrator ({why})"));
    }
    if empty {
        let why = if lost.is_empty() { String::new() } else { format!(": {}", list(&lost)) };
        return Some(format!("runs without any tool{why}"));
    }
    (!lost.is_empty()).then(|| format!("got less than it asked for: {}", list(&lost)))
}

/// Returns what a child lacks that its profile names, as a sentence about it without its subject:
/// tools that run commands, without somebody who approves.
fn missed_of_profile(profile: Option<&Profile>, child: &ChildTools) -> Option<String> {
    let profile = profile.filter(|it| it.tools.toolsets.is_some() && !child.tools.is_empty())?;
    let lost = child.unapproved();
    let lost: Vec<&str> = lost.iter().map(ToolName::as_str).collect();
    (!lost.is_empty()).then(|| {
        let (name, why) = (&profile.name, DropReason::Unapproved);
        format!("got less than its profile `{name}` names: {} ({why})", list(&lost))
    })
}

/// Returns what a fork with another model or effort than its parent loses.
fn uncached_fork(index: u32, child: &AgentSpec, parent: &AgentSpec) -> Option<String> {
    let effort = child.options.reasoning_effort.as_ref();
    let other = if child.model != parent.model {
        format!("model, `{}`", child.model)
    } else {
        let other = effort.filter(|_| effort != parent.options.reasoning_effort.as_ref());
        format!("effort, `{}`", other?)
    };
    child.is_fork.then(|| {
        format!(
            "task {index} begins with your conversation and another {other}: no cache serves what \
             it begins with"
        )
    })
}

/// Names in one sentence the tools that no child gets although its parent has them.
fn lost(parent: ParentView<'_>) -> Option<String> {
    let lost: Vec<&str> = parent.lost().map(ToolName::as_str).collect();
    (!lost.is_empty()).then(|| {
        let s = if lost.len() == 1 { "" } else { "s" };
        format!(
            "no child has the tool{s} {}: changed since this agent began, or not there any more",
            list(&lost)
        )
    })
}

#[cfg(test)]
mod tests;
