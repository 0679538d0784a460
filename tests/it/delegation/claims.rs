//! What an answer claims, held against what was seen.

use std::fs;

use deputize_testkit::MockAnswer;
use serde_json::json;

use super::{call, is_child, messages, of, result, run, say};
use crate::program::{Lab, RunningProgram, model};

#[tokio::test]
async fn a_claim_without_a_write_is_visible() {
    let lab = Lab::new();
    fs::create_dir(lab.work("src")).unwrap();
    fs::write(lab.work("src/known.rs"), "x").unwrap();
    let server = model(|asked| match (is_child(asked), asked.results().len()) {
        (false, 0) => call("delegate_task", json!({"tasks": [{"goal": "Lie"}, {"goal": "Work"}]})),
        (false, _) => say("Looked."),
        (true, 0) if asked.last_user() == "Work" => {
            call("write_file", json!({"path": "real.txt", "content": "x"}))
        }
        (true, 0) => {
            say("Ich habe `out/report.md` angelegt; made_up.rs ist geändert.\nI read known.rs.")
        }
        (true, _) => say("I created `real.txt`."),
    })
    .await;
    let ended = run(&lab, &server, &[], "Go").await;
    let requests = server.requests();
    let (actual, notes) = result(&messages(of(&requests, "Go")[1], "tool")[0]);
    assert_eq!(actual["results"][0]["unseen_writes"], json!(["out/report.md", "made_up.rs"]));
    // The person is told too, at the end and by whom it was said.
    let claim =
        "names files that do not exist and were not seen written: `out/report.md`, `made_up.rs`";
    assert_eq!(ended.err.matches("names files that do not exist").count(), 1, "{}", ended.err);
    assert!(ended.err.contains(&format!("warning: 1.0.0 {claim}\n")), "{}", ended.err);
    let shown = lab.deputize(&["sessions", "show", &lab.session(), "--agent", "1.0.0"]);
    let shown = RunningProgram::start(shown).end().await.with_code(0);
    assert!(shown.out.ends_with(&format!("\nwarning: it {claim}\n")), "{}", shown.out);
    assert_eq!(actual["results"][0]["receipts"]["files_written"], json!([]));
    assert_eq!(actual["results"][1].get("unseen_writes"), None);
    assert!(notes.contains("were not seen written: `out/report.md`, `made_up.rs`."), "{notes}");
    assert!(!notes.contains("real.txt"), "{notes}");
}

#[tokio::test]
async fn a_claim_in_a_value_is_held_against_what_was_seen_also_below() {
    let schema = json!({"type": "object", "required": ["files_written"], "properties": {
        "files_written": {"type": "array", "items": {"type": "string"}}}});
    let server = model(move |asked| {
        let task = asked.last_user();
        match (is_child(asked), asked.results().len()) {
            (false, 0) => {
                let goal = "Manage it";
                let task = json!({"goal": goal, "role": "orchestrator", "output_schema": schema});
                call("delegate_task", task)
            }
            (false, _) => say("Looked."),
            (true, 0) if task.contains("Manage it") => call(
                "delegate_task",
                json!({"tasks": [{"goal": "Write it"}, {"goal": "Break it"}]}),
            ),
            (true, _) if asked.first_user().contains("Manage it") => {
                say(r#"{"files_written":["real.txt","src/x.rs"]}"#)
            }
            (true, 0) if task.contains("Write it") => {
                call("write_file", json!({"path": "real.txt", "content": "x"}))
            }
            (true, _) if task.contains("Break it") => MockAnswer::error(400, "no"),
            (true, _) => say("Done."),
        }
    })
    .await;
    let lab = Lab::new();
    run(&lab, &server, &["delegation.max_spawn_depth=2"], "Go").await;
    let requests = server.requests();
    let (actual, notes) = result(&messages(of(&requests, "Go")[1], "tool")[0]);
    let entry = &actual["results"][0];
    assert_eq!(entry["unseen_writes"], json!(["src/x.rs"]), "{actual}");
    assert!(notes.contains("were not seen written: `src/x.rs`."), "{notes}");
    let written = entry["receipts"]["files_written"].as_array().unwrap();
    assert_eq!((written.len(), &written[0]["by"]), (1, &json!("1.0.0")), "{entry}");
    assert!(written[0]["path"].as_str().unwrap().ends_with("real.txt"), "{entry}");
    let broken = format!("{}/1.0.1", entry["agent"].as_str().unwrap());
    assert_eq!(entry["receipts"]["unfinished"], json!([broken]), "{entry}");
}

#[tokio::test]
async fn a_name_is_looked_for_where_the_shell_was_too() {
    let lab = Lab::new();
    let server = model(|asked| match (is_child(asked), asked.results().len()) {
        (false, 0) => call("delegate_task", json!({"goal": "Make it"})),
        (false, _) => say("Looked."),
        (true, 0) => {
            let command = "mkdir sub && cd sub && touch made.txt 'my notes.txt'";
            call("terminal", json!({ "command": command }))
        }
        (true, _) => say("## Files created\n\n- made.txt\n- `my notes.txt`\n- other.txt\n"),
    })
    .await;
    run(&lab, &server, &["delegation.subagent_auto_approve=true"], "Go").await;
    let (actual, _) = result(&messages(of(&server.requests(), "Go")[1], "tool")[0]);
    assert_eq!(actual["results"][0]["unseen_writes"], json!(["other.txt"]), "{actual}");
}
