//! Drives one agent's fold: asks it what to do, does it, puts the result on record, and gives
//! it back.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::{
    AgentSpec, AgentView, Cancel, CancelReason, Event, JournalError, LogLevel, Model, Outcome,
    Receipts, Run, Status, Step, UserMessage,
};
use futures_util::FutureExt as _;
use tokio::time::Instant;

use crate::parts::SyncMode;
use crate::session::Shared;

/// One agent and all it needs to go on.
pub(crate) struct Driver {
    pub(crate) shared: Arc<Shared>,
    pub(crate) view: Arc<AgentView>,
    pub(crate) run: Run,
    pub(crate) model: (Arc<dyn Model>, String),
    pub(crate) cancel: Cancel,
    pub(crate) receipts: Receipts,
    /// Whether its first message is on record.
    pub(crate) begun: bool,
    started: Instant,
    /// When it is told to close; after that, when it must end.
    deadline: Option<Instant>,
    wrapping_up: bool,
}

impl Driver {
    pub(crate) fn new(
        shared: Arc<Shared>,
        view: Arc<AgentView>,
        run: Run,
        model: (Arc<dyn Model>, String),
        cancel: Cancel,
    ) -> Self {
        let started = Instant::now();
        let limit = view.spec.limits.time_ms;
        let deadline = (limit > 0).then(|| started + Duration::from_millis(limit));
        Self {
            shared,
            view,
            run,
            model,
            cancel,
            receipts: Receipts::default(),
            begun: false,
            started,
            deadline,
            wrapping_up: false,
        }
    }

    /// Runs the agent to the end of its turn. There is no way out without an outcome.
    pub(crate) async fn drive(mut self) -> Outcome {
        let turned = AssertUnwindSafe(self.turn()).catch_unwind().await;
        let fault = match turned {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(chain(&error)),
            Err(_) => Some("the agent's loop panicked: this is a bug in deputize".to_owned()),
        };
        // What its tools kept for it ends with it.
        self.view.store.close().await;
        let outcome = self.outcome(fault);
        let end = Event::AgentEnd(Box::new(outcome.clone()));
        // If even this cannot be kept, the outcome still reaches whoever waits.
        if let Ok(record) = self.shared.bus.record(&self.view.spec, end) {
            let _synced = self.kept(record.seq).await;
        }
        outcome
    }

    async fn turn(&mut self) -> Result<(), JournalError> {
        if !self.begun {
            let text = self.shared.parts.secrets.scrub(&self.view.spec.task).into_owned();
            self.input(Event::Message(UserMessage { text, from: None })).await?;
        }
        loop {
            match self.run.step() {
                Step::Ask { .. } => self.ask().await?,
                Step::Call(_) => self.call().await?,
                Step::Rest | Step::Done(_) => return Ok(()),
            }
            if let Some(reason) = self.cancel.reason() {
                self.input(Event::AgentStop { reason }).await?;
            } else if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                self.time_is_up().await?;
            }
        }
    }

    /// The first time: a closing request. The second time: the end.
    async fn time_is_up(&mut self) -> Result<(), JournalError> {
        let wrap_up = self.view.spec.limits.wrap_up_ms;
        if self.wrapping_up || wrap_up == 0 {
            return self.input(Event::AgentStop { reason: CancelReason::TimeLimit }).await;
        }
        self.wrapping_up = true;
        self.deadline = Some(Instant::now() + Duration::from_millis(wrap_up));
        self.input(Event::AgentWrapUp).await
    }

    /// Puts a fact on record, then lets the fold take it.
    pub(crate) async fn input(&mut self, event: Event) -> Result<(), JournalError> {
        let record = self.shared.bus.record(&self.view.spec, event)?;
        self.kept(record.seq).await?;
        if let Some(input) = record.event.input() {
            self.run.apply(input);
        }
        Ok(())
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
        let mut future = std::pin::pin!(future);
        if let Some(deadline) = self.deadline {
            tokio::select! {
                biased;
                done = &mut future => return done,
                () = tokio::time::sleep_until(deadline) => work.cancel(CancelReason::TimeLimit),
            }
        }
        future.await
    }

    fn outcome(&self, fault: Option<String>) -> Outcome {
        let spec = &self.view.spec;
        let (children_usage, unfinished) = self.shared.ended(spec, self.run.usage());
        let mut outcome = match (self.run.step(), fault) {
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
                let text = self.run.last_text().map(str::to_owned);
                Outcome { text, ..host_fault(spec, fault) }
            }
        };
        outcome.iterations = self.run.iterations();
        outcome.usage = self.run.usage();
        outcome.children_usage = children_usage;
        outcome.trace = self.run.trace().to_vec();
        outcome.receipts = self.receipts.clone();
        outcome.receipts.unfinished = unfinished;
        outcome.duration_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        if !self.run.served().is_empty() {
            self.run.served().clone_into(&mut outcome.model);
        }
        outcome
    }

    /// A remark on record.
    pub(crate) fn log(&self, level: LogLevel, message: String) -> Result<(), JournalError> {
        self.shared.bus.record(&self.view.spec, Event::Log { level, message }).map(|_| ())
    }
}

/// The outcome of an agent that the host could not run.
pub(crate) fn host_fault(spec: &AgentSpec, error: String) -> Outcome {
    Outcome::without_run(spec, Status::Error, error)
}

/// An error with its causes, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
