//! The loop: a fold of its inputs, without IO.

use std::sync::Arc;

use crate::agent::{AgentSpec, Limits};
use crate::cancel::CancelReason;
use crate::message::{
    AssistantMessage, CallStatus, Message, ModelText, ToolCall, ToolResult, UserMessage,
};
use crate::model::{FailureKind, Finish, ModelError, Reply, ToolChoice, Usage};
use crate::name::CallId;
use crate::outcome::{ExitReason, Status, ToolTrace};
use crate::prompt::fill;

mod repetition;

use repetition::{Repetition, Seen};

const CLOSING_ITERATIONS: &str = include_str!("../prompts/closing_iterations.md");
const CLOSING_TIME: &str = include_str!("../prompts/closing_time.md");
const CLOSING_LOOP: &str = include_str!("../prompts/closing_loop.md");
const LOOP_NOTE: &str = include_str!("../prompts/loop_note.md");
const EMPTY: &str = include_str!("../prompts/empty.md");
const CUT_CALL: &str = include_str!("../prompts/cut_call.md");
const STOPPED_CALL: &str = include_str!("../prompts/stopped_call.md");

/// What changes a [`Run`]: exactly what the journal holds of it.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// A message for the model.
    Message(&'a UserMessage),
    /// A whole reply.
    Reply(&'a Reply),
    /// The request failed for good.
    Failed(&'a ModelError),
    /// The result of a call.
    Result(&'a ToolResult),
    /// The time limit is reached: the next request is the closing one.
    WrapUp,
    /// It must end now.
    Stop(CancelReason),
    /// It goes on, after an end with a new turn.
    Resume {
        /// Model requests that its turns now have.
        max_iterations: u32,
    },
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
    repetition: Repetition,
    last_text: Option<String>,
    /// Whether that is only a part of a reply.
    partial: bool,
    served: String,
    usage: Usage,
    trace: Vec<ToolTrace>,
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
            repetition: Repetition::default(),
            last_text: None,
            partial: false,
            served: String::new(),
            usage: Usage::default(),
            trace: Vec::new(),
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
            Input::Failed(error) => self.failed(error),
            Input::Result(result) => self.result(result),
            Input::WrapUp => self.close(Closing::Time),
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

    fn push(&mut self, message: Message) {
        self.messages.push(Arc::new(message));
    }

    fn say(&mut self, text: &str) {
        let text = text.trim_end().to_owned();
        self.push(Message::User(UserMessage { text, from: None }));
    }

    fn message(&mut self, message: &UserMessage) {
        match &self.state {
            State::Calling { .. } => self.waiting.push(message.clone()),
            State::Asking => self.push(Message::User(message.clone())),
            State::Resting | State::Done(_) => {
                self.push(Message::User(message.clone()));
                self.begin_turn();
            }
        }
    }

    fn begin_turn(&mut self) {
        self.turn_start = self.iteration;
        self.closing = None;
        self.last_text = None;
        self.empty_replies = 0;
        self.repetition = Repetition::default();
        self.state = State::Asking;
        self.check_iterations();
    }

    fn resume(&mut self, max_iterations: u32) {
        self.limits.max_iterations = max_iterations;
        if matches!(self.state, State::Done(_)) {
            self.begin_turn();
        }
    }

    fn reply(&mut self, reply: &Reply) {
        if !matches!(self.state, State::Asking) {
            return;
        }
        self.iteration += 1;
        self.usage += reply.usage;
        self.served.clone_from(&reply.model);
        if !reply.text.trim().is_empty() {
            self.last_text = Some(reply.text.clone());
            self.partial = false;
        }
        let calls = if self.closing.is_some() { Vec::new() } else { self.mint(reply) };
        let empty = reply.text.trim().is_empty() && calls.is_empty();
        // An empty message is refused by providers, so it does not enter the conversation.
        if !empty {
            self.push(Message::Assistant(AssistantMessage {
                text: reply.text.clone(),
                reasoning: reply.reasoning.clone(),
                calls: calls.clone(),
                opaque: reply.opaque.clone(),
            }));
        }
        if reply.finish == Finish::Refused {
            self.end(Status::Failed, ExitReason::Error, Some("the model declined the task"));
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
            // Why it closes tells more, and what it said before is the partial answer.
            Some(Closing::Time | Closing::Loop) => self.answer(finish),
            Some(Closing::Iterations) if self.last_text.is_some() => self.answer(finish),
            Some(Closing::Iterations) | None => {
                self.end(Status::Failed, ExitReason::Error, Some("the model gave an empty answer"));
            }
        }
    }

    fn answer(&mut self, finish: Finish) {
        match (self.closing, finish) {
            (Some(Closing::Time), _) => {
                self.end(Status::Timeout, ExitReason::Timeout, Some("the time limit was reached"));
            }
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
            (None, Finish::Stop | Finish::Refused) => {
                self.end(Status::Completed, ExitReason::Completed, None);
            }
        }
    }

    fn failed(&mut self, error: &ModelError) {
        if !matches!(self.state, State::Asking) {
            return;
        }
        // An interrupt leaves what was complete; a failure leaves the last that came.
        let complete = error.kind == FailureKind::Cancelled && self.last_text.is_some();
        if !complete && !error.partial.trim().is_empty() {
            self.last_text = Some(error.partial.clone());
            self.partial = true;
        }
        if error.kind == FailureKind::Cancelled {
            // A stop or the closing request follows as an input of its own.
            return;
        }
        let (status, reason) = match self.closing {
            Some(Closing::Time) => (Status::Timeout, ExitReason::Timeout),
            Some(Closing::Iterations | Closing::Loop) | None => (Status::Failed, ExitReason::Error),
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

    fn check_iterations(&mut self) {
        if self.iteration - self.turn_start >= self.limits.max_iterations {
            self.close(Closing::Iterations);
        }
    }

    /// Makes the next request the closing one.
    fn close(&mut self, why: Closing) {
        if self.closing.is_some() || matches!(self.state, State::Resting | State::Done(_)) {
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
            Closing::Loop => self.say(CLOSING_LOOP),
        }
    }

    fn stop(&mut self, reason: CancelReason) {
        if matches!(self.state, State::Resting | State::Done(_)) {
            return;
        }
        self.settle_open(CallStatus::Cancelled, STOPPED_CALL);
        match reason {
            CancelReason::Interrupted => {
                self.end(Status::Interrupted, ExitReason::Interrupted, Some("interrupted"));
            }
            CancelReason::TimeLimit => {
                self.end(Status::Timeout, ExitReason::Timeout, Some("the time limit was reached"));
            }
        }
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
