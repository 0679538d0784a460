//! One agent of a replay: it takes its records in their order, and says where it would do
//! something else.

use std::collections::BTreeSet;
use std::sync::Arc;

use deputize_core::agent::{AgentSpec, ContinueError};
use deputize_core::event::RequestPurpose;
use deputize_core::hook::{HookDecision, HookPoint};
use deputize_core::message::{CallStatus, UserMessage};
use deputize_core::model::{Request, ToolChoice};
use deputize_core::run::Step;
use deputize_core::{
    AgentId, BoxFuture, CallId, Event, Message, Outcome, Record, Status, ToolCall, ToolCx,
    describe_error,
};
use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use crate::agent_context::AgentContext;
use crate::agent_state::NextStep;
use crate::outcome::{host_fault, outcome_of};
use crate::readable_messages::readable_by;
use crate::recording::{Playback, ReplayEnd, ReplayError, ReplayPosition, compare, said};
use crate::request_budget::recorded_options;

/// An agent that is played.
pub(crate) struct ReplayAgent {
    cx: Arc<AgentContext>,
    play: Arc<Playback>,
    /// The messages of its last request, as recorded.
    sent: Vec<Arc<Message>>,
    /// Calls that start other agents: they are made again.
    calls: FuturesUnordered<BoxFuture<'static, CallId>>,
    ended_calls: BTreeSet<CallId>,
    outcome: Option<Outcome>,
    /// Whether a hook held a message back.
    blocked: bool,
}

impl ReplayAgent {
    pub(crate) fn new(cx: Arc<AgentContext>, play: Arc<Playback>) -> Self {
        Self {
            cx,
            play,
            sent: Vec::new(),
            calls: FuturesUnordered::new(),
            ended_calls: BTreeSet::new(),
            outcome: None,
            blocked: false,
        }
    }

    /// Plays the records of the agent to its end.
    pub(crate) async fn run(self) -> Outcome {
        let spec = Arc::clone(&self.cx.view.spec);
        // Why it is over is told by the replay.
        self.act()
            .await
            .unwrap_or_else(|ReplayEnd| host_fault(&spec, "the replay ended".to_owned()))
    }

    async fn act(mut self) -> Result<Outcome, ReplayEnd> {
        loop {
            let record = self.next().await?;
            self.check(&record).await?;
            let more = self.play.made(&record);
            self.apply_record(&record);
            match &record.event {
                // Above it there may be agents that outlived it, and the end of the session.
                Event::AgentEnd(outcome) if record.depth > 0 => {
                    self.cx.shared.tree().live.remove(self.id());
                    self.cx.shared.keep_continuable(self.cx.ended());
                    return Ok((**outcome).clone());
                }
                Event::AgentEnd(outcome) => self.outcome = Some((**outcome).clone()),
                Event::SessionEnd { .. } if !more => return self.end(&record),
                _ => {}
            }
        }
    }

    fn id(&self) -> &AgentId {
        self.cx.view.id()
    }

    /// Its next record, when its turn comes. Meanwhile its calls go on.
    async fn next(&mut self) -> Result<Arc<Record>, ReplayEnd> {
        let Self { cx, play, calls, ended_calls, .. } = self;
        let mut turn = std::pin::pin!(play.turn(cx.view.id()));
        loop {
            tokio::select! {
                biased;
                Some(call) = calls.next() => {
                    ended_calls.insert(call);
                }
                record = &mut turn => return record,
            }
        }
    }

    /// The end of the session: what the top agent came to, unless it never began.
    fn end(mut self, record: &Record) -> Result<Outcome, ReplayEnd> {
        let Event::SessionEnd { status, exit_code, .. } = record.event else {
            return Err(self.otherwise(record));
        };
        let spec = &self.cx.view.spec;
        let failed = || {
            let text = "the recorded session failed before its agent began".to_owned();
            let begun = self.cx.state.read().has_begun();
            let never_began = status != Status::Completed && !begun;
            never_began.then(|| Outcome::without_run(spec, status, text))
        };
        let outcome = self.outcome.take().or_else(failed);
        let fits = |outcome: &Outcome| (outcome.status, outcome.exit_code()) == (status, exit_code);
        outcome.filter(fits).ok_or_else(|| self.otherwise(record))
    }

    /// Compares a record with what the agent would do now.
    async fn check(&mut self, record: &Record) -> Result<(), ReplayEnd> {
        let step = self.cx.next_step();
        match &record.event {
            Event::AgentStart(start) if record.depth > 0 => self.starts_so(record, &start.spec),
            // A replay takes the recorded summary.
            Event::ModelRequest { purpose: RequestPurpose::Summary, .. } => match step {
                NextStep::Ask { .. } => Ok(()),
                _ => Err(self.otherwise(record)),
            },
            Event::ModelRequest { iteration, .. } => match step {
                NextStep::Ask { iteration: now, tools } if now == *iteration => {
                    self.request(record, now, tools)
                }
                _ => Err(self.otherwise(record)),
            },
            Event::ModelResponse { .. } | Event::ModelError { .. } | Event::ModelRetry { .. } => {
                if matches!(step, NextStep::Ask { .. }) {
                    Ok(())
                } else {
                    Err(self.otherwise(record))
                }
            }
            // A program of its own tells of its calls; no loop of ours asked for them.
            Event::ToolStart { .. } | Event::ToolEnd(_) if self.is_program() => Ok(()),
            Event::ToolStart { call, .. } if call.nested.is_some() => {
                self.is_nested_in(record, &step, *call)
            }
            Event::ToolEnd(end) if end.result.call.nested.is_some() => {
                self.is_nested_in(record, &step, end.result.call)
            }
            Event::ToolStart { call, tool, arguments } => {
                let NextStep::Call(open) = step else { return Err(self.otherwise(record)) };
                let same = open.iter().any(|open| {
                    open.id == *call && open.name == *tool && open.arguments == *arguments
                });
                if !same {
                    return Err(self.otherwise(record));
                }
                self.call_again(*call, tool, arguments, record)
            }
            Event::ToolEnd(end) => {
                let call = end.result.call;
                let due = |open: &ToolCall| open.id == call && open.name == end.tool;
                if !matches!(step, NextStep::Call(open) if open.iter().any(due)) {
                    return Err(self.otherwise(record));
                }
                self.call_ends(call, end.result.status).await;
                Ok(())
            }
            Event::AgentEnd(outcome) => self.ends_so(record, outcome),
            _ => Ok(()),
        }
    }

    /// Checks that the call that made a nested one has no result yet. Nested calls are not made
    /// again: their results went to that call, whose result is recorded.
    fn is_nested_in(
        &self,
        record: &Record,
        step: &NextStep,
        nested: CallId,
    ) -> Result<(), ReplayEnd> {
        let outer = nested.outer_call();
        match step {
            NextStep::Call(open) if open.iter().any(|open| Some(open.id) == outer) => Ok(()),
            _ => Err(self.otherwise(record)),
        }
    }

    /// Whether no model was asked for this agent: it was a program of its own.
    fn is_program(&self) -> bool {
        let asks = |record: &Record| {
            record.agent == *self.id() && matches!(record.event, Event::ModelRequest { .. })
        };
        self.cx.view.spec.depth > 0 && !self.play.recording.records().any(asks)
    }

    /// Compares what makes a child, except its texts, with the recording; the requests show those.
    fn starts_so(&self, record: &Record, recorded: &AgentSpec) -> Result<(), ReplayEnd> {
        // A program of its own has tools of its own; a replay plans it as one of ours.
        if self.is_program() {
            return Ok(());
        }
        let own = &*self.cx.view.spec;
        let made = |spec: &AgentSpec| {
            let toolsets: Vec<_> = spec.toolsets.iter().map(ToString::to_string).collect();
            let role = spec.role;
            let limits = spec.limits;
            [
                ("role", format!("{role:?}")),
                ("model", spec.model.clone()),
                ("toolsets", toolsets.join(", ")),
                ("most iterations", limits.max_iterations.to_string()),
                ("time limit in ms", limits.time_ms.to_string()),
            ]
        };
        let mut pairs = made(recorded).into_iter().zip(made(own));
        match pairs.find(|(recorded, now)| recorded != now) {
            None => Ok(()),
            Some(((what, recorded), (_, now))) => {
                Err(self.fail(record, format!("its {what} would be `{now}`, not `{recorded}`")))
            }
        }
    }

    /// Compares a request with the recorded one.
    fn request(
        &mut self,
        record: &Record,
        iteration: u32,
        tools: ToolChoice,
    ) -> Result<(), ReplayEnd> {
        let play = Arc::clone(&self.play);
        let Some(sent) = play.recording.sent.get(&record.seq) else {
            return Err(self.otherwise(record));
        };
        self.sent.truncate(sent.kept);
        self.sent.extend(sent.added.iter().cloned());
        let spec = &self.cx.view.spec;
        let models = &self.cx.shared.config.models;
        if !models.may_serve(spec, &sent.model, &sent.at_provider) {
            let now = format!(
                "the model is {}, with no fallback to {} (at its provider {})",
                spec.model, sent.model, sent.at_provider
            );
            return Err(self.fail(record, now));
        }
        let messages = self.cx.state.messages();
        let messages = readable_by(&messages, &sent.model);
        let has_budget = self.cx.shared.config.budgets.limit(spec.depth > 0);
        let options = recorded_options(&spec.options, &sent.options, has_budget);
        let now = Request {
            model: &sent.at_provider,
            system: &spec.system,
            tools: &self.cx.view.declared,
            messages: &messages,
            tool_choice: tools,
            options: &options,
        };
        compare(sent, &self.sent, &play.recording.texts, &now).map_err(|difference| {
            play.fail(ReplayError::Request {
                agent: self.id().clone(),
                request: iteration,
                part: difference.part,
                excerpt: difference.excerpt,
            })
        })
    }

    /// Makes a call again that started agents, and has a child go on to which a call gave a further
    /// task. All others have their recorded results.
    fn call_again(
        &self,
        call: CallId,
        tool: &str,
        arguments: &str,
        record: &Record,
    ) -> Result<(), ReplayEnd> {
        let view = &self.cx.view;
        let fail = |now: String| self.fail(record, now);
        if let Some((child, task)) = self.play.continued(view.id(), call) {
            // In a replay nothing is read for it, so it is ready at once.
            let continued = view.session.control.continue_child(view, child, task).now_or_never();
            let continued = continued.unwrap_or_else(|| {
                Err(ContinueError::Conversation("it is not in the recording".to_owned()))
            });
            return continued.map_err(|error| fail(describe_error(&error)));
        }
        if !self.play.spawns(view.id(), call) {
            return Ok(());
        }
        // The recording may be anybody's: it must not choose what runs.
        let Some(entry) = view.catalog.spawner(tool) else {
            return Err(fail(format!("there is no tool `{tool}` that starts agents")));
        };
        let checked = self.cx.shared.checker.read(&*entry.tool, arguments);
        let arguments = checked.map_err(|error| fail(format!("the call is refused: {error}")))?;
        let cx = ToolCx { call, agent: Arc::clone(view), cancel: self.cx.cancel.child() };
        let tool = Arc::clone(&entry.tool);
        self.calls.push(Box::pin(async move {
            // What it gives is not needed: its recorded result is.
            let _result = tool.call(arguments, &cx).await;
            call
        }));
        Ok(())
    }

    /// A call that was made again comes to its end, when it did so in the recording.
    async fn call_ends(&mut self, call: CallId, status: CallStatus) {
        if !self.play.spawns(self.id(), call) || status == CallStatus::Cancelled {
            return;
        }
        while !self.ended_calls.contains(&call) {
            let Some(ended) = self.calls.next().await else { return };
            self.ended_calls.insert(ended);
        }
    }

    /// Compares the recorded end of the agent with its own.
    fn ends_so(&self, record: &Record, outcome: &Outcome) -> Result<(), ReplayEnd> {
        // What a hook held back did not come to the loop.
        let begun = self.cx.state.read().has_begun();
        let held_back = self.blocked || !begun && outcome.text.is_none();
        if held_back && outcome.status == Status::Failed || outcome.external && self.is_program() {
            return Ok(());
        }
        // A failure of the machine is not played again; what it leaves follows from the loop.
        let fault = (outcome.status == Status::Error).then(String::new);
        let own = outcome_of(&self.cx.view.spec, &self.cx.state.read(), fault);
        let same = (own.status, own.exit_reason, &own.text, own.partial)
            == (outcome.status, outcome.exit_reason, &outcome.text, outcome.partial);
        let counted = (own.iterations, own.usage) == (outcome.iterations, outcome.usage);
        if same && counted { Ok(()) } else { Err(self.otherwise(record)) }
    }

    /// Applies a record to the agent's state.
    fn apply_record(&mut self, record: &Record) {
        let state = &self.cx.state;
        let begun = state.read().has_begun();
        match &record.event {
            Event::Hook(hook) if hook.name == HookPoint::UserPromptSubmit => {
                self.blocked = hook.decision == HookDecision::Block;
            }
            // The first message follows from what made the agent: a request shows whether that
            // is what was recorded.
            Event::Message(message) if !begun && message.from.is_none() => {
                let spec = &self.cx.view.spec;
                let images = spec.images.clone();
                let text = spec.task.clone();
                let message = UserMessage { text, images, ..message.clone() };
                state.replay(&Event::Message(message));
            }
            event => state.replay(event),
        }
        self.cx.publish();
    }

    fn otherwise(&self, record: &Record) -> ReplayEnd {
        let now = match self.cx.state.read().run().step() {
            Step::Ask { iteration, .. } => {
                format!("its request {iteration} to the model would be sent")
            }
            Step::Call(open) => {
                let open = open.iter().map(|call| format!("{} ({})", call.id, call.name));
                format!("results are due for {}", open.collect::<Vec<_>>().join(", "))
            }
            Step::Rest => "it would wait for a message".to_owned(),
            Step::Done(end) => {
                format!("its turn is over ({}, {})", end.status.as_str(), end.reason.as_str())
            }
        };
        self.fail(record, now)
    }

    fn fail(&self, record: &Record, now: String) -> ReplayEnd {
        let place = ReplayPosition { agent: self.id().clone(), seq: record.seq };
        self.play.fail(ReplayError::Otherwise { place, recorded: said(&record.event), now })
    }
}
