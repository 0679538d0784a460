//! What a program may set for the tool that makes jobs.

use std::fmt;
use std::sync::Arc;

use deputize_core::clock::FixedClock;
use deputize_core::sanitize::Secrets;
use deputize_core::{Clock, Resource};
use jiff::tz::TimeZone;

use crate::store::JobStore;

/// The jobs of a program. It puts them into its session's settings; without a store, or without a
/// person who approves, agents make no jobs.
#[derive(Clone)]
pub struct JobSettings {
    /// Where jobs are kept; `None` if agents make none.
    pub store: Option<JobStore>,
    /// Whether a person can be asked. Each job needs a yes of one.
    pub person_available: bool,
    /// Returns the time zone of schedules without one. It is called when a job is made or listed.
    pub local_zone: Arc<dyn Fn() -> TimeZone + Send + Sync>,
    /// Source of the present time.
    pub clock: Arc<dyn Clock>,
    /// Values that no prompt may have in it.
    pub secrets: Secrets,
    /// The host's command that runs the jobs, if it has one.
    pub run_command: String,
}

impl Default for JobSettings {
    fn default() -> Self {
        Self {
            store: None,
            person_available: false,
            local_zone: Arc::new(TimeZone::system),
            clock: Arc::new(FixedClock(0)),
            secrets: Secrets::default(),
            run_command: String::new(),
        }
    }
}

impl Resource for JobSettings {}

impl JobSettings {
    /// Returns the time zone of schedules without one.
    #[must_use]
    pub fn zone(&self) -> TimeZone {
        (self.local_zone)()
    }
}

impl fmt::Debug for JobSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobSettings({:?})", self.store)
    }
}
