//! Who writes the screen: what comes next, and when.

use std::time::{Duration, Instant};

use super::Detail;
use super::changes::change_lines;
use super::failures::failure_lines;
use super::frame::frame;
use super::layout;
use super::line::ScreenLine;
use super::screen_state::{DrawState, ScreenState};
use super::surface::Surface;

/// Minimum time between two drawings of the tree.
const FRAME: Duration = Duration::from_millis(100);
/// Minimum time between two writes of progress lines. Nobody reads faster, and waking the writer
/// for each line would slow the run.
const PAUSE: Duration = Duration::from_millis(25);
/// After which time a drawing is looked at again although nothing happened: times go on.
const TICK: Duration = Duration::from_secs(1);
/// Limit on the lines of the tree, while it is live and at its end.
const MOST_LINES: usize = 30;

/// The terminal, and what stands on it.
pub(super) struct ScreenWriter {
    surface: Surface,
    /// The tree as it is on the terminal now.
    drawn: Vec<ScreenLine>,
    drawn_columns: usize,
    /// When the tree was drawn last, or lines were written.
    pub(super) drawn_at: Option<Instant>,
}

/// Next step of a writer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WriterStep {
    /// Writes this.
    Write(Vec<u8>),
    /// Waits until something happens, at most so long.
    Wait(Option<Duration>),
}

impl ScreenWriter {
    pub(super) const fn new(surface: Surface) -> Self {
        Self { surface, drawn: Vec::new(), drawn_columns: 0, drawn_at: None }
    }

    /// Returns the next step, and updates the state as if it were done.
    pub(super) fn next(&mut self, state: &mut ScreenState) -> WriterStep {
        let frame = match state.drawing.end {
            DrawState::Asked => self.last(state),
            DrawState::Drawn => self.lines(state),
            DrawState::No if state.drawing.pauses > 0 => {
                if state.drawing.held {
                    return WriterStep::Wait(None);
                }
                state.drawing.held = true;
                self.lines(state)
            }
            DrawState::No => {
                state.drawing.held = false;
                if state.live {
                    return self.tree(state);
                }
                if let Some(left) = self.left_of(PAUSE) {
                    // As if there were news already: nobody wakes a drawer for more of them.
                    state.drawing.dirty = true;
                    return WriterStep::Wait(Some(left));
                }
                let frame = self.lines(state);
                self.drawn_at = (!frame.is_empty()).then(Instant::now);
                frame
            }
        };
        if frame.is_empty() { WriterStep::Wait(None) } else { WriterStep::Write(frame) }
    }

    /// Writes a frame at once, so that a terminal never shows half of one.
    pub(super) fn write(&mut self, frame: &[u8]) {
        let _unseen = self.surface.out.write_all(frame).and_then(|()| self.surface.out.flush());
    }

    /// The tree in place of what was drawn, when it changed, at most once a [`FRAME`].
    fn tree(&mut self, state: &mut ScreenState) -> WriterStep {
        let due = match (state.drawing.dirty, state.snapshot.is_running()) {
            (true, _) => FRAME,
            (false, true) => TICK,
            (false, false) => return WriterStep::Wait(None),
        };
        if let Some(left) = self.left_of(due) {
            return WriterStep::Wait(Some(left));
        }
        state.drawing.dirty = false;
        self.drawn_at = Some(Instant::now());
        let frame = self.redraw(state);
        if frame.is_empty() { WriterStep::Wait(Some(FRAME)) } else { WriterStep::Write(frame) }
    }

    /// Returns the rest of a time since the last drawing; `None` if it has passed.
    fn left_of(&self, time: Duration) -> Option<Duration> {
        let left = time.checked_sub(self.drawn_at?.elapsed());
        left.filter(|left| !left.is_zero())
    }

    fn redraw(&mut self, state: &mut ScreenState) -> Vec<u8> {
        let (columns, rows) = self.size();
        // The last column stays free: a cursor behind it would be on either of two rows.
        let columns = columns.saturating_sub(1);
        let most = rows.saturating_sub(2).min(MOST_LINES);
        let now = self.surface.clock.now_ms();
        let tree = tree_lines(state, now, columns, most);
        if state.lines.is_empty() && tree == self.drawn && columns == self.drawn_columns {
            return Vec::new();
        }
        let above = wrap_lines(state.lines.take(), columns);
        let frame = frame(&self.drawn, &above, &tree, columns + 1, self.surface.colour);
        self.drawn = tree;
        self.drawn_columns = columns;
        frame
    }

    /// Takes the tree off the terminal and prints the lines that wait.
    fn lines(&mut self, state: &mut ScreenState) -> Vec<u8> {
        state.drawing.dirty = false;
        let columns = self.size().0;
        let lines = wrap_lines(state.lines.take(), columns.saturating_sub(1));
        let drawn = std::mem::take(&mut self.drawn);
        frame(&drawn, &lines, &[], columns, self.surface.colour)
    }

    /// The end: the tree as it ended, for good, what was changed, and which agents failed.
    fn last(&mut self, state: &mut ScreenState) -> Vec<u8> {
        let mut out = self.lines(state);
        state.drawing.end = DrawState::Drawn;
        let columns = self.size().0;
        let mut lines = Vec::new();
        if state.live {
            let now = self.surface.clock.now_ms();
            lines = tree_lines(state, now, columns.saturating_sub(1), MOST_LINES);
        }
        if state.detail != Detail::Quiet {
            // What an earlier run changed was shown at its end.
            let changes = state.has_news.then(|| state.snapshot.changes());
            let lines_of = |changes| change_lines(changes, &self.surface.cwd);
            lines.extend(changes.map(lines_of).unwrap_or_default());
        }
        lines.extend(failure_lines(&state.snapshot, columns.saturating_sub(1)));
        let lines = wrap_lines(lines, columns.saturating_sub(1));
        out.extend(frame(&[], &lines, &[], columns, self.surface.colour));
        out
    }

    fn size(&self) -> (usize, usize) {
        self.surface.size.as_ref().map_or((usize::MAX, usize::MAX), |size| size())
    }
}

/// Returns the tree of agents, once something happens in this run.
fn tree_lines(state: &ScreenState, now: u64, columns: usize, most: usize) -> Vec<ScreenLine> {
    if !state.has_news {
        return Vec::new();
    }
    layout::lines(&state.snapshot, state.plain.earlier.as_ref(), now, columns, most)
}

/// Lines as they stand on a terminal of so many columns.
fn wrap_lines(lines: Vec<ScreenLine>, columns: usize) -> Vec<ScreenLine> {
    lines.into_iter().flat_map(|line| line.wrap(columns)).collect()
}
