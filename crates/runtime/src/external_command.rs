//! The commands in what an external agent asks for: each such program puts them elsewhere.

use serde_json::{Map, Value};

/// Limit on the judged part of a request, in bytes; a longer one is always asked about.
pub(crate) const JUDGED_BYTES: usize = 64 * 1024;
/// JSON in a string in JSON is read so deep.
const LEVELS: u32 = 4;
/// Keys below which a text is a command, also if it is a single word. A list is one command, word
/// by word, where its key is none of [`LISTS`].
const COMMANDS: [&str; 10] = [
    "program",
    "executable",
    "command",
    "cmd",
    "script",
    "argv",
    "commandline",
    "command_line",
    "commands",
    "cmds",
];
const LISTS: [&str; 2] = ["commands", "cmds"];
/// Keys of the words behind a command beside them.
const WORDS: [&str; 3] = ["args", "arguments", "argv"];
/// Keys of prose, which holds no command unless an outer key names one.
const PROSE: [&str; 6] = ["body", "content", "description", "explanation", "prompt", "reason"];
/// Name of the argument with the new contents of files.
const FILES: &str = "changes";

/// Returns the arguments of a call that may be commands, as text for a shell, named commands first.
/// Other texts do not count if the kind of the call runs nothing.
pub(crate) fn commands(arguments: &Value, runs_none: bool) -> Vec<String> {
    let mut found = CommandScan { runs_none, ..CommandScan::default() };
    // What a program calls its call may be the command itself.
    found.named.extend(arguments.get("title").and_then(Value::as_str).map(str::to_owned));
    match arguments {
        Value::Object(entries) => found.entries(entries, &[FILES, "title"], None, LEVELS),
        _ => found.walk(arguments, None, LEVELS),
    }
    let mut room = JUDGED_BYTES;
    let mut all = found.named;
    all.append(&mut found.others);
    for text in &mut all {
        text.truncate(text.floor_char_boundary(room));
        room -= text.len();
    }
    all.retain(|text| !text.is_empty());
    all
}

#[derive(Default)]
struct CommandScan {
    runs_none: bool,
    named: Vec<String>,
    others: Vec<String>,
}

impl CommandScan {
    /// Looks at a value; `name` is the key nearest above it that is one of a command.
    fn walk(&mut self, value: &Value, name: Option<&str>, levels: u32) {
        match value {
            Value::String(text) => self.text(text, name, levels),
            Value::Array(items) => {
                let words: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
                let one = name.is_some_and(|name| !LISTS.contains(&name));
                match words {
                    Some(words) if words.len() > 1 => {
                        self.words(&words, name.is_some());
                        if !one {
                            items.iter().for_each(|item| self.walk(item, name, levels));
                        }
                    }
                    _ => items.iter().for_each(|item| self.walk(item, name, levels)),
                }
            }
            Value::Object(entries) => self.entries(entries, &[], name, levels),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn entries(
        &mut self,
        entries: &Map<String, Value>,
        but: &[&str],
        name: Option<&str>,
        levels: u32,
    ) {
        let own = |key: &String| COMMANDS.into_iter().find(|it| key.eq_ignore_ascii_case(it));
        let program = entries.iter().find_map(|(key, value)| own(key).and(value.as_str()));
        let text = WORDS.into_iter().find_map(|key| entries.get(key)?.as_str());
        if let (Some(program), Some(text)) = (program, text) {
            self.named.push(format!("{program} {text}"));
        }
        let behind = WORDS.into_iter().find_map(|key| entries.get(key)?.as_array());
        if let (Some(program), Some(behind)) = (program, behind) {
            let behind: Vec<&str> = behind.iter().filter_map(Value::as_str).collect();
            self.named.push(format!("{program} {}", join_words(&behind)));
            self.words(&[&[program], behind.as_slice()].concat(), true);
        }
        for (key, value) in entries.iter().filter(|(key, _)| !but.contains(&key.as_str())) {
            let name = own(key).or(name);
            if name.is_some() || !PROSE.into_iter().any(|it| key.eq_ignore_ascii_case(it)) {
                self.walk(value, name, levels);
            }
        }
    }

    fn text(&mut self, text: &str, name: Option<&str>, levels: u32) {
        let json = text.trim_start().starts_with(['{', '[']) && levels > 0;
        let json = json.then(|| serde_json::from_str(text).ok()).flatten();
        if let Some(inner @ (Value::Object(_) | Value::Array(_))) = json {
            self.walk(&inner, name, levels - 1);
        } else if name.is_some() {
            self.named.push(text.to_owned());
        } else if !self.runs_none && !is_word(text) {
            self.others.push(text.to_owned());
        }
    }

    /// The words of one command; and the text in it that a shell would run.
    fn words(&mut self, words: &[&str], named: bool) {
        let mut texts = vec![join_words(words)];
        let shell = words.iter().position(|word| word.ends_with("sh"));
        let behind = shell.and_then(|at| words.get(at..)).unwrap_or_default();
        let runs = |pair: &&[&str]| matches!(pair, [flags, _] if flags.starts_with('-') && flags.ends_with('c'));
        let text = behind.windows(2).find(runs).and_then(<[&str]>::last);
        texts.extend(text.map(|text| (*text).to_owned()));
        match named {
            true => self.named.append(&mut texts),
            false if !self.runs_none => self.others.append(&mut texts),
            false => {}
        }
    }
}

/// Whether a text is one plain word, such as a name, a path or a pattern: no command by itself
/// where nothing says that it is one.
fn is_word(text: &str) -> bool {
    text.trim().chars().all(|c| c.is_alphanumeric() || "-_./".contains(c))
}

/// Words as a shell takes them.
fn join_words(words: &[&str]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    let quoted = words.iter().map(|word| {
        if !word.is_empty() && word.chars().all(plain) {
            (*word).to_owned()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(input: &Value) -> Vec<String> {
        commands(&json!({ "title": "Run command", "input": input }), false)
    }

    #[test]
    fn a_command_is_found_wherever_programs_put_it() {
        for input in [
            json!({"command": "rm -rf /"}),
            json!({"command": "rm -rf /", "description": "Clean up", "timeout": 1000}),
            json!({"cmd": "rm -rf /"}),
            json!({"call_id": "c", "command": ["rm", "-rf", "/"], "cwd": "/w"}),
            json!({"command": ["bash", "-lc", "rm -rf /"], "reason": null}),
            json!({"command": ["/usr/bin/env", "/bin/zsh", "-l", "-c", "rm -rf /"]}),
            json!({"cmd": ["fish", "-c", "rm -rf /"]}),
            json!({"command": ["rm -rf /"]}),
            json!({"command": "rm", "args": ["-rf", "/"]}),
            json!({"cmd": "bash", "arguments": ["-c", "rm -rf /"]}),
            json!({"commands": ["ls", "rm -rf /"]}),
            json!({"steps": [{"run": "rm -rf /"}]}),
            json!(["rm", "-rf", "/"]),
            json!("rm -rf /"),
            json!("{\"command\": \"rm -rf /\"}"),
            json!({"tool": "shell", "arguments": "{\"command\": [\"sh\", \"-c\", \"rm -rf /\"]}"}),
            json!({"server": "s", "arguments": {"deep": [[{"script": "rm -rf /"}]]}}),
        ] {
            let found = of(&input);
            assert!(found.iter().any(|text| text == "rm -rf /"), "{input}: {found:?}");
        }
        assert!(of(&json!({"command": "reboot"})).contains(&"reboot".to_owned()));
        assert_eq!(commands(&json!({"title": "reboot"}), false), ["reboot"]);
        for input in [
            json!({"command": "rm", "args": "-rf /"}),
            json!({"program": "rm", "args": ["-rf", "/"]}),
        ] {
            let found = commands(&json!({"title": "Run", "input": input}), false);
            assert!(found.contains(&"rm -rf /".to_owned()), "{found:?}");
        }
        let joined = of(&json!({"command": ["echo", "it's", ""]}));
        assert_eq!(joined, ["Run command", r"echo 'it'\''s' ''"]);
    }

    #[test]
    fn what_people_read_is_no_command() {
        for input in [
            json!({"command": "npm start", "description": "reboot the dev server"}),
            json!({"prompt": "reboot instructions"}),
            json!({"body": "Steps:\nsudo reboot\n"}),
        ] {
            let found = commands(&json!({"title": "Ask", "input": input}), false);
            assert!(!found.iter().any(|text| text.contains("reboot")), "{found:?}");
        }
        let issue = json!({"title": "Open", "input": {"title": "reboot hangs"}});
        assert_eq!(commands(&issue, true), ["Open"]);
    }

    #[test]
    fn what_is_an_argument_or_the_text_of_a_file_is_no_command() {
        let found = of(&json!({"command": ["git", "commit", "-m", "rm -rf /"]}));
        assert_eq!(found, ["Run command", "git commit -m 'rm -rf /'"]);
        assert_eq!(of(&json!({"command": ["grep", "-c", "reboot"]})).len(), 2);
        assert_eq!(of(&json!({"pattern": "reboot", "path": "/sbin/halt"})), ["Run command"]);
        let edit = json!({
            "title": "Edit notes.md",
            "input": {"path": "notes.md", "content": "Then:\nrm -rf /\n", "old": ["a b", "c d"]},
        });
        assert_eq!(commands(&edit, true), ["Edit notes.md"]);
        let other = of(&json!({"data": "Then:\nrm -rf /\n"}));
        assert_eq!(other, ["Run command", "Then:\nrm -rf /\n"]);
        let both = json!({"title": "Edit", "input": {"command": "rm -rf /"}});
        assert!(commands(&both, true).contains(&"rm -rf /".to_owned()));
        let change = json!({"path": "notes.md", "old": null, "new": "rm -rf /\n"});
        assert_eq!(commands(&json!({"title": "Write", "changes": [change]}), false), ["Write"]);
        assert_eq!(commands(&json!({"text": "rm -rf /", "kind": "execute"}), false), ["rm -rf /"]);
    }

    #[test]
    fn of_very_much_the_beginning_is_judged_and_commands_first() {
        let long = "x ".repeat(JUDGED_BYTES);
        let found = of(&json!({"a": long, "command": "rm -rf /", "b": ["c d", long]}));
        assert_eq!(found[..2], ["Run command", "rm -rf /"]);
        assert_eq!(found.iter().map(String::len).sum::<usize>(), JUDGED_BYTES);
    }
}
