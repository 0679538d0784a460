//! Libraries name no configuration key and no command of the program: the host passes such names in.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::tool_names::{code, sources};

/// Crates of the program itself.
const PROGRAM: [&str; 2] = ["crates/cli", "crates/config"];

/// Sources that name the options of other programs, such as `docker --context`.
const OTHER_PROGRAMS: [&str; 3] =
    ["crates/policy/src/file_contents.rs", "crates/policy/src/program", "crates/policy/src/rules"];

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

/// Returns the Markdown files of a folder, which are compiled into its crate.
fn markdown(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        if file.is_dir() {
            let name = file.file_name().unwrap();
            if !["tests", "target", "examples", "benches"].iter().any(|other| name == *other) {
                markdown(&file, found);
            }
        } else if file.extension().is_some_and(|extension| extension == "md") {
            found.push(file);
        }
    }
}

/// Adds `` `KEY: `` for each key of a schema, at any depth. A key alone may be an argument of a tool.
fn lines_of_yaml(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            let keys = fields.get("properties").and_then(Value::as_object);
            found.extend(keys.into_iter().flatten().map(|(key, _)| format!("`{key}: ")));
            fields.values().for_each(|below| lines_of_yaml(below, found));
        }
        Value::Array(items) => items.iter().for_each(|below| lines_of_yaml(below, found)),
        _ => {}
    }
}

/// The words of the program: keys of its configuration, and its commands and options.
struct ProgramWords {
    keys: Vec<String>,
    /// Keys as a line of the file has them.
    lines: Vec<String>,
    /// Sections whose keys a person chooses, such as servers by their names.
    sections: Vec<String>,
    commands: Vec<String>,
    options: Vec<String>,
}

impl ProgramWords {
    fn read(root: &Path) -> Self {
        let schema = fs::read_to_string(root.join("crates/config/src/schema.json")).unwrap();
        let schema: Value = serde_json::from_str(&schema).unwrap();
        let mut lines = Vec::new();
        lines_of_yaml(&schema, &mut lines);
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
        let mut options: Vec<String> = options.collect();
        let short = |line: &str| {
            let letter =
                line.strip_prefix("  -")?.chars().next().filter(char::is_ascii_alphabetic)?;
            Some(format!("`-{letter}"))
        };
        options.extend(help.lines().filter_map(short));
        Self { keys, lines, sections, commands: commands.collect(), options }
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
            || self.lines.iter().any(|line| text.contains(line.as_str()))
            || text.contains("the configuration")
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
        "set `api: openai-chat`",
        "the configuration's `toolsets`",
        "choose a model with `-m PROVIDER/MODEL`",
        "DEPUTIZE_HOME chooses it",
    ] {
        assert!(words.named_in(text), "{text}");
    }
    for text in [
        "of all providers. Try another",
        "the deputize-core crate",
        "--approver",
        "a run",
        "give `toolsets`",
        "`ls -m`",
    ] {
        assert!(!words.named_in(text), "{text}");
    }
    let mut files = Vec::new();
    for folder in ["crates", "plugins/sdk", "plugins/host"] {
        sources(&root.join(folder), &mut files);
        markdown(&root.join(folder), &mut files);
    }
    assert!(files.iter().any(|file| file.ends_with("crates/offline/src/help.md")));
    let mut found = Vec::new();
    for file in files {
        let place = file.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        let mut left_out = PROGRAM.iter().chain(&OTHER_PROGRAMS);
        if left_out.any(|folder| place.starts_with(folder)) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let code = code(&text);
        let texts = if place.ends_with(".md") { text.lines().collect() } else { literals(&code) };
        let named = texts.into_iter().filter(|text| words.named_in(text));
        found.extend(named.map(|text| (place.clone(), text.to_owned())));
    }
    let found: Vec<(&str, &str)> = found.iter().map(|(place, text)| (&**place, &**text)).collect();
    assert_eq!(found, ALLOWED);
}
