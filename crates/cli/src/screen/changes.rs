//! What a run changed on disk, and which commands it ran: from what the host saw.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use deputize_core::event::ToolEnd;
use deputize_core::message::CallStatus;
use deputize_core::{Display, Event, Record, ToolEffect};

use super::line::{ScreenLine, Style};
use super::summary::{as_is, count, unseen};
use crate::agent_name::short;

/// Files that are listed; more are counted.
const FILES: usize = 20;
/// Commands that are listed, those that failed first; more are counted.
const COMMANDS: usize = 8;
/// The most characters of a path or a command.
const CHARS: usize = 160;

/// The changes of a whole tree of agents: a fold over the records.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    files: BTreeMap<PathBuf, ChangedFile>,
    commands: Vec<(String, CommandEnd)>,
    denied: usize,
    /// Children whose answer does not agree with what was seen.
    claims: Vec<String>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommandEnd {
    Code(i32),
    Signal,
    /// Nobody saw it.
    Unknown,
}

impl CommandEnd {
    fn is_failure(self) -> bool {
        !matches!(self, Self::Code(0) | Self::Unknown)
    }
}

#[derive(Debug, Default)]
struct ChangedFile {
    created: bool,
    /// Lines added and removed, over all writes; nothing when a write was not told as a diff.
    lines: Option<(usize, usize)>,
    writes: usize,
}

impl Changes {
    /// Takes a record.
    pub(crate) fn apply(&mut self, record: &Record) {
        if let Event::AgentEnd(outcome) = &record.event {
            let claim = unseen(outcome).map(|told| format!("{} {told}", short(&record.agent)));
            self.claims.extend(claim);
        }
        let Event::ToolEnd(end) = &record.event else { return };
        self.denied += usize::from(end.result.status == CallStatus::Denied);
        for fact in &end.facts {
            match fact {
                ToolEffect::FileWritten { path, created, .. } => self.wrote(path, *created, end),
                ToolEffect::Command { command, exit_code, unknown } => {
                    let end = match exit_code {
                        _ if *unknown => CommandEnd::Unknown,
                        Some(code) => CommandEnd::Code(*code),
                        None => CommandEnd::Signal,
                    };
                    self.commands.push((command.clone(), end));
                }
                ToolEffect::FileRead { .. }
                | ToolEffect::NotBegun { .. }
                | ToolEffect::ShellMoved { .. } => {}
            }
        }
    }

    fn wrote(&mut self, path: &Path, created: bool, end: &ToolEnd) {
        let file = self.files.entry(path.to_owned()).or_default();
        if file.writes == 0 {
            file.created = created;
            file.lines = Some((0, 0));
        }
        file.writes += 1;
        let diff = match &end.display {
            Some(Display::Diff { path: of, diff }) if of == path => Some(diffed(diff)),
            _ => None,
        };
        file.lines = file.lines.zip(diff).map(|(all, one)| (all.0 + one.0, all.1 + one.1));
    }

    /// What to tell at the end; paths under `cwd` are told from there. Empty when nothing was
    /// changed.
    pub(crate) fn lines(&self, cwd: &Path) -> Vec<ScreenLine> {
        let mut lines = Vec::new();
        if !self.files.is_empty() {
            let title = format!("{} changed:", count(self.files.len(), "file"));
            lines.push(ScreenLine::default().with(Style::Bold, title));
            lines.extend(self.files.iter().take(FILES).map(|(path, file)| row(path, file, cwd)));
            lines.extend(more(self.files.len(), FILES));
        }
        if !self.commands.is_empty() {
            let failed = self.commands.iter().filter(|(_, end)| end.is_failure()).count();
            let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
            let unknown =
                self.commands.iter().filter(|(_, end)| *end == CommandEnd::Unknown).count();
            let unknown = if unknown > 0 { format!(", {unknown} unknown") } else { String::new() };
            let title = format!("{} run{failed}{unknown}:", count(self.commands.len(), "command"));
            lines.push(ScreenLine::default().with(Style::Bold, title));
            let mut order: Vec<&(String, CommandEnd)> = self.commands.iter().collect();
            order.sort_by_key(|(_, end)| *end == CommandEnd::Code(0));
            lines.extend(order.into_iter().take(COMMANDS).map(ran));
            lines.extend(more(self.commands.len(), COMMANDS));
            let rest = "  files that commands changed are not listed";
            lines.push(ScreenLine::default().with(Style::Dim, rest));
        }
        if self.denied > 0 {
            let text = format!("{} denied", count(self.denied, "call"));
            lines.push(ScreenLine::default().with(Style::Asking, text));
        }
        for claim in &self.claims {
            lines.push(
                ScreenLine::default().with(Style::Asking, "warning: ").with(Style::Plain, claim),
            );
        }
        lines
    }
}

/// The lines that a unified diff adds and removes.
fn diffed(diff: &str) -> (usize, usize) {
    let (mut added, mut removed, mut in_hunk) = (0, 0, false);
    for line in diff.lines() {
        match line.chars().next() {
            Some('@') => in_hunk = true,
            Some('+') if in_hunk => added += 1,
            Some('-') if in_hunk => removed += 1,
            _ => {}
        }
    }
    (added, removed)
}

fn row(path: &Path, file: &ChangedFile, cwd: &Path) -> ScreenLine {
    let path = path.strip_prefix(cwd).unwrap_or(path);
    let path = as_is(&path.to_string_lossy(), CHARS);
    let (word, style) = if file.created { ("new", Style::Good) } else { ("mod", Style::Busy) };
    let mut line = ScreenLine::default().with(style, format!("  {word} ")).with(Style::Plain, path);
    if let Some((added, removed)) = file.lines {
        if added > 0 {
            line.push(Style::Good, format!(" +{added}"));
        }
        if removed > 0 {
            line.push(Style::Bad, format!(" -{removed}"));
        }
    }
    line
}

fn ran((command, end): &(String, CommandEnd)) -> ScreenLine {
    let command = as_is(command, CHARS);
    let line = ScreenLine::default().with(Style::Plain, format!("  {command}"));
    match end {
        CommandEnd::Code(0) => line,
        CommandEnd::Code(code) => line.with(Style::Bad, format!("  (exit code {code})")),
        CommandEnd::Signal => line.with(Style::Bad, "  (ended by a signal)"),
        CommandEnd::Unknown => line.with(Style::Bad, "  (outcome unknown)"),
    }
}

fn more(all: usize, listed: usize) -> Option<ScreenLine> {
    let rest = all.saturating_sub(listed);
    (rest > 0).then(|| ScreenLine::default().with(Style::Dim, format!("  and {rest} more")))
}

#[cfg(test)]
mod tests {
    use deputize_core::message::CallStatus;

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

    fn tell(tape: &TestWriter) -> String {
        let mut changes = Changes::default();
        tape.records.iter().for_each(|record| changes.apply(record));
        let lines = changes.lines(Path::new("/repo/project"));
        let lines: Vec<String> = lines.iter().map(|line| line.render(false)).collect();
        lines.join("\n")
    }

    #[test]
    fn files_and_commands_of_the_whole_tree() {
        let mut tape = TestWriter::default();
        let diff = "--- a\n+++ b\n@@ -1 +1,2 @@\n-old\n+new\n+++plus\n@@ -9 +9 @@\n---minus\n";
        tape.add(&root(), wrote("/repo/project/src/a.rs", true, Some(diff)));
        tape.add(&child(0), wrote("/repo/project/src/a.rs", false, Some("@@ -1 +1 @@\n+x\n")));
        tape.add(&child(1), wrote("/repo/else/b\u{1b}[2J.txt", false, None));
        tape.add(&child(1), ran("cargo test\n--all", Some(0)));
        tape.add(&child(1), ran("false", Some(1)));
        tape.add(&child(1), ran("sleep 9", None));
        let unseen = ToolEffect::Command { command: "make".into(), exit_code: None, unknown: true };
        tape.add(&child(1), returned(CALL, "terminal", CallStatus::Error, "?", vec![unseen]));
        let text = "denied by user (commands can do anything)";
        tape.add(&child(1), returned(CALL, "terminal", CallStatus::Denied, text, Vec::new()));
        insta::assert_snapshot!(tell(&tape), @r"
        2 files changed:
          mod /repo/else/b\u{1b}[2J.txt
          new src/a.rs +3 -2
        4 commands run, 2 failed, 1 unknown:
          false  (exit code 1)
          sleep 9  (ended by a signal)
          make  (outcome unknown)
          cargo test ⏎ --all
          files that commands changed are not listed
        1 call denied
        ");
    }

    #[test]
    fn nothing_changed_is_nothing_told_and_much_is_counted() {
        assert_eq!(tell(&TestWriter::default()), "");
        let mut tape = TestWriter::default();
        for file in 0..FILES + 5 {
            tape.add(&root(), wrote(&format!("/repo/project/{file}"), true, None));
        }
        assert!(tell(&tape).starts_with("25 files changed:\n"));
        assert!(tell(&tape).ends_with("\n  and 5 more"));
    }
}
