//! Statements for databases.

use crate::findings::Findings;
use crate::invocation::{Input, Invocation};
use crate::rule::DATABASE;

const CLIENTS: [&str; 18] = [
    "psql",
    "mysql",
    "mariadb",
    "sqlite3",
    "sqlite",
    "sqlcmd",
    "sqlplus",
    "clickhouse-client",
    "clickhouse",
    "duckdb",
    "cqlsh",
    "redis-cli",
    "valkey-cli",
    "mongo",
    "mongosh",
    "pgcli",
    "mycli",
    "usql",
];
/// Beginnings of statements, or commands of a store.
const ALWAYS: [&str; 20] = [
    "drop table",
    "drop database",
    "drop schema",
    "drop user",
    "drop index",
    "drop view",
    "drop role",
    "drop column",
    "drop keyspace",
    "truncate",
    "flushall",
    "flushdb",
    "dropdatabase",
    ".drop(",
    "deletemany({})",
    "remove({})",
    "shutdown",
    "config set",
    "grant all",
    "alter user",
];

pub(super) fn judge(invocation: &Invocation<'_>, findings: &mut Findings) {
    if !CLIENTS.contains(&invocation.program) {
        return;
    }
    let input = match invocation.input {
        Input::Text(text) => text,
        _ => "",
    };
    let arguments = invocation.arguments.iter().map(String::as_str);
    for text in arguments.chain([input]) {
        judge_statements(invocation.program, text, findings);
    }
    if invocation.program.contains("-cli") {
        let joined = invocation.operands().join(" ");
        judge_statements(invocation.program, &joined, findings);
        let deletes = invocation
            .operands()
            .iter()
            .any(|it| it.eq_ignore_ascii_case("del") || it.eq_ignore_ascii_case("eval"));
        if deletes {
            findings.dangerous(&DATABASE);
        }
    }
}

fn judge_statements(program: &str, text: &str, findings: &mut Findings) {
    let words: Vec<_> = text.split_whitespace().map(str::to_lowercase).collect();
    let text = words.join(" ");
    if ALWAYS.iter().any(|it| text.contains(it)) {
        findings.dangerous(&DATABASE);
    }
    for statement in text.split(';') {
        let statement = statement.trim();
        let everything = (statement.contains("delete from") || statement.starts_with("update "))
            && !statement.contains(" where ");
        if everything || statement.starts_with("alter table") && statement.contains(" drop ") {
            findings.dangerous(&DATABASE);
        }
        let shell = [".shell", ".system", "\\!", "!"].iter().any(|it| statement.starts_with(it));
        let copies = statement.contains("to program")
            || statement.contains("from program")
            || statement.contains("load_extension");
        if program != "redis-cli" && (shell || copies) {
            findings.dangerous(&crate::rule::INLINE_CODE);
            let command = statement.trim_start_matches(".shell").trim_start_matches(".system");
            findings.suspects(command.trim_start_matches(['\\', '!', ' ']));
        }
    }
}
