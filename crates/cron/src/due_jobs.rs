//! Looks at all jobs at one time, and enters in their histories what begins. All of it blocks.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::due::{DueAction, RunCause, begins_again, due_action, is_ahead, timestamp};
use crate::job::{Job, JobName};
use crate::run_record::{JobHistory, RunRecord, RunStatus};
use crate::store::{JobStore, JobStoreError};

/// What became of a job that was looked at.
#[derive(Debug)]
pub(crate) enum JobStep {
    /// The beginning of a run is on record.
    Run(Box<Job>, RunCause),
    /// Its times until now were missed and are left out.
    Missed(JobName),
    /// It is due and still runs, so this time is left out.
    StillRunning(JobName),
    /// Something cannot be read or written.
    Fault(JobStoreError),
}

/// What became of all jobs.
#[derive(Debug)]
pub(crate) struct DueJobs {
    pub(crate) steps: Vec<JobStep>,
    /// How long nothing else is due.
    pub(crate) wait: Duration,
}

/// A look at all jobs.
#[derive(Debug)]
pub(crate) struct JobLook {
    pub(crate) zone: TimeZone,
    pub(crate) now_ms: u64,
    /// The jobs that run.
    pub(crate) running: BTreeSet<JobName>,
    /// The longest wait.
    pub(crate) poll: Duration,
}

impl JobLook {
    /// Enters what begins, and returns it.
    ///
    /// # Errors
    /// If the jobs cannot be listed.
    pub(crate) fn begin_due(&self, store: &JobStore) -> Result<DueJobs, JobStoreError> {
        let listing = store.list()?;
        let mut steps: Vec<_> = listing.faults.into_iter().map(JobStep::Fault).collect();
        let mut wait = self.poll;
        for job in listing.jobs {
            match self.begin(store, job) {
                Ok((step, next)) => {
                    steps.extend(step);
                    wait = wait.min(next);
                }
                Err(error) => steps.push(JobStep::Fault(error)),
            }
        }
        Ok(DueJobs { steps, wait })
    }

    /// Does what is to be done for one job, and returns how long nothing else is.
    fn begin(
        &self,
        store: &JobStore,
        mut job: Job,
    ) -> Result<(Option<JobStep>, Duration), JobStoreError> {
        let now_ms = self.now_ms;
        let now = timestamp(now_ms);
        let name = job.name.clone();
        let is_running = self.running.contains(&name);
        let mut history = store.history(&name)?;
        // A clock that was far ahead must not stop the job until then.
        if is_ahead(job.changed_ms, now) {
            job = store.update(&name, |job| Ok(Job { changed_ms: now_ms, ..job }))?;
        }
        if is_ahead(history.handled_ms, now) {
            history.handled_ms = now_ms;
            store.record(&name, |history| history.handled_ms = now_ms)?;
        }
        if is_running {
            // What is on record of this run is no run that broke off. A request waits for its end.
            history.last = None;
            history.requested = false;
        }
        let cause = match due_action(&job, &history, now, &self.zone) {
            DueAction::Wait(None) => return Ok((None, self.poll)),
            DueAction::Wait(Some(at)) => {
                return Ok((None, at.duration_since(now).try_into().unwrap_or(self.poll)));
            }
            DueAction::Skip => {
                store.record(&name, |history| history.handled_ms = now_ms)?;
                return Ok((Some(JobStep::Missed(name)), self.poll));
            }
            DueAction::Run(cause) => cause,
        };
        if is_running {
            store.record(&name, |history| handle(history, cause, now_ms))?;
            return Ok((Some(JobStep::StillRunning(name)), self.poll));
        }
        let is_there = store.record(&name, |history| start(history, cause, now_ms))?;
        Ok((is_there.then(|| JobStep::Run(Box::new(job), cause)), Duration::ZERO))
    }
}

/// A run that an earlier program left without an end.
#[derive(Debug)]
pub(crate) struct CutOffRun {
    pub(crate) name: JobName,
    /// Whether it begins again by itself.
    pub(crate) begins_again: bool,
}

/// Enters that runs were cut off, of which nothing says that they ended, and returns them. Only the
/// program that runs the jobs may call this, before it begins any. Histories that cannot be changed
/// are left to [`JobLook::begin_due`], which reports them.
pub(crate) fn mark_cut_off(store: &JobStore) -> Result<Vec<CutOffRun>, JobStoreError> {
    let mut marked = Vec::new();
    for job in store.list()?.jobs {
        let mut begins = None;
        let _reported_later = store.record(&job.name, |history| {
            let Some(last) = &mut history.last else { return };
            if last.status == RunStatus::Running {
                last.status = RunStatus::CutOff;
                last.note = Some("the program ended in the middle of it".to_owned());
                begins = Some(begins_again(&job, last));
            }
        });
        marked.extend(begins.map(|begins_again| CutOffRun { name: job.name, begins_again }));
    }
    Ok(marked)
}

/// Enters the beginning of a run.
pub(crate) fn start(history: &mut JobHistory, cause: RunCause, now_ms: u64) {
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
        denied: 0,
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
