//! Asks SQLite databases: their tables, and queries that change nothing.
//!
//! Linked, `Cli::new().tools(deputize_plugin_sqlite::LINK)`; loaded, the library that `cargo build`
//! makes of this crate.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use deputize_core::tool::spec_of;
use deputize_core::{
    Cancel, Example, ToolCallResult, ToolCx, ToolError, ToolKind, ToolOutput, ToolSpec, TypedTool,
};
use deputize_plugin::readable;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags};

deputize_core::tool_crate!();
deputize_plugin::export_plugin!();

/// Rows of one answer, when the call does not say.
const ROWS: usize = 100;
/// Limit on the rows of one answer.
const MOST_ROWS: usize = 1000;
/// Limit on one value, in characters.
const VALUE_CHARS: usize = 500;
/// How many steps of SQLite's machine pass between two looks at the cancel.
const STEPS: i32 = 10_000;

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct QueryArgs {
    /// The database file.
    database: PathBuf,
    /// One SELECT statement, or another one that changes nothing.
    sql: String,
    /// How many rows at most; 100 if not given, 1000 at most.
    limit: Option<usize>,
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct SchemaArgs {
    /// The database file.
    database: PathBuf,
}

struct Query;

impl TypedTool for Query {
    type Args = QueryArgs;

    fn spec() -> ToolSpec {
        let about = "Run one SQL query that changes nothing on a SQLite database file. The rows \
                     come as lines, their values separated by tabs, the names of the columns \
                     first. Ask sqlite_schema for the tables.";
        ToolSpec {
            examples: vec![Example {
                title: "The rows of a table",
                arguments: serde_json::json!({
                    "database": "sample.db",
                    "sql": "SELECT title, year FROM books ORDER BY year",
                }),
            }],
            ..ToolSpec::read_only(spec_of::<QueryArgs>("sqlite_query", about))
                .about(ToolKind::Search, "sql")
        }
    }

    async fn run(&self, args: QueryArgs, cx: &ToolCx) -> ToolCallResult {
        let rows = args.limit.unwrap_or(ROWS).clamp(1, MOST_ROWS);
        asked(cx, &args.database, move |database| query(database, &args.sql, rows)).await
    }
}

struct Schema;

impl TypedTool for Schema {
    type Args = SchemaArgs;

    fn spec() -> ToolSpec {
        let about = "Show the tables, views and indexes of a SQLite database file, as the SQL that \
                     makes them.";
        ToolSpec {
            examples: vec![Example {
                title: "The tables of a database",
                arguments: serde_json::json!({"database": "sample.db"}),
            }],
            ..ToolSpec::read_only(spec_of::<SchemaArgs>("sqlite_schema", about))
                .about(ToolKind::Read, "database")
        }
    }

    async fn run(&self, args: SchemaArgs, cx: &ToolCx) -> ToolCallResult {
        asked(cx, &args.database, schema).await
    }
}

deputize_core::register_tool!("sqlite", Query);
deputize_core::register_tool!("sqlite", Schema);

/// Opens a database and asks it something, away from the threads that others share.
async fn asked(
    cx: &ToolCx,
    database: &Path,
    ask: impl FnOnce(&Connection) -> Result<ToolOutput, QueryError> + Send + 'static,
) -> ToolCallResult {
    let path = readable(cx, database)?;
    let cancel = cx.cancel.clone();
    let work = move || {
        let cancelled = cancel.clone();
        let answered = open(&path, cancel).and_then(|database| ask(&database));
        answered.map_err(|error| error.into_tool_error(&path, cancelled.is_cancelled()))
    };
    tokio::task::spawn_blocking(work).await.map_err(ToolError::failed)?
}

/// A fault in the model's query or file name.
enum QueryError {
    /// SQLite says so.
    Sqlite(rusqlite::Error),
    /// Its last changes are in a log, which only a reader that writes beside it can join.
    Unjoined(PathBuf),
}

impl From<rusqlite::Error> for QueryError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl QueryError {
    fn into_tool_error(self, path: &Path, cancelled: bool) -> ToolError {
        let path = path.display();
        match self {
            Self::Sqlite(error)
                if cancelled
                    && error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) =>
            {
                ToolError::Cancelled(Box::default())
            }
            Self::Sqlite(error) => ToolError::refused(format!("`{path}`: {error}")),
            Self::Unjoined(log) => ToolError::refused(format!(
                "`{path}`: its last changes are in `{}`, and reading them would leave a file beside \
                 it. Have a program that may change it bring them in (in SQL: PRAGMA \
                 wal_checkpoint(TRUNCATE)), then ask again",
                log.display()
            )),
        }
    }
}

/// How a database is opened so that nothing is left beside it. One that keeps a log of changes (WAL)
/// would be given two files by every reader.
fn address(path: &Path) -> Result<String, QueryError> {
    let beside = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let log = beside("-wal");
    let shared = beside("-shm");
    let how = match (keeps_a_log(path), log.exists(), shared.exists()) {
        (false, ..) => "mode=ro",
        // Nobody writes: a writer has a log.
        (true, false, _) => "mode=ro&immutable=1",
        (true, true, true) => "mode=ro&readonly_shm=1",
        (true, true, false) => return Err(QueryError::Unjoined(log)),
    };
    let mut address = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(byte) {
            address.push(char::from(*byte));
        } else {
            // Writing into a text cannot fail.
            let _written = write!(address, "%{byte:02X}");
        }
    }
    Ok(format!("{address}?{how}"))
}

/// Whether the head of a database says so.
fn keeps_a_log(path: &Path) -> bool {
    let mut head = [0; 20];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head.starts_with(b"SQLite format 3\0") && head.ends_with(&[2, 2])
}

fn open(path: &Path, cancel: Cancel) -> Result<Connection, QueryError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let mut database = Connection::open_with_flags(address(path)?, flags)?;
    // Another file could be one that the agent may not read.
    database.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    database.progress_handler(STEPS, Some(move || cancel.is_cancelled()))?;
    Ok(database)
}

fn query(database: &Connection, sql: &str, most: usize) -> Result<ToolOutput, QueryError> {
    let mut statement = database.prepare(sql)?;
    let columns = statement.column_count();
    let names: Vec<&str> = statement.column_names().collect();
    let mut lines = vec![names.join("\t")];
    let mut rows = statement.query([])?;
    let mut more = false;
    while let Some(row) = rows.next()? {
        if lines.len() > most {
            more = true;
            break;
        }
        let values = (0..columns).map(|column| Ok(shown(row.get_ref(column)?)));
        lines.push(values.collect::<Result<Vec<_>, rusqlite::Error>>()?.join("\t"));
    }
    let output = ToolOutput::text(lines.join("\n"));
    Ok(if more {
        output.note(format!("there are more rows than the {most} shown; raise `limit` or narrow"))
    } else {
        output
    })
}

/// A value on one line.
fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(text) => {
            let text = String::from_utf8_lossy(text);
            let short: String = text.chars().take(VALUE_CHARS).collect();
            let more = text.chars().count() - short.chars().count();
            let short = short.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n");
            if more > 0 { format!("{short}… ({more} more characters)") } else { short }
        }
        ValueRef::Blob(bytes) => format!("({} bytes)", bytes.len()),
    }
}

fn schema(database: &Connection) -> Result<ToolOutput, QueryError> {
    let sql = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type DESC, name";
    let mut statement = database.prepare(sql)?;
    let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
    let all: Vec<String> = rows.collect::<Result<_, _>>()?;
    if all.is_empty() {
        return Ok(ToolOutput::text("the database has no tables"));
    }
    Ok(ToolOutput::text(all.join(";\n") + ";"))
}

#[cfg(test)]
mod tests {
    use deputize_core::CancelReason;
    use deputize_testkit::ToolHarness;
    use serde_json::{Value, json};

    use super::*;

    fn library() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let database = Connection::open(dir.path().join("books.db")).unwrap();
        database
            .execute_batch(
                "CREATE TABLE books (title TEXT, year INTEGER, price REAL, cover BLOB);
                 CREATE INDEX by_year ON books (year);
                 INSERT INTO books VALUES ('Emma', 1815, 9.5, x'0102'), ('A\tB\nC', NULL, 1, NULL);",
            )
            .unwrap();
        dir
    }

    async fn describe(dir: &Path, tool: &str, arguments: Value) -> String {
        match ToolHarness::new(dir).call(tool, arguments).await {
            Ok(ToolOutput { content, notes, .. }) => format!("{content}{}", notes.join("\n")),
            Err(error) => error.to_string(),
        }
    }

    async fn rows(dir: &Path, sql: &str) -> String {
        describe(dir, "sqlite_query", json!({"database": "books.db", "sql": sql, "limit": 2})).await
    }

    #[tokio::test]
    async fn rows_come_as_lines_and_the_schema_as_sql() {
        let dir = library();
        assert_eq!(
            rows(dir.path(), "SELECT * FROM books ORDER BY year DESC").await,
            "title\tyear\tprice\tcover\nEmma\t1815\t9.5\t(2 bytes)\nA\\tB\\nC\tNULL\t1\tNULL"
        );
        let schema = describe(dir.path(), "sqlite_schema", json!({"database": "books.db"})).await;
        assert_eq!(
            schema,
            "CREATE TABLE books (title TEXT, year INTEGER, price REAL, cover BLOB);\n\
             CREATE INDEX by_year ON books (year);"
        );
        let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
        let endless = rows(dir.path(), sql).await;
        assert_eq!(endless, "i\n1\n2there are more rows than the 2 shown; raise `limit` or narrow");
    }

    #[tokio::test]
    async fn nothing_is_changed_and_no_other_file_is_read() {
        let dir = library();
        std::fs::write(dir.path().join("text"), "no database\n".repeat(200)).unwrap();
        for (sql, word) in [
            ("DELETE FROM books", "readonly"),
            ("CREATE TABLE more (a)", "readonly"),
            ("ATTACH 'other.db' AS other", "too many attached databases"),
            ("SELECT * FROM boks", "no such table: boks"),
            ("SELECT 1; SELECT 2", "Multiple statements"),
        ] {
            let refused = rows(dir.path(), sql).await;
            assert!(refused.contains(word), "{sql}: {refused}");
        }
        assert!(!dir.path().join("other.db").exists());
        for (path, word) in [("text", "not a database"), ("none.db", "cannot open `none.db`")] {
            let refused = describe(dir.path(), "sqlite_schema", json!({"database": path})).await;
            assert!(refused.contains(word), "{path}: {refused}");
        }
    }

    /// The names beside a database and what is in them; of the index of a log, whose writer is this
    /// very process here, only that it is there.
    fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
        let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
        let file = |entry: std::fs::DirEntry| {
            let name = entry.file_name().into_string().unwrap();
            let content = std::fs::read(entry.path()).unwrap();
            let content = if name.ends_with("-shm") { Vec::new() } else { content };
            (name, content)
        };
        let mut files: Vec<_> = entries.map(file).collect();
        files.sort();
        files
    }

    #[tokio::test]
    async fn a_database_that_keeps_a_log_is_left_as_it_was_found() {
        let dir = library();
        let name = "100% of b?#.db";
        std::fs::rename(dir.path().join("books.db"), dir.path().join(name)).unwrap();
        let writer = Connection::open(dir.path().join(name)).unwrap();
        let titles = async |dir: &Path| {
            let before = files(dir);
            let sql = "SELECT title FROM books WHERE year > 1800 ORDER BY year";
            let call = json!({"database": name, "sql": sql});
            let actual = describe(dir, "sqlite_query", call).await;
            assert!(files(dir) == before, "{actual}");
            actual
        };
        assert_eq!(titles(dir.path()).await, "title\nEmma");
        let log = "PRAGMA journal_mode = WAL; INSERT INTO books VALUES ('Ivanhoe', 1819, 1, NULL);";
        writer.execute_batch(log).unwrap();
        assert_eq!(files(dir.path()).len(), 3, "the log and its index");
        assert_eq!(titles(dir.path()).await, "title\nEmma\nIvanhoe", "beside its writer");
        // As a copy, or after a crash: the log without its index.
        let copy = tempfile::tempdir().unwrap();
        for ending in ["", "-wal"] {
            let file = format!("{name}{ending}");
            std::fs::copy(dir.path().join(&file), copy.path().join(&file)).unwrap();
        }
        let refused = titles(copy.path()).await;
        assert!(refused.contains("wal_checkpoint(TRUNCATE)"), "{refused}");
        drop(writer);
        assert_eq!(files(dir.path()).len(), 1, "the writer has gone");
        assert_eq!(titles(dir.path()).await, "title\nEmma\nIvanhoe");
    }

    #[tokio::test]
    async fn a_query_without_an_end_is_cancelled() {
        let dir = library();
        let bench = ToolHarness::new(dir.path());
        let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
                   SELECT count(*) FROM n";
        let query = bench.call("sqlite_query", json!({"database": "books.db", "sql": sql}));
        bench.cancel().cancel(CancelReason::TimeLimit);
        assert!(matches!(query.await, Err(ToolError::Cancelled(_))));
    }
}
