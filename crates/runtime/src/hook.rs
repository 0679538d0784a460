//! Runs hooks, and tells the memory of finished children.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::door::{Secrets, to_line};
use deputize_core::{
    AgentSpec, Cancel, CancelReason, Event, Hook, HookAnswer, HookDecision, HookInput, HookPoint,
    HookRun, JournalError, LogLevel, MEMORY_SECONDS, Memory, Moment, Outcome, Status,
    describe_error,
};
use futures_util::FutureExt as _;
use serde_json::Value;
use tokio::time::Instant;

use crate::call::{GRACE, settle};
use crate::driver::Driver;
use crate::shared::Shared;
use crate::stored::StoredAgent;

/// How many characters of a hook's reason are kept and told.
const REASON_CHARS: usize = 2000;
/// How many characters of a hook's name.
const NAME_CHARS: usize = 200;
/// How long the memory may still take when the run was told to end.
const MEMORY_GRACE: Duration = Duration::from_millis(500);

impl Shared {
    /// Runs the hooks of a moment, one after the other, and puts each on record. Gives the
    /// reason of the first that blocks.
    ///
    /// # Errors
    /// When the journal takes no records.
    pub(crate) async fn hooks(
        &self,
        agent: &AgentSpec,
        moment: Moment<'_>,
        cancel: &Cancel,
    ) -> Result<Option<String>, JournalError> {
        self.hooks_but(&[], agent, moment, cancel).await
    }

    /// The same without those that ran already.
    async fn hooks_but(
        &self,
        ran: &[String],
        agent: &AgentSpec,
        moment: Moment<'_>,
        cancel: &Cancel,
    ) -> Result<Option<String>, JournalError> {
        let input = HookInput { session: &self.view.id, agent, moment };
        for hook in self.hooks_left(moment.point(), ran) {
            let started = Instant::now();
            // Whoever is told to end neither waits for another hook nor heeds what one says.
            let Some(answer) = self.answer_of(&**hook, &input, cancel).await else {
                return Ok(None);
            };
            let reason = to_line(&self.parts.secrets.scrub(&answer.reason), REASON_CHARS);
            let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            let run = run_of(&**hook, &input, &answer, (reason.clone(), ms));
            match moment {
                // The child has not begun, or has ended: these stand among its parent's records.
                Moment::SubagentStart | Moment::SubagentStop { .. } => {
                    self.bus.record_above(agent, Event::Hook(Box::new(run)))?
                }
                Moment::PreToolUse { .. }
                | Moment::PostToolUse { .. }
                | Moment::UserPromptSubmit { .. } => {
                    self.bus.record(agent, Event::Hook(Box::new(run)))?
                }
            };
            if answer.decision == HookDecision::Block {
                return Ok(Some(if reason.is_empty() { NO_REASON.to_owned() } else { reason }));
            }
        }
        Ok(None)
    }

    /// The hooks of a moment without those that ran already, by name, each as often as it ran:
    /// there may be others now, in another order.
    fn hooks_left(&self, point: HookPoint, ran: &[String]) -> Vec<&Arc<dyn Hook>> {
        let mut ran: Vec<&str> = ran.iter().map(String::as_str).collect();
        let mut left: Vec<_> = self.parts.hooks.iter().filter(|hook| hook.wants(point)).collect();
        left.retain(|hook| {
            let name = name_of(&***hook);
            let at = ran.iter().position(|by| **by == name);
            at.map(|at| ran.swap_remove(at)).is_none()
        });
        left
    }

    /// The answer of one hook; nothing when the signal came first.
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
        let limit = self.parts.hook_time_limit;
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

    /// The signal under which it is told that a child has ended: its own may be why it did. A
    /// child that nobody waits for is waited for by its parent's end; any other one is not.
    pub(crate) fn signal_above(&self, spec: &AgentSpec) -> Option<Cancel> {
        let tree = self.tree();
        let parent = tree.live.get(spec.parent.as_ref()?)?;
        Some(if spec.background { parent.cancel.clone() } else { parent.children.clone() })
    }

    /// A child ended, and that is on record: hooks and the memory are told.
    pub(crate) async fn after_child(&self, spec: &AgentSpec, outcome: &Outcome, cancel: &Cancel) {
        self.after_child_but(&[], spec, outcome, cancel).await;
        self.states.remove(&spec.id);
    }

    /// A child had ended in an earlier process and its parent did not hear of it: whom that
    /// process did not come to is told before `tell` is called. What the memory took is not on
    /// record, so it may hear of an end twice.
    pub(crate) fn after_child_of_before(
        self: &Arc<Self>,
        stored: StoredAgent,
        tell: impl FnOnce(Outcome) + Send + 'static,
    ) {
        let StoredAgent { spec, state, .. } = stored;
        let (outcome, notified) = {
            let state = state.read();
            (state.outcome().cloned(), state.notified_hooks().to_vec())
        };
        let Some(outcome) = outcome else { return };
        if self.parts.memory.is_none()
            && self.hooks_left(HookPoint::SubagentStop, &notified).is_empty()
        {
            return tell(outcome);
        }
        let shared = Arc::clone(self);
        self.tasks.spawn(async move {
            let signal = shared.signal_above(&spec).unwrap_or_else(|| shared.cancel.child());
            shared.after_child_but(&notified, &spec, &outcome, &signal).await;
            shared.states.remove(&spec.id);
            tell(outcome);
        });
    }

    async fn after_child_but(
        &self,
        ran: &[String],
        spec: &AgentSpec,
        outcome: &Outcome,
        cancel: &Cancel,
    ) {
        if spec.depth == 0 {
            return;
        }
        let moment = Moment::SubagentStop { outcome };
        // A journal that takes nothing shows at the next record of the parent.
        let _recorded = self.hooks_but(ran, spec, moment, cancel).await;
        let Some(memory) = &self.parts.memory else { return };
        if let Err(problem) = remember(&**memory, spec, outcome, cancel).await {
            let problem = to_line(&self.parts.secrets.scrub(&problem), REASON_CHARS);
            let message = format!("the memory did not take what {} gave: {problem}", spec.id);
            let parent_lives =
                spec.parent.as_ref().is_some_and(|id| self.tree().live.contains_key(id));
            if parent_lives {
                let log = Event::Log { level: LogLevel::Warn, message };
                let _recorded = self.bus.record_above(spec, log);
            }
        }
    }
}

/// What a hook is called on record.
fn name_of(hook: &dyn Hook) -> String {
    to_line(hook.name(), NAME_CHARS)
}

/// What stands for a reason where a hook gives none.
const NO_REASON: &str = "it gives no reason";

fn run_of(
    hook: &dyn Hook,
    input: &HookInput<'_>,
    answer: &HookAnswer,
    (reason, ms): (String, u64),
) -> HookRun {
    let about = input.moment.call();
    let child = matches!(input.moment, Moment::SubagentStart | Moment::SubagentStop { .. });
    let spawned_by = input.agent.spawned_by.as_ref().filter(|_| child).map(|by| by.call);
    HookRun {
        name: input.moment.point(),
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

async fn remember(
    memory: &dyn Memory,
    spec: &AgentSpec,
    outcome: &Outcome,
    cancel: &Cancel,
) -> Result<(), String> {
    let limit = Duration::from_secs(MEMORY_SECONDS);
    let told = async { memory.on_delegation(&spec.goal, outcome, &spec.id).await };
    let told = AssertUnwindSafe(told).catch_unwind();
    match settle(pin!(told), &cancel.child(), Some(limit), MEMORY_GRACE).await {
        Some(Ok(Ok(()))) => Ok(()),
        Some(Ok(Err(error))) => Err(describe_error(&*error)),
        Some(Err(_)) => Err("it panicked".to_owned()),
        None => Err(format!("it took longer than {MEMORY_SECONDS} s, or was told to end")),
    }
}

impl Driver {
    /// Asks the hooks whether the agent may begin.
    pub(crate) async fn may_begin(&mut self) -> Result<bool, JournalError> {
        let spec = &self.view.spec;
        let prompt = self.shared.parts.secrets.scrub(spec.request());
        let moment = match spec.depth {
            0 => Moment::UserPromptSubmit { prompt: &prompt },
            _ => Moment::SubagentStart,
        };
        let work = self.cancel.child();
        let asked = self.shared.hooks(spec, moment, &work);
        let blocked = self.until_deadline(&work, asked).await?;
        let blocked = blocked.map(|reason| match moment.point() {
            deputize_core::HookPoint::UserPromptSubmit => message_blocked(&reason),
            _ => format!("a hook did not let this child begin: {reason}"),
        });
        self.blocked = blocked.map(|reason| (Status::Failed, reason));
        Ok(self.blocked.is_none())
    }
}

/// What the error of a turn begins with whose message a hook blocked: another message goes on.
pub const MESSAGE_BLOCKED: &str = "a hook blocked the message";

/// What is said of a message that a hook blocked.
pub(crate) fn message_blocked(reason: &str) -> String {
    format!("{MESSAGE_BLOCKED}: {reason}")
}

/// The outcome of an agent that was not let begin.
pub(crate) fn blocked(outcome: Outcome, end: (Status, String)) -> Outcome {
    let agent = outcome.agent.clone();
    let Outcome { status, exit_reason, error, .. } = Outcome::not_begun(agent, String::new(), end);
    Outcome { status, exit_reason, error, ..outcome }
}

/// A value without secrets.
pub(crate) fn scrubbed<'v>(secrets: &Secrets, value: &'v Value) -> Cow<'v, Value> {
    match value {
        Value::String(text) => match secrets.scrub(text) {
            Cow::Borrowed(_) => Cow::Borrowed(value),
            Cow::Owned(clean) => Cow::Owned(Value::String(clean)),
        },
        Value::Array(items) => {
            let clean: Vec<_> = items.iter().map(|item| scrubbed(secrets, item)).collect();
            if clean.iter().all(|item| matches!(item, Cow::Borrowed(_))) {
                return Cow::Borrowed(value);
            }
            Cow::Owned(Value::Array(clean.into_iter().map(Cow::into_owned).collect()))
        }
        Value::Object(map) => {
            let clean: Vec<_> = map
                .iter()
                .map(|(key, item)| (secrets.scrub(key), scrubbed(secrets, item)))
                .collect();
            let same = |(key, item): &(Cow<'_, str>, Cow<'_, Value>)| {
                matches!((key, item), (Cow::Borrowed(_), Cow::Borrowed(_)))
            };
            if clean.iter().all(same) {
                return Cow::Borrowed(value);
            }
            let owned = clean.into_iter().map(|(key, item)| (key.into_owned(), item.into_owned()));
            Cow::Owned(Value::Object(owned.collect()))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Cow::Borrowed(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_loses_its_secrets_wherever_they_are() {
        let mut secrets = Secrets::default();
        secrets.add("KEY", "sk-12345678");
        let plain = json!({"a": [1, "x", null]});
        assert!(matches!(scrubbed(&secrets, &plain), Cow::Borrowed(_)));
        let hidden = json!({"sk-12345678": [{"b": "-sk-12345678-"}], "c": 1});
        assert_eq!(
            *scrubbed(&secrets, &hidden),
            json!({"[redacted:KEY]": [{"b": "-[redacted:KEY]-"}], "c": 1})
        );
    }
}
