//! Calls that are wrong, and what a child would be.

use std::fs;

use deputize_core::model::{RawCall, Reply};
use deputize_testkit::{HttpRequest, MockAnswer};
use serde_json::{Value, json};

use super::{call, is_child, messages, of, result, run, say, tools};
use crate::program::{ChatRequest, Lab, RunningProgram, model};

#[tokio::test]
async fn nonsense_is_answered_with_what_is_wrong_and_starts_nobody() {
    let deep = format!("{}1{}", "[".repeat(2000), "]".repeat(2000));
    let nonsense = [
        "".to_owned(),
        "null".to_owned(),
        "[]".to_owned(),
        "7".to_owned(),
        "{\"goal\": \"cut off".to_owned(),
        "\u{0}".to_owned(),
        deep,
        json!({"goal": {"goal": "x"}}).to_string(),
        json!({"tasks": "[[[[[["}).to_string(),
        json!({"tasks": {"0": {"goal": "x"}}}).to_string(),
        json!({"tasks": [[], 1, null, "x"]}).to_string(),
        json!({"goal": " \u{200b}\u{202e}"}).to_string(),
        json!({"goal": "x", "toolsets": [{"a": 1}]}).to_string(),
        json!({"goal": "x", "output_schema": {"$ref": "file:///etc/passwd"}}).to_string(),
        json!({"goal": "x", "max_iterations": "a few"}).to_string(),
        json!({"goal": "x", "quarantine": true, "depends_on": ["y"]}).to_string(),
    ];
    let count = nonsense.len();
    let lab = Lab::new();
    let server = model(move |asked| match nonsense.get(asked.results().len()) {
        Some(arguments) => {
            let name = "delegate_task".to_owned();
            let raw = RawCall { name, arguments: arguments.clone() };
            MockAnswer::reply(&Reply { calls: vec![raw], ..Reply::text("served-1", "") })
        }
        None => say("I give up."),
    })
    .await;
    let ended = lab.run(&server, &["--output", "events", "Go"]).end().await.with_code(0);
    let actual = ended.events("tool.end");
    assert_eq!(actual.len(), count);
    for end in &actual {
        assert_eq!(end["status"], "error", "{end}");
        assert!(end["result_bytes"].as_u64().unwrap() < 9000, "{end}");
    }
    // Whatever it was, the answer is one object of the same form.
    let last = server.requests().pop().unwrap();
    for actual in messages(&last, "tool") {
        let begin = actual.find('{').unwrap_or_else(|| panic!("{actual}"));
        let mut values = serde_json::Deserializer::from_str(&actual[begin..]).into_iter::<Value>();
        let value = values.next().unwrap().unwrap();
        assert!(value["error"].is_string() && value["errors"][0]["code"].is_string(), "{value}");
    }
    assert_eq!(ended.events("agent.start").len(), 1);
    assert_eq!(ended.events("model.response").pop().unwrap()["text"], "I give up.");
}

#[tokio::test]
async fn the_tools_of_a_child_are_explained() {
    let lab = Lab::new();
    let resolved = async |args: &[&str], code: i32| {
        let args = [&["toolsets", "resolve", "--child"], args].concat();
        RunningProgram::start(lab.deputize(&args)).end().await.with_code(code)
    };
    insta::assert_snapshot!(resolved(&[], 0).await.out);
    let ended = resolved(&["-t", "file", "--role", "orchestrator"], 0).await;
    insta::assert_snapshot!(format!("{}{}", ended.err, ended.out));
    let deep = [
        "--role",
        "orchestrator",
        "--depth",
        "2",
        "--set",
        "delegation.max_spawn_depth=3",
        "--json",
    ];
    let value: Value = serde_json::from_str(&resolved(&deep, 0).await.out).unwrap();
    assert_eq!((&value["role"], &value["depth"]), (&json!("orchestrator"), &json!(2)));
    let all = value["tools"].as_array().unwrap();
    // No search engine is configured.
    let (missing, usable): (Vec<&Value>, _) =
        all.iter().partition(|tool| tool["tool"] == "web_search");
    assert!(missing[0]["why"].is_string() && missing[0]["kept"] == false, "{value:#}");
    let usable: Vec<&Value> = usable;
    assert!(usable.iter().all(|tool| tool["kept"] == true && tool["why"].is_null()), "{value:#}");
    let program = ["--set", "delegation.acp_command=/bin/true"];
    let denied = resolved(&program, 2).await.err;
    assert!(denied.contains("hint: set `delegation.approvals`"), "{denied}");
    let auto = ["--set", "delegation.approvals=auto", "--json"];
    let foreign = resolved(&[&program[..], &auto].concat(), 0).await.out;
    let value: Value = serde_json::from_str(&foreign).unwrap();
    assert_eq!(value["toolsets"], json!([]));
    let all = value["tools"].as_array().unwrap();
    let own = |tool: &Value| tool["kept"] == false && tool["why"].is_string();
    assert!(!all.is_empty() && all.iter().all(own), "{value:#}");
    let unknown = resolved(&["-t", "nope"], 2).await.err;
    assert!(
        unknown.contains(
            "there is no toolset `nope`: name some of file, file_read, skills, web, or leave"
        ),
        "{unknown}"
    );
    let deep = resolved(&["--depth", "2"], 2).await.err;
    assert!(deep.contains("depth"), "{deep}");
}

#[tokio::test]
async fn all_that_is_wrong_with_a_call_comes_back_at_once_and_nobody_is_started() {
    let lab = Lab::new();
    // Each definition names the next one twice: nobody would ever be done with it.
    let defs = (0..60).map(|n| {
        let next = json!({"$ref": format!("#/$defs/{}", n + 1)});
        (n.to_string(), json!({"anyOf": [next, next]}))
    });
    let mut defs: serde_json::Map<String, Value> = defs.collect();
    defs.insert("60".to_owned(), json!({"type": "object"}));
    let unfolds = json!({"$ref": "#/$defs/0", "$defs": defs});
    let server = model(move |asked| match asked.results().len() {
        0 => call(
            "delegate_task",
            json!({"quarantine": true, "tasks": [
                {"goal": "A", "toolsets": ["nope"], "depends_on": ["b"], "output_schema": unfolds},
                {"goal": " "}, 7,
                {"goal": "B", "model": "x/y", "background": true, "output_schema": {"type": 3}},
            ]}),
        ),
        _ => say("So be it."),
    })
    .await;
    let ended = lab.run(&server, &["--output", "events", "Go"]).end().await.with_code(0);
    assert_eq!(ended.events("agent.start").len(), 1);
    let actual = messages(&server.requests()[1], "tool")[0].clone();
    let begin = actual.find('{').unwrap();
    let mut values = serde_json::Deserializer::from_str(&actual[begin..]).into_iter::<Value>();
    let value = values.next().unwrap().unwrap();
    let errors = value["errors"].as_array().unwrap().iter();
    let errors: Vec<String> = errors
        .map(|error| {
            format!(
                "{} {} {}",
                error["code"].as_str().unwrap(),
                error["task_index"],
                error["field"]
            )
        })
        .collect();
    insta::assert_snapshot!(errors.join("\n"));
}

/// The results of the calls that a child makes one after the other, of the child itself.
async fn child_that_calls(calls: Vec<(&'static str, Value)>, set: &[&str]) -> Vec<String> {
    let lab = Lab::new();
    let server = model(move |asked| match (is_child(asked), asked.results().len()) {
        (false, 0) => call("delegate_task", json!({"goal": "Look at one"})),
        (true, at) if at < calls.len() => call(calls[at].0, calls[at].1.clone()),
        (_, _) => say("Looked."),
    })
    .await;
    run(&lab, &server, set, "Go").await;
    let requests = server.requests();
    let last = requests.iter().rfind(|request| is_child(&ChatRequest::of(request)));
    messages(last.unwrap(), "tool")
}

#[tokio::test]
async fn the_refusal_of_an_agent_at_the_last_level_names_its_depth_the_limit_and_the_key() {
    for schemas in ["narrowed", "cache_preserving"] {
        let set = format!("delegation.tool_schemas={schemas}");
        let calls = vec![("delegate_task", json!({"goal": "Look at two"}))];
        let actual = child_that_calls(calls, &[&set]).await.remove(0);
        for part in ["E_DEPTH", "is at depth 1", "depth 1 cannot", "delegation.max_spawn_depth"] {
            assert!(actual.contains(part), "{schemas}: {actual}");
        }
        assert!(!actual.contains("another agent's"), "{schemas}: {actual}");
    }
}

#[tokio::test]
async fn the_warning_of_a_lowered_role_names_the_depth_the_limit_and_the_key() {
    for schemas in ["narrowed", "cache_preserving"] {
        let shape = format!("delegation.tool_schemas={schemas}");
        for (depth, levels) in [(1, vec![]), (2, vec!["delegation.max_spawn_depth=2"])] {
            let lab = Lab::new();
            let nests = depth == 2;
            let server = model(move |asked| match (asked.first_user(), asked.results().len()) {
                (task, 0) if task.ends_with("Go") || (nests && task.ends_with("Look at one")) => {
                    let goal = if task.ends_with("Go") { "Look at one" } else { "Look at two" };
                    call("delegate_task", json!({"goal": goal, "role": "orchestrator"}))
                }
                _ => say("Looked."),
            })
            .await;
            run(&lab, &server, &[&[shape.as_str()][..], &levels].concat(), "Go").await;
            let reason = format!(
                "a child at depth {depth} is a leaf: delegation.max_spawn_depth is {depth}"
            );
            let expected =
                format!("task 0 got less than it asked for: role orchestrator ({reason})");
            let asker = if nests { "Look at one" } else { "Go" };
            let requests = server.requests();
            let is_askers = |it: &&HttpRequest| ChatRequest::of(it).first_user().ends_with(asker);
            let last = requests.iter().rfind(is_askers).unwrap();
            let (result, _) = result(&messages(last, "tool")[0]);
            assert_eq!(result["warnings"], json!([expected]), "{schemas}");
        }
    }
}

#[tokio::test]
async fn a_leaf_above_the_last_level_learns_that_it_is_one() {
    let calls = vec![("delegate_task", json!({"goal": "Look at two"}))];
    let actual = child_that_calls(calls, &["delegation.max_spawn_depth=3"]).await.remove(0);
    for part in ["E_DEPTH", "started as a leaf", "delegation.max_spawn_depth is 3"] {
        assert!(actual.contains(part), "{actual}");
    }
    let calls = vec![("delegate_task", json!({"goal": "Look at two"}))];
    let off = ["delegation.max_spawn_depth=3", "delegation.orchestrator_enabled=false"];
    let actual = child_that_calls(calls, &off).await.remove(0);
    for part in ["E_DEPTH", "no child may delegate", "delegation.orchestrator_enabled is false"] {
        assert!(actual.contains(part), "{actual}");
    }
}

#[tokio::test]
async fn a_tool_of_another_agents_list_is_refused_with_those_that_may_be_used() {
    let calls = vec![("terminal", json!({"command": "true"}))];
    let set = [
        "delegation.tool_schemas=cache_preserving",
        "delegation.toolset_ceiling=[file]",
        "delegation.approvals=auto",
    ];
    let actual = child_that_calls(calls, &set).await.remove(0);
    assert!(
        actual.contains("you may not use `terminal`") && actual.contains("list_dir"),
        "{actual}"
    );
}

#[tokio::test]
async fn a_toolset_of_a_later_version_is_dropped_and_reported() {
    let lab = Lab::new();
    let server = model(|asked| match (is_child(asked), asked.results().len()) {
        (false, 0) => {
            let tasks = json!([
                {"goal": "Look at one", "toolsets": ["file", "browser"]},
                {"goal": "Look at two", "toolsets": ["browser"]},
            ]);
            call("delegate_task", json!({ "tasks": tasks }))
        }
        _ => say("Looked."),
    })
    .await;
    run(&lab, &server, &[], "Go").await;
    let requests = server.requests();
    let (actual, _) = result(&messages(of(&requests, "Go")[1], "tool")[0]);
    assert_eq!(
        actual["warnings"],
        json!([
            "task 0 got less than it asked for: toolset browser (this version does not have it)",
            "task 1 runs without any tool: toolset browser (this version does not have it)",
        ]),
    );
    assert!(tools(of(&requests, "Look at one")[0]).contains(&"read_file".to_owned()));
}

#[tokio::test]
async fn tasks_in_a_text_that_is_no_json_are_reported_as_that() {
    for (tasks, actual) in [
        ("first read a, then read b", "`tasks` is text that is not JSON"),
        ("[{\"goal\": \"A\"}, {\"goal\":", "`tasks` is text that is not JSON"),
        ("{\"goal\": \"A\"}", "`tasks` must be a list of objects"),
    ] {
        let lab = Lab::new();
        let tasks = tasks.to_owned();
        let server = model(move |asked| match asked.results().len() {
            0 => call("delegate_task", json!({ "tasks": tasks })),
            _ => say("So be it."),
        })
        .await;
        run(&lab, &server, &[], "Go").await;
        let answer = messages(&server.requests()[1], "tool").remove(0);
        assert!(answer.contains("E_TASKS") && answer.contains(actual), "{answer}");
    }
}

#[tokio::test]
async fn a_preview_of_a_child_takes_a_schema() {
    let lab = Lab::new();
    fs::write(lab.work("s.json"), r#"{"type":"object","required":["n"]}"#).unwrap();
    let args = ["prompt", "-m", "offline", "--child", "--goal", "Count", "--output-schema"];
    let shown = async |file: &str, code: i32| {
        let args = [&args[..], &[file]].concat();
        RunningProgram::start(lab.deputize(&args)).end().await.with_code(code)
    };
    let out = shown("s.json", 0).await.out;
    assert!(
        out.contains(r#"{"required":["n"],"type":"object"}"#)
            || out.contains(r#"{"type":"object","required":["n"]}"#),
        "{out}"
    );
    fs::write(lab.work("bad.json"), "{").unwrap();
    fs::write(lab.work("no.json"), r#"{"type":"nothing"}"#).unwrap();
    for (file, says) in [
        ("bad.json", "is not JSON"),
        ("none.json", "cannot be read"),
        ("no.json", "must be a JSON Schema"),
        (".", "no regular file"),
    ] {
        let err = shown(file, 2).await.err;
        assert!(err.contains(says), "{file}: {err}");
    }
}
