//! The hooks before and after a call.

use std::borrow::Cow;

use deputize_core::event::JournalError;
use deputize_core::hook::{HookEvent, HookPoint};
use deputize_core::message::CallStatus;
use deputize_core::policy::Denial;
use deputize_core::sanitize::for_terminal_line;
use deputize_core::{Cancel, ToolCall, ToolSpec};
use serde_json::Value;

use super::denial::with_subject;
use super::result::FinishedCall;
use crate::agent_context::AgentContext;
use crate::hook::scrubbed;

/// Limit on a tool's note for a hook or a model, in characters.
const NOTE_CHARS: usize = 2000;

/// Asks the hooks whether a call may run. Gives its result when it may not.
pub(super) async fn before_tool(
    cx: &AgentContext,
    call: &ToolCall,
    tool: &ToolSpec,
    arguments: &Value,
    work: &Cancel,
) -> Result<Option<FinishedCall>, JournalError> {
    let shown = seen_by_hooks(cx, HookPoint::PreToolUse, arguments);
    let Some(shown) = shown else { return Ok(None) };
    let event = HookEvent::PreToolUse { call: call.id, tool: &call.name, arguments: &shown };
    let blocked = Box::pin(cx.shared.hooks.run(&cx.view.spec, event, work)).await?;
    if let Some(reason) = blocked {
        let denial = Denial {
            for_model: format!("denied: a hook blocked this call: {reason}"),
            for_person: with_subject(tool, arguments, &format!("a hook blocked it: {reason}")),
        };
        return Ok(Some(FinishedCall::denied(&denial)));
    }
    if work.is_cancelled() {
        return Ok(Some(FinishedCall::own(CallStatus::Cancelled, "cancelled before it started")));
    }
    Ok(None)
}

/// Returns the arguments of a call as the hooks after it will see them; `None` if there are none.
pub(super) fn shown_after(cx: &AgentContext, arguments: &Value) -> Option<Value> {
    seen_by_hooks(cx, HookPoint::PostToolUse, arguments).map(Cow::into_owned)
}

/// Shows the hooks what a call gave. The reason of a block stands beside the result.
pub(super) async fn after_tool(
    cx: &AgentContext,
    call: &ToolCall,
    shown: Option<Value>,
    done: &mut FinishedCall,
    work: &Cancel,
) -> Result<(), JournalError> {
    let Some(arguments) = shown else { return Ok(()) };
    let output = plain(cx, done);
    let event = HookEvent::PostToolUse {
        call: call.id,
        tool: &call.name,
        arguments: &arguments,
        status: done.status,
        output: &output,
    };
    let said = Box::pin(cx.shared.hooks.run(&cx.view.spec, event, work)).await?;
    done.add(said.map(|reason| format!("[a hook after this call says: {reason}]")));
    Ok(())
}

fn seen_by_hooks<'v>(
    cx: &AgentContext,
    point: HookPoint,
    arguments: &'v Value,
) -> Option<Cow<'v, Value>> {
    let wanted = cx.shared.hooks.has_any(point);
    wanted.then(|| scrubbed(&cx.shared.config.secrets, arguments))
}

/// Returns the result of a call, without frame and secrets.
fn plain(cx: &AgentContext, done: &FinishedCall) -> String {
    let output = &done.output;
    if output.content.is_empty() && output.notes.is_empty() {
        return done.text().into_string();
    }
    let scrub = |text| cx.shared.config.secrets.scrub(text);
    let mut plain = scrub(&output.content).into_owned();
    for note in &output.notes {
        if !plain.is_empty() && !plain.ends_with('\n') {
            plain.push('\n');
        }
        plain.push_str(&format!("[{}]", for_terminal_line(&scrub(note), NOTE_CHARS)));
    }
    plain
}
