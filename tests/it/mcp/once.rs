//! Errors of failed calls, as models read them: each sentence once.

use std::collections::BTreeMap;
use std::fs;

use deputize_core::model::{RawCall, Reply};
use deputize_testkit::MockAnswer;
use serde_json::{Value, json};

use super::fixture::{approve, set};
use crate::program::{ChatRequest, Lab, model};

/// The sentences of a text that stand in it more than once. Of data the texts in it are looked at.
fn doubled(text: &str) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for line in text.lines() {
        let begin = line.find('{').filter(|_| line.ends_with('}'));
        let data = begin.and_then(|at| serde_json::from_str::<Value>(&line[at..]).ok());
        match data {
            Some(data) => {
                texts.push(line[..begin.unwrap_or_default()].to_owned());
                leaves(&data, &mut texts);
            }
            None => texts.push(line.to_owned()),
        }
    }
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for text in &texts {
        let marks = |c: char| ".;:!?[]()".contains(c);
        for sentence in text.split(marks).map(|it| it.trim().to_lowercase()) {
            if sentence == "cancelled" || sentence.split_whitespace().count() > 2 {
                *count.entry(sentence).or_default() += 1;
            }
        }
    }
    count.into_iter().filter(|(_, times)| *times > 1).map(|(sentence, _)| sentence).collect()
}

fn leaves(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(all) => all.iter().for_each(|value| leaves(value, texts)),
        Value::Object(map) => map.values().for_each(|value| leaves(value, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[test]
fn a_doubled_sentence_is_seen() {
    assert_eq!(doubled("error: it is gone: read it again\n[it is gone]"), ["it is gone"]);
    let data =
        r#"error: {"error":"no child: say what to do","errors":[{"remedy":"say what to do"}]}"#;
    assert_eq!(doubled(data), ["say what to do"]);
    assert_eq!(doubled("not found: a.txt; did you mean b.txt?"), Vec::<String>::new());
}

/// Runs a model that makes these calls in turn, and returns the result of each.
async fn describe(calls: Vec<(&'static str, String)>, args: &[&str]) -> Vec<String> {
    let lab = Lab::new();
    fs::write(lab.work("a.txt"), "one\ntwo\none\n").unwrap();
    fs::write(lab.work("b.txt"), "b\n").unwrap();
    let own = set("reports an error");
    approve(&lab, &own).await;
    let count = calls.len();
    let server = model(move |asked: &ChatRequest| {
        if asked.system().contains("YOUR TASK:") {
            return MockAnswer::error(400, "no such thing");
        }
        match calls.get(asked.results().len()) {
            Some((tool, arguments)) => {
                let raw = RawCall { name: (*tool).to_owned(), arguments: arguments.clone() };
                MockAnswer::reply(&Reply { calls: vec![raw], ..Reply::text("mock", "") })
            }
            None => MockAnswer::reply(&Reply::text("mock", "I give up.")),
        }
    })
    .await;
    let args = [&["--set", &own, "Go"][..], args].concat();
    lab.run(&server, &args).end().await.with_code(0);
    let last = server.requests().pop().unwrap();
    let results: Vec<String> =
        ChatRequest::of(&last).results().iter().map(|it| (*it).to_owned()).collect();
    assert_eq!(results.len(), count);
    results
}

#[tokio::test]
async fn an_error_to_a_model_has_each_sentence_once() {
    let call = |tool, arguments: Value| (tool, arguments.to_string());
    let calls = vec![
        ("read_file", "{\"path\": \"a".to_owned()),
        call("read_fil", json!({"path": "a.txt"})),
        call("make_coffee", json!({})),
        call("read_file", json!({})),
        call("read_file", json!({"path": 7, "x": 1})),
        call("read_file", json!({"path": ""})),
        call("read_file", json!({"path": "none.txt"})),
        call("read_file", json!({"path": "/etc/passwd"})),
        call("read_file", json!({"path": "."})),
        call("list_dir", json!({"path": "none", "depth": 9})),
        call("list_dir", json!({"path": "a.txt"})),
        call("search_files", json!({"pattern": "("})),
        call("search_files", json!({"glob": "[", "path": "none"})),
        call("edit_file", json!({"path": "a.txt", "old": "one", "new": "x"})),
        call("write_file", json!({"path": "b.txt", "content": "x"})),
        call("read_file", json!({"path": "a.txt"})),
        call("edit_file", json!({"path": "a.txt", "old": "one", "new": "x"})),
        call("edit_file", json!({"path": "a.txt", "old": "three", "new": "x"})),
        call("terminal", json!({"command": "echo more >> a.txt"})),
        call("edit_file", json!({"path": "a.txt", "old": "two", "new": "x"})),
        call("write_file", json!({"path": ".git/config", "content": "x"})),
        call("terminal", json!({"command": "echo begun; sleep 1000", "timeout_seconds": 1})),
        call("terminal", json!({"command": "cd /nowhere"})),
        call("mcp__w__echo", json!({"text": "hello"})),
        call("mcp__w__echo", json!({"text": 7})),
        call("delegate_task", json!({})),
        call("delegate_task", json!({"goal": "Look", "toolsets": ["nope"]})),
        call("delegate_task", json!({"goal": "Look", "role": "boss", "background": true})),
        call("delegate_task", json!({"goal": "Look", "quarantine": true})),
        call("delegate_task", json!({"tasks": "Look"})),
        call("delegate_task", json!({"goal": "Look", "max_iterations": "few"})),
        call("delegate_task", json!({"goal": "Look at a.txt"})),
    ];
    let denied = vec![
        call("terminal", json!({"command": "true"})),
        call("terminal", json!({"command": "dd if=/dev/zero of=/dev/sda"})),
        call("mcp__w__echo", json!({"text": "hello"})),
    ];
    let results = describe(calls, &["--approve", "auto"]).await;
    let failed = results.iter().filter(|text| text.contains("error")).count();
    assert!(failed > 25, "{results:#?}");
    for text in results.into_iter().chain(describe(denied, &["--approve", "deny"]).await) {
        assert_eq!(doubled(&text), Vec::<String>::new(), "{text}");
    }
}
