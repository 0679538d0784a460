//! Agents that are programs of their own: they bring their own loop, model and tools.

use std::sync::Arc;

use serde_json::Value;

use crate::agent::{Agent, AgentSpec};
use crate::authority::Authority;
use crate::cancel::Cancel;
use crate::message::CallStatus;
use crate::model::BoxFuture;
use crate::name::CallId;
use crate::policy::ApprovalAnswer;

/// A way to agents that are programs of their own. An agent whose spec names it where others
/// name a model is had from it.
///
/// What such an agent tells of itself is its claim: the host saw none of it, so its outcome has
/// no receipts, and says that it is [`external`](crate::Outcome::external).
pub trait ExternalAgents: Send + Sync {
    /// Why a child may not be such an agent, if it may not, by what it may do itself: that is never
    /// more than its parent may. Asked before anything is started, also at a resume.
    fn refusal(&self, child: &AgentSpec, may: &Authority) -> Option<String>;

    /// Starts the agent of a spec. What it does on its way is told to the host.
    ///
    /// It ends soon after the signal, with nothing of it left; its outcome then has what it had
    /// said until then.
    fn start(
        &self,
        spec: Arc<AgentSpec>,
        host: Arc<dyn ExternalAgentHost>,
        cancel: Cancel,
    ) -> Box<dyn Agent>;
}

/// A call of a tool that such an agent has for itself, as it tells of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ExternalToolCall {
    /// The number that it has here.
    pub call: CallId,
    /// The tool's name.
    pub tool: String,
    /// What it is given.
    pub arguments: Value,
}

/// What such an agent is run by: takes what it tells and answers what it asks.
pub trait ExternalAgentHost: Send + Sync {
    /// It said something: the next piece of its words.
    fn on_text(&self, _piece: &str) {}

    /// It began a call.
    fn on_call_start(&self, call: &ExternalToolCall);

    /// A call ended, and gave this text.
    fn on_call_end(&self, call: &ExternalToolCall, status: CallStatus, text: &str);

    /// It asks whether it may do something: what, and what is to be seen of that beside it, such
    /// as the change of a file. Hooks and the agent's approver answer, but not where what it asks
    /// for, or a command anywhere in the arguments of the call, never runs.
    fn approve<'a>(
        &'a self,
        call: &'a ExternalToolCall,
        command: &'a str,
        details: &'a str,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, ApprovalAnswer>;

    /// Waits until it is to close, and gives what it is to be told then: to answer with what it
    /// has, in one last turn. Once it is so, it stays so.
    fn closing(&self) -> BoxFuture<'_, String>;

    /// What it is to be told if its answer misses the schema that the spec asks for, as often as
    /// that may be told.
    fn rejection(&self, answer: &str) -> Option<String>;
}

const fn _object_safe(_: &dyn ExternalAgents, _: &dyn ExternalAgentHost) {}
