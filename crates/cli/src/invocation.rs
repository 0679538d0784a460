//! Formats the commands that hints ask a person to type.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, CommandFactory as _};
pub(crate) use deputize_config::hint::format_command;
use deputize_config::hint::{format_command_with, set_config_option};
use deputize_core::SessionId;

use crate::args::Arguments;

/// Remembers the `--config` of the command line for the commands of hints.
pub(crate) fn remember_config(arguments: &[OsString]) {
    if let Some(config) = quoted_config(arguments) {
        set_config_option(config);
    }
}

/// Returns the value of `--config`, quoted for a shell.
fn quoted_config(arguments: &[OsString]) -> Option<String> {
    // To read the command line once more takes as long as the rest of the reading.
    arguments.iter().find(|one| one.to_string_lossy().starts_with("--config"))?;
    // A hint about a mistake in the command line has the option too.
    let command = Arguments::command().ignore_errors(true);
    let matches = command.try_get_matches_from(arguments).ok()?;
    config_file(&matches).map(quote_path)
}

/// Formats the command that goes on with a session, with the `--config` that it ran with.
pub(crate) fn format_resume(session: &SessionId, config_file: Option<&Path>) -> String {
    let run = match config_file {
        Some(file) => format_command_with("run", Some(&quote_path(file))),
        None => format_command("run"),
    };
    format!("{run} --resume {session}")
}

/// Quotes a path for a POSIX shell where it needs that.
pub(crate) fn quote_path(path: &Path) -> String {
    quote_for_shell(&path.to_string_lossy())
}

/// Returns the value of `--config` of the innermost subcommand, which alone has that option.
fn config_file(matches: &ArgMatches) -> Option<&Path> {
    match matches.subcommand() {
        Some((_, inner)) => config_file(inner),
        None => matches.try_get_one::<PathBuf>("config").ok()?.map(PathBuf::as_path),
    }
}

/// Quotes a word for a POSIX shell where it needs that.
fn quote_for_shell(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./+,@%:=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn formatted(arguments: &[&str]) -> String {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        format_command_with("mcp list", quoted_config(&arguments).as_deref())
    }

    #[test]
    fn commands_have_the_config_option_of_the_command_line() {
        let cases: [(&[&str], &str); 8] = [
            (&["deputize", "run", "x"], "deputize mcp list"),
            (&["deputize", "run", "--config", "a.yaml", "x"], "deputize mcp list --config a.yaml"),
            (&["deputize", "run", "x", "--config=a b"], "deputize mcp list --config 'a b'"),
            (&["deputize", "doctor", "--config", "it's"], r"deputize mcp list --config 'it'\''s'"),
            (&["deputize", "config", "check", "--config=-a"], "deputize mcp list --config=-a"),
            (&["deputize", "run", "--config", "a", "two", "words"], "deputize mcp list --config a"),
            (&["deputize", "run", "--", "--config=a"], "deputize mcp list"),
            (&["deputize", "mcp", "add", "w", "--", "sh", "--config", "a"], "deputize mcp list"),
        ];
        for (arguments, expected) in cases {
            assert_eq!(formatted(arguments), expected, "{arguments:?}");
        }
    }

    /// Whether the command that a text begins with has the option `--config`.
    fn has_config_option(text: &str) -> bool {
        let mut program = Arguments::command();
        program.build();
        let mut command = &program;
        for word in text.split_whitespace() {
            let word = word.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '-');
            let Some(inner) = command.find_subcommand(word) else { break };
            command = inner;
        }
        command.get_arguments().any(|argument| argument.get_id() == "config")
    }

    /// The code of a source file: without comments, tests, and line breaks inside of strings.
    fn code(source: &str) -> String {
        let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        lines.map(|line| line.trim_start().trim_end_matches('\\').to_owned() + "\n").collect()
    }

    fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|it| it == "rs") {
                found.push(path);
            }
        }
    }

    #[test]
    fn no_text_spells_out_a_command_that_has_the_config_option() {
        let mut files = Vec::new();
        for source in ["..", "../../plugins/host"] {
            sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(source), &mut files);
        }
        let is_code = |path: &PathBuf| path.iter().any(|part| part == "src");
        files.retain(is_code);
        let mut formatted = 0;
        for file in files {
            let name = file.to_str().unwrap();
            // Examples of `--help` are printed before a command line is known.
            if name.ends_with("tests.rs") || name.contains("/src/args") {
                continue;
            }
            let code = code(&fs::read_to_string(&file).unwrap()).replace('\n', " ");
            for command in code.split("deputize ").skip(1) {
                assert!(!has_config_option(command), "{name}: {command:.60}");
            }
            for command in code.split("format_command(\"").skip(1) {
                assert!(has_config_option(command), "{name}: {command:.60}");
                formatted += 1;
            }
        }
        assert!(formatted > 20, "{formatted}");
    }
}
