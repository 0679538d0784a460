//! Groups the calls of one step, so that many calls of one tool take one line.

use std::collections::{BTreeMap, BTreeSet};

use deputize_core::{AgentId, CallId, RawCall};
use deputize_delegate::{TASK, TOOL};
use serde_json::Value;

use super::call::of_call;
use super::summary::{as_is, count};

/// The fewest calls of one tool in one step that are shown as one line.
const MIN_GROUP: usize = 6;
/// The most characters of the name of a tool.
const NAME_CHARS: usize = 60;

/// The grouped calls of each agent's current step.
#[derive(Debug, Default)]
pub(super) struct CallGroups {
    steps: BTreeMap<AgentId, Step>,
}

/// The grouped calls of one step.
#[derive(Debug, Default)]
struct Step {
    /// The line of each grouped tool; `None` once it is shown.
    lines: BTreeMap<String, Option<String>>,
    /// The words of each grouped call that runs.
    running: BTreeMap<CallId, String>,
}

impl CallGroups {
    /// Replaces the step of an agent by one with these calls.
    pub(super) fn begin_step(&mut self, agent: &AgentId, calls: &[RawCall]) {
        let mut by_tool: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for call in calls {
            by_tool.entry(&call.name).or_default().push(&call.arguments);
        }
        by_tool.retain(|tool, arguments| is_groupable(tool) && arguments.len() >= MIN_GROUP);
        let line = |(tool, arguments): (&str, Vec<&str>)| {
            (tool.to_owned(), Some(group_words(tool, &arguments)))
        };
        let step = Step { lines: by_tool.into_iter().map(line).collect(), ..Step::default() };
        self.steps.insert(agent.clone(), step);
    }

    /// Returns what to show of a call that starts: the call, the line of its group, or `None`
    /// where that line is shown already.
    pub(super) fn start_call(
        &mut self,
        agent: &AgentId,
        call: CallId,
        tool: &str,
        arguments: &str,
    ) -> Option<String> {
        let words = of_call(tool, arguments);
        let Some(step) = self.steps.get_mut(agent) else { return Some(words) };
        let Some(line) = step.lines.get_mut(tool) else { return Some(words) };
        step.running.insert(call, words);
        line.take()
    }

    /// Returns the words of a grouped call that ends, which were not shown.
    pub(super) fn end_call(&mut self, agent: &AgentId, call: CallId) -> Option<String> {
        self.steps.get_mut(agent)?.running.remove(&call)
    }

    /// Forgets an agent that has ended.
    pub(super) fn end_agent(&mut self, agent: &AgentId) {
        self.steps.remove(agent);
    }
}

/// Whether calls of a tool can share a line. Each command and each delegation is shown.
fn is_groupable(tool: &str) -> bool {
    tool != "terminal" && tool != TOOL.as_str() && tool != TASK.as_str()
}

/// Says what the calls of a group do together.
fn group_words(tool: &str, arguments: &[&str]) -> String {
    let paths = |thing| {
        let parsed = arguments.iter().map(|text| serde_json::from_str::<Value>(text).ok());
        let paths: Option<BTreeSet<String>> =
            parsed.map(|value| Some(value?.get("path")?.as_str()?.to_owned())).collect();
        Some(count(paths?.len(), thing))
    };
    let words = match tool {
        "read_file" => paths("file").map(|files| format!("read {files}")),
        "write_file" => paths("file").map(|files| format!("write {files}")),
        "edit_file" => paths("file").map(|files| format!("edit {files}")),
        _ => None,
    };
    let calls = || format!("{}: {}", as_is(tool, NAME_CHARS), count(arguments.len(), "call"));
    words.unwrap_or_else(calls)
}
