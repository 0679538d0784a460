//! Whether a job is due: a function of the job, its history and the time.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::job::{Job, MissedPolicy};
use crate::run_record::{JobHistory, RunRecord, RunStatus};

/// A run may begin so much later than its time and is not missed.
const LATE: SignedDuration = SignedDuration::from_secs(60);
/// A time on record that is so much later than now is of a clock that was wrong. One that was ahead by
/// less is waited for, so that no time runs twice when a clock is set back.
const AHEAD: SignedDuration = SignedDuration::from_hours(24);
/// How often the run of one time begins at most.
const MOST_ATTEMPTS: u32 = 2;

/// Why a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunCause {
    /// Its time has come.
    OnTime,
    /// Somebody asked for it.
    Requested,
    /// Nothing could run the job at its time.
    Missed,
    /// The program had ended in the middle of it.
    BrokenOff,
}

/// What is to be done for a job now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DueAction {
    /// Nothing until this time; `None` if no time is to come.
    Wait(Option<Timestamp>),
    /// Begin a run.
    Run(RunCause),
    /// Leave out the times until now.
    Skip,
}

/// Decides what is to be done for a job that does not run.
#[must_use]
pub fn due_action(job: &Job, history: &JobHistory, now: Timestamp, local: &TimeZone) -> DueAction {
    if history.requested {
        return DueAction::Run(RunCause::Requested);
    }
    if job.paused {
        return DueAction::Wait(None);
    }
    if history.last.as_ref().is_some_and(|last| begins_again(job, last)) {
        return DueAction::Run(RunCause::BrokenOff);
    }
    let makes_up = job.missed_policy() == MissedPolicy::Once;
    let (anchor, handled) = times_on_record(job, history, now);
    let next = |after| job.schedule.next_after(after, anchor, local);
    match next(handled) {
        None => DueAction::Wait(None),
        Some(at) if at > now => DueAction::Wait(Some(at)),
        Some(at) => {
            // Of several times that have come, the last one may be on time.
            let recent = now.checked_sub(LATE).unwrap_or(now);
            let on_time = at >= recent || next(recent).is_some_and(|at| at <= now);
            match (on_time, makes_up) {
                (true, _) => DueAction::Run(RunCause::OnTime),
                (false, true) => DueAction::Run(RunCause::Missed),
                (false, false) => DueAction::Skip,
            }
        }
    }
}

/// Returns whether a run that broke off begins again. It may have changed something, so the job must
/// say so itself; one that never had a session changed nothing, and is as a missed time.
pub(crate) fn begins_again(job: &Job, last: &RunRecord) -> bool {
    let is_wanted = match last.status {
        RunStatus::Interrupted if last.session.is_none() => {
            job.missed_policy() == MissedPolicy::Once
        }
        RunStatus::Running | RunStatus::Interrupted | RunStatus::CutOff => {
            job.missed == Some(MissedPolicy::Once)
        }
        RunStatus::Completed | RunStatus::Undelivered | RunStatus::Failed | RunStatus::Timeout => {
            false
        }
    };
    is_wanted && last.attempts < MOST_ATTEMPTS
}

/// Returns the next time of a job, for people; `None` if there is none or it is paused.
#[must_use]
pub fn next_time(
    job: &Job,
    history: &JobHistory,
    now: Timestamp,
    local: &TimeZone,
) -> Option<Timestamp> {
    if job.paused {
        return None;
    }
    let (anchor, handled) = times_on_record(job, history, now);
    job.schedule.next_after(handled.max(now), anchor, local)
}

/// Returns from when intervals count, and up to when times were dealt with.
fn times_on_record(job: &Job, history: &JobHistory, now: Timestamp) -> (Timestamp, Timestamp) {
    let real = |ms| if is_ahead(ms, now) { now } else { timestamp(ms) };
    let changed = real(job.changed_ms);
    (changed, real(history.handled_ms).max(changed))
}

/// Returns whether a time on record is of a clock that was far ahead.
pub(crate) fn is_ahead(ms: u64, now: Timestamp) -> bool {
    timestamp(ms).duration_since(now) > AHEAD
}

/// Returns a time in Unix milliseconds as a timestamp.
#[must_use]
pub fn timestamp(ms: u64) -> Timestamp {
    let ms = i64::try_from(ms).ok();
    ms.and_then(|ms| Timestamp::from_millisecond(ms).ok()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000;
    const HOUR: u64 = 3_600_000;

    fn job(schedule: &str, missed: Option<MissedPolicy>) -> Job {
        let job = serde_json::json!({
            "name": "a", "schedule": schedule, "prompt": "Look.", "toolsets": ["file"],
            "cwd": "/", "changed_ms": NOW,
        });
        Job { missed, ..Job::parse(job.to_string().as_bytes()).unwrap() }
    }

    fn after(job: &Job, history: &JobHistory, ms: u64) -> DueAction {
        due_action(job, history, timestamp(NOW + ms), &TimeZone::UTC)
    }

    #[test]
    fn a_time_runs_once_it_has_come_and_is_missed_a_minute_later() {
        let skips = job("every 1h", None);
        let once = job("every 1h", Some(MissedPolicy::Once));
        let fresh = JobHistory::default();
        let wait = DueAction::Wait(Some(timestamp(NOW + HOUR)));
        let run = DueAction::Run;
        for job in [&skips, &once] {
            assert_eq!(after(job, &fresh, 0), wait);
            assert_eq!(after(job, &fresh, HOUR - 1), wait);
            assert_eq!(after(job, &fresh, HOUR), run(RunCause::OnTime));
            assert_eq!(after(job, &fresh, HOUR + 60_000), run(RunCause::OnTime));
            // Of many times the last is on time.
            assert_eq!(after(job, &fresh, 7 * HOUR + 1_000), run(RunCause::OnTime));
        }
        assert_eq!(after(&skips, &fresh, HOUR + 61_000), DueAction::Skip);
        assert_eq!(after(&once, &fresh, 5 * HOUR + 61_000), run(RunCause::Missed));
        let handled = JobHistory { handled_ms: NOW + HOUR, ..fresh };
        let next = DueAction::Wait(Some(timestamp(NOW + 2 * HOUR)));
        assert_eq!(after(&once, &handled, HOUR + 61_000), next);
    }

    #[test]
    fn a_single_time_is_made_up_for_and_then_never_comes_again() {
        let at = timestamp(NOW + HOUR);
        let single = job(&format!("at {at}"), None);
        let fresh = JobHistory::default();
        assert_eq!(after(&single, &fresh, 5 * HOUR), DueAction::Run(RunCause::Missed));
        let handled = JobHistory { handled_ms: NOW + HOUR, ..fresh };
        assert_eq!(after(&single, &handled, 5 * HOUR), DueAction::Wait(None));
        assert_eq!(next_time(&single, &handled, at, &TimeZone::UTC), None);
    }

    #[test]
    fn a_run_that_broke_off_begins_again_once_if_its_job_says_so() {
        let broken = |status, attempts, session: Option<&str>| {
            let last = RunRecord {
                status,
                started_ms: NOW,
                ended_ms: None,
                attempts,
                session: session.map(str::to_owned),
                output: None,
                note: None,
                denied: 0,
            };
            JobHistory { handled_ms: NOW + HOUR, last: Some(last), ..JobHistory::default() }
        };
        let again = DueAction::Run(RunCause::BrokenOff);
        let once = job("every 1h", Some(MissedPolicy::Once));
        let wait = DueAction::Wait(Some(timestamp(NOW + 2 * HOUR)));
        let single = job(&format!("at {}", timestamp(NOW + HOUR)), None);
        let never = DueAction::Wait(None);
        for status in [RunStatus::Running, RunStatus::Interrupted, RunStatus::CutOff] {
            let (first, second) = (broken(status, 1, Some("s")), broken(status, 2, Some("s")));
            assert_eq!(after(&once, &first, HOUR), again);
            assert_eq!(after(&once, &second, HOUR), wait);
            assert_eq!(after(&job("every 1h", None), &first, HOUR), wait);
            assert_eq!(after(&single, &first, HOUR), never, "it may have changed something");
        }
        // One that waited for others, and then the program was stopped.
        let waited = broken(RunStatus::Interrupted, 1, None);
        assert_eq!(after(&single, &waited, HOUR), again);
        assert_eq!(after(&job("every 1h", None), &waited, HOUR), wait);
        let killed = broken(RunStatus::CutOff, 1, None);
        assert_eq!(after(&single, &killed, HOUR), never, "whether it had begun is not known");
        assert_eq!(after(&once, &broken(RunStatus::Failed, 1, Some("s")), HOUR), wait);
    }

    #[test]
    fn a_paused_job_runs_only_on_request() {
        let ahead = JobHistory { handled_ms: NOW + 9_000 * HOUR, ..JobHistory::default() };
        let soon = DueAction::Wait(Some(timestamp(NOW + HOUR)));
        assert_eq!(after(&job("every 1h", None), &ahead, 0), soon, "a clock that was wrong");
        let paused = Job { paused: true, ..job("every 1h", Some(MissedPolicy::Once)) };
        let fresh = JobHistory::default();
        assert_eq!(after(&paused, &fresh, 9 * HOUR), DueAction::Wait(None));
        let requested = JobHistory { requested: true, ..fresh };
        assert_eq!(after(&paused, &requested, 0), DueAction::Run(RunCause::Requested));
    }
}
