//! The tool calls of one step: side by side where they may, each with exactly one result.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::event::{JournalError, ToolEnd};
use deputize_core::message::CallStatus;
use deputize_core::nested_call::{NestedResult, QuestionListener};
use deputize_core::policy::{Denial, Question, Verdict};
use deputize_core::sanitize::frame_boundary;
use deputize_core::step_calls::{StepCall, StepCalls};
use deputize_core::{
    AgentView, Availability, CallId, Cancel, CancelReason, CatalogEntry, Event, Message, Tool,
    ToolCall, ToolCx, ToolEffect, ToolResult, ToolSpec,
};
use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use serde_json::{Map, Value};
use tokio::time::Instant;
use tracing::{Instrument as _, info_span};

use crate::agent_context::AgentContext;
use crate::agent_state::StartedCall;
use crate::hook::scrubbed;
use crate::orphan::is_unreported;
use crate::recorded_path::recorded_path;
use crate::session_config::SyncMode;
use crate::settle::{call_grace, settle};

mod call_check;
mod denial;
mod hooks;
mod lookup;
mod redacted_secret;
mod restored_commands;
mod result;
mod sources;

use call_check::check_call;
use denial::with_subject;
use lookup::callable_tool;
use redacted_secret::refuse_mark;
use restored_commands::{restore_commands, restored_note};
use result::{FinishedCall, scrubbed_display, scrubbed_fact};
use sources::output_sources;

/// Maximum bytes of the arguments that a question shows beside a command.
const BESIDE_BYTES: usize = 2048;
/// Maximum line breaks in them.
const BESIDE_LINES: usize = 20;

/// A call that may run.
struct AdmittedCall<'a> {
    entry: &'a CatalogEntry,
    arguments: Value,
    /// Number of chat format marks that were restored in its commands.
    marks: usize,
}

/// Runs the tool calls of one agent.
pub(crate) struct ToolRunner {
    cx: Arc<AgentContext>,
    /// For a nested call: called when it begins to wait for an answer, and when it ceases to.
    on_question: Option<QuestionListener>,
}

impl ToolRunner {
    pub(crate) fn new(cx: &Arc<AgentContext>) -> Self {
        Self { cx: Arc::clone(cx), on_question: None }
    }

    /// Returns the runner of one nested call.
    pub(crate) fn for_nested_call(cx: &Arc<AgentContext>, on_question: QuestionListener) -> Self {
        Self { cx: Arc::clone(cx), on_question: Some(on_question) }
    }

    /// Brings a result for every open call. Calls that may run side by side do; one that may
    /// not waits for those before it and is waited for.
    pub(crate) async fn run(&self, open: &[ToolCall]) -> Result<(), JournalError> {
        if open.iter().any(|call| self.spawns(call)) {
            self.cx.view.store.get_or_insert_with(StepCalls::default).set(self.step_calls());
        }
        let mut rest = open;
        while let Some(first) = rest.first() {
            let alone = !self.is_parallel(first);
            let count = if alone {
                1
            } else {
                rest.iter().take_while(|call| self.is_parallel(call)).count()
            };
            let (group, tail) = rest.split_at(count);
            rest = tail;
            self.side_by_side(group).await?;
        }
        Ok(())
    }

    pub(crate) fn is_parallel(&self, call: &ToolCall) -> bool {
        self.tool_of(call).is_none_or(|entry| entry.tool.spec().parallel)
    }

    pub(crate) fn spawns(&self, call: &ToolCall) -> bool {
        self.tool_of(call).is_some_and(|entry| entry.tool.spec().spawns)
    }

    /// Returns the calls of this step whose tools start agents.
    fn step_calls(&self) -> Vec<StepCall> {
        let last = self.cx.state.read().run().messages().last().cloned();
        let Some(Message::Assistant(said)) = last.as_deref() else { return Vec::new() };
        let calls = said.calls.iter().filter(|call| self.spawns(call));
        let step_call = |call: &ToolCall| {
            let entry = self.tool_of(call)?;
            let arguments = self.cx.shared.checker.read(&*entry.tool, &call.arguments).ok()?;
            let ran = self.ran_earlier(call.id);
            Some(StepCall { id: call.id, tool: call.name.clone(), arguments, ran })
        };
        calls.filter_map(step_call).collect()
    }

    /// Returns how long a call ran in earlier processes.
    fn ran_earlier(&self, call: CallId) -> Duration {
        self.cx.earlier.calls.get(&call).copied().unwrap_or_default()
    }

    fn tool_of(&self, call: &ToolCall) -> Option<&CatalogEntry> {
        self.taken_up_by(call).or_else(|| self.cx.view.tool(&call.name))
    }

    /// The tool of a call that started agents in an earlier process. The call was accepted then,
    /// whatever this agent may call now, and whatever the tool is called.
    fn taken_up_by(&self, call: &ToolCall) -> Option<&CatalogEntry> {
        let accepted = self.cx.state.read().has_accepted(call.id);
        accepted.then(|| self.cx.view.catalog.spawner(&call.name)).flatten()
    }

    async fn side_by_side(&self, group: &[ToolCall]) -> Result<(), JournalError> {
        let work = self.cx.cancel.child();
        let spawning = self.cx.cancel.child();
        let signal = |call| if self.spawns(call) { &spawning } else { &work };
        let mut failed = None;
        let calls = async {
            let mut calls: FuturesUnordered<_> =
                group.iter().map(|call| self.one_in_span(call, signal(call))).collect();
            while let Some(end) = calls.next().await {
                // Without a journal nothing may go on: the others are told to end.
                if let Err(error) = end {
                    work.cancel(CancelReason::Interrupted);
                    spawning.cancel(CancelReason::Interrupted);
                    failed.get_or_insert(error);
                }
            }
        };
        let calls = self.cx.time.bound_below(&spawning, calls);
        self.cx.time.bound(&work, calls).await;
        self.cx.publish();
        failed.map_or(Ok(()), Err)
    }

    async fn one_in_span(&self, call: &ToolCall, work: &Cancel) -> Result<(), JournalError> {
        let span = info_span!("call", id = %call.id, tool = call.name);
        self.one(call, work).instrument(span).await
    }

    /// One call, from the model's words to a result on record.
    async fn one(&self, call: &ToolCall, work: &Cancel) -> Result<(), JournalError> {
        let started = Instant::now();
        let mut done = self.finish(call, work).await?;
        self.end_nested_calls(call.id)?;
        let accepted = self.cx.state.read().has_accepted(call.id);
        if accepted {
            done.add(is_unreported(&self.cx.shared, self.cx.view.id(), call.id));
        }
        let took = self.ran_earlier(call.id) + started.elapsed();
        self.record_end(self.tool_end(call, done, took)).await
    }

    /// Makes a nested call, puts it on record, and returns its result.
    pub(crate) async fn run_nested(
        &self,
        call: &ToolCall,
        work: &Cancel,
    ) -> Result<NestedResult, JournalError> {
        let started = Instant::now();
        let done = self.finish(call, work).await?;
        let secrets = &self.cx.shared.config.secrets;
        let scrub = |text: &String| secrets.scrub(text).into_owned();
        let output = (done.status == CallStatus::Ok).then_some(&done.output);
        let output = output.map(|it| (scrub(&it.content), it.notes.iter().map(scrub).collect()));
        // The text of a call that failed has its content and its notes, behind the reason.
        let (content, notes) =
            output.unwrap_or_else(|| (done.script_text(&self.boundary(call)), Vec::new()));
        let end = self.tool_end(call, done, started.elapsed());
        let facts = end.facts.clone();
        let result = NestedResult { status: end.result.status, content, notes, facts };
        self.record_end(end).await?;
        Ok(result)
    }

    /// Puts an end on record for each nested call that was given up together with the call that
    /// made it.
    fn end_nested_calls(&self, outer: CallId) -> Result<(), JournalError> {
        let nested = self.cx.state.read().nested_calls();
        for (call, started) in nested.into_iter().filter(|(id, _)| id.outer_call() == Some(outer)) {
            let text = "given up with the call that made it: its outcome is unknown";
            let end = unknown_end(call, started, text);
            self.cx.shared.bus.record(&self.cx.view.spec, Event::ToolEnd(Box::new(end)))?;
        }
        Ok(())
    }

    /// Runs a call, if it may run, to its result.
    async fn finish(&self, call: &ToolCall, work: &Cancel) -> Result<FinishedCall, JournalError> {
        let AdmittedCall { entry, arguments, marks } = match self.admit(call, work).await? {
            Err(refused) => return Ok(refused),
            Ok(admitted) => admitted,
        };
        let start = self.cx.shared.bus.record(
            &self.cx.view.spec,
            Event::ToolStart {
                call: call.id,
                tool: call.name.clone(),
                arguments: call.arguments.clone(),
            },
        )?;
        if !entry.tool.may_repeat(&arguments) && self.cx.shared.config.record.sync == SyncMode::Turn
        {
            self.cx.shared.bus.durable(start.seq).await?;
        }
        self.cx.sync(start.seq).await?;
        let _in_call = self.cx.handle.progress.mark_tool_call(call.id, &call.name);
        let shown = hooks::shown_after(&self.cx, &arguments);
        let mut done = self.run_tool(call, entry, arguments, work).await;
        hooks::after_tool(&self.cx, call, shown, &mut done, work).await?;
        done.add(restored_note(marks));
        Ok(done)
    }

    fn read_arguments(&self, entry: &CatalogEntry, call: &ToolCall) -> Result<Value, String> {
        self.cx.shared.checker.read(&*entry.tool, &call.arguments)
    }

    /// Whether a call may run; if not, the result that says why.
    async fn admit(
        &self,
        call: &ToolCall,
        work: &Cancel,
    ) -> Result<Result<AdmittedCall<'_>, FinishedCall>, JournalError> {
        if let Some(entry) = self.taken_up_by(call) {
            // Nobody is asked again.
            let read = self
                .read_arguments(entry, call)
                .map_err(|text| FinishedCall::own(CallStatus::Error, text));
            return Ok(read.map(|arguments| AdmittedCall { entry, arguments, marks: 0 }));
        }
        let entry = match callable_tool(&self.cx.view, call) {
            Ok(entry) => entry,
            Err(refused) => return Ok(Err(*refused)),
        };
        let spec = entry.tool.spec();
        let settings = &self.cx.view.session.settings;
        if let Availability::No(why) = entry.tool.availability(settings) {
            let text = format!("{} cannot be used now: {why}", call.name);
            return Ok(Err(FinishedCall::own(CallStatus::Error, text)));
        }
        let mut arguments = match self.read_arguments(entry, call) {
            Ok(arguments) => arguments,
            Err(text) => return Ok(Err(FinishedCall::own(CallStatus::Error, text))),
        };
        // Before anyone judges the command, so that what is approved is what runs.
        let marks = restore_commands(&spec.subject, &mut arguments);
        if work.is_cancelled() {
            return Ok(Err(self.cancelled_before_start(call)));
        }
        if let Some(refused) = refuse_mark(&self.cx.shared.config.secrets, spec, &arguments) {
            return Ok(Err(refused));
        }
        let cwd = command_directory(&*entry.tool, &arguments, &self.cx.view);
        let verdict = self.cx.shared.config.policy.judge(spec, &arguments, &cwd, &self.cx.view);
        if let Verdict::Deny(Denial { for_model, for_person }) = &verdict {
            let denial = Denial {
                for_model: format!("denied: {for_model}"),
                for_person: with_subject(spec, &arguments, for_person),
            };
            return Ok(Err(FinishedCall::denied(&denial)));
        }
        if let Some(stopped) = hooks::before_tool(&self.cx, call, spec, &arguments, work).await? {
            return Ok(Err(stopped));
        }
        // Nobody is asked about what would be refused after a yes.
        let verdict = match check_call(&self.cx, call, &*entry.tool, &arguments, work).await {
            Err(refused) => return Ok(Err(*refused)),
            Ok(Some(risk)) if verdict == Verdict::Allow => Verdict::from(risk),
            Ok(_) => verdict,
        };
        if let Verdict::Ask { class, reason } = verdict {
            let question = self.question(call, entry, &arguments).await;
            let question = Question { class, reason, ..question };
            if let Some(denied) = self.ask(&question, work).await? {
                return Ok(Err(denied));
            }
        }
        Ok(Ok(AdmittedCall { entry, arguments, marks }))
    }

    /// Has a question answered. Returns the result of the call if the answer is no.
    async fn ask(
        &self,
        question: &Question,
        work: &Cancel,
    ) -> Result<Option<FinishedCall>, JournalError> {
        let _waits = WaitForAnswer::begin(self.on_question.clone());
        let answer = self.cx.shared.approvals.decide(&self.cx.view, question, work).await?;
        if answer.allowed {
            return Ok(None);
        }
        let more =
            if answer.reason.is_empty() { String::new() } else { format!(": {}", answer.reason) };
        let text = format!("denied by {} ({}){more}", answer.by, question.reason);
        Ok(Some(FinishedCall::own(CallStatus::Denied, text)))
    }

    /// Returns the result of a call that was cancelled before it ran in this process.
    fn cancelled_before_start(&self, call: &ToolCall) -> FinishedCall {
        let text = if self.cx.state.read().started_call(call.id).is_some() {
            "interrupted: it had begun before the program ended and was not taken up again, \
             so its outcome is unknown. Look at what it left before you repeat it."
        } else {
            "cancelled before it started"
        };
        FinishedCall::own(CallStatus::Cancelled, text)
    }

    /// Returns what is asked about a call, without the class and the reason of the question.
    async fn question(&self, call: &ToolCall, entry: &CatalogEntry, arguments: &Value) -> Question {
        let (command, mut others) = shown_call(entry.tool.spec(), arguments);
        let secrets = &self.cx.shared.config.secrets;
        for (name, detail) in entry.tool.question_details(arguments, &self.cx.view).await {
            others.insert(name, scrubbed(secrets, &detail).into_owned());
        }
        Question {
            agent: self.cx.view.id().clone(),
            goal: self.cx.view.spec.goal.clone(),
            call: call.id,
            tool: entry.name().clone(),
            command,
            arguments: others,
            cwd: recorded_path(entry.tool.working_directory(arguments, &self.cx.view)),
            class: String::new(),
            reason: String::new(),
            needs_person: entry.tool.spec().needs_person,
            saved: None,
        }
    }

    /// Runs the tool: a panic is one failed call, and what does not settle is given up.
    async fn run_tool(
        &self,
        call: &ToolCall,
        entry: &CatalogEntry,
        arguments: Value,
        work: &Cancel,
    ) -> FinishedCall {
        let cx = ToolCx { call: call.id, agent: Arc::clone(&self.cx.view), cancel: work.child() };
        let future = AssertUnwindSafe(async { entry.tool.call(arguments, &cx).await });
        let future = future.catch_unwind();
        let limit = entry.tool.spec().time_limit;
        let grace = call_grace(call.id, self.cx.view.authority.spawn_depth());
        let result = match settle(std::pin::pin!(future), &cx.cancel, limit, grace).await {
            Some(Ok(result)) => result,
            Some(Err(_)) => return FinishedCall::crashed(call),
            None => {
                tracing::warn!(call = %call.id, tool = call.name, "call abandoned: it did not end");
                return FinishedCall::own(
                    CallStatus::Cancelled,
                    "told to end and did not: its outcome is unknown",
                );
            }
        };
        let timed_out = cx.cancel.reason() == Some(CancelReason::TimeLimit);
        let mut done = result::done(&self.cx, call, result, timed_out.then_some(limit).flatten());
        done.sources = output_sources(entry, &done.output);
        done
    }

    /// Returns the boundary of frames in a call's result.
    fn boundary(&self, call: &ToolCall) -> String {
        frame_boundary(&self.cx.shared.config.record.secret, self.cx.view.id(), call.id)
    }

    /// Returns the end of a call for the record.
    fn tool_end(&self, call: &ToolCall, done: FinishedCall, took: Duration) -> ToolEnd {
        let text = done.text();
        let facts = done.output.facts.into_iter();
        let secrets = &self.cx.shared.config.secrets;
        // Nothing else can have it in it: it cannot be guessed.
        let boundary = self.boundary(call);
        let framed = text.as_str().contains(&boundary);
        let mut sources = self.cx.state.read().call_sources(call.id);
        sources.extend(done.sources);
        ToolEnd {
            tool: call.name.clone(),
            boundary: framed.then_some(boundary),
            result: ToolResult {
                call: call.id,
                status: done.status,
                text,
                fingerprint: done.fingerprint,
                images: done.output.images,
                sources,
            },
            args_bytes: call.arguments.len() as u64,
            ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            facts: facts.map(|fact| scrubbed_fact(secrets, fact)).collect(),
            display: done.output.display.map(|display| scrubbed_display(secrets, display)),
            error: done.error.map(|error| secrets.scrub(&error).into_owned()),
        }
    }

    /// Records the end of a call, after what it did to files.
    async fn record_end(&self, end: ToolEnd) -> Result<(), JournalError> {
        let file_event = |fact: &ToolEffect| match fact.clone() {
            ToolEffect::FileRead { path, version, .. } => Some(Event::FileRead { path, version }),
            ToolEffect::FileWritten { path, version, created } => {
                Some(Event::FileWrite { path, version, created })
            }
            ToolEffect::Command { .. }
            | ToolEffect::FileRemoved { .. }
            | ToolEffect::TodoChanged { .. }
            | ToolEffect::OutsideRead { .. }
            | ToolEffect::NotBegun { .. }
            | ToolEffect::ShellMoved { .. } => None,
        };
        let mut events: Vec<Event> = end.facts.iter().filter_map(file_event).collect();
        events.push(Event::ToolEnd(Box::new(end)));
        match self.cx.shared.bus.record_all(&self.cx.view.spec, events)? {
            Some(last) => self.cx.sync(last).await,
            None => Ok(()),
        }
    }
}

/// Returns the end of a call that had started, and of which nothing else is known.
fn unknown_end(call: CallId, started: StartedCall, text: &str) -> ToolEnd {
    ToolEnd {
        result: ToolResult::host(call, CallStatus::Cancelled, text),
        args_bytes: started.arguments.len() as u64,
        tool: started.tool,
        ms: 0,
        facts: Vec::new(),
        display: None,
        error: None,
        boundary: None,
    }
}

/// The time in which a call waits for the answer to a question.
struct WaitForAnswer(Option<QuestionListener>);

impl WaitForAnswer {
    fn begin(listener: Option<QuestionListener>) -> Self {
        listener.iter().for_each(|listener| listener(true));
        Self(listener)
    }
}

impl Drop for WaitForAnswer {
    fn drop(&mut self) {
        self.0.iter().for_each(|listener| listener(false));
    }
}

/// Returns the command of a call and its other arguments; the whole call if it has no command, or
/// too many other arguments.
fn shown_call(tool: &ToolSpec, arguments: &Value) -> (String, Map<String, Value>) {
    let fits = |others: &Map<String, Value>| {
        let lines = |value: &Value| value.as_str().map_or(0, |text| text.matches('\n').count());
        serde_json::to_string(others).is_ok_and(|text| text.len() <= BESIDE_BYTES)
            && others.values().map(lines).sum::<usize>() <= BESIDE_LINES
    };
    let split = tool.split_command(arguments).filter(|(_, others)| fits(others));
    split.unwrap_or_else(|| (Question::call_text(&tool.decl.name, arguments), Map::new()))
}

/// Returns where a call would work. Only commands may have a place other than the agent's, so the
/// arguments of other calls are not read for it.
fn command_directory(tool: &dyn Tool, arguments: &Value, agent: &AgentView) -> PathBuf {
    match tool.spec().subject.commands(arguments).next() {
        Some(_) => tool.working_directory(arguments, agent),
        None => agent.spec.cwd.clone(),
    }
}
