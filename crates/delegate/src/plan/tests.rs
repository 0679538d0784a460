use std::path::Path;
use std::sync::Arc;

use deputize_core::ToolDecl;
use deputize_core::agent::Role;
use deputize_core::authority::{ApproverMode, Grant};
use deputize_core::source::Source;
use serde_json::{Value, json};

use super::*;
use crate::args::read;
use crate::call_error::{CallError, CallErrorCode};
use crate::config::{
    ChildApprovals, ChildModels, ChildToolsets, DelegationHost, DelegationLimits,
    DelegationOptions, OverLimit, PromptLayout, ToolFlavor, ToolSchemas,
};
use crate::fixture::{ParentFixture, tool_name, toolsets};

mod external;
mod laws;
mod profiles;
mod strategies;

const TOOLS: &str = "file/read_file file/write_file web/web_fetch mcp-git/git_log core/todo \
    delegation/delegate_task - chat/say";
const CALL: CallId = CallId::new(4, 1);

/// The only function here that knows the signature under test.
fn made(
    family: &ParentFixture,
    arguments: &Value,
    config: &DelegationConfig,
) -> Result<DelegationPlan, PlanError> {
    plan(read(arguments, config), CALL, family.parent(), config)
}

fn refused(family: &ParentFixture, arguments: &Value, config: &DelegationConfig) -> String {
    let Err(PlanError::Refused(refusal)) = made(family, arguments, config) else {
        panic!("{arguments} should be refused");
    };
    let value: Value = serde_json::from_str(&refusal.to_json()).unwrap();
    serde_json::to_string_pretty(&value).unwrap()
}

#[test]
fn a_child_is_made_whole() {
    let config = DelegationConfig {
        models: ChildModels { model: Some("local/small".to_owned()), ..ChildModels::default() },
        approvals: ChildApprovals { mode: ApproverMode::Auto, ..ChildApprovals::default() },
        limits: DelegationLimits { max_spawn_depth: 2, ..DelegationLimits::default() },
        host: DelegationHost {
            child_base: vec!["You are an agent.".into()],
            ..DelegationHost::default()
        },
        ..DelegationConfig::default()
    };
    let arguments = json!({
        "role": "orchestrator",
        "tasks": [
            {"goal": "Find the bug.", "context": "In a.rs.", "max_iterations": 7},
            {"goal": "Read the news.", "role": "leaf", "toolsets": ["web"]},
        ],
    });
    let plan = made(&ParentFixture::new(TOOLS), &arguments, &config).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&plan.specs).unwrap());
    assert_eq!(plan.warnings, [] as [&str; 0]);
}

#[test]
fn siblings_have_the_base_byte_for_byte_and_more_when_the_cache_comes_first() {
    let config = DelegationConfig {
        options: DelegationOptions {
            prompt_layout: PromptLayout::CacheFirst,
            ..DelegationOptions::default()
        },
        host: DelegationHost {
            child_base: vec!["You are an agent.".into()],
            child_base_sources: [Source::project("AGENTS.md")].into(),
            ..DelegationHost::default()
        },
        ..DelegationConfig::default()
    };
    let arguments = json!({"tasks": [{"goal": "A"}, {"goal": "B", "context": "C"}]});
    let plan = made(&ParentFixture::new(TOOLS), &arguments, &config).unwrap();
    let [one, two] = plan.specs.as_slice() else { panic!() };
    assert_eq!(one.system[..2], two.system[..2]);
    assert_eq!(&*two.system[2], "YOUR TASK:\nB\n\nCONTEXT:\nC");
    assert_eq!(two.system_sources, [Source::project("AGENTS.md")].into());
    assert_eq!(two.task_sources, [].into());
}

#[test]
fn a_fork_with_another_model_or_effort_is_told_that_no_cache_serves_it() {
    let warnings = |effort: Option<&str>, model: Option<&str>| {
        let config = DelegationConfig {
            models: ChildModels {
                model: model.map(str::to_owned),
                reasoning_effort: effort.map(str::to_owned),
                ..ChildModels::default()
            },
            options: DelegationOptions {
                tool_schemas: ToolSchemas::CachePreserving,
                ..DelegationOptions::default()
            },
            ..DelegationConfig::default()
        };
        let mut family = ParentFixture::new(TOOLS);
        family.spec.options.reasoning_effort = Some("low".to_owned());
        let call = json!({"tasks": [{"goal": "A", "history": "fork"}, {"goal": "B"}]});
        made(&family, &call, &config).unwrap().warnings.join("\n")
    };
    assert_eq!(warnings(None, None), "");
    assert_eq!(warnings(Some("low"), None), "");
    let expected = "task 0 begins with your conversation and another";
    let loss = "no cache serves what it begins with";
    assert_eq!(warnings(Some("high"), None), format!("{expected} effort, `high`: {loss}"));
    let model = warnings(Some("high"), Some("local/small"));
    assert_eq!(model, format!("{expected} model, `local/small`: {loss}"));
}

#[test]
fn a_child_that_shares_its_parents_prefix_learns_of_itself_in_its_first_message() {
    let config = DelegationConfig {
        models: ChildModels {
            max_output_tokens: Some(77),
            reasoning_effort: Some("high".to_owned()),
            ..ChildModels::default()
        },
        options: DelegationOptions {
            tool_schemas: ToolSchemas::CachePreserving,
            ..DelegationOptions::default()
        },
        host: DelegationHost {
            child_base: vec!["Date: 2026-01-31".into()],
            child_base_sources: [Source::project("AGENTS.md")].into(),
            ..DelegationHost::default()
        },
        ..DelegationConfig::default()
    };
    let mut family = ParentFixture::new(TOOLS);
    family.spec.system = vec!["You are an agent.".into()];
    family.spec.system_sources = [Source::web("a.example")].into();
    let declared: Vec<Arc<ToolDecl>> =
        family.catalog.iter().map(|entry| Arc::new(entry.tool.spec().decl.clone())).collect();
    let arguments = json!({"goal": "A", "context": "C", "toolsets": ["web"],
        "output_schema": {"type": "object"}});
    let parent = ParentView { declared: &declared, ..family.parent() };
    let plan = plan(read(&arguments, &config), CALL, parent, &config).unwrap();
    let child = &plan.specs[0];
    assert_eq!(child.system, family.spec.system);
    assert_eq!(child.system_sources, family.spec.system_sources);
    assert_eq!(child.task_sources, [Source::host(), Source::project("AGENTS.md")].into());
    assert_eq!(child.declared.as_deref(), Some(declared.as_slice()));
    assert_eq!(child.options.max_output_tokens, Some(77));
    assert_eq!(child.options.reasoning_effort.as_deref(), Some("high"));
    insta::assert_snapshot!(child.task);
    // What cannot be used now is not among the tools that are sent, and so not promised.
    let fewer: Vec<Arc<ToolDecl>> =
        declared.iter().filter(|tool| tool.name.as_str() != "read_file").cloned().collect();
    let named = |declared: &[Arc<ToolDecl>]| {
        let parent = ParentView { declared, ..family.parent() };
        let arguments = json!({"goal": "A", "toolsets": ["file"]});
        super::plan(read(&arguments, &config), CALL, parent, &config).unwrap().specs[0]
            .task
            .contains("`read_file`")
    };
    assert_eq!((named(&declared), named(&fewer)), (true, false));
}

#[test]
fn the_form_with_one_text_gives_basic_tools_alone() {
    let config = DelegationConfig {
        limits: DelegationLimits { max_spawn_depth: 3, ..DelegationLimits::default() },
        options: DelegationOptions { tool_name: ToolFlavor::Task, ..DelegationOptions::default() },
        ..DelegationConfig::default()
    };
    let family = ParentFixture::new(
        "file/read_file file/other terminal/terminal web/web_fetch \
        mcp-git/git_log delegation/task",
    );
    let reading = crate::task::read_task(&json!({"description": "A"}));
    let plan = plan(reading, CALL, family.parent(), &config).unwrap();
    let tools: Vec<&str> = plan.specs[0].tools.iter().map(|tool| tool.as_str()).collect();
    assert_eq!(tools, ["read_file", "terminal"]);
    let dropped: Vec<String> =
        plan.dropped[0].iter().map(|it| format!("{}: {}", it.tool, it.reason)).collect();
    assert_eq!(
        dropped,
        [
            "git_log: `task` gives basic tools only",
            "other: `task` gives basic tools only",
            "web_fetch: `task` gives basic tools only",
            "task: a leaf cannot delegate",
        ]
    );
}

#[test]
fn a_configured_workspace_holds_where_the_agent_may_be_there() {
    let family = ParentFixture::new(TOOLS);
    let cwd = |workspace: &str| {
        let config = DelegationConfig {
            host: DelegationHost { workspace: Some(workspace.into()), ..DelegationHost::default() },
            ..DelegationConfig::default()
        };
        made(&family, &json!({"goal": "A"}), &config).unwrap().specs[0].clone()
    };
    let actual = cwd("/repo/app/web");
    assert_eq!(actual.cwd, Path::new("/repo/app/web"));
    assert!(actual.system.concat().contains("WORKSPACE PATH:\n/repo/app/web\n"));
    assert_eq!(cwd("web").cwd, Path::new("/repo/app"));
    // One that the agent may not read is passed over, however it is configured.
    let mut bounded = ParentFixture::new(TOOLS);
    let read = Some(BTreeSet::from(["/repo".into()]));
    bounded.authority = bounded.authority.intersect(&Grant { read, ..Grant::default() });
    let config = DelegationConfig {
        host: DelegationHost { workspace: Some("/srv".into()), ..DelegationHost::default() },
        ..DelegationConfig::default()
    };
    let plan = made(&bounded, &json!({"goal": "A"}), &config).unwrap();
    assert_eq!(plan.specs[0].cwd, Path::new("/repo/app"));
    assert_eq!(cwd("/srv").cwd, Path::new("/srv"), "where it may");
}

#[test]
fn a_child_thinks_as_hard_as_its_parent_unless_it_is_configured() {
    let mut family = ParentFixture::new(TOOLS);
    family.spec.options.reasoning_effort = Some("high".to_owned());
    let effort = |configured: Option<&str>| {
        let reasoning_effort = configured.map(str::to_owned);
        let config = DelegationConfig {
            models: ChildModels { reasoning_effort, ..ChildModels::default() },
            ..DelegationConfig::default()
        };
        let plan = made(&family, &json!({"goal": "A"}), &config).unwrap();
        plan.specs[0].options.reasoning_effort.clone()
    };
    assert_eq!(effort(None).as_deref(), Some("high"));
    assert_eq!(effort(Some("low")).as_deref(), Some("low"));
}

#[test]
fn whoever_gets_less_than_asked_learns_so() {
    let warnings = |arguments: Value, config: &DelegationConfig| {
        made(&ParentFixture::new(TOOLS), &arguments, config).unwrap().warnings.join("\n")
    };
    let flat = DelegationConfig::default();
    insta::assert_snapshot!(warnings(
        json!({"tasks": [
            {"goal": "A", "toolsets": ["chat", "web", "core"]},
            {"goal": "B", "role": "orchestrator"},
            {"goal": "C", "toolsets": ["chat"]},
        ]}),
        &DelegationConfig { options: DelegationOptions { inherit_mcp_toolsets: false, ..flat.options }, ..flat.clone() }
    ), @"
    task 0 got less than it asked for: toolset chat (this agent does not have it), todo (no child has it: the plan is the parent's)
    task 1 got less than it asked for: role orchestrator (a child at depth 1 is a leaf: the depth limit is 1)
    task 2 runs without any tool: toolset chat (this agent does not have it)
    ");
    let ceiling = DelegationConfig {
        toolsets: ChildToolsets { ceiling: Some(toolsets("web")), ..flat.toolsets },
        ..flat
    };
    insta::assert_snapshot!(warnings(json!({"goal": "A", "toolsets": ["file", "web"]}), &ceiling), @"task 0 got less than it asked for: read_file (not in the ceiling for children), write_file (not in the ceiling for children)");
    insta::assert_snapshot!(warnings(json!({"goal": "A", "toolsets": ["delegation"]}), &ceiling), @"task 0 runs without any tool: delegate_task (a leaf cannot delegate)");
    let nothing = DelegationConfig {
        toolsets: ChildToolsets { ceiling: Some(toolsets("")), ..ceiling.toolsets },
        ..ceiling
    };
    insta::assert_snapshot!(warnings(json!({"goal": "A"}), &nothing), @"task 0 runs without any tool: git_log (not in the ceiling for children), read_file (not in the ceiling for children), web_fetch (not in the ceiling for children), write_file (not in the ceiling for children), delegate_task (a leaf cannot delegate), todo (no child has it: the plan is the parent's)");
}

#[test]
fn all_that_is_wrong_with_a_call_is_one_object() {
    let mut family = ParentFixture::new(TOOLS);
    family.spec.depth = 1;
    let config = DelegationConfig {
        limits: DelegationLimits { max_concurrent_children: 2, ..DelegationLimits::default() },
        ..DelegationConfig::default()
    };
    let arguments = json!({"goal": "ignored", "tasks": [
        {"goal": "A", "toolsets": ["files", "read_file"]},
        {"goal": ""},
        {"goal": "C", "background": true},
    ]});
    insta::assert_snapshot!(refused(&family, &arguments, &config));
}

#[test]
fn one_mistake_is_said_in_the_first_line() {
    let family = ParentFixture::new(TOOLS);
    let tasks: Vec<Value> = (0..4).map(|n| json!({"goal": format!("Part {n}.")})).collect();
    let arguments = json!({"tasks": tasks});
    insta::assert_snapshot!(refused(&family, &arguments, &DelegationConfig::default()));
    let queue = DelegationConfig {
        limits: DelegationLimits { over_limit: OverLimit::Queue, ..DelegationLimits::default() },
        ..DelegationConfig::default()
    };
    assert_eq!(made(&family, &arguments, &queue).unwrap().specs.len(), 4);
}

#[test]
fn a_model_that_the_parent_may_not_use_is_refused_and_not_replaced() {
    let mut family = ParentFixture::new(TOOLS);
    let models = Some(BTreeSet::from(["local/qwen3".to_owned()]));
    family.authority = family.authority.intersect(&Grant { models, ..Grant::default() });
    let config = DelegationConfig {
        models: ChildModels { model: Some("cloud/large".to_owned()), ..ChildModels::default() },
        ..DelegationConfig::default()
    };
    let Err(PlanError::Refused(refusal)) = made(&family, &json!({"goal": "A"}), &config) else {
        panic!("should be refused");
    };
    assert_eq!(refusal.errors()[0].code, CallErrorCode::Model);
    // The same where a task names it, although the operator offers it.
    let config = DelegationConfig {
        models: ChildModels { choices: vec!["cloud/large".to_owned()], ..ChildModels::default() },
        ..DelegationConfig::default()
    };
    let arguments = json!({"tasks": [{"goal": "A"}, {"goal": "B", "model": "cloud/large"}]});
    let Err(PlanError::Refused(refusal)) = made(&family, &arguments, &config) else {
        panic!("should be refused");
    };
    let [error] = refusal.errors() else { panic!("{refusal}") };
    assert_eq!((error.code, error.task_index), (CallErrorCode::Model, Some(1)));
    let free = ParentFixture::new(TOOLS);
    assert_eq!(made(&free, &arguments, &config).unwrap().specs[1].model, "cloud/large");
}

#[test]
fn an_agent_without_authority_to_spawn_is_refused_whatever_its_depth_says() {
    let mut family = ParentFixture::new(TOOLS);
    family.authority =
        family.authority.intersect(&Grant { spawn_depth: Some(0), ..Grant::default() });
    let Err(PlanError::Refused(refusal)) =
        made(&family, &json!({"goal": "A"}), &DelegationConfig::default())
    else {
        panic!("should be refused");
    };
    assert_eq!(refusal.errors()[0].code, CallErrorCode::Depth);
}
