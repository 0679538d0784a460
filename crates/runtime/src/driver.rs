//! Drives one agent: asks its state what to do, does it, and puts the result on record.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use deputize_core::event::JournalError;
use deputize_core::message::UserMessage;
use deputize_core::nested_call::NestedCalls;
use deputize_core::outcome::ExitReason;
use deputize_core::run::Run;
use deputize_core::{
    AgentId, BoxFuture, CancelReason, Event, Message, Outcome, Status, describe_error,
};
use futures_util::FutureExt as _;
use tracing::{Instrument as _, Span, info_span};

use crate::agent_context::AgentContext;
use crate::agent_state::NextStep;
use crate::agent_tree::Spending;
use crate::budget_shortage::LimitReason;
use crate::child_end::{inspect_child, notify_of_end, session_path, signal_above};
use crate::external_agent::{merged, program_lost_outcome, run_program};
use crate::hook::{StartRefusal, blocked, blocked_start};
use crate::inbox::Inbox;
use crate::model_call::ModelCaller;
use crate::models::ModelRoute;
use crate::nested_runner::NestedRunner;
use crate::orphan::end_orphans;
use crate::outcome::outcome_of;
use crate::program_start::denied_start;
use crate::structured_output::{answer_value, reject_answer};
use crate::time_limit::{RunningCount, TimeShortage};
use crate::tool_runner::ToolRunner;

/// Waits for a place among the agents that run, which is given back on drop.
pub(crate) type SlotWait = BoxFuture<'static, Box<dyn Any + Send>>;

/// The parts of one agent that runs.
pub(crate) struct Driver {
    cx: Arc<AgentContext>,
    caller: ModelCaller,
    tools: ToolRunner,
    inbox: Inbox,
    end: DriverEnd,
}

/// The parts of an outcome beside the agent's state.
#[derive(Default)]
struct DriverEnd {
    /// An external agent's own outcome.
    external: Option<Box<Outcome>>,
    /// Whether an external agent was started: what that costs is not known here.
    unpriced: bool,
    /// Set if a hook or a person did not let the agent begin.
    blocked: Option<StartRefusal>,
}

impl Driver {
    pub(crate) fn new(cx: Arc<AgentContext>, routes: Vec<ModelRoute>) -> Self {
        cx.view.store.share(Arc::new(NestedCalls::new(NestedRunner::new(&cx))));
        Self {
            caller: ModelCaller::new(&cx, routes),
            tools: ToolRunner::new(&cx),
            inbox: Inbox::new(&cx),
            end: DriverEnd::default(),
            cx,
        }
    }

    /// Runs the agent to the end of its turn, once it has a place among those that run. There is
    /// always an outcome.
    pub(crate) async fn drive(mut self: Box<Self>, place: Option<SlotWait>) -> Outcome {
        let cx = Arc::clone(&self.cx);
        let _place = enter(&cx, place).await;
        let no_room = Box::pin(self.caller.await_room()).await;
        let _running = self.begin_time();
        let turned = AssertUnwindSafe(self.turn(no_room)).catch_unwind().await;
        // It asks for nothing more: what it had reserved is for the others.
        self.caller.close();
        let ran: Vec<_> = cx.shared.tree().live_below(cx.view.id()).cloned().collect();
        self.inbox.end_children().await;
        let fault = match turned {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(describe_error(&error)),
            Err(_) => Some("the agent's loop panicked: this is a bug in deputize".to_owned()),
        };
        // What its tools kept for it ends with it.
        cx.view.store.close().await;
        if let NextStep::Done = cx.next_step() {
            // A journal that takes nothing shows at the record of this agent's own end.
            let _kept = Box::pin(end_orphans(&cx.shared, cx.spec(), &cx.cancel)).await;
        }
        // Apart, as all that an agent waiting for a model needs no room for.
        Box::pin(self.end(fault, ran)).await
    }

    /// Makes the outcome of the agent, whose turn is over and below which these were live.
    async fn end(mut self: Box<Self>, fault: Option<String>, ran: Vec<AgentId>) -> Outcome {
        let cx = Arc::clone(&self.cx);
        let mut outcome = self.outcome(fault);
        if !has_answered(cx.state.read().run()) {
            cx.shared.tree().add_texts(&mut outcome);
        }
        cx.shared.tree().add_descendants(&mut outcome, ran);
        if let Some(external) = self.end.external.take() {
            outcome = merged(outcome, *external);
        }
        if let Some(refusal) = self.end.blocked.take() {
            outcome = blocked(outcome, refusal);
        }
        self.finish(outcome).await
    }

    /// Records the end of the agent, and notifies whoever waits for it.
    async fn finish(self: Box<Self>, mut outcome: Outcome) -> Outcome {
        let cx = self.cx;
        let shared = &cx.shared;
        let spec = cx.spec();
        outcome.session_path = session_path(shared, spec);
        outcome.inspection = Box::pin(inspect_child(shared, spec, &outcome)).await;
        if spec.depth > 0 {
            cx.view.session.files.forget_agent(&spec.id);
        }
        cx.handle.mark_over();
        let end = Event::AgentEnd(Box::new(outcome.clone()));
        // If even this cannot be kept, the outcome still reaches whoever waits.
        if let Ok(record) = shared.bus.record(spec, end) {
            let _synced = cx.sync(record.seq).await;
        }
        shared.tree().store_end(spec, &outcome);
        let signal = signal_above(shared, spec).unwrap_or_else(|| cx.cancel.clone());
        Box::pin(notify_of_end(shared, spec, &outcome, &signal)).await;
        shared.keep_continuable(cx.ended());
        outcome
    }

    async fn turn(&mut self, no_room: Option<LimitReason>) -> Result<(), JournalError> {
        let cx = Arc::clone(&self.cx);
        let program = cx.shared.config.external.get(&cx.spec().model).cloned();
        let begun = cx.state.read().has_begun();
        if begun && program.is_some() {
            self.end.unpriced = true;
            self.end.external = Some(Box::new(program_lost_outcome(&cx)));
            return Ok(());
        }
        if !begun && !self.begin(program.is_some(), no_room).await? {
            return Ok(());
        }
        if let Some(program) = program {
            if let Err(error) = cx.check_model(&cx.spec().model) {
                let refused = Outcome::without_run(cx.spec(), Status::Failed, error.message);
                self.end.external = Some(Box::new(refused));
                return Ok(());
            }
            self.end.unpriced = true;
            let outcome = Box::pin(run_program(&cx, &self.inbox, program)).await?;
            self.end.external = Some(Box::new(outcome));
            return Ok(());
        }
        // It was told to end while it waited, or its time was over in an earlier process.
        self.end_if_cancelled().await?;
        let mut step = Span::none();
        loop {
            self.inbox.deliver().await?;
            match cx.next_step() {
                NextStep::Ask { iteration, tools } => {
                    step = info_span!("step", number = iteration);
                    self.caller.call(iteration, tools).instrument(step.clone()).await?;
                }
                NextStep::Call(open) => {
                    Box::pin(self.tools.run(&open)).instrument(step.clone()).await?;
                }
                NextStep::Rest | NextStep::Done => {
                    Box::pin(self.inbox.await_commands()).await;
                    // What its children and commands bring may change the answer: until then it
                    // is none.
                    let waits = cx.may_rest() && cx.handle.awaits_ends();
                    if (waits || !reject_answer(&cx).await?) && !self.inbox.await_news().await? {
                        return Ok(());
                    }
                }
            }
            self.end_if_cancelled().await?;
        }
    }

    /// Gives the agent the message with its task, unless something keeps it from starting.
    async fn begin(
        &mut self,
        is_program: bool,
        no_room: Option<LimitReason>,
    ) -> Result<bool, JournalError> {
        let cx = &self.cx;
        self.end.blocked = Box::pin(blocked_start(cx)).await?;
        if self.end.blocked.is_none() && is_program {
            self.end.blocked = Box::pin(denied_start(cx)).await?;
        }
        if self.end.blocked.is_some() {
            return Ok(false);
        }
        let text = cx.shared.config.secrets.scrub(&cx.spec().task).into_owned();
        let images = cx.spec().images.clone();
        let message = UserMessage::new(text).with_sources(cx.task_sources());
        let message = UserMessage { images, ..message };
        cx.record(Event::Message(message)).await?;
        let names = &cx.shared.config.children.setting_names;
        let late = || TimeShortage::BeforeItBegan.describe(names).into();
        let late = cx.time.is_spent().then(late);
        let Some(shortage) = late.or(no_room) else { return Ok(true) };
        cx.note_shortage(shortage);
        cx.record(Event::AgentStop { reason: CancelReason::Budget, pending: false }).await?;
        reject_answer(cx).await?;
        Ok(false)
    }

    /// Ends the turn where somebody wants that, or its time is up.
    async fn end_if_cancelled(&self) -> Result<(), JournalError> {
        let cx = &self.cx;
        if let Some(reason) = cx.cancel.reason() {
            let reason = cx.own_reason(reason);
            cx.record(Event::AgentStop { reason, pending: false }).await
        } else if cx.time.is_up() {
            Box::pin(self.inbox.end_time()).await
        } else {
            Ok(())
        }
    }

    /// Its time begins, and that of all children together goes on.
    fn begin_time(&self) -> Option<RunningCount> {
        self.cx.handle.progress.mark();
        self.cx.time.begin(self.cx.earlier.agent, self.cx.shared.children_time.as_ref())
    }

    fn outcome(&self, fault: Option<String>) -> Outcome {
        let cx = &self.cx;
        let output = answer_value(cx);
        let (mut outcome, mut cost) = {
            let state = cx.state.read();
            (outcome_of(cx.spec(), &state, fault), state.cost())
        };
        cost.unpriced |= self.end.unpriced;
        let own = Spending { usage: outcome.usage, cost };
        let ended = cx.shared.registry.remove_live(cx.spec(), own);
        outcome.output = output;
        if outcome.exit_reason == ExitReason::Budget
            && outcome.status == Status::Failed
            && let Some(LimitReason { text, cause }) = cx.shortage()
        {
            outcome.error = Some(text);
            outcome.cause = cause;
        }
        outcome.children_usage = ended.below.usage;
        cost += ended.below.cost;
        outcome.cost_usd = cost.known_usd();
        outcome.duration_ms = u64::try_from(cx.run_time().as_millis()).unwrap_or(u64::MAX);
        outcome
    }
}

/// Waits for a place among those that run, if the agent needs one, and until children may begin.
async fn enter(cx: &AgentContext, place: Option<SlotWait>) -> Option<Box<dyn Any + Send>> {
    let place = place?;
    let place = async {
        let place = place.await;
        cx.shared.registry.unpaused().await;
        place
    };
    let place = tokio::select! {
        biased;
        () = cx.cancel.cancelled() => None,
        place = place => Some(place),
    };
    cx.handle.progress.set_waits(false);
    place
}

/// Returns whether a turn came to an answer.
fn has_answered(run: &Run) -> bool {
    let ends_with_text = run.messages().last().is_some_and(|last| match &**last {
        Message::Assistant(said) => said.calls.is_empty(),
        Message::User(_) | Message::Tool(_) => false,
    });
    ends_with_text || !run.answers().is_empty()
}
