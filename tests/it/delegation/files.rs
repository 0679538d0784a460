//! Files and directories that agents share.

use std::fs;

use deputize_core::model::Reply;
use deputize_testkit::MockAnswer;
use serde_json::{Value, json};

use super::{call, is_child, messages, models::one_child, of, result, run, say};
use crate::program::{ChatRequest, Lab, RunningProgram, model};

#[tokio::test]
async fn a_child_works_where_its_parents_shell_is_also_after_a_resume_and_in_a_replay() {
    let lab = Lab::new();
    let server = model(|asked| {
        let actual = (is_child(asked), asked.results().len(), asked.last_user());
        match actual {
            (false, 0, _) => call("terminal", json!({"command": "mkdir -p sub/deep; cd sub/deep"})),
            (false, _, "Hand on") if asked.results().len() == 1 => {
                call("delegate_task", json!({"goal": "Write it."}))
            }
            (false, ..) => say("Done."),
            (true, 0, _) => call("write_file", json!({"path": "here.txt", "content": "x"})),
            (true, ..) => say("Written."),
        }
    })
    .await;
    let auto = "approvals.mode=auto";
    run(&lab, &server, &[auto], "Move").await;
    let session = lab.session();
    let again = ["--record", "../t.jsonl", "--output", "json", "--set", auto, "--resume"];
    let recorded = lab.run(&server, &[&again[..], &[&session, "Hand on"]].concat());
    let recorded = recorded.end().await.with_code(0);
    assert!(lab.work("sub/deep/here.txt").exists(), "{}", recorded.err);
    let requests = server.requests();
    let system = ChatRequest::of(of(&requests, "Write it.")[0]).system();
    let place = lab.work("sub/deep").canonicalize().unwrap().display().to_string();
    assert!(system.contains(&format!("WORKSPACE PATH:\n{place}")), "{system}");
    let work = lab.work("").canonicalize().unwrap().display().to_string();
    let named = system.matches(work.trim_end_matches('/')).count();
    assert_eq!(named, 1, "no other directory than its own: {system}");
    // Where it is played the directory need not be.
    fs::remove_dir_all(lab.work("sub")).unwrap();
    let played = ["run", "--replay", "../t.jsonl", "--output", "json"];
    let played = RunningProgram::start(lab.deputize(&played)).end().await.with_code(0);
    assert_eq!(played.out, recorded.out);
}

/// A parent that reads three files, hands on, and then changes them; a child that changes them by
/// commands, and one that edits.
fn two_hands(asked: &ChatRequest) -> MockAnswer {
    match (is_child(asked), asked.results().len()) {
        (false, 0) => MockAnswer::reply(&Reply::calls(
            "served-1",
            ["a.txt", "b.txt", "c.txt"].map(|path| ("read_file", json!({ "path": path }))),
        )),
        (false, 3) => {
            call("delegate_task", json!({"tasks": [{"goal": "Shell"}, {"goal": "Edit"}]}))
        }
        (false, 4) => MockAnswer::reply(&Reply::calls(
            "served-1",
            [
                ("edit_file", json!({"path": "a.txt", "old": "one", "new": "1"})),
                ("write_file", json!({"path": "b.txt", "content": "mine"})),
                ("write_file", json!({"path": "c.txt", "content": "mine"})),
            ],
        )),
        (false, _) => say("Done."),
        (true, 0) if asked.last_user() == "Shell" => {
            call("terminal", json!({"command": "echo more >> a.txt && mv b.txt d.txt"}))
        }
        (true, 0) => call("read_file", json!({"path": "c.txt"})),
        (true, 1) if asked.last_user() == "Edit" => {
            call("edit_file", json!({"path": "c.txt", "old": "two", "new": "three"}))
        }
        (true, _) => say("Done."),
    }
}

#[tokio::test]
async fn files_that_a_childs_commands_change_are_reported_and_not_overwritten() {
    let lab = Lab::new();
    for name in ["a.txt", "b.txt", "c.txt"] {
        fs::write(lab.work(name), "one\ntwo\n").unwrap();
    }
    let server = model(two_hands).await;
    run(&lab, &server, &["delegation.subagent_auto_approve=true"], "Go").await;
    let requests = server.requests();
    let parent = of(&requests, "Go");
    let (actual, notes) = result(&messages(parent[2], "tool")[3]);
    let session = lab.session();
    let stale = |n: usize| {
        let paths = actual["results"][n]["stale_paths"].as_array().cloned().unwrap_or_default();
        let name = |path: &Value| path.as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        paths.iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(
        (stale(0), stale(1)),
        (vec!["a.txt".into(), "b.txt".into()], vec!["c.txt".to_owned()])
    );
    assert!(
        notes.replace(&session, "S").contains(
            "`a.txt` (by a command or another program), `b.txt` (deleted or renamed by a \
             command or another program), `c.txt` (by S/2.0.1)"
        ),
        "{notes}"
    );
    let refused = messages(parent[3], "tool")[4..].join("\n").replace(&session, "S");
    assert!(
        refused.contains(
            "a.txt: changed on disk since you read it (by a command or another program, at 20"
        ),
        "{refused}"
    );
    assert!(
        refused.contains("c.txt: changed on disk since you read it (by agent S/2.0.1, at 20"),
        "{refused}"
    );
    assert!(refused.contains("b.txt: deleted or renamed since you read it"), "{refused}");
    assert_eq!(fs::read_to_string(lab.work("c.txt")).unwrap(), "one\nthree\n");
    assert!(!lab.work("b.txt").exists());
}

/// The same agents with stale writes as warnings: the parent's changes replace those of its
/// children, and it reads what may be lost.
#[tokio::test]
async fn where_it_is_configured_a_stale_write_is_a_warning() {
    let lab = Lab::new();
    for name in ["a.txt", "b.txt", "c.txt"] {
        fs::write(lab.work(name), "one\ntwo\n").unwrap();
    }
    let server = model(two_hands).await;
    let set = ["delegation.subagent_auto_approve=true", "file_state.on_stale_write=warn"];
    run(&lab, &server, &set, "Go").await;
    let requests = server.requests();
    let actual = messages(of(&requests, "Go")[3], "tool")[4..].join("\n");
    let actual = actual.replace(&lab.session(), "S");
    for note in [
        "a.txt had changed on disk since you read it (by a command or another program, at 20",
        "b.txt had been deleted or renamed since you read it",
        "c.txt had changed on disk since you read it (by agent S/2.0.1, at 20",
    ] {
        assert!(actual.contains(note), "no `{note}` in {actual}");
    }
    let now = ["a.txt", "b.txt", "c.txt"].map(|name| fs::read_to_string(lab.work(name)).unwrap());
    assert_eq!(now, ["1\ntwo\nmore\n", "mine", "mine"]);
}

#[tokio::test]
async fn children_work_where_terminals_begin() {
    let lab = Lab::new();
    fs::create_dir(lab.work("web")).unwrap();
    fs::write(lab.work("web/a.txt"), "here\n").unwrap();
    let server = model(|asked| match (is_child(asked), asked.results().len()) {
        (true, 0) => call("read_file", json!({"path": "a.txt"})),
        (false, _) | (true, _) => one_child(asked),
    })
    .await;
    let place = lab.work("web").display().to_string();
    run(&lab, &server, &[&format!("terminal.cwd={place}")], "Go").await;
    let requests = server.requests();
    let child = of(&requests, "Look at one");
    let system = messages(child[0], "system").concat();
    assert!(system.contains(&format!("WORKSPACE PATH:\n{place}\n")), "{system}");
    assert!(messages(child[1], "tool")[0].contains("here"));
}
