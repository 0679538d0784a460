//! Any bytes as a configuration file, and any options.
//!
//! The input: the file, and after each NUL one `--set` option.
#![no_main]

use std::path::Path;

use deputize_config::{ConfigError, ConfigSource, Problem, Sources, Verb, load, run};
use deputize_fuzz::meter::MemoryLimit;
use libfuzzer_sys::fuzz_target;

/// A short value may be used by many aliases, up to limits of their own.
const LIMIT: MemoryLimit = MemoryLimit { base: 64 * 1024 * 1024, each: 8 * 1024 };
/// Characters of one problem. The longest lists the keys of a section.
const PROBLEM_CHARS: usize = 1_500;

fuzz_target!(|input: &[u8]| {
    let mut parts = input.split(|byte| *byte == 0);
    let file = parts.next().unwrap_or_default();
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("config.yaml");
    std::fs::write(&path, file).expect("a file");
    let sources = Sources {
        cwd: dir.path().to_owned(),
        config_file: Some(path.clone()),
        set: parts.map(|option| String::from_utf8_lossy(option).into_owned()).collect(),
        ..Sources::default()
    };
    match LIMIT.during(input.len(), || load(&sources)) {
        Err(ConfigError { problems, warnings, .. }) => {
            assert!(!problems.is_empty());
            problems.iter().chain(&warnings).for_each(|problem| within(problem, file));
        }
        Ok(loaded) => {
            loaded.warnings.iter().for_each(|problem| within(problem, file));
            for json in [true, false] {
                let shown = run(Verb::Show { json }, &sources).expect("it was loaded");
                let hidden = |c: char| c.is_control() && c != '\n';
                assert!(!shown.text.contains(hidden), "{}", shown.text);
                if !json {
                    read_again(&path, &shown.text);
                }
            }
        }
    }
});

/// A problem is one line, and its place is in the file.
fn within(problem: &Problem, file: &[u8]) {
    deputize_fuzz::one_line(&problem.message, PROBLEM_CHARS);
    let Some((line, column)) = problem.place.position() else { return };
    assert!(matches!(problem.place.source(), ConfigSource::File(_)));
    // In a text that is not UTF-8 only line feeds end lines; YAML knows more ends.
    let text = String::from_utf8_lossy(file);
    let yaml = text.replace("\r\n", "\n").replace('\r', "\n");
    let holds = |text: &str| {
        let index = usize::try_from(line).unwrap_or(usize::MAX).wrapping_sub(1);
        let columns = text.split('\n').nth(index).map(|line| line.chars().count() as u64 + 1);
        columns.is_some_and(|columns| (1..=columns).contains(&column))
    };
    assert!(holds(&text) || holds(&yaml), "not in {text:?}: {problem}");
}

/// What is shown as YAML is a configuration.
fn read_again(path: &Path, yaml: &str) {
    std::fs::write(path, yaml).expect("a file");
    let sources = Sources { config_file: Some(path.to_owned()), ..Sources::default() };
    if let Err(error) = load(&sources) {
        panic!("shown and not read again: {error}\n{yaml}");
    }
}
