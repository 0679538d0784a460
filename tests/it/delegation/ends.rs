//! Reports of the ends of children: to their parent's model, and in `--output json`.

use deputize_core::model::{Reply, Usage};
use deputize_testkit::{MockAnswer, MockServer};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{call, is_child, messages, of, result, run, say};
use crate::program::{Lab, ProgramEnd, RunningProgram, hang, model};

/// The entries that the model of the top agent was shown.
fn shown(server: &MockServer) -> Vec<Value> {
    let (actual, _) = result(&messages(of(&server.requests(), "Go")[1], "tool")[0]);
    actual["results"].as_array().unwrap().clone()
}

fn children(ended: &ProgramEnd) -> Vec<Value> {
    let actual: Value = serde_json::from_str(&ended.out).unwrap();
    actual["children"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_child_that_failed_or_came_to_a_limit_is_reported_with_the_path_of_its_session() {
    let lab = Lab::new();
    let server = model(|asked| match (is_child(asked), asked.last_user()) {
        (false, _) if asked.results().is_empty() => {
            let tasks = ["Well", "Broken", "Short"].map(|goal| json!({"goal": goal}));
            call("delegate_task", json!({"tasks": tasks, "max_iterations": 1}))
        }
        (false, _) => say("All back."),
        (true, "Broken") => MockAnswer::error(400, "no such thing"),
        (true, "Short") => call("list_dir", json!({})),
        (true, _) => say("Done."),
    })
    .await;
    let ended = lab.run(&server, &["--output", "json", "Go"]).end().await.with_code(0);
    let path = lab.session_file().display().to_string();
    let ends = |entries: &[Value]| -> Vec<(Value, Value)> {
        let end = |it: &Value| (it["exit_reason"].clone(), it["session_path"].clone());
        entries.iter().map(end).collect()
    };
    let of = |first: Value| {
        let failed = [(json!("error"), json!(path)), (json!("max_iterations"), json!(path))];
        [vec![(json!("completed"), first)], failed.to_vec()].concat()
    };
    assert_eq!(ends(&shown(&server)), of(Value::Null));
    assert_eq!(ends(&children(&ended)), of(json!(path)));
    let export = ["sessions", "export", &lab.session()];
    let export = RunningProgram::start(lab.deputize(&export)).end().await.with_code(0);
    for end in export.events("agent.end") {
        let of_child = end["depth"] == 1;
        assert_eq!(end["session_path"], if of_child { json!(path) } else { Value::Null }, "{end}");
    }
}

#[tokio::test]
async fn what_was_interrupted_has_a_session_and_what_never_began_cost_nothing() {
    let lab = Lab::new();
    let server = model(|asked| match is_child(asked) {
        false => {
            let tasks = ["One", "Two"].map(|goal| json!({"goal": goal}));
            call("delegate_task", json!({"tasks": tasks}))
        }
        true => hang(),
    })
    .await;
    let limits = ["delegation.max_concurrent_children=1", "delegation.over_limit=queue"];
    let args = ["--output", "json", "--set", limits[0], "--set", limits[1], "Go"];
    let running = lab.run(&server, &args);
    server.until_requests(2).await;
    running.signal(Signal::INT);
    let ended = running.end().await.with_code(130);
    let path = json!(lab.session_file().display().to_string());
    let [one, two] = &children(&ended)[..] else { panic!("{}", ended.out) };
    assert_eq!([&one["session_path"], &two["session_path"]], [&path, &Value::Null]);
    assert_eq!([&one["cost_usd"], &two["cost_usd"]], [&json!(0.0), &json!(0.0)]);
}

#[tokio::test]
async fn dollars_are_shown_without_the_noise_of_adding_them_up() {
    let lab = Lab::new();
    let server = model(|asked| {
        let reply = match (is_child(asked), asked.results().len()) {
            (false, 0) => {
                let tasks = ["One", "Two", "Three"].map(|goal| json!({"goal": goal}));
                Reply::calls("served-1", [("delegate_task", json!({"tasks": tasks}))])
            }
            _ => Reply::text("served-1", "Done."),
        };
        let input = if is_child(asked) { 100_000 } else { 200_000 };
        MockAnswer::reply(&Reply { usage: Usage { input, ..Usage::default() }, ..reply })
    })
    .await;
    let price = "providers.openai.prices={mock: {input: 1, output: 1}}";
    let ended = lab.run(&server, &["--output", "json", "--set", price, "Go"]).end().await;
    let ended = ended.with_code(0);
    // Three times 0.1 are 0.30000000000000004.
    assert!(ended.out.contains(r#""cost_usd":0.7,"#), "{}", ended.out);
}

#[tokio::test]
async fn the_first_words_of_a_reply_that_broke_off_are_reported_with_the_model_that_said_them() {
    let lab = Lab::new();
    let server = model(|asked| match (is_child(asked), asked.results().len()) {
        (false, 0) => call("delegate_task", json!({"goal": "Break off"})),
        (false, _) => say("All back."),
        (true, _) => {
            let words = "The bug is here. ".repeat(40);
            MockAnswer::reply(&Reply::text("served-2", &words)).pieces(64).reset_at(600)
        }
    })
    .await;
    run(&lab, &server, &["delegation.child_timeout_seconds=0"], "Go").await;
    let entry = shown(&server).remove(0);
    assert!(entry["summary"].as_str().unwrap().contains("The bug"), "{entry}");
    assert_eq!(
        (&entry["status"], &entry["model"]),
        (&json!("failed"), &json!("openai/mock")),
        "{entry}"
    );
}

/// No record can name it, so nothing may depend on its name.
#[tokio::test]
async fn a_shell_in_a_directory_whose_name_is_no_text_harms_nothing() {
    use std::os::unix::ffi::OsStrExt as _;

    let lab = Lab::new();
    let odd = lab.work(std::ffi::OsStr::from_bytes(b"odd\xff"));
    std::fs::create_dir_all(&odd).unwrap();
    let server = model(|asked| match (is_child(asked), asked.results().len()) {
        (false, 0) => call("delegate_task", json!({"goal": "One"})),
        (false, _) => say("Back."),
        (true, 0) => call("terminal", json!({"command": "cd odd*; echo x > y"})),
        (true, 1) => call("terminal", json!({"command": "cat y"})),
        (true, _) => say("It is written."),
    })
    .await;
    run(&lab, &server, &["delegation.approvals=auto"], "Go").await;
    let entry = &result(&messages(of(&server.requests(), "Go")[1], "tool")[0]).0["results"][0];
    assert_eq!(entry["status"], "completed", "{entry}");
    let commands = entry["receipts"]["commands"].as_array().unwrap();
    assert_eq!(commands.len(), 2, "{entry}");
    assert!(commands.iter().all(|run| run["exit_code"] == 0), "{entry}");
    assert!(odd.join("y").exists());

    let mut command = lab.deputize(&["run", "-m", "offline", "Go", "-C"]);
    command.arg(&odd);
    let refused = crate::program::RunningProgram::start(command).end().await.with_code(2);
    assert!(refused.err.contains("is not UTF-8"), "{}", refused.err);
}
