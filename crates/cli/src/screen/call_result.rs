//! Shows the end of a call.

use std::collections::BTreeMap;

use deputize_core::ToolEffect;
use deputize_core::event::ToolEnd;
use deputize_core::message::CallStatus;
use deputize_core::sanitize::for_terminal_line;
use deputize_runtime::describe_result;
use serde_json::Value;

use super::Detail;
use super::line::{ScreenLine, Style};
use super::summary::{count, seconds};

/// Limit on a remark on one line, in characters.
const REMARK_CHARS: usize = 300;
/// Tasks that are listed by their numbers; more are counted.
const NUMBERED_TASKS: usize = 10;

/// Returns the line for the end of a call; `None` for a success, unless `detail` is verbose.
pub(super) fn returned(
    line: impl FnOnce() -> ScreenLine,
    end: &ToolEnd,
    detail: Detail,
) -> Option<ScreenLine> {
    let status = end.result.status;
    if status == CallStatus::Ok && detail != Detail::Verbose {
        return None;
    }
    let line = line();
    let tool = for_terminal_line(&end.tool, REMARK_CHARS);
    if status == CallStatus::Ok {
        let bytes = end.result.text.as_str().len();
        let text = format!("  {tool}: {bytes} bytes in {}", seconds(end.ms));
        return Some(line.with(Style::Dim, text));
    }
    if status == CallStatus::Cancelled && detail != Detail::Verbose {
        return Some(line.with(Style::Bad, format!("{tool} cancelled")));
    }
    if let Some(why) = refusal(end) {
        let why = for_terminal_line(&why, why.len());
        return Some(line.with(Style::Bad, format!("{tool} refused: ")).with(Style::Plain, why));
    }
    let why = describe_result(end.error.as_deref().unwrap_or(&end.content()), REMARK_CHARS);
    let word = if status == CallStatus::Error { "failed" } else { status.as_str() };
    let said = if why.starts_with(word) { "" } else { word };
    let sep = if said.is_empty() { "" } else { ": " };
    Some(line.with(Style::Bad, format!("{tool} {said}{sep}")).with(Style::Plain, why))
}

/// Returns whether a call's end mentions tasks without an agent (never begun, or refused), which
/// have no row in a tree.
pub(super) fn has_no_row(end: &ToolEnd) -> bool {
    let not_begun = |fact: &ToolEffect| matches!(fact, ToolEffect::NotBegun { .. });
    end.facts.iter().any(not_begun) || refusal(end).is_some()
}

/// Returns a line for each reason why tasks of a call got no agent, with their numbers.
pub(super) fn not_begun(line: impl Fn() -> ScreenLine, end: &ToolEnd) -> Vec<ScreenLine> {
    let mut reasons: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for fact in &end.facts {
        if let ToolEffect::NotBegun { error, task_index, .. } = fact {
            reasons.entry(error).or_default().push(task_index.saturating_add(1));
        }
    }
    let describe = |(why, tasks): (&str, Vec<u32>)| {
        let text = format!("{} not begun: ", task_numbers(&tasks));
        let why = for_terminal_line(why, REMARK_CHARS);
        line().with(Style::Asking, text).with(Style::Plain, why)
    };
    reasons.into_iter().map(describe).collect()
}

/// Names tasks by number, or counts them if they are many.
fn task_numbers(tasks: &[u32]) -> String {
    match tasks {
        [only] => format!("task {only}"),
        few if few.len() <= NUMBERED_TASKS => {
            let numbers: Vec<String> = few.iter().map(u32::to_string).collect();
            format!("tasks {}", numbers.join(", "))
        }
        many => count(many.len(), "task"),
    }
}

/// Explains why a delegating call was refused, each reason once.
fn refusal(end: &ToolEnd) -> Option<String> {
    if end.result.status != CallStatus::Error {
        return None;
    }
    let content = end.content();
    let json = content.strip_prefix("error: ").unwrap_or(&content);
    let value = serde_json::Deserializer::from_str(json).into_iter::<Value>().next()?.ok()?;
    let mut remedies: Vec<(&str, usize)> = Vec::new();
    for error in value.get("errors")?.as_array()? {
        let Some(remedy) = error.get("remedy").and_then(Value::as_str) else { continue };
        match remedies.iter_mut().find(|(known, _)| *known == remedy) {
            Some((_, times)) => *times += 1,
            None => remedies.push((remedy, 1)),
        }
    }
    let describe = |(remedy, times)| match times {
        1 => str::to_owned(remedy),
        times => format!("{remedy} ({})", count(times, "task")),
    };
    let texts: Vec<String> = remedies.into_iter().map(describe).collect();
    Some(texts.join("; ")).filter(|texts| !texts.is_empty())
}
