//! Lines for the changes of a run on disk and its commands.

use std::path::Path;

use deputize_core::sanitize::{for_terminal_line, for_verbatim_line};
use deputize_core::wording::count;
use deputize_runtime::snapshot::{ChangedFile, CommandExit, CommandRecord, LineCount, RunChanges};

use super::line::{ScreenLine, Style};
use crate::agent_name::short;

/// Files that are listed; more are counted.
const FILES: usize = 20;
/// Commands that are listed, those that failed first; more are counted.
const COMMANDS: usize = 8;
/// Limit on a path or a command, in characters.
const CHARS: usize = 160;
/// Limit on the name of a file that was not seen, in characters.
const NAME_CHARS: usize = 120;

/// Returns the lines of what was changed, with paths below `cwd` as seen from there. Empty if nothing
/// was.
pub(super) fn change_lines(changes: &RunChanges, cwd: &Path) -> Vec<ScreenLine> {
    let mut lines = file_lines(changes, cwd);
    lines.extend(command_lines(changes));
    if changes.denied > 0 {
        let text = format!("{} denied", count(changes.denied, "call"));
        lines.push(ScreenLine::default().with(Style::Asking, text));
    }
    for unseen in &changes.unseen {
        let claim = unseen_words(&unseen.files).unwrap_or_default();
        let claim = format!("{} {claim}", short(&unseen.agent));
        lines
            .push(ScreenLine::default().with(Style::Asking, "warning: ").with(Style::Plain, claim));
    }
    lines
}

fn file_lines(changes: &RunChanges, cwd: &Path) -> Vec<ScreenLine> {
    let files = &changes.files;
    if files.is_empty() {
        return Vec::new();
    }
    let title = format!("{} changed:", count(files.len(), "file"));
    let mut lines = vec![ScreenLine::default().with(Style::Bold, title)];
    lines.extend(files.iter().take(FILES).map(|(path, file)| row(path, file, cwd)));
    lines.extend(more(files.len(), FILES));
    lines
}

fn command_lines(changes: &RunChanges) -> Vec<ScreenLine> {
    let commands = &changes.commands;
    if commands.count == 0 {
        return Vec::new();
    }
    let some = |n: usize, what: &str| if n > 0 { format!(", {n} {what}") } else { String::new() };
    let failed = some(commands.failed, "failed");
    let unknown = some(commands.unknown, "unknown");
    let title = format!("{} run{failed}{unknown}:", count(commands.count, "command"));
    let mut lines = vec![ScreenLine::default().with(Style::Bold, title)];
    lines.extend(commands.first().take(COMMANDS).map(ran));
    lines.extend(more(commands.count, COMMANDS));
    let rest = "  files that commands changed are not listed";
    lines.push(ScreenLine::default().with(Style::Dim, rest));
    lines
}

/// Returns what is said of files that a child names and that do not exist; `None` if there are none.
pub(crate) fn unseen_words(files: &[String]) -> Option<String> {
    const NAMED: usize = 5;
    let shown: Vec<String> = files
        .iter()
        .take(NAMED)
        .map(|name| format!("`{}`", for_terminal_line(name, NAME_CHARS)))
        .collect();
    let more = match files.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let words = format!(
        "names files that do not exist and were not seen written: {}{more}",
        shown.join(", ")
    );
    (!files.is_empty()).then_some(words)
}

fn row(path: &Path, file: &ChangedFile, cwd: &Path) -> ScreenLine {
    let shown = |path: &Path| {
        let path = path.strip_prefix(cwd).unwrap_or(path);
        for_verbatim_line(&path.to_string_lossy(), CHARS)
    };
    let path = match &file.renamed_from {
        Some(from) => format!("{} → {}", shown(from), shown(path)),
        None => shown(path),
    };
    let (word, style) = match (file.is_new, file.is_removed, &file.renamed_from) {
        (_, true, _) => ("del", Style::Bad),
        (true, false, _) => ("new", Style::Good),
        (false, false, Some(_)) => ("ren", Style::Busy),
        (false, false, None) => ("mod", Style::Busy),
    };
    let mut line = ScreenLine::default().with(style, format!("  {word} ")).with(Style::Plain, path);
    if let Some(lines) = file.lines {
        if lines.added > 0 {
            line.push(Style::Good, format!(" +{}", lines.added));
        }
        if lines.removed > 0 {
            line.push(Style::Bad, format!(" -{}", lines.removed));
        }
        // Lines that one change adds and the next removes are counted twice.
        if file.changes > 1 && lines != LineCount::default() {
            line.push(Style::Dim, format!(" in {} changes", file.changes));
        }
    }
    line
}

fn ran(record: &CommandRecord) -> ScreenLine {
    let command = for_verbatim_line(&record.command, CHARS);
    let line = ScreenLine::default().with(Style::Plain, format!("  {command}"));
    match record.exit {
        CommandExit::Code(0) => line,
        CommandExit::Code(code) => line.with(Style::Bad, format!("  (exit code {code})")),
        CommandExit::Signal => line.with(Style::Bad, "  (ended by a signal or its time limit)"),
        CommandExit::Killed => line.with(Style::Dim, "  (killed by its agent)"),
        CommandExit::AgentEnded => line.with(Style::Dim, "  (still ran, was killed)"),
        CommandExit::LeftRunning(pid) => {
            line.with(Style::Dim, format!("  (still runs, as PID {pid})"))
        }
        _ => line.with(Style::Bad, "  (outcome unknown)"),
    }
}

fn more(all: usize, listed: usize) -> Option<ScreenLine> {
    let rest = all.saturating_sub(listed);
    (rest > 0).then(|| ScreenLine::default().with(Style::Dim, format!("  and {rest} more")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use deputize_core::message::CallStatus;
    use deputize_core::process::{ProcessEnd, ProcessExit};
    use deputize_core::source_set::SourceSet;
    use deputize_core::tool::DisplayedDiff;
    use deputize_core::{Display, Event, ToolEffect};
    use deputize_runtime::SessionSnapshot;

    use super::*;
    use crate::fixture::{CALL, TestWriter, child, returned, root, version};

    fn wrote(path: &str, created: bool, diff: Option<&str>) -> Event {
        let fact = ToolEffect::FileWritten { path: path.into(), version: version("x"), created };
        let mut event = returned(CALL, "write_file", CallStatus::Ok, "ok", vec![fact]);
        if let Event::ToolEnd(end) = &mut event {
            end.display =
                diff.map(|diff| Display::Diff { path: path.into(), diff: diff.to_owned() });
        }
        event
    }

    fn ran(command: &str, exit_code: Option<i32>) -> Event {
        let fact = ToolEffect::Command { command: command.to_owned(), exit_code, unknown: false };
        returned(CALL, "terminal", CallStatus::Ok, "ok", vec![fact])
    }

    fn tell(writer: &TestWriter) -> String {
        let snapshot = SessionSnapshot::of(Arc::default(), &writer.records);
        let lines = change_lines(snapshot.changes(), Path::new("/repo/project"));
        let lines: Vec<String> = lines.iter().map(|line| line.render(false)).collect();
        lines.join("\n")
    }

    #[test]
    fn files_and_commands_of_the_whole_tree() {
        let mut writer = TestWriter::default();
        let diff = "--- a\n+++ b\n@@ -1 +1,2 @@\n-old\n+new\n+++plus\n@@ -9 +9 @@\n---minus\n";
        writer.add(&root(), wrote("/repo/project/src/a.rs", true, Some(diff)));
        writer.add(&child(0), wrote("/repo/project/src/a.rs", false, Some("@@ -1 +1 @@\n+x\n")));
        writer.add(&child(1), wrote("/repo/else/b\u{1b}[2J.txt", false, None));
        writer.add(&child(1), ran("cargo test\n--all", Some(0)));
        writer.add(&child(1), ran("false", Some(1)));
        writer.add(&child(1), ran("sleep 9", None));
        let unseen = ToolEffect::Command { command: "make".into(), exit_code: None, unknown: true };
        writer.add(&child(1), returned(CALL, "terminal", CallStatus::Error, "?", vec![unseen]));
        let text = "denied by user (commands can do anything)";
        writer.add(&child(1), returned(CALL, "terminal", CallStatus::Denied, text, Vec::new()));
        for exit in [ProcessExit::AgentEnded, ProcessExit::Killed] {
            let (process, command) = ("p1".to_owned(), "sleep 77".to_owned());
            let (ms, output_bytes, message) = (None, None, None);
            let sources = SourceSet::new();
            let end = ProcessEnd { process, command, exit, ms, output_bytes, message, sources };
            writer.add(&root(), Event::ProcessEnd(Box::new(end)));
        }
        insta::assert_snapshot!(tell(&writer), @r"
        2 files changed:
          mod /repo/else/b\u{1b}[2J.txt
          new src/a.rs +3 -2 in 2 changes
        6 commands run, 2 failed, 1 unknown:
          false  (exit code 1)
          sleep 9  (ended by a signal or its time limit)
          make  (outcome unknown)
          cargo test ⏎ --all
          sleep 77  (still ran, was killed)
          sleep 77  (killed by its agent)
          files that commands changed are not listed
        1 call denied
        ");
    }

    fn renamed(from: &str, to: &str) -> Event {
        let path = |name: &str| Path::new("/repo/project").join(name);
        let written =
            ToolEffect::FileWritten { path: path(to), version: version("x"), created: true };
        let facts = vec![written, ToolEffect::FileRemoved { path: path(from) }];
        let mut event = returned(CALL, "apply_patch", CallStatus::Ok, "ok", facts);
        if let Event::ToolEnd(end) = &mut event {
            let diff = "@@ -1 +1 @@\n-a\n+b\n".to_owned();
            let renamed_from = Some(path(from));
            let files = vec![DisplayedDiff { path: path(to), diff, renamed_from }];
            end.display = Some(Display::Diffs { files });
        }
        event
    }

    #[test]
    fn a_renamed_file_is_one_file_from_its_first_path_to_its_last() {
        let mut writer = TestWriter::default();
        writer.add(&root(), renamed("a", "b"));
        writer.add(&root(), wrote("/repo/project/b", false, Some("@@ -1 +2 @@\n+c\n")));
        writer.add(&root(), wrote("/repo/project/new", true, None));
        writer.add(&root(), renamed("new", "newer"));
        insta::assert_snapshot!(tell(&writer), @r"
        2 files changed:
          ren a → b +2 -1 in 2 changes
          new newer
        ");
        writer.add(&root(), renamed("b", "c"));
        assert!(tell(&writer).contains("\n  ren a → c +3 -2 in 3 changes\n"), "{}", tell(&writer));
        let removed = vec![ToolEffect::FileRemoved { path: "/repo/project/c".into() }];
        let kept = writer.records.len();
        writer.add(&root(), returned(CALL, "apply_patch", CallStatus::Ok, "ok", removed));
        assert!(tell(&writer).contains("\n  del a\n"), "{}", tell(&writer));
        writer.records.truncate(kept);
        writer.add(&root(), renamed("c", "a"));
        assert!(tell(&writer).contains("\n  mod a +4 -3 in 4 changes\n"), "{}", tell(&writer));
    }

    #[test]
    fn nothing_changed_is_nothing_shown_and_much_is_counted() {
        assert_eq!(tell(&TestWriter::default()), "");
        let mut writer = TestWriter::default();
        for file in 0..FILES + 5 {
            writer.add(&root(), wrote(&format!("/repo/project/{file}"), true, None));
        }
        assert!(tell(&writer).starts_with("25 files changed:\n"));
        assert!(tell(&writer).ends_with("\n  and 5 more"));
    }
}
