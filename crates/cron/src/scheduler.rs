//! Runs the jobs of a store when they are due.

use std::collections::BTreeSet;
use std::future::pending;
use std::io;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use deputize_core::{BoxFuture, Cancel, CancelReason, Clock};
use futures_util::FutureExt as _;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use jiff::tz::TimeZone;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::due::RunCause;
use crate::due_jobs::{CutOffRun, DueJobs, JobLook, JobStep, mark_cut_off};
use crate::job::{Job, JobName};
use crate::run_job::{JobOutcome, RunJob};
use crate::run_record::{JobHistory, RunStatus};
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
    /// A program had ended in the middle of a run.
    CutOff {
        /// Name of the job.
        name: &'a JobName,
        /// Whether the run begins again by itself.
        begins_again: bool,
    },
    /// Something cannot be read or written. Jobs that need it do not run.
    Fault(&'a JobStoreError),
}

/// Runs the jobs of a store when they are due, at most one run of a job at a time.
///
/// The record of a run is written before it begins. So a program that is killed leaves a run on
/// record that did not end. The next one enters that it was cut off; it begins again only if the job
/// itself says [`MissedPolicy::Once`](crate::MissedPolicy::Once).
pub struct Scheduler<'a> {
    /// Store of the jobs.
    pub store: &'a JobStore,
    /// Source of the present time.
    pub clock: &'a dyn Clock,
    /// The time zone of schedules without one.
    pub zone: TimeZone,
    /// What runs a job.
    pub runner: &'a dyn RunJob,
    /// Called with each event of a job.
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
    logged_faults: BTreeSet<String>,
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
        let _only = self.on_store(JobStore::lock_daemon).await?;
        let slots = Semaphore::new(self.concurrent_runs.max(1));
        let end = cancel.child();
        let mut runs = Runs {
            pending: FuturesUnordered::new(),
            names: BTreeSet::new(),
            slots: &slots,
            cancel: &end,
            logged_faults: BTreeSet::new(),
        };
        match self.on_store(mark_cut_off).await {
            Ok(marked) => marked.iter().for_each(|CutOffRun { name, begins_again }| {
                (self.watch)(JobEvent::CutOff { name, begins_again: *begins_again });
            }),
            Err(error) => self.fault(&mut runs, &error),
        }
        while !cancel.is_cancelled() {
            let wait = self.begin_due(&mut runs).await.min(self.poll);
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                ended = next_end(&mut runs.pending) => self.finish(&mut runs, ended).await,
                () = sleep(wait) => {}
            }
        }
        end.cancel(cancel.reason().unwrap_or(CancelReason::Interrupted));
        while let Some(ended) = runs.pending.next().await {
            self.finish(&mut runs, ended).await;
        }
        Ok(())
    }

    /// Begins what is due, and returns how long nothing else is.
    async fn begin_due<'r>(&'r self, runs: &mut Runs<'r>) -> Duration {
        let look = JobLook {
            zone: self.zone.clone(),
            now_ms: self.clock.now_ms(),
            running: runs.names.clone(),
            poll: self.poll,
        };
        let DueJobs { steps, wait } = match self.on_store(move |it| look.begin_due(it)).await {
            Ok(due) => due,
            Err(error) => {
                self.fault(runs, &error);
                return self.poll;
            }
        };
        for step in steps {
            match step {
                JobStep::Run(job, cause) => {
                    (self.watch)(JobEvent::Started(&job.name, cause));
                    runs.names.insert(job.name.clone());
                    runs.pending.push(Box::pin(self.run(*job, runs.slots, runs.cancel)));
                }
                JobStep::Missed(name) => (self.watch)(JobEvent::Missed(&name)),
                JobStep::StillRunning(name) => (self.watch)(JobEvent::StillRunning(&name)),
                JobStep::Fault(error) => self.fault(runs, &error),
            }
        }
        wait
    }

    /// Works with the store on a thread that may block.
    async fn on_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&JobStore) -> Result<T, JobStoreError> + Send + 'static,
    ) -> Result<T, JobStoreError> {
        let store = self.store.clone();
        spawn_blocking(move || work(&store)).await.unwrap_or_else(|lost| {
            let path = self.store.folder().to_owned();
            Err(JobStoreError::Io { path, source: io::Error::other(lost) })
        })
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
            Some(_) if !outcome.status.has_answer() => {
                let JobOutcome { session, denied, .. } = outcome;
                outcome = JobOutcome { session, denied, ..interrupted() };
            }
            _ => {}
        }
        (name, outcome)
    }

    async fn finish(&self, runs: &mut Runs<'_>, (name, outcome): (JobName, JobOutcome)) {
        runs.names.remove(&name);
        let now = self.clock.now_ms();
        let (job, end) = (name.clone(), outcome.clone());
        let record = move |history: &mut JobHistory| {
            if let Some(last) = &mut history.last {
                last.status = end.status;
                last.ended_ms = Some(now);
                last.session = end.session;
                last.output = end.output;
                last.note = end.note;
                last.denied = end.denied;
            }
        };
        if let Err(error) = self.on_store(move |store| store.record(&job, record)).await {
            self.fault(runs, &error);
        }
        (self.watch)(JobEvent::Ended(&name, &outcome));
    }

    fn fault(&self, runs: &mut Runs<'_>, error: &JobStoreError) {
        if runs.logged_faults.insert(error.to_string()) {
            (self.watch)(JobEvent::Fault(error));
        }
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
