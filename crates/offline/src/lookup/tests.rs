use serde_json::Value;

use deputize_core::message::CallStatus;

use super::super::fixture::{Repository, TestConversation, ok, talk};
const FILES: &[&str] = &["list_dir", "search_files", "read_file"];

fn asked(repository: &Repository, task: &str) -> TestConversation {
    talk(task, FILES, 9, |tool, arguments| repository.play(tool, arguments))
}

#[test]
fn all_unwraps_are_found_and_distinguished() {
    let repository = Repository::of_fixture("rust");
    for task in
        ["find all unwraps in src", "Find lines with unwrap in src.", "grep unwrap in src please"]
    {
        let talk = asked(&repository, task);
        assert!(!talk.failed, "{}", talk.answer);
        insta::with_settings!({snapshot_path => "../snapshots", prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!("unwraps", talk.answer);
        });
    }
}

#[test]
fn only_lines_of_the_kind_that_is_named_are_listed() {
    let repository = Repository::of_fixture("rust");
    for (task, first, listed) in [
        (
            "find unwrap calls in src",
            "3 lines in 3 files of `src` call `unwrap`, in any case.\n4 other lines have it.\n",
            &["src/main.rs:5:", "src/checks.rs:4:", "src/tail.rs:28:"][..],
        ),
        (
            "find unwrap comments in src",
            "3 lines in 1 file of `src` have `unwrap` in a comment, in any case.\n4 other lines have it.\n",
            &["src/lib.rs:5:", "src/lib.rs:17:", "src/lib.rs:20:"][..],
        ),
        (
            "find where span is defined in src",
            "1 line in 1 file of `src` defines `span`, in any case.\n",
            &["src/wing.rs:3:"][..],
        ),
        (
            "find where unwrap is defined in src",
            "No line in `src` defines `unwrap`, in any case.\n7 other lines have it.\n",
            &[][..],
        ),
    ] {
        let said = asked(&repository, task).answer;
        assert!(said.starts_with(first), "{task}: {said}");
        let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("src/")).collect();
        assert!(lines.iter().zip(listed).all(|(line, at)| line.starts_with(at)), "{said}");
        assert_eq!(lines.len(), listed.len(), "{said}");
    }
    let unparsed = talk("find where gust is defined", &["search_files"], 9, |tool, arguments| {
        Repository::new(&[("a.rs", "fn gust() {}\n")]).play(tool, arguments)
    });
    assert_eq!(
        unparsed.answer,
        "No line in `.` defines `gust`, in any case.\n1 line in files that were not parsed may define it.\n"
    );
}

#[test]
fn a_name_with_the_ending_of_a_plural_is_found_as_it_is_written() {
    let repository = Repository::new(&[
        ("a.rs", "fn args() {}\nfn arg() {}\nfn b() { args(); arg(); argsort(); }\n"),
        ("b.rs", "fn gust() {}\n"),
    ]);
    for (task, first, listed) in [
        (
            "where is args defined?",
            "1 line in 1 file of `.` defines `args`, in any case.\n",
            &["a.rs:1:"][..],
        ),
        (
            "where is args called?",
            "1 line in 1 file of `.` calls `args`, in any case.\n",
            &["a.rs:3:"],
        ),
        (
            "find args",
            "3 lines in 1 file of `.` have `arg` or `args`, in any case: 2 where it is defined, 1 in code.\n",
            &["a.rs:1:", "a.rs:2:", "a.rs:3:"],
        ),
        (
            "where is gusts defined?",
            "1 line in 1 file of `.` defines `gust`, in any case.\n",
            &["b.rs:1:"],
        ),
    ] {
        let said = asked(&repository, task).answer;
        assert!(said.starts_with(first), "{task}: {said}");
        let lines: Vec<&str> = said.lines().filter(|line| line.contains(".rs:")).collect();
        assert!(lines.iter().zip(listed).all(|(line, at)| line.starts_with(at)), "{said}");
        assert_eq!(lines.len(), listed.len(), "{said}");
    }
}

#[test]
fn what_is_not_there_is_said_with_what_was_searched() {
    let repository = Repository::of_fixture("rust");
    let none = asked(&repository, "find all gusts in src");
    assert_eq!(
        none.answer,
        "No line in `src` has `gust` (from \"gusts\"), in any case. 2 files were searched; ignored \
         and hidden files were left out.\n"
    );
    let spelled = asked(&repository, "find a-tail-has-a-length in src");
    assert!(
        spelled.answer.contains("src/tail.rs:27:    fn a_tail_has_a_length()"),
        "{}",
        spelled.answer
    );
    let lost = talk("find unwraps in nowhere", FILES, 9, |_, _| {
        (deputize_core::message::CallStatus::Error, "not found: nowhere".to_owned(), "")
    });
    assert!(lost.failed && lost.answer.contains("failed: not found: nowhere"), "{}", lost.answer);
}

#[test]
fn definitions_come_first() {
    let repository = Repository::of_fixture("rust");
    let talk = asked(&repository, "Where is the span function?");
    let at = |text: &str| talk.answer.find(text).unwrap_or(usize::MAX);
    assert!(at("Defined:\n\n```\nsrc/wing.rs:3:") < at("src/tail.rs:3:"), "{}", talk.answer);
    let play = |tool: &str, arguments: &Value| repository.play(tool, arguments);
    let no_read = super::super::fixture::talk("find span", &["search_files"], 9, play);
    assert!(no_read.answer.contains("src/wing.rs:3:"), "{}", no_read.answer);
}

#[test]
fn a_literal_is_found_wherever_it_stands_and_tests_can_be_left_out() {
    let repository = Repository::of_fixture("rust");
    let part = asked(&repository, "find `nwra` in src").answer;
    assert!(part.starts_with("8 lines in ") && !part.contains("longer names"), "{part}");
    let outside = asked(&repository, "find unwraps in src outside of tests").answer;
    assert!(
        !outside.contains("In tests:") && outside.contains("2 lines of tests left out."),
        "{outside}"
    );
    assert!(outside.starts_with("5 lines in 2 files of `src` outside of tests have"), "{outside}");
    let none = asked(&repository, "find gusts in src outside of tests").answer;
    assert!(none.starts_with("No line in `src` has `gust`"), "{none}");
}

#[test]
fn each_part_of_a_search_is_answered() {
    let repository = Repository::of_fixture("rust");
    let talk = asked(&repository, "find unwraps in src/tail.rs and src/main.rs");
    for part in ["of `src/tail.rs` has `unwrap`", "of `src/main.rs` has `unwrap`"] {
        assert!(talk.answer.contains(part), "{}", talk.answer);
    }
}

#[test]
fn a_broken_pattern_is_shown_with_its_mistake() {
    let mistake = "refused: the pattern is not a regular expression: regex parse error:\n    (a\n    ^\nerror: unclosed group";
    let talk = talk("grep /(a/ in src", FILES, 9, |_, _| {
        (deputize_core::message::CallStatus::Error, mistake.to_owned(), "")
    });
    assert!(talk.failed && talk.answer.contains("for `(a`"), "{}", talk.answer);
    assert!(talk.answer.contains("    ^\nerror: unclosed group"), "{}", talk.answer);
}

#[test]
fn what_was_not_searched_is_named_and_not_counted() {
    let play = |tool: &str, arguments: &Value| {
        let word = |name: &str| arguments.get(name).and_then(Value::as_str);
        match (tool, word("path"), word("mode")) {
            ("search_files", _, None) => ok("a.rs\t5\nb.png\t9\nlocked.rs\t7", "3 files"),
            ("search_files", _, Some("count")) => ok(
                "a.rs:1",
                "1 match in 1 file]\n[skipped: 1 binary file, 1 unreadable or with a line above 64 MiB, 1 directory that cannot be read",
            ),
            ("search_files", ..) => ok(
                "",
                "no match in 3 files]\n[skipped: 1 binary file, 1 unreadable or with a line above 64 MiB, 1 directory that cannot be read",
            ),
            ("read_file", Some("b.png"), _) => (
                CallStatus::Error,
                "refused: binary file (PNG image, 9 bytes): b.png; this shows text only".into(),
                "",
            ),
            ("read_file", ..) => (
                CallStatus::Error,
                "refused: cannot read locked.rs: Permission denied (os error 13)".into(),
                "",
            ),
            _ => panic!("{tool} {arguments}"),
        }
    };
    let said = talk("find gusts", FILES, 9, play).answer;
    assert!(said.contains("1 file was searched"), "{said}");
    let list = "Not looked at:\n\n- `locked.rs`: cannot read: Permission denied\n- 1 binary file: `b.png`\n";
    assert!(said.ends_with(list), "{said}");
}
