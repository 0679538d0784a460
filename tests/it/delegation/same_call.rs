//! A call that is made twice in one step runs once.

use std::sync::Arc;

use deputize_core::model::Reply;
use deputize_core::{Event, Record};
use deputize_delegate::DelegationConfig;
use deputize_testkit::MockAnswer;
use serde_json::{Value, json};

use super::is_child;
use crate::program::{ChatRequest, Lab, model};
use crate::simulated::{SimulatedRule, records, results, resumed, run, text};

/// Runs a parent whose first steps make these calls. Gives the tasks that children were given, and
/// the results of its calls.
async fn run_calls(
    tool: &'static str,
    steps: Vec<Vec<Value>>,
    settings: &[&str],
) -> (Vec<String>, Vec<String>) {
    let server = model(move |asked: &ChatRequest| {
        let reply = if is_child(asked) {
            Reply::text("served-1", "It is counted.")
        } else {
            let mut before = 0;
            let step = steps.iter().find(|step| {
                before += step.len();
                before > asked.results().len()
            });
            match step {
                Some(step) => Reply::calls("served-1", step.iter().map(|it| (tool, it.clone()))),
                None => Reply::text("served-1", "Done."),
            }
        };
        MockAnswer::reply(&reply)
    })
    .await;
    let lab = Lab::new();
    let mut args: Vec<&str> = settings.iter().flat_map(|set| ["--set", *set]).collect();
    args.push("Share it");
    lab.run(&server, &args).end().await.with_code(0);
    let requests = server.requests();
    let asked: Vec<ChatRequest> = requests.iter().map(ChatRequest::of).collect();
    let children = asked.iter().filter(|asked| is_child(asked));
    let children = children.map(|asked| asked.last_user().to_owned()).collect();
    let last = asked.iter().rfind(|asked| !is_child(asked)).unwrap();
    (children, last.results().into_iter().map(str::to_owned).collect())
}

#[tokio::test]
async fn of_two_calls_that_ask_for_the_same_work_one_runs() {
    let step = vec![
        json!({"goal": "Count the tests.", "context": "In src.", "role": "leaf"}),
        json!({"role": null, "context": "In src.", "goal": "Count the tests.", "toolsets": []}),
        json!({"tasks": [{"context": "In src.", "goal": "Count the tests."}]}),
        json!({"goal": "Count the tests.", "context": "In lib."}),
    ];
    // In a later step it is a new call.
    let later = vec![json!({"goal": "Count the tests.", "context": "In src."})];
    let (children, results) = run_calls("delegate_task", vec![step, later], &[]).await;
    assert_eq!(children.len(), 3, "{children:?}");
    let is_refused: Vec<bool> = results.iter().map(|it| it.contains("E_SAME_CALL")).collect();
    assert_eq!(is_refused, [false, true, true, false, false], "{results:#?}");
    assert!(results[1].contains("the result of that call is the result of both"), "{results:#?}");
}

#[tokio::test]
async fn so_it_is_with_task_and_in_the_background() {
    let step = vec![json!({"description": "Count."}), json!({"description": "Count."})];
    let (children, results) = run_calls("task", vec![step], &["delegation.tool_name=task"]).await;
    assert_eq!(children.len(), 1, "{children:?}");
    assert!(results[0].contains("It is counted."), "{results:#?}");
    assert!(results[1].contains("the result of that call is the result of both"), "{results:#?}");

    let call = |background: bool| json!({"goal": "Count.", "background": background});
    // A call that waits for its child is another one.
    let step = vec![call(true), call(true), call(false)];
    let (children, results) =
        run_calls("delegate_task", vec![step], &["delegation.background=true"]).await;
    assert_eq!(children.len(), 2, "{children:?}");
    assert!(results[0].contains("\"agent\":"), "{results:#?}");
    assert!(results[1].contains("E_SAME_CALL"), "{results:#?}");
    assert!(results[2].contains("It is counted."), "{results:#?}");
}

#[tokio::test]
async fn a_call_is_not_the_same_as_one_that_was_refused() {
    let two = || json!({"tasks": [{"goal": "Count."}, {"goal": "Look."}]});
    let (children, results) = run_calls(
        "delegate_task",
        vec![vec![two(), two()]],
        &["delegation.max_concurrent_children=1"],
    )
    .await;
    assert!(children.is_empty(), "{children:?}");
    for result in &results {
        assert!(result.contains("E_TOO_MANY_TASKS"), "{results:#?}");
        assert!(!result.contains("E_SAME_CALL"), "{results:#?}");
    }
}

#[tokio::test]
async fn spaces_and_the_order_of_tasks_make_no_other_call() {
    let step = vec![
        json!({"tasks": [{"goal": "Count.", "context": "In src."}, {"goal": "Look."}]}),
        json!({"tasks": [{"goal": "Look.\n"}, {"goal": " Count. ", "context": "In src.\n"}]}),
    ];
    let (children, results) = run_calls("delegate_task", vec![step], &[]).await;
    assert_eq!(children.len(), 2, "{children:?}");
    assert!(results[1].contains("E_SAME_CALL"), "{results:#?}");
}

#[tokio::test]
async fn a_call_with_two_equal_tasks_starts_nobody() {
    let tasks = json!({"tasks": [{"goal": "Count."}, {"goal": "Look."}, {"goal": "Count. "}]});
    let (children, results) = run_calls("delegate_task", vec![vec![tasks]], &[]).await;
    assert!(children.is_empty(), "{children:?}");
    let expected = "this task is the same as task 0";
    assert!(results[0].contains("E_SAME_TASK") && results[0].contains(expected), "{results:#?}");
}

fn children(records: &[Record]) -> usize {
    let is_child = |it: &&Record| it.depth == 1 && matches!(it.event, Event::AgentStart(_));
    records.iter().filter(is_child).count()
}

#[tokio::test(start_paused = true)]
async fn so_it_is_after_a_kill_at_any_record() {
    let rule: Arc<SimulatedRule> = Arc::new(|task: &str, results: usize| {
        let call = || ("delegate_task", json!({"goal": "count"}));
        match (task, results) {
            ("go", 0) => (10, Reply::calls("m", [call(), call()])),
            ("go", _) => (10, Reply::text("m", "Done.")),
            _ => (10, Reply::text("m", "It is counted.")),
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let policy = DelegationConfig::default();
    run(folder.path(), &policy, &rule).await;
    assert_eq!(children(&records(folder.path())), 1);
    let whole = text(folder.path());
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    for kept in 4..=lines.len() {
        let (_, records) = resumed(&lines[..kept], (&policy, &rule), 60_000).await;
        assert_eq!(children(&records), 1, "after {kept} lines");
        let mut results = results(&records);
        results.sort();
        let [(_, first), (_, second)] = results.as_slice() else { panic!("{results:?}") };
        assert!(first.contains("It is counted."), "after {kept} lines: {first}");
        assert!(second.contains("E_SAME_CALL"), "after {kept} lines: {second}");
    }
}
