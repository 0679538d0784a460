//! What a family shares with its prefix, and what it does not.

use std::fs;

use deputize_core::model::Reply;
use deputize_testkit::{HttpRequest, MockAnswer};
use serde_json::{Value, json};

use super::{call, is_child, messages, of, run, say};
use crate::program::{Lab, RunningProgram, model};

const SHARES: &str = "delegation.tool_schemas=cache_preserving";

#[tokio::test]
async fn a_family_that_shares_its_prefix_shares_nothing_else() {
    let lab = Lab::new();
    fs::write(lab.work("AGENTS.md"), "Use tabs.\n").unwrap();
    let server = model(|asked| match (is_child(asked), asked.results().len()) {
        (false, 0) => call("delegate_task", json!({"goal": "Look at one", "toolsets": ["file"]})),
        (false, _) => say("Looked."),
        (true, 0) => MockAnswer::reply(&Reply::calls(
            "served-1",
            [
                ("delegate_task", json!({"goal": "No."})),
                ("terminal", json!({"command": "echo no"})),
                ("list_dir", json!({})),
            ],
        )),
        (true, _) => say("I looked."),
    })
    .await;
    run(&lab, &server, &[SHARES], "Look around").await;
    let requests = server.requests();
    let parent = of(&requests, "Look around");
    let child = of(&requests, "Look at one");
    let both = [parent[0].json(), child[0].json()];
    assert_eq!(both[0]["tools"].to_string(), both[1]["tools"].to_string());
    assert_eq!(both[0]["messages"][0], both[1]["messages"][0], "the system text");
    let [own, theirs] = [parent, child.clone()].map(|all| messages(all[0], "user").concat());
    assert!(own.contains("Use tabs.") && own.contains("\nTHE REQUEST:\nLook around"), "{own}");
    assert!(!theirs.contains("Use tabs.") && theirs.contains("Date: "), "{theirs}");
    let system = messages(child[0], "system").concat();
    assert!(!system.contains("Date: ") && !system.contains("Working directory"), "{system}");
    let results = messages(child[1], "tool");
    assert!(results[0].starts_with("error: ") && results[0].contains("E_DEPTH"), "{}", results[0]);
    assert!(results[1].contains("you may not use `terminal`: use "), "{}", results[1]);
    assert!(results[2].contains("AGENTS.md"), "{}", results[2]);
    assert!(theirs.contains("you may use `apply_patch`, `edit_file`, `list_dir`"), "{theirs}");

    insta::assert_snapshot!(redacted(&format!("{own}\n=====\n{theirs}"), &lab));

    // What `prompt` shows is what is sent.
    let base = server.base_url();
    let asked = [
        "prompt",
        "-m",
        "openai/mock",
        "--base-url",
        &base,
        "--set",
        SHARES,
        "--json",
        "--project-files",
    ];
    let sent = |request: &HttpRequest| format!("{}\n", request.text());
    for (more, request) in [
        (&["Look around"][..], own_request(&requests, "Look around")),
        (&["--child", "--goal", "Look at one", "-t", "file"], child[0]),
    ] {
        let args = [&asked[..], more].concat();
        let shown = RunningProgram::start(lab.deputize(&args)).end().await.with_code(0);
        assert_eq!(shown.out, sent(request));
    }
}

#[tokio::test]
async fn what_stands_before_the_persons_words_is_not_shown_as_theirs() {
    let lab = Lab::new();
    fs::write(lab.work("AGENTS.md"), "Use tabs.\n").unwrap();
    let server = model(|_| say("Looked.")).await;
    let hook = "hooks.UserPromptSubmit=['cat > seen']";
    let ended = run(&lab, &server, &[SHARES, hook], "Look around").await;
    let seen = fs::read_to_string(lab.work("seen")).unwrap();
    let seen: Value = serde_json::from_str(&seen).unwrap();
    assert_eq!(seen["args"]["prompt"], "Look around");
    let session = lab.session();
    let shown = ["sessions", "show", &session];
    let shown = RunningProgram::start(lab.deputize(&shown)).end().await.with_code(0);
    let export = ["sessions", "export", &session, "--format", "markdown"];
    let export = RunningProgram::start(lab.deputize(&export)).end().await.with_code(0);
    for text in [&shown.out, &export.out, &ended.err] {
        assert!(text.contains("Look around") && !text.contains("Use tabs."), "{text}");
    }
    assert!(shown.out.contains("> Look around\n"), "{}", shown.out);
}

/// Without what differs between days, machines and frames.
fn redacted(text: &str, lab: &Lab) -> String {
    let place = lab.work("").display().to_string();
    let text = text.replace(place.trim_end_matches('/'), "CWD");
    let lines = text.lines().map(|line| match line.split_once(' ') {
        Some(("Date:", _)) => "Date: DATE",
        Some(("<project:AGENTS.md", _)) => "<project:AGENTS.md ...>",
        _ if line.starts_with("</") => "</...>",
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_recording_of_every_form_plays_again_and_writes_nothing() {
    let long = "x".repeat(2000);
    for (set, tool, arguments) in [
        (SHARES, "delegate_task", json!({"goal": "Look at one"})),
        ("delegation.tool_name=task", "task", json!({"description": "Look at one"})),
        ("delegation.base_url=@URL", "delegate_task", json!({"goal": "Look at one"})),
    ] {
        let lab = Lab::new();
        let long = long.clone();
        let server = model(move |asked| match (is_child(asked), asked.results().len()) {
            (false, 0) => call(tool, arguments.clone()),
            (false, _) => say("Looked."),
            (true, 0) => call("write_file", json!({"path": "a.txt", "content": "x"})),
            (true, _) => say(&long),
        })
        .await;
        let set = set.replace("@URL", &server.base_url());
        let cut = "delegation.max_summary_bytes=300";
        let args =
            ["--record", "../t.jsonl", "--output", "json", "--set", &set, "--set", cut, "Go"];
        let recorded = lab.run(&server, &args).end().await.with_code(0);
        drop(server);
        fs::remove_dir_all(lab.path("home")).unwrap();
        let played = ["run", "--replay", "../t.jsonl", "--output", "json"];
        let played = RunningProgram::start(lab.deputize(&played)).end().await.with_code(0);
        assert_eq!(played.out, recorded.out, "{set}");
        let again = ["run", "--replay", "../t.jsonl", "--output", "json", "Go"];
        RunningProgram::start(lab.deputize(&again)).end().await.with_code(0);
        assert!(!lab.path("home/sessions").exists() && !lab.path("home/logs").exists(), "{set}");
    }
}

fn own_request<'r>(requests: &'r [HttpRequest], word: &str) -> &'r HttpRequest {
    of(requests, word)[0]
}
