//! A session as it stands: its agents as a tree, folded from its records.
//!
//! Everything that shows a session reads a [`SessionSnapshot`] instead of its records. The fold is
//! pure: a session that runs and its file give the same snapshot. What it keeps of an agent does not
//! grow with what the agent does, except for the calls that run at the moment.

mod agent;
mod calls;
mod changes;
mod observer;
#[cfg(test)]
mod tests;
mod totals;

use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::event::{AgentStart, ToolEnd};
use deputize_core::message::UserMessage;
use deputize_core::sanitize::for_terminal_line;
use deputize_core::{AgentId, CallId, Catalog, Event, Outcome, Record, Status, ToolEffect};

use indexmap::IndexMap;

pub use agent::{AgentExit, AgentSnapshot, AgentTimes, AgentUsage, AgentWork, Stall};
pub use calls::{AgentCalls, CallApproval, CallBlock, CallDecision, EndedCall, RunningCall};
pub use changes::{
    ChangedFile, CommandExit, CommandRecord, CommandTotals, LineCount, RunChanges, UnseenFiles,
};
pub use observer::SnapshotObserver;
pub use totals::TreeTotals;

/// Maximum number of characters that are kept of what a running call says of itself.
const PROGRESS_CHARS: usize = 300;

/// A session as it stands.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use deputize_core::{Authority, Cancel, Catalog, SessionId, Status};
/// use deputize_core::agent::AgentActivity;
/// use deputize_core::authority::Grant;
/// use deputize_core::model::Reply;
/// use deputize_runtime::{Session, SessionConfig, SessionDir, SnapshotObserver};
/// use deputize_testkit::ScriptedModel;
///
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// let mut config = SessionConfig::new(Catalog::default());
/// let model = ScriptedModel::turns([Reply::text("m", "Good day.")]);
/// config.models.insert("scripted/m", "m", Arc::new(model));
/// let observer = SnapshotObserver::default();
/// config.observers.push(Arc::new(observer.clone()));
/// let session = Session::create(&SessionDir::new(folder), SessionId::literal("s1"), config)?;
/// let spec = session.top_agent("scripted/m", "Say good day.", folder);
/// let authority = Authority::root(session.catalog(), &Grant::default());
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// runtime.block_on(session.run(spec, authority, &Cancel::new()));
///
/// // At any time, also while it runs:
/// let snapshot = observer.read();
/// let top = snapshot.top().ok_or("no agent has started")?;
/// assert_eq!((top.goal.as_str(), top.usage.replies), ("Say good day.", 1));
/// assert_eq!(top.activity(), AgentActivity::Ended(Status::Completed));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
pub struct SessionSnapshot {
    tools: Arc<Catalog>,
    keeps_outcomes: bool,
    /// In boxes: there may be many, and the map grows by doubling.
    agents: IndexMap<AgentId, Box<AgentSnapshot>>,
    /// The children of each agent, in the order they started.
    children: IndexMap<AgentId, Vec<AgentId>>,
    /// Agents whose parent has not started, in the order they started.
    roots: Vec<AgentId>,
    unstarted: Vec<UnstartedTask>,
    changes: RunChanges,
    turn: CurrentTurn,
    run: LatestRun,
}

/// The person's last request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct CurrentTurn {
    /// Number of the turn, from 0.
    number: u32,
    is_over: bool,
    /// The first message of the top agent, until it is on record.
    opening: Option<String>,
    /// The last message of the person after the first one.
    message: Option<String>,
    /// The messages about ends of background commands that the top agent has not read.
    notices: Vec<String>,
}

/// The session's latest run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct LatestRun {
    end: Option<Status>,
    paused_by: Option<String>,
    last_record_at: u64,
}

/// A task for which no agent started.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnstartedTask {
    /// The ID that its agent would have.
    pub agent: AgentId,
    /// The agent that set it.
    pub parent: AgentId,
    /// Index of the task in its call, from 0.
    pub index: u32,
    /// Number of tasks in its call.
    pub count: usize,
    /// The task, on one line.
    pub goal: String,
    /// The model that was to be used.
    pub model: String,
    /// Status of the failed start.
    pub status: Status,
    /// The error, as text.
    pub error: String,
    /// Number of the top agent's turn, from 0.
    pub turn: u32,
}

impl SessionSnapshot {
    /// Returns a snapshot without agents. Calls of these tools are described by what the tools say
    /// of themselves, calls of others by their arguments.
    #[must_use]
    pub fn new(tools: Arc<Catalog>) -> Self {
        Self { tools, ..Self::default() }
    }

    /// Also keeps the whole outcome of each agent, in [`AgentExit::outcome`].
    #[must_use]
    pub fn keep_outcomes(self) -> Self {
        Self { keeps_outcomes: true, ..self }
    }

    /// Folds the records of a session.
    #[must_use]
    pub fn of<'r>(tools: Arc<Catalog>, records: impl IntoIterator<Item = &'r Record>) -> Self {
        let mut snapshot = Self::new(tools);
        records.into_iter().for_each(|record| snapshot.apply(record));
        snapshot
    }

    /// Applies a record. Records of agents whose start is not known change nothing.
    pub fn apply(&mut self, record: &Record) {
        match &record.event {
            Event::SessionStart(_) => self.begin_run(record.at),
            Event::SessionEnd { status, .. } => self.run.end = Some(*status),
            Event::SpawnPaused { by, paused } => {
                self.run.paused_by = paused.then(|| by.clone());
            }
            Event::AgentStart(start) => self.start_agent(record, start),
            Event::Message(message) if record.depth == 0 => self.turn.apply_message(message),
            Event::ToolEnd(end) => self.apply_effects(&record.agent, end),
            Event::ProcessEnd(end) => {
                self.changes.add_process(end);
                let notice = end.message.as_ref().filter(|_| record.depth == 0);
                self.turn.notices.extend(notice.cloned());
            }
            Event::AgentEnd(outcome) => self.end_agent(record, outcome),
            _ => {}
        }
        if let Some(agent) = self.agents.get_mut(&record.agent) {
            if let Event::AgentResume { task: Some(_), .. } = record.event {
                agent.leave_out_rest(record.at);
            }
            agent.apply(&record.event, &self.tools);
        }
        self.run.last_record_at = record.at;
    }

    /// Sets what a running call says of itself, which is not on record.
    pub fn set_progress(&mut self, agent: &AgentId, call: CallId, text: &str) {
        let call = self.agents.get_mut(agent).and_then(|agent| agent.calls.running_mut(call));
        if let Some(call) = call {
            call.progress = Some(for_terminal_line(text, PROGRESS_CHARS));
        }
    }

    fn begin_run(&mut self, at: u64) {
        let down = at.saturating_sub(self.run.last_record_at);
        self.agents.values_mut().for_each(|agent| agent.begin_run(down));
        self.changes = RunChanges::default();
        self.run.end = None;
        self.run.paused_by = None;
    }

    fn start_agent(&mut self, record: &Record, start: &AgentStart) {
        let mut agent = AgentSnapshot::new(record.at, &start.spec);
        if let Some(known) = self.agents.get(&agent.id) {
            agent.parent.clone_from(&known.parent);
        }
        if agent.depth == 0 {
            self.turn.opening = Some(start.spec.task.clone());
        }
        let id = agent.id.clone();
        let parent = agent.parent.clone();
        self.unstarted.retain(|task| task.agent != id);
        if self.agents.insert(id.clone(), Box::new(agent)).is_some() {
            return;
        }
        self.roots.retain(|root| {
            self.agents.get(root).and_then(|root| root.parent.as_ref()) != Some(&id)
        });
        match parent {
            Some(parent) if parent != id => {
                if !self.agents.contains_key(&parent) {
                    self.roots.push(id.clone());
                }
                self.children.entry(parent).or_default().push(id);
            }
            _ => self.roots.push(id),
        }
    }

    fn end_agent(&mut self, record: &Record, outcome: &Outcome) {
        self.turn.is_over |= record.depth == 0;
        self.changes.add_outcome(outcome);
        if let Some(agent) = self.agents.get_mut(&record.agent) {
            let kept = self.keeps_outcomes.then(|| Box::new(outcome.clone()));
            agent.end(AgentExit {
                outcome: kept,
                ..AgentExit::new(record.at, self.turn.number, outcome)
            });
        }
    }

    fn apply_effects(&mut self, agent: &AgentId, end: &ToolEnd) {
        self.changes.add_call(agent, end);
        let call = self.agents.get(agent).and_then(|agent| agent.calls.running(end.result.call));
        let goals = call.map(|call| call.task_goals.as_slice()).unwrap_or_default();
        for fact in &end.facts {
            let ToolEffect::NotBegun { agent: id, task_index, model, status, error } = fact else {
                continue;
            };
            let is_known = |task: &UnstartedTask| task.agent == *id;
            if self.agents.contains_key(id) || self.unstarted.iter().any(is_known) {
                continue;
            }
            let goal = usize::try_from(*task_index).ok().and_then(|index| goals.get(index));
            self.unstarted.push(UnstartedTask {
                agent: id.clone(),
                parent: agent.clone(),
                index: *task_index,
                count: goals.len(),
                goal: goal.cloned().unwrap_or_default(),
                model: model.clone(),
                status: *status,
                error: error.clone(),
                turn: self.turn.number,
            });
        }
    }

    /// Returns the first agent whose parent has not started: the top agent, if its start is on
    /// record.
    #[must_use]
    pub fn top(&self) -> Option<&AgentSnapshot> {
        self.roots.first().and_then(|id| self.agent(id))
    }

    /// Returns an agent that has started.
    #[must_use]
    pub fn agent(&self, id: &AgentId) -> Option<&AgentSnapshot> {
        self.agents.get(id).map(|agent| &**agent)
    }

    /// Returns the agents, each before its children.
    pub fn agents(&self) -> impl Iterator<Item = &AgentSnapshot> {
        let mut open: Vec<&AgentId> = self.roots.iter().rev().collect();
        std::iter::from_fn(move || {
            let agent = self.agent(open.pop()?)?;
            open.extend(self.children(&agent.id).iter().rev());
            Some(agent)
        })
    }

    /// Returns the children of an agent, in the order they started.
    #[must_use]
    pub fn children(&self, id: &AgentId) -> &[AgentId] {
        self.children.get(id).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the tasks for which no agent started, in the order of their calls' ends.
    #[must_use]
    pub fn unstarted_tasks(&self) -> &[UnstartedTask] {
        &self.unstarted
    }

    /// Returns an agent's way down the tree, such as `2/3.1/2`: which task of how many of one call,
    /// at each level. Empty for the top agent.
    #[must_use]
    pub fn task_path(&self, id: &AgentId) -> String {
        let mut path = Vec::new();
        let mut next = self.agent(id);
        while let Some(agent) = next {
            path.extend(agent.task_position());
            let parent = agent.parent.as_ref().and_then(|parent| self.agent(parent));
            // Whatever a file says, the way up ends.
            next = parent.filter(|parent| parent.depth < agent.depth);
        }
        path.reverse();
        path.join(".")
    }

    /// Returns whether any agent has not ended.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.agents.values().any(|agent| agent.exit.is_none())
    }

    /// Returns how the session's latest run ended; `None` while it runs or if it broke off.
    #[must_use]
    pub const fn end(&self) -> Option<Status> {
        self.run.end
    }

    /// Returns who paused spawning, if it is paused.
    #[must_use]
    pub fn paused_by(&self) -> Option<&str> {
        self.run.paused_by.as_deref()
    }

    /// Returns the time of the last record, in milliseconds of Unix time.
    #[must_use]
    pub const fn last_record_at(&self) -> u64 {
        self.run.last_record_at
    }

    /// Returns the number of the top agent's turn, from 0. A message of the person after the end of
    /// a turn begins the next one.
    #[must_use]
    pub const fn turn(&self) -> u32 {
        self.turn.number
    }

    /// Returns the last message of the person; `None` if it is the first one, which the goal of the
    /// top agent describes.
    #[must_use]
    pub fn latest_message(&self) -> Option<&str> {
        self.turn.message.as_deref()
    }

    /// Returns what the latest run of the session changed.
    #[must_use]
    pub const fn changes(&self) -> &RunChanges {
        &self.changes
    }

    /// Returns how many calls were denied.
    #[must_use]
    pub fn denied_calls(&self) -> usize {
        self.agents.values().map(|agent| agent.calls.denied).sum()
    }

    /// Returns the totals of all agents.
    #[must_use]
    pub fn totals(&self) -> TreeTotals {
        self.agents.values().map(|agent| agent.totals()).sum()
    }

    /// Returns the totals of each agent with its descendants.
    #[must_use]
    pub fn subtree_totals(&self) -> BTreeMap<&AgentId, TreeTotals> {
        let mut totals: BTreeMap<&AgentId, TreeTotals> = BTreeMap::new();
        let top_down: Vec<&AgentSnapshot> = self.agents().collect();
        for agent in top_down.into_iter().rev() {
            let below = self.children(&agent.id).iter().filter_map(|child| totals.get(child));
            let all = below.copied().fold(agent.totals(), |all, one| all + one);
            totals.insert(&agent.id, all);
        }
        totals
    }

    /// Returns a snapshot without agents, with the same settings.
    pub(crate) fn emptied(&self) -> Self {
        let tools = Arc::clone(&self.tools);
        let keeps_outcomes = self.keeps_outcomes;
        Self { tools, keeps_outcomes, ..Self::default() }
    }
}

impl CurrentTurn {
    fn apply_message(&mut self, message: &UserMessage) {
        let notice = self.notices.iter().position(|notice| *notice == message.text);
        if let Some(read) = notice {
            self.notices.remove(read);
        }
        if message.from.is_some() || notice.is_some() {
            return;
        }
        if std::mem::take(&mut self.is_over) {
            self.number = self.number.saturating_add(1);
        }
        if self.opening.take().is_none_or(|opening| opening != message.text) {
            self.message = Some(message.text.clone());
        }
    }
}
