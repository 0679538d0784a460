//! Where records are stored.

use std::path::PathBuf;

use serde_json::value::RawValue;

use super::{Event, Record};
use crate::future::BoxFuture;

/// Stores records.
pub trait Journal: Send + Sync {
    /// Returns an event as JSON, as it will be stored. Records wait for each other while one is
    /// appended; they do not for this.
    ///
    /// # Errors
    /// If the event has no JSON.
    fn encode(&self, event: &Event) -> Result<Box<RawValue>, JournalError>;

    /// Appends a record, with its event as [`Journal::encode`] returned it. When this returns, the
    /// record survives the end of this process.
    ///
    /// # Errors
    /// If the record could not be stored. It must not be acted on then.
    fn append(&self, record: &Record, event: &RawValue) -> Result<(), JournalError>;

    /// Encodes the event of a record, and appends the record.
    ///
    /// # Errors
    /// As those of [`Journal::append`].
    fn append_record(&self, record: &Record) -> Result<(), JournalError> {
        self.append(record, &self.encode(&record.event)?)
    }

    /// Waits until all records up to this one survive a crash of the machine.
    fn durable<'a>(&'a self, seq: u64) -> BoxFuture<'a, Result<(), JournalError>>;
}

/// Returns a hint for an error about a full disk.
fn room(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    match error.kind() {
        StorageFull | QuotaExceeded => " (make room on its disk)",
        _ => "",
    }
}

/// A record could not be stored.
#[derive(Debug, thiserror::Error)]
#[error("cannot write session file `{}`{}", path.display(), room(source))]
pub struct JournalError {
    /// The session file.
    pub path: PathBuf,
    /// Underlying error.
    #[source]
    pub source: std::io::Error,
}
