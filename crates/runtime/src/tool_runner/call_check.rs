//! Has a tool look at a call before anybody is asked about it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use deputize_core::message::CallStatus;
use deputize_core::tool::{CallCheck, CallRisk};
use deputize_core::{Cancel, Tool, ToolCall, ToolCx};
use futures_util::FutureExt as _;
use serde_json::Value;

use super::result::{self, FinishedCall};
use crate::agent_context::AgentContext;

/// Returns the risk for which a call needs an approval in any case; `None` if there is none.
///
/// # Errors
/// With the result of the call, if its tool would refuse it.
pub(super) async fn check_call(
    cx: &AgentContext,
    call: &ToolCall,
    tool: &dyn Tool,
    arguments: &Value,
    work: &Cancel,
) -> Result<Option<CallRisk>, Box<FinishedCall>> {
    let tool_cx = ToolCx { call: call.id, agent: Arc::clone(&cx.view), cancel: work.child() };
    let check = AssertUnwindSafe(async { tool.check(arguments, &tool_cx).await }).catch_unwind();
    let checked = tokio::select! {
        biased;
        () = work.cancelled() => {
            let text = "cancelled before it started";
            return Err(Box::new(FinishedCall::own(CallStatus::Cancelled, text)));
        }
        checked = check => checked,
    };
    match checked {
        Ok(Ok(CallCheck::Asks(risk))) => Ok(Some(risk)),
        Ok(Ok(_)) => Ok(None),
        Ok(Err(error)) => Err(Box::new(result::done(cx, call, Err(error), None))),
        Err(_panicked) => Err(Box::new(FinishedCall::crashed(call))),
    }
}
