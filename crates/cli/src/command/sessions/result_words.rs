//! Results of calls in words for people: what became of children, what an agent read of those
//! below it, and the data of other tools.

use deputize_core::sanitize::for_terminal_line;
use serde_json::{Deserializer, Value};

use crate::agent_name::path_of;
use crate::output::child_frames::without_child_frames;

/// Limit on a child's outcome, in characters.
const SAID_CHARS: usize = 200;
/// A line of JSON that is longer is laid out over several lines.
const LINE_CHARS: usize = 100;
/// Prefix of a failed call's reason.
const ERROR: &str = "error: ";
/// How a refusal names the list that people see below it anyway.
const SEE_ERRORS: &str = ", see `errors`";

/// Returns the result of a call in words. Only a tool whose results may be about agents has them
/// read as such.
pub(super) fn result_words(is_about_agents: bool, content: &str) -> String {
    let words = is_about_agents.then(|| delegation_words(content)).flatten();
    words.unwrap_or_else(|| content.lines().map(lay_out).collect::<Vec<_>>().join("\n"))
}

/// Returns the message of a background child's end in words.
pub(super) fn delivery_words(text: &str) -> String {
    let line = |line: &str| match delegation_words(line) {
        Some(words) if line.starts_with('{') => words,
        _ => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns a result about agents in words, a line or two for each; `None` if it is no such result.
fn delegation_words(result: &str) -> Option<String> {
    let begin = result.find('{')?;
    // What stands before is at most why the call ended early, and the line that opens its frame.
    let before = result.get(..begin)?;
    let lead = before.lines().next().filter(|line| line.starts_with(ERROR));
    if before.lines().count() > 1 + usize::from(lead.is_some()) {
        return None;
    }
    let mut values = Deserializer::from_str(result.get(begin..)?).into_iter::<Value>();
    let value = values.next()?.ok()?;
    let mut lines = match list(&value, "results") {
        Some(results) => children_words(results)?,
        None => match list(&value, "agents") {
            Some(agents) => agents_words(&value, agents)?,
            None => refusal_words(&value)?,
        },
    };
    match (lead, lines.first_mut()) {
        (Some(ERROR), Some(first)) => first.insert_str(0, ERROR),
        (Some(lead), _) => lines.insert(0, lead.to_owned()),
        (None, _) => {}
    }
    let warnings = list(&value, "warnings").into_iter().flatten().filter_map(Value::as_str);
    lines.extend(
        warnings.map(|warning| format!("warning: {}", for_terminal_line(warning, SAID_CHARS))),
    );
    // Notes stand behind the frame, or behind what has none.
    let rest = result.get(begin + values.byte_offset()..)?.lines();
    let notes = rest.filter(|line| !line.is_empty() && !line.starts_with("</"));
    lines.extend(notes.map(str::to_owned));
    Some(lines.join("\n"))
}

/// Returns the end of each child of a call.
fn children_words(results: &[Value]) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    for (index, entry) in results.iter().enumerate() {
        let status = text(entry, "status")?;
        let agent = text(entry, "agent").map(|id| format!(" {}", path_of(id)));
        lines.push(format!("{index}{}: {status}", agent.unwrap_or_default()));
        let said = text(entry, "summary")
            .map(|said| for_terminal_line(&without_child_frames(said), SAID_CHARS));
        let error = text(entry, "error")
            .map(|why| format!("{ERROR}{}", for_terminal_line(why, SAID_CHARS)));
        lines.extend(said.into_iter().chain(error).map(|line| format!("  {line}")));
    }
    Some(lines)
}

/// Returns the descendants that an agent listed, or the results of its orders to them.
fn agents_words(value: &Value, agents: &[Value]) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    for agent in agents {
        let status = text(agent, "status").or_else(|| text(agent, "message"))?;
        let mut line = format!("{}: {status}", path_of(text(agent, "agent")?));
        if let Some(step) = number(agent, "iteration") {
            line.push_str(&format!(", step {step}"));
        }
        if let Some(tool) = text(agent, "current_tool") {
            line.push_str(&format!(", in {}", for_terminal_line(tool, SAID_CHARS)));
        }
        if let Some(idle @ 1..) = number(agent, "idle_seconds") {
            line.push_str(&format!(", idle for {idle} s"));
        }
        if let Some(goal) = text(agent, "goal") {
            line.push_str(&format!(": {}", for_terminal_line(goal, SAID_CHARS)));
        }
        lines.push(line);
    }
    lines.extend(number(value, "left_out").map(|more| format!("and {more} more")));
    let counts: Vec<String> = ["running", "waiting", "ended"]
        .iter()
        .filter_map(|state| Some(format!("{} {state}", number(value, state)?)))
        .collect();
    lines.extend((!counts.is_empty()).then(|| counts.join(", ")));
    lines.extend(text(value, "note").map(str::to_owned));
    if lines.is_empty() {
        lines.push("no agents".to_owned());
    }
    Some(lines)
}

/// Why nothing of a call was done.
fn refusal_words(value: &Value) -> Option<Vec<String>> {
    let error = text(value, "error")?;
    let mut lines = vec![error.strip_suffix(SEE_ERRORS).unwrap_or(error).to_owned()];
    for error in list(value, "errors")? {
        let code = text(error, "code")?;
        let remedy = text(error, "remedy")?;
        let field = text(error, "field").unwrap_or_default();
        let place = match (number(error, "task_index"), field) {
            (Some(index), field) => format!(" task {index} {field}"),
            (None, "") => String::new(),
            (None, field) => format!(" {field}"),
        };
        lines.push(format!("{code}{place}: {}", for_terminal_line(remedy, SAID_CHARS)));
    }
    Some(lines)
}

fn list<'v>(value: &'v Value, key: &str) -> Option<&'v [Value]> {
    value.get(key)?.as_array().map(Vec::as_slice)
}

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key)?.as_str()
}

fn number(value: &Value, key: &str) -> Option<u64> {
    value.get(key)?.as_u64()
}

/// Returns a long line that ends in JSON with a line for each value, and any other as it is.
fn lay_out(line: &str) -> String {
    let is_long = line.chars().nth(LINE_CHARS).is_some();
    let begin = line.find(['{', '[']).filter(|_| is_long);
    let parts = begin.map(|begin| line.split_at(begin));
    // Data stands alone or behind a few words and a colon.
    let parts = parts.filter(|(lead, _)| lead.is_empty() || lead.ends_with(": "));
    match parts.map(|(lead, json)| (lead, serde_json::from_str(json))) {
        Some((lead, Ok(value))) => {
            let mut lines = Vec::new();
            let lead = lead.trim_end();
            lines.extend((!lead.is_empty()).then(|| lead.to_owned()));
            push_value(&value, "", &mut lines);
            lines.join("\n")
        }
        _ => line.to_owned(),
    }
}

/// Adds the values of a list or an object, each below its name.
fn push_value(value: &Value, indent: &str, lines: &mut Vec<String>) {
    let deeper = format!("{indent}  ");
    let mut push = |lead: &str, value: &Value| match value {
        Value::Array(all) if !all.is_empty() => {
            lines.push(format!("{indent}{lead}"));
            push_value(value, &deeper, lines);
        }
        Value::Object(map) if !map.is_empty() => {
            lines.push(format!("{indent}{lead}"));
            push_value(value, &deeper, lines);
        }
        Value::String(text) if text.contains('\n') => {
            lines.push(format!("{indent}{lead}"));
            lines.extend(text.lines().map(|line| format!("{deeper}{line}")));
        }
        Value::String(text) => lines.push(format!("{indent}{lead} {text}")),
        other => lines.push(format!("{indent}{lead} {other}")),
    };
    match value {
        Value::Array(all) => all.iter().for_each(|value| push("-", value)),
        Value::Object(map) => map.iter().for_each(|(key, value)| push(&format!("{key}:"), value)),
        other => lines.push(format!("{indent}{other}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_an_agent_reads_of_those_below_it_is_a_line_for_each() {
        let listed = json!({
            "agents": [
                {"agent": "s1/1.0.0", "status": "running", "goal": "Sort", "iteration": 3,
                 "current_tool": "read_file", "idle_seconds": 4},
                {"agent": "s1/1.0.1/2.0.0", "status": "completed", "goal": "Count"},
            ],
            "running": 1, "waiting": 0, "ended": 1, "left_out": 7,
        });
        assert_eq!(
            result_words(true, &listed.to_string()),
            "1.0.0: running, step 3, in read_file, idle for 4 s: Sort\n\
             1.0.1/2.0.0: completed: Count\nand 7 more\n1 running, 0 waiting, 1 ended"
        );
        let sent = json!({"agents": [{"agent": "s1/1.0.0", "message": "left"}]});
        assert_eq!(result_words(true, &sent.to_string()), "1.0.0: left");
        let none = json!({"agents": []}).to_string();
        assert_eq!(result_words(true, &none), "no agents");
        // The same data of another tool is that tool's.
        assert_eq!(result_words(false, &none), none);
    }

    #[test]
    fn a_refusal_stands_behind_its_error() {
        let refused = json!({
            "error": "nothing was done: 1 thing in this call is wrong, see `errors`",
            "errors": [{"code": "E_ACTION", "field": "action", "remedy": "give an `action`"}],
            "warnings": [],
        });
        assert_eq!(
            result_words(true, &format!("error: {refused}")),
            "error: nothing was done: 1 thing in this call is wrong\n\
             E_ACTION action: give an `action`"
        );
    }

    #[test]
    fn the_message_of_an_end_has_its_entry_in_words() {
        let entry = json!({"status": "completed", "summary": "Sorted.", "agent": "s1/1.0.0"});
        let entry = json!({"results": [entry], "warnings": []});
        assert_eq!(
            delivery_words(&format!("Your background child has ended.\n{entry}\n[Read a again.]")),
            "Your background child has ended.\n0 1.0.0: completed\n  Sorted.\n[Read a again.]"
        );
        let words = "A message of the agent that started you:\nTry {\"results\": []} now";
        assert_eq!(delivery_words(words), words);
    }

    #[test]
    fn long_data_of_another_tool_is_laid_out() {
        let data = json!({
            "found": [{"name": "a", "text": "one\ntwo"}, {"name": "b", "sizes": [1, 2]}],
            "next": null,
            "none": [],
            "query": "x".repeat(80),
        });
        let laid_out = format!(
            "found:\n  -\n    name: a\n    text:\n      one\n      two\n  -\n    name: b\n    \
             sizes:\n      - 1\n      - 2\nnext: null\nnone: []\nquery: {}",
            "x".repeat(80)
        );
        assert_eq!(result_words(false, &data.to_string()), laid_out);
        let line = format!("structured data: {data}");
        assert_eq!(result_words(false, &line), format!("structured data:\n{laid_out}"));
        for same in [r#"{"short": 1}"#.to_owned(), format!("let x = {data}"), "{".repeat(200)] {
            assert_eq!(result_words(false, &same), same);
        }
    }
}
