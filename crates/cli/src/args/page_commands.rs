//! Every command that the documents show is one that the program takes.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser as _;

use super::Arguments;

/// Documents that people read, with the pages of the guide and the reference.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut documents = vec![root.join("README.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension().and_then(|it| it.to_str()) {
                Some("md") => documents.push(path),
                _ if path.is_dir() => folders.push(path),
                _ => {}
            }
        }
    }
    documents
}

/// Returns the words of the first command in a line of shell that this program is.
fn command_words(line: &str) -> Option<Vec<String>> {
    let command = line.split("deputize ").nth(1).filter(|_| is_command(line))?;
    let mut words = vec!["deputize".to_owned()];
    let (mut word, mut quote, mut is_word) = (String::new(), None, false);
    for c in command.chars() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            (c, Some(_)) => word.push(c),
            ('"' | '\'', None) => (quote, is_word) = (Some(c), true),
            ('#' | '|' | '<' | '>' | '&' | ';', None) if word.is_empty() => break,
            (';', None) => break,
            (' ', None) => {
                if is_word || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                is_word = false;
            }
            (c, None) => word.push(c),
        }
    }
    if is_word || !word.is_empty() {
        words.push(word);
    }
    Some(words)
}

/// Returns whether the program's name begins a command there.
fn is_command(line: &str) -> bool {
    let before = line.split("deputize ").next().unwrap_or_default();
    let assigns = |word: &str| word.contains('=');
    before.is_empty()
        || before.ends_with("| ")
        || before.ends_with("do ")
        || before.split_whitespace().all(assigns)
}

#[test]
fn every_command_of_the_documents_is_one() {
    let mut count = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        let mut is_shell = false;
        for line in text.lines() {
            match line.trim_start().strip_prefix("```") {
                Some(language) => is_shell = language.starts_with("sh"),
                None if is_shell => {
                    let Some(words) = command_words(line.trim()) else { continue };
                    let parsed = Arguments::try_parse_from(&words);
                    let error = parsed.err().map(|error| error.to_string());
                    assert_eq!(error, None, "{}: {line}", document.display());
                    count += 1;
                }
                None => {}
            }
        }
    }
    assert!(count >= 60, "only {count} commands were found");
}
