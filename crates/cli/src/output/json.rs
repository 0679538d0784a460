//! The one object of `--output json`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, PoisonError};

use deputize_core::budget::shown_usd;
use deputize_core::message::CallStatus;
use deputize_core::model::Usage;
use deputize_core::{AgentId, Event, Observer, Outcome, Record, Status, ToolEffect};
use deputize_delegate::result_entry;
use serde::Serialize;
use serde_json::Value;

/// Collects from the records what the object tells of children.
#[derive(Debug, Default)]
pub(crate) struct Children(Mutex<ChildTree>);

#[derive(Debug, Default)]
struct ChildTree {
    by_parent: BTreeMap<AgentId, Vec<AgentId>>,
    agents: BTreeMap<AgentId, ChildObject>,
    /// Calls of the whole tree that were denied.
    denied: usize,
}

#[derive(Debug)]
struct ChildObject {
    task_index: u32,
    outcome: Option<Outcome>,
}

impl Observer for Children {
    fn on_record(&self, record: &Record) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).apply(record);
    }
}

impl Children {
    /// How many agents below the top one have completed with an answer.
    pub(crate) fn answered(&self) -> usize {
        let family = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let outcomes = family.agents.values().filter_map(|child| child.outcome.as_ref());
        outcomes.filter(|it| it.status == Status::Completed && it.text.is_some()).count()
    }

    /// The object for the agent whose end this is.
    pub(crate) fn object(&self, outcome: &Outcome) -> impl Serialize + use<> {
        let family = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let usage = outcome.tree_usage();
        Object {
            session: outcome.agent.as_str().split('/').next().unwrap_or_default().to_owned(),
            status: outcome.status.as_str(),
            answer: outcome.text.clone(),
            error: outcome.error.clone(),
            exit_reason: outcome.exit_reason.as_str(),
            iterations: outcome.iterations,
            tokens: ObjectTokens::from(usage),
            cost_usd: outcome.cost_usd.map(shown_usd),
            denied_tool_calls: family.denied,
            duration_seconds: seconds(outcome.duration_ms),
            children: family.entries(&outcome.agent),
        }
    }
}

impl ChildTree {
    fn apply(&mut self, record: &Record) {
        match &record.event {
            Event::AgentStart(start) => {
                let Some(parent) = &record.parent else { return };
                let by = start.spec.spawned_by.as_ref();
                let task_index = by.map_or(0, |by| by.task_index);
                let child = ChildObject { task_index, outcome: None };
                if self.agents.insert(record.agent.clone(), child).is_none() {
                    let siblings = self.by_parent.entry(parent.clone()).or_default();
                    siblings.push(record.agent.clone());
                }
            }
            Event::ToolEnd(end) => {
                self.denied += usize::from(end.result.status == CallStatus::Denied);
                end.facts.iter().for_each(|fact| self.not_begun(&record.agent, fact));
            }
            Event::AgentEnd(outcome) => {
                if let Some(child) = self.agents.get_mut(&record.agent) {
                    child.outcome = Some((**outcome).clone());
                }
            }
            _ => {}
        }
    }

    /// A task for which no child was begun is told of by its call alone.
    fn not_begun(&mut self, parent: &AgentId, fact: &ToolEffect) {
        let ToolEffect::NotBegun { agent, task_index, model, status, error } = fact else { return };
        let outcome = Outcome::not_started(agent.clone(), model.clone(), *status, error.clone());
        let outcome = Some(outcome);
        let child = ChildObject { task_index: *task_index, outcome };
        if let Entry::Vacant(entry) = self.agents.entry(agent.clone()) {
            entry.insert(child);
            self.by_parent.entry(parent.clone()).or_default().push(agent.clone());
        }
    }

    /// The children of an agent that have ended, and tasks that never began, by the call and the task that they come from.
    fn entries(&self, parent: &AgentId) -> Vec<Value> {
        let ids = self.by_parent.get(parent).into_iter().flatten();
        let mut ended: Vec<(&ChildObject, &Outcome)> = ids
            .filter_map(|id| self.agents.get(id))
            .filter_map(|child| Some((child, child.outcome.as_ref()?)))
            .collect();
        ended.sort_by_key(|(child, outcome)| (call_of(&outcome.agent), child.task_index));
        ended.into_iter().map(|(child, outcome)| self.entry(child, outcome)).collect()
    }

    fn entry(&self, child: &ChildObject, outcome: &Outcome) -> Value {
        let mut entry = result_entry(outcome, child.task_index);
        let below = self.entries(&outcome.agent);
        if let (Some(map), false) = (entry.as_object_mut(), below.is_empty()) {
            map.insert("children".to_owned(), Value::Array(below));
        }
        entry
    }
}

/// Step and slot of the call that a child comes from, as its id has them.
fn call_of(child: &AgentId) -> (u32, u32) {
    let own = child.as_str().rsplit('/').next().unwrap_or_default();
    let mut parts = own.split('.').map(|part| part.parse().unwrap_or(u32::MAX));
    (parts.next().unwrap_or(u32::MAX), parts.next().unwrap_or(u32::MAX))
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
    tokens: ObjectTokens,
    cost_usd: Option<f64>,
    denied_tool_calls: usize,
    duration_seconds: f64,
    children: Vec<Value>,
}

#[derive(Serialize)]
struct ObjectTokens {
    input: u64,
    cached: u64,
    output: u64,
}

impl From<Usage> for ObjectTokens {
    fn from(usage: Usage) -> Self {
        Self { input: usage.input, cached: usage.cached, output: usage.output }
    }
}

#[cfg(test)]
mod tests {
    use deputize_core::Status;
    use deputize_core::outcome::{ChildInspection, ExitReason};

    use super::*;
    use crate::fixture::{
        CALL, TestWriter, child, ended, outcome, returned, root, started, version,
    };
    use crate::output::to_json_line;

    fn object(tape: &TestWriter, top: &Outcome) -> Value {
        let children = Children::default();
        tape.records.iter().for_each(|record| children.on_record(record));
        serde_json::from_str(&to_json_line(&children.object(top)).unwrap()).unwrap()
    }

    #[test]
    fn a_run_with_a_child_and_a_grandchild() {
        let grandchild = child(0).child(CALL, 0);
        let mut tape = TestWriter::default();
        tape.add(&root(), started(&root(), "all"));
        tape.add(&child(1), started(&child(1), "b"));
        tape.add(&child(0), started(&child(0), "a"));
        tape.add(&grandchild, started(&grandchild, "below a"));
        tape.add(&grandchild, ended(&grandchild, Status::Completed, ExitReason::Completed));
        tape.add(&child(0), ended(&child(0), Status::Timeout, ExitReason::Timeout));
        tape.add(&child(1), ended(&child(1), Status::Completed, ExitReason::Completed));
        let mut top = outcome(&root(), Status::Completed, ExitReason::Completed);
        top.receipts.files_written.insert("/repo/a".into(), version("x"));
        insta::assert_json_snapshot!(object(&tape, &top));
    }

    #[test]
    fn a_child_is_told_with_what_was_found_out_at_its_end() {
        let mut tape = TestWriter::default();
        tape.add(&root(), started(&root(), "all"));
        tape.add(&child(0), started(&child(0), "a"));
        let found = ChildInspection {
            stale_paths: vec!["/repo/a".into()],
            gone_paths: Vec::new(),
            unseen_writes: vec!["b.rs".to_owned()],
            summary_path: Some("/state/summary.txt".into()),
            diagnostic_path: Some("/state/a.log".into()),
        };
        let mut end = outcome(&child(0), Status::Completed, ExitReason::Completed);
        end.found = Some(Box::new(found));
        tape.add(&child(0), Event::AgentEnd(Box::new(end)));
        let top = outcome(&root(), Status::Completed, ExitReason::Completed);
        let entry = object(&tape, &top)["children"][0].clone();
        assert_eq!(entry["stale_paths"], serde_json::json!(["/repo/a"]));
        assert_eq!(entry["unseen_writes"], serde_json::json!(["b.rs"]));
        assert_eq!(entry["summary_path"], "/state/summary.txt");
        assert_eq!(entry["diagnostic_path"], "/state/a.log");
    }

    #[test]
    fn a_task_that_never_began_has_its_entry_in_its_place() {
        let mut tape = TestWriter::default();
        tape.add(&root(), started(&root(), "all"));
        for index in [0, 2] {
            tape.add(&child(index), started(&child(index), "a"));
            let end = ended(&child(index), Status::Completed, ExitReason::Completed);
            tape.add(&child(index), end);
        }
        let fact = ToolEffect::NotBegun {
            agent: child(1),
            task_index: 1,
            model: "t/m".to_owned(),
            status: Status::Interrupted,
            error: "interrupted: it was not started".to_owned(),
        };
        tape.add(&root(), returned(CALL, "delegate_task", CallStatus::Ok, "", vec![fact]));
        let top = outcome(&root(), Status::Completed, ExitReason::Completed);
        let children = object(&tape, &top)["children"].clone();
        assert_eq!(children.as_array().unwrap().len(), 3);
        let entry = &children[1];
        assert_eq!((&entry["task_index"], &entry["agent"]), (&1.into(), &child(1).as_str().into()));
        assert_eq!((&entry["status"], &entry["api_calls"]), (&"interrupted".into(), &0.into()));
        assert_eq!(entry["error"], "interrupted: it was not started");
    }

    #[test]
    fn an_agent_without_children_has_an_empty_list() {
        let object =
            object(&TestWriter::default(), &outcome(&root(), Status::Failed, ExitReason::Error));
        assert_eq!(object["children"], serde_json::json!([]));
        assert_eq!(object["answer"], Value::Null);
        assert_eq!(object["error"], "it went wrong");
    }
}
