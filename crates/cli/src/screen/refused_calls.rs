//! Says to a person which call was refused, by which rule, and how to allow it.

use std::collections::BTreeMap;

use deputize_core::policy::ApprovalAnswer;
use deputize_core::{AgentId, CallId, Event, Record};

use super::summary::as_is;
use crate::approve::NO_TERMINAL;

/// Maximum number of characters of a call that are shown.
const CALL_CHARS: usize = 120;
/// Who says no where a person was asked.
const USER: &str = "user";

/// Calls for which an approval was asked, and that have not ended.
#[derive(Debug, Default)]
pub(super) struct RefusedCalls {
    calls: BTreeMap<(AgentId, CallId), Approval>,
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

    /// Takes a record. Returns what to show of a call that ended because its approval was denied.
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
            Event::ToolEnd(end) => {
                let approval = self.calls.remove(&key(end.result.call))?;
                let by = approval.denied_by?;
                let tool = as_is(&end.tool, CALL_CHARS);
                let command = as_is(&approval.command, CALL_CHARS);
                let (class, rule) = (as_is(&approval.class, 80), as_is(&approval.rule, 300));
                let why = self.reason(&by, record.depth);
                return Some(format!("{tool} refused: {command} ({class}: {rule}); {why}"));
            }
            Event::AgentEnd(_) => self.calls.retain(|(agent, _), _| *agent != record.agent),
            _ => {}
        }
        None
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
