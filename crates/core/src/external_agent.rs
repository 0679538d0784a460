//! External agents: programs with a loop, a model and tools of their own.

use std::sync::Arc;

use serde_json::Value;

use crate::agent::Agent;
use crate::agent_spec::AgentSpec;
use crate::authority::Authority;
use crate::cancel::Cancel;
use crate::future::BoxFuture;
use crate::message::CallStatus;
use crate::name::CallId;
use crate::policy::ApprovalAnswer;

/// Starts external agents: agents whose spec names a program where others name a model.
///
/// What such an agent reports is its claim: the host observed none of it, so its outcome has no
/// receipts and is marked as [`external`](crate::Outcome::external).
pub trait ExternalAgents: Send + Sync {
    /// Returns why a child may not be such an agent, if it may not, based on the child's own
    /// authority, which is never more than its parent's. Called before anything is started, also at
    /// a resume.
    fn refusal(&self, child: &AgentSpec, may: &Authority) -> Option<String>;

    /// Starts the agent of a spec, which reports its activity to the host.
    ///
    /// The agent ends soon after the signal and leaves nothing running; its outcome then holds the
    /// text it had sent so far.
    fn start(
        &self,
        spec: Arc<AgentSpec>,
        host: Arc<dyn ExternalAgentHost>,
        cancel: Cancel,
    ) -> Box<dyn Agent>;
}

/// A call of one of an external agent's own tools, as it reports it.
#[derive(Debug, Clone, PartialEq)]
pub struct ExternalToolCall {
    /// The number that it has in this session.
    pub call: CallId,
    /// The tool's name.
    pub tool: String,
    /// Arguments of the call, as JSON.
    pub arguments: Value,
}

/// The host side of an external agent: receives its reports and answers its questions.
pub trait ExternalAgentHost: Send + Sync {
    /// Receives the next piece of its text.
    fn on_text(&self, _piece: &str) {}

    /// Called when it begins a call.
    fn on_call_start(&self, call: &ExternalToolCall);

    /// Called when a call ends, with the text of its result.
    fn on_call_end(&self, call: &ExternalToolCall, status: CallStatus, text: &str);

    /// Asks whether it may do something; `details` is shown beside the command, such as the change
    /// to a file. Hooks and the agent's approver answer, unless the policy never allows this
    /// command or a command anywhere in the arguments of the call.
    fn approve<'a>(
        &'a self,
        call: &'a ExternalToolCall,
        command: &'a str,
        details: &'a str,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, ApprovalAnswer>;

    /// Waits until the agent must close, and returns the prompt for its closing answer, which it
    /// gives in one last turn. Once ready, it stays ready.
    fn closing(&self) -> BoxFuture<'_, String>;

    /// Returns the message to send if its answer does not match the schema of the spec; `None` if
    /// it matches or no correction is left.
    fn rejection(&self, answer: &str) -> Option<String>;
}

const fn _object_safe(_: &dyn ExternalAgents, _: &dyn ExternalAgentHost) {}
