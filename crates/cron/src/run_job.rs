//! What runs a job, and what came of it.

use std::path::PathBuf;

use deputize_core::message::CallStatus;
use deputize_core::{BoxFuture, Cancel, Outcome, Status};

use crate::job::Job;
use crate::run_record::RunStatus;

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOutcome {
    /// How it ended.
    pub status: RunStatus,
    /// Its session, if it has one.
    pub session: Option<String>,
    /// The file with its answer.
    pub output: Option<PathBuf>,
    /// What went wrong.
    pub note: Option<String>,
    /// How many calls were denied.
    pub denied: u32,
    /// The answer, for whoever watches: the history has none.
    pub answer: Option<String>,
}

impl JobOutcome {
    /// Creates the outcome of a run that failed, for this reason.
    #[must_use]
    pub fn failed(why: impl Into<String>) -> Self {
        let note = Some(why.into());
        let status = RunStatus::Failed;
        Self { status, session: None, output: None, note, denied: 0, answer: None }
    }

    /// Creates the outcome of a run from that of its agent.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Self {
        let denied = outcome.trace.iter().filter(|call| call.status == CallStatus::Denied).count();
        Self {
            status: match outcome.status {
                Status::Completed => RunStatus::Completed,
                Status::Failed | Status::Error => RunStatus::Failed,
                Status::Timeout => RunStatus::Timeout,
                Status::Interrupted => RunStatus::Interrupted,
            },
            session: Some(outcome.agent.session().to_string()),
            output: None,
            note: outcome.error.clone(),
            denied: u32::try_from(denied).unwrap_or(u32::MAX),
            answer: outcome.text.clone(),
        }
    }
}

/// Runs jobs, each in a fresh session of an agent.
pub trait RunJob: Send + Sync {
    /// Runs a job to its end. When `cancel` is signalled, because the program ends or the time of
    /// the run is over, it ends soon.
    fn run_job<'a>(&'a self, job: &'a Job, cancel: &'a Cancel) -> BoxFuture<'a, JobOutcome>;
}

const fn _object_safe(_: &dyn RunJob) {}
