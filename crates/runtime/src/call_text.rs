//! Describes calls and their results in words for a person.

use deputize_core::sanitize::{for_terminal_line, for_verbatim_line, verbatim_start};
use deputize_core::truncate::truncate_chars;
use deputize_core::wording::count;
use deputize_core::{ArgumentRole, Catalog, Subject, ToolKind, ToolSpec};
use serde_json::{Map, Value};

/// Limit on a call in words, in characters.
const CALL_CHARS: usize = 120;
/// The most characters of one value, where a call has several.
const VALUE_CHARS: usize = 60;
/// The most characters of a regular expression, or of a pattern of names: they are means, and
/// often long ones.
const MEANS_CHARS: usize = 40;
/// The most characters that are kept of a goal.
const GOAL_CHARS: usize = 200;
/// Maximum depth of nested values.
const DEPTH: usize = 3;

/// Returns a call in a short phrase: what the tool does to what, or its name and arguments if it
/// does not say that.
#[must_use]
pub fn describe_call(tools: &Catalog, tool: &str, arguments: &str) -> String {
    let (tool, arguments) = &tools.read_call(tool, arguments);
    let phrase = match serde_json::from_str(arguments) {
        Ok(Value::Object(map)) => tools.spec(tool).and_then(|spec| phrase(spec, &map)),
        _ => None,
    };
    phrase.unwrap_or_else(|| name_and_arguments(tool, arguments))
}

/// Returns the name of a call's tool, and the arguments as words.
pub(crate) fn name_and_arguments(tool: &str, arguments: &str) -> String {
    let arguments = match serde_json::from_str(arguments) {
        Ok(Value::Object(map)) => pairs(&map, DEPTH),
        _ => visible(arguments),
    };
    let tool = for_verbatim_line(tool, CALL_CHARS / 2);
    truncate_words(&format!("{tool} {arguments}"), CALL_CHARS)
}

/// Returns what a tool does with these arguments; `None` if it does not say what its calls are
/// about, or the call lacks that.
fn phrase(spec: &ToolSpec, map: &Map<String, Value>) -> Option<String> {
    let subject = &spec.subject;
    let verb = subject.verb()?;
    let (_, role) = subject.main()?;
    let text = |role| subject.text(role, map).filter(|text| !text.is_empty());
    let words = match role {
        // Of a command each character counts.
        ArgumentRole::Command => {
            return Some(for_verbatim_line(&format!("{verb} {}", text(role)?), CALL_CHARS));
        }
        ArgumentRole::Path => path_phrase(spec, verb, map)?,
        ArgumentRole::Pattern => {
            let names = text(ArgumentRole::NamePattern);
            search_phrase(verb, text(role), names, text(ArgumentRole::Path))?
        }
        ArgumentRole::Patch => format!("{verb} {}", patch_words(text(role)?)),
        ArgumentRole::Tasks | ArgumentRole::Task => delegation_phrase(subject, verb, map)?,
        ArgumentRole::Action if spec.kind != ToolKind::Delegate => {
            let id = text(ArgumentRole::Text).map(|id| format!(" {}", visible(id)));
            format!("{} {verb}{}", visible(text(role)?), id.unwrap_or_default())
        }
        ArgumentRole::Action => {
            let agents = subject.value(ArgumentRole::Agents, map);
            let agents = agents.map(|agents| format!(" {}", value_words(agents, DEPTH)));
            format!("{} children{}", visible(text(role)?), agents.unwrap_or_default())
        }
        _ => match subject.value(role, map) {
            Some(Value::Array(items)) => format!("{verb} {}", count(items.len(), "item")),
            None if map.is_empty() => verb.to_owned(),
            _ => format!("{verb} {}", visible(text(role)?)),
        },
    };
    Some(truncate_words(&words, CALL_CHARS))
}

/// Returns what a tool does with a path. A search without one is of the working directory.
fn path_phrase(spec: &ToolSpec, verb: &str, map: &Map<String, Value>) -> Option<String> {
    let path = spec.subject.text(ArgumentRole::Path, map).filter(|path| !path.is_empty());
    let path = path.or((spec.kind == ToolKind::Search).then_some("."))?;
    let line = spec.subject.value(ArgumentRole::Line, map).and_then(Value::as_u64);
    let line = line.filter(|line| *line > 1).map(|line| format!(" from line {line}"));
    Some(format!("{verb} {}{}", visible(path), line.unwrap_or_default()))
}

fn search_phrase(
    verb: &str,
    pattern: Option<&str>,
    names: Option<&str>,
    path: Option<&str>,
) -> Option<String> {
    let means = |text: &str| truncate_words(&visible(text), MEANS_CHARS);
    let place = path.map(|path| format!(" in {}", visible(path))).unwrap_or_default();
    let Some(pattern) = pattern else {
        if verb != "search" {
            // It is one of something else than files.
            return Some(verb.to_owned());
        }
        let names = names.map_or_else(|| "files".to_owned(), means);
        return Some(format!("find {names}{place}"));
    };
    let what = title(pattern).unwrap_or_else(|| format!("\"{}\"", means(pattern)));
    let names = names.map(|names| format!(" ({})", means(names))).unwrap_or_default();
    Some(format!("{verb} {what}{place}{names}"))
}

/// Returns the files that a patch names, in its order; its text if it names none.
fn patch_words(patch: &str) -> String {
    const MARKS: [&str; 4] = ["*** Update File: ", "*** Add File: ", "*** Delete File: ", "+++ "];
    let mut files: Vec<&str> = Vec::new();
    let mut above = "";
    for line in patch.lines() {
        let name = MARKS.iter().find_map(|mark| line.strip_prefix(mark));
        // Of the two names of a removed file the first says which.
        let is_removed = name == Some("/dev/null");
        let name = if is_removed { above.strip_prefix("--- ") } else { name };
        // In a hunk, `+++ ` is an added line.
        let is_heading = !line.starts_with('+') || above.starts_with("--- ");
        above = line;
        let Some(name) = name.filter(|_| is_heading) else { continue };
        let name = name.strip_prefix("a/").or(name.strip_prefix("b/")).unwrap_or(name);
        if !files.contains(&name) {
            files.push(name);
        }
    }
    if files.is_empty() { visible(patch) } else { visible(&files.join(", ")) }
}

/// Returns the name of the group that a regular expression begins with, as words.
fn title(pattern: &str) -> Option<String> {
    let rest = pattern.strip_prefix("(?<").or_else(|| pattern.strip_prefix("(?P<"))?;
    let (name, _) = rest.split_once('>')?;
    let plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    plain.then(|| format!("({})", name.replace('_', " ")))
}

/// Returns the tasks of a call that delegates, by their goals.
fn delegation_phrase(subject: &Subject, verb: &str, map: &Map<String, Value>) -> Option<String> {
    let several = tasks_in(subject, map).is_some_and(|tasks| tasks.len() > 1);
    let colon = if several { "" } else { ":" };
    Some(format!("{verb}{colon} {}", describe_tasks(subject, map)?))
}

/// Returns the tasks that the arguments of a delegation name: the goal of one, or the number and
/// the goals of several. `None` if they name none.
#[must_use]
pub fn describe_tasks(subject: &Subject, map: &Map<String, Value>) -> Option<String> {
    let goal = |task: &Value| goal_of(subject, task.as_object()?).map(visible);
    let Some(tasks) = tasks_in(subject, map) else {
        return goal_of(subject, map).map(visible);
    };
    match tasks.as_slice() {
        [only] => goal(only),
        several => {
            let goals: Vec<String> = several
                .iter()
                .filter_map(goal)
                .map(|goal| truncate_words(&goal, VALUE_CHARS))
                .collect();
            let colon = if goals.is_empty() { "" } else { ": " };
            Some(format!("{}{colon}{}", count(several.len(), "task"), goals.join("; ")))
        }
    }
}

/// Returns the goal of each task that the arguments of a delegation name, one line each.
pub(crate) fn task_goals(subject: &Subject, arguments: &str) -> Vec<String> {
    let Ok(Value::Object(map)) = serde_json::from_str(arguments) else { return Vec::new() };
    let goal = |map: &Map<String, Value>| {
        for_terminal_line(goal_of(subject, map).unwrap_or_default(), GOAL_CHARS)
    };
    match tasks_in(subject, &map) {
        Some(tasks) => {
            let goal = |task: &Value| task.as_object().map(goal).unwrap_or_default();
            tasks.iter().map(goal).collect()
        }
        None => vec![goal(&map)],
    }
}

fn goal_of<'m>(subject: &Subject, task: &'m Map<String, Value>) -> Option<&'m str> {
    subject.text(ArgumentRole::Task, task)
}

/// Returns the list of tasks, also where it is JSON in a text; `None` if it is empty, as the tool
/// reads it.
fn tasks_in(subject: &Subject, map: &Map<String, Value>) -> Option<Vec<Value>> {
    let tasks = match subject.value(ArgumentRole::Tasks, map)? {
        Value::String(text) => serde_json::from_str(text).ok()?,
        Value::Array(tasks) => tasks.clone(),
        _ => return None,
    };
    Some(tasks).filter(|tasks: &Vec<Value>| !tasks.is_empty())
}

/// Returns the result of a call in words, cut to `most` characters: data as pairs, all else as it is.
/// A leading `error: ` is left out.
#[must_use]
pub fn describe_result(text: &str, most: usize) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let line = |line: &str| {
        let (words, data) = line.split_at(line.find(['{', '[']).unwrap_or(line.len()));
        match serde_json::from_str(data) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => {
                format!("{words}{}", value_words(&value, DEPTH))
            }
            _ => line.to_owned(),
        }
    };
    let words = match serde_json::from_str(text) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => value_words(&value, DEPTH),
        _ => {
            let mut words = String::new();
            for text in text.lines().filter(|text| !text.trim().is_empty()) {
                // Behind a sign that ends something, a space is enough.
                let is_end = words.is_empty() || words.trim_end().ends_with([':', ';', ',', '.']);
                words.push_str(if is_end { " " } else { " ⏎ " });
                words.push_str(&line(text));
            }
            words
        }
    };
    truncate_words(&for_terminal_line(&words, words.len()), most)
}

/// `key: value` for each argument.
fn pairs(map: &Map<String, Value>, depth: usize) -> String {
    let pair = |(key, value): (&String, &Value)| {
        format!("{}: {}", visible(key), value_words(value, depth))
    };
    map.iter().map(pair).collect::<Vec<_>>().join(", ")
}

fn value_words(value: &Value, depth: usize) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => truncate_words(&visible(text), VALUE_CHARS),
        Value::Array(all) if all.is_empty() => "nothing".to_owned(),
        Value::Array(all) if depth == 0 => count(all.len(), "value"),
        Value::Object(map) if depth == 0 => count(map.len(), "value"),
        Value::Array(all) => {
            let all = all.iter().map(|value| value_words(value, depth - 1));
            format!("[{}]", all.collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => format!("({})", pairs(map, depth - 1)),
    }
}

/// A text on one line, with everything that a terminal would obey or hide written out.
fn visible(text: &str) -> String {
    verbatim_start(text, CALL_CHARS * 4).0
}

/// A line of at most so many characters: whole words, and `…` for the rest.
fn truncate_words(text: &str, most: usize) -> String {
    let text = text.trim_end();
    let head = truncate_chars(text, most);
    let rest = text.get(head.len()..).unwrap_or_default();
    if rest.is_empty() {
        return text.to_owned();
    }
    let whole =
        if rest.starts_with(' ') { head } else { head.rsplit_once(' ').map_or(head, |it| it.0) };
    // One word that is longer than the rest of the line is cut all the same.
    let kept = if whole.chars().count() < most / 2 { head } else { whole };
    format!("{}…", kept.trim_end_matches([' ', ',', ';', ':']))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use deputize_delegate::{
        ControlTool, DelegateTool, DelegationConfig, DelegationOptions, ToolFlavor,
    };

    use super::*;
    use crate::SystemClock;

    fn tools() -> Catalog {
        let mut catalog = Catalog::linked(&[deputize_tools::LINK]).unwrap();
        let delegate = |tool_name| {
            let options = DelegationOptions { tool_name, ..DelegationOptions::default() };
            let config = DelegationConfig { options, ..DelegationConfig::default() };
            DelegateTool::new(config, Arc::new(SystemClock)).unwrap().into_entry()
        };
        catalog.insert(delegate(ToolFlavor::DelegateTask)).unwrap();
        catalog.insert_former(delegate(ToolFlavor::Task));
        catalog.insert(ControlTool::new().unwrap().into_entry()).unwrap();
        catalog
    }

    fn of_call(tool: &str, arguments: &str) -> String {
        describe_call(&tools(), tool, arguments)
    }

    #[test]
    fn a_call_of_a_built_in_tool_is_a_short_phrase() {
        let long = "a|".repeat(60);
        let search = format!(r#"{{"path":"src","pattern":"{long}"}}"#);
        let searched = format!("search \"{}…\" in src", "a|".repeat(20));
        for (tool, arguments, words) in [
            ("read_file", r#"{"limit":3,"path":"src/main.rs"}"#, "read src/main.rs"),
            ("read_file", r#"{"offset":120,"path":"a.rs"}"#, "read a.rs from line 120"),
            ("list_dir", "{}", "list ."),
            ("list_dir", r#"{"path":"src","depth":2}"#, "list src"),
            ("write_file", r#"{"content":"a\nb","path":"a.md"}"#, "write a.md"),
            ("edit_file", r#"{"new":"x","old":"y","path":"a.md"}"#, "edit a.md"),
            ("search_files", r#"{"pattern":"unwrap","path":"src"}"#, "search \"unwrap\" in src"),
            ("search_files", r#"{"pattern":"a b","glob":"*.rs"}"#, "search \"a b\" (*.rs)"),
            ("search_files", r#"{"glob":"*.rs","path":"src"}"#, "find *.rs in src"),
            ("search_files", r#"{"path":".","limit":2000}"#, "find files in ."),
            ("search_files", &search, &searched),
            (
                "search_files",
                r#"{"pattern":"(?<public_items>(?-u)^\\s*pub\\s+)"}"#,
                "search (public items)",
            ),
            ("search_files", r#"{"pattern":"(?<a\u001b[2J>x)"}"#, r#"search "(?<a\u{1b}[2J>x)""#),
            ("terminal", r#"{"command":"ls\n-l\n"}"#, "run ls ⏎ -l"),
            ("delegate_task", r#"{"goal":"Sort"}"#, "delegate: Sort"),
            (
                "delegate_task",
                r#"{"tasks":[{"goal":"Sort the imports"}]}"#,
                "delegate: Sort the imports",
            ),
            ("delegate_task", r#"{"tasks":[{"goal":"a"},{"goal":"b"}]}"#, "delegate 2 tasks: a; b"),
            ("delegate_task", r#"{"tasks":[{},{}]}"#, "delegate 2 tasks"),
            ("delegate_task", r#"{"tasks":[7]}"#, "delegate_task tasks: [7]"),
            ("delegate_task", r#"{"goal":"Sort","tasks":[]}"#, "delegate: Sort"),
            ("delegate_task", r#"{"goal":"Sort","tasks":null}"#, "delegate: Sort"),
            ("delegate_task", r#"{"goal":"Sort","tasks":"[]"}"#, "delegate: Sort"),
            ("delegate_task", r#"{"goal":"Sort","tasks":""}"#, "delegate: Sort"),
            (
                "delegate_task",
                r#"{"tasks":"[{\"goal\":\"a\"},{\"goal\":\"b\"}]"}"#,
                "delegate 2 tasks: a; b",
            ),
            ("delegate_task", r#"{"tasks":"[{\"goal\":\"a\"}]"}"#, "delegate: a"),
            (
                "delegate_control",
                r#"{"action":"stop","agents":["s/1.0.0"]}"#,
                "stop children [s/1.0.0]",
            ),
            ("delegate_control", r#"{"action":"list"}"#, "list children"),
            ("memory", r#"{"action":"add","text":"Tea."}"#, "add fact Tea."),
            ("skills_list", "{}", "list skills"),
            ("execute_code", r#"{"code":"print(1)\nexit()"}"#, "run Python print(1) ⏎ exit()"),
            ("skill_view", r#"{"name":"notes"}"#, "read skill notes"),
            ("skill_manage", r#"{"action":"edit","name":"notes"}"#, "edit skill notes"),
            (
                "task",
                r#"{"goal":"No","description":"Count the tests"}"#,
                "delegate: Count the tests",
            ),
        ] {
            assert_eq!(of_call(tool, arguments), words, "{tool} {arguments}");
        }
    }

    #[test]
    fn a_search_of_something_else_than_files_is_not_called_one() {
        let subject = Subject::new(Some("search tools".into()), "query", ArgumentRole::Pattern);
        let tools = tools();
        let spec = ToolSpec { subject, ..tools.spec("search_files").unwrap().clone() };
        let of = |query: &str| {
            let arguments = serde_json::json!({"query": query});
            phrase(&spec, arguments.as_object().unwrap()).unwrap()
        };
        assert_eq!((of("").as_str(), of("tea").as_str()), ("search tools", "search tools \"tea\""));
    }

    #[test]
    fn a_patch_is_the_files_that_it_names() {
        for (tool, arguments, words) in [
            (
                "apply_patch",
                r#"{"patch":"*** Begin Patch\n*** Update File: a.rs\n-a\n+b\n*** Delete File: b.rs\n"}"#,
                "patch a.rs, b.rs",
            ),
            (
                "apply_patch",
                r#"{"patch":"--- a/a.rs\n+++ b/a.rs\n@@ -1 +1 @@\n-x\n+++ y\n--- a/old\n+++ /dev/null\n"}"#,
                "patch a.rs, old",
            ),
            ("apply_patch", r#"{"patch":"what\n\u001b[2Jis it"}"#, r"patch what ⏎ \u{1b}[2Jis it"),
        ] {
            assert_eq!(of_call(tool, arguments), words, "{tool} {arguments}");
        }
    }

    #[test]
    fn every_built_in_tool_has_a_phrase() {
        let catalog = Catalog::linked(&[deputize_tools::LINK]).unwrap();
        let arguments = serde_json::json!({
            "path": "a", "pattern": "a", "command": "a", "content": "a", "old": "a", "new": "b",
            "patch": "a", "items": ["a"], "url": "a", "query": "a",
            "question": "a", "action": "a", "name": "a", "text": "a", "code": "a",
        });
        for entry in catalog.iter() {
            let name = entry.name().as_str();
            let words = of_call(name, &arguments.to_string());
            assert!(!words.contains(name) && !words.contains(": "), "{name}: {words}");
        }
    }

    #[test]
    fn a_call_of_another_tool_is_its_arguments_in_words() {
        assert_eq!(of_call("now", "{}"), "now");
        assert_eq!(of_call("odd", r#"{"n":1}"#), "odd n: 1");
        assert_eq!(
            of_call(
                "files__move",
                r#"{"from":"a.txt","to":["b","c"],"how":{"force":true,"x":null}}"#
            ),
            "files__move from: a.txt, to: [b, c], how: (force: true, x: none)"
        );
        let text = "Write a long letter to the whole team about what changed, and why it did";
        let letter = format!(r#"{{"body":"{text}","subject":"News of the week"}}"#);
        assert_eq!(
            of_call("mail__send", &letter),
            "mail__send body: Write a long letter to the whole team about what changed…, \
             subject: News of the week"
        );
        let words =
            of_call("mail__send", &format!(r#"{{"all":{}}}"#, serde_json::json!(vec![text; 9])));
        assert!(words.ends_with('…') && !words.ends_with("W…"), "{words}");
        assert!(words.chars().count() <= CALL_CHARS + 1, "{words}");
        assert_eq!(of_call("bad", r#"{"path": "#), r#"bad {"path":"#);
        assert_eq!(of_call("bad", ""), "bad");
        let deep = format!("{}1{}", r#"{"a":"#.repeat(50), "}".repeat(50));
        assert_eq!(of_call("odd", &deep), "odd a: (a: (a: (a: 1 value)))");
    }

    #[test]
    fn what_is_reported_of_a_call_is_the_call() {
        let words = of_call("t\u{1b}[2J", r#"{"path":"\u001b[31mx"}"#);
        assert_eq!(words, r"t\u{1b}[2J path: \u{1b}[31mx");
        let command = r#"{"command":"rm  -rf \u001b[2K\u202e\u200b\r/"}"#;
        assert_eq!(of_call("terminal", command), r"run rm  -rf \u{1b}[2K\u{202e}\u{200b}\u{d}/");
        let word = "x".repeat(500);
        let cut = of_call("read_file", &format!(r#"{{"path":"{word}"}}"#));
        assert_eq!(cut, format!("read {}…", "x".repeat(CALL_CHARS - 5)));
    }

    #[test]
    fn what_came_of_a_call_is_reported_in_words() {
        let refused = r#"error: {"error":"no child was started","errors":[{"code":"E_GOAL"}]}"#;
        assert_eq!(
            describe_result(refused, 300),
            "(error: no child was started, errors: [(code: E_GOAL)])"
        );
        assert_eq!(
            describe_result("error: gone\n{\"found\": [1, 2]}\n", 300),
            "gone ⏎ (found: [1, 2])"
        );
        let mistakes =
            "they do not fit its schema:\n\"path\" is a required property\nno argument `pth`";
        assert_eq!(
            describe_result(mistakes, 300),
            "they do not fit its schema: \"path\" is a required property ⏎ no argument `pth`"
        );
        assert_eq!(
            describe_result("the server said: {\"code\": 7, \"why\": \"gone\"}", 300),
            "the server said: (code: 7, why: gone)"
        );
        let many = format!(r#"{{"text": "{}"}}"#, "word ".repeat(100));
        let words = describe_result(&many, 30);
        assert_eq!(words, "(text: word word word word…");
        assert_eq!(describe_result("not found: a.md", 300), "not found: a.md");
    }
}
