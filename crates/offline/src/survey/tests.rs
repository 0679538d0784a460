use deputize_core::message::CallStatus;

use super::super::fixture::{Repository, ScriptedResult, TestConversation, ok, talk, talk_in};
use super::*;

const FILES: &[&str] = &["list_dir", "search_files", "read_file"];
const ALL: &[&str] = &["list_dir", "search_files", "read_file", "delegate_task"];

mod identity;
mod needs;
mod reports;

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
fn with_children(repository: &Repository) -> (TestConversation, usize) {
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
fn keep(given: &ScriptedResult, glob: &str) -> ScriptedResult {
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
    let text = "error: denied by policy".to_owned();
    let denied = move |_: &str, _: &Value| (CallStatus::Denied, text.clone(), "");
    let none = talk("Survey this repository", FILES, 20, denied);
    assert_eq!((none.steps, none.failed), (2, true));
    assert!(none.answer.contains("I cannot survey `.`: listing it was denied by policy"));
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

fn survey_in(task: &str, files: &[(&str, &str)]) -> String {
    let repository = Repository::new(files);
    talk(task, FILES, 30, |tool, arguments| repository.play(tool, arguments)).answer
}

#[test]
fn a_folder_is_described_by_its_own_documentation() {
    let long = "fn a() {}\n".repeat(20);
    let readme = "# Wing\n\n<p align=\"center\">\n<b>Not this text of HTML here</b>\n</p>\n\n\
                  - [Docs](a)\n  and this link\n\nLifts kites. Well.\n";
    let html = "<h1>Tail</h1>\n\n<p align=\"center\">\nNot this text of HTML\n</p>\n";
    let report = survey_in(
        "Survey this repository",
        &[
            ("Cargo.toml", "[package]\nname = \"kite\"\n"),
            ("build.rs", &long),
            ("src/lib.rs", "//! Kites.\n//!\n//! Flies all kites.\nfn a() {}\n"),
            ("tail/README.md", html),
            ("tail/a.rs", &long),
            ("wing/README.md", readme),
            ("wing/a.rs", &long),
        ],
    );
    for row in [
        "| `./*` | 1 | 20 | `build.rs` defines `a` |",
        "| `tail/*` | 1 | 20 | `a.rs` defines `a` |",
        "| `wing/*` | 1 | 20 | Lifts kites. |",
    ] {
        assert!(report.contains(row), "{row}: {report}");
    }
}

#[test]
fn a_module_without_documentation_is_described_by_its_largest_file() {
    let command = "class Command { parse() {} }\nexports.Command = Command;\nexports.a = 1;\nexports.b = 2;\n\
                   exports.c = 3;\nexports.d = 4;\n";
    let readme = "# Kite\n\nFlies kites of all sizes.\n";
    let report = survey_in(
        "Survey this repository",
        &[
            ("package.json", "{\"name\": \"kite\"}"),
            ("README.md", readme),
            ("a/README.md", "Flies kites of all sizes.\n"),
            ("a/large.js", &"b();\n".repeat(9)),
            ("a/wing.js", "module.exports = class Wing { lift() {} };\n"),
            ("b/words.js", command),
            ("c/words.js", "exports.gust = 1;\n"),
            ("d/words.js", "exports.gust = 1;\n"),
        ],
    );
    for row in [
        // Neither the sentence of the project nor that of another module is said again.
        "| `a/large.js` | 1 | 9 |  |",
        "| `a/wing.js` | 1 | 1 | exports `Wing` with `lift` |",
        "| `b/*` | 1 | 6 | `words.js` exports `Command`, `a`, `b`, `c` and 1 more |",
        "| `c/` | 1 | 1 | `words.js` exports `gust` |",
        "| `d/` | 1 | 1 |  |",
    ] {
        assert!(report.contains(row), "{row}: {report}");
    }
}

#[test]
fn documentation_longer_than_what_is_read_counts() {
    let more = "More of it.\n".repeat(200);
    let files = [
        ("a.rs", format!("/*!\nFlies one kite.\n\n{more}*/\n")),
        ("b.py", format!("\"\"\"Flies two kites.\n\n{more}\"\"\"\n")),
        ("c.go", format!("/*\nPackage kite flies three.\n\n{more}*/\npackage kite\n")),
        (
            "D.java",
            format!("package kite;\n\n/**\n * Flies four kites.\n *\n{more} */\nclass D {{}}\n"),
        ),
    ];
    let files: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let report = survey_in("Survey this repository", &files);
    for text in [
        "Flies one kite. |",
        "Flies two kites. |",
        "Package kite flies three. |",
        "Flies four kites. |",
    ] {
        assert!(report.contains(text), "{text}: {report}");
    }
}

const WORKSPACE: &str = "[workspace]\nmembers = [\"crates/*\"]\n[workspace.package]\nversion = \"1.2.3\"\nlicense = \"MIT\"\n\
                         [workspace.dependencies]\nserde = { version = \"1.0\" }\n";
const MEMBER: &str = "[package]\nname = \"wing\"\nversion.workspace = true\nlicense.workspace = true\ndescription.workspace = true\n\
                      [dependencies]\nserde.workspace = true\nlog = \"0.4\"\n";

#[test]
fn a_member_surveyed_alone_takes_what_its_workspace_says() {
    let files = [
        ("Cargo.toml", WORKSPACE),
        ("crates/wing/Cargo.toml", MEMBER),
        ("crates/wing/src/lib.rs", "fn a() {}\n"),
    ];
    let report = survey_in("Survey crates/wing", &files);
    for text in ["# wing 1.2.3\n", "- Licence: MIT\n", "`log` 0.4, `serde` 1.0."] {
        assert!(report.contains(text), "{text}: {report}");
    }
}

#[test]
fn a_workspace_that_cannot_be_read_is_named() {
    let files = [("Cargo.toml", MEMBER), ("src/lib.rs", "fn a() {}\n")];
    let report = survey_in("Survey this repository", &files);
    for text in [
        "# wing\n",
        "- Version: from the workspace (not read)\n",
        "- Licence: from the workspace (not read)\n",
        "`log` 0.4, `serde`; 1 version from the workspace (not read).",
    ] {
        assert!(report.contains(text), "{text}: {report}");
    }
    // The workspace was looked for above.
    let repository = Repository::new(&files);
    let mut above = Vec::new();
    talk("Survey this repository", FILES, 30, |tool, arguments| {
        let path = arguments.get("path").and_then(Value::as_str).unwrap_or_default();
        above.extend(path.starts_with("..").then(|| path.to_owned()));
        repository.play(tool, arguments)
    });
    assert_eq!(above.first().map(String::as_str), Some("../Cargo.toml"));
}

fn section_of(report: &str, title: &str) -> String {
    let from = report.split_once(&format!("## {title}\n\n")).map_or("", |(_, text)| text);
    from.split("\n\n").next().unwrap_or_default().to_owned()
}

#[test]
fn entry_points_of_a_workspace_are_its_programs_and_libraries() {
    let main = "fn main() {}\n";
    let bench = "[package]\nname = \"kite-bench\"\n[[bin]]\nname = \"measure\"\npath = \"src/measure.rs\"\n";
    let fly = "[package]\nname = \"fly\"\n[lib]\nname = \"flying\"\n[[bin]]\nname = \"one\"\npath = \"./src/one.rs\"\n\
               [[bin]]\nname = \"two\"\npath = \"src/two/main.rs\"\n[[bin]]\nname = \"show\"\npath = \"examples/show.rs\"\n";
    let report = survey_in(
        "Survey this repository",
        &[
            ("Cargo.toml", "[workspace]\nmembers = [\"*\"]\n"),
            ("crates/kite-bench/Cargo.toml", bench),
            ("crates/kite-bench/src/measure.rs", main),
            ("examples/Cargo.toml", "[package]\nname = \"kite-examples\"\n"),
            ("examples/src/bin/lift.rs", main),
            ("examples/src/bin/drop.rs", main),
            ("fly/Cargo.toml", fly),
            ("fly/examples/show.rs", main),
            ("fly/src/bin/three.rs", main),
            ("fly/src/lib.rs", "fn a() {}\n"),
            ("fly/src/one.rs", main),
            ("fly/src/two/main.rs", main),
        ],
    );
    assert_eq!(
        section_of(&report, "Entry points"),
        "- library `flying`: `fly/src/lib.rs`\n- program `one`: `fly/src/one.rs:1`\n\
         - program `two`: `fly/src/two/main.rs:1`\n- program `three`: `fly/src/bin/three.rs:1`"
    );
    assert_eq!(
        section_of(&report, "Examples"),
        "- `examples`, 3 files: drop.rs, lift.rs\n- `fly/examples`, 1 file: show.rs"
    );
}

#[test]
fn many_programs_are_all_named() {
    let mut files = vec![("Cargo.toml".to_owned(), "[package]\nname = \"kite\"\n".to_owned())];
    let programs = (10..40).map(|n| (format!("src/bin/p{n}.rs"), "fn main() {}\n".to_owned()));
    files.extend(programs);
    let files: Vec<(&str, &str)> = files.iter().map(|(p, t)| (p.as_str(), t.as_str())).collect();
    let entries = section_of(&survey_in("Survey this repository", &files), "Entry points");
    assert!(entries.starts_with("- program `p10`: `src/bin/p10.rs:1`\n"), "{entries}");
    assert!(
        entries.contains("\n- and 18 more: program `p22`, ") && entries.ends_with("program `p39`"),
        "{entries}"
    );
}

#[test]
fn a_stub_of_npm_is_no_library() {
    let stub = r#"{"main": "./index.cjs", "types": "./index.d.cts"}"#;
    let report = survey_in(
        "Survey this repository",
        &[
            ("package.json", r#"{"name": "kite", "version": "1.0.0", "main": "index.cjs"}"#),
            ("index.cjs", "a();\n"),
            ("v1/package.json", stub),
            ("v1/index.cjs", "a();\n"),
            ("v2/package.json", stub),
            ("v2/index.cjs", "a();\n"),
            ("v3/package.json", r#"{"type": "module"}"#),
            ("v3/index.cjs", "a();\n"),
            ("v4/package.json", r#"{"name": "kite/v4", "main": "./index.cjs"}"#),
            ("v4/index.cjs", "a();\n"),
            ("v5/package.json", r#"{"name": "v5", "version": "1.0.0", "private": true}"#),
            ("v5/index.js", "a();\n"),
        ],
    );
    assert_eq!(section_of(&report, "Entry points"), "- library `kite`: `index.cjs`");
}

#[test]
fn compiled_copies_of_sources_are_no_sources() {
    let source = "export const a = 1;\n".repeat(30);
    let report = survey_in(
        "Survey this repository",
        &[
            ("package.json", r#"{"name": "kite", "version": "1.0.0", "main": "v4/core.js"}"#),
            ("index.js", "a();\n"),
            ("src/v4/core.ts", &source),
            ("src/index.ts", &source),
            ("v4/core.cjs", "a();\nb();\n"),
            ("v4/core.d.cts", "a();\nb();\n"),
            ("v4/core.d.ts", "a();\nb();\n"),
            ("v4/core.js", "a();\nb();\n"),
        ],
    );
    for text in [
        "- Size: TypeScript 60 lines in 2 files (98.4 %), JavaScript 1 line in 1 file (1.6 %), 4 generated files left out;",
        "- library `kite`: `v4/core.js`",
        "Largest files, in lines: `src/index.ts` 30, `src/v4/core.ts` 30, `index.js` 1\n",
    ] {
        assert!(report.contains(text), "{text}: {report}");
    }
}
