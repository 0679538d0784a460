//! Whether a request can be paid for: estimated and set aside before it, paid after it.

use std::borrow::Cow;

use deputize_core::{
    CancelReason, ContextUse, Cost, Event, FailureKind, JournalError, LogLevel, ModelError,
    ModelOptions, Reply, Request, Step, ToolChoice, Usage, WrapUp,
};

use crate::ask::bytes;
use crate::driver::Driver;
use crate::parts::Route;
use crate::purse::Reserved;

/// Output tokens that are set aside where `max_output_tokens` says nothing.
const USUAL_OUTPUT: u32 = 4096;
/// Output tokens of a closing answer.
const CLOSING_OUTPUT: u32 = 1024;
/// Bytes of a request's text for one token, before a reply has told.
const BYTES_PER_TOKEN: u64 = 3;
/// What a conversation can grow by until the closing request: the model's own reply is set
/// aside anyway.
const CLOSING_INPUT: u64 = 256;

/// What may be sent.
pub(crate) enum Afford {
    /// The request, with what is set aside for it where a budget holds.
    Request(Option<Reserved>),
    /// Not this one: a closing request was asked for, or the end.
    Changed,
}

/// How many bytes of text made how many tokens in the last reply.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Density {
    bytes: u64,
    tokens: u64,
}

impl Density {
    fn tokens(self, bytes: u64) -> u64 {
        match self.tokens {
            0 => bytes.div_ceil(BYTES_PER_TOKEN),
            tokens => {
                let tokens = u128::from(bytes) * u128::from(tokens);
                let tokens = tokens.div_ceil(u128::from(self.bytes.max(1)));
                u64::try_from(tokens).unwrap_or(u64::MAX)
            }
        }
    }
}

impl Driver {
    /// Sets aside what the next request may cost. Where that does not fit, a closing answer is
    /// asked for, and where not even that fits, the agent ends.
    pub(crate) async fn afford(&mut self, route: &Route) -> Result<Afford, JournalError> {
        let child = self.view.spec.depth > 0;
        if !self.shared.parts.budgets.limit(child) {
            return Ok(Afford::Request(None));
        }
        let Step::Ask { tools, .. } = self.run.step() else { return Ok(Afford::Changed) };
        let costs = self.costs(tools, route);
        let work = self.cancel.child();
        let reserved = self.shared.purses.reserve(child, costs, &work);
        let reserved = self.until_deadline(&work, reserved).await;
        if reserved.is_some() || work.is_cancelled() {
            return Ok(Afford::Request(reserved));
        }
        self.told_short(costs)?;
        self.input(match tools {
            ToolChoice::Auto => Event::AgentWrapUp { limit: WrapUp::Budget },
            ToolChoice::None => Event::AgentStop { reason: CancelReason::Budget },
        })
        .await?;
        Ok(Afford::Changed)
    }

    /// Says what does not fit into which budget.
    fn told_short(&self, (cost, after): (Cost, Cost)) -> Result<(), JournalError> {
        let child = self.view.spec.depth > 0;
        let message = self.shared.purses.told(child, cost, after);
        self.log(LogLevel::Warn, message)
    }

    fn request_bytes(&self, route: &Route) -> u64 {
        let spec = &self.view.spec;
        bytes(&Request {
            model: &route.at_provider,
            system: &spec.system,
            tools: &self.view.declared,
            messages: self.run.messages(),
            tool_choice: ToolChoice::Auto,
            options: &spec.options,
        })
    }

    /// What the next request may cost, and what must be left after it.
    fn costs(&self, tools: ToolChoice, route: &Route) -> (Cost, Cost) {
        let input = self.density.tokens(self.request_bytes(route));
        let most_of =
            |options: &ModelOptions| route.model.most_output(options).unwrap_or(USUAL_OUTPUT);
        let most = most_of(&self.view.spec.options);
        let closing = most_of(&self.affordable(ToolChoice::None));
        let cost = |input, output: u32| {
            let usage = Usage { input, output: u64::from(output), ..Usage::default() };
            Cost::of(usage, route.price)
        };
        match tools {
            ToolChoice::Auto => {
                let later = input.saturating_add(u64::from(most)).saturating_add(CLOSING_INPUT);
                (cost(input, most), cost(later, closing))
            }
            ToolChoice::None => (cost(input, closing), Cost::default()),
        }
    }

    /// What is asked of the model, with a bound on a closing answer where a budget holds.
    pub(crate) fn affordable(&self, tools: ToolChoice) -> Cow<'_, ModelOptions> {
        let options = &self.view.spec.options;
        let limited = self.shared.parts.budgets.limit(self.view.spec.depth > 0);
        if !limited || tools == ToolChoice::Auto {
            return Cow::Borrowed(options);
        }
        let most = options.max_output_tokens.map_or(CLOSING_OUTPUT, |it| it.min(CLOSING_OUTPUT));
        Cow::Owned(ModelOptions { max_output_tokens: Some(most), ..options.clone() })
    }

    /// Pays for a reply; gives its dollars where they are known. Where a budget holds and the
    /// server counted no tokens, they are estimated.
    pub(crate) fn pay(
        &mut self,
        reserved: Option<Reserved>,
        reply: &mut Reply,
        route: &Route,
    ) -> Option<f64> {
        if reserved.is_some() && reply.usage == Usage::default() {
            let calls: usize = reply.calls.iter().map(|call| call.arguments.len()).sum();
            let said = (reply.text.len() + reply.reasoning.len() + calls) as u64;
            reply.usage = self.estimate(route, said);
        }
        let used = self.view.store.get_or_insert_with(ContextUse::default);
        used.set(reply.usage.input.saturating_add(reply.usage.output));
        let cost = Cost::of(reply.usage, route.price);
        self.cost += cost;
        if reply.usage.input > 0 && reserved.is_some() {
            let bytes = self.request_bytes(route);
            self.density = Density { bytes, tokens: reply.usage.input };
        }
        if let Some(reserved) = reserved {
            reserved.pay(cost);
        }
        cost.known_usd()
    }

    /// Pays for an attempt that broke off: what the provider counted, where it said so, and an
    /// estimate where something of a reply had come. Its output goes on being counted after the
    /// number that was told, so that what had arrived is the least. Gives what was paid, for the
    /// record.
    pub(crate) fn pay_broken(
        &mut self,
        reserved: Option<Reserved>,
        error: &ModelError,
        route: &Route,
    ) -> Option<Cost> {
        let estimate = || self.estimate(route, error.partial_bytes());
        let usage = match error.usage.as_deref().copied() {
            Some(told) => Usage { output: told.output.max(said_tokens(error)), ..told },
            None if reserved.is_some() && error.kind == FailureKind::Incomplete => estimate(),
            None => return None,
        };
        let cost = Cost::of(usage, route.price);
        self.cost += cost;
        if let Some(reserved) = reserved {
            reserved.pay(cost);
        }
        Some(cost)
    }

    fn estimate(&self, route: &Route, said_bytes: u64) -> Usage {
        let input = self.density.tokens(self.request_bytes(route));
        Usage { input, output: said_bytes.div_ceil(BYTES_PER_TOKEN), ..Usage::default() }
    }
}

/// About how many tokens of text had arrived.
fn said_tokens(error: &ModelError) -> u64 {
    error.partial_bytes().div_ceil(BYTES_PER_TOKEN)
}
