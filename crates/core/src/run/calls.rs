//! The calls of a reply, and their results.

use super::repetition::StepNovelty;
use super::{LastRequestReason, Run, RunState, Step};
use crate::message::{CallStatus, Message, ModelText, ToolCall, ToolResult};
use crate::model::{Finish, Reply};
use crate::name::CallId;
use crate::outcome::ToolTrace;

const LOOP_NOTE: &str = include_str!("../../prompts/loop_note.md");
const CUT_CALL: &str = include_str!("../../prompts/cut_call.md");

impl Run {
    pub(super) fn mint(&self, reply: &Reply) -> Vec<ToolCall> {
        let call = |(slot, raw): (u32, &crate::model::RawCall)| ToolCall {
            id: CallId { step: self.iteration, slot },
            name: raw.name.clone(),
            arguments: raw.arguments.clone(),
        };
        (0..).zip(&reply.calls).map(call).collect()
    }

    pub(super) fn open(&mut self, calls: Vec<ToolCall>, finish: Finish) {
        let results = vec![None; calls.len()];
        self.state = RunState::Calling { calls, results };
        if finish == Finish::Length {
            self.settle_open(CallStatus::Error, CUT_CALL);
        }
    }

    /// Gives every open call a result from the host, so that none remains without one.
    pub(super) fn settle_open(&mut self, status: CallStatus, text: &str) {
        let Step::Call(open) = self.step() else { return };
        let ids: Vec<CallId> = open.iter().map(|call| call.id).collect();
        for call in ids {
            let text = ModelText::own(text.trim_end());
            self.result(&ToolResult { call, status, text, fingerprint: String::new() });
        }
    }

    pub(super) fn result(&mut self, result: &ToolResult) {
        let RunState::Calling { calls, results } = &mut self.state else { return };
        let Some(slot) = calls.iter().position(|call| call.id == result.call) else { return };
        let Some(place @ None) = results.get_mut(slot) else { return };
        *place = Some(result.clone());
        if results.iter().all(Option::is_some) {
            self.results_complete();
        }
    }

    pub(super) fn results_complete(&mut self) {
        let RunState::Calling { calls, results } =
            std::mem::replace(&mut self.state, RunState::Asking)
        else {
            return;
        };
        for (call, result) in calls.iter().zip(results.into_iter().flatten()) {
            self.repetition.record(call, &result);
            self.trace.push(ToolTrace {
                tool: call.name.clone(),
                args_bytes: call.arguments.len() as u64,
                result_bytes: result.text.as_str().len() as u64,
                status: result.status,
            });
            self.push(Message::Tool(result));
        }
        for message in std::mem::take(&mut self.waiting) {
            self.push(Message::User(message));
        }
        match self.repetition.judge() {
            StepNovelty::Progress => self.check_iterations(),
            StepNovelty::Repeating => {
                self.say(LOOP_NOTE);
                self.check_iterations();
            }
            // Another model may do better, so the driver decides.
            StepNovelty::Stuck if self.repetition.unreadable_calls().is_some() => {
                self.check_iterations()
            }
            StepNovelty::Stuck => self.close(LastRequestReason::Loop),
        }
    }
}
