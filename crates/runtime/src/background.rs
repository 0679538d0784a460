//! Children that nobody waits for: how they begin, how their parent is told of their end, once,
//! and how it rests until then.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use deputize_core::door::{Source, to_line, to_model};
use deputize_core::{
    AgentSpec, AgentView, AttachError, BoxFuture, CallId, CancelReason, ChildFound, Delivery,
    Event, ExitReason, JournalError, Outcome, Step, ToolChoice, ToolOutput, UserMessage,
    describe_error, poll_once,
};

use crate::agent_state::NextStep;
use crate::call::recorded;
use crate::driver::{Driver, host_fault};
use crate::presence::{ChildOutcome, Presence};
use crate::resume::settle;
use crate::shared::Shared;
use crate::stored::StoredAgent;

/// The most characters of one remark beside what a message tells of a child.
const NOTE_CHARS: usize = 2000;
/// The most characters of a child's goal in the message of its end.
const GOAL_CHARS: usize = 200;

impl Shared {
    /// Begins a child that nobody waits for. One that is known already is left as it is, so that
    /// asking again is safe.
    pub(crate) fn begin_background(
        self: &Arc<Self>,
        parent: &AgentView,
        spec: AgentSpec,
    ) -> Result<(), AttachError> {
        let gone = || AttachError::Journal("its parent has ended".to_owned());
        let presence = self.tree().live.get(parent.id()).cloned().ok_or_else(gone)?;
        let id = spec.id.clone();
        if !presence.child_begins(id.clone()) {
            return Ok(());
        }
        let driver = self.spawn_new(parent, spec, &presence.children);
        match driver {
            Ok(driver) => {
                self.launch_background(driver, parent, presence);
                Ok(())
            }
            Err(error) => {
                presence.child_is_none(&id);
                Err(error)
            }
        }
    }

    fn launch_background(
        self: &Arc<Self>,
        mut driver: Driver,
        parent: &AgentView,
        presence: Arc<Presence>,
    ) {
        // Places are granted in the order of those who ask. A replay follows its records.
        let handoff = self.parts.handoff.as_ref().filter(|_| self.play.is_none());
        let place = handoff.map(|handoff| poll_once(handoff.place(parent)));
        let waits = place.as_ref().is_some_and(|(_, granted)| !granted || self.paused().is_some());
        driver.presence.set_waits(waits);
        driver.place = Mutex::new(place.map(|(place, _)| place));
        let shared = Arc::clone(self);
        let goal = driver.view.spec.goal.clone();
        let told = move |outcome: Outcome| {
            presence.child_ended(goal, outcome);
            shared.changed.notify_waiters();
        };
        self.launch_telling(driver, Box::new(told));
    }
}

impl Shared {
    /// Where it stands what a child was told, said and did. The top agent is the session.
    pub(crate) fn path_for(&self, agent: &AgentSpec) -> Option<PathBuf> {
        agent.parent.is_some().then(|| self.path.clone())
    }

    /// What there is to find out of a child at its end.
    pub(crate) fn found(&self, child: &AgentSpec, end: &Outcome) -> Option<Box<ChildFound>> {
        let handoff = self.parts.handoff.as_ref()?;
        let parent = self.tree().live.get(child.parent.as_ref()?)?.view.upgrade()?;
        let mut found = handoff.found(&parent, child, end).map(Box::new)?;
        found.stale_paths = found.stale_paths.into_iter().map(recorded).collect();
        Some(found)
    }

    /// Leaves an agent a message, on record, so that it is read also after a kill.
    ///
    /// # Errors
    /// When the journal takes no records.
    pub(crate) fn leave(&self, presence: &Presence, text: &str) -> Result<Delivery, JournalError> {
        let text = self.parts.secrets.scrub(text).into_owned();
        presence.leave(&text, |text| {
            let left = Event::MessageLeft { text: text.to_owned() };
            self.bus.record(&presence.spec, left).map(|_| ())
        })
    }
}

impl Driver {
    /// Takes up the children that nobody waits for and that an earlier process left: those that
    /// had ended are told of, the others go on.
    pub(crate) fn take_up_children(&self) {
        let (shared, view) = (&self.shared, &self.view);
        let told = self.state.read().run().delivered().clone();
        told.into_iter().for_each(|child| self.presence.child_was_told(child));
        let left = shared.tree().take_background(view.id());
        for stored in left {
            let (id, spec) = (stored.spec.id.clone(), stored.spec.clone());
            if !self.presence.child_begins(id) {
                continue;
            }
            let ended = stored.state.read().outcome().is_some();
            if ended {
                let goal = spec.goal;
                shared.after_child_of_before(stored, self.tell_of_child(goal));
                continue;
            }
            if let Err(error) = self.take_up(stored) {
                self.presence.child_ended(spec.goal.clone(), host_fault(&spec, error));
            }
        }
    }

    /// Tells this agent of the end of a child that nobody waits for.
    fn tell_of_child(&self, goal: String) -> impl FnOnce(Outcome) + Send + 'static {
        let (presence, shared) = (Arc::clone(&self.presence), Arc::clone(&self.shared));
        move |outcome| {
            presence.child_ended(goal, outcome);
            shared.changed.notify_waiters();
        }
    }

    fn take_up(&self, stored: StoredAgent) -> Result<(), String> {
        let shared = &self.shared;
        if let Some(why) = shared.why_it_ends(&self.view, &stored)
            && shared.play.is_none()
        {
            let goal = stored.spec.goal.clone();
            shared.end_stored(stored, why, self.tell_of_child(goal));
            return Ok(());
        }
        let authority = shared
            .child_authority(&self.view, &stored.spec.grant)
            .map_err(|error| describe_error(&error))?;
        if shared.play.is_none() {
            settle(shared, &stored).map_err(|error| describe_error(&error))?;
        }
        let cancel = self.presence.children.child();
        let driver =
            shared.revive(stored, authority, cancel).map_err(|error| describe_error(&error))?;
        shared.launch_background(driver, &self.view, Arc::clone(&self.presence));
        Ok(())
    }

    /// Puts on record what waits for this agent, and lets it take it, where its next request
    /// would show it. With a closing request it takes what others say, and no more ends.
    pub(crate) async fn take_mail(&mut self) -> Result<(), JournalError> {
        let closes = match self.next_step() {
            NextStep::Ask { tools, .. } => tools == ToolChoice::None,
            NextStep::Rest => false,
            NextStep::Call(_) | NextStep::Done => return Ok(()),
        };
        if self.cancel.is_cancelled() {
            return Ok(());
        }
        if closes && self.state.read().run().is_last() {
            self.presence.close(Delivery::Closing);
        }
        if !self.presence.has_mail() {
            return Ok(());
        }
        let ended = if closes { Vec::new() } else { self.presence.take_ended() };
        for child in ended {
            let text = self.told(&child);
            let from = Some(child.outcome.agent);
            self.input(Event::Message(UserMessage { text, from })).await?;
        }
        while let Some(text) = self.next_message() {
            self.input(Event::Message(UserMessage { text, from: None })).await?;
        }
        Ok(())
    }

    fn next_message(&self) -> Option<String> {
        self.state.read().mailbox().front().cloned()
    }

    /// What a message says of a child's end. What the child said stands in a frame of its own.
    fn told(&self, ChildOutcome { goal, outcome }: &ChildOutcome) -> String {
        let (parts, view) = (&self.shared.parts, &self.view);
        let status = outcome.status.as_str();
        let output = match &parts.handoff {
            Some(handoff) => handoff.told(view, outcome),
            None => ToolOutput::text(outcome.text.clone().unwrap_or_default()),
        };
        // No call of the parent's is numbered so: the frame is of no tool's result.
        let call = CallId { step: 0, slot: 0 };
        let source = output.source.clone();
        let source = source.unwrap_or_else(|| Source::Child(outcome.agent.to_string()));
        let content = parts.secrets.scrub(&output.content);
        let framed = to_model(&parts.secret, view.id(), call, &source, &content);
        let goal = to_line(goal, GOAL_CHARS);
        let mut text = format!(
            "Your background child {} has ended: {status}. Its goal: {goal:?}.\n",
            outcome.agent
        );
        text.push_str(framed.as_str());
        for note in &output.notes {
            text.push_str(&format!("\n[{}]", to_line(&parts.secrets.scrub(note), NOTE_CHARS)));
        }
        text
    }

    /// The turn is over. Where something is still to come, rests until it has; false: nothing is.
    pub(crate) async fn await_news(&mut self) -> Result<bool, JournalError> {
        let may_rest = self.state.read().run().may_rest();
        if !may_rest || !self.presence.expects_more() {
            return Ok(false);
        }
        // Also where an earlier process rested already: so it shows that this one came so far.
        if !self.presence.awaits_children() && (self.cancel.is_cancelled() || self.is_late()) {
            // Nobody has time for a message any more, and the answer stands.
            return Ok(false);
        }
        self.input(Event::AgentRest).await?;
        self.presence.set_rests(true);
        self.until_news().await;
        self.presence.set_rests(false);
        Ok(true)
    }

    /// Waits until there is news for it, or it must end.
    async fn until_news(&self) {
        let presence = &self.presence;
        loop {
            let mut news = std::pin::pin!(presence.news.notified());
            news.as_mut().enable();
            // Without steps left each wake is one more request: all ends share one.
            let has_steps = self.state.read().run().has_steps();
            let has_news = if has_steps { presence.has_mail() } else { presence.has_last_mail() };
            if has_news || self.cancel.is_cancelled() || self.is_late() {
                return;
            }
            let work = self.cancel.child();
            let waits = async {
                tokio::select! {
                    biased;
                    () = work.cancelled() => {}
                    () = news => {}
                }
            };
            self.until_deadline(&work, waits).await;
        }
    }

    /// Ends the children that nobody waits for: their parent ends.
    pub(crate) async fn end_children(&self) {
        self.presence.close(Delivery::Ended);
        let limit = match self.state.read().run().step() {
            Step::Done(end) => matches!(
                end.reason,
                ExitReason::Timeout | ExitReason::Budget | ExitReason::MaxIterations
            ),
            _ => false,
        };
        let why = if limit { CancelReason::LimitAbove } else { CancelReason::EndedAbove };
        self.presence.children.cancel(why);
        self.presence.children_ended().await;
    }
}

/// Waits for a place; what is held meanwhile.
pub(crate) type Place = BoxFuture<'static, Box<dyn std::any::Any + Send>>;

/// Who is told of the end of an agent that is launched.
pub(crate) type Tell = Box<dyn FnOnce(Outcome) + Send>;
