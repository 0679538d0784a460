//! What the documents promise is so.

mod links;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// Every Rust file below the crates, as one text.
fn all_code() -> String {
    let mut folders = vec![root().join("crates"), root().join("plugins"), root().join("tests")];
    let mut code = String::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                code.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    code
}

/// Whether a function of that name follows the attribute of a test.
fn is_test(code: &str, function: &str) -> bool {
    code.match_indices(&format!("fn {function}(")).any(|(at, _)| {
        let before = &code[..at];
        let attribute = before.rfind("test]").max(before.rfind("::test("));
        attribute.is_some_and(|attribute| !before[attribute..].contains(['}', ';']))
    })
}

#[test]
fn every_invariant_names_a_test_that_exists() {
    let page = read("ARCHITECTURE.md");
    let code = all_code();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| I")).collect();
    assert_eq!(rows.len(), 10, "{rows:?}");
    for row in rows {
        let tests = row.rsplit('|').nth(1).unwrap();
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "{row}");
        for name in names {
            let function = name.rsplit("::").next().unwrap();
            assert!(is_test(&code, function), "{row}: no test `{function}`");
        }
    }
}

#[test]
fn the_architecture_page_is_short_and_gives_a_reason_for_each_dependency() {
    let page = read("ARCHITECTURE.md");
    assert!(page.lines().count() < 200, "{} lines", page.lines().count());
    let manifest = read("Cargo.toml");
    let dependencies = manifest.split("[workspace.dependencies]").nth(1).unwrap();
    let dependencies = dependencies.split("\n[").next().unwrap();
    let names: BTreeSet<&str> = dependencies
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name)
        .collect();
    let (_, reasons) = page.split_once("## Dependencies").unwrap();
    let missing: Vec<_> = names
        .iter()
        .filter(|name| !name.starts_with("deputize") && !reasons.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md gives no reason for {missing:?}");
}

#[test]
fn every_fuzz_target_has_a_row_in_the_table_of_long_runs() {
    let page = read("CONTRIBUTING.md");
    let (_, table) = page.split_once("| target | minutes |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let rows: BTreeSet<&str> =
        table.lines().skip(2).filter_map(|row| Some(row.split('|').nth(1)?.trim())).collect();
    let manifest = read("fuzz/Cargo.toml");
    let path = |line: &str| {
        line.strip_prefix("path = \"targets/")?.strip_suffix(".rs\"").map(str::to_owned)
    };
    let targets: BTreeSet<String> = manifest.lines().filter_map(path).collect();
    assert!(targets.len() >= 20, "{targets:?}");
    assert_eq!(rows, targets.iter().map(String::as_str).collect());
}

#[test]
fn the_changelog_has_a_section_for_what_is_not_released() {
    assert!(read("CHANGELOG.md").contains("\n## Unreleased\n"));
}
