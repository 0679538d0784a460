//! Questions to the person.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde_json::json;

use super::{blocks, calls_in_order};
use crate::program::{ChatRequest, Lab, model, sees};

fn question() -> (&'static str, serde_json::Value) {
    ("clarify", json!({"question": "Which colour?", "options": ["red", "green"], "default": "red"}))
}

#[tokio::test]
async fn a_person_answers_by_number_by_words_or_by_the_default() {
    for (typed, answer) in [("2\n", "green"), ("dark blue\n", "dark blue"), ("\n", "red")] {
        let lab = Lab::new();
        let server = model(calls_in_order(vec![question()])).await;
        let (mut person, running) = lab.on_terminal(&server, &["Go"]);
        let screen = sees(&person, "[Enter: red]: ").await;
        assert!(screen.contains("  | Which colour?\r\n  1) red\r\n  2) green\r\n"), "{screen}");
        person.write_all(typed.as_bytes()).unwrap();
        running.end().await.with_code(0);
        let requests = server.requests();
        assert!(ChatRequest::of(&requests[0]).tools().contains(&"clarify"));
        let last = ChatRequest::of(requests.last().unwrap());
        let actual = last.results()[0];
        assert!(actual.starts_with("<input:answer ") && actual.contains(answer), "{actual}");
    }
}

#[tokio::test]
async fn the_call_of_the_page_asks_what_the_page_shows() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/tools/clarify.md");
    let page = fs::read_to_string(page).unwrap();
    let call = serde_json::from_str(blocks(&page, "json call")[0].1).unwrap();
    let (_, question) = blocks(&page, "text question")[0];
    let lab = Lab::new();
    let server = model(calls_in_order(vec![("clarify", call)])).await;
    let (mut person, running) = lab.on_terminal(&server, &["Go"]);
    let screen = sees(&person, "[Enter: SQLite]: ").await.replace('\r', "");
    assert!(screen.contains(question.trim_end()), "{screen}");
    person.write_all(b"1\n").unwrap();
    running.end().await.with_code(0);
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    assert!(last.results()[0].contains("PostgreSQL"), "{}", last.results()[0]);
}

#[tokio::test]
async fn an_interrupt_ends_a_question() {
    let lab = Lab::new();
    let server = model(calls_in_order(vec![question()])).await;
    let (person, running) = lab.on_terminal(&server, &["Go"]);
    sees(&person, "[Enter: red]: ").await;
    running.signal(rustix::process::Signal::INT);
    running.end().await.with_code(130);
}

#[tokio::test]
async fn without_a_terminal_it_is_not_sent_and_children_never_have_it() {
    let lab = Lab::new();
    let server = model(calls_in_order(vec![question()])).await;
    lab.run(&server, &["Go"]).end().await.with_code(0);
    let requests = server.requests();
    assert!(!ChatRequest::of(&requests[0]).tools().contains(&"clarify"));
    let last = ChatRequest::of(requests.last().unwrap());
    assert!(last.results()[0].contains("cannot be used now: nobody can be asked"));
    // Nor is it named where the tools are listed.
    let server = model(calls_in_order(vec![("nope", json!({}))])).await;
    lab.run(&server, &["Go"]).end().await.with_code(0);
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    let actual = last.results()[0];
    assert!(actual.contains("You have: ") && !actual.contains("clarify"), "{actual}");
    let listed = lab.deputize(&["tools", "list"]).output().await.unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("no: nobody can be asked"), "{listed}");
}
