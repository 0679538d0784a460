//! `deputize policy explain`.

use std::fs;

use serde_json::{Value, json};

use crate::program::{Lab, ProgramEnd, RunningProgram};

async fn explain(lab: &Lab, args: &[&str]) -> ProgramEnd {
    let args = [&["policy", "explain"], args].concat();
    RunningProgram::start(lab.deputize(&args)).end().await
}

fn decision(ended: &ProgramEnd) -> Value {
    serde_json::from_str(&ended.out).unwrap()
}

#[tokio::test]
async fn a_command_a_path_and_an_address_are_explained() {
    let lab = Lab::new();
    fs::write(lab.work("notes.txt"), "x").unwrap();
    std::os::unix::fs::symlink("/etc", lab.work("out")).unwrap();
    let home = lab.path("").to_string_lossy().into_owned();
    let cases: [(&[&str], Value); 14] = [
        (&["--command", "ls"], json!(["safe", "none"])),
        (&["--command", "git push -f"], json!(["dangerous", "git-rewrites-remote"])),
        (&["--command", "sudo sh -c 'rm -rf \"$HOME\"'"], json!(["hardline", "wipe"])),
        (&["--command", "rm -rf *"], json!(["dangerous", "recursive-delete"])),
        (&["--command", "rm -rf *", "-C", &home], json!(["hardline", "wipe"])),
        (&["--path", "notes.txt", "--op", "write"], json!(["allow", "none"])),
        (&["--path", "new/file.rs", "--op", "write"], json!(["allow", "none"])),
        (&["--path", "../secret", "--op", "read"], json!(["deny", "outside-workspace"])),
        (&["--path", "out/passwd", "--op", "read"], json!(["deny", "link"])),
        (&["--path", ".git/config", "--op", "write"], json!(["deny", "protected-path"])),
        (&["--path", "AGENTS.md", "--op", "write"], json!(["deny", "write-instructions"])),
        (&["--url", "https://example.org/a"], json!(["allow", "none"])),
        (&["--url", "http://localhost:8080/"], json!(["deny", "private-address"])),
        (&["--url", "http://169.254.169.254/"], json!(["deny", "cloud-metadata"])),
    ];
    for (args, expected) in cases {
        let ended = explain(&lab, args).await.with_code(0);
        let decision = decision(&ended);
        let field = if args[0] == "--command" { "class" } else { "decision" };
        assert_eq!(json!([decision[field], decision["rule"]]), expected, "{args:?}: {decision}");
        assert!(decision["reason"].as_str().is_some_and(|it| !it.is_empty()), "{decision}");
    }
}

#[tokio::test]
async fn a_batch_is_answered_line_by_line() {
    let lab = Lab::new();
    let rows = [
        json!({"id": 7, "command": "rm -rf /"}),
        json!({"id": "b", "path": "x", "op": "write"}),
        json!({"id": "c", "url": "ftp://example.org/"}),
    ];
    let line = format!("printf '%s\\n' '{}' '{}' '{}'", rows[0], rows[1], rows[2]);
    let ended = piped(&lab, &line).await.with_code(0);
    let answers: Vec<Value> =
        ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let got: Vec<Value> =
        answers.iter().map(|it| json!([it["id"], it["got"], it["rule"]])).collect();
    let expected =
        json!([[7, "hardline", "wipe"], ["b", "allow", "none"], ["c", "deny", "scheme"]]);
    assert_eq!(json!(got), expected);
    let ended = piped(&lab, "echo '{\"id\": 1, \"path\": \"x\"}'").await.with_code(2);
    let fault = "line 1 of the batch: `op` beside `path` is `read` or `write`";
    assert!(ended.err.contains(fault), "{}", ended.err);
}

/// Runs a batch with the output of a line of a shell.
async fn piped(lab: &Lab, line: &str) -> ProgramEnd {
    let mut command = lab.command("bash");
    command.arg("-c").arg(format!("{line} | {} policy explain --batch", crate::program::PROGRAM));
    RunningProgram::start(command).end().await
}

#[tokio::test]
async fn a_question_has_one_subject() {
    let lab = Lab::new();
    for args in [&[][..], &["--path", "x"], &["--command", "ls", "--url", "http://x/"]] {
        explain(&lab, args).await.with_code(2);
    }
}
