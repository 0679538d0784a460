//! The state of a replay that its agents share: whose turn it is.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use deputize_core::agent::{AttachError, FurtherTask};
use deputize_core::event::AgentStart;
use deputize_core::message::CallStatus;
use deputize_core::{
    AgentId, BoxFuture, CallId, Cancel, Catalog, Event, Observer, Outcome, Record,
};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use parking_lot::{Mutex, MutexGuard};

use super::error::{ReplayError, ReplayPosition};
use super::excerpt::said;
use super::read::Recording;
use super::tools::{recorded_catalog, usable_catalog};

/// A recording that is being played. Records are made in the recorded order: each by its agent,
/// when all before it have been made. All agents are polled in one task, so that it is known
/// when none of them can go on.
pub(crate) struct Playback {
    pub(crate) recording: Recording,
    observers: Vec<Arc<dyn Observer>>,
    /// Calls that started agents.
    spawning: BTreeSet<(AgentId, CallId)>,
    /// The children that calls gave a further task.
    continuing: BTreeMap<(AgentId, CallId), (AgentId, FurtherTask)>,
    /// Agents that do something in the recording.
    known: BTreeSet<AgentId>,
    /// Agents from before that nobody may have taken up again: their end was put on record for
    /// them.
    orphans: BTreeSet<AgentId>,
    state: Mutex<PlaybackState>,
}

#[derive(Default)]
struct PlaybackState {
    /// Number of records made so far.
    made: usize,
    /// Agents that wait for their turn.
    waiting: BTreeMap<AgentId, Waker>,
    /// Agents that nobody polls yet.
    launched: Vec<BoxFuture<'static, ()>>,
    fault: Option<ReplayError>,
}

/// The replay is over; why is in its state.
pub(crate) struct ReplayEnd;

impl std::fmt::Debug for Playback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Playback({})", self.recording.session())
    }
}

impl Playback {
    pub(crate) fn new(recording: Recording, observers: Vec<Arc<dyn Observer>>) -> Self {
        let spawned = recording.starts().filter_map(|start| {
            let call = start.spec.spawned_by.as_ref()?.call;
            Some((start.spec.parent.clone()?, call))
        });
        let spawning = spawned.collect();
        let continued = recording.records().filter_map(|record| match &record.event {
            Event::AgentResume { task: Some(task), .. } => {
                let call = (record.parent.clone()?, task.call);
                Some((call, (record.agent.clone(), task.clone())))
            }
            _ => None,
        });
        let continuing = continued.collect();
        let known = recording.before.iter().chain(recording.records());
        let known = known.map(|record| record.agent.clone()).collect();
        let mut orphans: BTreeSet<_> =
            recording.before.iter().map(|record| record.agent.clone()).collect();
        for record in recording.records() {
            let settles = matches!(
                record.event,
                Event::ModelError { .. }
                    | Event::ToolEnd(_)
                    | Event::ProcessEnd(_)
                    | Event::AgentStop { .. }
                    | Event::AgentEnd(_)
                    // Of one below it.
                    | Event::Hook(_)
            );
            if !settles {
                orphans.remove(&record.agent);
            }
        }
        Self { recording, observers, spawning, continuing, known, orphans, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, PlaybackState> {
        self.state.lock()
    }

    /// Waits until the next record is one of this agent, and gives it.
    pub(crate) async fn turn(&self, agent: &AgentId) -> Result<Arc<Record>, ReplayEnd> {
        poll_fn(|cx| {
            let mut state = self.lock();
            if state.fault.is_some() {
                return Poll::Ready(Err(ReplayEnd));
            }
            match self.recording.records.get(state.made) {
                Some(next) if next.agent == *agent => Poll::Ready(Ok(Arc::clone(next))),
                Some(_) => {
                    state.waiting.insert(agent.clone(), cx.waker().clone());
                    Poll::Pending
                }
                None => {
                    let records = self.recording.records.len() as u64;
                    let bytes = self.recording.torn;
                    state.fault = Some(ReplayError::EndsHere { records, bytes });
                    Poll::Ready(Err(ReplayEnd))
                }
            }
        })
        .await
    }

    /// The agent whose turn it is has made its record: it is shown, and the next one's turn
    /// comes. Returns whether there is a next one.
    pub(crate) fn made(&self, record: &Record) -> bool {
        self.observers.iter().for_each(|observer| observer.on_record(record));
        let mut state = self.lock();
        state.made += 1;
        let next = self.recording.records.get(state.made);
        if let Some(waker) = next.and_then(|next| state.waiting.remove(&next.agent)) {
            waker.wake();
        }
        next.is_some() || self.recording.torn > 0
    }

    /// Ends the replay. The first reason stays.
    pub(crate) fn fail(&self, error: ReplayError) -> ReplayEnd {
        self.lock().fault.get_or_insert(error);
        ReplayEnd
    }

    /// Where it stands: the next record, in words.
    fn next(&self, made: usize) -> (ReplayPosition, String) {
        let next = self.recording.records.get(made);
        let root = || AgentId::root(self.recording.session());
        let place = ReplayPosition {
            agent: next.map_or_else(root, |record| record.agent.clone()),
            seq: next.map_or(0, |record| record.seq),
        };
        (place, next.map_or_else(|| "its end".to_owned(), |record| said(&record.event)))
    }

    /// The top agent cannot be made.
    pub(crate) fn refused(&self, error: &AttachError) -> ReplayError {
        let (place, recorded) = self.next(0);
        ReplayError::Otherwise { place, recorded, now: error.to_string() }
    }

    /// Takes an agent that was started.
    pub(crate) fn launch(&self, agent: BoxFuture<'static, ()>) {
        self.lock().launched.push(agent);
    }

    /// Whether a call of an agent started others, so that it is to be made again.
    pub(crate) fn spawns(&self, agent: &AgentId, call: CallId) -> bool {
        self.spawning.contains(&(agent.clone(), call))
    }

    /// Returns the child that a call of an agent gave a further task, if it did.
    pub(crate) fn continued(
        &self,
        agent: &AgentId,
        call: CallId,
    ) -> Option<&(AgentId, FurtherTask)> {
        self.continuing.get(&(agent.clone(), call))
    }

    /// Returns whether an agent that is being started did anything in the recording. If not, its
    /// call was cancelled before it began, or the program has changed.
    pub(crate) fn knows(&self, agent: &AgentId, spawned: Option<(&AgentId, CallId)>) -> bool {
        if self.known.contains(agent) {
            return true;
        }
        if !spawned.is_some_and(|(parent, call)| self.was_cancelled(parent, call)) {
            let (place, recorded) = self.next(self.lock().made);
            let now = format!("agent {agent} would be started, which is not in the recording");
            self.fail(ReplayError::Otherwise { place, recorded, now });
        }
        false
    }

    fn was_cancelled(&self, agent: &AgentId, call: CallId) -> bool {
        self.recording.records().any(|record| match &record.event {
            Event::ToolEnd(end) => {
                record.agent == *agent
                    && end.result.call == call
                    && end.result.status == CallStatus::Cancelled
            }
            _ => false,
        })
    }

    /// The tools that the children of a call had.
    pub(crate) fn tools_for(&self, agent: &AgentId, call: CallId, now: &Catalog) -> Arc<Catalog> {
        let of_call = |start: &&AgentStart| {
            start.spec.parent.as_ref() == Some(agent)
                && start.spec.spawned_by.as_ref().is_some_and(|by| by.call == call)
        };
        Arc::new(recorded_catalog(now, &self.recording, of_call))
    }

    /// The tools that an agent had. The top agent has those of the program, as it is played; of those
    /// that not every machine can use, the ones that it had.
    pub(crate) fn tools_of(&self, agent: &AgentId, now: &Arc<Catalog>) -> Arc<Catalog> {
        let is_agent = |start: &&AgentStart| start.spec.id == *agent;
        match self.recording.starts().find(is_agent) {
            None => Arc::clone(now),
            Some(start) if start.spec.depth == 0 => {
                Arc::new(usable_catalog(now, &self.recording, start))
            }
            Some(_) => Arc::new(recorded_catalog(now, &self.recording, is_agent)),
        }
    }

    /// Polls the top agent and all that it starts, until the top agent's end, a fault, or until
    /// none of them can go on.
    pub(crate) async fn run(
        &self,
        top: impl Future<Output = Outcome>,
        cancel: &Cancel,
    ) -> Result<Outcome, ReplayError> {
        let mut top = pin!(top);
        let mut stop_signal = pin!(cancel.cancelled());
        let mut agents = FuturesUnordered::new();
        let woken = Arc::new(WakeFlag::default());
        let waker = Waker::from(Arc::clone(&woken));
        poll_fn(|cx| {
            let inner = &mut Context::from_waker(&waker);
            woken.begin(cx.waker());
            if stop_signal.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(ReplayError::Interrupted));
            }
            let end = top.as_mut().poll(inner);
            if let Some(fault) = self.lock().fault.clone() {
                return Poll::Ready(Err(fault));
            }
            // All records have been made: whoever still waits has none.
            if let Poll::Ready(outcome) = end {
                return Poll::Ready(Ok(outcome));
            }
            loop {
                agents.extend(std::mem::take(&mut self.lock().launched));
                match agents.poll_next_unpin(inner) {
                    Poll::Ready(Some(())) => {}
                    Poll::Ready(None) | Poll::Pending if self.lock().launched.is_empty() => break,
                    Poll::Ready(None) | Poll::Pending => {}
                }
            }
            if let Some(fault) = self.lock().fault.clone() {
                return Poll::Ready(Err(fault));
            }
            if woken.is_set() {
                // Let the runtime do other things in between, too.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if self.pass_orphan() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(Err(self.stuck()))
        })
        .await
    }

    /// Makes the next record where nobody does, and nobody did when it was recorded.
    fn pass_orphan(&self) -> bool {
        let made = self.lock().made;
        let next = self.recording.records.get(made);
        let orphan = next.filter(|next| self.orphans.contains(&next.agent));
        orphan.inspect(|record| {
            self.made(record);
        });
        orphan.is_some()
    }

    fn stuck(&self) -> ReplayError {
        let state = self.lock();
        let (place, recorded) = self.next(state.made);
        ReplayError::Stuck { place, recorded, waits: state.waiting.keys().cloned().collect() }
    }
}

/// Knows whether anything was woken since it was last asked.
#[derive(Default)]
struct WakeFlag {
    flag: AtomicBool,
    outer: Mutex<Option<Waker>>,
}

impl WakeFlag {
    fn begin(&self, outer: &Waker) {
        self.flag.store(false, Ordering::Release);
        *self.outer.lock() = Some(outer.clone());
    }

    fn is_set(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.flag.store(true, Ordering::Release);
        if let Some(outer) = &*self.outer.lock() {
            outer.wake_by_ref();
        }
    }
}
