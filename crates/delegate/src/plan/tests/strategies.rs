//! Agents, configurations and calls for laws.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::*;

pub(super) const NAMES: [&str; 13] = [
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
pub(super) const SETS: [&str; 8] =
    ["file", "web", "mcp-git", "mcp-db", "core", "code", "mixed", "delegation"];

pub(super) fn some_of(all: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    proptest::sample::subsequence(all, 0..=all.len())
}

/// The toolsets of these tools.
pub(super) fn sets_of(own: &[&'static str]) -> Vec<&'static str> {
    SETS.into_iter()
        .filter(|set| own.iter().any(|tool| tool.starts_with(&format!("{set}/"))))
        .collect()
}

/// Some of all, mostly with this one among them.
pub(super) fn mostly_with(
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
pub(super) fn agents() -> impl Strategy<Value = Vec<&'static str>> {
    mostly_with(&NAMES, "delegation/delegate_task")
}

/// Policies that mostly let children have children.
pub(super) fn policies() -> impl Strategy<Value = DelegationConfig> {
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
pub(super) fn tasks(own: &[&'static str]) -> impl Strategy<Value = Value> + use<> {
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
pub(super) fn calls() -> impl Strategy<Value = (Vec<&'static str>, Value)> {
    agents().prop_flat_map(|own| {
        let tasks = tasks(&own);
        (Just(own), tasks)
    })
}

/// The tools of an agent, and what it and those below it do: a call and a config for each level.
pub(super) fn trees() -> impl Strategy<Value = (Vec<&'static str>, Vec<(Value, DelegationConfig)>)>
{
    agents().prop_flat_map(|own| {
        let levels = proptest::collection::vec((tasks(&own), policies()), 2..4);
        (Just(own), levels)
    })
}

/// Checks a law in each case, and that enough of a hundred cases are relevant to it.
pub(super) fn holds<T: std::fmt::Debug>(
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
pub(super) fn any_json() -> impl Strategy<Value = Value> {
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
