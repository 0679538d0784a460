//! Runs the jobs of a store when they are due.

use std::collections::BTreeSet;
use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use deputize_core::{BoxFuture, Cancel, CancelReason, Clock};
use futures_util::FutureExt as _;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use jiff::tz::TimeZone;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::due::{DueAction, RunCause, due_action, is_ahead, timestamp};
use crate::job::{Job, JobName};
use crate::run_job::{JobOutcome, RunJob};
use crate::run_record::{JobHistory, RunRecord, RunStatus};
use crate::store::{JobStore, JobStoreError};

/// How often the store is looked at, unless set otherwise.
pub const POLL: Duration = Duration::from_secs(2);
/// Runs at once, unless set otherwise.
pub const CONCURRENT_RUNS: usize = 4;
/// Time limit of a run, unless set otherwise.
pub const RUN_SECONDS: u32 = 3_600;

/// Something that happened to a job, for whoever watches.
#[derive(Debug)]
#[non_exhaustive]
pub enum JobEvent<'a> {
    /// A run began.
    Started(&'a JobName, RunCause),
    /// A run ended.
    Ended(&'a JobName, &'a JobOutcome),
    /// Its times until now were left out, because they were missed.
    Missed(&'a JobName),
    /// It was due while it still ran, so this time was left out.
    StillRunning(&'a JobName),
    /// Something cannot be read or written. Jobs that need it do not run.
    Fault(&'a JobStoreError),
}

/// Runs the jobs of a store when they are due, at most one run of a job at a time.
///
/// The record of a run is written before it begins. So a program that is killed leaves a run on
/// record that did not end, and what happens to it is the job's policy on missed times.
pub struct Scheduler<'a> {
    /// The jobs.
    pub store: &'a JobStore,
    /// The time.
    pub clock: &'a dyn Clock,
    /// The time zone of schedules without one.
    pub zone: TimeZone,
    /// What runs a job.
    pub runner: &'a dyn RunJob,
    /// Who watches.
    pub watch: &'a (dyn Fn(JobEvent<'_>) + Sync),
    /// Time limit of a run whose job has none.
    pub time_limit: Duration,
    /// How many jobs run at once. Others that are due wait.
    pub concurrent_runs: usize,
    /// How often the store is looked at: other processes change it.
    pub poll: Duration,
}

impl std::fmt::Debug for Scheduler<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scheduler({})", self.store.folder().display())
    }
}

/// The runs of a scheduler.
struct Runs<'a> {
    pending: FuturesUnordered<BoxFuture<'a, (JobName, JobOutcome)>>,
    names: BTreeSet<JobName>,
    slots: &'a Semaphore,
    cancel: &'a Cancel,
    /// The faults that were reported, so that each is reported once.
    told: BTreeSet<String>,
}

impl<'a> Scheduler<'a> {
    /// Creates the scheduler of a store, in the system's time zone, with usual limits and nobody who
    /// watches.
    #[must_use]
    pub fn new(store: &'a JobStore, clock: &'a dyn Clock, runner: &'a dyn RunJob) -> Self {
        Self {
            store,
            clock,
            zone: TimeZone::system(),
            runner,
            watch: &|_| {},
            time_limit: Duration::from_secs(RUN_SECONDS.into()),
            concurrent_runs: CONCURRENT_RUNS,
            poll: POLL,
        }
    }

    /// Runs jobs until it is cancelled; then ends those that run and waits for them.
    ///
    /// # Errors
    /// If another program runs the jobs of this store, or it cannot be used at all.
    pub async fn serve(&self, cancel: &Cancel) -> Result<(), JobStoreError> {
        let _only = self.store.lock_daemon()?;
        let slots = Semaphore::new(self.concurrent_runs.max(1));
        let end = cancel.child();
        let mut runs = Runs {
            pending: FuturesUnordered::new(),
            names: BTreeSet::new(),
            slots: &slots,
            cancel: &end,
            told: BTreeSet::new(),
        };
        while !cancel.is_cancelled() {
            let wait = self.begin_due(&mut runs).min(self.poll);
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                ended = next_end(&mut runs.pending) => self.finish(&mut runs, ended),
                () = sleep(wait) => {}
            }
        }
        end.cancel(cancel.reason().unwrap_or(CancelReason::Interrupted));
        while let Some(ended) = runs.pending.next().await {
            self.finish(&mut runs, ended);
        }
        Ok(())
    }

    /// Begins what is due, and returns how long nothing else is.
    fn begin_due<'r>(&'r self, runs: &mut Runs<'r>) -> Duration {
        let listing = match self.store.list() {
            Ok(listing) => listing,
            Err(error) => {
                self.fault(runs, &error);
                return self.poll;
            }
        };
        listing.faults.iter().for_each(|fault| self.fault(runs, fault));
        let mut wait = self.poll;
        for job in listing.jobs {
            match self.begin(runs, job) {
                Ok(next) => wait = wait.min(next),
                Err(error) => self.fault(runs, &error),
            }
        }
        wait
    }

    /// Does what is to be done for one job, and returns how long nothing else is.
    fn begin<'r>(&'r self, runs: &mut Runs<'r>, mut job: Job) -> Result<Duration, JobStoreError> {
        let now_ms = self.clock.now_ms();
        let now = timestamp(now_ms);
        let name = job.name.clone();
        let is_running = runs.names.contains(&name);
        let mut history = self.store.history(&name)?;
        // A clock that was far ahead must not stop the job until then.
        if is_ahead(job.changed_ms, now) {
            job = self.store.update(&name, |job| Ok(Job { changed_ms: now_ms, ..job }))?;
        }
        if is_ahead(history.handled_ms, now) {
            history.handled_ms = now_ms;
            self.store.record(&name, |history| history.handled_ms = now_ms)?;
        }
        if is_running {
            // What is on record of this run is no run that broke off.
            history.last = None;
        }
        let cause = match due_action(&job, &history, now, &self.zone) {
            DueAction::Wait(None) => return Ok(self.poll),
            DueAction::Wait(Some(at)) => {
                return Ok(at.duration_since(now).try_into().unwrap_or(self.poll));
            }
            DueAction::Skip => {
                self.store.record(&name, |history| history.handled_ms = now_ms)?;
                (self.watch)(JobEvent::Missed(&name));
                return Ok(self.poll);
            }
            DueAction::Run(cause) => cause,
        };
        if is_running {
            self.store.record(&name, |history| handle(history, cause, now_ms))?;
            (self.watch)(JobEvent::StillRunning(&name));
            return Ok(self.poll);
        }
        if self.store.record(&name, |history| start(history, cause, now_ms))? {
            (self.watch)(JobEvent::Started(&name, cause));
            runs.names.insert(name);
            runs.pending.push(Box::pin(self.run(job, runs.slots, runs.cancel)));
        }
        Ok(Duration::ZERO)
    }

    /// Runs a job when there is a slot, within its time.
    async fn run(&self, job: Job, slots: &Semaphore, cancel: &Cancel) -> (JobName, JobOutcome) {
        let work = cancel.child();
        let interrupted = || JobOutcome {
            status: RunStatus::Interrupted,
            ..JobOutcome::failed("the program ended first")
        };
        let slot = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            slot = slots.acquire() => slot.ok(),
        };
        let name = job.name.clone();
        let Some(_slot) = slot else { return (name, interrupted()) };
        let limit = job.timeout_seconds.map(|seconds| Duration::from_secs(seconds.into()));
        let limit = limit.unwrap_or(self.time_limit);
        let run = AssertUnwindSafe(self.runner.run_job(&job, &work)).catch_unwind();
        let mut run = std::pin::pin!(run);
        let ended = tokio::select! {
            biased;
            ended = &mut run => ended,
            () = sleep(limit) => {
                work.cancel(CancelReason::TimeLimit);
                run.await
            }
        };
        let mut outcome =
            ended.unwrap_or_else(|_| JobOutcome::failed("it ended by a fault of the program"));
        match work.reason() {
            Some(CancelReason::TimeLimit) if work.is_own() => {
                outcome.status = RunStatus::Timeout;
                let seconds = limit.as_secs();
                outcome.note.get_or_insert_with(|| format!("it took more than {seconds} s"));
            }
            Some(_) if outcome.status != RunStatus::Completed => {
                outcome = JobOutcome { session: outcome.session, ..interrupted() };
            }
            _ => {}
        }
        (name, outcome)
    }

    fn finish(&self, runs: &mut Runs<'_>, (name, outcome): (JobName, JobOutcome)) {
        runs.names.remove(&name);
        let now = self.clock.now_ms();
        let recorded = self.store.record(&name, |history| {
            if let Some(last) = &mut history.last {
                last.status = outcome.status;
                last.ended_ms = Some(now);
                last.session.clone_from(&outcome.session);
                last.output.clone_from(&outcome.output);
                last.note.clone_from(&outcome.note);
            }
        });
        if let Err(error) = recorded {
            self.fault(runs, &error);
        }
        (self.watch)(JobEvent::Ended(&name, &outcome));
    }

    fn fault(&self, runs: &mut Runs<'_>, error: &JobStoreError) {
        if runs.told.insert(error.to_string()) {
            (self.watch)(JobEvent::Fault(error));
        }
    }
}

/// Enters the beginning of a run.
fn start(history: &mut JobHistory, cause: RunCause, now_ms: u64) {
    let before = history.last.as_ref().filter(|_| cause == RunCause::BrokenOff);
    let attempts = before.map_or(0, |last| last.attempts) + 1;
    handle(history, cause, now_ms);
    history.runs += 1;
    history.last = Some(RunRecord {
        status: RunStatus::Running,
        started_ms: now_ms,
        ended_ms: None,
        attempts,
        session: None,
        output: None,
        note: None,
    });
}

/// Enters that what asked for a run now was dealt with.
fn handle(history: &mut JobHistory, cause: RunCause, now_ms: u64) {
    match cause {
        RunCause::OnTime | RunCause::Missed => history.handled_ms = now_ms,
        RunCause::Requested => history.requested = false,
        RunCause::BrokenOff => {}
    }
}

/// Waits for the end of a run; for ever if none runs.
async fn next_end<'a>(
    pending_runs: &mut FuturesUnordered<BoxFuture<'a, (JobName, JobOutcome)>>,
) -> (JobName, JobOutcome) {
    match pending_runs.next().await {
        Some(ended) => ended,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests;
