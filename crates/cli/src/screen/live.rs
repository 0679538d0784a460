//! The screen: a tree that is redrawn in place on a terminal, plain lines elsewhere.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossterm::cursor::{MoveToColumn, MoveUp};
use crossterm::queue;
use crossterm::terminal::{Clear, ClearType, DisableLineWrap, EnableLineWrap};
use deputize_core::{AgentId, Clock, Delta, Observer, Record};

use super::Detail;
use super::changes::Changes;
use super::layout;
use super::line::Line;
use super::plain::Plain;
use super::tree::Tree;

/// The least time between two drawings.
const FRAME: Duration = Duration::from_millis(100);
/// After which time a drawing is looked at again although nothing happened: times go on.
const TICK: Duration = Duration::from_secs(1);
/// The most lines of the tree while it is live, and when it is over.
const MOST_LINES: usize = 30;

/// Where and how the screen draws.
pub(crate) struct Surface {
    /// Standard error.
    pub(crate) out: Box<dyn Write + Send>,
    /// Columns and rows of the terminal, asked anew for each drawing. Nothing: it is no
    /// terminal that a cursor can be moved on, and lines are printed instead.
    pub(crate) size: Option<Size>,
    /// Whether colours may be used.
    pub(crate) colour: bool,
    /// How much is told.
    pub(crate) detail: Detail,
    /// Paths are told from here.
    pub(crate) cwd: PathBuf,
    /// What time it is, for running times.
    pub(crate) clock: Arc<dyn Clock>,
}

/// Asks for columns and rows.
pub(crate) type Size = Box<dyn Fn() -> (usize, usize) + Send>;

/// Shows what happens. It never stops a run: what cannot be written is not shown.
pub(crate) struct Screen {
    shared: Arc<Shared>,
    drawer: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    surface: Surface,
    tree: Tree,
    plain: Plain,
    changes: Changes,
    /// Lines that wait to be printed, for good.
    lines: Vec<Line>,
    /// The tree as it is on the terminal now.
    drawn: Vec<Line>,
    drawn_columns: usize,
    pauses: usize,
    dirty: bool,
    over: bool,
}

impl Screen {
    /// A screen that shows nothing yet. On a terminal it draws from a thread of its own, which
    /// ends with [`Screen::finish`].
    pub(crate) fn start(mut surface: Surface) -> io::Result<Self> {
        if surface.detail == Detail::Quiet {
            surface.size = None;
        }
        let live = surface.size.is_some();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                surface,
                tree: Tree::default(),
                plain: Plain::default(),
                changes: Changes::default(),
                lines: Vec::new(),
                drawn: Vec::new(),
                drawn_columns: 0,
                pauses: 0,
                dirty: false,
                over: false,
            }),
            wake: Condvar::new(),
        });
        let drawer = if live {
            let shared = Arc::clone(&shared);
            Some(thread::Builder::new().name("screen".to_owned()).spawn(move || shared.draw())?)
        } else {
            None
        };
        Ok(Self { shared, drawer: Mutex::new(drawer) })
    }

    /// Takes a record of an earlier run, which is not told again.
    pub(crate) fn prime(&self, record: &Record) {
        self.shared.lock().tree.apply(record);
    }

    /// Takes the tree off the terminal and holds everything back until the guard is dropped,
    /// so that something can be asked.
    pub(crate) fn pause(&self) -> Paused {
        let mut state = self.shared.lock();
        state.flush();
        state.erase();
        state.pauses += 1;
        Paused(Arc::clone(&self.shared))
    }

    /// Prints a line above the tree.
    pub(crate) fn say(&self, line: Line) {
        let mut state = self.shared.lock();
        state.lines.push(line);
        state.changed();
        self.shared.wake.notify_all();
    }

    /// Ends the drawing. The tree stays as it ended, and what was changed is told below it.
    pub(crate) fn finish(&self) {
        let drawer = self.drawer.lock().unwrap_or_else(PoisonError::into_inner).take();
        {
            let mut state = self.shared.lock();
            if state.over {
                return;
            }
            state.over = true;
            self.shared.wake.notify_all();
        }
        if let Some(drawer) = drawer {
            // A drawer that panicked has nothing left to draw.
            let _ended = drawer.join();
        }
        self.shared.lock().last();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Observer for Screen {
    fn see(&self, record: &Record) {
        let mut state = self.shared.lock();
        state.see(record);
        drop(state);
        self.shared.wake.notify_all();
    }

    fn live(&self, agent: &AgentId, delta: Delta<'_>) {
        let mut state = self.shared.lock();
        if state.surface.detail == Detail::Verbose {
            let State { plain, tree, lines, .. } = &mut *state;
            lines.extend(plain.delta(tree, agent, delta));
            state.changed();
            drop(state);
            self.shared.wake.notify_all();
        }
    }
}

/// While it lives, nothing is drawn.
pub(crate) struct Paused(Arc<Shared>);

impl Drop for Paused {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.pauses = state.pauses.saturating_sub(1);
        state.changed();
        drop(state);
        self.0.wake.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws when something changed, at most once a [`FRAME`].
    fn draw(&self) {
        let mut state = self.lock();
        while !state.over {
            if state.pauses == 0 && state.dirty {
                state.redraw();
                let next = Instant::now() + FRAME;
                while let Some(left) = next.checked_duration_since(Instant::now())
                    && !state.over
                {
                    state = self.wait(state, left);
                }
                continue;
            }
            let running = state.tree.is_running();
            state = self.wait(state, TICK);
            state.dirty |= running;
        }
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>, most: Duration) -> MutexGuard<'s, State> {
        self.wake.wait_timeout(state, most).unwrap_or_else(PoisonError::into_inner).0
    }
}

impl State {
    fn see(&mut self, record: &Record) {
        self.tree.apply(record);
        self.changes.apply(record);
        let detail = self.surface.detail;
        let lines = self.plain.lines(&self.tree, record, detail);
        // A live tree tells what plain lines tell; only remarks and details stand above it.
        let remark = matches!(record.event, deputize_core::Event::Log { .. });
        if self.surface.size.is_none() || remark || detail == Detail::Verbose {
            self.lines.extend(lines);
        }
        self.changed();
    }

    /// Something is to be shown: at once where lines are printed, soon where a tree is drawn.
    fn changed(&mut self) {
        self.dirty = true;
        if self.surface.size.is_none() && self.pauses == 0 {
            self.flush();
        }
    }

    fn redraw(&mut self) {
        self.dirty = false;
        let Some(size) = &self.surface.size else { return };
        let (columns, rows) = size();
        // The last column stays free: a cursor behind it would be on either of two rows.
        let columns = columns.saturating_sub(1);
        let most = rows.saturating_sub(2).min(MOST_LINES);
        let now = self.surface.clock.now_ms();
        let tree = layout::lines(&self.tree, now, columns, most);
        if self.lines.is_empty() && tree == self.drawn && columns == self.drawn_columns {
            return;
        }
        let above = std::mem::take(&mut self.lines);
        let frame = frame(&self.drawn, &above, &tree, columns + 1, self.surface.colour);
        self.drawn = tree;
        self.drawn_columns = columns;
        self.write(&frame);
    }

    /// Takes the tree off the terminal.
    fn erase(&mut self) {
        if self.drawn.is_empty() {
            return;
        }
        let columns = self.columns();
        let frame = frame(&self.drawn, &[], &[], columns, false);
        self.drawn.clear();
        self.write(&frame);
    }

    /// Prints the lines that wait.
    fn flush(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        if lines.is_empty() {
            return;
        }
        let columns = self.columns();
        let frame = frame(&self.drawn, &lines, &[], columns, self.surface.colour);
        self.drawn.clear();
        self.write(&frame);
    }

    /// The end: the tree as it ended, for good, and what was changed.
    fn last(&mut self) {
        self.flush();
        self.erase();
        if self.surface.detail == Detail::Quiet {
            return;
        }
        let mut lines = Vec::new();
        if self.surface.size.is_some() {
            let now = self.surface.clock.now_ms();
            let columns = self.columns().saturating_sub(1);
            lines = layout::lines(&self.tree, now, columns, MOST_LINES);
        }
        lines.extend(self.changes.lines(&self.surface.cwd));
        let frame = frame(&[], &lines, &[], self.columns(), self.surface.colour);
        self.write(&frame);
    }

    fn columns(&self) -> usize {
        self.surface.size.as_ref().map_or(usize::MAX, |size| size().0)
    }

    fn write(&mut self, frame: &[u8]) {
        // One write for a frame, so that a terminal never shows half of one.
        let _unseen = self.surface.out.write_all(frame).and_then(|()| self.surface.out.flush());
    }
}

/// The bytes that replace the tree on the terminal by lines for good and a new tree. The cursor
/// stands at the beginning of the row below the tree, before and after.
fn frame(drawn: &[Line], above: &[Line], tree: &[Line], columns: usize, colour: bool) -> Vec<u8> {
    let mut out = Vec::new();
    compose(&mut out, drawn, above, tree, Look { columns, colour }).unwrap_or_default();
    out
}

#[derive(Clone, Copy)]
struct Look {
    columns: usize,
    colour: bool,
}

fn compose(
    out: &mut Vec<u8>,
    drawn: &[Line],
    above: &[Line],
    tree: &[Line],
    look: Look,
) -> io::Result<()> {
    if !drawn.is_empty() {
        // A terminal that became narrower has broken the lines that were drawn.
        let rows: usize =
            drawn.iter().map(|line| line.width().max(1).div_ceil(look.columns.max(1))).sum();
        let rows = u16::try_from(rows).unwrap_or(u16::MAX);
        queue!(out, MoveToColumn(0), MoveUp(rows))?;
        if !above.is_empty() || tree.is_empty() {
            queue!(out, Clear(ClearType::FromCursorDown))?;
        }
    }
    for line in above {
        writeln!(out, "{}", line.render(look.colour))?;
    }
    if tree.is_empty() {
        return Ok(());
    }
    queue!(out, DisableLineWrap)?;
    for line in tree {
        out.extend_from_slice(line.render(look.colour).as_bytes());
        queue!(out, Clear(ClearType::UntilNewLine))?;
        out.push(b'\n');
    }
    queue!(out, Clear(ClearType::FromCursorDown), EnableLineWrap)
}

#[cfg(test)]
mod tests;
