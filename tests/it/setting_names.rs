//! Libraries name no configuration key and no command of the program: the host passes such names in.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::tool_names::{code, sources};

/// Crates of the program itself.
const PROGRAM: [&str; 2] = ["crates/cli", "crates/config"];

/// The texts that look like words of the program and are none, with the reason.
const ALLOWED: [(&str, &str); 1] = [
    // A command of Cargo.
    ("crates/offline/src/commands.rs", " --workspace"),
];

/// Returns the texts in double quotes of a source without comments.
fn literals(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find('"') {
        let is_char = rest[..at].ends_with('\'') || rest[..at].ends_with("'\\");
        let text = &rest[at + 1..];
        if is_char {
            rest = text;
            continue;
        }
        let mut escaped = false;
        let end = text.bytes().position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let end = end.unwrap_or(text.len());
        found.push(&text[..end]);
        rest = text.get(end + 1..).unwrap_or_default();
    }
    found
}

/// The words of the program: dotted keys of its configuration, and its commands and options.
struct ProgramWords {
    keys: Vec<String>,
    /// Sections whose keys a person chooses, such as servers by their names.
    sections: Vec<String>,
    commands: Vec<String>,
    options: Vec<String>,
}

impl ProgramWords {
    fn read(root: &Path) -> Self {
        let schema = fs::read_to_string(root.join("crates/config/src/schema.json")).unwrap();
        let schema: Value = serde_json::from_str(&schema).unwrap();
        let mut keys = Vec::new();
        let mut sections = Vec::new();
        for (section, below) in schema["properties"].as_object().unwrap() {
            if below["additionalProperties"].is_object() {
                sections.push(format!("{section}."));
            }
            let below = below.get("properties").and_then(Value::as_object);
            keys.extend(below.into_iter().flatten().map(|(key, _)| format!("{section}.{key}")));
        }
        let help = "crates/cli/src/snapshots/deputize__args__tests__the_help_of_every_command.snap";
        let help = fs::read_to_string(root.join(help)).unwrap();
        let command =
            |line: &str| Some(line.strip_prefix("=== ")?.strip_suffix(" --help")?.to_owned());
        let commands = help.lines().filter_map(command).filter(|command| command.contains(' '));
        let option = |line: &str| {
            let at = line.starts_with("  ").then(|| line.find("--"))??;
            let end = |c: char| !c.is_ascii_lowercase() && c != '-';
            line[at..].split(end).next().map(str::to_owned)
        };
        let options =
            help.lines().filter_map(option).filter(|option| option != "--help" && option.len() > 2);
        Self { keys, sections, commands: commands.collect(), options: options.collect() }
    }

    /// Returns whether a text names one of them.
    fn named_in(&self, text: &str) -> bool {
        // A word, and not the beginning of a longer one.
        let names = |word: &String, more: fn(char) -> bool| {
            let ends = |(at, _): (usize, &str)| !text[at + word.len()..].starts_with(more);
            text.match_indices(word.as_str()).any(ends)
        };
        let in_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let section = |section: &String| {
            let goes_on = |(at, word): (usize, &str)| text[at + word.len()..].starts_with(in_name);
            text.match_indices(section.as_str()).any(goes_on)
        };
        self.keys.iter().any(|key| names(key, in_name))
            || self.sections.iter().any(section)
            || self.commands.iter().any(|command| names(command, in_name))
            || self.options.iter().any(|option| names(option, in_name))
            || ["DEPUTIZE_HOME", "DEPUTIZE_LOG"].iter().any(|variable| text.contains(variable))
    }
}

#[test]
fn libraries_name_no_key_and_no_command_of_the_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let words = ProgramWords::read(root);
    for text in [
        "raise delegation.max_spawn_depth",
        "mcp_servers.NAME.start_timeout_seconds sets it",
        "`deputize sessions show` lists them",
        "of `mcp add`: --start-timeout",
        "(--approve)",
        "DEPUTIZE_HOME chooses it",
    ] {
        assert!(words.named_in(text), "{text}");
    }
    for text in ["of all providers. Try another", "the deputize-core crate", "--approver", "a run"]
    {
        assert!(!words.named_in(text), "{text}");
    }
    let mut files = Vec::new();
    for folder in ["crates", "plugins/sdk", "plugins/host"] {
        sources(&root.join(folder), &mut files);
    }
    let mut found = Vec::new();
    for file in files {
        let place = file.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        if PROGRAM.iter().any(|program| place.starts_with(program)) {
            continue;
        }
        let code = code(&fs::read_to_string(&file).unwrap());
        let named = literals(&code).into_iter().filter(|text| words.named_in(text));
        found.extend(named.map(|text| (place.clone(), text.to_owned())));
    }
    let found: Vec<(&str, &str)> = found.iter().map(|(place, text)| (&**place, &**text)).collect();
    assert_eq!(found, ALLOWED);
}
