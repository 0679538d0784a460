//! A call, a number of tokens, a time: each in a few words.

use deputize_core::Outcome;
use deputize_core::door::{to_line, to_question};
use serde_json::Value;

/// The most characters of a call in words.
const CALL_CHARS: usize = 120;
/// The most characters of a regular expression, or of a pattern of names: they are means, and
/// often long ones.
const MEANS_CHARS: usize = 40;
/// Arguments that tell most about a call, the first one that is there.
const TELLING: [&str; 10] =
    ["command", "goal", "pattern", "glob", "path", "query", "url", "name", "file", "text"];

/// The form of `delegate_task` with one text.
const TASK: &str = "task";

/// A call in words: the tool, and the one argument that tells most.
pub(crate) fn of_call(tool: &str, arguments: &str) -> String {
    let name = tool;
    let tool = as_is(tool, CALL_CHARS / 2);
    let value = serde_json::from_str::<Value>(arguments).ok();
    let what = value
        .as_ref()
        .and_then(|value| telling(name, value))
        .unwrap_or_else(|| arguments.to_owned());
    match what.trim() {
        "" | "{}" => tool,
        what => as_is(&format!("{tool} {what}"), CALL_CHARS),
    }
}

fn telling(tool: &str, value: &Value) -> Option<String> {
    let map = value.as_object()?;
    if tool == TASK {
        return map.get("description")?.as_str().map(str::to_owned);
    }
    if let Some(Value::Array(tasks)) = map.get("tasks") {
        return Some(match tasks.as_slice() {
            [one] => goal(one).unwrap_or_else(|| "1 task".to_owned()),
            several => count(several.len(), "task"),
        });
    }
    let (key, text) = TELLING.iter().find_map(|key| Some((*key, map.get(*key)?.as_str()?)))?;
    Some(match key {
        "pattern" => title(text).unwrap_or_else(|| short(text)),
        "glob" => short(text),
        _ => text.to_owned(),
    })
}

fn goal(task: &Value) -> Option<String> {
    task.get("goal")?.as_str().map(str::to_owned)
}

/// What a regular expression that begins with a named group looks for, in the words of its name.
fn title(pattern: &str) -> Option<String> {
    let rest = pattern.strip_prefix("(?<").or_else(|| pattern.strip_prefix("(?P<"))?;
    let (name, _) = rest.split_once('>')?;
    let plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    plain.then(|| format!("({})", name.replace('_', " ")))
}

/// The beginning of something that is only a means.
fn short(text: &str) -> String {
    let (line, rest) = beginning(text, MEANS_CHARS);
    if rest > 0 { format!("{line}…") } else { line }
}

/// What was really called or run, on one line: nothing of it is left out or smoothed, all that
/// a terminal would obey or hide is written out, and the end of a line is `⏎`. What comes after
/// `most` characters is counted.
pub(crate) fn as_is(text: &str, most: usize) -> String {
    match beginning(text, most) {
        (line, 0) => line,
        (line, rest) => format!("{line}… ({rest} more characters)"),
    }
}

/// At most so many characters of a text on one line, and how many there are after them.
fn beginning(text: &str, most: usize) -> (String, usize) {
    let (mut line, mut length) = (String::new(), 0);
    let mut rest = text.trim().chars();
    while let Some(c) = rest.clone().next() {
        let shown = match c {
            '\n' => " ⏎ ".to_owned(),
            c => to_question(c.encode_utf8(&mut [0; 4])),
        };
        length += shown.chars().count();
        if length > most {
            return (line, rest.count());
        }
        line.push_str(&shown);
        rest.next();
    }
    (line, 0)
}

/// A number of tokens, as `950`, `12.3k`, `4.5M`.
pub(crate) fn tokens(count: u64) -> String {
    let tenths = |unit: u64| (count / unit, count % unit * 10 / unit);
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => {
            let (whole, tenth) = tenths(1_000);
            format!("{whole}.{tenth}k")
        }
        _ => {
            let (whole, tenth) = tenths(1_000_000);
            format!("{whole}.{tenth}M")
        }
    }
}

/// Dollars, as `$0.0028` or `$12.34`. Nothing where the price is not known, and nothing where it
/// is free.
pub(crate) fn dollars(usd: Option<f64>) -> Option<String> {
    match usd? {
        usd if usd <= 0.0 => None,
        0.0..0.0001 => Some("<$0.0001".to_owned()),
        usd @ 0.0..1.0 => Some(format!("${usd:.4}")),
        usd => Some(format!("${usd:.2}")),
    }
}

/// A running time, as `7 s`, `2 m 05 s`, `1 h 02 m`.
pub(crate) fn running(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} m {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} m", seconds / 3600, seconds / 60 % 60),
    }
}

/// A time that is over, as `12.3 s`.
pub(crate) fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}

/// What a child says that it wrote and nobody saw it write; nothing where there is nothing.
pub(crate) fn unseen(outcome: &Outcome) -> Option<String> {
    const NAMED: usize = 5;
    let names = &outcome.found.as_ref()?.unseen_writes;
    let shown: Vec<String> =
        names.iter().take(NAMED).map(|name| format!("`{}`", to_line(name, CALL_CHARS))).collect();
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let told = format!("names as written, and no write was seen of: {}{more}", shown.join(", "));
    (!names.is_empty()).then_some(told)
}

/// `1 thing` or `2 things`.
pub(crate) fn count(n: usize, thing: &str) -> String {
    if n == 1 { format!("{n} {thing}") } else { format!("{n} {thing}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_told_by_what_matters_in_it() {
        assert_eq!(of_call("read_file", r#"{"limit":3,"path":"src/a.rs"}"#), "read_file src/a.rs");
        assert_eq!(of_call("terminal", r#"{"command":"ls\n-l\n"}"#), "terminal ls ⏎ -l");
        assert_eq!(of_call("delegate_task", r#"{"tasks":[{},{}]}"#), "delegate_task 2 tasks");
        let stray = r#"{"goal":"Not read","description":"Count the tests"}"#;
        assert_eq!(of_call("task", stray), "task Count the tests");
        assert_eq!(of_call("now", "{}"), "now");
        let search = format!(r#"{{"path":"src","pattern":"{}"}}"#, "a|".repeat(60));
        let shown = format!("search_files {}…", "a|".repeat(20));
        assert_eq!(of_call("search_files", &search), shown);
        let names = format!(r#"{{"glob":"{{{}}}/**"}}"#, "src,".repeat(20));
        assert_eq!(
            of_call("search_files", &names),
            format!("search_files {{{}src…", "src,".repeat(9))
        );
        let named = r#"{"pattern":"(?<public_items>(?-u)^\\s*pub\\s+)"}"#;
        assert_eq!(of_call("search_files", named), "search_files (public items)");
        let odd = r#"{"pattern":"(?<a\u001b[2J>x)"}"#;
        assert_eq!(of_call("search_files", odd), r"search_files (?<a\u{1b}[2J>x)");
        let one = r#"{"tasks":[{"goal":"Sort the imports"}]}"#;
        assert_eq!(of_call("delegate_task", one), "delegate_task Sort the imports");
        assert_eq!(of_call("delegate_task", r#"{"tasks":[7]}"#), "delegate_task 1 task");
        assert_eq!(of_call("odd", r#"{"n":1}"#), r#"odd {"n":1}"#);
        assert_eq!(of_call("bad", r#"{"path": "#), r#"bad {"path":"#);
        assert_eq!(of_call("bad", ""), "bad");
    }

    #[test]
    fn what_is_told_of_a_call_is_the_call() {
        assert_eq!(of_call("t\u{1b}[2J", r#"{"path":"\u001b[31mx"}"#), r"t\u{1b}[2J \u{1b}[31mx");
        let command = r#"{"command":"rm  -rf \u001b[2K\u202e\u200b\r/"}"#;
        assert_eq!(of_call("sh", command), r"sh rm  -rf \u{1b}[2K\u{202e}\u{200b}\u{d}/");
        for (text, line) in [
            ("abcd", "abcd"),
            ("abcde", "abcd… (1 more characters)"),
            ("a\nb", "a ⏎ … (1 more characters)"),
            ("a\0\0", "a… (2 more characters)"),
        ] {
            assert_eq!(as_is(text, 4), line);
        }
        let padded = format!("ls{}; rm -rf x", " ".repeat(500));
        assert!(
            as_is(&padded, 160).ends_with("… (352 more characters)"),
            "{}",
            as_is(&padded, 160)
        );
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [tokens(0), tokens(999), tokens(12_345), tokens(4_560_000)],
            ["0", "999", "12.3k", "4.5M"]
        );
        assert_eq!(
            [running(7_900), running(125_000), running(3_725_000)],
            ["7 s", "2 m 05 s", "1 h 02 m"]
        );
        assert_eq!(seconds(12_345), "12.3 s");
        let told = |usd| dollars(Some(usd)).unwrap_or_default();
        assert_eq!(
            [told(0.00001), told(0.002_84), told(0.5), told(12.345)],
            ["<$0.0001", "$0.0028", "$0.5000", "$12.35"]
        );
        assert_eq!((dollars(None), dollars(Some(0.0))), (None, None));
    }
}
