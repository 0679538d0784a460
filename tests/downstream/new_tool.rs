//! `deputize new tool-crate`: what it writes builds, and its tests pass at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::nested::{CargoResult, cargo, lock, profiles, root, target};

/// Runs the program in a folder.
fn deputize(folder: &Path, args: &[&str]) -> CargoResult {
    let mut command = Command::new(env!("CARGO_BIN_EXE_deputize-it"));
    command.args(args).current_dir(folder).env("DEPUTIZE_HOME", folder.join("home"));
    CargoResult::of(&command.output().unwrap())
}

/// A place for a crate, below a workspace that does not name it.
fn place(name: &str) -> PathBuf {
    let dir = target().join("new").join(name);
    if dir.exists() {
        fs::remove_dir_all(&dir).unwrap();
    }
    fs::create_dir_all(dir.parent().unwrap()).unwrap();
    dir
}

/// The dependencies built as those of the other tests are.
fn as_here(dir: &Path) {
    let manifest = dir.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text + &profiles()).unwrap();
}

#[test]
fn a_new_crate_builds_and_its_tests_pass_and_its_snapshot_tells_what_a_change_costs() {
    let dir = place("my-tools");
    let above = dir.parent().unwrap();
    let actual = deputize(above, &["new", "tool-crate", "my-tools"]).passes();
    assert!(actual.out.contains("crate `my-tools` with the tool `count_words`"), "{}", actual.out);
    as_here(&dir);
    let tested = cargo(&dir, &["test"]).passes();
    assert!(tested.out.contains("test result: ok. 4 passed"), "{}", tested.out);

    let listed = cargo(&dir, &["run", "--example", "agent", "--", "tools", "show", "count_words"]);
    assert!(listed.passes().out.contains("Count the words of a text."));

    // What a model is told of the tool changes, so the test fails and says what that costs.
    let lib = dir.join("src/lib.rs");
    let text = fs::read_to_string(&lib).unwrap();
    fs::write(&lib, text.replace("/// Count the words of a text.", "/// Count words.")).unwrap();
    let test = ["test", "--test", "agent", "what_a_model_is_sent"];
    cargo(&dir, &test).fails_with(&[
        "cached prefix: 27 bytes kept",
        "bytes lost",
        "in line 2: Count words.",
    ]);
}

#[test]
fn the_published_crates_are_named_by_version_and_it_builds_when_they_are_there() {
    let dir = place("published-tools");
    let above = dir.parent().unwrap();
    deputize(above, &["new", "tool-crate", "published-tools", "--published"]).passes();
    let manifest = fs::read_to_string(dir.join("Cargo.toml")).unwrap();
    assert!(
        manifest.contains("deputize-core = \"0.1.0\"") && !manifest.contains("path"),
        "{manifest}"
    );
    as_here(&dir);
    lock(&dir);
    // This checkout stands in for the registry.
    let crates = [
        ("deputize", "cli"),
        ("deputize-core", "core"),
        ("deputize-testkit", "testkit"),
        ("deputize-tools", "tools"),
    ];
    let mut args = vec!["build".to_owned()];
    for (name, folder) in crates {
        let path = root().join("crates").join(folder);
        args.extend(["--config".to_owned(), format!("patch.crates-io.{name}.path={path:?}")]);
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    cargo(&dir, &args).passes();
}

#[test]
fn what_is_there_stays_and_a_wrong_name_or_checkout_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("full")).unwrap();
    fs::write(folder.path().join("full/notes.txt"), "mine").unwrap();
    let describe =
        |args: &[&str]| deputize(folder.path(), &[&["new", "tool-crate"], args].concat());
    describe(&["full", "--published"]).fails_with(&["is not empty"]);
    assert_eq!(fs::read_dir(folder.path().join("full")).unwrap().count(), 1);
    describe(&["7up"]).fails_with(&["`7up` is not a crate name", "--name NAME"]);
    describe(&["mine"]).fails_with(&["this is not a checkout", "--path CHECKOUT", "--published"]);
    describe(&["mine", "--path", "full"]).fails_with(&["is not a checkout of Deputize"]);
    assert!(!folder.path().join("mine").exists(), "nothing is written before it is sure");
}
