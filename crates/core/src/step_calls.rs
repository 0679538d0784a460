//! The calls of an agent's current step.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

use crate::name::CallId;
use crate::resource::Resource;

/// A call of a tool that starts agents.
#[derive(Debug, Clone, PartialEq)]
pub struct StepCall {
    /// ID of the call.
    pub id: CallId,
    /// The tool as the model wrote it.
    pub tool: String,
    /// The arguments as passed to the tool.
    pub arguments: Value,
    /// Time that it ran in earlier processes of the session.
    pub ran: Duration,
}

/// The calls of the agent's current step whose tools start agents, in order, including those that
/// have a result. Stored per agent, for these tools.
#[derive(Debug, Default)]
pub struct StepCalls(Mutex<Arc<[StepCall]>>);

impl Resource for StepCalls {}

impl StepCalls {
    /// Sets the calls of a step that begins.
    pub fn set(&self, calls: Vec<StepCall>) {
        *self.0.lock() = calls.into();
    }

    /// Returns the calls of the current step.
    #[must_use]
    pub fn get(&self) -> Arc<[StepCall]> {
        Arc::clone(&self.0.lock())
    }
}
