//! The tree of a session's agents.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use deputize_core::agent::{AgentActivity, AgentSpec, AgentSummary};
use deputize_core::budget::Cost;
use deputize_core::model::Usage;
use deputize_core::outcome::Receipts;
use deputize_core::sanitize::for_terminal_line;
use deputize_core::{AgentId, Outcome, Status};

use crate::agent_handle::AgentHandle;
use crate::cost_history::tree_cost;
use crate::descendant_counter::DescendantCounter;
use crate::stored_agent::StoredAgent;

/// The tree of a session's agents.
#[derive(Default)]
pub(crate) struct AgentTree {
    /// Agents of the journal that nobody has attached to yet.
    pub(crate) stored: BTreeMap<AgentId, StoredAgent>,
    /// The first agent of this process.
    pub(crate) top: Option<Arc<AgentSpec>>,
    /// Agents that run.
    pub(crate) live: BTreeMap<AgentId, Arc<AgentHandle>>,
    /// Children that ended in this process and may get a further task.
    pub(crate) continuable: BTreeMap<AgentId, StoredAgent>,
    /// Agents that ended in this process, or whose end is being recorded.
    pub(crate) ended: BTreeMap<AgentId, AgentSummary>,
    /// Whether children send heartbeats.
    pub(crate) has_heartbeat: bool,
    /// Cost of each ended child and its descendants, by parent.
    spent: BTreeMap<AgentId, BTreeMap<AgentId, Spending>>,
    /// Work of ended descendants, by parent.
    done: BTreeMap<AgentId, EndedDescendants>,
    /// How many descendants agents have had, and may have.
    pub(crate) counter: DescendantCounter,
}

impl AgentTree {
    pub(crate) fn of(stored: BTreeMap<AgentId, StoredAgent>) -> Self {
        let mut tree = Self::default();
        stored.keys().for_each(|id| tree.counter.count(id));
        for stored in stored.values() {
            if let Some(outcome) = stored.state.read().outcome() {
                tree.store(&stored.spec, outcome);
                let (usage, cost) = (outcome.tree_usage(), tree_cost(outcome));
                tree.record_spending(&stored.spec, Spending { usage, cost });
            }
        }
        Self { stored, ..tree }
    }

    /// Returns the children that an agent has had, including those of earlier processes.
    pub(crate) fn children_of(&self, agent: &AgentId) -> BTreeSet<AgentId> {
        let stored = below(&self.stored, agent).chain(below(&self.ended, agent));
        let all = stored.chain(below(&self.live, agent));
        all.filter(|id| id.ancestors().next().as_ref() == Some(agent)).cloned().collect()
    }

    /// Takes the background children of an agent, in the order in which they were asked for.
    pub(crate) fn take_background(&mut self, parent: &AgentId) -> Vec<StoredAgent> {
        let is_one = |stored: &StoredAgent| {
            stored.spec.background && stored.spec.parent.as_ref() == Some(parent)
        };
        let ids = self.stored.iter().filter(|(_, stored)| is_one(stored));
        let ids: Vec<AgentId> = ids.map(|(id, _)| id.clone()).collect();
        let mut taken: Vec<StoredAgent> =
            ids.iter().filter_map(|id| self.stored.remove(id)).collect();
        taken.sort_by_key(|it| it.spec.spawned_by.as_ref().map(|by| (by.call, by.task_index)));
        taken
    }

    /// Keeps for the parent of an agent that ended what that did, and what was done below it.
    pub(crate) fn store(&mut self, spec: &AgentSpec, outcome: &Outcome) {
        let Some(parent) = &spec.parent else { return };
        let done = self.done.entry(parent.clone()).or_default();
        done.unfinished.extend(outcome.receipts.unfinished.iter().cloned());
        if outcome.status != Status::Completed {
            done.unfinished.insert(spec.id.clone());
        }
        // Nobody is shown receipts of the top agent, and what its children said is told by itself.
        if spec.depth > 1 {
            if let Some(text) = &outcome.text {
                let goal = for_terminal_line(&spec.goal, 80);
                let said =
                    format!("Agent {goal:?} below it ({}):\n{text}", outcome.status.as_str());
                done.said.insert(spec.id.clone(), said);
            }
            done.below.extend(outcome.below.clone());
            let unfinished = Vec::new();
            let external = outcome.external;
            let own = Receipts { unfinished, external, ..outcome.receipts.clone() };
            if !own.did_nothing() {
                done.below.insert(spec.id.clone(), own);
            }
        }
    }

    /// Adds to an agent's outcome the work of its descendants, and those that did not end. `ran`
    /// are those that still ran.
    pub(crate) fn add_descendants(
        &mut self,
        outcome: &mut Outcome,
        ran: impl IntoIterator<Item = AgentId>,
    ) {
        let mut done = self.done.remove(&outcome.agent).unwrap_or_default();
        done.unfinished.extend(ran);
        outcome.receipts.unfinished = done.unfinished.into_iter().collect();
        outcome.below = done.below;
    }

    /// Gives an agent that came to no answer what those below it had said: it has not put that
    /// together, and nobody else has seen it.
    pub(crate) fn add_texts(&mut self, outcome: &mut Outcome) {
        let said = self.done.get_mut(&outcome.agent).map(|done| std::mem::take(&mut done.said));
        let said = said.unwrap_or_default().into_values();
        let all: Vec<String> = outcome.text.take().into_iter().chain(said).collect();
        outcome.text = (!all.is_empty()).then(|| all.join("\n\n"));
    }

    /// Returns what descendants of an agent took that ended.
    pub(crate) fn spent_below(&self, agent: &AgentId) -> Spending {
        let children = self.spent.get(agent).into_iter().flat_map(BTreeMap::values);
        children.fold(Spending::default(), |mut all, child| {
            all += *child;
            all
        })
    }

    /// Records what a child that ended and its descendants took. What stood there of its earlier
    /// ends is part of that.
    pub(crate) fn record_spending(&mut self, child: &AgentSpec, whole: Spending) {
        if let Some(parent) = &child.parent {
            self.spent.entry(parent.clone()).or_default().insert(child.id.clone(), whole);
        }
    }

    /// Returns a child that has ended and may get a further task; `None` if there is none of this
    /// ID.
    pub(crate) fn continuable(&self, child: &AgentId) -> Option<&StoredAgent> {
        self.continuable.get(child).or_else(|| self.stored.get(child))
    }

    /// Takes a child that goes on with a further task. It starts with what was done below it.
    pub(crate) fn take_continuable(&mut self, child: &AgentId) -> Option<StoredAgent> {
        let stored = self.continuable.remove(child).or_else(|| self.stored.remove(child))?;
        if let Some(above) = stored.spec.parent.as_ref().and_then(|it| self.done.get_mut(it)) {
            above.unfinished.remove(child);
            above.said.remove(child);
        }
        if let Some(outcome) = stored.state.read().outcome() {
            let done = self.done.entry(child.clone()).or_default();
            done.below.extend(outcome.below.clone());
            done.unfinished.extend(outcome.receipts.unfinished.iter().cloned());
        }
        Some(stored)
    }

    /// The agents that run below one.
    pub(crate) fn live_below(&self, agent: &AgentId) -> impl Iterator<Item = &AgentId> {
        below(&self.live, agent)
    }

    /// An agent's end is on record. Hooks and the memory hear of it next.
    pub(crate) fn store_end(&mut self, spec: &AgentSpec, outcome: &Outcome) {
        self.store(spec, outcome);
        self.ended.insert(spec.id.clone(), ended_summary(spec, AgentActivity::Ending));
    }
}

/// Returns the agents below one. They stand together behind its own place: no others are looked at.
fn below<'a, T>(
    agents: &'a BTreeMap<AgentId, T>,
    agent: &AgentId,
) -> impl Iterator<Item = &'a AgentId> + use<'a, T> {
    let prefix = format!("{agent}/");
    let skipped = prefix.clone();
    let behind = agents.range((Bound::Excluded(agent.clone()), Bound::Unbounded));
    let behind = behind.map(|(id, _)| id);
    let open = behind.skip_while(move |id| id.as_str() < skipped.as_str());
    open.take_while(move |id| id.as_str().starts_with(&prefix))
}

/// Returns an agent that has ended, or is about to, as others see it.
pub(crate) fn ended_summary(spec: &AgentSpec, activity: AgentActivity) -> AgentSummary {
    AgentSummary {
        id: spec.id.clone(),
        goal: spec.goal.clone(),
        activity,
        iteration: 0,
        current_tool: None,
        idle_ms: 0,
    }
}

/// Work of an agent's ended descendants.
#[derive(Default)]
struct EndedDescendants {
    below: BTreeMap<AgentId, Receipts>,
    /// Those that did not complete.
    unfinished: BTreeSet<AgentId>,
    /// The report of each child, with its goal and its end.
    said: BTreeMap<AgentId, String>,
}

/// Cost of agents.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spending {
    pub(crate) usage: Usage,
    pub(crate) cost: Cost,
}

impl std::ops::AddAssign for Spending {
    fn add_assign(&mut self, other: Self) {
        self.usage += other.usage;
        self.cost += other.cost;
    }
}
