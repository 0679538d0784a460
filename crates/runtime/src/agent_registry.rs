//! The agents of a session: those that run, those that ended, and who waits for either.

use std::collections::BTreeMap;

use deputize_core::agent::{AgentActivity, AgentSpec, AgentSummary};
use deputize_core::{AgentId, BoxFuture};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::agent_tree::{AgentTree, Spending, ended_summary};

/// Which agents there are, and whether more may start.
pub(crate) struct AgentRegistry {
    tree: Mutex<AgentTree>,
    /// Who said that no agent may be started for now.
    paused: Mutex<Option<String>>,
    /// An agent has ended, or new ones may begin or may not any more.
    changed: Notify,
}

/// Totals of an agent's descendants at its end.
pub(crate) struct DescendantTotals {
    /// Cost of the ended ones.
    pub(crate) below: Spending,
    /// Those that still run.
    pub(crate) unfinished: Vec<AgentId>,
}

impl AgentRegistry {
    pub(crate) fn new(tree: AgentTree) -> Self {
        Self { tree: Mutex::new(tree), paused: Mutex::default(), changed: Notify::new() }
    }

    pub(crate) fn tree(&self) -> MutexGuard<'_, AgentTree> {
        self.tree.lock()
    }

    /// Wakes whoever waits for an agent.
    pub(crate) fn notify(&self) {
        self.changed.notify_waiters();
    }

    /// Says who paused the start of agents, or that nobody does, once that is kept. Returns whether
    /// that is a change.
    ///
    /// # Errors
    /// When it could not be kept.
    pub(crate) fn set_paused<E>(
        &self,
        by: Option<&str>,
        keep: impl FnOnce() -> Result<(), E>,
    ) -> Result<bool, E> {
        let mut paused = self.paused.lock();
        if paused.is_some() == by.is_some() {
            return Ok(false);
        }
        keep()?;
        *paused = by.map(str::to_owned);
        drop(paused);
        self.notify();
        Ok(true)
    }

    pub(crate) fn paused(&self) -> Option<String> {
        self.paused.lock().clone()
    }

    /// An agent ended: its parent's totals grow. Gives the tokens of its own descendants and
    /// those of them that still run.
    pub(crate) fn remove_live(&self, spec: &AgentSpec, own: Spending) -> DescendantTotals {
        let mut tree = self.tree();
        // Its end is recorded next. Until then others still find it, as it was.
        if let Some(handle) = tree.live.remove(&spec.id) {
            tree.ended.insert(spec.id.clone(), handle.summary());
        }
        let below = tree.spent_below(&spec.id);
        let mut whole = own;
        whole += below;
        tree.record_spending(spec, whole);
        DescendantTotals { below, unfinished: tree.live_below(&spec.id).cloned().collect() }
    }

    /// Waits until new agents may begin.
    pub(crate) async fn unpaused(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.paused().is_none() {
                return;
            }
            changed.await;
        }
    }

    /// Those that run below an agent, and those that ended, as far as they are known.
    pub(crate) fn descendants(&self, agent: &AgentId) -> Vec<AgentSummary> {
        let tree = self.tree();
        let prefix = format!("{agent}/");
        let is_below = |id: &&AgentId| id.as_str().starts_with(&prefix);
        let mut all: BTreeMap<AgentId, AgentSummary> = BTreeMap::new();
        for (id, stored) in tree.stored.iter().filter(|(id, _)| is_below(id)) {
            let ended = stored.state.read().outcome().map(|end| AgentActivity::Ended(end.status));
            all.extend(ended.map(|ended| (id.clone(), ended_summary(&stored.spec, ended))));
        }
        for (id, glance) in tree.ended.iter().filter(|(id, _)| is_below(id)) {
            all.insert(id.clone(), glance.clone());
        }
        for id in tree.live_below(agent) {
            if let Some(handle) = tree.live.get(id) {
                all.insert(id.clone(), handle.summary());
            }
        }
        all.into_values().collect()
    }

    /// Whether an agent runs, or its end is being recorded, or what waits for that does not know yet.
    fn is_open(&self, agent: &AgentId) -> bool {
        let tree = self.tree();
        let parent = agent.ancestors().next();
        let parent = parent.and_then(|parent| tree.live.get(&parent));
        let is_ending = tree.ended.get(agent).is_some_and(|end| !end.activity.has_ended());
        is_ending
            || tree.live.contains_key(agent)
            || parent.is_some_and(|parent| parent.runs(agent))
    }

    pub(crate) fn join<'a>(&'a self, agents: &'a [AgentId], all: bool) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            loop {
                let mut changed = std::pin::pin!(self.changed.notified());
                changed.as_mut().enable();
                let open = agents.iter().filter(|agent| self.is_open(agent)).count();
                let done = if all { open == 0 } else { open < agents.len() };
                if done || agents.is_empty() {
                    return;
                }
                changed.await;
            }
        })
    }
}
