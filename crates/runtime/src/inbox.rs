//! Input of an agent from outside its loop: messages, the ends of background children, and the end
//! of its time.

use std::sync::Arc;

use deputize_core::agent::Delivery;
use deputize_core::event::JournalError;
use deputize_core::message::UserMessage;
use deputize_core::model::ToolChoice;
use deputize_core::outcome::ExitReason;
use deputize_core::run::{BudgetUnit, Step, WrapUpReason};
use deputize_core::sanitize::{for_terminal_line, frame_for_model};
use deputize_core::source::Source;
use deputize_core::{CallId, CancelReason, Event, Status, ToolOutput};

use crate::agent_context::AgentContext;
use crate::agent_handle::ChildOutcome;
use crate::agent_state::NextStep;
use crate::time_limit::TimeShortage;

/// Maximum number of characters of one remark beside the report of a child.
const NOTE_CHARS: usize = 2000;
/// Limit on a child's goal in the message of its end, in characters.
const GOAL_CHARS: usize = 200;

/// Delivers what waits for one agent.
pub(crate) struct Inbox {
    cx: Arc<AgentContext>,
}

impl Inbox {
    pub(crate) fn new(cx: &Arc<AgentContext>) -> Self {
        Self { cx: Arc::clone(cx) }
    }

    /// Puts on record what waits for this agent, and lets it take it, where its next request
    /// would show it. With a closing request it takes what others say, and no more ends.
    pub(crate) async fn deliver(&self) -> Result<(), JournalError> {
        let closes = match self.cx.next_step() {
            NextStep::Ask { tools, .. } => tools == ToolChoice::None,
            NextStep::Rest => false,
            NextStep::Call(_) | NextStep::Done => return Ok(()),
        };
        if self.cx.cancel.is_cancelled() {
            return Ok(());
        }
        if closes && self.cx.state.read().run().is_last() {
            self.cx.handle.close(Delivery::Closing);
        }
        if !self.cx.handle.has_mail() {
            return Ok(());
        }
        Box::pin(self.deliver_mail(closes)).await
    }

    async fn deliver_mail(&self, closes: bool) -> Result<(), JournalError> {
        let ended = if closes { Vec::new() } else { self.cx.handle.take_ended() };
        for child in ended {
            let text = self.child_message(&child).await;
            let sources = self.cx.state.read().child_sources(&child.id.child);
            let message = UserMessage::new(text).with_sources(sources);
            self.cx.record(Event::Message(UserMessage { from: Some(child.id), ..message })).await?;
        }
        while let Some(message) = self.next_message() {
            self.cx.record(Event::Message(message)).await?;
        }
        Ok(())
    }

    fn next_message(&self) -> Option<UserMessage> {
        self.cx.state.read().mailbox().front().cloned()
    }

    /// Returns the message about a child's end. The child's report is in a frame of its own.
    async fn child_message(&self, ChildOutcome { goal, outcome, .. }: &ChildOutcome) -> String {
        let config = &self.cx.shared.config;
        let view = &self.cx.view;
        let status = outcome.status.as_str();
        let output = match &config.children.lifecycle {
            Some(lifecycle) => lifecycle.report_end(view, outcome).await,
            None => ToolOutput::text(outcome.text.clone().unwrap_or_default()),
        };
        // No call of the parent's is numbered so: the frame is of no tool's result.
        let call = CallId::new(0, 0);
        let source = output.source.clone();
        let source = source.unwrap_or_else(|| Source::child(outcome.agent.as_str()));
        let content = config.secrets.scrub(&output.content);
        let framed = frame_for_model(&config.record.secret, view.id(), call, &source, &content);
        let goal = for_terminal_line(goal, GOAL_CHARS);
        let mut text = format!(
            "Your background child {} has ended: {status}. Its goal: {goal:?}.\n",
            outcome.agent
        );
        text.push_str(framed.as_str());
        for note in &output.notes {
            text.push_str(&format!(
                "\n[{}]",
                for_terminal_line(&config.secrets.scrub(note), NOTE_CHARS)
            ));
        }
        text
    }

    /// The turn is over. Where something is still to come, rests until it has; false: nothing is.
    pub(crate) async fn await_news(&self) -> Result<bool, JournalError> {
        let has_closing_answer = self.has_closing_answer();
        if !self.cx.may_rest() || !self.cx.handle.expects_more(has_closing_answer) {
            return Ok(false);
        }
        // Also where an earlier process rested already: so it shows that this one came so far.
        if !self.cx.handle.awaits_ends() && (self.cx.cancel.is_cancelled() || self.cx.time.is_up())
        {
            // Nobody has time for a message any more, and the answer stands.
            return Ok(false);
        }
        self.cx.record(Event::AgentRest).await?;
        self.cx.handle.progress.set_rests(true);
        self.until_news(has_closing_answer).await;
        self.cx.handle.progress.set_rests(false);
        Ok(true)
    }

    /// Returns whether the turn is over with the closing answer at the limit of requests.
    fn has_closing_answer(&self) -> bool {
        match self.cx.state.read().run().step() {
            Step::Done(end) => {
                end.status == Status::Completed && end.reason == ExitReason::MaxIterations
            }
            Step::Ask { .. } | Step::Call(_) | Step::Rest => false,
        }
    }

    /// After a closing answer, waits for the background commands that still run: their ends go on
    /// record, and there is no request for them.
    pub(crate) async fn await_commands(&self) {
        let handle = &self.cx.handle;
        if self.has_closing_answer() && handle.awaits_commands_alone() {
            handle.progress.set_rests(true);
            self.wait_until(|| !handle.awaits_commands_alone()).await;
            handle.progress.set_rests(false);
        }
    }

    /// Waits until there is news for it, or it must end.
    async fn until_news(&self, has_closing_answer: bool) {
        let handle = &self.cx.handle;
        // Without steps left each wake is one more request: all ends share one.
        let has_news = || {
            let has_steps = self.cx.state.read().run().has_steps();
            if has_steps { handle.has_mail() } else { handle.has_last_mail(has_closing_answer) }
        };
        self.wait_until(has_news).await;
    }

    /// Waits until this is so, or the agent must end.
    async fn wait_until(&self, is_so: impl Fn() -> bool) {
        let handle = &self.cx.handle;
        loop {
            let mut news = std::pin::pin!(handle.news.notified());
            news.as_mut().enable();
            if is_so() || self.cx.cancel.is_cancelled() || self.cx.time.is_up() {
                return;
            }
            let work = self.cx.cancel.child();
            let waits = async {
                tokio::select! {
                    biased;
                    () = work.cancelled() => {}
                    () = news => {}
                }
            };
            self.cx.time.bound(&work, waits).await;
        }
    }

    /// Ends the background children, because their parent ends.
    pub(crate) async fn end_children(&self) {
        self.cx.handle.close(Delivery::Ended);
        let limit = match self.cx.state.read().run().step() {
            Step::Done(end) => matches!(
                end.reason,
                ExitReason::Timeout | ExitReason::Budget | ExitReason::MaxIterations
            ),
            _ => false,
        };
        let why = if limit { CancelReason::LimitAbove } else { CancelReason::EndedAbove };
        self.cx.handle.children.cancel(why);
        self.cx.handle.children_ended().await;
    }

    /// Acts on the end of the agent's time: asks for a closing answer the first time, ends the agent
    /// the second time.
    pub(crate) async fn end_time(&self) -> Result<(), JournalError> {
        let cx = &self.cx;
        let limit = cx.time.limit();
        if !cx.time.has_wrap_up() {
            let reason = match limit {
                WrapUpReason::Time => CancelReason::TimeLimit,
                WrapUpReason::Budget => CancelReason::Budget,
            };
            if cx.time.wrap_up().is_zero() && limit == WrapUpReason::Budget {
                let names = &cx.shared.config.children.setting_names;
                cx.note_shortage(TimeShortage::NoneLeft.describe(names).into());
            }
            return cx.record(Event::AgentStop { reason, pending: false }).await;
        }
        // At a limit that they share background children close first.
        cx.time.while_below(&cx.cancel, cx.handle.children_ended()).await;
        cx.time.begin_wrap_up();
        // It hears of children that have ended.
        self.deliver().await?;
        let budget = (limit == WrapUpReason::Budget).then_some(BudgetUnit::Seconds);
        if budget.is_some() {
            let wrap_up = cx.spec().limits.wrap_up_ms;
            let names = &cx.shared.config.children.setting_names;
            cx.note_shortage(TimeShortage::NoClosingAnswer(wrap_up).describe(names).into());
        }
        cx.record(Event::AgentWrapUp { limit, budget }).await
    }
}
