//! Files that a text writes and runs.

use super::{Evaluator, KnownOutput};
use crate::field::{base_name, is_known};
use crate::invocation::Input;

/// Programs whose output is from elsewhere.
const FETCHERS: [&str; 4] = ["curl", "wget", "http", "xh"];

/// Remembers what a command with redirects wrote.
pub(super) fn write(it: &mut Evaluator, fields: &[String], printed: &KnownOutput) {
    let program = fields.first().map(|it| base_name(it)).unwrap_or_default();
    for path in std::mem::take(&mut it.written) {
        if printed.is_some() || FETCHERS.contains(&program) {
            it.files.insert(key(&path).to_owned(), printed.clone());
        }
    }
}

/// Remembers the files that a program fetches.
pub(super) fn fetch(it: &mut Evaluator, program: &str, arguments: &[String]) {
    if !FETCHERS.contains(&program) {
        return;
    }
    let is_target = |it: &String| {
        ["-o", "-O", "--output", "--output-document"].contains(&it.as_str())
            || it.starts_with('-') && !it.starts_with("--") && it.ends_with(['o', 'O'])
    };
    let named = arguments.windows(2).filter_map(|pair| match pair {
        [option, path] if is_target(option) => Some(path.clone()),
        _ => None,
    });
    let addresses = arguments.iter().filter(|it| !it.starts_with('-'));
    let last = addresses.map(|it| base_name(it).to_owned());
    let saves =
        program == "wget" || arguments.iter().any(|it| it.starts_with('-') && it.contains('O'));
    let all: Vec<String> = named.chain(last.filter(|_| saves)).collect();
    for path in all.into_iter().filter(|it| is_known(it) && !it.is_empty()) {
        it.files.insert(key(&path).to_owned(), None);
    }
}

/// Returns what is in a file, if the text wrote it.
pub(super) fn content(it: &Evaluator, path: &str) -> Option<Input> {
    let content = it.files.get(key(path))?;
    Some(content.clone().map_or(Input::Unknown, Input::Text))
}

fn key(path: &str) -> &str {
    path.trim_start_matches("./")
}
