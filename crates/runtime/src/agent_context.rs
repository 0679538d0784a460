//! State that the parts of an agent's driver share.

use std::sync::Arc;
use std::time::Duration;

use deputize_core::agent::{AgentSpec, Delivery};
use deputize_core::context_use::ContextUse;
use deputize_core::event::{JournalError, LogLevel};
use deputize_core::model::{Delta, FailureKind, ModelError};
use deputize_core::outside_sources::OutsideSources;
use deputize_core::process_recorder::ProcessRecords;
use deputize_core::rate_limit::Permit;
use deputize_core::shell_directory::ShellPlace;
use deputize_core::source::Source;
use deputize_core::source_set::SourceSet;
use deputize_core::todo::TodoList;
use deputize_core::{AgentView, Cancel, CancelReason, Event};
use parking_lot::Mutex;

use crate::agent_handle::AgentHandle;
use crate::agent_state::NextStep;
use crate::agent_states::SharedState;
use crate::budget_shortage::{BudgetShortage, LimitReason};
use crate::earlier_times::EarlierTime;
use crate::process_journal::ProcessJournal;
use crate::session_config::SyncMode;
use crate::session_inner::SessionInner;
use crate::stored_agent::StoredAgent;
use crate::turn_time::TurnTime;

/// One agent, as the parts of its driver know it.
pub(crate) struct AgentContext {
    pub(crate) shared: Arc<SessionInner>,
    pub(crate) view: Arc<AgentView>,
    pub(crate) state: SharedState,
    pub(crate) cancel: Cancel,
    pub(crate) handle: Arc<AgentHandle>,
    pub(crate) time: TurnTime,
    /// Running time in earlier processes.
    pub(crate) earlier: EarlierTime,
    /// The limit that a budget could not meet, if that ends the agent.
    shortage: Mutex<Option<LimitReason>>,
}

impl AgentContext {
    pub(crate) fn new(
        shared: Arc<SessionInner>,
        view: Arc<AgentView>,
        earlier: EarlierTime,
        cancel: Cancel,
    ) -> Self {
        let state = shared.states.open(&view.spec);
        let handle = Arc::new(AgentHandle::new(&view, state.clone(), cancel.clone()));
        if shared.config.external.contains_key(&view.spec.model) {
            handle.close(Delivery::External);
        }
        let recorder = ProcessJournal::new(&shared, &view, &handle, &state);
        view.store.share(Arc::new(ProcessRecords::new(recorder)));
        let time = TurnTime::new(&view);
        let shortage = Mutex::default();
        let context = Self { shared, view, state, cancel, handle, time, earlier, shortage };
        context.publish();
        context
    }

    pub(crate) fn spec(&self) -> &AgentSpec {
        &self.view.spec
    }

    /// Returns how long the agent has run, with all its tasks and in all processes.
    pub(crate) fn run_time(&self) -> Duration {
        self.earlier.tasks + self.earlier.agent + self.time.elapsed()
    }

    /// Returns the agent after its end, as one of the journal.
    pub(crate) fn ended(&self) -> StoredAgent {
        StoredAgent {
            spec: (*self.view.spec).clone(),
            declared: self.view.declared.clone(),
            state: self.state.clone(),
            earlier: EarlierTime { agent: self.run_time(), ..EarlierTime::default() },
        }
    }

    /// Returns the sources of the agent's task.
    pub(crate) fn task_sources(&self) -> SourceSet {
        let mut sources = match &self.spec().parent {
            None => [Source::user()].into(),
            Some(parent) => self.shared.states.parent_sources(parent),
        };
        sources.add_all(&self.spec().task_sources);
        sources
    }

    /// Records an event of this agent, which changes its state.
    pub(crate) async fn record(&self, event: Event) -> Result<(), JournalError> {
        let record = self.shared.bus.record(&self.view.spec, event)?;
        self.sync(record.seq).await?;
        self.publish();
        self.handle.progress.mark();
        Ok(())
    }

    /// Waits as long as `journal.sync: always` asks for after a record.
    pub(crate) async fn sync(&self, seq: u64) -> Result<(), JournalError> {
        match self.shared.config.record.sync {
            SyncMode::Always => self.shared.bus.durable(seq).await,
            SyncMode::Turn | SyncMode::Never => Ok(()),
        }
    }

    /// Records a remark.
    pub(crate) fn log(&self, level: LogLevel, message: String) -> Result<(), JournalError> {
        let log = Event::Log { level, message, cause: None };
        self.shared.bus.record(&self.view.spec, log).map(|_| ())
    }

    /// Warns of what a budget has too little of for the next request.
    pub(crate) fn warn_of_shortage(&self, short: &BudgetShortage) -> Result<(), JournalError> {
        let LimitReason { text, cause } = short.warning();
        let log = Event::Log { level: LogLevel::Warn, message: text, cause };
        self.shared.bus.record(&self.view.spec, log).map(|_| ())
    }

    /// Shows the agent's tools what they may know of its state.
    pub(crate) fn publish(&self) {
        let (shell, todo, outside, tokens) = {
            let state = self.state.read();
            let todo = state.todo().map(ToOwned::to_owned);
            let shell = state.shell().map(ToOwned::to_owned);
            (shell, todo, state.outside().clone(), state.context_tokens())
        };
        if let Some(items) = todo {
            self.view.store.get_or_insert_with(TodoList::default).set(items);
        }
        if !outside.is_empty() {
            self.view.store.get_or_insert_with(OutsideSources::default).set(outside);
        }
        if let Some(path) = shell {
            self.view.store.get_or_insert_with(ShellPlace::default).set(&path);
        }
        if let Some(tokens) = tokens {
            self.view.store.get_or_insert_with(ContextUse::default).set(tokens);
        }
    }

    /// Returns what the agent does next. A call through an index of tools is that of the other tool.
    pub(crate) fn next_step(&self) -> NextStep {
        match self.state.read().next_step() {
            NextStep::Call(open) if self.view.index().is_some() => {
                NextStep::Call(open.iter().map(|call| self.view.target(call)).collect())
            }
            step => step,
        }
    }

    /// Returns whether the agent's turn is over in such a way that a message may begin another one.
    pub(crate) fn may_rest(&self) -> bool {
        self.state.read().run().may_rest()
    }

    /// Counts a piece of a reply that arrives. `arrived` is the number of bytes so far; `None` before
    /// the first piece.
    pub(crate) fn count_delta(
        &self,
        delta: Delta<'_>,
        permit: &mut dyn Permit,
        arrived: &mut Option<u64>,
    ) {
        self.handle.progress.mark();
        if arrived.is_none() {
            permit.on_response_start();
        }
        *arrived = Some(arrived.unwrap_or(0).saturating_add(delta.bytes() as u64));
    }

    /// Returns why this agent is cancelled, by the reason of its signal.
    pub(crate) fn own_reason(&self, reason: CancelReason) -> CancelReason {
        if self.cancel.is_own() { reason } else { reason.below() }
    }

    /// Checks that this agent may use a model, where each of its requests goes out: whatever chose
    /// the model, and whenever.
    pub(crate) fn check_model(&self, model: &str) -> Result<(), ModelError> {
        if self.view.authority.may_use_model(model) {
            return Ok(());
        }
        let why = format!("this agent may not use the model `{model}`: nothing was sent to it");
        Err(ModelError::new(FailureKind::Fatal, why))
    }

    /// Notes what a budget has too little of. The agent's outcome says it if that ends the agent.
    pub(crate) fn note_shortage(&self, shortage: LimitReason) {
        *self.shortage.lock() = Some(shortage);
    }

    /// Returns what a budget had too little of at last.
    pub(crate) fn shortage(&self) -> Option<LimitReason> {
        self.shortage.lock().clone()
    }
}
