//! Tools describe themselves: code that is about any tool matches no tool's name.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use deputize_core::Catalog;

/// How the names of servers' tools and toolsets begin. A source may make or match such names only by
/// the functions of `core`.
const SERVER_PREFIXES: [&str; 2] = ["mcp-", "mcp__"];

/// Crates that may name tools: those that have them, and the model by rule, which calls tools by
/// their names as any model does.
const MAY_NAME: [&str; 7] = [
    "crates/tools",
    "crates/web",
    "crates/browser",
    "crates/session-index",
    "crates/offline",
    "crates/testkit",
    "crates/macros",
];

/// The places left that name a tool, the prefix of servers' tools, or a usual argument, with the
/// reason. The list must not grow.
const LEFT: [(&str, &[&str]); 14] = [
    // The kind of a source.
    ("crates/core/src/source.rs", &["memory"]),
    // Names of tools are made here.
    ("crates/delegate/src/names.rs", &["delegate_control", "delegate_task"]),
    // Words that stand for nothing in a goal.
    ("crates/delegate/src/placeholder.rs", &["todo"]),
    ("crates/core/src/server_names.rs", &["mcp-", "mcp__"]),
    // The head of a request.
    ("crates/mcp/src/http_request.rs", &["mcp-"]),
    // Rights are named, not described: a child that is another program must be due these tools.
    ("crates/acp/src/agents.rs", &["terminal", "write_file"]),
    // A toolset and a section of the configuration that have the name of a tool.
    ("crates/config/src/rules.rs", &["terminal"]),
    ("crates/config/src/toolsets.rs", &["session_search"]),
    // Its own tool, in texts about it.
    ("crates/delegate/src/describe.rs", &["delegate_task", "terminal"]),
    // Texts of the program for people.
    ("crates/cli/src/compose/linked_tools.rs", &["delegate_task"]),
    ("crates/cli/src/later.rs", &["delegate_task"]),
    // A program's own memory, which needs no tool.
    ("crates/agent/src/base_prompt.rs", &["memory"]),
    ("crates/cli/src/extensions.rs", &["memory"]),
    ("crates/runtime/src/session.rs", &["memory"]),
];

/// Returns the source files of a folder, except for tests.
pub(crate) fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_name().unwrap().to_str().unwrap();
        if file.is_dir() {
            if !["tests", "target", "examples", "benches"].contains(&name) {
                sources(&file, found);
            }
        } else if name.ends_with(".rs") && !["tests.rs", "fixture.rs"].contains(&name) {
            found.push(file);
        }
    }
}

/// Returns a source without comments and the tests at its end.
pub(crate) fn code(source: &str) -> String {
    let code = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    code.lines().filter(is_code).map(|line| format!("{line}\n")).collect()
}

/// Returns what a source names of these words.
fn named<'w>(code: &str, words: &'w BTreeSet<String>) -> Vec<&'w str> {
    // As a text of its own, or in a text for somebody.
    let is_named = |word: &&String| {
        ['"', '`'].iter().any(|mark| code.contains(&format!("{mark}{word}{mark}")))
    };
    let named: Vec<&str> = words.iter().filter(is_named).map(String::as_str).collect();
    // Arguments are read by their roles.
    for argument in ["command", "path", "pattern", "goal"] {
        let read = [".get(", ".remove(", "text("].map(|call| format!("{call}\"{argument}\")"));
        let is_read = read.iter().any(|read| code.contains(read));
        assert!(!is_read || !is_about_calls(code), "reads an argument `{argument}`:\n{code}");
    }
    named
}

/// Returns the prefixes of servers' names that a source makes or matches names with.
fn server_prefixes(code: &str) -> Vec<&'static str> {
    // Features are named like this too.
    let code = code.replace("feature = \"mcp-", "");
    let is_used = |prefix: &&str| {
        code.contains(&format!("\"{prefix}")) || code.contains(&format!("{prefix}{{"))
    };
    SERVER_PREFIXES.into_iter().filter(is_used).collect()
}

/// Whether a source handles calls of any tool.
fn is_about_calls(code: &str) -> bool {
    code.contains("ToolSpec") && code.contains("arguments")
}

#[test]
fn no_code_outside_of_tools_matches_a_tools_name() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut words: BTreeSet<String> = Catalog::linked(&[deputize_tools::LINK])
        .unwrap()
        .iter()
        .map(|entry| entry.name().to_string())
        .collect();
    words.extend(
        [deputize_delegate::DELEGATE_TASK, deputize_delegate::DELEGATE_CONTROL]
            .map(|it| it.to_string()),
    );
    let mut files = Vec::new();
    for folder in ["crates", "plugins/sdk", "plugins/host"] {
        sources(&root.join(folder), &mut files);
    }
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    for file in files {
        let place = file.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        let code = code(&fs::read_to_string(&file).unwrap());
        let may_name = MAY_NAME.iter().any(|may| place.starts_with(may));
        let mut named = if may_name { Vec::new() } else { named(&code, &words) };
        named.extend(server_prefixes(&code));
        if !named.is_empty() {
            found.push((place, named));
        }
    }
    found.sort();
    let mut left: Vec<(String, Vec<&str>)> =
        LEFT.iter().map(|(place, names)| ((*place).to_owned(), names.to_vec())).collect();
    left.sort();
    assert_eq!(found, left);
}
