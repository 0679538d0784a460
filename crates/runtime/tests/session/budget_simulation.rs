//! Tasks of random cost with a budget for some of them, on a paused clock: how many are completed,
//! measured against what somebody who knew all costs could have completed.

use std::sync::Arc;
use std::time::Duration;

use deputize_core::agent::AgentSpec;
use deputize_core::authority::Grant;
use deputize_core::budget::{Budget, Price};
use deputize_core::model::{
    Delta, FailureKind, Finish, ModelError, Reply, Request, ToolChoice, Usage,
};
use deputize_core::outcome::ExitReason;
use deputize_core::{
    Authority, BoxFuture, Cancel, Event, Message, Model, Outcome, SessionId, Status,
};
use deputize_runtime::{Budgets, Session, SessionConfig, SessionDir};
use fastrand::Rng;
use serde_json::json;

use crate::fixture::{World, config, spec};

const PRICE: Price = Price { input: 3.0, cached: 0.3, cache_write: 3.75, output: 15.0 };

/// One step of a task: tokens of the reply, bytes of the result of its call.
struct StepCost {
    output: u64,
    result: usize,
    ms: u64,
}

/// A session whose tasks cost what they cost.
struct Plan {
    system: usize,
    /// Tokens for 1,000 bytes of a request.
    density: usize,
    /// Whether the provider has a cache.
    caches: bool,
    /// How many tasks one call has.
    batch: usize,
    /// How many of them run side by side at most.
    cap: usize,
    /// Steps of a usual task, and output tokens of a usual step.
    usual: (usize, u64),
    tasks: Vec<Vec<StepCost>>,
}

impl Plan {
    /// Tasks of one call are more or less alike.
    fn random(rng: &mut Rng, alike: bool) -> Self {
        let count = rng.usize(4..=20);
        let usual_steps = rng.usize(2..=9);
        let usual = rng.u64(80..900);
        let step = |rng: &mut Rng| StepCost {
            output: if rng.u32(..50) == 0 { usual * 4 } else { rng.u64(usual / 2..usual * 3 / 2) },
            result: rng.usize(100..6_000),
            ms: rng.u64(200..20_000),
        };
        let steps = |rng: &mut Rng| {
            if alike { usual_steps } else { rng.usize(1..=2 * usual_steps) }
        };
        let tasks = (0..count).map(|_| (0..steps(rng)).map(|_| step(rng)).collect()).collect();
        Self {
            system: rng.usize(2_000..20_000),
            density: rng.usize(220..450),
            caches: rng.bool(),
            batch: rng.usize(1..=count),
            cap: rng.usize(1..=8),
            usual: (usual_steps, usual),
            tasks,
        }
    }

    /// Returns what each step of a task costs on average. The text of tools is not counted.
    fn step_costs(&self) -> Vec<f64> {
        let (steps, output) = self.usual;
        let output = output as f64 * 1.06;
        let density = self.density as f64 / 1e3;
        let growth = output + 3_050.0 * density;
        let (prefix, rest) = if self.caches {
            (PRICE.cached, PRICE.cache_write)
        } else {
            (PRICE.input, PRICE.input)
        };
        let cost = |step: usize| {
            let input = self.system as f64 * density * prefix + step as f64 * growth * rest;
            (input + output * PRICE.output) / 1e6
        };
        (0..2 * steps).map(cost).collect()
    }

    /// Returns how many tasks that are not alike a policy can expect to complete at most that knows
    /// how costs are distributed and may drop a task after each step, but does not know which step
    /// is the last one. It is a Lagrangian bound: the budget need only hold on average.
    fn expected_at_most(&self, usd: f64) -> f64 {
        let costs = self.step_costs();
        let bound = |price: f64| {
            let value = costs.iter().enumerate().rev().fold(0.0_f64, |after, (step, cost)| {
                let ends = 1.0 / (costs.len() - step) as f64;
                (ends + (1.0 - ends) * after - price * cost).max(0.0)
            });
            self.tasks.len() as f64 * value + price * usd
        };
        let prices = (0..400).map(|n| 1.03_f64.powi(n) * 1e-2);
        prices.map(bound).fold(self.tasks.len() as f64, f64::min)
    }
}

/// A model that counts tokens by the text it is sent.
struct PricedModel(Arc<Plan>);

/// Bytes of the system text and the tools, and of the messages.
fn bytes(request: &Request<'_>) -> (usize, usize) {
    let system: usize = request.system.iter().map(|block| block.len()).sum();
    let tools = request.tools.iter().map(|tool| {
        tool.name.as_str().len() + tool.description.len() + tool.parameters.as_str().len()
    });
    let messages = request.messages.iter().map(|message| match &**message {
        Message::User(user) => user.text.len(),
        Message::Assistant(said) => {
            let calls = said.calls.iter().map(|call| call.name.len() + call.arguments.len());
            said.text.len() + calls.sum::<usize>()
        }
        Message::Tool(result) => result.text.as_str().len(),
    });
    (system + tools.sum::<usize>(), messages.sum())
}

impl PricedModel {
    fn answer(&self, request: &Request<'_>) -> (u64, Reply) {
        let plan = &self.0;
        let results = request.messages.iter().filter(|it| matches!(***it, Message::Tool(_)));
        let results = results.count();
        let (prefix, rest) = bytes(request);
        let tokens = |bytes: usize| (bytes * plan.density).div_ceil(1_000) as u64;
        let usage = |output| Usage {
            input: tokens(prefix + rest),
            cached: if plan.caches { tokens(prefix) } else { 0 },
            cache_write: if plan.caches { tokens(rest) } else { 0 },
            output,
            ..Usage::default()
        };
        let Some(Message::User(task)) = request.messages.first().map(|it| &**it) else {
            return (0, Reply::text("m", "no task"));
        };
        let Some(number) = task.text.strip_prefix("task ") else {
            // The top agent hands its tasks on.
            let goals: Vec<_> = (0..plan.tasks.len()).map(|n| format!("task {n}")).collect();
            return match goals.chunks(plan.batch).nth(results) {
                Some(list) => {
                    let calls =
                        Reply::calls("m", [("spawn", json!({ "list": list, "n": plan.cap }))]);
                    (0, Reply { usage: usage(100), ..calls })
                }
                None => (0, Reply { usage: usage(100), ..Reply::text("m", "all back") }),
            };
        };
        let steps = &plan.tasks[number.parse::<usize>().unwrap()];
        let Some(step) = steps.get(results) else { return (0, Reply::text("m", "too late")) };
        let limit = request.options.max_output_tokens.map_or(u64::MAX, u64::from);
        // As long a text as so many tokens are, beside the call.
        let text = |output: u64| {
            let bytes = output as usize * 1_000 / plan.density;
            "y".repeat(bytes.saturating_sub(40).max(1))
        };
        let reply = if request.tool_choice == ToolChoice::None {
            Reply { usage: usage(limit.min(200)), ..Reply::text("m", "this far") }
        } else if step.output > limit {
            let finish = Finish::Length;
            Reply { usage: usage(limit), finish, ..Reply::text("m", text(limit)) }
        } else if results + 1 == steps.len() {
            Reply { usage: usage(step.output), ..Reply::text("m", "done") }
        } else {
            let command = step.result.to_string();
            let calls = Reply::calls("m", [("look", json!({ "command": command }))]);
            Reply { text: text(step.output), usage: usage(step.output), ..calls }
        };
        (step.ms, reply)
    }
}

impl Model for PricedModel {
    fn reply<'a>(
        &'a self,
        request: &'a Request<'a>,
        _: &'a mut (dyn FnMut(Delta<'_>) + Send),
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        let (ms, reply) = self.answer(request);
        Box::pin(async move {
            tokio::select! {
                () = cancel.cancelled() => {
                    Err(ModelError::new(FailureKind::Cancelled, "told to end"))
                }
                () = tokio::time::sleep(Duration::from_millis(ms)) => Ok(reply),
            }
        })
    }
}

/// Runs a plan with a budget for its tasks; gives how they ended.
async fn tasks(plan: &Arc<Plan>, usd: Option<f64>) -> Vec<Outcome> {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let budgets = Budgets { children: Budget { usd, tokens: None }, ..Budgets::default() };
    let mut config =
        SessionConfig { budgets, ..config(&world, |_, _| Ok(Reply::text("m", "never"))) };
    config.models.insert("t/rule", "rule", Arc::new(PricedModel(Arc::clone(plan))));
    config.models.price("t/rule", PRICE);
    let session =
        Session::create(&SessionDir::new(folder.path()), SessionId::literal("s"), config).unwrap();
    let grant = Grant { spawn_depth: Some(1), spawn_number: Some(99), ..Grant::default() };
    let authority = Authority::root(session.catalog(), &grant);
    let system = vec!["s".repeat(plan.system).into()];
    let spec = AgentSpec { system, ..spec(folder.path()) };
    session.run(spec, authority, &Cancel::new()).await;
    let records = world.records.lock();
    let ends = records.iter().filter_map(|record| match &record.event {
        Event::AgentEnd(end) if record.depth > 0 => Some((**end).clone()),
        _ => None,
    });
    let mut ends: Vec<Outcome> = ends.collect();
    ends.sort_by_key(|end| {
        let numbers = end.agent.to_string();
        let numbers = numbers.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().ok());
        numbers.collect::<Vec<_>>()
    });
    ends
}

fn cost(end: &Outcome) -> f64 {
    end.cost_usd.unwrap()
}

/// How many of these costs are within a budget, one after the other.
fn within(costs: &[f64], usd: f64) -> usize {
    let mut left = usd;
    let fits = |cost: &&f64| {
        left -= **cost;
        left >= 0.0
    };
    costs.iter().take_while(fits).count()
}

struct Measurement {
    completed: usize,
    optimum: usize,
    /// Number of tasks that fit in their given order if their costs were known.
    in_order: usize,
    /// How many can be expected without knowing the future, where tasks are not alike.
    expected: f64,
    /// Of the budget.
    spent: f64,
}

async fn measure(seed: u64, alike: bool) -> Measurement {
    let mut rng = Rng::with_seed(seed);
    let plan = Arc::new(Plan::random(&mut rng, alike));
    let free = tasks(&plan, None).await;
    assert_eq!(free.len(), plan.tasks.len(), "{seed}");
    let costs: Vec<f64> = free.iter().map(cost).collect();
    let usd = costs.iter().sum::<f64>() * (0.2 + 0.9 * rng.f64());
    let ends = tasks(&plan, Some(usd)).await;
    let spent: f64 = ends.iter().map(cost).sum();
    assert!(spent <= usd + 1e-9, "seed {seed}: {spent} of {usd}");
    assert_eq!(ends.len(), plan.tasks.len(), "{seed}");
    for end in &ends {
        let reason = (end.status, end.exit_reason);
        let billed = cost(end) > 0.0;
        let fits = match reason {
            (Status::Completed, ExitReason::Completed | ExitReason::Budget) => billed,
            (Status::Failed, ExitReason::Budget) => true,
            _ => false,
        };
        assert!(fits, "seed {seed}: {end:?}");
        // A child that did nothing was not billed, and one that is billed did something.
        assert_eq!(billed, end.requests > 0, "seed {seed}: {end:?}");
    }
    let done = |end: &&Outcome| end.exit_reason == ExitReason::Completed;
    let completed = ends.iter().filter(done).count();
    let in_order = within(&costs, usd);
    let optimum = {
        let mut costs = costs;
        costs.sort_by(f64::total_cmp);
        within(&costs, usd)
    };
    let expected = plan.expected_at_most(usd);
    Measurement { completed, optimum, in_order, expected, spent: spent / usd }
}

/// The lowest of some figures, the tenth, the quarter and the half of them that are lowest, and the
/// mean.
fn figures(mut all: Vec<f64>) -> [f64; 5] {
    all.sort_by(f64::total_cmp);
    let at = |part: usize| all[(all.len() - 1) * part / 20];
    [at(0), at(2), at(5), at(10), all.iter().sum::<f64>() / all.len() as f64]
}

/// What was completed in some cases.
struct SimulationTotals {
    /// Of the most that could be completed, the cheapest first, by somebody who knows all costs.
    of_most: [f64; 5],
    /// Of the most in the order of the tasks.
    in_order: [f64; 5],
    /// All tasks that were completed, that could be, and that can be expected to be without knowing
    /// the future.
    totals: [f64; 3],
}

async fn simulate(what: &str, seeds: std::ops::Range<u64>, alike: bool) -> SimulationTotals {
    let mut of_most = Vec::new();
    let mut in_order = Vec::new();
    let mut spent = Vec::new();
    let mut totals = [0.0; 3];
    for seed in seeds {
        let measured = measure(seed, alike).await;
        let share = |of: usize| (of > 0).then(|| measured.completed as f64 / of as f64);
        of_most.extend(share(measured.optimum));
        in_order.extend(share(measured.in_order));
        spent.push(measured.spent);
        let counts = [measured.completed as f64, measured.optimum as f64, measured.expected];
        totals.iter_mut().zip(counts).for_each(|(total, count)| *total += count);
    }
    let count = of_most.len();
    let simulated =
        SimulationTotals { of_most: figures(of_most), in_order: figures(in_order), totals };
    println!(
        "{what}, {count} cases: min, 10 %, 25 %, median, mean\n  \
         completed of the most, the cheapest first: {:.3?}\n  \
         completed of the most in this order: {:.3?}\n  \
         spent of the budget: {:.2?}\n  \
         completed, possible, to be expected: {totals:.1?}",
        simulated.of_most,
        simulated.in_order,
        figures(spent)
    );
    simulated
}

/// Tasks with the same number of steps. Replies, results and so costs are random.
#[tokio::test(start_paused = true)]
async fn of_tasks_that_are_alike_nearly_as_many_are_completed_as_could_be() {
    let simulated = simulate("tasks that are alike", 0..100, true).await;
    let [.., median, mean] = simulated.of_most;
    assert!(median >= 0.9 && mean >= 0.75, "of the cheapest: median {median}, mean {mean}");
    let [.., median, mean] = simulated.in_order;
    assert!(median >= 0.9 && mean >= 0.8, "in order: median {median}, mean {mean}");
}

/// Tasks of which some cost twenty times as much as others. Nobody knows which before they ran, so
/// that even who knows how costs are distributed cannot expect 90 % of what the cheapest tasks allow.
#[tokio::test(start_paused = true)]
async fn of_tasks_that_are_not_alike_nearly_as_many_are_completed_as_can_be_expected() {
    let simulated = simulate("tasks that are not alike", 0..100, false).await;
    let [completed, possible, expected] = simulated.totals;
    assert!(expected < 0.9 * possible, "{expected} of {possible}");
    assert!(completed >= 0.8 * expected, "{completed} of {expected}");
    let [.., median, mean] = simulated.of_most;
    assert!(median >= 0.7 && mean >= 0.65, "of the cheapest: median {median}, mean {mean}");
    let [.., median, mean] = simulated.in_order;
    assert!(median >= 0.9 && mean >= 0.8, "in order: median {median}, mean {mean}");
}

/// Six equal tasks, of which nobody knows what they cost before the first one has ended, with a
/// budget for seven and a half.
#[tokio::test(start_paused = true)]
async fn of_equal_tasks_all_run_that_fit() {
    for steps in 1..=4 {
        for (system, output) in [(3_000, 80), (3_000, 600), (12_000, 80), (12_000, 300)] {
            let step = || StepCost { output, result: 2_000, ms: 1_000 };
            let task = || (0..steps).map(|_| step()).collect();
            let tasks_of = (0..6).map(|_| task()).collect();
            let plan = Plan {
                system,
                density: 330,
                caches: false,
                batch: 6,
                cap: 3,
                usual: (steps, output),
                tasks: tasks_of,
            };
            let plan = Arc::new(plan);
            let each = cost(&tasks(&plan, None).await[0]);
            let ends = tasks(&plan, Some(each * 7.5)).await;
            let done = ends.iter().filter(|end| end.exit_reason == ExitReason::Completed);
            assert_eq!(done.count(), 6, "{steps} steps, {system}, {output}: {:?}", ends.last());
        }
    }
}
