//! Models that call no tools: each reply follows a schema that is one of the tools.

use std::fs;

use deputize_core::model::Reply;
use deputize_testkit::{HttpRequest, MockAnswer, MockServer};
use serde_json::{Value, json};

use crate::program::{Lab, ProgramEnd, RunningProgram};

const SET: [&str; 2] = ["--set", "providers.openai.tools=constrained"];

/// A server without tool calling: it refuses tools, and makes a text that its schema allows. It lists
/// the directory once, and then answers.
async fn server() -> MockServer {
    MockServer::start_with(|request: &HttpRequest| {
        let body = request.json();
        if body.get("tools").is_some() || body.to_string().contains("\"tool_calls\"") {
            return MockAnswer::error(400, "this server has no tools");
        }
        let listed = body["messages"].to_string().contains("Result of list_dir:");
        let step = match listed {
            true => json!({"answer": "There is one file."}),
            false => json!({"tool": "list_dir", "arguments": {"depth": 1}}),
        };
        let schema = &body["response_format"]["json_schema"]["schema"];
        MockAnswer::reply(&match allows(schema, &step) {
            true => Reply::text("mock", step.to_string()),
            false => Reply::text("mock", "No schema asked for that."),
        })
    })
    .await
    .unwrap()
}

/// Whether one of the forms of a schema has the members of a step, and its tool.
fn allows(schema: &Value, step: &Value) -> bool {
    let fits = |form: &Value| {
        let properties = form["properties"].as_object().unwrap();
        let members = step.as_object().unwrap();
        properties.keys().eq(members.keys())
            && properties.get("tool").is_none_or(|tool| tool["const"] == step["tool"])
    };
    schema["anyOf"].as_array().is_some_and(|forms| forms.iter().any(fits))
}

async fn run(lab: &Lab, server: &MockServer, args: &[&str]) -> ProgramEnd {
    let url = server.base_url();
    let all = [&["run", "-m", "openai/mock", "--base-url", &url], &SET[..], args].concat();
    RunningProgram::start(lab.deputize(&all)).end().await
}

#[tokio::test]
async fn a_model_that_calls_no_tools_works_by_steps() {
    let lab = Lab::new();
    fs::write(lab.work("kite.txt"), "").unwrap();
    let server = server().await;
    let args = ["--output", "events", "--record", "tape", "What is here?"];
    let ended = run(&lab, &server, &args).await.with_code(0);
    let end = &ended.events("tool.end")[0];
    assert_eq!((&end["tool"], &end["status"]), (&json!("list_dir"), &json!("ok")), "{}", ended.out);
    let requests = server.requests();
    let messages = requests[1].json()["messages"].clone();
    let [system, user, step, result] = messages.as_array().unwrap().as_slice() else {
        panic!("{messages:#}")
    };
    assert!(
        system["content"].as_str().unwrap().contains("\nlist_dir: List a directory"),
        "{system}"
    );
    assert_eq!(user["content"], "What is here?");
    let text = r#"{"tool":"list_dir","arguments":{"depth":1}}"#;
    assert_eq!((&step["role"], &step["content"]), (&json!("assistant"), &json!(text)));
    assert_eq!(result["role"], "user");
    assert!(result["content"].as_str().unwrap().contains("kite.txt"), "{result}");

    // What it said is shown as its answer, and the second turn goes on.
    let answer = ended.events("model.response")[1]["text"].clone();
    assert_eq!(answer, "There is one file.");
    let played = RunningProgram::start(lab.deputize(&["run", "--replay", "tape"])).end().await;
    assert_eq!(played.with_code(0).out.trim_end(), "There is one file.");
}

#[tokio::test]
async fn what_prompt_prints_is_what_a_constrained_model_is_sent() {
    let lab = Lab::new();
    let server = server().await;
    run(&lab, &server, &["What is here?"]).await.with_code(0);
    let url = server.base_url();
    let prompt = ["prompt", "--json", "-m", "openai/mock", "--base-url", &url, "What is here?"];
    let printed = RunningProgram::start(lab.deputize(&[&prompt[..], &SET].concat())).end().await;
    assert_eq!(printed.with_code(0).out.trim_end(), server.requests()[0].text());
}

#[tokio::test]
async fn other_wires_say_that_they_cannot() {
    let lab = Lab::new();
    let api = ["-m", "openai/mock", "--base-url", "http://127.0.0.1:9/v1", "Go"];
    let set = ["run", "--set", "providers.openai.api=openai-responses"];
    let command = lab.deputize(&[&set[..], &SET, &api].concat());
    let ended = RunningProgram::start(command).end().await.with_code(2);
    assert!(ended.err.contains("`constrained` tools need Chat Completions"), "{}", ended.err);
}

#[tokio::test]
async fn a_call_that_is_written_as_text_is_warned_of() {
    let said = r#"<tool_call>{"name": "list_dir"}</tool_call>"#;
    let answer = |text: &'static str| async move {
        let lab = Lab::new();
        let server = MockServer::start_with(move |_: &HttpRequest| {
            MockAnswer::reply(&Reply::text("mock", text))
        });
        lab.run(&server.await.unwrap(), &["Go"]).end().await.with_code(0)
    };
    let ended = answer(said).await;
    let warning = "warning: the answer is a call of a tool as text, and nothing ran: ";
    assert!(ended.err.contains(warning) && ended.out.contains(said), "{}", ended.err);
    let ended = answer("A `<tool_call>` is a mark.").await;
    assert!(!ended.err.contains(warning), "{}", ended.err);
}
