//! Every example is run, and says what it is there to say.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What one of them prints.
fn run(program: &str, args: &[&str]) -> String {
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(program)
        .args(args)
        .current_dir(home.path())
        .env("DEPUTIZE_HOME", home.path())
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {err}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn own_program() {
    let program = env!("CARGO_BIN_EXE_own_program");
    assert!(run(program, &["tools", "show", "count_words"]).contains("Count the words of a text."));
    let list = run(program, &["tools", "list"]);
    assert!(list.contains("crate deputize-examples") && list.contains("read_file"), "{list}");
}

#[test]
fn own_model() {
    let out = run(env!("CARGO_BIN_EXE_own_model"), &[]);
    assert!(out.contains("\nstressed\n"), "{out}");
}

#[test]
fn own_rules() {
    let out = run(env!("CARGO_BIN_EXE_own_rules"), &[]);
    assert_eq!(out, "send Ok\nsend Denied\nsend Denied\n");
}

#[test]
fn own_hook() {
    assert_eq!(run(env!("CARGO_BIN_EXE_own_hook"), &[]), "look_up Ok\nlook_up Denied\n");
}

#[test]
fn tools_at_run_time() {
    let out = run(env!("CARGO_BIN_EXE_tools_at_run_time"), &[]);
    assert!(out.contains("\n6.21\n"), "{out}");
}

#[test]
fn watch() {
    let out = run(env!("CARGO_BIN_EXE_watch"), &[]);
    assert_eq!(out, "s1 starts: Say good day.\ns1 says: Good day.\ns1 ends\n");
}

#[test]
fn each_is_short_and_is_run_and_is_in_the_list() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tests = include_str!("run.rs");
    let list = fs::read_to_string(here.join("README.md")).unwrap();
    let mut seen = BTreeSet::new();
    for entry in fs::read_dir(here.join("src/bin")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines < 80, "{name} has {lines} lines");
        assert!(tests.contains(&format!("CARGO_BIN_EXE_{name}\"")), "{name} is not run");
        assert!(
            list.contains(&format!("[{name}](src/bin/{name}.rs)")),
            "{name} is not in README.md"
        );
        seen.insert(name);
    }
    assert!(seen.len() >= 6, "{seen:?}");
}
