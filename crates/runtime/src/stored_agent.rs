//! The agents of a stored session, as its records have them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use deputize_core::agent::AgentSpec;
use deputize_core::budget::{Cost, TaskCost};
use deputize_core::file_state::{FileLedger, ReadRange};
use deputize_core::model::{FailureKind, ModelError, Usage};
use deputize_core::outcome::ExitReason;
use deputize_core::{AgentId, CallId, Event, Outcome, Record, Status, ToolDecl, ToolEffect};

use crate::agent_states::{AgentStates, SharedState};
use crate::budget_ledger::SessionCosts;
use crate::budgets::Budgets;
use crate::cost_history::{CostHistory, RouteKey};
use crate::models::Models;
use crate::recording::Playback;
use crate::session_config::SessionConfig;
use crate::stored_spec::stored_spec;

/// An agent of the journal that nobody has attached to yet.
#[derive(Debug)]
pub(crate) struct StoredAgent {
    pub(crate) spec: AgentSpec,
    pub(crate) declared: Vec<Arc<ToolDecl>>,
    pub(crate) state: SharedState,
    pub(crate) earlier: EarlierTime,
}

/// Minimum running time of an agent and its open calls in earlier processes.
#[derive(Debug, Default)]
pub(crate) struct EarlierTime {
    pub(crate) agent: Duration,
    pub(crate) calls: BTreeMap<CallId, Duration>,
}

/// State of a session that is resumed.
#[derive(Default)]
pub(crate) struct RestoredSession {
    pub(crate) next: u64,
    pub(crate) texts: BTreeSet<String>,
    pub(crate) files: FileLedger,
    pub(crate) states: Arc<AgentStates>,
    pub(crate) agents: BTreeMap<AgentId, StoredAgent>,
    pub(crate) spent: SessionCosts,
    /// Cost of replies and completed tasks.
    pub(crate) cost_history: CostHistory,
    /// The time in which at least one child ran.
    pub(crate) children_time: Duration,
    pub(crate) play: Option<Arc<Playback>>,
}

/// Returns the state of a resumed session, from its records.
pub(crate) fn restored(records: &[Record], parts: &SessionConfig) -> RestoredSession {
    let texts = texts(records);
    let states = AgentStates::of(records);
    let agents = stored_agents(records, &texts, &states);
    let mut spent = SessionCosts::default();
    for agent in agents.values() {
        let mut cost = agent.state.read().cost();
        let lost = agent.lost_request(&parts.models, parts.budgets);
        cost += lost.map(|(_, cost)| cost).unwrap_or_default();
        spent.all += cost;
        if agent.spec.depth > 0 {
            spent.by_children += cost;
        }
    }
    RestoredSession {
        next: records.len() as u64,
        states: Arc::new(states),
        agents,
        children_time: children_time(records),
        spent,
        cost_history: cost_history(records, parts.budgets),
        texts: texts.into_keys().collect::<BTreeSet<_>>(),
        files: ledger(records),
        play: None,
    }
}

/// Returns the cost of a session's replies and completed tasks, if a budget holds.
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
                    let route = RouteKey { name: model, is_child: record.depth > 0 };
                    history.record_reply(route, bytes, reply.usage.in_context());
                }
            }
            Event::AgentEnd(end) => {
                let spent = tree_cost(end);
                if let Some(parent) = record.parent.as_ref().filter(|_| spent.tokens > 0) {
                    let completed = is_completed(end.status, end.exit_reason);
                    // What was reserved for it is not on record.
                    history.record_end(parent, TaskCost { spent, peak: spent, completed });
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

/// Returns the cost of an agent and its descendants.
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
    let mut spent = 0_u64;
    let mut before = 0;
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

/// Running time of agents and calls, as far as records of their process show it.
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

/// Returns the agents of a session with their states and the time that they ran.
fn stored_agents(
    records: &[Record],
    texts: &BTreeMap<String, Arc<str>>,
    states: &AgentStates,
) -> BTreeMap<AgentId, StoredAgent> {
    let RunTimes { agents: mut agent_times, calls } = run_times(records);
    let mut call_times: BTreeMap<AgentId, BTreeMap<CallId, Duration>> = BTreeMap::new();
    for ((agent, call), ran) in calls {
        call_times.entry(agent).or_default().insert(call, ran);
    }
    let mut agents = BTreeMap::new();
    for record in records {
        let Event::AgentStart(start) = &record.event else { continue };
        let (spec, declared) = stored_spec(start, texts);
        let earlier = EarlierTime {
            agent: agent_times.remove(&spec.id).unwrap_or_default(),
            calls: call_times.remove(&spec.id).unwrap_or_default(),
        };
        let state = states.open(&spec);
        agents.insert(spec.id.clone(), StoredAgent { spec, declared, state, earlier });
    }
    agents
}

impl StoredAgent {
    /// Returns the error and the cost of a request that was under way when the program ended. It
    /// had been sent, so its tokens are those of its text; how much of a reply had come is not
    /// known.
    pub(crate) fn lost_request(
        &self,
        models: &Models,
        budgets: Budgets,
    ) -> Option<(ModelError, Cost)> {
        let state = self.state.read();
        let request = state.pending_request()?;
        let route = models.route(&request.model);
        let by_rule = route.is_some_and(|route| !route.model.takes_tokens());
        if by_rule && !budgets.limit(self.spec.depth > 0) {
            return None;
        }
        let usage = Usage { input: state.tokens().guess(request.bytes), ..Usage::default() };
        let message = "the program ended while this request was under way: what it took is \
                       estimated";
        let error = ModelError {
            usage: Some(Box::new(usage)),
            estimated: true,
            ..ModelError::new(FailureKind::Incomplete, message)
        };
        Some((error, Cost::of(usage, route.and_then(|route| route.price))))
    }
}

fn ledger(records: &[Record]) -> FileLedger {
    let files = FileLedger::default();
    for record in records {
        match &record.event {
            // A call that did not end runs again, so that what it read counts when it ended.
            Event::ToolEnd(end) => end.facts.iter().for_each(|fact| match fact {
                ToolEffect::FileRead { path, version, whole } => {
                    let extent = if *whole { ReadRange::Whole } else { ReadRange::Part };
                    files.record_partial_read(&record.agent, path, version.clone(), extent);
                }
                ToolEffect::FileRemoved { path } => files.record_absence(&record.agent, path),
                _ => {}
            }),
            Event::FileWrite { path, version, created: false } => {
                files.record_write(&record.agent, path, version.clone());
            }
            Event::FileWrite { path, version, created: true } => {
                files.record_creation(&record.agent, path, version.clone());
            }
            Event::AgentEnd(_) if record.depth > 0 => files.forget_agent(&record.agent),
            _ => {}
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use deputize_core::event::ToolEnd;
    use deputize_core::file_state::{FileVersion, StaleWrite};
    use deputize_core::message::{CallStatus, ModelText};
    use deputize_core::{SessionId, ToolResult};

    #[test]
    fn what_was_read_in_part_is_known_in_part_after_a_resume() {
        let agent = AgentId::root(&SessionId::literal("s"));
        let path = PathBuf::from("/w/f");
        let version = FileVersion::of(b"x");
        let read = |whole| {
            let call = CallId { step: 1, slot: 0 };
            let status = CallStatus::Ok;
            let text = ModelText::own("");
            let path = path.clone();
            let version = version.clone();
            Event::ToolEnd(Box::new(ToolEnd {
                tool: "read_file".to_owned(),
                result: ToolResult { call, status, text, fingerprint: String::new() },
                args_bytes: 0,
                ms: 0,
                facts: vec![ToolEffect::FileRead { path, version, whole }],
                display: None,
                error: None,
                boundary: None,
            }))
        };
        let record =
            |event| Record { seq: 0, at: 0, agent: agent.clone(), parent: None, depth: 0, event };
        let files = ledger(&[record(read(false))]);
        assert_eq!(files.check(&agent, &path, &version), Ok(()));
        let partly = Err(StaleWrite::Partly { lines: None });
        assert_eq!(files.check_whole(&agent, &path, &version), partly);
        let files = ledger(&[record(read(false)), record(read(true))]);
        assert_eq!(files.check_whole(&agent, &path, &version), Ok(()));
    }
}
