//! What runs a job, and what came of it.

use std::path::PathBuf;

use deputize_core::{BoxFuture, Cancel};

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
    /// The answer, for whoever watches: the history has none.
    pub answer: Option<String>,
}

impl JobOutcome {
    /// Creates the outcome of a run that failed, for this reason.
    #[must_use]
    pub fn failed(why: impl Into<String>) -> Self {
        let note = Some(why.into());
        Self { status: RunStatus::Failed, session: None, output: None, note, answer: None }
    }
}

/// Runs jobs, each in a fresh session of an agent.
pub trait RunJob: Send + Sync {
    /// Runs a job to its end. When `cancel` is signalled, because the program ends or the time of
    /// the run is over, it ends soon.
    fn run_job<'a>(&'a self, job: &'a Job, cancel: &'a Cancel) -> BoxFuture<'a, JobOutcome>;
}

const fn _object_safe(_: &dyn RunJob) {}
