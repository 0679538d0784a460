//! The screen: a tree that is redrawn in place on a terminal, plain lines elsewhere.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use deputize_core::message::CallStatus;
use deputize_core::model::Delta;
use deputize_core::{AgentId, CallId, Catalog, Clock, Event, Observer, Record};
use tokio::sync::Notify;

use super::Detail;
use super::changes::Changes;
use super::failures::{Failures, is_failure};
use super::line::ScreenLine;
use super::line_backlog::LineBacklog;
use super::plain::{Plain, has_no_row, progressed, waiting_for_reply};
use super::screen_writer::{ScreenWriter, WriterStep};
use super::tree::ScreenTree;

/// How often somebody who waits for a pause notices that it is not wanted any more.
const LOOK: Duration = Duration::from_millis(50);

/// Where and how the screen draws.
pub(crate) struct Surface {
    /// Standard error.
    pub(crate) out: Box<dyn Write + Send>,
    /// Columns and rows of the terminal, asked anew for each drawing; `None` where it is none.
    pub(crate) size: Option<SizeFn>,
    /// Whether a tree is drawn on it. Otherwise lines are printed.
    pub(crate) live: bool,
    /// Whether colours may be used.
    pub(crate) colour: bool,
    /// The tools whose calls are shown.
    pub(crate) tools: Arc<Catalog>,
    /// How much is told.
    pub(crate) detail: Detail,
    /// Paths are told from here.
    pub(crate) cwd: PathBuf,
    /// There is no terminal to ask at, so that the top agent's commands are denied.
    pub(crate) unasked: bool,
    /// The answer is printed on the same terminal when the run has ended.
    pub(crate) prints_answer: bool,
    /// What time it is, for running times.
    pub(crate) clock: Arc<dyn Clock>,
}

/// Asks for columns and rows.
pub(crate) type SizeFn = Box<dyn Fn() -> (usize, usize) + Send>;

/// Shows what happens. It never stops a run, nor holds one up: a thread of its own writes, and
/// what cannot be written is not shown.
pub(crate) struct Screen {
    shared: Arc<ScreenShared>,
}

struct ScreenShared {
    state: Mutex<ScreenState>,
    /// There may be something to draw.
    wake: Condvar,
    /// The drawer has nothing to do: for threads, and for tasks.
    still: Condvar,
    settled: Notify,
}

/// What there is to draw.
pub(super) struct ScreenState {
    pub(super) detail: Detail,
    /// Whether a tree is drawn. Otherwise lines are printed.
    pub(super) live: bool,
    pub(super) tree: ScreenTree,
    plain: Plain,
    pub(super) changes: Changes,
    pub(super) failures: Failures,
    /// Why a model was last waited for.
    waits_for: Option<String>,
    /// Lines that wait to be printed, for good.
    pub(super) lines: LineBacklog,
    pub(super) pauses: usize,
    /// The drawer holds back, and nothing that it would change again is on the terminal.
    pub(super) held: bool,
    pub(super) dirty: bool,
    pub(super) end: DrawState,
    /// The drawer writes, without the lock.
    writing: bool,
    /// The owner has gone.
    closed: bool,
}

/// Whether the drawing is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DrawState {
    No,
    /// It is to be.
    Asked,
    /// It is; lines are still printed.
    Drawn,
}

impl Screen {
    /// A screen that shows nothing yet. It draws from a thread of its own.
    pub(crate) fn start(mut surface: Surface) -> io::Result<Self> {
        surface.live &= surface.detail != Detail::Quiet;
        let tools = Arc::clone(&surface.tools);
        let mut state = ScreenState::new(Arc::clone(&tools), surface.detail, surface.live);
        state.plain = Plain::new(tools, surface.unasked).with_answer_printed(surface.prints_answer);
        let shared = Arc::new(ScreenShared {
            state: Mutex::new(state),
            wake: Condvar::new(),
            still: Condvar::new(),
            settled: Notify::new(),
        });
        let mine = Arc::clone(&shared);
        let drawer = ScreenWriter::new(surface);
        thread::Builder::new().name("screen".to_owned()).spawn(move || mine.draw(drawer))?;
        Ok(Self { shared })
    }

    /// Takes a record of an earlier run, which is not told again.
    pub(crate) fn prime(&self, record: &Record) {
        let mut state = self.shared.lock();
        state.tree.apply(record);
        state.failures.apply(record);
    }

    /// Takes the tree off the terminal and holds everything back until the guard is dropped,
    /// so that something can be asked. [`PausedScreen::wait`] tells when that is so.
    pub(crate) fn pause(&self) -> PausedScreen {
        let mut state = self.shared.lock();
        if state.pauses == 0 {
            // What was said before the question stands above it.
            state.held = false;
        }
        state.pauses += 1;
        self.shared.wake.notify_all();
        PausedScreen(Arc::clone(&self.shared))
    }

    /// Prints a line above the tree.
    pub(crate) fn say(&self, line: ScreenLine) {
        let mut state = self.shared.lock();
        state.lines.push(line);
        state.dirty = true;
        self.shared.wake.notify_all();
    }

    /// Prints that an agent has waited this long for the first byte of a reply.
    pub(crate) fn show_reply_wait(&self, agent: &AgentId, waited: Duration) {
        let line = waiting_for_reply(&self.shared.lock().tree, agent, waited);
        self.say(line);
    }

    /// Ends the drawing. The tree stays as it ended, and what was changed is told below it;
    /// lines that are said later follow. Nobody waits: see [`Screen::settled`].
    pub(crate) fn finish(&self) {
        let mut state = self.shared.lock();
        if state.end == DrawState::No {
            state.end = DrawState::Asked;
        }
        self.shared.wake.notify_all();
    }

    /// Waits until everything is shown, as far as it can be. A terminal that is stopped makes
    /// it wait without an end.
    pub(crate) async fn settled(&self) {
        loop {
            let settled = self.shared.settled.notified();
            if self.shared.lock().is_settled() {
                return;
            }
            settled.await;
        }
    }
}

impl Drop for Screen {
    /// Lets the thread end when it has shown everything; nobody waits for it.
    fn drop(&mut self) {
        self.finish();
        self.shared.lock().closed = true;
        self.shared.wake.notify_all();
    }
}

impl Observer for Screen {
    fn on_record(&self, record: &Record) {
        let mut state = self.shared.lock();
        let known = state.dirty;
        state.see(record);
        let news = state.dirty && !known;
        drop(state);
        // A drawer that is woken for each record contends with the run for the lock.
        if news {
            self.shared.wake.notify_all();
        }
    }

    fn on_delta(&self, agent: &AgentId, delta: Delta<'_>) {
        let mut state = self.shared.lock();
        if state.detail == Detail::Verbose {
            let ScreenState { plain, tree, lines, .. } = &mut *state;
            lines.extend(plain.delta(tree, agent, delta));
            let known = std::mem::replace(&mut state.dirty, true);
            drop(state);
            if !known {
                self.shared.wake.notify_all();
            }
        }
    }

    fn on_progress(&self, agent: &AgentId, call: CallId, text: &str) {
        let mut state = self.shared.lock();
        state.tree.progress(agent, call, text);
        if state.detail == Detail::Verbose {
            let line = progressed(&state.tree, agent, text);
            state.lines.push(line);
        }
        let draws = state.live || state.detail == Detail::Verbose;
        let news = draws && !std::mem::replace(&mut state.dirty, true);
        drop(state);
        if news {
            self.shared.wake.notify_all();
        }
    }
}

/// While it lives, nothing is drawn.
pub(crate) struct PausedScreen(Arc<ScreenShared>);

impl PausedScreen {
    /// Waits until the tree is off the terminal; false: it was told to stop before.
    pub(crate) fn wait(&self, stop: &AtomicBool) -> bool {
        let mut state = self.0.lock();
        while !state.is_held() {
            if stop.load(Ordering::Acquire) {
                return false;
            }
            let waited = self.0.still.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Drop for PausedScreen {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.pauses = state.pauses.saturating_sub(1);
        state.dirty = true;
        drop(state);
        self.0.wake.notify_all();
    }
}

impl ScreenShared {
    fn lock(&self) -> MutexGuard<'_, ScreenState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws what there is to draw, without the lock, until the owner has gone.
    fn draw(&self, mut drawer: ScreenWriter) {
        let mut state = self.lock();
        loop {
            match drawer.next(&mut state) {
                WriterStep::Write(frame) => {
                    state.writing = true;
                    drop(state);
                    drawer.write(&frame);
                    state = self.lock();
                    state.writing = false;
                }
                WriterStep::Wait(_) if state.closed => return,
                WriterStep::Wait(most) => {
                    self.still.notify_all();
                    self.settled.notify_waiters();
                    state = self.wait(state, most);
                }
            }
        }
    }

    fn wait<'s>(
        &self,
        state: MutexGuard<'s, ScreenState>,
        most: Option<Duration>,
    ) -> MutexGuard<'s, ScreenState> {
        match most {
            Some(most) => {
                let waited = self.wake.wait_timeout(state, most);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

impl ScreenState {
    pub(super) fn new(tools: Arc<Catalog>, detail: Detail, live: bool) -> Self {
        Self {
            detail,
            live,
            tree: ScreenTree::new(Arc::clone(&tools)),
            plain: Plain::new(Arc::clone(&tools), false),
            changes: Changes::default(),
            failures: Failures::new(tools),
            waits_for: None,
            lines: LineBacklog::default(),
            pauses: 0,
            held: false,
            dirty: false,
            end: DrawState::No,
            writing: false,
            closed: false,
        }
    }

    pub(super) fn see(&mut self, record: &Record) {
        self.tree.apply(record);
        self.changes.apply(record);
        self.failures.apply(record);
        let lines = self.plain.lines(&self.tree, record, self.detail);
        // A live tree tells what plain lines tell; what it has no place for stands above it.
        let remark = match &record.event {
            Event::Log { .. } | Event::Hook(_) | Event::SpawnPaused { .. } => true,
            Event::ToolEnd(end) => {
                let is_denied = end.result.status == CallStatus::Denied && end.error.is_some();
                is_denied || has_no_row(end)
            }
            // The row has room for the beginning of a reason alone.
            Event::AgentEnd(outcome) => record.depth > 0 && is_failure(outcome.status),
            // The row has room for the count alone; why it waits is told once for all who do.
            Event::ModelRetry { reason, .. } => {
                self.waits_for.replace(reason.clone()).as_ref() != Some(reason)
            }
            _ => false,
        };
        // How the top agent ended stands in the tree.
        let is_end = record.depth == 0 && matches!(record.event, Event::AgentEnd(_));
        if !self.live || remark || (self.detail == Detail::Verbose && !is_end) {
            self.lines.extend(lines);
        }
        self.dirty |= self.live || !self.lines.is_empty();
    }

    fn is_held(&self) -> bool {
        !self.writing && (self.held || self.end == DrawState::Drawn)
    }

    fn is_settled(&self) -> bool {
        !self.writing && self.lines.is_empty() && self.end != DrawState::Asked
    }
}

#[cfg(test)]
mod tests;
