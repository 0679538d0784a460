//! Builds the spec of a child from its task: its first request, its grant, where it works. Pure.

use std::path::Path;
use std::sync::Arc;

use deputize_core::agent::{AgentSpec, Role, SpawnedBy};
use deputize_core::authority::Grant;
use deputize_core::model::ModelOptions;
use deputize_core::profile::Profile;
use deputize_core::prompt::FillError;
use deputize_core::source::Source;
use deputize_core::source_set::SourceSet;
use deputize_core::tool::ToolGuidance;
use deputize_core::{ToolDecl, ToolName};

use crate::config::{DelegationConfig, ToolSchemas};
use crate::parent_view::ParentView;
use crate::parsed_call::RequestedTask;
use crate::prompt::{ChildPrompt, Nesting, child_prompt};
use crate::toolset::ChildTools;

/// Returns the profile that a task names.
pub(crate) fn profile_of<'a>(
    task: &RequestedTask,
    config: &'a DelegationConfig,
) -> Option<&'a Profile> {
    config.profile(task.profile.as_deref()?)
}

/// Returns the spec of a child.
pub(crate) fn child_spec(
    task: RequestedTask,
    child: &ChildTools,
    by: SpawnedBy,
    parent: ParentView<'_>,
    config: &DelegationConfig,
) -> Result<AgentSpec, FillError> {
    let depth = parent.spec.depth + 1;
    let request = first_request(&task, child, parent, config)?;
    let options = options(profile_of(&task, config), parent, config);
    let own = task.model.or_else(|| config.models.model.clone());
    let lacks = request.declared.is_some().then(|| lacks(child, parent));
    let spec = AgentSpec {
        id: parent.spec.id.child(by.call, by.task_index),
        parent: Some(parent.spec.id.clone()),
        depth,
        role: child.role,
        grant: grant(child, by.task_count, parent, config),
        spawned_by: Some(by),
        task: request.first,
        task_sources: request.first_sources,
        goal: task.goal,
        images: Vec::new(),
        model_pinned: own.is_some() || parent.spec.model_pinned,
        model: own.unwrap_or_else(|| parent.spec.model.clone()),
        options,
        system: request.system,
        system_sources: request.system_sources,
        prefill: parent.spec.prefill.clone(),
        is_fork: task.is_fork,
        toolsets: child.toolsets.clone(),
        tools: child.tools.clone(),
        approver: parent.child_approver(config),
        limits: config.limits(task.max_iterations),
        cwd: cwd(parent, config).to_owned(),
        profile: task.profile,
        profile_max_iterations: None,
        context: task.context,
        output_schema: None,
        background: false,
        unapproved: lacks.unwrap_or_default(),
        declared: request.declared,
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
    system_sources: SourceSet,
    first: String,
    /// Beside the parent.
    first_sources: SourceSet,
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
    // The list that it is sent is its parent's, which has no tool that cannot be used now.
    let is_declared = |tool: &&ToolName| parent.declared.iter().any(|it| it.name == **tool);
    let only: Option<Vec<ToolName>> =
        (preserves && fewer).then(|| child.tools.iter().filter(is_declared).cloned().collect());
    let prompt = child_prompt(&ChildPrompt {
        goal: &task.goal,
        context: task.context.as_deref(),
        is_fork: task.is_fork,
        profile: profile_of(task, config),
        workspace: Some(cwd(parent, config)).filter(|cwd| cwd.is_absolute()),
        only: only.as_deref(),
        denied: &denied,
        nesting: (child.role == Role::Orchestrator)
            .then(|| Nesting { depth: parent.spec.depth + 1, leaf_depth: config.leaf_depth() }),
        layout: config.options.prompt_layout,
    })?;
    let prompt = prompt.render().into_blocks();
    let goal = Arc::from(task.goal.as_str());
    let has_tool = |text: &&ToolGuidance| child.tools.contains(&text.tool);
    let guidance: Vec<_> = config.host.guidance.iter().filter(has_tool).collect();
    let profile = profile_of(task, config).filter(|profile| profile.from_project);
    let own_sources = profile.map(|profile| Source::project(format!("agents/{}", profile.name)));
    let guidance_sources = guidance.iter().flat_map(|text| &text.sources);
    let base_sources = config.host.child_base_sources.iter().chain(guidance_sources).cloned();
    let guidance = guidance.iter().map(|text| Arc::clone(&text.text));
    let base = config.host.child_base.iter().cloned().chain(guidance);
    if preserves {
        let system = parent.spec.system.clone();
        let system_sources = parent.spec.system_sources.clone();
        let declared = Some(parent.declared.into());
        let first: Vec<Arc<str>> = base.chain(prompt).chain([goal]).collect();
        let first = first.join("\n\n");
        let first_sources = base_sources.chain(own_sources).chain([Source::host()]).collect();
        return Ok(FirstRequest { system, system_sources, first, first_sources, declared });
    }
    if fewer || child.role == Role::Leaf {
        let system = base.chain(prompt).collect();
        let system_sources = base_sources.chain(own_sources).collect();
        let (first, first_sources) = (task.goal.clone(), SourceSet::new());
        return Ok(FirstRequest { system, system_sources, first, first_sources, declared: None });
    }
    let first: Vec<Arc<str>> = prompt.into_iter().chain([goal]).collect();
    Ok(FirstRequest {
        system: base.collect(),
        system_sources: base_sources.collect(),
        first: first.join("\n\n"),
        first_sources: own_sources.into_iter().chain([Source::host()]).collect(),
        declared: None,
    })
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
