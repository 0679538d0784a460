//! Scheduled jobs of agents: when they are due, where they are kept, and what runs them.
//!
//! A [`Job`] is a prompt with a [`Schedule`] and the toolsets of the agent that works on it. A
//! [`JobStore`] keeps jobs and the history of their runs in files. A [`Scheduler`] runs them when
//! they are due, through whatever implements [`RunJob`]: a fresh session of an agent.
//!
//! ```
//! use deputize_cron::{Job, JobStore, Schedule};
//! use jiff::{Timestamp, tz::TimeZone};
//!
//! let dir = tempfile::tempdir()?;
//! let store = JobStore::new(dir.path().join("cron"));
//! let now: Timestamp = "2026-11-27T10:00:00Z".parse()?;
//! store.create(&Job {
//!     schedule: Schedule::read("30 2 * * *", now, &TimeZone::UTC)?,
//!     ..Job::parse(
//!         br#"{"name": "nightly", "schedule": "every 1d", "prompt": "Run the tests.",
//!              "toolsets": ["terminal"], "cwd": "/srv/app", "changed_ms": 1795773600000}"#,
//!     )?
//! })?;
//! assert_eq!(store.list()?.jobs[0].name.as_str(), "nightly");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features and stability
//!
//! No features.
//!
//! Stability: settling. A minor version may change it, and the changelog says how to follow.

mod due;
mod due_jobs;
mod job;
mod run_job;
mod run_record;
mod schedule;
mod scheduler;
mod settings;
mod store;

pub use due::{DueAction, RunCause, due_action, next_time, timestamp};
pub use job::{Job, JobError, JobName, JobNameError, MissedPolicy, PROMPT_BYTES};
pub use run_job::{JobOutcome, RunJob};
pub use run_record::{JobHistory, RunRecord, RunStatus};
pub use schedule::{Schedule, ScheduleError};
pub use scheduler::{CONCURRENT_RUNS, JobEvent, POLL, RUN_SECONDS, Scheduler};
pub use settings::JobSettings;
pub use store::{DaemonLock, JobListing, JobStore, JobStoreError, MOST_JOBS};
