//! Children whose model is another one at a resume, or gone.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deputize_core::model::Reply;
use deputize_testkit::MockAnswer;
use serde_json::{Value, json};

use super::children::{KilledRun, near, settings};
use crate::kill::kill;
use crate::program::{ChatRequest, Lab, RunningProgram, hang, model};

/// Kills a run whose child has written a file and waits for an answer, and resumes it with another
/// model and without the setting of the child's model. Returns the report.
async fn resumed_without_its_model(background: bool, of_child: &str) -> Value {
    let lab = Lab::new();
    let answers = Arc::new(AtomicBool::new(false));
    let answering = Arc::clone(&answers);
    let server = model(move |asked: &ChatRequest| {
        let task = json!({"goal": "Write", "background": background});
        let reply = match (asked.first_user(), asked.replies()) {
            ("go", 0) => Reply::calls("mock", [("delegate_task", task)]),
            ("go", _) => Reply::text("mock", "done"),
            (_, 0) => {
                Reply::calls("mock", [("write_file", json!({"path": "a.txt", "content": "a"}))])
            }
            (_, _) if !answering.load(Ordering::Relaxed) => return hang(),
            (_, _) => Reply::text("mock", "wrote it"),
        };
        MockAnswer::reply(&reply)
    })
    .await;
    let near = near(&server);
    let with = |delegation: &str| {
        settings(&lab, &format!("{near}\ndelegation: {{{delegation}}}"));
    };
    with(&format!("background: {background}{of_child}"));
    let args = ["run", "-m", "near/mock", "--output", "events", "go"];
    let running = RunningProgram::start(lab.deputize(&args));
    running.event("model.request", |it| it["depth"] == 1 && it["iteration"] == 2).await;
    if background {
        running.event("agent.rest", |_| true).await;
    }
    kill(&lab, running).await;
    with(&format!("background: {background}"));
    answers.store(true, Ordering::Relaxed);
    let session = lab.session();
    let args = ["run", "--resume", &session, "-m", "near/other", "--output", "json"];
    let resume = lab.deputize(&[&args[..], &["--record", "resumed.jsonl"]].concat());
    let ended = RunningProgram::start(resume).end().await.with_code(0);
    drop(server);
    let replay = lab.deputize(&["run", "--replay", "resumed.jsonl"]);
    assert_eq!(RunningProgram::start(replay).end().await.with_code(0).out, "done\n");
    serde_json::from_str(&ended.out).unwrap()
}

#[tokio::test]
async fn a_child_whose_model_is_gone_at_a_resume_ends_with_what_it_has() {
    for background in [false, true] {
        let actual = resumed_without_its_model(background, ", model: near/child").await;
        let child = &actual["children"][0];
        assert_eq!(child["status"], "interrupted", "{actual}");
        let why = child["error"].as_str().unwrap_or_default();
        assert!(why.contains("it could not go on") && why.contains("near/child"), "{actual}");
        let written = child["receipts"]["files_written"][0]["path"].as_str().unwrap_or_default();
        assert!(written.ends_with("a.txt"), "{actual}");
        assert!(child["tokens"]["input"].as_u64().unwrap() > 0, "{actual}");
        assert!(child["session_path"].is_string(), "{actual}");
    }
}

#[tokio::test]
async fn a_child_with_its_parents_model_goes_on_with_the_one_of_a_resume() {
    for background in [false, true] {
        let actual = resumed_without_its_model(background, "").await;
        let child = &actual["children"][0];
        assert_eq!(child["status"], "completed", "{actual}");
        assert_eq!(child["summary"], "wrote it", "{actual}");
    }
}

#[tokio::test]
async fn hooks_learn_of_the_end_of_those_that_nobody_takes_up_again() {
    let lab = Lab::new();
    let hooks = "hooks: {SubagentStop: ['cat >> seen']}";
    let before = format!("{hooks}\ndelegation: {{max_spawn_depth: 2, model: near/child}}");
    let stopped = KilledRun::start(&lab, &before).await;
    assert!(!lab.work("seen").exists());
    let actual = stopped.resumed(&format!("{hooks}\ndelegation: {{max_spawn_depth: 2}}")).await;
    let lead = &actual["children"][0];
    assert_eq!(
        (&lead["status"], &lead["summary"]),
        (&json!("interrupted"), &Value::Null),
        "{actual}"
    );
    assert_eq!(lead["children"][0]["status"], "interrupted", "{actual}");
    let seen = fs::read_to_string(lab.work("seen")).unwrap();
    let seen: Vec<Value> = seen.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ends = seen.iter().map(|it| (&it["event"], &it["agent"], &it["output"]["status"]));
    let end = |agent: &Value| (json!("SubagentStop"), agent.clone(), json!("interrupted"));
    let expected = [end(&lead["children"][0]["agent"]), end(&lead["agent"])];
    assert!(
        ends.eq(expected.iter().map(|(event, agent, status)| (event, agent, status))),
        "{seen:?}"
    );
    // The host tells it of what was done.
    let written = &seen[0]["output"]["receipts"]["files_written"][0]["path"];
    assert!(written.as_str().unwrap_or_default().ends_with("a.txt"), "{seen:?}");
}
