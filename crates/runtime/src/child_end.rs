//! The end of a child: inspects it, and notifies hooks and the memory.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::agent::AgentSpec;
use deputize_core::event::LogLevel;
use deputize_core::hook::{HookEvent, HookPoint};
use deputize_core::memory::{MEMORY_SECONDS, Memory};
use deputize_core::outcome::ChildInspection;
use deputize_core::sanitize::for_terminal_line;
use deputize_core::{Cancel, Event, Outcome, describe_error};
use futures_util::FutureExt as _;

use crate::recorded_path::recorded_path;
use crate::session_inner::SessionInner;
use crate::settle::settle;
use crate::stored_agent::StoredAgent;

/// Limit on the reason for a failed memory, in characters.
const REASON_CHARS: usize = 2000;
/// Time that the memory still has after the run was cancelled.
const MEMORY_GRACE: Duration = Duration::from_millis(500);

/// Returns the file with the conversation of a child; `None` for the top agent, which is the
/// session itself.
pub(crate) fn session_path(shared: &SessionInner, agent: &AgentSpec) -> Option<PathBuf> {
    agent.parent.is_some().then(|| shared.path.clone())
}

/// Inspects a child at its end.
pub(crate) async fn inspect_child(
    shared: &SessionInner,
    child: &AgentSpec,
    end: &Outcome,
) -> Option<Box<ChildInspection>> {
    let lifecycle = shared.config.children.lifecycle.clone()?;
    let parent = shared.tree().live.get(child.parent.as_ref()?)?.view.upgrade()?;
    let mut found = lifecycle.inspect(&parent, child, end).await.map(Box::new)?;
    found.stale_paths = found.stale_paths.into_iter().map(recorded_path).collect();
    found.gone_paths = found.gone_paths.into_iter().map(recorded_path).collect();
    Some(found)
}

/// Returns the signal under which the end of a child is notified; the child's own may be why it
/// ended. The end of a parent waits for its background children, and for no others.
pub(crate) fn signal_above(shared: &SessionInner, spec: &AgentSpec) -> Option<Cancel> {
    let tree = shared.tree();
    let parent = tree.live.get(spec.parent.as_ref()?)?;
    Some(if spec.background { parent.cancel.clone() } else { parent.children.clone() })
}

/// Notifies hooks and the memory of the end of a child, which is on record.
pub(crate) async fn notify_of_end(
    shared: &SessionInner,
    spec: &AgentSpec,
    outcome: &Outcome,
    cancel: &Cancel,
) {
    notify_remaining(shared, &[], spec, outcome, cancel).await;
}

/// Handles a child that ended in an earlier process, and whose parent has not received that. Hooks
/// that the earlier process did not reach are notified before `on_end` is called. Notifications of
/// the memory are not on record, so it may hear of an end twice.
pub(crate) fn notify_of_earlier_end(
    shared: &Arc<SessionInner>,
    stored: StoredAgent,
    on_end: impl FnOnce(Outcome) + Send + 'static,
) {
    let (outcome, notified) = {
        let state = stored.state.read();
        (state.outcome().cloned(), state.notified_hooks().to_vec())
    };
    let Some(outcome) = outcome else { return };
    if shared.config.memory.is_none()
        && shared.hooks.remaining(HookPoint::SubagentStop, &notified).is_empty()
    {
        shared.keep_continuable(stored);
        return on_end(outcome);
    }
    let shared_by_task = Arc::clone(shared);
    shared.tasks.spawn(async move {
        let shared = shared_by_task;
        let spec = &stored.spec;
        let signal = signal_above(&shared, spec).unwrap_or_else(|| shared.cancel.child());
        notify_remaining(&shared, &notified, spec, &outcome, &signal).await;
        shared.keep_continuable(stored);
        on_end(outcome);
    });
}

async fn notify_remaining(
    shared: &SessionInner,
    ran: &[String],
    spec: &AgentSpec,
    outcome: &Outcome,
    cancel: &Cancel,
) {
    if spec.depth == 0 {
        return;
    }
    let event = HookEvent::SubagentStop { outcome };
    // A journal that takes nothing shows at the next record of the parent.
    let _recorded = shared.hooks.run_remaining(ran, spec, event, cancel).await;
    let Some(memory) = &shared.config.memory else { return };
    if let Err(problem) = remember(&**memory, spec, outcome, cancel).await {
        let problem = for_terminal_line(&shared.config.secrets.scrub(&problem), REASON_CHARS);
        let message = format!("the memory did not take what {} gave: {problem}", spec.id);
        let parent_lives =
            spec.parent.as_ref().is_some_and(|id| shared.tree().live.contains_key(id));
        if parent_lives {
            let log = Event::Log { level: LogLevel::Warn, message, cause: None };
            let _recorded = shared.bus.record_above(spec, log);
        }
    }
}

async fn remember(
    memory: &dyn Memory,
    spec: &AgentSpec,
    outcome: &Outcome,
    cancel: &Cancel,
) -> Result<(), String> {
    let limit = Duration::from_secs(MEMORY_SECONDS);
    let notification = async { memory.on_delegation(&spec.goal, outcome, &spec.id).await };
    let notification = AssertUnwindSafe(notification).catch_unwind();
    match settle(pin!(notification), &cancel.child(), Some(limit), MEMORY_GRACE).await {
        Some(Ok(Ok(()))) => Ok(()),
        Some(Ok(Err(error))) => Err(describe_error(&*error)),
        Some(Err(_)) => Err("it panicked".to_owned()),
        None => Err(format!("it took longer than {MEMORY_SECONDS} s, or was told to end")),
    }
}
