//! The one effect: the children of a call are attached, run side by side, and awaited.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use deputize_core::{AgentSpec, AttachError, BoxFuture, Outcome, Status, ToolCx};
use deputize_workflow::{Event, Graph, Outcome as TaskOutcome, Schedule};
use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use crate::slots::{Slot, Slots};

const NOT_STARTED: &str = "interrupted before it was started";
const PANICKED: &str = "the host failed while this child ran; what it did until then is not known";

/// Runs the children and gives their outcomes in the order of the specs. When the call is
/// cancelled no further child starts; those that run see it too, and are awaited.
pub(crate) async fn run(specs: &[AgentSpec], cx: &ToolCx, slots: &Arc<Slots>) -> Vec<Outcome> {
    let mut schedule = Schedule::new(Graph::flat(specs.len()));
    let mut running = FuturesUnordered::new();
    let mut outcomes: Vec<Option<Outcome>> = specs.iter().map(|_| None).collect();
    while !schedule.is_finished() {
        let next = schedule.ready(usize::MAX).next();
        tokio::select! {
            biased;
            () = cx.cancel.cancelled(), if next.is_some() => happened(&mut schedule, Event::Cancel),
            Some((task, outcome)) = running.next() => {
                let how = if matches!(&outcome, Outcome { status: Status::Completed, .. }) {
                    TaskOutcome::Success
                } else {
                    TaskOutcome::Failed
                };
                happened(&mut schedule, Event::Finished { task, outcome: how });
                if let Some(place) = outcomes.get_mut(task) {
                    *place = Some(outcome);
                }
            }
            slot = slots.free(), if next.is_some() => {
                if let Some((task, spec)) = next.and_then(|task| Some((task, specs.get(task)?))) {
                    happened(&mut schedule, Event::Started { task });
                    running.push(child(task, spec.clone(), cx, slot));
                }
            }
        }
    }
    let all = specs.iter().zip(outcomes);
    all.map(|(spec, outcome)| {
        outcome.unwrap_or_else(|| {
            Outcome::without_run(spec, Status::Interrupted, NOT_STARTED.to_owned())
        })
    })
    .collect()
}

#[expect(clippy::expect_used, reason = "only tasks that are ready start, and only those end")]
fn happened(schedule: &mut Schedule, event: Event) {
    schedule.apply(event).expect("an event that fits the schedule");
}

/// Attaches one child and waits for its end, holding its slot until then.
fn child(
    task: usize,
    spec: AgentSpec,
    cx: &ToolCx,
    slot: Slot,
) -> BoxFuture<'static, (usize, Outcome)> {
    let attached = cx.agent.session.spawn.attach(&cx.agent, spec.clone(), &cx.cancel.child());
    Box::pin(async move {
        let outcome = match attached {
            // Nothing went wrong: somebody wants no more children for now.
            Err(error @ AttachError::Paused(_)) => {
                Outcome::without_run(&spec, Status::Interrupted, error.to_string())
            }
            Err(error) => Outcome::without_run(&spec, Status::Error, error.to_string()),
            Ok(agent) => {
                AssertUnwindSafe(agent.outcome()).catch_unwind().await.unwrap_or_else(|_| {
                    Outcome::without_run(&spec, Status::Error, PANICKED.to_owned())
                })
            }
        };
        drop(slot);
        (task, outcome)
    })
}
