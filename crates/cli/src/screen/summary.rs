//! A call, a number of tokens, a time: each in a few words.

use deputize_core::door::to_line;
use serde_json::Value;

/// The most characters of a call in words.
const CALL_CHARS: usize = 120;
/// Arguments that tell most about a call, the first one that is there.
const TELLING: [&str; 10] =
    ["command", "goal", "pattern", "glob", "path", "query", "url", "name", "file", "text"];

/// A call in words: the tool, and the one argument that tells most.
pub(crate) fn of_call(tool: &str, arguments: &str) -> String {
    let tool = to_line(tool, CALL_CHARS / 2);
    let what = serde_json::from_str::<Value>(arguments).map_or_else(
        |_| to_line(arguments, CALL_CHARS),
        |value| telling(&value).unwrap_or_else(|| to_line(arguments, CALL_CHARS)),
    );
    if what.is_empty() || what == "{}" {
        tool
    } else {
        to_line(&format!("{tool} {what}"), CALL_CHARS)
    }
}

fn telling(value: &Value) -> Option<String> {
    let map = value.as_object()?;
    if let Some(Value::Array(tasks)) = map.get("tasks") {
        return Some(format!("{} tasks", tasks.len()));
    }
    let text = TELLING.iter().find_map(|key| map.get(*key)?.as_str())?;
    Some(to_line(text, CALL_CHARS))
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
        assert_eq!(of_call("terminal", r#"{"command":"ls\n-l"}"#), "terminal ls -l");
        assert_eq!(of_call("delegate_task", r#"{"tasks":[{},{}]}"#), "delegate_task 2 tasks");
        assert_eq!(of_call("now", "{}"), "now");
        assert_eq!(of_call("odd", r#"{"n":1}"#), r#"odd {"n":1}"#);
        assert_eq!(of_call("bad", r#"{"path": "#), r#"bad {"path":"#);
        assert_eq!(of_call("t\u{1b}[2J", r#"{"path":"\u001b[31mx"}"#), "t x");
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
    }
}
