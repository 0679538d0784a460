//! What tests of servers begin with.

use std::fs;
use std::path::{Path, PathBuf};

use deputize_core::model::Reply;
use deputize_testkit::{MockAnswer, MockServer};
use rustix::fs::{CWD, mkfifoat};
use serde_json::{Value, json};

use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, model};

/// A server that does what its first argument says.
pub(super) const SERVER: &str = env!("CARGO_BIN_EXE_deputize-mcp-faulty");

pub(super) async fn deputize(lab: &Lab, args: &[&str]) -> ProgramEnd {
    RunningProgram::start(lab.deputize(args)).end().await
}

/// The person's configuration.
pub(super) fn config(lab: &Lab) -> String {
    fs::read_to_string(lab.path("home/config.yaml")).unwrap_or_default()
}

/// The files that say what was approved, below the home.
pub(super) fn approval_files(home: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(home.join("mcp")).into_iter().flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|ending| ending == "json")).collect()
}

/// A model that calls `echo` once and repeats the result.
pub(super) async fn caller() -> MockServer {
    model(|asked: &ChatRequest| {
        MockAnswer::reply(&match asked.replies() {
            0 => Reply::calls("mock", [("mcp__w__echo", json!({"text": "hello"}))]),
            _ => Reply::text("mock", asked.results().join("\n")),
        })
    })
    .await
}

pub(crate) fn set(fault: &str) -> String {
    format!("mcp_servers.w={}", json!({"command": SERVER, "args": [fault]}))
}

pub(super) async fn approve(lab: &Lab, set: &str) {
    deputize(lab, &["mcp", "review", "w", "--yes", "--set", set]).await.with_code(0);
}

/// Whether the run's agent was given the server's tool.
pub(super) fn offered(ended: &ProgramEnd) -> bool {
    let tools = ended.events("agent.start")[0]["tools"].clone();
    tools.as_array().unwrap().contains(&json!("mcp__w__echo"))
}

/// Returns entries of servers that say nothing. Each passes a line on to the one before it, through
/// a pipe that has no reader unless that one runs. So the line arrives only if all run at once.
pub(crate) fn silent_chain(lab: &Lab, servers: usize) -> Vec<Value> {
    let folder = lab.path("chain");
    fs::create_dir(&folder).unwrap();
    let entry = |at: usize| {
        if at > 0 {
            mkfifoat(CWD, folder.join(at.to_string()), 0o600.into()).unwrap();
        }
        let waits =
            if at + 1 < servers { format!("read line < {}; ", at + 1) } else { String::new() };
        let script = format!("cd '{}'; {waits}echo > {at}; exec sleep 3600", folder.display());
        json!({"command": "sh", "args": ["-c", script]})
    };
    (0..servers).map(entry).collect()
}

/// Returns whether the line has arrived.
pub(crate) fn chain_was_complete(lab: &Lab) -> bool {
    lab.path("chain").join("0").exists()
}
