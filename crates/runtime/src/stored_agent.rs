//! The agents of a stored session, as its records have them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use deputize_core::agent::AgentSpec;
use deputize_core::budget::Cost;
use deputize_core::file_state::FileLedger;
use deputize_core::model::{FailureKind, ModelError, Usage};
use deputize_core::{AgentId, Event, Record, ToolDecl};

use crate::agent_states::{AgentStates, SharedState};
use crate::budget_ledger::SessionCosts;
use crate::budgets::Budgets;
use crate::cost_history::CostHistory;
use crate::earlier_times::{EarlierTime, EarlierTimes};
use crate::models::Models;
use crate::recording::Playback;
use crate::restored_files::restore_files;
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

/// State of a session that is resumed.
#[derive(Default)]
pub(crate) struct RestoredSession {
    pub(crate) next: u64,
    pub(crate) texts: BTreeSet<String>,
    pub(crate) files: FileLedger,
    pub(crate) states: Arc<AgentStates>,
    pub(crate) agents: BTreeMap<AgentId, StoredAgent>,
    pub(crate) spent: SessionCosts,
    /// Cost of replies and completed tasks, if a budget holds.
    pub(crate) cost_history: CostHistory,
    /// The time in which at least one child ran.
    pub(crate) children_time: Duration,
    pub(crate) play: Option<Arc<Playback>>,
}

/// Returns the state of a resumed session, from its records.
pub(crate) fn restore_session(records: &[Record], config: &SessionConfig) -> RestoredSession {
    let texts = collect_texts(records);
    let states = AgentStates::of(records);
    let mut times = EarlierTimes::of(records);
    let agents = stored_agents(records, &states, &texts, &mut times);
    let has_budget = config.budgets.limit(true);
    let cost_history = if has_budget { CostHistory::of(records) } else { CostHistory::default() };
    let mut spent = SessionCosts::default();
    for agent in agents.values() {
        let mut cost = agent.state.read().cost();
        let lost = agent.lost_request(&config.models, config.budgets);
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
        children_time: times.children,
        spent,
        cost_history,
        texts: texts.into_keys().collect::<BTreeSet<_>>(),
        files: restore_files(records),
        play: None,
    }
}

/// Returns the texts of the agents of a session, by hash.
fn collect_texts(records: &[Record]) -> BTreeMap<String, Arc<str>> {
    let starts = records.iter().filter_map(|record| match &record.event {
        Event::AgentStart(start) => Some(&start.texts),
        _ => None,
    });
    starts.flatten().map(|(hash, text)| (hash.clone(), Arc::clone(text))).collect()
}

/// Returns the agents of a session with their states and the time that they ran.
fn stored_agents(
    records: &[Record],
    states: &AgentStates,
    texts: &BTreeMap<String, Arc<str>>,
    times: &mut EarlierTimes,
) -> BTreeMap<AgentId, StoredAgent> {
    let mut agents: BTreeMap<AgentId, StoredAgent> = BTreeMap::new();
    for record in records {
        if let Event::AgentResume { task: Some(task), .. } = &record.event
            && let Some(agent) = agents.remove(&record.agent)
        {
            let spec = agent.spec.with_further_task(&task.goal);
            agents.insert(spec.id.clone(), StoredAgent { spec, ..agent });
        }
        let Event::AgentStart(start) = &record.event else { continue };
        let (spec, declared) = stored_spec(start, texts);
        let earlier = times.agents.remove(&spec.id).unwrap_or_default();
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
