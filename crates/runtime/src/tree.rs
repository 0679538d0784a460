//! What is known of the agents of a session.

use std::collections::{BTreeMap, BTreeSet};

use deputize_core::{AgentId, AttachError, Usage};

use crate::resume::Stored;

/// What is known of the tree of agents.
#[derive(Default)]
pub(crate) struct Tree {
    /// Agents of the journal that nobody has attached to yet.
    pub(crate) stored: BTreeMap<AgentId, Stored>,
    /// Agents that run.
    pub(crate) live: BTreeSet<AgentId>,
    /// Tokens of descendants that ended, by parent.
    pub(crate) usage: BTreeMap<AgentId, Usage>,
    /// How many descendants each agent has had, ended ones among them.
    descendants: BTreeMap<AgentId, u32>,
    /// How many it may have.
    pub(crate) most_descendants: BTreeMap<AgentId, u32>,
}

impl Tree {
    pub(crate) fn of(stored: BTreeMap<AgentId, Stored>) -> Self {
        let mut tree = Self::default();
        stored.keys().for_each(|id| tree.note(id));
        Self { usage: usage_below(&stored), stored, ..tree }
    }

    /// Counts a new agent at all agents above it, or at none.
    pub(crate) fn count(&mut self, new: &AgentId) -> Result<(), AttachError> {
        for agent in new.ancestors() {
            let limit = self.most_descendants.get(&agent).copied().unwrap_or(u32::MAX);
            if self.descendants.get(&agent).is_some_and(|had| *had >= limit) || limit == 0 {
                return Err(AttachError::TooMany { agent, limit });
            }
        }
        self.note(new);
        Ok(())
    }

    fn note(&mut self, new: &AgentId) {
        for agent in new.ancestors() {
            *self.descendants.entry(agent).or_default() += 1;
        }
    }
}

/// Tokens of descendants that ended, by the parent that has not ended for good.
fn usage_below(agents: &BTreeMap<AgentId, Stored>) -> BTreeMap<AgentId, Usage> {
    let mut below: BTreeMap<AgentId, Usage> = BTreeMap::new();
    for stored in agents.values() {
        if let (Some(outcome), Some(parent)) = (&stored.outcome, &stored.spec.parent) {
            *below.entry(parent.clone()).or_default() += outcome.tree_usage();
        }
    }
    below
}
