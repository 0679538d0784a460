//! Whether a request can be paid for: estimated and set aside before it, paid after it.

use std::borrow::Cow;

use deputize_core::{
    CancelReason, ContextUse, Cost, Event, FailureKind, JournalError, LogLevel, ModelError,
    ModelOptions, Reply, Request, Step, ToolChoice, Usage, WrapUp,
};

use crate::ask::bytes;
use crate::driver::Driver;
use crate::parts::Route;
use crate::purse::Costs;

/// Output tokens that are set aside where `max_output_tokens` says nothing.
const USUAL_OUTPUT: u32 = 4096;
/// Output tokens of a closing answer.
const CLOSING_OUTPUT: u32 = 1024;
/// Bytes of a request's text for one token, before a reply has told; of a reply's, in any case.
const BYTES_PER_TOKEN: u64 = 3;
/// Tokens that results of calls bring at least: a conversation grows by them until the closing
/// request. The model's own reply is set aside anyway.
const RESULTS: u64 = 256;

/// What the replies of an agent told of the tokens that its conversation takes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Density {
    /// Of the request before the last reply.
    bytes: u64,
    tokens: u64,
    /// The last reply among them.
    known: u64,
    /// The most that results brought between two requests.
    brought: u64,
}

impl Density {
    /// A request of so many bytes was answered.
    pub(crate) fn replied(&mut self, bytes: u64, usage: Usage) {
        (self.bytes, self.tokens) = (bytes, usage.input);
        self.known = usage.input.saturating_add(usage.output);
    }

    /// The next request will have so many tokens.
    fn grew(&mut self, tokens: u64) {
        if self.known > 0 {
            self.brought = self.brought.max(tokens.saturating_sub(self.known));
        }
    }

    pub(crate) fn tokens(self, bytes: u64) -> u64 {
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
    /// asked for, and where not even that fits, the agent ends. Whether the request may be sent.
    pub(crate) async fn afford(&mut self, route: &Route) -> Result<bool, JournalError> {
        let Step::Ask { tools, .. } = self.run.step() else { return Ok(false) };
        let Some(mut share) = self.share.take() else { return Ok(true) };
        let costs = self.costs(tools, route);
        let work = self.cancel.child();
        let fits = self.until_deadline(&work, share.reserve(costs, &work)).await;
        let short = (!fits && !work.is_cancelled()).then(|| share.told(costs));
        self.share = Some(share);
        let Some((of, short)) = short else { return Ok(fits) };
        self.log(LogLevel::Warn, short.clone())?;
        let next = match tools {
            ToolChoice::Auto => {
                self.short = Some(format!("there was no closing answer when one was due: {short}"));
                Event::AgentWrapUp { limit: WrapUp::Budget, budget: Some(of) }
            }
            ToolChoice::None => {
                let what = match self.requests {
                    0 => "nothing was asked of the model, for the budget has no room for it",
                    _ => "there is no closing answer, for the budget has no room for it",
                };
                self.short = Some(format!("{what}: {short}"));
                Event::AgentStop { reason: CancelReason::Budget, pending: false }
            }
        };
        self.input(next).await?;
        Ok(false)
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

    /// What the next request may cost, and what the closing one would after it.
    fn costs(&mut self, tools: ToolChoice, route: &Route) -> Costs {
        let input = self.density.tokens(self.request_bytes(route));
        self.density.grew(input);
        let least = cost(input, most_output(route, &self.affordable(ToolChoice::None)), route);
        match tools {
            ToolChoice::Auto => {
                let most = most_output(route, &self.view.spec.options);
                let request = cost(input, most, route);
                Costs { request, closing: self.closing_cost(input, route), least }
            }
            ToolChoice::None => Costs { request: Cost::default(), closing: least, least },
        }
    }

    /// What the closing request would cost after a request with so much input: its reply and
    /// results of calls come to it.
    fn closing_cost(&self, input: u64, route: &Route) -> Cost {
        let reply = u64::from(most_output(route, &self.view.spec.options));
        let results = self.density.brought.max(RESULTS);
        let input = input.saturating_add(reply).saturating_add(results);
        cost(input, most_output(route, &self.affordable(ToolChoice::None)), route)
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

    /// Pays for a reply; gives its dollars where they are known, and whether its tokens are
    /// estimated, as those are that the server did not count: nothing that it said was free.
    pub(crate) fn pay(&mut self, reply: &mut Reply, route: &Route) -> (Option<f64>, bool) {
        let limited = self.share.is_some();
        let counts = limited || route.model.takes_tokens();
        let estimated = counts && reply.usage == Usage::default();
        if estimated {
            let calls: usize = reply.calls.iter().map(|call| call.arguments.len()).sum();
            let said = (reply.text.len() + reply.reasoning.len() + calls) as u64;
            reply.usage = self.estimate(route, said);
        }
        let usage = reply.usage;
        let used = self.view.store.get_or_insert_with(ContextUse::default);
        used.set(usage.input.saturating_add(usage.output));
        let cost = Cost::of(usage, route.price);
        self.cost += cost;
        if usage.input > 0 {
            self.density.replied(self.request_bytes(route), usage);
        }
        let closes = matches!(self.run.step(), Step::Ask { tools: ToolChoice::None, .. });
        let closing = (limited && !closes).then(|| self.closing_cost(usage.input, route));
        if let Some(share) = &mut self.share {
            share.pay(cost, closing.unwrap_or_default());
        }
        (cost.known_usd(), estimated)
    }

    /// Pays for an attempt that broke off or was cancelled: what the provider counted, where it
    /// said so, and an estimate where a reply had begun, of which so many bytes had arrived. Its
    /// output goes on being counted after the number that was told, so that what had arrived is the
    /// least. Puts into the error what was paid, and gives what that costs, for the record.
    pub(crate) fn pay_broken(
        &mut self,
        error: &mut ModelError,
        arrived: Option<u64>,
        route: &Route,
    ) -> Option<Cost> {
        let said = error.partial_bytes().max(arrived.unwrap_or_default());
        let begun = arrived.is_some() || said > 0 || error.kind == FailureKind::Incomplete;
        error.estimated = error.usage.is_none() && begun;
        let usage = match error.usage.as_deref().copied() {
            Some(told) => {
                let least = said.div_ceil(BYTES_PER_TOKEN);
                Some(Usage { output: told.output.max(least), ..told })
            }
            None => begun.then(|| self.estimate(route, said)),
        };
        error.usage = usage.map(Box::new);
        let cost = usage.map(|usage| Cost::of(usage, route.price));
        self.cost += cost.unwrap_or_default();
        if let Some(share) = &mut self.share {
            share.pay_broken(cost.unwrap_or_default());
        }
        cost
    }

    fn estimate(&self, route: &Route, said_bytes: u64) -> Usage {
        let input = self.density.tokens(self.request_bytes(route));
        Usage { input, output: said_bytes.div_ceil(BYTES_PER_TOKEN), ..Usage::default() }
    }
}

/// How many tokens of output a request may bring.
fn most_output(route: &Route, options: &ModelOptions) -> u32 {
    route.model.most_output(options).unwrap_or(USUAL_OUTPUT)
}

fn cost(input: u64, output: u32, route: &Route) -> Cost {
    let usage = Usage { input, output: u64::from(output), ..Usage::default() };
    Cost::of(usage, route.price)
}
