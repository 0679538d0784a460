//! Has a tool look at a call before anybody is asked about it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use deputize_core::message::CallStatus;
use deputize_core::tool::{CallCheck, CallRisk};
use deputize_core::{Cancel, CancelReason, Tool, ToolCall, ToolCx, ToolError};
use futures_util::FutureExt as _;
use serde_json::Value;

use super::result::{self, FinishedCall};
use crate::agent_context::AgentContext;
use crate::settle::{call_grace, settle};

/// Has a tool look at a call within the time that the call itself has.
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
    let limit = tool.spec().time_limit;
    let grace = call_grace(call.id, cx.view.authority.spawn_depth());
    let checked = settle(std::pin::pin!(check), &tool_cx.cancel, limit, grace).await;
    if work.is_cancelled() {
        let text = "cancelled before it started";
        return Err(Box::new(FinishedCall::own(CallStatus::Cancelled, text)));
    }
    let timed_out = tool_cx.cancel.reason() == Some(CancelReason::TimeLimit);
    let timed_out = timed_out.then_some(limit).flatten();
    match checked {
        Some(Err(_panicked)) => Err(Box::new(FinishedCall::crashed(call))),
        Some(Ok(Err(error))) => Err(Box::new(result::done(cx, call, Err(error), timed_out))),
        Some(Ok(Ok(CallCheck::Asks(risk)))) => Ok(Some(risk)),
        Some(Ok(Ok(_))) => Ok(None),
        None => {
            tracing::warn!(call = %call.id, tool = call.name, "check abandoned: it did not end");
            let error = Err(ToolError::Cancelled(Box::default()));
            Err(Box::new(result::done(cx, call, error, timed_out)))
        }
    }
}
