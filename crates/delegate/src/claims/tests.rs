use proptest::prelude::*;

use super::*;

#[test]
fn names_in_lines_that_say_written() {
    let lines = [
        "I created `src/a.rs` and updated (docs/b.md), then out.txt.",
        "Wrote ./x/y.unknown:12:3 and \"/tmp/z.log\".",
        "I read src/c.rs.",
        "I did not change src/d.rs; nothing was written to e.txt",
        "Updated foo.bar() and e.g. the and/or of version 1.2 at https://x.org/a.html",
        "Fixed `src/a.rs` again",
        "Created ../../up.toml and .env",
    ];
    assert_eq!(
        named_as_written(&lines.join("\n"), None),
        ["src/a.rs", "docs/b.md", "out.txt", "./x/y.unknown", "/tmp/z.log", "../../up.toml"]
    );
    let many: String = (0..99).map(|n| format!("wrote a{n}.rs\n")).collect();
    assert_eq!(named_as_written(&many, None).len(), MOST);
}

/// Reading takes time by the square of a sentence's words, and an answer may have megabytes.
#[test]
fn what_is_no_sentence_is_not_read_and_what_follows_is() {
    let line = "wrote a.rs `x ".repeat(400_000);
    assert_eq!(named_as_written(&format!("{line}\nwrote b.rs"), None), ["b.rs"]);
    let sentence = "and wrote a.rs ".repeat(SENTENCE / 3 + 1);
    assert_eq!(named_as_written(&format!("{sentence}. I wrote b.rs."), None), ["b.rs"]);
    let label = "files written ".repeat(SENTENCE);
    assert_eq!(named_as_written(&format!("{label}:\n- a.rs"), None), [""; 0]);
}

/// Answers, and what each claims to have written.
const CASES: [(&str, &[&str]); 151] = [
    ("I've finished writing report.md and updating `src/a.rs`.", &["report.md"]),
    ("Finished creating docs/a.md", &["docs/a.md"]),
    ("I have not finished writing report.md; CI finished updating b.md.", &[]),
    ("Created report.md with no errors.", &["report.md"]),
    ("Updated docs/a.md without any problems.", &["docs/a.md"]),
    (
        "I created:\n- report.md\n- `src/b.rs` (new)\n\nThe rest is in c.rs.",
        &["report.md", "src/b.rs"],
    ),
    ("Files changed:\n1. a.rs\n2) b.rs", &["a.rs", "b.rs"]),
    ("Files that I read:\n- a.rs", &[]),
    ("Created Makefile and sub/Dockerfile", &["Makefile", "sub/Dockerfile"]),
    ("report.md was created.", &["report.md"]),
    ("The parser was changed in src/a.rs by commit 12ab.", &[]),
    ("I have not yet updated a.md.", &[]),
    ("a.md could not be updated.", &[]),
    ("Nothing was written to a.md.", &[]),
    // Below a heading, in a list, a table or a block of names.
    ("**Files created**\n- src/z.rs", &["src/z.rs"]),
    ("## Files created:\n\n- src/z.rs\n\n## Files read\n\n- a.rs", &["src/z.rs"]),
    ("### Changes\n- `src/z.rs`: created", &["src/z.rs"]),
    ("**Files Modified:** src/z.rs", &["src/z.rs"]),
    ("Files changed:\n\n```\nsrc/z.rs\nsrc/y.rs (new)\n```\n", &["src/z.rs", "src/y.rs"]),
    ("## Modified files\n| File | Why |\n|---|---|\n| src/q.rs | like b.rs |", &["src/q.rs"]),
    ("| File | Status |\n|---|---|\n| src/q.rs | Created |", &["src/q.rs"]),
    (
        "Here is what I changed:\n\n1. **src/z.rs**\n   - calls b.rs\n2. `src/y.rs`, x.rs: as in c.rs",
        &["src/z.rs", "src/y.rs", "x.rs"],
    ),
    ("- Created:\n  - a.txt\n  - b.txt", &["a.txt", "b.txt"]),
    ("## Files to be created\n- a.rs", &[]),
    ("## Changes needed\n- a.rs", &[]),
    ("**Files that should be changed**\n- a.rs", &[]),
    ("Files I looked at:\n```\na.rs\n```", &[]),
    ("The log says:\n```\ncreated a.rs\n```", &[]),
    ("I changed nothing.\n\n## Findings\n- a.rs: unused", &[]),
    ("Created b.rs.\n\nThe tests are:\n- a.rs", &["b.rs"]),
    // Other words for it.
    ("I made a new file `src/z.rs`.", &["src/z.rs"]),
    ("I made changes to src/z.rs", &["src/z.rs"]),
    ("I made the following changes:\n- src/z.rs", &["src/z.rs"]),
    ("Done. New file: a.txt", &["a.txt"]),
    ("New file: a.txt", &["a.txt"]),
    ("- **New file:** `a.txt`", &["a.txt"]),
    ("New files\n- a.txt", &[]),
    ("### New files\n- a.txt", &["a.txt"]),
    ("src/z.rs (new)", &["src/z.rs"]),
    ("- `src/z.rs` (new file), for b.rs", &["src/z.rs"]),
    ("I was able to update src/z.rs.", &["src/z.rs"]),
    ("I managed to fix src/z.rs", &["src/z.rs"]),
    ("I put the results into out.csv", &["out.csv"]),
    ("The file src/z.rs now contains the parser.", &["src/z.rs"]),
    ("created **src/z.rs**", &["src/z.rs"]),
    ("created [src/z.rs](src/z.rs) and [the notes](docs/n.md#L3)", &["src/z.rs", "docs/n.md"]),
    ("Created file:///tmp/a.txt", &["/tmp/a.txt"]),
    ("I was not able to update src/z.rs.", &[]),
    ("I was unable to save a.md", &[]),
    ("I made sure that src/a.rs parses.", &[]),
    ("I made no changes to src/a.rs.", &[]),
    ("New files are needed: a.rs", &[]),
    ("a.rs should be changed, and b.rs must be updated", &[]),
    ("It may be fixed in a.rs", &[]),
    // Verbs of which the place is what is written.
    ("I appended a line to notes.md.", &["notes.md"]),
    ("I inserted the check into src/a.rs and removed nothing.", &["src/a.rs"]),
    ("We've stored the results in out/r.json", &["out/r.json"]),
    ("I produced summary.md from the logs in b.log.", &["summary.md"]),
    ("I copied a.txt to b.txt.", &["b.txt"]),
    ("Copied the table in a.md into b.md", &["b.md"]),
    ("I put the table in out.csv.", &["out.csv"]),
    ("I did create a.md, as you asked.", &["a.md"]),
    ("src/a.rs now holds both parsers.", &["src/a.rs"]),
    ("Renamed `a.rs` → `b.rs`", &["b.rs"]),
    ("I moved the parser from a.rs to src/b.rs.", &["src/b.rs"]),
    ("I added `src/a.rs` to Cargo.toml", &["Cargo.toml"]),
    ("I added a link to b.md in README.md", &["README.md"]),
    ("The results were written to out.csv.", &["out.csv"]),
    ("b.md was copied to c.md", &["c.md"]),
    // The one who speaks, or nobody, is the subject.
    ("I have also just created a.md", &["a.md"]),
    ("I ran the tests, fixed src/a.rs, and then wrote b.md.", &["src/a.rs", "b.md"]),
    ("Read a.rs and wrote b.md", &["b.md"]),
    ("b.md was missing, so I created it.", &["b.md"]),
    ("In `src/a.rs`, I fixed the parser.", &["src/a.rs"]),
    ("Updated the parser in src/a.rs and the tests in tests/b.rs.", &["src/a.rs", "tests/b.rs"]),
    ("Wrote tests for src/a.rs in tests/a.rs", &["tests/a.rs"]),
    ("Replaced `foo` with `bar` in src/a.rs", &["src/a.rs"]),
    ("Done: created a.md (from b.md), c.md", &["a.md", "c.md"]),
    ("- [x] Created a.md", &["a.md"]),
    ("- **Parser**: Added `src/p.rs`", &["src/p.rs"]),
    ("The files a.rs and b.rs have been updated.", &["a.rs", "b.rs"]),
    ("I read b.rs, and a.md was created.", &["a.md"]),
    ("a.md is created.", &["a.md"]),
    ("a.md was written by me.", &["a.md"]),
    ("src/a.rs updated successfully.", &["src/a.rs"]),
    ("`src/a.rs` (updated), b.rs (read)", &["src/a.rs"]),
    ("`src/a.rs`: changed the parser to use b.rs", &["src/a.rs"]),
    ("## Summary of changes made\n- src/a.rs: no longer reads b.rs", &["src/a.rs"]),
    ("Files I changed: a.rs (like c.rs), b.rs", &["a.rs", "b.rs"]),
    // Of others, and of what files are.
    ("src/a.rs: the function that writes the header", &[]),
    ("I read config.toml; it was created by the installer", &[]),
    ("no file was changed: notes.md is as it was", &[]),
    ("The installer wrote config.toml and created b.toml.", &[]),
    ("I saw that the tool wrote a.log and created b.log.", &[]),
    ("I ran the tool, which updated a.log.", &[]),
    ("I looked at src/a.rs and it created b.log", &[]),
    ("I checked that a.md was created.", &[]),
    ("src/a.rs holds the code that was added in 2.0", &[]),
    ("src/a.rs was last modified on Monday", &[]),
    ("src/a.rs was added in commit 12ab34c", &[]),
    ("a.md was created in 2020, b.md later", &[]),
    ("config.json is written at each start", &[]),
    ("src/pb.rs is generated.", &[]),
    ("- src/pb.rs: generated code", &[]),
    ("src/pb.rs (generated)", &[]),
    ("src/a.rs: written in C", &[]),
    ("Generated code lives in src/pb.rs", &[]),
    ("I read the generated src/pb.rs and the updated b.rs.", &[]),
    ("`12ab34c`: Added src/a.rs", &[]),
    ("Recent commits:\n- Added src/a.rs\n- Fixed b.rs", &[]),
    ("> I created a.md", &[]),
    ("Files changed by the installer:\n- a.toml", &[]),
    ("Files the linter changed:\n- a.rs", &[]),
    ("I generated the following findings:\n- a.rs has no tests", &[]),
    ("- Created:\n  - a.txt\n- Read:\n  - b.txt", &["a.txt"]),
    // About a file, without writing it.
    ("I wrote tests for the parser in src/a.rs.", &[]),
    ("I wrote a summary of src/a.rs.", &[]),
    ("I wrote down what a.rs does.", &[]),
    ("I fixed the build as described in CONTRIBUTING.md", &[]),
    ("Then I moved on to src/b.rs.", &[]),
    ("I changed the build to read b.toml.", &[]),
    ("I created a.md; b.rs uses it, and c.rs was fine", &["a.md"]),
    ("I wrote a.md, but b.md is missing", &["a.md"]),
    ("Created a.md based on b.md", &["a.md"]),
    ("I copied what matters from a.md.", &[]),
    ("I generated the header from src/a.proto", &[]),
    ("My review of a.rs and b.rs is done; nothing was changed.", &[]),
    ("I extended the search to src/a.rs and b.rs.", &[]),
    ("I fixed nothing, since a.rs was already updated", &[]),
    ("The error in a.log was produced by the linter.", &[]),
    ("a.rs changed the order of imports", &[]),
    ("The API changed: a.rs has a new field", &[]),
    ("## Previous changes\n- Created a.rs", &[]),
    ("I verified that you updated a.md and created b.md", &[]),
    ("Last updated by Ann: a.md", &[]),
    // What is not, is only to be, or is asked.
    ("I would have created a.md", &[]),
    ("I will have updated a.md by then", &[]),
    ("If I changed a.rs, the test would fail.", &[]),
    ("I don't think I changed a.rs.", &[]),
    ("Should a.md be created?", &[]),
    ("Have I updated a.md?", &[]),
    ("I tried to create a.md", &[]),
    ("I suggest that a.rs is updated.", &[]),
    ("Neither a.rs nor b.rs was changed.", &[]),
    ("I created nothing in a.rs.", &[]),
    ("In a.rs I changed nothing.", &[]),
    ("Then run it and put the output in a.log.", &[]),
    // Names with spaces, and commands, which are none.
    ("Saved it to \"my file.txt\" and `the notes/b c.md`", &["my file.txt", "the notes/b c.md"]),
    ("Fixed with `cargo test src/a.rs`", &[]),
    ("Wrote `a.md` and `b.md`", &["a.md", "b.md"]),
    ("I created it as \"we agreed on\" in a.md", &["a.md"]),
];

#[test]
fn claims_as_models_make_them() {
    let told = CASES.map(|(answer, expected)| (answer, named_as_written(answer, None), expected));
    let wrong: Vec<_> = told.into_iter().filter(|(_, found, expected)| found != expected).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn claims_in_a_value_as_schemas_ask_for_them() {
    let cases: [(&str, &[&str]); 14] = [
        (r#"{"files_written":["src/x.rs","docs/y.md"],"ok":true}"#, &["src/x.rs", "docs/y.md"]),
        (r#"{"modifiedFiles":"src/x.rs, src/y.rs"}"#, &["src/x.rs", "src/y.rs"]),
        (r#"{"created":[{"path":"src/x.rs","why":"docs/y.md asks for it"}]}"#, &["src/x.rs"]),
        (r#"{"files":[{"path":"src/x.rs","action":"created"}]}"#, &["src/x.rs"]),
        (r#"{"path":"src/x.rs","written":true}"#, &["src/x.rs"]),
        (r#"{"changed":{"src/x.rs":"a new test","src/y.rs":false}}"#, &["src/x.rs"]),
        (r#"{"summary":"I read a.rs.\nI wrote src/x.rs."}"#, &["src/x.rs"]),
        (r#"{"updated":["src/x.rs (the parser of b.rs)"]}"#, &["src/x.rs"]),
        (r#"{"path":"src/x.rs","written":false}"#, &[]),
        (r#"{"files_not_written":["src/x.rs"]}"#, &[]),
        (r#"{"files_read":["src/x.rs"],"unchanged":["src/y.rs"]}"#, &[]),
        (r#"{"path":"src/x.rs","finding":"a check was added without a test"}"#, &[]),
        (r#"{"path":"src/x.rs","action":"not changed"}"#, &[]),
        (r#"["src/x.rs"]"#, &[]),
    ];
    for (answer, expected) in cases {
        let value: Value = serde_json::from_str(answer).unwrap();
        assert_eq!(named_as_written(answer, Some(&value)), expected, "{answer}");
        let fenced = format!("I wrote z.md, and this:\n```json\n{answer}\n```\nDone.");
        let named = named_as_written(&fenced, Some(&value));
        assert_eq!(named, [expected, &["z.md"]].concat(), "{answer}");
    }
}

proptest! {
    #[test]
    fn whatever_it_is_given_it_gives_parts_of_it(answer in "(wrote|[a-z./:` \n\u{202e}é]){0,40}") {
        for path in named_as_written(&answer, None) {
            prop_assert!(!path.is_empty() && answer.contains(path));
        }
    }
}
