//! Says to a person which call was refused, by which rule, and how to allow it.

use std::collections::BTreeMap;

use deputize_core::event::ToolEnd;
use deputize_core::hook::{HookDecision, HookPoint, HookRun};
use deputize_core::message::CallStatus;
use deputize_core::policy::ApprovalAnswer;
use deputize_core::{AgentId, CallId, Event, Record, ToolName};

use super::summary::as_is;
use crate::approve::NO_TERMINAL;

/// Maximum number of characters of a call that are shown.
const CALL_CHARS: usize = 120;
/// Who says no where a person was asked.
const USER: &str = "user";

/// Maximum number of characters of why a call was denied.
const REASON_CHARS: usize = 600;

/// Returns whether a hook blocked a call: the line of the call's end says so.
pub(super) fn is_block_of_call(run: &HookRun) -> bool {
    run.name == HookPoint::PreToolUse && run.decision == HookDecision::Block && run.call.is_some()
}

/// Calls for which an approval was asked or that a hook blocked, and that have not ended.
#[derive(Debug, Default)]
pub(super) struct RefusedCalls {
    calls: BTreeMap<(AgentId, CallId), Approval>,
    /// The hooks that blocked calls.
    hooks: BTreeMap<(AgentId, CallId), String>,
    /// The tools of a shared list that an agent lacks because nobody approves its calls.
    unapproved: BTreeMap<AgentId, Vec<ToolName>>,
    /// There is no terminal to ask at.
    unasked: bool,
}

/// An approval that was asked for.
#[derive(Debug)]
struct Approval {
    command: String,
    class: String,
    /// The rule that asks.
    rule: String,
    /// Who denied it, if it was denied.
    denied_by: Option<String>,
}

impl RefusedCalls {
    pub(super) fn new(unasked: bool) -> Self {
        Self { unasked, ..Self::default() }
    }

    /// Takes a record. Returns what to show of a call that ended because it was denied.
    pub(super) fn apply(&mut self, record: &Record) -> Option<String> {
        let key = |call: CallId| (record.agent.clone(), call);
        match &record.event {
            Event::ApprovalRequest { call, command, class, reason } => {
                let (command, class, rule) = (command.clone(), class.clone(), reason.clone());
                let approval = Approval { command, class, rule, denied_by: None };
                self.calls.insert(key(*call), approval);
            }
            Event::ApprovalDecision { call, decision, by } if decision == "deny" => {
                if let Some(approval) = self.calls.get_mut(&key(*call)) {
                    approval.denied_by = Some(by.clone());
                }
            }
            Event::ApprovalDecision { call, .. } => {
                self.calls.remove(&key(*call));
            }
            Event::AgentStart(start) if !start.spec.unapproved.is_empty() => {
                self.unapproved.insert(record.agent.clone(), start.spec.unapproved.clone());
            }
            Event::Hook(run) if is_block_of_call(run) => {
                self.hooks.extend(run.call.map(|call| (key(call), run.by.clone())));
            }
            Event::ToolEnd(end) => {
                let key = key(end.result.call);
                let hook = self.hooks.remove(&key);
                let tool = as_is(&end.tool, CALL_CHARS);
                let Some(approval) = self.calls.remove(&key) else {
                    let why = self.denial(record, end, hook.as_deref())?;
                    return Some(format!("{tool} refused: {why}"));
                };
                let by = approval.denied_by?;
                let command = as_is(&approval.command, CALL_CHARS);
                let (class, rule) = (as_is(&approval.class, 80), as_is(&approval.rule, 300));
                let why = self.reason(&by, record.depth);
                return Some(format!("{tool} refused: {command} ({class}: {rule}); {why}"));
            }
            Event::AgentEnd(_) => {
                self.calls.retain(|(agent, _), _| *agent != record.agent);
                self.hooks.retain(|(agent, _), _| *agent != record.agent);
            }
            _ => {}
        }
        None
    }

    /// Returns why a call was denied about which nobody was asked.
    fn denial(&self, record: &Record, end: &ToolEnd, hook: Option<&str>) -> Option<String> {
        let why = end.error.as_deref().filter(|_| end.result.status == CallStatus::Denied)?;
        let lacks = |tools: &Vec<ToolName>| tools.iter().any(|tool| tool.as_str() == end.tool);
        if self.unapproved.get(&record.agent).is_some_and(lacks) {
            return Some(self.reason(ApprovalAnswer::NOBODY, record.depth));
        }
        let hook = hook.map(|by| format!(" (`{}`)", as_is(by, CALL_CHARS))).unwrap_or_default();
        Some(format!("{}{hook}", as_is(why, REASON_CHARS)))
    }

    /// Returns who denied a call, and the setting that allows it.
    fn reason(&self, by: &str, depth: u32) -> String {
        match (by, depth) {
            (USER, _) => "you said no".to_owned(),
            (NO_TERMINAL, 1..) => {
                "there is no terminal to ask at; `delegation.approvals: auto` allows it".to_owned()
            }
            (ApprovalAnswer::NOBODY, 1..) => {
                "calls of children are not approved; `delegation.approvals: \
                                      ask` or `auto` allows it"
                    .to_owned()
            }
            (ApprovalAnswer::NOBODY, _) if !self.unasked => {
                "approvals are off; `--approve ask` asks you".to_owned()
            }
            (NO_TERMINAL | ApprovalAnswer::NOBODY, _) => {
                "there is no terminal to ask at; `--approve auto` allows it".to_owned()
            }
            (by, _) => format!("denied by {}", as_is(by, 80)),
        }
    }
}
