//! Changes by a run of a session, as the host saw them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use deputize_core::event::ToolEnd;
use deputize_core::message::CallStatus;
use deputize_core::process::{ProcessEnd, ProcessExit};
use deputize_core::{AgentId, Display, Outcome, ToolEffect};

/// Limit on the listed commands that succeeded, and separately on the others.
const COMMANDS_KEPT: usize = 16;

/// Files that the agents of one run changed, and the commands that they ran.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RunChanges {
    /// Files that were written or removed, by path. A file that was created and removed again is
    /// left out.
    pub files: BTreeMap<PathBuf, ChangedFile>,
    /// Commands that ran.
    pub commands: CommandTotals,
    /// Number of calls that were denied.
    pub denied: usize,
    /// Files that answers name and that do not exist, in the order of the agents' ends.
    pub unseen: Vec<UnseenFiles>,
}

/// A file that was written or removed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangedFile {
    /// Whether the first write created it.
    pub is_new: bool,
    /// Whether it was removed after its last write.
    pub is_removed: bool,
    /// The path that it had before this run; `None` if it was not renamed.
    pub renamed_from: Option<PathBuf>,
    /// Number of lines added and removed by all changes, one after the other; `None` if one had no
    /// diff.
    pub lines: Option<LineCount>,
    /// Number of changes.
    pub changes: usize,
    /// The agents that changed it.
    pub agents: BTreeSet<AgentId>,
}

/// Lines that writes added to a file and removed from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LineCount {
    /// Lines added.
    pub added: usize,
    /// Lines removed.
    pub removed: usize,
}

/// Commands that ran. Their number is exact; of many, the first ones are kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CommandTotals {
    /// Number of commands.
    pub count: usize,
    /// Number of failed commands.
    pub failed: usize,
    /// Number of commands with an unknown outcome.
    pub unknown: usize,
    /// The first of those that failed or have an unknown outcome.
    unsuccessful: Vec<CommandRecord>,
    /// The first of the others.
    successful: Vec<CommandRecord>,
}

/// A command that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandRecord {
    /// Text of the command.
    pub command: String,
    /// How it ended.
    pub exit: CommandExit,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandExit {
    /// With this exit code.
    Code(i32),
    /// By a signal, or at its time limit.
    Signal,
    /// Its agent killed it.
    Killed,
    /// It still ran when its agent ended.
    AgentEnded,
    /// It is durable, and goes on as this PID.
    LeftRunning(u32),
    /// Its exit was not observed.
    Unknown,
}

/// Files that an answer names, that do not exist, and of which no write was observed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnseenFiles {
    /// ID of the agent.
    pub agent: AgentId,
    /// The files as its answer names them.
    pub files: Vec<String>,
}

impl RunChanges {
    pub(super) fn add_call(&mut self, agent: &AgentId, end: &ToolEnd) {
        self.denied += usize::from(end.result.status == CallStatus::Denied);
        let renames = || end.display.iter().flat_map(Display::renames);
        for fact in &end.facts {
            match fact {
                ToolEffect::FileWritten { path, created, .. } => {
                    if let Some((from, _)) = renames().find(|(_, to)| to == path) {
                        self.rename(from, path);
                    }
                    let file = self.files.entry(path.clone());
                    let file = file.or_insert_with(|| ChangedFile::new(*created));
                    file.is_removed = false;
                    file.add_change(agent, changed_lines(path, end));
                }
                ToolEffect::FileRemoved { path } if renames().any(|(from, _)| from == path) => {}
                ToolEffect::FileRemoved { path } => self.add_removal(agent, path, end),
                ToolEffect::Command { command, exit_code, unknown } => {
                    let exit = match exit_code {
                        _ if *unknown => CommandExit::Unknown,
                        Some(code) => CommandExit::Code(*code),
                        None => CommandExit::Signal,
                    };
                    self.commands.add(command, exit);
                }
                ToolEffect::FileRead { .. }
                | ToolEffect::NotBegun { .. }
                | ToolEffect::TodoChanged { .. }
                | ToolEffect::OutsideRead { .. }
                | ToolEffect::ShellMoved { .. } => {}
            }
        }
    }

    pub(super) fn add_process(&mut self, end: &ProcessEnd) {
        let exit = match end.exit {
            ProcessExit::Code { code } => CommandExit::Code(code),
            ProcessExit::Unknown | ProcessExit::ProgramEnded => CommandExit::Unknown,
            ProcessExit::Killed => CommandExit::Killed,
            ProcessExit::AgentEnded => CommandExit::AgentEnded,
            ProcessExit::LeftRunning { pid } => CommandExit::LeftRunning(pid),
            _ => CommandExit::Signal,
        };
        self.commands.add(&end.command, exit);
    }

    /// Moves a file to another path, with its changes so far.
    fn rename(&mut self, from: &Path, to: &Path) {
        let mut file = self.files.remove(from).unwrap_or_else(|| ChangedFile::new(false));
        let first = file.renamed_from.take().unwrap_or_else(|| from.to_owned());
        file.renamed_from = Some(first).filter(|first| !file.is_new && first != to);
        self.files.insert(to.to_owned(), file);
    }

    fn add_removal(&mut self, agent: &AgentId, path: &Path, end: &ToolEnd) {
        let mut file = self.files.remove(path).unwrap_or_else(|| ChangedFile::new(false));
        if file.is_new {
            return;
        }
        file.is_removed = true;
        file.add_change(agent, changed_lines(path, end));
        let first = file.renamed_from.take().unwrap_or_else(|| path.to_owned());
        self.files.insert(first, file);
    }

    pub(super) fn add_outcome(&mut self, outcome: &Outcome) {
        let files = outcome.inspection.iter().flat_map(|found| found.unseen_writes.iter().cloned());
        let unseen = UnseenFiles { agent: outcome.agent.clone(), files: files.collect() };
        self.unseen.extend(Some(unseen).filter(|unseen| !unseen.files.is_empty()));
    }
}

impl ChangedFile {
    const fn new(is_new: bool) -> Self {
        let lines = Some(LineCount { added: 0, removed: 0 });
        Self {
            is_new,
            is_removed: false,
            renamed_from: None,
            lines,
            changes: 0,
            agents: BTreeSet::new(),
        }
    }

    fn add_change(&mut self, agent: &AgentId, lines: Option<LineCount>) {
        self.lines = self.lines.zip(lines).map(|(all, one)| LineCount {
            added: all.added.saturating_add(one.added),
            removed: all.removed.saturating_add(one.removed),
        });
        self.changes = self.changes.saturating_add(1);
        self.agents.insert(agent.clone());
    }
}

impl CommandTotals {
    fn add(&mut self, command: &str, exit: CommandExit) {
        self.count = self.count.saturating_add(1);
        let kept = match exit {
            // What its agent ended on purpose did not fail.
            CommandExit::Code(0)
            | CommandExit::Killed
            | CommandExit::AgentEnded
            | CommandExit::LeftRunning(_) => &mut self.successful,
            CommandExit::Unknown => {
                self.unknown = self.unknown.saturating_add(1);
                &mut self.unsuccessful
            }
            CommandExit::Code(_) | CommandExit::Signal => {
                self.failed = self.failed.saturating_add(1);
                &mut self.unsuccessful
            }
        };
        if kept.len() < COMMANDS_KEPT {
            kept.push(CommandRecord { command: command.to_owned(), exit });
        }
    }

    /// Returns the first commands, those that failed or have an unknown outcome before the others.
    pub fn first(&self) -> impl Iterator<Item = &CommandRecord> {
        self.unsuccessful.iter().chain(&self.successful)
    }
}

/// Returns the lines that a call changed in a file, if its result is shown with a diff of that file.
fn changed_lines(path: &Path, end: &ToolEnd) -> Option<LineCount> {
    let mut diffs = end.display.iter().flat_map(Display::diffs);
    diffs.find(|(of, _)| *of == path).map(|(_, diff)| diff_lines(diff))
}

/// Returns the lines that a unified diff adds and removes.
fn diff_lines(diff: &str) -> LineCount {
    let mut lines = LineCount::default();
    let mut in_hunk = false;
    for line in diff.lines() {
        match line.chars().next() {
            Some('@') => in_hunk = true,
            Some('+') if in_hunk => lines.added += 1,
            Some('-') if in_hunk => lines.removed += 1,
            _ => {}
        }
    }
    lines
}
