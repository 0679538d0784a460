//! Runs hooks, and puts each run on record.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::agent::AgentSpec;
use deputize_core::event::JournalError;
use deputize_core::hook::{
    Hook, HookAnswer, HookDecision, HookEvent, HookInput, HookPoint, HookRun,
};
use deputize_core::sanitize::{Secrets, for_terminal_line};
use deputize_core::{Cancel, CancelReason, Event, SessionId};
use futures_util::FutureExt as _;
use tokio::time::Instant;

use crate::bus::Bus;
use crate::settle::{GRACE, settle};

/// Maximum number of characters of a hook's reason.
const REASON_CHARS: usize = 2000;
/// Limit on a hook's name, in characters.
const NAME_CHARS: usize = 200;
/// The reason of a hook that gives none.
const NO_REASON: &str = "it gives no reason";

/// The hooks of a session.
pub(crate) struct HookRunner {
    pub(crate) session: SessionId,
    pub(crate) hooks: Vec<Arc<dyn Hook>>,
    /// Time limit of one run of a hook.
    pub(crate) time_limit: Duration,
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) bus: Arc<Bus>,
}

impl HookRunner {
    /// Returns whether any hook runs at this point.
    pub(crate) fn has_any(&self, point: HookPoint) -> bool {
        self.hooks.iter().any(|hook| hook.wants(point))
    }

    /// Runs the hooks of an event, one after the other, and puts each on record. Returns the reason
    /// of the first that blocks.
    ///
    /// # Errors
    /// When the journal takes no records.
    pub(crate) async fn run(
        &self,
        agent: &AgentSpec,
        event: HookEvent<'_>,
        cancel: &Cancel,
    ) -> Result<Option<String>, JournalError> {
        self.run_remaining(&[], agent, event, cancel).await
    }

    /// Runs the hooks of an event without those that ran already, by name.
    ///
    /// # Errors
    /// As [`HookRunner::run`].
    pub(crate) async fn run_remaining(
        &self,
        ran: &[String],
        agent: &AgentSpec,
        event: HookEvent<'_>,
        cancel: &Cancel,
    ) -> Result<Option<String>, JournalError> {
        let input = HookInput { session: &self.session, agent, event };
        for hook in self.remaining(event.point(), ran) {
            let started = Instant::now();
            // Whoever is told to end neither waits for another hook nor heeds what one says.
            let Some(answer) = self.answer_of(&**hook, &input, cancel).await else {
                return Ok(None);
            };
            let reason = for_terminal_line(&self.secrets.scrub(&answer.reason), REASON_CHARS);
            let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            let run = run_of(&**hook, &input, &answer, reason.clone(), ms);
            match event {
                // The child has not begun, or has ended: these stand among its parent's records.
                HookEvent::SubagentStart | HookEvent::SubagentStop { .. } => {
                    self.bus.record_above(agent, Event::Hook(Box::new(run)))?
                }
                HookEvent::PreToolUse { .. }
                | HookEvent::PostToolUse { .. }
                | HookEvent::UserPromptSubmit { .. } => {
                    self.bus.record(agent, Event::Hook(Box::new(run)))?
                }
            };
            if answer.decision == HookDecision::Block {
                return Ok(Some(if reason.is_empty() { NO_REASON.to_owned() } else { reason }));
            }
        }
        Ok(None)
    }

    /// Returns the hooks of a point without those that ran already, by name, each as often as it
    /// ran: there may be others now, in another order.
    pub(crate) fn remaining(&self, point: HookPoint, ran: &[String]) -> Vec<&Arc<dyn Hook>> {
        let mut ran: Vec<&str> = ran.iter().map(String::as_str).collect();
        let mut left: Vec<_> = self.hooks.iter().filter(|hook| hook.wants(point)).collect();
        left.retain(|hook| {
            let name = name_of(&***hook);
            let at = ran.iter().position(|by| **by == name);
            at.map(|at| ran.swap_remove(at)).is_none()
        });
        left
    }

    /// Returns the answer of one hook; `None` if the signal came first.
    async fn answer_of(
        &self,
        hook: &dyn Hook,
        input: &HookInput<'_>,
        cancel: &Cancel,
    ) -> Option<HookAnswer> {
        if cancel.is_cancelled() {
            return None;
        }
        let own = cancel.child();
        let limit = self.time_limit;
        let run = AssertUnwindSafe(async { hook.run(input, &own).await }).catch_unwind();
        let answer = settle(pin!(run), &own, Some(limit), GRACE).await;
        if cancel.is_cancelled() {
            return None;
        }
        // What it says after the signal is not what it was asked.
        if own.reason() == Some(CancelReason::TimeLimit) {
            let bytes = answer.and_then(Result::ok).map_or(0, |answer| answer.output_bytes);
            let error = format!("it did not end within {} s", limit.as_secs_f64());
            return Some(HookAnswer { output_bytes: bytes, ..HookAnswer::error(error) });
        }
        Some(match answer {
            Some(Ok(answer)) => answer,
            Some(Err(_)) | None => HookAnswer::error("it panicked"),
        })
    }
}

/// Returns the name of a hook on record.
fn name_of(hook: &dyn Hook) -> String {
    for_terminal_line(hook.name(), NAME_CHARS)
}

fn run_of(
    hook: &dyn Hook,
    input: &HookInput<'_>,
    answer: &HookAnswer,
    reason: String,
    ms: u64,
) -> HookRun {
    let about = input.event.call();
    let child = matches!(input.event, HookEvent::SubagentStart | HookEvent::SubagentStop { .. });
    let spawned_by = input.agent.spawned_by.as_ref().filter(|_| child).map(|by| by.call);
    HookRun {
        name: input.event.point(),
        by: name_of(hook),
        call: about.map(|(call, _)| call).or(spawned_by),
        tool: about.map(|(_, tool)| tool.to_owned()),
        child: child.then(|| input.agent.id.clone()),
        decision: answer.decision,
        reason,
        ms,
        output_bytes: answer.output_bytes,
    }
}
