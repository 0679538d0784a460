//! What another program is told of a run while it goes on: each call of the top agent, and of a
//! child a note for five calls or two seconds, and one at its end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use deputize_core::message::CallStatus;
use deputize_core::sanitize::for_terminal_line;
use deputize_core::{AgentId, Catalog, Event, Observer, Record};
use deputize_mcp::serve::ProgressSink;

use crate::screen::call::of_call;
use crate::stdio::tell;
use crate::wording::count;

/// After so many calls of a child there is a note.
const CALLS: u32 = 5;
/// And after so many milliseconds, when there is something to tell.
const PAUSE_MS: u64 = 2000;
/// The most characters of a child's goal.
const GOAL_CHARS: usize = 60;
/// The most characters of why a child failed.
const ERROR_CHARS: usize = 500;

/// Makes notes of records.
pub(crate) struct ProgressNotes {
    tools: Arc<Catalog>,
    notes: ProgressSink,
    children: Mutex<BTreeMap<AgentId, ChildProgress>>,
}

struct ChildProgress {
    name: String,
    calls: u32,
    /// Calls since the last note.
    untold: u32,
    told_at: u64,
}

impl ProgressNotes {
    pub(crate) fn new(tools: Arc<Catalog>, notes: ProgressSink) -> Self {
        Self { tools, notes, children: Mutex::default() }
    }

    /// The note that a record gives cause for.
    fn note(&self, record: &Record) -> Option<String> {
        let mut children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        match &record.event {
            Event::AgentStart(start) if record.depth > 0 => {
                let by = start.spec.spawned_by.as_ref();
                let place = by.map_or((1, 1), |by| (by.task_index + 1, by.task_count));
                let goal = for_terminal_line(&start.spec.goal, GOAL_CHARS);
                let name = format!("[{}/{}] {goal}", place.0, place.1);
                let note = format!("{name}: begins");
                let child = ChildProgress { name, calls: 0, untold: 0, told_at: record.at };
                children.insert(record.agent.clone(), child);
                Some(note)
            }
            Event::ToolStart { tool, arguments, .. } => {
                let call = of_call(&self.tools, tool, arguments);
                let Some(child) = children.get_mut(&record.agent) else { return Some(call) };
                child.calls += 1;
                child.untold += 1;
                let long = record.at.saturating_sub(child.told_at) >= PAUSE_MS;
                if child.untold < CALLS && !long {
                    return None;
                }
                child.untold = 0;
                child.told_at = record.at;
                Some(format!("{}: {}, now {call}", child.name, count(child.calls as usize, "call")))
            }
            Event::AgentEnd(outcome) => {
                let child = children.remove(&record.agent)?;
                let status = outcome.status.as_str();
                let why =
                    outcome.error.as_deref().map(|error| for_terminal_line(error, ERROR_CHARS));
                let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                let calls = count(child.calls as usize, "call");
                Some(format!("{}: {status} after {calls}{why}", child.name))
            }
            _ => None,
        }
    }
}

impl Observer for ProgressNotes {
    fn on_record(&self, record: &Record) {
        // The model was told that the person is told: the log is where they look.
        if let Event::ToolEnd(end) = &record.event
            && let Some(error) = &end.error
        {
            let (tool, error) = (for_terminal_line(&end.tool, 60), for_terminal_line(error, 500));
            let what = match end.result.status {
                CallStatus::Denied => "refused",
                CallStatus::Ok | CallStatus::Error | CallStatus::Cancelled => "failed",
            };
            tell(&format!("warning: {}: {tool} {what}: {error}", record.agent));
        }
        if let Some(note) = self.note(record) {
            (self.notes)(note);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use deputize_core::outcome::ExitReason;
    use deputize_core::{CallId, Status};

    use super::*;
    use crate::fixture::{TestWriter, child, ended, root, started, tools};

    #[test]
    fn a_child_is_told_of_every_five_calls_or_two_seconds_and_at_its_end() {
        let mut tape = TestWriter::default();
        let call = |n: u32| Event::ToolStart {
            call: CallId { step: n, slot: 0 },
            tool: "read_file".to_owned(),
            arguments: format!("{{\"path\":\"{n}\"}}"),
        };
        tape.add(&root(), call(1));
        tape.add(&child(0), started(&child(0), "Look"));
        for n in 1..=12 {
            tape.add(&child(0), call(n));
        }
        tape.add(&child(0), ended(&child(0), Status::Completed, ExitReason::Completed));
        let told = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&told);
        let progress =
            ProgressNotes::new(tools(), Arc::new(move |note| sink.lock().unwrap().push(note)));
        let mut records = tape.records;
        records.iter_mut().for_each(|record| record.at = 0);
        // The last call comes late.
        let late = records.len() - 2;
        records[late].at = PAUSE_MS;
        records.iter().for_each(|record| progress.on_record(record));
        let told = told.lock().unwrap().clone();
        let place = told[1].split(']').next().unwrap().to_owned() + "]";
        let of_child = |rest: &str| format!("{place} Look: {rest}");
        assert_eq!(
            told,
            [
                "read 1".to_owned(),
                of_child("begins"),
                of_child("5 calls, now read 5"),
                of_child("10 calls, now read 10"),
                of_child("12 calls, now read 12"),
                of_child("completed after 12 calls"),
            ]
        );
    }
}
