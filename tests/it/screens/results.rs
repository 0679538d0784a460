//! What came of calls and children, in words.

use std::path::Path;

use deputize_core::model::Reply;
use deputize_testkit::MockAnswer;
use serde_json::json;

use super::{Streams, call, joined, on_terminal_with_code, say};
use crate::kill::kill;
use crate::program::{Lab, RunningProgram, hang, model, soon};

#[tokio::test]
async fn results_of_background_children_and_of_their_control_are_words() {
    let lab = Lab::new();
    let server = model(|asked| {
        let actual = asked.system() + asked.first_user();
        if actual.contains("Count the files") {
            return say("There are three.");
        }
        let control = |arguments| ("delegate_control", arguments);
        match asked.results().len() {
            0 => {
                let task = json!({"goal": "Count the files", "background": true});
                call("delegate_task", task)
            }
            1 => MockAnswer::reply(&Reply::calls(
                "served-1",
                [
                    control(json!({"action": "join"})),
                    control(json!({"action": "list"})),
                    control(json!({"action": "dance"})),
                ],
            )),
            _ => say("Done."),
        }
    })
    .await;
    let args = ["--set", "delegation.background=true", "Go"];
    lab.run(&server, &args).end().await.with_code(0);
    let shown = lab.deputize(&["sessions", "show", &lab.session()]);
    let shown = RunningProgram::start(shown).end().await.with_code(0).out;
    for words in [
        "  | 0 1.0.0: ",
        "  | 1.0.0: completed: Count the files\n",
        "  | 0 running, 0 waiting, 1 ended\n",
        "  | error: nothing was done: 1 thing in this call is wrong\n",
        "has ended: completed. Its goal: \"Count the files\".\n0 1.0.0: completed\n  There are three.\n",
    ] {
        assert!(shown.contains(words), "{words:?}: {shown}");
    }
    assert!(!shown.contains('{') && !shown.contains("\":"), "{shown}");
}

#[tokio::test]
async fn children_without_room_in_the_budget_share_one_reason() {
    let goal = "Read one part of this project and write down all that there is to say of it";
    let server = model(move |asked| {
        let actual = asked.system() + asked.first_user();
        match (actual.contains(goal), asked.results().len()) {
            // With each step less of the budget is left.
            (true, 0..=4) => call("list_dir", json!({})),
            (false, 0) => {
                let task = |part| json!({"goal": format!("{goal}, part {part}")});
                call("delegate_task", json!({"tasks": (1..=6).map(task).collect::<Vec<_>>()}))
            }
            _ => say("Done."),
        }
    })
    .await;
    let args = [
        "--max-tokens-total",
        "15000",
        "--set",
        "delegation.max_concurrent_children=6",
        "--approve",
        "deny",
        "Go",
    ];
    let lab = Lab::new();
    let ended = lab.run(&server, &args).end().await;
    let at = ended.err.find(" agents failed:").unwrap_or_else(|| panic!("{}", ended.err));
    let (during, end) = ended.err.split_at(at);
    let no_room = "the budget has no room for it: ";
    assert_eq!(end.matches(no_room).count(), 1, "{}", ended.err);
    let reason = "nothing was asked of the model";
    let is_shared = [" agents: ", " agents, the first of them: "]
        .iter()
        .any(|lead| end.contains(&format!("{lead}{reason}")));
    assert!(is_shared, "{}", ended.err);
    assert_eq!(during.matches(no_room).count(), 1, "{}", ended.err);
    assert!(during.contains(": the same reason as 1."), "{}", ended.err);

    let lab = Lab::new();
    let command = lab.run_command(&server, &args);
    let rows = on_terminal_with_code(80, Streams::Errors, command, 4).await;
    let at = rows.iter().rposition(|row| row.ends_with(" agents failed:")).unwrap();
    let names: Vec<&String> = rows[at..].iter().filter(|row| row.contains('✗')).collect();
    assert!(names.len() > 2 && names.iter().all(|row| row.ends_with('…')), "{rows:#?}");
    assert_eq!(joined(&rows[at..]).matches(no_room).count(), 1, "{rows:#?}");
}

#[tokio::test]
async fn a_session_names_the_configuration_file_that_it_ran_with() {
    let lab = Lab::new();
    std::fs::write(lab.path("other config.yaml"), "max_iterations: 7\n").unwrap();
    let server = model(|_| hang()).await;
    let file = lab.path("other config.yaml");
    let running = lab.run(&server, &["--config", "../other config.yaml", "Go"]);
    soon("the request", server.until_requests(1)).await;
    kill(&lab, running).await;
    let session = lab.session();
    let shown = lab.deputize(&["sessions", "show", &session]);
    let shown = RunningProgram::start(shown).end().await.with_code(0);
    let file = file.canonicalize().unwrap();
    let hint = format!(
        "unfinished: continue with `deputize run --config '{}' --resume {session}`",
        file.display()
    );
    assert!(shown.out.trim_end().ends_with(&hint), "{}", shown.out);

    let server = model(|_| say("Done.")).await;
    let resumed = |more: &[&str]| {
        let base_url = server.base_url();
        let args = [&["run", "--resume", &session, "--base-url", &base_url], more].concat();
        RunningProgram::start(lab.deputize(&args))
    };
    let other = lab.path("another.yaml");
    std::fs::write(&other, "max_iterations: 7\n").unwrap();
    let own = lab.path("home/config.yaml");
    let with = |file: &Path| Some(file.to_str().unwrap().to_owned());
    let ran_with =
        |file: &Path| format!("note: the session ran with `--config {}`", file.display());
    let link = lab.path("link.yaml");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for (config, note) in [
        (with(&file), None),
        (with(&link), None),
        (None, Some(format!("{}, and this run goes on without it", ran_with(&link)))),
        (with(&link), None),
        (
            with(&other),
            Some(format!("{}, and this run uses `{}`", ran_with(&link), other.display())),
        ),
    ] {
        let config = config.iter().flat_map(|file| ["--config", file.as_str()]);
        let ended = resumed(&config.chain(["And now?"]).collect::<Vec<_>>()).end().await;
        let ended = ended.with_code(0);
        match note {
            Some(note) => assert!(ended.err.contains(&note), "{note}\n{}", ended.err),
            None => assert!(!ended.err.contains("the session ran with"), "{}", ended.err),
        }
    }
    std::fs::write(&own, "max_iterations: 7\n").unwrap();
    let ended = resumed(&["And now?"]).end().await.with_code(0);
    let note = format!("{}, and this run uses `{}`", ran_with(&other), own.display());
    assert!(ended.err.contains(&note), "{note}\n{}", ended.err);
}
