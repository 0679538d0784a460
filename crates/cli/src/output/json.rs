//! The one object of `--output json`.

use std::collections::BTreeMap;

use deputize_core::{AgentId, Event, Outcome, Receipts, Record, ToolTrace, Usage};
use serde::Serialize;
use serde_json::Value;

/// Collects from the records what the object tells of children.
#[derive(Debug, Default)]
pub(crate) struct Children {
    by_parent: BTreeMap<AgentId, Vec<AgentId>>,
    ended: BTreeMap<AgentId, Ended>,
}

#[derive(Debug)]
struct Ended {
    task_index: u32,
    has_schema: bool,
    outcome: Option<Outcome>,
}

impl Children {
    /// Takes a record.
    pub(crate) fn apply(&mut self, record: &Record) {
        match &record.event {
            Event::AgentStart(start) => {
                let Some(parent) = &record.parent else { return };
                let fresh = Ended {
                    task_index: start.spec.spawned_by.as_ref().map_or(0, |by| by.task_index),
                    has_schema: start.spec.output_schema.is_some(),
                    outcome: None,
                };
                if self.ended.insert(record.agent.clone(), fresh).is_none() {
                    let siblings = self.by_parent.entry(parent.clone()).or_default();
                    siblings.push(record.agent.clone());
                }
            }
            Event::AgentEnd(outcome) => {
                if let Some(child) = self.ended.get_mut(&record.agent) {
                    child.outcome = Some((**outcome).clone());
                }
            }
            _ => {}
        }
    }

    /// The object for the agent whose end this is.
    pub(crate) fn object(&self, outcome: &Outcome) -> impl Serialize {
        let session = outcome.agent.as_str().split('/').next().unwrap_or_default().to_owned();
        Object {
            session,
            status: outcome.status.as_str(),
            answer: outcome.text.clone(),
            error: outcome.error.clone(),
            exit_reason: outcome.exit_reason.as_str(),
            iterations: outcome.iterations,
            tokens: Tokens::from(outcome.tree_usage()),
            cost_usd: outcome.cost_usd,
            duration_seconds: seconds(outcome.duration_ms),
            children: self.entries(&outcome.agent),
        }
    }

    /// The ended children of an agent, in the order they were started.
    fn entries(&self, parent: &AgentId) -> Vec<Entry> {
        let ids = self.by_parent.get(parent).into_iter().flatten();
        ids.filter_map(|id| self.ended.get(id)).filter_map(|child| self.entry(child)).collect()
    }

    fn entry(&self, child: &Ended) -> Option<Entry> {
        let outcome = child.outcome.as_ref()?;
        let output = outcome.text.as_deref().filter(|_| child.has_schema);
        Some(Entry {
            task_index: child.task_index,
            status: outcome.status.as_str(),
            summary: outcome.text.clone(),
            output: output.and_then(|text| serde_json::from_str(text).ok()),
            error: outcome.error.clone(),
            exit_reason: outcome.exit_reason.as_str(),
            api_calls: outcome.iterations,
            duration_seconds: seconds(outcome.duration_ms),
            model: outcome.model.clone(),
            tokens: Tokens::from(outcome.tree_usage()),
            cost_usd: outcome.cost_usd,
            tool_trace: outcome.trace.clone(),
            receipts: ReceiptsOut::from(&outcome.receipts),
            agent: outcome.agent.clone(),
            children: self.entries(&outcome.agent),
        })
    }
}

/// Milliseconds as seconds, to the hundredth.
#[expect(clippy::cast_precision_loss, reason = "a run lasts less than 2^52 milliseconds")]
fn seconds(ms: u64) -> f64 {
    (ms as f64 / 10.0).round() / 100.0
}

#[derive(Serialize)]
struct Object {
    session: String,
    status: &'static str,
    answer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    exit_reason: &'static str,
    iterations: u32,
    tokens: Tokens,
    cost_usd: Option<f64>,
    duration_seconds: f64,
    children: Vec<Entry>,
}

#[derive(Serialize)]
struct Tokens {
    input: u64,
    cached: u64,
    output: u64,
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Self {
        Self { input: usage.input, cached: usage.cached, output: usage.output }
    }
}

/// A child, as the result of `delegate_task` tells of it.
#[derive(Serialize)]
struct Entry {
    task_index: u32,
    status: &'static str,
    summary: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    exit_reason: &'static str,
    api_calls: u32,
    duration_seconds: f64,
    model: String,
    tokens: Tokens,
    cost_usd: Option<f64>,
    tool_trace: Vec<ToolTrace>,
    receipts: ReceiptsOut,
    agent: AgentId,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<Entry>,
}

#[derive(Serialize)]
struct ReceiptsOut {
    files_written: Vec<FileOut>,
    commands: Vec<CommandOut>,
    unfinished: Vec<AgentId>,
}

#[derive(Serialize)]
struct FileOut {
    path: String,
    sha256: String,
    bytes: u64,
}

#[derive(Serialize)]
struct CommandOut {
    command: String,
    exit_code: Option<i32>,
}

impl From<&Receipts> for ReceiptsOut {
    fn from(receipts: &Receipts) -> Self {
        let file = |(path, version): (&std::path::PathBuf, &deputize_core::Version)| FileOut {
            path: path.to_string_lossy().into_owned(),
            sha256: version.sha256.clone(),
            bytes: version.bytes,
        };
        let command = |(command, exit_code): &(String, Option<i32>)| CommandOut {
            command: command.clone(),
            exit_code: *exit_code,
        };
        Self {
            files_written: receipts.files_written.iter().map(file).collect(),
            commands: receipts.commands.iter().map(command).collect(),
            unfinished: receipts.unfinished.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use deputize_core::{ExitReason, Status};

    use super::*;
    use crate::fixture::{CALL, Tape, child, ended, outcome, root, started, version};
    use crate::output::to_json_line;

    fn object(tape: &Tape, top: &Outcome) -> Value {
        let mut children = Children::default();
        tape.records.iter().for_each(|record| children.apply(record));
        serde_json::from_str(&to_json_line(&children.object(top)).unwrap()).unwrap()
    }

    #[test]
    fn a_run_with_a_child_and_a_grandchild() {
        let grandchild = child(0).child(CALL, 0);
        let mut tape = Tape::default();
        tape.add(&root(), started(&root(), "all"));
        tape.add(&child(1), started(&child(1), "b"));
        tape.add(&child(0), started(&child(0), "a"));
        tape.add(&grandchild, started(&grandchild, "below a"));
        tape.add(&grandchild, ended(&grandchild, Status::Completed, ExitReason::Completed));
        tape.add(&child(0), ended(&child(0), Status::Timeout, ExitReason::Timeout));
        tape.add(&child(1), ended(&child(1), Status::Completed, ExitReason::Completed));
        let mut top = outcome(&root(), Status::Completed, ExitReason::Completed);
        top.receipts.files_written.insert("/work/a".into(), version("x"));
        insta::assert_json_snapshot!(object(&tape, &top));
    }

    #[test]
    fn an_agent_without_children_has_an_empty_list() {
        let object = object(&Tape::default(), &outcome(&root(), Status::Failed, ExitReason::Error));
        assert_eq!(object["children"], serde_json::json!([]));
        assert_eq!(object["answer"], Value::Null);
        assert_eq!(object["error"], "it went wrong");
    }
}
