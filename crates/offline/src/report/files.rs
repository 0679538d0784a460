//! The folders and files of a project: modules, the largest and most imported, examples.

use std::collections::BTreeMap;

use super::{Report, and_more};
use crate::inventory::File;
use crate::modules::is_source;
use crate::part::Part;
use crate::wording::{bullets, cell, code, count, number, quote, shorten};

/// Files that are named as largest, and as imported most.
const LARGEST: usize = 5;

/// Examples that are named.
const EXAMPLES: usize = 8;

pub(super) fn module_table(report: &Report) -> Option<String> {
    if report.modules.is_empty() {
        return None;
    }
    const ROWS: usize = 12;
    let mut out = "| folder | files | lines | what it is |\n| --- | ---: | ---: | --- |".to_owned();
    for module in report.modules.iter().take(ROWS) {
        let about = cell(&shorten(&module.about, 100));
        out.push_str(&format!(
            "\n| {} | {} | {} | {about} |",
            cell(&code(&module.label())),
            number(module.files),
            number(module.lines)
        ));
    }
    let rest = report.modules.get(ROWS..).unwrap_or_default();
    if !rest.is_empty() {
        let files = rest.iter().map(|module| module.files).sum();
        let lines = rest.iter().map(|module| module.lines).sum();
        out.push_str(&format!(
            "\n| {} more | {} | {} | |",
            rest.len(),
            number(files),
            number(lines)
        ));
    }
    Some(out)
}

pub(super) fn connected(report: &Report) -> Option<String> {
    let mut files: Vec<&File> = report
        .inventory
        .files
        .iter()
        .filter(|file| is_source(&file.path) && file.part() == Part::Main)
        .filter(|file| file.lines.is_some())
        .collect();
    files.sort_by(|a, b| b.lines.cmp(&a.lines).then(a.path.cmp(&b.path)));
    let one = |file: &&File| format!("`{}` {}", file.path, number(file.lines.unwrap_or(0)));
    let largest: Vec<String> = files.iter().take(LARGEST).map(one).collect();
    let mut imported: Vec<(&String, &u64)> = report.figures.imported.iter().collect();
    imported.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let one = |(path, count): &(&String, &u64)| format!("`{path}` {count}");
    let most: Vec<String> =
        imported.iter().filter(|(_, count)| **count > 1).take(LARGEST).map(one).collect();
    let mut lines = Vec::new();
    if !largest.is_empty() {
        lines.push(format!("Largest files, in lines: {}", largest.join(", ")));
    }
    if !most.is_empty() {
        lines.push(format!("Imported by most files: {}", most.join(", ")));
    }
    bullets(lines.into_iter())
}

pub(super) fn examples(report: &Report) -> Option<String> {
    let folders = ["examples", "example", "demo", "demos", "samples"];
    let mut by_folder: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for file in report.inventory.files.iter().filter(|file| file.part() == Part::Example) {
        let mut at = 0;
        for part in file.path.split('/') {
            let end = at + part.len();
            if folders.contains(&part.to_ascii_lowercase().as_str()) {
                let folder = file.path.get(..end).unwrap_or_default().to_owned();
                by_folder.entry(folder).or_default().push(&file.path);
                break;
            }
            at = end + 1;
        }
    }
    let line = |(folder, files): (&String, &Vec<&str>)| {
        let prefix = format!("{folder}/");
        let mut names: Vec<&str> = files
            .iter()
            .filter(|path| is_source(path))
            .filter_map(|path| example_name(path.strip_prefix(&prefix)?))
            .collect();
        names.sort_unstable();
        names.dedup();
        let left = names.len().saturating_sub(EXAMPLES);
        let names = names.iter().take(EXAMPLES).map(|name| quote(name)).collect();
        let names = and_more(names, left);
        let names = if names.is_empty() { String::new() } else { format!(": {names}") };
        format!("`{folder}`, {}{names}", count(files.len() as u64, "file"))
    };
    bullets(by_folder.iter().take(4).map(line))
}

/// Returns the name of an example by its path below the folder of examples, which may be a
/// package of its own.
fn example_name(path: &str) -> Option<&str> {
    let path = path.strip_prefix("src/").unwrap_or(path);
    path.strip_prefix("bin/").unwrap_or(path).split('/').next()
}
