//! A list of what is on record, with room for so many bytes.

use std::collections::BTreeSet;

use deputize_core::sanitize::for_terminal_line;

/// Maximum number of lines of each list, however much room there is; the last ones are shown.
const MOST_LINES: usize = 60;
/// Maximum number of characters of a line before one that is open is left out.
const SHORT_LINE_CHARS: usize = 80;
/// Bytes beside the title of a list.
const BESIDE_TITLE: usize = " (1000 earlier ones are left out):\n\n".len();
/// Bytes beside the text of a line.
const BESIDE_LINE: usize = "\n- ".len();

/// How much the agent needs a line; what it needs least is left out first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LineRank {
    /// It is done, or ended.
    Past,
    /// It is still to do, or runs.
    Open,
    /// It is in progress.
    Current,
}

pub(super) struct RecordLine {
    pub(super) rank: LineRank,
    pub(super) text: String,
}

/// Lines of one kind, of which some may be left out.
pub(super) struct RecordList {
    title: &'static str,
    lines: Vec<RecordLine>,
    left_out: usize,
    /// Whether one was left out after one that was shown.
    has_gap: bool,
    is_short: bool,
}

impl RecordList {
    pub(super) fn new(title: &'static str, lines: Vec<RecordLine>) -> Self {
        let left_out = lines.len().saturating_sub(MOST_LINES);
        let mut order: Vec<(LineRank, usize)> =
            lines.iter().enumerate().map(|(at, line)| (line.rank, at)).collect();
        order.sort_unstable();
        let gone: BTreeSet<usize> = order.iter().take(left_out).map(|(_, at)| *at).collect();
        let has_gap = gone.last().is_some_and(|last| *last >= left_out);
        let lines = lines.into_iter().enumerate().filter(|(at, _)| !gone.contains(at));
        let lines = lines.map(|(_, line)| line).collect();
        Self { title, lines, left_out, has_gap, is_short: false }
    }

    /// Returns the rank of the line that would be left out first.
    pub(super) fn first_rank(&self) -> Option<LineRank> {
        self.lines.iter().map(|line| line.rank).min()
    }

    pub(super) fn bytes(&self) -> usize {
        let lines = self.lines.iter().map(|line| line.text.len() + BESIDE_LINE);
        self.title.len() + BESIDE_TITLE + lines.sum::<usize>()
    }

    /// Leaves a line out; before it is an open one, shortens all once. Whether there was any.
    pub(super) fn shrink(&mut self) -> bool {
        let Some(rank) = self.first_rank() else { return false };
        if rank > LineRank::Past && !self.is_short {
            self.is_short = true;
            for line in &mut self.lines {
                line.text = for_terminal_line(&line.text, SHORT_LINE_CHARS);
            }
            return true;
        }
        let Some(at) = self.lines.iter().position(|line| line.rank == rank) else { return false };
        self.lines.remove(at);
        self.left_out += 1;
        self.has_gap |= at > 0;
        true
    }

    pub(super) fn render(&self) -> String {
        let mut out = self.title.to_owned();
        if self.left_out > 0 {
            let which = if self.has_gap { "more" } else { "earlier ones" };
            out += &format!(" ({} {which} are left out)", self.left_out);
        }
        out.push(':');
        for line in &self.lines {
            out.push_str("\n- ");
            out.push_str(&line.text);
        }
        out
    }
}
