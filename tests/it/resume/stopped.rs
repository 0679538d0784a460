//! Children that were stopped, and the program killed before they had ended: they do not go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deputize_core::model::Reply;
use deputize_testkit::{Barrier, MockAnswer, MockServer};
use serde_json::{Value, json};

use super::children::settings;
use crate::control::reachable;
use crate::kill::kill;
use crate::program::{ChatRequest, Lab, RunningProgram, hang, model};

/// A command that ignores the first signal.
const SLOW: &str = "trap '' TERM; echo x > begun; sleep 60";

/// A run with a child and one below that, which is in a command; a background child is stopped by its
/// parent when the gate is open. Whoever goes on says so in a file.
async fn family(background: bool, gate: &Barrier, killed: &Arc<AtomicBool>) -> MockServer {
    let gate = gate.clone();
    let killed = Arc::clone(killed);
    model(move |asked: &ChatRequest| {
        let call = |tool: &str, arguments: Value| {
            MockAnswer::reply(&Reply::calls("mock", [(tool, arguments)]))
        };
        let goal = asked.first_user().lines().last().unwrap_or_default();
        match (goal, asked.results().len()) {
            ("go", 0) => call(
                "delegate_task",
                json!({"goal": "Lead", "role": "orchestrator", "background": background}),
            ),
            ("go", 1) if background => {
                call("delegate_control", json!({"action": "stop", "all": true})).held_by(&gate)
            }
            ("go", 2) if !killed.load(Ordering::Relaxed) => hang(),
            ("go", _) => MockAnswer::reply(&Reply::text("mock", "done")),
            ("Lead", 0) => call("delegate_task", json!({"goal": "Leaf"})),
            ("Leaf", 0) => call("terminal", json!({"command": SLOW})),
            _ => call("write_file", json!({"path": "went_on", "content": goal})),
        }
    })
    .await
}

/// Kills a run once the stop is acknowledged, resumes it, and returns its report.
async fn resumed(lab: &Lab, background: bool) -> Value {
    let gate = Barrier::closed();
    let killed = Arc::new(AtomicBool::new(false));
    let server = family(background, &gate, &killed).await;
    let mut begun = lab.pipe("begun");
    settings(
        lab,
        &format!("delegation: {{background: {background}, max_spawn_depth: 2, approvals: auto}}"),
    );
    let running = lab.run(&server, &["--approve", "auto", "--output", "events", "go"]);
    begun.lines(1).await;
    if background {
        gate.open();
        let of_top = |end: &Value| end["depth"] == 0 && end["tool"] == "delegate_control";
        running.event("tool.end", of_top).await;
    } else {
        let child = format!("{}/1.0.0", reachable(lab).await);
        let stop = lab.deputize(&["agents", "stop", "--tree", &child]);
        RunningProgram::start(stop).end().await.with_code(0);
    }
    kill(lab, running).await;
    killed.store(true, Ordering::Relaxed);
    let before = server.requests().len();
    let session = lab.session();
    let args = ["run", "--resume", &session, "--output", "json", "--record", "resumed.jsonl"];
    let ended = RunningProgram::start(lab.deputize(&args)).end().await.with_code(0);
    assert!(!lab.work("went_on").exists(), "{}", ended.out);
    let requests = server.requests();
    let of_top =
        requests[before..].iter().filter(|it| ChatRequest::of(it).first_user() == "go").count();
    assert_eq!(of_top, requests.len() - before, "only the top agent goes on");
    let replay = lab.deputize(&["run", "--replay", "resumed.jsonl"]);
    assert_eq!(RunningProgram::start(replay).end().await.with_code(0).out, "done\n");
    serde_json::from_str(&ended.out).unwrap()
}

#[tokio::test]
async fn one_that_a_person_stopped_and_those_below_it_do_not_go_on() {
    let lab = Lab::new();
    let actual = resumed(&lab, false).await;
    let lead = &actual["children"][0];
    assert_eq!((&actual["status"], &lead["status"]), (&json!("completed"), &json!("interrupted")));
    assert_eq!(lead["error"], "a person stopped it", "{actual}");
    let leaf = &lead["children"][0];
    let above = "a person stopped an agent above it";
    assert_eq!(
        (&leaf["status"], &leaf["error"]),
        (&json!("interrupted"), &json!(above)),
        "{actual}"
    );
}

#[tokio::test]
async fn one_that_its_parent_stopped_does_not_go_on_and_its_end_is_reported_once() {
    let lab = Lab::new();
    let actual = resumed(&lab, true).await;
    let lead = &actual["children"][0];
    let leaf = &actual["children"][0]["children"][0];
    let why = json!("an agent above it stopped it");
    for child in [lead, leaf] {
        assert_eq!((&child["status"], &child["error"]), (&json!("interrupted"), &why), "{actual}");
    }
    let export = lab.deputize(&["sessions", "export", &lab.session()]);
    let records = RunningProgram::start(export).end().await.with_code(0);
    assert_eq!(records.events("child.delivered").len(), 1);
    let stops = records.events("agent.stop");
    let actual = stops.iter().filter(|stop| stop["pending"] == true).count();
    assert_eq!(actual, 2, "each of the two was told once: {stops:?}");
}
