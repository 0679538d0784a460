//! Agents of the journal that do not go on: nobody took them up again before the agent above them
//! ended, or they cannot.

use std::sync::Arc;

use deputize_core::{
    AgentId, AgentSpec, AgentView, AttachError, Cancel, CancelReason, Event, Input, JournalError,
    Outcome,
};

use crate::driver::outcome_of;
use crate::resume::settle;
use crate::shared::Shared;
use crate::stored::Stored;
use crate::tree::Spent;

/// Agents that were ended, the deepest first.
type Orphans = Vec<(AgentSpec, Outcome)>;

impl Shared {
    /// Whether a child of the journal can go on; why not.
    ///
    /// # Errors
    /// When its parent may have no children now, or its model cannot be used.
    pub(crate) fn can_go_on(
        &self,
        parent: &AgentView,
        child: &AgentSpec,
    ) -> Result<(), AttachError> {
        let authority = self.child_authority(parent, &child.grant)?;
        self.routes(child, &authority).map(|_| ())
    }

    /// Ends a child of the journal that cannot go on, with what it has, and all below it. Who waits
    /// is told when the hooks were.
    ///
    /// # Errors
    /// When the journal takes no records.
    pub(crate) fn end_stored(
        self: &Arc<Self>,
        stored: Stored,
        why: &AttachError,
        tell: impl FnOnce(Outcome) + Send + 'static,
    ) -> Result<(), JournalError> {
        let mut ended = self.end_orphans(&stored.spec)?;
        let (spec, outcome) =
            self.end_orphan(stored, Some(format!("it could not go on: {why}")))?;
        self.has_ended(&spec, &outcome);
        let signal = self.signal_above(&spec).unwrap_or_else(|| self.cancel.child());
        ended.push((spec, outcome.clone()));
        let shared = Arc::clone(self);
        self.tasks.spawn(async move {
            shared.after_orphans(&ended, &signal).await;
            tell(outcome);
        });
        Ok(())
    }

    /// Hooks and the memory are told of the end of agents that nobody ran.
    pub(crate) async fn after_orphans(&self, ended: &[(AgentSpec, Outcome)], signal: &Cancel) {
        for (spec, outcome) in ended {
            self.after_child(spec, outcome, signal).await;
        }
    }

    /// Ends the agents below one that is ending which a crash had left without an end, the
    /// deepest first: their calls have results now, so nobody will ever ask for them again.
    /// What they did and what they cost counts all the same.
    ///
    /// # Errors
    /// When the journal takes no records.
    pub(crate) fn end_orphans(&self, ending: &AgentSpec) -> Result<Orphans, JournalError> {
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
        orphans.into_iter().map(|stored| self.end_orphan(stored, None)).collect()
    }

    fn end_orphan(
        &self,
        stored: Stored,
        why: Option<String>,
    ) -> Result<(AgentSpec, Outcome), JournalError> {
        let Stored { spec, mut run, receipts, mut cost, requests, .. } = settle(self, stored)?;
        // What a program of its own cost nobody here knows.
        cost.unpriced |= self.parts.external.contains_key(&spec.model);
        let reason = CancelReason::Interrupted;
        self.bus.record(&spec, Event::AgentStop { reason })?;
        run.apply(Input::Stop(reason));
        let ended = self.ended(&spec, Spent { usage: run.usage(), cost });
        cost += ended.below.cost;
        let mut outcome = outcome_of(&spec, &run, None);
        outcome.error = why.or(outcome.error);
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
        self.bus.record(&spec, Event::AgentEnd(Box::new(outcome.clone())))?;
        Ok((spec, outcome))
    }
}
