//! What a command finds, and why it may not be started.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use deputize_process::{Command, OWNER_VARIABLE, ProgramError, SpawnError, SystemError};
use tokio_util::sync::CancellationToken;

use crate::process_table::{bash, supervisor};

async fn output(command: Command) -> String {
    let supervisor = supervisor();
    let owner = supervisor.owner();
    let finished = owner.run(command, &CancellationToken::new()).await.unwrap();
    String::from_utf8(finished.output.head).unwrap()
}

async fn refusal(command: Command) -> SpawnError {
    let supervisor = supervisor();
    let owner = supervisor.owner();
    owner.run(command, &CancellationToken::new()).await.unwrap_err()
}

#[tokio::test]
async fn the_environment_is_the_given_one_and_the_marker() {
    let mut command = Command::new("/usr/bin/env", "/");
    command.env = BTreeMap::from([("A".into(), "1".into())]);
    let seen = output(command).await;
    let (ours, other): (Vec<_>, Vec<_>) =
        seen.lines().partition(|line| line.starts_with(OWNER_VARIABLE));
    assert_eq!((other, ours.len()), (vec!["A=1"], 1));
}

#[tokio::test]
async fn no_descriptor_but_the_first_three_is_inherited() {
    // A copy made this way is open in every child, unless somebody closes it.
    let file = fs::File::open("/").unwrap();
    let leaks: Vec<_> = (0..8).map(|_| rustix::io::dup(&file).unwrap()).collect();
    let seen = output(bash("for f in /proc/$$/fd/*; do echo ${f##*/}; done")).await;
    drop(leaks);
    // The shell's own: the directory while it is listed, and its script.
    let seen: Vec<&str> = seen.lines().filter(|number| !["3", "255"].contains(number)).collect();
    assert_eq!(seen, ["0", "1", "2"]);
}

#[tokio::test]
async fn there_is_no_terminal_and_the_session_is_new() {
    let seen = output(bash(
        "{ : </dev/tty; } 2>/dev/null && echo terminal; \
         read -r pid name state parent group session tty rest </proc/self/stat; \
         [ $session = $$ ] && [ $group = $$ ] && [ $tty = 0 ] && echo own",
    ))
    .await;
    assert_eq!(seen, "own\n");
}

#[tokio::test]
async fn a_missing_directory_is_named() {
    let mut command = bash(":");
    command.cwd = "/no/such/place".into();
    let error = refusal(command).await;
    assert!(matches!(&error, SpawnError::DirectoryMissing { .. }), "{error:?}");
    assert!(error.to_string().contains("/no/such/place"), "{error}");

    let mut command = bash(":");
    command.cwd = "/etc/passwd".into();
    assert!(matches!(refusal(command).await, SpawnError::Directory { .. }));

    let mut command = bash(":");
    command.cwd = "relative".into();
    let error = refusal(command).await;
    assert!(
        matches!(error, SpawnError::Directory { .. } | SpawnError::DirectoryMissing { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_program_that_cannot_run_is_distinguished() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str, content: &[u8], mode| {
        let path = dir.path().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    let command = |program: &std::path::Path| Command::new(program, "/");

    let error = refusal(command("/no/such/program".as_ref())).await;
    assert!(matches!(error, SpawnError::Program(ProgramError::Missing { .. })), "{error:?}");
    let error = refusal(command("no-such-program".as_ref())).await;
    assert!(matches!(error, SpawnError::Program(ProgramError::NotFound { .. })), "{error:?}");
    let error = refusal(command(&place("plain", b"#!/bin/sh\n", 0o644))).await;
    assert!(matches!(error, SpawnError::Program(ProgramError::NotExecutable { .. })), "{error:?}");
    let error = refusal(command(&place("orphan", b"#!/no/interpreter\n", 0o755))).await;
    assert!(matches!(error, SpawnError::System(SystemError::Format { .. })), "{error:?}");
}

#[tokio::test]
async fn text_that_cannot_be_passed_is_reported_with_its_size() {
    let error = refusal(bash(&"x".repeat(200_000))).await;
    assert!(matches!(error, SpawnError::TooLong { longest: 200_001, .. }), "{error:?}");

    let error = refusal(bash("echo \0")).await;
    assert_eq!(
        error.to_string(),
        "argument 2 cannot be passed to a program: it contains a NUL byte"
    );
    let mut command = bash(":");
    command.env.insert("A=B".into(), "1".into());
    assert!(matches!(refusal(command).await, SpawnError::Text { .. }));
}
