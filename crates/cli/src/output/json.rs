//! The one object of `--output json`.

use std::borrow::Cow;

use deputize_core::budget::shown_usd;
use deputize_core::model::Usage;
use deputize_core::{AgentId, Outcome};
use deputize_delegate::result_entry;
use deputize_runtime::SessionSnapshot;
use serde::Serialize;
use serde_json::Value;

/// Returns the object for the agent whose end this is, with its children. The snapshot keeps
/// outcomes.
pub(crate) fn run_object(snapshot: &SessionSnapshot, outcome: &Outcome) -> impl Serialize + use<> {
    RunObject {
        session: outcome.agent.session().to_string(),
        status: outcome.status.as_str(),
        answer: outcome.text.clone(),
        error: outcome.error.clone(),
        exit_reason: outcome.exit_reason.as_str(),
        iterations: outcome.iterations,
        tokens: ObjectTokens::from(outcome.tree_usage()),
        cost_usd: outcome.cost_usd.map(shown_usd),
        denied_tool_calls: snapshot.denied_calls(),
        duration_seconds: seconds(outcome.duration_ms),
        children: entries(snapshot, &outcome.agent),
    }
}

/// A task of an agent that has ended, or never began.
struct EndedTask<'s> {
    index: u32,
    outcome: Cow<'s, Outcome>,
}

/// Returns the entries of the children of an agent that have ended and of tasks that never began, by
/// the call and the task that they come from.
fn entries(snapshot: &SessionSnapshot, parent: &AgentId) -> Vec<Value> {
    let mut tasks = ended_tasks(snapshot, parent);
    tasks.sort_by_key(|task| (call_of(&task.outcome.agent), task.index));
    tasks.iter().map(|task| entry(snapshot, task)).collect()
}

fn ended_tasks<'s>(snapshot: &'s SessionSnapshot, parent: &AgentId) -> Vec<EndedTask<'s>> {
    let children = snapshot.children(parent).iter().filter_map(|id| snapshot.agent(id));
    let ended = children.filter_map(|agent| {
        let outcome = Cow::Borrowed(&**agent.exit.as_ref()?.outcome.as_ref()?);
        let index = agent.spawned_by.as_ref().map_or(0, |by| by.task_index);
        Some(EndedTask { index, outcome })
    });
    let unstarted = snapshot.unstarted_tasks().iter().filter(|task| task.parent == *parent);
    let unstarted = unstarted.map(|task| {
        let agent = task.agent.clone();
        let model = task.model.clone();
        let outcome = Outcome::not_started(agent, model, task.status, task.error.clone());
        EndedTask { index: task.index, outcome: Cow::Owned(outcome) }
    });
    ended.chain(unstarted).collect()
}

fn entry(snapshot: &SessionSnapshot, task: &EndedTask<'_>) -> Value {
    let mut entry = result_entry(&task.outcome, task.index);
    let below = entries(snapshot, &task.outcome.agent);
    if let (Some(map), false) = (entry.as_object_mut(), below.is_empty()) {
        map.insert("children".to_owned(), Value::Array(below));
    }
    entry
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
struct RunObject {
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
    use deputize_core::message::CallStatus;
    use deputize_core::outcome::{ChildInspection, ExitReason};
    use deputize_core::{Event, Status, ToolEffect};

    use super::*;
    use crate::fixture::{
        CALL, TestWriter, child, ended, outcome, returned, root, started, version,
    };
    use crate::output::to_json_line;

    fn object(writer: &TestWriter, top: &Outcome) -> Value {
        let mut snapshot = SessionSnapshot::default().keep_outcomes();
        writer.records.iter().for_each(|record| snapshot.apply(record));
        serde_json::from_str(&to_json_line(&run_object(&snapshot, top)).unwrap()).unwrap()
    }

    #[test]
    fn a_run_with_a_child_and_a_grandchild() {
        let grandchild = child(0).child(CALL, 0);
        let mut writer = TestWriter::default();
        writer.add(&root(), started(&root(), "all"));
        writer.add(&child(1), started(&child(1), "b"));
        writer.add(&child(0), started(&child(0), "a"));
        writer.add(&grandchild, started(&grandchild, "below a"));
        writer.add(&grandchild, ended(&grandchild, Status::Completed, ExitReason::Completed));
        writer.add(&child(0), ended(&child(0), Status::Timeout, ExitReason::Timeout));
        writer.add(&child(1), ended(&child(1), Status::Completed, ExitReason::Completed));
        let mut top = outcome(&root(), Status::Completed, ExitReason::Completed);
        top.receipts.files_written.insert("/repo/a".into(), version("x"));
        insta::assert_json_snapshot!(object(&writer, &top));
    }

    #[test]
    fn a_child_is_reported_with_what_was_found_out_at_its_end() {
        let mut writer = TestWriter::default();
        writer.add(&root(), started(&root(), "all"));
        writer.add(&child(0), started(&child(0), "a"));
        let found = ChildInspection {
            stale_paths: vec!["/repo/a".into()],
            gone_paths: Vec::new(),
            unseen_writes: vec!["b.rs".to_owned()],
            summary_path: Some("/state/summary.txt".into()),
            diagnostic_path: Some("/state/a.log".into()),
        };
        let mut end = outcome(&child(0), Status::Completed, ExitReason::Completed);
        end.inspection = Some(Box::new(found));
        writer.add(&child(0), Event::AgentEnd(Box::new(end)));
        let top = outcome(&root(), Status::Completed, ExitReason::Completed);
        let entry = object(&writer, &top)["children"][0].clone();
        assert_eq!(entry["stale_paths"], serde_json::json!(["/repo/a"]));
        assert_eq!(entry["unseen_writes"], serde_json::json!(["b.rs"]));
        assert_eq!(entry["summary_path"], "/state/summary.txt");
        assert_eq!(entry["diagnostic_path"], "/state/a.log");
    }

    #[test]
    fn a_task_that_never_began_has_its_entry_in_its_place() {
        let mut writer = TestWriter::default();
        writer.add(&root(), started(&root(), "all"));
        for index in [0, 2] {
            writer.add(&child(index), started(&child(index), "a"));
            let end = ended(&child(index), Status::Completed, ExitReason::Completed);
            writer.add(&child(index), end);
        }
        let fact = ToolEffect::NotBegun {
            agent: child(1),
            task_index: 1,
            model: "t/m".to_owned(),
            status: Status::Interrupted,
            error: "interrupted: it was not started".to_owned(),
        };
        writer.add(&root(), returned(CALL, "delegate_task", CallStatus::Ok, "", vec![fact]));
        let top = outcome(&root(), Status::Completed, ExitReason::Completed);
        let children = object(&writer, &top)["children"].clone();
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
