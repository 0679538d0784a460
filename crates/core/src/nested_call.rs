//! Nested calls: calls that a running call makes of its agent's tools.

use std::fmt;
use std::future::ready;
use std::sync::Arc;

use crate::event::JournalError;
use crate::future::BoxFuture;
use crate::message::CallStatus;
use crate::resource::Resource;
use crate::tool::ToolCx;
use crate::tool_effect::ToolEffect;

/// Called with `true` when a call begins to wait for the answer to a question, and with `false` when
/// it has it or waits no longer.
pub type QuestionListener = Arc<dyn Fn(bool) + Send + Sync>;

/// A nested call.
#[derive(Clone)]
pub struct NestedCall<'a> {
    /// Context of the call that makes it. Cancelling that one cancels it.
    pub outer: &'a ToolCx,
    /// Its number among the nested calls of that one, from 1. No two have the same.
    pub number: u32,
    /// The tool; the agent need not have it.
    pub tool: &'a str,
    /// The arguments as JSON; they need not match the tool's schema.
    pub arguments: &'a str,
    /// Called when the call begins and ceases to wait for an answer.
    pub on_question: QuestionListener,
}

impl fmt::Debug for NestedCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NestedCall({} in {})", self.number, self.outer.call)
    }
}

/// The result of a nested call. Secrets are replaced in it; foreign content is in no frame, because
/// no model reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NestedResult {
    /// How the call ended.
    pub status: CallStatus,
    /// The content; for a call that did not succeed, the reason and what there was of the content.
    pub content: String,
    /// Remarks of the tool.
    pub notes: Vec<String>,
    /// Effects that the host observed.
    pub facts: Vec<ToolEffect>,
}

impl NestedResult {
    /// Returns the result of a call that did not run, with the reason.
    #[must_use]
    pub fn refused(why: impl Into<String>) -> Self {
        Self {
            status: CallStatus::Error,
            content: why.into(),
            notes: Vec::new(),
            facts: Vec::new(),
        }
    }
}

/// Makes the nested calls of an agent, each as if the agent's model had made it: within the agent's
/// authority, judged by the policy, asked about, and on record with an ID of its own.
pub trait NestedCaller: Send + Sync {
    /// Makes a call. Calls may run side by side; one whose tool does not allow that waits for those
    /// that run, and lets none run beside it.
    ///
    /// # Errors
    /// When the journal takes no records. Nothing may go on then.
    fn call<'a>(
        &'a self,
        call: NestedCall<'a>,
    ) -> BoxFuture<'a, Result<NestedResult, JournalError>>;
}

/// The caller of an agent, stored with it. By default every call is refused.
pub struct NestedCalls(Box<dyn NestedCaller>);

impl NestedCalls {
    /// Stores a caller.
    #[must_use]
    pub fn new(caller: impl NestedCaller + 'static) -> Self {
        Self(Box::new(caller))
    }

    /// Returns the caller.
    #[must_use]
    pub fn caller(&self) -> &dyn NestedCaller {
        &*self.0
    }
}

impl Default for NestedCalls {
    fn default() -> Self {
        Self::new(NoNestedCalls)
    }
}

impl fmt::Debug for NestedCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NestedCalls(..)")
    }
}

impl Resource for NestedCalls {}

/// Refuses every call.
#[derive(Debug, Clone, Copy)]
struct NoNestedCalls;

impl NestedCaller for NoNestedCalls {
    fn call<'a>(
        &'a self,
        call: NestedCall<'a>,
    ) -> BoxFuture<'a, Result<NestedResult, JournalError>> {
        let tool = call.tool;
        Box::pin(ready(Ok(NestedResult::refused(format!("{tool} cannot be called here")))))
    }
}
