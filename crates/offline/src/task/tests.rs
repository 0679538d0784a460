use proptest::prelude::*;
use regex::Regex;

use super::*;

fn show_one(task: &Task) -> String {
    match task {
        Task::Survey { root, sharing: SurveyMode::Fitting } => format!("survey {root}"),
        Task::Survey { root, sharing: SurveyMode::Alone } => format!("survey {root} alone"),
        Task::Part(scope) => format!("part {scope:?}"),
        Task::Read { path, line: 1 } => format!("read {path}"),
        Task::Read { path, line } => format!("read {path} from {line}"),
        Task::Search(search) => {
            let term = match &search.term {
                Term::Name(name) => name.clone(),
                Term::Literal(text) => format!("\"{text}\""),
                Term::Pattern(pattern) => format!("/{pattern}/"),
            };
            let what = match search.filter {
                LineFilter::Any => "search",
                LineFilter::Definitions => "definitions",
                LineFilter::Uses => "uses",
                LineFilter::Calls => "calls",
                LineFilter::Comments => "comments",
            };
            let rest = if search.without_tests { " without tests" } else { "" };
            format!("{what} {term} in {}{rest}", search.path)
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
        "Do not delegate. Survey this repository",
        "Do not delegate, then survey this repository",
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
        ("read src/lib.rs from line 1,200", "read src/lib.rs from 1200"),
        ("read README and src/lib.rs from line 7 on", "read README; read src/lib.rs from 7"),
        ("read the files VERSION and notes", "read VERSION; read notes"),
        ("read .gitignore and .env.local.", "read .gitignore; read .env.local"),
        ("write .envrc: use nix", "write .envrc use nix"),
        ("find unwrap", "search unwrap in ."),
        ("Find unwrap calls in src, please.", "calls unwrap in src"),
        ("find all calls of unwrap and expect", "calls unwrap in .; calls expect in ."),
        ("find places where we call `a.b()`", "calls \"a.b()\" in ."),
        ("find uses of unsafe", "uses unsafe in ."),
        ("find unwrap comments", "comments unwrap in ."),
        ("find all comments with TODO in src", "comments TODO in src"),
        ("find where unwrap is defined", "definitions unwrap in ."),
        ("find the definition of Parser", "definitions Parser in ."),
        ("find where Parser is used outside of tests", "uses Parser in . without tests"),
        ("find lines that contain unwrap", "search unwrap in ."),
        ("find unwraps in ..", "search unwraps in .."),
        ("find unwraps in the parent directory", "search unwraps in .."),
        ("find unwraps in this repository", "search unwraps in ."),
        ("grep /fn \\w+/ in crates", "search /fn \\w+/ in crates"),
        ("grep /a b/", "search /a b/ in ."),
        ("where is Parser defined?", "definitions Parser in ."),
        ("where is parse_frame used in src?", "uses parse_frame in src"),
        ("where is the parse_frame function?", "search parse_frame in ."),
        ("where is \"two words\"", "search \"two words\" in ."),
        ("Where are the tests?", "tests ."),
        ("where do the tests live", "tests ."),
        ("Find the test cases in this repository", "tests ."),
        ("find the tests under src/", "tests src"),
        ("list tests/", "list tests"),
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

/// Sentences in which a word of the grammar is what is asked about.
#[test]
fn a_word_of_the_grammar_may_be_the_object() {
    for (text, task) in [
        ("where is tests defined?", "definitions tests in ."),
        ("where is test defined?", "definitions test in ."),
        ("where's test used in src?", "uses test in src"),
        ("where is tests called?", "calls tests in ."),
        ("where is list defined?", "definitions list in ."),
        ("where is find called?", "calls find in ."),
        ("where is all used?", "uses all in ."),
        ("where is in used?", "uses in in ."),
        ("where is and defined in src?", "definitions and in src"),
        ("where is errors defined?", "definitions errors in ."),
        ("where is files used outside of tests?", "uses files in . without tests"),
        ("where is type defined?", "definitions type in ."),
        ("where is the type list defined?", "definitions list in ."),
        ("where is where called?", "calls where in ."),
        ("where is used defined?", "definitions used in ."),
        ("where is defined used?", "uses defined in ."),
        ("find test", "search test in ."),
        ("find the test in src", "search test in src"),
        ("find line", "search line in ."),
        ("find find", "search find in ."),
        ("find in", "search in in ."),
        ("find in in src", "search in in src"),
        ("find and", "search and in ."),
        ("search for for", "search for in ."),
        ("find calls of test", "calls test in ."),
        ("find uses of find", "uses find in ."),
        ("find where tests is used", "uses tests in ."),
        ("find use calls", "calls use in ."),
        ("find list and read", "search list in .; search read in ."),
        ("find read, find in src", "search read in src; search find in src"),
        ("find unwraps in list", "search unwraps in list"),
        ("survey the folder list", "survey list"),
        ("read the file run", "read run"),
        ("list list", "list list"),
        // The same words where they are not the object.
        ("find tests", "tests ."),
        ("where are tests defined?", "tests ."),
        ("where is the test code in src?", "tests src"),
        ("find unwraps and list", "search unwraps in .; list ."),
        ("find unwraps and find read", "search unwraps in .; search read in ."),
    ] {
        assert_eq!(show(text), task, "{text}");
    }
    for (text, part) in [
        ("where is it defined?", "fits"),
        ("where is this used?", "fits"),
        ("where is not defined?", "fits"),
        ("where are functions defined?", "fits"),
        ("where is test?", "fits"),
        ("find in src", "stands in quotes"),
        ("find function definitions", "more than the word `definitions`"),
        ("find test calls", "more than the word `calls`"),
        ("find bug", "more than the word `bug`"),
        ("survey src and find", "names no text"),
    ] {
        assert_refused(text, part);
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
        ("survey x yourself, then survey y", "survey x alone; survey y"),
        ("survey x, survey y; do not delegate", "survey x alone; survey y alone"),
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
        ("find x in src/a but only on Mondays", "fits"),
    ] {
        assert_refused(text, part);
    }
}

#[track_caller]
fn assert_refused(text: &str, part: &str) {
    let said = show(text);
    assert!(said.starts_with("refused: ") && said.contains(part), "{text}: {said}");
}

#[test]
fn what_can_be_read_in_two_ways_is_refused_with_what_is_clear() {
    for (text, part) in [
        (
            "Do not delegate and survey this repository",
            "It is not clear where the negation in `Do not",
        ),
        ("Don't change anything, and list src", "It is not clear where the negation in `Don't"),
        ("Do not change anything. Run `make`", "change or run nothing, and also to run `make`"),
        (
            "Do not change anything. Write a.txt: x",
            "change or run nothing, and also to write `a.txt`",
        ),
        ("run `make` and do not change anything", "change or run nothing, and also to run `make`"),
        ("run cargo test except slow", "put it in backticks"),
        ("find unwraps except in src/old", "I understand three negations"),
        ("find except", "put it in quotes"),
        ("survey src without tests", "I understand three negations"),
        ("find unwraps in src but not in vendor", "I understand three negations"),
        ("list src except docs", "I understand three negations"),
        ("list tests", "may mean the folder or the test functions"),
        ("list the tests in crates/core", "may mean the folder or the test functions"),
        ("show me all tests", "may mean the folder or the test functions"),
        ("find unsafe blocks", "stands in quotes"),
        ("find uses of a and calls of b", "stands in quotes"),
        ("where is Parser declared?", "where a name is defined, used or called"),
        ("where is `x` set", "where a name is defined, used or called"),
        ("read src/a.rs from line 0", "fits"),
        ("show me risks", "fits"),
        ("Do not change anything", "fits"),
    ] {
        assert_refused(text, part);
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

/// Words that exclude something, each of which some wording of a task may have.
const NEGATIONS: [&str; 12] = [
    "not",
    "no",
    "never",
    "without",
    "except",
    "excluding",
    "outside",
    "but",
    "unless",
    "don't",
    "neither",
    "none",
];

/// Returns a text without the negations that are understood and without what stands in quotes.
fn without_known_negations(text: &str) -> String {
    let known = [
        r"`[^`]*`",
        r"\b(?:outside(?: of)?|without|excluding|except (?:in|for)|(?:but )?not in)(?: the| all)* (?:tests|test code)\b",
        r"\bwithout delegating\b",
        r"(?:\bdo not|\bdon't|\bnever) (?:delegate|(?:change|run) anything)\b",
    ];
    known.iter().fold(text.to_owned(), |text, known| {
        Regex::new(known).unwrap().replace_all(&text, " ").into_owned()
    })
}

/// Texts with negations among words that the grammar knows.
fn negated_texts() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "outside of tests",
        "without delegating",
        "do not delegate .",
        "don't change anything ;",
        "but not in tests",
        "except in the tests",
    ]);
    let word = prop_oneof![
        6 => texts(),
        2 => prop::sample::select(NEGATIONS.to_vec()).prop_map(str::to_owned),
        1 => known.prop_map(str::to_owned),
    ];
    prop::collection::vec(word, 1..5).prop_map(|words| words.join(" "))
}

/// Tasks of every form but a command, which has a text to itself.
const PARTS: [&str; 10] = [
    "survey this repository",
    "explain the src folder",
    "read Cargo.toml",
    "show me src/lib.rs",
    "list src",
    "find unwraps in src",
    "find \"two words\" in docs",
    "grep /fn \\w+/ in crates",
    "where is Parser defined",
    "where are the tests",
];

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

    /// Parts that are tasks by themselves are all done, in their order; the same one is done once.
    #[test]
    fn parts_are_done_together(
        parts in prop::sample::subsequence(&PARTS[..], 2..5).prop_shuffle(),
    ) {
        let text = parts.join("; ");
        let all = Task::parse(&text);
        let all = all.map_err(|Refusal(why)| TestCaseError::fail(format!("{text}: {why}")))?;
        let plain = |tasks: &[Task]| -> Vec<String> { tasks.iter().map(show_one).collect() };
        let each: Vec<String> = parts.iter().flat_map(|part| plain(&Task::parse(part).unwrap())).collect();
        prop_assert_eq!(plain(&all), each, "{}", text);
    }

    /// A task with a negation that no rule understands is refused.
    #[test]
    fn no_negation_is_passed_over(text in negated_texts()) {
        if let Ok(tasks) = Task::parse(&text) {
            let rest = without_known_negations(&text);
            let negation = rest.split([' ', ',', '.', ';']).find(|word| NEGATIONS.contains(word));
            prop_assert!(negation.is_none(), "{text}: {tasks:?}");
        }
    }

    /// What is denied is not done: nothing runs, and no survey is delegated.
    #[test]
    fn what_is_denied_is_not_done(task in texts(), first in any::<bool>()) {
        for (denial, denied) in [
            ("do not change anything", "run "),
            ("do not delegate", "survey "),
        ] {
            let text = if first { format!("{denial}. {task}") } else { format!("{task}; {denial}") };
            // A command without quotes takes the rest of the text.
            let Ok(tasks) = Task::parse(&text) else { continue };
            for task in tasks.iter().map(show_one) {
                let alone = task.ends_with(" alone");
                prop_assert!(!task.starts_with(denied) || alone, "{text}: {task}");
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
