//! Todo lists.

use std::fs;
use std::path::Path;

use deputize_core::model::Reply;
use deputize_testkit::MockAnswer;
use serde_json::{Value, json};

use super::{blocks, calls_in_order};
use crate::program::{ChatRequest, Lab, model};

#[tokio::test]
async fn the_list_of_the_page_is_kept_over_a_resume() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/tools/todo.md");
    let page = fs::read_to_string(page).unwrap();
    let call: Value = serde_json::from_str(blocks(&page, "json call")[0].1).unwrap();
    let (_, result) = blocks(&page, "text result")[0];
    let lab = Lab::new();
    let server = model(calls_in_order(vec![("todo", call)])).await;
    let ended = lab.run(&server, &["Go"]).end().await.with_code(0);
    assert!(ended.err.contains("plan 3 items"), "{}", ended.err);
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    assert!(last.results()[0].contains(result), "{}", last.results()[0]);
    let server = model(move |asked| match asked.results().len() {
        1 => MockAnswer::reply(&Reply::calls("served-1", [("todo", json!({}))])),
        _ => MockAnswer::reply(&Reply::text("served-1", "Done.")),
    })
    .await;
    lab.run(&server, &["--resume", &lab.session(), "Go on"]).end().await.with_code(0);
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    assert!(last.results()[1].contains(result), "{}", last.results()[1]);
}

#[tokio::test]
async fn children_have_no_list() {
    let lab = Lab::new();
    let task = json!({"goal": "Look around."});
    let server = model(move |asked| match asked.system().contains("YOUR TASK:") {
        true => calls_in_order(Vec::new())(asked),
        false => calls_in_order(vec![("delegate_task", task.clone())])(asked),
    })
    .await;
    lab.run(&server, &["Hand on"]).end().await.with_code(0);
    let requests = server.requests();
    assert!(ChatRequest::of(&requests[0]).tools().contains(&"todo"));
    assert!(!ChatRequest::of(&requests[1]).tools().contains(&"todo"));
}
