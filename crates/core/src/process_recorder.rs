//! Records the background commands of an agent, and delivers their ends to it.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::event::JournalError;
use crate::process::{ProcessExit, ProcessStart};
use crate::resource::Resource;
use crate::source::Source;

/// The end of a background command, for its recorder.
#[derive(Debug, Clone)]
pub struct ProcessOutcome {
    /// Its start, as it was recorded.
    pub start: ProcessStart,
    /// The source of its output.
    pub source: Source,
    /// How it ended.
    pub exit: ProcessExit,
    /// Duration in milliseconds.
    pub ms: u64,
    /// Bytes that it wrote.
    pub output_bytes: u64,
    /// The last lines of its output for a message to its agent; `None` if its agent gets none.
    pub message: Option<String>,
}

/// Records the background commands of one agent, and delivers their ends to it.
pub trait ProcessRecorder: Send + Sync {
    /// Returns an ID that no command of the agent had before.
    fn next_id(&self) -> String;

    /// Records the start of a command.
    ///
    /// # Errors
    /// When the journal takes no records. The command must not go on then.
    fn record_start(&self, start: &ProcessStart) -> Result<(), JournalError>;

    /// Records the end of a command, and queues the message for the agent.
    ///
    /// # Errors
    /// When the journal takes no records.
    fn record_end(&self, outcome: ProcessOutcome) -> Result<(), JournalError>;

    /// Returns how a command of an earlier run of the program ended; `None` for any other.
    fn earlier_end(&self, process: &str) -> Option<ProcessExit>;
}

/// The recorder of an agent, stored with it. By default commands are only numbered.
pub struct ProcessRecords(Box<dyn ProcessRecorder>);

impl ProcessRecords {
    /// Stores a recorder.
    #[must_use]
    pub fn new(recorder: impl ProcessRecorder + 'static) -> Self {
        Self(Box::new(recorder))
    }

    /// Returns the recorder.
    #[must_use]
    pub fn recorder(&self) -> &dyn ProcessRecorder {
        &*self.0
    }
}

impl Default for ProcessRecords {
    fn default() -> Self {
        Self::new(ProcessCounter::default())
    }
}

impl fmt::Debug for ProcessRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProcessRecords(..)")
    }
}

impl Resource for ProcessRecords {}

/// Numbers commands and records nothing.
#[derive(Debug, Default)]
struct ProcessCounter(AtomicU32);

impl ProcessRecorder for ProcessCounter {
    fn next_id(&self) -> String {
        process_id(self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn record_start(&self, _: &ProcessStart) -> Result<(), JournalError> {
        Ok(())
    }

    fn record_end(&self, _: ProcessOutcome) -> Result<(), JournalError> {
        Ok(())
    }

    fn earlier_end(&self, _: &str) -> Option<ProcessExit> {
        None
    }
}

/// Returns the ID of a background command that so many were started before.
#[must_use]
pub fn process_id(before: u32) -> String {
    format!("p{}", before.saturating_add(1))
}
