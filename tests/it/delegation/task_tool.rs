//! The tool with one text.

use std::fs;

use deputize_core::model::{RawCall, Reply};
use deputize_testkit::MockAnswer;
use serde_json::json;

use super::{call, is_child, messages, of, run, say, tools};
use crate::program::{Lab, model};

#[tokio::test]
async fn the_task_tool_takes_a_text_and_gives_one() {
    let lab = Lab::new();
    let server = model(|asked| {
        let actual = asked.system();
        match (is_child(asked), asked.results().len()) {
            (false, 0) => MockAnswer::reply(&Reply::calls(
                "served-1",
                [
                    ("task", json!({"description": "Count the files."})),
                    ("task", json!({"description": " "})),
                    ("task", json!({"description": "Say nothing."})),
                    ("task", json!({"description": "Never end.", "prompt": "x"})),
                ],
            )),
            (false, _) => say("Done."),
            (true, _) if actual.contains("Say nothing") => say(""),
            (true, _) if !asked.may_call() => say("I could not end."),
            (true, n) if actual.contains("Never end") => call("list_dir", json!({"depth": n + 1})),
            (true, 0) => call("list_dir", json!({})),
            (true, _) => say("There is <b>one</b> file.\u{1b}[31m"),
        }
    })
    .await;
    fs::write(lab.work("AGENTS.md"), "").unwrap();
    let set = ["delegation.tool_name=task", "delegation.max_iterations=2"];
    run(&lab, &server, &set, "Hand it on").await;
    let requests = server.requests();
    let parent = of(&requests, "Hand it on");
    assert!(tools(parent[0]).contains(&"task".to_owned()));
    assert!(!tools(parent[0]).contains(&"delegate_task".to_owned()));
    assert!(messages(parent[0], "system").concat().contains("Use `task` for work"));
    let child = of(&requests, "Count the files.")[0];
    // Nobody approves commands here.
    let basic = ["edit_file", "list_dir", "read_file", "search_files", "write_file"];
    assert_eq!(tools(child), basic);
    let place = lab.work("").display().to_string();
    let results = messages(parent[1], "tool").join("\n---\n").replace(&place, "WORK/");
    let session = lab.session();
    let file = lab.session_file().display().to_string();
    let results = results.replace(&file, "SESSION.jsonl");
    let frames = regex_like(&results.replace(&session, "SESSION"));
    insta::assert_snapshot!(frames);
}

#[tokio::test]
async fn the_task_tool_takes_a_text_that_is_no_json_too() {
    let lab = Lab::new();
    let server = model(|asked| match (is_child(asked), asked.results().len()) {
        (false, 0) => {
            let raw = |text: &str| RawCall { name: "task".to_owned(), arguments: text.to_owned() };
            let calls = vec![raw("Look at \"one\""), raw("TODO")];
            MockAnswer::reply(&Reply { calls, ..Reply::text("served-1", "") })
        }
        (false, _) => say("Looked."),
        (true, _) => say("I looked."),
    })
    .await;
    run(&lab, &server, &["delegation.tool_name=task"], "Go").await;
    let requests = server.requests();
    let actual = messages(requests.last().unwrap(), "tool");
    assert!(actual[0].contains("\nI looked.\n"), "{actual:?}");
    assert!(
        actual[1].starts_with("error: ") && actual[1].contains("`description` is a placeholder"),
        "{actual:?}"
    );
    assert_eq!(requests.len(), 3);
}

/// Without the boundaries of frames, which nobody can guess.
fn regex_like(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let is_frame = line.starts_with('<') && line.ends_with('>') && line.contains("child");
        let shown = line.rsplit_once(' ').filter(|_| is_frame).map_or(line, |(name, _)| name);
        let shown = if line.starts_with("</") { "</...>" } else { shown };
        out.push_str(shown);
        out.push('\n');
    }
    out
}
