use deputize_core::CallStatus;

use super::super::fixture::{Given, Repository, Talk, ok, talk, talk_in};
use super::*;

const FILES: &[&str] = &["list_dir", "search_files", "read_file"];
const ALL: &[&str] = &["list_dir", "search_files", "read_file", "delegate_task"];

fn survey_of(name: &str) -> String {
    let repository = Repository::of_fixture(name);
    let talk = talk("Survey this repository", FILES, 20, |tool, arguments| {
        repository.play(tool, arguments)
    });
    assert!(!talk.failed && talk.steps < 6, "{}: {}", talk.steps, talk.answer);
    talk.answer
}

#[test]
fn a_small_repository_of_each_language_is_surveyed() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        for name in ["rust", "python", "javascript", "typescript", "go", "c", "java", "mixed"] {
            insta::assert_snapshot!(name, survey_of(name));
        }
    });
}

#[test]
fn nothing_is_claimed_of_comments_strings_tests_and_what_is_private() {
    for name in ["rust", "python", "javascript"] {
        let report = survey_of(name).to_lowercase();
        for word in [
            "swallowed",
            "password",
            "secret",
            "unwrap",
            "eval",
            "`async`",
            "risk",
            "hidden",
            "later",
        ] {
            assert!(!report.contains(word), "{name}: {word} in {report}");
        }
    }
}

/// Twenty files in each of two folders, which the test does not read.
fn large() -> Repository {
    let mut files: Vec<(String, String)> = Vec::new();
    for number in 0..20 {
        let text =
            format!("use crate::b::n0::X;\n#[test]\nfn t{number}() {{}}\n{}", "// x\n".repeat(60));
        files.push((format!("src/a/n{number}.rs"), text.clone()));
        files.push((format!("src/b/n{number}.rs"), text));
    }
    files.push(("Cargo.toml".into(), "[package]\nname = \"kite\"\nversion = \"1.0.0\"\n".into()));
    let files: Vec<(&str, &str)> = files.iter().map(|(p, t)| (p.as_str(), t.as_str())).collect();
    Repository::new(&files)
}

fn child(index: u64, status: &str, summary: &str) -> Value {
    json!({"task_index": index, "status": status, "summary": summary, "error": "too slow"})
}

/// Surveys with children that do what the model does.
fn with_children(repository: &Repository) -> (Talk, usize) {
    let mut children = 0;
    let talk = talk("Survey this repository", ALL, 20, |tool, arguments| match tool {
        "delegate_task" => {
            let tasks = arguments.get("tasks").and_then(Value::as_array).unwrap();
            children = tasks.len();
            let results: Vec<Value> = (0..)
                .zip(tasks)
                .map(|(index, task)| {
                    let system = [task["context"].as_str().unwrap().into()];
                    let goal = task["goal"].as_str().unwrap();
                    let part = talk_in(&system, goal, FILES, 20, |tool, arguments| {
                        let mut given = repository.play(tool, arguments);
                        if let Some(glob) = arguments.get("glob").and_then(Value::as_str) {
                            given = keep(&given, glob);
                        }
                        given
                    });
                    child(index, "completed", &part.answer)
                })
                .collect();
            ok(&json!({"results": results}).to_string(), "")
        }
        _ => repository.play(tool, arguments),
    });
    (talk, children)
}

/// Leaves in a listing what a glob of folders names.
fn keep(given: &Given, glob: &str) -> Given {
    let folders: Vec<&str> =
        glob.split(['{', '}', ',', '*', '/']).filter(|f| !f.is_empty()).collect();
    let fits = |line: &&str| folders.iter().any(|folder| line.contains(&format!("/{folder}/")));
    let lines: Vec<&str> = given.1.lines().filter(fits).collect();
    ok(&lines.join("\n"), given.2)
}

#[test]
fn children_and_a_single_agent_report_the_same() {
    let repository = large();
    let alone = talk("Survey this repository", FILES, 20, |tool, arguments| {
        repository.play(tool, arguments)
    });
    let (shared, children) = with_children(&repository);
    assert_eq!(children, 2);
    let body = |text: &str| text.split("\n---\n").next().unwrap().to_owned();
    assert_eq!(body(&shared.answer), body(&alone.answer));
    assert!(
        shared.answer.contains("2 parts were parsed by a child agent each."),
        "{}",
        shared.answer
    );
    assert!(shared.answer.contains("40 test functions in 40 files"), "{}", shared.answer);
    assert!(shared.answer.contains("`src/b/n0.rs` 39"), "{}", shared.answer);
}

#[test]
fn a_child_that_fails_is_a_gap() {
    let repository = large();
    let talk = talk("Survey this repository", ALL, 20, |tool, arguments| match tool {
        "delegate_task" => {
            let results = [child(0, "timeout", ""), child(1, "completed", "All is <b>well</b>.")];
            ok(&json!({"results": results}).to_string(), "")
        }
        _ => repository.play(tool, arguments),
    });
    for part in [
        "- `src/a/**`: the child ended as timeout: too slow",
        "- `src/b/**`: its figures could not be read",
    ] {
        assert!(talk.answer.contains(part), "{}", talk.answer);
    }
}

#[test]
fn without_children_it_does_the_work_itself_and_says_why() {
    let repository = large();
    let error = |text: &str| (CallStatus::Error, text.to_owned(), "");
    for (refusal, said) in [
        (error("refused: spawning is paused"), "spawning is paused"),
        (ok(r#"{"error": "depth limit"}"#, ""), "depth limit"),
        (ok("no json", ""), "gave no results"),
    ] {
        let talk = talk("Survey this repository", ALL, 20, |tool, arguments| match tool {
            "delegate_task" => refusal.clone(),
            _ => repository.play(tool, arguments),
        });
        assert!(talk.answer.contains("40 test functions"), "{}", talk.answer);
        assert!(
            talk.answer.contains("## Not looked at") && talk.answer.contains(said),
            "{}",
            talk.answer
        );
    }
}

#[test]
fn tools_that_are_missing_are_said() {
    let repository = Repository::of_fixture("rust");
    let play = |tool: &str, arguments: &Value| repository.play(tool, arguments);
    let bare = talk("Survey this repository", &[], 9, play);
    assert_eq!((bare.steps, bare.calls.len(), bare.failed), (1, 0, true));
    assert!(bare.answer.contains("neither `list_dir` nor `search_files`"), "{}", bare.answer);
    let no_search = talk("Survey this repository", &["list_dir", "read_file"], 9, play);
    assert!(no_search.answer.contains("# kite 1.4.0"), "{}", no_search.answer);
    assert!(
        no_search.answer.contains("`search_files` is not among the tools"),
        "{}",
        no_search.answer
    );
    let no_read = talk("Survey this repository", &["list_dir", "search_files"], 9, play);
    assert!(no_read.answer.contains("`read_file` is not among the tools"), "{}", no_read.answer);
}

#[test]
fn what_is_denied_cancelled_or_late_ends() {
    let repository = Repository::of_fixture("rust");
    let denied = |_: &str, _: &Value| (CallStatus::Denied, "denied by policy".to_owned(), "");
    let none = talk("Survey this repository", FILES, 20, denied);
    assert_eq!((none.steps, none.failed), (2, true));
    assert!(none.answer.contains("I cannot survey `.`: listing it was denied: denied by policy"));
    let never = |_: &str, _: &Value| (CallStatus::Cancelled, String::new(), "");
    assert!(talk("Survey this repository", FILES, 20, never).steps < 5);
    let mut left = 3;
    let late = talk("Survey this repository", FILES, 20, |tool, arguments| {
        left -= i32::from(left > 0);
        if left > 0 { never(tool, arguments) } else { repository.play(tool, arguments) }
    });
    assert!(late.answer.contains("# kite 1.4.0"), "{}", late.answer);
    for steps in 1..4 {
        let early = talk("Survey this repository", FILES, steps, |tool, arguments| {
            repository.play(tool, arguments)
        });
        assert!(!early.answer.is_empty(), "{steps}");
    }
}

#[test]
fn the_tests_are_listed_by_folder() {
    let repository = Repository::of_fixture("rust");
    let tests =
        talk("Where are the tests?", FILES, 9, |tool, arguments| repository.play(tool, arguments));
    let said = "3 test functions in 3 files of `.`:\n\n- `src`: 2 in 2 files\n- `tests`: 1 in 1 file\n\n\
                Run them with `cargo test`.\n";
    assert_eq!((tests.answer.as_str(), tests.failed), (said, false));
}
