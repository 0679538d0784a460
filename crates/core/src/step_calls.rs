//! The calls of the step that an agent is in.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::agent::Resource;
use crate::name::CallId;

/// A call of a tool that starts agents.
#[derive(Debug, Clone, PartialEq)]
pub struct StepCall {
    /// The call.
    pub id: CallId,
    /// The tool as the model wrote it.
    pub tool: String,
    /// The arguments as the tool gets them.
    pub arguments: Value,
    /// How long it ran in earlier processes of the session.
    pub ran: Duration,
}

/// The calls of the agent's present step whose tools start agents, in the order they were made, also
/// those that have a result: kept in the agent's store, for the tools themselves.
#[derive(Debug, Default)]
pub struct StepCalls(Mutex<Arc<[StepCall]>>);

impl Resource for StepCalls {}

impl StepCalls {
    /// Takes the calls of the step that begins.
    pub fn set(&self, calls: Vec<StepCall>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = calls.into();
    }

    /// Returns the calls of the present step.
    #[must_use]
    pub fn get(&self) -> Arc<[StepCall]> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
