//! Registration is never silent: a workspace as a user has it, and each way to lose a tool crate.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use deputize_core::model::Reply;
use deputize_testkit::{MockAnswer, MockServer};
use serde_json::{Value, json};

use crate::nested::{CargoResult, cargo, lock, profiles, root, target, turn, write};

/// The fixture with the path of this checkout in its manifests.
pub(crate) static WORKSPACE: LazyLock<PathBuf> = LazyLock::new(|| {
    let fixture = root().join("tests/fixtures/downstream");
    let folder = target().join("workspace");
    let _turn = turn();
    copy(&fixture, &folder);
    lock(&folder);
    folder
});

/// Copies a folder. A manifest of a workspace gets the profiles of this one.
fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.as_ref().unwrap().path();
        let to = to.join(entry.unwrap().file_name());
        if path.is_dir() {
            copy(&path, &to);
        } else {
            let text = fs::read_to_string(&path).unwrap();
            let profiles = text.starts_with("[workspace]").then(profiles).unwrap_or_default();
            write(&to, &(text.replace("{{root}}", root().to_str().unwrap()) + &profiles));
        }
    }
}

fn build(program: &str) -> CargoResult {
    cargo(&WORKSPACE, &["build", "--package", program, "--package", "test-support"])
}

/// Builds a program and runs it, with a home of its own.
fn run(program: &str, args: &[&str], home: &Path) -> CargoResult {
    build(program).passes();
    built(program, args, home)
}

/// Runs a program that is built, with a home of its own.
pub(crate) fn built(program: &str, args: &[&str], home: &Path) -> CargoResult {
    let mut command = Command::new(target().join("debug").join(program));
    command.args(args).current_dir(home).env("DEPUTIZE_HOME", home.join("home"));
    CargoResult::of(&command.output().unwrap())
}

#[test]
fn a_program_of_five_lines_has_the_tools_of_the_crates_that_it_names() {
    let home = tempfile::tempdir().unwrap();
    let ran = run("app-good", &["tools", "list", "--json"], home.path()).passes();
    let tools: Vec<Value> = serde_json::from_str(&ran.out).unwrap();
    let origin = json!({"kind": "linked", "krate": "good-tools"});
    let of_crate = tools.iter().filter(|tool| tool["origin"] == origin);
    let names: Vec<&str> = of_crate.map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["count_words", "reverse"], "also the one in a private module");
    assert!(tools.iter().any(|tool| tool["name"] == "read_file"), "and those that are built in");
}

#[test]
fn a_program_without_features_names_the_feature_of_what_it_lacks() {
    let home = tempfile::tempdir().unwrap();
    let runs = |args: &[&str]| run("app-good", args, home.path());
    let listed = runs(&["tools", "list"]).passes();
    for (toolset, tool, feature) in [
        ("browser", "browser_open", "the feature `browser`"),
        ("session_search", "session_search", "the feature `session-search`"),
    ] {
        assert!(listed.err.contains(feature) && !listed.out.contains(tool), "{}", listed.out);
        for args in [
            &["run", "-m", "offline", "-t", toolset, "hello"][..],
            &["tools", "show", tool],
            &["tools", "enable", toolset],
        ] {
            runs(args).fails_with(&[feature]);
        }
    }
    runs(&["sessions", "search", "hello"]).fails_with(&["--features session-search"]);
    let doctor = runs(&["doctor", "-m", "offline"]).passes();
    assert!(doctor.out.contains("bash"), "{}", doctor.out);
    runs(&["run", "-m", "offline", "List the files here"]).passes();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_calls_a_tool_of_such_a_crate() {
    let home = tempfile::tempdir().unwrap();
    let call = Reply::calls("m", [("count_words", json!({"text": "one two three"}))]);
    let script = [MockAnswer::reply(&call), MockAnswer::reply(&Reply::text("m", "Three."))];
    let server = MockServer::start(script).await.unwrap();
    let base = server.base_url();
    let ran = tokio::task::block_in_place(|| {
        let args = ["run", "-q", "-m", "openai/mock", "--base-url", &base, "How many?"];
        run("app-good", &args, home.path())
    });
    assert_eq!(ran.passes().out.trim(), "Three.");
    let second = server.requests().pop().unwrap().text();
    assert!(second.contains(r"\n3\n"), "{second}");
}

#[test]
fn a_crate_that_brings_no_tool_is_an_error_at_the_start() {
    let home = tempfile::tempdir().unwrap();
    let ran = run("app-empty", &["tools", "list"], home.path());
    let said = "tool crate `empty-tools` is linked but registers no tool";
    ran.fails_with(&[said, "#[tool]", "register_tool!"]);
}

#[test]
fn two_tools_of_one_name_are_an_error_that_names_both_crates() {
    let home = tempfile::tempdir().unwrap();
    let ran = run("app-twins", &["run", "-m", "offline", "hello"], home.path());
    let said =
        "two tools are called `count_words`: one of crate good-tools, one of crate twin-tools";
    ran.fails_with(&[said, "rename one of them"]);
}

#[test]
fn a_crate_built_against_another_core_does_not_compile_and_both_are_shown() {
    let ran = build("app-old");
    ran.fails_with(&[
        "mismatched types",
        "multiple different versions of crate `deputize_core`",
        "old_tools::LINK",
        "cargo tree",
    ]);
}

#[test]
fn a_crate_in_the_manifest_that_no_code_names_does_not_compile_and_the_error_says_the_way_out() {
    let ran = build("app-forgotten");
    ran.fails_with(&[
        "extern crate `good_tools` is unused in crate `app_forgotten`",
        "use good_tools as _",
    ]);
}

#[test]
fn without_that_lint_such_a_crate_is_left_out_and_nobody_can_say_so() {
    let home = tempfile::tempdir().unwrap();
    let ran = run("app-silent", &["tools", "list"], home.path()).passes();
    assert!(!ran.out.contains("count_words") && ran.out.contains("read_file"), "{}", ran.out);
}
