use serde_json::Value;

use super::super::fixture::{Repository, Talk, talk};
const FILES: &[&str] = &["list_dir", "search_files", "read_file"];

fn asked(repository: &Repository, task: &str) -> Talk {
    talk(task, FILES, 9, |tool, arguments| repository.play(tool, arguments))
}

#[test]
fn all_unwraps_are_found_and_told_apart() {
    let repository = Repository::of_fixture("rust");
    for task in ["find all unwraps in src", "Find unwrap calls in src", "grep unwrap in src"] {
        let talk = asked(&repository, task);
        assert!(!talk.failed, "{}", talk.answer);
        insta::with_settings!({snapshot_path => "../snapshots", prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!("unwraps", talk.answer);
        });
    }
}

#[test]
fn what_is_not_there_is_said_with_what_was_searched() {
    let repository = Repository::of_fixture("rust");
    let none = asked(&repository, "find all gusts in src");
    assert_eq!(
        none.answer,
        "No line in `src` has `gust` (from \"gusts\"), in any case. 2 files were searched; ignored, \
         hidden and binary files were left out. For a regular expression write it between \
         slashes: `find /gust/ in src`.\n"
    );
    let spelled = asked(&repository, "find a tail has a length in src");
    assert!(
        spelled.answer.contains("src/tail.rs:27:    fn a_tail_has_a_length()"),
        "{}",
        spelled.answer
    );
    let lost = talk("find unwraps in nowhere", FILES, 9, |_, _| {
        (deputize_core::CallStatus::Error, "not found: nowhere".to_owned(), "")
    });
    assert!(lost.failed && lost.answer.contains("failed: not found: nowhere"), "{}", lost.answer);
}

#[test]
fn definitions_come_first() {
    let repository = Repository::of_fixture("rust");
    let talk = asked(&repository, "Where is span defined?");
    let at = |text: &str| talk.answer.find(text).unwrap_or(usize::MAX);
    assert!(at("Defined:\n\n```\nsrc/wing.rs:3:") < at("src/tail.rs:3:"), "{}", talk.answer);
    let play = |tool: &str, arguments: &Value| repository.play(tool, arguments);
    let no_read = super::super::fixture::talk("find span", &["search_files"], 9, play);
    assert!(no_read.answer.contains("src/wing.rs:3:"), "{}", no_read.answer);
}
