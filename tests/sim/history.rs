//! A history: one session through all the processes that it takes.

use std::sync::Arc;

use deputize_core::{Event, Outcome, Status};
use deputize_testkit::{CrashKind, DiskFault, Seed};
use fastrand::Rng;

use crate::check;
use crate::life::{LifeEnd, ProcessFaults, ProcessMoment, live, sync_of};
use crate::mind::Mind;
use crate::world::{Figures, World};

/// So many processes of a turn meet trouble at most.
const TROUBLED: u32 = 5;
/// What the person says after the first turn; the last is said when all trouble is over.
const SAID: [&str; 2] = ["And now?", "Last."];

/// The history of a seed: three turns, the first two in trouble.
///
/// # Errors
/// With what was wrong.
pub(crate) fn of_seed(seed: Seed) -> Result<(Figures, Vec<u8>), String> {
    let world = World::new(seed, Mind::Chance, sync_of(seed));
    let mut number = 0;
    let mut chance = |attempt: u32| {
        number += 1;
        let mut dice = seed.dice(&format!("troubles {number}"));
        if attempt < TROUBLED { troubles(&mut dice) } else { ProcessFaults::default() }
    };
    turn(&world, None, &mut chance)?;
    turn(&world, Some(SAID[0]), &mut chance)?;
    finish(&world)
}

/// The last turn, without trouble, and what must hold then.
pub(crate) fn finish(world: &Arc<World>) -> Result<(Figures, Vec<u8>), String> {
    let outcome = turn(world, Some(SAID[1]), &mut |_| ProcessFaults::default())?;
    if let Some(outcome) = outcome {
        check::at_rest(world, &outcome);
    }
    right(world)?;
    let mut figures = world.state().figures;
    figures.seeds = 1;
    Ok((figures, world.disk.bytes(&world.path()).unwrap_or_default()))
}

/// One turn: a process, and as many more as it takes until the session has an outcome.
pub(crate) fn turn(
    world: &Arc<World>,
    say: Option<&str>,
    troubles: &mut dyn FnMut(u32) -> ProcessFaults,
) -> Result<Option<Outcome>, String> {
    for attempt in 0.. {
        let troubles = troubles(attempt);
        let spoken = say.is_none_or(|say| is_on_record(world, say));
        let before = world.disk.operations();
        let came = live(world, troubles, say.filter(|_| !spoken).map(str::to_owned));
        if crate::seeds::wanted("DEPUTIZE_SIM_SHOW").is_some() {
            println!("{troubles:?}: {came:?}");
        }
        let touched = troubles.disk.is_some_and(|(n, ..)| world.disk.operations() >= before + n);
        let end = match (&came, troubles.crash) {
            (LifeEnd::Crashed, Some((_, end))) => end,
            _ => troubles.power_cut_after.then_some(CrashKind::Power),
        };
        let crashed = matches!(came, LifeEnd::Crashed);
        {
            let figures = &mut world.state().figures;
            figures.kills += u64::from(crashed && end != Some(CrashKind::Power));
            figures.power_cuts += u64::from(end == Some(CrashKind::Power));
            figures.disk_troubles += u64::from(touched);
        }
        if let LifeEnd::Ended(outcome) = &came {
            check::check_end(world, outcome);
        }
        check::after(world, end);
        right(world)?;
        let whole = !touched && !crashed;
        match came {
            LifeEnd::Ended(outcome) if outcome.status != Status::Error => {
                return Ok(Some(*outcome));
            }
            LifeEnd::Ended(outcome) if whole => {
                return Err(format!("without trouble it ended with {:?}", outcome.error));
            }
            // It ended before it began: nothing was kept, and one begins anew.
            LifeEnd::Refused(error) if whole && error.contains("start a new one") => {
                begin_anew(world)
            }
            LifeEnd::Refused(error) if whole => {
                return Err(format!("it did not go on: {error}"));
            }
            LifeEnd::Ended(_) | LifeEnd::Refused(_) | LifeEnd::Crashed => {}
        }
    }
    Ok(None)
}

fn begin_anew(world: &World) {
    // Gone already where the power was cut after its end.
    let _gone = world.dir().remove(&World::id());
    let mut state = world.state();
    state.seen.clear();
    state.ends.clear();
    state.asked.clear();
}

fn is_on_record(world: &World, said: &str) -> bool {
    let state = world.state();
    let is = |event: &Event| matches!(event, Event::Message(message) if message.text == said);
    state.seen.iter().any(|record| record.depth == 0 && is(&record.event))
}

/// Whether anything was wrong until now.
pub(crate) fn right(world: &World) -> Result<(), String> {
    let state = world.state();
    if !state.wrong.is_empty() && crate::seeds::wanted("DEPUTIZE_SIM_SHOW").is_some() {
        for record in &state.seen {
            println!("{}", serde_json::to_string(record).unwrap());
        }
    }
    if state.wrong.is_empty() { Ok(()) } else { Err(state.wrong.join("\n")) }
}

fn troubles(dice: &mut Rng) -> ProcessFaults {
    let mut troubles = ProcessFaults::default();
    // Early and late alike: a session has ten records or a thousand.
    let far = |dice: &mut Rng| {
        let most = 1 << dice.u32(0..11);
        dice.u64(0..most)
    };
    let at = |dice: &mut Rng| {
        let n = far(dice);
        if dice.bool() { ProcessMoment::Step(n) } else { ProcessMoment::Record(n / 4) }
    };
    if dice.u32(..10) < 6 {
        let at = if dice.bool() { ProcessMoment::Disk(1 + far(dice) / 4) } else { at(dice) };
        troubles.crash = Some((at, dice.bool().then_some(CrashKind::Power)));
    }
    if dice.u32(..10) < 3 {
        troubles.cancel = Some(at(dice));
    }
    if dice.u32(..10) < 2 {
        let kinds = [DiskFault::Full, DiskFault::Broken, DiskFault::Short, DiskFault::ReadOnly];
        let trouble = kinds[dice.usize(..kinds.len())];
        troubles.disk = Some((1 + far(dice) / 4, trouble, dice.bool()));
    }
    troubles.power_cut_after = dice.u32(..8) == 0;
    troubles
}
