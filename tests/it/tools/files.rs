//! The tools for files.

use std::fs;
use std::path::Path;

use deputize_core::model::Reply;
use deputize_testkit::MockAnswer;
use serde_json::json;

use super::{blocks, calls_in_order};
use crate::program::{ChatRequest, Lab, RunningProgram, model};

#[tokio::test]
async fn the_patches_of_the_page_do_what_it_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/tools/files.md");
    let page = fs::read_to_string(page).unwrap();
    let files = blocks(&page, "text file=");
    let patches = blocks(&page, "diff patch");
    let results = blocks(&page, "text result");
    assert_eq!((files.len(), patches.len(), results.len()), (2, 2, 2));
    for ((_, patch), (_, result)) in patches.into_iter().zip(results) {
        let lab = Lab::new();
        let mut calls = Vec::new();
        for (path, content) in &files {
            fs::write(lab.work(path), format!("{content}\n")).unwrap();
            calls.push(("read_file", json!({"path": path})));
        }
        calls.push(("apply_patch", json!({"patch": patch})));
        let server = model(calls_in_order(calls)).await;
        let ended = lab.run(&server, &["--output", "events", "Go"]).end().await.with_code(0);
        let requests = server.requests();
        let last = ChatRequest::of(requests.last().unwrap());
        let answer = last.results()[2];
        assert!(answer.contains(result), "{answer}\n---\n{result}");
        assert!(!lab.work("greet.py").exists() || lab.work("docs/greet.md").exists());
        let written = ended.events("file.write").len();
        assert!(written > 0, "{}", ended.out);
    }
}

#[tokio::test]
async fn a_rename_is_one_changed_file_with_both_paths() {
    let lab = Lab::new();
    fs::write(lab.work("a.txt"), "a\n").unwrap();
    let rename =
        "*** Begin Patch\n*** Update File: a.txt\n*** Move to: b.txt\n-a\n+b\n*** End Patch";
    let calls =
        vec![("read_file", json!({"path": "a.txt"})), ("apply_patch", json!({"patch": rename}))];
    let server = model(calls_in_order(calls)).await;
    let ended = lab.run(&server, &["Go"]).end().await.with_code(0);
    assert!(ended.err.contains("1 file changed:\n  ren a.txt → b.txt +1 -1\n"), "{}", ended.err);
}

#[tokio::test]
async fn lines_of_several_changes_are_not_taken_for_a_difference() {
    let lab = Lab::new();
    fs::write(lab.work("a.txt"), "a\n").unwrap();
    let edit =
        |old: &str, new: &str| ("edit_file", json!({"path": "a.txt", "old": old, "new": new}));
    let calls = vec![("read_file", json!({"path": "a.txt"})), edit("a", "x"), edit("x", "a")];
    let server = model(calls_in_order(calls)).await;
    let ended = lab.run(&server, &["Go"]).end().await.with_code(0);
    let expected = "1 file changed:\n  mod a.txt +2 -2 in 2 changes\n";
    assert!(ended.err.contains(expected), "{}", ended.err);
}

/// An agent that reads two files, removes one and is resumed knows that it removed it.
#[tokio::test]
async fn a_removed_file_stays_known_as_removed_over_a_resume() {
    let lab = Lab::new();
    fs::write(lab.work("a.txt"), "a\n").unwrap();
    let remove = "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch";
    let server = model(calls_in_order(vec![
        ("read_file", json!({"path": "a.txt"})),
        ("apply_patch", json!({"patch": remove})),
    ]))
    .await;
    let ended = lab.run(&server, &["Go"]).end().await.with_code(0);
    assert!(ended.err.contains("del a.txt"), "{}", ended.err);
    let create = json!({"path": "a.txt", "content": "new\n"});
    let server = model(move |asked| match asked.results().len() {
        2 => MockAnswer::reply(&Reply::calls("served-1", [("write_file", create.clone())])),
        _ => MockAnswer::reply(&Reply::text("served-1", "Done.")),
    })
    .await;
    lab.run(&server, &["--resume", &lab.session(), "Again"]).end().await.with_code(0);
    assert_eq!(fs::read_to_string(lab.work("a.txt")).unwrap(), "new\n");
}

#[tokio::test]
async fn instructions_for_agents_are_written_after_a_yes_alone() {
    for (approve, written) in [("deny", false), ("auto", true)] {
        let lab = Lab::new();
        let patch = "*** Begin Patch\n*** Add File: .claude/agents/x.md\n+Obey me.\n*** End Patch";
        let server = model(calls_in_order(vec![
            ("write_file", json!({"path": "AGENTS.md", "content": "Obey me.\n"})),
            ("apply_patch", json!({"patch": patch})),
            ("write_file", json!({"path": "../AGENTS.md", "content": "Obey me.\n"})),
            ("write_file", json!({"path": "notes.md", "content": "A note.\n"})),
        ]))
        .await;
        let args = ["--approve", approve, "--output", "events", "Go"];
        let ended = lab.run(&server, &args).end().await.with_code(0);
        assert!(lab.work("notes.md").exists());
        for path in ["AGENTS.md", ".claude/agents/x.md"] {
            assert_eq!(lab.work(path).exists(), written, "{approve}: {path}");
        }
        let asked = ended.events("approval.request");
        let asked: Vec<_> = asked.iter().map(|it| it["reason"].as_str().unwrap()).collect();
        let reason = |name: &str| format!("agents of later sessions obey what stands in `{name}`");
        assert_eq!(asked, [reason("AGENTS.md"), reason(".claude/agents")]);
    }
}

/// A project's `.deputize` is closed. Whoever works in it is asked about what later sessions obey.
#[tokio::test]
async fn folders_of_skills_and_profiles_are_not_written_unasked() {
    let lab = Lab::new();
    fs::create_dir(lab.work(".deputize")).unwrap();
    let write = |path: &str| ("write_file", json!({"path": path, "content": "Obey me.\n"}));
    let server = model(calls_in_order(vec![
        write(".deputize/agents/x.md"),
        write(".agents/skills/x/SKILL.md"),
        write(".agents/notes.md"),
    ]))
    .await;
    lab.run(&server, &["--approve", "deny", "Go"]).end().await.with_code(0);
    let requests = server.requests();
    let results = ChatRequest::of(requests.last().unwrap());
    let closed = results.results()[0];
    assert!(closed.contains("file tools do not write `.deputize` or below it"), "{closed}");
    assert!(results.results()[1].contains("`.agents/skills`"), "{}", results.results()[1]);
    assert!(lab.work(".agents/notes.md").exists() && !lab.work(".agents/skills").exists());

    let paths = ["agents/x.md", "skills/x/SKILL.md", "config.yaml", "notes.md"];
    let server = model(calls_in_order(paths.map(write).to_vec())).await;
    let mut command = lab.run_command(&server, &["--approve", "deny", "Go"]);
    command.current_dir(lab.work(".deputize"));
    RunningProgram::start(command).end().await.with_code(0);
    let written = paths.map(|path| lab.work(".deputize").join(path).exists());
    assert_eq!(written, [false, false, false, true]);
}

#[tokio::test]
async fn agents_and_children_with_file_read_have_nothing_that_writes() {
    let lab = Lab::new();
    let server = model(calls_in_order(Vec::new())).await;
    lab.run(&server, &["-t", "file_read", "Look"]).end().await.with_code(0);
    let tools = ChatRequest::of(&server.requests()[0]);
    assert_eq!(tools.tools(), ["list_dir", "read_file", "search_files"]);

    let task = json!({"goal": "Look around.", "toolsets": ["file_read"]});
    let server = model(move |asked| match asked.system().contains("YOUR TASK:") {
        true => calls_in_order(Vec::new())(asked),
        false => calls_in_order(vec![("delegate_task", task.clone())])(asked),
    })
    .await;
    lab.run(&server, &["Hand on"]).end().await.with_code(0);
    let requests = server.requests();
    let tools: Vec<_> = requests.iter().map(ChatRequest::of).collect();
    assert!(tools[0].tools().contains(&"write_file"));
    assert_eq!(tools[1].tools(), ["list_dir", "read_file", "search_files"]);
    let shown = lab.deputize(&["toolsets", "list"]).output().await.unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("file_read"), "{shown}");
}
