//! The agents of a stored session, as its records have them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::{
    AgentId, AgentSpec, AgentStart, CallId, CancelReason, Cost, Event, ExitReason, Extent, Fact,
    FailureKind, FileLedger, HookPoint, Message, ModelError, Outcome, Receipts, Record, Run,
    Status, TaskCost, TokenEstimator, ToolDecl, Usage,
};

use crate::ask::reply_bytes;
use crate::budget_ledger::Budgets;
use crate::cost_history::CostHistory;
use crate::parts::{Models, Parts};
use crate::session::Restored;
use crate::store::StoredSession;

/// An agent as the journal has it.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) spec: AgentSpec,
    pub(crate) declared: Vec<Arc<ToolDecl>>,
    pub(crate) run: Run,
    pub(crate) receipts: Receipts,
    /// What its own replies cost.
    pub(crate) cost: Cost,
    /// Attempts of requests that it sent.
    pub(crate) requests: u32,
    pub(crate) outcome: Option<Outcome>,
    /// The hooks that were told of that outcome, by name.
    pub(crate) told_hooks: Vec<String>,
    pub(crate) begun: bool,
    /// That it, or one above it, was told to end: it does not go on.
    pub(crate) stopped: Option<CancelReason>,
    /// How long it ran in earlier processes, at least.
    pub(crate) ran: Duration,
    /// The same of its calls that have no result.
    pub(crate) ran_before: BTreeMap<CallId, Duration>,
    /// Whether the end of the session is on record since.
    pub(crate) session_ended: bool,
    /// The request that has no end: it was under way when the program ended.
    asked: Option<Asked>,
    pub(crate) tokens: TokenEstimator,
    /// Where its shell is, if it left its beginning.
    pub(crate) shell: Option<PathBuf>,
    /// Messages that were left for it and that it had not read, in order.
    pub(crate) letters: VecDeque<String>,
    /// Calls that had started and have no result, with the tool and the arguments.
    pub(crate) started: BTreeMap<CallId, (String, String)>,
    /// Calls that started agents: they were accepted.
    pub(crate) accepted: BTreeSet<CallId>,
    /// What an external agent had said last, and whether what it says next is said anew.
    pub(crate) said: (String, bool),
    /// What had come of the last attempt that broke off.
    broken: String,
    /// What had come of replies that were cut, each before the message of this number.
    cuts: Vec<(usize, String)>,
}

/// A request that was sent.
#[derive(Debug)]
struct Asked {
    model: String,
    bytes: u64,
}

/// What a session that is taken up again brings along, from its records.
pub(crate) fn restored(records: &[Record], parts: &Parts) -> Restored {
    let texts = texts(records);
    let mut agents = fold(records, &texts);
    let RunTimes { agents: agent_times, calls: call_times } = run_times(records);
    for (id, ran) in agent_times {
        if let Some(stored) = agents.get_mut(&id) {
            stored.ran = ran;
        }
    }
    for ((id, call), ran) in call_times {
        if let Some(stored) = agents.get_mut(&id) {
            stored.ran_before.insert(call, ran);
        }
    }
    let mut spent = (Cost::default(), Cost::default());
    for agent in agents.values() {
        let mut cost = agent.cost;
        let lost = agent.lost(&parts.models, parts.budgets);
        cost += lost.map(|(_, cost)| cost).unwrap_or_default();
        spent.0 += cost;
        if agent.spec.depth > 0 {
            spent.1 += cost;
        }
    }
    Restored {
        next: records.len() as u64,
        agents,
        children_time: children_time(records),
        spent,
        cost_history: cost_history(records, parts.budgets),
        texts: texts.into_keys().collect::<BTreeSet<_>>(),
        files: ledger(records),
        play: None,
    }
}

/// What the replies and the completed tasks of a session cost, where a budget holds.
fn cost_history(records: &[Record], budgets: Budgets) -> CostHistory {
    let mut history = CostHistory::default();
    if !budgets.limit(true) {
        return history;
    }
    let mut asked: BTreeMap<&AgentId, (&str, u64)> = BTreeMap::new();
    for record in records {
        match &record.event {
            Event::ModelRequest { model, bytes, .. } => {
                asked.insert(&record.agent, (model, *bytes));
            }
            Event::ModelResponse { reply, estimated: false, .. } => {
                if let Some((model, bytes)) = asked.remove(&record.agent) {
                    history.replied((model, record.depth > 0), bytes, reply.usage.in_context());
                }
            }
            Event::AgentEnd(end) => {
                let spent = tree_cost(end);
                if let Some(parent) = record.parent.as_ref().filter(|_| spent.tokens > 0) {
                    let completed = is_completed(end.status, end.exit_reason);
                    // What was reserved for it is not on record.
                    history.ended(parent, TaskCost { spent, peak: spent, completed });
                }
            }
            _ => {}
        }
    }
    history
}

/// Whether a task was completed, so that its cost is that of a whole task.
pub(crate) fn is_completed(status: Status, reason: ExitReason) -> bool {
    status == Status::Completed && reason != ExitReason::Budget
}

/// What an agent and all below it cost.
pub(crate) fn tree_cost(end: &Outcome) -> Cost {
    let usage = end.tree_usage();
    Cost {
        tokens: usage.input.saturating_add(usage.output),
        usd: end.cost_usd.unwrap_or_default(),
        unpriced: end.cost_usd.is_none(),
    }
}

/// The time in which at least one child ran.
fn children_time(records: &[Record]) -> Duration {
    let mut running: BTreeSet<&AgentId> = BTreeSet::new();
    let (mut spent, mut before) = (0_u64, 0);
    for record in records {
        if let Event::SessionStart(_) = record.event {
            // What ran when a process ended did not run until the next one.
            running.clear();
        }
        if !running.is_empty() {
            // Clocks jump back, too.
            spent += record.at.saturating_sub(before);
        }
        before = record.at;
        match record.event {
            Event::AgentEnd(_) => _ = running.remove(&record.agent),
            Event::AgentStart(_) | Event::ModelRequest { .. } | Event::ToolStart { .. }
                if record.depth > 0 =>
            {
                running.insert(&record.agent);
            }
            _ => {}
        }
    }
    Duration::from_millis(spent)
}

/// How long agents and calls ran, as long as there were records of the process that they ran in.
#[derive(Default)]
struct RunTimes {
    /// Of each agent: of a child from its first message on, of the top agent in all its turns.
    agents: BTreeMap<AgentId, Duration>,
    /// Of each call without a result.
    calls: BTreeMap<(AgentId, CallId), Duration>,
}

fn run_times(records: &[Record]) -> RunTimes {
    let mut times = RunTimes::default();
    let mut running: BTreeSet<AgentId> = BTreeSet::new();
    let mut before = 0;
    for record in records {
        let agent = || record.agent.clone();
        if let Event::SessionStart(_) = record.event {
            // Nothing ran between two processes.
            before = record.at;
            running = BTreeSet::from([agent()]);
        }
        // Clocks jump back, too.
        let passed = Duration::from_millis(record.at.saturating_sub(before));
        before = record.at;
        for id in &running {
            *times.agents.entry(id.clone()).or_default() += passed;
        }
        for ran in times.calls.values_mut() {
            *ran += passed;
        }
        match &record.event {
            Event::AgentEnd(_) => _ = running.remove(&record.agent),
            Event::ToolEnd(end) => _ = times.calls.remove(&(agent(), end.result.call)),
            Event::ToolStart { call, .. } => {
                times.calls.entry((agent(), *call)).or_default();
                running.insert(agent());
            }
            Event::Message(_) | Event::ModelRequest { .. } => _ = running.insert(agent()),
            _ => {}
        }
    }
    times
}

/// The texts of the agents of a session, by hash.
fn texts(records: &[Record]) -> BTreeMap<String, Arc<str>> {
    let starts = records.iter().filter_map(|record| match &record.event {
        Event::AgentStart(start) => Some(&start.texts),
        _ => None,
    });
    starts.flatten().map(|(hash, text)| (hash.clone(), Arc::clone(text))).collect()
}

/// The agents of a session, each as the fold of its records.
fn fold(records: &[Record], texts: &BTreeMap<String, Arc<str>>) -> BTreeMap<AgentId, Stored> {
    let mut agents: BTreeMap<AgentId, Stored> = BTreeMap::new();
    for record in records {
        match &record.event {
            Event::AgentStart(start) => {
                let (parent, by) = (start.spec.parent.as_ref(), start.spec.spawned_by.as_ref());
                let parent = parent.and_then(|parent| agents.get_mut(parent));
                let stopped_above = parent.as_ref().and_then(|parent| parent.stopped);
                let stopped_above = stopped_above.map(CancelReason::below);
                if let (Some(parent), Some(by)) = (parent, by) {
                    parent.accepted.insert(by.call);
                }
                let mut new = stored(start, texts);
                new.stopped = stopped_above;
                agents.insert(record.agent.clone(), new);
            }
            Event::SessionStart(_) => {
                // Its person goes on with the top agent; those below it that were told to end were.
                if let Some(top) = agents.get_mut(&record.agent) {
                    top.stopped = None;
                }
            }
            Event::AgentStop { reason, pending: true } => stop(&mut agents, &record.agent, *reason),
            Event::Hook(run) if run.name == HookPoint::SubagentStop => {
                if let Some(child) = run.child.as_ref().and_then(|id| agents.get_mut(id)) {
                    child.told_hooks.push(run.by.clone());
                }
            }
            event => {
                if let Some(agent) = agents.get_mut(&record.agent) {
                    agent.take(event);
                }
            }
        }
    }
    agents
}

/// An agent was told to end, and with it those below it.
fn stop(agents: &mut BTreeMap<AgentId, Stored>, id: &AgentId, reason: CancelReason) {
    for (other, agent) in agents {
        if other == id {
            agent.stopped.get_or_insert(reason);
        } else if other.ancestors().any(|above| above == *id) {
            agent.stopped.get_or_insert(reason.below());
        }
    }
}

fn stored(start: &AgentStart, texts: &BTreeMap<String, Arc<str>>) -> Stored {
    let mut spec = start.spec.clone();
    spec.system = start.system.iter().filter_map(|hash| texts.get(hash)).cloned().collect();
    let tools = texts.get(&start.tools).and_then(|text| serde_json::from_str(text).ok());
    let tools: Vec<ToolDecl> = tools.unwrap_or_default();
    Stored {
        run: Run::of(&spec),
        spec,
        declared: tools.into_iter().map(Arc::new).collect(),
        receipts: Receipts::default(),
        cost: Cost::default(),
        requests: 0,
        outcome: None,
        told_hooks: Vec::new(),
        begun: false,
        stopped: None,
        ran: Duration::ZERO,
        ran_before: BTreeMap::new(),
        session_ended: false,
        asked: None,
        tokens: TokenEstimator::default(),
        shell: None,
        letters: VecDeque::new(),
        started: BTreeMap::new(),
        accepted: BTreeSet::new(),
        said: (String::new(), false),
        broken: String::new(),
        cuts: Vec::new(),
    }
}

impl Stored {
    /// What a request took that was under way when the program ended, and how it is told. It had
    /// been sent, so that its tokens are those of its text; what had come of a reply nobody knows.
    pub(crate) fn lost(&self, models: &Models, budgets: Budgets) -> Option<(ModelError, Cost)> {
        let asked = self.asked.as_ref()?;
        let route = models.route(&asked.model);
        let by_rule = route.is_some_and(|route| !route.model.takes_tokens());
        if by_rule && !budgets.limit(self.spec.depth > 0) {
            return None;
        }
        let usage = Usage { input: self.tokens.guess(asked.bytes), ..Usage::default() };
        let message = "the program ended while this request was under way: what it took is \
                       estimated";
        let error = ModelError {
            usage: Some(Box::new(usage)),
            estimated: true,
            ..ModelError::new(FailureKind::Incomplete, message)
        };
        Some((error, Cost::of(usage, route.and_then(|route| route.price))))
    }

    /// An attempt failed; another one follows or does not.
    fn broke(&mut self, error: &ModelError, retried: bool) {
        self.asked = None;
        if !error.partial.trim().is_empty() {
            self.broken.clone_from(&error.partial);
        }
        if !retried && !self.broken.is_empty() {
            let text = std::mem::take(&mut self.broken);
            self.cuts.push((self.run.messages().len(), text));
        }
    }

    fn take_facts(&mut self, facts: &[Fact]) {
        for fact in facts {
            self.receipts.add(fact);
            if let Fact::ShellMoved { path } = fact {
                self.shell = Some(path.clone());
            }
        }
    }

    pub(crate) fn take(&mut self, event: &Event) {
        match event {
            Event::ToolStart { call, tool, arguments } => {
                self.started.insert(*call, (tool.clone(), arguments.clone()));
                self.said.1 = true;
            }
            // What follows is said anew.
            Event::AnswerRejected { .. } | Event::AgentWrapUp { .. } => self.said.1 = true,
            Event::ExternalText { text } => {
                if std::mem::take(&mut self.said.1) {
                    self.said.0.clear();
                }
                self.said.0.push_str(text);
            }
            Event::ToolEnd(end) => self.take_facts(&end.facts),
            Event::AgentEnd(outcome) => {
                self.asked = None;
                self.outcome = Some((**outcome).clone());
            }
            Event::ModelResponse { reply, cost_usd, .. } => {
                self.broken.clear();
                if let Some(asked) = self.asked.take().filter(|_| reply.usage.input > 0) {
                    self.tokens.replied(asked.bytes, reply_bytes(reply), reply.usage.in_context());
                }
                self.cost += Cost {
                    tokens: reply.usage.input.saturating_add(reply.usage.output),
                    usd: cost_usd.unwrap_or_default(),
                    unpriced: cost_usd.is_none(),
                };
            }
            Event::ModelRequest { model, bytes, .. } => {
                self.asked = Some(Asked { model: model.clone(), bytes: *bytes });
                self.requests = self.requests.saturating_add(1);
            }
            Event::ModelError { error, retried, cost } => {
                self.cost += cost.unwrap_or_default();
                self.broke(error, *retried);
            }
            Event::MessageLeft { text } => self.letters.push_back(text.clone()),
            Event::Message(message) => {
                // It reads them in the order they were left.
                let is_left = |left: &&String| message.from.is_none() && **left == message.text;
                if self.letters.front().filter(is_left).is_some() {
                    self.letters.pop_front();
                }
                self.begun = true;
                self.outcome = None;
                self.told_hooks.clear();
                self.session_ended = false;
            }
            Event::AgentResume { .. } => {
                self.outcome = None;
                self.told_hooks.clear();
                self.session_ended = false;
            }
            Event::SessionEnd { .. } => self.session_ended = true,
            _ => {}
        }
        if let Some(input) = event.input() {
            self.run.apply(input);
        }
    }
}

fn ledger(records: &[Record]) -> FileLedger {
    let files = FileLedger::default();
    for record in records {
        match &record.event {
            // A call that did not end runs again, so that what it read counts when it ended.
            Event::ToolEnd(end) => end.facts.iter().for_each(|fact| {
                if let Fact::FileRead { path, version, whole } = fact {
                    let extent = if *whole { Extent::Whole } else { Extent::Part };
                    files.saw_extent(&record.agent, path, version.clone(), extent);
                }
            }),
            Event::FileWrite { path, version, created: false } => {
                files.wrote(&record.agent, path, version.clone());
            }
            Event::FileWrite { path, version, created: true } => {
                files.created(&record.agent, path, version.clone());
            }
            Event::AgentEnd(_) if record.depth > 0 => files.ended(&record.agent),
            _ => {}
        }
    }
    files
}

/// What was said in a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// A message, as the model saw it.
    Message(Arc<Message>),
    /// What had come of a reply that was cut or broke off. No model reads it.
    Cut(String),
}

impl StoredSession {
    /// The conversation of an agent, as its model saw it after the system text.
    #[must_use]
    pub fn messages(&self, agent: &AgentId) -> Option<Vec<Arc<Message>>> {
        let agents = fold(&self.records, &self.texts());
        agents.get(agent).map(|stored| stored.run.messages().to_vec())
    }

    /// The conversation of an agent after the system text, with what had come of replies that were
    /// cut, where they were.
    #[must_use]
    pub fn said(&self, agent: &AgentId) -> Option<Vec<Said>> {
        let agents = fold(&self.records, &self.texts());
        let stored = agents.get(agent)?;
        let mut cuts = stored.cuts.iter().peekable();
        let mut said = Vec::new();
        for (at, message) in stored.run.messages().iter().enumerate() {
            while let Some((_, text)) = cuts.next_if(|(before, _)| *before <= at) {
                said.push(Said::Cut(text.clone()));
            }
            said.push(Said::Message(Arc::clone(message)));
        }
        said.extend(cuts.map(|(_, text)| Said::Cut(text.clone())));
        Some(said)
    }

    /// The top agent's spec, with its texts.
    #[must_use]
    pub fn root_spec(&self) -> Option<AgentSpec> {
        let texts = self.texts();
        let root = AgentId::root(&self.header.session);
        self.records.iter().find_map(|record| match &record.event {
            Event::AgentStart(start) if record.agent == root => Some(stored(start, &texts).spec),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deputize_core::{CallStatus, ModelText, SessionId, Stale, ToolEnd, ToolResult, Version};

    #[test]
    fn what_was_read_in_part_is_known_in_part_after_a_resume() {
        let agent = AgentId::root(&SessionId::literal("s"));
        let (path, version) = (PathBuf::from("/w/f"), Version::of(b"x"));
        let read = |whole| {
            let call = CallId { step: 1, slot: 0 };
            let (status, text) = (CallStatus::Ok, ModelText::own(""));
            let (path, version) = (path.clone(), version.clone());
            Event::ToolEnd(Box::new(ToolEnd {
                tool: "read_file".to_owned(),
                result: ToolResult { call, status, text, fingerprint: String::new() },
                args_bytes: 0,
                ms: 0,
                facts: vec![Fact::FileRead { path, version, whole }],
                display: None,
                error: None,
                boundary: None,
            }))
        };
        let record =
            |event| Record { seq: 0, at: 0, agent: agent.clone(), parent: None, depth: 0, event };
        let files = ledger(&[record(read(false))]);
        assert_eq!(files.check(&agent, &path, &version), Ok(()));
        let partly = Err(Stale::Partly { lines: None });
        assert_eq!(files.check_whole(&agent, &path, &version), partly);
        let files = ledger(&[record(read(false)), record(read(true))]);
        assert_eq!(files.check_whole(&agent, &path, &version), Ok(()));
    }
}
