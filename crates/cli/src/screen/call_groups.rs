//! Groups the calls of one step, so that many calls of one tool take one line, and those of a script
//! one too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deputize_core::model::RawCall;
use deputize_core::sanitize::for_verbatim_line;
use deputize_core::{AgentId, ArgumentRole, CallId, Catalog, ToolKind, ToolSpec};
use serde_json::Value;

use deputize_core::wording::count;

/// The fewest calls of one tool in one step that are shown as one line.
const MIN_GROUP: usize = 6;
/// Limit on the name of a tool, in characters.
const NAME_CHARS: usize = 60;

/// The grouped calls of each agent's current step.
#[derive(Debug, Default)]
pub(super) struct CallGroups {
    tools: Arc<Catalog>,
    steps: BTreeMap<AgentId, CallStep>,
    scripts: BTreeMap<(AgentId, CallId), NestedCallGroup>,
}

/// The calls that a running call has made.
#[derive(Debug, Default)]
struct NestedCallGroup {
    /// Number of those that have ended.
    ended: usize,
    /// The words of each one that runs and was not shown.
    running: BTreeMap<CallId, String>,
}

/// The grouped calls of one step.
#[derive(Debug, Default)]
struct CallStep {
    /// The line of each grouped tool; `None` once it is shown.
    lines: BTreeMap<String, Option<String>>,
    /// The words of each grouped call that runs.
    running: BTreeMap<CallId, String>,
}

impl CallGroups {
    /// Returns no groups yet, of calls of these tools.
    pub(super) fn new(tools: Arc<Catalog>) -> Self {
        Self { tools, ..Self::default() }
    }

    /// Replaces the step of an agent by one with these calls.
    pub(super) fn begin_step(&mut self, agent: &AgentId, calls: &[RawCall]) {
        if calls.len() < MIN_GROUP {
            self.steps.remove(agent);
            return;
        }
        let read: Vec<_> =
            calls.iter().map(|call| self.tools.read_call(&call.name, &call.arguments)).collect();
        let mut by_tool: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (tool, arguments) in &read {
            by_tool.entry(tool).or_default().push(arguments);
        }
        by_tool.retain(|tool, arguments| {
            arguments.len() >= MIN_GROUP && self.tools.spec(tool).is_none_or(is_groupable)
        });
        let line = |(tool, arguments): (&str, Vec<&str>)| {
            let words = self.tools.spec(tool).and_then(|spec| group_words(spec, &arguments));
            let calls = || {
                format!(
                    "{}: {}",
                    for_verbatim_line(tool, NAME_CHARS),
                    count(arguments.len(), "call")
                )
            };
            (tool.to_owned(), Some(words.unwrap_or_else(calls)))
        };
        let step =
            CallStep { lines: by_tool.into_iter().map(line).collect(), ..CallStep::default() };
        self.steps.insert(agent.clone(), step);
    }

    /// Returns what to show of a call that starts: its words, the line of its group, or `None`
    /// where that line is shown already. A nested call is only counted, unless it runs a command.
    pub(super) fn start_call(
        &mut self,
        agent: &AgentId,
        call: CallId,
        tool: &str,
        words: String,
    ) -> Option<String> {
        if let Some(outer) = call.outer_call() {
            let words = nested_words(&words);
            if !self.tools.spec(tool).is_none_or(is_groupable) {
                return Some(words);
            }
            self.script(agent, outer).running.insert(call, words);
            return None;
        }
        let Some(step) = self.steps.get_mut(agent) else { return Some(words) };
        let Some(line) = step.lines.get_mut(tool) else { return Some(words) };
        step.running.insert(call, words);
        line.take()
    }

    /// Returns the words of a grouped call that ends, which were not shown.
    pub(super) fn end_call(&mut self, agent: &AgentId, call: CallId) -> Option<String> {
        match call.outer_call() {
            None => self.steps.get_mut(agent)?.running.remove(&call),
            Some(outer) => {
                let script = self.script(agent, outer);
                script.ended += 1;
                script.running.remove(&call)
            }
        }
    }

    /// Returns the line that counts the calls which a call has made, when it ends.
    pub(super) fn end_script(&mut self, agent: &AgentId, call: CallId) -> Option<String> {
        let script = self.scripts.remove(&(agent.clone(), call))?;
        Some(format!("  calls: {}", script.ended))
    }

    /// Forgets an agent that has ended.
    pub(super) fn end_agent(&mut self, agent: &AgentId) {
        self.steps.remove(agent);
        self.scripts.retain(|(of, _), _| of != agent);
    }

    fn script(&mut self, agent: &AgentId, outer: CallId) -> &mut NestedCallGroup {
        self.scripts.entry((agent.clone(), outer)).or_default()
    }
}

/// Returns what to show of a nested call, which stands below the one that made it.
pub(super) fn nested_words(words: &str) -> String {
    format!("  {words}")
}

/// Whether calls of a tool can share a line. Each command and each delegation is shown.
fn is_groupable(spec: &ToolSpec) -> bool {
    spec.kind != ToolKind::Execute && !spec.spawns
}

/// Returns what the calls of a group do together; `None` if they are not all about files.
fn group_words(spec: &ToolSpec, arguments: &[&str]) -> Option<String> {
    let path = |text: &&str| {
        let call: Value = serde_json::from_str(text).ok()?;
        Some(spec.subject.text(ArgumentRole::Path, call.as_object()?)?.to_owned())
    };
    let of_files = matches!(spec.kind, ToolKind::Read | ToolKind::Edit);
    let verb = spec.subject.verb().filter(|_| of_files)?;
    let paths: Option<BTreeSet<String>> = arguments.iter().map(path).collect();
    Some(format!("{verb} {}", count(paths?.len(), "file")))
}
