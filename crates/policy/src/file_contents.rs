//! Files that a text writes and runs.

use std::collections::BTreeMap;

use crate::field::{STREAM, base_name, is_known};
use crate::invocation::{Input, KnownOutput};

/// Programs whose output is from elsewhere.
const FETCHERS: [&str; 4] = ["curl", "wget", "http", "xh"];

/// What is known of the content of files.
#[derive(Default)]
pub(crate) struct FileContents {
    /// Files that the text wrote; `None` for what was fetched.
    files: BTreeMap<String, KnownOutput>,
    /// The outputs that process substitutions name.
    streams: Vec<KnownOutput>,
    /// The files that the present command writes to.
    targets: Vec<String>,
}

impl FileContents {
    /// Returns the name of a file with an output.
    pub(crate) fn open_stream(&mut self, printed: KnownOutput) -> String {
        self.streams.push(printed);
        format!("/dev/fd/{STREAM}{}", self.streams.len() - 1)
    }

    /// Returns the output that a name of a process substitution stands for.
    pub(crate) fn stream(&self, path: &str) -> Option<Input> {
        let number = path.strip_prefix("/dev/fd/")?.strip_prefix(STREAM)?;
        let printed = number.parse::<usize>().ok().and_then(|it| self.streams.get(it));
        Some(printed.map_or(Input::Unknown, Input::from_output))
    }

    /// Returns what is in a file, if the text wrote it.
    pub(crate) fn content(&self, path: &str) -> Option<Input> {
        self.files.get(key(path)).map(Input::from_output)
    }

    /// Returns what a program reads under a path.
    pub(crate) fn read(&self, path: &str) -> Option<Input> {
        self.stream(path).or_else(|| self.content(path))
    }

    /// Adds a file that the present command writes to.
    pub(crate) fn add_target(&mut self, path: String) {
        self.targets.push(path);
    }

    /// Takes the files of the present command out, while other commands run.
    pub(crate) fn take_targets(&mut self) -> Vec<String> {
        std::mem::take(&mut self.targets)
    }

    /// Writes what a command printed to its files.
    pub(crate) fn write(&mut self, targets: Vec<String>, program: &str, printed: &KnownOutput) {
        // What commands inside have left is not for this one.
        self.targets.clear();
        if printed.is_none() && !FETCHERS.contains(&program) {
            return;
        }
        for path in targets {
            self.files.insert(key(&path).to_owned(), printed.clone());
        }
    }

    /// Remembers the files that a program fetches.
    pub(crate) fn fetch(&mut self, program: &str, arguments: &[String]) {
        if !FETCHERS.contains(&program) {
            return;
        }
        let is_target = |it: &String| {
            ["-o", "-O", "--output", "--output-document"].contains(&it.as_str())
                || it.starts_with('-') && !it.starts_with("--") && it.ends_with(['o', 'O'])
        };
        let named = arguments.windows(2).filter_map(|pair| match pair {
            [option, path] if is_target(option) => Some(path.as_str()),
            _ => None,
        });
        let addresses = arguments.iter().filter(|it| !it.starts_with('-'));
        let last = addresses.map(|it| base_name(it));
        let saves =
            program == "wget" || arguments.iter().any(|it| it.starts_with('-') && it.contains('O'));
        for path in named.chain(last.filter(|_| saves)) {
            if is_known(path) && !path.is_empty() {
                self.files.insert(key(path).to_owned(), None);
            }
        }
    }
}

fn key(path: &str) -> &str {
    path.trim_start_matches("./")
}
