//! Estimates the cost of requests and tasks from earlier ones of the session.
//!
//! A running session counts a cost before it is on record: the agents that wait for room are woken
//! by it and estimate with it. What was reserved for a task counts too, and is on no record.

use std::collections::{BTreeMap, BTreeSet};

use deputize_core::budget::{Cost, OutputEstimator, TaskCost, TaskCostEstimator, TokenEstimator};
use deputize_core::event::RequestPurpose;
use deputize_core::model::Usage;
use deputize_core::outcome::ExitReason;
use deputize_core::{AgentId, Event, Outcome, Record, Status};

/// Cost of the replies and tasks of a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct CostHistory {
    routes: BTreeMap<String, RouteUsage>,
    /// Whole tasks, by the agent that set them; under `None` all of them.
    tasks: BTreeMap<Option<AgentId>, TaskCostEstimator>,
}

#[derive(Debug, Clone, Default)]
struct RouteUsage {
    /// Replies to the top agent and to children, who are asked for other things.
    outputs: [OutputEstimator; 2],
    /// Most tokens for 1,024 bytes of a request.
    densest: u64,
}

/// A route, and who asks over it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RouteKey<'a> {
    pub(crate) name: &'a str,
    pub(crate) is_child: bool,
}

/// Estimates for the requests of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RouteEstimate {
    /// Most tokens for 1,024 bytes of a request.
    pub(crate) densest: Option<u64>,
    /// Output tokens that a reply is unlikely to reach.
    pub(crate) likely: Option<u32>,
    /// Output tokens that few replies reach.
    pub(crate) usual: Option<u32>,
}

impl CostHistory {
    /// Returns the history of a session that is resumed, from its records.
    pub(crate) fn of(records: &[Record]) -> Self {
        let mut history = Self::default();
        let mut requests: BTreeMap<&AgentId, (&str, u64)> = BTreeMap::new();
        let mut continued: BTreeSet<&AgentId> = BTreeSet::new();
        for record in records {
            match &record.event {
                Event::ModelRequest { model, bytes, purpose: RequestPurpose::Turn, .. } => {
                    requests.insert(&record.agent, (model, *bytes));
                }
                Event::ModelResponse { reply, estimated: false, .. } => {
                    if let Some((model, bytes)) = requests.remove(&record.agent) {
                        let route = RouteKey { name: model, is_child: record.depth > 0 };
                        history.record_reply(route, bytes, reply.usage.in_context());
                    }
                }
                // After a further task it is not what one task cost.
                Event::AgentResume { task: Some(_), .. } => _ = continued.insert(&record.agent),
                Event::AgentEnd(end) if !continued.contains(&record.agent) => {
                    let spent = tree_cost(end);
                    if let Some(parent) = record.parent.as_ref().filter(|_| spent.tokens > 0) {
                        let completed = is_completed(end.status, end.exit_reason);
                        history.record_end(parent, TaskCost { spent, peak: spent, completed });
                    }
                }
                _ => {}
            }
        }
        history
    }

    /// Takes a reply of a route to a request of so many bytes.
    pub(crate) fn record_reply(&mut self, route: RouteKey<'_>, bytes: u64, usage: Usage) {
        if !self.routes.contains_key(route.name) {
            self.routes.insert(route.name.to_owned(), RouteUsage::default());
        }
        if let Some(known) = self.routes.get_mut(route.name) {
            let [top, children] = &mut known.outputs;
            let outputs = if route.is_child { children } else { top };
            outputs.record_reply(usage.output);
            known.densest = known.densest.max(TokenEstimator::density(bytes, usage.input));
        }
    }

    /// Takes the cost of a task that has ended.
    pub(crate) fn record_end(&mut self, parent: &AgentId, task: TaskCost) {
        for key in [None, Some(parent.clone())] {
            self.tasks.entry(key).or_default().record_end(task);
        }
    }

    /// Returns what to expect of the requests to a route, by the top agent or a child, and of the
    /// tasks that a parent sets. What children cost says nothing about the top agent's own task.
    pub(crate) fn estimate(&self, parent: Option<&AgentId>, route: RouteKey<'_>) -> CostEstimates {
        let (task, cheapest) = if route.is_child { self.task(parent) } else { (None, None) };
        CostEstimates { route: self.route(route), task, cheapest }
    }

    fn route(&self, route: RouteKey<'_>) -> RouteEstimate {
        let Some(known) = self.routes.get(route.name) else { return RouteEstimate::default() };
        let [top, children] = &known.outputs;
        let outputs = if route.is_child { children } else { top };
        RouteEstimate {
            densest: Some(known.densest).filter(|density| *density > 0),
            likely: outputs.likely(),
            usual: outputs.usual(),
        }
    }

    fn task(&self, parent: Option<&AgentId>) -> (Option<Cost>, Option<Cost>) {
        let of_parent = parent.and_then(|parent| self.tasks.get(&Some(parent.clone())));
        let known = of_parent.or_else(|| self.tasks.get(&None));
        known.map_or((None, None), |tasks| (tasks.expected(), tasks.cheapest()))
    }
}

/// Returns whether a task was completed, so that its cost is that of a whole task.
pub(crate) fn is_completed(status: Status, reason: ExitReason) -> bool {
    status == Status::Completed && reason != ExitReason::Budget
}

/// Returns the cost of an agent and its descendants.
pub(crate) fn tree_cost(end: &Outcome) -> Cost {
    let usage = end.tree_usage();
    Cost {
        tokens: usage.input.saturating_add(usage.output),
        usd: end.cost_usd.unwrap_or_default(),
        unpriced: end.cost_usd.is_none(),
    }
}

/// Estimates for a request for room.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CostEstimates {
    /// About the requests of the route.
    pub(crate) route: RouteEstimate,
    /// Expected cost of a task like the agent's; `None` before the first completed one.
    pub(crate) task: Option<Cost>,
    /// Cost of the cheapest such task.
    pub(crate) cheapest: Option<Cost>,
}
