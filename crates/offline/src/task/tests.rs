use proptest::prelude::*;

use super::*;

fn show_one(task: &Task) -> String {
    match task {
        Task::Survey { root, sharing: Sharing::Fitting } => format!("survey {root}"),
        Task::Survey { root, sharing: Sharing::Alone } => format!("survey {root} alone"),
        Task::Part(scope) => format!("part {scope:?}"),
        Task::Read { path } => format!("read {path}"),
        Task::Search { term, path, without_tests } => {
            let term = match term {
                Term::Name(name) => name.clone(),
                Term::Literal(text) => format!("\"{text}\""),
                Term::Pattern(pattern) => format!("/{pattern}/"),
            };
            let rest = if *without_tests { " without tests" } else { "" };
            format!("search {term} in {path}{rest}")
        }
        Task::List { path } => format!("list {path}"),
        Task::Tests { root } => format!("tests {root}"),
        Task::Run { command } => format!("run {command}"),
        Task::Write { path, text } => format!("write {path} {text}"),
    }
}

fn show(text: &str) -> String {
    match Task::parse(text) {
        Ok(tasks) => tasks.iter().map(show_one).collect::<Vec<_>>().join("; "),
        Err(Refusal(why)) => format!("refused: {why}"),
    }
}

#[test]
fn a_survey_is_known_in_many_wordings() {
    for (text, root) in [
        ("Survey this repository", "."),
        ("survey this repo.", "."),
        ("Survey", "."),
        ("Please give me an overview of the project", "."),
        ("Can you summarise the codebase?", "."),
        ("Review the code in crates/core", "crates/core"),
        ("Review `crates/core` please", "crates/core"),
        ("Explain the directory src", "src"),
        ("Explain the src folder", "src"),
        ("explain this project to me", "."),
        ("What is this project?", "."),
        ("what does this repo do?", "."),
        ("what does this module do?", "."),
        ("How is this project structured?", "."),
        ("Where should I start reading the code?", "."),
        ("Analyze ./services/api.", "services/api"),
        ("survey crates", "crates"),
        ("Survey . ", "."),
        ("survey ..", ".."),
        ("survey ../..", "../.."),
        ("survey the parent directory", ".."),
        ("Survey /srv/app/", "/srv/app"),
        ("Tell me about this codebase", "."),
        ("Do not change anything, just survey this repository", "."),
        ("Don't run anything. Survey this repository", "."),
        ("Hello! Please survey the whole repository", "."),
        ("I'd like you to look at this repository", "."),
    ] {
        assert_eq!(show(text), format!("survey {root}"), "{text}");
    }
    for text in [
        "Survey this repository yourself",
        "Survey this repository by yourself, please.",
        "Do not delegate and survey this repository",
        "Survey this repository without delegating",
    ] {
        assert_eq!(show(text), "survey . alone", "{text}");
    }
}

#[test]
fn small_tasks_are_known_by_their_form() {
    for (text, task) in [
        ("read Cargo.toml", "read Cargo.toml"),
        ("Read the file `src/main.rs`.", "read src/main.rs"),
        ("show me src/lib.rs", "read src/lib.rs"),
        ("list", "list ."),
        ("list src", "list src"),
        ("list files in src/a", "list src/a"),
        ("List this directory", "list ."),
        ("search for parse_frame", "search parse_frame in ."),
        ("find \"two words\" in src", "search \"two words\" in src"),
        ("find all unwraps in src/schema", "search unwraps in src/schema"),
        ("Find unwrap calls in src, please.", "search unwrap in src"),
        ("find places where we call `a.b()`", "search \"a.b()\" in ."),
        ("find uses of unsafe", "search unsafe in ."),
        ("find unwraps in ..", "search unwraps in .."),
        ("find unwraps in the parent directory", "search unwraps in .."),
        ("find unwraps in this repository", "search unwraps in ."),
        ("grep /fn \\w+/ in crates", "search /fn \\w+/ in crates"),
        ("grep /a b/", "search /a b/ in ."),
        ("where is Parser defined?", "search Parser in ."),
        ("where is the parse_frame function?", "search parse_frame in ."),
        ("where is \"two words\" set", "search \"two words\" in ."),
        ("Where are the tests?", "tests ."),
        ("where do the tests live", "tests ."),
        ("Find the test cases in this repository", "tests ."),
        ("show me all tests in `crates/core`.", "tests crates/core"),
        ("list tests under src/", "tests src"),
        ("find TODOs", "search TODOs in ."),
        ("run cargo test", "run cargo test"),
        ("run git add .", "run git add ."),
        ("run `ls -la`", "run ls -la"),
        ("run: echo hi", "run echo hi"),
        ("write file notes.txt: hello\nthere", "write notes.txt hello\nthere"),
    ] {
        assert_eq!(show(text), task, "{text}");
    }
}

#[test]
fn a_task_of_several_parts_is_all_of_them() {
    for (text, tasks) in [
        ("Survey this repository and find all unwraps in src", "survey .; search unwraps in src"),
        ("Survey this repository. Then find TODOs, please!", "survey .; search TODOs in ."),
        ("where are the tests and read README.md", "tests .; read README.md"),
        ("find unwraps in src and survey tests", "search unwraps in src; survey tests"),
        ("find unwraps in src and tests", "search unwraps in src; search unwraps in tests"),
        (
            "find unwraps in x, y and c/d.",
            "search unwraps in x; search unwraps in y; search unwraps in c/d",
        ),
        ("find TODO or FIXME in x", "search TODO in x; search FIXME in x"),
        ("find unwraps outside of tests", "search unwraps in . without tests"),
        (
            "find unwraps in x and y outside tests",
            "search unwraps in x without tests; search unwraps in y without tests",
        ),
        ("find unwraps except in tests in src", "search unwraps in src without tests"),
        ("find unwraps yourself", "search unwraps in ."),
        ("find unwraps in src please", "search unwraps in src"),
        ("read a.rs, b.rs", "read a.rs; read b.rs"),
        ("survey x and y yourself", "survey x alone; survey y alone"),
        ("list src and run `make all`", "list src; run make all"),
        ("Survey and survey.", "survey ."),
    ] {
        assert_eq!(show(text), tasks, "{text}");
    }
}

#[test]
fn everything_else_is_refused_and_the_part_is_named() {
    for (text, part) in [
        ("", "The task is empty."),
        ("hello", "fits `hello`"),
        ("Fix the bug in src/main.rs", "fits `Fix the bug in src/main.rs`"),
        ("where are the tests and who wrote this?", "fits `who wrote this`"),
        ("Survey this repository and find risks", "`find risks` may mean more"),
        ("Survey this repository in detail", "fits `Survey this repository in detail`"),
        ("find unwraps in src and who wrote it", "fits `who wrote it`"),
        ("find unwraps and panics in src and the rest", "fits `the rest`"),
        ("find a tail has a length in src", "stands in quotes"),
        ("find", "`find` names no text"),
        ("find all ", "`find all` names no text"),
        ("find all \"\"", "`find all \"\"` names no text"),
        ("find `   ` in src", "names no text"),
        ("find all functions", "more than the word `functions`"),
        ("count lines in src", "more than the word `lines`"),
        ("find all comments", "more than the word `comments`"),
        ("Find security issues", "may mean more than the word `issues`"),
        ("Write a test for this repository", "fits"),
        ("refactor this project", "fits"),
        ("Explain monads to a beginner", "fits"),
        ("Survey https://example.com/a/repo", "fits"),
        ("run the tests", "fits `run the tests`"),
        ("run cargo test and survey this repository", "put it in backticks"),
        ("run cargo test please", "put it in backticks"),
        ("run cargo test.", "put it in backticks"),
        ("what is the weather", "fits"),
        ("Translate this project to Go", "fits"),
        ("tell me a joke", "fits"),
        ("Please don't survey this repository", "fits `don't survey this repository`"),
        ("Don’t review src/", "fits"),
        ("Never survey this repository", "fits"),
        ("I do not want an overview of this project", "fits"),
        ("Where are retries handled?", "fits"),
        ("where are the tests for retries", "fits"),
        ("where is the config", "fits"),
        ("where do the unit tests live", "fits"),
        ("Delete all files", "fits"),
        ("Do not change anything", "fits"),
        ("find x in src/a but only on Mondays", "fits"),
    ] {
        let said = show(text);
        assert!(said.starts_with("refused: ") && said.contains(part), "{text}: {said}");
    }
}

/// Texts of words that the grammar knows and of others.
fn texts() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "survey",
        "find",
        "all",
        "unwraps",
        "in",
        "src",
        "and",
        ",",
        ".",
        "tests",
        "where",
        "are",
        "the",
        "this",
        "repository",
        "list",
        "read",
        "a.rs",
        "run",
        "please",
        "yourself",
        "then",
        "outside",
        "of",
        "\"\"",
        "`x y`",
        "/a+/",
        "..",
        "who",
        "wrote",
        "it",
        "not",
        "do",
        "or",
        "zebra",
        "calls",
        "to",
        "is",
        "defined",
        "without",
        "what",
        "does",
        "directory",
        "me",
    ]);
    prop::collection::vec(words, 0..12).prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// A word that no rule knows is never passed over: it is part of what a task names, or the
    /// task is refused.
    #[test]
    fn every_word_is_accounted_for(before in texts(), after in texts()) {
        let word = "quux7";
        let text = format!("{before} {word} {after}");
        if let Ok(tasks) = Task::parse(&text) {
            let named = tasks.iter().any(|task| show_one(task).contains(word));
            prop_assert!(named, "{text}: {tasks:?}");
        }
    }

    /// Parts that are tasks by themselves are all done, in their order.
    #[test]
    fn parts_are_done_together(first in texts(), second in texts()) {
        let (one, other) = (Task::parse(&first), Task::parse(&second));
        if let (Ok(one), Ok(other)) = (one, other)
            && let Ok(both) = Task::parse(&format!("{first}; {second}"))
        {
            let runs = |tasks: &[Task]| tasks.iter().any(|task| matches!(task, Task::Run { .. }));
            prop_assume!(!runs(&one) && !runs(&other));
            let plain = |task: &Task| show_one(task).replace(" alone", "");
            let all: Vec<String> = both.iter().map(plain).collect();
            for task in one.iter().chain(&other) {
                prop_assert!(all.contains(&plain(task)), "{first}; {second}: {all:?}");
            }
        }
    }

    /// Whatever the text, the grammar answers.
    #[test]
    fn any_text_is_read(text in "\\PC{0,80}") {
        if let Err(Refusal(why)) = Task::parse(&text) {
            prop_assert!(why.ends_with('.'), "{why}");
        }
    }
}
