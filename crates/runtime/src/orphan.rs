//! Agents of the journal that do not go on: nobody took them up again before the agent above them
//! ended, or they cannot.

use std::sync::Arc;

use deputize_core::door::{Source, to_line, to_model};
use deputize_core::{
    AgentId, AgentSpec, AgentView, AttachError, CallId, Cancel, CancelReason, Event, JournalError,
    Outcome, Status, describe_error,
};

use crate::driver::{host_fault, outcome_of};
use crate::resume::settle;
use crate::shared::Shared;
use crate::stored::StoredAgent;
use crate::tree::Spent;

/// How many characters of a goal tell which child it is.
const GOAL_CHARS: usize = 80;

impl Shared {
    /// Why a child of the journal does not go on; nothing: it does. It, or one above it, may have
    /// been told to end; a program of its own that has begun tells more of itself than that.
    pub(crate) fn why_it_ends(&self, parent: &AgentView, stored: &StoredAgent) -> Option<String> {
        let (begun, stopped) = {
            let state = stored.state.read();
            (state.has_begun(), state.stopped())
        };
        let lost = begun && self.parts.external.contains_key(&stored.spec.model);
        if let Some(reason) = stopped.filter(|_| !lost) {
            return Some(reason.told().to_owned());
        }
        let why = self.can_go_on(parent, &stored.spec, begun).err()?;
        Some(format!("it could not go on: {why}"))
    }

    /// Whether its parent may have such a child now, and its model can be used.
    fn can_go_on(
        &self,
        parent: &AgentView,
        spec: &AgentSpec,
        begun: bool,
    ) -> Result<(), AttachError> {
        let authority = self.child_authority(parent, &spec.grant)?;
        self.routes(spec, &authority)?;
        // A program of its own that has not begun is started now.
        let program = self.parts.external.get(&spec.model).filter(|_| !begun);
        match program.and_then(|program| program.refusal(spec, &authority)) {
            Some(why) => Err(AttachError::External(why)),
            None => Ok(()),
        }
    }

    /// Ends a child of the journal that does not go on, with what it has, and all below it. Who waits
    /// is told when the hooks were.
    pub(crate) fn end_stored(
        self: &Arc<Self>,
        stored: StoredAgent,
        why: String,
        tell: impl FnOnce(Outcome) + Send + 'static,
    ) {
        let (shared, spec) = (Arc::clone(self), stored.spec.clone());
        self.tasks.spawn(async move {
            let signal = shared.signal_above(&spec).unwrap_or_else(|| shared.cancel.child());
            let ended = match shared.end_orphans(&spec, &signal).await {
                Ok(()) => shared.end_orphan(stored, Some(why), &signal).await,
                Err(error) => Err(error),
            };
            tell(ended.unwrap_or_else(|error| host_fault(&spec, describe_error(&error))));
        });
    }

    /// What children of a call said that ended in an earlier process and that nobody attached to:
    /// the call does not tell it.
    pub(crate) fn untold(&self, parent: &AgentId, call: CallId) -> Option<String> {
        let tree = self.tree();
        let of_call = |stored: &&StoredAgent| {
            let spec = &stored.spec;
            let by = spec.spawned_by.as_ref().filter(|_| spec.parent.as_ref() == Some(parent));
            by.is_some_and(|by| by.call == call) && !spec.background
        };
        let said = tree.stored.values().filter(of_call).filter_map(|stored| {
            let state = stored.state.read();
            let outcome = state.outcome()?;
            let text = outcome.text.as_deref().or(outcome.error.as_deref())?;
            let source = Source::Child(outcome.agent.to_string());
            let text = self.parts.secrets.scrub(text);
            let framed = to_model(&self.parts.secret, parent, call, &source, &text);
            let goal = to_line(&stored.spec.goal, GOAL_CHARS);
            let status = outcome.status.as_str();
            Some(format!("Its child {goal:?} had ended ({status}):\n{}", framed.as_str()))
        });
        let said: Vec<String> = said.collect();
        (!said.is_empty()).then(|| said.join("\n"))
    }

    /// Ends the agents below one that is ending which a crash had left without an end, the
    /// deepest first: their calls have results now, so nobody will ever ask for them again.
    /// What they did and what they cost counts all the same.
    ///
    /// # Errors
    /// When the journal takes no records.
    pub(crate) async fn end_orphans(
        &self,
        ending: &AgentSpec,
        signal: &Cancel,
    ) -> Result<(), JournalError> {
        let prefix = format!("{}/", ending.id);
        let is_orphan = |id: &AgentId, stored: &StoredAgent| {
            id.as_str().starts_with(&prefix) && stored.state.read().outcome().is_none()
        };
        let orphans: Vec<StoredAgent> = {
            let stored = &mut self.tree().stored;
            let ids = stored.iter().filter(|(id, stored)| is_orphan(id, stored));
            let ids: Vec<AgentId> = ids.map(|(id, _)| id.clone()).rev().collect();
            ids.iter().filter_map(|id| stored.remove(id)).collect()
        };
        for stored in orphans {
            self.end_orphan(stored, None, signal).await?;
        }
        Ok(())
    }

    /// Nothing of an agent follows its end: what hooks say of one below it comes before that.
    async fn end_orphan(
        &self,
        stored: StoredAgent,
        why: Option<String>,
        signal: &Cancel,
    ) -> Result<Outcome, JournalError> {
        settle(self, &stored)?;
        let StoredAgent { spec, state, earlier, .. } = stored;
        let (begun, requests, stopped) = {
            let state = state.read();
            (state.has_begun(), state.requests(), state.stopped())
        };
        // What a program of its own cost that ran nobody here knows: it asked no model of ours.
        let external = requests == 0 && self.parts.models.route(&spec.model).is_none();
        let reason = stopped.unwrap_or(CancelReason::Interrupted);
        self.bus.record(&spec, Event::AgentStop { reason, pending: false })?;
        let (mut outcome, mut cost, said) = {
            let state = state.read();
            let said = state.external_text().map(str::to_owned);
            (outcome_of(&spec, &state, None), state.cost(), said)
        };
        cost.unpriced |= begun && external;
        let ended = self.ended(&spec, Spent { usage: outcome.usage, cost });
        cost += ended.below.cost;
        // One whose answer is on record had come to its end.
        outcome.error = why.filter(|_| outcome.status != Status::Completed).or(outcome.error);
        outcome.text = outcome.text.or(said);
        outcome.duration_ms = u64::try_from(earlier.agent.as_millis()).unwrap_or(u64::MAX);
        outcome.children_usage = ended.below.usage;
        outcome.cost_usd = cost.known_usd();
        outcome.session_path = self.path_for(&spec);
        self.tree().tell(&mut outcome, ended.unfinished);
        self.bus.record(&spec, Event::AgentEnd(Box::new(outcome.clone())))?;
        self.has_ended(&spec, &outcome);
        self.after_child(&spec, &outcome, signal).await;
        Ok(outcome)
    }
}
