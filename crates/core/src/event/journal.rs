//! Where records are stored.

use std::path::PathBuf;

use serde_json::value::RawValue;

use super::{Event, Record};
use crate::future::BoxFuture;

/// A record, with its event as [`Journal::encode`] returned it.
#[derive(Debug)]
pub struct EncodedRecord {
    /// The record.
    pub record: Record,
    /// Its event, as JSON.
    pub event: Box<RawValue>,
}

/// Stores records.
pub trait Journal: Send + Sync {
    /// Returns an event as JSON, as it will be stored. Records wait for each other while one is
    /// appended; they do not for this.
    ///
    /// # Errors
    /// If the event has no JSON.
    fn encode(&self, event: &Event) -> Result<Box<RawValue>, JournalError>;

    /// Appends records that follow each other, with one write where it can. When this returns, they
    /// survive the end of this process.
    ///
    /// # Errors
    /// If the records could not be stored. None of them must be acted on then.
    fn append(&self, records: &[EncodedRecord]) -> Result<(), JournalError>;

    /// Encodes the event of a record, and appends the record.
    ///
    /// # Errors
    /// As those of [`Journal::append`].
    fn append_record(&self, record: &Record) -> Result<(), JournalError> {
        let event = self.encode(&record.event)?;
        self.append(&[EncodedRecord { record: record.clone(), event }])
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
