//! The screen: a tree that is redrawn in place on a terminal, plain lines elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use deputize_core::model::Delta;
use deputize_core::{AgentId, CallId, Observer, Record, Status};
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::Notify;

use super::Detail;
use super::line::ScreenLine;
use super::plain::{Plain, waiting_for_reply};
use super::screen_state::{DrawState, ScreenState};
use super::screen_writer::{ScreenWriter, WriterStep};
use super::surface::Surface;

/// Interval at which a pause checks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);

/// Shows what happens. It never stops or delays a run: a thread of its own writes, and output that
/// cannot be written is dropped.
pub(crate) struct Screen {
    shared: Arc<ScreenInner>,
}

struct ScreenInner {
    state: Mutex<ScreenState>,
    /// What the thread will draw with, until it begins.
    drawer: Mutex<Option<ScreenWriter>>,
    /// There may be something to draw.
    wake: Condvar,
    /// The drawer has nothing to do: for threads, and for tasks.
    still: Condvar,
    settled: Notify,
}

impl Screen {
    /// A screen that shows nothing yet. It draws from a thread of its own, which begins when there
    /// is something to draw.
    pub(crate) fn new(mut surface: Surface) -> Self {
        surface.live &= surface.detail != Detail::Quiet;
        let tools = Arc::clone(&surface.tools);
        let mut state = ScreenState::new(Arc::clone(&tools), surface.detail, surface.live);
        state.plain = Plain::new(tools, surface.unasked).with_answer_printed(surface.prints_answer);
        let shared = ScreenInner {
            state: Mutex::new(state),
            drawer: Mutex::new(Some(ScreenWriter::new(surface))),
            wake: Condvar::new(),
            still: Condvar::new(),
            settled: Notify::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns how many agents below the top one have completed with an answer.
    pub(crate) fn answered_children(&self) -> usize {
        let state = self.shared.lock();
        let below = state.snapshot.agents().filter(|agent| agent.depth > 0);
        let exits = below.filter_map(|agent| agent.exit.as_ref());
        exits.filter(|exit| exit.status == Status::Completed && exit.has_text).count()
    }

    /// Applies a record of an earlier run without showing it.
    pub(crate) fn prime(&self, record: &Record) {
        self.shared.lock().prime(record);
    }

    /// Removes the tree from the terminal and holds output back until the guard is dropped, so that
    /// a question can be asked. Await [`PausedScreen::wait`] before asking.
    pub(crate) fn pause(&self) -> PausedScreen {
        let mut state = self.shared.lock();
        if state.drawing.pauses == 0 {
            // What was said before the question stands above it.
            state.drawing.held = false;
        }
        state.drawing.pauses += 1;
        drop(state);
        self.shared.wake();
        PausedScreen(Arc::clone(&self.shared))
    }

    /// Returns whether output is held back for a question.
    #[cfg(test)]
    pub(crate) fn is_paused(&self) -> bool {
        self.shared.lock().drawing.pauses > 0
    }

    /// Prints a line above the tree.
    pub(crate) fn say(&self, line: ScreenLine) {
        let mut state = self.shared.lock();
        state.lines.push(line);
        state.drawing.dirty = true;
        drop(state);
        self.shared.wake();
    }

    /// Prints that an agent has waited this long for the first byte of a reply.
    pub(crate) fn show_reply_wait(&self, agent: &AgentId, waited: Duration) {
        let line = waiting_for_reply(&self.shared.lock().snapshot, agent, waited);
        self.say(line);
    }

    /// Ends the drawing. The tree stays as it ended, with the changed files below it; later lines
    /// follow. Returns at once: see [`Screen::settled`].
    pub(crate) fn finish(&self) {
        let mut state = self.shared.lock();
        if state.drawing.end == DrawState::No {
            state.drawing.end = DrawState::Asked;
        }
        drop(state);
        self.shared.wake();
    }

    /// Waits until everything is shown. It waits without limit for a stopped terminal.
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
    /// Lets the thread end once it has shown everything; nothing waits for it.
    fn drop(&mut self) {
        self.finish();
        self.shared.lock().drawing.closed = true;
        self.shared.wake();
    }
}

impl Observer for Screen {
    fn on_record(&self, record: &Record) {
        let mut state = self.shared.lock();
        let known = state.drawing.dirty;
        state.see(record);
        let news = state.drawing.dirty && !known;
        drop(state);
        // A drawer that is woken for each record contends with the run for the lock.
        if news {
            self.shared.wake();
        }
    }

    fn on_delta(&self, agent: &AgentId, delta: Delta<'_>) {
        if self.shared.lock().take_delta(agent, delta) {
            self.shared.wake();
        }
    }

    fn on_progress(&self, agent: &AgentId, call: CallId, text: &str) {
        if self.shared.lock().take_progress(agent, call, text) {
            self.shared.wake();
        }
    }
}

/// Pauses drawing until dropped.
pub(crate) struct PausedScreen(Arc<ScreenInner>);

impl PausedScreen {
    /// Waits until the tree is off the terminal; returns false if `stop` was set first.
    pub(crate) fn wait(&self, stop: &AtomicBool) -> bool {
        let mut state = self.0.lock();
        while !state.is_held() {
            if stop.load(Ordering::Acquire) {
                return false;
            }
            self.0.still.wait_for(&mut state, LOOK);
        }
        true
    }
}

impl Drop for PausedScreen {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.drawing.pauses = state.drawing.pauses.saturating_sub(1);
        state.drawing.dirty = true;
        drop(state);
        self.0.wake();
    }
}

impl ScreenInner {
    fn lock(&self) -> MutexGuard<'_, ScreenState> {
        self.state.lock()
    }

    /// Has the thread look for something to draw; makes it if there is none.
    fn wake(self: &Arc<Self>) {
        self.wake.notify_all();
        let Some(drawer) = self.drawer.lock().take() else { return };
        let mine = Arc::clone(self);
        let thread = thread::Builder::new().name("screen".to_owned());
        if thread.spawn(move || mine.draw(drawer)).is_err() {
            // Nothing can be shown, so nobody waits until it is.
            self.lock().drawing.without_thread = true;
            self.still.notify_all();
            self.settled.notify_waiters();
        }
    }

    /// Draws pending changes, without the lock, until the owner is gone.
    fn draw(&self, mut drawer: ScreenWriter) {
        let mut state = self.lock();
        loop {
            match drawer.next(&mut state) {
                WriterStep::Write(frame) => {
                    state.drawing.writing = true;
                    drop(state);
                    drawer.write(&frame);
                    state = self.lock();
                    state.drawing.writing = false;
                }
                WriterStep::Wait(_) if state.drawing.closed => return,
                WriterStep::Wait(most) => {
                    self.still.notify_all();
                    self.settled.notify_waiters();
                    self.wait(&mut state, most);
                }
            }
        }
    }

    fn wait(&self, state: &mut MutexGuard<'_, ScreenState>, most: Option<Duration>) {
        match most {
            Some(most) => {
                self.wake.wait_for(state, most);
            }
            None => self.wake.wait(state),
        }
    }
}

#[cfg(test)]
mod tests;
