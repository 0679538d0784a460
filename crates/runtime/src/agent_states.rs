//! The states of all agents of a session, as a fold of its records.

use std::ops::Deref;
use std::sync::Arc;

use deputize_core::agent::AgentSpec;
use deputize_core::hook::HookPoint;
use deputize_core::source::Source;
use deputize_core::source_set::SourceSet;
use deputize_core::{AgentId, CancelReason, Event, Message, Record};
use indexmap::IndexMap;
use parking_lot::{Mutex, MutexGuard};

use crate::agent_state::AgentState;

/// The state of one agent, which is read while the fold goes on. Guards are held within a
/// statement, never over an `await` or a record.
#[derive(Debug, Clone)]
pub(crate) struct SharedState(Arc<Mutex<AgentState>>);

/// Read access to a state.
#[derive(Debug)]
pub(crate) struct StateRef<'s>(MutexGuard<'s, AgentState>);

impl Deref for StateRef<'_> {
    type Target = AgentState;

    fn deref(&self) -> &AgentState {
        &self.0
    }
}

impl SharedState {
    fn new(spec: &AgentSpec, parent: Option<&Self>) -> Self {
        let state = match parent.filter(|_| spec.is_fork) {
            Some(parent) => AgentState::fork(spec, &parent.lock()),
            None => AgentState::new(spec),
        };
        Self(Arc::new(Mutex::new(state)))
    }

    fn lock(&self) -> MutexGuard<'_, AgentState> {
        self.0.lock()
    }

    /// Returns the state as it is now.
    pub(crate) fn read(&self) -> StateRef<'_> {
        StateRef(self.lock())
    }

    /// Returns the conversation.
    pub(crate) fn messages(&self) -> Vec<Arc<Message>> {
        self.lock().run().messages().to_vec()
    }

    /// Lets the messages of an agent go that has ended. Its records have them.
    pub(crate) fn release_messages(&self) {
        self.lock().release_messages();
    }

    /// Takes the state that the records give, with the messages.
    pub(crate) fn restore(&self, folded: &Self) {
        let folded = folded.lock().clone();
        *self.lock() = folded;
    }

    /// Applies an event of this agent that a recording has.
    pub(crate) fn replay(&self, event: &Event) {
        self.lock().apply(event);
    }
}

/// The states of all agents of a session, folded from its records.
#[derive(Debug, Default)]
pub(crate) struct AgentStates(Mutex<IndexMap<AgentId, SharedState>>);

impl AgentStates {
    /// Folds the records of a session.
    pub(crate) fn of(records: &[Record]) -> Self {
        let states = Self::default();
        records.iter().for_each(|record| states.apply(record));
        states
    }

    fn lock(&self) -> MutexGuard<'_, IndexMap<AgentId, SharedState>> {
        self.0.lock()
    }

    /// Returns the state of an agent that has started and was not removed.
    pub(crate) fn get(&self, agent: &AgentId) -> Option<SharedState> {
        self.lock().get(agent).cloned()
    }

    /// Returns the sources of what an agent writes to one below it.
    pub(crate) fn parent_sources(&self, parent: &AgentId) -> SourceSet {
        let state = self.get(parent);
        let mut sources = state.map(|state| state.read().outside().clone()).unwrap_or_default();
        sources.insert(Source::parent());
        sources
    }

    /// Returns the state of an agent, which is a new one if its start is not on record.
    pub(crate) fn open(&self, spec: &AgentSpec) -> SharedState {
        let mut states = self.lock();
        if let Some(known) = states.get(&spec.id) {
            return known.clone();
        }
        let new = SharedState::new(spec, parent_of(&states, spec));
        states.insert(spec.id.clone(), new.clone());
        new
    }

    /// Forgets an agent whose state nobody will ask for again.
    pub(crate) fn remove(&self, agent: &AgentId) {
        self.lock().swap_remove(agent);
    }

    /// Applies a record to the agents that it is about.
    pub(crate) fn apply(&self, record: &Record) {
        let mut states = self.lock();
        match &record.event {
            Event::AgentStart(start) => start_agent(&mut states, &start.spec),
            Event::SessionStart(_) => {
                // The person resumes the top agent. Agents below it that were told to end stay so.
                if let Some(top) = states.get(&record.agent) {
                    top.lock().reopen_session();
                }
            }
            Event::AgentStop { reason, pending: true } => stop(&states, &record.agent, *reason),
            Event::Hook(run) if run.name == HookPoint::SubagentStop => {
                if let Some(child) = run.child.as_ref().and_then(|id| states.get(id)) {
                    child.lock().record_notified_hook(&run.by);
                }
            }
            event => {
                if let Some(agent) = states.get(&record.agent) {
                    agent.lock().apply(event);
                    if matches!(event, Event::AgentEnd(_)) {
                        end_child(&states, record, agent);
                    }
                }
            }
        }
    }
}

fn parent_of<'s>(
    states: &'s IndexMap<AgentId, SharedState>,
    spec: &AgentSpec,
) -> Option<&'s SharedState> {
    spec.parent.as_ref().and_then(|parent| states.get(parent))
}

fn start_agent(states: &mut IndexMap<AgentId, SharedState>, spec: &AgentSpec) {
    let new = SharedState::new(spec, parent_of(states, spec));
    if let Some(parent) = parent_of(states, spec) {
        let mut parent = parent.lock();
        parent.record_child_start(spec);
        if let Some(reason) = parent.stopped() {
            new.lock().stop(reason.below());
        }
    }
    states.insert(spec.id.clone(), new);
}

/// Tells the parent of an agent that ended what its report may quote.
fn end_child(states: &IndexMap<AgentId, SharedState>, record: &Record, child: &SharedState) {
    if let Some(parent) = record.parent.as_ref().and_then(|parent| states.get(parent)) {
        let read = child.read().outside().clone();
        parent.lock().record_child_end(&record.agent, &read);
    }
}

/// Records that an agent was stopped, and with it those below it.
fn stop(states: &IndexMap<AgentId, SharedState>, id: &AgentId, reason: CancelReason) {
    for (other, state) in states {
        if other == id {
            state.lock().stop(reason);
        } else if other.ancestors().any(|above| above == *id) {
            state.lock().stop(reason.below());
        }
    }
}

#[cfg(test)]
mod tests;
