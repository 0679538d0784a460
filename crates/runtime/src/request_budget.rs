//! The budget of an agent's requests: the cost of each is reserved before it and settled after it.

use std::borrow::Cow;
use std::sync::Arc;

use deputize_core::budget::{Cost, ReserveRequest, TokenEstimator};
use deputize_core::event::JournalError;
use deputize_core::model::{
    FailureKind, Finish, ModelError, ModelOptions, Reply, Request, ToolChoice, Usage,
};
use deputize_core::run::{Step, WrapUpReason};
use deputize_core::{CancelReason, Event, Message};

use crate::agent_context::AgentContext;
use crate::budget_ledger::{AgentBudget, ReserveOutcome, SizedRequest};
use crate::budget_shortage::LimitReason;
use crate::cost_history::{CostEstimates, RouteKey, is_completed};
use crate::models::ModelRoute;
use crate::readable_messages::readable_by;
use crate::request_size::{RequestSize, request_bytes, said_bytes};
use crate::token_counter::TokenCounter;

/// Why an agent ends whose first request does not fit into a budget.
const NO_ROOM_FOR_ANY: &str = "nothing was asked of the model, for the budget has no room for it";

/// Output tokens that are reserved for a request before a reply of its model was seen.
const FIRST_OUTPUT: u32 = 4096;
/// The same where less must do.
const FIRST_LEAST_OUTPUT: u32 = 512;
/// Output tokens that are reserved where an effort of reasoning is asked for, which the output
/// limit bounds too.
const REASONING_OUTPUT: u32 = 16_384;
/// Limit on reserved output tokens without `max_output_tokens`.
const MOST_OUTPUT: u32 = 16_384;
/// Output tokens of a closing answer.
const CLOSING_OUTPUT: u32 = 1024;
/// The same where less must do.
const LEAST_CLOSING_OUTPUT: u32 = 256;
/// By how much an output limit grows that a reply has reached.
const WIDER: u32 = 4;
/// Estimated number of requests of a task, in units of its first one, before any task was
/// completed.
const FIRST_TASK_REQUESTS: u64 = 16;
/// Bytes of a reply for one token, where its provider does not count.
const BYTES_PER_TOKEN: u64 = 3;
/// Tokens that a provider adds at most to those of a short request.
const ADDED: u64 = 32;
/// Tokens that results of calls bring at least: a conversation grows by them until the closing
/// request. The model's own reply is reserved anyway.
const RESULTS: u64 = 256;

/// What bounds the tokens of the next request.
#[derive(Debug, Clone, Copy)]
struct RequestBound {
    bytes: u64,
    /// Its tokens, if the tokenizer of its model is known.
    counted: Option<u64>,
}

impl RequestBound {
    /// Returns an upper bound on the tokens. A provider adds to what a tokenizer counts.
    fn tokens(self, known: &TokenEstimator, densest: Option<u64>) -> u64 {
        match self.counted {
            Some(tokens) => tokens.saturating_add(tokens.div_ceil(10)).saturating_add(ADDED),
            None => known.bound(self.bytes, densest),
        }
    }
}

/// Reserves and settles the cost of one agent's requests.
pub(crate) struct RequestBudget {
    cx: Arc<AgentContext>,
    /// Where a budget holds.
    budget: Option<AgentBudget>,
    /// The output limit of the present request that the budget has room for.
    output_limit: Option<u32>,
    /// The output limit of the next request, after a reply reached the one before.
    wider_output: Option<u32>,
    /// Bytes of the request for a summary that is under way; `None` if none is.
    summary_bytes: Option<u64>,
}

/// Cost of a reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplyCost {
    pub(crate) cost: Cost,
    /// Whether its tokens are estimated.
    pub(crate) estimated: bool,
}

impl RequestBudget {
    pub(crate) fn open(cx: &Arc<AgentContext>) -> Self {
        let shared = &cx.shared;
        let spec = cx.spec();
        let limited = shared.config.budgets.limit(spec.depth > 0) && shared.play.is_none();
        let is_new = cx.state.read().run().iterations() == 0;
        let budget = limited.then(|| shared.budget.open(spec, is_new));
        Self {
            cx: Arc::clone(cx),
            budget,
            output_limit: None,
            wider_output: None,
            summary_bytes: None,
        }
    }

    /// Waits until there is room for a child that has done nothing yet: for a request and a closing
    /// one, and beside those that are at work for what a task like it is expected to cost. Its time
    /// does not run meanwhile. Returns what there is too little of, if the child cannot begin.
    pub(crate) async fn await_room(&self, route: &ModelRoute) -> Option<LimitReason> {
        let is_new = self.cx.state.read().run().iterations() == 0;
        let budget = self.budget.as_ref().filter(|_| is_new && self.cx.spec().depth > 0)?;
        let work = self.cx.cancel.child();
        let bound = self.bound(route);
        let sizes = |known| self.sizes(known, ToolChoice::Auto, bound, route);
        self.cx.handle.progress.set_waits(true);
        let reserved = budget.reserve(&route.name, &sizes, &work).await;
        self.cx.handle.progress.set_waits(false);
        let ReserveOutcome::Refused(ask) = reserved else { return None };
        Some(budget.explain(&ask).limit_reason(NO_ROOM_FOR_ANY))
    }

    /// Reserves what the next request may cost. Where that does not fit, a closing answer is asked
    /// for, and where not even that fits, the agent ends. Whether the request may be sent.
    pub(crate) async fn reserve(
        &mut self,
        tools: ToolChoice,
        route: &ModelRoute,
    ) -> Result<bool, JournalError> {
        match self.budget {
            Some(_) => Box::pin(self.reserve_within(tools, route)).await,
            None => Ok(true),
        }
    }

    async fn reserve_within(
        &mut self,
        tools: ToolChoice,
        route: &ModelRoute,
    ) -> Result<bool, JournalError> {
        let Some(budget) = &self.budget else { return Ok(true) };
        let work = self.cx.cancel.child();
        let bound = self.bound(route);
        let sizes = |known| self.sizes(known, tools, bound, route);
        let reserved = budget.reserve(&route.name, &sizes, &work);
        let reserved = self.cx.time.bound(&work, reserved).await;
        let short = match reserved {
            ReserveOutcome::Granted(size) => {
                self.output_limit = Some(size.output);
                return Ok(true);
            }
            ReserveOutcome::Cancelled => None,
            ReserveOutcome::Refused(ask) => Some(budget.explain(&ask)),
        };
        let Some(short) = short else { return Ok(false) };
        self.cx.warn_of_shortage(&short)?;
        let (paid, requests) = {
            let state = self.cx.state.read();
            (state.cost().tokens > 0, state.requests())
        };
        let next = match tools {
            ToolChoice::Auto if paid => {
                let event = "there was no closing answer when one was due";
                self.cx.note_shortage(short.limit_reason(event));
                let of = short.of.first().copied();
                Event::AgentWrapUp { limit: WrapUpReason::Budget, budget: of }
            }
            ToolChoice::Auto | ToolChoice::None => {
                let what = match requests {
                    0 => NO_ROOM_FOR_ANY,
                    _ => "there is no closing answer, for the budget has no room for it",
                };
                self.cx.note_shortage(short.limit_reason(what));
                Event::AgentStop { reason: CancelReason::Budget, pending: false }
            }
        };
        self.cx.record(next).await?;
        Ok(false)
    }

    /// Notes that a request for a summary of so many bytes is sent. What it costs is settled as for
    /// any request; replies to other requests are not expected to be like it.
    pub(crate) const fn begin_summary(&mut self, bytes: u64) {
        self.summary_bytes = Some(bytes);
    }

    /// Notes that the request for a summary is over.
    pub(crate) const fn end_summary(&mut self) {
        self.summary_bytes = None;
    }

    /// Returns the size of the next request.
    pub(crate) fn request_size(&self, route: &ModelRoute) -> RequestSize {
        let RequestBound { bytes, counted } = self.bound(route);
        let tokens = counted.unwrap_or_else(|| self.cx.state.read().tokens().expected(bytes));
        RequestSize { bytes, tokens }
    }

    /// Returns what bounds the tokens of the next request: its bytes and, if the tokenizer of its
    /// model is known, the tokens that came with the last reply and those of what was added to it.
    ///
    /// It counts on this thread. Only the first request is counted whole, at some 20 MB a second, and
    /// a replay must stay on its thread.
    fn bound(&self, route: &ModelRoute) -> RequestBound {
        // Others who need the state do not wait until the tokens are counted.
        let counter = TokenCounter::of(route);
        let state = self.cx.state.read();
        let Some(counter) = counter else {
            return self.bound_of(state.run().messages(), state.has_begun(), route, |_, _, _| None);
        };
        let (messages, has_begun, known) =
            (state.run().messages().to_vec(), state.has_begun(), state.tokens().counted());
        drop(state);
        self.bound_of(&messages, has_begun, route, |request, task, bytes| {
            Some(match known {
                Some((known, tokens)) => {
                    let added = bytes.saturating_sub(known);
                    tokens.saturating_add(counter.last_messages(request.messages, added))
                }
                None => counter.request(request).saturating_add(counter.text(task)),
            })
        })
    }

    /// Returns what bounds the tokens of a request with these messages. The function counts those of
    /// the request, of a task that is not in it yet, and of so many bytes.
    fn bound_of(
        &self,
        messages: &[Arc<Message>],
        has_begun: bool,
        route: &ModelRoute,
        count: impl FnOnce(&Request<'_>, &str, u64) -> Option<u64>,
    ) -> RequestBound {
        let spec = &self.cx.view.spec;
        let request = Request {
            model: &route.at_provider,
            system: &spec.system,
            tools: &self.cx.view.declared,
            messages: &readable_by(messages, &route.name),
            tool_choice: ToolChoice::Auto,
            options: &spec.options,
        };
        // It is not in the conversation before the agent has begun.
        let task = if has_begun { "" } else { &spec.task };
        let bytes = request_bytes(&request).saturating_add(task.len() as u64);
        RequestBound { bytes, counted: count(&request, task, bytes) }
    }

    /// The next request with output limits from what is likely to do to the least that is worth
    /// sending, each with its cost.
    fn sizes(
        &self,
        estimates: CostEstimates,
        tools: ToolChoice,
        bound: RequestBound,
        route: &ModelRoute,
    ) -> Vec<SizedRequest> {
        let CostEstimates { route: known, task, cheapest } = estimates;
        let (input, spent, new) = {
            let state = self.cx.state.read();
            let input = bound.tokens(state.tokens(), known.densest);
            let spent = state.cost();
            (input, spent, state.run().iterations() == 0 && spent.tokens == 0)
        };
        let most = self.most_output(route);
        let closes = tools == ToolChoice::None;
        let (likely, least) = match self.wider_output {
            _ if closes => (CLOSING_OUTPUT, LEAST_CLOSING_OUTPUT),
            Some(wider) => (wider, wider / 2),
            None => {
                let likely = known.likely.unwrap_or(FIRST_OUTPUT);
                let floor = if self.reasons() { REASONING_OUTPUT } else { 0 };
                (likely.max(floor), known.usual.unwrap_or(FIRST_LEAST_OUTPUT))
            }
        };
        let likely = likely.min(most);
        let least = least.min(likely);
        let closings = [CLOSING_OUTPUT, CLOSING_OUTPUT / 2, LEAST_CLOSING_OUTPUT];
        let outputs = [likely, likely.midpoint(least), least];
        let size = |(output, closing): (u32, u32)| {
            let (output, cost) = self.request_cost(input, output, route);
            let ask = if closes {
                ReserveRequest { closing: cost, ..ReserveRequest::default() }
            } else {
                let known = input.saturating_add(u64::from(output));
                let closing = self.closing_cost(known, closing, route);
                let first = || times(cost, FIRST_TASK_REQUESTS);
                let (whole, least) = if new {
                    (task.unwrap_or_else(first), cheapest.map(half).unwrap_or_default())
                } else {
                    (Cost::default(), Cost::default())
                };
                ReserveRequest { request: cost, closing, whole, least }
            };
            SizedRequest { output, ask }
        };
        let mut sizes: Vec<_> = outputs.into_iter().zip(closings).map(size).collect();
        if let Some(cheapest) = cheapest.filter(|_| !closes) {
            // Where the rest of the cheapest task like it would fit, the agent is as likely to give
            // its answer as to need a closing request.
            let least = cheapest.saturating_sub(spent);
            let ask = |ask| ReserveRequest { closing: Cost::default(), least, ..ask };
            let last = sizes.clone().into_iter();
            sizes.extend(last.map(|size| SizedRequest { ask: ask(size.ask), ..size }));
        }
        sizes
    }

    /// Returns the highest cost of a request with an output limit, and the limit that the route
    /// sets.
    fn request_cost(&self, input: u64, output: u32, route: &ModelRoute) -> (u32, Cost) {
        let limited = limit_output(&self.cx.view.spec.options, Some(output));
        let output = route.model.most_output(&limited).unwrap_or(output);
        (output, Cost::bound(input, u64::from(output), route.price))
    }

    /// Returns the highest cost of the closing request in a conversation of `tokens` tokens, with
    /// results of calls added.
    fn closing_cost(&self, tokens: u64, output: u32, route: &ModelRoute) -> Cost {
        let results = self.cx.state.read().tokens().brought().max(RESULTS);
        let output = output.min(self.most_output(route));
        self.request_cost(tokens.saturating_add(results), output, route).1
    }

    /// Returns the limit on output tokens of a request.
    fn most_output(&self, route: &ModelRoute) -> u32 {
        route.model.most_output(&self.cx.view.spec.options).unwrap_or(MOST_OUTPUT)
    }

    fn reasons(&self) -> bool {
        let effort = self.cx.view.spec.options.reasoning_effort.as_deref();
        effort.is_some_and(|effort| !matches!(effort, "" | "none"))
    }

    /// Returns the options of the request, with the reserved output as its limit.
    pub(crate) fn limited_options(&self) -> Cow<'_, ModelOptions> {
        let options = &self.cx.view.spec.options;
        match (&self.budget, self.output_limit) {
            (Some(_), limit @ Some(_)) => Cow::Owned(limit_output(options, limit)),
            _ => Cow::Borrowed(options),
        }
    }

    /// Returns the output limit of the present request.
    pub(crate) const fn output_limit(&self) -> Option<u32> {
        self.output_limit
    }

    /// Sets the output limit of the next request.
    pub(crate) const fn widen_output(&mut self, limit: u32) {
        self.wider_output = Some(limit);
    }

    /// The output limit to ask again with, where a reply reached one that only the budget set.
    pub(crate) fn wider_output(
        &self,
        tools: ToolChoice,
        reply: &Reply,
        route: &ModelRoute,
    ) -> Option<u32> {
        let limit = self.output_limit.filter(|_| self.budget.is_some())?;
        if tools != ToolChoice::Auto {
            return None;
        }
        let cut = reply.finish == Finish::Length
            && (reply.usage == Usage::default()
                || reply.usage.output >= u64::from(limit - limit / 8));
        let most = self.most_output(route);
        (cut && limit < most).then(|| limit.saturating_mul(WIDER).min(most))
    }

    /// Settles a reply; returns its cost. Tokens that the server did not count are estimated: nothing
    /// that it said was free.
    pub(crate) fn settle(
        &mut self,
        tools: ToolChoice,
        reply: &mut Reply,
        route: &ModelRoute,
    ) -> ReplyCost {
        let counts = self.budget.is_some() || route.model.takes_tokens();
        let estimated = counts && reply.usage == Usage::default();
        if estimated {
            let output = match TokenCounter::of(route) {
                Some(counter) => counter.reply(reply),
                None => said_bytes(reply).div_ceil(BYTES_PER_TOKEN),
            };
            reply.usage = self.estimate(output, route);
        }
        let usage = reply.usage;
        let context = usage.in_context();
        let cost = Cost::of(usage, route.price);
        self.wider_output = None;
        let is_summary = self.summary_bytes.is_some();
        if !estimated && !is_summary && self.cx.shared.config.budgets.limit(true) {
            let route = RouteKey { name: &route.name, is_child: self.cx.view.spec.depth > 0 };
            self.cx.shared.budget.learn(route, self.pending_bytes(), context);
        }
        if let Some(budget) = &self.budget {
            let closes = tools == ToolChoice::None;
            let known = context.input.saturating_add(context.output);
            budget.settle(cost, (!closes).then(|| self.closing_cost(known, CLOSING_OUTPUT, route)));
        }
        ReplyCost { cost, estimated }
    }

    /// Settles an attempt that broke off or was cancelled, by the provider's count, or by an
    /// estimate if a reply had begun. `arrived` is the number of bytes that had come. The provider
    /// may count before the output ends, so what arrived is the minimum output; the reservation is
    /// the maximum. Stores the usage in the error, and returns its cost for the record.
    pub(crate) fn settle_broken(
        &mut self,
        error: &mut ModelError,
        arrived: Option<u64>,
        route: &ModelRoute,
    ) -> Option<Cost> {
        let said = error.partial_bytes().max(arrived.unwrap_or_default());
        let begun = arrived.is_some() || said > 0 || error.kind == FailureKind::Incomplete;
        error.estimated = error.usage.is_none() && begun;
        let usage = match error.usage.as_deref().copied() {
            Some(reported) => {
                let least = self.within_limit(said.div_ceil(BYTES_PER_TOKEN));
                Some(Usage { output: reported.output.max(least), ..reported })
            }
            None => begun.then(|| self.estimate(said.div_ceil(BYTES_PER_TOKEN), route)),
        };
        error.usage = usage.map(Box::new);
        let cost = usage.map(|usage| Cost::of(usage, route.price));
        if let Some(budget) = &self.budget {
            budget.settle(cost.unwrap_or_default(), None);
        }
        cost
    }

    /// Returns the bytes of the request that was sent.
    fn pending_bytes(&self) -> u64 {
        let pending = || self.cx.state.read().pending_request().map_or(0, |request| request.bytes);
        self.summary_bytes.unwrap_or_else(pending)
    }

    /// Estimates the usage of the request that was sent, whose reply has so many tokens.
    fn estimate(&self, output: u64, route: &ModelRoute) -> Usage {
        let counted = self.summary_bytes.is_none().then(|| self.bound(route).counted).flatten();
        let bytes = self.pending_bytes();
        let input = counted.unwrap_or_else(|| self.cx.state.read().tokens().guess(bytes));
        Usage { input, output: self.within_limit(output), ..Usage::default() }
    }

    /// Returns so many tokens of output, at most the limit that was sent.
    fn within_limit(&self, tokens: u64) -> u64 {
        let limit = self.output_limit.filter(|_| self.budget.is_some());
        tokens.min(limit.map_or(u64::MAX, u64::from))
    }

    /// Releases the agent's reservation. The cost of a completed task feeds the estimate for
    /// others.
    pub(crate) fn close(&mut self) {
        let Some(budget) = self.budget.take() else { return };
        let completed = match self.cx.state.read().run().step() {
            Step::Done(end) => is_completed(end.status, end.reason),
            _ => return,
        };
        let below = self.cx.shared.tree().spent_below(self.cx.view.id()).cost;
        budget.close(below, completed);
    }
}

/// Returns the options with which a request of a recording is compared: where a budget holds, how
/// much output was reserved depends on other agents too.
pub(crate) fn recorded_options<'o>(
    options: &'o ModelOptions,
    recorded: &ModelOptions,
    has_budget: bool,
) -> Cow<'o, ModelOptions> {
    let within =
        |limit: &u32| options.max_output_tokens.is_none_or(|own| *limit > 0 && *limit <= own);
    match recorded.max_output_tokens.filter(within) {
        limit @ Some(_) if has_budget => Cow::Owned(limit_output(options, limit)),
        _ => Cow::Borrowed(options),
    }
}

fn limit_output(options: &ModelOptions, limit: Option<u32>) -> ModelOptions {
    let own = options.max_output_tokens;
    let limit = limit.map(|limit| own.map_or(limit, |own| own.min(limit)));
    ModelOptions { max_output_tokens: limit.or(own), ..options.clone() }
}

fn half(cost: Cost) -> Cost {
    Cost { tokens: cost.tokens / 2, usd: cost.usd / 2.0, ..cost }
}

fn times(cost: Cost, by: u64) -> Cost {
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let usd = cost.usd * by as f64;
    Cost { tokens: cost.tokens.saturating_mul(by), usd, ..cost }
}
