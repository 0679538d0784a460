//! The limiter, case by case, and its bounds under any sequence.

use super::outage::{FORGET, REST};
use super::pacing::ADMIT_AFTER;
use super::*;

const POLICY: RetryPolicy = RetryPolicy {
    attempts: 5,
    first_wait: Duration::from_secs(1),
    longest_wait: Duration::from_secs(60),
    total_wait: Duration::from_secs(300),
};

fn failure(status: u16) -> ModelError {
    let error = ModelError::new(FailureKind::Transient, status.to_string());
    ModelError { status: Some(status), ..error }
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn go(gate: &mut LimiterState, now: Duration) -> SendLease {
    match gate.admit(gate.queue_position(), now) {
        Admission::Go(leave) => leave,
        other => panic!("{other:?}"),
    }
}

#[test]
fn fifty_failures_at_once_close_it_once_and_one_tries_it() {
    let mut gate = LimiterState::new(POLICY);
    let early = gate.queue_position();
    let leaves: Vec<SendLease> = (0..50).map(|_| go(&mut gate, secs(0))).collect();
    for leave in leaves {
        let next = gate.finish(leave, secs(1), Err(&failure(503)), 0);
        assert_eq!(next, NextAttempt::Wait(secs(1)));
    }
    assert_eq!(gate.admit(early, secs(1)), Admission::Until(secs(2)));
    let mut trial = go(&mut gate, secs(2));
    assert_eq!(gate.admit(early, secs(2)), Admission::AfterOthers);
    gate.on_response_start(&mut trial, secs(2));
    let _second = go(&mut gate, secs(2));
    let _third = go(&mut gate, secs(2));
}

#[test]
fn a_rate_limit_halves_what_is_under_way_and_answers_widen_it() {
    let mut gate = LimiterState::new(POLICY);
    let leaves: Vec<SendLease> = (0..8).map(|_| go(&mut gate, secs(0))).collect();
    let asks = ModelError { retry_after_ms: Some(7000), ..failure(429) };
    let mut leaves = leaves.into_iter();
    let next = gate.finish(leaves.next().unwrap(), secs(0), Err(&asks), 0);
    assert_eq!(next, NextAttempt::Wait(secs(7)));
    for leave in leaves {
        let _next = gate.finish(leave, secs(0), Err(&asks), 0);
    }
    let four: Vec<SendLease> = (0..4).map(|_| go(&mut gate, secs(7))).collect();
    assert_eq!(gate.admit(gate.queue_position(), secs(7)), Admission::Until(secs(17)));
    for leave in four {
        let _open = gate.finish(leave, secs(8), Ok(()), 0);
    }
    assert_eq!(gate.room(), Some(5));
}

#[test]
fn while_somebody_is_answered_a_rate_limit_is_a_queue_and_no_failure() {
    let mut gate = LimiterState::new(POLICY);
    let mut long = go(&mut gate, secs(0));
    gate.on_response_start(&mut long, secs(0));
    let mut now = secs(100);
    for _ in 0..20 {
        let leave = go(&mut gate, now);
        let next = gate.finish(leave, now, Err(&failure(429)), 0);
        let NextAttempt::Queue(wait) = next else { panic!("{next:?}") };
        now += wait;
    }
    // No request is answered any more: the next one fails.
    gate.release_unused(long);
    let leave = go(&mut gate, now);
    assert_eq!(gate.finish(leave, now, Err(&failure(429)), 0), NextAttempt::GiveUp);
}

#[test]
fn it_gives_up_as_soon_as_the_failure_bounds_the_attempts() {
    let mut gate = LimiterState::new(POLICY);
    let refused = ModelError { status: None, most_attempts: Some(2), ..failure(0) };
    let leave = go(&mut gate, secs(0));
    assert_eq!(gate.finish(leave, secs(0), Err(&refused), 0), NextAttempt::Wait(secs(1)));
    let waiting = gate.queue_position();
    let leave = go(&mut gate, secs(1));
    assert_eq!(gate.finish(leave, secs(1), Err(&refused), 0), NextAttempt::GiveUp);
    assert_eq!(gate.admit(waiting, secs(1)), Admission::GivenUp(refused));
}

#[test]
fn an_answer_that_bounds_the_attempts_of_its_request_bounds_no_other() {
    let mut gate = LimiterState::new(POLICY);
    let waiting = gate.queue_position();
    let own = go(&mut gate, secs(0));
    let other = go(&mut gate, secs(0));
    let asks_not = ModelError { most_attempts: Some(1), ..failure(503) };
    assert_eq!(gate.finish(own, secs(0), Err(&asks_not), 0), NextAttempt::Wait(secs(1)));
    assert_eq!(gate.finish(other, secs(0), Err(&failure(503)), 0), NextAttempt::Wait(secs(1)));
    let Admission::Go(trial) = gate.admit(waiting, secs(1)) else { panic!("it gave up") };
    assert_eq!(gate.finish(trial, secs(2), Ok(()), 0), NextAttempt::Wait(Duration::ZERO));
}

#[test]
fn it_gives_up_for_all_who_wait_and_tries_again_for_who_comes_later() {
    let mut gate = LimiterState::new(POLICY);
    let waiting = gate.queue_position();
    let mut now = secs(0);
    for n in 1..=5 {
        let leave = go(&mut gate, now);
        match gate.finish(leave, now, Err(&failure(503)), 0) {
            NextAttempt::Wait(wait) | NextAttempt::Queue(wait) => now += wait,
            NextAttempt::GiveUp => assert_eq!(n, 5),
        }
    }
    assert_eq!(gate.admit(waiting, now + secs(9)), Admission::GivenUp(failure(503)));
    let late = go(&mut gate, now);
    let beside = gate.queue_position();
    assert_eq!(gate.admit(beside, now), Admission::AfterOthers);
    let next = gate.finish(late, now, Err(&failure(503)), 0);
    assert_eq!(next, NextAttempt::GiveUp, "one trial, not five");
    assert_eq!(gate.admit(beside, now), Admission::GivenUp(failure(503)));
    let fresh = go(&mut gate, now + FORGET + secs(1));
    let next = gate.finish(fresh, now, Err(&failure(503)), 0);
    assert_eq!(next, NextAttempt::Wait(secs(1)));
}

#[test]
fn who_comes_after_a_request_that_nobody_could_serve_is_served() {
    let mut gate = LimiterState::new(POLICY);
    let mut now = secs(0);
    while let NextAttempt::Wait(wait) = {
        let leave = go(&mut gate, now);
        gate.finish(leave, now, Err(&failure(500)), 0)
    } {
        now += wait;
    }
    let healthy = go(&mut gate, now);
    assert_eq!(gate.finish(healthy, now, Ok(()), 0), NextAttempt::Wait(secs(0)));
    assert_eq!(gate.room(), None);
}

#[test]
fn nothing_is_sent_soon_after_giving_up_on_who_asked_for_a_wait() {
    let mut gate = LimiterState::new(POLICY);
    let asks = ModelError { retry_after_ms: Some(61_000), ..failure(429) };
    let leave = go(&mut gate, secs(0));
    assert_eq!(gate.finish(leave, secs(0), Err(&asks), 0), NextAttempt::GiveUp);
    assert_eq!(gate.admit(gate.queue_position(), secs(1)), Admission::GivenUp(asks));
    let _later = go(&mut gate, REST);
}

#[test]
fn what_says_nothing_of_the_provider_closes_nothing() {
    let mut gate = LimiterState::new(POLICY);
    let other_key = ModelError { other_key: true, ..failure(429) };
    let kinds = [FailureKind::Incomplete, FailureKind::Fatal, FailureKind::ContextOverflow];
    let others = kinds.map(|kind| ModelError::new(kind, "x"));
    for error in others.iter().chain([&other_key]) {
        let leave = go(&mut gate, secs(0));
        let next = gate.finish(leave, secs(0), Err(error), 0);
        assert_eq!(next, NextAttempt::Wait(Duration::ZERO), "{error:?}");
    }
    assert_eq!(gate.room(), None);
}

#[test]
fn a_wait_as_long_as_forgetting_takes_is_not_forgotten() {
    let mut gate = LimiterState::new(POLICY);
    let asks = ModelError { retry_after_ms: Some(60_000), ..failure(503) };
    let leave = go(&mut gate, secs(0));
    assert_eq!(gate.finish(leave, secs(0), Err(&asks), 0), NextAttempt::Wait(secs(60)));
    let _trial = go(&mut gate, secs(60));
    assert_eq!(gate.admit(gate.queue_position(), secs(60)), Admission::AfterOthers);
    assert_eq!(
        gate.admit(gate.queue_position(), secs(600)),
        Admission::AfterOthers,
        "a slow trial"
    );
}

#[test]
fn a_rate_limit_of_one_bounds_nobody_and_one_long_past_is_forgotten() {
    let mut gate = LimiterState::new(POLICY);
    let leave = go(&mut gate, secs(0));
    let _next = gate.finish(leave, secs(0), Err(&failure(429)), 0);
    let answered = go(&mut gate, secs(2));
    let _next = gate.finish(answered, secs(2), Ok(()), 0);
    let many: Vec<SendLease> = (0..50).map(|_| go(&mut gate, secs(3))).collect();
    assert_eq!(many.len(), 50);
    for leave in many {
        let _next = gate.finish(leave, secs(3), Err(&failure(429)), 0);
    }
    assert_eq!(gate.room(), Some(25));
    let _fresh = go(&mut gate, secs(200));
    assert_eq!(gate.room(), None);
}

#[test]
fn after_an_old_rate_limit_an_outage_is_still_tried_by_one() {
    let mut gate = LimiterState::new(POLICY);
    for status in [429, 503] {
        let leaves: Vec<SendLease> = (0..4)
            .map_while(|_| match gate.admit(gate.queue_position(), secs(90)) {
                Admission::Go(leave) => Some(leave),
                _ => None,
            })
            .collect();
        for leave in leaves {
            let _next = gate.finish(leave, secs(80), Err(&failure(status)), 0);
        }
    }
    let _trial = go(&mut gate, secs(100));
    assert_eq!(gate.admit(gate.queue_position(), secs(100)), Admission::AfterOthers);
}

#[test]
fn a_trial_that_was_cancelled_leaves_the_place_to_the_next() {
    let mut gate = LimiterState::new(POLICY);
    let leave = go(&mut gate, secs(0));
    let _wait = gate.finish(leave, secs(0), Err(&failure(500)), 0);
    let trial = go(&mut gate, secs(1));
    assert_eq!(gate.admit(gate.queue_position(), secs(1)), Admission::AfterOthers);
    gate.release_unused(trial);
    assert!(matches!(gate.admit(gate.queue_position(), secs(1)), Admission::Go(_)));
}

#[test]
fn a_wait_too_long_for_a_person_is_reported_at_once() {
    let mut gate = LimiterState::new(POLICY);
    let leave = go(&mut gate, secs(0));
    let asks = ModelError { retry_after_ms: Some(61_000), ..failure(429) };
    assert_eq!(gate.finish(leave, secs(0), Err(&asks), 0), NextAttempt::GiveUp);
}

proptest::proptest! {
    /// Under any sequence: no more in flight than the limit, never more than one trial, and a
    /// waiting request is admitted or fails within the longest time of consecutive failures.
    #[test]
    fn whatever_happens_the_bounds_hold(steps in proptest::collection::vec((0_u8..6, 0_u64..40), 1..200)) {
        let mut gate = LimiterState::new(POLICY);
        let mut now = secs(0);
        let mut out: Vec<SendLease> = Vec::new();
        let mut sent = Duration::ZERO;
        for (what, seconds) in steps {
            now += secs(seconds);
            let result = [Ok(()), Err(failure(503)), Err(failure(429))];
            match (what, out.is_empty()) {
                (0..3, _) | (_, true) => {
                    if let Admission::Go(leave) = gate.admit(gate.queue_position(), now) {
                        out.push(leave);
                        proptest::prop_assert!(now >= gate.outage.closed_until);
                        let patient = now >= sent + ADMIT_AFTER;
                        proptest::prop_assert!(patient || gate.pacing.limit().is_none_or(|limit| out.len() <= limit as usize));
                        sent = now;
                    }
                }
                _ => {
                    let leave = out.swap_remove(seconds as usize % out.len());
                    let result = result[usize::from(what) - 3].as_ref();
                    let _next = gate.finish(leave, now, result.map(|&()| ()), 500);
                }
            }
            proptest::prop_assert!(out.iter().filter(|leave| leave.trial).count() <= 1);
            proptest::prop_assert_eq!(gate.in_flight.unanswered as usize, out.len());
        }
        for leave in out.drain(..) {
            gate.release_unused(leave);
        }
        proptest::prop_assert!(matches!(
            gate.admit(gate.queue_position(), now + secs(61)),
            Admission::Go(_)
        ));
    }
}
