//! Text for one agent: its task and its present activity.

use deputize_core::Status;
use deputize_core::agent::AgentActivity;
use deputize_core::sanitize::{for_terminal_line, for_verbatim_line};
use deputize_runtime::snapshot::AgentWork;
use deputize_runtime::{AgentSnapshot, SessionSnapshot};

use crate::task::attachment::words_of;

/// Maximum number of characters of a goal or a question.
const GOAL_CHARS: usize = 200;
/// Stands before the goal of an agent that began with its parent's conversation.
pub(crate) const FORK: &str = "[fork] ";
/// Maximum number of characters of what a running call says of itself.
const PROGRESS_CHARS: usize = 120;

/// Returns what an agent is about, on one line, with a mark if it began with its parent's
/// conversation. A later message of the person is what the top agent
/// is about from then on.
pub(super) fn goal_text(snapshot: &SessionSnapshot, agent: &AgentSnapshot) -> String {
    let message = snapshot.latest_message().filter(|_| agent.depth == 0);
    let goal = for_terminal_line(message.map_or(&agent.goal, words_of), GOAL_CHARS);
    if agent.is_fork { format!("{FORK}{goal}") } else { goal }
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
        AgentActivity::Resting => {
            command_wait(agent).unwrap_or_else(|| "waits for its children".to_owned())
        }
        AgentActivity::Stalled => {
            let tool = agent.stall().and_then(|stall| stall.tool.as_deref());
            tool.map_or_else(|| "stalled".to_owned(), |tool| format!("stalled in {tool}"))
        }
        AgentActivity::Waiting | AgentActivity::Running => work_text(agent),
    }
}

/// Returns which commands an agent waits for that has answered; `None` if it waits for none.
pub(super) fn command_wait(agent: &AgentSnapshot) -> Option<String> {
    let commands = agent.processes.iter().filter(|process| process.notify);
    let commands: Vec<&str> = commands.map(|process| process.process.as_str()).collect();
    let waits = format!("has answered, and waits for {}", commands.join(", "));
    (!commands.is_empty()).then_some(waits)
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

/// Returns the call that has run longest, what it says of itself, and how many others run. A script
/// is shown behind the call that it waits for.
fn calls_text(agent: &AgentSnapshot) -> String {
    let running = agent.calls.running.as_slice();
    let Some(first) = running.first() else { return String::new() };
    let nested = running.iter().find(|call| call.call.outer_call() == Some(first.call));
    let call = nested.unwrap_or(first);
    let mut text = call.text.clone();
    if let Some(progress) = &call.progress {
        text = format!("{text}: {}", for_terminal_line(progress, PROGRESS_CHARS));
    }
    if let Some(number) = nested.and_then(|call| call.call.nested) {
        text = format!("{text} (call {number} of: {})", first.text);
    }
    match running.len() - 1 - usize::from(nested.is_some()) {
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
    fn a_script_is_shown_behind_the_call_that_it_waits_for() {
        let mut records = TestWriter::default();
        records.add(&root(), started(&root(), "Count."));
        records.add(&root(), called(CALL, "execute_code", r#"{"code":"go()"}"#));
        let text = |records: &TestWriter| {
            activity_text(SessionSnapshot::of(tools(), &records.records).top().unwrap())
        };
        assert_eq!(text(&records), "run Python go()");
        let [first, second] = [1, 2].map(|number| CALL.nested_call(number));
        records.add(&root(), called(first, "read_file", r#"{"path":"a.md"}"#));
        records.add(&root(), returned(first, "read_file", CallStatus::Ok, "", Vec::new()));
        records.add(&root(), called(second, "read_file", r#"{"path":"b.md"}"#));
        assert_eq!(text(&records), "read b.md (call 2 of: run Python go())");
        records.add(&root(), called(CallId::new(1, 1), "read_file", r#"{"path":"c.md"}"#));
        assert_eq!(text(&records), "read b.md (call 2 of: run Python go()) (+1)");
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
