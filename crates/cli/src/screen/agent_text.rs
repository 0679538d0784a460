//! Text for one agent: its task and its present activity.

use deputize_core::Status;
use deputize_core::agent::AgentActivity;
use deputize_core::sanitize::{for_terminal_line, for_verbatim_line};
use deputize_runtime::snapshot::AgentWork;
use deputize_runtime::{AgentSnapshot, SessionSnapshot};

use crate::task::attachment::words_of;

/// Maximum number of characters of a goal or a question.
const GOAL_CHARS: usize = 200;
/// Maximum number of characters of what a running call says of itself.
const PROGRESS_CHARS: usize = 120;

/// Returns what an agent is about, on one line. A later message of the person is what the top agent
/// is about from then on.
pub(super) fn goal_text(snapshot: &SessionSnapshot, agent: &AgentSnapshot) -> String {
    let message = snapshot.latest_message().filter(|_| agent.depth == 0);
    for_terminal_line(message.map_or(&agent.goal, words_of), GOAL_CHARS)
}

/// Returns what an agent does now, or how it failed. Empty if it completed; why the top agent failed
/// is shown at the very end.
pub(super) fn activity_text(agent: &AgentSnapshot) -> String {
    match agent.activity() {
        AgentActivity::Ended(Status::Timeout) => "time limit".to_owned(),
        AgentActivity::Ended(Status::Interrupted) => "interrupted".to_owned(),
        AgentActivity::Ended(Status::Failed | Status::Error) if agent.depth > 0 => {
            error_line(agent).unwrap_or_default()
        }
        AgentActivity::Ended(_) => String::new(),
        AgentActivity::Ending => "ending".to_owned(),
        AgentActivity::Waiting if agent.work() != AgentWork::Starting => "waiting".to_owned(),
        AgentActivity::Asking => {
            let command = agent.calls.question().map(|question| question.command.as_str());
            format!("asks: {}", for_verbatim_line(command.unwrap_or_default(), GOAL_CHARS))
        }
        AgentActivity::Resting => "waits for its children".to_owned(),
        AgentActivity::Stalled => {
            let tool = agent.stall().and_then(|stall| stall.tool.as_deref());
            tool.map_or_else(|| "stalled".to_owned(), |tool| format!("stalled in {tool}"))
        }
        AgentActivity::Waiting | AgentActivity::Running => work_text(agent),
    }
}

/// Returns why an agent did not complete, whole, on one line.
pub(super) fn error_line(agent: &AgentSnapshot) -> Option<String> {
    let error = agent.exit.as_ref()?.error.as_deref()?;
    Some(for_terminal_line(error, error.len()))
}

fn work_text(agent: &AgentSnapshot) -> String {
    match agent.work() {
        AgentWork::Starting => "starting".to_owned(),
        AgentWork::Retry { attempt, of } => format!("retry {attempt} of {of}"),
        AgentWork::Calls => calls_text(agent),
        _ => "thinking".to_owned(),
    }
}

/// Returns the call that has run longest, what it says of itself, and how many others run.
fn calls_text(agent: &AgentSnapshot) -> String {
    let [call, others @ ..] = agent.calls.running.as_slice() else { return String::new() };
    let mut text = call.text.clone();
    if let Some(progress) = &call.progress {
        text = format!("{text}: {}", for_terminal_line(progress, PROGRESS_CHARS));
    }
    match others.len() {
        0 => text,
        more => format!("{text} (+{more})"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use deputize_core::message::{CallStatus, UserMessage};
    use deputize_core::{CallId, Event};

    use super::*;
    use crate::fixture::{CALL, TestWriter, called, returned, root, started, tools};

    #[test]
    fn what_a_call_says_stands_behind_it_until_its_end() {
        let mut records = TestWriter::default();
        records.add(&root(), started(&root(), "Count."));
        records.add(&root(), called(CALL, "count", "{}"));
        let mut snapshot = SessionSnapshot::of(tools(), &records.records);
        let text = |snapshot: &SessionSnapshot| activity_text(snapshot.top().unwrap());
        let before = text(&snapshot);
        snapshot.set_progress(&root(), CALL, "one\u{1b}[2J");
        snapshot.set_progress(&root(), CALL, "two\nlines");
        assert_eq!(text(&snapshot), format!("{before}: two lines"));
        // Another call has said nothing, and one that has ended says nothing more.
        let other = CallId::new(1, 1);
        snapshot.set_progress(&root(), other, "x");
        records.add(&root(), returned(CALL, "count", CallStatus::Ok, "2", Vec::new()));
        snapshot.apply(records.records.last().unwrap());
        snapshot.set_progress(&root(), CALL, "three");
        assert_eq!(text(&snapshot), "thinking");
    }

    #[test]
    fn a_later_message_is_what_the_top_agent_is_about() {
        let mut records = TestWriter::default();
        let message = |text: &str| Event::Message(UserMessage::new(text.to_owned()));
        records.add(&root(), started(&root(), "Sort")).add(&root(), message("Sort"));
        let goal = |records: &TestWriter| {
            let snapshot = SessionSnapshot::of(Arc::default(), &records.records);
            goal_text(&snapshot, snapshot.top().unwrap())
        };
        assert_eq!(goal(&records), "Sort");
        records.add(&root(), message("Now\nthe tests"));
        assert_eq!(goal(&records), "Now the tests");
    }
}
