//! What must hold of a session on disk.

use std::collections::{BTreeMap, BTreeSet};

use deputize_core::model::Usage;
use deputize_core::name::ChildEndId;
use deputize_core::outcome::ExitReason;
use deputize_core::{AgentId, Event, Outcome, Record, Status};
use deputize_runtime::{ReadError, StoredSession, SyncMode};
use deputize_testkit::CrashKind;

use crate::model::paired;
use crate::world::{SECRET, World};

/// Checks a process that ended with this outcome: its report survives the end of the machine,
/// unless it warns that it may not.
pub(crate) fn check_end(world: &World, outcome: &Outcome) {
    let says = outcome.error.as_ref().is_some_and(|error| error.contains("could not be kept"));
    let durable = world.durable();
    let seen = world.state().seen.len();
    if world.sync != SyncMode::Never && !says && durable < seen {
        world.wrong(format!(
            "{durable} of {seen} records are durable, and the outcome does not say so: {:?}, {:?}",
            outcome.status, outcome.error
        ));
    }
    if says && outcome.status == Status::Completed {
        world.wrong("an outcome that may be lost is no success".to_owned());
    }
}

/// The process has ended, and the machine perhaps: compares what is stored with what was seen,
/// and with what was durable. Then what is stored is what there is.
pub(crate) fn after(world: &World, end: Option<CrashKind>) {
    let durable = world.durable();
    world.disk.heal();
    world.disk.end(end.unwrap_or(CrashKind::Process));
    let cut = end == Some(CrashKind::Power);
    let mut state = world.state();
    if cut {
        // What was asked may be forgotten, and then asked in another way.
        state.asked.clear();
        state.forgetful |= world.sync == SyncMode::Never;
    }
    let seen = std::mem::take(&mut state.seen);
    drop(state);
    let least = if cut { durable } else { seen.len() };
    let records = match world.dir().read(&World::id()) {
        Ok(stored) => sound(world, stored),
        Err(ReadError::Open { .. } | ReadError::Header { .. }) if least == 0 => {
            // It was never more than a name, and nobody was told otherwise.
            let _gone = deputize_runtime::Disk::remove_file(&world.disk, &world.path());
            Vec::new()
        }
        Err(error) => {
            world.wrong(format!("it cannot be read after {end:?}: {error}"));
            seen.clone()
        }
    };
    let lost = least.saturating_sub(records.len());
    if lost > 0 {
        world
            .wrong(format!("{lost} records are lost after {end:?}: {:?}", seen.get(records.len())));
    }
    // One may have been written whole when the process died, and was shown to nobody.
    if records.len() > seen.len() + 1 {
        world.wrong(format!("{} records of {} seen", records.len(), seen.len()));
    }
    if let Some((stored, _)) = records.iter().zip(&seen).find(|(stored, seen)| stored != seen) {
        world.wrong(format!("record {} is not what was seen", stored.seq));
    }
    let mut state = world.state();
    state.ends.truncate(records.len());
    if state.ends.len() < records.len() {
        let bytes = world.disk.bytes(&world.path()).unwrap_or_default();
        let last = state.ends.last().copied().unwrap_or_default();
        let line = bytes[last..].iter().position(|byte| *byte == b'\n').unwrap_or_default();
        state.ends.push(last + line + 1);
    }
    state.seen = records;
}

fn sound(world: &World, stored: StoredSession) -> Vec<Record> {
    if let Some(damage) = stored.damage {
        world.wrong(format!("it is damaged: {damage:?}"));
    }
    stored.records
}

/// What must hold when the last turn has ended, with this outcome.
pub(crate) fn at_rest(world: &World, outcome: &Outcome) {
    let bytes = world.disk.bytes(&world.path()).unwrap_or_default();
    if String::from_utf8_lossy(&bytes).contains(SECRET) {
        world.wrong("a secret is on disk");
    }
    let stored = match world.dir().read(&World::id()) {
        Ok(stored) => stored,
        Err(error) => return world.wrong(format!("it cannot be read: {error}")),
    };
    let mut results = BTreeSet::new();
    let mut ended: BTreeMap<AgentId, bool> = BTreeMap::new();
    let mut usage = Usage::default();
    for Record { agent, event, .. } in &stored.records {
        match event {
            Event::ToolEnd(end) if !results.insert((agent.clone(), end.result.call)) => {
                world.wrong(format!("{agent} {} has two results", end.result.call));
            }
            Event::ModelResponse { reply, .. } => usage += reply.usage,
            // What broke off or was cut cost as well.
            Event::ModelError { error, .. } => {
                usage += error.usage.as_deref().copied().unwrap_or_default()
            }
            Event::Compaction(compaction) => usage += compaction.request.usage,
            Event::AgentStart(_) | Event::AgentResume { .. } => {
                ended.insert(agent.clone(), false);
            }
            Event::AgentEnd(_) => _ = ended.insert(agent.clone(), true),
            _ => {}
        }
    }
    for (agent, ended) in ended {
        if !ended {
            world.wrong(format!("{agent} began and has no outcome"));
        }
        match stored.messages(&agent) {
            Some(messages) => {
                if let Err(error) = paired(&messages) {
                    world.wrong(format!("{agent} cannot go on: {error}"));
                }
            }
            None => world.wrong(format!("{agent} has no conversation")),
        }
    }
    told_once(world, &stored);
    stopped_stay(world, &stored);
    if usage != outcome.tree_usage() {
        let actual = outcome.tree_usage();
        world.wrong(format!("replies cost {usage:?}, the outcome says {actual:?}"));
    }
    if outcome.status == Status::Error {
        world.wrong(format!("a turn without trouble ended with {:?}", outcome.error));
    }
}

/// Checks that the parent of a background child received each end of it once, if that was an end of
/// its own that was no stop.
fn told_once(world: &World, stored: &StoredSession) {
    let mut ends: BTreeMap<ChildEndId, AgentId> = BTreeMap::new();
    let mut continued: BTreeMap<AgentId, u32> = BTreeMap::new();
    let mut actual: BTreeMap<ChildEndId, u32> = BTreeMap::new();
    let mut answered: BTreeSet<AgentId> = BTreeSet::new();
    for Record { agent, parent, event, .. } in &stored.records {
        let end = |number| ChildEndId { child: agent.clone(), number };
        match event {
            Event::AgentStart(start) if start.spec.background => {
                ends.extend(parent.clone().map(|parent| (end(1), parent)));
            }
            Event::AgentResume { task: Some(_), .. } => {
                let times = continued.entry(agent.clone()).or_default();
                *times += 1;
                ends.extend(parent.clone().map(|parent| (end(*times + 1), parent)));
            }
            Event::Message(message) => {
                if let Some(from) = &message.from {
                    *actual.entry(from.clone()).or_default() += 1;
                }
            }
            Event::AgentEnd(outcome) if outcome.exit_reason == ExitReason::Completed => {
                answered.insert(agent.clone());
            }
            Event::AgentEnd(_) => _ = answered.remove(agent),
            _ => {}
        }
    }
    for (end, parent) in &ends {
        let times = actual.get(end).copied().unwrap_or_default();
        if times > 1 || (times == 0 && answered.contains(parent)) {
            world.wrong(format!("{parent} was told {times} times of the end {end}"));
        }
    }
    for end in actual.keys().filter(|end| !ends.contains_key(end)) {
        world.wrong(format!("a message tells of the end {end}, which nobody waited for so"));
    }
}

/// Checks that no child went on that was stopped.
fn stopped_stay(world: &World, stored: &StoredSession) {
    let mut stopped: BTreeSet<&AgentId> = BTreeSet::new();
    for Record { agent, event, .. } in &stored.records {
        match event {
            Event::AgentStop { pending: true, .. } => _ = stopped.insert(agent),
            Event::AgentResume { task: Some(_), .. } => {
                let above = agent.ancestors().any(|above| stopped.contains(&above));
                if above || stopped.contains(agent) {
                    world.wrong(format!("{agent} was stopped and goes on"));
                }
            }
            Event::SessionStart(_) => stopped.retain(|agent| agent.ancestors().next().is_some()),
            _ => {}
        }
    }
}
