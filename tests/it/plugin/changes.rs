//! A plugin whose list of tools changes while an agent lives.

use std::fs;

use deputize_core::model::Reply;
use deputize_testkit::{MockAnswer, MockServer};
use serde_json::{Value, json};

use super::rude::SOURCE;
use super::{compiled, configure};
use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, model};

/// Returns the names of the tools of each request, and the description of `rude`.
fn describe(server: &MockServer) -> Vec<(Vec<String>, String)> {
    let one = |body: Value| {
        let tools = body["tools"].as_array().cloned().unwrap_or_default();
        let text = |tool: &Value, key: &str| tool["function"][key].as_str().unwrap().to_owned();
        let rude = tools.iter().find(|tool| tool["function"]["name"] == "rude");
        let names = tools.iter().map(|tool| text(tool, "name")).collect();
        (names, rude.map(|tool| text(tool, "description")).unwrap_or_default())
    };
    server.requests().iter().map(|request| one(request.json())).collect()
}

/// How the calls of a tool ended.
fn ends(ended: &ProgramEnd, tool: &str) -> Vec<String> {
    let ends = ended.events("tool.end");
    let ends = ends.iter().filter(|end| end["tool"] == tool);
    ends.map(|end| end["status"].as_str().unwrap().to_owned()).collect()
}

/// A model that calls the plugin before and after its process dies, and then a tool that the
/// plugin did not have when the agent began; a child does that too. What it does meanwhile is
/// done before its second reply.
async fn caller(meanwhile: impl Fn() + Send + Sync + 'static) -> MockServer {
    model(move |asked: &ChatRequest| {
        let child = asked.first_user().contains("Look");
        let reply = |calls: &[(&str, Value)]| Reply::calls("mock", calls.to_vec());
        MockAnswer::reply(&match (child, asked.replies()) {
            (false, 0) => reply(&[("rude", json!({}))]),
            (false, 1) => {
                meanwhile();
                reply(&[("rude", json!({"how": "segv"}))])
            }
            (false, 2) | (true, 0) => reply(&[("rude", json!({}))]),
            (false, 3) => reply(&[("delegate_task", json!({"goal": "Look"}))]),
            (false, 4 | 6) | (true, 1) => reply(&[("ruder", json!({}))]),
            _ => Reply::text("mock", "Seen."),
        })
    })
    .await
}

#[tokio::test]
async fn a_list_that_changes_is_for_the_next_agent_and_gives_none_that_lives_more() {
    let lab = Lab::new();
    let library = compiled(&lab, SOURCE, "librude", &[]);
    let tool = |name: &str| {
        json!({"name": name, "description": "Now.", "effects": "read_only",
               "parameters": {"type": "object"}})
    };
    let tools = [tool("rude"), tool("ruder")];
    let described = json!({"ok": {"name": "rude", "version": "2", "tools": tools}}).to_string();
    let changed = compiled(&lab, SOURCE, "changed", &[&format!("-DDESCRIBED={described:?}")]);
    configure(&lab, &[(&library, true)]);
    let args = ["--approve", "auto", "--output", "events", "go"];

    // While the agent lives another file takes its place, and the plugin has to be started anew.
    let from = changed.clone();
    let to = library.clone();
    let server = caller(move || fs::rename(&from, &to).unwrap()).await;
    let ended = lab.run(&server, &args).end().await.with_code(0);
    let session = lab.session();
    assert_eq!(ends(&ended, "rude"), ["ok", "error", "error", "error"], "{}", ended.err);
    assert!(ended.err.contains("is not the file that was pinned"), "{}", ended.err);
    assert_eq!(ends(&ended, "ruder"), ["error", "error"], "nobody may do more than before");
    let requests = describe(&server);
    assert_eq!(requests.len(), 9, "six of the top agent, three of the child");
    for (names, rude) in &requests {
        assert!(names.contains(&"rude".to_owned()), "{names:?}");
        assert!(!names.contains(&"ruder".to_owned()), "{names:?}");
        assert_eq!(rude, "Breaks the contract.");
    }
    let before = requests[0].clone();

    // An agent that begins when the person has said that it is this file has its list; so has its
    // child.
    configure(&lab, &[(&library, true)]);
    let server = caller(|| {}).await;
    let ended = lab.run(&server, &args).end().await.with_code(0);
    assert_eq!(ends(&ended, "ruder"), ["ok", "ok"], "{}", ended.err);
    for (names, rude) in describe(&server) {
        assert!(names.contains(&"ruder".to_owned()) && rude == "Now.", "{names:?} {rude}");
    }

    // One that began before goes on as it began.
    let server = caller(|| {}).await;
    let address = server.base_url();
    let resume = ["run", "--resume", &session, "--base-url", &address];
    let resume = lab.deputize(&[&resume, &args[..]].concat());
    let ended = RunningProgram::start(resume).end().await.with_code(0);
    assert_eq!(ends(&ended, "ruder"), ["error"], "{}", ended.err);
    let requests = describe(&server);
    assert!(requests.iter().all(|actual| *actual == before), "{requests:?} {before:?}");
    assert_eq!(lab.processes(), []);
}
