//! Agents of the journal that nobody took up again before the agent above them ended.

use deputize_core::{AgentId, AgentSpec, CancelReason, Event, Input, JournalError};

use crate::driver::outcome_of;
use crate::resume::settle;
use crate::shared::Shared;
use crate::stored::Stored;
use crate::tree::Spent;

impl Shared {
    /// Ends the agents below one that is ending which a crash had left without an end, the
    /// deepest first: their calls have results now, so nobody will ever ask for them again.
    /// What they did and what they cost counts all the same.
    ///
    /// # Errors
    /// When the journal takes no records.
    pub(crate) fn end_orphans(&self, ending: &AgentSpec) -> Result<(), JournalError> {
        let prefix = format!("{}/", ending.id);
        let is_orphan = |id: &AgentId, stored: &Stored| {
            id.as_str().starts_with(&prefix) && stored.outcome.is_none()
        };
        let orphans: Vec<Stored> = {
            let stored = &mut self.tree().stored;
            let ids = stored.iter().filter(|(id, stored)| is_orphan(id, stored));
            let ids: Vec<AgentId> = ids.map(|(id, _)| id.clone()).rev().collect();
            ids.iter().filter_map(|id| stored.remove(id)).collect()
        };
        orphans.into_iter().try_for_each(|stored| self.end_orphan(stored))
    }

    fn end_orphan(&self, stored: Stored) -> Result<(), JournalError> {
        let Stored { spec, mut run, receipts, mut cost, requests, .. } = settle(self, stored)?;
        // What a program of its own cost nobody here knows.
        cost.unpriced |= self.parts.external.contains_key(&spec.model);
        let reason = CancelReason::Interrupted;
        self.bus.record(&spec, Event::AgentStop { reason })?;
        run.apply(Input::Stop(reason));
        let ended = self.ended(&spec, Spent { usage: run.usage(), cost });
        cost += ended.below.cost;
        let mut outcome = outcome_of(&spec, &run, None);
        outcome.requests = requests;
        outcome.children_usage = ended.below.usage;
        outcome.cost_usd = cost.known_usd();
        outcome.receipts = receipts;
        outcome.session_path = self.path_for(&spec);
        {
            let mut tree = self.tree();
            tree.tell(&mut outcome, ended.unfinished);
            tree.keep(&spec, &outcome);
        }
        self.bus.record(&spec, Event::AgentEnd(Box::new(outcome))).map(|_| ())
    }
}
