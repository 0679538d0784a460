//! Limits that agents share: who closes at the edge, and with what.

use std::path::Path;

use deputize_core::model::{Reply, Usage};
use deputize_testkit::{MockAnswer, MockServer};
use serde_json::{Value, json};

use super::{call, is_child, messages, of, result, run, say};
use crate::program::{Lab, hang, model};

/// Children that say a word beside each call and go on until they must close. Each reply is counted
/// as 1,700 tokens.
async fn talkers() -> MockServer {
    model(|asked| {
        let reply = match (is_child(asked), asked.results().len()) {
            (false, 0) => {
                let tasks = ["One", "Two", "Three"].map(|goal| json!({"goal": goal}));
                Reply::calls("served-1", [("delegate_task", json!({ "tasks": tasks }))])
            }
            (false, _) => Reply::text("served-1", "All back."),
            (true, _) if !asked.may_call() => Reply::text("served-1", "That is what I have."),
            (true, n) => {
                // Each time in other words, so that it does not repeat itself.
                let path = format!(".{}", "/.".repeat(n));
                let calls = Reply::calls("served-1", [("list_dir", json!({ "path": path }))]);
                Reply { text: format!("part {n}"), ..calls }
            }
        };
        let usage = Usage { input: 1_500, output: 200, ..Usage::default() };
        MockAnswer::reply(&Reply { usage, ..reply })
    })
    .await
}

fn results(server: &MockServer, task: &str) -> Vec<Value> {
    let requests = server.requests();
    let (actual, _) = result(&messages(of(&requests, task)[1], "tool")[0]);
    actual["results"].as_array().unwrap().clone()
}

#[tokio::test]
async fn at_the_edge_of_a_budget_no_word_beside_a_call_passes_for_an_answer() {
    for most in [2_000, 6_000, 10_000, 12_000, 14_000, 24_000] {
        let lab = Lab::new();
        let server = talkers().await;
        let budget = format!("delegation.budget.tokens={most}");
        let set = ["delegation.max_output_tokens=200", &budget];
        let ended = run(&lab, &server, &set, "Go").await;
        let closes = "the budget's tokens leave room for the closing request only";
        let asked = results(&server, "Go").iter().any(|entry| entry["status"] == "completed");
        assert_eq!(ended.err.contains(closes), asked, "{most}: {}", ended.err);
        for entry in results(&server, "Go") {
            assert_eq!(entry["exit_reason"], "budget", "{entry}");
            assert!(Path::new(entry["session_path"].as_str().unwrap()).is_file(), "{entry}");
            if entry["api_calls"] == 0 {
                assert_eq!((&entry["status"], &entry["summary"]), (&json!("failed"), &Value::Null));
                let error = entry["error"].as_str().unwrap();
                assert!(error.starts_with("nothing was asked of the model"), "{entry}");
                assert!(error.contains(" tokens of the children's budget are spent"), "{entry}");
                assert!(error.ends_with(" are left"), "{entry}");
                continue;
            }
            assert_eq!(entry["status"], "completed", "{most}: {entry}");
            let summary = entry["summary"].as_str().unwrap();
            assert!(summary.contains("That is what I have."), "{most}: {entry}");
        }
    }
}

#[tokio::test]
async fn at_a_shared_limit_of_time_a_grandchild_closes_before_its_parent() {
    let server = model(|asked| {
        let task = asked.last_user();
        match (asked.first_user(), asked.results().len()) {
            (first, 0) if first.contains("Middle") && asked.may_call() => {
                call("delegate_task", json!({"goal": "Low"}))
            }
            (first, 1) if first.contains("Middle") => say(asked.results()[0]),
            (first, _) if first.contains("Low") && asked.may_call() => hang(),
            (_, _) if task.contains("closing") => say("Low has this."),
            (_, 0) => call("delegate_task", json!({"goal": "Middle", "role": "orchestrator"})),
            _ => say("All back."),
        }
    })
    .await;
    let lab = Lab::new();
    let set = [
        "delegation.max_spawn_depth=2",
        "delegation.budget.seconds=4",
        "delegation.wrap_up_seconds=60",
    ];
    let ended = run(&lab, &server, &set, "Go").await;
    assert!(ended.err.contains("is up (delegation.budget.seconds)"), "{}", ended.err);
    let middle = results(&server, "Go").remove(0);
    let ended = |entry: &Value| (entry["status"].clone(), entry["exit_reason"].clone());
    assert_eq!(ended(&middle), (json!("completed"), json!("budget")), "{middle}");
    let (low, _) = result(middle["summary"].as_str().unwrap());
    let low = &low["results"][0];
    assert_eq!(ended(low), (json!("completed"), json!("budget")), "{middle}");
    assert!(low["summary"].as_str().unwrap().contains("Low has this."), "{middle}");
}

/// Returns the only child, which answers by this function.
async fn child_of(child: fn(usize) -> MockAnswer, set: &[&str]) -> (usize, Value) {
    let server = model(move |asked| match (is_child(asked), asked.results().len()) {
        (true, n) => child(n),
        (false, 0) => {
            let usage = Usage { input: 1_500, output: 50, ..Usage::default() };
            let calls = Reply::calls("served-1", [("delegate_task", json!({"goal": "One"}))]);
            MockAnswer::reply(&Reply { usage, ..calls })
        }
        (false, _) => say("Back."),
    })
    .await;
    run(&Lab::new(), &server, set, "Go").await;
    let entry = results(&server, "Go").remove(0);
    assert_eq!(entry["exit_reason"], "budget", "{entry}");
    assert_eq!(entry["status"], "failed", "{entry}");
    (server.requests().len() - 2, entry)
}

#[tokio::test]
async fn without_a_closing_answer_the_error_says_which_budget_had_how_much_left() {
    let calls = |_| {
        let usage = Usage { input: 1_500, output: 200, ..Usage::default() };
        let calls = Reply::calls("served-1", [("list_dir", json!({}))]);
        MockAnswer::reply(&Reply { usage, ..calls })
    };
    let set = ["delegation.budget.tokens=5000", "delegation.max_output_tokens=200"];
    let (requests, entry) = child_of(calls, &set).await;
    let error = entry["error"].as_str().unwrap();
    assert!(requests > 0, "{entry}");
    assert!(error.starts_with("there was no closing answer when one was due: "), "{error}");
    assert!(error.contains(" of 5000 tokens of the children's budget are spent"), "{error}");
    assert!(error.ends_with(" are left"), "{error}");

    let set = ["delegation.budget.seconds=1", "delegation.wrap_up_seconds=1"];
    let (_, entry) = child_of(|_| hang(), &set).await;
    assert_eq!(
        entry["error"],
        "the time that all children have together (delegation.budget.seconds) was up, and there \
         was no closing answer within 1 s"
    );
    let set = ["delegation.budget.seconds=1", "delegation.wrap_up_seconds=0"];
    let (_, entry) = child_of(|_| hang(), &set).await;
    let error = entry["error"].as_str().unwrap();
    assert!(error.ends_with("none is left for a closing answer (delegation.wrap_up_seconds)"));
}

#[tokio::test]
async fn of_nothing_nothing_is_asked_whatever_it_is_counted_in() {
    for zero in ["tokens", "seconds", "usd"] {
        let set = format!("delegation.budget.{zero}=0");
        let (requests, entry) = child_of(|_| say("Asked all the same."), &[&set]).await;
        assert_eq!((requests, &entry["api_calls"]), (0, &json!(0)), "{zero}: {entry}");
        assert_eq!(entry["summary"], Value::Null, "{zero}");
    }
}

/// Six tasks of 0.046 dollars each in two requests.
async fn six() -> MockServer {
    model(|asked| {
        let usage = |input, output| Usage { input, output, ..Usage::default() };
        let (usage, reply) = match (is_child(asked), asked.results().len()) {
            (false, 0) => {
                let tasks = (1..=6)
                    .map(|n| json!({"goal": format!("Count the lines of long.txt, part {n}")}));
                let tasks: Vec<_> = tasks.collect();
                let calls =
                    Reply::calls("served-1", [("delegate_task", json!({ "tasks": tasks }))]);
                (usage(6_000, 100), calls)
            }
            (false, _) => (usage(9_000, 100), Reply::text("served-1", "All back.")),
            (true, _) if !asked.may_call() => {
                (usage(8_000, 100), Reply::text("served-1", "This far."))
            }
            (true, 0) => {
                let calls = Reply::calls("served-1", [("read_file", json!({"path": "long.txt"}))]);
                (usage(6_000, 800), calls)
            }
            (true, _) => (usage(8_000, 1_000), Reply::text("served-1", "It is done.")),
        };
        MockAnswer::reply(&Reply { usage, ..reply })
    })
    .await
}

#[tokio::test]
async fn with_room_for_three_of_six_tasks_three_are_completed_and_three_are_not_billed() {
    for at_once in [2, 6] {
        let lab = Lab::new();
        let server = six().await;
        std::fs::write(lab.path("work/long.txt"), "A line of it.\n".repeat(250)).unwrap();
        let at_once = format!("delegation.max_concurrent_children={at_once}");
        let set = [
            "delegation.budget.usd=0.15",
            "delegation.over_limit=queue",
            &at_once,
            "providers.openai.prices={\"mock\": {\"input\": 2, \"cached\": 2, \"output\": 10}}",
        ];
        run(&lab, &server, &set, "Go").await;
        let entries = results(&server, "Go");
        let count = |status: &str, reason: &str| {
            let is = |entry: &&Value| entry["status"] == status && entry["exit_reason"] == reason;
            entries.iter().filter(is).count()
        };
        assert_eq!(
            (count("completed", "completed"), count("failed", "budget")),
            (3, 3),
            "{entries:?}"
        );
        for entry in &entries {
            if entry["status"] == "completed" {
                assert_eq!(entry["cost_usd"], 0.046, "{entry}");
                continue;
            }
            assert_eq!(
                (&entry["api_calls"], &entry["cost_usd"]),
                (&json!(0), &json!(0.0)),
                "{entry}"
            );
            let error = entry["error"].as_str().unwrap();
            // How much is spent by then depends on which of the others have ended.
            let spent = error.contains(" of $0.15 of the children's budget are spent");
            assert!(spent && error.ends_with(" are left"), "{entry}");
        }
        // Two requests of the parent and two of each child that ran.
        assert_eq!(server.requests().len(), 2 + 6);
        // What a child may say is what is reserved for it: after one reply of 800 tokens, five and a
        // half times that.
        let limits: Vec<_> = of(&server.requests(), "Count the lines")
            .iter()
            .map(|request| {
                let asked = crate::program::ChatRequest::of(request);
                asked.most_output().unwrap()
            })
            .collect();
        assert!(limits.iter().all(|limit| *limit <= 4_400), "{limits:?}");
    }
}

#[tokio::test]
async fn a_task_of_one_request_runs_in_what_is_left_without_room_for_a_closing_one() {
    let server = model(|asked| {
        let usage = |input, output| Usage { input, output, ..Usage::default() };
        let (usage, reply) = match (is_child(asked), asked.results().len()) {
            (false, 0) => {
                let tasks = (1..=6).map(|n| json!({"goal": format!("Answer question {n}")}));
                let tasks: Vec<_> = tasks.collect();
                let calls =
                    Reply::calls("served-1", [("delegate_task", json!({ "tasks": tasks }))]);
                (usage(6_000, 100), calls)
            }
            (false, _) => (usage(9_000, 100), Reply::text("served-1", "All back.")),
            (true, _) => (usage(8_500, 300), Reply::text("served-1", "It is done.")),
        };
        MockAnswer::reply(&Reply { usage, ..reply })
    })
    .await;
    let lab = Lab::new();
    let set = [
        "delegation.budget.usd=0.14",
        "delegation.over_limit=queue",
        "providers.openai.prices={\"mock\": {\"input\": 2, \"cached\": 2, \"output\": 10}}",
    ];
    run(&lab, &server, &set, "Go").await;
    for entry in results(&server, "Go") {
        assert_eq!((&entry["status"], &entry["cost_usd"]), (&json!("completed"), &json!(0.02)));
    }
}
