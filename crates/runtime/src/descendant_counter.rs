//! How many descendants the agents of a session have had, and may have.

use std::collections::{BTreeMap, BTreeSet};

use deputize_core::AgentId;
use deputize_core::tool::{DescendantCounts, DescendantLimit};

/// Counts the descendants of agents, ended ones included.
#[derive(Debug, Default)]
pub(crate) struct DescendantCounter {
    /// Number of descendants that each agent has had.
    descendants: BTreeMap<AgentId, u32>,
    /// The agents that are counted there.
    counted: BTreeSet<AgentId>,
    /// Limit on descendants.
    most: BTreeMap<AgentId, u32>,
}

impl DescendantCounter {
    /// Sets how many descendants an agent may have.
    pub(crate) fn set_limit(&mut self, agent: AgentId, most: u32) {
        self.most.insert(agent, most);
    }

    /// Returns the numbers of agents that limits for new children of an agent go by.
    pub(crate) fn counts(&self, agent: &AgentId) -> DescendantCounts {
        let had = |agent: &AgentId| self.descendants.get(agent).copied().unwrap_or_default();
        let top = agent.ancestors().last();
        DescendantCounts {
            session: had(top.as_ref().unwrap_or(agent)),
            below: had(agent),
            most_below: self.most.get(agent).copied().unwrap_or(u32::MAX),
        }
    }

    /// Counts children of an agent at all agents above them, or none of them. Those that are
    /// counted already need no room.
    pub(crate) fn reserve(
        &mut self,
        parent: &AgentId,
        children: &BTreeSet<AgentId>,
        per_session: Option<u32>,
    ) -> Result<(), DescendantLimit> {
        let new: Vec<&AgentId> = children.difference(&self.counted).collect();
        if new.is_empty() {
            // A limit may be lower than it was when they were counted.
            return Ok(());
        }
        for agent in [parent.clone()].into_iter().chain(parent.ancestors()) {
            self.counts(&agent).check(new.len(), per_session)?;
        }
        let new: Vec<AgentId> = new.into_iter().cloned().collect();
        new.iter().for_each(|child| self.count(child));
        Ok(())
    }

    /// Counts a new agent at all agents above it, once.
    pub(crate) fn count(&mut self, new: &AgentId) {
        if self.counted.insert(new.clone()) {
            for agent in new.ancestors() {
                *self.descendants.entry(agent).or_default() += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use deputize_core::tool::LimitScope;
    use deputize_core::{CallId, SessionId};

    use super::*;

    fn child(parent: &AgentId, index: u32) -> AgentId {
        parent.child(CallId::new(1, 0), index)
    }

    #[test]
    fn children_are_counted_at_every_agent_above_them_all_or_none_and_once() {
        let top = AgentId::root(&SessionId::literal("s1"));
        let middle = child(&top, 0);
        let mut counter = DescendantCounter::default();
        counter.set_limit(top.clone(), 4);
        counter.set_limit(middle.clone(), 3);
        let below = |indexes: std::ops::Range<u32>| indexes.map(|n| child(&middle, n)).collect();
        assert_eq!(counter.reserve(&top, &BTreeSet::from([middle.clone()]), Some(4)), Ok(()));
        assert_eq!(counter.reserve(&middle, &below(0..2), Some(4)), Ok(()));
        // What is counted needs no room.
        assert_eq!(counter.reserve(&middle, &below(0..2), Some(1)), Ok(()));
        let counts = DescendantCounts { session: 3, below: 2, most_below: 3 };
        assert_eq!(counter.counts(&middle), counts);
        let over = |scope, so_far, most| Err(DescendantLimit { so_far, more: 2, most, scope });
        assert_eq!(counter.reserve(&middle, &below(1..4), None), over(LimitScope::Agent, 2, 3));
        let session = counter.reserve(&middle, &below(2..4), Some(4));
        assert_eq!(session, over(LimitScope::Session, 3, 4));
        counter.set_limit(middle.clone(), 9);
        // The limit of an agent further up holds too.
        assert_eq!(counter.reserve(&middle, &below(2..4), None), over(LimitScope::Agent, 3, 4));
        assert_eq!(counter.counts(&middle).below, 2, "none of them is counted");
    }
}
