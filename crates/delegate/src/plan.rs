//! Plans the children of a call: pure, and the same for the same input.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use deputize_core::agent::{AgentSpec, Role, SpawnedBy};
use deputize_core::authority::{ApproverMode, Grant};
use deputize_core::model::ModelOptions;
use deputize_core::profile::Profile;
use deputize_core::prompt::FillError;
use deputize_core::sanitize::for_terminal_line;
use deputize_core::tool::ToolGuidance;
use deputize_core::{CallId, ToolDecl, ToolName, ToolsetName};
use serde_json::{Value, json};

use crate::call_error::{CallError, CallErrorCode, Refusal, bounded};
use crate::config::{DelegationConfig, OverLimit, ToolSchemas};
use crate::parsed_call::{ParsedCall, RequestedTask};
use crate::profiles::ToolRequest;
use crate::prompt::{ChildPrompt, Nesting, child_prompt};
use crate::toolset::{ChildTools, DropReason, DroppedTool, ParentView, child_tools, offered};

/// Limit on the names in a sentence; the rest are counted.
const LISTED: usize = 20;
/// Limit on an invalid name in an error, in characters.
const NAME_CHARS: usize = 80;
/// Limit on the tasks of a call; its result has room for that many entries.
pub(crate) const MOST_TASKS: usize = 2000;

/// The children that a call makes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DelegationPlan {
    /// One spec per task, in order.
    pub specs: Vec<AgentSpec>,
    /// For each, the parent's tools that it does not have, and why.
    pub dropped: Vec<Vec<DroppedTool>>,
    /// For each, why it does not begin, if so: in a call that an earlier process accepted, what
    /// stands against a task now holds back those that had not begun.
    pub held: Vec<Option<String>>,
    /// The tasks whose children an earlier process of the session began.
    pub begun: BTreeSet<u32>,
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
    let ParsedCall { count, tasks, background, begun, mut errors, mut warnings } = reading;
    errors.extend(whole);
    let mut chosen = Vec::with_capacity(tasks.len());
    for task in &tasks {
        errors.extend(model_refused(task, parent, config));
        match requested(task, parent, config) {
            Ok(request) => {
                let tools =
                    child_tools(parent, tool_request(request.as_ref(), task, config), config);
                errors.extend(too_free(task, &tools, config));
                chosen.push((request, tools));
            }
            Err(unknown) => {
                errors.extend(unknown);
                chosen.push((None, child_tools(parent, tool_request(None, task, config), config)));
            }
        }
    }
    if !errors.is_empty() && (begun.is_empty() || tasks.len() != count) {
        return Err(Refusal::new(errors, warnings).into());
    }
    let task_count = u32::try_from(count).unwrap_or(u32::MAX);
    let mut out = DelegationPlan::default();
    for ((task_index, task), (request, tools)) in (0..).zip(tasks).zip(chosen) {
        let held = errors.iter().filter(|error| error.task_index.is_none_or(|it| it == task_index));
        let held: Vec<&str> = held.map(|error| error.remedy.as_str()).collect();
        let holds = !held.is_empty() && !begun.contains(&task_index);
        out.held.push(holds.then(|| held.join("; ")));
        if !holds {
            let request = request.as_ref();
            warnings.extend(fewer_than_asked(task_index, request, &tools, parent, config));
            warnings.extend(uncached_fork(task_index, &task, parent, config));
        }
        out.dropped.push(tools.dropped.clone());
        let by = SpawnedBy { call, task_index, task_count };
        let spec = spec(task, tools, by, parent, config).map_err(PlanError::Prompt)?;
        out.specs.push(AgentSpec { background, ..spec });
    }
    warnings.extend(lost(parent));
    out.begun = begun;
    out.warnings = bounded(warnings);
    Ok(out)
}

/// Returns what a task asks of its parent's tools.
fn tool_request<'a>(
    toolsets: Option<&'a BTreeSet<ToolsetName>>,
    task: &RequestedTask,
    config: &'a DelegationConfig,
) -> ToolRequest<'a> {
    ToolRequest { toolsets, role: task.role, profile: profile_of(task, config) }
}

fn profile_of<'a>(task: &RequestedTask, config: &'a DelegationConfig) -> Option<&'a Profile> {
    config.profile(task.profile.as_deref()?)
}

/// Checks the call as a whole.
fn whole_call(
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
    let accepted = !reading.begun.is_empty();
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
fn model_refused(
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
fn too_free(
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
fn requested(
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

/// Returns what a child was to have and does not, in one sentence; `None` if it has what was asked.
fn fewer_than_asked(
    index: u32,
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
        return Some(format!("task {index} runs without any tool{why}"));
    }
    (!lost.is_empty()).then(|| format!("task {index} got less than it asked for: {}", list(&lost)))
}

/// Returns what a fork with another model than its parent loses.
fn uncached_fork(
    index: u32,
    task: &RequestedTask,
    parent: ParentView<'_>,
    config: &DelegationConfig,
) -> Option<String> {
    let model = task.model.as_ref().or(config.models.model.as_ref())?;
    (task.is_fork && *model != parent.spec.model).then(|| {
        format!(
            "task {index} begins with your conversation and another model, `{model}`: no cache \
             serves what it begins with"
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

/// The first names with commas, and how many more there are.
fn list<T: AsRef<str>>(names: &[T]) -> String {
    let shown: Vec<&str> = names.iter().take(LISTED).map(AsRef::as_ref).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn spec(
    task: RequestedTask,
    child: ChildTools,
    by: SpawnedBy,
    parent: ParentView<'_>,
    config: &DelegationConfig,
) -> Result<AgentSpec, FillError> {
    let depth = parent.spec.depth + 1;
    let FirstRequest { system, first, declared } = first_request(&task, &child, parent, config)?;
    let options = options(profile_of(&task, config), parent, config);
    let own = task.model.or_else(|| config.models.model.clone());
    let lacks = declared.is_some().then(|| lacks(&child, parent));
    let spec = AgentSpec {
        id: parent.spec.id.child(by.call, by.task_index),
        parent: Some(parent.spec.id.clone()),
        depth,
        role: child.role,
        grant: grant(&child, by.task_count, parent, config),
        spawned_by: Some(by),
        task: first,
        goal: task.goal,
        images: Vec::new(),
        model_pinned: own.is_some() || parent.spec.model_pinned,
        model: own.unwrap_or_else(|| parent.spec.model.clone()),
        options,
        system,
        prefill: parent.spec.prefill.clone(),
        is_fork: task.is_fork,
        toolsets: child.toolsets,
        tools: child.tools,
        approver: parent.child_approver(config),
        limits: config.limits(task.max_iterations),
        cwd: cwd(parent, config).to_owned(),
        profile: task.profile,
        context: task.context,
        output_schema: None,
        background: false,
        unapproved: lacks.unwrap_or_default(),
        declared,
    };
    Ok(match task.output_schema {
        Some(schema) => spec.answering(schema),
        None => spec,
    })
}

/// Returns the tools in a child's list that it may not call only because nobody approves their
/// calls. Where its parent's list stays, those of its parent are among them.
fn lacks(child: &ChildTools, parent: ParentView<'_>) -> Vec<ToolName> {
    let mut lacks = child.unapproved();
    for tool in &parent.spec.unapproved {
        if !lacks.contains(tool) {
            lacks.push(tool.clone());
        }
    }
    lacks
}

/// Returns the options of a child's model.
fn options(
    profile: Option<&Profile>,
    parent: ParentView<'_>,
    config: &DelegationConfig,
) -> ModelOptions {
    let own = &parent.spec.options;
    let of_profile = profile.and_then(|profile| profile.reasoning_effort.as_ref());
    let efforts = [of_profile, config.models.reasoning_effort.as_ref()];
    let effort = efforts.into_iter().flatten().next().or(own.reasoning_effort.as_ref());
    ModelOptions {
        reasoning_effort: effort.cloned(),
        max_output_tokens: config.models.max_output_tokens.or(own.max_output_tokens),
    }
}

/// Where a child works: where the operator says, where its parent's shell is, or where its parent
/// works; the first of them where it may be.
fn cwd<'a>(parent: ParentView<'a>, config: &'a DelegationConfig) -> &'a Path {
    let authority = parent.authority;
    // Nothing bounds an external program: what it works in is what it may change.
    let changes = config.is_external();
    let allowed = |cwd: &&Path| {
        let may = authority.may_read(cwd) && (!changes || authority.may_write(cwd));
        cwd.is_absolute() && may
    };
    let places = [config.host.workspace.as_deref(), parent.shell];
    places.into_iter().flatten().find(allowed).unwrap_or(&parent.spec.cwd)
}

/// The first request of a child.
struct FirstRequest {
    system: Vec<Arc<str>>,
    first: String,
    declared: Option<Arc<[Arc<ToolDecl>]>>,
}

/// The text that all children share, and then the child's own: as system text, or, where a
/// provider has tools and system text of the parent already, in the first message.
fn first_request(
    task: &RequestedTask,
    child: &ChildTools,
    parent: ParentView<'_>,
    config: &DelegationConfig,
) -> Result<FirstRequest, FillError> {
    let preserves = config.options.tool_schemas == ToolSchemas::CachePreserving;
    let fewer = parent.declared.iter().any(|tool| !child.tools.contains(&tool.name));
    let denied = lacks(child, parent);
    let prompt = child_prompt(&ChildPrompt {
        goal: &task.goal,
        context: task.context.as_deref(),
        profile: profile_of(task, config),
        workspace: Some(cwd(parent, config)).filter(|cwd| cwd.is_absolute()),
        only: Some(child.tools.as_slice()).filter(|_| preserves && fewer),
        denied: &denied,
        nesting: (child.role == Role::Orchestrator)
            .then(|| Nesting { depth: parent.spec.depth + 1, leaf_depth: config.leaf_depth() }),
        layout: config.options.prompt_layout,
    })?;
    let prompt = prompt.render().into_blocks();
    let goal = Arc::from(task.goal.as_str());
    let has_tool = |text: &&ToolGuidance| child.tools.contains(&text.tool);
    let guidance = config.host.guidance.iter().filter(has_tool).map(|text| Arc::clone(&text.text));
    let base = config.host.child_base.iter().cloned().chain(guidance);
    if preserves {
        let system = parent.spec.system.clone();
        let declared = Some(parent.declared.into());
        let first: Vec<Arc<str>> = base.chain(prompt).chain([goal]).collect();
        return Ok(FirstRequest { system, first: first.join("\n\n"), declared });
    }
    if fewer || child.role == Role::Leaf {
        let system = base.chain(prompt).collect();
        return Ok(FirstRequest { system, first: task.goal.clone(), declared: None });
    }
    let first: Vec<Arc<str>> = prompt.into_iter().chain([goal]).collect();
    Ok(FirstRequest { system: base.collect(), first: first.join("\n\n"), declared: None })
}

/// Returns the grant that a child requests from its parent's authority: the same paths and network,
/// its own tools, one level less, and fewer children.
fn grant(
    child: &ChildTools,
    siblings: u32,
    parent: ParentView<'_>,
    config: &DelegationConfig,
) -> Grant {
    let authority = parent.authority;
    let (spawn_depth, spawn_number) = match child.role {
        Role::Leaf => (0, 0),
        Role::Orchestrator => (
            authority
                .spawn_depth()
                .min(config.leaf_depth().saturating_sub(parent.spec.depth))
                .saturating_sub(1),
            authority.spawn_number().saturating_sub(siblings),
        ),
    };
    Grant {
        tools: Some(child.tools.iter().cloned().collect()),
        approver: Some(parent.child_approver(config)),
        spawn_depth: Some(spawn_depth),
        spawn_number: Some(spawn_number),
        ..Grant::default()
    }
}

#[cfg(test)]
mod tests;
