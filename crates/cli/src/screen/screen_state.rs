//! State of the screen, and how much of it is drawn.

use std::sync::Arc;

use deputize_core::message::CallStatus;
use deputize_core::model::Delta;
use deputize_core::{AgentId, CallId, Catalog, Event, Record};
use deputize_runtime::SessionSnapshot;

use super::Detail;
use super::call_result::has_no_row;
use super::failures::is_failure;
use super::line_backlog::LineBacklog;
use super::plain::{Plain, progressed};
use super::run_figures::RunFigures;

/// State of the screen.
pub(super) struct ScreenState {
    pub(super) detail: Detail,
    /// Whether a tree is drawn. Otherwise lines are printed.
    pub(super) live: bool,
    pub(super) snapshot: SessionSnapshot,
    /// When the last record of an earlier run was made, in Unix milliseconds.
    primed_until: u64,
    /// Whether a record came in this run.
    pub(super) has_news: bool,
    pub(super) plain: Plain,
    /// Why a model was last waited for.
    waits_for: Option<String>,
    /// Lines that wait to be printed, for good.
    pub(super) lines: LineBacklog,
    pub(super) drawing: DrawProgress,
}

/// How far the drawing is.
#[derive(Debug, Default)]
pub(super) struct DrawProgress {
    pub(super) pauses: usize,
    /// The drawer holds back, and nothing that it would change again is on the terminal.
    pub(super) held: bool,
    pub(super) dirty: bool,
    pub(super) end: DrawState,
    /// The drawer writes, without the lock.
    pub(super) writing: bool,
    /// The owner has gone.
    pub(super) closed: bool,
    /// No thread could be made that draws.
    pub(super) without_thread: bool,
}

/// Whether the drawing is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum DrawState {
    #[default]
    No,
    /// It is to be.
    Asked,
    /// It is; lines are still printed.
    Drawn,
}

impl ScreenState {
    pub(super) fn new(tools: Arc<Catalog>, detail: Detail, live: bool) -> Self {
        Self {
            detail,
            live,
            snapshot: SessionSnapshot::new(Arc::clone(&tools)),
            primed_until: 0,
            has_news: false,
            plain: Plain::new(tools, false),
            waits_for: None,
            lines: LineBacklog::default(),
            drawing: DrawProgress::default(),
        }
    }

    /// Takes a piece of a reply. Returns whether somebody has to draw who does not know of it.
    pub(super) fn take_delta(&mut self, agent: &AgentId, delta: Delta<'_>) -> bool {
        if self.detail != Detail::Verbose {
            return false;
        }
        self.lines.extend(self.plain.delta(&self.snapshot, agent, delta));
        !std::mem::replace(&mut self.drawing.dirty, true)
    }

    /// Takes what a running call says of itself. Returns whether somebody has to draw who does not
    /// know of it.
    pub(super) fn take_progress(&mut self, agent: &AgentId, call: CallId, text: &str) -> bool {
        self.snapshot.set_progress(agent, call, text);
        if self.detail == Detail::Verbose {
            self.lines.push(progressed(&self.snapshot, agent, text));
        }
        let draws = self.live || self.detail == Detail::Verbose;
        draws && !std::mem::replace(&mut self.drawing.dirty, true)
    }

    /// Applies a record of an earlier run.
    pub(super) fn prime(&mut self, record: &Record) {
        self.snapshot.apply(record);
        self.primed_until = record.at;
    }

    pub(super) fn see(&mut self, record: &Record) {
        if !self.has_news {
            self.plain.earlier = RunFigures::of_session(&self.snapshot, self.primed_until);
        }
        self.snapshot.apply(record);
        self.has_news = true;
        let lines = self.plain.lines(&self.snapshot, record, self.detail);
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
        self.drawing.dirty |= self.live || !self.lines.is_empty();
    }

    pub(super) fn is_held(&self) -> bool {
        let is_off = self.drawing.held || self.drawing.end == DrawState::Drawn;
        self.drawing.without_thread || !self.drawing.writing && is_off
    }

    pub(super) fn is_settled(&self) -> bool {
        let is_shown = self.lines.is_empty() && self.drawing.end != DrawState::Asked;
        self.drawing.without_thread || !self.drawing.writing && is_shown
    }
}
