//! A server put into the person's configuration file, or taken out. The rest of the file stays as
//! it is, byte for byte; what cannot be done so is left to the person.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use serde_json::Value;

use crate::config::{Config, Sources, load};
use crate::exit::CliError;

/// The key under which servers stand.
const KEY: &str = "mcp_servers";

#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error("there is no place for a configuration: set DEPUTIZE_HOME to a directory")]
    NoPlace,
    #[error("cannot read `{}`", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot write `{}`", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{}` is written in a way that is not changed by a program", .0.display())]
    Form(PathBuf),
}

/// Adds a server. Where it was added.
pub(super) fn add(sources: &Sources, name: &str, entry: &Value) -> Result<PathBuf, CliError> {
    let line = format!("{name}: {entry}");
    change(
        sources,
        |text| with(text, &line),
        |before, now| {
            let mut now = now.clone();
            now.mcp_servers.remove(name).is_some() && now == *before
        },
    )
    .map_err(|(error, by_hand)| {
        if by_hand { error.hint(format!("under `{KEY}:`, write this line: {line}")) } else { error }
    })
}

/// Takes a server out. Of which file.
pub(super) fn remove(sources: &Sources, name: &str) -> Result<PathBuf, CliError> {
    change(
        sources,
        |text| without(text, name),
        |before, now| {
            let mut before = before.clone();
            before.mcp_servers.remove(name).is_some() && before == *now
        },
    )
    .map_err(
        |(error, by_hand)| {
            if by_hand { error.hint(format!("delete `{KEY}.{name}` there")) } else { error }
        },
    )
}

/// Changes the text of the file, and holds that it then says what it is to say. An error tells
/// whether the person may do it by hand.
fn change(
    sources: &Sources,
    edit: impl FnOnce(&str) -> Option<String>,
    is_right: impl FnOnce(&Config, &Config) -> bool,
) -> Result<PathBuf, (CliError, bool)> {
    let failed = |error: FileError| (CliError::failed(error), false);
    let path = sources.user_file().ok_or(FileError::NoPlace).map_err(failed)?;
    // A link stays one: what it leads to is changed.
    let path = path.canonicalize().unwrap_or(path);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(source) => return Err(failed(FileError::Read { path, source })),
    };
    // The file alone: what is set elsewhere has no say in what it must mean.
    let alone = |file: PathBuf| Sources {
        config_file: Some(file),
        cwd: "/dev/null".into(),
        ..Sources::default()
    };
    let before = if text.is_empty() {
        Config::default()
    } else {
        load(&alone(path.clone())).map_err(|error| (CliError::usage(error), false))?.config
    };
    let by_hand = || (CliError::failed(FileError::Form(path.clone())), true);
    let changed = edit(&text).ok_or_else(by_hand)?;
    let wrong = |source| failed(FileError::Write { path: path.clone(), source });
    let folder = path.parent().unwrap_or(std::path::Path::new("."));
    fs::create_dir_all(folder).map_err(wrong)?;
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(wrong)?;
    file.write_all(changed.as_bytes()).map_err(wrong)?;
    let now = load(&alone(file.path().to_owned())).map_err(|_| by_hand())?.config;
    if !is_right(&before, &now) {
        return Err(by_hand());
    }
    if let Ok(old) = fs::metadata(&path) {
        fs::set_permissions(file.path(), old.permissions()).map_err(wrong)?;
    }
    file.as_file().sync_all().map_err(wrong)?;
    file.persist(&path).map_err(|error| wrong(error.error))?;
    Ok(path)
}

/// The place of the servers in a file: its lines, and which of them is the key's.
fn place(text: &str) -> (Vec<&str>, Option<usize>) {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_key =
        |line: &&str| line.strip_prefix(KEY).and_then(|rest| rest.strip_prefix(':')).is_some();
    let at = lines.iter().position(is_key);
    (lines, at)
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn says_nothing(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

/// The text with a line more under the key; nothing where the key is not written as a block.
fn with(text: &str, line: &str) -> Option<String> {
    let (lines, at) = place(text);
    let Some(at) = at else {
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        return Some(format!("{text}{end}{KEY}:\n  {line}\n"));
    };
    let (before, after) = lines.split_at_checked(at + 1)?;
    let key = before.last()?;
    let own = key.split_once(':')?.1.trim();
    if !(own.is_empty() || own.starts_with('#')) {
        return None;
    }
    let first = after.iter().find(|line| !says_nothing(line)).map(|line| indent(line));
    let deep = first.filter(|indent| *indent > 0).unwrap_or(2);
    let end = if key.ends_with('\n') { "" } else { "\n" };
    Some(format!("{}{end}{}{line}\n{}", before.concat(), " ".repeat(deep), after.concat()))
}

/// The text without the lines of a server; nothing where they are not found.
fn without(text: &str, name: &str) -> Option<String> {
    let (lines, at) = place(text);
    let at = at?;
    let is_its = |line: &str| {
        let own = line.trim_start_matches(' ');
        let plain = own.strip_prefix(name).and_then(|rest| rest.strip_prefix(':'));
        indent(line) > 0 && plain.is_some()
    };
    let below = lines.iter().enumerate().skip(at + 1);
    let mut below = below.take_while(|(_, line)| says_nothing(line) || indent(line) > 0);
    let (begin, first) = below.find(|(_, line)| is_its(line))?;
    let deep = indent(first);
    let rest = lines.iter().enumerate().skip(begin + 1);
    let end = rest
        .filter(|(_, line)| !says_nothing(line))
        .find(|(_, line)| indent(line) <= deep)
        .map_or(lines.len(), |(end, _)| end);
    // Remarks above what follows belong to that.
    let above = lines.get(begin + 1..end).unwrap_or_default().iter().rev();
    let above = above.take_while(|line| says_nothing(line) && indent(line) <= deep).count();
    let end = end - above;
    let kept = lines.iter().enumerate().filter(|(at, _)| !(begin..end).contains(at));
    let alone = lines.iter().enumerate().skip(at + 1).all(|(line, text)| {
        (begin..end).contains(&line) || says_nothing(text) || indent(text) == 0
    });
    // A key without anything below it would be no map.
    let kept = kept.filter(|(line, _)| !(alone && *line == at));
    Some(kept.map(|(_, line)| *line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const FILE: &str = "# mine\nmodel: ollama/a  # good\nmcp_servers:\n  # the first\n  one: { command: x }\n\
                        \x20 two:\n    command: y\n    args: [a]\nmax_iterations: 5\n";

    fn changed(text: &str, what: impl FnOnce(&Sources) -> Result<PathBuf, CliError>) -> String {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("config.yaml");
        fs::write(&path, text).unwrap();
        let sources = Sources { config_file: Some(path.clone()), ..Sources::default() };
        match what(&sources) {
            Ok(_) => fs::read_to_string(path).unwrap(),
            Err(error) => {
                assert_eq!(fs::read_to_string(path).unwrap(), text, "nothing was touched");
                error.to_string().replace(&home.path().display().to_string(), "HOME")
            }
        }
    }

    #[test]
    fn a_server_is_added_and_removed_and_the_rest_stays() {
        let entry = json!({"command": "z", "args": ["a b", "\"c\": #d"], "env": {"K": "${K}"}});
        let added = changed(FILE, |sources| add(sources, "new", &entry));
        let line = "  new: {\"command\":\"z\",\"args\":[\"a b\",\"\\\"c\\\": #d\"],\"env\":{\"K\":\"${K}\"}}\n";
        assert_eq!(added, FILE.replace("mcp_servers:\n", &format!("mcp_servers:\n{line}")));
        assert_eq!(changed(&added, |sources| remove(sources, "new")), FILE);
        let without_two = FILE.replace("  two:\n    command: y\n    args: [a]\n", "");
        assert_eq!(changed(FILE, |sources| remove(sources, "two")), without_two);
    }

    #[test]
    fn the_first_server_makes_the_key_and_the_last_one_takes_it_along() {
        let one = changed("model: offline", |sources| {
            add(sources, "a", &json!({"url": "http://127.0.0.1:9/"}))
        });
        assert_eq!(one, "model: offline\nmcp_servers:\n  a: {\"url\":\"http://127.0.0.1:9/\"}\n");
        assert_eq!(changed(&one, |sources| remove(sources, "a")), "model: offline\n");
    }

    #[test]
    fn what_is_written_otherwise_is_left_to_the_person() {
        let flow = "mcp_servers: { a: { command: x } }\n";
        let said = changed(flow, |sources| add(sources, "b", &json!({"command": "y"})));
        assert_eq!(
            said,
            "error: `HOME/config.yaml` is written in a way that is not changed by a program\n\
             hint: under `mcp_servers:`, write this line: b: {\"command\":\"y\"}"
        );
        let said = changed(flow, |sources| remove(sources, "a"));
        assert!(said.ends_with("hint: delete `mcp_servers.a` there"), "{said}");
    }
}
