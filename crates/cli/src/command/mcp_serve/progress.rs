//! Progress of a run for another program: each call of the top agent; for a child, a note after
//! five calls or two seconds, and one at its end.

use std::collections::BTreeMap;

use deputize_core::message::CallStatus;
use deputize_core::sanitize::for_terminal_line;
use deputize_core::wording::count;
use deputize_core::{AgentId, CallId, Event, Observer, Outcome, Record};
use deputize_mcp::serve::ProgressSink;
use deputize_runtime::{AgentSnapshot, SnapshotObserver};
use parking_lot::Mutex;

use crate::stdio::tell;

/// Calls of a child after which a note is due.
const CALLS: usize = 5;
/// Milliseconds after which a note is due, if anything happened.
const PAUSE_MS: u64 = 2000;
/// Limit on a child's goal, in characters.
const GOAL_CHARS: usize = 60;
/// Limit on a child's error, in characters.
const ERROR_CHARS: usize = 500;

/// Makes the notes of a session. The snapshot has applied each record before.
pub(crate) struct ProgressNotes {
    session: SnapshotObserver,
    notes: ProgressSink,
    /// The last note of each child that runs.
    last: Mutex<BTreeMap<AgentId, LastNote>>,
}

/// The last note of a child.
struct LastNote {
    at: u64,
    /// Number of calls begun by then.
    calls: usize,
}

impl ProgressNotes {
    pub(crate) fn new(session: SnapshotObserver, notes: ProgressSink) -> Self {
        Self { session, notes, last: Mutex::default() }
    }

    /// Returns the note due at a record; `None` for most records.
    fn note(&self, record: &Record) -> Option<String> {
        let session = self.session.read();
        let agent = session.agent(&record.agent)?;
        match &record.event {
            Event::AgentStart(_) if agent.depth > 0 => Some(self.start_note(agent, record.at)),
            Event::ToolStart { call, .. } => self.call_note(agent, *call, record.at),
            Event::AgentEnd(outcome) => self.end_note(agent, outcome),
            _ => None,
        }
    }

    fn start_note(&self, agent: &AgentSnapshot, at: u64) -> String {
        self.set_last(&agent.id, LastNote { at, calls: 0 });
        format!("{}: begins", name(agent))
    }

    fn call_note(&self, agent: &AgentSnapshot, call: CallId, at: u64) -> Option<String> {
        let call = agent.calls.running(call)?.text.clone();
        if agent.depth == 0 {
            return Some(call);
        }
        let calls = agent.calls.started;
        let mut last = self.last.lock();
        let last = last.get_mut(&agent.id)?;
        let is_due =
            calls.saturating_sub(last.calls) >= CALLS || at.saturating_sub(last.at) >= PAUSE_MS;
        if !is_due {
            return None;
        }
        *last = LastNote { at, calls };
        Some(format!("{}: {}, now {call}", name(agent), count(calls, "call")))
    }

    fn end_note(&self, agent: &AgentSnapshot, outcome: &Outcome) -> Option<String> {
        self.last.lock().remove(&agent.id)?;
        let status = outcome.status.as_str();
        let why = outcome.error.as_deref().map(|error| for_terminal_line(error, ERROR_CHARS));
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        let calls = count(agent.calls.started, "call");
        Some(format!("{}: {status} after {calls}{why}", name(agent)))
    }

    fn set_last(&self, agent: &AgentId, note: LastNote) {
        let mut last = self.last.lock();
        last.insert(agent.clone(), note);
    }
}

/// Returns what a child is called in its notes.
fn name(agent: &AgentSnapshot) -> String {
    let position = agent.task_position().unwrap_or_else(|| "1/1".to_owned());
    format!("[{position}] {}", for_terminal_line(&agent.goal, GOAL_CHARS))
}

impl Observer for ProgressNotes {
    fn on_record(&self, record: &Record) {
        // The model was told that the person is told: the log is where they look.
        if let Event::ToolEnd(end) = &record.event
            && let Some(error) = &end.error
        {
            let tool = for_terminal_line(&end.tool, 60);
            let error = for_terminal_line(error, 500);
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
    use deputize_runtime::SessionSnapshot;

    use super::*;
    use crate::fixture::{TestWriter, child, ended, root, started, tools};

    #[test]
    fn a_child_is_reported_every_five_calls_or_two_seconds_and_at_its_end() {
        let mut writer = TestWriter::default();
        let call = |n: u32| Event::ToolStart {
            call: CallId::new(n, 0),
            tool: "read_file".to_owned(),
            arguments: format!("{{\"path\":\"{n}\"}}"),
        };
        writer.add(&root(), started(&root(), "All")).add(&root(), call(1));
        writer.add(&child(0), started(&child(0), "Look"));
        for n in 1..=12 {
            writer.add(&child(0), call(n));
        }
        writer.add(&child(0), ended(&child(0), Status::Completed, ExitReason::Completed));
        let collected = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&collected);
        let session = SnapshotObserver::new(SessionSnapshot::new(tools()));
        let sink = Arc::new(move |note| sink.lock().push(note));
        let progress = ProgressNotes::new(session.clone(), sink);
        let mut records = writer.records;
        records.iter_mut().for_each(|record| record.at = 0);
        // The last call comes late.
        let late = records.len() - 2;
        records[late].at = PAUSE_MS;
        for record in &records {
            session.on_record(record);
            progress.on_record(record);
        }
        let collected = collected.lock().clone();
        let place = collected[1].split(']').next().unwrap().to_owned() + "]";
        let of_child = |rest: &str| format!("{place} Look: {rest}");
        assert_eq!(
            collected,
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
