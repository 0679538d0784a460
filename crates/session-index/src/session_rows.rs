//! The rows of sessions and their texts in an index.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use deputize_core::SessionId;
use deputize_runtime::RecordPosition;
use rusqlite::{Connection, OptionalExtension as _, Row, Statement, Transaction, params};

use crate::entry::{Entry, EntryKind};
use crate::session_fold::SessionFold;
use crate::words::separated;

/// What tells that a file has not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileStamp {
    pub(crate) size: i64,
    /// Nanoseconds since 1970.
    pub(crate) modified: Option<i64>,
    /// Whether a later change has another time.
    pub(crate) is_settled: bool,
}

impl FileStamp {
    /// Returns the stamp of a file; `None` if there is none. `disk_time` is a time on its disk before
    /// now.
    pub(crate) fn of_file(path: &Path, disk_time: Option<SystemTime>) -> io::Result<Option<Self>> {
        let file = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let modified = file.modified()?;
        let since = modified.duration_since(UNIX_EPOCH).ok();
        Ok(Some(Self {
            size: i64::try_from(file.len()).unwrap_or(i64::MAX),
            modified: since.and_then(|since| i64::try_from(since.as_nanos()).ok()),
            is_settled: disk_time.is_some_and(|now| modified < now),
        }))
    }

    /// Returns whether the file is the same as when this stamp was stored.
    pub(crate) fn is_same(&self, now: &Self) -> bool {
        self.is_settled && (self.size, self.modified) == (now.size, now.modified)
    }

    /// Returns the stamps of the sessions in an index, by name.
    pub(crate) fn stored(connection: &Connection) -> rusqlite::Result<BTreeMap<String, Self>> {
        let mut rows = connection.prepare("SELECT name, size, modified FROM session")?;
        let stamp = |row: &Row<'_>| {
            let modified: Option<i64> = row.get(2)?;
            let is_settled = modified.is_some();
            Ok((row.get(0)?, Self { size: row.get(1)?, modified, is_settled }))
        };
        rows.query_map([], stamp)?.collect()
    }
}

/// How far a session was read.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Behind the last record that was read.
    pub(crate) position: Option<RecordPosition>,
    pub(crate) fold: SessionFold,
    /// Why it cannot be read.
    pub(crate) fault: Option<String>,
}

/// The rows of sessions, to be changed in a transaction.
pub(crate) struct SessionRows<'t> {
    transaction: &'t Transaction<'t>,
    insert_entry: Statement<'t>,
    insert_body: Statement<'t>,
    insert_result: Statement<'t>,
}

impl<'t> SessionRows<'t> {
    pub(crate) fn new(transaction: &'t Transaction<'t>) -> rusqlite::Result<Self> {
        let entry = "INSERT INTO entry(session, seq, at, agent, kind) VALUES(?1, ?2, ?3, ?4, ?5)";
        Ok(Self {
            transaction,
            insert_entry: transaction.prepare(entry)?,
            insert_body: transaction.prepare("INSERT INTO body(rowid, text) VALUES(?1, ?2)")?,
            insert_result: transaction.prepare("INSERT INTO result(rowid, text) VALUES(?1, ?2)")?,
        })
    }

    /// Removes a session with its texts.
    pub(crate) fn remove(&self, name: &str) -> rusqlite::Result<()> {
        let sql = "SELECT id FROM session WHERE name = ?1";
        let id: Option<i64> =
            self.transaction.query_row(sql, [name], |row| row.get(0)).optional()?;
        let Some(id) = id else { return Ok(()) };
        let texts = "DELETE FROM body WHERE rowid IN (SELECT id FROM entry WHERE session = ?1)";
        let results = "DELETE FROM result WHERE rowid IN (SELECT id FROM entry WHERE session = ?1)";
        let entries = "DELETE FROM entry WHERE session = ?1";
        for sql in [texts, results, entries, "DELETE FROM session WHERE id = ?1"] {
            self.transaction.execute(sql, [id])?;
        }
        Ok(())
    }

    /// Returns how far a session was read; `None` if it has to be read from its beginning.
    pub(crate) fn progress(&self, session: &SessionId) -> rusqlite::Result<Option<Progress>> {
        let sql = "SELECT position, state FROM session WHERE name = ?1";
        let row = |row: &Row<'_>| Ok((row.get::<_, Option<String>>(0)?, row.get::<_, String>(1)?));
        let found = self.transaction.query_row(sql, [session.as_str()], row).optional()?;
        Ok(found.and_then(|(position, state)| {
            let position = Some(serde_json::from_str(&position?).ok()?);
            let fold = serde_json::from_str(&state).ok()?;
            Some(Progress { position, fold, fault: None })
        }))
    }

    /// Returns the number of a session, which is new if it is not in the index.
    pub(crate) fn insert_session(&self, session: &SessionId) -> rusqlite::Result<i64> {
        let sql = "INSERT INTO session(name, size, state) VALUES(?1, 0, '')
            ON CONFLICT(name) DO UPDATE SET name = name RETURNING id";
        self.transaction.query_row(sql, [session.as_str()], |row| row.get(0))
    }

    /// Inserts a text of a session.
    pub(crate) fn insert_entry(&mut self, session: i64, entry: &Entry) -> rusqlite::Result<()> {
        let Entry { seq, at, agent, kind, text } = entry;
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let values = params![session, number(*seq), number(*at), agent, kind.as_str()];
        let id = self.insert_entry.insert(values)?;
        let insert = match kind {
            EntryKind::Result => &mut self.insert_result,
            _ => &mut self.insert_body,
        };
        insert.execute(params![id, separated(text)])?;
        Ok(())
    }

    /// Stores how far a session was read.
    pub(crate) fn store(
        &self,
        id: i64,
        stamp: FileStamp,
        progress: &Progress,
    ) -> rusqlite::Result<()> {
        let json = |error: serde_json::Error| rusqlite::Error::ToSqlConversionFailure(error.into());
        let position = progress.position.map(|it| serde_json::to_string(&it)).transpose();
        let state = serde_json::to_string(&progress.fold).map_err(json)?;
        let sql = "UPDATE session SET size = ?2, modified = ?3, position = ?4, state = ?5,
            fault = ?6 WHERE id = ?1";
        let FileStamp { size, modified, is_settled } = stamp;
        let modified = modified.filter(|_| is_settled);
        let values = params![id, size, modified, position.map_err(json)?, state, progress.fault];
        self.transaction.execute(sql, values)?;
        Ok(())
    }
}
