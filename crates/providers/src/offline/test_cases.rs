//! Where the test cases of a directory are.

use std::collections::BTreeMap;

use serde_json::json;

use super::Next;
use super::conversation::{Ask, Turn};
use super::facts::{Facts, Size};
use super::scope::Scope;
use super::search::{Found, Search};
use super::survey;
use super::wording::{bullets, count};

/// Directories, and files of each, that are named.
const DIRECTORIES: usize = 20;
const FILES: usize = 3;

/// The next step of the question where the tests of a directory are.
pub(super) fn step(turn: &Turn<'_>, root: &str, closing: bool) -> Next {
    let mut ask = Ask::new(turn);
    if turn.tool("search_files").is_none() {
        return Next::Refuse(
            "I cannot look for tests: `search_files` is not among my tools here.".to_owned(),
        );
    }
    let scope = Scope::whole(root);
    let listing = ask.call("list_dir", json!({"path": root, "depth": 1, "hidden": true}));
    let sizes = Search::counts(&scope, "lines", "^", &[]).pages(survey::SIZE_PAGES).ask(&mut ask);
    if ask.waits() && !closing {
        return Next::Calls(ask.into_missing());
    }
    if let Some(problem) = listing.and_then(super::conversation::Done::problem) {
        return Next::Refuse(format!("I cannot look for tests in `{root}`: listing it {problem}"));
    }
    let mut facts = Facts::default();
    let files: Vec<(&str, u64)> = sizes.counts().collect();
    survey::count(&mut facts, &files);
    survey::note_gap(&mut facts, &sizes, "which languages there are", "all files");
    let languages = survey::main_languages(&facts);
    let asked = |name: &&'static str| survey::tests(&mut ask, &scope, name);
    let found: Vec<_> = languages.iter().filter_map(asked).collect();
    if ask.waits() && !closing {
        return Next::Calls(ask.into_missing());
    }
    for (language, found) in &found {
        survey::note_gap(&mut facts, found, "test cases", language);
    }
    Next::Say(answer(root, &languages, &found, &facts))
}

fn answer(
    root: &str,
    languages: &[&str],
    found: &[(&'static str, Found<'_>)],
    facts: &Facts,
) -> String {
    let mut by_directory: BTreeMap<&str, Vec<(&str, u64)>> = BTreeMap::new();
    let mut all = Size::default();
    for (path, cases) in found.iter().flat_map(|(_, found)| survey::own_tests(found)) {
        let directory = path.rsplit_once('/').map_or(".", |(directory, _)| directory);
        by_directory.entry(directory).or_default().push((path, cases));
        all.add(1, cases);
    }
    let by = match languages {
        [] => "there is no program in a language that I know".to_owned(),
        names => format!("by the patterns of {}", names.join(", ")),
    };
    let mut out = match all.files {
        0 => format!("No test case was found in `{root}`: {by}.\n"),
        files => format!(
            "{} in {} of `{root}`, {by}:\n\n",
            count(all.lines, "test case"),
            count(files, "file")
        ),
    };
    let left = by_directory.len().saturating_sub(DIRECTORIES);
    let mut directories: Vec<_> = by_directory.into_iter().collect();
    directories.sort_by_key(|(_, files)| std::cmp::Reverse(cases_of(files)));
    let more = (left > 0).then(|| format!("and {left} more directories"));
    let lines = directories.into_iter().take(DIRECTORIES).map(|(directory, files)| {
        let cases = count(cases_of(&files), "test case");
        format!("`{directory}`: {cases} in {}", named(files))
    });
    out.push_str(&bullets(lines.chain(more)).unwrap_or_default());
    if let Some(gaps) = bullets(facts.gaps.iter().cloned()) {
        out.push_str(&format!("\n\nNot looked at:\n\n{gaps}"));
    }
    format!("{}\n", out.trim_end())
}

fn cases_of(files: &[(&str, u64)]) -> u64 {
    files.iter().map(|(_, cases)| cases).sum()
}

/// The files with most test cases, by name.
fn named(mut files: Vec<(&str, u64)>) -> String {
    files.sort_by_key(|(_, cases)| std::cmp::Reverse(*cases));
    let left = files.len().saturating_sub(FILES);
    let shown: Vec<String> =
        files.iter().take(FILES).map(|(path, _)| format!("`{path}`")).collect();
    let more =
        if left > 0 { format!(" and {}", count(left as u64, "more file")) } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use deputize_core::CallStatus;
    use serde_json::Value;

    use super::super::fixture::{Given, ok, talk};
    const TOOLS: &[&str] = &["list_dir", "search_files", "delegate_task"];

    fn tree(tool: &str, arguments: &Value) -> Given {
        let pattern = arguments.get("pattern").and_then(Value::as_str).unwrap_or_default();
        match tool {
            "search_files" if pattern.ends_with("^)") => {
                ok("src/a.rs:9\ntests/b.rs:9\nvendor/c.rs:9", "27 matches in 3 files")
            }
            "search_files" => {
                ok("src/a.rs:1\ntests/b.rs:4\nvendor/c.rs:9", "14 matches in 3 files")
            }
            _ => ok("src/", ""),
        }
    }

    #[test]
    fn the_tests_are_where_their_rule_finds_them() {
        let talk = talk("Where are the tests?", TOOLS, 9, tree);
        let said = "5 test cases in 2 files of `.`, by the patterns of Rust:\n\n\
                    - `tests`: 4 test cases in `tests/b.rs`\n\
                    - `src`: 1 test case in `src/a.rs`\n";
        assert_eq!((talk.answer.as_str(), talk.failed), (said, false));
    }

    #[test]
    fn where_there_are_none_it_says_so() {
        let none = talk("Where are the tests?", TOOLS, 9, |tool, arguments| match tool {
            "list_dir" => tree(tool, arguments),
            _ => ok("", "no match in 3 files"),
        });
        assert!(none.answer.starts_with("No test case was found in `.`: there is no program"));
        let broken = |_: &str, _: &Value| (CallStatus::Error, "not found: x".to_owned(), "");
        let lost = talk("find the tests in src/x", TOOLS, 9, broken);
        assert!(
            lost.failed && lost.answer.contains("`src/x`: listing it failed"),
            "{}",
            lost.answer
        );
        let bare = talk("Where are the tests?", &["list_dir"], 9, tree);
        assert!(bare.failed && bare.answer.contains("`search_files` is not"), "{}", bare.answer);
    }
}
