//! Lines that wait to be printed: so many that a stopped terminal costs little memory.

use std::collections::VecDeque;

use super::line::{ScreenLine, Style};
use deputize_core::wording::count;

/// Limit on queued lines, in bytes; beyond it, the oldest are dropped.
pub(super) const WAITING_BYTES: usize = 1024 * 1024;

/// The newest lines, and how many older ones gave way.
#[derive(Debug, Default)]
pub(super) struct LineBacklog {
    lines: VecDeque<ScreenLine>,
    bytes: usize,
    dropped: usize,
}

impl LineBacklog {
    pub(super) const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub(super) fn push(&mut self, line: ScreenLine) {
        self.bytes += cost(&line);
        self.lines.push_back(line);
        while self.bytes > WAITING_BYTES && self.lines.len() > 1 {
            self.bytes -= self.lines.pop_front().as_ref().map_or(0, cost);
            self.dropped += 1;
        }
    }

    pub(super) fn extend(&mut self, lines: impl IntoIterator<Item = ScreenLine>) {
        lines.into_iter().for_each(|line| self.push(line));
    }

    /// All that waits, behind a word on what gave way.
    pub(super) fn take(&mut self) -> Vec<ScreenLine> {
        let Self { lines, dropped, .. } = std::mem::take(self);
        let gone = (dropped > 0).then(|| {
            let text = format!("({} left out: they were not read in time)", count(dropped, "line"));
            ScreenLine::default().with(Style::Asking, text)
        });
        gone.into_iter().chain(lines).collect()
    }
}

/// Returns the bytes of a line, its end included.
fn cost(line: &ScreenLine) -> usize {
    line.bytes() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_give_way_and_are_counted() {
        let mut waiting = LineBacklog::default();
        let line = |n: usize| ScreenLine::default().with(Style::Plain, format!("{n:0>1023}"));
        waiting.extend((0..1030).map(line));
        let lines = waiting.take();
        assert_eq!(lines.len(), 1025);
        assert_eq!(lines[0].render(false), "(6 lines left out: they were not read in time)");
        assert!(lines[1].render(false).ends_with("06"));
        assert!(waiting.is_empty() && waiting.take().is_empty());
    }

    #[test]
    fn one_line_may_be_longer() {
        let mut waiting = LineBacklog::default();
        waiting.push(ScreenLine::default().with(Style::Plain, "x".repeat(2 * WAITING_BYTES)));
        assert!(!waiting.is_empty());
        waiting.push(ScreenLine::default());
        assert_eq!(waiting.take().len(), 2);
    }
}
