//! How the agents of a session are seen and told things from outside of their loops.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, Weak};

use deputize_core::{
    AgentId, AgentSpec, BoxFuture, CancelReason, Doing, Event, Glance, JournalError, Outcome,
    Status,
};

use crate::presence::Presence;
use crate::shared::Shared;
use crate::tree::Tree;

/// The way to a session that runs, for whoever watches over it. It does not keep the session
/// alive.
#[derive(Clone)]
pub struct Overseer {
    pub(crate) shared: Weak<Shared>,
}

impl fmt::Debug for Overseer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Overseer")
    }
}

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OverseeError {
    /// The session is over, or about to be.
    #[error("the session is ending")]
    Ending,
    /// No such agent runs.
    #[error("no agent `{0}` runs in this session")]
    NoAgent(String),
    /// Others run below it.
    #[error("{} below `{agent}` and would end with it: stop the whole tree",
            if *count == 1 { "1 agent runs".to_owned() } else { format!("{count} agents run") })]
    NotAlone {
        /// The agent.
        agent: AgentId,
        /// How many.
        count: usize,
    },
    /// The session file takes no record.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl Overseer {
    fn shared(&self) -> Result<Arc<Shared>, OverseeError> {
        let shared = self.shared.upgrade().filter(|shared| !shared.cancel.is_cancelled());
        shared.ok_or(OverseeError::Ending)
    }

    /// From now on no new agent may start, or again one may; those that run go on, and tasks that
    /// were accepted before wait. Whether that is another state than before.
    ///
    /// # Errors
    /// When the session is over or takes no record.
    pub fn pause(&self, paused: bool, by: &str) -> Result<bool, OverseeError> {
        let shared = self.shared()?;
        let now = paused.then(|| by.to_owned());
        let mut held = shared.paused.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_some() == paused {
            return Ok(false);
        }
        let event = Event::SpawnPaused { by: by.to_owned(), paused };
        let top = shared.tree().top.clone();
        if let Some(top) = top {
            shared.bus.record(&top, event)?;
        }
        *held = now;
        drop(held);
        shared.changed.notify_waiters();
        Ok(true)
    }

    /// Whether new agents may start; if not, who said so.
    #[must_use]
    pub fn paused(&self) -> Option<String> {
        self.shared.upgrade().and_then(|shared| shared.paused())
    }

    /// Tells an agent to end. Where others run below it, they end too, and that must be wanted.
    /// Gives those that were told.
    ///
    /// # Errors
    /// When no such agent runs, or others do below it and `tree` is not said.
    pub fn stop(&self, agent: &str, tree: bool) -> Result<Vec<AgentId>, OverseeError> {
        let shared = self.shared()?;
        let (found, below) = {
            let known = shared.tree();
            let found = known.live.iter().find(|(id, _)| id.as_str() == agent);
            let found = found.map(|(_, presence)| Arc::clone(presence));
            let found = found.ok_or_else(|| OverseeError::NoAgent(agent.to_owned()))?;
            let below: Vec<AgentId> = known.live_below(&found.spec.id).cloned().collect();
            (found, below)
        };
        let agent = found.spec.id.clone();
        if !tree && !below.is_empty() {
            return Err(OverseeError::NotAlone { agent, count: below.len() });
        }
        shared.stop(&found, CancelReason::Stopped)?;
        Ok(std::iter::once(agent).chain(below).collect())
    }

    /// The agents that run, and those that ended in this process, by id.
    #[must_use]
    pub fn agents(&self) -> Vec<Glance> {
        let Some(shared) = self.shared.upgrade() else { return Vec::new() };
        let tree = shared.tree();
        let mut all: BTreeMap<AgentId, Glance> = tree.ended.clone();
        all.extend(tree.live.iter().map(|(id, presence)| (id.clone(), presence.glance())));
        all.into_values().collect()
    }
}

impl Tree {
    /// The agents that run below one. They stand together behind its own place: what else runs is
    /// not looked at.
    pub(crate) fn live_below(&self, agent: &AgentId) -> impl Iterator<Item = &AgentId> {
        let prefix = format!("{agent}/");
        let skipped = prefix.clone();
        let behind = self.live.range((Bound::Excluded(agent.clone()), Bound::Unbounded));
        let behind = behind.map(|(id, _)| id);
        let open = behind.skip_while(move |id| id.as_str() < skipped.as_str());
        open.take_while(move |id| id.as_str().starts_with(&prefix))
    }

    /// An agent has ended.
    pub(crate) fn has_ended(&mut self, spec: &AgentSpec, outcome: &Outcome) {
        self.keep(spec, outcome);
        self.ended.insert(spec.id.clone(), over(spec, outcome.status));
    }
}

fn over(spec: &AgentSpec, status: Status) -> Glance {
    Glance {
        id: spec.id.clone(),
        goal: spec.goal.clone(),
        doing: Doing::Ended(status),
        iteration: 0,
        current_tool: None,
        idle_ms: 0,
    }
}

impl Shared {
    pub(crate) fn paused(&self) -> Option<String> {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells an agent to end, on record, so that neither it nor one below it goes on after a kill.
    ///
    /// # Errors
    /// When the journal takes no records.
    pub(crate) fn stop(
        &self,
        presence: &Presence,
        reason: CancelReason,
    ) -> Result<(), JournalError> {
        presence.stop(reason, || {
            let stop = Event::AgentStop { reason, pending: true };
            self.bus.record(&presence.spec, stop).map(|_| ())
        })
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

    /// An agent has ended for good, and its outcome is known.
    pub(crate) fn has_ended(&self, spec: &AgentSpec, outcome: &Outcome) {
        self.tree().has_ended(spec, outcome);
        self.changed.notify_waiters();
    }

    /// Those that run below an agent, and those that ended, as far as they are known.
    pub(crate) fn below(&self, agent: &AgentId) -> Vec<Glance> {
        let tree = self.tree();
        let prefix = format!("{agent}/");
        let is_below = |id: &&AgentId| id.as_str().starts_with(&prefix);
        let mut all: BTreeMap<AgentId, Glance> = BTreeMap::new();
        for (id, stored) in tree.stored.iter().filter(|(id, _)| is_below(id)) {
            let status = stored.state.read().outcome().map(|outcome| outcome.status);
            all.extend(status.map(|status| (id.clone(), over(&stored.spec, status))));
        }
        for (id, glance) in tree.ended.iter().filter(|(id, _)| is_below(id)) {
            all.insert(id.clone(), glance.clone());
        }
        for id in tree.live_below(agent) {
            if let Some(presence) = tree.live.get(id) {
                all.insert(id.clone(), presence.glance());
            }
        }
        all.into_values().collect()
    }

    /// Whether an agent runs, or has ended and what waits for that does not know yet.
    fn is_open(&self, agent: &AgentId) -> bool {
        let tree = self.tree();
        let parent = agent.ancestors().next();
        let parent = parent.and_then(|parent| tree.live.get(&parent));
        tree.live.contains_key(agent) || parent.is_some_and(|parent| parent.runs(agent))
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
