//! From the tree to lines: which agents get one, and what is in it. Pure.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use deputize_core::budget::Cost;
use deputize_core::{AgentId, Status};

use super::line::{ScreenLine, Style, cut, width};
use super::summary::{dollars, running, tokens};
use super::tree::{NodeActivity, ScreenTree, TreeNode};

/// Columns that a goal is left before what an agent does now is told beside it.
const GOAL_COLUMNS: usize = 12;

/// The tree in at most so many lines of at most so many columns. When it has more agents than
/// lines, those that have ended are folded first, and counted.
pub(crate) fn lines(tree: &ScreenTree, now: u64, columns: usize, most: usize) -> Vec<ScreenLine> {
    let Some(top) = tree.top() else { return Vec::new() };
    if most == 0 || columns == 0 {
        return Vec::new();
    }
    let counts = SubtreeCounts::of(tree, top);
    let shown = choose(tree, top, &counts, most);
    let mut page =
        TreePage { tree, counts: &counts, shown: &shown, now, columns, lines: Vec::new() };
    page.agent(top, "", "");
    page.lines
}

/// What is below and including an agent.
#[derive(Debug, Clone, Copy, Default)]
struct SubtreeCount {
    running: usize,
    completed: usize,
    failed: usize,
    tokens: u64,
    cost: Cost,
}

impl SubtreeCount {
    fn add(&mut self, other: Self) {
        self.running += other.running;
        self.completed += other.completed;
        self.failed += other.failed;
        self.tokens += other.tokens;
        self.cost += other.cost;
    }

    const fn agents(self) -> usize {
        self.running + self.completed + self.failed
    }

    fn words(self) -> String {
        let parts = [(self.running, "running"), (self.completed, "done"), (self.failed, "failed")];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| format!("{n} {what}"))
            .collect();
        parts.join(", ")
    }
}

/// The count of each agent's subtree, and the agents from the top down.
struct SubtreeCounts {
    by_agent: BTreeMap<AgentId, SubtreeCount>,
    top_down: Vec<AgentId>,
}

impl SubtreeCounts {
    fn of(tree: &ScreenTree, top: &AgentId) -> Self {
        let mut top_down = Vec::new();
        let mut queue = VecDeque::from([top.clone()]);
        while let Some(id) = queue.pop_front() {
            queue.extend(tree.get(&id).into_iter().flat_map(|node| node.children.iter().cloned()));
            top_down.push(id);
        }
        let mut by_agent: BTreeMap<AgentId, SubtreeCount> = BTreeMap::new();
        for id in top_down.iter().rev() {
            let Some(node) = tree.get(id) else { continue };
            let mut count = own(node);
            for child in node.children.iter().filter_map(|child| by_agent.get(child)) {
                count.add(*child);
            }
            by_agent.insert(id.clone(), count);
        }
        Self { by_agent, top_down }
    }

    fn get(&self, id: &AgentId) -> SubtreeCount {
        self.by_agent.get(id).copied().unwrap_or_default()
    }
}

fn own(node: &TreeNode) -> SubtreeCount {
    let tokens = node.usage.input.saturating_add(node.usage.output);
    let count = SubtreeCount { tokens, cost: node.cost, ..SubtreeCount::default() };
    match node.ended {
        None => SubtreeCount { running: 1, ..count },
        Some(Status::Completed) => SubtreeCount { completed: 1, ..count },
        Some(Status::Failed | Status::Error | Status::Timeout | Status::Interrupted) => {
            SubtreeCount { failed: 1, ..count }
        }
    }
}

/// Which agents get a line of their own: the top one; then those that run or have something
/// running below, from the top down; then failed ones; then the latest of the completed.
fn choose(
    tree: &ScreenTree,
    top: &AgentId,
    counts: &SubtreeCounts,
    most: usize,
) -> BTreeSet<AgentId> {
    let rank = |id: &&AgentId| {
        let count = counts.get(id);
        let latest = tree.get(id).map_or(0, |node| u64::MAX - node.finished);
        let depth = id.as_str().matches('/').count();
        match (count.running > 0, count.failed > 0) {
            (true, _) => (0, depth, 0),
            (false, true) => (1, depth, latest),
            (false, false) => (2, depth, latest),
        }
    };
    let mut order: Vec<&AgentId> = counts.top_down.iter().filter(|id| *id != top).collect();
    order.sort_by_key(rank);
    let mut shown = BTreeSet::from([top.clone()]);
    let mut used = 1;
    let mut shown_below: BTreeMap<&AgentId, usize> = BTreeMap::new();
    let parents = parents(tree, counts);
    for id in order {
        let Some(parent) = parents.get(id).filter(|parent| shown.contains(**parent)) else {
            continue;
        };
        let all = tree.get(parent).map_or(0, |node| node.children.len());
        let before = shown_below.get(parent).copied().unwrap_or(0);
        let after = used + 1 + remark_lines(all, before + 1) - remark_lines(all, before);
        if after <= most {
            used = after;
            shown.insert(id.clone());
            shown_below.insert(parent, before + 1);
        }
    }
    shown
}

fn parents<'t>(
    tree: &'t ScreenTree,
    counts: &'t SubtreeCounts,
) -> BTreeMap<&'t AgentId, &'t AgentId> {
    let pairs = counts.top_down.iter().filter_map(|id| Some((id, tree.get(id)?)));
    pairs.flat_map(|(id, node)| node.children.iter().map(move |child| (child, id))).collect()
}

/// Lines that tell of hidden children. When all are hidden, their parent's own line tells it.
fn remark_lines(all: usize, shown: usize) -> usize {
    usize::from(shown > 0 && shown < all)
}

struct TreePage<'t> {
    tree: &'t ScreenTree,
    counts: &'t SubtreeCounts,
    shown: &'t BTreeSet<AgentId>,
    now: u64,
    columns: usize,
    lines: Vec<ScreenLine>,
}

impl TreePage<'_> {
    fn agent(&mut self, id: &AgentId, branch: &str, indent: &str) {
        let Some(node) = self.tree.get(id) else { return };
        let (shown, hidden): (Vec<&AgentId>, Vec<&AgentId>) =
            node.children.iter().partition(|child| self.shown.contains(*child));
        let mut folded = SubtreeCount::default();
        hidden.iter().for_each(|child| folded.add(self.counts.get(child)));
        let own_remark = if shown.is_empty() { folded } else { SubtreeCount::default() };
        let line = self.line(node, self.counts.get(id), branch, own_remark);
        self.lines.push(line);
        let remark = !shown.is_empty() && !hidden.is_empty();
        for (place, child) in shown.iter().enumerate() {
            let last = place + 1 == shown.len() && !remark;
            let (branch, below) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.agent(child, &format!("{indent}{branch}"), &format!("{indent}{below}"));
        }
        if remark {
            let text = format!("{} more: {}", folded.agents(), folded.words());
            let line = ScreenLine::default().with(Style::Dim, format!("{indent}└─ {text}"));
            self.lines.push(line.fit(self.columns));
        }
    }

    fn line(
        &self,
        node: &TreeNode,
        count: SubtreeCount,
        branch: &str,
        folded: SubtreeCount,
    ) -> ScreenLine {
        let mut line = ScreenLine::default().with(Style::Dim, branch);
        let (mark, style) = mark(node);
        line.push(style, format!("{mark} "));
        if !node.tag.is_empty() {
            let own = node.tag.rsplit('.').next().unwrap_or_default();
            line.push(Style::Dim, format!("[{own}] "));
        }
        let left = self.columns.saturating_sub(line.width());
        let figures = figures(node, count, self.now, left / 2);
        let left = left.saturating_sub(width(&figures) + 2);
        let (goal, note) = share(&node.goal, &note(node, folded), left);
        let goal_style = if node.ended.is_none() { Style::Bold } else { Style::Plain };
        line.push(goal_style, goal);
        if !note.is_empty() {
            let asks = matches!(node.doing, NodeActivity::Question(_)) && node.ended.is_none();
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
}

const fn mark(node: &TreeNode) -> (&'static str, Style) {
    match node.ended {
        None if matches!(node.doing, NodeActivity::Question(_)) => ("?", Style::Asking),
        None => ("●", Style::Busy),
        Some(Status::Completed) => ("✓", Style::Good),
        Some(Status::Interrupted) => ("■", Style::Asking),
        Some(Status::Failed | Status::Error | Status::Timeout) => ("✗", Style::Bad),
    }
}

/// What an agent does now, and what is folded below it.
fn note(node: &TreeNode, folded: SubtreeCount) -> String {
    let doing = match (&node.ended, &node.doing) {
        (Some(Status::Timeout), _) => "time limit".to_owned(),
        (Some(Status::Interrupted), _) => "interrupted".to_owned(),
        // What the top agent failed of is told at the very end.
        (Some(Status::Failed | Status::Error), _) if !node.tag.is_empty() => {
            node.error.clone().unwrap_or_default()
        }
        (Some(Status::Completed | Status::Failed | Status::Error), _) => String::new(),
        (None, NodeActivity::Starting) => "starting".to_owned(),
        (None, NodeActivity::Model) => "thinking".to_owned(),
        (None, NodeActivity::Retry { attempt, of }) => format!("retry {attempt} of {of}"),
        (None, NodeActivity::Call(call)) => call.clone(),
        (None, NodeActivity::Question(command)) => format!("asks: {command}"),
        (None, NodeActivity::Resting) => "waits for its children".to_owned(),
        (None, NodeActivity::Stalled(None)) => "stalled".to_owned(),
        (None, NodeActivity::Stalled(Some(tool))) => format!("stalled in {tool}"),
        (None, NodeActivity::Stopping) => "ending".to_owned(),
    };
    match (folded.agents(), doing.is_empty()) {
        (0, _) => doing,
        (below, true) => format!("({below} below: {})", folded.words()),
        (below, false) => format!("({below} below: {}) {doing}", folded.words()),
    }
}

/// Steps, tokens and dollars of the whole subtree, time: as many of them as fit.
fn figures(node: &TreeNode, count: SubtreeCount, now: u64, columns: usize) -> String {
    let time = running(node.elapsed(now));
    let tokens = tokens(count.tokens);
    let steps = super::summary::count(node.steps as usize, "step");
    let cost = dollars(count.cost.known_usd()).map(|usd| format!(" · {usd}")).unwrap_or_default();
    let short = format!("{tokens} · {time}");
    [
        format!("{steps} · {tokens} tok{cost} · {time}"),
        format!("{tokens}{cost} · {time}"),
        short,
        time,
    ]
    .into_iter()
    .find(|figures| width(figures) <= columns)
    .unwrap_or_default()
}

/// Divides columns between a goal and a note: the note gets what the goal leaves, and takes
/// from the goal only when the goal keeps more than half.
fn share(goal: &str, note: &str, columns: usize) -> (String, String) {
    if note.is_empty() || columns < GOAL_COLUMNS * 2 {
        return (cut(goal, columns), String::new());
    }
    let for_note = width(note) + 2;
    let goal = cut(goal, columns.saturating_sub(for_note).max(columns / 2));
    let left = columns.saturating_sub(width(&goal) + 2);
    let note = cut(note, left);
    (goal, note)
}

#[cfg(test)]
mod tests;
