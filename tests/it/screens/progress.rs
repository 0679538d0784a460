//! The progress that is shown while agents work.

use deputize_core::model::Reply;
use deputize_testkit::MockAnswer;
use serde_json::json;

use super::{REASON, Streams, call, joined, on_terminal, say};
use crate::kill::kill;
use crate::program::{Lab, RunningProgram, hang, model, soon};

#[tokio::test]
async fn a_refused_call_for_children_is_reported_in_words() {
    let task = json!({"goal": "Look"});
    let server = model(move |asked| match asked.results().len() {
        0 => call("delegate_task", json!({})),
        1 => call("delegate_task", json!({"tasks": vec![&task; 3]})),
        2 => call("delegate_task", json!({"tasks": "no list"})),
        _ => say("Done."),
    })
    .await;
    for streams in [None, Some(Streams::Errors)] {
        let lab = Lab::new();
        let lines: Vec<String> = match streams {
            None => {
                let ended = lab.run(&server, &["Go"]).end().await.with_code(0);
                ended.err.lines().map(str::to_owned).collect()
            }
            Some(streams) => on_terminal(200, streams, lab.run_command(&server, &["Go"])).await,
        };
        let refused: Vec<&str> =
            lines.iter().filter_map(|line| line.strip_prefix("delegate_task refused: ")).collect();
        assert_eq!(refused.len(), 3, "{lines:#?}");
        assert_eq!(refused[0], "give a `goal`, or `tasks` with a `goal` in each");
        assert!(refused[1].ends_with("(2 tasks)"), "{lines:#?}");
        assert!(refused[2].starts_with("`tasks` is text that is not JSON"), "{lines:#?}");
        let data = lines.iter().find(|line| line.contains("E_") || line.contains("remedy"));
        assert_eq!(data, None);
    }
}

/// A reply with a thought before its answer.
fn thoughtful() -> MockAnswer {
    let reasoning = "The question is old.\nI know it.".to_owned();
    MockAnswer::reply(&Reply { reasoning, ..Reply::text("served-1", "It is forty-two.") })
}

#[tokio::test]
async fn thoughts_and_the_answer_are_distinguished() {
    let server = model(|_| thoughtful()).await;
    let lab = Lab::new();
    let ended = lab.run(&server, &["-v", "Go"]).end().await.with_code(0);
    let said: Vec<&str> = ended.err.lines().filter(|line| line.contains("| ")).collect();
    assert_eq!(
        said,
        ["thinking | The question is old.", "thinking | I know it.", "| It is forty-two."],
        "{}",
        ended.err
    );
}

#[tokio::test]
async fn a_terminal_that_gets_the_answer_gets_it_once() {
    let server = model(|asked| match asked.results().len() {
        0 => MockAnswer::reply(&Reply {
            text: "I look around first.".to_owned(),
            ..Reply::calls("served-1", [("list_dir", json!({}))])
        }),
        _ => thoughtful(),
    })
    .await;
    let lab = Lab::new();
    let command = lab.run_command(&server, &["-v", "Go"]);
    let rows = on_terminal(80, Streams::Both, command).await.join("\n");
    assert_eq!(rows.matches("It is forty-two.").count(), 1, "{rows}");
    assert!(rows.contains("thinking | I know it."), "{rows}");
    assert!(rows.contains("| I look around first."), "{rows}");
    // Where the answer goes elsewhere, the terminal has it too.
    let rows = on_terminal(80, Streams::Errors, lab.run_command(&server, &["-v", "Go"])).await;
    assert!(rows.contains(&"| It is forty-two.".to_owned()), "{rows:#?}");
}

#[tokio::test]
async fn agents_that_failed_before_a_resume_stand_at_its_end_too() {
    let lab = Lab::new();
    let server = model(|asked| {
        let actual = asked.system() + asked.first_user();
        match (actual.contains("Read the deep end"), asked.results().len()) {
            (true, _) => MockAnswer::error(400, REASON),
            (false, 0) => call("delegate_task", json!({"goal": "Read the deep end"})),
            (false, 1) => hang(),
            _ => say("Done."),
        }
    })
    .await;
    let running = lab.run(&server, &["Go"]);
    soon("the request after the result", server.until_requests(3)).await;
    kill(&lab, running).await;

    let server = model(|_| say("Done.")).await;
    let session = lab.session();
    let args = ["run", "--resume", &session, "--base-url", &server.base_url()];
    let ended = RunningProgram::start(lab.deputize(&args)).end().await.with_code(0);
    assert!(
        ended.err.contains("1 agent failed:\n  ✗ [1/1] 1.0.0: Read the deep end\n"),
        "{}",
        ended.err
    );
    assert!(ended.err.contains(REASON), "{}", ended.err);
    // What is asked for next is a task of its own.
    let args = ["run", "--resume", &session, "--base-url", &server.base_url(), "And now?"];
    let ended = RunningProgram::start(lab.deputize(&args)).end().await.with_code(0);
    assert!(!ended.err.contains("failed"), "{}", ended.err);
}

#[tokio::test]
async fn the_warning_of_a_fallback_is_whole_at_eighty_columns() {
    let long = REASON.repeat(3);
    let server = model(move |_| MockAnswer::error(404, &long)).await;
    let spare = model(|_| say("Done.")).await;
    let entry = format!("providers.spare={}", json!({"base_url": spare.base_url()}));
    let args = ["--set", &entry, "--set", "fallback_models=[spare/other]", "Go"];
    let lab = Lab::new();
    let ended = lab.run(&server, &args).end().await.with_code(0);
    let whole = ended.err.lines().find(|line| line.contains("spare/other")).unwrap();
    assert!(whole.starts_with("warning: going on with spare/other: provider openai: "), "{whole}");
    assert!(whole.contains(&REASON.repeat(3)), "{whole}");
    let lab = Lab::new();
    let command = lab.run_command(&server, &args);
    let rows = on_terminal(80, Streams::Errors, command).await;
    assert!(rows.iter().any(|row| row.starts_with("warning: going on with spare/other")));
    assert!(joined(&rows).contains(&REASON.repeat(3)), "{rows:#?}");
}
