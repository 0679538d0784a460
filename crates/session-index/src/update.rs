//! Brings an index up to date with the session files.

use std::io;
use std::time::SystemTime;

use deputize_core::{Cancel, SessionId, describe_error};
use deputize_runtime::{PositionError, ReadError, SessionDir};
use rusqlite::Connection;
use serde_json::value::RawValue;

use crate::database::DatabaseError;
use crate::session_rows::{FileStamp, Progress, SessionRows};

/// Bytes of session files that are read before what was made of them is kept.
const BATCH_BYTES: u64 = 32 * 1024 * 1024;

/// Why an index cannot be brought up to date.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpdateError {
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error(transparent)]
    Sessions(#[from] ReadError),
    #[error("cancelled")]
    Cancelled,
}

impl From<rusqlite::Error> for UpdateError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error.into())
    }
}

/// Brings an index up to date. What was done is kept in parts, also if it is cancelled.
///
/// `disk_time` is a time on the disk of the files before which this began.
pub(crate) fn update(
    connection: &mut Connection,
    sessions: &SessionDir,
    disk_time: Option<SystemTime>,
    cancel: &Cancel,
) -> Result<(), UpdateError> {
    let mut known = FileStamp::stored(connection)?;
    let mut changed = Vec::new();
    for session in sessions.list()? {
        let path = sessions.file(&session);
        let stamp = FileStamp::of_file(&path, disk_time)
            .map_err(|source| ReadError::Open { path: path.clone(), source })?;
        let Some(stamp) = stamp else { continue };
        let before = known.remove(session.as_str());
        if !before.is_some_and(|before| before.is_same(&stamp)) {
            changed.push((session, stamp));
        }
    }
    if !known.is_empty() {
        let transaction = connection.transaction()?;
        let rows = SessionRows::new(&transaction)?;
        known.keys().try_for_each(|name| rows.remove(name))?;
        drop(rows);
        transaction.commit()?;
    }
    let mut changed = changed.into_iter().peekable();
    while changed.peek().is_some() {
        let transaction = connection.transaction()?;
        let mut rows = SessionRows::new(&transaction)?;
        let mut bytes = 0;
        while bytes < BATCH_BYTES && !cancel.is_cancelled() {
            let Some((session, stamp)) = changed.next() else { break };
            SessionUpdate { rows: &mut rows, sessions, session: &session, stamp }.run()?;
            bytes += stamp.size.unsigned_abs();
        }
        drop(rows);
        transaction.commit()?;
        if cancel.is_cancelled() {
            return Err(UpdateError::Cancelled);
        }
    }
    Ok(())
}

/// The update of one session.
struct SessionUpdate<'a, 't> {
    rows: &'a mut SessionRows<'t>,
    sessions: &'a SessionDir,
    session: &'a SessionId,
    stamp: FileStamp,
}

impl SessionUpdate<'_, '_> {
    fn run(mut self) -> rusqlite::Result<()> {
        let Some(before) = self.rows.progress(self.session)? else { return self.read_whole() };
        let id = self.rows.insert_session(self.session)?;
        match self.read(id, before)? {
            Ok(progress) => self.rows.store(id, self.stamp, &progress),
            Err(_) => self.read_whole(),
        }
    }

    /// Reads the session from its beginning.
    fn read_whole(mut self) -> rusqlite::Result<()> {
        self.rows.remove(self.session.as_str())?;
        let id = self.rows.insert_session(self.session)?;
        match self.read(id, Progress::default())? {
            Ok(progress) => self.rows.store(id, self.stamp, &progress),
            Err(PositionError::Read(ReadError::Open { source, .. }))
                if source.kind() == io::ErrorKind::NotFound =>
            {
                self.rows.remove(self.session.as_str())
            }
            Err(error) => {
                let fault = Some(describe_error(&error));
                self.rows.store(id, self.stamp, &Progress { fault, ..Progress::default() })
            }
        }
    }

    /// Reads what is new, and puts its texts into the index.
    fn read(
        &mut self,
        id: i64,
        before: Progress,
    ) -> rusqlite::Result<Result<Progress, PositionError>> {
        let Progress { position, mut fold, .. } = before;
        let mut written = Ok(());
        let mut take = |seq: u64, record: &RawValue| {
            if written.is_ok()
                && let Some(entry) = fold.apply(seq, record)
            {
                written = self.rows.insert_entry(id, &entry);
            }
        };
        let read = self.sessions.read_records(self.session, position, &mut take);
        written?;
        Ok(read.map(|position| Progress { position, fold, fault: None }))
    }
}

#[cfg(test)]
mod tests;
