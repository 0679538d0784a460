//! The same history again and again, with trouble at the first place there is, the second, the
//! third, … until none is met.

use std::ops::RangeFrom;

use deputize_core::Status;
use deputize_runtime::SyncMode;
use deputize_testkit::{CrashKind, DiskFault, Seed};

use crate::history::{finish, turn};
use crate::life::{LifeEnd, ProcessFaults, ProcessMoment, live};
use crate::mind::Mind;
use crate::seeds::quietly;
use crate::world::{Figures, World};

const ENDS: [Option<CrashKind>; 2] = [None, Some(CrashKind::Power)];

/// A turn whose first process meets this trouble, and one more turn after it.
fn history(seed: u64, mind: Mind, troubles: ProcessFaults) -> Figures {
    histories(seed, mind, &[troubles], ProcessFaults::default())
}

/// A turn whose processes meet these troubles one after the other, a second one whose process
/// meets the last, and a third.
fn histories(seed: u64, mind: Mind, first: &[ProcessFaults], second: ProcessFaults) -> Figures {
    quietly();
    let world = World::new(Seed(seed), mind, SyncMode::Turn);
    let mut of_first = |attempt: u32| first.get(attempt as usize).copied().unwrap_or_default();
    let mut of_second = |attempt| if attempt == 0 { second } else { ProcessFaults::default() };
    let done = turn(&world, None, &mut of_first)
        .and_then(|_| turn(&world, Some("And now?"), &mut of_second))
        .and_then(|_| finish(&world));
    done.unwrap_or_else(|wrong| panic!("{mind:?} with {first:?}, {second:?}: {wrong}")).0
}

/// Trouble at every place; gives how many there are.
fn at_every(places: RangeFrom<u64>, by: usize, trouble: impl Fn(u64) -> ProcessFaults) -> u64 {
    for n in places.step_by(by) {
        let met = history(n, Mind::Plan, trouble(n));
        if met.kills + met.power_cuts + met.cancels + met.disk_troubles == 0 {
            return n;
        }
    }
    unreachable!("a history has an end")
}

#[test]
fn every_operation_of_the_disk_fails_once_or_from_then_on() {
    let once =
        [DiskFault::Full, DiskFault::Broken, DiskFault::Short].map(|trouble| (trouble, false));
    let lasting = [DiskFault::Full, DiskFault::ReadOnly].map(|trouble| (trouble, true));
    for (trouble, stays) in once.into_iter().chain(lasting) {
        let places = at_every(1.., 1, |n| ProcessFaults {
            disk: Some((n, trouble, stays)),
            ..ProcessFaults::default()
        });
        assert!(places > 80, "{places}");
    }
}

#[test]
fn killed_in_the_middle_of_every_operation_of_the_disk() {
    for end in ENDS {
        let places = at_every(1.., 1, |n| ProcessFaults {
            crash: Some((ProcessMoment::Disk(n), end)),
            ..ProcessFaults::default()
        });
        assert!(places > 80, "{places}");
    }
}

#[test]
fn killed_at_every_record() {
    for end in ENDS {
        let places = at_every(0.., 1, |n| ProcessFaults {
            crash: Some((ProcessMoment::Record(n), end)),
            ..ProcessFaults::default()
        });
        assert!(places > 70, "{places}");
    }
}

#[test]
fn killed_between_any_two_steps() {
    let places = at_every(0.., 1, |n| ProcessFaults {
        crash: Some((ProcessMoment::Step(n), None)),
        ..ProcessFaults::default()
    });
    assert!(places > 60, "{places}");
    at_every(1.., 3, |n| ProcessFaults {
        crash: Some((ProcessMoment::Step(n), Some(CrashKind::Power))),
        ..ProcessFaults::default()
    });
}

#[test]
fn interrupted_between_any_two_steps_and_at_every_record() {
    for at in [ProcessMoment::Step, ProcessMoment::Record] {
        let places =
            at_every(0.., 1, |n| ProcessFaults { cancel: Some(at(n)), ..ProcessFaults::default() });
        assert!(places > 60, "{places}");
    }
}

/// Once, children that a crash had left without an end stayed so, and their tokens were lost,
/// when their parent was interrupted before it could take them up again.
#[test]
fn interrupted_as_soon_as_it_goes_on_after_a_crash() {
    for n in (0..).step_by(4) {
        let crash = ProcessFaults {
            crash: Some((ProcessMoment::Record(n), None)),
            ..ProcessFaults::default()
        };
        let cancel =
            ProcessFaults { cancel: Some(ProcessMoment::Step(0)), ..ProcessFaults::default() };
        if histories(n, Mind::Plan, &[crash, cancel], ProcessFaults::default()).kills == 0 {
            return assert!(n > 70, "{n}");
        }
    }
}

/// Once, what a failed sync had made the system forget was believed durable by the process that
/// went on, and was gone when the power was cut in the turn after that.
#[test]
fn the_power_is_cut_long_after_a_sync_failed() {
    for n in 1.. {
        let fails =
            ProcessFaults { disk: Some((n, DiskFault::Broken, false)), ..ProcessFaults::default() };
        let at = ProcessMoment::Record(9);
        let cut =
            ProcessFaults { crash: Some((at, Some(CrashKind::Power))), ..ProcessFaults::default() };
        if histories(n, Mind::Plan, &[fails], cut).disk_troubles == 0 {
            return assert!(n > 80, "{n}");
        }
    }
}

#[test]
fn an_answer_whose_record_may_be_lost_is_there_and_no_success() {
    quietly();
    let world = || World::new(Seed(0), Mind::Plan, SyncMode::Turn);
    let whole = world();
    let fails = world();
    let LifeEnd::Ended(well) = live(&whole, ProcessFaults::default(), None) else {
        panic!("it ends")
    };
    // The last thing that a process does is to wait until its end is kept.
    let last = Some((whole.disk.operations(), DiskFault::Broken, false));
    let troubles = ProcessFaults { disk: last, ..ProcessFaults::default() };
    let LifeEnd::Ended(actual) = live(&fails, troubles, None) else { panic!("it ends") };
    assert!(actual.text.is_some() && actual.text == well.text, "{actual:?}");
    assert_eq!((well.exit_code(), actual.exit_code(), actual.status), (0, 1, Status::Error));
    let error = actual.error.unwrap_or_default();
    assert!(error.starts_with("the end of the session could not be kept: "), "{error}");
}

/// Records stand in the order in which they were made, whatever the clock says, and no timer
/// goes by it: the same history takes the same steps.
#[test]
fn a_clock_that_jumps_back_changes_nothing_but_the_times_that_are_shown() {
    let jumps = history(0, Mind::Plan, ProcessFaults::default());
    let steady = {
        quietly();
        let world = World::new(Seed(0), Mind::Plan, SyncMode::Turn);
        world.state().clock_is_steady = true;
        let mut no_trouble = |_| ProcessFaults::default();
        let done = turn(&world, None, &mut no_trouble)
            .and_then(|_| turn(&world, Some("And now?"), &mut no_trouble))
            .and_then(|_| finish(&world));
        done.unwrap().0
    };
    // Each process begins with the same time again.
    assert!(jumps.clock_jumps > steady.clock_jumps, "{jumps:?}, {steady:?}");
    assert_eq!(steady, Figures { clock_jumps: steady.clock_jumps, ..jumps });
}

/// A power cut in the same process, once a sync has failed: what was acknowledged before stays,
/// and nothing that the failed one had to save is believed to.
#[test]
fn the_power_is_cut_soon_after_a_sync_failed() {
    for after in [0, 5] {
        for n in 1.. {
            let fails = Some((n, DiskFault::Broken, false));
            let cut = Some((ProcessMoment::Disk(n + 1 + after), Some(CrashKind::Power)));
            let both = ProcessFaults { disk: fails, crash: cut, ..ProcessFaults::default() };
            if history(n, Mind::Plan, both).disk_troubles == 0 {
                assert!(n > 80, "{n}");
                break;
            }
        }
    }
    // The process comes to its end, in order or not, and then the power is cut.
    for n in 1.. {
        let disk = Some((n, DiskFault::Broken, false));
        let both = ProcessFaults { disk, power_cut_after: true, ..ProcessFaults::default() };
        if history(n, Mind::Plan, both).disk_troubles == 0 {
            return assert!(n > 80, "{n}");
        }
    }
}
