//! Real clients: an editor's side made with the official Python package, and a program from npm.

use deputize_requirements::require;
use deputize_testkit::MockServer;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::process::Command;

use super::{calls, nothing_left, steps, text};
use crate::acp::{fixture, installed};
use crate::mcp::npm;
use crate::program::{ChatRequest, Lab, PROGRAM, RunningProgram, model};

/// The editor, with a task, and this program as its agent.
pub(super) async fn editor(lab: &Lab, server: &MockServer, task: &str) -> Command {
    let place = installed().await.unwrap();
    let mut editor = lab.command("python3");
    editor.arg(fixture("editor.py")).arg(place).arg(task);
    editor.args([PROGRAM, "acp", "-m", "openai/mock", "--base-url", &server.base_url()]);
    editor
}

#[tokio::test]
async fn an_editor_of_the_official_package_works_with_it() {
    require!(installed().await);
    let lab = Lab::new();
    let server = model(|asked: &ChatRequest| match (asked.users().len(), asked.results().len()) {
        (1, 0) => calls("write_file", json!({"path": "a.txt", "content": "a\n"})),
        (1, 1) | (2, 2) => calls("terminal", json!({"command": "echo from the shell"})),
        (users, _) => text(format!("Turn {users} is done. ")),
    })
    .await;
    let ended =
        RunningProgram::start(editor(&lab, &server, "Write it").await).end().await.with_code(0);
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

/// `acpx`, which gives an agent one task at a terminal; each message that went to and fro.
async fn acpx(lab: &Lab, server: &MockServer, (answer, code): (&str, i32)) -> Vec<Value> {
    let place = npm("acp").await.unwrap();
    let mut client = lab.command("node");
    client.arg(place.join("node_modules/acpx/dist/cli.js"));
    let agent = format!("{PROGRAM} acp -m openai/mock --base-url {}", server.base_url());
    client.args(["--agent", &agent, "--format", "json", answer, "exec", "Do it"]);
    let ended = RunningProgram::start(client).end().await.with_code(code);
    ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_client_from_npm_works_with_it() {
    require!(npm("acp").await);
    // It says by its exit code whether it denied all.
    for (answer, ran, status) in
        [(("--approve-all", 0), true, "completed"), (("--deny-all", 5), false, "failed")]
    {
        let lab = Lab::new();
        let server = steps(vec![
            ("write_file", json!({"path": "a.txt", "content": "a\n"})),
            ("terminal", json!({"command": "touch ran"})),
        ])
        .await;
        let messages = acpx(&lab, &server, answer).await;
        let asked = |method: &str| messages.iter().filter(|it| it["method"] == method).count();
        assert_eq!(asked("session/request_permission"), 1, "{messages:#?}");
        let updates = messages.iter().map(|message| &message["params"]["update"]);
        let ends = |call: &str| {
            let mut ends = updates.clone().filter(|update| update["toolCallId"] == call);
            ends.next_back().unwrap()["status"].clone()
        };
        assert_eq!((ends("call_1_0"), ends("call_2_0")), (json!("completed"), json!(status)));
        assert_eq!(lab.work("ran").exists(), ran);
        assert!(lab.work("a.txt").is_file(), "who denies commands lets files be written");
        let last = messages.iter().rfind(|it| it.get("result").is_some()).unwrap();
        assert_eq!(last["result"]["stopReason"], "end_turn", "{last}");
        nothing_left(&lab).await;
    }
}

#[tokio::test]
async fn an_editor_that_is_killed_leaves_nothing() {
    require!(installed().await);
    let lab = Lab::new();
    let mut begun = lab.pipe("begun");
    let line = format!("echo begun > begun; sleep {}", lab.mark());
    let server = steps(vec![("terminal", json!({"command": line}))]).await;
    let running = RunningProgram::start(editor(&lab, &server, "Sleep").await);
    begun.lines(1).await;
    // Only root sees the agent itself, whose environment is closed to others.
    let processes = lab.processes();
    assert!(processes.iter().any(|(_, line)| line.contains(lab.mark())), "{processes:?}");
    running.signal(Signal::KILL);
    nothing_left(&lab).await;
}
