//! The present activity of an agent, for observers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use deputize_core::CallId;
use deputize_core::agent::AgentActivity;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// The present activity of an agent.
#[derive(Debug)]
pub(crate) struct AgentProgress {
    born: Instant,
    /// When it last made progress, in milliseconds since it was born.
    last_ms: AtomicU64,
    iteration: AtomicU32,
    is_stalled: AtomicBool,
    /// Whether it waits for a place among those that run.
    waits: AtomicBool,
    /// Whether its turn is over.
    rests: AtomicBool,
    /// Number of its questions that a person has not answered.
    questions: AtomicU32,
    /// The calls that it is in, in the order they began.
    calls: Mutex<Vec<(CallId, String)>>,
}

impl Default for AgentProgress {
    fn default() -> Self {
        Self {
            born: Instant::now(),
            last_ms: AtomicU64::new(0),
            iteration: AtomicU32::new(0),
            is_stalled: AtomicBool::new(false),
            waits: AtomicBool::new(false),
            rests: AtomicBool::new(false),
            questions: AtomicU32::new(0),
            calls: Mutex::default(),
        }
    }
}

impl AgentProgress {
    fn calls(&self) -> MutexGuard<'_, Vec<(CallId, String)>> {
        self.calls.lock()
    }

    pub(crate) fn mark(&self) {
        let now = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(now, Ordering::Relaxed);
    }

    /// Marks that a request is sent.
    pub(crate) fn mark_request(&self, iteration: u32) {
        self.iteration.store(iteration, Ordering::Relaxed);
        self.mark();
    }

    /// Marks that the agent is in a call until the guard is dropped.
    pub(crate) fn mark_tool_call(&self, call: CallId, tool: &str) -> OpenCall<'_> {
        self.calls().push((call, tool.to_owned()));
        self.mark();
        OpenCall { progress: self, call }
    }

    /// Marks that the agent waits for a person's answer until the guard is dropped.
    pub(crate) fn mark_person_question(self: &Arc<Self>) -> PersonQuestion {
        self.questions.fetch_add(1, Ordering::Relaxed);
        PersonQuestion(Arc::clone(self))
    }

    /// Sets whether the agent is stalled; returns whether it was.
    pub(crate) fn set_stalled(&self, stalled: bool) -> bool {
        self.is_stalled.swap(stalled, Ordering::Relaxed)
    }

    /// Sets whether the agent waits for a place.
    pub(crate) fn set_waits(&self, waits: bool) {
        self.waits.store(waits, Ordering::Relaxed);
    }

    /// Sets whether the agent's turn is over.
    pub(crate) fn set_rests(&self, rests: bool) {
        self.rests.store(rests, Ordering::Relaxed);
    }

    pub(crate) fn current_tool(&self) -> Option<String> {
        self.calls().first().map(|(_, tool)| tool.clone())
    }

    pub(crate) fn iteration(&self) -> u32 {
        self.iteration.load(Ordering::Relaxed)
    }

    /// Returns how long there was no progress.
    pub(crate) fn idle(&self) -> Duration {
        let last = Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
        self.born.elapsed().saturating_sub(last)
    }

    /// Returns the activity of an agent that is not stopping.
    pub(crate) fn activity(&self) -> AgentActivity {
        let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        if is(&self.waits) {
            AgentActivity::Waiting
        } else if self.questions.load(Ordering::Relaxed) > 0 {
            AgentActivity::Asking
        } else if is(&self.is_stalled) {
            AgentActivity::Stalled
        } else if is(&self.rests) {
            AgentActivity::Resting
        } else {
            AgentActivity::Running
        }
    }
}

/// See [`AgentProgress::mark_person_question`].
pub(crate) struct PersonQuestion(Arc<AgentProgress>);

impl Drop for PersonQuestion {
    fn drop(&mut self) {
        self.0.questions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// See [`AgentProgress::mark_tool_call`].
pub(crate) struct OpenCall<'p> {
    progress: &'p AgentProgress,
    call: CallId,
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        self.progress.calls().retain(|(call, _)| *call != self.call);
        self.progress.mark();
    }
}
