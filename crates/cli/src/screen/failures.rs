//! The agents that failed in a run, each with its whole reason.

use std::collections::BTreeSet;

use deputize_core::{AgentId, Event, Record, Status};

use super::line::{Line, Style};
use super::summary::count;
use super::tree::{Node, Tree};

/// Agents that are listed; more are counted.
const AGENTS: usize = 50;

/// Whether an agent that ended like this failed.
pub(super) const fn is_failure(status: Status) -> bool {
    matches!(status, Status::Failed | Status::Error | Status::Timeout)
}

/// The children that failed in a turn of the top agent: a fold over the records.
#[derive(Debug, Default)]
pub(super) struct Failures {
    agents: BTreeSet<AgentId>,
    /// The top agent has ended its turn: its failures stand at the end of that.
    turn_ended: bool,
}

impl Failures {
    /// Takes a record. Why the top agent failed is told elsewhere.
    pub(super) fn apply(&mut self, record: &Record) {
        match &record.event {
            Event::AgentEnd(outcome) if record.depth > 0 && is_failure(outcome.status) => {
                self.agents.insert(record.agent.clone());
            }
            Event::AgentEnd(_) | Event::AgentResume { .. } => {
                self.agents.remove(&record.agent);
                self.turn_ended |= record.depth == 0;
            }
            // The person asks for something new.
            Event::Message(message)
                if self.turn_ended && record.depth == 0 && message.from.is_none() =>
            {
                self.turn_ended = false;
                self.agents.clear();
            }
            _ => {}
        }
    }

    /// What to tell at the end: agents in the order of the tree, those that failed for the same
    /// reason together. Empty where none failed.
    pub(super) fn lines(&self, tree: &Tree) -> Vec<Line> {
        if self.agents.is_empty() {
            return Vec::new();
        }
        let mut reasons: Vec<(&str, Vec<&Node>)> = Vec::new();
        for node in
            tree.top_down().filter(|(id, _)| self.agents.contains(*id)).map(|(_, node)| node)
        {
            let reason = node.error.as_deref().unwrap_or("it gave no reason");
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, nodes)) => nodes.push(node),
                None => reasons.push((reason, vec![node])),
            }
        }
        let title = format!("{} failed:", count(self.agents.len(), "agent"));
        let mut lines = vec![Line::default().with(Style::Bad, title)];
        let mut left = AGENTS;
        for (reason, nodes) in reasons {
            if left == 0 {
                break;
            }
            lines.extend(nodes.iter().take(left).map(|node| name(node)));
            left = left.saturating_sub(nodes.len());
            lines.push(Line::default().with(Style::Plain, format!("    {reason}")));
        }
        if let more @ 1.. = self.agents.len().saturating_sub(AGENTS) {
            lines.push(Line::default().with(Style::Dim, format!("  and {more} more")));
        }
        lines
    }
}

/// An agent by its path in the tree, and its goal.
fn name(node: &Node) -> Line {
    let line =
        Line::default().with(Style::Bad, "  ✗ ").with(Style::Dim, format!("[{}] ", node.tag));
    line.with(Style::Plain, node.goal.clone())
}

#[cfg(test)]
mod tests {
    use deputize_core::{CallId, ExitReason, UserMessage};

    use super::*;
    use crate::fixture::{CALL, Tape, child, outcome, root, started};

    fn failed(agent: &AgentId, error: &str) -> Event {
        let mut outcome = outcome(agent, Status::Failed, ExitReason::Error);
        outcome.error = Some(error.to_owned());
        Event::AgentEnd(Box::new(outcome))
    }

    fn told(tape: &Tape) -> String {
        let (mut tree, mut failures) = (Tree::default(), Failures::default());
        for record in &tape.records {
            tree.apply(record);
            failures.apply(record);
        }
        let lines = failures.lines(&tree);
        lines.iter().map(|line| line.render(false)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn failed_agents_stand_by_their_path_with_their_whole_reason() {
        let mut tape = Tape::default();
        assert_eq!(told(&tape), "");
        let below = child(1).child(CallId { step: 2, slot: 0 }, 0);
        for (agent, goal) in [
            (root(), "All"),
            (child(0), "a"),
            (child(1), "b"),
            (child(2), "c"),
            (below.clone(), "d"),
        ] {
            tape.add(&agent, started(&agent, goal));
        }
        let long = format!("the provider said{} no", " no".repeat(200));
        tape.add(&child(2), failed(&child(2), "no such model"));
        tape.add(&below, failed(&below, &long));
        tape.add(&child(1), failed(&child(1), "no such model"));
        tape.add(&child(0), failed(&child(0), "it went on later"));
        tape.add(&child(0), started(&child(0), "a"));
        let end = crate::fixture::ended(&child(0), Status::Completed, ExitReason::Completed);
        tape.add(&child(0), end);
        tape.add(&root(), failed(&root(), "told elsewhere"));
        let expected = format!(
            "3 agents failed:\n  ✗ [2/3] b\n  ✗ [3/3] c\n    no such model\n  ✗ [2/3.1/3] d\n    {long}"
        );
        assert_eq!(told(&tape), expected);
        assert_eq!(CALL.step, 1, "the calls of the fixture");
    }

    #[test]
    fn those_of_an_earlier_task_of_the_session_are_left_out() {
        let mut tape = Tape::default();
        let message = || Event::Message(UserMessage { text: "All".to_owned(), from: None });
        tape.add(&root(), started(&root(), "All")).add(&root(), message());
        tape.add(&child(0), started(&child(0), "a")).add(&child(0), failed(&child(0), "no"));
        // A message while it works, and a resume that says nothing new, begin no other task.
        tape.add(&root(), message());
        let end = || crate::fixture::ended(&root(), Status::Interrupted, ExitReason::Interrupted);
        tape.add(&root(), end()).add(&root(), Event::AgentResume { max_iterations: 9 });
        assert_eq!(told(&tape), "1 agent failed:\n  ✗ [1/3] a\n    no");
        tape.add(&root(), end()).add(&root(), message());
        assert_eq!(told(&tape), "");
    }

    #[test]
    fn very_many_are_counted() {
        let mut tape = Tape::default();
        tape.add(&root(), started(&root(), "All"));
        for index in 0..60 {
            tape.add(&child(index), started(&child(index), "a"));
            tape.add(&child(index), failed(&child(index), &(index % 2).to_string()));
        }
        let told = told(&tape);
        assert!(
            told.starts_with("60 agents failed:\n") && told.ends_with("  and 10 more"),
            "{told}"
        );
        assert_eq!(told.lines().filter(|line| line.contains('✗')).count(), 50);
    }
}
