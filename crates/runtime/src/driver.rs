//! Drives one agent's fold: asks it what to do, does it, puts the result on record, and gives
//! it back.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deputize_core::{
    AgentSpec, AgentView, BudgetOf, Cancel, CancelReason, ContextUse, Delivery, Event, ExitReason,
    JournalError, LogLevel, Message, Outcome, Run, ShellPlace, Status, Step, UserMessage, WrapUp,
    describe_error,
};
use futures_util::FutureExt as _;
use tokio::time::Instant;

use crate::agent_state::{AgentState, NextStep, SharedState};
use crate::background::Place;
use crate::budget_ledger::AgentBudget;
use crate::call::{GRACE, MOST_LEVELS};
use crate::parts::{Route, SyncMode};
use crate::presence::Presence;
use crate::shared::Shared;
use crate::stored::EarlierTime;
use crate::tree::Spent;
use crate::wall::{Over, Running, Wall};

/// One agent and all it needs to go on.
pub(crate) struct Driver {
    pub(crate) shared: Arc<Shared>,
    pub(crate) view: Arc<AgentView>,
    /// Everything that is on record of it.
    pub(crate) state: SharedState,
    /// How long it ran in earlier processes.
    pub(crate) earlier: EarlierTime,
    /// The model that it asks, and after it those to fall back on.
    pub(crate) routes: VecDeque<Route>,
    /// How long it waited to try again in this turn.
    pub(crate) waited: Duration,
    pub(crate) cancel: Cancel,
    /// Where a budget holds.
    pub(crate) budget: Option<AgentBudget>,
    /// The output limit of its request that the budget has room for.
    pub(crate) output_limit: Option<u32>,
    /// The output limit of its next request, after a reply reached the one before.
    pub(crate) wider_output: Option<u32>,
    /// Why the budget had no room for it to begin.
    pub(crate) no_room: Option<String>,
    /// Whether it is a program of its own that was started: nobody here knows what that costs.
    pub(crate) runs_program: bool,
    /// What a program that it is told of itself at its end.
    pub(crate) reported: Option<Outcome>,
    /// What its budget had no room for, where that ended it.
    pub(crate) short: Option<String>,
    /// How it ended, and why, where a hook or a person did not let it begin.
    pub(crate) blocked: Option<(Status, String)>,
    /// It as others see it.
    pub(crate) presence: Arc<Presence>,
    /// Where it must wait for a place before it begins.
    pub(crate) place: Mutex<Option<Place>>,
    started: Instant,
    /// When it is told to close, and at which limit; after that, when it must end.
    deadline: Option<(Instant, WrapUp)>,
    wrapping_up: bool,
}

impl Driver {
    pub(crate) fn new(
        shared: Arc<Shared>,
        view: Arc<AgentView>,
        routes: Vec<Route>,
        cancel: Cancel,
    ) -> Self {
        let state = shared.states.open(&view.spec);
        publish(&state.read(), &view);
        let presence = Arc::new(Presence::new(&view, state.clone(), cancel.clone()));
        if shared.parts.external.contains_key(&view.spec.model) {
            presence.close(Delivery::External);
        }
        let limited = shared.parts.budgets.limit(view.spec.depth > 0) && shared.play.is_none();
        let is_new = state.read().run().iterations() == 0;
        Self {
            budget: limited.then(|| shared.budget.open(&view.spec, is_new)),
            shared,
            view,
            state,
            earlier: EarlierTime::default(),
            routes: routes.into(),
            waited: Duration::ZERO,
            cancel,
            output_limit: None,
            wider_output: None,
            no_room: None,
            runs_program: false,
            reported: None,
            short: None,
            blocked: None,
            presence,
            place: Mutex::default(),
            started: Instant::now(),
            deadline: None,
            wrapping_up: false,
        }
    }

    /// Runs the agent to the end of its turn. There is no way out without an outcome.
    pub(crate) async fn drive(mut self) -> Outcome {
        self.take_up_children();
        if let Some(play) = self.shared.play.clone() {
            // Apart, so that an agent that is not replayed has no room for it.
            return Box::pin(self.replay(play)).await;
        }
        let _place = self.enter().await;
        Box::pin(self.await_budget()).await;
        let _running = self.begin_time();
        let turned = AssertUnwindSafe(self.turn()).catch_unwind().await;
        // It asks for nothing more: what it had reserved is for the others.
        self.close_budget();
        let ran: Vec<_> = self.shared.tree().live_below(self.view.id()).cloned().collect();
        self.end_children().await;
        let fault = match turned {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(describe_error(&error)),
            Err(_) => Some("the agent's loop panicked: this is a bug in deputize".to_owned()),
        };
        // What its tools kept for it ends with it.
        self.view.store.close().await;
        if let NextStep::Done = self.next_step() {
            // A journal that takes nothing shows at the record of this agent's own end.
            let _kept = Box::pin(self.shared.end_orphans(&self.view.spec, &self.cancel)).await;
        }
        let mut outcome = self.outcome(fault);
        if !has_answered(self.state.read().run()) {
            self.shared.tree().give_words(&mut outcome);
        }
        self.shared.tree().tell(&mut outcome, ran);
        if let Some(told) = self.reported.take() {
            outcome = crate::external::merged(outcome, told);
        }
        if let Some(reason) = self.blocked.take() {
            outcome = crate::hook::blocked(outcome, reason);
        }
        outcome.session_path = self.shared.path_for(&self.view.spec);
        outcome.found = self.shared.found(&self.view.spec, &outcome);
        if self.view.spec.depth > 0 {
            self.view.session.files.ended(self.view.id());
        }
        self.presence.is_over();
        let end = Event::AgentEnd(Box::new(outcome.clone()));
        // If even this cannot be kept, the outcome still reaches whoever waits.
        if let Ok(record) = self.shared.bus.record(&self.view.spec, end) {
            let _synced = self.kept(record.seq).await;
        }
        self.shared.has_ended(&self.view.spec, &outcome);
        let signal = self.shared.signal_above(&self.view.spec);
        let signal = signal.unwrap_or(self.cancel);
        Box::pin(self.shared.after_child(&self.view.spec, &outcome, &signal)).await;
        outcome
    }

    async fn turn(&mut self) -> Result<(), JournalError> {
        let program = self.program();
        let begun = self.state.read().has_begun();
        if begun && program.is_some() {
            self.lost_program();
            return Ok(());
        }
        if !begun {
            if !Box::pin(self.may_begin()).await? {
                return Ok(());
            }
            if program.is_some() && !Box::pin(self.may_act_alone()).await? {
                return Ok(());
            }
            let text = self.shared.parts.secrets.scrub(&self.view.spec.task).into_owned();
            self.input(Event::Message(UserMessage { text, from: None })).await?;
            let late = self.is_spent().then(|| Over::BeforeItBegan.to_string());
            if let Some(short) = late.or(self.no_room.take()) {
                self.short = Some(short);
                self.input(Event::AgentStop { reason: CancelReason::Budget, pending: false })
                    .await?;
                self.check_answer().await?;
                return Ok(());
            }
        }
        if let Some(program) = program {
            return Box::pin(self.run_program(program)).await;
        }
        // It was told to end while it waited, or its time was over in an earlier process.
        self.end_if_told().await?;
        loop {
            self.take_mail().await?;
            match self.next_step() {
                NextStep::Ask { iteration, tools } => self.ask(iteration, tools).await?,
                NextStep::Call(open) => self.call(&open).await?,
                NextStep::Rest | NextStep::Done => {
                    // What its children bring may change the answer: until then it is none.
                    let may_rest = self.state.read().run().may_rest();
                    let waits = may_rest && self.presence.awaits_children();
                    if (waits || !self.check_answer().await?) && !self.await_news().await? {
                        return Ok(());
                    }
                }
            }
            self.end_if_told().await?;
        }
    }

    /// Ends the turn where somebody wants that, or its time is up.
    async fn end_if_told(&mut self) -> Result<(), JournalError> {
        if let Some(reason) = self.cancel.reason() {
            let reason = self.as_told(reason);
            self.input(Event::AgentStop { reason, pending: false }).await
        } else if self.is_late() {
            self.time_is_up().await
        } else {
            Ok(())
        }
    }

    /// Why this agent is told to end, by the reason that its signal gives.
    pub(crate) fn as_told(&self, reason: CancelReason) -> CancelReason {
        if self.cancel.is_own() { reason } else { reason.below() }
    }

    /// Waits for a place among those that run, if it needs one, and until children may begin.
    async fn enter(&mut self) -> Option<Box<dyn Any + Send>> {
        let place = self.place.get_mut().unwrap_or_else(PoisonError::into_inner).take()?;
        let shared = Arc::clone(&self.shared);
        let place = async {
            let place = place.await;
            shared.unpaused().await;
            place
        };
        let place = tokio::select! {
            biased;
            () = self.cancel.cancelled() => None,
            place = place => Some(place),
        };
        self.presence.set_waits(false);
        place
    }

    /// Its time begins, and that of all children together goes on.
    fn begin_time(&mut self) -> Option<Running> {
        self.started = Instant::now();
        self.presence.moved();
        let own = self.view.spec.limits.time_ms;
        let child = self.view.spec.depth > 0;
        // Whoever goes on with the top agent gives it its whole time again.
        let ran = if child { self.earlier.agent } else { Duration::ZERO };
        let left = Duration::from_millis(own).saturating_sub(ran);
        let own = (own > 0).then(|| (self.started + left, WrapUp::Time));
        let running = self.shared.wall.as_ref().filter(|_| child).map(Wall::enter);
        let shared = running.as_ref().map(|running| (running.until, WrapUp::Budget));
        self.deadline = own.into_iter().chain(shared).min_by_key(|(at, _)| *at);
        running
    }

    /// Whether it has reached its limit.
    pub(crate) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|(deadline, _)| deadline <= Instant::now())
    }

    /// Whether the time of all children was spent before it began.
    fn is_spent(&self) -> bool {
        self.is_late() && self.time_limit() == WrapUp::Budget
    }

    /// The first time: a closing request. The second time: the end.
    pub(crate) async fn time_is_up(&mut self) -> Result<(), JournalError> {
        let wrap_up = self.view.spec.limits.wrap_up_ms;
        let limit = self.time_limit();
        if self.wrapping_up || wrap_up == 0 {
            let reason = match limit {
                WrapUp::Time => CancelReason::TimeLimit,
                WrapUp::Budget => CancelReason::Budget,
            };
            if wrap_up == 0 && limit == WrapUp::Budget {
                self.short = Some(Over::NoneLeft.to_string());
            }
            return self.input(Event::AgentStop { reason, pending: false }).await;
        }
        self.until_children_closed().await;
        self.wrapping_up = true;
        self.deadline = Some((Instant::now() + Duration::from_millis(wrap_up), limit));
        // It hears of children that have ended.
        self.take_mail().await?;
        let budget = (limit == WrapUp::Budget).then_some(BudgetOf::Seconds);
        if budget.is_some() {
            self.short = Some(Over::NoClosingAnswer(wrap_up).to_string());
        }
        self.input(Event::AgentWrapUp { limit, budget }).await
    }

    /// Records an event of this agent, which changes its state.
    pub(crate) async fn input(&mut self, event: Event) -> Result<(), JournalError> {
        let record = self.shared.bus.record(&self.view.spec, event)?;
        self.kept(record.seq).await?;
        publish(&self.state.read(), &self.view);
        self.presence.moved();
        Ok(())
    }

    /// Returns what the agent does next.
    pub(crate) fn next_step(&self) -> NextStep {
        self.state.read().next_step()
    }

    /// What `journal.sync: always` asks for after a record.
    pub(crate) async fn kept(&self, seq: u64) -> Result<(), JournalError> {
        match self.shared.parts.sync {
            SyncMode::Always => self.shared.bus.durable(seq).await,
            SyncMode::Turn | SyncMode::Never => Ok(()),
        }
    }

    /// A signal for one piece of work: below the agent's, and given when the time is up.
    /// The guard must live as long as the work.
    pub(crate) async fn until_deadline<T>(
        &self,
        work: &Cancel,
        future: impl Future<Output = T>,
    ) -> T {
        until(self.deadline.map(|(deadline, _)| deadline), work, future).await
    }

    /// The same for work that other agents do: at a limit that they share with this one they give
    /// their closing answers first, those at the bottom before those above them.
    pub(crate) async fn until_deadline_below<T>(
        &self,
        work: &Cancel,
        future: impl Future<Output = T>,
    ) -> T {
        until(self.deadline_below(), work, future).await
    }

    fn deadline_below(&self) -> Option<Instant> {
        let (deadline, limit) = self.deadline?;
        if limit == WrapUp::Time || self.wrapping_up {
            return Some(deadline);
        }
        let level = Duration::from_millis(self.view.spec.limits.wrap_up_ms) + GRACE;
        Some(deadline + level * self.view.authority.spawn_depth().min(MOST_LEVELS))
    }

    /// At a limit that they share waits for the children that nobody waits for: they close now.
    async fn until_children_closed(&self) {
        let Some(deadline) = self.deadline_below() else { return };
        let work = self.cancel.child();
        let closed = async {
            tokio::select! {
                biased;
                () = work.cancelled() => {}
                () = self.presence.children_ended() => {}
            }
        };
        until(Some(deadline), &work, closed).await;
    }

    /// The same without a signal: nothing when the time was up before the work was done.
    pub(crate) async fn before_deadline<F: Future>(
        &self,
        future: Pin<&mut F>,
    ) -> Option<F::Output> {
        let Some((deadline, _)) = self.deadline else { return Some(future.await) };
        tokio::time::timeout_at(deadline, future).await.ok()
    }

    /// Which limit its time is up at.
    pub(crate) fn time_limit(&self) -> WrapUp {
        self.deadline.map_or(WrapUp::Time, |(_, limit)| limit)
    }

    fn outcome(&self, fault: Option<String>) -> Outcome {
        let spec = &self.view.spec;
        let output = self.answer_value();
        let (mut outcome, mut cost) = {
            let state = self.state.read();
            (outcome_of(spec, &state, fault), state.cost())
        };
        cost.unpriced |= self.runs_program;
        let ended = self.shared.ended(spec, Spent { usage: outcome.usage, cost });
        outcome.output = output;
        if outcome.exit_reason == ExitReason::Budget && outcome.status == Status::Failed {
            outcome.error = self.short.clone().or(outcome.error);
        }
        outcome.children_usage = ended.below.usage;
        cost += ended.below.cost;
        outcome.cost_usd = cost.known_usd();
        let ran = self.earlier.agent + self.started.elapsed();
        outcome.duration_ms = u64::try_from(ran.as_millis()).unwrap_or(u64::MAX);
        outcome
    }

    /// A remark on record.
    pub(crate) fn log(&self, level: LogLevel, message: String) -> Result<(), JournalError> {
        self.shared.bus.record(&self.view.spec, Event::Log { level, message }).map(|_| ())
    }
}

/// Waits for work, which is given its signal when the time is up.
async fn until<T>(deadline: Option<Instant>, work: &Cancel, future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    if let Some(deadline) = deadline {
        tokio::select! {
            biased;
            done = &mut future => return done,
            () = tokio::time::sleep_until(deadline) => work.cancel(CancelReason::LimitAbove),
        }
    }
    future.await
}

/// Shows an agent's tools what they may know of its state.
pub(crate) fn publish(state: &AgentState, view: &AgentView) {
    if let Some(path) = state.shell() {
        view.store.get_or_insert_with(ShellPlace::default).set(path);
    }
    if let Some(tokens) = state.context_tokens() {
        view.store.get_or_insert_with(ContextUse::default).set(tokens);
    }
}

/// Returns whether a turn came to an answer.
fn has_answered(run: &Run) -> bool {
    let ends_with_text = run.messages().last().is_some_and(|last| match &**last {
        Message::Assistant(said) => said.calls.is_empty(),
        Message::User(_) | Message::Tool(_) => false,
    });
    ends_with_text || !run.answers().is_empty()
}

/// Returns what the state of an agent says of its end.
pub(crate) fn outcome_of(spec: &AgentSpec, state: &AgentState, fault: Option<String>) -> Outcome {
    let run = state.run();
    let mut outcome = match (run.step(), fault) {
        (Step::Done(end), None) => Outcome {
            status: end.status,
            exit_reason: end.reason,
            text: end.text.clone(),
            partial: end.partial,
            error: end.error.clone(),
            provider_unavailable: end.unavailable,
            ..host_fault(spec, String::new())
        },
        (_, fault) => {
            let fault = fault.unwrap_or_else(|| "the agent ended without an end".to_owned());
            Outcome { text: run.text(), ..host_fault(spec, fault) }
        }
    };
    outcome.iterations = run.iterations();
    outcome.usage = run.usage();
    outcome.trace = run.trace().to_vec();
    outcome.requests = state.requests();
    outcome.receipts = state.receipts().clone();
    if !run.served().is_empty() {
        run.served().clone_into(&mut outcome.model);
    }
    outcome
}

/// The outcome of an agent that the host could not run.
pub(crate) fn host_fault(spec: &AgentSpec, error: String) -> Outcome {
    Outcome::without_run(spec, Status::Error, error)
}
