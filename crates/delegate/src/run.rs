//! The one effect: the children of a call are started, run side by side, and awaited.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use deputize_core::agent::{AgentSpec, AttachError};
use deputize_core::future::poll_once;
use deputize_core::tool::ChildStart;
use deputize_core::{BoxFuture, CancelReason, Outcome, Status, ToolCx, ToolEffect};
use deputize_workflow::{Graph, Outcome as TaskOutcome, Schedule, TaskEvent};
use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use crate::admission::ChildStarts;
use crate::concurrency::{Slot, Slots};
use crate::plan::DelegationPlan;

const NOT_STARTED: &str = "it was not started";
const PANICKED: &str = "the host failed while this child ran; what it did until then is not known";

/// A child that starts when it has its slot.
pub(crate) struct QueuedChild<'a> {
    slot: BoxFuture<'static, Slot>,
    start: ChildStart<'a>,
}

/// Queues the children of a call for slots, in their order.
pub(crate) fn queue<'a>(starts: ChildStarts<'a>, slots: &Slots) -> Vec<Option<QueuedChild<'a>>> {
    let queued = |start| QueuedChild { slot: poll_once(slots.acquire()).0, start };
    starts.into_iter().map(|start| start.map(queued)).collect()
}

/// Runs the children and returns their outcomes in the order of the specs, with a fact for each
/// task without a child, including held tasks. When the call is cancelled, no further child starts;
/// running ones are cancelled too, and awaited.
pub(crate) async fn run(
    DelegationPlan { specs, held, started_tasks, .. }: &DelegationPlan,
    cx: &ToolCx,
    mut queued: Vec<Option<QueuedChild<'_>>>,
) -> (Vec<Outcome>, Vec<ToolEffect>) {
    let mut schedule = Schedule::new(Graph::flat(specs.len()));
    let mut running: FuturesUnordered<BoxFuture<'static, TaskEnd>> = FuturesUnordered::new();
    let mut outcomes: Vec<Option<Box<Outcome>>> = specs.iter().map(|_| None).collect();
    let mut facts: Vec<ToolEffect> = Vec::new();
    let mut starting: Option<BoxFuture<'_, RunningChild>> = None;
    while !schedule.is_finished() {
        let next = schedule.ready(usize::MAX).next();
        if let Some((task, Some(why))) = next.and_then(|task| Some((task, held.get(task)?.clone())))
        {
            apply(&mut schedule, TaskEvent::Started { task });
            running.push(Box::pin(async move { TaskEnd { task, end: Err((Status::Error, why)) } }));
            continue;
        }
        let new = next
            .is_some_and(|task| !started_tasks.contains(&u32::try_from(task).unwrap_or(u32::MAX)));
        if starting.is_none() {
            let child = next.and_then(|task| Some((task, queued.get_mut(task)?.take()?)));
            starting = child.and_then(|(task, child)| -> Option<BoxFuture<'_, _>> {
                Some(Box::pin(start(task, specs.get(task)?, child)))
            });
        }
        tokio::select! {
            biased;
            // What one that was begun in an earlier process came to is told also then.
            () = cx.cancel.cancelled(), if new => apply(&mut schedule, TaskEvent::Cancel),
            Some(TaskEnd { task, end }) = running.next() => {
                let outcome = match end {
                    Ok(outcome) => outcome,
                    Err((status, error)) => {
                        let Some(spec) = specs.get(task) else { continue };
                        facts.extend(not_begun(spec, status, error.clone()));
                        outcome_without_child(spec, status, error)
                    }
                };
                let how = if matches!(&outcome, Outcome { status: Status::Completed, .. }) {
                    TaskOutcome::Success
                } else {
                    TaskOutcome::Failed
                };
                apply(&mut schedule, TaskEvent::Finished { task, outcome: how });
                if let Some(place) = outcomes.get_mut(task) {
                    *place = Some(Box::new(outcome));
                }
            }
            child = wait_for_start(&mut starting), if next.is_some() => {
                starting = None;
                if let Some(task) = next {
                    apply(&mut schedule, TaskEvent::Started { task });
                    running.push(child.end);
                }
            }
        }
    }
    let reason = cx.cancel.reason().unwrap_or(CancelReason::Interrupted);
    let why = format!("{}: {NOT_STARTED}", reason.below().as_text());
    (fill_outcomes(specs, outcomes, &why, &mut facts), facts)
}

/// Gives each task that was not started an outcome that says why, and a fact.
fn fill_outcomes(
    specs: &[Arc<AgentSpec>],
    outcomes: Vec<Option<Box<Outcome>>>,
    why: &str,
    facts: &mut Vec<ToolEffect>,
) -> Vec<Outcome> {
    let all = specs.iter().zip(outcomes);
    let fill = |(spec, outcome): (&Arc<AgentSpec>, Option<Box<Outcome>>)| {
        outcome.map(|outcome| *outcome).unwrap_or_else(|| {
            facts.extend(not_begun(spec, Status::Interrupted, why.to_owned()));
            outcome_without_child(spec, Status::Interrupted, why.to_owned())
        })
    };
    all.map(fill).collect()
}

fn outcome_without_child(spec: &AgentSpec, status: Status, error: String) -> Outcome {
    let outcome = Outcome::not_started(spec.id.clone(), spec.model.clone(), status, error);
    Outcome { profile: spec.profile.clone(), ..outcome }
}

/// Waits for the child that starts next, if there is one.
async fn wait_for_start<T>(starting: &mut Option<BoxFuture<'_, T>>) -> T {
    match starting {
        Some(start) => start.await,
        None => std::future::pending().await,
    }
}

/// Returns the effect that records a task for which no child was begun.
pub(crate) fn not_begun(spec: &AgentSpec, status: Status, error: String) -> Option<ToolEffect> {
    let task_index = spec.spawned_by.as_ref()?.task_index;
    let agent = spec.id.clone();
    let model = spec.model.clone();
    Some(ToolEffect::NotBegun { agent, task_index, model, status, error })
}

#[expect(clippy::expect_used, reason = "only tasks that are ready start, and only those end")]
fn apply(schedule: &mut Schedule, event: TaskEvent) {
    schedule.apply(event).expect("an event that fits the schedule");
}

/// How the child of a task ended, or why it was not begun.
struct TaskEnd {
    task: usize,
    end: Result<Outcome, (Status, String)>,
}

/// A child that has its slot.
struct RunningChild {
    /// The wait for its end, which holds the slot.
    end: BoxFuture<'static, TaskEnd>,
}

/// Starts one child when it has its slot.
async fn start(task: usize, spec: &Arc<AgentSpec>, child: QueuedChild<'_>) -> RunningChild {
    let slot = child.slot.await;
    let started = child.start.start().await;
    let spec = Arc::clone(spec);
    let end = async move {
        let end = match started {
            // Nothing went wrong: somebody wants no more children for now.
            Err(error @ AttachError::Paused(_)) => Err((Status::Interrupted, error.to_string())),
            Err(error) => Err((Status::Error, error.to_string())),
            Ok(agent) => {
                let ended = AssertUnwindSafe(agent.outcome()).catch_unwind().await;
                Ok(ended.unwrap_or_else(|_| {
                    Outcome::without_run(&spec, Status::Error, PANICKED.to_owned())
                }))
            }
        };
        drop(slot);
        TaskEnd { task, end }
    };
    RunningChild { end: Box::pin(end) }
}
