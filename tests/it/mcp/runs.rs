//! Servers in runs: what children have of them, and a run that is played.

use deputize_core::model::Reply;
use deputize_testkit::MockAnswer;
use serde_json::json;

use super::fixture::{approve, caller, deputize, set};
use crate::program::{ChatRequest, Lab, model};

#[tokio::test]
async fn children_have_the_tools_of_servers_unless_the_operator_says_otherwise() {
    let server = model(|asked: &ChatRequest| {
        let first = asked.first_user().to_owned();
        MockAnswer::reply(&match (first.ends_with("go"), asked.replies()) {
            (true, 0) => {
                let task = json!({"goal": "Look", "toolsets": ["file"]});
                Reply::calls("mock", [("delegate_task", task)])
            }
            (false, 0) => Reply::calls("mock", [("mcp__w__echo", json!({"text": "below"}))]),
            _ => Reply::text("mock", asked.results().join("\n")),
        })
    })
    .await;
    for (inherit, words) in [("true", "echo: below"), ("false", "there is no tool `mcp__w__echo`")]
    {
        let lab = Lab::new();
        let own = set("none");
        approve(&lab, &own).await;
        let inherit = format!("delegation.inherit_mcp_toolsets={inherit}");
        let auto = ["--set", "delegation.approvals=auto", "--set", &inherit, "--set", &own];
        let args = [&auto[..], &["go"]].concat();
        let ended = lab.run(&server, &args).end().await.with_code(0);
        assert!(ended.out.contains(words), "{words}: {}", ended.out);
        assert_eq!(lab.processes(), []);
    }
}

#[tokio::test]
async fn a_recorded_run_with_a_server_is_played_without_it() {
    let lab = Lab::new();
    let server = caller().await;
    let own = set("none");
    let args = ["--approve", "auto", "--record", "tape", "--set", &own, "go"];
    let ended = lab.run(&server, &args).end().await.with_code(0);
    assert!(ended.out.contains("echo: hello"), "{}", ended.out);
    let played = deputize(&lab, &["run", "--replay", "tape"]).await.with_code(0);
    assert_eq!(played.out, ended.out);
}

#[tokio::test]
async fn a_memory_that_is_written_after_a_result_of_a_server_names_the_server() {
    let lab = Lab::new();
    let own = set("none");
    approve(&lab, &own).await;
    let server = model(|asked: &ChatRequest| {
        let entry = json!({"action": "add", "topic": "work", "text": "It echoes."});
        MockAnswer::reply(&match asked.replies() {
            0 => Reply::calls("mock", [("mcp__w__echo", json!({"text": "hello"}))]),
            1 => Reply::calls("mock", [("memory", entry)]),
            _ => Reply::text("mock", "Done."),
        })
    })
    .await;
    let args = ["--approve", "auto", "--set", &own, "go"];
    lab.run(&server, &args).end().await.with_code(0);
    let kept = std::fs::read_to_string(lab.path("home/memory/work.md")).unwrap();
    assert_eq!(kept, "# About the work\n- It echoes. [written after reading mcp:w]\n");
}
