//! More tools of servers than a model is sent: it finds them with one tool, and calls them with
//! another.

use deputize_core::model::Reply;
use deputize_testkit::{MockAnswer, MockServer};
use serde_json::{Value, json};

use super::fixture::{approve, deputize, set};
use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, model};

const SERVER: &str = "two hundred tools";
const TOOL: &str = "mcp__w__archive_parcel";
const AUTO: [&str; 6] =
    ["--approve", "auto", "--set", "delegation.approvals=auto", "--output", "events"];

/// A call of a server's tool through the index.
fn through(tool: &str, arguments: &Value) -> (&'static str, Value) {
    ("mcp_call", json!({"name": tool, "arguments": arguments}))
}

/// A model that searches, calls what it found first, and repeats the results.
async fn searcher() -> MockServer {
    model(|asked: &ChatRequest| {
        MockAnswer::reply(&match asked.replies() {
            0 => Reply::calls("mock", [("mcp_search", json!({"query": "archive a parcel"}))]),
            1 => {
                let found = asked.results()[0].lines().find(|line| line.starts_with("mcp__"));
                Reply::calls("mock", [through(found.unwrap(), &json!({"id": "7"}))])
            }
            _ => Reply::text("mock", asked.results().join("\n")),
        })
    })
    .await
}

/// The tools of each request, as they were sent.
fn sent(server: &MockServer) -> Vec<String> {
    server.requests().iter().map(|request| request.json()["tools"].to_string()).collect()
}

/// The tools that ran, each with its status.
fn ends(ended: &ProgramEnd) -> Vec<(String, String)> {
    let field = |end: &Value, name: &str| end[name].as_str().unwrap().to_owned();
    let ends = ended.events("tool.end");
    ends.iter().map(|end| (field(end, "tool"), field(end, "status"))).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(tool, status)| ((*tool).to_owned(), (*status).to_owned())).collect()
}

#[tokio::test]
async fn a_call_through_the_index_is_a_call_of_the_tool() {
    let lab = Lab::new();
    let own = set(SERVER);
    approve(&lab, &own).await;
    let server = searcher().await;
    let args = [&AUTO[..], &["--record", "tape", "--set", &own, "go"]].concat();
    let ended = lab.run(&server, &args).end().await.with_code(0);

    let names = ChatRequest::of(&server.requests()[0]).tools().join(" ");
    assert!(names.contains("mcp_search mcp_call ") && !names.contains("mcp__"), "{names}");
    let tools = sent(&server);
    assert!(tools[0].contains("There are 200 tools, of these servers: w (200)."), "{}", tools[0]);
    assert!(tools.iter().all(|sent| *sent == tools[0]), "to the byte");

    assert_eq!(ends(&ended), pairs(&[("mcp_search", "ok"), (TOOL, "ok")]));
    let start = &ended.events("tool.start")[1];
    assert_eq!((&start["tool"], &start["args_preview"]), (&json!(TOOL), &json!("{\"id\":\"7\"}")));
    let asked = &ended.events("approval.request")[0];
    assert_eq!(asked["command"], format!("{TOOL} {{\"id\":\"7\"}}"));
    let has = ended.events("agent.start")[0]["tools"].to_string();
    assert!(has.contains(TOOL) && !has.contains("mcp_call"), "it has the tools themselves: {has}");
    // What the model wrote goes back to it as it wrote it.
    let last = server.requests().pop().unwrap().text();
    assert!(last.contains(r#""name":"mcp_call""#), "{last}");

    // Nothing is asked of server or model to play it.
    let played = deputize(&lab, &["run", "--replay", "tape"]).await.with_code(0);
    assert!(played.out.contains("archive_parcel"), "{}", played.out);
}

#[tokio::test]
async fn a_call_through_the_index_is_judged_as_any_other() {
    let own = set(SERVER);
    let calls = || {
        vec![
            through(TOOL, &json!({"id": "7"})),
            through(TOOL, &json!({"id": "7", "command": "rm -rf /"})),
            through(TOOL, &json!({"id": 7})),
            through("mcp__w__archive_parcels", &json!({"id": "7"})),
            through("list_dir", &json!({})),
            ("mcp_call", json!({"arguments": {}})),
            // A model that knows the name needs no index.
            (TOOL, json!({"id": "8"})),
            // Arguments in a text, as some models send them.
            ("mcp_call", json!({"name": TOOL, "arguments": "{\"id\": \"9\"}"})),
        ]
    };
    for (approve_mode, yes) in [("auto", "ok"), ("deny", "denied")] {
        let lab = Lab::new();
        approve(&lab, &own).await;
        let server = model(move |asked: &ChatRequest| {
            MockAnswer::reply(&match asked.replies() {
                0 => Reply::calls("mock", calls()),
                _ => Reply::text("mock", asked.results().join("\n---\n")),
            })
        })
        .await;
        let args = ["--output", "events", "--approve", approve_mode, "--set", &own, "go"];
        let ended = lab.run(&server, &args).end().await.with_code(0);
        let mut ends = ends(&ended);
        ends.sort();
        let mut expected = pairs(&[
            (TOOL, yes),
            (TOOL, "denied"),
            (TOOL, "error"),
            ("mcp_call", "error"),
            ("mcp_call", "error"),
            ("mcp_call", "error"),
            (TOOL, yes),
            (TOOL, yes),
        ]);
        expected.sort();
        assert_eq!(ends, expected, "{}", ended.out);
        let answer = ended.out;
        for words in [
            "this never runs here",
            "7 is not of type",
            "Did you mean mcp__w__archive_parcel?",
            "`list_dir` is no tool of an MCP server: call it by its own name",
            "\\\"name\\\" is a required property",
        ] {
            assert!(answer.contains(words), "{words}: {answer}");
        }
    }
}

#[tokio::test]
async fn children_find_the_tools_that_they_have() {
    let own = set(SERVER);
    let lab = Lab::new();
    approve(&lab, &own).await;
    let server = model(|asked: &ChatRequest| {
        let first = asked.first_user().to_owned();
        MockAnswer::reply(&match (first.ends_with("go"), asked.replies()) {
            (true, 0) => {
                let task = |goal: &str, set: &str| json!({"goal": goal, "toolsets": [set]});
                let tasks = [task("Look with it", "mcp-w"), task("Look without", "file")];
                Reply::calls("mock", [("delegate_task", json!({ "tasks": tasks }))])
            }
            (false, 0) => Reply::calls("mock", [through(TOOL, &json!({"id": "below"}))]),
            _ => Reply::text("mock", asked.results().join("\n")),
        })
    })
    .await;
    let without = ["--set", "delegation.inherit_mcp_toolsets=false"];
    let args = [&AUTO[..], &without, &["--record", "tape", "--set", &own, "go"]].concat();
    let ended = lab.run(&server, &args).end().await.with_code(0);
    let mut ends = ends(&ended);
    ends.retain(|(tool, _)| tool != "delegate_task");
    ends.sort();
    assert_eq!(ends, pairs(&[(TOOL, "ok"), ("mcp_call", "error")]), "{}", ended.out);
    let trace = format!("\\\"tool_trace\\\":[{{\\\"tool\\\":\\\"{TOOL}\\\",\\\"args_bytes\\\":14,");
    assert!(ended.out.contains(&trace), "{trace}: {}", ended.out);
    let of = |goal: &str| {
        let requests = server.requests();
        let is = |request: &&_| ChatRequest::of(request).first_user().contains(goal);
        ChatRequest::of(requests.iter().find(is).unwrap()).tools().join(" ")
    };
    assert_eq!(of("Look with it"), "mcp_search mcp_call");
    assert!(!of("Look without").contains("mcp_"), "{}", of("Look without"));
    deputize(&lab, &["run", "--replay", "tape"]).await.with_code(0);
}

#[tokio::test]
async fn a_resumed_agent_is_sent_what_it_was_sent() {
    let own = set(SERVER);
    let lab = Lab::new();
    approve(&lab, &own).await;
    let first = searcher().await;
    let args = [&AUTO[..], &["--set", &own, "go"]].concat();
    lab.run(&first, &args).end().await.with_code(0);
    let again = searcher().await;
    // The limit of today does not matter to it.
    let (session, address) = (lab.session(), again.base_url());
    let limit = ["--set", &own, "--set", "limits.mcp_schema_bytes=1000000"];
    let resume = ["--resume", &session, "--base-url", &address, "And now?"];
    let resumed = lab.deputize(&[&["run"], &AUTO[..], &limit, &resume].concat());
    RunningProgram::start(resumed).end().await.with_code(0);
    assert_eq!(sent(&again)[0], sent(&first)[0]);
}

#[tokio::test]
async fn tools_within_the_limit_are_sent_themselves() {
    let lab = Lab::new();
    let own = set(SERVER);
    approve(&lab, &own).await;
    let list = async |limit: &str| {
        let args = ["tools", "list", "--json", "--set", &own, "--set", limit];
        deputize(&lab, &args).await.with_code(0)
    };
    let row = |listed: &ProgramEnd, name: &str| {
        let rows: Vec<Value> = serde_json::from_str(&listed.out).unwrap();
        rows.into_iter().find(|row| row["name"] == name).unwrap()
    };
    let many = list("limits.mcp_schema_bytes=16384").await;
    assert_eq!(row(&many, TOOL)["found_by"], "mcp_search");
    assert_eq!(row(&many, "mcp_search")["usable"], true);
    let few = list("limits.mcp_schema_bytes=1000000").await;
    assert_eq!(row(&few, TOOL)["found_by"], Value::Null);
    let why = row(&few, "mcp_search")["why_not"].as_str().unwrap().to_owned();
    assert!(why.contains("(limits.mcp_schema_bytes is 1000000)"), "{why}");

    let prompt = async |limit: &str| {
        let args = ["prompt", "--tools", "--set", &own, "--set", limit];
        deputize(&lab, &args).await.with_code(0).out
    };
    let many = prompt("limits.mcp_schema_bytes=16384").await;
    assert!(many.contains("\nmcp_search\n") && !many.contains(TOOL), "{many}");
    let few = prompt("limits.mcp_schema_bytes=1000000").await;
    assert!(!few.contains("\nmcp_search\n") && few.contains(TOOL), "{few}");
    let shown = deputize(&lab, &["tools", "show", "mcp_call", "--set", &own]).await.with_code(0);
    assert!(shown.out.contains("usable:  yes"), "{}", shown.out);
}
