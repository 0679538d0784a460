//! Messages that reach a child while it writes its last answer: the report stays in its result.

use deputize_testkit::{Barrier, MockAnswer};
use serde_json::{Value, json};

use super::{call, child, run, text};
use crate::program::{ChatRequest, Lab, model};

/// Runs a parent that sends its only child a message while the child writes its report. Returns
/// what the parent reads of the child's end, and the child's `agent.end`.
async fn told_after(task: Value, report: &'static str, reply: &'static str) -> (String, Value) {
    let held = Barrier::closed();
    let begins = Barrier::closed();
    let opens = held.clone();
    let starts = begins.clone();
    let server = model(move |asked: &ChatRequest| -> MockAnswer {
        match (child(&asked.system()), asked.replies(), asked.results().len()) {
            (Some(_), 0, _) => text(report).held_by(&held),
            (Some(_), _, _) => text(reply),
            (None, _, 0) => call("delegate_task", task.clone()),
            (None, _, 1) => {
                let message = json!({"action": "message", "message": "Are you done?"});
                call("delegate_control", message).held_by(&begins)
            }
            (None, _, _) => text("I wait."),
        }
    });
    let lab = Lab::new();
    let server = server.await;
    let running = run(&lab, &server, &["Share it"]);
    server.until_requests(3).await;
    starts.open();
    running.event("message.left", |_| true).await;
    opens.open();
    let ended = running.end().await.with_code(0);
    let requests = server.requests();
    let last = requests.iter().rev().map(ChatRequest::of).find(|it| child(&it.system()).is_none());
    let ends = ended.events("agent.end");
    let end = ends.iter().find(|end| end["depth"] == 1).unwrap().clone();
    (last.unwrap().last_user().to_owned(), end)
}

#[tokio::test]
async fn a_message_after_the_report_does_not_replace_it() {
    let task = json!({"goal": "child 0", "background": true});
    let (actual, end) = told_after(task, "REPORT: 7 files.", "Yes, I am done.").await;
    assert_eq!(end["status"], "completed", "{end}");
    let report = actual.find("REPORT: 7 files.");
    let reply = actual.find("Yes, I am done.");
    assert!(report.is_some() && report < reply, "{actual}");
    assert!(actual.contains("In reply to it:"), "{actual}");
}

#[tokio::test]
async fn a_value_is_that_of_the_report_unless_what_follows_is_one_too() {
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let task = json!({"goal": "child 0", "background": true, "output_schema": schema});
    for (reply, value) in [("Yes, I am done.", 7), (r#"{"m": 9}"#, 7), (r#"{"n": 8}"#, 8)] {
        let (actual, end) = told_after(task.clone(), r#"{"n": 7}"#, reply).await;
        assert_eq!(end["status"], "completed", "{end}");
        assert!(actual.contains(&format!(r#""output":{{"n":{value}}}"#)), "{reply}: {actual}");
        let both = actual.contains(r#"{\"n\": 7}"#) && actual.contains(&reply.replace('"', "\\\""));
        assert!(both, "{reply}: {actual}");
    }
}
