//! Finds what is wrong with a call and its tasks, and says what to do about it. Pure.

use std::collections::BTreeSet;
use std::fmt;

use deputize_core::ToolsetName;
use deputize_core::authority::ApproverMode;
use deputize_core::sanitize::for_terminal_line;
use serde_json::{Value, json};

use crate::call_error::{CallError, CallErrorCode, Refusal};
use crate::config::{DelegationConfig, OverLimit};
use crate::drop_reason::DropReason;
use crate::parent_view::ParentView;
use crate::parsed_call::{ParsedCall, RequestedTask};
use crate::toolset::{ChildTools, DroppedTool, offered};

/// Limit on the names in a sentence; the rest are counted.
const LISTED: usize = 20;
/// Limit on an invalid name in an error, in characters.
const NAME_CHARS: usize = 80;
/// Limit on the tasks of a call; its result has room for that many entries.
pub(crate) const MOST_TASKS: usize = 2000;

/// Checks the call as a whole.
pub(crate) fn whole_call(
    reading: &ParsedCall,
    parent: ParentView<'_>,
    config: &DelegationConfig,
) -> Vec<CallError> {
    let count = reading.count;
    let (field, value) = reading.asks(config.options.tool_name);
    let mut errors = Vec::new();
    errors.extend(
        childless(parent, config)
            .map(|remedy| CallError::new(CallErrorCode::Depth, None, field, &value, remedy)),
    );
    let most = config.concurrency();
    let accepted = !reading.started_tasks.is_empty();
    if config.limits.over_limit == OverLimit::Refuse && count > most as usize && !accepted {
        let remedy = format!(
            "`tasks` has {count} entries, and at most {most} may run at once{}: send fewer \
             tasks, send several calls one after the other, or have the person raise that",
            config.setting_note("max_concurrent_children"),
        );
        errors.push(CallError::new(
            CallErrorCode::TooManyTasks,
            None,
            "tasks",
            &json!(count),
            remedy,
        ));
    }
    if count > MOST_TASKS {
        let remedy = format!(
            "`tasks` has {count} entries, and the result of one call has room for {MOST_TASKS}, \
             whatever the settings: make several calls"
        );
        errors.push(CallError::new(
            CallErrorCode::TooManyTasks,
            None,
            "tasks",
            &json!(count),
            remedy,
        ));
    }
    errors.extend(
        unapproved(parent, config)
            .map(|remedy| CallError::new(CallErrorCode::External, None, field, &value, remedy)),
    );
    let model = config.models.model.as_ref().filter(|model| !parent.authority.may_use_model(model));
    if let Some(model) = model {
        let remedy = format!(
            "children are configured to use the model `{model}`{}, which this agent may not use; do \
             the work yourself and tell the person",
            config.setting_note("model"),
        );
        errors.push(CallError::new(CallErrorCode::Model, None, "", &json!(model), remedy));
    }
    errors
}

/// Why an agent may have no children, if it may not: by its depth, or because it is a leaf.
fn childless(parent: ParentView<'_>, config: &DelegationConfig) -> Option<String> {
    let depth = parent.spec.depth;
    let limit = config.leaf_depth();
    let named = |key: &str, value: &dyn fmt::Display| match key {
        "" => String::new(),
        key => format!(" ({key} is {value})"),
    };
    if depth >= limit {
        let key = named(config.setting_name("max_spawn_depth"), &limit);
        return Some(format!(
            "this agent is at depth {depth}, and agents at depth {limit} cannot delegate{key}; \
             do the work yourself"
        ));
    }
    (parent.authority.spawn_depth() == 0).then(|| {
        let why = if config.options.orchestrator_enabled {
            let key = named(config.setting_name("max_spawn_depth"), &limit);
            format!("was started as a leaf; agents above depth {limit} may delegate{key}, leaves may not")
        } else {
            let key = named(config.setting_name("orchestrator_enabled"), &false);
            format!("is a child, and no child may delegate{key}")
        };
        format!("this agent, at depth {depth}, {why}; do the work yourself")
    })
}

/// Returns the refusal of any call that delegates, if the agent is a child that may have no children.
pub(crate) fn childless_refusal(
    parent: ParentView<'_>,
    config: &DelegationConfig,
) -> Option<Refusal> {
    let remedy = childless(parent, config).filter(|_| parent.spec.depth > 0)?;
    let error = CallError::new(CallErrorCode::Depth, None, "", &Value::Null, remedy);
    Some(Refusal::new(vec![error], Vec::new()))
}

/// An error when a task's model is not one that this agent may use.
pub(crate) fn model_refused(
    task: &RequestedTask,
    parent: ParentView<'_>,
    config: &DelegationConfig,
) -> Option<CallError> {
    let model = task.model.as_ref().filter(|model| !parent.authority.may_use_model(model))?;
    let name = match config.setting_name("models") {
        "" => "the list of models",
        name => name,
    };
    let remedy = format!(
        "`model`: this agent may not use `{model}`, though {name} has it; leave `model` out"
    );
    Some(CallError::new(CallErrorCode::Model, task.index, "model", &json!(model), remedy))
}

/// Why no child may be an external program, which asks nobody before it acts, where nobody may
/// approve anything.
fn unapproved(parent: ParentView<'_>, config: &DelegationConfig) -> Option<String> {
    if !config.is_external() || parent.child_approver(config) != ApproverMode::Deny {
        return None;
    }
    let why = "children are external programs here, which act on their own with all the rights of \
               the person, and nobody approves what children of this agent want: do the work yourself";
    Some(why.to_owned())
}

/// An error when a child would be an external program, which may do all that a command may, and is
/// not due the tools for that.
pub(crate) fn too_free(
    task: &RequestedTask,
    child: &ChildTools,
    config: &DelegationConfig,
) -> Option<CallError> {
    let missing = config.host.external_needs.iter().find(|tool| !child.tools.contains(tool))?;
    let dropped = child.dropped.iter().find(|dropped| dropped.tool == *missing);
    let why = match dropped {
        Some(dropped) => dropped.reason.to_string(),
        None => "this agent does not have it".to_owned(),
    };
    let instead = match dropped {
        Some(DroppedTool { toolset, reason: DropReason::NotRequested, .. }) => {
            format!("name the toolset `{toolset}` too, leave `toolsets` out, or ")
        }
        _ => String::new(),
    };
    let remedy = format!(
        "children are external programs here{}, which may do all that a command may; this child \
         may not have `{missing}` ({why}): {instead}do the work yourself",
        config.setting_note("external_needs"),
    );
    let value = json!(task.toolsets);
    Some(CallError::new(CallErrorCode::External, task.index, "toolsets", &value, remedy))
}

/// The toolsets that a task names, those of a later version included, or an error for each that
/// exists nowhere.
pub(crate) fn requested(
    task: &RequestedTask,
    parent: ParentView<'_>,
    config: &DelegationConfig,
) -> Result<Option<BTreeSet<ToolsetName>>, Vec<CallError>> {
    let Some(names) = &task.toolsets else { return Ok(None) };
    // A set that the parent was given is one, also where nothing is left of it.
    let mut known = parent.catalog.toolsets();
    known.extend(parent.catalog.composites().cloned());
    known.extend(parent.spec.toolsets.iter().cloned());
    let mut found = BTreeSet::new();
    let mut errors = Vec::new();
    for name in names {
        let later = || {
            let later = config.toolsets.later.contains(name);
            later.then(|| ToolsetName::new(name.as_str()).ok()).flatten()
        };
        match known.get(name.as_str()).cloned().or_else(later) {
            Some(toolset) => _ = found.insert(toolset),
            None => errors.push(unknown_toolset(name, task, parent, config)),
        }
    }
    if errors.is_empty() { Ok(Some(found)) } else { Err(errors) }
}

fn unknown_toolset(
    name: &str,
    task: &RequestedTask,
    parent: ParentView<'_>,
    config: &DelegationConfig,
) -> CallError {
    let own: Vec<&str> = offered(parent, config).into_keys().collect();
    let shown = for_terminal_line(name, NAME_CHARS);
    let hint = match parent.catalog.get(name) {
        Some(entry) => format!("`{shown}` is a tool of the toolset `{}`", entry.toolset),
        None => format!("there is no toolset `{shown}`"),
    };
    let available = if own.is_empty() {
        "you have none to give: leave `toolsets` out".to_owned()
    } else {
        format!("name some of {}, or leave `toolsets` out", list(&own))
    };
    let settings = ["toolsets", "toolset_ceiling"].map(|field| config.setting_name(field));
    let settings: Vec<&str> = settings.into_iter().filter(|name| !name.is_empty()).collect();
    let note = match settings.as_slice() {
        [] => String::new(),
        [setting] => format!(" ({setting} decides)"),
        settings => format!(" ({} decide)", settings.join(" and ")),
    };
    let remedy = format!("{hint}: {available}{note}");
    let value = Value::String(name.to_owned());
    CallError::new(CallErrorCode::Toolset, task.index, "toolsets", &value, remedy)
}

/// The first names with commas, and how many more there are.
pub(crate) fn list<T: AsRef<str>>(names: &[T]) -> String {
    let shown: Vec<&str> = names.iter().take(LISTED).map(AsRef::as_ref).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
