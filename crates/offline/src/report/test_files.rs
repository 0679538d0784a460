//! Where the tests of a project are.

use std::collections::BTreeMap;

use super::{Report, quote_commands};
use crate::figures::{Figures, Tests, group_folders};
use crate::inventory::{File, Inventory};
use crate::modules::is_source;
use crate::part::{Part, is_test_file};
use crate::paths::parent;
use crate::syntax::Grammar;
use crate::wording::{bullets, count, number};

/// Rows of the folders of tests.
const FOLDERS: usize = 12;

/// Renders the answer to the question where tests are.
pub(crate) fn of_tests(
    root: &str,
    inventory: &Inventory,
    figures: &Figures,
    gaps: &[String],
    commands: &[String],
) -> String {
    let folders = by_folder(inventory, figures);
    let mut out = match heading(&folders, &format!(" of `{root}`")) {
        Some(heading) => format!("{heading}\n\n{}\n", lines(folders)),
        None => format!(
            "No test function was found in `{root}` among {}.\n",
            count(figures.parsed, "source file")
        ),
    };
    if !commands.is_empty() {
        out.push_str(&format!("\nRun them with {}.\n", quote_commands(commands)));
    }
    if let Some(gaps) = bullets(gaps.iter().cloned()) {
        out.push_str(&format!("\nNot looked at:\n\n{gaps}\n"));
    }
    out
}

/// Renders the section about tests of a survey.
pub(super) fn tests(report: &Report) -> Option<String> {
    let folders = by_folder(&report.inventory, &report.figures);
    let Some(heading) = heading(&folders, "") else {
        return (report.figures.parsed > 0).then(|| "No test function was found.".to_owned());
    };
    let mut out = format!("{heading}\n\n{}", lines(folders));
    if !report.commands.test.is_empty() {
        out.push_str(&format!("\n\nRun them with {}.", quote_commands(&report.commands.test)));
    }
    Some(out)
}

/// Returns the tests of each folder: what the parsers found, and files of other languages.
fn by_folder(inventory: &Inventory, figures: &Figures) -> BTreeMap<String, Tests> {
    let mut folders = figures.tests.clone();
    let unparsed = |file: &&File| {
        let source = is_source(&file.path) && Grammar::of(&file.path).is_none();
        source && file.part() == Part::Test && is_test_file(&file.path) && file.bytes > 0
    };
    for file in inventory.files.iter().filter(unparsed) {
        folders.entry(parent(&file.path).to_owned()).or_default().others += 1;
    }
    folders
}

/// Says how many tests there are; `None` where there are none.
fn heading(folders: &BTreeMap<String, Tests>, place: &str) -> Option<String> {
    let sum = |of: fn(&Tests) -> u64| folders.values().map(of).sum::<u64>();
    let cases = sum(|it| it.cases);
    let files = sum(|it| it.files);
    let others = sum(|it| it.others);
    let found = format!("{} in {}{place}", count(cases, "test function"), count(files, "file"));
    match (cases, others) {
        (0, 0) => None,
        (_, 0) => Some(format!("{found}:")),
        (0, others) => {
            let others = count(others, "test file");
            Some(format!("{others}{place} without a test function that a parser finds:"))
        }
        (_, others) => {
            let others = count(others, "more test file");
            Some(format!("{found}; {others} without one that a parser finds:"))
        }
    }
}

/// Returns a line for each folder with tests, those with most first.
fn lines(mut folders: BTreeMap<String, Tests>) -> String {
    group_folders(&mut folders, FOLDERS);
    let mut folders: Vec<_> = folders.into_iter().collect();
    folders.sort_by(|(a, one), (b, other)| {
        (other.cases, other.others).cmp(&(one.cases, one.others)).then(a.cmp(b))
    });
    let line = |(folder, tests): (String, Tests)| {
        let folder = if folder.is_empty() { "." } else { folder.as_str() };
        let below = if tests.below { " and other folders in it" } else { "" };
        let found = format!("{} in {}", number(tests.cases), count(tests.files, "file"));
        let all = match (tests.cases, tests.others) {
            (_, 0) => found,
            (0, others) => count(others, "test file"),
            (_, others) => format!("{found}, and {}", count(others, "more test file")),
        };
        format!("`{folder}`{below}: {all}")
    };
    bullets(folders.into_iter().map(line)).unwrap_or_default()
}
