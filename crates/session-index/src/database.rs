//! The database of an index, which only this process has open.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

/// The version of the tables and of what is put into them. Any other is thrown away.
const VERSION: i64 = 4;
/// The name of the file in the folder of the index.
const FILE: &str = "index.sqlite";
/// What SQLite puts beside a database, by the ending of its name.
const ENDINGS: [&str; 4] = ["", "-journal", "-shm", "-wal"];

/// `session` says how far each session file was read, `entry` where a text is, and `body` has the
/// text, or `result` if a tool returned it. What is in `state` is enough to go on reading. `modified` is NULL if a later change of the file
/// could have the same time.
const TABLES: &str = "
    CREATE TABLE session(
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        size INTEGER NOT NULL,
        modified INTEGER,
        position TEXT,
        state TEXT NOT NULL,
        fault TEXT
    );
    CREATE TABLE entry(
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        at INTEGER NOT NULL,
        agent TEXT NOT NULL,
        kind TEXT NOT NULL
    );
    CREATE UNIQUE INDEX entry_place ON entry(session, seq);
    CREATE VIRTUAL TABLE body USING fts5(text, tokenize = 'unicode61 remove_diacritics 2');
    CREATE VIRTUAL TABLE result USING fts5(text, tokenize = 'unicode61 remove_diacritics 2');
";

/// The database of an index. Whoever has it has the [`IndexLock`](crate::index_lock::IndexLock) too.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) connection: Connection,
}

/// Why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DatabaseError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl DatabaseError {
    /// Returns whether the database is broken, so that another one can take its place.
    pub(crate) fn is_damage(&self) -> bool {
        let Self::Sqlite(error) = self else { return false };
        match error {
            rusqlite::Error::SqliteFailure(failure, _) => matches!(
                failure.code,
                rusqlite::ErrorCode::DatabaseCorrupt
                    | rusqlite::ErrorCode::NotADatabase
                    // The tables are other ones.
                    | rusqlite::ErrorCode::Unknown
                    | rusqlite::ErrorCode::ConstraintViolation
                    | rusqlite::ErrorCode::TypeMismatch
            ),
            // A column has something else in it.
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::SqlInputError { .. } => true,
            _ => false,
        }
    }

    /// Returns whether there is no room on its disk.
    pub(crate) fn is_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        match self {
            Self::Sqlite(error) => error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull),
            Self::Io(error) => matches!(error.kind(), StorageFull | QuotaExceeded),
        }
    }
}

impl Database {
    /// Opens the database in a folder. One of another version is replaced.
    pub(crate) fn open(folder: &Path) -> Result<Self, DatabaseError> {
        let path = folder.join(FILE);
        let database = Self::connect(&path)?;
        match database.version()? {
            VERSION => return Ok(database),
            0 if database.is_empty()? => {}
            _ => {
                drop(database);
                return Self::create(folder);
            }
        }
        database.make_tables()?;
        Ok(database)
    }

    /// Makes an empty database in place of the one that is there.
    pub(crate) fn create(folder: &Path) -> Result<Self, DatabaseError> {
        let path = folder.join(FILE);
        for ending in ENDINGS {
            let mut name = path.clone().into_os_string();
            name.push(ending);
            match fs::remove_file(PathBuf::from(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        let database = Self::connect(&path)?;
        database.make_tables()?;
        Ok(database)
    }

    fn connect(path: &Path) -> Result<Self, DatabaseError> {
        // For this user alone; SQLite gives the files beside it the same rights.
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        // Its bytes may be anybody's.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        // The end of the machine may undo the last changes, and breaks nothing.
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        Ok(Self { connection })
    }

    fn version(&self) -> rusqlite::Result<i64> {
        self.connection.pragma_query_value(None, "user_version", |row| row.get(0))
    }

    /// Whether nothing was made in it yet.
    fn is_empty(&self) -> rusqlite::Result<bool> {
        self.connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map(|tables: i64| tables == 0)
    }

    fn make_tables(&self) -> rusqlite::Result<()> {
        self.connection
            .execute_batch(&format!("BEGIN; {TABLES} PRAGMA user_version = {VERSION}; COMMIT;"))
    }
}
