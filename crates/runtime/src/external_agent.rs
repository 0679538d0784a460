//! Children that are programs of their own: what they tell goes on record, what they ask goes to
//! the child's approver.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deputize_core::answer::{CORRECTIONS, rejection};
use deputize_core::authority::ApproverMode;
use deputize_core::event::{JournalError, LogLevel, ToolEnd};
use deputize_core::external_agent::{ExternalAgentHost, ExternalAgents, ExternalToolCall};
use deputize_core::hook::{HookEvent, HookPoint};
use deputize_core::message::{CallStatus, ModelText};
use deputize_core::outcome::{ExitReason, ToolTrace};
use deputize_core::policy::{ApprovalAnswer, Question, effective_mode};
use deputize_core::run::WrapUpReason;
use deputize_core::sanitize::{clean, for_terminal_line};
use deputize_core::{
    Agent, AgentView, BoxFuture, CallId, Cancel, CancelReason, Event, Message, Outcome, Status,
    ToolName, ToolResult,
};
use futures_util::FutureExt as _;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use crate::agent_context::AgentContext;
use crate::external_command::{JUDGED_BYTES, commands};
use crate::hook::scrubbed;
use crate::inbox::Inbox;
use crate::session_inner::SessionInner;
use crate::settle::{GRACE, settle};
use crate::structured_output::value_of;
use crate::time_limit::TimeShortage;

/// The most bytes of a call's result that are kept: it is the program's own word, and no model
/// of ours reads it.
const RESULT_BYTES: usize = 16 * 1024;
/// The most characters of a tool's name.
const TOOL_CHARS: usize = 80;
/// How often what it said goes on record, while it says something.
const WORDS_EVERY: Duration = Duration::from_millis(200);
/// The most bytes of its words in one record.
const WORDS_BYTES: usize = 4096;
/// The most bytes of its words on record between two calls or prompts.
const REPLY_WORDS_BYTES: usize = 256 * 1024;
/// The most bytes of all its words on record.
const ALL_WORDS_BYTES: usize = 8 * 1024 * 1024;
/// Stands on record for words that are not.
const WORDS_LEFT_OUT: &str = "\n[what it said then is not on record]\n";
/// The most calls of one agent that are kept on record; more are counted.
const CALLS: usize = 10_000;
/// Maximum bytes of a request that can be approved. Half of what is judged: a text in a list or in
/// JSON is judged more than once.
const APPROVED_BYTES: usize = JUDGED_BYTES / 2;
/// The class of what such an agent asks for.
const CLASS: &str = "external";
/// Kinds of calls that run nothing: what stands in them beside what is named as a command is none.
const RUNS_NONE: [&str; 8] =
    ["delete", "edit", "fetch", "move", "read", "search", "switch_mode", "think"];

/// Runs a program as this agent, to its end.
pub(crate) async fn run_program(
    cx: &AgentContext,
    inbox: &Inbox,
    program: Arc<dyn ExternalAgents>,
) -> Result<Outcome, JournalError> {
    let work = cx.cancel.child();
    let (tells, told) = mpsc::unbounded_channel();
    let wanted = cx.shared.hooks.has_any(HookPoint::PostToolUse);
    let reporter = Arc::new(ExternalReporter {
        shared: Arc::clone(&cx.shared),
        view: Arc::clone(&cx.view),
        cancel: work.clone(),
        closing: watch::Sender::new(None),
        state: Mutex::new(ReporterState {
            hooks: wanted.then_some(tells),
            ..ReporterState::default()
        }),
    });
    let (spec, host) = (Arc::clone(&cx.view.spec), Arc::clone(&reporter));
    let agent = program.start(spec, host, work.clone());
    let hooked = on_record(Arc::clone(&cx.shared), Arc::clone(&cx.view), told, work.clone());
    let heard = async {
        let ended = await_program((cx, inbox), agent, &work, &reporter).await;
        // No more calls are told of; those that were are shown to the hooks.
        reporter.lock().hooks = None;
        let reason = work.reason().map(|reason| cx.own_reason(reason));
        ended.map(|outcome| program_outcome(cx, outcome, &reporter, reason))
    };
    let heard = async {
        tokio::select! {
            biased;
            ended = heard => ended,
            never = reporter.record_words() => match never {},
        }
    };
    let (heard, hooked) = tokio::join!(heard, hooked);
    let fault = reporter.lock().fault.take();
    if let Some(error) = fault {
        return Err(error);
    }
    hooked?;
    Ok(checked(cx, heard?))
}

/// Waits for the end of a program. When its time is up it is asked to close, and when that is
/// up too, told to end.
async fn await_program(
    (cx, inbox): (&AgentContext, &Inbox),
    agent: Box<dyn Agent>,
    work: &Cancel,
    reporter: &ExternalReporter,
) -> Result<Outcome, JournalError> {
    let run = AssertUnwindSafe(async { agent.outcome().await }).catch_unwind();
    let run = pin!(run);
    let mut run = pin!(settle(run, work, None, GRACE));
    let mut ended = cx.time.before_deadline(run.as_mut()).await;
    if ended.is_none() && cx.view.spec.limits.wrap_up_ms > 0 {
        reporter.end_words(&mut reporter.lock());
        inbox.end_time().await?;
        reporter.closing.send_replace(last_message(cx));
        ended = cx.time.before_deadline(run.as_mut()).await;
    }
    let ended = match ended {
        Some(ended) => ended,
        None => {
            work.cancel(CancelReason::TimeLimit);
            run.await
        }
    };
    let spec = &cx.view.spec;
    Ok(match ended {
        Some(Ok(outcome)) => outcome,
        Some(Err(_)) => {
            let why = "the way to the external agent panicked: this is a bug in deputize";
            Outcome::without_run(spec, Status::Error, why.to_owned())
        }
        None => {
            let why = "the external agent was told to end and did not; what it did is unknown";
            Outcome::without_run(spec, Status::Interrupted, why.to_owned())
        }
    })
}

/// The last message that it was given.
fn last_message(cx: &AgentContext) -> Option<String> {
    match &**cx.state.read().run().messages().last()? {
        Message::User(message) => Some(message.text.clone()),
        Message::Assistant(_) | Message::Tool(_) => None,
    }
}

/// How a program ended, with its calls, and the limit that it came to.
fn program_outcome(
    cx: &AgentContext,
    mut outcome: Outcome,
    reporter: &ExternalReporter,
    reason: Option<CancelReason>,
) -> Outcome {
    let told = reason.filter(|reason| *reason != CancelReason::Interrupted);
    if let (Some(reason), Status::Interrupted) = (told, outcome.status) {
        let error = outcome.error.take().unwrap_or_default();
        outcome.error = Some(format!("{}: {error}", reason.as_text()));
    }
    let mut state = reporter.lock();
    outcome.trace = std::mem::take(&mut state.trace);
    if state.uncounted > 0 {
        let more = state.uncounted;
        let message = format!("{more} more calls of its tools are not on record ({CALLS} are)");
        if let Some(error) = &mut outcome.error {
            error.push_str(&format!("; {message}"));
        }
        reporter.record(&mut state, Event::Log { level: LogLevel::Warn, message });
    }
    drop(state);
    let closed = reporter.closing.borrow().is_some() && reason.is_none();
    if !closed && reason != Some(CancelReason::TimeLimit) {
        return outcome;
    }
    let (status, exit_reason, error) = match (cx.time.limit(), outcome.status) {
        (WrapUpReason::Time, _) => {
            let why = "the time limit was reached".to_owned();
            (Status::Timeout, ExitReason::Timeout, Some(why))
        }
        (WrapUpReason::Budget, Status::Completed) => (Status::Completed, ExitReason::Budget, None),
        // It did not answer what it was asked last. Nobody sees what it spends: that is the time.
        (WrapUpReason::Budget, _) => {
            let wrap_up = cx.view.spec.limits.wrap_up_ms;
            let why = if wrap_up == 0 {
                TimeShortage::NoneLeft
            } else {
                TimeShortage::NoClosingAnswer(wrap_up)
            };
            (Status::Failed, ExitReason::Budget, Some(why.to_string()))
        }
    };
    Outcome { status, exit_reason, error, ..outcome }
}

/// The outcome of a program that ran when an earlier process ended: it is not started again.
pub(crate) fn program_lost_outcome(cx: &AgentContext) -> Outcome {
    let why = "the program ended while this external agent ran: what it did is unknown. It was \
               not started again; look at what it left before you repeat it.";
    let spec = &cx.view.spec;
    let text = cx.state.read().external_text().map(str::to_owned);
    let lost = Outcome::without_run(spec, Status::Interrupted, why.to_owned());
    Outcome { text, ..lost }
}

/// The same outcome, without secrets and with the value that was asked for.
fn checked(cx: &AgentContext, mut outcome: Outcome) -> Outcome {
    let secrets = &cx.shared.parts.secrets;
    for text in [&mut outcome.text, &mut outcome.error].into_iter().flatten() {
        *text = secrets.scrub(text).into_owned();
    }
    let Some(schema) = cx.view.spec.output_schema.as_ref() else { return outcome };
    if outcome.status != Status::Completed {
        return outcome;
    }
    match value_of(schema, outcome.text.as_deref().unwrap_or_default()) {
        Ok(value) => outcome.output = Some(value),
        Err(mistakes) => {
            let error = format!("the answer misses its schema: {mistakes}");
            (outcome.status, outcome.error) = (Status::Failed, Some(error));
            outcome.exit_reason = ExitReason::SchemaInvalid;
        }
    }
    outcome
}

/// The outcome of an agent with what the program that it is told of itself. Of what the host saw
/// there is nothing.
pub(crate) fn merged(own: Outcome, told: Outcome) -> Outcome {
    Outcome {
        agent: own.agent,
        external: true,
        model: own.model,
        iterations: 0,
        usage: own.usage,
        children_usage: own.children_usage,
        cost_usd: None,
        duration_ms: own.duration_ms,
        receipts: own.receipts,
        ..told
    }
}

/// A call that a program told of, for the hooks after it.
struct FinishedCall {
    told: ExternalToolCall,
    status: CallStatus,
    output: String,
}

/// Shows the hooks the calls that a program tells of, in their order. It is not ours to tell it
/// what they say: that is on record only.
async fn on_record(
    shared: Arc<SessionInner>,
    view: Arc<AgentView>,
    mut told: mpsc::UnboundedReceiver<FinishedCall>,
    work: Cancel,
) -> Result<(), JournalError> {
    while let Some(FinishedCall { told, status, output }) = told.recv().await {
        let (call, tool, arguments) = (told.call, &*told.tool, &told.arguments);
        let output = &*output;
        let moment = HookEvent::PostToolUse { call, tool, arguments, status, output };
        let _told_to_nobody = Box::pin(shared.hooks.run(&view.spec, moment, &work)).await?;
    }
    Ok(())
}

/// Takes what one such agent tells.
struct ExternalReporter {
    shared: Arc<SessionInner>,
    view: Arc<AgentView>,
    cancel: Cancel,
    /// What it is told when it is to close, from then on.
    closing: watch::Sender<Option<String>>,
    state: Mutex<ReporterState>,
}

#[derive(Default)]
struct ReporterState {
    /// Calls that run, and since when.
    open: BTreeMap<CallId, Instant>,
    trace: Vec<ToolTrace>,
    /// Calls that were not allowed, and why: so they end, whatever is told of them.
    denied: BTreeMap<CallId, String>,
    uncounted: u64,
    corrections: u32,
    /// What it said and that is not on record.
    words: String,
    /// Bytes of its words that are, since its last call or prompt.
    reply_words_bytes: usize,
    /// Bytes of all its words that are.
    words_bytes: usize,
    /// Whether some since its last call or prompt are left out.
    left_out_words: bool,
    /// Where calls go that the hooks after them are to see, while they are told of.
    hooks: Option<mpsc::UnboundedSender<FinishedCall>>,
    /// Why nothing more can be put on record.
    fault: Option<JournalError>,
}

impl ReporterState {
    /// How many more bytes of words may go on record now.
    fn words_room(&self) -> usize {
        let of_reply = REPLY_WORDS_BYTES.saturating_sub(self.reply_words_bytes);
        of_reply.min(ALL_WORDS_BYTES.saturating_sub(self.words_bytes))
    }
}

impl ExternalReporter {
    fn lock(&self) -> MutexGuard<'_, ReporterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an event on record. Without a journal nothing may go on.
    fn record(&self, state: &mut ReporterState, event: Event) {
        if let Err(error) = self.shared.bus.record(&self.view.spec, event) {
            state.fault.get_or_insert(error);
            self.cancel.cancel(CancelReason::Interrupted);
        }
    }

    /// Puts what it says on record, for when this program is killed.
    async fn record_words(&self) -> Infallible {
        loop {
            sleep(WORDS_EVERY).await;
            let mut state = self.lock();
            self.flush_words(&mut state);
        }
    }

    /// Puts on record what it said, but for the end of it that may be the beginning of a secret.
    fn flush_words(&self, state: &mut ReporterState) {
        let secrets = &self.shared.parts.secrets;
        let ready = state.words.len() - secrets.begun(&state.words);
        let rest = state.words.split_off(ready);
        let words = std::mem::replace(&mut state.words, rest);
        let text = self.clean(&words);
        let kept = text.get(..text.floor_char_boundary(state.words_room())).unwrap_or_default();
        if !kept.is_empty() {
            state.reply_words_bytes += kept.len();
            state.words_bytes += kept.len();
            self.record(state, Event::ExternalText { text: kept.to_owned() });
        }
        if kept.len() < text.len() {
            self.leave_out_words(state);
        }
    }

    /// Marks on record, once between two calls or prompts, that words are left out.
    fn leave_out_words(&self, state: &mut ReporterState) {
        if !std::mem::replace(&mut state.left_out_words, true) {
            self.record(state, Event::ExternalText { text: WORDS_LEFT_OUT.to_owned() });
        }
    }

    /// Puts on record what it said before a call or a prompt: what follows is said anew.
    fn end_words(&self, state: &mut ReporterState) {
        self.flush_words(state);
        (state.reply_words_bytes, state.left_out_words) = (0, false);
    }

    fn clean(&self, text: &str) -> String {
        clean(&self.shared.parts.secrets.scrub(text)).text.into_owned()
    }

    fn tool(&self, call: &ExternalToolCall) -> String {
        for_terminal_line(&self.shared.parts.secrets.scrub(&call.tool), TOOL_CHARS)
    }

    fn arguments(&self, call: &ExternalToolCall) -> String {
        scrubbed(&self.shared.parts.secrets, &call.arguments).to_string()
    }

    /// The question that a request for permission is; or the answer, where the rules or a hook have
    /// one.
    async fn question(
        &self,
        call: &ExternalToolCall,
        (command, asked): (&str, &str),
        cancel: &Cancel,
    ) -> Result<Question, ApprovalAnswer> {
        let kind = call.arguments.get("kind").and_then(serde_json::Value::as_str);
        let runs_none =
            [Some(call.tool.as_str()), kind].iter().flatten().any(|it| RUNS_NONE.contains(it));
        let told = commands(&call.arguments, runs_none);
        let command = command.get(..command.floor_char_boundary(JUDGED_BYTES)).unwrap_or_default();
        let mut told = std::iter::once(command).chain(told.iter().map(String::as_str));
        if let Some(reason) = told.find_map(|command| self.shared.parts.policy.never(command)) {
            return Err(ApprovalAnswer { reason, ..ApprovalAnswer::no("rule") });
        }
        // A person must not be asked about what the rules above did not see.
        if effective_mode(&self.view) == ApproverMode::Ask && asked.len() > APPROVED_BYTES {
            let bytes = asked.len();
            let reason = format!(
                "the request has {bytes} bytes, and at most {APPROVED_BYTES} of an external agent \
                 can be approved: make several smaller requests"
            );
            return Err(ApprovalAnswer { reason, ..ApprovalAnswer::no("rule") });
        }
        let arguments = scrubbed(&self.shared.parts.secrets, &call.arguments);
        let tool = self.tool(call);
        let moment = HookEvent::PreToolUse { call: call.call, tool: &tool, arguments: &arguments };
        match self.shared.hooks.run(&self.view.spec, moment, cancel).await {
            Ok(None) => {}
            Ok(Some(reason)) => {
                let reason = format!("a hook blocked this call: {reason}");
                return Err(ApprovalAnswer { reason, ..ApprovalAnswer::no("hook") });
            }
            Err(error) => {
                self.lock().fault.get_or_insert(error);
                self.cancel.cancel(CancelReason::Interrupted);
                return Err(ApprovalAnswer::no("the session file cannot be written"));
            }
        }
        Ok(Question {
            agent: self.view.id().clone(),
            goal: self.view.spec.goal.clone(),
            call: call.call,
            tool: ToolName::new(tool).unwrap_or(ToolName::literal("external")),
            command: asked.to_owned(),
            cwd: self.view.spec.cwd.clone(),
            class: CLASS.to_owned(),
            reason: "an external agent asks for it; nothing on this system bounds what it does"
                .to_owned(),
            arguments: serde_json::Map::new(),
            saved: None,
        })
    }
}

/// Why a call is denied.
fn why(answer: &ApprovalAnswer) -> String {
    match (answer.by.as_str(), answer.reason.as_str()) {
        ("rule" | "hook", reason) => format!("denied: {reason}"),
        (by, "") => format!("denied by {by}"),
        (by, reason) => format!("denied by {by}: {reason}"),
    }
}

impl ExternalAgentHost for ExternalReporter {
    fn on_text(&self, piece: &str) {
        let mut state = self.lock();
        let mut rest = piece;
        while !rest.is_empty() {
            if state.words_room() == 0 {
                self.leave_out_words(&mut state);
                return;
            }
            let room = WORDS_BYTES.saturating_sub(state.words.len()).max(4);
            let (now, later) = rest.split_at(rest.floor_char_boundary(room));
            state.words.push_str(now);
            rest = later;
            if state.words.len() >= WORDS_BYTES {
                self.flush_words(&mut state);
            }
        }
    }

    fn on_call_start(&self, call: &ExternalToolCall) {
        let mut state = self.lock();
        if state.trace.len() + state.open.len() >= CALLS {
            state.uncounted += 1;
            return;
        }
        self.end_words(&mut state);
        state.open.insert(call.call, Instant::now());
        let (tool, arguments) = (self.tool(call), self.arguments(call));
        self.record(&mut state, Event::ToolStart { call: call.call, tool, arguments });
    }

    fn on_call_end(&self, call: &ExternalToolCall, status: CallStatus, text: &str) {
        let mut state = self.lock();
        let Some(began) = state.open.remove(&call.call) else { return };
        let denied = state.denied.remove(&call.call);
        let status = if denied.is_some() { CallStatus::Denied } else { status };
        let parts = denied.iter().map(String::as_str).chain([text]).filter(|text| !text.is_empty());
        let text = self.clean(&parts.collect::<Vec<_>>().join("\n"));
        let kept = text.get(..text.floor_char_boundary(RESULT_BYTES)).unwrap_or_default();
        let cut = text.len() - kept.len();
        let note = if cut > 0 { format!("\n[{cut} bytes left out]") } else { String::new() };
        let text = format!("{kept}{note}");
        let tool = self.tool(call);
        let args_bytes = self.arguments(call).len() as u64;
        state.trace.push(ToolTrace {
            tool: tool.clone(),
            args_bytes,
            result_bytes: text.len() as u64,
            status,
        });
        if let Some(hooks) = &state.hooks {
            let arguments = scrubbed(&self.shared.parts.secrets, &call.arguments).into_owned();
            let told = ExternalToolCall { call: call.call, tool: tool.clone(), arguments };
            // Whoever hears it is gone only with the child.
            let _heard = hooks.send(FinishedCall { told, status, output: text.clone() });
        }
        let result = ToolResult {
            call: call.call,
            status,
            text: ModelText::own(text),
            fingerprint: String::new(),
        };
        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (facts, display, error, boundary) = (Vec::new(), None, None, None);
        let end = ToolEnd { tool, result, args_bytes, ms, facts, display, error, boundary };
        self.record(&mut state, Event::ToolEnd(Box::new(end)));
    }

    fn approve<'a>(
        &'a self,
        call: &'a ExternalToolCall,
        command: &'a str,
        details: &'a str,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            let sep = if details.is_empty() || details.starts_with('\n') { "" } else { " " };
            let asked = format!("{command}{sep}{details}");
            let asked = self.shared.parts.secrets.scrub(&asked);
            let answer = match self.question(call, (command, &asked), cancel).await {
                Ok(question) => self.shared.approvals.decide(&self.view, &question, cancel).await,
                Err(answer) => {
                    let done = format!("denied without asking ({})", answer.reason);
                    self.shared.approvals.warn(&self.view.spec, &done, &asked).map(|()| answer)
                }
            };
            let answer = answer.unwrap_or_else(|error| {
                self.lock().fault.get_or_insert(error);
                self.cancel.cancel(CancelReason::Interrupted);
                ApprovalAnswer::no("the session file cannot be written")
            });
            // One that was withdrawn nobody denied.
            if answer.allowed {
                self.lock().denied.remove(&call.call);
            } else if !cancel.is_cancelled() {
                self.lock().denied.insert(call.call, why(&answer));
            }
            answer
        })
    }

    fn closing(&self) -> BoxFuture<'_, String> {
        let mut closing = self.closing.subscribe();
        Box::pin(async move {
            // It is told by this value itself, so that it cannot be gone.
            let told = closing.wait_for(Option::is_some).await;
            let told = told.ok().and_then(|told| told.clone());
            told.unwrap_or_default()
        })
    }

    fn rejection(&self, answer: &str) -> Option<String> {
        let schema = self.view.spec.output_schema.as_ref()?;
        let mistakes = value_of(schema, answer).err()?;
        let mut state = self.lock();
        if state.corrections >= CORRECTIONS {
            return None;
        }
        state.corrections += 1;
        self.end_words(&mut state);
        self.record(&mut state, Event::AnswerRejected { mistakes: mistakes.clone() });
        Some(rejection(&mistakes))
    }
}
