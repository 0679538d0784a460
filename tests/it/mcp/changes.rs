//! A server whose list of tools changes while agents live, and what it has beside tools.

use parking_lot::Mutex;
use std::collections::BTreeSet;

use deputize_core::model::Reply;
use deputize_requirements::{program, require};
use deputize_testkit::{HttpRequest, MockAnswer, MockServer};
use serde_json::{Value, json};

use super::fixture::{SERVER, approve, deputize};
use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, model};

const ECHO: &str = "mcp__w__echo";
/// That of children.
const TASK: &str = "Look at what there is";

/// The tools of each request, as they were sent, of those that are the child's or the others.
fn sent(server: &MockServer, child: bool) -> Vec<Value> {
    let requests = server.requests();
    let of = |request: &&HttpRequest| ChatRequest::of(request).first_user().contains(TASK) == child;
    requests.iter().filter(of).map(|request| request.json()["tools"].clone()).collect()
}

fn names(tools: &Value) -> Vec<String> {
    let tools = tools.as_array().cloned().unwrap_or_default();
    let name = |tool: &Value| tool["function"]["name"].as_str().unwrap().to_owned();
    tools.iter().map(name).collect()
}

/// The names of the tools of each request.
fn describe(server: &MockServer) -> Vec<Vec<String>> {
    server.requests().iter().map(|request| names(&request.json()["tools"])).collect()
}

/// A server with this fault, which leaves a mark.
fn marking(lab: &Lab, fault: &str) -> String {
    let mark = lab.path("mark").to_str().unwrap().to_owned();
    format!("mcp_servers.w={}", json!({"command": SERVER, "args": [fault, mark]}))
}

/// A model that calls `echo`, hands on to a child that calls it too, and calls it again. Parent and
/// child then call `more`, which the server has by now.
async fn three_calls() -> MockServer {
    model(|asked: &ChatRequest| {
        let echo = |text: &str| Reply::calls("mock", [("mcp__w__echo", json!({"text": text}))]);
        let more = || Reply::calls("mock", [("mcp__w__more", json!({}))]);
        let child = !asked.first_user().ends_with("go");
        MockAnswer::reply(&match (child, asked.replies()) {
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
        let set = marking(&lab, &format!("{protocol}adds a tool"));
        let auto = ["--approve", "auto", "--set", "delegation.approvals=auto", "--set", &set, "go"];

        // The server tells of its new tool in the first call.
        let server = three_calls().await;
        let events = [&["--output", "events"], &auto[..]].concat();
        let ended = lab.run(&server, &events).end().await.with_code(0);
        for words in ["echo: one", "echo: two", "echo: three"] {
            assert!(ended.out.contains(words), "{words}: {}", ended.out);
        }
        let requests = describe(&server);
        assert_eq!(requests.len(), 8, "five of the top agent, three of the child");
        let top: BTreeSet<&Vec<String>> =
            requests.iter().filter(|tools| tools.contains(&"delegate_task".to_owned())).collect();
        assert_eq!(top.len(), 1, "the same tools in the same order: {top:?}");
        let before = top.first().copied().unwrap();
        assert!(requests.iter().all(|tools| tools.contains(&"mcp__w__echo".to_owned())));
        let more = |requests: &[Vec<String>]| {
            requests.iter().filter(|tools| tools.contains(&"mcp__w__more".to_owned())).count()
        };
        assert_eq!(more(&requests), 0, "nor has a child what its parent has not");
        let calls = |ended: &ProgramEnd| {
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
        assert_eq!(more(&describe(&server)), 0);
        approve(&lab, &set).await;
        let server = three_calls().await;
        lab.run(&server, &auto).end().await.with_code(0);
        let requests = describe(&server);
        assert_eq!(more(&requests), requests.len(), "top agent and child, from the first request");

        // An agent that began before goes on as it began, though the program has the tool now.
        let server = three_calls().await;
        let address = server.base_url();
        let resume = ["run", "--resume", &session, "--base-url", &address, "--output", "events"];
        let resume = lab.deputize(&[&resume, &auto[..]].concat());
        let ended = RunningProgram::start(resume).end().await.with_code(0);
        assert_eq!(calls(&ended), ["error"], "{}", ended.err);
        let requests = describe(&server);
        assert!(requests.iter().all(|tools| *tools == *before), "{requests:?} {before:?}");
        assert_eq!(lab.processes(), []);
    }
}

/// A model that calls `echo` until it was answered, and hands on to children, before each of which
/// something is done; then it calls `echo` once more. Children call it where they have it.
async fn hands_on(children: usize, between: impl Fn(usize) + Send + Sync + 'static) -> MockServer {
    let between = Mutex::new(between);
    model(move |asked: &ChatRequest| {
        let echo = |text: &str| Reply::calls("mock", [(ECHO, json!({"text": text}))]);
        let results = asked.results().join("\n");
        let handed = asked.results().iter().filter(|it| it.contains("\"task_index\"")).count();
        if asked.first_user().contains(TASK) {
            let has = asked.tools().contains(&ECHO);
            return MockAnswer::reply(&match asked.replies() {
                0 if has => echo("below"),
                _ => Reply::text("mock", format!("It said: {results}")),
            });
        }
        MockAnswer::reply(&match asked.replies() - handed {
            0 | 1 if handed == 0 => echo("above"),
            _ if handed < children => {
                between.lock()(handed);
                let task = json!({"goal": TASK});
                Reply::calls("mock", [("delegate_task", task)])
            }
            2 => echo("above"),
            _ => Reply::text("mock", results),
        })
    })
    .await
}

const AUTO: [&str; 6] =
    ["--approve", "auto", "--set", "delegation.approvals=auto", "--output", "events"];

#[tokio::test]
async fn a_server_that_does_not_say_what_it_has_now_is_waited_for_once() {
    let lab = Lab::new();
    let set = marking(&lab, "falls silent");
    approve(&lab, &set).await;
    let server = model(|asked: &ChatRequest| {
        MockAnswer::reply(&match asked.replies() {
            _ if asked.first_user().contains(TASK) => Reply::text("mock", "Looked."),
            0 => Reply::calls("mock", [(ECHO, json!({"text": "above"}))]),
            1 | 2 => {
                let task = |which: &str| json!({"goal": format!("{TASK} {which}")});
                let tasks = json!({"tasks": [task("here"), task("there")]});
                Reply::calls("mock", [("delegate_task", tasks)])
            }
            _ => Reply::text("mock", "Done."),
        })
    })
    .await;
    let ended = lab.run(&server, &[&AUTO[..], &["--set", &set, "go"]].concat()).end().await;
    let ended = ended.with_code(0);
    assert_eq!(ended.events("agent.start").len(), 5, "{}", ended.err);
    assert!(ended.out.contains("did not list them within 5 s"), "{}", ended.out);
    assert_eq!(std::fs::read_to_string(lab.path("mark")).unwrap(), "called, asked");
}

#[tokio::test]
async fn a_child_that_begins_later_has_what_was_approved_and_its_server_still_has() {
    // Without it, one of the tools cannot be used.
    require!(program("python3"));
    for (fault, note) in [
        ("loses its tool", None),
        ("newer: loses its tool", None),
        // It is greeted anew.
        ("ends and loses its tool", None),
        ("describes otherwise", Some("(description, +1 line -1 line)")),
        ("newer: wants other arguments", Some("(schema, ")),
    ] {
        let lab = Lab::new();
        let set = marking(&lab, fault);
        approve(&lab, &set).await;
        let server = hands_on(1, |_| {}).await;
        let args = [&AUTO[..], &["--record", "tape", "--set", &set, "go"]].concat();
        let ended = lab.run(&server, &args).end().await.with_code(0);

        let top = sent(&server, false);
        let child = sent(&server, true);
        assert!(top.iter().all(|tools| *tools == top[0]), "{fault}: to the byte");
        assert!(names(&top[0]).contains(&ECHO.to_owned()), "{fault}");
        assert_eq!(child.len(), 1, "{fault}: {}", ended.err);
        assert!(!names(&child[0]).contains(&ECHO.to_owned()), "{fault}");
        // Nor what serves to hand work on, a list of its own, a memory, past sessions, skills to write, or
        // scripts.
        assert_eq!(child[0].as_array().unwrap().len() + 7, top[0].as_array().unwrap().len());
        let words = format!("no child has the tool {ECHO}: changed since this agent began");
        assert!(ended.out.contains(&words), "{fault}: {}", ended.out);
        let start = &ended.events("agent.start")[1]["tools"];
        assert!(!start.to_string().contains(ECHO), "{fault}: {start}");
        let mut said = ended.events("log");
        said.retain(|log| log["message"].as_str().unwrap().starts_with("mcp w:"));
        match note {
            Some(how) => {
                let words = format!("mcp w: tool \"echo\" changed since you approved it {how}");
                assert_eq!(said.len(), 1, "{fault}: {}", ended.err);
                assert!(ended.err.contains(&words), "{fault}: {}", ended.err);
                assert!(ended.err.contains("Review with: deputize mcp review w"), "{}", ended.err);
            }
            None => assert_eq!(said, Vec::<Value>::new(), "{fault}"),
        }
        // It is played without the server.
        let played = deputize(&lab, &["run", "--replay", "tape"]).await;
        assert_eq!(played.code, Some(0), "{fault}: {}", played.err);
        assert_eq!(lab.processes(), []);
    }
}

#[tokio::test]
async fn what_is_approved_meanwhile_is_for_children_that_begin_then_within_their_parents_rights() {
    for (fault, has) in [("describes otherwise", true), ("wants other arguments", false)] {
        for preserving in [false, true] {
            let lab = Lab::new();
            let set = marking(&lab, fault);
            approve(&lab, &set).await;
            let review = lab.deputize(&["mcp", "review", "w", "--yes", "--set", &set]);
            let review = Mutex::new(review.into_std());
            // The first child begins before the person says yes, the second one after it.
            let server = hands_on(2, move |child| {
                if child == 1 {
                    let output = review.lock().output().unwrap();
                    assert!(output.status.success(), "{output:?}");
                }
            })
            .await;
            let form = if preserving { "cache_preserving" } else { "narrowed" };
            let form = format!("delegation.tool_schemas={form}");
            let args = [&AUTO[..], &["--record", "tape", "--set", &form, "--set", &set, "go"]];
            let ended = lab.run(&server, &args.concat()).end().await.with_code(0);

            let top = sent(&server, false);
            assert!(top.iter().all(|tools| *tools == top[0]), "to the byte");
            let begun = |at: usize| {
                let start = ended.events("agent.start")[at]["tools"].to_string();
                start.contains(ECHO)
            };
            assert!(!begun(1), "what waits is withheld");
            // Other arguments make it another tool, which its parent does not have; and a list that
            // all share does not describe it as it is now.
            let has = has && !preserving;
            assert_eq!(begun(2), has, "{fault} {preserving}");
            let child = sent(&server, true);
            if preserving {
                assert!(child.iter().all(|tools| *tools == top[0]), "one list for all");
            } else if has {
                let [first, second, third] = &child[..] else { panic!("{}", child.len()) };
                assert!(!first.to_string().contains("once more"));
                assert!(second.to_string().contains("Say it once more.") && second == third);
                assert!(ended.out.contains("It said: ") && ended.out.contains("echo: below"));
            }
            let played = deputize(&lab, &["run", "--replay", "tape"]).await;
            assert_eq!(played.code, Some(0), "{fault} {preserving}: {}", played.err);

            // Who lives on is told what it was told.
            let session = lab.session();
            let address = server.base_url();
            let again = ["run", "--resume", &session, "--base-url", &address];
            let again = [&again[..], &AUTO, &["--set", &form, "--set", &set, "go on"]].concat();
            let before = server.requests().len();
            deputize(&lab, &again).await.with_code(0);
            let after = server.requests();
            assert!(after.len() > before);
            assert!(after[before..].iter().all(|it| it.json()["tools"] == top[0]), "{fault}");
            assert_eq!(lab.processes(), []);
        }
    }
}

#[tokio::test]
async fn what_a_server_has_beside_tools_is_listed_and_read_by_tools() {
    let lab = Lab::new();
    let server = model(|asked: &ChatRequest| {
        let calls = [
            ("mcp__w__list_resources", json!({})),
            ("mcp__w__read_resource", json!({"uri": "x://1"})),
            ("mcp__w__list_prompts", json!({})),
            ("mcp__w__get_prompt", json!({"name": "ask"})),
        ];
        MockAnswer::reply(&match asked.replies() {
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
