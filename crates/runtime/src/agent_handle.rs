//! A running agent, as others see it: its activity, its mailbox, and its background children.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use deputize_core::agent::{AgentActivity, AgentSpec, AgentSummary, ContinueError, Delivery};
use deputize_core::event::JournalError;
use deputize_core::name::ChildEndId;
use deputize_core::process::ProcessEnd;
use deputize_core::source_set::SourceSet;
use deputize_core::{AgentId, AgentView, Cancel, CancelReason, Event, Outcome};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::agent_progress::AgentProgress;
use crate::agent_states::SharedState;
use crate::bus::Bus;

/// Limit on messages that wait for an agent. Further ones are refused.
const MAX_MESSAGES: usize = 64;

/// A running agent, as its parent, its siblings and the session reach it.
#[derive(Debug)]
pub(crate) struct AgentHandle {
    pub(crate) spec: Arc<AgentSpec>,
    /// The agent's view, for inspecting its children.
    pub(crate) view: Weak<AgentView>,
    pub(crate) cancel: Cancel,
    /// The signal of the background children, below its own.
    pub(crate) children: Cancel,
    /// Signals a message, or the end of a child or of a background command.
    pub(crate) news: Notify,
    pub(crate) progress: Arc<AgentProgress>,
    state: SharedState,
    mail: Mutex<Mailbox>,
}

#[derive(Debug, Default)]
struct Mailbox {
    /// Why it takes no more messages; `None` while it does.
    closed: Option<Delivery>,
    /// Whether its stop is on record.
    stopped: bool,
    /// Whether its end is on record, or about to be; no record of it follows.
    over: bool,
    /// Background children whose end was not delivered to it.
    children: BTreeMap<AgentId, BackgroundChild>,
    /// Background commands that run and whose ends it gets a message about.
    processes: BTreeSet<String>,
}

impl Mailbox {
    /// Returns whether it will get the end of a child or of a command.
    fn awaits_ends(&self) -> bool {
        !self.processes.is_empty() || !self.children.is_empty()
    }
}

/// A background child whose end was not delivered to its parent.
#[derive(Debug)]
enum BackgroundChild {
    Runs,
    Ended(Box<ChildOutcome>),
}

impl BackgroundChild {
    fn into_outcome(self) -> Option<ChildOutcome> {
        match self {
            Self::Runs => None,
            Self::Ended(child) => Some(*child),
        }
    }
}

/// A background child at its end.
#[derive(Debug)]
pub(crate) struct ChildOutcome {
    pub(crate) id: ChildEndId,
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
            progress: Arc::default(),
            state,
            mail: Mutex::default(),
        }
    }

    fn mail(&self) -> MutexGuard<'_, Mailbox> {
        self.mail.lock()
    }

    fn activity(&self) -> AgentActivity {
        if self.cancel.is_cancelled() || self.state.read().run().is_last() {
            return AgentActivity::Ending;
        }
        self.progress.activity()
    }

    pub(crate) fn summary(&self) -> AgentSummary {
        AgentSummary {
            id: self.spec.id.clone(),
            goal: self.spec.goal.clone(),
            activity: self.activity(),
            iteration: self.progress.iteration(),
            current_tool: self.progress.current_tool(),
            idle_ms: u64::try_from(self.progress.idle().as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Delivers a message of these sources, without secrets. The message is on record, so it is read also after a
    /// kill. The lock keeps records and messages in the same order, and keeps messages from
    /// following the agent's end.
    ///
    /// # Errors
    /// When the journal takes no records; then the message is not delivered.
    pub(crate) fn deliver(
        &self,
        text: String,
        sources: SourceSet,
        bus: &Bus,
    ) -> Result<Delivery, JournalError> {
        let mail = self.mail();
        if let Some(why) = mail.closed {
            return Ok(why);
        }
        if self.state.read().mailbox().len() >= MAX_MESSAGES {
            return Ok(Delivery::Full);
        }
        bus.record(&self.spec, Event::MessageLeft { text, sources })?;
        drop(mail);
        self.news.notify_waiters();
        Ok(Delivery::Left)
    }

    /// Stops the agent. The stop is on record, so neither it nor an agent below it goes on after a
    /// kill. The lock keeps the record from following that of its end.
    ///
    /// # Errors
    /// When the journal takes no records; the agent is stopped all the same.
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

    /// Marks the agent as ended: its end goes on record next.
    pub(crate) fn mark_over(&self) {
        self.mail().over = true;
    }

    fn has_messages(&self) -> bool {
        !self.state.read().mailbox().is_empty()
    }

    /// Returns whether others have left words for it: not the end of a command.
    fn has_words(&self) -> bool {
        self.state.read().mailbox().has_words()
    }

    /// Takes the outcomes of background children that have ended, to deliver them.
    pub(crate) fn take_ended(&self) -> Vec<ChildOutcome> {
        let mut mail = self.mail();
        let is_ended =
            |_: &AgentId, child: &mut BackgroundChild| matches!(child, BackgroundChild::Ended(_));
        let ended = mail.children.extract_if(.., is_ended).map(|(_, child)| child);
        ended.filter_map(BackgroundChild::into_outcome).collect()
    }

    /// Returns the background children whose end was not delivered to it, running ones included.
    pub(crate) fn unreported(&self) -> Vec<AgentId> {
        self.mail().children.keys().cloned().collect()
    }

    /// Returns whether messages or ends of children wait for it.
    pub(crate) fn has_mail(&self) -> bool {
        let mail = self.mail();
        let ended = |child: &BackgroundChild| matches!(child, BackgroundChild::Ended(_));
        self.has_messages() || mail.children.values().any(ended)
    }

    /// Returns whether something waits for it that is worth one of its last requests: words of
    /// others, the end of the last child, or of the last command before its closing answer.
    pub(crate) fn has_last_mail(&self, has_closing_answer: bool) -> bool {
        let mail = self.mail();
        let runs = |child: &BackgroundChild| matches!(child, BackgroundChild::Runs);
        let ended = |child: &BackgroundChild| matches!(child, BackgroundChild::Ended(_));
        let all_ended = !mail.children.values().any(runs) && mail.children.values().any(ended);
        let commands_ended = mail.processes.is_empty() && self.has_messages();
        self.has_words() || all_ended || (commands_ended && !has_closing_answer)
    }

    /// Returns whether something waits for it, or will. If not, it takes no more messages. After its
    /// closing answer the end of a command is nothing to wait for.
    pub(crate) fn expects_more(&self, has_closing_answer: bool) -> bool {
        let mut mail = self.mail();
        let waits = if has_closing_answer { self.has_words() } else { self.has_messages() };
        let more = waits || mail.awaits_ends();
        if !more {
            mail.closed.get_or_insert(Delivery::Ended);
        }
        more
    }

    /// Returns whether the end of a background child or command is still to be delivered to it.
    pub(crate) fn awaits_ends(&self) -> bool {
        self.mail().awaits_ends()
    }

    /// Returns whether the ends of background commands are all that is still to come.
    pub(crate) fn awaits_commands_alone(&self) -> bool {
        let mail = self.mail();
        !mail.processes.is_empty() && mail.children.is_empty() && !self.has_words()
    }

    /// Adds a background command whose end it gets a message about.
    pub(crate) fn await_process(&self, process: &str) {
        self.mail().processes.insert(process.to_owned());
    }

    /// Records the end of a background command, whose message waits for it from then on. The lock
    /// keeps the record from following that of its own end.
    ///
    /// # Errors
    /// When the journal takes no records.
    pub(crate) fn record_process_end(
        &self,
        end: ProcessEnd,
        bus: &Bus,
    ) -> Result<(), JournalError> {
        let mut mail = self.mail();
        let process = end.process.clone();
        let recorded = if mail.over {
            Ok(())
        } else {
            bus.record(&self.spec, Event::ProcessEnd(Box::new(end))).map(|_| ())
        };
        mail.processes.remove(&process);
        drop(mail);
        self.news.notify_waiters();
        recorded
    }

    /// Closes the mailbox, for this reason.
    pub(crate) fn close(&self, why: Delivery) {
        self.mail().closed = Some(why);
    }

    /// Adds a background child that will have this end. Returns false if it is known already, also
    /// from its records.
    pub(crate) fn record_child_start(&self, end: ChildEndId) -> bool {
        let mut mail = self.mail();
        let is_delivered = self.state.read().run().delivered().contains(&end);
        let new = !is_delivered && !mail.children.contains_key(&end.child);
        if new {
            mail.children.insert(end.child, BackgroundChild::Runs);
        }
        new
    }

    /// Adds a child again that has ended and gets a further task.
    ///
    /// # Errors
    /// While it runs, or when the message about its last end has not been delivered.
    pub(crate) fn reopen_child(&self, child: &AgentId) -> Result<(), ContinueError> {
        let mut mail = self.mail();
        match mail.children.get(child) {
            Some(BackgroundChild::Runs) => Err(ContinueError::Running),
            Some(BackgroundChild::Ended(_)) => Err(ContinueError::Unreported),
            None => {
                mail.children.insert(child.clone(), BackgroundChild::Runs);
                Ok(())
            }
        }
    }

    pub(crate) fn record_child_end(&self, child: ChildOutcome) {
        let id = child.id.child.clone();
        self.mail().children.insert(id, BackgroundChild::Ended(Box::new(child)));
        self.news.notify_waiters();
    }

    /// Forgets a child that did not begin after all.
    pub(crate) fn forget_child(&self, child: &AgentId) {
        self.mail().children.remove(child);
    }

    /// Returns true while this background child runs.
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
