//! The calls of one agent of a session snapshot.

use deputize_core::event::ToolEnd;
use deputize_core::hook::{HookDecision, HookPoint, HookRun};
use deputize_core::message::CallStatus;
use deputize_core::{CallId, Catalog, Event};

use crate::call_text::{describe_call, task_goals};

/// The calls of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct AgentCalls {
    /// Those that run, in the order they began.
    pub running: Vec<RunningCall>,
    /// The approvals of calls that have no result.
    pub approvals: Vec<CallApproval>,
    /// The calls without a result that a hook blocked.
    pub blocks: Vec<CallBlock>,
    /// The one that ended last, while the agent runs.
    pub last: Option<EndedCall>,
    /// Number of started calls.
    pub started: usize,
    /// Number of calls with a result.
    pub ended: usize,
    /// Number of denied calls among those.
    pub denied: usize,
}

/// A call that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunningCall {
    /// ID of the call.
    pub call: CallId,
    /// The tool as the model wrote it.
    pub tool: String,
    /// The call in a short phrase, safe for a terminal.
    pub text: String,
    /// Its own progress note, on one line of at most 300 characters; not on record.
    pub progress: Option<String>,
    /// If it starts agents: the goal of each task, one line each.
    pub task_goals: Vec<String>,
}

/// A call that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndedCall {
    /// ID of the call.
    pub call: CallId,
    /// The tool as the model wrote it.
    pub tool: String,
    /// How it ended.
    pub status: CallStatus,
    /// Its approval, if one was requested.
    pub approval: Option<CallApproval>,
    /// The hook that blocked it, if one did.
    pub blocked_by: Option<String>,
}

/// A call that a hook blocked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallBlock {
    /// ID of the call.
    pub call: CallId,
    /// Name of the hook.
    pub by: String,
}

/// A call for which an approval was requested.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallApproval {
    /// ID of the call.
    pub call: CallId,
    /// The command that would run.
    pub command: String,
    /// Class of the command.
    pub class: String,
    /// The rule that asks.
    pub rule: String,
    /// The decision; `None` while the question is open.
    pub decision: Option<CallDecision>,
}

/// The decision on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallDecision {
    /// Whether the call may run.
    pub is_allowed: bool,
    /// Name of what decided: a hook, a policy or an approver.
    pub by: String,
}

impl AgentCalls {
    /// Returns a call that runs.
    #[must_use]
    pub fn running(&self, call: CallId) -> Option<&RunningCall> {
        self.running.iter().find(|running| running.call == call)
    }

    /// Returns the approval of a call without a result.
    #[must_use]
    pub fn approval(&self, call: CallId) -> Option<&CallApproval> {
        self.approvals.iter().find(|approval| approval.call == call)
    }

    /// Returns the open question that was asked first.
    #[must_use]
    pub fn question(&self) -> Option<&CallApproval> {
        self.approvals.iter().find(|approval| approval.decision.is_none())
    }

    pub(super) fn running_mut(&mut self, call: CallId) -> Option<&mut RunningCall> {
        self.running.iter_mut().find(|running| running.call == call)
    }

    pub(super) fn apply(&mut self, event: &Event, tools: &Catalog) {
        match event {
            Event::ToolStart { call, tool, arguments } => {
                self.started = self.started.saturating_add(1);
                self.running.retain(|running| running.call != *call);
                self.running.push(RunningCall::new(*call, tool, arguments, tools));
            }
            Event::ToolEnd(end) => self.end_call(end),
            Event::ApprovalRequest { call, command, class, reason } => {
                self.approvals.retain(|approval| approval.call != *call);
                self.approvals.push(CallApproval {
                    call: *call,
                    command: command.clone(),
                    class: class.clone(),
                    rule: reason.clone(),
                    decision: None,
                });
            }
            Event::ApprovalDecision { call, decision, by } => {
                let asked = self.approvals.iter_mut().find(|approval| approval.call == *call);
                if let Some(approval) = asked {
                    let decision = CallDecision { is_allowed: decision == "allow", by: by.clone() };
                    approval.decision = Some(decision);
                }
            }
            Event::Hook(run) => self.apply_hook(run),
            Event::AgentEnd(_) => self.clear(),
            _ => {}
        }
    }

    fn apply_hook(&mut self, run: &HookRun) {
        let is_block = run.name == HookPoint::PreToolUse && run.decision == HookDecision::Block;
        let block =
            run.call.filter(|_| is_block).map(|call| CallBlock { call, by: run.by.clone() });
        if let Some(block) = block {
            self.blocks.retain(|known| known.call != block.call);
            self.blocks.push(block);
        }
    }

    fn end_call(&mut self, end: &ToolEnd) {
        let call = end.result.call;
        let status = end.result.status;
        self.ended = self.ended.saturating_add(1);
        self.denied = self.denied.saturating_add(usize::from(status == CallStatus::Denied));
        self.running.retain(|running| running.call != call);
        let place = self.approvals.iter().position(|approval| approval.call == call);
        let approval = place.map(|place| self.approvals.remove(place));
        let place = self.blocks.iter().position(|block| block.call == call);
        let blocked_by = place.map(|place| self.blocks.remove(place).by);
        self.last = Some(EndedCall { call, tool: end.tool.clone(), status, approval, blocked_by });
    }

    /// Forgets what no process works on any more.
    pub(super) fn clear(&mut self) {
        self.running.clear();
        self.approvals.clear();
        self.blocks.clear();
        self.last = None;
    }
}

impl RunningCall {
    fn new(call: CallId, tool: &str, arguments: &str, tools: &Catalog) -> Self {
        let spawns = tools.spec(tool).filter(|spec| spec.spawns);
        Self {
            call,
            tool: tool.to_owned(),
            text: describe_call(tools, tool, arguments),
            progress: None,
            task_goals: spawns.map(|spec| task_goals(&spec.subject, arguments)).unwrap_or_default(),
        }
    }
}
