//! The loop: a fold of its inputs, without IO.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::agent::{AgentSpec, Limits};
use crate::answer::{CORRECTIONS, rejection};
use crate::cancel::CancelReason;
use crate::message::{
    AssistantMessage, CallStatus, Message, ModelText, ToolCall, ToolResult, UserMessage,
};
use crate::model::{FailureKind, Finish, ModelError, Reply, ToolChoice, Usage};
use crate::name::{AgentId, CallId};
use crate::outcome::{ExitReason, Status, ToolTrace};
use crate::prompt::fill;

mod repetition;

use repetition::{Repetition, Seen};

const CLOSING_ITERATIONS: &str = include_str!("../prompts/closing_iterations.md");
const CLOSING_TIME: &str = include_str!("../prompts/closing_time.md");
const CLOSING_BUDGET: &str = include_str!("../prompts/closing_budget.md");
const CLOSING_LOOP: &str = include_str!("../prompts/closing_loop.md");
const GO_ON: &str = include_str!("../prompts/go_on.md");
const LOOP_NOTE: &str = include_str!("../prompts/loop_note.md");
const EMPTY: &str = include_str!("../prompts/empty.md");
const CUT_CALL: &str = include_str!("../prompts/cut_call.md");
const STOPPED_CALL: &str = include_str!("../prompts/stopped_call.md");

/// Why a turn failed whose model, or the provider before it, refused.
const REFUSED: &str = "the model's provider refused or filtered the reply: put the task in other \
                       words, or ask another model";
/// Why a turn failed whose model said what was in the way.
const NOT_DONE: &str = "the task was not done: the answer says why";

/// What changes a [`Run`]: exactly what the journal holds of it.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// A message for the model.
    Message(&'a UserMessage),
    /// A whole reply.
    Reply(&'a Reply),
    /// An attempt failed, and the request is sent again.
    Broke(&'a ModelError),
    /// The request failed for good.
    Failed(&'a ModelError),
    /// The result of a call.
    Result(&'a ToolResult),
    /// The answer misses its schema, for these reasons.
    Rejected(&'a str),
    /// A limit is reached: the next request is the closing one.
    WrapUp(WrapUp),
    /// Its turn is over, and it waits for what it started: the next message wakes it.
    Rest,
    /// It must end now.
    Stop(CancelReason),
    /// It goes on, after an end with a new turn.
    Resume {
        /// Model requests that its turns now have.
        max_iterations: u32,
    },
}

/// Which limit asks for a closing answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WrapUp {
    /// The time limit.
    #[default]
    Time,
    /// The budget.
    Budget,
}

/// What to do next. A driver handles every one, so this is exhaustive on purpose.
#[derive(Debug, PartialEq)]
pub enum Step<'a> {
    /// Send a request.
    Ask {
        /// Which one of this agent, from 1.
        iteration: u32,
        /// Whether tools may be called in it.
        tools: ToolChoice,
    },
    /// Bring results for these calls, which have none yet.
    Call(Vec<&'a ToolCall>),
    /// Wait for a message.
    Rest,
    /// The turn is over.
    Done(&'a End),
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// How.
    pub status: Status,
    /// Why.
    pub reason: ExitReason,
    /// The answer, or the last text until then.
    pub text: Option<String>,
    /// Whether the text is only the part of a reply that had arrived when it broke off.
    pub partial: bool,
    /// What went wrong, for the operator.
    pub error: Option<String>,
    /// Whether the provider could not be used.
    pub unavailable: bool,
}

/// Why the next request is the last of its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    Iterations,
    Time,
    Budget,
    Loop,
}

#[derive(Debug)]
enum State {
    Resting,
    Asking,
    Calling { calls: Vec<ToolCall>, results: Vec<Option<ToolResult>> },
    Done(End),
}

/// One agent's loop as a value: `step` says what to do next and may be asked any number of
/// times, `apply` is the only change. Driving it, replaying a journal into it and simulating
/// it are the same thing.
///
/// ```
/// use deputize_core::{Input, Limits, Reply, Run, Step, UserMessage};
/// let mut run = Run::new(Limits { max_iterations: 9, time_ms: 0, wrap_up_ms: 0 }, []);
/// assert_eq!(run.step(), Step::Rest);
/// run.apply(Input::Message(&UserMessage { text: "Hello".into(), from: None }));
/// assert!(matches!(run.step(), Step::Ask { iteration: 1, .. }));
/// run.apply(Input::Reply(&Reply::text("m", "Good day.")));
/// let Step::Done(end) = run.step() else { panic!() };
/// assert_eq!(end.text.as_deref(), Some("Good day."));
/// ```
#[derive(Debug)]
pub struct Run {
    limits: Limits,
    messages: Vec<Arc<Message>>,
    /// Messages that came while calls were open.
    waiting: Vec<UserMessage>,
    state: State,
    closing: Option<Closing>,
    iteration: u32,
    /// The iterations before this turn.
    turn_start: u32,
    empty_replies: u32,
    corrections: u32,
    repetition: Repetition,
    last_text: Option<String>,
    /// What an attempt had said before it broke, until there is a reply.
    broken_text: Option<String>,
    /// Whether that is only a part of a reply.
    partial: bool,
    served: String,
    usage: Usage,
    trace: Vec<ToolTrace>,
    /// Children whose end it has been told.
    delivered: BTreeSet<AgentId>,
}

impl Run {
    /// A run that rests until its first message.
    #[must_use]
    pub fn new(limits: Limits, prefill: impl IntoIterator<Item = Message>) -> Self {
        Self {
            limits,
            messages: prefill.into_iter().map(Arc::new).collect(),
            waiting: Vec::new(),
            state: State::Resting,
            closing: None,
            iteration: 0,
            turn_start: 0,
            empty_replies: 0,
            corrections: 0,
            repetition: Repetition::default(),
            last_text: None,
            broken_text: None,
            partial: false,
            served: String::new(),
            usage: Usage::default(),
            trace: Vec::new(),
            delivered: BTreeSet::new(),
        }
    }

    /// A run for an agent.
    #[must_use]
    pub fn of(spec: &AgentSpec) -> Self {
        Self::new(spec.limits, spec.prefill.iter().cloned())
    }

    /// What to do next.
    #[must_use]
    pub fn step(&self) -> Step<'_> {
        match &self.state {
            State::Resting => Step::Rest,
            State::Asking => {
                let tools =
                    if self.closing.is_some() { ToolChoice::None } else { ToolChoice::Auto };
                Step::Ask { iteration: self.iteration + 1, tools }
            }
            State::Calling { calls, results } => {
                let open = calls.iter().zip(results).filter(|(_, result)| result.is_none());
                Step::Call(open.map(|(call, _)| call).collect())
            }
            State::Done(end) => Step::Done(end),
        }
    }

    /// Takes an input. One that does not fit the present state changes nothing.
    pub fn apply(&mut self, input: Input<'_>) {
        match input {
            Input::Message(message) => self.message(message),
            Input::Reply(reply) => self.reply(reply),
            Input::Broke(error) => self.broke(error),
            Input::Failed(error) => self.failed(error),
            Input::Result(result) => self.result(result),
            Input::Rejected(mistakes) => self.rejected(mistakes),
            Input::WrapUp(WrapUp::Time) => self.close(Closing::Time),
            Input::WrapUp(WrapUp::Budget) => self.close(Closing::Budget),
            Input::Rest => self.rest(),
            Input::Stop(reason) => self.stop(reason),
            Input::Resume { max_iterations } => self.resume(max_iterations),
        }
    }

    /// The conversation. Each call in it is followed by its result, in the order asked.
    #[must_use]
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// How many replies there were.
    #[must_use]
    pub const fn iterations(&self) -> u32 {
        self.iteration
    }

    /// The model that served the last reply; empty before it.
    #[must_use]
    pub fn served(&self) -> &str {
        &self.served
    }

    /// Tokens so far.
    #[must_use]
    pub const fn usage(&self) -> Usage {
        self.usage
    }

    /// The calls so far.
    #[must_use]
    pub fn trace(&self) -> &[ToolTrace] {
        &self.trace
    }

    /// The last text of the model in this turn, whether or not it was an answer.
    #[must_use]
    pub fn last_text(&self) -> Option<&str> {
        self.last_text.as_deref()
    }

    /// The children whose end was told to it by a message.
    #[must_use]
    pub const fn delivered(&self) -> &BTreeSet<AgentId> {
        &self.delivered
    }

    /// Whether its turn is over in such a way that a message may begin another one: with an
    /// answer, and not for want of money.
    #[must_use]
    pub fn may_rest(&self) -> bool {
        match &self.state {
            State::Resting => true,
            State::Done(end) => end.status == Status::Completed && end.reason != ExitReason::Budget,
            State::Asking | State::Calling { .. } => false,
        }
    }

    /// Whether its next reply ends it, whatever it is told meanwhile.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        match self.closing {
            Some(Closing::Time | Closing::Budget | Closing::Loop) => true,
            Some(Closing::Iterations) | None => false,
        }
    }

    fn rest(&mut self) {
        if self.may_rest() {
            self.state = State::Resting;
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
        // A child ends once, and its parent is told so once.
        if message.from.as_ref().is_some_and(|from| !self.delivered.insert(from.clone())) {
            return;
        }
        match &self.state {
            State::Calling { .. } => self.waiting.push(message.clone()),
            State::Asking => self.push(Message::User(message.clone())),
            // What it rested for goes on with the turn that it is in; only the person's word after
            // its end begins another one.
            State::Resting => {
                self.push(Message::User(message.clone()));
                self.wake();
            }
            State::Done(_) => {
                self.push(Message::User(message.clone()));
                if message.from.is_some() { self.wake() } else { self.begin_turn() }
            }
        }
    }

    fn begin_turn(&mut self) {
        self.renew_turn();
        self.wake();
    }

    /// Its steps are counted anew, and what it said before is the answer of another turn.
    fn renew_turn(&mut self) {
        self.turn_start = self.iteration;
        self.last_text = None;
        self.corrections = 0;
    }

    /// Goes on in the same turn: its steps go on being counted, and what it said last stands
    /// until it says more.
    fn wake(&mut self) {
        self.closing = None;
        self.broken_text = None;
        self.empty_replies = 0;
        self.repetition = Repetition::default();
        self.state = State::Asking;
        self.check_iterations();
    }

    fn resume(&mut self, max_iterations: u32) {
        self.limits.max_iterations = max_iterations;
        if matches!(self.state, State::Resting) {
            // The message that begins the new turn follows.
            self.renew_turn();
        }
        if matches!(self.state, State::Done(_)) {
            // Some providers refuse a conversation that ends with words of the model.
            if self.messages.last().is_some_and(|it| matches!(**it, Message::Assistant(_))) {
                self.say(GO_ON);
            }
            self.begin_turn();
        }
    }

    fn reply(&mut self, reply: &Reply) {
        if !matches!(self.state, State::Asking) {
            return;
        }
        self.iteration += 1;
        self.broken_text = None;
        self.usage += reply.usage;
        self.served.clone_from(&reply.model);
        if !reply.text.trim().is_empty() {
            self.last_text = Some(reply.text.clone());
            self.partial = false;
        }
        // Nothing runs them, so they would be calls without a result.
        let unwilling = matches!(reply.finish, Finish::Refused | Finish::Undone);
        let no_calls = self.closing.is_some() || unwilling;
        let calls = if no_calls { Vec::new() } else { self.mint(reply) };
        let empty = reply.text.trim().is_empty() && calls.is_empty();
        let paused = reply.finish == Finish::Paused && calls.is_empty() && self.closing.is_none();
        let paused = paused && !(empty && reply.opaque.is_empty());
        // An empty message is refused by providers, so it does not enter the conversation.
        if !empty || paused {
            self.push(Message::Assistant(AssistantMessage {
                text: reply.text.clone(),
                reasoning: reply.reasoning.clone(),
                calls: calls.clone(),
                opaque: reply.opaque.clone(),
            }));
        }
        if unwilling {
            let error = if reply.finish == Finish::Refused { REFUSED } else { NOT_DONE };
            self.end(Status::Failed, ExitReason::Error, Some(error));
        } else if paused {
            // The next request sends it back as it is.
            self.check_iterations();
        } else if !calls.is_empty() {
            self.open(calls, reply.finish);
        } else if empty {
            self.empty(reply.finish);
        } else {
            self.answer(reply.finish);
        }
    }

    fn mint(&self, reply: &Reply) -> Vec<ToolCall> {
        let call = |(slot, raw): (u32, &crate::model::RawCall)| ToolCall {
            id: CallId { step: self.iteration, slot },
            name: raw.name.clone(),
            arguments: raw.arguments.clone(),
        };
        (0..).zip(&reply.calls).map(call).collect()
    }

    fn open(&mut self, calls: Vec<ToolCall>, finish: Finish) {
        let results = vec![None; calls.len()];
        self.state = State::Calling { calls, results };
        if finish == Finish::Length {
            self.settle_open(CallStatus::Error, CUT_CALL);
        }
    }

    /// Gives every open call a result of our own, so that none is ever without.
    fn settle_open(&mut self, status: CallStatus, text: &str) {
        let Step::Call(open) = self.step() else { return };
        let ids: Vec<CallId> = open.iter().map(|call| call.id).collect();
        for call in ids {
            let text = ModelText::own(text.trim_end());
            self.result(&ToolResult { call, status, text, fingerprint: String::new() });
        }
    }

    fn empty(&mut self, finish: Finish) {
        match self.closing {
            None if self.empty_replies == 0 => {
                self.empty_replies += 1;
                self.say(EMPTY);
                self.check_iterations();
            }
            None => {
                self.end(Status::Failed, ExitReason::Error, Some("the model gave an empty answer"));
            }
            // Why it closes tells more. What it said before, beside its calls, is no answer.
            Some(Closing::Time | Closing::Loop) => self.answer(finish),
            Some(Closing::Budget) => self.stop(CancelReason::Budget),
            Some(Closing::Iterations) => {
                let limit = self.limits.max_iterations;
                let error = format!(
                    "the limit of {limit} model requests was reached before there was an answer"
                );
                self.end(Status::Failed, ExitReason::MaxIterations, Some(&error));
            }
        }
    }

    fn answer(&mut self, finish: Finish) {
        match (self.closing, finish) {
            (Some(Closing::Time), _) => {
                self.stop(CancelReason::TimeLimit);
            }
            (Some(Closing::Budget), _) => self.end(Status::Completed, ExitReason::Budget, None),
            (Some(Closing::Loop), _) => {
                let error = "the model repeated the same calls with the same results";
                self.end(Status::Failed, ExitReason::Error, Some(error));
            }
            (Some(Closing::Iterations), _) => {
                self.end(Status::Completed, ExitReason::MaxIterations, None);
            }
            (None, Finish::Length) => {
                self.end(Status::Completed, ExitReason::MaxOutputTokens, None);
            }
            (None, Finish::Stop | Finish::Paused | Finish::Refused | Finish::Undone) => {
                self.end(Status::Completed, ExitReason::Completed, None);
            }
        }
    }

    /// The answer was none after all: it is asked for again, a few times.
    fn rejected(&mut self, mistakes: &str) {
        let State::Done(End { status: Status::Completed, reason, .. }) = &self.state else {
            return;
        };
        // At a limit there is no request left to ask for another answer with.
        let at_limit = match reason {
            ExitReason::Completed => "",
            reason => &format!(" (it was the last answer there could be: {})", reason.as_str()),
        };
        if self.corrections == CORRECTIONS || !at_limit.is_empty() {
            let error = format!("the answer misses its schema: {mistakes}{at_limit}");
            self.end(Status::Failed, ExitReason::SchemaInvalid, Some(&error));
            return;
        }
        self.corrections += 1;
        self.say(&rejection(mistakes));
        self.state = State::Asking;
        self.check_iterations();
    }

    fn broke(&mut self, error: &ModelError) {
        self.usage += error.usage.as_deref().copied().unwrap_or_default();
        if matches!(self.state, State::Asking) && !error.partial.trim().is_empty() {
            self.broken_text = Some(error.partial.clone());
        }
    }

    fn failed(&mut self, error: &ModelError) {
        if !matches!(self.state, State::Asking) {
            return;
        }
        self.broke(error);
        if let Some(partial) = self.broken_text.take() {
            // What was complete stands before what broke off: neither is lost.
            let said = self.last_text.take().map(|said| format!("{said}\n\n"));
            self.last_text = Some(said.unwrap_or_default() + &partial);
            self.partial = true;
        }
        if error.kind == FailureKind::Cancelled {
            // A stop or the closing request follows as an input of its own.
            return;
        }
        let (status, reason) = match self.closing {
            Some(Closing::Time) => (Status::Timeout, ExitReason::Timeout),
            Some(Closing::Iterations | Closing::Loop | Closing::Budget) | None => {
                (Status::Failed, reason_of(error.kind))
            }
        };
        self.end(status, reason, Some(&error.message));
        if let State::Done(end) = &mut self.state {
            end.unavailable = matches!(
                error.kind,
                FailureKind::Unavailable | FailureKind::Transient | FailureKind::Incomplete
            );
        }
    }

    fn result(&mut self, result: &ToolResult) {
        let State::Calling { calls, results } = &mut self.state else { return };
        let Some(slot) = calls.iter().position(|call| call.id == result.call) else { return };
        let Some(place @ None) = results.get_mut(slot) else { return };
        *place = Some(result.clone());
        if results.iter().all(Option::is_some) {
            self.results_complete();
        }
    }

    fn results_complete(&mut self) {
        let State::Calling { calls, results } = std::mem::replace(&mut self.state, State::Asking)
        else {
            return;
        };
        for (call, result) in calls.iter().zip(results.into_iter().flatten()) {
            self.repetition.saw(call, &result);
            self.trace.push(ToolTrace {
                tool: call.name.clone(),
                args_bytes: call.arguments.len() as u64,
                result_bytes: result.text.as_str().len() as u64,
                status: result.status,
            });
            self.push(Message::Tool(result));
        }
        for message in std::mem::take(&mut self.waiting) {
            self.push(Message::User(message));
        }
        match self.repetition.judge() {
            Seen::Progress => self.check_iterations(),
            Seen::Repeating => {
                self.say(LOOP_NOTE);
                self.check_iterations();
            }
            Seen::Stuck => self.close(Closing::Loop),
        }
    }

    /// Whether its turn has steps left: if not, its next request is the closing one.
    #[must_use]
    pub const fn has_steps(&self) -> bool {
        self.iteration - self.turn_start < self.limits.max_iterations
    }

    fn check_iterations(&mut self) {
        if !self.has_steps() {
            self.close(Closing::Iterations);
        }
    }

    /// Makes the next request the closing one.
    fn close(&mut self, why: Closing) {
        match self.state {
            // One that waits for news says what it has; one that never began has nothing.
            State::Resting if self.iteration > 0 => {
                self.closing = None;
                self.state = State::Asking;
            }
            State::Resting | State::Done(_) => return,
            State::Asking | State::Calling { .. } => {}
        }
        if self.closing.is_some() {
            return;
        }
        self.settle_open(CallStatus::Cancelled, STOPPED_CALL);
        if self.closing.is_some() {
            return;
        }
        self.closing = Some(why);
        let limit = self.limits.max_iterations.to_string();
        match why {
            Closing::Iterations => {
                let text = fill(CLOSING_ITERATIONS, &[("limit", &limit)]);
                self.say(&text.unwrap_or_default());
            }
            Closing::Time => self.say(CLOSING_TIME),
            Closing::Budget => self.say(CLOSING_BUDGET),
            Closing::Loop => self.say(CLOSING_LOOP),
        }
    }

    fn stop(&mut self, reason: CancelReason) {
        if matches!(self.state, State::Done(_)) {
            return;
        }
        self.settle_open(CallStatus::Cancelled, STOPPED_CALL);
        let (status, exit) = match reason {
            CancelReason::Interrupted
            | CancelReason::LimitAbove
            | CancelReason::Stopped
            | CancelReason::TreeStopped
            | CancelReason::StoppedAbove
            | CancelReason::EndedAbove => (Status::Interrupted, ExitReason::Interrupted),
            // Without a closing answer: what it said until then is a part of its work.
            CancelReason::Budget => (Status::Failed, ExitReason::Budget),
            CancelReason::TimeLimit => (Status::Timeout, ExitReason::Timeout),
        };
        self.end(status, exit, Some(reason.told()));
    }

    fn end(&mut self, status: Status, reason: ExitReason, error: Option<&str>) {
        self.state = State::Done(End {
            status,
            reason,
            text: self.last_text.clone(),
            partial: self.partial && self.last_text.is_some(),
            error: error.map(str::to_owned),
            unavailable: false,
        });
    }
}

/// Why a turn ends whose request failed.
const fn reason_of(failure: FailureKind) -> ExitReason {
    match failure {
        FailureKind::ContextOverflow => ExitReason::ContextOverflow,
        FailureKind::Transient
        | FailureKind::Incomplete
        | FailureKind::Unavailable
        | FailureKind::Fatal
        | FailureKind::Cancelled => ExitReason::Error,
    }
}
