//! The agents of a session as a tree: a fold over the records, and what is known of each.

use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::budget::Cost;
use deputize_core::event::AgentStart;
use deputize_core::model::{Reply, Usage};
use deputize_core::outcome::ExitReason;
use deputize_core::sanitize::for_terminal_line;
use deputize_core::{AgentId, CallId, Catalog, Event, Outcome, Record, Status};

use super::call::of_call;
use super::summary::as_is;
use crate::task::attachment::words_of;

/// The most characters that are kept of a goal.
const GOAL_CHARS: usize = 200;
/// The most characters of what a running call tells of itself.
const PROGRESS_CHARS: usize = 120;

/// All agents of a session.
#[derive(Debug, Default)]
pub(crate) struct ScreenTree {
    tools: Arc<Catalog>,
    agents: BTreeMap<AgentId, TreeNode>,
    top: Option<AgentId>,
}

/// One agent.
#[derive(Debug)]
pub(crate) struct TreeNode {
    /// What it is to do: one clean line.
    pub(crate) goal: String,
    /// Its first message, until it came, where that is more than the goal.
    opened: Option<String>,
    /// `2/3` of a child, `2/3.1/2` of its child: which of how many tasks of one call, from 1.
    /// Empty for the top agent.
    pub(crate) tag: String,
    /// How it ended, if it has.
    pub(crate) ended: Option<Status>,
    /// Why it did not complete, whole, on one line.
    pub(crate) error: Option<String>,
    /// Why it ended, if it has.
    pub(crate) exit_reason: Option<ExitReason>,
    /// See [`Outcome::cause`].
    pub(crate) cause: Option<String>,
    /// What it does now.
    pub(crate) doing: NodeActivity,
    /// Model replies.
    pub(crate) steps: u32,
    /// Its own tokens.
    pub(crate) usage: Usage,
    /// What its own replies cost.
    pub(crate) cost: Cost,
    /// When it began, in milliseconds since 1970.
    pub(crate) started: u64,
    /// When it ended.
    pub(crate) finished: u64,
    /// Its children, in the order they were started.
    pub(crate) children: Vec<AgentId>,
    calls: BTreeMap<CallId, String>,
    /// What running calls told last of themselves.
    progress: BTreeMap<CallId, String>,
}

/// What an agent does now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodeActivity {
    /// Not begun.
    Starting,
    /// Waits for the model.
    Model,
    /// Waits before it asks the model again.
    Retry { attempt: u32, of: u32 },
    /// Runs a call, in words.
    Call(String),
    /// Waits for a person's answer.
    Question(String),
    /// Waits for children that run in the background.
    Resting,
    /// Nothing has come of it for too long; in which tool, if in one.
    Stalled(Option<String>),
    /// Has been told to end.
    Stopping,
}

impl ScreenTree {
    /// Returns a tree without agents, of a session with these tools.
    pub(crate) fn new(tools: Arc<Catalog>) -> Self {
        Self { tools, ..Self::default() }
    }

    /// Takes a record.
    pub(crate) fn apply(&mut self, record: &Record) {
        if let Event::AgentStart(start) = &record.event {
            self.start(record, start);
            return;
        }
        let Some(node) = self.agents.get_mut(&record.agent) else { return };
        match &record.event {
            Event::ModelRequest { .. } => node.doing = NodeActivity::Model,
            Event::ModelRetry { attempt, of, .. } => {
                node.doing = NodeActivity::Retry { attempt: *attempt, of: *of };
            }
            Event::ModelResponse { reply, cost_usd, .. } => node.replied(reply, *cost_usd),
            Event::ModelError { error, cost, .. } => {
                node.usage += error.usage.as_deref().copied().unwrap_or_default();
                node.cost += cost.unwrap_or_default();
            }
            Event::ToolStart { call, tool, arguments } => {
                node.calls.insert(*call, of_call(&self.tools, tool, arguments));
                node.doing = node.call();
            }
            Event::ToolEnd(end) => {
                node.calls.remove(&end.result.call);
                node.progress.remove(&end.result.call);
                node.doing = node.call();
            }
            Event::ApprovalRequest { command, .. } => {
                node.doing = NodeActivity::Question(as_is(command, GOAL_CHARS));
            }
            Event::ApprovalDecision { .. } => node.doing = node.call(),
            Event::AgentWrapUp { .. } | Event::AgentStop { .. } => {
                node.doing = NodeActivity::Stopping
            }
            Event::AgentRest => node.doing = NodeActivity::Resting,
            Event::AgentHeartbeat { current_tool, stalled: true, .. } => {
                node.doing = NodeActivity::Stalled(current_tool.clone());
            }
            Event::AgentResume { .. } => node.ended = None,
            Event::AgentEnd(outcome) => node.end(record.at, outcome),
            // A later message of the person is what it is about now.
            Event::Message(message) if record.depth == 0 && message.from.is_none() => {
                // Of the first one the goal tells; the host may have put more before it.
                if node.opened.take().is_some_and(|first| first == message.text) {
                    return;
                }
                node.goal = for_terminal_line(words_of(&message.text), GOAL_CHARS);
            }
            Event::SessionStart(_)
            | Event::AgentStart(_)
            | Event::Message(_)
            | Event::MessageLeft { .. }
            | Event::ExternalText { .. }
            | Event::FileRead { .. }
            | Event::FileWrite { .. }
            | Event::AnswerRejected { .. }
            | Event::AgentHeartbeat { .. }
            | Event::SpawnPaused { .. }
            | Event::Hook(_)
            | Event::Log { .. }
            | Event::SessionEnd { .. } => {}
        }
    }

    fn start(&mut self, record: &Record, start: &AgentStart) {
        let spec = &start.spec;
        let node = TreeNode {
            goal: for_terminal_line(&spec.goal, GOAL_CHARS),
            opened: (spec.task != spec.request()).then(|| spec.task.clone()),
            tag: self.tag(record.parent.as_ref(), start),
            ended: None,
            error: None,
            exit_reason: None,
            cause: None,
            doing: NodeActivity::Starting,
            steps: 0,
            usage: Usage::default(),
            cost: Cost::default(),
            started: record.at,
            finished: 0,
            children: Vec::new(),
            calls: BTreeMap::new(),
            progress: BTreeMap::new(),
        };
        if self.agents.insert(record.agent.clone(), node).is_some() {
            return;
        }
        match record.parent.as_ref().and_then(|parent| self.agents.get_mut(parent)) {
            Some(parent) => parent.children.push(record.agent.clone()),
            None if self.top.is_none() => self.top = Some(record.agent.clone()),
            None => {}
        }
    }

    fn tag(&self, parent: Option<&AgentId>, start: &AgentStart) -> String {
        let above = parent.and_then(|parent| self.agents.get(parent)).map(|node| node.tag.as_str());
        let own = start.spec.spawned_by.as_ref();
        let own = own.map(|by| format!("{}/{}", by.task_index.saturating_add(1), by.task_count));
        match (above, own) {
            (Some(above), Some(own)) if !above.is_empty() => format!("{above}.{own}"),
            (_, own) => own.unwrap_or_default(),
        }
    }

    /// Takes what a running call tells of itself.
    pub(super) fn progress(&mut self, agent: &AgentId, call: CallId, text: &str) {
        let Some(node) = self.agents.get_mut(agent) else { return };
        if node.calls.contains_key(&call) {
            node.progress.insert(call, for_terminal_line(text, PROGRESS_CHARS));
            if matches!(node.doing, NodeActivity::Call(_)) {
                node.doing = node.call();
            }
        }
    }

    /// The top agent.
    pub(crate) fn top(&self) -> Option<&AgentId> {
        self.top.as_ref()
    }

    /// An agent.
    pub(crate) fn get(&self, id: &AgentId) -> Option<&TreeNode> {
        self.agents.get(id)
    }

    /// All agents, each before its children.
    pub(crate) fn top_down(&self) -> impl Iterator<Item = (&AgentId, &TreeNode)> {
        let mut open: Vec<&AgentId> = self.top.iter().collect();
        std::iter::from_fn(move || {
            let (id, node) = self.agents.get_key_value(open.pop()?)?;
            open.extend(node.children.iter().rev());
            Some((id, node))
        })
    }

    /// Whether any agent has not ended.
    pub(crate) fn is_running(&self) -> bool {
        self.agents.values().any(|node| node.ended.is_none())
    }
}

/// What a reply cost; nothing of dollars: its price is not known.
pub(crate) fn priced(usage: Usage, usd: Option<f64>) -> Cost {
    let tokens = usage.input.saturating_add(usage.output);
    Cost { tokens, usd: usd.unwrap_or_default(), unpriced: usd.is_none() }
}

impl TreeNode {
    fn replied(&mut self, reply: &Reply, usd: Option<f64>) {
        self.steps += 1;
        self.usage += reply.usage;
        self.cost += priced(reply.usage, usd);
    }

    /// The call that has run longest, or the model.
    fn call(&self) -> NodeActivity {
        let more = self.calls.len().saturating_sub(1);
        let Some((id, call)) = self.calls.first_key_value() else { return NodeActivity::Model };
        let mut text = call.clone();
        if let Some(progress) = self.progress.get(id) {
            text = format!("{text}: {progress}");
        }
        if more > 0 {
            text = format!("{text} (+{more})");
        }
        NodeActivity::Call(text)
    }

    fn end(&mut self, at: u64, outcome: &Outcome) {
        // What it cost nobody here knows.
        self.cost.unpriced |= outcome.external;
        self.ended = Some(outcome.status);
        self.exit_reason = Some(outcome.exit_reason);
        self.cause = outcome.cause.as_deref().map(|cause| for_terminal_line(cause, cause.len()));
        self.error = outcome.error.as_deref().map(|error| for_terminal_line(error, error.len()));
        self.finished = at;
        self.calls.clear();
        self.progress.clear();
    }

    /// How long it has run, in milliseconds.
    pub(crate) const fn elapsed(&self, now: u64) -> u64 {
        let until = if self.ended.is_some() { self.finished } else { now };
        until.saturating_sub(self.started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{CALL, TestWriter, called, returned, root, started, tools};

    #[test]
    fn what_a_call_tells_stands_behind_it_until_its_end() {
        let mut tape = TestWriter::default();
        tape.add(&root(), started(&root(), "Count."));
        tape.add(&root(), called(CALL, "count", "{}"));
        let mut tree = ScreenTree::new(tools());
        tape.records.iter().for_each(|record| tree.apply(record));
        let doing = |tree: &ScreenTree| tree.get(&root()).unwrap().doing.clone();
        let NodeActivity::Call(before) = doing(&tree) else { panic!() };
        tree.progress(&root(), CALL, "one\u{1b}[2J");
        tree.progress(&root(), CALL, "two\nlines");
        assert_eq!(doing(&tree), NodeActivity::Call(format!("{before}: two lines")));
        // Another call has told nothing, and one that has ended tells nothing more.
        let other = CallId { step: 1, slot: 1 };
        tree.progress(&root(), other, "x");
        tape.add(
            &root(),
            returned(CALL, "count", deputize_core::message::CallStatus::Ok, "2", Vec::new()),
        );
        tree.apply(tape.records.last().unwrap());
        tree.progress(&root(), CALL, "three");
        assert_eq!(doing(&tree), NodeActivity::Model);
    }
}
