//! Models that think in the content of their replies.

use deputize_core::model::Reply;
use deputize_testkit::MockAnswer;
use serde_json::{Value, json};

use super::{call, is_child, messages, of, result, run, say};
use crate::program::{ChatRequest, Lab, model};

const THOUGHT: &str = "<think>\nSECRET-THOUGHT of many words.\n</think>\n\n";

/// A parent that hands one task on, and a child that gives these replies, the last again and again.
fn family(task: Value, child: Vec<String>) -> impl Fn(&ChatRequest) -> MockAnswer {
    move |asked| match (is_child(asked), asked.results().len()) {
        (false, 0) => MockAnswer::reply(&Reply {
            text: format!("{THOUGHT}I ask a child."),
            ..Reply::calls("served-1", [("delegate_task", task.clone())])
        }),
        (false, _) => say(&format!("{THOUGHT}Looked.")),
        (true, _) => say(child.get(asked.users().len() - 1).or(child.last()).unwrap()),
    }
}

#[tokio::test]
async fn thoughts_are_in_no_summary_not_on_standard_output_and_do_not_go_back() {
    let lab = Lab::new();
    let child = vec![format!("{THOUGHT}<reasoning>SECRET-THOUGHT too</reasoning>\nSeven.")];
    let server = model(family(json!({"goal": "Count them"}), child)).await;
    let ended = run(&lab, &server, &[], "Go").await;
    assert_eq!(ended.out, "Looked.\n");
    let requests = server.requests();
    let actual = messages(&requests[2], "tool").remove(0);
    let summary = result(&actual).0["results"][0]["summary"].as_str().unwrap().to_owned();
    assert!(summary.contains(">\nSeven.\n</"), "{actual}");
    assert_eq!(messages(&requests[2], "assistant"), ["I ask a child."]);
    assert!(requests.iter().all(|request| !request.text().contains("SECRET-THOUGHT")));
}

#[tokio::test]
async fn thoughts_whose_opening_tag_the_server_keeps_are_none_of_the_answer_either() {
    const UNOPENED: &str = "SECRET-THOUGHT, say {\"n\": 1}.\n</think>\n\n";
    let schema = json!({"type": "object", "required": ["n"], "additionalProperties": false,
                        "properties": {"n": {"type": "integer"}}});
    for (answer, typed) in [("Seven.", false), ("{\"n\": 7}", true)] {
        let lab = Lab::new();
        let mut task = json!({"goal": "Count them"});
        if typed {
            task["output_schema"] = schema.clone();
        }
        let replies = move |asked: &ChatRequest| match (is_child(asked), asked.results().len()) {
            (false, 0) => call("delegate_task", task.clone()),
            (false, _) => say(&format!("{UNOPENED}Looked.")),
            (true, _) => say(&format!("{UNOPENED}{answer}")),
        };
        let server = model(replies).await;
        let ended = run(&lab, &server, &[], "Go").await;
        assert_eq!(ended.out, "Looked.\n");
        let requests = server.requests();
        assert_eq!(of(&requests, "Count them").len(), 1, "{answer}: nothing to correct");
        let actual = messages(&requests[2], "tool").remove(0);
        let entry = &result(&actual).0["results"][0];
        assert!(entry["summary"].as_str().unwrap().contains(answer), "{actual}");
        if typed {
            assert_eq!(entry["output"], json!({"n": 7}), "{actual}");
        }
        assert!(requests.iter().all(|request| !request.text().contains("SECRET-THOUGHT")));
    }
}

#[tokio::test]
async fn a_child_of_nothing_but_thoughts_has_given_no_answer() {
    for thoughts in ["<think>SECRET-THOUGHT</think>", "<Thinking>\nSECRET-THOUGHT, cut"] {
        let lab = Lab::new();
        let task = json!({"goal": "Count them"});
        let server = model(family(task, vec![thoughts.to_owned()])).await;
        run(&lab, &server, &[], "Go").await;
        let requests = server.requests();
        assert_eq!(of(&requests, "Count them").len(), 2, "it is asked once more");
        let actual = messages(requests.last().unwrap(), "tool").remove(0);
        let entry = &result(&actual).0["results"][0];
        assert_eq!(entry["status"], "failed", "{actual}");
        assert!(!actual.contains("SECRET-THOUGHT"), "{actual}");
    }
}

#[tokio::test]
async fn a_typed_answer_may_stand_behind_thoughts_and_among_prose() {
    let schema = json!({"type": "object", "required": ["n"], "additionalProperties": false,
                        "properties": {"n": {"type": "integer"}}});
    let task = json!({"goal": "Count them", "output_schema": schema});
    for answer in [
        "{\"n\": 7}",
        "I counted {6}, no:\n```json\n{\"n\": 7}\n```\nTell me if you need more.",
        "First {\"n\": 6}, but then {\"n\": 7}.",
        "```json\n{\"n\": 7}\n```\nSource: [1]",
        "{\"n\": 7}\n- [ ] to be reviewed; `[]` and {} and vec![] are empty",
    ] {
        let lab = Lab::new();
        let server = model(family(task.clone(), vec![format!("{THOUGHT}{answer}")])).await;
        run(&lab, &server, &[], "Go").await;
        let requests = server.requests();
        assert_eq!(of(&requests, "Count them").len(), 1, "{answer}: nothing to correct");
        let actual = messages(&requests[2], "tool").remove(0);
        assert_eq!(result(&actual).0["results"][0]["output"], json!({"n": 7}), "{actual}");
    }
}
