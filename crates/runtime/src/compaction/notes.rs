//! The message in place of replaced messages: the summary, and what the host has on record.

use std::collections::BTreeMap;
use std::path::PathBuf;

use deputize_core::agent::{AgentActivity, AgentSummary};
use deputize_core::file_state::FileVersion;
use deputize_core::message::CallStatus;
use deputize_core::outcome::Receipts;
use deputize_core::process::{ProcessExit, ProcessStart};
use deputize_core::prompt::fill;
use deputize_core::sanitize::{Secrets, for_terminal_line, frame_quote};
use deputize_core::source::Source;
use deputize_core::todo::{TodoItem, TodoState};
use deputize_core::{Effects, ToolSpec};

use crate::agent_context::AgentContext;
use crate::agent_state::{EndedCall, StartedCall};
use crate::call_text::name_and_arguments;

use super::record_list::{LineRank, RecordLine, RecordList};

const COMPACTED: &str = include_str!("../../prompts/compacted.md");

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
    /// Calls that may have had an effect of which nothing else is on record.
    calls: Vec<String>,
    shell: Option<PathBuf>,
    running: Vec<ProcessStart>,
    ended: BTreeMap<String, ProcessExit>,
    children: Vec<AgentSummary>,
}

/// Returns the message in place of so many messages: the summary that a model wrote of them, and
/// so many bytes of what is on record.
pub(super) fn compacted_message(
    cx: &AgentContext,
    count: usize,
    model: &str,
    summary: &str,
    room: u64,
) -> String {
    message(count, model, summary, &WorkRecord::of(cx).render(room))
}

fn message(count: usize, model: &str, summary: &str, notes: &str) -> String {
    let summary = frame_quote(&Source::summary(model), summary.trim());
    let values = [("count", &*count.to_string()), ("summary", summary.as_str()), ("notes", notes)];
    fill(COMPACTED, &values).unwrap_or_default().trim_end().to_owned()
}

impl WorkRecord {
    fn of(cx: &AgentContext) -> Self {
        let id = cx.view.id();
        let state = cx.state.read();
        let is_child = |agent: &AgentSummary| agent.id.ancestors().next().as_ref() == Some(id);
        let call_line = |ended: &EndedCall| {
            let spec = cx.view.tool(&ended.call.tool).map(|entry| entry.tool.spec());
            call_line(spec, ended, &cx.shared.config.secrets)
        };
        Self {
            todo: state.todo().unwrap_or_default().to_vec(),
            files: cx.view.session.files.read_by(id),
            receipts: state.receipts().clone(),
            calls: state.ended_calls().iter().filter_map(call_line).collect(),
            shell: state.shell().map(ToOwned::to_owned),
            running: state.running_processes(),
            ended: state.ended_processes().clone(),
            children: {
                drop(state);
                cx.shared.registry.descendants(id).into_iter().filter(is_child).collect()
            },
        }
    }

    /// Returns what is on record, in so many bytes: of the longest list what is done goes
    /// first, then what is open, and the oldest of it first.
    fn render(&self, room: u64) -> String {
        let mut lists: Vec<RecordList> = self
            .lists()
            .into_iter()
            .filter(|(_, lines)| !lines.is_empty())
            .map(|(title, lines)| RecordList::new(title, lines))
            .collect();
        while lists.iter().map(RecordList::bytes).sum::<usize>() as u64 > room {
            // What is in progress stays as long as anything else does.
            let next = lists.iter_mut().max_by_key(|list| {
                (list.first_rank().map(|rank| rank < LineRank::Current), list.bytes())
            });
            if !next.is_some_and(RecordList::shrink) {
                break;
            }
        }
        if lists.is_empty() {
            return "Nothing: no file, command, process or child.".to_owned();
        }
        lists.iter().map(RecordList::render).collect::<Vec<_>>().join("\n\n")
    }

    fn lists(&self) -> [(&'static str, Vec<RecordLine>); 8] {
        let past = |lines: Vec<String>| -> Vec<RecordLine> {
            lines.into_iter().map(|text| RecordLine { rank: LineRank::Past, text }).collect()
        };
        [
            ("Todo list", self.todo_lines()),
            ("Files, with the hash of the version that you know", past(self.file_lines())),
            ("Removed files", past(self.removed_lines())),
            ("Commands that ran, in order", past(self.command_lines())),
            ("Other calls, in order", past(self.calls.clone())),
            ("Background commands", past(self.process_lines())),
            ("Children", self.child_lines()),
            (
                "Directory of the shell",
                past(self.shell.iter().map(|path| line(&path.to_string_lossy())).collect()),
            ),
        ]
    }

    fn todo_lines(&self) -> Vec<RecordLine> {
        let item = |item: &TodoItem| {
            let (state, rank) = match item.state {
                TodoState::Pending => ("pending", LineRank::Open),
                TodoState::InProgress => ("in progress", LineRank::Current),
                TodoState::Done => ("done", LineRank::Past),
            };
            RecordLine { rank, text: format!("[{state}] {}", line(&item.text)) }
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
        // Those that were only read come first: where room is short they are left out.
        let (read, written): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|(_, (_, how))| *how == "read");
        read.into_iter().chain(written).map(show).collect()
    }

    fn removed_lines(&self) -> Vec<String> {
        self.receipts.files_removed.iter().map(|path| line(&path.to_string_lossy())).collect()
    }

    fn command_lines(&self) -> Vec<String> {
        let show = |(at, (command, code)): (usize, &(String, Option<i32>))| {
            let end = match code {
                Some(code) => format!("exit code {code}"),
                None if self.receipts.unknown.contains(&at) => "outcome unknown".to_owned(),
                None if self.receipts.left_running.contains(&at) => "still runs".to_owned(),
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

    fn child_lines(&self) -> Vec<RecordLine> {
        let show = |child: &AgentSummary| RecordLine {
            rank: match child.activity {
                AgentActivity::Ended(_) => LineRank::Past,
                _ => LineRank::Open,
            },
            text: format!("{} ({}): {}", child.id, child.activity.as_str(), line(&child.goal)),
        };
        self.children.iter().map(show).collect()
    }
}

/// Returns what a call did, as far as the host knows; `None` if it changed nothing.
fn call_line(spec: Option<&ToolSpec>, ended: &EndedCall, secrets: &Secrets) -> Option<String> {
    let StartedCall { tool, arguments } = &ended.call;
    let value = serde_json::from_str(arguments).unwrap_or_default();
    let effects = spec.map_or(Effects::Unknown, |spec| spec.effects_of(&value));
    let end = match (effects, ended.status) {
        (Effects::ReadOnly, _)
        | (Effects::WritesFiles, CallStatus::Error)
        | (_, CallStatus::Denied) => return None,
        (_, CallStatus::Ok) => "done",
        (_, CallStatus::Error) => "failed",
        (_, CallStatus::Cancelled) => "outcome unknown",
    };
    // Before the line is cut: half a secret would not be found.
    let call = name_and_arguments(tool, &secrets.scrub(arguments));
    Some(format!("{}: {end}", line(&call)))
}

fn line(text: &str) -> String {
    for_terminal_line(text, LINE_CHARS)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use deputize_core::agent::AgentActivity;
    use deputize_core::event::ToolEnd;
    use deputize_core::message::ModelText;
    use deputize_core::source_set::SourceSet;
    use deputize_core::{
        AgentId, CallId, Catalog, Event, SessionId, Status, ToolEffect, ToolResult,
    };

    use super::*;
    use crate::agent_state::AgentState;

    #[test]
    fn what_is_on_record_stands_in_the_message() {
        let version = FileVersion::of(b"new");
        let old = FileVersion::of(b"old");
        let call = CallId::new(2, 0);
        let root = AgentId::root(&SessionId::literal("s"));
        let child = |task: u32, activity, goal: &str| AgentSummary {
            id: root.child(call, task),
            goal: goal.to_owned(),
            activity,
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
                durable_pid: None,
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
        record.calls.push("act n: 7: done".into());
        let shown = |record: &WorkRecord| record.render(u64::MAX);
        insta::assert_snapshot!(message(7, "t/m", "## Task\nCount.\n", &shown(&record)));
        insta::assert_snapshot!(message(1, "t/m", "Nothing.", &shown(&WorkRecord::default())));
    }

    #[test]
    fn of_a_long_list_the_last_lines_are_shown() {
        let mut record = WorkRecord::default();
        record.receipts.commands = (0..100).map(|n| (format!("c{n}"), Some(0))).collect();
        let text = record.render(u64::MAX);
        assert!(
            text.starts_with(
                "Commands that ran, in order (40 earlier ones are left out):\n- c40: "
            ),
            "{text}"
        );
        assert!(text.ends_with("- c99: exit code 0"), "{text}");
    }

    #[test]
    fn where_room_is_short_the_oldest_lines_of_the_longest_list_are_left_out() {
        let mut record = WorkRecord::default();
        record.receipts.commands = (10..50).map(|n| (format!("c{n}"), Some(0))).collect();
        record.calls = (10..20).map(|n| format!("act n: {n}: done")).collect();
        record.receipts.files_removed.insert("/w/d".into());
        assert!(record.render(2_000).contains("order:\n- c10: "));
        let text = record.render(600);
        assert!((500..=600).contains(&text.len()), "{text}");
        for part in
            ["earlier ones are left out):\n", "- c49: ", "- act n: 10: ", "- act n: 19: ", "/w/d"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("- c10: "), "{text}");
        assert!(record.render(0).len() < 200);
    }

    #[test]
    fn what_is_open_goes_last() {
        let item = |n: usize, state| TodoItem { text: format!("{n} {}", "w".repeat(200)), state };
        let mut todo = vec![item(0, TodoState::InProgress), item(1, TodoState::Pending)];
        todo.extend((2..12).map(|n| item(n, TodoState::Done)));
        todo.push(item(12, TodoState::Pending));
        let mut record = WorkRecord { todo, ..WorkRecord::default() };
        let text = record.render(1_200);
        assert!(
            text.starts_with("Todo list (8 more are left out):\n- [in progress] 0 www"),
            "{text}"
        );
        for part in ["- [pending] 1 www", "- [done] 11 www", "- [pending] 12 www"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // Texts are shortened before one that is open is left out.
        let text = record.render(400);
        assert!(text.contains("0 www") && text.contains(" 1 www") && text.contains(" 12 www"));
        assert!(!text.contains("done") && text.len() <= 400, "{text}");
        let text = record.render(140);
        assert!(text.contains("- [in progress] 0") && !text.contains("pending"), "{text}");
        // Commands go before what is in progress.
        record.receipts.commands = vec![("make".into(), Some(0))];
        let text = record.render(200);
        assert!(text.contains("- [in progress] 0") && !text.contains("make"), "{text}");
    }

    #[test]
    fn of_many_children_those_that_ended_go_first() {
        let root = AgentId::root(&SessionId::literal("s"));
        let child = |task: u32| AgentSummary {
            id: root.child(CallId::new(2, 0), task),
            goal: format!("g{task}."),
            activity: match task {
                0..3 => AgentActivity::Running,
                _ => AgentActivity::Ended(Status::Completed),
            },
            iteration: 1,
            current_tool: None,
            idle_ms: 0,
        };
        let children = (0..100).map(child).collect();
        let record = WorkRecord { children, ..WorkRecord::default() };
        let text = record.render(u64::MAX);
        assert!(text.starts_with("Children (40 more are left out):"), "{text}");
        for (part, is_there) in [("g0.", true), ("g2.", true), ("g3.", false), ("g43.", true)] {
            assert_eq!(text.contains(part), is_there, "{part}: {text}");
        }
        let text = record.render(300);
        assert!(text.contains("g0.") && text.contains("g2.") && text.contains("g99."), "{text}");
    }

    #[test]
    fn a_call_that_may_have_changed_something_is_a_line() {
        let catalog = Catalog::linked(&[deputize_tools::LINK]).unwrap();
        let line = |tool: &str, arguments: &str, status| {
            let call = StartedCall { tool: tool.to_owned(), arguments: arguments.to_owned() };
            call_line(catalog.spec(tool), &EndedCall { call, status }, &Secrets::default())
        };
        let (done, failed, cut) = (CallStatus::Ok, CallStatus::Error, CallStatus::Cancelled);
        let message = r#"{"target":"ops","text":"Green."}"#;
        let sent = "send_message target: ops, text: Green.";
        for (tool, arguments, status, expected) in [
            ("send_message", message, done, Some(format!("{sent}: done"))),
            ("send_message", message, failed, Some(format!("{sent}: failed"))),
            ("send_message", message, cut, Some(format!("{sent}: outcome unknown"))),
            ("send_message", message, CallStatus::Denied, None),
            ("gone", "{\"a\":1", done, Some("gone {\"a\":1: done".to_owned())),
            ("process", r#"{"action":"list"}"#, done, None),
            (
                "process",
                r#"{"action":"write","id":"p1","text":"y"}"#,
                done,
                Some("process action: write, id: p1, text: y: done".to_owned()),
            ),
            ("edit_file", r#"{"path":"a"}"#, failed, None),
            ("read_file", r#"{"path":"a"}"#, done, None),
        ] {
            assert_eq!(line(tool, arguments, status), expected, "{tool} {status:?}");
        }
    }

    #[test]
    fn a_call_without_an_effect_on_record_is_remembered() {
        let ended = |error: Option<&str>, facts: Vec<ToolEffect>| {
            let spec = crate::top_agent(&SessionId::literal("s"), "t/m", "go", Path::new("/w"));
            let mut state = AgentState::new(&spec);
            let call = CallId::new(1, 0);
            let (tool, arguments) = ("act".to_owned(), "é".repeat(5_000));
            state.apply(&Event::ToolStart { call, tool: tool.clone(), arguments });
            let result = ToolResult {
                call,
                status: CallStatus::Error,
                text: ModelText::own(""),
                fingerprint: String::new(),
                images: Vec::new(),
                sources: SourceSet::new(),
            };
            state.apply(&Event::ToolEnd(Box::new(ToolEnd {
                tool,
                result,
                args_bytes: 0,
                ms: 0,
                facts,
                display: None,
                error: error.map(ToOwned::to_owned),
                boundary: None,
            })));
            state.ended_calls().to_vec()
        };
        let read = ToolEffect::OutsideRead { source: "mcp:a".into() };
        let calls = ended(None, vec![read]);
        assert_eq!(calls[0].status, CallStatus::Error);
        assert!(calls[0].call.arguments.len() <= 2_048);
        let lost = ended(Some(crate::agent_state::PROGRAM_ENDED), Vec::new());
        assert_eq!(lost[0].status, CallStatus::Cancelled, "what it did is not known");
        assert_eq!(ended(None, vec![ToolEffect::FileRemoved { path: "/w/a".into() }]), []);
    }
}
