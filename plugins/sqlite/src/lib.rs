//! Asks SQLite databases: their tables, and queries that change nothing.
//!
//! Linked, `Cli::new().tools(deputize_plugin_sqlite::LINK)`; loaded, the library that `cargo build`
//! makes of this crate.

use std::path::{Path, PathBuf};

use deputize_core::{
    Cancel, Example, ToolCallResult, ToolCx, ToolError, ToolOutput, ToolSpec, TypedTool, spec_of,
};
use deputize_plugin::readable;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags};

deputize_core::tool_crate!();
deputize_plugin::export_plugin!();

/// Rows of one answer, when the call does not say.
const ROWS: usize = 100;
/// The most rows of one answer.
const MOST_ROWS: usize = 1000;
/// The most characters of one value.
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
    ask: impl FnOnce(&Connection) -> Result<ToolOutput, Wrong> + Send + 'static,
) -> ToolCallResult {
    let (path, cancel) = (readable(cx, database)?, cx.cancel.clone());
    let work = move || {
        let told = cancel.clone();
        let answered = open(&path, cancel).and_then(|database| ask(&database));
        answered.map_err(|Wrong(error)| match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) if told.is_cancelled() => {
                ToolError::Cancelled(Box::default())
            }
            _ => ToolError::refused(format!("`{}`: {error}", path.display())),
        })
    };
    tokio::task::spawn_blocking(work).await.map_err(ToolError::failed)?
}

/// What SQLite says is wrong: the model wrote the query, or named the file.
struct Wrong(rusqlite::Error);

impl From<rusqlite::Error> for Wrong {
    fn from(error: rusqlite::Error) -> Self {
        Self(error)
    }
}

fn open(path: &Path, cancel: Cancel) -> Result<Connection, Wrong> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut database = Connection::open_with_flags(path, flags)?;
    // Another file could be one that the agent may not read.
    database.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    database.progress_handler(STEPS, Some(move || cancel.is_cancelled()))?;
    Ok(database)
}

fn query(database: &Connection, sql: &str, most: usize) -> Result<ToolOutput, Wrong> {
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

fn schema(database: &Connection) -> Result<ToolOutput, Wrong> {
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
    use deputize_testkit::Bench;
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

    async fn told(dir: &Path, tool: &str, arguments: Value) -> String {
        match Bench::new(dir).call(tool, arguments).await {
            Ok(ToolOutput { content, notes, .. }) => format!("{content}{}", notes.join("\n")),
            Err(error) => error.to_string(),
        }
    }

    async fn rows(dir: &Path, sql: &str) -> String {
        told(dir, "sqlite_query", json!({"database": "books.db", "sql": sql, "limit": 2})).await
    }

    #[tokio::test]
    async fn rows_come_as_lines_and_the_schema_as_sql() {
        let dir = library();
        assert_eq!(
            rows(dir.path(), "SELECT * FROM books ORDER BY year DESC").await,
            "title\tyear\tprice\tcover\nEmma\t1815\t9.5\t(2 bytes)\nA\\tB\\nC\tNULL\t1\tNULL"
        );
        let schema = told(dir.path(), "sqlite_schema", json!({"database": "books.db"})).await;
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
            let refused = told(dir.path(), "sqlite_schema", json!({"database": path})).await;
            assert!(refused.contains(word), "{path}: {refused}");
        }
    }

    #[tokio::test]
    async fn a_query_without_an_end_is_cancelled() {
        let dir = library();
        let bench = Bench::new(dir.path());
        let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
                   SELECT count(*) FROM n";
        let query = bench.call("sqlite_query", json!({"database": "books.db", "sql": sql}));
        bench.cancel().cancel(CancelReason::TimeLimit);
        assert!(matches!(query.await, Err(ToolError::Cancelled(_))));
    }
}
