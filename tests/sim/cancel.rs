//! A fan-out that is interrupted at places by chance: no result is lost, none comes twice, nothing
//! is left, and every call has one result; of children that are waited for and of others.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use deputize_core::message::CallStatus;
use deputize_core::{AgentId, CallId, Event, Record};
use deputize_runtime::SyncMode;
use deputize_testkit::Seed;
use serde_json::Value;

use crate::history::{finish, turn};
use crate::life::{ProcessFaults, ProcessMoment};
use crate::mind::Mind;
use crate::seeds::{quietly, wanted};
use crate::world::World;

/// How many places; all 10,000 that are promised by `just cancels`.
const POINTS: u64 = 200;

/// What an interrupt met.
#[derive(Debug, Default, Clone, Copy)]
struct InterruptCounts {
    interrupted: u64,
    /// Children that had ended when their parent's call was cut short.
    kept: u64,
    /// Children that were cut short.
    cut: u64,
    /// Ends that came as messages.
    messages: u64,
}

fn mind(seed: u64) -> Mind {
    if seed.is_multiple_of(2) { Mind::Wide } else { Mind::Loose }
}

/// The steps of a family that nobody disturbs.
fn undisturbed(seed: u64) -> u64 {
    let world = World::new(Seed(seed), mind(seed), SyncMode::Turn);
    turn(&world, None, &mut |_| ProcessFaults::default()).unwrap();
    let figures = world.state().figures;
    assert_eq!(figures.agents, 1 + 3 + 6);
    figures.steps
}

/// One family, interrupted at one of so many steps, and two more turns of it.
fn interrupted(seed: u64, steps: u64) -> InterruptCounts {
    let mind = mind(seed);
    let step = Seed(seed).dice("cancel").u64(..steps);
    let world = World::new(Seed(seed), mind, SyncMode::Turn);
    let mut first = |attempt| {
        let cancel = (attempt == 0).then_some(ProcessMoment::Step(step));
        ProcessFaults { cancel, ..ProcessFaults::default() }
    };
    let done = turn(&world, None, &mut first);
    let judge = |whole| {
        let records = world.dir().read(&World::id()).map(|it| it.records).unwrap_or_default();
        let met = judged(&records, whole);
        met.unwrap_or_else(|wrong| panic!("{mind:?} at step {step}, seed {seed}: {wrong}"))
    };
    let mut met = judge(false);
    let done = done
        .and_then(|_| turn(&world, Some("And now?"), &mut |_| ProcessFaults::default()))
        .and_then(|_| finish(&world));
    let (figures, _) = done.unwrap_or_else(|wrong| {
        panic!("{mind:?} interrupted at step {step}, seed {seed}: {wrong}")
    });
    met.messages = judge(true).messages;
    met.interrupted = figures.cancels;
    met
}

/// What is known of one child.
#[derive(Debug)]
struct Child {
    parent: AgentId,
    by: CallId,
    index: u32,
    background: bool,
    ended: bool,
    /// How often its parent received its end.
    messages: u32,
}

/// Checks an interrupted session: the end of each child reaches its parent once, in the result of
/// the call or, for a background child, in a message. After a `whole` last turn, the top agent has
/// received the end of each of its children.
fn judged(records: &[Record], whole: bool) -> Result<InterruptCounts, String> {
    let mut met = InterruptCounts::default();
    let mut children: BTreeMap<AgentId, Child> = BTreeMap::new();
    for Record { agent, event, depth, .. } in records {
        match event {
            Event::AgentStart(start) => {
                let Some(by) = &start.spec.spawned_by else { continue };
                let parent = start.spec.parent.clone().ok_or("a child without a parent")?;
                let child = Child {
                    parent,
                    by: by.call,
                    index: by.task_index,
                    background: start.spec.background,
                    ended: false,
                    messages: 0,
                };
                if children.insert(agent.clone(), child).is_some() {
                    return Err(format!("{agent} began twice"));
                }
            }
            Event::AgentEnd(_) if *depth > 0 => {
                let child = children.get_mut(agent).ok_or(format!("{agent} never began"))?;
                if std::mem::replace(&mut child.ended, true) {
                    return Err(format!("{agent} ended twice"));
                }
            }
            Event::ToolEnd(end) if end.tool == "delegate_task" => {
                let call = (agent, end.result.call);
                let named = entries(end.result.text.as_str());
                let ended = returned(&mut children, call, &named)?;
                if end.result.status == CallStatus::Cancelled {
                    met.cut += 1;
                    met.kept += ended;
                }
            }
            Event::Message(message) => {
                let Some(from) = &message.from else { continue };
                let from = &from.child;
                let child = children.get_mut(from).ok_or(format!("{from} never began"))?;
                child.messages += 1;
                met.messages += 1;
                let said = entries(&message.text);
                if child.parent != *agent || !child.background || !child.ended || child.messages > 1
                {
                    return Err(format!("{agent} is told of the end of {from}: {child:?}"));
                }
                if said != [(child.index, from.to_string())] {
                    return Err(format!("what {agent} is told of {from} is {said:?}"));
                }
            }
            _ => {}
        }
    }
    let owed = |(_, child): &(&AgentId, &Child)| {
        whole && child.parent.ancestors().next().is_none() && child.messages != 1
    };
    match children.iter().find(owed) {
        Some((child, known)) => Err(format!("of {child}, {known:?}, its parent does not know")),
        None => Ok(met),
    }
}

/// That a call gave each of its children once, in the order of its tasks, and nobody else: their
/// ends, or the handles of background children. Returns how many ends.
fn returned(
    children: &mut BTreeMap<AgentId, Child>,
    (parent, call): (&AgentId, CallId),
    named: &[(u32, String)],
) -> Result<u64, String> {
    let mine = children.iter_mut().filter(|(_, child)| child.parent == *parent && child.by == call);
    let mut mine: Vec<_> = mine.collect();
    mine.sort_by_key(|(_, child)| child.index);
    let began: Vec<(u32, String)> =
        mine.iter().map(|(id, child)| (child.index, id.to_string())).collect();
    // One that the interrupt kept from beginning has an entry all the same.
    let given: Vec<_> = named.iter().filter(|entry| began.contains(entry)).cloned().collect();
    let in_order = named.iter().map(|(index, _)| *index).eq((0..).take(named.len()));
    if given != began || !in_order {
        return Err(format!("{parent} {call} began {began:?} and gave {named:?}"));
    }
    let mut count = 0;
    for (id, child) in mine.into_iter().filter(|(_, child)| !child.background) {
        if !child.ended {
            return Err(format!("{parent} {call} ended before {id}"));
        }
        child.messages += 1;
        count += 1;
    }
    Ok(count)
}

/// The entries of a result, with the place and the name of each child.
fn entries(text: &str) -> Vec<(u32, String)> {
    let json = text.lines().find(|line| line.starts_with("{\"results\""));
    let value: Value = json.map(|json| serde_json::from_str(json).unwrap()).unwrap_or_default();
    let entry = |entry: &Value| {
        let index = entry["task_index"].as_u64().unwrap();
        (u32::try_from(index).unwrap(), entry["agent"].as_str().unwrap_or_default().to_owned())
    };
    value["results"].as_array().into_iter().flatten().map(entry).collect()
}

#[test]
fn a_fan_out_that_is_interrupted_anywhere_loses_no_result_and_leaves_nothing() {
    quietly();
    let points = wanted("DEPUTIZE_SIM_CANCELS").unwrap_or(POINTS);
    let steps = undisturbed(0).max(undisturbed(1));
    let next = AtomicU64::new(0);
    let started = Instant::now();
    let work = || {
        let mut sum = InterruptCounts::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= points {
                return sum;
            }
            let met = interrupted(seed, steps);
            sum.interrupted += met.interrupted;
            sum.kept += met.kept;
            sum.cut += met.cut;
            sum.messages += met.messages;
        }
    };
    let mut sum = InterruptCounts::default();
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in running {
            let met = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            sum.interrupted += met.interrupted;
            sum.kept += met.kept;
            sum.cut += met.cut;
            sum.messages += met.messages;
        }
    });
    println!("{points} places in {steps} steps, {sum:?} in {:?}", started.elapsed());
    // Few come after the end of all.
    assert!(sum.interrupted * 2 > points, "{sum:?}");
    assert!(sum.cut > 0 && sum.kept > 0 && sum.messages > 0, "{sum:?}");
}
