//! Tasks that wait for a slot start in the order in which they were asked for.

use std::sync::Arc;

use deputize_core::model::Reply;
use deputize_delegate::{DelegationConfig, DelegationLimits, DelegationOptions, OverLimit};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::simulated::{SimulatedRule, first_requests, records, results, run};

/// A call: whether it waits for its children, and how many seconds each of them takes.
type Call = (bool, Vec<u64>);

fn queue(max_concurrent_children: u32) -> DelegationConfig {
    DelegationConfig {
        limits: DelegationLimits {
            over_limit: OverLimit::Queue,
            max_concurrent_children,
            ..DelegationLimits::default()
        },
        options: DelegationOptions { background: true, ..DelegationOptions::default() },
        ..DelegationConfig::default()
    }
}

fn goal(step: usize, call: usize, task: usize, seconds: u64) -> String {
    format!("step {step} call {call} task {task} takes {seconds}")
}

/// A parent that makes the calls of each step and then waits.
fn parent_of(steps: Vec<Vec<Call>>) -> Arc<SimulatedRule> {
    let calls = move |results: usize| -> Option<Vec<Value>> {
        let mut before = 0;
        for (number, step) in steps.iter().enumerate() {
            if before == results {
                let arguments = step.iter().enumerate().map(|(call, (background, tasks))| {
                    let tasks = tasks.iter().enumerate();
                    let tasks = tasks.map(|(task, seconds)| goal(number, call, task, *seconds));
                    let tasks: Vec<Value> = tasks.map(|goal| json!({ "goal": goal })).collect();
                    json!({"tasks": tasks, "background": background})
                });
                return Some(arguments.collect());
            }
            before += step.len();
        }
        None
    };
    Arc::new(move |task: &str, results: usize| match task.rsplit_once("takes ") {
        Some((_, seconds)) => (seconds.parse::<u64>().unwrap() * 1000, Reply::text("m", "Done.")),
        None => match calls(results) {
            Some(all) => (10, Reply::calls("m", all.into_iter().map(|it| ("delegate_task", it)))),
            None => (10, Reply::text("m", "I wait.")),
        },
    })
}

fn clock() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn children_start_in_the_order_in_which_they_were_asked_for(
        steps in prop::collection::vec(
            prop::collection::vec((any::<bool>(), prop::collection::vec(0..4_u64, 1..4)), 1..5),
            1..4,
        ),
        most in 1..4_u32,
    ) {
        let mut wanted = Vec::new();
        for (step, calls) in steps.iter().enumerate() {
            for (call, (_, tasks)) in calls.iter().enumerate() {
                let tasks = tasks.iter().enumerate();
                wanted.extend(tasks.map(|(task, seconds)| goal(step, call, task, *seconds)));
            }
        }
        let folder = tempfile::tempdir().unwrap();
        clock().block_on(run(folder.path(), &queue(most), &parent_of(steps)));
        let first = first_requests(&records(folder.path()));
        // Children whose slots are granted at the same moment may send their requests in any order;
        // of a single slot the sequence numbers tell the order exactly.
        let position = |(seq, at): &(u64, u64)| if most == 1 { *seq } else { *at };
        let order: Vec<Option<u64>> =
            wanted.iter().map(|goal| first.get(goal).map(position)).collect();
        prop_assert!(order.iter().all(Option::is_some), "{first:?}");
        prop_assert!(order.is_sorted(), "{:?}", wanted.iter().zip(&order).collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn a_handle_says_that_its_task_waits_for_a_slot() {
    let folder = tempfile::tempdir().unwrap();
    let call = |seconds: &[u64]| (true, seconds.to_vec());
    let steps = vec![vec![call(&[5]), call(&[5, 5]), call(&[5])], vec![call(&[5])]];
    run(folder.path(), &queue(2), &parent_of(steps)).await;
    let statuses = results(&records(folder.path())).into_iter().map(|(call, result)| {
        let json = &result[result.find('{').unwrap()..=result.rfind('}').unwrap()];
        let actual: Value = serde_json::from_str(json).unwrap();
        let entries = actual["results"].as_array().unwrap().clone();
        let statuses = entries.iter().map(|entry| entry["status"].as_str().unwrap().to_owned());
        format!("{call}: {}", statuses.collect::<Vec<_>>().join(" "))
    });
    let mut statuses: Vec<String> = statuses.collect();
    statuses.sort();
    assert_eq!(
        statuses,
        [
            "call_1_0: running",
            "call_1_1: running waiting",
            "call_1_2: waiting",
            "call_2_0: waiting"
        ]
    );
}
