//! A server whose list of tools changes while agents live, and what it has beside tools.

use std::collections::BTreeSet;

use deputize_core::Reply;
use deputize_testkit::{Answer, MockServer};
use serde_json::{Value, json};

use crate::program::{Asked, Ended, Lab, Running, model};

const SERVER: &str = env!("CARGO_BIN_EXE_deputize-mcp-faulty");

/// The names of the tools of each request.
fn told(server: &MockServer) -> Vec<Vec<String>> {
    let names = |body: Value| {
        let tools = body["tools"].as_array().cloned().unwrap_or_default();
        let name = |tool: &Value| tool["function"]["name"].as_str().unwrap().to_owned();
        tools.iter().map(name).collect()
    };
    server.requests().iter().map(|request| names(request.json())).collect()
}

/// A model that calls `echo`, hands on to a child that calls it too, and calls it again. Parent and
/// child then call `more`, which the server has by now.
async fn three_calls() -> MockServer {
    model(|asked: &Asked| {
        let echo = |text: &str| Reply::calls("mock", [("mcp__w__echo", json!({"text": text}))]);
        let more = || Reply::calls("mock", [("mcp__w__more", json!({}))]);
        let child = !asked.first_user().ends_with("go");
        Answer::reply(&match (child, asked.replies()) {
            (false, 0) => echo("one"),
            (false, 1) => Reply::calls("mock", [("delegate_task", json!({"goal": "Look"}))]),
            (false, 2) => echo("three"),
            (true, 0) => echo("two"),
            (false, 3 | 5) | (true, 1) => more(),
            _ => Reply::text("mock", asked.results().join("\n")),
        })
    })
    .await
}

#[tokio::test]
async fn a_list_that_changes_is_for_the_next_session_and_no_agents_tools_change_while_it_lives() {
    for protocol in ["", "newer: "] {
        let lab = Lab::new();
        let mark = lab.path("mark").to_str().unwrap().to_owned();
        let fault = format!("{protocol}adds a tool");
        let set = format!("mcp_servers.w={}", json!({"command": SERVER, "args": [fault, mark]}));
        let auto = ["--approve", "auto", "--set", "delegation.approvals=auto", "--set", &set, "go"];

        // The server tells of its new tool in the first call.
        let server = three_calls().await;
        let events = [&["--output", "events"], &auto[..]].concat();
        let ended = lab.run(&server, &events).end().await.with_code(0);
        for words in ["echo: one", "echo: two", "echo: three"] {
            assert!(ended.out.contains(words), "{words}: {}", ended.out);
        }
        let requests = told(&server);
        assert_eq!(requests.len(), 8, "five of the top agent, three of the child");
        let top: BTreeSet<&Vec<String>> =
            requests.iter().filter(|tools| tools.contains(&"delegate_task".to_owned())).collect();
        assert_eq!(top.len(), 1, "the same tools in the same order: {top:?}");
        let before = top.first().copied().unwrap();
        assert!(requests.iter().all(|tools| tools.contains(&"mcp__w__echo".to_owned())));
        let more = |requests: &[Vec<String>]| {
            requests.iter().filter(|tools| tools.contains(&"mcp__w__more".to_owned())).count()
        };
        assert_eq!(more(&requests), 0, "also a child that began afterwards");
        let calls = |ended: &Ended| {
            let ends = ended.events("tool.end");
            let ends = ends.iter().filter(|end| end["tool"] == "mcp__w__more");
            ends.map(|end| end["status"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(calls(&ended), ["error", "error"], "nobody may do more than before");
        let session = lab.session();

        // It is known from then on, and waits for the person.
        let server = three_calls().await;
        let ended = lab.run(&server, &auto).end().await.with_code(0);
        assert!(ended.err.contains("mcp w: tool \"more\" is new. Review with"), "{}", ended.err);
        assert_eq!(more(&told(&server)), 0);
        let review = ["mcp", "review", "w", "--yes", "--set", &set];
        Running::start(lab.deputize(&review)).end().await.with_code(0);
        let server = three_calls().await;
        lab.run(&server, &auto).end().await.with_code(0);
        let requests = told(&server);
        assert_eq!(more(&requests), requests.len(), "top agent and child, from the first request");

        // An agent that began before goes on as it began, though the program has the tool now.
        let server = three_calls().await;
        let address = server.base_url();
        let resume = ["run", "--resume", &session, "--base-url", &address, "--output", "events"];
        let resume = lab.deputize(&[&resume, &auto[..]].concat());
        let ended = Running::start(resume).end().await.with_code(0);
        assert_eq!(calls(&ended), ["error"], "{}", ended.err);
        let requests = told(&server);
        assert!(requests.iter().all(|tools| *tools == *before), "{requests:?} {before:?}");
        assert_eq!(lab.processes(), []);
    }
}

#[tokio::test]
async fn what_a_server_has_beside_tools_is_listed_and_read_by_tools() {
    let lab = Lab::new();
    let server = model(|asked: &Asked| {
        let calls = [
            ("mcp__w__list_resources", json!({})),
            ("mcp__w__read_resource", json!({"uri": "x://1"})),
            ("mcp__w__list_prompts", json!({})),
            ("mcp__w__get_prompt", json!({"name": "ask"})),
        ];
        Answer::reply(&match asked.replies() {
            0 => Reply::calls("mock", calls),
            _ => Reply::text("mock", asked.results().join("\n====\n")),
        })
    })
    .await;
    let fault = json!({"command": SERVER, "args": ["resources and prompts"]});
    let set = format!("mcp_servers.w={fault}");
    let ended = lab.run(&server, &["--approve", "auto", "--set", &set, "go"]).end().await;
    let ended = ended.with_code(0);
    let found: Vec<&str> = ended.out.split("\n====\n").collect();
    let parts: [&[&str]; 4] = [
        &["\"uri\":\"x://1\"", "\"name\":\"one\""],
        // Bytes are kept in a file beside the session.
        &["the one", "x://2", "3 bytes"],
        &["\"name\":\"ask\""],
        &["user:", "Ask me."],
    ];
    for (result, parts) in found.iter().zip(parts) {
        assert!(parts.iter().all(|part| result.contains(part)), "{parts:?}: {result}");
    }
    assert_eq!(found.len(), parts.len(), "{}", ended.out);
    assert_eq!(lab.processes(), []);
}
