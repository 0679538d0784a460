//! The message in place of replaced messages: the summary, and what the host has on record.

use std::collections::BTreeMap;
use std::path::PathBuf;

use deputize_core::agent::AgentSummary;
use deputize_core::file_state::FileVersion;
use deputize_core::outcome::Receipts;
use deputize_core::process::{ProcessExit, ProcessStart};
use deputize_core::prompt::fill;
use deputize_core::sanitize::{TextSource, for_terminal_line, frame_quote};
use deputize_core::todo::{TodoItem, TodoState};

use crate::agent_context::AgentContext;

const COMPACTED: &str = include_str!("../../prompts/compacted.md");

/// Maximum number of lines of each list; the last ones are shown.
const MOST_LINES: usize = 60;
/// Maximum number of characters of a text in a line.
const LINE_CHARS: usize = 300;
/// Characters of a file's hash.
const HASH_CHARS: usize = 12;

/// What the host has on record of an agent's work.
#[derive(Debug, Clone, Default)]
struct WorkRecord {
    todo: Vec<TodoItem>,
    /// Files of which the agent knows a version.
    files: Vec<(PathBuf, FileVersion)>,
    receipts: Receipts,
    shell: Option<PathBuf>,
    running: Vec<ProcessStart>,
    ended: BTreeMap<String, ProcessExit>,
    children: Vec<AgentSummary>,
}

/// Returns the message in place of so many messages, with the summary that a model wrote of them.
pub(super) fn compacted_message(
    cx: &AgentContext,
    count: usize,
    model: &str,
    summary: &str,
) -> String {
    message(count, model, summary, &WorkRecord::of(cx))
}

fn message(count: usize, model: &str, summary: &str, record: &WorkRecord) -> String {
    let summary = frame_quote(&TextSource::Summary(model.to_owned()), summary.trim());
    let values = [
        ("count", &*count.to_string()),
        ("summary", summary.as_str()),
        ("notes", &record.render()),
    ];
    fill(COMPACTED, &values).unwrap_or_default().trim_end().to_owned()
}

impl WorkRecord {
    fn of(cx: &AgentContext) -> Self {
        let id = cx.view.id();
        let state = cx.state.read();
        let is_child = |agent: &AgentSummary| agent.id.ancestors().next().as_ref() == Some(id);
        Self {
            todo: state.todo().unwrap_or_default().to_vec(),
            files: cx.view.session.files.read_by(id),
            receipts: state.receipts().clone(),
            shell: state.shell().map(ToOwned::to_owned),
            running: state.running_processes(),
            ended: state.ended_processes().clone(),
            children: {
                drop(state);
                cx.shared.registry.descendants(id).into_iter().filter(is_child).collect()
            },
        }
    }

    fn render(&self) -> String {
        let lists = [
            ("Todo list", self.todo_lines()),
            ("Files, with the hash of the version that you know", self.file_lines()),
            ("Removed files", self.removed_lines()),
            ("Commands that ran, in order", self.command_lines()),
            ("Background commands", self.process_lines()),
            ("Children", self.child_lines()),
            (
                "Directory of the shell",
                self.shell.iter().map(|path| line(&path.to_string_lossy())).collect(),
            ),
        ];
        let lists: Vec<String> = lists
            .into_iter()
            .filter(|(_, lines)| !lines.is_empty())
            .map(|(title, lines)| list(title, &lines))
            .collect();
        if lists.is_empty() {
            "Nothing: no file, command, process or child.".to_owned()
        } else {
            lists.join("\n\n")
        }
    }

    fn todo_lines(&self) -> Vec<String> {
        let item = |item: &TodoItem| {
            let state = match item.state {
                TodoState::Pending => "pending",
                TodoState::InProgress => "in progress",
                TodoState::Done => "done",
            };
            format!("[{state}] {}", line(&item.text))
        };
        self.todo.iter().map(item).collect()
    }

    fn file_lines(&self) -> Vec<String> {
        let mut files: BTreeMap<_, _> =
            self.files.iter().map(|(path, version)| (path, (version, "read"))).collect();
        for (path, version) in &self.receipts.files_written {
            let known = files.entry(path).or_insert((version, "written"));
            known.1 = if known.0 == version { "written" } else { "written, and changed since" };
        }
        let show = |(path, (version, how)): (&PathBuf, (&FileVersion, &str))| {
            let hash: String = version.sha256.chars().take(HASH_CHARS).collect();
            format!("{} ({hash}, {} bytes): {how}", line(&path.to_string_lossy()), version.bytes)
        };
        files.into_iter().map(show).collect()
    }

    fn removed_lines(&self) -> Vec<String> {
        self.receipts.files_removed.iter().map(|path| line(&path.to_string_lossy())).collect()
    }

    fn command_lines(&self) -> Vec<String> {
        let show = |(at, (command, code)): (usize, &(String, Option<i32>))| {
            let end = match code {
                Some(code) => format!("exit code {code}"),
                None if self.receipts.unknown.contains(&at) => "outcome unknown".to_owned(),
                None => "ended by a signal".to_owned(),
            };
            format!("{}: {end}", line(command))
        };
        self.receipts.commands.iter().enumerate().map(show).collect()
    }

    fn process_lines(&self) -> Vec<String> {
        let ended = self.ended.iter().map(|(id, exit)| format!("{id}: {exit}"));
        let running =
            self.running.iter().map(|it| format!("{}: runs: {}", it.process, line(&it.command)));
        ended.chain(running).collect()
    }

    fn child_lines(&self) -> Vec<String> {
        let show = |child: &AgentSummary| {
            format!("{} ({}): {}", child.id, child.doing.as_str(), line(&child.goal))
        };
        self.children.iter().map(show).collect()
    }
}

fn line(text: &str) -> String {
    for_terminal_line(text, LINE_CHARS)
}

fn list(title: &str, lines: &[String]) -> String {
    let skipped = lines.len().saturating_sub(MOST_LINES);
    let more =
        if skipped > 0 { format!(" ({skipped} earlier ones are left out)") } else { String::new() };
    let mut out = format!("{title}{more}:");
    for line in lines.iter().skip(skipped) {
        out.push_str("\n- ");
        out.push_str(line);
    }
    out
}

#[cfg(test)]
mod tests {
    use deputize_core::agent::AgentActivity;
    use deputize_core::{AgentId, CallId, SessionId, Status};

    use super::*;

    #[test]
    fn what_is_on_record_stands_in_the_message() {
        let version = FileVersion::of(b"new");
        let old = FileVersion::of(b"old");
        let call = CallId::new(2, 0);
        let root = AgentId::root(&SessionId::literal("s"));
        let child = |task: u32, doing, goal: &str| AgentSummary {
            id: root.child(call, task),
            goal: goal.to_owned(),
            doing,
            iteration: 1,
            current_tool: None,
            idle_ms: 0,
        };
        let mut record = WorkRecord {
            todo: vec![
                TodoItem { text: "Read\nall.".into(), state: TodoState::Done },
                TodoItem { text: "Write.".into(), state: TodoState::InProgress },
            ],
            files: vec![
                ("/w/a".into(), old.clone()),
                ("/w/b".into(), version.clone()),
                ("/w/c".into(), old),
            ],
            shell: Some("/w/sub".into()),
            running: vec![ProcessStart {
                process: "p2".into(),
                call,
                command: "serve".into(),
                notify: false,
                terminal: false,
                output: None,
            }],
            ended: BTreeMap::from([("p1".into(), ProcessExit::Code { code: 3 })]),
            children: vec![
                child(0, AgentActivity::Ended(Status::Completed), "Find."),
                child(1, AgentActivity::Running, "Try."),
            ],
            ..WorkRecord::default()
        };
        record.receipts.files_written =
            BTreeMap::from([("/w/b".into(), version.clone()), ("/w/c".into(), version)]);
        record.receipts.files_removed.insert("/w/d".into());
        record.receipts.commands =
            vec![("make".into(), Some(0)), ("a".into(), None), ("b".into(), None)];
        record.receipts.unknown.insert(2);
        insta::assert_snapshot!(message(7, "t/m", "## Task\nCount.\n", &record));
        insta::assert_snapshot!(message(1, "t/m", "Nothing.", &WorkRecord::default()));
    }

    #[test]
    fn of_a_long_list_the_last_lines_are_shown() {
        let mut record = WorkRecord::default();
        record.receipts.commands = (0..100).map(|n| (format!("c{n}"), Some(0))).collect();
        let text = record.render();
        assert!(
            text.starts_with(
                "Commands that ran, in order (40 earlier ones are left out):\n- c40: "
            ),
            "{text}"
        );
        assert!(text.ends_with("- c99: exit code 0"), "{text}");
    }
}
