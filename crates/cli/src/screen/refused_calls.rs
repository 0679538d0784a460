//! Says to a person which call was refused, by which rule, and how to allow it.

use deputize_core::event::ToolEnd;
use deputize_core::hook::{HookDecision, HookPoint, HookRun};
use deputize_core::message::CallStatus;
use deputize_core::policy::ApprovalAnswer;
use deputize_core::sanitize::for_verbatim_line;
use deputize_runtime::AgentSnapshot;
use deputize_runtime::snapshot::EndedCall;

/// Maximum number of characters of a call that are shown.
const CALL_CHARS: usize = 120;
/// Maximum number of characters of why a call was denied.
const REASON_CHARS: usize = 600;
/// Who says no where a person was asked.
const USER: &str = "user";
/// Who says no where no terminal can be asked.
pub(crate) const NO_TERMINAL: &str = "no terminal to ask on";

/// Returns whether a hook blocked a call: the line of the call's end says so.
pub(super) fn is_block_of_call(run: &HookRun) -> bool {
    run.name == HookPoint::PreToolUse && run.decision == HookDecision::Block && run.call.is_some()
}

/// Returns what to show of the call of an agent that has just ended because it was denied; `None` if
/// it ended otherwise. `unasked` says that there is no terminal to ask at.
pub(super) fn refusal_words(agent: &AgentSnapshot, end: &ToolEnd, unasked: bool) -> Option<String> {
    let call = agent.calls.last.as_ref()?;
    let tool = for_verbatim_line(&call.tool, CALL_CHARS);
    let approval = call.approval.as_ref();
    let decision = approval.map(|approval| approval.decision.as_ref());
    match approval.zip(decision) {
        Some((_, None)) => None,
        Some((approval, Some(decision))) if !decision.is_allowed => {
            let command = for_verbatim_line(&approval.command, CALL_CHARS);
            let class = for_verbatim_line(&approval.class, 80);
            let rule = for_verbatim_line(&approval.rule, 300);
            let why = denial_words(&decision.by, agent.depth, unasked);
            Some(format!("{tool} refused: {command} ({class}: {rule}); {why}"))
        }
        _ => {
            let why = unasked_denial_words(agent, call, end, unasked)?;
            Some(format!("{tool} refused: {why}"))
        }
    }
}

/// Returns why a call was denied about which nobody was asked.
fn unasked_denial_words(
    agent: &AgentSnapshot,
    call: &EndedCall,
    end: &ToolEnd,
    unasked: bool,
) -> Option<String> {
    let why = end.error.as_deref().filter(|_| call.status == CallStatus::Denied)?;
    if agent.unapproved.iter().any(|tool| tool.as_str() == call.tool) {
        return Some(denial_words(ApprovalAnswer::NOBODY, agent.depth, unasked));
    }
    let hook = call.blocked_by.as_deref();
    let hook = hook.map(|by| format!(" (`{}`)", for_verbatim_line(by, CALL_CHARS)));
    Some(format!("{}{}", for_verbatim_line(why, REASON_CHARS), hook.unwrap_or_default()))
}

/// Returns who denied a call, and the setting that allows it.
fn denial_words(by: &str, depth: u32, unasked: bool) -> String {
    match (by, depth) {
        (USER, _) => "you said no".to_owned(),
        (NO_TERMINAL, 1..) => {
            "no terminal to ask at; `delegation.approvals: auto` allows it".to_owned()
        }
        (ApprovalAnswer::NOBODY, 1..) => {
            "calls of children are not approved; `delegation.approvals: \
                                  ask` or `auto` allows it"
                .to_owned()
        }
        (ApprovalAnswer::NOBODY, _) if !unasked => {
            "approvals are off; `--approve ask` asks you".to_owned()
        }
        (NO_TERMINAL | ApprovalAnswer::NOBODY, _) => {
            "no terminal to ask at; `--approve auto` allows it".to_owned()
        }
        (by, _) => format!("denied by {}", for_verbatim_line(by, 80)),
    }
}
