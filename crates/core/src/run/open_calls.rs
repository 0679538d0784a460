//! The calls of a step, until each has a result.

use crate::message::{ToolCall, ToolResult};
use crate::model::{RawCall, Reply};
use crate::name::CallId;
use crate::outcome::ToolTrace;

/// The calls of a step, and their results so far.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OpenCalls {
    calls: Vec<ToolCall>,
    results: Vec<Option<(ToolTrace, ToolResult)>>,
}

impl OpenCalls {
    pub(super) fn new(calls: Vec<ToolCall>) -> Self {
        let results = vec![None; calls.len()];
        Self { calls, results }
    }

    /// Returns the calls without a result, in order.
    pub(super) fn without_result(&self) -> impl Iterator<Item = &ToolCall> {
        let calls = self.calls.iter().zip(&self.results);
        calls.filter(|(_, result)| result.is_none()).map(|(call, _)| call)
    }

    /// Records the result of a call, unless it has one. Returns whether every call has one now
    /// because of it.
    pub(super) fn record_result(&mut self, trace: ToolTrace, result: &ToolResult) -> bool {
        let slot = self.calls.iter().position(|call| call.id == result.call);
        let Some(place @ None) = slot.and_then(|slot| self.results.get_mut(slot)) else {
            return false;
        };
        *place = Some((trace, result.clone()));
        self.results.iter().all(Option::is_some)
    }

    /// Returns each call with its trace and its result, in order.
    pub(super) fn into_results(self) -> impl Iterator<Item = (ToolCall, ToolTrace, ToolResult)> {
        let results = self.results.into_iter().flatten();
        self.calls.into_iter().zip(results).map(|(call, (trace, result))| (call, trace, result))
    }
}

/// Returns the calls of a reply, with IDs.
pub(super) fn calls_of(reply: &Reply, step: u32) -> Vec<ToolCall> {
    let call = |(slot, raw): (u32, &RawCall)| ToolCall {
        id: CallId::new(step, slot),
        name: raw.name.clone(),
        arguments: raw.arguments.clone(),
    };
    (0..).zip(&reply.calls).map(call).collect()
}
