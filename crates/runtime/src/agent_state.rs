//! The state of each agent, as a fold of its records.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use deputize_core::agent::AgentSpec;
use deputize_core::budget::{Cost, TokenEstimator};
use deputize_core::event::{RequestPurpose, ToolEnd};
use deputize_core::message::{CallStatus, UserMessage};
use deputize_core::model::ToolChoice;
use deputize_core::outcome::Receipts;
use deputize_core::process::{ProcessEnd, ProcessExit, ProcessStart};
use deputize_core::run::{Run, Step};
use deputize_core::source_set::SourceSet;
use deputize_core::todo::TodoItem;
use deputize_core::truncate::truncate_bytes;
use deputize_core::{AgentId, CallId, CancelReason, Event, Outcome, ToolCall, ToolEffect};

mod model_use;
mod source_log;
mod text_log;
mod unread_messages;

pub(crate) use model_use::PendingRequest;

use model_use::{CompactionGain, ModelUse};
use source_log::SourceLog;
use text_log::TextLog;
use unread_messages::UnreadMessages;

/// The error of a call whose end was not observed.
pub(crate) const PROGRAM_ENDED: &str = "the program ended while it ran";

/// Bytes of a call's arguments that are kept after its end.
const MOST_ARGUMENTS: usize = 2048;

/// Everything that is true of an agent. Only records change it, so an agent that runs, one that is
/// resumed and one that is replayed have the same state.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AgentState {
    run: Run,
    begun: bool,
    model_use: ModelUse,
    calls: CallLog,
    receipts: Receipts,
    processes: ProcessLog,
    tool_state: ToolState,
    sources: SourceLog,
    mailbox: UnreadMessages,
    texts: TextLog,
    ending: AgentEndState,
}

/// What the results of calls say of the agent, for its tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct ToolState {
    /// The directory of its shell, if that has moved.
    shell: Option<PathBuf>,
    /// Its todo list, if it has changed it.
    todo: Option<Vec<TodoItem>>,
}

/// The calls of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct CallLog {
    /// Calls that have started and have no result.
    started: BTreeMap<CallId, StartedCall>,
    /// Calls that ended and have no effect on record, in order.
    ended: Vec<EndedCall>,
    /// Calls that started agents.
    accepted: BTreeSet<CallId>,
}

/// A call that has started and has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StartedCall {
    pub(crate) tool: String,
    pub(crate) arguments: String,
}

/// A call that ran and has no effect on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndedCall {
    /// The call, with the beginning of long arguments.
    pub(crate) call: StartedCall,
    /// How it ended; a call whose end was not observed counts as cancelled.
    pub(crate) status: CallStatus,
}

impl EndedCall {
    fn new(mut call: StartedCall, end: &ToolEnd) -> Self {
        let bytes = truncate_bytes(&call.arguments, MOST_ARGUMENTS).len();
        call.arguments.truncate(bytes);
        let is_lost = end.error.as_deref() == Some(PROGRAM_ENDED);
        Self { call, status: if is_lost { CallStatus::Cancelled } else { end.result.status } }
    }
}

/// The background commands of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct ProcessLog {
    running: BTreeMap<String, ProcessStart>,
    ended: BTreeMap<String, ProcessExit>,
}

impl ProcessLog {
    fn count(&self) -> usize {
        self.running.len() + self.ended.len()
    }
}

/// How an agent ended, or was stopped.
#[derive(Debug, Clone, PartialEq, Default)]
struct AgentEndState {
    /// Why the agent, or one above it, must end: it is not resumed.
    stopped: Option<CancelReason>,
    outcome: Option<Box<Outcome>>,
    /// The hooks that ran after its end, by name.
    notified_hooks: Vec<String>,
    /// Whether the session ended after the agent.
    session_ended: bool,
    /// Number of ends after which it got a further task.
    earlier_ends: u32,
    /// Whether its messages were let go after its end. Not on record.
    released: bool,
}

impl AgentEndState {
    /// The agent goes on.
    fn reopen(&mut self) {
        let Self { stopped, earlier_ends, .. } = *self;
        *self = Self { stopped, earlier_ends, ..Self::default() };
    }
}

/// The next step of an agent: [`Step`] without a borrow of its state.
#[derive(Debug)]
pub(crate) enum NextStep {
    Ask { iteration: u32, tools: ToolChoice },
    Call(Vec<ToolCall>),
    Rest,
    Done,
}

impl AgentState {
    /// Returns the state of a new agent.
    pub(crate) fn new(spec: &AgentSpec) -> Self {
        Self {
            run: Run::of(spec),
            begun: false,
            model_use: ModelUse::default(),
            calls: CallLog::default(),
            receipts: Receipts::default(),
            processes: ProcessLog::default(),
            tool_state: ToolState::default(),
            sources: SourceLog::new(&spec.system_sources),
            mailbox: UnreadMessages::default(),
            texts: TextLog::default(),
            ending: AgentEndState::default(),
        }
    }

    /// Returns the state of a new child whose conversation begins with that of its parent: with what
    /// its parent has read from outside.
    pub(crate) fn fork(spec: &AgentSpec, parent: &Self) -> Self {
        let mut sources = SourceLog::fork(&parent.sources);
        sources.record(&spec.system_sources);
        Self { run: Run::fork(spec.limits, &parent.run), sources, ..Self::new(spec) }
    }

    /// Records that the agent must end, unless it must already.
    pub(crate) fn stop(&mut self, reason: CancelReason) {
        self.ending.stopped.get_or_insert(reason);
    }

    /// Records that the session goes on: the agent need not end.
    pub(crate) fn reopen_session(&mut self) {
        self.ending.stopped = None;
    }

    /// Records that a hook ran after the agent's end.
    pub(crate) fn record_notified_hook(&mut self, by: &str) {
        self.ending.notified_hooks.push(by.to_owned());
    }

    /// Records that a call of the agent started a child.
    pub(crate) fn record_child_start(&mut self, child: &AgentSpec) {
        self.calls.accepted.extend(child.spawned_by.as_ref().map(|by| by.call));
        self.sources.record_child_start(child);
    }

    /// Records that a child ended that has read this from outside.
    pub(crate) fn record_child_end(&mut self, child: &AgentId, read: &SourceSet) {
        self.sources.record_child_end(child, read);
    }

    /// Applies an event of this agent.
    pub(crate) fn apply(&mut self, event: &Event) {
        self.apply_to_model_use(event);
        self.texts.apply(event, self.run.messages().len());
        self.apply_to_calls(event);
        match event {
            Event::Message(message) => {
                if matches!(self.run.step(), Step::Done(_)) {
                    self.model_use.compactions = CompactionGain::default();
                }
                self.mailbox.record_read(message);
                self.begun = true;
                self.ending.reopen();
                self.sources.record(&message.sources);
            }
            Event::MessageLeft { text, sources } => {
                self.mailbox.push(UserMessage::new(text).with_sources(sources.clone()));
            }
            Event::ProcessStart(start) => {
                self.processes.running.insert(start.process.clone(), start.clone());
            }
            Event::ProcessEnd(end) => self.apply_process_end(end),
            Event::AgentResume { task, .. } => {
                self.model_use.compactions = CompactionGain::default();
                if task.is_some() {
                    self.begun = false;
                    self.ending.earlier_ends = self.ending.earlier_ends.saturating_add(1);
                }
                self.ending.reopen();
            }
            Event::AgentEnd(outcome) => self.ending.outcome = Some(outcome.clone()),
            Event::SessionEnd { .. } => self.ending.session_ended = true,
            _ => {}
        }
        if let Some(input) = event.input() {
            self.run.apply(input);
        }
    }

    fn apply_process_end(&mut self, end: &ProcessEnd) {
        self.processes.running.remove(&end.process);
        self.processes.ended.insert(end.process.clone(), end.exit);
        if let Some(text) = &end.message {
            let message = UserMessage::new(text).with_sources(end.sources.clone());
            self.mailbox.push_process_end(message);
        }
        self.receipts.add(&ToolEffect::Command {
            command: end.command.clone(),
            exit_code: end.exit.code(),
            unknown: matches!(end.exit, ProcessExit::Unknown | ProcessExit::ProgramEnded),
        });
        match end.exit {
            ProcessExit::AgentEnded => self.receipts.record_ended_with_agent(),
            ProcessExit::LeftRunning { .. } => self.receipts.record_left_running(),
            _ => {}
        }
    }

    fn apply_to_model_use(&mut self, event: &Event) {
        let used = &mut self.model_use;
        match event {
            Event::ModelRequest { purpose: RequestPurpose::Summary, .. } => {
                used.requests = used.requests.saturating_add(1);
            }
            Event::ModelRequest { model, bytes, .. } => {
                used.tokens.record_request(*bytes);
                used.pending = Some(PendingRequest { model: model.clone(), bytes: *bytes });
                used.requests = used.requests.saturating_add(1);
            }
            Event::ModelResponse { reply, cost_usd, .. } => used.record_reply(reply, *cost_usd),
            Event::ModelError { error, cost, .. } => {
                used.record_failure(error, cost.unwrap_or_default())
            }
            Event::Compaction(compaction) => {
                used.record_compaction(compaction, self.run.messages().len());
            }
            Event::AgentEnd(_) => used.pending = None,
            _ => {}
        }
    }

    fn apply_to_calls(&mut self, event: &Event) {
        match event {
            Event::ToolStart { call, tool, arguments } => {
                let started = StartedCall { tool: tool.clone(), arguments: arguments.clone() };
                self.calls.started.insert(*call, started);
            }
            Event::ToolEnd(end) => {
                let started = self.calls.started.remove(&end.result.call);
                if self.calls.started.is_empty() {
                    // An empty map keeps the room of a full one.
                    self.calls.started = BTreeMap::new();
                }
                if let Some(call) = started.filter(|_| !self.has_effect_on_record(end)) {
                    self.calls.ended.push(EndedCall::new(call, end));
                }
                self.sources.record_result(end.result.call, &end.result.sources);
                for fact in &end.facts {
                    self.receipts.add(fact);
                    match fact {
                        ToolEffect::ShellMoved { path } => {
                            self.tool_state.shell = Some(path.clone())
                        }
                        ToolEffect::TodoChanged { items } => {
                            self.tool_state.todo = Some(items.clone());
                        }
                        ToolEffect::OutsideRead { source } => self.sources.record_older(source),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns whether the record of a call says what it did: its effects, or a command that runs.
    fn has_effect_on_record(&self, end: &ToolEnd) -> bool {
        let is_effect = |fact: &ToolEffect| {
            !matches!(fact, ToolEffect::FileRead { .. } | ToolEffect::OutsideRead { .. })
        };
        end.facts.iter().any(is_effect)
            || self.processes.running.values().any(|start| start.call == end.result.call)
    }

    /// Lets the messages of an agent go that has ended, and its calls.
    pub(crate) fn release_messages(&mut self) {
        self.run.forget_messages();
        self.calls.ended = Vec::new();
        self.ending.released = true;
    }

    /// Returns whether its messages are in its records alone.
    pub(crate) const fn is_released(&self) -> bool {
        self.ending.released
    }

    /// Returns the agent's loop.
    pub(crate) const fn run(&self) -> &Run {
        &self.run
    }

    /// Returns what the agent does next.
    pub(crate) fn next_step(&self) -> NextStep {
        match self.run.step() {
            Step::Ask { iteration, tools } => NextStep::Ask { iteration, tools },
            Step::Call(open) => NextStep::Call(open.into_iter().cloned().collect()),
            Step::Rest => NextStep::Rest,
            Step::Done(_) => NextStep::Done,
        }
    }

    /// Returns whether the message with the agent's task is on record.
    pub(crate) const fn has_begun(&self) -> bool {
        self.begun
    }

    /// Returns how many attempts of requests were sent.
    pub(crate) const fn requests(&self) -> u32 {
        self.model_use.requests
    }

    /// Returns the request that has no reply yet.
    pub(crate) const fn pending_request(&self) -> Option<&PendingRequest> {
        self.model_use.pending.as_ref()
    }

    /// Returns what the agent's own requests cost.
    pub(crate) const fn cost(&self) -> Cost {
        self.model_use.cost
    }

    /// Returns the estimate of how many tokens the conversation has.
    pub(crate) const fn tokens(&self) -> &TokenEstimator {
        &self.model_use.tokens
    }

    /// Returns how many tokens the conversation had at the last reply, by its provider's count.
    pub(crate) fn context_tokens(&self) -> Option<u64> {
        Some(self.model_use.context_tokens).filter(|tokens| *tokens > 0)
    }

    /// Returns how many compactions in a row won too little.
    pub(crate) const fn useless_compactions(&self) -> u32 {
        self.model_use.compactions.useless
    }

    /// Returns a call that has started and has no result.
    pub(crate) fn started_call(&self, call: CallId) -> Option<&StartedCall> {
        self.calls.started.get(&call)
    }

    /// Returns the nested calls that have started and have no result.
    pub(crate) fn nested_calls(&self) -> Vec<(CallId, StartedCall)> {
        let nested = self.calls.started.iter().filter(|(id, _)| id.nested.is_some());
        nested.map(|(id, call)| (*id, call.clone())).collect()
    }

    /// Returns the calls that ran and have no effect on record, in order.
    pub(crate) fn ended_calls(&self) -> &[EndedCall] {
        &self.calls.ended
    }

    /// Returns whether a call started agents.
    pub(crate) fn has_accepted(&self, call: CallId) -> bool {
        self.calls.accepted.contains(&call)
    }

    /// Returns what the host saw the agent do.
    pub(crate) const fn receipts(&self) -> &Receipts {
        &self.receipts
    }

    /// Returns how many background commands the agent has started.
    pub(crate) fn process_count(&self) -> usize {
        self.processes.count()
    }

    /// Returns the background commands whose end is not on record.
    pub(crate) fn running_processes(&self) -> Vec<ProcessStart> {
        self.processes.running.values().cloned().collect()
    }

    /// Returns the background commands that ended, and how.
    pub(crate) const fn ended_processes(&self) -> &BTreeMap<String, ProcessExit> {
        &self.processes.ended
    }

    /// Returns how a background command ended.
    pub(crate) fn process_exit(&self, process: &str) -> Option<ProcessExit> {
        self.processes.ended.get(process).copied()
    }

    /// Returns where the agent's shell is, if it has moved.
    pub(crate) fn shell(&self) -> Option<&Path> {
        self.tool_state.shell.as_deref()
    }

    /// Returns the agent's todo list, if it has changed it.
    pub(crate) fn todo(&self) -> Option<&[TodoItem]> {
        self.tool_state.todo.as_deref()
    }

    /// Returns the sources from outside of this machine that the agent has read.
    pub(crate) const fn outside(&self) -> &SourceSet {
        self.sources.outside()
    }

    /// Returns the sources of a child's report.
    pub(crate) fn child_sources(&self, child: &AgentId) -> SourceSet {
        self.sources.of_child(child)
    }

    /// Returns the sources that the result of a running call may quote beside its tool.
    pub(crate) fn call_sources(&self, call: CallId) -> SourceSet {
        self.sources.of_call(call)
    }

    /// Returns the messages that were left for the agent and that it has not read, in order.
    pub(crate) const fn mailbox(&self) -> &UnreadMessages {
        &self.mailbox
    }

    /// Returns what an external agent has said last, if anything.
    pub(crate) fn external_text(&self) -> Option<&str> {
        let (_, text) = self.texts.external.texts.last()?;
        Some(text.as_str()).filter(|text| !text.trim().is_empty())
    }

    /// Returns what an external agent has said, each text with the number of messages before it.
    pub(crate) fn external_texts(&self) -> &[(usize, String)] {
        &self.texts.external.texts
    }

    /// Returns the texts of requests that failed, each with the number of messages before it.
    pub(crate) fn cut_replies(&self) -> &[(usize, String)] {
        &self.texts.cut.texts
    }

    /// Returns why the agent, or one above it, was stopped.
    pub(crate) const fn stopped(&self) -> Option<CancelReason> {
        self.ending.stopped
    }

    /// Returns how the agent ended, unless it went on since.
    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        self.ending.outcome.as_deref()
    }

    /// Returns the number of the agent's last end, or of the next one while it runs.
    pub(crate) const fn end_number(&self) -> u32 {
        self.ending.earlier_ends.saturating_add(1)
    }

    /// Returns the names of the hooks that ran after the agent's end.
    pub(crate) fn notified_hooks(&self) -> &[String] {
        &self.ending.notified_hooks
    }

    /// Returns whether the end of the session is on record after the agent's.
    pub(crate) const fn session_ended(&self) -> bool {
        self.ending.session_ended
    }
}
