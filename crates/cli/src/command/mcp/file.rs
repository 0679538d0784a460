//! A server put into the person's configuration file, or taken out. The rest of the file stays as
//! it is, byte for byte; what cannot be done so is left to the person.

use std::path::PathBuf;

use serde_json::Value;

use crate::config::Sources;
use crate::config::edit::{FileError, UserFileLock, change, find_key, indent, is_blank};
use crate::exit::CliError;

/// The key under which servers stand.
const KEY: &str = "mcp_servers";

/// Adds a server. Where it was added.
pub(super) fn add(sources: &Sources, name: &str, entry: &Value) -> Result<PathBuf, CliError> {
    let line = format!("{name}: {entry}");
    change(
        &UserFileLock::wait(sources)?,
        sources,
        |text| with(text, &line),
        |before, now| {
            let mut now = now.clone();
            now.mcp_servers.remove(name).is_some() && now == *before
        },
    )
    .map_err(|error| {
        let hint = format!("put this among the entries of `{KEY}` there: {line}");
        with_hint(error, hint)
    })
}

/// Takes a server out. Of which file.
pub(super) fn remove(sources: &Sources, name: &str) -> Result<PathBuf, CliError> {
    change(
        &UserFileLock::wait(sources)?,
        sources,
        |text| without(text, name),
        |before, now| {
            let mut before = before.clone();
            before.mcp_servers.remove(name).is_some() && before == *now
        },
    )
    .map_err(|error| with_hint(error, format!("delete `{KEY}.{name}` there")))
}

/// Adds what the person can do by hand, where only that is left.
fn with_hint(error: FileError, hint: String) -> CliError {
    let by_hand = matches!(error, FileError::Form(_));
    let error = CliError::from(error);
    if by_hand { error.hint(hint) } else { error }
}

/// Returns the text with a line added under the key; `None` if the key is not written as a block.
fn with(text: &str, line: &str) -> Option<String> {
    let (lines, at) = find_key(text, KEY);
    let Some(at) = at else {
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        return Some(format!("{text}{end}{KEY}:\n  {line}\n"));
    };
    let (before, after) = lines.split_at_checked(at + 1)?;
    let key = before.last()?;
    let (head, own) = key.split_once(':')?;
    let own = own.trim();
    // A map without entries is as good as none.
    let empty = own.strip_prefix('{').map(str::trim_start).and_then(|own| own.strip_prefix('}'));
    let (key, own) = match empty.map(str::trim) {
        Some(remark) => (format!("{}\n", format!("{head}: {remark}").trim_end()), remark),
        None => ((*key).to_owned(), own),
    };
    if !(own.is_empty() || own.starts_with('#')) {
        return None;
    }
    let first = after.iter().find(|line| !is_blank(line)).map(|line| indent(line));
    let deep = first.filter(|indent| *indent > 0).unwrap_or(2);
    let end = if key.ends_with('\n') { "" } else { "\n" };
    let above = lines.get(..at)?.concat();
    Some(format!("{above}{key}{end}{}{line}\n{}", " ".repeat(deep), after.concat()))
}

/// Returns the text without the lines of a server; `None` if they are not found.
fn without(text: &str, name: &str) -> Option<String> {
    let (lines, at) = find_key(text, KEY);
    let at = at?;
    let is_its = |line: &str| {
        let own = line.trim_start_matches(' ');
        let plain = own.strip_prefix(name).and_then(|rest| rest.strip_prefix(':'));
        indent(line) > 0 && plain.is_some()
    };
    let below = lines.iter().enumerate().skip(at + 1);
    let mut below = below.take_while(|(_, line)| is_blank(line) || indent(line) > 0);
    let (begin, first) = below.find(|(_, line)| is_its(line))?;
    let deep = indent(first);
    let rest = lines.iter().enumerate().skip(begin + 1);
    let end = rest
        .filter(|(_, line)| !is_blank(line))
        .find(|(_, line)| indent(line) <= deep)
        .map_or(lines.len(), |(end, _)| end);
    // Remarks above what follows belong to that.
    let above = lines.get(begin + 1..end).unwrap_or_default().iter().rev();
    let above = above.take_while(|line| is_blank(line) && indent(line) <= deep).count();
    let end = end - above;
    let kept = lines.iter().enumerate().filter(|(at, _)| !(begin..end).contains(at));
    let alone =
        lines.iter().enumerate().skip(at + 1).all(|(line, text)| {
            (begin..end).contains(&line) || is_blank(text) || indent(text) == 0
        });
    // A key without anything below it would be no map.
    let kept = kept.filter(|(line, _)| !(alone && *line == at));
    Some(kept.map(|(_, line)| *line).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

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
    fn a_map_without_entries_gets_its_first() {
        let entry = json!({"command": "y"});
        let now = "model: offline\nmcp_servers:\n  b: {\"command\":\"y\"}\n";
        for empty in ["mcp_servers: {}\n", "mcp_servers: { }", "mcp_servers:\n"] {
            let file = format!("model: offline\n{empty}");
            assert_eq!(changed(&file, |sources| add(sources, "b", &entry)), now, "{empty}");
        }
        let file = "mcp_servers: {} # none\nmodel: offline\n";
        let now = "mcp_servers: # none\n  b: {\"command\":\"y\"}\nmodel: offline\n";
        assert_eq!(changed(file, |sources| add(sources, "b", &entry)), now);
    }

    #[test]
    fn what_is_written_otherwise_is_left_to_the_person() {
        let flow = "mcp_servers: { a: { command: x } }\n";
        let said = changed(flow, |sources| add(sources, "b", &json!({"command": "y"})));
        assert_eq!(
            said,
            "error: `HOME/config.yaml` has a form that this program cannot edit; edit it by hand\n\
             hint: put this among the entries of `mcp_servers` there: b: {\"command\":\"y\"}"
        );
        let said = changed(flow, |sources| remove(sources, "a"));
        assert!(said.ends_with("hint: delete `mcp_servers.a` there"), "{said}");
    }
}
