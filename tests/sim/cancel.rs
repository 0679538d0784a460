//! A fan-out that is interrupted at places by chance: no result is lost, none comes twice, nothing
//! is left, and every call has one result.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use deputize_core::{AgentId, CallId, CallStatus, Event, Record};
use deputize_runtime::SyncMode;
use deputize_testkit::Seed;

use crate::history::{finish, turn};
use crate::life::{At, Troubles};
use crate::mind::Mind;
use crate::seeds::{quietly, wanted};
use crate::world::World;

/// How many places; `DEPUTIZE_SIM_CANCELS=10000` for all that are promised.
const POINTS: u64 = 200;
/// What an interrupt met.
#[derive(Debug, Default, Clone, Copy)]
struct Met {
    interrupted: u64,
    /// Children that had ended when their parent's call was cut short.
    kept: u64,
    /// Children that were cut short.
    cut: u64,
}

fn mind(seed: u64) -> Mind {
    if seed.is_multiple_of(2) { Mind::Wide } else { Mind::Loose }
}

/// The steps of a family that nobody disturbs.
fn undisturbed(seed: u64) -> u64 {
    let world = World::new(Seed(seed), mind(seed), SyncMode::Turn);
    turn(&world, None, &mut |_| Troubles::default()).unwrap();
    let figures = world.state().figures;
    assert_eq!(figures.agents, 1 + 3 + 6);
    figures.steps
}

/// One family, interrupted at one of so many steps, and two more turns of it.
fn interrupted(seed: u64, steps: u64) -> Met {
    let mind = mind(seed);
    let step = Seed(seed).dice("cancel").u64(..steps);
    let world = World::new(Seed(seed), mind, SyncMode::Turn);
    let mut first = |attempt| {
        let cancel = (attempt == 0).then_some(At::Step(step));
        Troubles { cancel, ..Troubles::default() }
    };
    let done = turn(&world, None, &mut first);
    let records = world.dir().read(&World::id()).map(|it| it.records).unwrap_or_default();
    let mut met = judged(&records).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    let done = done
        .and_then(|_| turn(&world, Some("And now?"), &mut |_| Troubles::default()))
        .and_then(|_| finish(&world));
    let (figures, _) = done.unwrap_or_else(|wrong| {
        panic!("{mind:?} interrupted at step {step}, seed {seed}: {wrong}")
    });
    met.interrupted = figures.cancels;
    met
}

/// Holds a session that was interrupted against what was promised: a child that has ended is in
/// the result of its parent's call.
fn judged(records: &[Record]) -> Result<Met, String> {
    let mut met = Met::default();
    let mut called: BTreeMap<AgentId, (AgentId, CallId)> = BTreeMap::new();
    let mut ended: BTreeSet<AgentId> = BTreeSet::new();
    for Record { agent, event, .. } in records {
        match event {
            Event::AgentStart(start) if !start.spec.background => {
                let (parent, by) = (start.spec.parent.clone(), start.spec.spawned_by.as_ref());
                called
                    .extend(parent.zip(by).map(|(parent, by)| (agent.clone(), (parent, by.call))));
            }
            Event::AgentEnd(_) if ended.contains(agent) => {
                return Err(format!("{agent} ended twice"));
            }
            Event::AgentEnd(_) => _ = ended.insert(agent.clone()),
            Event::ToolEnd(end) if end.tool == "delegate_task" => {
                let call = (agent.clone(), end.result.call);
                let mine = called.iter().filter(|(_, by)| **by == call);
                let lost: Vec<&AgentId> = mine
                    .clone()
                    .map(|(child, _)| child)
                    .filter(|child| {
                        !ended.contains(child) || !told(end.result.text.as_str(), child)
                    })
                    .collect();
                if !lost.is_empty() {
                    return Err(format!("{call:?} says nothing of {lost:?}"));
                }
                if end.result.status == CallStatus::Cancelled {
                    met.cut += 1;
                    met.kept += mine.count() as u64;
                }
            }
            _ => {}
        }
    }
    Ok(met)
}

fn told(text: &str, child: &AgentId) -> bool {
    text.contains(&format!("\"agent\":\"{child}\""))
}

#[test]
fn a_fan_out_that_is_interrupted_anywhere_loses_no_result_and_leaves_nothing() {
    quietly();
    let points = wanted("DEPUTIZE_SIM_CANCELS").unwrap_or(POINTS);
    let steps = undisturbed(0).max(undisturbed(1));
    let (next, started) = (AtomicU64::new(0), Instant::now());
    let work = || {
        let mut sum = Met::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= points {
                return sum;
            }
            let met = interrupted(seed, steps);
            sum.interrupted += met.interrupted;
            sum.kept += met.kept;
            sum.cut += met.cut;
        }
    };
    let mut sum = Met::default();
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in running {
            let met = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            sum.interrupted += met.interrupted;
            sum.kept += met.kept;
            sum.cut += met.cut;
        }
    });
    println!("{points} places in {steps} steps, {sum:?} in {:?}", started.elapsed());
    // Few come after the end of all.
    assert!(sum.interrupted * 2 > points, "{sum:?}");
    assert!(sum.cut > 0 && sum.kept > 0, "{sum:?}");
}
