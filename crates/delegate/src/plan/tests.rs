use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use deputize_core::ToolDecl;
use deputize_core::agent::Role;
use deputize_core::authority::{ApproverMode, Grant};
use deputize_core::profile::Profile;
use deputize_core::source::Source;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::*;
use crate::args::read;
use crate::call_error::{CallError, CallErrorCode};
use crate::config::{
    ChildApprovals, ChildModels, ChildToolsets, DelegationHost, DelegationLimits,
    DelegationOptions, OverLimit, PromptLayout, ToolFlavor, ToolSchemas,
};
use crate::fixture::{ParentFixture, tool_name, toolsets};

mod profiles;

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
    let told = "task 0 begins with your conversation and another";
    let loss = "no cache serves what it begins with";
    assert_eq!(warnings(Some("high"), None), format!("{told} effort, `high`: {loss}"));
    let model = warnings(Some("high"), Some("local/small"));
    assert_eq!(model, format!("{told} model, `local/small`: {loss}"));
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
    let told = cwd("/repo/app/web");
    assert_eq!(told.cwd, Path::new("/repo/app/web"));
    assert!(told.system.concat().contains("WORKSPACE PATH:\n/repo/app/web\n"));
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

const NAMES: [&str; 13] = [
    "file/read_file",
    "file/write_file",
    "web/web_fetch",
    "mcp-git/git_log",
    "mcp-db/query",
    "core/todo",
    "core/clarify",
    "code/execute_code",
    "mixed/memory",
    "mixed/note",
    "delegation/delegate_task",
    "delegation/delegate_control",
    "delegation/workflow",
];
const SETS: [&str; 8] = ["file", "web", "mcp-git", "mcp-db", "core", "code", "mixed", "delegation"];

fn some_of(all: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    proptest::sample::subsequence(all, 0..=all.len())
}

/// The toolsets of these tools.
fn sets_of(own: &[&'static str]) -> Vec<&'static str> {
    SETS.into_iter()
        .filter(|set| own.iter().any(|tool| tool.starts_with(&format!("{set}/"))))
        .collect()
}

/// Some of all, mostly with this one among them.
fn mostly_with(
    all: &'static [&'static str],
    one: &'static str,
) -> impl Strategy<Value = Vec<&'static str>> {
    (some_of(all), proptest::bool::weighted(0.8)).prop_map(move |(mut some, with)| {
        if with && !some.contains(&one) {
            some.push(one);
        }
        some
    })
}

/// The tools of an agent that can mostly delegate.
fn agents() -> impl Strategy<Value = Vec<&'static str>> {
    mostly_with(&NAMES, "delegation/delegate_task")
}

/// Policies that mostly let children have children.
fn policies() -> impl Strategy<Value = DelegationConfig> {
    let ceiling = mostly_with(&SETS, "delegation").prop_map(|names| toolsets(&names.join(" ")));
    (
        some_of(&SETS),
        proptest::option::weighted(0.4, ceiling),
        any::<bool>(),
        proptest::bool::weighted(0.9),
        0..12_u32,
    )
        .prop_map(
            |(default, toolset_ceiling, inherit_mcp_toolsets, orchestrator_enabled, depth)| {
                DelegationConfig {
                    approvals: ChildApprovals {
                        mode: ApproverMode::Auto,
                        ..ChildApprovals::default()
                    },
                    limits: DelegationLimits {
                        max_spawn_depth: depth.min(4),
                        ..DelegationLimits::default()
                    },
                    options: DelegationOptions {
                        inherit_mcp_toolsets,
                        orchestrator_enabled,
                        ..DelegationOptions::default()
                    },
                    toolsets: ChildToolsets {
                        default: toolsets(&default.join(" ")),
                        ceiling: toolset_ceiling,
                        ..ChildToolsets::default()
                    },
                    ..DelegationConfig::default()
                }
            },
        )
}

/// A call of one to three tasks. They ask for toolsets that the parent has, because a call that
/// names another is refused; now and then for one that it may lack.
fn tasks(own: &[&'static str]) -> impl Strategy<Value = Value> + use<> {
    let own = sets_of(own);
    let most = own.len();
    let own = proptest::sample::subsequence(own, 0..=most);
    let sets = prop_oneof![15 => own, 1 => some_of(&SETS)];
    let task = (sets, proptest::bool::weighted(0.7)).prop_map(|(sets, deep)| {
        let role = if deep { "orchestrator" } else { "leaf" };
        json!({"goal": "G", "toolsets": sets, "role": role})
    });
    proptest::collection::vec(task, 1..4).prop_map(|tasks| json!({"tasks": tasks}))
}

/// The tools of an agent, and a call that it makes.
fn calls() -> impl Strategy<Value = (Vec<&'static str>, Value)> {
    agents().prop_flat_map(|own| {
        let tasks = tasks(&own);
        (Just(own), tasks)
    })
}

/// The tools of an agent, and what it and those below it do: a call and a config for each level.
fn trees() -> impl Strategy<Value = (Vec<&'static str>, Vec<(Value, DelegationConfig)>)> {
    agents().prop_flat_map(|own| {
        let levels = proptest::collection::vec((tasks(&own), policies()), 2..4);
        (Just(own), levels)
    })
}

/// Checks a law in each case, and that enough of a hundred cases are relevant to it.
fn holds<T: std::fmt::Debug>(
    cases: impl Strategy<Value = T>,
    percent: u32,
    law: impl Fn(T) -> Result<bool, TestCaseError>,
) {
    let config = ProptestConfig { source_file: Some(file!()), ..ProptestConfig::default() };
    let count = config.cases;
    let reached = Cell::new(0);
    let law = |case| law(case).map(|reaches| reached.set(reached.get() + u32::from(reaches)));
    if let Err(failed) = TestRunner::new(config).run(&cases, law) {
        panic!("{failed}");
    }
    let reached = reached.get();
    assert!(reached * 100 >= count * percent, "{reached} of {count} cases reach what is tested");
}

/// JSON that often looks like a call.
fn any_json() -> impl Strategy<Value = Value> {
    let words =
        ["goal", "tasks", "role", "toolsets", "max_iterations", "leaf", "file", "[]", "model"];
    let word = proptest::sample::select(words.to_vec());
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        let key = prop_oneof![3 => word.clone().prop_map(str::to_owned), 1 => any::<String>()];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            inner.clone().prop_map(|value| Value::String(value.to_string())),
            proptest::collection::btree_map(key, inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Down every path of a tree: nobody has what the parent lacks, in any dimension.
#[test]
fn a_child_is_within_its_parent() {
    holds(trees(), 20, |(own, levels)| {
        let mut families = vec![ParentFixture::new(&own.join(" "))];
        let mut depth = 0;
        for (arguments, config) in levels {
            let mut next = Vec::new();
            for family in &families {
                let Ok(plan) = made(family, &arguments, &config) else { continue };
                for spec in plan.specs {
                    let child = family.below(spec);
                    is_within_its_parent(&child, family, &config)?;
                    next.push(child);
                }
            }
            depth += u32::from(!next.is_empty());
            families = next;
        }
        // A grandchild lived.
        Ok(depth > 1)
    });
}

fn is_within_its_parent(
    child: &ParentFixture,
    family: &ParentFixture,
    config: &DelegationConfig,
) -> Result<(), TestCaseError> {
    prop_assert!(child.authority.is_within(&family.authority));
    prop_assert!(child.spec.approver <= child.authority.approver());
    prop_assert!(child.authority.spawn_depth() < family.authority.spawn_depth());
    let has = |name: &str| child.parent().has(name);
    prop_assert!(!["todo", "clarify", "execute_code", "memory"].iter().any(|n| has(n)));
    let hands_on = ["delegate_task", "delegate_control", "workflow"];
    prop_assert!(child.spec.role == Role::Orchestrator || !hands_on.iter().any(|n| has(n)));
    prop_assert_eq!(child.parent().tools().count(), child.spec.tools.len());
    if let Some(ceiling) = &config.toolsets.ceiling {
        prop_assert!(child.parent().toolsets().is_subset(ceiling));
    }
    Ok(())
}

/// However a child comes back (tried again, taken up from the journal, after the tools of the
/// program or the authority of its parent changed): it has nothing that its parent lacks now.
#[test]
fn nothing_that_comes_back_has_more_than_its_parent_has_now() {
    let later = (some_of(&NAMES), some_of(&NAMES), 0..3_u32, any::<bool>(), 0..3_usize);
    holds((calls(), policies(), later), 60, |((own, arguments), config, later)| {
        let (left, changed, spawn_depth, network, approver) = later;
        let family = ParentFixture::new(&own.join(" "));
        let Ok(plan) = made(&family, &arguments, &config) else { return Ok(false) };
        // Later: some tools are taken from the parent, some are other tools of the same name.
        let modes = [ApproverMode::Deny, ApproverMode::Ask, ApproverMode::Auto];
        let kept = left.iter().map(|path| tool_name(path.rsplit('/').next().unwrap()));
        let now = family.authority.intersect(&Grant {
            tools: Some(kept.collect()),
            spawn_depth: Some(spawn_depth),
            network: Some(network),
            approver: Some(modes[approver]),
            ..Grant::default()
        });
        let program = ParentFixture::swapped(&own.join(" "), &changed.join(" "));
        for spec in &plan.specs {
            // As the journal gives it back: a grant, which is met with what the parent has now.
            let stored = serde_json::to_value(spec).unwrap();
            let stored: AgentSpec = serde_json::from_value(stored).unwrap();
            prop_assert_eq!(&stored.grant, &spec.grant);
            for again in
                [now.intersect(&stored.grant), now.intersect(&spec.grant).intersect(&stored.grant)]
            {
                prop_assert!(again.is_within(&now) && again.is_within(&family.authority));
                prop_assert_eq!(&again, &again.intersect(&stored.grant));
                for entry in program.iter() {
                    let permitted = again.permits(entry).is_ok();
                    prop_assert!(!permitted || now.permits(entry).is_ok());
                    let name = format!("/{}", entry.name());
                    let is_other = changed.iter().any(|path| path.ends_with(&name));
                    prop_assert!(!(permitted && is_other));
                }
            }
        }
        Ok(true)
    });
}

#[test]
fn every_tool_of_the_parent_is_kept_or_explained() {
    holds((calls(), policies()), 60, |((own, arguments), config)| {
        let family = ParentFixture::new(&own.join(" "));
        let Ok(plan) = made(&family, &arguments, &config) else { return Ok(false) };
        for (spec, dropped) in plan.specs.iter().zip(&plan.dropped) {
            let mut all: Vec<_> = dropped.iter().map(|dropped| dropped.tool.clone()).collect();
            all.extend(spec.tools.clone());
            all.sort();
            let mut parent = family.spec.tools.clone();
            parent.sort();
            prop_assert_eq!(all, parent);
        }
        Ok(true)
    });
}

proptest! {
    #[test]
    fn any_arguments_give_children_or_errors_and_always_the_same(arguments in any_json()) {
        let family = ParentFixture::new(TOOLS);
        let config = DelegationConfig::default();
        let plan = made(&family, &arguments, &config);
        prop_assert_eq!(&plan, &made(&family, &arguments, &config));
        match plan {
            Ok(plan) => {
                prop_assert!(!plan.specs.is_empty());
                prop_assert!(plan.specs.iter().all(|spec| !spec.goal.trim().is_empty()));
            }
            Err(PlanError::Refused(refusal)) => {
                prop_assert!(!refusal.errors().is_empty());
                prop_assert!(serde_json::from_str::<Value>(&refusal.to_json()).is_ok());
            }
            Err(PlanError::Prompt(error)) => prop_assert!(false, "{}", error),
        }
    }
}

#[test]
fn an_external_child_is_refused_where_it_is_not_due_what_a_command_may_do() {
    let family = ParentFixture::new("file/read_file file/write_file terminal/terminal web/fetch");
    let external = |config: DelegationConfig| DelegationConfig {
        approvals: ChildApprovals { mode: ApproverMode::Ask, ..config.approvals },
        host: DelegationHost {
            external_needs: vec![tool_name("terminal"), tool_name("write_file")],
            ..config.host
        },
        ..config
    };
    let sets = |names: &str| toolsets(names);
    let plain = json!({"goal": "A"});
    let named = json!({"tasks": [{"goal": "A"}, {"goal": "B", "toolsets": ["file"]}]});
    let ceiling = DelegationConfig {
        toolsets: ChildToolsets { ceiling: Some(sets("file web")), ..ChildToolsets::default() },
        ..DelegationConfig::default()
    };
    let default = DelegationConfig {
        toolsets: ChildToolsets { default: sets("terminal"), ..ChildToolsets::default() },
        ..DelegationConfig::default()
    };
    let cases = [(&plain, ceiling), (&plain, default), (&named, DelegationConfig::default())];
    let told: Vec<String> = cases
        .into_iter()
        .map(|(call, config)| {
            let Err(PlanError::Refused(refusal)) = made(&family, call, &external(config)) else {
                panic!("{call} should be refused");
            };
            let [error] = refusal.errors() else { panic!("{refusal:?}") };
            let CallError { code, task_index, field, value, remedy, .. } = error;
            format!("{} {task_index:?} {field} {value}: {remedy}", code.as_str())
        })
        .collect();
    insta::assert_snapshot!(told.join("\n"));
    let all = json!({"goal": "A", "toolsets": ["file", "terminal"]});
    made(&family, &all, &external(DelegationConfig::default())).unwrap();
    let poor = ParentFixture::new("file/read_file file/write_file");
    assert!(
        refused(&poor, &plain, &external(DelegationConfig::default())).contains("does not have it")
    );
}

#[test]
fn what_has_no_effect_on_an_external_child_is_reported_with_the_reason() {
    let family = ParentFixture::new("file/write_file terminal/terminal delegation/delegate_task");
    let config = DelegationConfig {
        approvals: ChildApprovals { mode: ApproverMode::Auto, ..ChildApprovals::default() },
        limits: DelegationLimits { max_spawn_depth: 2, ..DelegationLimits::default() },
        host: DelegationHost {
            external_needs: vec![tool_name("terminal"), tool_name("write_file")],
            ..DelegationHost::default()
        },
        ..DelegationConfig::default()
    };
    let call = json!({"goal": "A", "role": "orchestrator", "max_iterations": 3});
    let why = "children are another program here";
    let plan = made(&family, &call, &config).unwrap();
    assert_eq!(
        plan.warnings,
        [
            format!("`max_iterations` has no effect: {why}"),
            format!("task 0 got less than it asked for: role orchestrator ({why})")
        ]
    );
    let told = refused(&family, &json!({"goal": "A", "model": "p/small"}), &config);
    assert!(told.contains("E_MODEL") && told.contains(why), "{told}");
}

#[test]
fn an_external_child_is_refused_where_nothing_that_children_want_may_be_approved() {
    let family = ParentFixture::new("file/write_file terminal/terminal");
    let config = |approvals| DelegationConfig {
        approvals: ChildApprovals { mode: approvals, ..ChildApprovals::default() },
        host: DelegationHost {
            external_needs: vec![tool_name("terminal"), tool_name("write_file")],
            ..DelegationHost::default()
        },
        ..DelegationConfig::default()
    };
    let call = json!({"tasks": [{"goal": "A"}, {"goal": "B"}]});
    for may in [ApproverMode::Ask, ApproverMode::Auto] {
        made(&family, &call, &config(may)).unwrap();
    }
    let told = refused(&family, &call, &config(ApproverMode::Deny));
    assert_eq!(told.matches("E_EXTERNAL").count(), 1, "once for the call: {told}");
    assert!(
        told.contains("nobody approves what children") && !told.contains("approvals"),
        "{told}"
    );
    // What the settings allow an agent may still lack.
    let mut family = family;
    let narrow = Grant { approver: Some(ApproverMode::Deny), ..Grant::default() };
    family.authority = family.authority.intersect(&narrow);
    let told = refused(&family, &call, &config(ApproverMode::Auto));
    assert!(told.contains("E_EXTERNAL") && told.contains("children of this agent"), "{told}");
}
