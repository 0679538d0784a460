//! What is typed beside a task, and what becomes of it: piped material, directories, names of
//! commands, files that a configuration names.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use deputize_core::model::Reply;
use deputize_testkit::{MockAnswer, MockServer};
use serde_json::{Value, json};

use crate::program::{Lab, PROGRAM, ProgramEnd, RunningProgram, model};

fn text(text: &str) -> MockAnswer {
    MockAnswer::reply(&Reply::text("mock", text))
}

async fn ended(lab: &Lab, args: &[&str]) -> ProgramEnd {
    RunningProgram::start(lab.deputize(args)).end().await
}

/// Runs a line of a shell, in which `deputize` is the program with a model at this server.
async fn shell(lab: &Lab, server: &MockServer, line: &str) -> ProgramEnd {
    let mut command = lab.command("bash");
    let run = format!("{PROGRAM} run -m openai/mock --base-url {}", server.base_url());
    command.arg("-c").arg(format!("deputize() {{ {run} \"$@\"; }}\n{line}"));
    RunningProgram::start(command).end().await
}

/// The text of the last message of a request.
fn last_message(server: &MockServer) -> String {
    let request: Value = server.requests().pop().unwrap().json();
    request["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_is_piped_in_beside_a_task_goes_with_it() {
    let lab = Lab::new();
    let server = model(|_| text("Fine.")).await;
    let line = "printf '+one\\n-two\\033[2J\\n' | deputize 'Review this change.'";
    let ended = shell(&lab, &server, line).await.with_code(0);
    assert_eq!(ended.out, "Fine.\n");
    assert!(
        ended.err.contains("note: added 14 bytes of standard input to the task"),
        "{}",
        ended.err
    );
    let sent = last_message(&server);
    assert!(sent.starts_with("<input:stdin "), "{sent}");
    assert!(sent.contains(">\n+one\n-two\n</"), "{sent}");
    assert!(sent.ends_with("[1 terminal sequence removed]\n\nReview this change."), "{sent}");
    // A person reads their own words.
    let session = lab.session();
    let shown = self::ended(&lab, &["sessions", "show", &session]).await.with_code(0);
    assert!(shown.out.contains("✓ top  Review this change."), "{}", shown.out);
    assert!(shown.out.contains("\n> Review this change.\n"), "{}", shown.out);
    let exported = self::ended(&lab, &["sessions", "export", &session]).await.with_code(0);
    assert!(exported.out.contains(r#""preview":"Review this change.""#), "{}", exported.out);
    assert!(!exported.out.contains("<input:stdin"), "{}", exported.out);
    let sources = r#""sources":["input:stdin","user"]"#;
    assert_eq!(exported.out.matches(sources).count(), 1, "{}", exported.out);

    let line = format!("echo more | deputize --resume {session} 'And this?'");
    shell(&lab, &server, &line).await.with_code(0);
    let sent = last_message(&server);
    assert!(sent.contains(">\nmore\n</") && sent.ends_with("\n\nAnd this?"), "{sent}");
    let shown = self::ended(&lab, &["sessions", "show", &session]).await.with_code(0);
    assert!(shown.out.contains("\n> And this?\n"), "{}", shown.out);
    let exported = self::ended(&lab, &["sessions", "export", &session]).await.with_code(0);
    assert_eq!(exported.out.matches(sources).count(), 2, "{}", exported.out);
}

#[tokio::test]
async fn nothing_piped_in_is_reported_where_something_was_to_come() {
    let lab = Lab::new();
    let server = model(|_| text("Fine.")).await;
    let empty = "note: standard input was empty: nothing of it goes with the task";
    fs::write(lab.work("empty"), "").unwrap();
    for (nothing, actual) in [
        ("deputize Go < /dev/null", false),
        ("deputize Go <&-", false),
        // Something was to come.
        (": | deputize Go", true),
        ("deputize Go < empty", true),
    ] {
        let ended = shell(&lab, &server, nothing).await.with_code(0);
        assert_eq!(ended.err.contains(empty), actual, "{nothing}: {}", ended.err);
        assert_eq!(ended.err.contains("standard input"), actual, "{nothing}: {}", ended.err);
        assert_eq!(last_message(&server), "Go", "{nothing}");
    }
}

#[tokio::test]
async fn material_that_is_too_long_is_cut_and_an_agent_reads_the_rest() {
    let lab = Lab::new();
    let server = model(|asked| match asked.results().as_slice() {
        [] => {
            let actual = asked.last_user().to_owned();
            let path = actual.split("all of them are in ").nth(1).unwrap();
            let path = path.split(']').next().unwrap();
            let read = json!({"path": path, "offset": 900, "limit": 1});
            MockAnswer::reply(&Reply::calls("mock", [("read_file", read)]))
        }
        [result] => text(result),
        [..] => text("Too much."),
    })
    .await;
    let line = "seq 1000 | deputize --set limits.read_bytes=1000 'What is in line 900?'";
    let ended = shell(&lab, &server, line).await.with_code(0);
    assert!(ended.out.contains("900\t900"), "{}", ended.out);
    let first: Value = server.requests().remove(0).json();
    let sent = first["messages"].to_string();
    assert!(sent.contains("[stdin has 3893 bytes; the first 1000 are above"), "{sent}");
    assert!(!sent.contains("\\n900\\n"), "{sent}");
    let kept = lab.path("home/sessions").join(lab.session()).join("stdin.txt");
    assert_eq!(fs::read_to_string(&kept).unwrap().lines().count(), 1000);
    assert_eq!(kept.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_recording_holds_what_was_piped_in() {
    let lab = Lab::new();
    let server = model(|_| text("Fine.")).await;
    shell(&lab, &server, "echo +one | deputize --record tape Review").await.with_code(0);
    for task in [&[][..], &["Review"]] {
        let args = [&["run", "--replay", "tape"], task].concat();
        let ended = ended(&lab, &args).await.with_code(0);
        assert_eq!(ended.out, "Fine.\n");
    }
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_session_goes_on_in_its_own_directory_or_not_at_all() {
    let lab = Lab::new();
    let work = lab.work("").display().to_string();
    let other = lab.path("other");
    fs::create_dir(&other).unwrap();
    ended(&lab, &["run", "-q", "-m", "offline", "list ."]).await.with_code(0);
    let session = lab.session();
    let other = other.to_str().unwrap();
    for args in [
        &["run", "--resume", &session, "-C", other, "list ."][..],
        &["sessions", "resume", &session, "-C", other, "list ."],
    ] {
        let refused = ended(&lab, args).await.with_code(2);
        let work = work.trim_end_matches('/');
        let said = format!("error: the session works in `{work}`, not in `{other}`\nhint: ");
        assert!(refused.err.contains(&said), "{}", refused.err);
        assert!(refused.err.contains("leave out -C"), "{}", refused.err);
    }
    let args = ["run", "--resume", &session, "-C", &work, "list ."];
    ended(&lab, &args).await.with_code(0);
}

#[tokio::test]
async fn a_command_of_a_later_version_and_a_task_without_run_are_reported_as_such() {
    let lab = Lab::new();
    for (args, said) in [
        (&["chat"][..], "error: `deputize chat` is not in this version ("),
        (&["workflow", "run", "x.yaml"], "error: `deputize workflow` is not in this version ("),
        (&["trace", "x"], "error: `deputize trace` is not in this version ("),
        (&["review this change"], "error: a task is given to `run`: deputize run \"…\""),
        (&["rnu"], "error: unrecognized subcommand 'rnu'"),
    ] {
        let refused = ended(&lab, args).await.with_code(2);
        assert!(refused.err.contains(said), "{}", refused.err);
        assert_eq!(refused.out, "");
    }
}

#[tokio::test]
async fn an_amount_below_zero_is_refused_with_what_to_write() {
    let lab = Lab::new();
    for command in ["run", "acp"] {
        let refused = ended(&lab, &[command, "--max-cost", "-1"]).await.with_code(2);
        let said = "'-1' for '--max-cost <USD>': give an amount in dollars, such as 0.50";
        assert!(refused.err.contains(said), "{}", refused.err);
    }
}

#[tokio::test]
async fn a_check_of_the_configuration_reads_the_files_that_it_names() {
    let lab = Lab::new();
    let config = "model: a/m\nproviders:\n  a:\n    base_url: https://a.example/v1\n    ca_file: \
                  ~/missing.pem\n  b:\n    base_url: https://b.example/v1\n    ca_file: ~/b.pem\n";
    fs::create_dir_all(lab.path("home")).unwrap();
    fs::write(lab.path("home/config.yaml"), config).unwrap();
    fs::write(lab.path("b.pem"), "no certificate\n").unwrap();
    let checked = ended(&lab, &["config", "check"]).await.with_code(2);
    let missing =
        "config.yaml:5:5: providers.a.ca_file: ~/missing.pem cannot be read: No such file";
    assert!(checked.err.contains(missing), "{}", checked.err);
    let wrong =
        "config.yaml:8:5: provider b: ca_file ~/b.pem cannot be used: there is no certificate";
    assert!(checked.err.contains(wrong), "{}", checked.err);
    assert_eq!(checked.out, "");
    // Another mistake hides neither of them.
    fs::write(lab.path("home/config.yaml"), format!("{config}max_iterations: many\n")).unwrap();
    let checked = ended(&lab, &["config", "check"]).await.with_code(2);
    let all = [missing, wrong, "config.yaml:9:"];
    assert!(all.iter().all(|part| checked.err.contains(part)), "{}", checked.err);
}

/// Entries that match nothing.
#[tokio::test]
async fn a_check_of_the_configuration_names_entries_without_effect() {
    let lab = Lab::new();
    let config = "model: offline\ndelegation:\n  profile_models:\n    nope: offline\n    work: \
                  offline\nmcp_servers:\n  git: {command: git-mcp}\ncomposite_toolsets:\n  a: {tools: \
                  [mcp__wid__none, mcp__git__log, read_file]}\n";
    fs::create_dir_all(lab.path("home")).unwrap();
    fs::write(lab.path("home/config.yaml"), config).unwrap();
    let checked = ended(&lab, &["config", "check"]).await.with_code(0);
    for line in [
        "config.yaml:4:5: `delegation.profile_models`: there is no profile `nope`; known: ",
        "config.yaml:9:7: `composite_toolsets.a.tools`: there is no server for the tool \
         `mcp__wid__none`: add it to `mcp_servers`",
    ] {
        assert!(checked.err.contains(line), "{line}: {}", checked.err);
    }
    assert!(checked.out.contains("warnings: 2"), "{checked:?}");
    for host in ["*", "*.x", "127.0.0.*"] {
        let set = format!("fetch.allow_hosts=[\"{host}\"]");
        let checked = ended(&lab, &["config", "check", "--set", &set]).await.with_code(2);
        let fault = format!("`{host}` is not a host, or a host with a port: write it like");
        assert!(checked.err.contains(&fault), "{}", checked.err);
    }
}

#[tokio::test]
async fn the_doctor_looks_for_the_program_that_children_are() {
    let lab = Lab::new();
    let program = lab.path("agent");
    let set = format!("delegation.acp_command={}", program.display());
    let args = ["doctor", "-m", "offline", "--set", &set];
    let missing = ended(&lab, &args).await.with_code(1);
    let line = |actual: &ProgramEnd| {
        let mut lines = actual.out.lines();
        lines.find(|line| line.contains("external agent")).unwrap().to_owned()
    };
    assert!(line(&missing).starts_with("fail  external agent"), "{}", missing.out);
    assert!(line(&missing).contains("does not exist"), "{}", missing.out);
    fs::write(&program, "#!/bin/sh\n").unwrap();
    let unusable = ended(&lab, &args).await.with_code(1);
    assert!(line(&unusable).contains("not an executable file"), "{}", unusable.out);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let denied = ended(&lab, &args).await.with_code(0);
    assert!(line(&denied).starts_with("warn  external agent"), "{}", denied.out);
    assert!(line(&denied).contains("none is started: `delegation.approvals` is"), "{}", denied.out);
    let args = [&args[..], &["--set", "delegation.approvals=ask"]].concat();
    let usable = ended(&lab, &args).await.with_code(0);
    assert!(line(&usable).starts_with("ok    external agent"), "{}", usable.out);
}

#[tokio::test]
async fn a_key_that_is_too_short_to_be_found_again_is_reported() {
    let lab = Lab::new();
    let server = model(|_| text("Fine.")).await;
    let mut command = lab.run_command(&server, &["--api-key-env", "SHORT_KEY", "Go"]);
    command.env("SHORT_KEY", "abc");
    let ended = RunningProgram::start(command).end().await.with_code(0);
    let said = "warning: the key in SHORT_KEY has fewer than 6 bytes and is not redacted\n";
    assert!(ended.err.contains(said), "{}", ended.err);
    let mut command = lab.run_command(&server, &["--api-key-env", "LONG_KEY", "Go"]);
    command.env("LONG_KEY", "abcdefghijkl");
    let ended = RunningProgram::start(command).end().await.with_code(0);
    assert!(!ended.err.contains("is not redacted"), "{}", ended.err);
}

#[tokio::test]
async fn a_task_that_failed_is_not_said_to_be_declined() {
    let lab = Lab::new();
    let failed = ended(&lab, &["run", "-m", "offline", "read missing.rs"]).await.with_code(1);
    assert!(failed.out.contains("`missing.rs` failed: not found"), "{}", failed.out);
    assert!(
        failed.err.contains("error: the task was not done: the answer says why"),
        "{}",
        failed.err
    );
    assert!(!failed.err.contains("declined"), "{}", failed.err);
}
