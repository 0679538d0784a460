//! The agent loop as a fold of its inputs, without IO.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::agent::{AgentLimits, AgentSpec};
use crate::cancel::CancelReason;
use crate::message::{Message, ToolCall, ToolResult, UserMessage};
use crate::model::{ModelError, Reply, ToolChoice, Usage};
use crate::name::AgentId;
use crate::outcome::{ExitReason, Status, ToolTrace};

mod calls;
mod ending;
mod repetition;
mod replies;

use repetition::Repetition;

pub use replies::TASK_NOT_DONE;

const GO_ON: &str = include_str!("../prompts/go_on.md");
/// Separates a report from what the agent said after it.
const LATER_ANSWER: &str = include_str!("../prompts/later_answer.md");

/// An input of a [`Run`]: exactly what the journal holds of it.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// A message for the model.
    Message(&'a UserMessage),
    /// A request was sent to the model of this name, as agents know it.
    Request(&'a str),
    /// A complete reply.
    Reply(&'a Reply),
    /// An attempt failed, and the request is retried.
    Broke(&'a ModelError),
    /// The request failed for good.
    Failed(&'a ModelError),
    /// The result of a call.
    Result(&'a ToolResult),
    /// The answer does not match its schema, for these reasons.
    Rejected(&'a str),
    /// A limit was reached; the next request is the closing one.
    WrapUp(WrapUpReason),
    /// The turn is over, and the agent waits until the next message. Its answer stays in the
    /// result.
    Rest,
    /// It must end now.
    Stop(CancelReason),
    /// The agent continues; if it had ended, with a new turn.
    Resume {
        /// The limit on model requests of its turns from now on.
        max_iterations: u32,
    },
}

/// The limit that calls for a closing answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WrapUpReason {
    /// The time limit.
    #[default]
    Time,
    /// The budget.
    Budget,
}

/// The unit of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetUnit {
    /// Seconds of all children together.
    Seconds,
    /// Tokens.
    Tokens,
    /// Dollars.
    Usd,
}

/// The next action. Exhaustive on purpose, since a driver handles every one.
#[derive(Debug, PartialEq)]
pub enum Step<'a> {
    /// Send a request.
    Ask {
        /// Number of this agent's request, from 1.
        iteration: u32,
        /// Whether tools may be called.
        tools: ToolChoice,
    },
    /// Run these calls, which have no results yet.
    Call(Vec<&'a ToolCall>),
    /// Wait for a message.
    Rest,
    /// The turn is over.
    Done(&'a TurnEnd),
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnEnd {
    /// How it ended.
    pub status: Status,
    /// Why it ended.
    pub reason: ExitReason,
    /// The answer, or the last text before the end.
    pub text: Option<String>,
    /// Whether the text is only the part of a reply that arrived before it broke off.
    pub partial: bool,
    /// What went wrong, for the operator.
    pub error: Option<String>,
    /// The error without figures that differ between agents that failed for the same reason; `None`
    /// if it has no such figures.
    pub cause: Option<String>,
    /// Whether the provider was unusable.
    pub unavailable: bool,
}

/// Why the next request is the last of its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastRequestReason {
    Iterations,
    Time,
    Budget,
    Loop,
}

#[derive(Debug, Clone, PartialEq)]
enum RunState {
    Resting,
    Asking,
    Calling { calls: Vec<ToolCall>, results: Vec<Option<ToolResult>> },
    Done(TurnEnd),
}

/// The loop of one agent as a value: `step` returns the next action and may be called any number of
/// times, `apply` makes the only change. Driving it, replaying a journal into it and simulating it
/// are the same.
///
/// ```
/// use deputize_core::{Input, AgentLimits, Reply, Run, Step, UserMessage};
/// let mut run = Run::new(AgentLimits { max_iterations: 9, time_ms: 0, wrap_up_ms: 0 }, []);
/// assert_eq!(run.step(), Step::Rest);
/// run.apply(Input::Message(&UserMessage { text: "Hello".into(), from: None }));
/// assert!(matches!(run.step(), Step::Ask { iteration: 1, .. }));
/// run.apply(Input::Reply(&Reply::text("m", "Good day.")));
/// let Step::Done(end) = run.step() else { panic!() };
/// assert_eq!(end.text.as_deref(), Some("Good day."));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    limits: AgentLimits,
    messages: Vec<Arc<Message>>,
    /// Messages that arrived while calls were open.
    waiting: Vec<UserMessage>,
    state: RunState,
    closing: Option<LastRequestReason>,
    iteration: u32,
    /// Iterations before this turn.
    turn_start: u32,
    empty_replies: u32,
    corrections: u32,
    repetition: Repetition,
    /// Answers of this turn that a message followed. They remain part of its result.
    reports: Vec<String>,
    last_text: Option<String>,
    /// Text of a broken attempt, until a reply arrives.
    broken_text: Option<String>,
    /// Whether the last text is only a part of a reply.
    partial: bool,
    /// The model of the last request, by the name that agents use.
    asked: String,
    served: String,
    usage: Usage,
    trace: Vec<ToolTrace>,
    /// Children whose end was reported to it.
    delivered: BTreeSet<AgentId>,
}

impl Run {
    /// Creates a run that rests until its first message.
    #[must_use]
    pub fn new(limits: AgentLimits, prefill: impl IntoIterator<Item = Message>) -> Self {
        Self {
            limits,
            messages: prefill.into_iter().map(Arc::new).collect(),
            waiting: Vec::new(),
            state: RunState::Resting,
            closing: None,
            iteration: 0,
            turn_start: 0,
            empty_replies: 0,
            corrections: 0,
            repetition: Repetition::default(),
            reports: Vec::new(),
            last_text: None,
            broken_text: None,
            partial: false,
            asked: String::new(),
            served: String::new(),
            usage: Usage::default(),
            trace: Vec::new(),
            delivered: BTreeSet::new(),
        }
    }

    /// Creates a run for an agent.
    #[must_use]
    pub fn of(spec: &AgentSpec) -> Self {
        Self::new(spec.limits, spec.prefill.iter().cloned())
    }

    /// Returns the next action.
    #[must_use]
    pub fn step(&self) -> Step<'_> {
        match &self.state {
            RunState::Resting => Step::Rest,
            RunState::Asking => {
                let tools =
                    if self.closing.is_some() { ToolChoice::None } else { ToolChoice::Auto };
                Step::Ask { iteration: self.iteration + 1, tools }
            }
            RunState::Calling { calls, results } => {
                let open = calls.iter().zip(results).filter(|(_, result)| result.is_none());
                Step::Call(open.map(|(call, _)| call).collect())
            }
            RunState::Done(end) => Step::Done(end),
        }
    }

    /// Applies an input. An input that does not fit the present state changes nothing.
    pub fn apply(&mut self, input: Input<'_>) {
        match input {
            Input::Message(message) => self.message(message),
            Input::Request(model) => self.request(model),
            Input::Reply(reply) => self.reply(reply),
            Input::Broke(error) => self.record_broken_stream(error),
            Input::Failed(error) => self.failed(error),
            Input::Result(result) => self.result(result),
            Input::Rejected(mistakes) => self.rejected(mistakes),
            Input::WrapUp(WrapUpReason::Time) => self.close(LastRequestReason::Time),
            Input::WrapUp(WrapUpReason::Budget) => self.close(LastRequestReason::Budget),
            Input::Rest => self.rest(),
            Input::Stop(reason) => self.stop(reason),
            Input::Resume { max_iterations } => self.resume(max_iterations),
        }
    }

    /// Returns the conversation. Each call in it is followed by its result, in the order of calls.
    #[must_use]
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// Returns the number of replies.
    #[must_use]
    pub const fn iterations(&self) -> u32 {
        self.iteration
    }

    /// Returns the model that served the last reply, or part of one, by the name that agents use;
    /// empty before the first.
    #[must_use]
    pub fn served(&self) -> &str {
        &self.served
    }

    /// Returns the number of consecutive calls that could not be parsed, once it is so high that
    /// the model should not be asked again. A request to another model resets the count.
    #[must_use]
    pub fn unreadable_calls(&self) -> Option<usize> {
        let asks = matches!(self.state, RunState::Asking) && self.closing.is_none();
        self.repetition.unreadable_calls().filter(|_| asks)
    }

    /// Returns the tokens so far.
    #[must_use]
    pub const fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the calls so far.
    #[must_use]
    pub fn trace(&self) -> &[ToolTrace] {
        &self.trace
    }

    /// Returns the model's text in this turn that belongs to its result: each answer followed by a
    /// message or the end of a child, then the last text, whether or not that is an answer.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let last = self.last_text.as_ref().filter(|last| !self.reports.contains(last));
        let texts: Vec<&str> = self.reports.iter().chain(last).map(String::as_str).collect();
        (!texts.is_empty()).then(|| texts.join(&format!("\n\n{}\n\n", LATER_ANSWER.trim_end())))
    }

    /// Returns the answers of this turn, in order.
    #[must_use]
    pub fn answers(&self) -> Vec<&str> {
        let completed =
            matches!(&self.state, RunState::Done(TurnEnd { status: Status::Completed, .. }));
        let last = self.last_text.as_ref().filter(|_| completed);
        self.reports.iter().chain(last).map(String::as_str).collect()
    }

    /// Returns the children whose end was reported to it by a message.
    #[must_use]
    pub const fn delivered(&self) -> &BTreeSet<AgentId> {
        &self.delivered
    }

    /// Returns whether the turn is over in a way that lets a message begin another one: with an
    /// answer, and not because of the budget.
    #[must_use]
    pub fn may_rest(&self) -> bool {
        match &self.state {
            RunState::Resting => true,
            RunState::Done(end) => {
                end.status == Status::Completed && end.reason != ExitReason::Budget
            }
            RunState::Asking | RunState::Calling { .. } => false,
        }
    }

    /// Returns whether its next reply ends it, whatever messages arrive meanwhile.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        match self.closing {
            Some(LastRequestReason::Time | LastRequestReason::Budget | LastRequestReason::Loop) => {
                true
            }
            Some(LastRequestReason::Iterations) | None => false,
        }
    }

    /// Returns whether its turn has steps left; if not, the next request is the closing one.
    #[must_use]
    pub const fn has_steps(&self) -> bool {
        self.iteration - self.turn_start < self.limits.max_iterations
    }

    fn rest(&mut self) {
        if !self.may_rest() {
            return;
        }
        if let RunState::Done(_) = std::mem::replace(&mut self.state, RunState::Resting) {
            let answer = self.last_text.take();
            let new = answer.filter(|answer| !self.reports.contains(answer));
            self.reports.extend(new);
        }
    }

    fn request(&mut self, model: &str) {
        if self.asked != model {
            model.clone_into(&mut self.asked);
            self.repetition = Repetition::default();
        }
    }

    fn push(&mut self, message: Message) {
        self.messages.push(Arc::new(message));
    }

    fn say(&mut self, text: &str) {
        let text = text.trim_end().to_owned();
        self.push(Message::User(UserMessage { text, from: None }));
    }

    fn message(&mut self, message: &UserMessage) {
        // A child ends once, and its end is reported to the parent once.
        if message.from.as_ref().is_some_and(|from| !self.delivered.insert(from.clone())) {
            return;
        }
        match &self.state {
            RunState::Calling { .. } => self.waiting.push(message.clone()),
            RunState::Asking => self.push(Message::User(message.clone())),
            // A message that ends a rest continues the current turn; only a person's message after
            // the turn's end begins another one.
            RunState::Resting => {
                self.push(Message::User(message.clone()));
                self.wake();
            }
            RunState::Done(_) => {
                self.push(Message::User(message.clone()));
                if message.from.is_some() { self.wake() } else { self.begin_turn() }
            }
        }
    }

    fn begin_turn(&mut self) {
        self.renew_turn();
        self.wake();
    }

    /// Starts a new count of steps; earlier text belongs to the previous turn.
    fn renew_turn(&mut self) {
        self.turn_start = self.iteration;
        self.last_text = None;
        self.reports.clear();
        self.corrections = 0;
    }

    /// Continues the same turn: its steps are counted on, and the last text remains until there is
    /// more.
    fn wake(&mut self) {
        self.closing = None;
        self.broken_text = None;
        self.empty_replies = 0;
        self.repetition = Repetition::default();
        self.state = RunState::Asking;
        self.check_iterations();
    }

    fn resume(&mut self, max_iterations: u32) {
        self.limits.max_iterations = max_iterations;
        if matches!(self.state, RunState::Resting) {
            // The message that begins the new turn follows.
            self.renew_turn();
        }
        if matches!(self.state, RunState::Done(_)) {
            // Some providers reject a conversation that ends with a message of the model.
            if self.messages.last().is_some_and(|it| matches!(**it, Message::Assistant(_))) {
                self.say(GO_ON);
            }
            self.begin_turn();
        }
    }
}
