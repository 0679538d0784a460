//! The agent loop as a fold of its inputs, without IO.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::agent_spec::{AgentLimits, AgentSpec};
use crate::answer::{CORRECTIONS, rejection};
use crate::cancel::CancelReason;
use crate::compaction::{Compaction, CompactionLimits, ReplacedPart};
use crate::cut_result::CutResult;
use crate::message::{AssistantMessage, CallStatus, Message, ToolCall, ToolResult, UserMessage};
use crate::model::{FailureKind, Finish, ModelError, Reply, ToolChoice, Usage};
use crate::name::{ChildEndId, SessionId};
use crate::outcome::ToolTrace;
use crate::status::{ExitReason, Status};

mod conversation;
mod input;
mod open_calls;
mod repetition;
mod serving_model;
mod step;
mod step_count;
mod turn_end;
mod turn_text;

use conversation::Conversation;
use open_calls::{OpenCalls, calls_of};
use repetition::{Repetition, StepNovelty};
use serving_model::ServingModel;
use step_count::StepCount;
use turn_end::LastRequestReason;
use turn_text::TurnText;

pub use input::{BudgetUnit, Input, WrapUpReason};
pub use step::Step;
pub use turn_end::{TASK_NOT_DONE, TurnEnd};

const GO_ON: &str = include_str!("../prompts/go_on.md");
const EMPTY: &str = include_str!("../prompts/empty.md");
const LOOP_NOTE: &str = include_str!("../prompts/loop_note.md");
const CUT_CALL: &str = include_str!("../prompts/cut_call.md");
const STOPPED_CALL: &str = include_str!("../prompts/stopped_call.md");

#[derive(Debug, Clone, PartialEq)]
enum RunState {
    Resting,
    Asking,
    Calling(OpenCalls),
    Done(TurnEnd),
}

/// Counts repeated requests for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Retries {
    /// Because its reply was empty.
    empty: u32,
    /// Because its answer did not match the schema.
    corrections: u32,
}

/// The loop of one agent as a value: `step` returns the next action and may be called any number of
/// times, `apply` makes the only change. Driving it, replaying a journal into it and simulating it
/// are the same.
///
/// ```
/// use deputize_core::agent::AgentLimits;
/// use deputize_core::message::UserMessage;
/// use deputize_core::model::Reply;
/// use deputize_core::run::{Input, Run, Step};
/// let mut run = Run::new(AgentLimits { max_iterations: 9, time_ms: 0, wrap_up_ms: 0 }, []);
/// assert_eq!(run.step(), Step::Rest);
/// run.apply(Input::Message(&UserMessage::new("Hello")));
/// assert!(matches!(run.step(), Step::Ask { iteration: 1, .. }));
/// run.apply(Input::Reply(&Reply::text("m", "Good day.")));
/// let Step::Done(end) = run.step() else { panic!() };
/// assert_eq!(end.text.as_deref(), Some("Good day."));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    conversation: Conversation,
    steps: StepCount,
    state: RunState,
    closing: Option<LastRequestReason>,
    text: TurnText,
    retries: Retries,
    repetition: Repetition,
    model: ServingModel,
    usage: Usage,
    trace: Vec<ToolTrace>,
}

impl Run {
    /// Creates a run that rests until its first message.
    #[must_use]
    pub fn new(limits: AgentLimits, prefill: impl IntoIterator<Item = Message>) -> Self {
        Self {
            conversation: Conversation::new(prefill),
            steps: StepCount::new(limits.max_iterations),
            state: RunState::Resting,
            closing: None,
            text: TurnText::default(),
            retries: Retries::default(),
            repetition: Repetition::default(),
            model: ServingModel::default(),
            usage: Usage::default(),
            trace: Vec::new(),
        }
    }

    /// Creates a run for an agent.
    #[must_use]
    pub fn of(spec: &AgentSpec) -> Self {
        Self::new(spec.limits, spec.prefill.iter().cloned())
    }

    /// Creates a run for a child whose conversation begins with that of its parent, up to the reply
    /// whose calls are open. Its steps are numbered after those of its parent, so that no two calls
    /// of the conversation have one ID.
    #[must_use]
    pub fn fork(limits: AgentLimits, parent: &Self) -> Self {
        Self {
            conversation: parent.conversation.fork(),
            steps: StepCount::after(parent.steps, limits.max_iterations),
            ..Self::new(limits, [])
        }
    }

    /// Drops the messages of an agent that has ended. It does not go on: whoever wants that folds its
    /// records into a new run.
    pub fn forget_messages(&mut self) {
        self.conversation.forget_messages();
    }

    /// Returns the next action.
    #[must_use]
    pub fn step(&self) -> Step<'_> {
        match &self.state {
            RunState::Resting => Step::Rest,
            RunState::Asking => {
                let is_closing = self.closing.is_some();
                let tools = if is_closing { ToolChoice::None } else { ToolChoice::Auto };
                Step::Ask { iteration: self.steps.all + 1, tools }
            }
            RunState::Calling(open) => Step::Call(open.without_result().collect()),
            RunState::Done(end) => Step::Done(end),
        }
    }

    /// Applies an input. An input that does not fit the present state changes nothing.
    pub fn apply(&mut self, input: Input<'_>) {
        match input {
            Input::Message(message) => self.message(message),
            Input::Request(model) => self.request(model),
            Input::Reply(reply) => self.reply(reply),
            Input::Failure { error, retried: true } => self.record_broken_stream(error),
            Input::Failure { error, retried: false } => self.record_failure(error),
            Input::Result { tool, args_bytes, result } => {
                self.result(ToolTrace::new(tool, args_bytes, result), result);
            }
            Input::Rejected(mistakes) => self.record_rejection(mistakes),
            Input::WrapUp(WrapUpReason::Time) => self.close(LastRequestReason::Time),
            Input::WrapUp(WrapUpReason::Budget) => self.close(LastRequestReason::Budget),
            Input::Compaction(compaction) => self.compact(compaction),
            Input::ResultsCut(results) => self.cut_results(results),
            Input::Rest => self.rest(),
            Input::Stop(reason) => self.stop(reason),
            Input::Resume { max_iterations } => self.resume(max_iterations),
            Input::FurtherTask => self.await_task(),
        }
    }

    /// Returns the conversation. Each call in it is followed by its result, in the order of calls.
    #[must_use]
    pub fn messages(&self) -> &[Arc<Message>] {
        self.conversation.messages()
    }

    /// Returns the part of the conversation that a compaction within these limits replaces: no call
    /// loses its result, no result its call, and the order stays. `None` if it would replace too
    /// little, or if the next step is no request.
    #[must_use]
    pub fn replaceable_part(&self, limits: CompactionLimits) -> Option<ReplacedPart> {
        let asks = matches!(self.state, RunState::Asking);
        asks.then(|| ReplacedPart::choose(self.conversation.compaction_input(), limits)).flatten()
    }

    /// Cuts the results of the last step, so that it takes at most so many bytes with the messages
    /// after it; none if the next step is no request.
    #[must_use]
    pub fn cut_last_results(&self, room: u64, session: &SessionId) -> Vec<CutResult> {
        match self.state {
            RunState::Asking => CutResult::fit(self.conversation.last_step(), room, session),
            _ => Vec::new(),
        }
    }

    /// Returns the number of replies.
    #[must_use]
    pub const fn iterations(&self) -> u32 {
        self.steps.own()
    }

    /// Returns the model that served the last reply, or part of one, by the name that agents use;
    /// empty before the first.
    #[must_use]
    pub fn served(&self) -> &str {
        self.model.served()
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
        self.text.join()
    }

    /// Returns the answers of this turn, in order.
    #[must_use]
    pub fn answers(&self) -> Vec<&str> {
        let completed =
            matches!(&self.state, RunState::Done(TurnEnd { status: Status::Completed, .. }));
        self.text.answers(completed)
    }

    /// Returns the ends of children that were reported to it by messages.
    #[must_use]
    pub const fn delivered(&self) -> &BTreeSet<ChildEndId> {
        self.conversation.delivered()
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
            RunState::Asking | RunState::Calling(_) => false,
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
        self.steps.has_more()
    }

    fn rest(&mut self) {
        if !self.may_rest() {
            return;
        }
        if let RunState::Done(_) = std::mem::replace(&mut self.state, RunState::Resting) {
            self.text.report();
        }
    }

    fn compact(&mut self, compaction: &Compaction) {
        let asks = matches!(self.state, RunState::Asking);
        if asks && self.conversation.compact(compaction) {
            self.usage += compaction.request.usage;
        }
    }

    fn cut_results(&mut self, results: &[CutResult]) {
        if matches!(self.state, RunState::Asking) {
            self.conversation.cut_results(results);
        }
    }

    fn request(&mut self, model: &str) {
        if self.model.record_request(model) {
            self.repetition = Repetition::default();
        }
    }

    fn message(&mut self, message: &UserMessage) {
        if !self.conversation.record_delivery(message) {
            return;
        }
        if matches!(self.state, RunState::Calling(_)) {
            self.conversation.postpone(message.clone());
            return;
        }
        if matches!(self.state, RunState::Done(_)) && message.from.is_none() {
            self.conversation.end_turn();
        }
        self.conversation.push_message(message.clone());
        match &self.state {
            RunState::Asking | RunState::Calling(_) => {}
            // A message that ends a rest continues the current turn; only a person's message after
            // the turn's end begins another one.
            RunState::Done(_) if message.from.is_none() => self.begin_turn(),
            RunState::Resting | RunState::Done(_) => self.wake(),
        }
    }

    fn begin_turn(&mut self) {
        self.renew_turn();
        self.wake();
    }

    /// Starts a new count of steps; earlier text belongs to the previous turn.
    fn renew_turn(&mut self) {
        self.steps.begin_turn();
        self.text.clear();
        self.retries.corrections = 0;
    }

    /// Continues the same turn: its steps are counted on, and the last text remains until there is
    /// more.
    fn wake(&mut self) {
        self.closing = None;
        self.text.forget_broken();
        self.retries.empty = 0;
        self.repetition = Repetition::default();
        self.state = RunState::Asking;
        self.check_iterations();
    }

    fn resume(&mut self, max_iterations: u32) {
        self.steps.most = max_iterations;
        if matches!(self.state, RunState::Resting) {
            // The message that begins the new turn follows.
            self.conversation.end_turn();
            self.renew_turn();
        }
        if matches!(self.state, RunState::Done(_)) {
            // Some providers reject a conversation that ends with a message of the model.
            if self.conversation.ends_with_reply() {
                self.conversation.push_host(GO_ON);
            }
            self.begin_turn();
        }
    }

    /// Rests until the message with a further task, which begins a new turn.
    fn await_task(&mut self) {
        if matches!(self.state, RunState::Done(_)) {
            self.conversation.end_turn();
            self.renew_turn();
            self.closing = None;
            self.state = RunState::Resting;
        }
    }

    fn reply(&mut self, reply: &Reply) {
        if !matches!(self.state, RunState::Asking) {
            return;
        }
        self.steps.all += 1;
        self.usage += reply.usage;
        self.model.record_reply(&reply.model);
        self.text.record_reply(&reply.text);
        // Nothing would run these calls, so they would have no results.
        let is_unwilling = matches!(reply.finish, Finish::Refused | Finish::Undone);
        let no_calls = self.closing.is_some() || is_unwilling;
        let calls = if no_calls { Vec::new() } else { calls_of(reply, self.steps.all) };
        let is_empty = reply.text.trim().is_empty() && calls.is_empty();
        let may_pause = calls.is_empty() && self.closing.is_none();
        let paused = reply.finish == Finish::Paused && may_pause;
        let paused = paused && !(is_empty && reply.opaque.is_empty());
        // Providers reject empty messages, so it does not enter the conversation.
        if !is_empty || paused {
            self.conversation.push(Message::Assistant(AssistantMessage {
                text: reply.text.clone(),
                reasoning: reply.reasoning.clone(),
                calls: calls.clone(),
                opaque: reply.opaque.clone(),
            }));
        }
        if is_unwilling {
            self.end(TurnEnd::of_unwilling(reply.finish));
        } else if paused {
            // The next request sends it back unchanged.
            self.check_iterations();
        } else if !calls.is_empty() {
            self.open(calls, reply.finish);
        } else if is_empty {
            self.empty_reply(reply);
        } else {
            self.end(TurnEnd::of_answer(self.closing, reply.finish));
        }
    }

    fn empty_reply(&mut self, reply: &Reply) {
        let answer = TurnEnd::of_answer(self.closing, reply.finish);
        match self.closing {
            None if self.retries.empty == 0 => {
                self.retries.empty += 1;
                self.conversation.push_host(EMPTY);
                self.check_iterations();
            }
            // It reported before, and has nothing to add after the last message.
            None | Some(LastRequestReason::Iterations) if self.text.has_reports() => {
                self.end(answer);
            }
            None => self.end(TurnEnd::of_no_answer(!reply.reasoning.trim().is_empty())),
            // The reason for closing matters more. Earlier text beside calls is no answer.
            Some(LastRequestReason::Time | LastRequestReason::Loop) => self.end(answer),
            Some(LastRequestReason::Budget) => self.stop(CancelReason::Budget),
            Some(LastRequestReason::Iterations) => {
                self.end(TurnEnd::of_no_answer_at_limit(self.steps.most));
            }
        }
    }

    /// Requests another answer, up to [`CORRECTIONS`] times, because this one did not match its
    /// schema.
    fn record_rejection(&mut self, mistakes: &str) {
        let RunState::Done(TurnEnd { status: Status::Completed, reason, .. }) = &self.state else {
            return;
        };
        // At a limit there is no request left for another answer.
        let at_limit = Some(*reason).filter(|reason| *reason != ExitReason::Completed);
        if self.retries.corrections == CORRECTIONS || at_limit.is_some() {
            self.end(TurnEnd::of_schema_mismatch(mistakes, at_limit));
            return;
        }
        self.retries.corrections += 1;
        self.conversation.push_host(&rejection(mistakes));
        self.state = RunState::Asking;
        self.check_iterations();
    }

    fn record_broken_stream(&mut self, error: &ModelError) {
        self.usage += error.usage.as_deref().copied().unwrap_or_default();
        if matches!(self.state, RunState::Asking) && !error.partial.trim().is_empty() {
            self.text.record_broken(&error.partial);
            if !error.served.is_empty() {
                self.model.record_reply(&error.served);
            }
        }
    }

    fn record_failure(&mut self, error: &ModelError) {
        if !matches!(self.state, RunState::Asking) {
            return;
        }
        self.record_broken_stream(error);
        self.text.keep_broken();
        // After a cancellation, a stop or the closing request follows as a separate input.
        if error.kind != FailureKind::Cancelled {
            self.end(TurnEnd::of_failure(self.closing, error));
        }
    }

    fn open(&mut self, calls: Vec<ToolCall>, finish: Finish) {
        self.state = RunState::Calling(OpenCalls::new(calls));
        if finish == Finish::Length {
            self.settle_open(CallStatus::Error, CUT_CALL);
        }
    }

    /// Gives every open call a result from the host, so that none remains without one.
    fn settle_open(&mut self, status: CallStatus, text: &str) {
        let RunState::Calling(open) = &self.state else { return };
        let calls: Vec<ToolCall> = open.without_result().cloned().collect();
        for ToolCall { id: call, name, arguments } in calls {
            let result = ToolResult::host(call, status, text.trim_end());
            self.result(ToolTrace::new(&name, arguments.len() as u64, &result), &result);
        }
    }

    fn result(&mut self, trace: ToolTrace, result: &ToolResult) {
        let RunState::Calling(open) = &mut self.state else { return };
        if open.record_result(trace, result) {
            self.results_complete();
        }
    }

    fn results_complete(&mut self) {
        let RunState::Calling(open) = std::mem::replace(&mut self.state, RunState::Asking) else {
            return;
        };
        for (call, trace, result) in open.into_results() {
            self.repetition.record(&call, &result);
            self.trace.push(trace);
            self.conversation.push(Message::Tool(result));
        }
        self.conversation.push_postponed();
        match self.repetition.judge() {
            StepNovelty::Progress => self.check_iterations(),
            StepNovelty::Repeating => {
                self.conversation.push_host(LOOP_NOTE);
                self.check_iterations();
            }
            // Another model may do better, so the driver decides.
            StepNovelty::Stuck if self.repetition.unreadable_calls().is_some() => {
                self.check_iterations()
            }
            StepNovelty::Stuck => self.close(LastRequestReason::Loop),
        }
    }

    fn check_iterations(&mut self) {
        if !self.has_steps() {
            self.close(LastRequestReason::Iterations);
        }
    }

    /// Makes the next request the closing one.
    fn close(&mut self, why: LastRequestReason) {
        match self.state {
            // A resting agent reports what it has; one that never began has nothing.
            RunState::Resting if self.iterations() > 0 => {
                self.closing = None;
                self.state = RunState::Asking;
            }
            RunState::Resting | RunState::Done(_) => return,
            RunState::Asking | RunState::Calling(_) => {}
        }
        if self.closing.is_some() {
            return;
        }
        self.settle_open(CallStatus::Cancelled, STOPPED_CALL);
        if self.closing.is_some() {
            return;
        }
        self.closing = Some(why);
        self.conversation.push_host(&why.message(self.steps.most));
    }

    fn stop(&mut self, reason: CancelReason) {
        if matches!(self.state, RunState::Done(_)) {
            return;
        }
        self.settle_open(CallStatus::Cancelled, STOPPED_CALL);
        self.end(TurnEnd::of_stop(reason));
    }

    fn end(&mut self, end: TurnEnd) {
        let text = self.text.join();
        self.state = RunState::Done(TurnEnd { text, partial: self.text.is_partial(), ..end });
    }
}
