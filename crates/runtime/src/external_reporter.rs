//! The host of an external child: its updates go on record, its questions go to the child's
//! approver.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::answer::{CORRECTIONS, rejection};
use deputize_core::authority::ApproverMode;
use deputize_core::event::{JournalError, LogLevel, ToolEnd};
use deputize_core::external_agent::{ExternalAgentHost, ExternalToolCall};
use deputize_core::hook::HookEvent;
use deputize_core::message::{CallStatus, ModelText};
use deputize_core::outcome::ToolTrace;
use deputize_core::policy::{ApprovalAnswer, Question, effective_mode};
use deputize_core::sanitize::{clean, for_terminal_line};
use deputize_core::source::Source;
use deputize_core::truncate::{truncate_bytes, truncate_with_note};
use deputize_core::{
    AgentView, BoxFuture, CallId, Cancel, CancelReason, Event, ToolName, ToolResult,
};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use crate::agent_context::AgentContext;
use crate::external_command::{JUDGED_BYTES, commands};
use crate::external_words::ExternalWords;
use crate::hook::scrubbed;
use crate::session_inner::SessionInner;
use crate::structured_output::value_of;

/// Limit on a stored call result, in bytes; it is the program's own claim, and no model of ours
/// reads it.
const RESULT_BYTES: usize = 16 * 1024;
/// Limit on a tool's name, in characters.
const TOOL_CHARS: usize = 80;
/// Interval at which its text goes on record, while there is any.
const WORDS_EVERY: Duration = Duration::from_millis(200);
/// Limit on the recorded calls of one agent; more are counted.
const CALLS: usize = 10_000;
/// Maximum bytes of a request that can be approved. Half of what is judged: a text in a list or in
/// JSON is judged more than once.
const APPROVED_BYTES: usize = JUDGED_BYTES / 2;
/// The class of what such an agent asks for.
const CLASS: &str = "external";
/// Kinds of calls that run nothing: what stands in them beside what is named as a command is none.
const RUNS_NONE: [&str; 8] =
    ["delete", "edit", "fetch", "move", "read", "search", "switch_mode", "think"];

/// A finished call of a program, for the hooks.
pub(crate) struct FinishedCall {
    pub(crate) call: ExternalToolCall,
    pub(crate) status: CallStatus,
    pub(crate) output: String,
}

/// Records the updates of one external agent.
pub(crate) struct ExternalReporter {
    shared: Arc<SessionInner>,
    view: Arc<AgentView>,
    cancel: Cancel,
    /// The closing request, once it is sent.
    closing: watch::Sender<Option<String>>,
    state: Mutex<ReporterState>,
}

#[derive(Default)]
struct ReporterState {
    /// Running calls, with their starts.
    open: BTreeMap<CallId, Instant>,
    trace: Vec<ToolTrace>,
    /// Denied calls, with the reason; they end denied, whatever the program reports.
    denied: BTreeMap<CallId, String>,
    uncounted: u64,
    corrections: u32,
    words: ExternalWords,
    /// Queue of finished calls for the hooks; `None` when closed or without hooks.
    hooks: Option<mpsc::UnboundedSender<FinishedCall>>,
    /// Why recording failed.
    fault: Option<JournalError>,
}

impl ExternalReporter {
    /// Returns the host of an agent whose calls go to `hooks` when they have ended, if there are any.
    pub(crate) fn new(
        cx: &AgentContext,
        cancel: Cancel,
        hooks: Option<mpsc::UnboundedSender<FinishedCall>>,
    ) -> Self {
        Self {
            shared: Arc::clone(&cx.shared),
            view: Arc::clone(&cx.view),
            cancel,
            closing: watch::Sender::new(None),
            state: Mutex::new(ReporterState { hooks, ..ReporterState::default() }),
        }
    }

    /// Asks the agent to close, with the last message that it was given.
    pub(crate) fn ask_to_close(&self, message: Option<String>) {
        self.closing.send_replace(message);
    }

    /// Returns whether the agent was asked to close.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.borrow().is_some()
    }

    /// Ends what goes to the hooks.
    pub(crate) fn close_hooks(&self) {
        self.lock().hooks = None;
    }

    /// Takes the reason why nothing more can be put on record, if there is one.
    pub(crate) fn take_fault(&self) -> Option<JournalError> {
        self.lock().fault.take()
    }

    pub(crate) fn take_trace(&self) -> Vec<ToolTrace> {
        std::mem::take(&mut self.lock().trace)
    }

    /// Logs how many calls are not on record, if there are any. Returns that message.
    pub(crate) fn log_uncounted(&self) -> Option<String> {
        let mut state = self.lock();
        let more = Some(state.uncounted).filter(|more| *more > 0)?;
        let message = format!("{more} more calls of its tools are not on record ({CALLS} are)");
        let log = Event::Log { level: LogLevel::Warn, message: message.clone(), cause: None };
        self.record(&mut state, log);
        Some(message)
    }

    fn lock(&self) -> MutexGuard<'_, ReporterState> {
        self.state.lock()
    }

    /// Puts an event on record. Without a journal nothing may go on.
    fn record(&self, state: &mut ReporterState, event: Event) {
        if let Err(error) = self.shared.bus.record(&self.view.spec, event) {
            state.fault.get_or_insert(error);
            self.cancel.cancel(CancelReason::Interrupted);
        }
    }

    /// Puts what it says on record, for when this program is killed.
    pub(crate) async fn record_words(&self) -> Infallible {
        loop {
            sleep(WORDS_EVERY).await;
            let mut state = self.lock();
            let texts = state.words.flush(&self.shared.config.secrets);
            self.record_texts(&mut state, texts);
        }
    }

    /// Puts on record what it said before it is prompted.
    pub(crate) fn record_last_words(&self) {
        self.end_words(&mut self.lock());
    }

    /// Puts on record what it said before a call or a prompt.
    fn end_words(&self, state: &mut ReporterState) {
        let texts = state.words.end(&self.shared.config.secrets);
        self.record_texts(state, texts);
    }

    fn record_texts(&self, state: &mut ReporterState, texts: Vec<String>) {
        for text in texts {
            self.record(state, Event::ExternalText { text });
        }
    }

    fn clean(&self, text: &str) -> String {
        clean(&self.shared.config.secrets.scrub(text)).text.into_owned()
    }

    fn tool(&self, call: &ExternalToolCall) -> String {
        for_terminal_line(&self.shared.config.secrets.scrub(&call.tool), TOOL_CHARS)
    }

    fn arguments(&self, call: &ExternalToolCall) -> String {
        scrubbed(&self.shared.config.secrets, &call.arguments).to_string()
    }

    /// The question that a request for permission is; or the answer, where the rules or a hook have
    /// one.
    async fn question(
        &self,
        call: &ExternalToolCall,
        command: &str,
        asked: &str,
        cancel: &Cancel,
    ) -> Result<Question, ApprovalAnswer> {
        let kind = call.arguments.get("kind").and_then(serde_json::Value::as_str);
        let runs_none =
            [Some(call.tool.as_str()), kind].iter().flatten().any(|it| RUNS_NONE.contains(it));
        let listed = commands(&call.arguments, runs_none);
        let command = truncate_bytes(command, JUDGED_BYTES);
        let mut listed = std::iter::once(command).chain(listed.iter().map(String::as_str));
        let cwd = &self.view.spec.cwd;
        let policy = &self.shared.config.policy;
        if let Some(denial) = listed.find_map(|command| policy.never(command, cwd)) {
            return Err(ApprovalAnswer { reason: denial.for_person, ..ApprovalAnswer::no("rule") });
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
        let arguments = scrubbed(&self.shared.config.secrets, &call.arguments);
        let tool = self.tool(call);
        let event = HookEvent::PreToolUse { call: call.call, tool: &tool, arguments: &arguments };
        match self.shared.hooks.run(&self.view.spec, event, cancel).await {
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
            reason: "an external agent asks for it: it would run with all your rights, and no \
                     sandbox holds it"
                .to_owned(),
            arguments: serde_json::Map::new(),
            needs_person: false,
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
        let texts = state.words.push(piece, &self.shared.config.secrets);
        self.record_texts(&mut state, texts);
    }

    fn on_call_start(&self, call: &ExternalToolCall) {
        let mut state = self.lock();
        if state.trace.len() + state.open.len() >= CALLS {
            state.uncounted += 1;
            return;
        }
        self.end_words(&mut state);
        state.open.insert(call.call, Instant::now());
        let tool = self.tool(call);
        let arguments = self.arguments(call);
        self.record(&mut state, Event::ToolStart { call: call.call, tool, arguments });
    }

    fn on_call_end(&self, call: &ExternalToolCall, status: CallStatus, text: &str) {
        let mut state = self.lock();
        let Some(began) = state.open.remove(&call.call) else { return };
        let denied = state.denied.remove(&call.call);
        let status = if denied.is_some() { CallStatus::Denied } else { status };
        let texts = denied.iter().map(String::as_str).chain([text]).filter(|text| !text.is_empty());
        let text = self.clean(&texts.collect::<Vec<_>>().join("\n"));
        let text = truncate_with_note(&text, RESULT_BYTES);
        let tool = self.tool(call);
        let args_bytes = self.arguments(call).len() as u64;
        state.trace.push(ToolTrace {
            tool: tool.clone(),
            args_bytes,
            result_bytes: text.len() as u64,
            status,
        });
        if let Some(hooks) = &state.hooks {
            let arguments = scrubbed(&self.shared.config.secrets, &call.arguments).into_owned();
            let finished = ExternalToolCall { call: call.call, tool: tool.clone(), arguments };
            // Whoever hears it is gone only with the child.
            let _heard = hooks.send(FinishedCall { call: finished, status, output: text.clone() });
        }
        let result = ToolResult {
            call: call.call,
            status,
            text: ModelText::own(text),
            fingerprint: String::new(),
            images: Vec::new(),
            sources: [Source::child(self.view.id().as_str())].into(),
        };
        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let facts = Vec::new();
        let display = None;
        let error = None;
        let boundary = None;
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
            let asked = self.shared.config.secrets.scrub(&asked);
            let answer = match self.question(call, command, &asked, cancel).await {
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
            let answer = closing.wait_for(Option::is_some).await;
            let answer = answer.ok().and_then(|answer| answer.clone());
            answer.unwrap_or_default()
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
