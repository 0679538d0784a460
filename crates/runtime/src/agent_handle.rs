//! An agent that runs, as others see it: what it does, what waits for it, and its children that
//! nobody waits for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use deputize_core::agent::{AgentActivity, AgentSpec, AgentSummary, Delivery};
use deputize_core::event::JournalError;
use deputize_core::{AgentId, AgentView, CallId, Cancel, CancelReason, Event, Outcome};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::agent_state::SharedState;
use crate::bus::Bus;

/// How many messages may wait for an agent. Whoever sends more is told that it takes none.
const MAX_MESSAGES: usize = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct AgentHandle {
    pub(crate) spec: Arc<AgentSpec>,
    /// For what is found out of its children.
    pub(crate) view: Weak<AgentView>,
    pub(crate) cancel: Cancel,
    /// The signal of the background children, below its own.
    pub(crate) children: Cancel,
    /// Something has come: a message, or the end of a child.
    pub(crate) news: Notify,
    born: Instant,
    /// When something last came of it, in milliseconds since it was born.
    progress: AtomicU64,
    iteration: AtomicU32,
    stalled: AtomicBool,
    /// It waits for a place among those that run.
    waits: AtomicBool,
    /// Its turn is over.
    rests: AtomicBool,
    /// How many of its questions a person has not answered.
    asks: AtomicU32,
    /// The calls that it is in, in the order they began.
    calls: Mutex<Vec<(CallId, String)>>,
    state: SharedState,
    mail: Mutex<Mailbox>,
}

#[derive(Debug, Default)]
struct Mailbox {
    /// Why nobody reads it any more.
    closed: Option<Delivery>,
    /// That it is told to end is on record.
    stopped: bool,
    /// Its end is on record, or about to be: nothing of it follows.
    over: bool,
    children: BTreeMap<AgentId, BackgroundChild>,
}

impl Mailbox {
    fn awaits_children(&self) -> bool {
        self.children.values().any(|child| !matches!(child, BackgroundChild::Told))
    }
}

/// A background child.
#[derive(Debug)]
enum BackgroundChild {
    Runs,
    /// Its parent has not been told.
    Ended(Box<ChildOutcome>),
    Told,
}

/// A background child at its end.
#[derive(Debug)]
pub(crate) struct ChildOutcome {
    pub(crate) goal: String,
    pub(crate) outcome: Outcome,
}

impl AgentHandle {
    pub(crate) fn new(view: &Arc<AgentView>, state: SharedState, cancel: Cancel) -> Self {
        Self {
            spec: Arc::clone(&view.spec),
            view: Arc::downgrade(view),
            children: cancel.child(),
            cancel,
            news: Notify::new(),
            born: Instant::now(),
            progress: AtomicU64::new(0),
            iteration: AtomicU32::new(0),
            stalled: AtomicBool::new(false),
            waits: AtomicBool::new(false),
            rests: AtomicBool::new(false),
            asks: AtomicU32::new(0),
            calls: Mutex::default(),
            state,
            mail: Mutex::default(),
        }
    }

    fn mail(&self) -> MutexGuard<'_, Mailbox> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn calls(&self) -> MutexGuard<'_, Vec<(CallId, String)>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something has come of it.
    pub(crate) fn mark_progress(&self) {
        let now = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.progress.store(now, Ordering::Relaxed);
    }

    /// It sends a request.
    pub(crate) fn asks(&self, iteration: u32) {
        self.iteration.store(iteration, Ordering::Relaxed);
        self.mark_progress();
    }

    /// It is in a call until the guard is dropped.
    pub(crate) fn mark_tool_call(&self, call: CallId, tool: &str) -> OpenCall<'_> {
        self.calls().push((call, tool.to_owned()));
        self.mark_progress();
        OpenCall { handle: self, call }
    }

    pub(crate) fn current_tool(&self) -> Option<String> {
        self.calls().first().map(|(_, tool)| tool.clone())
    }

    pub(crate) fn iteration(&self) -> u32 {
        self.iteration.load(Ordering::Relaxed)
    }

    pub(crate) fn idle(&self) -> Duration {
        let progress = Duration::from_millis(self.progress.load(Ordering::Relaxed));
        self.born.elapsed().saturating_sub(progress)
    }

    /// Says whether it is stalled; tells whether it was.
    pub(crate) fn set_stalled(&self, stalled: bool) -> bool {
        self.stalled.swap(stalled, Ordering::Relaxed)
    }

    /// Says whether it waits for a place.
    pub(crate) fn set_waits(&self, waits: bool) {
        self.waits.store(waits, Ordering::Relaxed);
    }

    /// Says whether its turn is over.
    pub(crate) fn set_rests(&self, rests: bool) {
        self.rests.store(rests, Ordering::Relaxed);
    }

    /// It waits for a person's answer until the guard is dropped.
    pub(crate) fn mark_person_question(self: &Arc<Self>) -> PersonQuestion {
        self.asks.fetch_add(1, Ordering::Relaxed);
        PersonQuestion(Arc::clone(self))
    }

    fn activity(&self) -> AgentActivity {
        let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        if self.cancel.is_cancelled() {
            AgentActivity::Ending
        } else if is(&self.waits) {
            AgentActivity::Waiting
        } else if self.asks.load(Ordering::Relaxed) > 0 {
            AgentActivity::Asking
        } else if is(&self.rests) {
            AgentActivity::Resting
        } else if is(&self.stalled) {
            AgentActivity::Stalled
        } else {
            AgentActivity::Running
        }
    }

    pub(crate) fn summary(&self) -> AgentSummary {
        AgentSummary {
            id: self.spec.id.clone(),
            goal: self.spec.goal.clone(),
            doing: self.activity(),
            iteration: self.iteration(),
            current_tool: self.current_tool(),
            idle_ms: u64::try_from(self.idle().as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Leaves it a message without secrets, on record, so that it is read also after a kill. The
    /// lock keeps the order of the records and that of the messages the same, and a message from
    /// coming behind its end.
    ///
    /// # Errors
    /// When the journal takes no records: then it is not left.
    pub(crate) fn deliver(&self, text: String, bus: &Bus) -> Result<Delivery, JournalError> {
        let mail = self.mail();
        if let Some(why) = mail.closed {
            return Ok(why);
        }
        if self.state.read().mailbox().len() >= MAX_MESSAGES {
            return Ok(Delivery::Full);
        }
        bus.record(&self.spec, Event::MessageLeft { text })?;
        drop(mail);
        self.news.notify_waiters();
        Ok(Delivery::Left)
    }

    /// Tells it to end, on record, so that neither it nor one below it goes on after a kill. The
    /// lock keeps the record from coming behind that of its end.
    ///
    /// # Errors
    /// When the journal takes no records: it is told to end all the same.
    pub(crate) fn stop(&self, reason: CancelReason, bus: &Bus) -> Result<(), JournalError> {
        let mut mail = self.mail();
        let recorded = if mail.over || mail.stopped {
            Ok(())
        } else {
            let stop = Event::AgentStop { reason, pending: true };
            bus.record(&self.spec, stop).map(|_| ())
        };
        mail.stopped |= recorded.is_ok();
        drop(mail);
        self.cancel.cancel(reason);
        recorded
    }

    /// Its end goes on record now.
    pub(crate) fn is_over(&self) {
        self.mail().over = true;
    }

    fn has_messages(&self) -> bool {
        !self.state.read().mailbox().is_empty()
    }

    /// The ends of children that it has not been told.
    pub(crate) fn take_ended(&self) -> Vec<ChildOutcome> {
        let mut mail = self.mail();
        let mut ended = Vec::new();
        for child in mail.children.values_mut() {
            match std::mem::replace(child, BackgroundChild::Told) {
                BackgroundChild::Ended(child) => ended.push(*child),
                other => *child = other,
            }
        }
        ended
    }

    /// The children of whose end it has not been told, also those that still run.
    pub(crate) fn unreported(&self) -> Vec<AgentId> {
        let mail = self.mail();
        let untold =
            mail.children.iter().filter(|(_, child)| !matches!(child, BackgroundChild::Told));
        untold.map(|(id, _)| id.clone()).collect()
    }

    /// Whether something waits for it.
    pub(crate) fn has_mail(&self) -> bool {
        let mail = self.mail();
        let ended = |child: &BackgroundChild| matches!(child, BackgroundChild::Ended(_));
        self.has_messages() || mail.children.values().any(ended)
    }

    /// Whether something waits for it that is worth one of its last requests: a message, or the
    /// end of the last child.
    pub(crate) fn has_last_mail(&self) -> bool {
        let mail = self.mail();
        let runs = |child: &BackgroundChild| matches!(child, BackgroundChild::Runs);
        let ended = |child: &BackgroundChild| matches!(child, BackgroundChild::Ended(_));
        let all_ended = !mail.children.values().any(runs) && mail.children.values().any(ended);
        self.has_messages() || all_ended
    }

    /// Whether something waits for it, or will. If not, it takes no message any more.
    pub(crate) fn expects_more(&self) -> bool {
        let mut mail = self.mail();
        let more = self.has_messages() || mail.awaits_children();
        if !more {
            mail.closed.get_or_insert(Delivery::Ended);
        }
        more
    }

    /// Whether the end of a background child is still to be delivered to it.
    pub(crate) fn awaits_children(&self) -> bool {
        self.mail().awaits_children()
    }

    /// It takes no message any more, for this reason.
    pub(crate) fn close(&self, why: Delivery) {
        self.mail().closed = Some(why);
    }

    /// Adds a background child. Returns false if it is known already.
    pub(crate) fn record_child_start(&self, child: AgentId) -> bool {
        let mut mail = self.mail();
        let new = !mail.children.contains_key(&child);
        if new {
            mail.children.insert(child, BackgroundChild::Runs);
        }
        new
    }

    /// It was told of the end of a child by an earlier process.
    pub(crate) fn mark_child_reported(&self, child: AgentId) {
        self.mail().children.insert(child, BackgroundChild::Told);
    }

    pub(crate) fn record_child_end(&self, goal: String, outcome: Outcome) {
        let id = outcome.agent.clone();
        let child = Box::new(ChildOutcome { goal, outcome });
        self.mail().children.insert(id, BackgroundChild::Ended(child));
        self.news.notify_waiters();
    }

    /// Forgets a child that did not begin after all.
    pub(crate) fn forget_child(&self, child: &AgentId) {
        self.mail().children.remove(child);
    }

    /// True while a background child runs.
    pub(crate) fn runs(&self, child: &AgentId) -> bool {
        matches!(self.mail().children.get(child), Some(BackgroundChild::Runs))
    }

    /// Waits until no background child runs.
    pub(crate) async fn children_ended(&self) {
        loop {
            let mut news = std::pin::pin!(self.news.notified());
            news.as_mut().enable();
            if !self.mail().children.values().any(|child| matches!(child, BackgroundChild::Runs)) {
                return;
            }
            news.await;
        }
    }
}

/// See [`AgentHandle::asks_person`].
pub(crate) struct PersonQuestion(Arc<AgentHandle>);

impl Drop for PersonQuestion {
    fn drop(&mut self) {
        self.0.asks.fetch_sub(1, Ordering::Relaxed);
    }
}

/// See [`AgentHandle::calls_tool`].
pub(crate) struct OpenCall<'p> {
    handle: &'p AgentHandle,
    call: CallId,
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        self.handle.calls().retain(|(call, _)| *call != self.call);
        self.handle.mark_progress();
    }
}
