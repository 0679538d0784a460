use deputize_core::ApproverMode;
use proptest::prelude::*;

use super::*;
use crate::args::read;
use crate::fixture::{Family, toolsets};
use crate::prompt::PromptLayout;

const TOOLS: &str = "file/read_file file/write_file web/web_fetch mcp-git/git_log core/todo \
    delegation/delegate_task - chat/say";
const CALL: CallId = CallId { step: 4, slot: 1 };

/// The only function here that knows the signature under test.
fn made(family: &Family, arguments: &Value, policy: &Policy) -> Result<Plan, PlanError> {
    plan(read(arguments, policy), CALL, family.parent(), policy)
}

fn refused(family: &Family, arguments: &Value, policy: &Policy) -> String {
    let Err(PlanError::Refused(refusal)) = made(family, arguments, policy) else {
        panic!("{arguments} should be refused");
    };
    let value: Value = serde_json::from_str(&refusal.to_json()).unwrap();
    serde_json::to_string_pretty(&value).unwrap()
}

#[test]
fn a_child_is_made_whole() {
    let policy = Policy {
        child_base: vec!["You are an agent.".into()],
        max_spawn_depth: 2,
        approvals: ApproverMode::Auto,
        model: Some("local/small".to_owned()),
        ..Policy::default()
    };
    let arguments = json!({
        "role": "orchestrator",
        "tasks": [
            {"goal": "Find the bug.", "context": "In a.rs.", "max_iterations": 7},
            {"goal": "Read the news.", "role": "leaf", "toolsets": ["web"]},
        ],
    });
    let plan = made(&Family::new(TOOLS), &arguments, &policy).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&plan.specs).unwrap());
    assert_eq!(plan.warnings, [] as [&str; 0]);
}

#[test]
fn siblings_have_the_base_byte_for_byte_and_more_when_the_cache_comes_first() {
    let policy = Policy {
        child_base: vec!["You are an agent.".into()],
        prompt_layout: PromptLayout::CacheFirst,
        ..Policy::default()
    };
    let arguments = json!({"tasks": [{"goal": "A"}, {"goal": "B", "context": "C"}]});
    let plan = made(&Family::new(TOOLS), &arguments, &policy).unwrap();
    let [one, two] = plan.specs.as_slice() else { panic!() };
    assert_eq!(one.system[..2], two.system[..2]);
    assert_eq!(&*two.system[2], "YOUR TASK:\nB\n\nCONTEXT:\nC");
}

#[test]
fn whoever_gets_less_than_asked_is_told_so() {
    let warnings = |arguments: Value, policy: &Policy| {
        made(&Family::new(TOOLS), &arguments, policy).unwrap().warnings.join("\n")
    };
    let flat = Policy::default();
    insta::assert_snapshot!(warnings(
        json!({"tasks": [
            {"goal": "A", "toolsets": ["chat", "web", "core"]},
            {"goal": "B", "role": "orchestrator"},
            {"goal": "C", "toolsets": ["chat"]},
        ]}),
        &Policy { inherit_mcp_toolsets: false, ..flat.clone() }
    ), @"
    task 0 got less than it asked for: toolset chat (this agent does not have it), todo (no child has it: the plan is the parent's)
    task 1 got less than it asked for: role orchestrator (the depth limit is reached)
    task 2 runs without any tool: toolset chat (this agent does not have it)
    ");
    let ceiling = Policy { toolset_ceiling: Some(toolsets("web")), ..flat };
    insta::assert_snapshot!(warnings(json!({"goal": "A", "toolsets": ["file", "web"]}), &ceiling), @"task 0 got less than it asked for: read_file (not in delegation.toolset_ceiling), write_file (not in delegation.toolset_ceiling)");
    insta::assert_snapshot!(warnings(json!({"goal": "A", "toolsets": ["delegation"]}), &ceiling), @"task 0 runs without any tool: delegate_task (a leaf does not hand work on)");
    let nothing = Policy { toolset_ceiling: Some(toolsets("")), ..ceiling };
    insta::assert_snapshot!(warnings(json!({"goal": "A"}), &nothing), @"task 0 runs without any tool: git_log (not in delegation.toolset_ceiling), read_file (not in delegation.toolset_ceiling), web_fetch (not in delegation.toolset_ceiling), write_file (not in delegation.toolset_ceiling), delegate_task (a leaf does not hand work on), todo (no child has it: the plan is the parent's)");
}

#[test]
fn all_that_is_wrong_with_a_call_is_one_object() {
    let mut family = Family::new(TOOLS);
    family.spec.depth = 1;
    let policy = Policy { max_concurrent_children: 2, ..Policy::default() };
    let arguments = json!({"goal": "ignored", "tasks": [
        {"goal": "A", "toolsets": ["files", "read_file"]},
        {"goal": ""},
        {"goal": "C", "background": true},
    ]});
    insta::assert_snapshot!(refused(&family, &arguments, &policy));
}

#[test]
fn one_mistake_is_said_in_the_first_line() {
    let family = Family::new(TOOLS);
    let tasks: Vec<Value> = (0..4).map(|n| json!({"goal": format!("Part {n}.")})).collect();
    let arguments = json!({"tasks": tasks});
    insta::assert_snapshot!(refused(&family, &arguments, &Policy::default()));
    let queue = Policy { over_limit: OverLimit::Queue, ..Policy::default() };
    assert_eq!(made(&family, &arguments, &queue).unwrap().specs.len(), 4);
}

#[test]
fn a_model_that_the_parent_may_not_use_is_refused_and_not_replaced() {
    let mut family = Family::new(TOOLS);
    let models = Some(BTreeSet::from(["local/qwen3".to_owned()]));
    family.authority = family.authority.meet(&Grant { models, ..Grant::default() });
    let policy = Policy { model: Some("cloud/large".to_owned()), ..Policy::default() };
    let Err(PlanError::Refused(refusal)) = made(&family, &json!({"goal": "A"}), &policy) else {
        panic!("should be refused");
    };
    assert_eq!(refusal.errors()[0].code, Code::Model);
}

#[test]
fn an_agent_without_authority_to_spawn_is_refused_whatever_its_depth_says() {
    let mut family = Family::new(TOOLS);
    family.authority = family.authority.meet(&Grant { spawn_depth: Some(0), ..Grant::default() });
    let Err(PlanError::Refused(refusal)) = made(&family, &json!({"goal": "A"}), &Policy::default())
    else {
        panic!("should be refused");
    };
    assert_eq!(refusal.errors()[0].code, Code::Depth);
}

const NAMES: [&str; 12] = [
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
    "delegation/workflow",
];
const SETS: [&str; 8] = ["file", "web", "mcp-git", "mcp-db", "core", "code", "mixed", "delegation"];

fn some_of(all: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    proptest::sample::subsequence(all, 0..=all.len())
}

fn policies() -> impl Strategy<Value = Policy> {
    let sets = || some_of(&SETS).prop_map(|names| toolsets(&names.join(" ")));
    (sets(), proptest::option::of(sets()), any::<(bool, bool)>(), 0..5_u32).prop_map(
        |(
            default_toolsets,
            toolset_ceiling,
            (inherit_mcp_toolsets, orchestrator_enabled),
            depth,
        )| {
            Policy {
                default_toolsets,
                toolset_ceiling,
                inherit_mcp_toolsets,
                orchestrator_enabled,
                max_spawn_depth: depth,
                approvals: ApproverMode::Auto,
                ..Policy::default()
            }
        },
    )
}

fn tasks() -> impl Strategy<Value = Value> {
    let task = (some_of(&SETS), any::<bool>()).prop_map(|(sets, deep)| {
        let role = if deep { "orchestrator" } else { "leaf" };
        json!({"goal": "G", "toolsets": sets, "role": role})
    });
    proptest::collection::vec(task, 1..4).prop_map(|tasks| json!({"tasks": tasks}))
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

proptest! {
    /// Down every path of a tree: nobody has what the parent lacks, in any dimension.
    #[test]
    fn a_child_is_within_its_parent(
        own in some_of(&NAMES),
        levels in proptest::collection::vec((tasks(), policies()), 1..4),
    ) {
        let mut families = vec![Family::new(&own.join(" "))];
        for (arguments, policy) in levels {
            let mut next = Vec::new();
            for family in &families {
                let Ok(plan) = made(family, &arguments, &policy) else { continue };
                for spec in plan.specs {
                    let child = family.below(spec);
                    prop_assert!(child.authority.is_within(&family.authority));
                    prop_assert!(child.spec.approver <= child.authority.approver());
                    prop_assert!(child.authority.spawn_depth() < family.authority.spawn_depth());
                    let has = |name: &str| child.parent().has(name);
                    prop_assert!(!["todo", "clarify", "execute_code", "memory"].iter().any(|n| has(n)));
                    prop_assert!(child.spec.role == Role::Orchestrator || !has("delegate_task"));
                    prop_assert_eq!(child.parent().tools().count(), child.spec.tools.len());
                    if let Some(ceiling) = &policy.toolset_ceiling {
                        prop_assert!(child.parent().toolsets().is_subset(ceiling));
                    }
                    next.push(child);
                }
            }
            families = next;
        }
    }

    #[test]
    fn every_tool_of_the_parent_is_kept_or_explained(
        own in some_of(&NAMES), arguments in tasks(), policy in policies(),
    ) {
        let family = Family::new(&own.join(" "));
        if let Ok(plan) = made(&family, &arguments, &policy) {
            for (spec, dropped) in plan.specs.iter().zip(&plan.dropped) {
                let mut all: Vec<_> = dropped.iter().map(|dropped| dropped.tool.clone()).collect();
                all.extend(spec.tools.clone());
                all.sort();
                let mut parent = family.spec.tools.clone();
                parent.sort();
                prop_assert_eq!(all, parent);
            }
        }
    }

    #[test]
    fn any_arguments_give_children_or_errors_and_always_the_same(arguments in any_json()) {
        let (family, policy) = (Family::new(TOOLS), Policy::default());
        let plan = made(&family, &arguments, &policy);
        prop_assert_eq!(&plan, &made(&family, &arguments, &policy));
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
