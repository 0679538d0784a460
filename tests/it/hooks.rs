//! Hooks as a person configures them: shell scripts around a whole run.

use std::fs;

use deputize_core::model::Reply;
use deputize_testkit::{MockAnswer, MockServer};
use serde_json::{Value, json};

use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, model};

const SECRET: &str = "key-0123456789abcdef";

/// A person whose configuration holds these hooks.
fn with_hooks(lab: &Lab, hooks: &str) {
    fs::create_dir_all(lab.path("home")).unwrap();
    fs::write(lab.path("home/config.yaml"), format!("hooks:\n{hooks}")).unwrap();
}

async fn run(lab: &Lab, server: &MockServer, args: &[&str]) -> ProgramEnd {
    let mut command = lab.run_command(server, &["--output", "events", "--api-key-env", "THE_KEY"]);
    command.args(args).env("THE_KEY", SECRET);
    RunningProgram::start(command).end().await
}

/// The parent hands on; the child writes a file and answers.
fn family(asked: &ChatRequest) -> MockAnswer {
    let child = asked.system().contains("YOUR TASK:");
    MockAnswer::reply(&match (child, asked.replies()) {
        (false, 0) => Reply::calls("mock", [("delegate_task", json!({"goal": "write it"}))]),
        (true, 0) => {
            let look = ("search_files", json!({"pattern": format!("a {SECRET} b")}));
            Reply::calls("mock", [look, ("write_file", json!({"path": "a.txt", "content": "x"}))])
        }
        (true, _) => Reply::text("mock", asked.results().join("\n")),
        (false, _) => Reply::text("mock", "handed on"),
    })
}

/// The objects that a hook wrote down, one a line.
fn seen(lab: &Lab, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(lab.work(name)).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn hooks_see_parent_and_child_at_every_moment_and_no_secret() {
    let lab = Lab::new();
    let points = ["PreToolUse", "PostToolUse", "UserPromptSubmit", "SubagentStart", "SubagentStop"];
    let lines = points.map(|point| format!("  {point}: ['cat >> seen']\n"));
    with_hooks(&lab, &lines.concat());
    let server = model(family).await;
    let ended = run(&lab, &server, &["go"]).await.with_code(0);

    let seen = seen(&lab, "seen");
    let actual = seen.iter().map(|event| {
        let tool = event["tool"].as_str().unwrap_or("-");
        format!("{} {tool} {}", event["event"].as_str().unwrap(), event["depth"])
    });
    assert_eq!(
        actual.collect::<Vec<_>>(),
        [
            "UserPromptSubmit - 0",
            "PreToolUse delegate_task 0",
            "SubagentStart - 1",
            "PreToolUse search_files 1",
            "PostToolUse search_files 1",
            "PreToolUse write_file 1",
            "PostToolUse write_file 1",
            "SubagentStop - 1",
            "PostToolUse delegate_task 0",
        ]
    );
    assert_eq!(seen[3]["args"]["pattern"], "a [redacted:THE_KEY] b");
    assert_eq!(seen[7]["output"]["status"], "completed");
    let written = &seen[7]["output"]["receipts"]["files_written"];
    assert!(written[0]["path"].as_str().unwrap().ends_with("a.txt"), "{written}");
    lab.holds_no(SECRET, &ended);
    assert!(!fs::read_to_string(lab.work("seen")).unwrap().contains(SECRET));

    let hooks = ended.events("hook");
    assert_eq!(hooks.len(), 9);
    assert!(hooks.iter().all(|hook| hook["decision"] == "pass" && hook["output_bytes"] == 0));
    let stop = &hooks[7];
    assert_eq!((&stop["name"], &stop["depth"]), (&json!("SubagentStop"), &json!(0)));
    assert_eq!(stop["child"], format!("{}/1.0.0", lab.session()));
}

#[tokio::test]
async fn exit_code_2_denies_a_childs_call_and_the_model_gets_the_reason() {
    let lab = Lab::new();
    let script =
        "grep -q '\"tool\":\"write_file\"' || exit 0; echo nothing is written today >&2; exit 2";
    with_hooks(&lab, &format!("  PreToolUse:\n    - {}\n", json!(script)));
    let server = model(family).await;
    let ended = run(&lab, &server, &["go"]).await.with_code(0);
    assert!(!lab.work("a.txt").exists());
    let denied = ended.events("tool.end").remove(1);
    let reason = "a hook blocked this call: nothing is written today";
    assert_eq!((&denied["tool"], &denied["status"]), (&json!("write_file"), &json!("denied")));
    assert_eq!(denied["preview"], format!("error: denied: {reason}"));
    let end = ended.events("agent.end").remove(0);
    assert_eq!(end["denied_tool_calls"], 1);
    let line = format!(
        "write_file refused: a.txt: a hook blocked it: nothing is written today (`{script}`)"
    );
    assert!(ended.err.lines().any(|it| it.ends_with(&line)), "{}", ended.err);
    assert_eq!(ended.err.matches("nothing is written today").count(), 2, "{}", ended.err);
}

#[tokio::test]
async fn a_hook_that_fails_stops_nothing_and_is_reported() {
    let lab = Lab::new();
    with_hooks(&lab, "  PreToolUse: ['echo broken >&2; exit 3', 'no-such-hook', 'cat > seen']\n");
    let server = model(family).await;
    let ended = run(&lab, &server, &["go"]).await.with_code(0);
    assert!(lab.work("a.txt").exists());
    let hooks = ended.events("hook");
    let said = |hook: &Value| format!("{} {}", hook["decision"], hook["reason"]);
    assert_eq!(said(&hooks[0]), "\"error\" \"exit code 3: broken\"");
    assert!(said(&hooks[1]).starts_with("\"error\" \"exit code 127: "), "{}", hooks[1]);
    assert_eq!(said(&hooks[2]), "\"pass\" \"\"");
    assert!(ended.err.contains("failed: exit code 3: broken"), "{}", ended.err);
}

#[tokio::test]
async fn a_blocked_message_is_sent_to_nobody() {
    let lab = Lab::new();
    with_hooks(&lab, "  UserPromptSubmit: ['grep -q forbidden && exit 2; exit 0']\n");
    let server = model(family).await;
    let ended = run(&lab, &server, &["a forbidden word"]).await.with_code(1);
    assert_eq!(server.requests().len(), 0);
    assert!(ended.err.contains("a hook blocked the message: it gives no reason"), "{}", ended.err);
    // The same message would be blocked again.
    let hint =
        format!("hint: continue with another message: `deputize run --resume {} ", lab.session());
    assert!(ended.err.contains(&hint), "{}", ended.err);
}

#[tokio::test]
async fn an_interrupt_ends_a_hook_and_all_that_it_started() {
    let lab = Lab::new();
    let mut begun = lab.pipe("begun");
    let hangs = format!("trap '' TERM; sleep {} & echo x > begun; wait", lab.mark());
    with_hooks(&lab, &format!("  PreToolUse: [{}]\n", json!(hangs)));
    let server = model(family).await;
    let mut command = lab.run_command(&server, &["go"]);
    command.env("THE_KEY", SECRET);
    let running = RunningProgram::start(command);
    begun.lines(1).await;
    running.signal(rustix::process::Signal::INT);
    running.end().await.with_code(130);
    assert_eq!(lab.processes(), []);
}

#[tokio::test]
async fn hooks_of_a_project_are_not_obeyed_and_a_replay_runs_none() {
    let lab = Lab::new();
    fs::create_dir_all(lab.work(".deputize")).unwrap();
    let own = "hooks: {UserPromptSubmit: ['touch project-hook']}\n";
    fs::write(lab.work(".deputize/config.yaml"), own).unwrap();
    with_hooks(&lab, "  PreToolUse: ['echo x >> ran; echo no >&2; exit 2']\n");
    let server = model(family).await;
    let ended = run(&lab, &server, &["--record", "tape", "go"]).await.with_code(0);
    assert!(!lab.work("project-hook").exists());
    let ran = fs::read_to_string(lab.work("ran")).unwrap();

    let replay = lab.deputize(&["run", "--replay", "tape", "--output", "events"]);
    let replayed = RunningProgram::start(replay).end().await.with_code(0);
    assert_eq!(replayed.events("hook"), ended.events("hook"));
    assert_eq!(fs::read_to_string(lab.work("ran")).unwrap(), ran);
}

#[tokio::test]
async fn the_example_of_the_page_does_what_it_says() {
    let page = include_str!("../../docs/guide/hooks.md");
    let script = page.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let actual =
        page.split("```text\n").nth(1).and_then(|rest| rest.split("\n```").next()).unwrap();
    let lab = Lab::new();
    fs::write(lab.path("hook.sh"), script).unwrap();
    let command = format!("sh {}", lab.path("hook.sh").display());
    with_hooks(&lab, &format!("  PreToolUse: [{}]\n", json!(command)));
    let server = model(|asked| {
        let write = |path: &str| ("write_file", json!({"path": path, "content": "x"}));
        MockAnswer::reply(&match asked.replies() {
            0 => Reply::calls("mock", [write("b.txt"), write("db/migrations/1.sql")]),
            _ => Reply::text("mock", asked.results().join("\n")),
        })
    })
    .await;
    let ended = run(&lab, &server, &["go"]).await.with_code(0);
    let said = ended.events("model.response").pop().unwrap();
    assert!(said["text"].as_str().unwrap().contains(actual), "{said}");
    assert!(lab.work("b.txt").exists() && !lab.work("db").exists());
}

#[tokio::test]
async fn a_hook_whose_program_is_not_there_or_may_not_be_run_is_warned_of() {
    let lab = Lab::new();
    with_hooks(
        &lab,
        "  PreToolUse: [~/bin/typo, 'cat >> ~/calls', ~/bin/plain -x]\n  PostToolUse: [no-such-program]\n",
    );
    fs::create_dir_all(lab.path("bin")).unwrap();
    fs::write(lab.path("bin/plain"), "#!/bin/sh\n").unwrap();
    let expected = [
        "`hooks.PreToolUse`: `~/bin/typo` cannot be run: No such file or directory",
        "`hooks.PreToolUse`: `~/bin/plain` may not be run (chmod +x ~/bin/plain); a hook that cannot \
         run stops nothing",
        "`hooks.PostToolUse`: there is no program `no-such-program` on the PATH",
    ];
    let check = RunningProgram::start(lab.deputize(&["config", "check"])).end().await.with_code(0);
    let doctor = RunningProgram::start(lab.deputize(&["doctor", "-m", "offline"])).end().await;
    let doctor = doctor.with_code(0);
    for words in expected {
        let line = check.err.lines().find(|line| line.contains(words));
        assert!(line.is_some_and(|line| line.starts_with("warning: ")), "{words}: {}", check.err);
        let row = doctor.out.lines().find(|row| row.contains(words));
        assert!(row.is_some_and(|row| row.starts_with("warn  hook ")), "{words}: {}", doctor.out);
    }
    assert_eq!(check.err.lines().count(), expected.len(), "{}", check.err);
    assert!(check.out.contains("warnings: 3"), "{}", check.out);
}
