//! Lays out the tree of agents as lines. Pure.

use std::collections::{BTreeMap, BTreeSet};

use deputize_core::agent::AgentActivity;
use deputize_core::sanitize::{for_terminal_line, for_verbatim_line};
use deputize_core::todo::TodoState;
use deputize_core::{AgentId, Status};
use deputize_runtime::snapshot::TreeTotals;
use deputize_runtime::{AgentSnapshot, SessionSnapshot};

use super::agent_text::{activity_text, goal_text};
use super::line::{ScreenLine, Style, truncate_columns, width};
use super::run_figures::RunFigures;

/// Upper bound on the characters of an item of a todo list.
const TODO_CHARS: usize = 200;
/// Upper bound on the characters of a background command.
const PROCESS_CHARS: usize = 60;
/// Columns that a goal keeps before the agent's activity takes room beside it.
const GOAL_COLUMNS: usize = 12;

/// Returns the tree in at most `most` lines of at most `columns` columns. If it has more agents
/// than lines, ended ones are folded first, and counted. The figures of the top agent are those of
/// this run; at its end, those of a resumed session are below them.
pub(super) fn lines(
    snapshot: &SessionSnapshot,
    earlier: Option<&RunFigures>,
    now: u64,
    columns: usize,
    most: usize,
) -> Vec<ScreenLine> {
    let Some(top) = snapshot.top() else { return Vec::new() };
    if most == 0 || columns == 0 {
        return Vec::new();
    }
    let totals = snapshot.subtree_totals();
    let todo = todo_line(top).filter(|_| most > 1);
    let used = 1 + usize::from(todo.is_some());
    let processes = process_line(snapshot).filter(|_| most > used);
    let used = used + usize::from(processes.is_some());
    let session = session_line(snapshot, top, now).filter(|_| earlier.is_some() && most > used);
    let below_top: Vec<ScreenLine> = todo.into_iter().chain(processes).chain(session).collect();
    let shown = choose(snapshot, top, &totals, most - below_top.len());
    let mut page = TreePage { snapshot, earlier, totals, shown, now, columns, lines: Vec::new() };
    page.agent(top, "", "");
    page.lines.splice(1..1, below_top.into_iter().map(|line| line.fit(columns)));
    page.lines
}

/// Returns where the top agent is in its todo list, while it works; `None` without a list. Children
/// have none.
fn todo_line(agent: &AgentSnapshot) -> Option<ScreenLine> {
    if agent.todo.is_empty() || agent.exit.is_some() {
        return None;
    }
    let done = agent.todo.iter().filter(|item| item.state == TodoState::Done).count();
    let current = agent.todo.iter().find(|item| item.state == TodoState::InProgress);
    let mut line = ScreenLine::default();
    line.push(Style::Dim, format!("  {done} of {} done", agent.todo.len()));
    if let Some(current) = current {
        let text = for_terminal_line(&current.text, TODO_CHARS);
        line.push(Style::Plain, format!("  {text}"));
    }
    Some(line)
}

/// Returns the figures of a session that has ended, with its earlier runs.
fn session_line(snapshot: &SessionSnapshot, top: &AgentSnapshot, now: u64) -> Option<ScreenLine> {
    let figures = RunFigures::of_session(snapshot, now).filter(|_| top.exit.is_some())?;
    let text = format!("  session: {}", figures.text(usize::MAX));
    Some(ScreenLine::default().with(Style::Dim, text))
}

/// Returns the background commands that run; `None` without one.
fn process_line(snapshot: &SessionSnapshot) -> Option<ScreenLine> {
    let running: Vec<String> = snapshot
        .agents()
        .filter(|agent| agent.exit.is_none())
        .flat_map(|agent| &agent.processes)
        .map(|start| {
            format!("{} {}", start.process, for_verbatim_line(&start.command, PROCESS_CHARS))
        })
        .collect();
    if running.is_empty() {
        return None;
    }
    let mut line = ScreenLine::default();
    line.push(Style::Dim, "  in the background:");
    line.push(Style::Plain, format!("  {}", running.join("; ")));
    Some(line)
}

/// Returns which agents get a line of their own: the top one; then those that run or have something
/// running below, from the top down; then failed ones; then the latest of the completed.
fn choose<'s>(
    snapshot: &'s SessionSnapshot,
    top: &'s AgentSnapshot,
    totals: &BTreeMap<&AgentId, TreeTotals>,
    most: usize,
) -> BTreeSet<&'s AgentId> {
    let rank = |agent: &&AgentSnapshot| {
        let total = totals.get(&agent.id).copied().unwrap_or_default();
        let latest = u64::MAX - agent.exit.as_ref().map_or(0, |exit| exit.at);
        match (total.running > 0, total.failed > 0) {
            (true, _) => (0, agent.depth, 0),
            (false, true) => (1, agent.depth, latest),
            (false, false) => (2, agent.depth, latest),
        }
    };
    let mut order: Vec<&AgentSnapshot> =
        snapshot.agents().filter(|agent| agent.id != top.id).collect();
    order.sort_by_key(rank);
    let mut shown = BTreeSet::from([&top.id]);
    let mut used = 1;
    let mut shown_below: BTreeMap<&AgentId, usize> = BTreeMap::new();
    for agent in order {
        let Some(parent) = agent.parent.as_ref().filter(|parent| shown.contains(parent)) else {
            continue;
        };
        let all = snapshot.children(parent).len();
        let before = shown_below.get(parent).copied().unwrap_or(0);
        let after = used + 1 + remark_lines(all, before + 1) - remark_lines(all, before);
        if after <= most {
            used = after;
            shown.insert(&agent.id);
            shown_below.insert(parent, before + 1);
        }
    }
    shown
}

/// Returns the number of lines about hidden children. If all are hidden, the parent's own line says
/// so.
fn remark_lines(all: usize, shown: usize) -> usize {
    usize::from(shown > 0 && shown < all)
}

struct TreePage<'s> {
    snapshot: &'s SessionSnapshot,
    earlier: Option<&'s RunFigures>,
    totals: BTreeMap<&'s AgentId, TreeTotals>,
    shown: BTreeSet<&'s AgentId>,
    now: u64,
    columns: usize,
    lines: Vec<ScreenLine>,
}

impl TreePage<'_> {
    fn total(&self, id: &AgentId) -> TreeTotals {
        self.totals.get(id).copied().unwrap_or_default()
    }

    fn agent(&mut self, agent: &AgentSnapshot, branch: &str, indent: &str) {
        let children = self.snapshot.children(&agent.id).iter();
        let (shown, hidden): (Vec<&AgentId>, Vec<&AgentId>) =
            children.partition(|child| self.shown.contains(child));
        let folded: TreeTotals = hidden.iter().map(|child| self.total(child)).sum();
        let own_remark = if shown.is_empty() { folded } else { TreeTotals::default() };
        let line = self.line(agent, branch, own_remark);
        self.lines.push(line);
        let remark = !shown.is_empty() && !hidden.is_empty();
        for (place, child) in shown.iter().enumerate() {
            let last = place + 1 == shown.len() && !remark;
            let (branch, below) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            let Some(child) = self.snapshot.agent(child) else { continue };
            self.agent(child, &format!("{indent}{branch}"), &format!("{indent}{below}"));
        }
        if remark {
            let text = format!("{} more: {}", folded.agents(), folded_words(folded));
            let line = ScreenLine::default().with(Style::Dim, format!("{indent}└─ {text}"));
            self.lines.push(line.fit(self.columns));
        }
    }

    fn line(&self, agent: &AgentSnapshot, branch: &str, folded: TreeTotals) -> ScreenLine {
        let mut line = ScreenLine::default().with(Style::Dim, branch);
        let asks = agent.activity() == AgentActivity::Asking;
        let (mark, style) = mark(agent.activity());
        line.push(style, format!("{mark} "));
        if let Some(position) = agent.task_position() {
            line.push(Style::Dim, format!("[{position}] "));
        }
        let left = self.columns.saturating_sub(line.width());
        let figures = self.figures(agent, left / 2);
        let left = left.saturating_sub(width(&figures) + 2);
        let goal = goal_text(self.snapshot, agent);
        let (goal, note) = share(&goal, &note(agent, folded), left);
        let goal_style = if agent.exit.is_none() { Style::Bold } else { Style::Plain };
        line.push(goal_style, goal);
        if !note.is_empty() {
            line.push(Style::Plain, "  ");
            line.push(if asks { Style::Asking } else { Style::Busy }, note);
        }
        let gap = self.columns.saturating_sub(line.width() + width(&figures));
        if !figures.is_empty() {
            line.push(Style::Plain, " ".repeat(gap));
            line.push(Style::Dim, figures);
        }
        line.fit(self.columns)
    }

    /// Returns figures of the whole subtree, as many as fit. Those of the top agent are of this run.
    fn figures(&self, agent: &AgentSnapshot, columns: usize) -> String {
        let total = self.total(&agent.id);
        let figures = match self.earlier.filter(|_| agent.parent.is_none()) {
            None => RunFigures::new(agent, &total, age(agent, self.now)),
            Some(earlier) => {
                RunFigures::new(agent, &total, agent.elapsed_ms(self.now)).since(earlier)
            }
        };
        figures.text(columns)
    }
}

/// Returns how the agents stand that have no line of their own.
fn folded_words(totals: TreeTotals) -> String {
    let TreeTotals { running, completed, failed, .. } = totals;
    let parts = [(running, "running"), (completed, "done"), (failed, "failed")];
    let parts = parts.into_iter().filter(|(n, _)| *n > 0);
    let parts: Vec<String> = parts.map(|(n, what)| format!("{n} {what}")).collect();
    parts.join(", ")
}

const fn mark(activity: AgentActivity) -> (&'static str, Style) {
    match activity {
        AgentActivity::Asking => ("?", Style::Asking),
        AgentActivity::Ended(Status::Completed) => ("✓", Style::Good),
        AgentActivity::Ended(Status::Interrupted) => ("■", Style::Asking),
        AgentActivity::Ended(Status::Failed | Status::Error | Status::Timeout) => ("✗", Style::Bad),
        _ => ("●", Style::Busy),
    }
}

/// Returns what an agent does now, and what is folded below it.
fn note(agent: &AgentSnapshot, folded: TreeTotals) -> String {
    let activity = activity_text(agent);
    match (folded.agents(), activity.is_empty()) {
        (0, _) => activity,
        (below, true) => format!("({below} below: {})", folded_words(folded)),
        (below, false) => format!("({below} below: {}) {activity}", folded_words(folded)),
    }
}

/// Returns how long an agent has been there, in milliseconds.
fn age(agent: &AgentSnapshot, now: u64) -> u64 {
    agent.exit.as_ref().map_or(now, |exit| exit.at).saturating_sub(agent.times.started)
}

/// Divides columns between a goal and a note: the note gets what the goal leaves, and takes
/// from the goal only when the goal keeps more than half.
fn share(goal: &str, note: &str, columns: usize) -> (String, String) {
    if note.is_empty() || columns < GOAL_COLUMNS * 2 {
        return (truncate_columns(goal, columns), String::new());
    }
    let for_note = width(note) + 2;
    let goal = truncate_columns(goal, columns.saturating_sub(for_note).max(columns / 2));
    let left = columns.saturating_sub(width(&goal) + 2);
    let note = truncate_columns(note, left);
    (goal, note)
}

#[cfg(test)]
mod tests;
