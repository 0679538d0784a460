//! A real editor's side: the official Python package.

use deputize_testkit::MockServer;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::process::Command;

use super::{calls, nothing_left, steps, text};
use crate::acp::{fixture, installed};
use crate::program::{Asked, Lab, PROGRAM, Running, model};

/// The editor, with a task, and this program as its agent.
pub(super) async fn editor(lab: &Lab, server: &MockServer, task: &str) -> Command {
    let place = tokio::task::spawn_blocking(installed).await.unwrap();
    let mut editor = lab.command("python3");
    editor.arg(fixture("editor.py")).arg(place).arg(task);
    editor.args([PROGRAM, "acp", "-m", "openai/mock", "--base-url", &server.base_url()]);
    editor
}

#[tokio::test]
async fn an_editor_of_the_official_package_works_with_it() {
    let lab = Lab::new();
    let server = model(|asked: &Asked| match (asked.users().len(), asked.results().len()) {
        (1, 0) => calls("write_file", json!({"path": "a.txt", "content": "a\n"})),
        (1, 1) | (2, 2) => calls("terminal", json!({"command": "echo from the shell"})),
        (users, _) => text(format!("Turn {users} is done. ")),
    })
    .await;
    let ended = Running::start(editor(&lab, &server, "Write it").await).end().await.with_code(0);
    let seen: Value = serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{ended:#?}"));
    assert_eq!(seen["version"], 1);
    assert_eq!(seen["modes"], json!(["ask", "deny", "auto"]));
    assert_eq!(seen["stops"], json!(["end_turn", "end_turn"]));
    // Once it was asked, and then it had said that it is not to be.
    assert_eq!(seen["asked"], json!(["terminal echo from the shell"]));
    let wrote = json!(["tool_call_update", "call_1_0", "completed", ["diff"]]);
    assert!(seen["seen"].as_array().unwrap().contains(&wrote), "{seen:#}");
    let said = &seen["text"]["agent_message_chunk"];
    assert_eq!(said, "Turn 1 is done. Turn 2 is done. ");
    assert_eq!(seen["replayed"]["user_message_chunk"], "Write itmore");
    assert_eq!(&seen["replayed"]["agent_message_chunk"], said);
    assert_eq!(seen["listed"], json!(["Write it"]));
    nothing_left(&lab).await;
}

#[tokio::test]
async fn an_editor_that_is_killed_leaves_nothing() {
    let lab = Lab::new();
    let mut begun = lab.pipe("begun");
    let line = format!("echo begun > begun; sleep {}", lab.mark());
    let server = steps(vec![("terminal", json!({"command": line}))]).await;
    let running = Running::start(editor(&lab, &server, "Sleep").await);
    begun.lines(1).await;
    assert!(lab.processes().len() > 2, "the editor, the agent, and what it started");
    running.signal(Signal::KILL);
    nothing_left(&lab).await;
}
