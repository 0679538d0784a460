//! Calls models: the attempts of a request, each on record, with retries, other keys and fallback
//! models.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use deputize_core::Event;
use deputize_core::budget::Cost;
use deputize_core::compaction::ReplacedPart;
use deputize_core::event::{JournalError, LogLevel, RequestPurpose};
use deputize_core::model::{Delta, FailureKind, ModelError, Reply, Request, ToolChoice};
use deputize_core::rate_limit::NextAttempt;
use tokio::time::Instant;
use tracing::{Instrument as _, info_span};

use crate::agent_context::AgentContext;
use crate::budget_shortage::LimitReason;
use crate::compaction::{CompactionResult, Compactor, MOST_USELESS};
use crate::delta_redactor::DeltaRedactor;
use crate::model_failure::{ModelFailure, last_call_words, of_all_models, with_attempts};
use crate::models::ModelRoute;
use crate::readable_messages::readable_by;
use crate::request_budget::{ReplyCost, RequestBudget};
use crate::request_size::request_bytes;
use crate::retry_waits::RetryWaits;

/// Limit on changes of the key in one request that do not count as attempts, whatever a model
/// reports about its keys.
const MOST_ROTATIONS: u32 = 32;

/// An attempt that failed.
struct FailedAttempt {
    error: ModelError,
    next: NextAttempt,
    /// Number of bytes of the reply that had arrived; `None` if it had not begun.
    arrived: Option<u64>,
}

impl FailedAttempt {
    /// One of which nothing was sent.
    const fn unsent(error: ModelError) -> Self {
        Self { error, next: NextAttempt::GiveUp, arrived: None }
    }
}

/// A failed attempt whose cost is settled.
struct SettledFailure {
    error: ModelError,
    /// `None` if the attempt cost nothing that is known.
    cost: Option<Cost>,
    next: NextAttempt,
}

/// The step after a failed attempt.
enum AttemptFollowUp {
    Again,
    /// The first one with another model.
    Elsewhere,
    /// Nothing: the request failed, and the last attempt cost so much.
    Failed(ModelError, Option<Cost>),
}

/// Sends the requests of one agent.
pub(crate) struct ModelCaller {
    cx: Arc<AgentContext>,
    /// The agent's model, and after it those to fall back on.
    routes: VecDeque<ModelRoute>,
    budget: RequestBudget,
    compactor: Compactor,
    waits: RetryWaits,
    /// The models that failed for good, in their order.
    failures: Vec<ModelFailure>,
}

impl ModelCaller {
    pub(crate) fn new(cx: &Arc<AgentContext>, routes: Vec<ModelRoute>) -> Self {
        let budget = RequestBudget::open(cx);
        Self {
            cx: Arc::clone(cx),
            routes: routes.into(),
            budget,
            compactor: Compactor::new(cx),
            waits: RetryWaits::new(cx),
            failures: Vec::new(),
        }
    }

    /// Waits until there is room in the budget for a child that has done nothing yet. Returns what
    /// there is too little of, if it cannot begin.
    pub(crate) async fn await_room(&self) -> Option<LimitReason> {
        self.budget.await_room(self.routes.front()?).await
    }

    /// Gives back what the agent has reserved: it sends nothing more.
    pub(crate) fn close(&mut self) {
        self.budget.close();
    }

    /// Sends a request, as often as the retry rule says, and to the models to fall back on when its
    /// own cannot be used. What seldom happens is in boxes: an agent that waits has no room for it.
    pub(crate) async fn call(
        &mut self,
        iteration: u32,
        tools: ToolChoice,
    ) -> Result<(), JournalError> {
        if !self.prepare(tools).await? {
            return Ok(());
        }
        let mut attempt = 1;
        let mut rotations = 0;
        let mut overflowed = false;
        loop {
            let Some(route) = self.reserve(tools).await? else { return Ok(()) };
            let asked = Instant::now();
            let span = info_span!("request", model = route.name, attempt);
            let reply = self.attempt(iteration, tools, &route, rotations);
            let reply = reply.instrument(span).await?;
            let FailedAttempt { error, next, arrived, .. } = match reply {
                Ok(mut reply) => {
                    let ms = u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX);
                    let wider = self.budget.wider_output(tools, &reply, &route);
                    let cost = self.budget.settle(tools, &mut reply, &route);
                    if let Some(wider) = wider {
                        Box::pin(self.cut_by_budget(reply, cost, wider)).await?;
                        continue;
                    }
                    let ReplyCost { cost, estimated } = cost;
                    let cost_usd = cost.known_usd();
                    let reply = self.kept_reply(reply, &route);
                    let response =
                        Event::ModelResponse { iteration, reply, ms, cost_usd, estimated };
                    return self.cx.record(response).await;
                }
                Err(failed) => failed,
            };
            // Whatever a model gives, no more than the limit is kept of it.
            let mut error = error.limit_text();
            let cost = self.budget.settle_broken(&mut error, arrived, &route);
            if error.kind == FailureKind::ContextOverflow
                && !std::mem::replace(&mut overflowed, true)
            {
                let error = self.scrub_error(error);
                if !Box::pin(self.after_overflow(error, cost, &route)).await? {
                    return Ok(());
                }
                attempt = 1;
                continue;
            }
            // Another key is another try of the same attempt, and so is another turn in a queue.
            let rotated = error.other_key;
            let counts = !rotated && !matches!(next, NextAttempt::Queue(_));
            let following = attempt + u32::from(counts);
            let failure = SettledFailure { error: self.scrub_error(error), cost, next };
            match Box::pin(self.after(attempt, following, failure)).await? {
                AttemptFollowUp::Again => {
                    rotations += u32::from(rotated);
                    attempt = following;
                }
                AttemptFollowUp::Elsewhere => attempt = 1,
                AttemptFollowUp::Failed(error, cost) => {
                    return self.cx.record(Event::ModelError { error, retried: false, cost }).await;
                }
            }
        }
    }

    /// Leaves a model whose calls cannot be read, and keeps the conversation in the context. Returns
    /// whether the agent goes on with its request.
    async fn prepare(&mut self, tools: ToolChoice) -> Result<bool, JournalError> {
        if let Some(calls) = self.unreadable_calls()
            && !Box::pin(self.replace_model(calls)).await?
        {
            return Ok(false);
        }
        Ok(tools != ToolChoice::Auto || self.keep_in_context().await?)
    }

    /// Reserves what a request may cost. Returns the model that it goes to; `None` if it is not sent.
    async fn reserve(&mut self, tools: ToolChoice) -> Result<Option<ModelRoute>, JournalError> {
        let Some(route) = self.routes.front().cloned() else { return Ok(None) };
        Ok(self.budget.reserve(tools, &route).await?.then_some(route))
    }

    /// Compacts the conversation if it nears the end of the model's context. Returns whether the
    /// agent goes on with its request.
    async fn keep_in_context(&mut self) -> Result<bool, JournalError> {
        let Some(route) = self.routes.front().cloned() else { return Ok(true) };
        if !self.compactor.is_due(&self.budget, &route) {
            return Ok(true);
        }
        if self.compactions_are_useless() {
            return Box::pin(self.end_as_too_long(&route)).await;
        }
        let step = self.compactor.step_room(&self.budget, &route);
        let results = self.compactor.cut_results(step);
        if !results.is_empty() {
            self.compactor.record(Event::ResultsCut { results }).await?;
            if !self.compactor.is_due(&self.budget, &route) {
                return Ok(true);
            }
        }
        let Some(part) = self.compactor.part(step, &self.budget, &route) else { return Ok(true) };
        let compact = self.compactor.compact(part, &mut self.budget, &mut self.waits, &route);
        Ok(Box::pin(compact).await? != CompactionResult::Interrupted)
    }

    /// Compacts the conversation after a provider refused it as too long, or puts the failure on
    /// record. Returns whether the request is sent again.
    async fn after_overflow(
        &mut self,
        error: ModelError,
        cost: Option<Cost>,
        route: &ModelRoute,
    ) -> Result<bool, JournalError> {
        let step = self.compactor.step_room(&self.budget, route);
        let results = self.compactor.cut_results(step);
        let is_cut = !results.is_empty();
        if !is_cut && self.useful_part(step, route).is_none() {
            self.cx.record(Event::ModelError { error, retried: false, cost }).await?;
            return Ok(false);
        }
        self.cx.record(Event::ModelError { error: error.clone(), retried: true, cost }).await?;
        if is_cut {
            self.compactor.record(Event::ResultsCut { results }).await?;
        }
        let Some(part) = self.useful_part(step, route) else { return Ok(true) };
        let result = self.compactor.compact(part, &mut self.budget, &mut self.waits, route).await?;
        if result == CompactionResult::Failed {
            // What it took is on record already.
            let error = ModelError { usage: None, estimated: false, ..error };
            self.cx.record(Event::ModelError { error, retried: false, cost: None }).await?;
        }
        Ok(result == CompactionResult::Compacted)
    }

    /// Returns the part that a compaction would replace, unless the last ones were useless.
    fn useful_part(&self, step: u64, route: &ModelRoute) -> Option<ReplacedPart> {
        let part = self.compactor.part(step, &self.budget, route);
        part.filter(|_| !self.compactions_are_useless())
    }

    fn compactions_are_useless(&self) -> bool {
        self.cx.state.read().useless_compactions() >= MOST_USELESS
    }

    /// Ends the turn of a conversation that compactions do not make shorter.
    async fn end_as_too_long(&self, route: &ModelRoute) -> Result<bool, JournalError> {
        let message = format!(
            "the conversation is too long for {}: {MOST_USELESS} compactions in a row freed less \
             than a tenth of it, or replaced what it had not answered",
            route.name
        );
        let error = ModelError::new(FailureKind::ContextOverflow, message);
        self.cx.record(Event::ModelError { error, retried: false, cost: None }).await?;
        Ok(false)
    }

    /// Returns how many calls in a row the model made that could not be read, once they are too many.
    fn unreadable_calls(&self) -> Option<usize> {
        let state = self.cx.state.read();
        let run = state.run();
        let is_served = self.routes.front().is_some_and(|route| route.name == run.served());
        run.unreadable_calls().filter(|_| is_served)
    }

    /// Records a reply that reached the output limit which the budget set. None of its calls runs;
    /// the request is sent again with a wider limit, if there is room for that.
    async fn cut_by_budget(
        &mut self,
        reply: Reply,
        cost: ReplyCost,
        wider: u32,
    ) -> Result<(), JournalError> {
        let ReplyCost { cost, estimated } = cost;
        let limit = self.budget.output_limit().unwrap_or_default();
        let message = format!(
            "the reply reached the {limit} tokens of output that the budget had reserved for it; \
             the next attempt may have {wider}"
        );
        let error = ModelError {
            usage: Some(Box::new(reply.usage)),
            estimated,
            partial: reply.text,
            served: reply.model,
            ..ModelError::new(FailureKind::Incomplete, message)
        };
        let error = self.scrub_error(error.limit_text());
        self.budget.widen_output(wider);
        self.cx.record(Event::ModelError { error, retried: true, cost: Some(cost) }).await
    }

    fn scrub_error(&self, mut error: ModelError) -> ModelError {
        self.scrub(&mut error.message);
        self.scrub(&mut error.partial);
        if let Some(cause) = &mut error.cause {
            self.scrub(cause);
        }
        error
    }

    /// A reply in which no secret is repeated. Opaque blocks stay as they came, with the name
    /// of their maker.
    fn kept_reply(&self, mut reply: Reply, route: &ModelRoute) -> Reply {
        let arguments = reply.calls.iter_mut().map(|call| &mut call.arguments);
        let texts = [&mut reply.text, &mut reply.reasoning].into_iter().chain(arguments);
        texts.for_each(|text| self.scrub(text));
        for block in &mut reply.opaque {
            block.model.clone_from(&route.name);
        }
        reply
    }

    fn scrub(&self, text: &mut String) {
        if let Cow::Owned(scrubbed) = self.cx.shared.config.secrets.scrub(text) {
            *text = scrubbed;
        }
    }

    async fn attempt(
        &self,
        iteration: u32,
        tools: ToolChoice,
        route: &ModelRoute,
        rotations: u32,
    ) -> Result<Result<Reply, FailedAttempt>, JournalError> {
        if let Err(error) = self.cx.check_model(&route.name) {
            return Ok(Err(FailedAttempt::unsent(error)));
        }
        let work = self.cx.cancel.child();
        let pass = self.cx.shared.config.requests.rate_limiter.acquire(&route.name, &work);
        let mut pass = match self.cx.time.bound(&work, pass).await {
            Ok(pass) => pass,
            Err(error) => return Ok(Err(FailedAttempt::unsent(error))),
        };
        let spec = &self.cx.view.spec;
        let options = self.budget.limited_options();
        let messages = self.cx.state.messages();
        let messages = readable_by(&messages, &route.name);
        let request = Request {
            model: &route.at_provider,
            system: &spec.system,
            tools: &self.cx.view.declared,
            messages: &messages,
            tool_choice: tools,
            options: &options,
        };
        self.cx.handle.progress.mark_request(iteration);
        if let Some(recorder) = &self.cx.shared.config.record.recorder {
            recorder.sends(&spec.id, &route.name, &request);
        }
        self.cx.shared.bus.record(
            spec,
            Event::ModelRequest {
                iteration,
                messages: request.messages.len() as u64,
                bytes: request_bytes(&request),
                model: route.name.clone(),
                purpose: RequestPurpose::Turn,
            },
        )?;
        let mut shown = DeltaRedactor::new(&self.cx.shared.config.secrets);
        let mut show = |delta: Delta<'_>| self.cx.shared.bus.live(&spec.id, delta);
        let mut arrived: Option<u64> = None;
        let mut live = |delta: Delta<'_>| {
            self.cx.count_delta(delta, &mut *pass, &mut arrived);
            shown.redact(delta, &mut show);
        };
        let reply = route.model.reply(&request, &mut live, &work);
        let reply = self.cx.time.bound(&work, reply).await;
        let reply = reply.map_err(|mut error| {
            error.other_key &= rotations < MOST_ROTATIONS;
            error
        });
        shown.end(&mut |delta| self.cx.shared.bus.live(&spec.id, delta));
        let next = pass.finish(reply.as_ref().map(|_| ()));
        Ok(reply.map_err(|error| FailedAttempt { error, next, arrived }))
    }

    /// Decides what follows a failed attempt, puts it on record, and waits if need be.
    async fn after(
        &mut self,
        attempt: u32,
        following: u32,
        failure: SettledFailure,
    ) -> Result<AttemptFollowUp, JournalError> {
        let SettledFailure { error, cost, next } = failure;
        let Some(wait) = self.waits.wait_for(attempt, &error, next) else {
            let message = format!("{}{}", error.message, self.too_long(&error));
            let error = ModelError { message, ..error };
            return self.fall_back(with_attempts(error, attempt), cost).await;
        };
        self.cx.record(Event::ModelError { error: error.clone(), retried: true, cost }).await?;
        let spec = &self.cx.view.spec;
        let bus = &self.cx.shared.bus;
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let of = self.cx.shared.config.requests.retry.attempts_after(&error);
        let reason = error.message.clone();
        bus.record(spec, Event::ModelRetry { attempt: following, of, reason, wait_ms })?;
        if self.waits.rest(wait).await {
            // What it counted and cost is on record already.
            let kind = FailureKind::Cancelled;
            let error = ModelError { kind, usage: None, estimated: false, ..error };
            return Ok(AttemptFollowUp::Failed(error, None));
        }
        Ok(AttemptFollowUp::Again)
    }

    /// Says that a wait is longer than any that is waited for.
    fn too_long(&self, error: &ModelError) -> String {
        let longest = self.cx.shared.config.requests.retry.longest_wait;
        let again = matches!(error.kind, FailureKind::Transient | FailureKind::Incomplete);
        let asked = error.retry_after().filter(|asked| again && *asked > longest);
        let advice =
            || format!("; more than {} s are not waited for, so try again then", longest.as_secs());
        asked.map(|_| advice()).unwrap_or_default()
    }

    /// Replaces a model that makes nothing but calls that cannot be read. Returns whether there is
    /// a model to ask.
    async fn replace_model(&mut self, calls: usize) -> Result<bool, JournalError> {
        let Some(route) = self.routes.front() else { return Ok(false) };
        let words = last_call_words(self.cx.state.read().run());
        let message = format!(
            "{} made {calls} calls in a row that its server could not read: {words}",
            route.name
        );
        let error = ModelError::new(FailureKind::Fatal, message);
        let error = ModelError { model_mistake: true, ..error };
        match self.fall_back(error, None).await? {
            AttemptFollowUp::Failed(error, cost) => {
                self.cx.record(Event::ModelError { error, retried: false, cost }).await?;
                Ok(false)
            }
            AttemptFollowUp::Again | AttemptFollowUp::Elsewhere => Ok(true),
        }
    }

    /// Goes on with the next model, where there is one and it may help.
    async fn fall_back(
        &mut self,
        error: ModelError,
        cost: Option<Cost>,
    ) -> Result<AttemptFollowUp, JournalError> {
        if error.kind == FailureKind::Cancelled {
            return Ok(AttemptFollowUp::Failed(error, cost));
        }
        let Some(route) = self.routes.front() else {
            return Ok(AttemptFollowUp::Failed(error, cost));
        };
        self.failures.push(ModelFailure::new(route.name.clone(), &error));
        let kinds = [FailureKind::Transient, FailureKind::Incomplete, FailureKind::Unavailable];
        let helps = error.model_mistake || kinds.contains(&error.kind);
        let Some(next) = self.routes.get(1).filter(|_| helps).map(|route| route.name.clone())
        else {
            return Ok(AttemptFollowUp::Failed(of_all_models(error, &self.failures), cost));
        };
        let message = format!("going on with {next}: {}", error.message);
        self.cx.record(Event::ModelError { error, retried: true, cost }).await?;
        self.cx.log(LogLevel::Warn, message)?;
        self.routes.pop_front();
        Ok(AttemptFollowUp::Elsewhere)
    }
}

#[cfg(test)]
mod tests;
